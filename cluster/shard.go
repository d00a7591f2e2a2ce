package cluster

import "fmt"

// ShardFolder says by which state folder a shard is served: that is where it is known what runs on its hosts.
type ShardFolder struct {
	Shard  ShardID
	Folder string // random, and made with the folder; "": of a host manager that names none
}

// FolderOf returns the state folder by which a shard was served last, "" if it named none. It is kept as long as the shard has hosts.
func (t *tables) FolderOf(shard ShardID) string {
	if f := find(t.folders, shard); f != nil {
		return f.Folder
	}
	return ""
}

// HasHosts reports whether a shard has hosts.
func (t *tables) HasHosts(shard ShardID) bool {
	for h := range t.Hosts(MakeHostID(shard, "")) {
		return h.ID.Shard() == shard
	}
	return false
}

func (s *State) serveShard(by ShardFolder) error {
	if !s.HasHosts(by.Shard) {
		return fmt.Errorf("shard %q has no hosts", by.Shard)
	}
	if by.Folder == "" {
		s.folders.Delete(by.Shard)
	} else {
		s.folders.Set(by.Shard, &by)
	}
	return nil
}

package hostmgr

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/sluice-scheduler/sluice/cluster"
)

// ClusterStore remembers which cluster a shard serves, as long as its driver remembers runs, and what tells it from other stores.
type ClusterStore interface {
	// ClusterID returns the id last set, "" if none was.
	ClusterID() (string, error)
	// SetClusterID makes the id durable.
	SetClusterID(id string) error
	// Folder returns the random id of the store, which it makes where there is none yet, "" if it could not make one durable.
	Folder() (string, error)
}

// errClusterStore: the store failed; without it, runs of two clusters or shards could be mixed.
var errClusterStore = errors.New("hostmgr: remember cluster and shard")

// ClusterFile is a ClusterStore in a file. It holds the name of the shard too, and fails for a shard of another name: the
// scheduler knows the runs by their hosts, whose names begin with that of the shard. The id of the folder is in a file of its own
// beside it.
type ClusterFile struct {
	Path  string // whose folder exists
	Shard cluster.ShardID
}

var _ ClusterStore = ClusterFile{}

// ClusterID implements ClusterStore.
func (f ClusterFile) ClusterID() (string, error) {
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errClusterStore, err)
	}
	words := wordsOf(content)
	switch {
	case len(words) == 0:
		return "", fmt.Errorf("%w: %s is empty or damaged; write the id of the cluster that the runs belong to into it (sluice cluster status shows it)", errClusterStore, f.Path)
	case len(words) > 1 && words[1] != string(f.Shard):
		return "", fmt.Errorf("%w: the runs in %s are of the shard %q, not of %q", errClusterStore, filepath.Dir(f.Path), words[1], f.Shard)
	}
	return words[0], nil // a file of an earlier version has no name yet
}

// SetClusterID implements ClusterStore.
func (f ClusterFile) SetClusterID(id string) error {
	want := fmt.Sprintf("%s\n%s\n", id, f.Shard)
	if content, err := os.ReadFile(f.Path); err == nil && string(content) == want {
		return nil
	}
	if err := writeDurably(f.Path, want); err != nil {
		return fmt.Errorf("%w: %w", errClusterStore, err)
	}
	return nil
}

// Folder implements ClusterStore.
func (f ClusterFile) Folder() (string, error) {
	path := filepath.Join(filepath.Dir(f.Path), "folder")
	content, err := os.ReadFile(path)
	switch words := wordsOf(content); {
	case errors.Is(err, os.ErrNotExist):
		id := randomID()
		if writeDurably(path, id+"\n") != nil { // as on a full disk: what runs is not to be without its host manager for that
			return "", nil
		}
		return id, nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", errClusterStore, err)
	case len(words) != 1:
		return "", fmt.Errorf("%w: %s is empty or damaged; remove it, and if the scheduler then names the id of another folder, write that into it",
			errClusterStore, path)
	default:
		return words[0], nil
	}
}

// wordsOf returns the words of a file, none if it is damaged: ids and names are of ASCII, and what a crash leaves of a file may be zeros.
func wordsOf(content []byte) []string {
	if bytes.ContainsFunc(content, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) && !unicode.IsSpace(r) }) {
		return nil
	}
	return strings.Fields(string(content))
}

// writeDurably replaces a file: after a crash it has the old or the new content.
func writeDurably(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// inMemory is a ClusterStore that lasts as long as the process.
type inMemory struct{ id, folder string }

func (m *inMemory) ClusterID() (string, error) { return m.id, nil }

func (m *inMemory) Folder() (string, error) { return m.folder, nil }

func (m *inMemory) SetClusterID(id string) error {
	m.id = id
	return nil
}

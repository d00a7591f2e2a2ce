package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// kind is what the folder says it is. Version 1 had the log in a file of its own.
var kind = store.Kind{
	Magic: "sluice-replica", Version: 2, Oldest: 2,
	Remedy: "with the folder moved away, this member gets all from the others",
}

// keptImages is the number of snapshots that are kept.
const keptImages = 2

// folder is what a member has on its disk.
type folder struct {
	dir       string
	store     *store.Store
	entries   *entries
	snapshots raft.SnapshotStore
	begun     bool // it is part of a group that has begun
	identity  identity
}

// identity says whose folder it is. A group has a name that no other one has: where members of two found each other, the one in the later term
// would have the others take its history for theirs.
type identity struct {
	Member, Group string
	// Filling: it was empty when the group had begun, so its member may have had more, and has not got all of that from a leader yet.
	Filling bool `json:",omitempty"`
}

var identityKey = []byte("Identity")

// readIdentity finds out whose folder it is, and refuses that of another member, which has promised what this one has not.
func (f *folder) readIdentity(member string) error {
	b, err := f.entries.Get(identityKey)
	if errors.Is(err, errNotFound) {
		return nil // nobody's
	}
	if err == nil {
		err = json.Unmarshal(b, &f.identity)
	}
	if err != nil {
		return fmt.Errorf("%w: whose it is: %w", store.ErrDamaged, err)
	}
	if f.begun && f.identity.Member != member {
		return fmt.Errorf("it is the folder of the member %s: set scheduler.member to that, or give %s a folder of its own", f.identity.Member, member)
	}
	return nil
}

// identify makes the folder a member's of a group, durably.
func (f *folder) identify(i identity) error {
	b, err := json.Marshal(i)
	if err != nil {
		return err
	}
	f.identity = i
	return f.entries.Set(identityKey, b)
}

// openFolder opens what there is, or begins. failed is told when the log cannot be written any more.
func openFolder(c Config, failed func(error), log *slog.Logger) (*folder, error) {
	f := &folder{dir: c.Dir}
	var err error
	if f.store, err = store.Open(c.Dir, kind, store.Options{Warn: func(m string) { log.Warn(m) }}); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if err := f.read(c, failed, log); err != nil {
		return nil, errors.Join(fmt.Errorf("replica: %w", f.store.Told(err)), f.close())
	}
	return f, nil
}

// read reads what the open folder holds.
func (f *folder) read(c Config, failed func(error), log *slog.Logger) (err error) {
	stop := c.Stop
	if stop == nil {
		stop = func(error) {}
	}
	if f.entries, err = openEntries(f.store, failed, stop); err != nil {
		return err
	}
	if f.snapshots, err = raft.NewFileSnapshotStoreWithLogger(f.dir, keptImages, hashicorpLog(log)); err != nil {
		return err
	}
	if err := f.checkWhole(); err != nil {
		return err
	}
	f.snapshots = newestImage{f.snapshots}
	if f.begun, err = raft.HasExistingState(f.entries, f.entries, f.snapshots); err != nil {
		return err
	}
	return f.readIdentity(c.Name)
}

// checkWhole makes sure that no part of what a member has said to have is missing: raft takes what it can read, and would go on as one that
// has promised nothing. It ends what a crash has interrupted.
func (f *folder) checkWhole() error {
	dir := filepath.Join(f.dir, "snapshots")
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	written := 0
	for _, e := range found {
		switch {
		case strings.HasSuffix(e.Name(), ".tmp"): // it was not whole yet; raft leaves it there
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		case e.IsDir():
			written++
		}
	}
	images, err := f.snapshots.List()
	if err != nil {
		return err
	}
	if len(images) < min(written, keptImages) {
		return fmt.Errorf("%w: not all of the %d snapshots in %s can be read", store.ErrDamaged, written, dir)
	}
	if len(images) == 0 {
		return nil
	}
	if _, err := f.entries.GetUint64(termKey); images[0].Index > 1 && err != nil {
		return fmt.Errorf("%w: there is a snapshot, and no term: %w", store.ErrDamaged, err)
	}
	_, state, err := f.snapshots.Open(images[0].ID) // reads all of it
	if lacks := new(fs.PathError); errors.As(err, &lacks) && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: the newest of the snapshots in %s cannot be read: %w", store.ErrDamaged, dir, err)
	}
	return errors.Join(state.Close(), f.entries.follow(images[0].Index, images[0].Term))
}

// newestImage is a store of snapshots of which raft sees the newest one: with one before it a member would go on as if it had never had more.
type newestImage struct{ raft.SnapshotStore }

func (n newestImage) List() ([]*raft.SnapshotMeta, error) {
	images, err := n.SnapshotStore.List()
	return images[:min(1, len(images))], err
}

// begin makes this folder the first of its group: with the state, or an empty one, as of an entry before all others.
func (f *folder) begin(peers []Peer, state *cluster.State, transport raft.Transport) error {
	if state == nil {
		state = cluster.NewState()
	}
	var members raft.Configuration
	for _, p := range peers {
		members.Servers = append(members.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(p.Name), Address: raft.ServerAddress(p.Address)})
	}
	sink, err := f.snapshots.Create(raft.SnapshotVersionMax, 1, 1, members, 1, transport)
	if err != nil {
		return fmt.Errorf("replica: begin: %w", err)
	}
	snapshot, _ := state.Snapshot()
	if err := (&image{snapshot: snapshot}).Persist(sink); err != nil {
		return fmt.Errorf("replica: begin: %w", err)
	}
	return nil
}

func (f *folder) close() error { return f.store.Close() }

// reading calls read, and makes its panics over what is stored errors.
func reading(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", store.ErrDamaged, p)
		}
	}()
	return read()
}

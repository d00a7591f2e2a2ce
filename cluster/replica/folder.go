package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftbolt "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// ErrInUse: another process works in the member's folder.
var ErrInUse = errors.New("replica: the store is in use")

// The files of a member.
const (
	formatName   = "FORMAT"
	logName      = "log.db"
	formatMagic  = "sluice-replica"
	lockPatience = time.Second
	keptImages   = 2
)

// folder is what a member has on its disk.
type folder struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	bolt      *raftbolt.BoltStore
	begun     bool          // it is part of a group that has begun
	reserve   atomic.Uint64 // bytes of the disk that are left free
}

// openFolder opens what there is, or begins. failed is told when the log cannot be written any more.
func openFolder(c Config, failed func(error), log *slog.Logger) (s *folder, err error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if err := checkFormat(c.Dir); err != nil {
		return nil, err
	}
	s = &folder{}
	s.reserve.Store(store.DefaultReserve)
	if err := store.CheckFree(c.Dir, s.reserve.Load()); err != nil {
		return nil, err
	}
	path := filepath.Join(c.Dir, logName)
	if err := reading(path, func() error { return checkLog(path) }); err != nil {
		return nil, err
	}
	s.bolt, err = raftbolt.New(raftbolt.Options{
		Path:        path,
		BoltOptions: &bbolt.Options{Timeout: lockPatience, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true},
	})
	if err != nil {
		return nil, openError(path, err)
	}
	stop := c.Stop
	if stop == nil {
		stop = func(error) {}
	}
	s.log, s.stable = &entries{s.bolt, func() error { return store.CheckFree(c.Dir, s.reserve.Load()) }, failed}, &stable{s.bolt, stop}
	if s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(c.Dir, keptImages, hashicorpLog(log)); err != nil {
		return nil, errors.Join(fmt.Errorf("replica: %w", err), s.bolt.Close())
	}
	if err := s.checkWhole(c.Dir); err != nil {
		return nil, errors.Join(err, s.bolt.Close())
	}
	if s.begun, err = raft.HasExistingState(s.log, s.stable, s.snapshots); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrDamaged, c.Dir, err), s.bolt.Close())
	}
	return s, nil
}

// openError says what it means that the log could not be opened.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: another process works in %s", ErrInUse, filepath.Dir(path))
	case errors.As(err, new(syscall.Errno)):
		return fmt.Errorf("replica: %w", err)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
}

// checkFormat makes sure that the folder is a member's of this format, or becomes one.
func checkFormat(dir string) error {
	path, line := filepath.Join(dir, formatName), fmt.Sprintf("%s %d\n", formatMagic, formatVersion)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) > 0 {
			return fmt.Errorf("replica: %s holds other files, such as %s, and no %s; name an empty or a new folder", dir, entries[0].Name(), formatName)
		}
		if err == nil {
			err = writeSynced(path, line)
		}
		if err != nil {
			return fmt.Errorf("replica: %w", err)
		}
		return nil
	}
	var version int
	switch _, scanned := fmt.Sscanf(string(content), formatMagic+" %d\n", &version); {
	case err != nil:
		return fmt.Errorf("replica: %w", err)
	case scanned != nil || version < 1:
		return fmt.Errorf("%w: %s says %q; in a folder of this version it says %q", ErrDamaged, path, content, strings.TrimSpace(line))
	case version > formatVersion:
		return fmt.Errorf("%w: %s has format %d, this version reads up to %d; use a newer one", ErrNewer, dir, version, formatVersion)
	}
	return nil
}

// writeSynced writes a small file, durably, under its name as a whole or not at all.
func writeSynced(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(filepath.Dir(path)), "."+filepath.Base(path))
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
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// begin makes this store the first of its group: with the state, or an empty one, as of an entry before all others.
func (s *folder) begin(peers []Peer, state *cluster.State, transport raft.Transport) error {
	if state == nil {
		state = cluster.NewState()
	}
	var members raft.Configuration
	for _, p := range peers {
		members.Servers = append(members.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(p.Name), Address: raft.ServerAddress(p.Address)})
	}
	sink, err := s.snapshots.Create(raft.SnapshotVersionMax, 1, 1, members, 1, transport)
	if err != nil {
		return fmt.Errorf("replica: begin: %w", err)
	}
	snapshot, _ := state.Snapshot()
	if err := (&image{snapshot: snapshot}).Persist(sink); err != nil {
		return fmt.Errorf("replica: begin: %w", err)
	}
	return nil
}

func (s *folder) close() error { return s.bolt.Close() }

// entries is the log. Where it cannot be written any more, as its disk is full, raft would go on to stand by, and to be elected again and
// again, since no other member has more.
type entries struct {
	raft.LogStore
	free   func() error
	failed func(error)
}

func (e *entries) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

func (e *entries) StoreLogs(logs []*raft.Log) error {
	err := e.free()
	if err == nil {
		err = e.LogStore.StoreLogs(logs)
	}
	if err != nil {
		e.failed(err)
	}
	return err
}

// stable is what Raft must not forget: the term, and whom this member has voted for in it. Where that cannot be written raft ends the process,
// as a member that forgets could vote twice; stop is told why before.
type stable struct {
	raft.StableStore
	stop func(error)
}

func (s *stable) Set(key, value []byte) error {
	return s.told(s.StableStore.Set(key, value))
}

func (s *stable) SetUint64(key []byte, value uint64) error {
	return s.told(s.StableStore.SetUint64(key, value))
}

func (s *stable) told(err error) error {
	if err != nil {
		s.stop(fmt.Errorf("replica: %w", err))
	}
	return err
}

package replica

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// errHangs: what a member began to write is not written yet, and the disk reports no error either.
var errHangs = errors.New("replica: the disk does not answer")

// hangsAfter is how many election timeouts a write may take.
const hangsAfter = 5

// disk watches what a member writes. Raft waits for a write that never ends, and heartbeats of a leader go on meanwhile, so that nobody else is
// elected: a member whose disk hangs therefore sends nothing to the others (see link.Dial), and does not lead any more (see Term.watch). When the
// disk goes on the member does, too, and finds whom the others have elected. Its methods are safe for concurrent use.
type disk struct {
	patience time.Duration // a write that takes longer hangs
	log      *slog.Logger
	hanging  atomic.Int32 // writes that hang
}

// err returns errHangs while a write hangs, nil else.
func (d *disk) err() error {
	if d.hanging.Load() > 0 {
		return errHangs
	}
	return nil
}

// during watches a write, and returns what it returns.
func (d *disk) during(write func() error) error {
	timer := time.AfterFunc(d.patience, func() {
		if d.hanging.Add(1) == 1 {
			d.log.Error("the disk does not answer: this member cannot lead until it does", "write_takes_longer_than", d.patience)
		}
	})
	err := write()
	if !timer.Stop() && d.hanging.Add(-1) == 0 {
		d.log.Info("the disk answers again")
	}
	return err
}

// watchedLog is a log whose writes are watched.
type watchedLog struct {
	raft.LogStore
	disk *disk
}

var _ raft.MonotonicLogStore = watchedLog{}

// IsMonotonic reports what the log says of itself.
func (w watchedLog) IsMonotonic() bool {
	log, ok := w.LogStore.(raft.MonotonicLogStore)
	return ok && log.IsMonotonic()
}

func (w watchedLog) StoreLog(l *raft.Log) error {
	return w.disk.during(func() error { return w.LogStore.StoreLog(l) })
}

func (w watchedLog) StoreLogs(logs []*raft.Log) error {
	return w.disk.during(func() error { return w.LogStore.StoreLogs(logs) })
}

func (w watchedLog) DeleteRange(first, last uint64) error {
	return w.disk.during(func() error { return w.LogStore.DeleteRange(first, last) })
}

// watchedStable is a stable store whose writes are watched.
type watchedStable struct {
	raft.StableStore
	disk *disk
}

func (w watchedStable) Set(key, value []byte) error {
	return w.disk.during(func() error { return w.StableStore.Set(key, value) })
}

func (w watchedStable) SetUint64(key []byte, value uint64) error {
	return w.disk.during(func() error { return w.StableStore.SetUint64(key, value) })
}

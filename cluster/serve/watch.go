package serve

import (
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
)

// maxPending bounds the changes kept for a watcher that does not take them.
const maxPending = 1 << 18

// Watcher collects what changed since its owner last looked. Wait on C, then Take; any number of changes may lie
// behind one signal. Close it when done.
type Watcher struct {
	// C has a value when there may be something to take.
	C <-chan struct{}

	writer   *writer
	early    bool
	signal   chan struct{}
	mu       sync.Mutex
	snapshot *cluster.Snapshot
	changes  cluster.Changes
	overflow bool
}

// Watch returns a watcher whose first Take gives the present snapshot, signalled at once.
func (w *writer) Watch() *Watcher { return w.watch(false) }

// watchEarly returns a watcher that gets what happens while it becomes durable. Its owner may think about it, but must not show
// it, nor act on it, before a command that he sends afterwards is done.
func (w *writer) watchEarly() *Watcher { return w.watch(true) }

func (w *writer) watch(early bool) *Watcher {
	watcher := &Watcher{writer: w, early: early, signal: make(chan struct{}, 1)}
	watcher.C = watcher.signal
	w.mu.Lock()
	defer w.mu.Unlock()
	if watcher.snapshot = w.published.Load(); early {
		watcher.snapshot = w.latest
	}
	watcher.signal <- struct{}{}
	w.watchers[watcher] = struct{}{}
	return watcher
}

// Close ends the watching.
func (x *Watcher) Close() {
	x.writer.mu.Lock()
	defer x.writer.mu.Unlock()
	delete(x.writer.watchers, x)
}

// Take returns the latest snapshot and all changes that led to it since the last Take. all is set if there were too
// many to keep: then anything may have changed.
func (x *Watcher) Take() (snapshot *cluster.Snapshot, changes cluster.Changes, all bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	changes, all = x.changes, x.overflow
	x.changes, x.overflow = cluster.Changes{}, false
	return x.snapshot, changes, all
}

func (x *Watcher) add(snapshot *cluster.Snapshot, changes cluster.Changes) {
	x.mu.Lock()
	x.snapshot = snapshot
	if len(x.changes.Tasks)+len(x.changes.Hosts)+len(x.changes.Jobs) > maxPending {
		x.changes, x.overflow = cluster.Changes{}, true
	}
	if !x.overflow {
		x.changes.Merge(changes)
	}
	x.mu.Unlock()
	select {
	case x.signal <- struct{}{}:
	default:
	}
}

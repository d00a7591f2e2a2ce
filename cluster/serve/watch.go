package serve

import (
	"slices"
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
	shard    cluster.ShardID // that it is told of alone, see watchShard; "": of everything
	signal   chan struct{}
	mu       sync.Mutex
	snapshot *cluster.Snapshot // nil where it is told of a shard
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

// watchShard returns a watcher that is told of tasks on the hosts of a shard, and of the mode. Of those that have left the hosts it is not
// told, and it keeps no snapshot: a commit costs what changed, however many shards there are, and a shard where nothing happens holds
// no state of long ago.
func (w *writer) watchShard(shard cluster.ShardID) *Watcher {
	watcher := &Watcher{writer: w, shard: shard, signal: make(chan struct{}, 1)}
	watcher.C = watcher.signal
	watcher.signal <- struct{}{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[shard] = append(w.sessions[shard], watcher)
	return watcher
}

// tellShards shows the watchers of shards what changed on their hosts, and all of them a new mode.
func (w *writer) tellShards(snapshot *cluster.Snapshot, changes cluster.Changes) {
	if mode := snapshot.Mode(); mode != w.mode {
		w.mode = mode
		for _, watchers := range w.sessions { // each gets the same; the order does not matter
			for _, watcher := range watchers {
				watcher.add(nil, cluster.Changes{})
			}
		}
	}
	apart := map[cluster.ShardID]cluster.Changes{}
	for _, k := range changes.Tasks {
		if t := snapshot.Task(k); t != nil && t.Host != "" {
			shard := t.Host.Shard()
			some := apart[shard]
			some.Tasks = append(some.Tasks, k)
			apart[shard] = some
		}
	}
	for shard, some := range apart { // nor here
		for _, watcher := range w.sessions[shard] {
			watcher.add(nil, some)
		}
	}
}

// Close ends the watching.
func (x *Watcher) Close() {
	w := x.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers, x)
	if left := slices.DeleteFunc(w.sessions[x.shard], func(o *Watcher) bool { return o == x }); len(left) > 0 {
		w.sessions[x.shard] = left
	} else {
		delete(w.sessions, x.shard)
	}
}

// Take returns the latest snapshot and all changes that led to it since the last Take. all is set if there were too
// many to keep: then anything may have changed.
func (x *Watcher) Take() (snapshot *cluster.Snapshot, changes cluster.Changes, all bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	changes, all = x.changes, x.overflow
	x.changes, x.overflow = cluster.Changes{}, false
	if x.shard != "" {
		return x.writer.Snapshot(), changes, all // which has the changes at least
	}
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

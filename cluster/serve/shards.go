package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// shardTable knows which host-manager shards there are and which are connected. What the hosts of a shard run is in the
// State; only what need not survive a restart is here.
type shardTable struct {
	mu     sync.Mutex
	byName map[cluster.ShardID]*shard
	began  time.Time
}

// shard is a host-manager shard as this process knows it.
type shard struct {
	driver  string
	since   time.Time // connected, or cut off, since then
	control *control  // nil while it is cut off
	bulk    *bulk     // nil while there is none
	usage   map[cluster.TaskKey]Usage
}

// Usage is what a run used when it was last measured.
type Usage struct {
	Run         uint32
	At          time.Time
	CPUMilli    int64
	MemoryBytes int64
}

// ShardInfo describes a shard for people.
type ShardInfo struct {
	Name      cluster.ShardID
	Driver    string
	Connected bool
	Since     time.Time // connected, or cut off, since then
	Pending   int       // commands and acknowledgements that wait to be sent
}

func (t *shardTable) init(now time.Time) {
	t.byName, t.began = map[cluster.ShardID]*shard{}, now
}

// get returns the shard; one that has not connected yet counts as cut off since the start.
func (t *shardTable) get(name cluster.ShardID) *shard {
	sh := t.byName[name]
	if sh == nil {
		sh = &shard{since: t.began, usage: map[cluster.TaskKey]Usage{}}
		t.byName[name] = sh
	}
	return sh
}

// connect makes c the session of its shard. A session of the same process replaces the one before it, which it knows to
// be broken; another process with the same name must wait until the first is gone.
func (t *shardTable) connect(c *control, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.get(c.shard)
	if old := sh.control; old != nil {
		if old.sessionID != c.sessionID {
			return fmt.Errorf("a shard named %q is connected already; give this one another name, or stop the other", c.shard)
		}
		old.cancel()
	}
	sh.control, sh.driver, sh.since = c, c.driver, now
	return nil
}

// disconnect ends the session if it is still the shard's.
func (t *shardTable) disconnect(c *control, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.get(c.shard); sh.control == c {
		sh.control, sh.since = nil, now
	}
}

// away reports since when the shard is cut off; false if it is connected.
func (t *shardTable) away(name cluster.ShardID) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.get(name)
	return sh.since, sh.control == nil
}

// Shards lists the shards that have ever connected to this process or own a known host, by name.
func (s *Scheduler) Shards() []ShardInfo {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	var out []ShardInfo
	for _, name := range slices.Sorted(maps.Keys(s.shards.byName)) {
		sh := s.shards.byName[name]
		info := ShardInfo{Name: name, Driver: sh.driver, Connected: sh.control != nil, Since: sh.since}
		if sh.control != nil {
			info.Pending = len(sh.control.answers) + len(sh.control.commands)
		}
		out = append(out, info)
	}
	return out
}

// TaskUsage returns what the task's current run was last measured to use; false if it was not measured.
func (s *Scheduler) TaskUsage(t *cluster.Task) (Usage, bool) {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sh := s.shards.byName[t.Host.Shard()]
	if sh == nil || !t.State.Bound() {
		return Usage{}, false
	}
	u, ok := sh.usage[t.Key]
	return u, ok && u.Run == t.Run
}

// deadlineTick is how often deadlines are looked at; they are tens of seconds apart.
const deadlineTick = time.Second

// runDeadlines gives up hosts whose shard is away for too long, and later the tasks on them.
func (s *Scheduler) runDeadlines(ctx context.Context) error {
	tick := time.NewTicker(deadlineTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if !s.overdue(now) {
				continue
			}
			if err := s.Do(ctx, func(tx *Tx) error { return s.expire(tx, now) }); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// overdue looks, without the writer, whether expire would do something.
func (s *Scheduler) overdue(now time.Time) bool {
	for h := range s.Snapshot().Hosts("") {
		if s.lostContact(h, now) || s.lostForGood(h, now) {
			return true
		}
	}
	return false
}

func (s *Scheduler) lostContact(h *cluster.Host, now time.Time) bool {
	since, away := s.shards.away(h.ID.Shard())
	return away && !h.Unreachable && now.Sub(since) >= s.config.UnreachableAfter
}

func (s *Scheduler) lostForGood(h *cluster.Host, now time.Time) bool {
	return h.Unreachable && len(h.Tasks) > 0 && now.Sub(h.Since.Go()) >= s.config.LostAfter
}

func (s *Scheduler) expire(tx *Tx, now time.Time) error {
	var overdue []*cluster.Host
	for h := range tx.State().Hosts("") {
		if s.lostContact(h, now) || s.lostForGood(h, now) {
			overdue = append(overdue, h)
		}
	}
	for _, h := range overdue {
		if !h.Unreachable {
			if err := tx.Emit(&cluster.HostUnreached{ID: h.ID, Reason: "its host-manager shard is cut off"}); err != nil {
				return err
			}
			continue
		}
		s.log.Warn("host is gone for too long, its tasks run elsewhere", "host", h.ID, "tasks", len(h.Tasks))
		for _, k := range h.Tasks {
			if err := conclude(tx, k, cluster.TaskLost, cluster.ReasonHostLost, "host "+string(h.ID)+" was unreachable for too long"); err != nil {
				return err
			}
		}
	}
	return nil
}

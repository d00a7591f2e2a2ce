package serve

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// shardTable knows which host-manager shards there are and which are connected. What the hosts of a shard run is in the
// State; only what need not survive a restart is here.
type shardTable struct {
	mu     sync.Mutex
	byName map[cluster.ShardID]*shard
	began  time.Time
	looked time.Time              // when deadlines were looked at last
	before map[cluster.RunID]bool // PLACED when this process began: their launches may have been sent before
}

// shard is a host-manager shard as this process knows it.
type shard struct {
	driver  string
	since   time.Time              // connected, or cut off, since then
	control *control               // its session, nil if it has none
	there   bool                   // connected: its session has told which runs it knows; until then nothing is launched
	told    bool                   // a session has told which runs it knows, and those that nobody waits for have ended
	stray   map[cluster.RunID]bool // of its session: runs that nobody waits for, as far as they have not ended
	sent    map[cluster.RunID]bool // PLACED when its last session that told that ended: their launches may have been sent
	bulk    *bulk                  // nil while there is none
	usage   knowledge.Uses
}

// ShardInfo describes a shard for people.
type ShardInfo struct {
	Name      cluster.ShardID
	Driver    string
	Connected bool
	Since     time.Time // connected, or cut off, since then
	Pending   int       // commands and acknowledgements that wait to be sent
	Expires   time.Time // the certificate or the token that its session began with; zero: it has none, or shows nothing
}

func (t *shardTable) init(now time.Time) {
	t.byName, t.began, t.looked = map[cluster.ShardID]*shard{}, now, now
}

// placed adds the runs on hosts that are PLACED to a set, which it returns.
func placed(to map[cluster.RunID]bool, in *cluster.Snapshot, hosts iter.Seq[*cluster.Host]) map[cluster.RunID]bool {
	if to == nil {
		to = map[cluster.RunID]bool{}
	}
	for h := range hosts {
		for _, k := range h.Tasks {
			if t := in.Task(k); t.State == cluster.TaskPlaced {
				to[t.RunID()] = true
			}
		}
	}
	return to
}

// unsent reports whether no launch of a run that is PLACED was sent to a shard, nor is, before that connects. A session sends launches of
// what was PLACED before it ended only.
func (t *shardTable) unsent(name cluster.ShardID, run cluster.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.get(name)
	return !sh.there && !sh.sent[run] && !t.before[run]
}

// get returns the shard; one that has not connected yet counts as cut off since the start, and is not listed for having been asked for.
func (t *shardTable) get(name cluster.ShardID) *shard {
	if sh := t.byName[name]; sh != nil {
		return sh
	}
	return &shard{since: t.began}
}

// list is get for a shard that connects, or has hosts: it is listed from now on.
func (t *shardTable) list(name cluster.ShardID) *shard {
	sh := t.get(name)
	t.byName[name] = sh
	return sh
}

// connect makes c the session of its shard. A session of the same process replaces the one before it, which it knows to
// be broken; another process with the same name must wait until the first is gone. One over another state folder than the shard was
// served by does not know what runs on the shard's hosts, and that may run on: it must wait until it has been given up.
func (t *shardTable) connect(c *control, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.list(c.shard)
	if old := sh.control; old != nil {
		if old.sessionID != c.sessionID {
			return fmt.Errorf("a shard named %q is connected already; give this one another name, or stop the other", c.shard)
		}
		old.cancel()
		sh.leave(old, now)
	}
	if in := c.s.Snapshot(); c.elsewhere(in) {
		has := ""
		switch {
		case runs(in, c.shard):
			has = "has tasks"
		case c.blank && in.Mode().Restored && in.HasHosts(c.shard):
			has = "may have tasks that were started since the snapshot that the cluster was restored from"
		}
		if has != "" {
			return fmt.Errorf("shard %q %s, and they are not in this host manager's state folder: "+
				"start it over the folder where they are%s, or give it another name and an empty folder; "+
				"it is taken without them when they have been given up (scheduler.lost_after)", c.shard, has, named(in.FolderOf(c.shard)))
		}
	}
	sh.control, sh.driver = c, c.driver
	return nil
}

// elsewhere reports whether the session is over another state folder than that by which its shard was served. Where one of the two is
// not known, as with a host manager of an earlier version, only one that has served the cluster can be the same.
func (c *control) elsewhere(in *cluster.Snapshot) bool {
	if served := in.FolderOf(c.shard); served != "" && c.folder != "" {
		return c.folder != served
	}
	return c.blank
}

// named adds the id of a folder where it is known.
func named(folder string) string {
	if folder == "" {
		return ""
	}
	return " (its file \"folder\" says " + folder + ")"
}

// runs reports whether there are tasks on the hosts of a shard.
func runs(in *cluster.Snapshot, shard cluster.ShardID) bool {
	for h := range in.ShardHosts(shard) {
		if len(h.Tasks) > 0 {
			return true
		}
	}
	return false
}

// arrive makes the shard count as connected, if the session is still the shard's: it has told which runs it knows.
func (t *shardTable) arrive(c *control, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.get(c.shard); sh.control == c {
		sh.there, sh.since = true, now
	}
}

// meet takes in which runs nobody waits for of those that the session of a shard has told.
func (t *shardTable) meet(c *control, stray map[cluster.RunID]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.get(c.shard); sh.control == c {
		sh.stray = stray
		sh.told = sh.told || len(stray) == 0
	}
}

// part takes in that a run that nobody waits for has ended.
func (t *shardTable) part(c *control, run cluster.RunID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.get(c.shard); sh.control == c && sh.stray[run] {
		delete(sh.stray, run)
		sh.told = sh.told || len(sh.stray) == 0
	}
}

// untold lists the shards with hosts of which it is not known yet, since this process began, all that runs there. Complexity: the hosts.
func (t *shardTable) untold(in *cluster.Snapshot) (names []cluster.ShardID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range in.Hosts("") {
		name := h.ID.Shard()
		if sh := t.byName[name]; sh == nil || !sh.told {
			names = append(names, name)
		}
	}
	return slices.Compact(names)
}

// disconnect ends the session if it is still the shard's. It sends nothing more.
func (t *shardTable) disconnect(c *control, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch sh := t.get(c.shard); {
	case sh.control == c:
		sh.leave(c, now)
	case c.told(): // when another one took its place it may have been sending yet
		in := c.s.Snapshot()
		sh.sent = placed(sh.sent, in, in.ShardHosts(c.shard))
	}
}

// leave ends the shard's session. Sessions that end before they have told what there is do not count: the shard is cut off for as
// long as it was before.
func (sh *shard) leave(c *control, now time.Time) {
	if sh.there {
		in := c.s.Snapshot()
		sh.since, sh.sent = now, placed(nil, in, in.ShardHosts(c.shard))
	}
	sh.control, sh.there, sh.stray = nil, false, nil
}

// away reports since when the shard, which has hosts, is cut off, or connected, and whether it is cut off. The time is one of the clock as it shows
// now, however it was set since: it tells how long that has been.
func (t *shardTable) away(name cluster.ShardID, now time.Time) (cluster.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.list(name)
	return cluster.Time(now.Add(-time.Since(sh.since)).UnixNano()), !sh.there
}

// forget takes a shard out that is cut off and has no hosts, or has none any more: nobody misses it, and no host is left to be forgotten.
func (t *shardTable) forget(in *cluster.Snapshot, name cluster.ShardID) {
	if in.HasHosts(name) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.byName[name]; sh != nil && sh.control == nil && sh.bulk == nil {
		delete(t.byName, name)
	}
}

// look takes in that deadlines are looked at, and returns for how long this process stood still before, 0 if it did not. Who is cut off
// could not come back in that time, as while the process was stopped, so it does not count.
func (t *shardTable) look(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	still := now.Sub(t.looked)
	t.looked = now
	if still <= 2*deadlineTick {
		return 0
	}
	later := func(since time.Time) time.Time { return now.Add(-max(0, now.Sub(since)-still)) }
	t.began = later(t.began)
	for _, sh := range t.byName {
		if !sh.there {
			sh.since = later(sh.since)
		}
	}
	return still
}

// age is for how long shards have been able to connect.
func (t *shardTable) age() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.began)
}

// Shards lists the shards that are connected or own a known host, by name.
func (s *Scheduler) Shards() []ShardInfo {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	var out []ShardInfo
	for _, name := range slices.Sorted(maps.Keys(s.shards.byName)) {
		sh := s.shards.byName[name]
		info := ShardInfo{Name: name, Driver: sh.driver, Connected: sh.there, Since: sh.since}
		if sh.control != nil {
			info.Pending, info.Expires = len(sh.control.answers)+len(sh.control.commands), sh.control.expires
		}
		out = append(out, info)
	}
	return out
}

// deadlineTick is how often deadlines are looked at; they are tens of seconds apart.
const deadlineTick = time.Second

// shardsOf returns the shards of hosts that are in the order of their names.
func shardsOf(hosts []cluster.HostID) (shards []cluster.ShardID) {
	for _, h := range hosts {
		shards = append(shards, h.Shard())
	}
	return slices.Compact(shards)
}

// runDeadlines gives up hosts that are out of reach for too long, and later the tasks on them.
func (s *Scheduler) runDeadlines(ctx context.Context) error {
	deadlines := rules.Deadlines{
		UnreachableAfter: s.config.UnreachableAfter, LostAfter: s.config.LostAfter,
		Away:   func(name cluster.ShardID) (cluster.Time, bool) { return s.shards.away(name, s.now()) },
		Unsent: s.shards.unsent,
	}
	tick := time.NewTicker(deadlineTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if still := s.shards.look(time.Now()); still > 0 {
			s.log.Warn("the scheduler stood still; host managers that are cut off get that time in addition", "for", still)
		}
		s.settle(ctx)
		hosts := deadlines.Overdue(s.Snapshot(), s.clock())
		if len(hosts) == 0 {
			continue
		}
		s.log.Warn("hosts are out of reach for too long", "shards", shardsOf(hosts), "hosts", len(hosts), "first", hosts[0])
		s.byItself(ctx, deadlines.Expire)
	}
}

// settle has tasks placed again in a cluster that was restored, when all shards have told what they run that the snapshot does not know,
// and that has ended, or the others have been away for so long that what they run is given up.
func (s *Scheduler) settle(ctx context.Context) {
	in := s.Snapshot()
	if !in.Mode().Restored {
		return
	}
	untold := s.shards.untold(in)
	switch {
	case len(untold) == 0:
		s.log.Info("it is known again what runs: tasks are placed")
	case s.shards.age() >= s.config.LostAfter:
		s.log.Warn("tasks are placed though it is not known what runs since the snapshot", "shards", untold)
	default:
		return
	}
	s.byItself(ctx, func(tx *Tx) error {
		mode := tx.State().Mode()
		mode.Restored = false
		return tx.Emit(&cluster.ModeSet{Mode: mode})
	})
}

package cycle

import (
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// groupKey holds what the pools can tell apart: all that decides in which order tasks are admitted, and what
// they count against.
type groupKey struct {
	pool        cluster.PoolPath
	jobType     cluster.JobType
	priority    int32
	preemptible bool
	revocable   bool
	controller  bool
	gang        bool           // the core of job
	job         cluster.JobUID // where the job's own bounds matter, else 0
	gated       bool           // a limit counts what of the job runs, or the jobs that run in the pool
	maxRunTime  time.Duration
	owner       string // of the job as it is, where the leaf divides by users, else ""
	fixed       [cluster.NumDimensions]int64
	named       string
}

func groupKeyOf(snap *cluster.Snapshot, job cluster.JobUID, spec *cluster.JobSpec) groupKey {
	leaf := snap.Pool(spec.Pool)
	k := groupKey{
		pool: spec.Pool, jobType: spec.Type, priority: spec.Priority,
		preemptible: spec.Preemptible, revocable: spec.Revocable, maxRunTime: spec.Limits.MaxRunTime,
	}
	jobs, owners := bounds(snap, spec.Pool)
	present := snap.Job(job).Spec
	k.gated = jobs || spec.Limits.MaxRunning > 0 || present.Limits.MaxRunning > 0
	if k.gated || present.Gang != nil || leaf != nil && leaf.Order == cluster.FairJobs {
		k.job = job
	}
	if leaf != nil && (owners || leaf.Order == cluster.FairUsers) {
		k.owner = present.Owner
	}
	return k
}

// bounds reports whether the pool or one above it bounds the jobs that run in it, and whether by their owners.
func bounds(snap *cluster.Snapshot, path cluster.PoolPath) (jobs, owners bool) {
	for ; path != ""; path = path.Parent() {
		if p := snap.Pool(path); p != nil {
			owners = owners || p.Limits.RunningJobsPerUser != nil || p.Limits.RunningJobsPerGroup != nil
			jobs = jobs || p.Limits.BoundsRunning()
		}
	}
	return jobs, owners
}

// group is the tasks, waiting and bound, that the pools cannot tell apart.
type group struct {
	key     groupKey
	request cluster.Resources
	running int64  // bound or with a hold; not asked to leave, unless to move
	leaving int64  // asked to leave; will wait again without a hold
	ending  int64  // on hosts; will end
	classes int    // that refer to it
	queue   *queue // of its leaf, nil if its pool is none
	// begun counts those of running by when they began, 0 for not yet. It exists only where runs are bounded.
	begun *btree.Map[cluster.Time, int]
	gone  bool // forgotten

	// In this cycle:
	placed  int64
	pledged int64 // have room held by a displacement
	stopped int64 // of running, victims that wait again or end

	index int // among all groups, a small number

	need *need
	// See Planner.donor.
	donor  pool.Donor
	ledger *pool.Ledger // that knows it
}

// follow counts the unit by when it began to run: n is 1, or −1 if it counts no more.
func (g *group) follow(u *unit, n int) {
	if g.key.maxRunTime == 0 || u.counted != &g.running {
		return
	}
	if g.begun == nil {
		g.begun = btree.NewMap[cluster.Time, int](0)
	}
	if n > 0 {
		if u.begun = u.started; u.state.Vacating() {
			u.begun = 0 // where it moves to, it begins again
		}
	}
	if was, _ := g.begun.Get(u.begun); was+n > 0 {
		g.begun.Set(u.begun, was+n)
	} else {
		g.begun.Delete(u.begun)
	}
}

// until returns when the last of those that run ends at the latest; 0 if that is not known, as none is
// bounded or one has not begun.
func (g *group) until() cluster.Time {
	if g.begun == nil || g.placed+g.pledged > 0 {
		return 0
	}
	last, _, some := g.begun.Max()
	if _, waits := g.begun.Get(0); !some || waits {
		return 0
	}
	return last.Add(g.key.maxRunTime)
}

func (p *Planner) groupFor(key groupKey, task *cluster.TaskSpec) *group {
	g := p.groups[key]
	if g == nil {
		g = &group{key: key, request: task.Resources, queue: p.queues[key.pool], index: len(p.groups)}
		if n := len(p.freeIndices); n > 0 {
			g.index, p.freeIndices = p.freeIndices[n-1], p.freeIndices[:n-1]
		}
		g.need = p.needs.of(&key.fixed)
		p.groups[key] = g
		p.groupOrder = append(p.groupOrder, g)
	}
	return g
}

// unit is a task that is bound to a host or has a hold. It may also be one that backs off while the rest of
// its gang's core waits for it.
type unit struct {
	*kind
	task    cluster.TaskKey
	run     uint32
	state   cluster.TaskState
	ready   bool  // see cluster.Task.Ready
	rests   bool  // backs off, with room held for it
	host    *host // where it is bound, nil for nowhere
	devices cluster.Devices
	started cluster.Time   // 0: not seen running yet
	last    cluster.Time   // when it was last asked to leave, 0 if never
	owed    flowgraph.Cost // what it lost by that and before
	hold    *cluster.Hold
	counts  *host        // where its hold counts for rules, nil for nowhere
	counted *int64       // the count of its group that it is in, nil if in none
	begun   cluster.Time // as its group has it
	reads   int32        // see here, as of the version of hosts that readAt is
	readAt  int32

	// What this cycle plans with it.
	settled bool // its hold is over
	victim  bool
	written bool           // it stands in the output
	seat    int32          // in the core of its gang
	price   flowgraph.Cost // of its leaving
	move    *move          // where it goes on; nil: it waits again, or ends
	// See displacer.refuge.
	measured instant
	refuge   *move
	dearer   flowgraph.Cost // what being there costs
}

// kind is what units of a job that ask for the same have in common. There are many units, and the garbage
// collector looks at each.
type kind struct {
	group *group
	job   *cluster.JobSpec
	spec  *cluster.TaskSpec
	row   rowKey
	wishes
}

// move is where a victim goes on.
type move struct {
	host *host
	nomination
}

// restingCore reports whether the task backs off and is in the core of its gang: then the rest of the core
// has to wait for it.
func restingCore(snap *cluster.Snapshot, t *cluster.Task) bool {
	return t.NotBefore != 0 && snap.Job(t.Key.Job()).Spec.Core(t.Key.Instance())
}

// continues reports whether the run of the unit goes on as it was: nothing has changed but its state and what
// was seen of it.
func (u *unit) continues(t *cluster.Task, job *cluster.JobSpec, spec *cluster.TaskSpec) bool {
	return u.state.Bound() && !u.state.Vacating() && t.State.Bound() && !t.State.Vacating() && !u.settled &&
		u.run == t.Run && u.host.is(t.Host) && u.job == job && u.spec == spec && u.hold == t.Hold && u.copy == t.Copy &&
		!u.rests && t.NotBefore == 0 && len(job.Preferences)+len(job.Spread) == 0
}

// advance takes in what was seen of a run that goes on.
func (p *Planner) advance(u *unit, t *cluster.Task) {
	changed := u.state != t.State
	if changed {
		u.group.follow(u, -1)
	}
	u.state, u.started, u.ready, u.devices = t.State, t.Started, t.Ready != 0, cluster.Devices{GPUs: t.GPUs, Ports: t.Ports}
	p.hosts.tick(u.host)
	if changed {
		u.group.follow(u, 1)
		p.moved = true
	}
}

// ingestUnit brings the unit of a bound or held task in line with the snapshot.
func (p *Planner) ingestUnit(snap *cluster.Snapshot, x *lookedTask) {
	k, t, j, old := x.key, x.task, x.job, x.unit
	if t == nil || !t.State.Bound() && t.State != cluster.TaskReserved && !restingCore(snap, t) {
		if old != nil {
			p.dropUnit(old)
			p.dirty = true // its pools have room now, even if its host takes no work
		}
		return
	}
	job := j.SpecFor(t)
	spec := job.TaskOf(k.Instance())
	if old != nil && !p.altered(j) && old.continues(t, job, spec) {
		p.advance(old, t)
		return
	}
	u := &unit{
		kind: p.kindFor(snap, j, t, spec),
		task: k, run: t.Run, host: x.host, state: t.State, ready: t.Ready != 0, started: t.Started, hold: t.Hold,
		rests:   t.NotBefore != 0,
		devices: cluster.Devices{GPUs: t.GPUs, Ports: t.Ports},
	}
	if t.Preempted != nil {
		u.last, u.owed = t.Preempted.At, flowgraph.Cost(t.Preempted.Price)
	}
	switch {
	case t.State == cluster.TaskPending:
		u.counted = &u.group.leaving
	case !t.State.Vacating() || t.Hold != nil: // who moves has its pool's room all the time
		u.counted = &u.group.running
	case t.State == cluster.TaskPreempting && !job.Preemption.Kill && !j.Stopping || t.Restart:
		u.counted = &u.group.leaving
	default:
		u.counted = &u.group.ending
	}
	if old != nil {
		p.dirty = p.dirty || old.group != u.group || old.job != u.job // others may have it leave now
		if !old.settled && old.counted == u.counted && old.state == u.state && old.run == u.run && old.hold == u.hold && old.rests == u.rests && old.host == u.host && old.set == u.set && old.row.work == u.row.work {
			old.started, old.ready, old.kind = u.started, u.ready, u.kind
			p.hosts.tick(old.host)
			return
		}
		p.dropUnit(old)
	}
	p.addUnit(u)
}

// addUnit is the reverse of dropUnit.
func (p *Planner) addUnit(u *unit) {
	*u.counted++
	u.group.follow(u, 1)
	if u.state.Vacating() || u.state == cluster.TaskReserved && u.hold.Until != cluster.Forever { // room that may be promised, or see rehouse
		p.dirty = true
	}
	p.units.Set(uint64(u.task), u)
	if u.hold != nil {
		p.held[u.task] = u
		if h := p.hosts.byID[u.hold.Host]; h != nil {
			h.holds = append(h.holds, u)
			p.hosts.tick(h)
			u.counts = h
			p.labels.count(u.set, h, waits)
		}
	}
	if u.group.key.gang && u.host != nil {
		p.seatIn(u)
	}
	if h := u.host; h != nil {
		h.units = append(h.units, u)
		h.loose += u.loose()
		h.count(u.group, 1)
		p.hosts.tick(h)
		p.hosts.mingle(h)
		p.labels.count(u.set, h, u.presence())
	}
	p.moved = true
}

func (p *Planner) dropUnit(u *unit) {
	if u.counted != nil {
		*u.counted--
		u.group.follow(u, -1)
	}
	p.units.Delete(uint64(u.task))
	if u.hold != nil {
		delete(p.held, u.task)
		if u.counts != nil {
			p.labels.count(u.set, u.counts, gone)
		}
		if h := p.hosts.byID[u.hold.Host]; h != nil {
			h.holds = without(h.holds, u)
			p.hosts.tick(h)
		}
	}
	if u.group.key.gang && u.host != nil {
		p.unseat(u)
	}
	if h := u.host; h != nil && h.rec != nil {
		p.labels.count(u.set, h, u.presence().times(-1))
		h.units = without(h.units, u)
		h.loose -= u.loose()
		h.count(u.group, -1)
		p.hosts.tick(h)
		p.hosts.mingle(h)
		p.dirty = p.dirty || u.state.Vacating() && len(h.holds) > 0 // what it leaves may not be enough for those who have holds: see rehouse
	}
	p.moved = true
}

// presence is what the unit counts as on its host, by what is known of it and not by what is planned.
func (u *unit) presence() presence {
	if u.state.Vacating() {
		return waits
	}
	return comes
}

// loose returns 1 if the unit leaves or might be asked to, else 0. It stays the same as long as the unit is one.
func (u *unit) loose() int {
	if u.state.Vacating() || u.group.key.preemptible || u.group.key.revocable {
		return 1
	}
	return 0
}

// dropGroups forgets the groups that have no tasks left.
func (p *Planner) dropGroups() {
	p.groupOrder = slices.DeleteFunc(p.groupOrder, func(g *group) bool {
		if g.running > 0 || g.leaving > 0 || g.ending > 0 || g.classes > 0 {
			return false
		}
		delete(p.groups, g.key)
		p.needs.drop(&g.key.fixed)
		p.freeIndices = append(p.freeIndices, g.index)
		g.gone = true
		return true
	})
}

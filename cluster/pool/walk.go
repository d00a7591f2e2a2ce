package pool

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// bands are vectors by tier: bounds, or the room that is left below them. What is in a tier also counts in
// the bounds of the weaker tiers.
type bands [cluster.NumTiers][]int64

// fit returns how many v fit into a tier, at most limit.
func (b bands) fit(v []int64, tier cluster.Tier, limit int64) int64 {
	for ; tier < cluster.NumTiers; tier++ {
		limit = count(v, b[tier], limit)
	}
	return limit
}

// take takes n·v in a tier.
func (b bands) take(v []int64, tier cluster.Tier, n int64) {
	if n == 0 {
		return
	}
	for ; tier < cluster.NumTiers; tier++ {
		subTimes(b[tier], v, n)
	}
}

// line is the part of a queue that is walked together: indices of groups, in order.
type line struct {
	running []int32 // those with running tasks: what may not be preempted first, then by priority and age
	waiting []int32 // those with waiting tasks that are open, by rank
}

// reading is a queue as walks go through it. It is read once after the queues were opened.
type reading struct {
	valid     bool
	request   [][]int64 // of one task, by group
	slab      []int64
	all       line // without revocable groups
	revocable line
	cores     map[cluster.JobUID][]int32 // the groups with core members that wait, by job
	parts     []*partyLine               // see parties; nil before they are asked for
}

// walk admits the groups of one queue. It is scratch that is used again.
type walk struct {
	*reading
	a     *Admission
	q     *queue
	ranks []rank
	whole map[cluster.JobUID]bool // the jobs whose core has been decided on

	// Of the line that is being walked.
	bounds bands
	levels []level
	at     int   // the level of the group at hand, -1 before the first
	used   bands // what has been granted to waiting tasks
	free   bands // room for the group at hand
	room   bands // free without what is held for heads
	heads  [cluster.NumTiers]head
	tight  []bool // by dimension; see confine

	dominant dominant
}

// level is the room that running tasks of some priority and above leave.
type level struct {
	priority int32
	room     bands
}

// head is the first unit in a line that fits below a bound, but not now. Others leave it what is held.
type head struct {
	group    int32
	held     []int64 // nil if there is none
	priority int32
	start    cluster.Time // by when run-time limits let it in, 0 if they do not
}

// vector returns a copy of v, or zeros where it is nil.
func (w *walk) vector(v []int64) []int64 {
	out := make([]int64, len(w.a.tree.dims))
	copy(out, v)
	return out
}

func (w *walk) bands(b bands) bands {
	for tier := range b {
		b[tier] = w.vector(b[tier])
	}
	return b
}

// load begins to walk through a queue. Complexity: O(n log n) for n groups, the first time.
func (w *walk) load(a *Admission, q *queue) {
	w.a, w.q, w.reading, w.whole = a, q, &q.reading, nil
	if !w.valid {
		w.read()
	}
	if w.cores != nil {
		w.whole = map[cluster.JobUID]bool{}
	}
}

// read reads requests by dimension, and the orders of what runs and waits.
func (w *walk) read() {
	n, dims := len(w.q.groups), len(w.a.tree.dims)
	w.slab = slices.Grow(w.slab[:0], n*dims)[:n*dims]
	w.valid, w.request, w.ranks, w.cores, w.parts = true, w.request[:0], w.ranks[:0], nil, nil
	w.all, w.revocable = line{w.all.running[:0], w.all.waiting[:0]}, line{w.revocable.running[:0], w.revocable.waiting[:0]}
	for i := range w.q.groups {
		g := &w.q.groups[i]
		w.request = append(w.request, w.a.tree.vector(g.Request, w.slab[i*dims:i*dims:(i+1)*dims]))
		w.ranks = append(w.ranks, w.a.rank(w.q, i))
		into := &w.all
		if g.Revocable {
			into = &w.revocable
		}
		if g.Running > 0 {
			into.running = append(into.running, int32(i))
		}
		if w.q.open[i] > 0 {
			into.waiting = append(into.waiting, int32(i))
		}
		if g.Core > 0 {
			if w.cores == nil {
				w.cores = map[cluster.JobUID][]int32{}
			}
			w.cores[g.Job] = append(w.cores[g.Job], int32(i))
		}
	}
	for _, l := range [...]*line{&w.all, &w.revocable} {
		slices.SortFunc(l.waiting, func(i, j int32) int { return w.ranks[i].compare(&w.ranks[j]) })
		slices.SortFunc(l.running, func(i, j int32) int {
			return cmp.Or(cmp.Compare(w.standing(j), w.standing(i)), cmp.Compare(w.q.groups[i].Queued, w.q.groups[j].Queued), cmp.Compare(i, j))
		})
	}
}

// held sets has to what the running tasks of a line hold.
func (w *walk) held(l line, has []int64) {
	clear(has)
	for _, i := range l.running {
		addTimes(has, w.request[i], w.q.groups[i].Running)
	}
}

// standing is the priority that waiting work must exceed to go before the running tasks of a group.
func (w *walk) standing(i int32) int32 {
	if g := &w.q.groups[i]; g.Preemptible || g.Revocable {
		return g.Priority
	}
	return math.MaxInt32
}

// admit grants tiers to the groups of a line below the bounds.
//
// A waiting task is granted a tier on top of all running work that it does not go before. So the tiers of
// what runs are decided last, with what the grants have left. They never sum to more than a bound, unless
// what runs alone exceeds it.
func (w *walk) admit(l line, bounds bands) {
	if len(l.running)+len(l.waiting) == 0 {
		return
	}
	w.begin(l, bounds)
	for _, i := range l.waiting {
		if w.q.groups[i].Passed {
			continue
		}
		if w.q.groups[i].Core > 0 {
			w.admitCore(l, i)
		}
		w.admitSingly(l, i)
	}
	room := w.bands(bounds)
	for tier := range room {
		subTimes(room[tier], w.used[tier], 1)
	}
	for _, i := range l.running {
		w.q.grants[i].Running = w.settle(i, room)
	}
}

// begin sets the state of a walk, with nothing granted.
func (w *walk) begin(l line, bounds bands) {
	w.bounds = bounds
	w.used = w.bands(bands{})
	w.free, w.room = w.bands(bands{}), w.bands(bands{})
	w.heads = [cluster.NumTiers]head{}
	w.levels, w.at = w.levels[:0], -1
	room := w.bands(bounds)
	for _, i := range l.running {
		if n := len(w.levels); n == 0 || w.levels[n-1].priority != w.standing(i) {
			w.levels = append(w.levels, level{priority: w.standing(i), room: w.bands(room)})
		}
		w.settle(i, room)
	}
	w.levels = append(w.levels, level{priority: math.MinInt32, room: room})
}

// settle splits the running tasks of a group by tier and takes their room. What may not be preempted counts
// in its strongest tier, whatever the bound. What exceeds every bound counts as borrowed.
func (w *walk) settle(i int32, room bands) (tiers [cluster.NumTiers]int64) {
	g, v := &w.q.groups[i], w.request[i]
	left := g.Running
	if w.standing(i) == math.MaxInt32 {
		tiers[w.strongest(i)], left = left, 0
		room.take(v, w.strongest(i), g.Running)
	}
	for tier := w.strongest(i); tier < cluster.NumTiers && left > 0; tier++ {
		n := room.fit(v, tier, left)
		if tier == cluster.TierBorrowed {
			n = left
		}
		room.take(v, tier, n)
		tiers[tier] = n
		left -= n
	}
	return tiers
}

// strongest and weakest bound the tiers that waiting tasks of a group may have.
func (w *walk) strongest(i int32) cluster.Tier {
	switch g := &w.q.groups[i]; {
	case g.Revocable:
		return cluster.TierBorrowed
	case !w.a.tree.keeps(w.request[i]):
		return cluster.TierEntitled
	default:
		return cluster.TierReserved
	}
}

func (w *walk) weakest(i int32) cluster.Tier {
	switch g := &w.q.groups[i]; {
	case !g.Preemptible && !g.Revocable && w.a.tree.keeps(w.request[i]):
		return cluster.TierReserved
	case w.tightest(w.request[i]) >= 0:
		return cluster.TierEntitled
	default:
		return cluster.TierBorrowed
	}
}

// look works out the room for a waiting group. What runs before it and what has been granted is gone, and so
// is what is held for a head that it may not pass.
func (w *walk) look(i int32) {
	g := &w.q.groups[i]
	at := slices.IndexFunc(w.levels, func(l level) bool { return l.priority < g.Priority })
	if at < 0 {
		at = len(w.levels) - 1
	}
	for tier := range w.free {
		if at != w.at { // else what has been granted since was taken from it
			copy(w.free[tier], w.levels[at].room[tier])
			subTimes(w.free[tier], w.used[tier], 1)
		}
		copy(w.room[tier], w.free[tier])
		if h := &w.heads[tier]; h.held != nil && !w.passes(g, h) {
			subTimes(w.room[tier], h.held, 1)
		}
	}
	w.at = at
}

// passes reports whether the group may take room that a head waits for, because that never makes the head wait longer.
func (w *walk) passes(g *Group, h *head) bool {
	if g.Preemptible && g.Priority < h.priority {
		return true
	}
	return g.MaxRunTime > 0 && h.start != 0 && w.a.now.Add(g.MaxRunTime) <= h.start
}

// admitSingly grants the waiting tasks of a group tier by tier, except the members of a core.
func (w *walk) admitSingly(l line, i int32) {
	g, grant, v := &w.q.groups[i], &w.q.grants[i], w.request[i]
	left := w.q.open[i] - g.Core
	if left <= 0 {
		return
	}
	if w.cores[g.Job] != nil && !w.whole[g.Job] {
		grant.Why = Binding{Rule: RuleGang, Pool: w.leaf().pool.Path}
		return
	}
	w.look(i)
	var borrowed int64
	for tier := w.strongest(i); tier <= w.weakest(i) && left > 0; tier++ {
		n := w.room.fit(v, tier, left)
		w.grant(i, v, tier, n, n)
		left -= n
		if tier == cluster.TierBorrowed && !g.Revocable {
			borrowed = n
		}
	}
	w.hold(l, i, v, borrowed+left > 0, left > 0)
}

// grant books n tasks of a group whose units take v together.
func (w *walk) grant(i int32, v []int64, tier cluster.Tier, units, tasks int64) {
	if units == 0 {
		return
	}
	w.q.grants[i].Waiting[tier] += tasks
	w.used.give(v, tier, units)
	w.free.take(v, tier, units)
	w.room.take(v, tier, units)
}

// give is the reverse of take.
func (b bands) give(v []int64, tier cluster.Tier, n int64) {
	for ; tier < cluster.NumTiers; tier++ {
		addTimes(b[tier], v, n)
	}
}

// admitCore grants one tier to all members of the core of a job, when it comes to the first of its groups.
func (w *walk) admitCore(l line, i int32) {
	job := w.q.groups[i].Job
	if _, decided := w.whole[job]; decided {
		return
	}
	w.whole[job] = false
	unit, open := w.coreUnit(job)
	if !open {
		return
	}
	w.look(i)
	for tier := w.strongest(i); tier <= w.weakest(i); tier++ {
		if w.room.fit(unit, tier, 1) == 0 {
			continue
		}
		w.grant(i, unit, tier, 1, 0)
		w.grantCore(job, tier)
		w.hold(l, i, unit, tier > cluster.TierEntitled && !w.q.groups[i].Revocable, false)
		w.explainCore(job, i)
		return
	}
	w.hold(l, i, unit, true, true)
	w.explainCore(job, i)
}

// grantCore grants all members of the core of a job that tier.
func (w *walk) grantCore(job cluster.JobUID, tier cluster.Tier) {
	w.whole[job] = true
	for _, m := range w.cores[job] {
		w.q.grants[m].Waiting[tier] += w.q.groups[m].Core
	}
}

// coreUnit returns what the core of a job asks for together. It is not open if a limit on jobs keeps some of
// it back, or there is no host for it.
func (w *walk) coreUnit(job cluster.JobUID) (unit []int64, open bool) {
	unit = w.vector(nil)
	for _, m := range w.cores[job] {
		if w.q.open[m] < w.q.groups[m].Core || w.q.groups[m].Passed {
			return nil, false
		}
		addTimes(unit, w.request[m], w.q.groups[m].Core)
	}
	return unit, true
}

// explainCore gives all groups of a core the reason of the one that was decided on.
func (w *walk) explainCore(job cluster.JobUID, decided int32) {
	for _, m := range w.cores[job] {
		w.q.grants[m].Why = w.q.grants[decided].Why
	}
}

func (w *walk) leaf() *node { return &w.a.tree.nodes[w.q.node] }

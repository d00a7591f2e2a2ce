package pool

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// leftovers grants what the leaves cannot use of their parts of a limit above them, or of the capacity, since
// tasks and cores are whole. It is scratch that is used again.
type leftovers struct {
	used    [][]int64 // by pool
	claimed []int64   // what runs anywhere, was granted so that others may be stopped for it, or only leftovers let in
	next    []unit
	turns   []turn               // turns of next, longest wait first
	room    []int64              // see grant
	vacant  map[standing][]int64 // see unreserved; valid until some are granted
	idle    [][]int64            // by pool: the part of reservations that static pools do not use, in it and below it
	below   [][]int64            // by pool: that part below it only
}

// standing is a leaf and a priority in it.
type standing struct {
	node     int32
	priority int32
}

// turn is a unit and since when it waits, no earlier than those that its leaf lets go first.
type turn struct {
	since cluster.Time
	unit  int32 // index; by leaf, and in the order of the leaf
}

// unit is what waits in a group beyond its leaf's part: tasks, or the core of its job.
type unit struct {
	q       *queue
	group   int32
	held    []int64 // held for the head of its leaf, nil if the unit may pass that
	cores   []int32 // the groups of the core of its job, if it has one
	core    bool    // it is that core
	fixed   bool    // only inside a reservation
	request []int64
}

// dealLeftovers lets those borrow whom only the part of their leaf keeps out. They have to fit below every
// limit, and revocable ones into the slack, beside all that runs and has been granted. What may not be
// preempted has to fit into the whole reservation of its leaf, however little of that can be honoured, and
// into the part of the capacity that nobody claims.
//
// Who has waited longest goes first, in whichever leaf. Inside a leaf its own order holds, and what its head
// holds stays free. fresh tells that the claims are new. Until they are again, what they cover is left to
// them, even if there is no host for it. Complexity: the groups of all queues, with a logarithmic factor,
// times dimensions and depth.
func (a *Admission) dealLeftovers(fresh bool) {
	if fresh {
		for _, q := range a.queues {
			q.claims = a.claims(q)
		}
	}
	if !slices.ContainsFunc(a.queues, (*queue).refuses) {
		return
	}
	a.deal(a.tree, false)
	if anyOf(a.lending.nodes[0].entitled) {
		a.deal(a.lending, true)
	}
}

func (a *Admission) deal(t *tree, revocable bool) {
	l := &a.leftovers
	l.vacant = map[standing][]int64{}
	l.next, l.turns, l.used, l.claimed = l.next[:0], l.turns[:0], t.vectors(), make([]int64, len(t.dims))
	for _, q := range a.queues {
		has := a.use(q, revocable)
		if !revocable { // nothing revocable needs a reservation
			claims := a.claims(q)
			for d, n := range q.claims {
				l.claimed[d] = sum(l.claimed[d], max(n, claims[d]))
			}
		}
		for i := q.node; i >= 0; i = t.nodes[i].parent {
			addTimes(l.used[i], has, 1)
		}
		l.collect(a, q, revocable)
	}
	if !revocable && a.Static() {
		l.idle, l.below = t.vectors(), t.vectors()
		for i := int32(len(t.nodes)) - 1; i > 0; i-- {
			l.settle(t, i)
		}
	}
	slices.SortFunc(l.turns, func(a, b turn) int {
		if a.since != b.since {
			return cmp.Compare(a.since, b.since)
		}
		return cmp.Compare(a.unit, b.unit)
	})
	for _, x := range l.turns {
		l.grant(t, &l.next[x.unit], revocable)
	}
}

// vectors returns a vector of zeros for each pool.
func (t *tree) vectors() [][]int64 {
	all, dims := make([][]int64, len(t.nodes)), len(t.dims)
	room := make([]int64, len(all)*dims)
	for i := range all {
		all[i] = room[i*dims : (i+1)*dims : (i+1)*dims]
	}
	return all
}

// refuses reports whether some of a queue have no tier.
func (q *queue) refuses() bool {
	return slices.ContainsFunc(q.grants, func(g Grant) bool { return g.Refused > 0 })
}

func anyOf(v []int64) bool { return slices.ContainsFunc(v, func(n int64) bool { return n > 0 }) }

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// use returns what runs and has been granted in a leaf.
func (a *Admission) use(q *queue, revocable bool) []int64 {
	all := make([]int64, len(a.tree.dims))
	for i := range q.groups {
		if g := &q.groups[i]; g.Revocable == revocable {
			addTimes(all, q.request[i], g.Running+q.grants[i].Admitted())
		}
	}
	return all
}

// claims returns what runs in a leaf, and what has been granted there so that others may be stopped for it.
func (a *Admission) claims(q *queue) []int64 {
	all := make([]int64, len(a.tree.dims))
	for i := range q.groups {
		if g, w := &q.groups[i], &q.grants[i].Waiting; !g.Revocable {
			addTimes(all, q.request[i], g.Running+w[cluster.TierReserved]+w[cluster.TierEntitled])
		}
	}
	return all
}

// unreserved returns what the reservation of its leaf leaves for a unit that may not be preempted.
// Preemptible work that runs and is less urgent does not count as use.
func (l *leftovers) unreserved(t *tree, u *unit) []int64 {
	priority := u.q.groups[u.group].Priority
	if room, known := l.vacant[standing{u.q.node, priority}]; known {
		return room
	}
	n := &t.nodes[u.q.node]
	room := make([]int64, len(t.dims))
	for d := range room {
		if room[d] = unlimited; t.kept[d] {
			room[d] = max(n.reservation[d], n.reserved[d])
		}
	}
	for i := range u.q.groups {
		g, grant := &u.q.groups[i], &u.q.grants[i]
		has := grant.Waiting[cluster.TierReserved]
		if !g.Preemptible || g.Priority >= priority {
			has += grant.Running[cluster.TierReserved]
		}
		v := u.q.request[i]
		if !g.Preemptible && t.keeps(v) {
			has += grant.Waiting[cluster.TierBorrowed]
		}
		if !g.Revocable {
			subTimes(room, v, has)
		}
	}
	l.vacant[standing{u.q.node, priority}] = room
	return room
}

// collect appends what of a leaf may have leftovers.
func (l *leftovers) collect(a *Admission, q *queue, revocable bool) {
	if !q.refuses() {
		return
	}
	w := &a.walk
	w.load(a, q)
	order, h := w.all.waiting, &q.heads[one(revocable)]
	if revocable {
		order = w.revocable.waiting
	}
	since, behind := cluster.Time(0), false
	add := func(u unit) {
		l.turns = append(l.turns, turn{since, int32(len(l.next))})
		l.next = append(l.next, u)
	}
	for _, i := range order {
		g, grant := &q.groups[i], &q.grants[i]
		since = max(since, g.Queued)
		var held []int64
		if behind && !w.passes(g, h) {
			held = h.held
		}
		full, fixed := !g.Passed && grant.Refused > 0, w.weakest(i) == cluster.TierReserved
		if full && g.Core > 0 && w.cores[g.Job][0] == i && grant.Admitted() == 0 {
			if request, open := w.coreUnit(g.Job); open {
				add(unit{q, i, held, w.cores[g.Job], true, fixed, request})
			}
		}
		if full && q.open[i] > g.Core {
			add(unit{q, i, held, w.cores[g.Job], false, fixed, w.request[i]})
		}
		behind = behind || h.held != nil && h.group == i
	}
}

// grant lets a unit borrow as much as there is room for.
func (l *leftovers) grant(t *tree, u *unit, revocable bool) {
	n := int64(1)
	if !u.core {
		n = u.q.open[u.group] - u.q.grants[u.group].Admitted()
		if len(u.cores) > 0 && u.q.grants[u.cores[0]].Admitted() == 0 {
			return // the core goes first, whole
		}
	}
	held := u.held != nil && u.q.grants[u.q.heads[one(revocable)].group].Refused > 0
	below := func(i int32) {
		bound := t.nodes[i].limit
		if revocable && i == 0 {
			bound = t.nodes[i].entitled
		}
		l.room = append(l.room[:0], bound...)
		if i == 0 && !revocable {
			l.keep(t, u.q.node, l.room)
		}
		subTimes(l.room, l.used[i], 1)
		if held {
			subTimes(l.room, u.held, 1)
		}
		n = count(u.request, l.room, n)
	}
	below(0) // where most have none
	for i := u.q.node; i > 0 && n > 0; i = t.nodes[i].parent {
		below(i)
	}
	if u.fixed && n > 0 {
		l.room = append(l.room[:0], t.nodes[0].entitled...)
		subTimes(l.room, l.claimed, 1)
		if n = count(u.request, l.room, n); n > 0 {
			n = count(u.request, l.unreserved(t, u), n)
		}
		addTimes(l.claimed, u.request, n)
	}
	if n == 0 {
		return
	}
	clear(l.vacant)
	for i := u.q.node; i >= 0; i = t.nodes[i].parent {
		addTimes(l.used[i], u.request, n)
		l.settle(t, i)
	}
	if !u.core {
		u.q.borrow(u.group, n)
		return
	}
	for _, m := range u.cores {
		u.q.borrow(m, u.q.groups[m].Core)
	}
}

// settle works out what is idle in a pool, after its use has grown or what is idle below it has changed. The
// root keeps nothing. Complexity: dimensions.
func (l *leftovers) settle(t *tree, i int32) {
	n := &t.nodes[i]
	for d, static := range t.static {
		if !static || i == 0 {
			continue
		}
		idle := l.below[i][d]
		if n.static[d] {
			idle = max(idle, n.reserved[d]-l.used[i][d])
		}
		l.below[n.parent][d] += idle - l.idle[i][d]
		l.idle[i][d] = idle
	}
}

// keep sets the room of the root, in the dimensions with static reservations, to what there is without the
// unused part of these reservations. Pools that the leaf belongs to keep nothing from it. Complexity: depth,
// times such dimensions.
func (l *leftovers) keep(t *tree, leaf int32, room []int64) {
	for d, static := range t.static {
		if !static {
			continue
		}
		idle := l.below[leaf][d]
		for i := leaf; i != 0; i = t.nodes[i].parent {
			idle += l.below[t.nodes[i].parent][d] - l.idle[i][d]
		}
		room[d] = t.nodes[0].ceiling[d] - idle
	}
}

// borrow grants n more tasks of a group. What kept them out now keeps them from more than borrowing.
func (q *queue) borrow(i int32, n int64) {
	grant := &q.grants[i]
	grant.Waiting[cluster.TierBorrowed] += n
	grant.Refused -= n
	if grant.Refused == 0 && grant.Why.Rule.lent() {
		grant.Why.Rule = RuleEntitlement
	}
}

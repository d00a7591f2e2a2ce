package pool

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// claim tells the trees what a queue has and asks for. Work that may not be preempted asks for no more than
// the reservation. Where a limit of the leaf, or of a pool above, does not admit all, the other dimensions
// are asked for only for the whole tasks that it admits.
func (a *Admission) claim(q *queue) {
	w := &a.walk
	w.load(a, q)
	leaf := &a.tree.nodes[q.node]
	has, hasSlack, asksSlack, reservation := w.vector(nil), w.vector(nil), w.vector(nil), w.vector(leaf.reservation)
	for d, kept := range a.tree.kept {
		if !kept {
			reservation[d] = unlimited
		}
	}
	q.asked = w.vector(nil)
	for i := range q.groups {
		g, v := &q.groups[i], w.request[i]
		if g.Revocable {
			addTimes(hasSlack, v, g.Running)
			addTimes(asksSlack, v, q.open[i])
			continue
		}
		addTimes(has, v, g.Running)
		addTimes(q.asked, v, g.Waiting)
		if !g.Preemptible {
			subTimes(reservation, v, g.Running)
		}
	}
	wants, may := w.vector(has), slices.Clone(q.open)
	for _, i := range w.all.waiting {
		if v := w.request[i]; !q.groups[i].Preemptible {
			may[i] = count(v, reservation, may[i])
			subTimes(reservation, v, may[i])
		}
		addTimes(wants, w.request[i], may[i])
	}
	if limit := a.tree.limits(q.node); lacking(wants, limit) >= 0 {
		all := w.vector(wants)
		for d := range wants {
			wants[d] = min(wants[d], limit[d])
		}
		w.reckon(wants, may)
		for d := range wants {
			if wants[d] == limit[d] { // a unit more, so that the limit is what binds; all would be beside what the others ask for in proportion
				wants[d] = min(all[d], sum(limit[d], 1))
			}
		}
	}
	for d := range wants {
		wants[d] = max(0, wants[d]-has[d])
	}
	a.tree.setVectors(q.node, has, wants)
	a.lending.setVectors(q.node, hasSlack, asksSlack)
}

// reckon reduces what a leaf wants, which limits bound, to what its tasks could have of that together. They
// have it in the order of the leaf and by the parts of its parties, whoever of them runs now. In each
// dimension one unit is added, of those who then wait at the head. So who fills the limit in one dimension
// takes nobody's claim to another, and it does not matter which party has what rounding leaves over. What
// could start on no host comes last. may is how much of each waiting group is claimed at most.
func (w *walk) reckon(wants, may []int64) {
	q := w.q
	left, stay, last := w.vector(wants), make([]int64, len(q.groups)), make([]int64, len(q.groups))
	for _, i := range w.all.waiting {
		if q.groups[i].NoHost {
			last[i], may[i] = may[i], 0
		}
	}
	lines := []line{w.all}
	if order := w.leaf().pool.Order; order == cluster.PriorityFIFO {
		w.reckonLine(w.all, wants, left, may, stay)
	} else {
		bound, most := w.vector(wants), w.a.tree.most(w.q.node)
		for d := range bound {
			bound[d] = min(bound[d], most[d])
		}
		parties := w.parties(order)
		all := w.gather(parties, may, most)
		lines = lines[:0]
		for i, part := range w.split(bound, most, all) {
			w.reckonLine(parties[i].line, part, left, may, stay)
			lines = append(lines, parties[i].line)
		}
	}
	for _, l := range lines { // what rounding to whole tasks leaves over
		for _, i := range l.running {
			v := w.request[i]
			n := count(v, left, q.groups[i].Running-stay[i])
			subTimes(left, v, n)
			stay[i] += n
		}
		for _, i := range l.waiting {
			v := w.request[i]
			n := count(v, left, may[i])
			subTimes(left, v, n)
			may[i] -= n
		}
	}
	next := w.vector(nil) // the most that one asks for who is the next of its party
	for _, l := range lines {
		if i := w.next(l, wants, may, stay); i >= 0 {
			for d, amount := range w.request[i] {
				next[d] = max(next[d], times(amount, max(1, q.groups[i].Core)))
			}
		}
	}
	subTimes(left, next, 1)
	for _, i := range w.all.waiting {
		subTimes(left, w.request[i], count(w.request[i], left, last[i]))
	}
	for d := range wants {
		wants[d] -= max(0, left[d])
	}
}

// next returns the group of which a task of the line comes next, or −1. What runs now and would not stay goes
// before others of its priority, as it will when it waits: who runs makes no difference.
func (w *walk) next(l line, wants, may, stay []int64) int32 {
	next := int32(-1)
	for _, i := range l.waiting {
		if may[i] > 0 && lacking(w.request[i], wants) < 0 { // else it never fits
			next = i
			break
		}
	}
	for _, i := range l.running {
		if stay[i] < w.q.groups[i].Running && (next < 0 || w.ranks[i].priority >= w.ranks[next].priority) {
			return i
		}
	}
	return next
}

// reckonLine subtracts what would be below the part of a line from left. First come waiting tasks, on top of
// what they do not go before, and are taken off may. Then come running tasks; stay is set to how many would
// stay.
func (w *walk) reckonLine(l line, part, left, may, stay []int64) {
	w.begin(l, bands{part, part, part})
	for _, i := range l.waiting {
		v := w.request[i]
		w.look(i)
		n := count(v, w.free[cluster.TierBorrowed], may[i])
		w.free.take(v, cluster.TierBorrowed, n)
		w.used.give(v, cluster.TierBorrowed, n)
		subTimes(left, v, n)
		may[i] -= n
	}
	room := w.vector(part)
	subTimes(room, w.used[cluster.TierBorrowed], 1)
	for _, i := range l.running {
		v := w.request[i]
		if stay[i] = w.q.groups[i].Running; w.standing(i) < math.MaxInt32 {
			stay[i] = count(v, room, stay[i])
		}
		subTimes(room, v, stay[i])
		subTimes(left, v, stay[i])
	}
}

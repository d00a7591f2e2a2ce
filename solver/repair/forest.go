package repair

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// place is where a node stands in the forest.
type place uint8

const (
	outside place = iota
	root          // has something to send
	branch        // hangs on another
	orphan        // has lost what it hung on, and looks for another
)

// stem is what the forest knows of a node.
type stem struct {
	joined int64  // level at which it came in
	arc    int32  // of a branch: that it hangs on
	from   int32  // of a branch: the node at the other end
	proven uint32 // turn in which it was seen to hang on a root
	cursor int32  // where in the list of arcs in the last search for a parent ended
	place  place
}

// forest grows from all nodes that have something to send at once: forward, from
// excess, along residual arcs, or backward, from lack, against them.
type forest struct {
	growing bool
	dir     int64 // 1 forward, -1 backward
	level   int64 // how far prices inside have moved
	turn    uint32
	units   int64 // still to send
	stems   []stem
	members []int32          // that are inside, or were
	young   []int32          // to be expanded
	next    int              // of them
	ready   []radixheap.Item // ways out that cost nothing more
	orphans []int32
	events  radixheap.Heap // arcs that will join a node, or reach the ground: at that level or later
	// shut is how many events are of sources that led nowhere but inside; these have ^arc for their arc.
	shut   int
	parted bool // some node has left since: perhaps they lead there
}

// at is the present price of v, which is inside or no source.
func (s *Solver) at(v int32) int64 {
	if !s.grows(v) {
		return s.price[v]
	}
	return s.price[v] + s.forest.dir*(s.forest.level-s.forest.stems[v].joined)
}

// grows tells whether v is inside.
func (s *Solver) grows(v int32) bool {
	return s.forest.growing && s.forest.stems[v].place != outside
}

// plantForest begins a forest that sends all excess (dir 1), or fetches all lack
// (dir -1).
func (s *Solver) plantForest(dir int64) {
	f := &s.forest
	f.growing, f.dir, f.level, f.units, f.shut, f.parted = true, dir, 0, 0, 0, false
	f.young, f.next, f.members, f.ready, f.orphans = f.young[:0], 0, f.members[:0], f.ready[:0], f.orphans[:0]
	f.events.Reset()
	s.courts.forget()
	for _, v := range s.pending.list {
		if x := s.excess[v] * dir; x > 0 && v != s.ground {
			f.units += x
			s.join(v, none, none)
		}
	}
}

// growOn grows the forest until all is sent.
func (s *Solver) growOn(budget solver.Budget) solver.Status {
	f := &s.forest
	for f.units > 0 {
		if !s.growStep() || s.broken {
			s.fell()
			return solver.Infeasible
		}
		if budget.Spent(s.work.Units) && f.units > 0 {
			return solver.BudgetSpent
		}
	}
	s.fell()
	return solver.Optimal
}

// growStep does what comes next: a way out that is free, a new member, an event.
// It reports false if there is nothing left to do.
func (s *Solver) growStep() bool {
	f := &s.forest
	if k := len(f.ready); k > 0 {
		e := f.ready[k-1]
		f.ready = f.ready[:k-1]
		s.leaveBy(e)
		return true
	}
	if f.next < len(f.young) {
		v := f.young[f.next]
		f.next++
		if f.stems[v].place != outside {
			s.spread(v)
		}
		return true
	}
	f.young, f.next = f.young[:0], 0
	if f.events.Len() == f.shut {
		if !f.parted {
			return false // and nobody inside will leave, as nothing will be sent
		}
		f.parted, f.shut = false, 0
		f.events.Each(func(e *radixheap.Item) { e.Arc = ^e.Arc })
		return true
	}
	e := f.events.Pop()
	s.work.Units++
	f.level = max(f.level, e.Key)
	s.due(e)
	return true
}

// fell ends the forest: everything keeps the price that it has.
func (s *Solver) fell() {
	for _, v := range s.forest.members {
		if s.forest.stems[v].place != outside {
			s.part(v)
		}
	}
	s.forest.members = s.forest.members[:0]
	s.forest.growing = false
}

// part takes v out at its present price.
func (s *Solver) part(v int32) {
	t := &s.forest.stems[v]
	moved := s.forest.level != t.joined
	s.price[v] = s.at(v)
	s.watch(s.price[v])
	t.place = outside
	if moved && s.kinds[v] >= isCore {
		s.work.Steps++
		if s.forest.dir > 0 {
			s.dearer.add(v)
		} else {
			s.cheaper.add(v)
		}
	}
}

// join takes v in, over arc from a node inside, or as a root.
func (s *Solver) join(v, arc, from int32) {
	f := &s.forest
	t := &f.stems[v]
	if s.kinds[v] == isSource {
		s.price[v] = s.worth(v)
	}
	t.joined, t.arc, t.from, t.place = f.level, arc, from, branch
	if from == none {
		t.place = root
	}
	f.members = append(f.members, v)
	f.young = append(f.young, v)
	if s.excess[v]*f.dir < 0 {
		f.ready = append(f.ready, radixheap.Item{Key: f.level, Node: v, Arc: none})
	}
	if s.kinds[v] != isSource {
		s.offerExit(v)
	}
}

// worth is the price of source v that keeps it outside as long as possible.
func (s *Solver) worth(v int32) int64 {
	out := s.net.Out(flowgraph.NodeID(v))
	s.work.Units += int64(len(out))
	if s.forest.dir > 0 {
		q, hub := &s.payers[v], far
		q.first, q.second, q.best = far, far, none
		for _, ref := range out {
			a, value := int32(ref.Arc), int64(ref.Cost)+s.at(int32(ref.Node))
			if value >= q.second || !s.hasRoom(a) {
				continue
			}
			if s.kinds[ref.Node] == isHub {
				hub = min(hub, value)
			} else {
				q.loosen(a, value)
			}
		}
		s.publish(v)
		return min(q.first, hub)
	}
	most := -far
	for _, ref := range out {
		if s.hasLoad(int32(ref.Arc)) {
			most = max(most, int64(ref.Cost)+s.at(int32(ref.Node)))
		}
	}
	return most
}

// offerExit plans the way from v, which is no source, to the ground.
func (s *Solver) offerExit(v int32) {
	x := &s.nodes[v]
	if s.forest.dir > 0 && x.exit < far {
		s.plan(x.exit-s.at(v), x.exitArc, s.ground)
	} else if s.forest.dir < 0 && x.entry < far {
		s.plan(x.entry+s.at(v), x.entryArc, s.ground)
	}
}

// plan notes that arc will be free to use after the given slack.
func (s *Solver) plan(slack int64, arc, to int32) {
	f := &s.forest
	s.broken = s.broken || slack < 0
	e := radixheap.Item{Key: f.level + slack, Node: to, Arc: arc}
	if slack <= 0 && to == s.ground {
		f.ready = append(f.ready, e)
		return
	}
	f.events.Push(e)
}

// meet takes in w over arc from v, now or when it is due.
func (s *Solver) meet(v, w, arc int32, slack int64) {
	if slack == 0 {
		s.join(w, arc, v)
	} else {
		s.plan(slack, arc, w)
	}
}

// spread looks at all that v leads to.
func (s *Solver) spread(v int32) {
	f := &s.forest
	p, dir := s.at(v), f.dir
	source := s.kinds[v] == isSource
	if source || s.nodes[v].forks > 0 {
		out := s.net.Out(flowgraph.NodeID(v))
		s.work.Units += int64(len(out))
		for _, ref := range out {
			a, w := int32(ref.Arc), int32(ref.Node)
			switch {
			case f.stems[w].place != outside || w == s.ground && !source || dir > 0 && !s.hasRoom(a) || dir < 0 && !s.hasLoad(a):
			case w == s.ground:
				s.plan(dir*(int64(ref.Cost)-p), a, w)
			default:
				s.meet(v, w, a, dir*(int64(ref.Cost)-p+s.price[w]))
			}
		}
	}
	if source {
		return
	}
	s.spreadIn(v)
}

// spreadIn looks at the nodes and sources at the tails of arcs into v. The price of a
// source is not known until it is needed: events have a bound on it.
func (s *Solver) spreadIn(v int32) {
	f := &s.forest
	p, dir := s.at(v), f.dir
	x := &s.nodes[v]
	s.work.Units += int64(len(x.in))
	for _, a := range x.in {
		r := &s.arcs[a]
		if r.tail == s.ground || f.stems[r.tail].place != outside || dir > 0 && r.flow <= r.lower || dir < 0 && r.flow >= r.upper {
			continue
		}
		s.meet(v, r.tail, a, dir*(-r.cost-p+s.price[r.tail]))
	}
	if dir > 0 {
		s.work.Units += int64(len(x.held))
		for i := range x.held {
			if h := &x.held[i]; f.stems[h.from].place == outside {
				if bound := s.payers[h.from].without(h.arc); bound < far {
					s.plan(max(0, bound-h.cost-p), h.arc, h.from)
				}
			}
		}
		return
	}
	in := s.net.In(flowgraph.NodeID(v))
	s.work.Units += int64(len(in))
	for _, ref := range in {
		q, a, u := &s.payers[ref.Node], int32(ref.Arc), int32(ref.Node)
		if q.count == 0 || q.count == 1 && q.arc == a || f.stems[u].place != outside || !s.hasRoom(a) {
			continue
		}
		most := s.price[u]
		if q.count == 1 {
			most = q.cost + s.at(q.head)
		}
		s.plan(max(0, int64(ref.Cost)+p-most), a, u)
	}
}

// due deals with an event whose level has come.
func (s *Solver) due(e radixheap.Item) {
	f := &s.forest
	if e.Node == s.ground {
		s.leaveBy(e)
		return
	}
	if e.Arc < 0 {
		e.Arc = ^e.Arc
		f.shut--
	}
	r := s.arc(e.Arc)
	u := r.tail + r.head - e.Node
	if f.stems[e.Node].place != outside || f.stems[u].place == outside || s.bears(e.Arc, e.Node) == 0 {
		return
	}
	p := s.price[e.Node]
	source := s.kinds[e.Node] == isSource
	if source {
		p = s.worth(e.Node)
	}
	slack := s.slack(r, u, p)
	s.broken = s.broken || slack < 0
	if slack <= 0 {
		s.join(e.Node, e.Arc, u)
	} else if source && slack < far/2 {
		if !s.leadsOut(e.Node) {
			e.Arc = ^e.Arc
			f.shut++
		}
		s.plan(slack, e.Arc, e.Node)
	}
}

// leadsOut tells whether source v has another node to go on to than those inside, whose prices
// keep their distance from its own.
func (s *Solver) leadsOut(v int32) bool {
	return slices.ContainsFunc(s.net.Out(flowgraph.NodeID(v)), func(ref flowgraph.Ref) bool {
		a := int32(ref.Arc)
		return s.forest.stems[ref.Node].place == outside && (s.forest.dir > 0 && s.hasRoom(a) || s.forest.dir < 0 && s.hasLoad(a))
	})
}

// slack is the reduced cost of r from node u inside to its other end, of price p.
func (s *Solver) slack(r *arc, u int32, p int64) int64 {
	c := r.cost
	if r.tail != u {
		c = -c
	}
	return s.forest.dir * (c - s.at(u) + p)
}

// bears is how much can go over a from its other end to v, or from v if the
// forest grows backward.
func (s *Solver) bears(a, v int32) int64 {
	if (s.arc(a).head == v) == (s.forest.dir > 0) {
		return s.room(a)
	}
	return s.load(a)
}

// leaveBy sends what it can out of the forest.
func (s *Solver) leaveBy(e radixheap.Item) {
	f := &s.forest
	if e.Node != s.ground {
		for f.units > 0 && f.stems[e.Node].place != outside && s.excess[e.Node]*f.dir < 0 {
			s.augment(e.Node, none)
		}
		return
	}
	r := s.arc(e.Arc)
	v := r.tail + r.head - s.ground
	sent := false
	for f.units > 0 && f.stems[v].place != outside && s.bears(e.Arc, s.ground) > 0 && s.slack(r, v, 0) <= 0 {
		s.augment(v, e.Arc)
		sent = true
	}
	if sent && f.stems[v].place != outside && s.kinds[v] != isSource {
		s.offerExit(v)
	}
}

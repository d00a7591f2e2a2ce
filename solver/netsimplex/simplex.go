package netsimplex

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// state is where an arc stands, and what bounds it has.
type state uint8

// Where an arc stands.
const (
	inTree state = iota
	atLower
	atUpper
	whereMask = 3
)

// What bounds it has. Those of most arcs are among the few that two bits tell.
const (
	noArc       state = iota << 2 // stands as if in the tree
	upToOne                       // [0, 1]
	upToAny                       // [0, Infinite]
	otherBounds                   // those in base.bounds
)

var usualBounds = [...]bound{noArc >> 2: {upper: -1}, upToOne >> 2: {upper: 1}, upToAny >> 2: {upper: flowgraph.Infinite}}

func (s state) where() state { return s & whereMask }

func (s state) kind() state { return s &^ whereMask }

const none = int32(-1)

// cost is what holds the price of an arc: 32 bits where all prices fit, so that more arcs lie in a cache
// line, else 64.
type cost interface{ int32 | int64 }

// priced is what pricing reads of an arc. An arc at its upper bound stands here the other way round. So arcs
// that would gain have a negative reduced cost, and those of the tree have none.
type priced[C cost] struct {
	cost       C
	tail, head int32
}

// bound is the rest of an arc. Its flow outside the tree is one of the two, as
// its state tells; in the tree, the node below keeps it.
type bound struct {
	lower, upper int64 // upper < 0: no arc here
}

func (b bound) width() int64 { return b.upper - b.lower }

// node is a node of the tree. Its arc to the parent is the one in slot pred, or the artificial one if pred is
// none. It is half a cache line, and all that the walk around a cycle reads.
type node struct {
	parent, pred int32
	size         int32 // nodes in the subtree; 0: no node here
	last         int32 // last of the subtree in preorder
	// How much more can run over the arc to the parent, towards it and away from it; Infinite stays that. If
	// the arc leads up, down is its flow above the lower bound.
	up, down int64
}

// simplex is a network simplex with costs of one width.
type simplex[C cost] struct {
	base
	slots []priced[C] // by slot, which is an arc's place in the mixed order
}

// base is what a simplex holds besides costs of arcs.
type base struct {
	net *flowgraph.Network
	seq flowgraph.Seq

	// By slot.
	state  []state
	bounds []bound // of arcs with otherBounds; perhaps shorter than state
	// lowered: there has been an arc with a lower bound. Else arcs at their lower bound carry nothing.
	lowered bool
	arcOf   []int32
	known   []int64 // flow of the last optimal result but the first; −1: to be listed
	slotOf  []int32 // by ArcID, or none

	placeOf []int32            // by NodeID: where the node stands in the lists that follow
	idAt    []flowgraph.NodeID // its inverse
	nodes   []node             // the root is behind all others
	back    []int32            // previous in preorder
	// thread is the next node in preorder. It and pi are all that moving a
	// subtree's potentials reads. Potentials may wrap around: only differences count.
	thread []int32
	pi     []int64
	need   []int64 // scratch: what a subtree lacks
	root   int32
	busy   bool // a budget ran out on the way
	pivots int  // since the nodes were last renumbered

	penalty int64
	former  int64       // penalty of the potentials as they are
	found   []candidate // entering arcs found before
	opening []int32     // slots of arcs that enter first, see open
	effort  int64       // nodes that pivots walked over and moved since last counted
	walked  int64       // and since the network last changed
	usual   int64       // recent times the average effort of a recent pivot
	scan    int         // slot where block search goes on
	stem    []link
	child   []int32 // scratch: first child, next sibling
	sibling []int32
	spare   []node // scratch

	changed  []flowgraph.ArcID
	answered bool // there has been an optimal result
}

// widen returns a simplex in the same state with costs of 64 bits.
func widen(s *simplex[int32]) *simplex[int64] {
	w := &simplex[int64]{base: s.base}
	for _, x := range s.slots {
		w.slots = append(w.slots, priced[int64]{int64(x.cost), x.tail, x.head})
	}
	return w
}

func (s *simplex[C]) solve(budget solver.Budget) (r solver.Result) {
	if _, seq, _ := s.net.Changes(s.seq); seq != s.seq || !s.busy {
		r.Work.Touched = s.takeIn(nil)
	}
	r.Status = s.run(budget, &r.Work)
	s.busy = r.Status == solver.BudgetSpent
	switch r.Status {
	case solver.Unbounded:
		r.Status = s.unboundedOrInfeasible()
	case solver.Optimal:
		var fits bool
		if r.Objective, fits = s.finish(); !fits {
			r.Status = solver.CostRange
		}
		if len(s.slots) > roomy*s.net.NumArcs()+someSlots {
			s.compact()
		}
	}
	return r
}

func (s *simplex[C]) Flow(a flowgraph.ArcID) int64 {
	slot := s.slotOf[a]
	switch {
	case slot < 0: // there was no such arc
		return 0
	case s.known == nil:
		return s.flow(slot)
	}
	return s.known[slot]
}

func (s *simplex[C]) Potential(v flowgraph.NodeID) flowgraph.Cost {
	return flowgraph.Cost(s.pi[s.placeOf[v]] - s.pi[s.root])
}

func (s *simplex[C]) Changed() []flowgraph.ArcID { return s.changed }

func (s *simplex[C]) Walked() int64 { return s.walked }

func (s *simplex[C]) Gaining() (count int) {
	for i := range s.slots {
		if s.slots[i].reduced(s.pi) < 0 {
			count++
		}
	}
	return count
}

func (s *simplex[C]) run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		slot := s.price(w)
		if slot == none {
			break
		}
		if !s.pivot(slot) {
			return solver.Unbounded
		}
		w.Steps++
		w.Units += s.effort
		s.walked += s.effort
		s.usual += s.effort - s.usual/recent
		s.effort = 0
		if s.pivots++; s.pivots > max(len(s.nodes)/2, len(s.slots)/manySlots, fewPivots) {
			w.Units += s.renumber()
		}
		if budget.Spent(w.Units) {
			return solver.BudgetSpent
		}
	}
	for v := range s.root {
		if t := &s.nodes[v]; t.size > 0 && t.pred == none && min(t.up, t.down) != 0 {
			return solver.Infeasible
		}
	}
	return solver.Optimal
}

// unboundedOrInfeasible decides what a free negative cycle means: without any
// feasible flow the problem is infeasible. Prices do not matter for that.
func (s *simplex[C]) unboundedOrInfeasible() solver.Status {
	free := &simplex[C]{base: base{net: s.net}}
	free.takeIn(nil)
	for i := range free.slots {
		free.slots[i].cost = 0
	}
	free.reprice()
	var w solver.Work
	s.abandon()
	if free.run(solver.Budget{}, &w) == solver.Infeasible {
		return solver.Infeasible
	}
	return solver.Unbounded
}

// abandon goes back to a basis of artificial arcs: the present one is half way
// along a ray.
func (s *simplex[C]) abandon() {
	for v := range s.root {
		if s.nodes[v].size > 0 {
			s.nodes[v].parent, s.nodes[v].pred = s.root, none
		}
	}
	for i, state := range s.state {
		if state.kind() != noArc && state.where() != atLower {
			s.put(int32(i), atLower)
		}
	}
}

// finish lists what changed and returns the objective.
func (s *simplex[C]) finish() (int64, bool) {
	var sum flowgraph.Int128
	s.changed = s.changed[:0]
	few := s.known == nil && !s.lowered // hardly any arc is to be looked at
	for i, state := range s.state {
		if few && state.where() == atLower {
			continue
		}
		flow := int64(0)
		if state.where() != atLower || s.lowered {
			flow = s.flow(int32(i))
		}
		if flow != 0 {
			cost := int64(s.slots[i].cost)
			if state.where() == atUpper {
				cost = -cost
			}
			sum.AddMul(cost, flow)
		}
		switch {
		case s.known == nil && flow == 0:
		case s.known == nil:
			s.changed = append(s.changed, flowgraph.ArcID(s.arcOf[i]))
		case flow != s.known[i]:
			if s.known[i] = flow; state.kind() != noArc {
				s.changed = append(s.changed, flowgraph.ArcID(s.arcOf[i]))
			}
		}
	}
	total, fits := sum.Int64()
	if s.answered = s.answered || fits; !fits && s.known != nil {
		// Nobody will read the list: each of its arcs is to be listed next time.
		for _, a := range s.changed {
			s.known[s.slotOf[a]] = -1
		}
	}
	return total, fits
}

// remember keeps the flow of the first result, if there was one, before it changes.
// Most solvers are asked once and need no copy.
func (s *simplex[C]) remember() {
	s.known = make([]int64, len(s.slots))
	for i := range s.known {
		if s.answered {
			s.known[i] = s.flow(int32(i))
		}
	}
}

// put moves the arc in slot to a bound or into the tree.
func (s *simplex[C]) put(slot int32, where state) {
	was := s.state[slot]
	if (was.where() == atUpper) != (where == atUpper) {
		x := &s.slots[slot]
		x.tail, x.head, x.cost = x.head, x.tail, -x.cost
	}
	s.state[slot] = was.kind() | where
}

// hang makes the arc in slot the one from v to its parent, either way round.
func (s *simplex[C]) hang(v, parent, slot int32) {
	s.nodes[v].parent, s.nodes[v].pred = parent, slot
	s.put(slot, inTree)
}

// bind gives the arc in slot its bounds. It stands at the lower one.
func (s *base) bind(slot int32, b flowgraph.Bounds) {
	s.lowered = s.lowered || b.Lower > 0
	kind := kindOf(b)
	if kind == otherBounds {
		s.bounds = grow(s.bounds, len(s.state))
		s.bounds[slot] = bound{b.Lower, b.Upper}
	}
	s.state[slot] = kind | atLower
}

// kindOf returns the kind of the bounds, without a branch: which it is cannot be foreseen. (There are no
// conditional moves of bytes.)
func kindOf(b flowgraph.Bounds) state {
	kind := int64(otherBounds)
	if b.Lower|(b.Upper-1) == 0 {
		kind = int64(upToOne)
	}
	if b.Lower|(b.Upper^flowgraph.Infinite) == 0 {
		kind = int64(upToAny)
	}
	return state(kind)
}

// bound returns the bounds of the arc in slot.
func (s *base) bound(slot int32) bound {
	if kind := s.state[slot].kind(); kind != otherBounds {
		return usualBounds[kind>>2]
	}
	return s.bounds[slot]
}

// flow returns the flow on the arc in slot.
func (s *simplex[C]) flow(slot int32) int64 {
	b := s.bound(slot)
	switch s.state[slot].where() {
	case atLower:
		return b.lower
	case atUpper:
		return b.upper
	}
	if b.upper < 0 {
		return 0
	}
	x := &s.slots[slot]
	if t := &s.nodes[x.tail]; t.pred == slot {
		return b.lower + t.down
	}
	return b.lower + s.nodes[x.head].up
}

func grow[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}

package netsimplex

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// takeIn brings the copy up to date and makes a strongly feasible basis of what is left of the last one. On
// the first call it makes it of a guess if there is one, else of short paths, or of artificial arcs alone. It
// returns how many nodes and arcs it compared.
func (s *simplex[C]) takeIn(guess solver.Solution) int64 {
	n := s.net
	touched, next, complete := n.Changes(s.seq)
	cold := s.seq == 0
	s.seq = next
	s.found, s.opening, s.usual, s.walked = s.found[:0], nil, 0, 0
	if cold {
		s.answered = false // or only of a network without a node: it has no flow
	} else if s.known == nil {
		s.remember()
	}
	s.penalty = 1 << (solver.PotentialBits(n) + 1)
	s.growNodes()
	was := len(s.slotOf)
	s.slotOf = grow(s.slotOf, n.ArcBound())
	for a := was; a < len(s.slotOf); a++ {
		s.slotOf[a] = none
	}
	count := int64(len(touched))
	switch {
	case cold:
		s.mix()
		count = int64(n.NodeBound() + n.ArcBound())
	case complete:
		for _, c := range touched {
			if a, ok := c.Arc(); ok {
				s.compare(int32(a))
			}
		}
	default:
		for a := range s.slotOf {
			s.compare(int32(a))
		}
		count = int64(n.NodeBound() + n.ArcBound())
	}
	s.compareNodes()
	end := none
	switch {
	case cold && guess != nil:
		s.follow(guess)
	case cold:
		if end = s.crash(); end == none {
			s.open()
		}
	}
	s.rebuild()
	left := s.balance()
	if end != none && s.crowded() {
		s.abandon()
		if s.net.NegativeArcs() == 0 && !s.layered() { // tasks would all wait
			s.byWidth(end)
		}
		s.rebuild()
		left = s.balance()
	}
	if left {
		s.rebuild()
	}
	s.reprice()
	return count
}

// growNodes makes room for new nodes; the root moves behind them.
func (s *simplex[C]) growNodes() {
	was, bound := s.root, int32(s.net.NodeBound())
	if bound == was && len(s.nodes) > 0 {
		return
	}
	s.nodes = grow(s.nodes, int(bound)+1)
	s.back = grow(s.back, int(bound)+1)
	s.thread = grow(s.thread, int(bound)+1)
	s.pi = grow(s.pi, int(bound)+1)
	s.need = grow(s.need, int(bound)+1)
	s.child = grow(s.child, int(bound)+1)
	s.sibling = grow(s.sibling, int(bound)+1)
	for v := range was {
		if s.nodes[v].parent == was {
			s.nodes[v].parent = bound
		}
	}
	s.nodes[was] = node{}
	for v := was; v < bound; v++ {
		s.placeOf, s.idAt = append(s.placeOf, v), append(s.idAt, flowgraph.NodeID(v))
	}
	s.root = bound
	s.nodes[bound] = node{parent: none, pred: none, size: 1}
}

// golden is 2⁶⁴ over the golden ratio.
const golden = 0x9E3779B97F4A7C15

// mix takes in all arcs. Arcs side by side in a block of pricing are to be far apart by number, and so of
// many nodes. So the arcs by number are the rows of a square, and blocks are of its columns. mix reads the
// arcs as they lie in memory. Each row begins at a column of its own (Fibonacci hashing, Knuth, The Art of
// Computer Programming, vol. 3, §6.4). Else, where nodes have as many arcs as a row, or half as many, a
// column would be one diagonal from node to node: a block would have one arc of each node, to the neighbour
// of where the last one's leads.
func (s *simplex[C]) mix() {
	n, m, slotOf, least := s.net, s.net.NumArcs(), s.slotOf, int64(0)
	slots, state, bounds, arcOf := make([]priced[C], m), make([]int8, m), make([]bound, m), make([]int32, m)
	s.slots, s.state, s.bounds, s.arcOf = slots, state, bounds, arcOf
	stride := max(10, int(math.Sqrt(float64(m))))
	column, longer := m/stride, m%stride
	row, j, left := -1, 0, 0
	for a := range slotOf {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			continue
		}
		if left == 0 {
			row, j, left = row+1, 0, stride
			if row < column {
				j = int(uint64(row) * golden >> 20 % uint64(stride))
			}
		}
		slot := j*column + min(j, longer) + row
		slotOf[a], arcOf[slot] = int32(slot), int32(a)
		slots[slot] = priced[C]{cost: C(d.Cost), tail: int32(d.Tail), head: int32(d.Head)}
		bounds[slot], state[slot] = bound{d.Lower, d.Upper}, atLower
		least |= d.Lower
		left--
		if j++; j == stride {
			j = 0
		}
	}
	s.lowered = least > 0
}

// set puts an arc into a slot.
func (s *simplex[C]) set(slot int32, d flowgraph.Arc) {
	s.lowered = s.lowered || d.Lower > 0
	if d.Tail < 0 {
		s.slots[slot], s.bounds[slot], s.state[slot] = priced[C]{}, bound{upper: -1}, inTree
		return
	}
	s.slots[slot] = priced[C]{cost: C(d.Cost), tail: s.placeOf[d.Tail], head: s.placeOf[d.Head]}
	s.bounds[slot], s.state[slot] = bound{d.Lower, d.Upper}, atLower
}

// compare takes in one arc. An arc that is gone leaves its slot to the next one with its id.
func (s *simplex[C]) compare(a int32) {
	d := s.net.Arc(flowgraph.ArcID(a))
	slot := s.slotOf[a]
	if slot == none {
		if d.Tail < 0 {
			return
		}
		slot = int32(len(s.slots))
		s.slots = append(s.slots, priced[C]{})
		s.bounds = append(s.bounds, bound{upper: -1})
		s.state = append(s.state, inTree)
		s.arcOf = append(s.arcOf, a)
		s.known = append(s.known, 0)
		s.slotOf[a] = slot
	}
	if s.known[slot] != 0 {
		s.known[slot] = -1 // it may be another arc of that id: list it
	}
	if s.bounds[slot].upper >= 0 {
		x, state := &s.slots[slot], s.state[slot]
		s.put(slot, atLower)
		if d.Tail >= 0 && s.placeOf[d.Tail] == x.tail && s.placeOf[d.Head] == x.head {
			if state == atUpper && d.Upper > s.bounds[slot].upper && d.Upper >= solver.Plenty {
				state = atLower // not to be full of that
			}
			x.cost, s.bounds[slot] = C(d.Cost), bound{d.Lower, d.Upper}
			s.lowered = s.lowered || d.Lower > 0
			s.put(slot, state)
			return
		}
		for _, v := range [2]int32{x.tail, x.head} {
			if t := &s.nodes[v]; t.pred == slot && t.size > 0 {
				t.pred, t.parent = none, s.root
			}
		}
	}
	s.set(slot, d)
}

// Slots of arcs that are gone are given up when there are more than roomy for each arc, besides someSlots.
// Variables for tests only.
var roomy, someSlots = 4, 4096

// compact gives up the slots of arcs that are gone; none of them may be known to have flow. Else, after a
// network was much larger, all that reads slots would take as long as then. O(slots).
func (s *simplex[C]) compact() {
	to, k := make([]int32, len(s.slots)), int32(0)
	for slot := range s.slots {
		a := s.arcOf[slot]
		if s.bounds[slot].upper < 0 {
			s.slotOf[a] = none
			continue
		}
		s.slots[k], s.state[k], s.bounds[k], s.arcOf[k] = s.slots[slot], s.state[slot], s.bounds[slot], a
		if s.known != nil {
			s.known[k] = s.known[slot]
		}
		s.slotOf[a], to[slot] = k, k
		k++
	}
	s.slots, s.state, s.bounds, s.arcOf = slices.Clone(s.slots[:k]), slices.Clone(s.state[:k]), slices.Clone(s.bounds[:k]), slices.Clone(s.arcOf[:k])
	if s.known != nil {
		s.known = slices.Clone(s.known[:k])
	}
	for v := range s.nodes {
		if t := &s.nodes[v]; t.pred != none && t.size > 0 {
			t.pred = to[t.pred]
		}
	}
	s.found, s.opening, s.scan = s.found[:0], nil, 0
}

// compareNodes takes in which nodes there are. Nothing hangs on a node that is gone, since all its arcs are
// forgotten.
func (s *simplex[C]) compareNodes() {
	for v := range s.root {
		t := &s.nodes[v]
		switch alive := s.net.NodeAlive(s.idAt[v]); {
		case alive && t.size == 0:
			*t = node{parent: s.root, pred: none, size: 1}
		case !alive:
			*t = node{}
		}
	}
}

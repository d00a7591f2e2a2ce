package netsimplex

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/parts"
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
//
// Rows are taken in by two processors, unless ids in between are free, so that only counting tells the row of
// an arc.
func (s *simplex[C]) mix() {
	m := s.net.NumArcs()
	s.slots, s.state, s.bounds, s.arcOf = make([]priced[C], m), make([]state, m), nil, make([]int32, m)
	stride := max(10, int(math.Sqrt(float64(m))))
	column, longer := m/stride, m%stride
	size := m
	if m == s.net.ArcBound() {
		size = max(1, part/stride) * stride
	}
	var lowered atomic.Bool
	allBounds := sync.OnceValue(func() []bound {
		s.bounds = make([]bound, m)
		return s.bounds
	})
	parts.Do(m, size, func(from, to int) {
		n, slots, states, slotOf, arcOf := s.net, s.slots, s.state, s.slotOf, s.arcOf
		row, j, left, least := from/stride-1, 0, 0, int64(0)
		var bounds []bound
		for a, k := from, to-from; k > 0; a++ {
			d := n.Arc(flowgraph.ArcID(a))
			if d.Tail < 0 {
				continue
			}
			k--
			if left == 0 {
				row, j, left = row+1, 0, stride
				if row < column {
					j = int(uint64(row) * golden >> 20 % uint64(stride))
				}
			}
			slot := j*column + min(j, longer) + row
			slotOf[a], arcOf[slot] = int32(slot), int32(a)
			slots[slot] = priced[C]{cost: C(d.Cost), tail: int32(d.Tail), head: int32(d.Head)}
			kind := kindOf(d.Bounds)
			states[slot] = kind | atLower
			if bounds == nil && kind == otherBounds {
				bounds = allBounds()
			}
			if bounds != nil { // also of others, as this can be foreseen
				bounds[slot] = bound{d.Lower, d.Upper}
				least |= d.Lower
			}
			left--
			if j++; j == stride {
				j = 0
			}
		}
		if least > 0 {
			lowered.Store(true)
		}
	})
	s.lowered = lowered.Load()
}

// part is how many arcs are taken in at a time, or the next fewer that are whole rows: so many that it does
// not matter when the other processor begins. A variable for tests only.
var part = 1 << 16

// set puts an arc into a slot.
func (s *simplex[C]) set(slot int32, d flowgraph.Arc) {
	if d.Tail < 0 {
		s.slots[slot], s.state[slot] = priced[C]{}, noArc
		return
	}
	s.slots[slot] = priced[C]{cost: C(d.Cost), tail: s.placeOf[d.Tail], head: s.placeOf[d.Head]}
	s.bind(slot, d.Bounds)
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
		s.state = append(s.state, noArc)
		s.arcOf = append(s.arcOf, a)
		s.known = append(s.known, 0)
		s.slotOf[a] = slot
	}
	if s.known[slot] != 0 {
		s.known[slot] = -1 // it may be another arc of that id: list it
	}
	if was := s.state[slot]; was.kind() != noArc {
		x, where := &s.slots[slot], was.where()
		s.put(slot, atLower)
		if d.Tail >= 0 && s.placeOf[d.Tail] == x.tail && s.placeOf[d.Head] == x.head {
			if where == atUpper && d.Upper > s.bound(slot).upper && d.Upper >= solver.Plenty {
				where = atLower // not to be full of that
			}
			x.cost = C(d.Cost)
			s.bind(slot, d.Bounds)
			s.put(slot, where)
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
		if s.state[slot].kind() == noArc {
			s.slotOf[a] = none
			continue
		}
		s.slots[k], s.state[k], s.arcOf[k] = s.slots[slot], s.state[slot], a
		if s.state[slot].kind() == otherBounds {
			s.bounds[k] = s.bounds[slot]
		}
		if s.known != nil {
			s.known[k] = s.known[slot]
		}
		s.slotOf[a], to[slot] = k, k
		k++
	}
	s.slots, s.state, s.arcOf = slices.Clone(s.slots[:k]), slices.Clone(s.state[:k]), slices.Clone(s.arcOf[:k])
	s.bounds = slices.Clone(s.bounds[:min(int(k), len(s.bounds))])
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

package netsimplex

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// takeIn brings the copy up to date and makes a strongly feasible basis of what
// is left of the last one; on the first call, of artificial arcs alone. It
// returns how many nodes and arcs it compared.
func (s *Solver) takeIn() int64 {
	n := s.net
	touched, next, complete := n.Changes(s.seq)
	cold := s.seq == 0
	s.seq = next
	s.penalty = 1 << (solver.PotentialBits(n) + 1)
	s.growNodes()
	s.arcs = grow(s.arcs, n.ArcBound())
	if cold {
		s.mix()
	}
	count := int64(len(touched))
	if complete && !cold {
		for _, c := range touched {
			if a, ok := c.Arc(); ok {
				s.compare(int32(a))
			}
		}
	} else {
		for a := range s.arcs {
			s.compare(int32(a))
		}
		count = int64(n.NodeBound() + n.ArcBound())
	}
	s.compareNodes()
	s.rebuild()
	s.balance()
	s.rebuild()
	s.reprice()
	return count
}

// growNodes makes room for new nodes; the root moves behind them.
func (s *Solver) growNodes() {
	was, bound := s.root, int32(s.net.NodeBound())
	if bound == was && len(s.nodes) > 0 {
		return
	}
	s.nodes = grow(s.nodes, int(bound)+1)
	s.thread = grow(s.thread, int(bound)+1)
	s.pi = grow(s.pi, int(bound)+1)
	s.spare = grow(s.spare, int(bound)+1)
	s.need = grow(s.need, int(bound)+1)
	s.child = grow(s.child, int(bound)+1)
	s.sibling = grow(s.sibling, int(bound)+1)
	for v := range was {
		if s.nodes[v].parent == was {
			s.nodes[v].parent = bound
		}
	}
	s.nodes[was] = node{}
	s.root = bound
	s.nodes[bound] = node{parent: none, pred: none}
}

// mix gives arcs their slots in strides, so that a block of pricing sees arcs of
// many nodes.
func (s *Solver) mix() {
	m := len(s.arcs)
	s.slots = grow(s.slots, m)
	s.state = grow(s.state, m)
	stride := max(10, int(math.Sqrt(float64(m))))
	slot := int32(0)
	for start := range min(stride, m) {
		for a := start; a < m; a += stride {
			s.arcs[a].slot = slot
			s.slots[slot].arc = int32(a)
			slot++
		}
	}
}

// compare takes in one arc.
func (s *Solver) compare(a int32) {
	d := s.net.Arc(flowgraph.ArcID(a))
	r := &s.arcs[a]
	if int(a) < len(s.old) && s.old[a] != 0 {
		s.old[a] = -1 // it may be another arc of that id: list it
	}
	if r.here {
		x := &s.slots[r.slot]
		if int32(d.Tail) == x.tail && int32(d.Head) == x.head {
			x.cost, r.lower, r.upper = int64(d.Cost), d.Lower, d.Upper
			return
		}
		s.forget(a)
	}
	if d.Tail < 0 {
		return
	}
	if int(r.slot) >= len(s.slots) || s.slots[r.slot].arc != a {
		r.slot = s.slotFor()
	}
	*r = carried{lower: d.Lower, upper: d.Upper, flow: d.Lower, slot: r.slot, here: true}
	s.slots[r.slot] = priced{cost: int64(d.Cost), tail: int32(d.Tail), head: int32(d.Head), arc: a}
	s.state[r.slot] = atLower
}

// slotFor returns a slot for an arc whose id is new.
func (s *Solver) slotFor() int32 {
	s.slots = append(s.slots, priced{})
	s.state = append(s.state, inTree)
	return int32(len(s.slots) - 1)
}

// forget takes out an arc that is gone. It keeps its slot for the next of its id.
func (s *Solver) forget(a int32) {
	r := &s.arcs[a]
	x := &s.slots[r.slot]
	for _, v := range [2]int32{x.tail, x.head} {
		if s.nodes[v].here && s.nodes[v].pred == a {
			s.nodes[v].pred, s.nodes[v].parent = none, s.root
		}
	}
	s.state[r.slot] = inTree
	*x = priced{arc: a}
	*r = carried{slot: r.slot}
}

// compareNodes takes in which nodes there are. All arcs of a node that is gone
// are forgotten, so nothing hangs on it.
func (s *Solver) compareNodes() {
	for v := range s.root {
		t := &s.nodes[v]
		switch alive := s.net.NodeAlive(flowgraph.NodeID(v)); {
		case alive && !t.here:
			*t = node{parent: s.root, pred: none, here: true}
		case !alive:
			*t = node{}
		}
	}
}

// rebuild makes thread, sizes and last descendants from the parents.
func (s *Solver) rebuild() {
	for v := range s.child {
		s.child[v] = none
	}
	for v := s.root - 1; v >= 0; v-- {
		if t := &s.nodes[v]; t.here {
			s.sibling[v] = s.child[t.parent]
			s.child[t.parent] = v
		}
	}
	prev := s.root
	for v := s.child[s.root]; v != none; {
		s.thread[prev], s.nodes[v].back = v, prev
		prev = v
		if s.child[v] != none {
			v = s.child[v]
			continue
		}
		for v != s.root && s.sibling[v] == none {
			v = s.nodes[v].parent
		}
		if v == s.root {
			break
		}
		v = s.sibling[v]
	}
	s.thread[prev], s.nodes[s.root].back = s.root, prev
	for v := s.root; ; v = s.thread[v] {
		s.nodes[v].size, s.nodes[v].last = 1, v
		if v == prev {
			break
		}
	}
	for v := prev; v != s.root; v = s.nodes[v].back {
		t := &s.nodes[v]
		p := &s.nodes[t.parent]
		p.size += t.size
		// Children come last to first: the first to arrive ends the parent.
		if p.last == t.parent {
			p.last = t.last
		}
	}
}

// balance computes the flow on the tree, from the leaves up. Where it breaks a
// bound, or leaves no way to send more towards the root, the arc leaves at
// the bound, and an artificial one carries the rest.
func (s *Solver) balance() {
	for v := range s.root {
		s.need[v], s.spare[v] = 0, 0
		if s.nodes[v].here {
			s.need[v] = s.net.Supply(flowgraph.NodeID(v))
		}
	}
	s.need[s.root] = 0
	for i := range s.slots {
		if s.state[i] == inTree {
			continue
		}
		x := &s.slots[i]
		r := &s.arcs[x.arc]
		if s.state[i] == atUpper && r.upper == flowgraph.Infinite {
			s.state[i] = atLower
		}
		if r.flow = r.lower; s.state[i] == atUpper {
			r.flow = r.upper
		}
		s.need[x.tail] -= r.flow
		s.need[x.head] += r.flow
	}
	for v := s.nodes[s.root].back; v != s.root; v = s.nodes[v].back {
		s.carry(v)
	}
}

func (s *Solver) carry(v int32) {
	t := &s.nodes[v]
	need := s.need[v]
	if t.pred != none {
		r := &s.arcs[t.pred]
		sign := int64(1)
		if !t.up {
			sign = -1
		}
		r.flow = min(max(sign*need, r.lower), r.upper)
		fits := r.flow == sign*need && (t.up && r.flow < r.upper || !t.up && r.flow > r.lower)
		s.need[t.parent] += sign * r.flow
		if fits {
			return
		}
		s.retire(v)
		need -= sign * r.flow
		t.pred, t.parent = none, s.root
	}
	t.up = need >= 0
	s.spare[v] = max(need, -need)
}

// reprice computes potentials from the root down.
func (s *Solver) reprice() {
	s.pi[s.root] = 0
	for v := s.thread[s.root]; v != s.root; v = s.thread[v] {
		t := &s.nodes[v]
		cost := s.penalty
		if t.pred != none {
			cost = s.slots[s.arcs[t.pred].slot].cost
		}
		if s.pi[v] = s.pi[t.parent] + cost; t.up {
			s.pi[v] = s.pi[t.parent] - cost
		}
	}
}

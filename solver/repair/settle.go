package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// settle makes every arc between nodes agree with prices. Flow that can be put right is. Prices move where an
// arc has no upper bound or [solver.Plenty] of room. It returns false if that does not end, as on a free
// negative cycle.
func (s *Solver) settle() bool {
	s.reprice = 0
	limit := 64 + 8*len(s.kinds)
	for len(s.todo) > 0 || len(s.suspect.list) > 0 {
		for len(s.todo) > 0 {
			a := s.todo[len(s.todo)-1]
			s.todo = s.todo[:len(s.todo)-1]
			s.agree(a)
		}
		if k := len(s.suspect.list); k > 0 {
			v := s.suspect.list[k-1]
			s.suspect.list = s.suspect.list[:k-1]
			s.suspect.on[v] = false
			s.suspectAround(v)
		}
		if s.reprice > limit {
			return false
		}
	}
	return true
}

func (s *Solver) suspectAround(v int32) {
	out, in := s.net.Out(flowgraph.NodeID(v)), s.net.In(flowgraph.NodeID(v))
	s.work.Units += int64(len(out) + len(in))
	for _, ref := range out {
		s.suspectArc(int32(ref.Arc))
	}
	for _, ref := range in {
		if s.kinds[ref.Node] == isSource {
			s.lookAgain(int32(ref.Node))
		} else {
			s.suspectArc(int32(ref.Arc))
		}
	}
}

// agree makes one arc agree with the prices of its ends.
func (s *Solver) agree(a int32) {
	r := &s.arcs[a]
	if !s.recorded.has(a) || s.kinds[r.tail] < isCore {
		return
	}
	reduced := r.cost - s.price[r.tail] + s.price[r.head]
	switch {
	case reduced > 0 && r.flow > r.lower:
		s.force(a, r.lower-r.flow)
	case reduced >= 0 || r.flow >= r.upper:
	case r.tail == r.head && r.upper == flowgraph.Infinite:
		s.reprice = int(far) // a free negative loop
	case r.tail == r.head || r.upper-r.flow < solver.Plenty:
		s.force(a, r.upper-r.flow)
	case r.tail == s.ground || r.head != s.ground && s.raisable(r.head):
		// What lies behind is dearer than it was: a new host, say. Its free
		// capacity then is lacking, and is offered to who would pay.
		s.raised[r.head] = s.batch
		s.setPrice(r.head, s.price[r.tail]-r.cost)
	default:
		s.setPrice(r.tail, r.cost+s.price[r.head])
	}
}

// raisable tells whether to raise v rather than lower the nodes that point at it: once a batch, and not if v
// has free passage to the ground.
func (s *Solver) raisable(v int32) bool {
	if s.raised[v] == s.batch {
		return false
	}
	return !s.passable.has(v)
}

func (s *Solver) setPrice(v int32, p int64) {
	if v == s.ground {
		s.reprice = int(far)
		return
	}
	s.price[v] = p
	s.watch(p)
	s.reprice++
	s.suspect.add(v)
}

// watch notes a price that is tall.
func (s *Solver) watch(p int64) { s.drifted = s.drifted || p > tall || p < -tall }

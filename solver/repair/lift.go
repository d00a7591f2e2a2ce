package repair

import "github.com/sluice-scheduler/sluice/flowgraph"

// shortage is how many nodes there may be for each unit that finds no place if all
// prices are to be lifted at once.
const shortage = 32

// mostLift keeps prices far below far: nodes that no search comes by keep what they were
// lifted by.
const mostLift = far / 8

// lift raises the prices of all places at once where many more units came than there
// is room for: by so much that as many units would rather wait. Unit by unit, each
// would search through places that all get dearer by the same. It is a guess, which
// searches then put right; what no longer agrees with prices is withdrawn. False if
// prices do not settle. O(nodes + arcs) if there is anything to do.
func (s *Solver) lift() bool {
	missing := s.missing()
	if missing <= 0 || missing*shortage < int64(s.cores) {
		return true
	}
	by := s.level(missing)
	if by <= 0 {
		return true
	}
	s.courts.forget()
	for v, k := range s.kinds {
		if k < isCore || int32(v) == s.ground {
			continue
		}
		for _, a := range s.nodes[v].in {
			s.suspectArc(a)
		}
		if s.passable(int32(v)) || s.price[v] > mostLift {
			continue
		}
		s.price[v] += by
		for _, b := range s.hubs {
			b.lower(s, int32(v))
		}
	}
	for _, a := range s.nodes[s.ground].in {
		s.suspectArc(a)
	}
	if !s.settle() {
		return false
	}
	for v, k := range s.kinds {
		if k == isSource {
			s.compare(int32(v))
		}
	}
	s.dirty.clear()
	return true
}

// missing is how many more units sources have to place than nodes lack or can pass
// on to the ground within bounds.
func (s *Solver) missing() int64 {
	var units int64
	for _, v := range s.pending.list {
		if v != s.ground {
			units += s.excess[v]
		}
	}
	if units*shortage < int64(s.cores) {
		return units
	}
	for _, ref := range s.net.In(flowgraph.NodeID(s.ground)) {
		if r := &s.arcs[ref.Arc]; r.upper != flowgraph.Infinite && s.kinds[r.tail] >= isCore {
			units -= r.upper - r.flow
		}
	}
	return units
}

// level is by how much places must get dearer for so many units to wait.
func (s *Solver) level(units int64) int64 {
	s.queue = s.queue[:0]
	for v, k := range s.kinds {
		if k == isSource {
			s.offers(int32(v))
		}
	}
	s.work.Units += int64(s.net.NumArcs())
	low, high := int64(0), int64(1)
	for s.waiters(high) < units {
		if low, high = high, 2*high; high > mostLift {
			return 0
		}
	}
	for high-low > 1 {
		if by := (low + high) / 2; s.waiters(by) < units {
			low = by
		} else {
			high = by
		}
	}
	return low
}

// offers notes what waiting costs units of v beyond their places, and, of units that
// have none, beyond their cheapest.
func (s *Solver) offers(v int32) {
	out := s.net.Out(flowgraph.NodeID(v))
	wait, best := far, far
	for _, ref := range out {
		if s.hasRoom(int32(ref.Arc)) {
			value := int64(ref.Cost) + s.price[ref.Node]
			if w := int32(ref.Node); w == s.ground || s.passable(w) {
				wait = min(wait, value)
			} else {
				best = min(best, value)
			}
		}
	}
	if wait == far {
		return
	}
	if s.excess[v] > 0 {
		s.queue = append(s.queue, item{wait - best, ^v})
	}
	if s.payers[v].count == 0 {
		return
	}
	for _, ref := range out {
		if a, w := int32(ref.Arc), int32(ref.Node); s.hasLoad(a) && w != s.ground && !s.passable(w) {
			s.queue = append(s.queue, item{wait - int64(ref.Cost) - s.price[w], a})
		}
	}
}

// waiters is how many units wait if all places get so much dearer.
func (s *Solver) waiters(by int64) int64 {
	var units int64
	for _, x := range s.queue {
		switch {
		case x.key >= by:
		case x.node < 0:
			units += s.excess[^x.node]
		default:
			units += s.load(x.node)
		}
	}
	return units
}

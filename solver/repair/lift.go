package repair

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// shortage: all prices are lifted at once if there is a unit without a place for every so many nodes at
// least.
const shortage = 32

// mostLift keeps prices far below far: nodes that no search comes by keep what they were lifted by.
const mostLift = far / 8

// lift raises the prices of all places at once where many more units came than there is room for: by so much
// that as many units would rather wait. Unit by unit, each would search through places that all get dearer by
// the same. It is a guess, which searches then put right; what no longer agrees with prices is withdrawn. It
// returns false if prices do not settle. O(nodes + arcs) if there is anything to do.
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
		if s.passable.has(int32(v)) || s.price[v] > mostLift {
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
	s.dirty = s.dirty[:0]
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
	for _, a := range s.nodes[s.ground].in {
		if units <= 0 {
			break
		}
		if r := &s.arcs[a]; r.upper != flowgraph.Infinite {
			units -= r.upper - r.flow
		}
	}
	return units
}

// offer is some units, or room for them, at a value.
type offer struct{ value, units int64 }

// market is scratch to find out by how much places must get dearer.
type market struct {
	places, waits []offer // of one source, cheapest first
	gaps          []offer // of all: what waiting costs beyond a place, and for how many
	waiting       int64   // units that do
}

// level is by how much places must get dearer for so many units more to wait.
func (s *Solver) level(units int64) int64 {
	m := &s.market
	m.gaps, m.waiting = m.gaps[:0], 0
	for v, k := range s.kinds {
		if k == isSource {
			s.visit(int32(v))
		}
	}
	s.work.Units += int64(s.net.NumArcs())
	units += m.waiting
	low, high := int64(0), int64(1)
	for m.waiters(high) < units {
		if low, high = high, 2*high; high > mostLift {
			return 0
		}
	}
	for high-low > 1 {
		if by := (low + high) / 2; m.waiters(by) < units {
			low = by
		} else {
			high = by
		}
	}
	return low
}

// visit notes what waiting costs units of source v beyond their places. Those in the dearest of the places
// that it would take wait first.
func (s *Solver) visit(v int32) {
	m := &s.market
	m.places, m.waits = m.places[:0], m.waits[:0]
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		d, w := s.net.Arc(ref.Arc), int32(ref.Node)
		o := offer{int64(ref.Cost) + s.price[w], d.Upper - d.Lower}
		switch {
		case o.units == 0:
		case w == s.ground || s.passable.has(w):
			m.waits = append(m.waits, o)
			m.waiting += s.arcs[ref.Arc].flow
		default:
			m.places = append(m.places, o)
		}
	}
	if len(m.waits) == 0 {
		return
	}
	byValue := func(a, b offer) int { return cmp.Compare(a.value, b.value) }
	if s.supply[v] == 1 {
		// Nearly all sources of a network of single tasks: no need to sort.
		if len(m.places) > 0 {
			m.gaps = append(m.gaps, offer{slices.MinFunc(m.waits, byValue).value - slices.MinFunc(m.places, byValue).value, 1})
		}
		return
	}
	slices.SortFunc(m.places, byValue)
	slices.SortFunc(m.waits, byValue)
	m.pair(s.supply[v])
}

// pair takes the cheapest places for so many units, and moves them, from the dearest
// on, to the cheapest waits.
func (m *market) pair(units int64) {
	last, left := 0, units
	for ; last < len(m.places) && left > 0; last++ {
		m.places[last].units = min(m.places[last].units, left)
		left -= m.places[last].units
	}
	for _, w := range m.waits {
		w.units, left = max(0, w.units-left), max(0, left-w.units)
		for last > 0 && w.units > 0 {
			p := &m.places[last-1]
			k := min(p.units, w.units)
			m.gaps = append(m.gaps, offer{w.value - p.value, k})
			p.units -= k
			w.units -= k
			if p.units == 0 {
				last--
			}
		}
	}
}

// waiters is how many units wait if all places get so much dearer.
func (m *market) waiters(by int64) int64 {
	var units int64
	for _, g := range m.gaps {
		if g.value < by {
			units += g.units
		}
	}
	return units
}

package netsimplex

import (
	"math"
	"unsafe"

	"github.com/sluice-scheduler/sluice/solver"
)

const (
	// A pivot looks at one block, or at two. It looks at two if a node has at least dense arcs, or if the
	// pivots before, of which about recent count, walked over more nodes than one in costly of a block's
	// arcs. It looks at one if more than one arc in paying costs less than nothing: better arcs spare few
	// pivots then.
	paying = 16
	dense  = 12
	costly = 6
	recent = 32
	// kept is how many of the arcs found a pivot leaves for the next ones.
	kept = 20
)

// candidate is an arc of negative reduced cost when last looked at.
type candidate struct {
	reduced int64
	slot    int32
}

// price returns the slot of the arc to enter, or none if no reduced cost is negative. It looks at a block of
// 0.9 √m arcs or at two, and again at the best arcs of blocks that earlier pivots passed over; the best of
// all enters. A block of √m would be one column of the mixed order: arcs of the same nodes each time.
func (s *simplex[C]) price(w *solver.Work) int32 {
	for len(s.opening) > 0 {
		slot := s.opening[0]
		s.opening = s.opening[1:]
		w.Units++
		if s.slots[slot].reduced(s.pi) < 0 {
			return slot
		}
	}
	m := len(s.slots)
	block := max(16, int(0.9*math.Sqrt(float64(m))))
	enough := block
	if !s.pays() && (m >= dense*int(s.root) || costly*s.usual > recent*int64(block)) {
		enough += block
	}
	found := s.reconsider()
	seen := 0
	for seen < m && (seen < enough || len(found) == 0) {
		from := s.scan
		to := min(from+block, m)
		if i, least := cheapest(s.slots[from:to], s.pi); i >= 0 {
			found = append(found, candidate{least, int32(from + i)})
		}
		seen += to - from
		if s.scan = to; to == m {
			s.scan = 0
		}
	}
	w.Units += int64(seen + len(found))
	s.found = found
	if len(found) == 0 {
		return none
	}
	return s.choose()
}

// pays tells whether much of the flow runs for what it gains, not because it must.
func (s *simplex[C]) pays() bool { return paying*s.net.NegativeArcs() > len(s.slots) }

// reconsider drops what was found earlier and would gain nothing now. Which that is cannot be foreseen, so
// there is no branch for it, here and in choose.
func (s *simplex[C]) reconsider() []candidate {
	found, pi, k := s.found, s.pi, 0
	for _, c := range found {
		reduced := s.slots[c.slot].reduced(pi)
		found[k] = candidate{reduced, c.slot}
		k += negative(reduced)
	}
	return found[:k]
}

// choose takes the best out of what was found. If many are left it keeps those
// that come near it.
func (s *simplex[C]) choose() int32 {
	found := s.found
	best, least := 0, int64(0)
	for i := range found {
		if r := found[i].reduced; r < least {
			best, least = i, r
		}
	}
	slot := found[best].slot
	last := len(found) - 1
	found[best] = found[last]
	found = found[:last]
	if last > kept {
		k, half := 0, least/2+1
		for _, c := range found {
			found[k] = c
			k = min(k+negative(c.reduced-half), kept)
		}
		found = found[:k]
	}
	s.found = found
	return slot
}

// negative is 1 if x < 0, else 0.
func negative(x int64) int { return int(uint64(x) >> 63) }

// cheapest returns the index of the least reduced cost and the cost, or −1 if none is negative. A third of
// all time goes here: in a function of its own everything stays in registers. There is one branch for four
// arcs, since hardly any is the cheapest so far. Differences of reduced costs fit, as each is below 2⁶² in
// size.
//
//go:noinline
func cheapest[C cost](slots []priced[C], pi []int64) (best int, least int64) {
	best = -1
	i := 0
	for ; i+4 <= len(slots); i += 4 {
		x := (*[4]priced[C])(unsafe.Pointer(&slots[i]))
		a := x[0].reduced(pi)
		b := x[1].reduced(pi)
		c := x[2].reduced(pi)
		d := x[3].reduced(pi)
		if (a-least)|(b-least)|(c-least)|(d-least) >= 0 {
			continue
		}
		if a < least {
			best, least = i, a
		}
		if b < least {
			best, least = i+1, b
		}
		if c < least {
			best, least = i+2, c
		}
		if d < least {
			best, least = i+3, d
		}
	}
	for ; i < len(slots); i++ {
		if reduced := slots[i].reduced(pi); reduced < least {
			best, least = i, reduced
		}
	}
	return best, least
}

// reduced returns the reduced cost of x.
func (x *priced[C]) reduced(pi []int64) int64 { return int64(x.cost) + at(pi, x.tail) - at(pi, x.head) }

// at is pi[v] without a check of the index. The check would take half as long as all the rest of cheapest.
// Tails and heads in slots always are places of nodes.
func at(pi []int64, v int32) int64 {
	return *(*int64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(pi)), uintptr(uint32(v))*unsafe.Sizeof(pi[0])))
}

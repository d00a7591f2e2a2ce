package costscaling

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

const unranked = int64(1) << 62

// updatePrices lowers potentials by the distance, in units of ε, to the nearest
// node that lacks flow, so that all excess has admissible paths (Goldberg 1997:
// price update). It stops when all excess is reached, and reports false if some
// cannot be: then no flow keeps all bounds and balances.
func (s *refiner[N]) updatePrices(w *solver.Work) bool {
	s.relabels = 0
	s.updates++
	s.heap.clear()
	left := 0
	for v, x := range s.Excess {
		s.rank[v] = unranked
		if x < 0 {
			s.rank[v] = 0
			s.heap.push(0, int32(v))
		} else if x > 0 {
			left++
		}
	}
	w.Units += int64(len(s.Excess))
	last := int64(0)
	for left > 0 {
		e, ok := s.heap.pop()
		if !ok {
			return false
		}
		if e.rank != s.rank[e.node] {
			continue // it was reached more cheaply since
		}
		last = e.rank
		if s.Excess[e.node] > 0 {
			left--
		}
		s.reach(e.node, last, w)
	}
	for v := range s.Excess {
		if by := min(s.rank[v], last); by > 0 {
			s.lower(int32(v), by<<s.epsilon)
			s.next[v] = s.First[v]
		}
	}
	return true
}

// reach ranks the nodes with an arc to v.
func (s *refiner[N]) reach(v int32, rank int64, w *solver.Work) {
	list := s.List[s.First[v]:s.First[v+1]]
	w.Units += int64(len(list))
	k := closer(list, s.pi, s.rank, s.pi[v], s.unit, rank, s.epsilon, s.found)
	for _, e := range s.found[:k] {
		s.heap.push(e.rank, e.node)
	}
}

// closer lowers the ranks of nodes with an arc to one of potential own and the given rank. It notes them in
// found, which must be as long as the list at least, and returns how many it noted. Half of all comparisons
// go either way, so nothing branches: what is noted without a gain is overwritten by the next.
//
//go:noinline
func closer[N residual.Number](list []residual.Arc[N], pi, ranks []int64, own, unit, rank int64, epsilon uint, found []ranked) int {
	ranks = ranks[:len(pi)]
	k := 0
	for i := range list {
		r := &list[i]
		u := uint32(r.Head)
		x := (pi[u]-int64(r.Cost)*unit-own)>>(epsilon&63) + 1
		farther := rank + x&^(x>>63)
		found[k] = ranked{farther, r.Head}
		gain := farther - ranks[u]
		better := (gain & int64(r.Room-r.Total)) >> 63 // all ones, or zero
		ranks[u] += gain & better
		k -= int(better)
	}
	return k
}

// ranked is a node with its rank when it was pushed.
type ranked struct {
	rank int64
	node int32
}

// radix is a monotone priority queue: what is pushed ranks no lower than what was popped last (Ahuja,
// Mehlhorn, Orlin and Tarjan, Faster algorithms for the shortest path problem, 1990). Bucket i holds ranks
// whose highest bit that differs from that is i−1.
type radix struct {
	buckets [64][]ranked
	last    int64
	full    uint64 // buckets that hold something
}

func (h *radix) clear() {
	for i := range h.buckets {
		h.buckets[i] = h.buckets[i][:0]
	}
	h.last, h.full = 0, 0
}

func (h *radix) push(rank int64, node int32) {
	i := bits.Len64(uint64(rank ^ h.last))
	h.buckets[i] = append(h.buckets[i], ranked{rank, node})
	h.full |= 1 << i
}

// pop removes one of the lowest; false if there is none.
func (h *radix) pop() (ranked, bool) {
	if h.full == 0 {
		return ranked{}, false
	}
	if i := bits.TrailingZeros64(h.full); i > 0 {
		list := h.buckets[i]
		h.last = list[0].rank
		for _, e := range list {
			h.last = min(h.last, e.rank)
		}
		h.buckets[i] = list[:0]
		h.full &^= 1 << i
		for _, e := range list {
			h.push(e.rank, e.node)
		}
	}
	list := h.buckets[0]
	e := list[len(list)-1]
	h.buckets[0] = list[:len(list)-1]
	if len(list) == 1 {
		h.full &^= 1
	}
	return e, true
}

package assignment

import (
	"slices"
	"sync/atomic"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver/parts"
)

const (
	// A key is a price and, in its low bits, the position of a way. noPrice is above all first prices. noKey
	// is the key of no way.
	keyBits = 21
	maxWays = 1 << keyBits
	noPrice = int64(1) << 41
	noKey   = noPrice << keyBits
)

// takeSources takes in the sources. It places the units that find their best place free, and lines up the
// others. False if the network is not in range.
func (s *Solver) takeSources() bool {
	s.sources = make([]source, len(s.of))
	s.changed = make([]flowgraph.ArcID, len(s.of), len(s.of)+len(s.arcs))
	s.potential = make([]flowgraph.Cost, len(s.index))
	for i, v := range s.core {
		price := s.price[i]
		if price < far && price >= noPrice {
			return false
		}
		s.potential[v] = -flowgraph.Cost(min(price, noPrice))
	}
	holdings := make([]holding, len(s.of))
	if !s.look(holdings) {
		return false
	}
	free := s.free()
	var left []uint64
	for i := range holdings {
		x := &s.sources[i]
		if v := x.head; free[v] > 0 {
			free[v]--
			*s.hold(v, x.best, int32(i)) = holdings[i]
		} else {
			left = append(left, uint64(i))
		}
	}
	for v := range free {
		for range s.held[v] {
			s.fill(int32(v))
		}
	}
	s.lineUp(left)
	return true
}

// look finds where sources would go first, and what they would hold there. False if an arc has to have flow.
func (s *Solver) look(holdings []holding) bool {
	var closed, refused atomic.Bool
	all := func(from, to int) {
		open := true
		for i := from; i < to; i++ {
			open = s.choose(int32(i), &holdings[i]) && open
		}
		if !open {
			closed.Store(true)
			if slices.ContainsFunc(s.of[from:to], func(v flowgraph.NodeID) bool { return !s.inRange(v) }) {
				refused.Store(true)
			}
		}
	}
	parts.Do(len(holdings), part, all)
	if s.closed = closed.Load(); s.closed {
		parts.Do(len(holdings), part, all) // again, and past what is closed
	}
	return !refused.Load()
}

// choose finds the best and the next best way of source q by the first prices. False if not all its arcs are
// open.
func (s *Solver) choose(q int32, h *holding) bool {
	refs := s.net.Out(s.of[q])
	x := &s.sources[q]
	x.first, x.count, x.at, x.best, x.head = none, int32(len(refs)), none, none, int32(len(s.nodes)-1)
	// No branches: nobody could foresee them.
	least, second, third, open := noKey, noKey, noKey, true
	potential := s.potential
	for k := range refs {
		ref := &refs[k]
		if !s.net.Open(ref.Arc) {
			open = false
			if s.closed {
				continue
			}
		}
		key := int64(ref.Cost-potential[ref.Node])<<keyBits + int64(k)
		less := (key - least) & ((key - least) >> 63)
		least += less
		key -= less
		less = (key - second) & ((key - second) >> 63)
		second += less
		third = min(third, key-less)
	}
	if least == noKey {
		return open
	}
	x.best = int32(least & (maxWays - 1))
	best := &refs[x.best]
	s.changed[q], x.head, x.cost = best.Arc, s.index[best.Node], int32(best.Cost)
	h.rest, h.next, h.from = third>>keyBits-int64(x.cost), none, q
	if second != noKey {
		h.next = int32(second & (maxWays - 1))
		next := &refs[h.next]
		h.cost, h.head = int32(next.Cost-best.Cost), s.index[next.Node]
	}
	return open
}

// free returns how many units each node can take at its price, from where it costs least. If there is not
// room for all units, it returns that there is none: then it matters who comes first.
func (s *Solver) free() []int32 {
	const most = 1 << 29
	room := int64(0)
	free := make([]int32, len(s.nodes))
	for i := range s.nodes {
		for _, l := range s.exits[i] {
			upper := s.arcs[l.arc].upper
			if upper != flowgraph.Infinite {
				room = min(room+upper, far)
			}
			if l.cost == s.price[i] {
				free[i] = min(free[i]+int32(min(upper, most)), most)
			}
		}
	}
	if room < int64(len(s.sources)) {
		clear(free)
	}
	return free
}

// crowd is a bound for Crowded: there are more than so many sources for each that fits where it would go
// first.
const crowd = 8

// Crowded tells whether hardly any source fits where it would go first, as when all like the same places
// best. Every unit then displaces many others, one after the other. O(nodes).
func (s *Solver) Crowded() bool {
	room := make([]int64, len(s.nodes))
	for i := range room {
		for _, l := range s.exits[i] {
			room[i] = min(room[i]+min(s.arcs[l.arc].upper, far), far)
		}
	}
	fit := 0
	for i := range s.sources {
		if v := s.sources[i].head; room[v] > 0 {
			room[v]--
			fit++
		}
	}
	return crowd*fit < len(s.sources)
}

// lineUp sorts the units that are left: those that lose most by waiting come first. It copies their ways in
// that order.
func (s *Solver) lineUp(keys []uint64) {
	parts.Do(len(keys), part, func(from, to int) {
		for i, q := range keys[from:to] {
			keys[from+i] |= uint64(s.regret(int32(q))) << 32
		}
	})
	slices.Sort(keys)
	s.waiting = make([]int32, len(keys))
	ways := int32(0)
	for i, k := range keys {
		q := int32(uint32(k))
		s.waiting[i] = q
		s.sources[q].first = ways
		ways += s.sources[q].count
	}
	s.ways = make([]way, ways)
	parts.Do(len(keys), part, func(from, to int) {
		for _, q := range s.waiting[from:to] {
			s.copyWays(q)
		}
	})
}

// regret is what the best place of q costs beyond waiting, biased by 2³⁰ not to be negative. Waiting is the
// cheapest way whose head passes any number on to the ground. The result is below 2³¹.
func (s *Solver) regret(q int32) int64 {
	least, wait := far, far
	for _, ref := range s.net.Out(s.of[q]) {
		head := s.head(ref)
		value := int64(ref.Cost) + s.price[head]
		least = min(least, value)
		if exit := s.exitArc[head]; exit != none && s.arcs[exit].upper == flowgraph.Infinite {
			wait = min(wait, value)
		}
	}
	return min(max(least-wait, -1<<30), 0) + 1<<30
}

package assignment

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// survey finds the ground, if one node demands all and nothing leaves it, and
// numbers the core; false if the network is not in range.
func (s *Solver) survey() bool {
	n := s.net
	if n.CostBits() > maxCostBits || solver.Precheck(n, maxBits) != solver.Optimal {
		return false
	}
	s.index = make([]int32, n.NodeBound())
	var count, sinks int32
	for v := range s.index {
		s.index[v] = none
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) {
			continue
		}
		supply := n.Supply(id)
		if supply < 0 {
			s.ground = id
			sinks++
		}
		switch {
		case supply < 0 || len(n.In(id)) > 0:
			if supply > 0 {
				return false
			}
			s.index[v] = count
			count++
		case supply > 1:
			return false
		}
	}
	s.nodes = make([]node, count+1)
	s.price = make([]int64, count+1)
	s.held = make([][]holding, count+1)
	s.links = make([][]link, count+1)
	s.leads = make([]int32, count+1)
	s.exits = make([][]link, count+1)
	s.exitArc = make([]int32, count+1)
	if sinks != 1 || len(n.Out(s.ground)) > 0 {
		s.ground = flowgraph.NoNode
	}
	return true
}

// takeCore takes in the nodes of the core and the arcs between them; false if one
// is not in range. The last node is where ways without capacity lead.
func (s *Solver) takeCore() bool {
	n := s.net
	for v, c := range s.index {
		if c == none {
			continue
		}
		s.price[c] = far
		if supply := n.Supply(flowgraph.NodeID(v)); supply < 0 {
			// What it demands goes on over no arc, to a ground that is none of
			// the nodes; unless it is this one, which takes all.
			demand := -supply
			if flowgraph.NodeID(v) == s.ground {
				demand = flowgraph.Infinite
			}
			s.exits[c] = append(s.exits[c], link{0, int32(len(s.arcs)), none, 1})
			s.arcs = append(s.arcs, coreArc{id: flowgraph.NoArc, upper: demand})
		}
		for _, ref := range n.Out(flowgraph.NodeID(v)) {
			d := n.Arc(ref.Arc)
			if d.Lower != 0 || d.Cost < 0 {
				return false
			}
			if d.Upper == 0 || d.Head == d.Tail {
				continue
			}
			head, arc := s.index[d.Head], int32(len(s.arcs))
			s.arcs = append(s.arcs, coreArc{id: ref.Arc, upper: d.Upper})
			if d.Head == s.ground {
				s.exits[c] = append(s.exits[c], link{int64(d.Cost), arc, head, 1})
				continue
			}
			s.leads[c]++
			s.links[c] = append(s.links[c], link{int64(d.Cost), arc, head, 1})
			s.links[head] = append(s.links[head], link{-int64(d.Cost), arc, c, -1})
		}
	}
	s.price[len(s.nodes)-1] = far
	s.reserve()
	return true
}

// reserve lays the lists of units held by nodes with little room side by side.
func (s *Solver) reserve() {
	const little = 32
	room := make([]int32, len(s.nodes))
	total := 0
	for i := range room {
		for _, l := range s.exits[i] {
			room[i] += int32(min(s.arcs[l.arc].upper, little+1))
		}
		if room[i] <= little {
			total += int(room[i])
		}
	}
	arena := make([]holding, total)
	for i, k := range room {
		if k <= little {
			s.held[i], arena = arena[:0:k], arena[k:]
		}
	}
}

// priceCore finds the distance of each node of the core to the ground.
func (s *Solver) priceCore() {
	s.queue = s.queue[:0]
	for i := range s.nodes {
		x := &s.nodes[i]
		s.findExit(int32(i))
		x.label = far
		if x.exit < far {
			x.label = x.exit
			s.push(x.exit, int32(i))
		}
	}
	for len(s.queue) > 0 {
		top := s.pop()
		if s.price[top.node] < far {
			continue
		}
		s.price[top.node] = top.key
		for _, l := range s.links[top.node] {
			y := &s.nodes[l.head]
			if l.sign < 0 && top.key-l.cost < y.label {
				y.label = top.key - l.cost
				s.push(y.label, l.head)
			}
		}
	}
}

// findExit finds the cheapest way from v straight to the ground.
func (s *Solver) findExit(v int32) {
	x := &s.nodes[v]
	x.exit, s.exitArc[v] = far, none
	for _, l := range s.exits[v] {
		if a := &s.arcs[l.arc]; l.cost < x.exit && a.flow < a.upper {
			x.exit, s.exitArc[v] = l.cost, l.arc
		}
	}
}

// takeSources takes in the sources and their ways; false if an arc is not in
// range.
func (s *Solver) takeSources() bool {
	n := s.net
	ways := int32(0)
	for v, c := range s.index {
		id := flowgraph.NodeID(v)
		if c != none || !n.NodeAlive(id) {
			continue
		}
		first, degree := ways, int32(len(n.Out(id)))
		if n.Supply(id) == 0 {
			if !s.inRange(id) {
				return false
			}
			continue
		}
		ways += degree
		s.index[v] = -2 - int32(len(s.of))
		s.of = append(s.of, id)
		s.sources = append(s.sources, source{first: first, last: ways, at: none})
	}
	s.ways = make([]way, ways)
	var strange atomic.Bool
	inHalves(len(s.of), func(from, to int) {
		for i := from; i < to; i++ {
			if !s.takeWays(i) {
				strange.Store(true)
				return
			}
		}
	})
	return !strange.Load()
}

// inRange reports whether no arc out of v has to have flow.
func (s *Solver) inRange(v flowgraph.NodeID) bool {
	return !slices.ContainsFunc(s.net.Out(v), func(r flowgraph.Ref) bool { return s.net.Lower(r.Arc) != 0 })
}

// takeWays takes in the arcs of source i; false if one is not in range.
func (s *Solver) takeWays(i int) bool {
	ways := s.ways[s.sources[i].first:s.sources[i].last]
	for k, ref := range s.net.Out(s.of[i]) {
		d := s.net.Arc(ref.Arc)
		if d.Lower != 0 {
			return false
		}
		head := s.index[ref.Node]
		if d.Upper == 0 {
			head = int32(len(s.nodes) - 1) // from where there is no way
		}
		ways[k] = way{int32(ref.Cost), head}
	}
	return true
}

// inHalves calls do for the first and the second half of n things of which none
// depends on another: at the same time, where they are many.
func inHalves(n int, do func(from, to int)) {
	const many = 1 << 12
	if n < many {
		do(0, n)
		return
	}
	var other sync.WaitGroup
	other.Go(func() { do(n/2, n) })
	do(0, n/2)
	other.Wait()
}

// order places the units that find their best place free, and lines up the
// others: those first who lose most by waiting. If there is not room for all, who
// comes first decides, and all line up.
func (s *Solver) order() {
	room := int64(0)
	for i := range s.nodes {
		for _, l := range s.exits[i] {
			if a := &s.arcs[l.arc]; a.upper != flowgraph.Infinite {
				room = min(room+a.upper, far)
			}
		}
	}
	crowded := room < int64(len(s.sources))
	best := make([]int32, len(s.sources))
	inHalves(len(best), func(from, to int) {
		for i := from; i < to; i++ {
			if crowded {
				best[i] = none
			} else {
				best[i] = s.cheapest(int32(i))
			}
		}
	})
	keys := make([]uint64, 0, len(s.sources))
	for i, way := range best {
		if way == none || !s.settle(int32(i), way) {
			keys = append(keys, uint64(s.regret(int32(i)))<<32|uint64(uint32(i)))
		}
	}
	slices.Sort(keys)
	s.waiting = make([]int32, len(keys))
	for i, k := range keys {
		s.waiting[i] = int32(uint32(k))
	}
}

// cheapest returns the way of q to its best place, or none.
func (s *Solver) cheapest(q int32) int32 {
	x := &s.sources[q]
	best, least := none, far/2
	for k := x.first; k < x.last; k++ {
		w := &s.ways[k]
		if value := int64(w.cost) + s.price[w.head]; value < least {
			best, least = k, value
		}
	}
	return best
}

// settle places unit q if its best place, to which that way leads, is free and
// reports whether.
func (s *Solver) settle(q, best int32) bool {
	v := s.ways[best].head
	if s.nodes[v].exit != s.price[v] {
		return false
	}
	s.fill(v)
	s.hold(q, best)
	return true
}

// regret is what the best place of q costs beyond waiting: beyond the cheapest that
// passes any number on to the ground. It is below 2³¹ and biased not to be
// negative.
func (s *Solver) regret(q int32) int64 {
	x := &s.sources[q]
	least, wait := far, far
	for _, w := range s.ways[x.first:x.last] {
		value := int64(w.cost) + s.price[w.head]
		least = min(least, value)
		if exit := s.exitArc[w.head]; exit != none && s.arcs[exit].upper == flowgraph.Infinite {
			wait = min(wait, value)
		}
	}
	return min(max(least-wait, -1<<30), 0) + 1<<30
}

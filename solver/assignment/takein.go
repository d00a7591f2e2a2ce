package assignment

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/parts"
)

const (
	// What survey finds in a first pass.
	inCore, unit, strange int32 = 0, -2, -3
	// part is how many nodes or sources make a part of the work on them.
	part = 1 << 11
)

// survey finds the ground, if one node demands all and nothing leaves it. It numbers the core and the
// sources. False if the network is not in range.
func (s *Solver) survey() bool {
	n := s.net
	if n.CostBits() > maxCostBits || solver.Precheck(n, maxBits) != solver.Optimal {
		return false
	}
	s.index = make([]int32, n.NodeBound())
	parts.Do(len(s.index), part, func(from, to int) {
		for v := from; v < to; v++ {
			s.index[v] = s.kind(flowgraph.NodeID(v))
		}
	})
	s.of = make([]flowgraph.NodeID, 0, n.NumNodes())
	sinks := 0
	for v, kind := range s.index {
		id := flowgraph.NodeID(v)
		switch kind {
		case strange:
			return false
		case unit:
			s.index[v] = -2 - int32(len(s.of))
			s.of = append(s.of, id)
		case inCore:
			s.index[v] = int32(len(s.core))
			s.core = append(s.core, id)
			if n.Supply(id) < 0 {
				s.ground = id
				sinks++
			}
		}
	}
	if sinks != 1 || len(n.Out(s.ground)) > 0 {
		s.ground = flowgraph.NoNode
	}
	return true
}

// kind tells what v is: inCore, a source of one unit, none of these, or strange.
func (s *Solver) kind(v flowgraph.NodeID) int32 {
	n := s.net
	if !n.NodeAlive(v) {
		return none
	}
	supply := n.Supply(v)
	switch {
	case supply <= 0 && (supply < 0 || len(n.In(v)) > 0):
		return inCore
	case supply == 1 && len(n.In(v)) == 0 && len(n.Out(v)) <= maxWays:
		return unit
	case supply == 0 && s.inRange(v):
		return none
	}
	return strange
}

// inRange reports whether no arc out of v has to have flow.
func (s *Solver) inRange(v flowgraph.NodeID) bool {
	return !slices.ContainsFunc(s.net.Out(v), func(r flowgraph.Ref) bool { return s.net.Lower(r.Arc) != 0 })
}

// takeCore takes in the nodes of the core and the arcs between them. False if one of them is not in range.
// The last node is where arcs without capacity lead.
func (s *Solver) takeCore() bool {
	n := s.net
	count := len(s.core) + 1
	s.nodes = make([]node, count)
	s.price = make([]int64, count)
	s.held = make([][]holding, count)
	s.links = make([][]link, count)
	s.leads = make([]int32, count)
	s.exits = make([][]link, count)
	s.exitArc = make([]int32, count)
	s.layOut()
	s.price[count-1] = far
	for i, v := range s.core {
		c := int32(i)
		s.price[c] = far
		if supply := n.Supply(v); supply < 0 {
			// What it demands goes over no arc to a ground outside the network. But if v is the ground
			// itself, it takes all.
			demand := -supply
			if v == s.ground {
				demand = flowgraph.Infinite
			}
			s.exits[c] = append(s.exits[c], link{0, int32(len(s.arcs)), none, 1})
			s.arcs = append(s.arcs, coreArc{id: flowgraph.NoArc, upper: demand})
		}
		for _, ref := range n.Out(v) {
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
	s.reserve()
	return true
}

// layOut lays the lists of links side by side.
func (s *Solver) layOut() {
	links, exits := make([]int32, len(s.nodes)), make([]int32, len(s.nodes))
	total, arcs := 0, 0
	for c, v := range s.core {
		if s.net.Supply(v) < 0 {
			exits[c]++
			arcs++
		}
		out := s.net.Out(v)
		for i := range out {
			if out[i].Node == s.ground {
				exits[c]++
				continue
			}
			links[c]++
			links[s.index[out[i].Node]]++
			total++
		}
		arcs += len(out)
	}
	arena := make([]link, total+arcs)
	for c := range s.core {
		l, e := links[c], links[c]+exits[c]
		s.links[c], s.exits[c], arena = arena[:0:l], arena[l:l:e], arena[e:]
	}
	s.arcs = make([]coreArc, 0, arcs)
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

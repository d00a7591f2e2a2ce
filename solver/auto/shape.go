package auto

import (
	"math"
	"sync"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver/parts"
)

// shape is what decides who gives the first answer.
type shape struct {
	// layered: most arcs leave sources; size counts these arcs and the sources. single: most nodes, too, are
	// sources of one unit, and these go to few places in the end. Where each place waits for one unit of its
	// own, the simplex is faster than assignment.
	layered, single bool
	// Of sources of one unit that are fewer than other nodes. crowd: all have to pass the same few nodes.
	// apart: each could go first to a node of its own. likely: and many of them to one that is cheapest to
	// them.
	crowd, apart, likely bool
	size                 int64
	// diffuse: relaxation may do. Many nodes have some arcs each, none has very many, and flow begins at
	// many. supplied: flow begins at some. Where it begins at none, half as many nodes are enough to be
	// diffuse.
	diffuse, supplied bool
	// level: all arcs have the same cost, which is not 0. Very many trees then have the same cost.
	level bool
}

// layers finds the shape of n.
func layers(n *flowgraph.Network) (f shape) {
	const part = 1 << 12
	var all census
	var adding sync.Mutex
	parts.Do(n.NodeBound(), part, func(from, to int) {
		c := count(n, from, to)
		adding.Lock()
		defer adding.Unlock()
		all.add(c)
	})
	nodes := int64(n.NumNodes())
	f.layered = 2*all.arcs >= int64(n.NumArcs()) && manyNodes*all.sources >= nodes
	f.size = all.arcs + all.sources
	f.supplied = all.origins > 0
	f.diffuse = int64(n.NumArcs()) >= relaxDegree*nodes && relaxHub*all.widest <= nodes &&
		(nodes >= relaxNodes && 4*all.origins*all.origins >= nodes || 2*nodes >= relaxNodes && !f.supplied)
	if all.supply > 2*all.sources || manyPlaces*all.sinks > all.sources {
		return f
	}
	if 2*all.sources >= nodes {
		f.single = f.layered
	} else if volume, ok := n.Volume(); ok && volume <= all.supply {
		to, fit := heads(n)
		f.crowd = 0 < to && together*to <= all.sources
		f.apart = f.layered && all.sources <= to
		f.likely = f.apart && fitting*fit >= all.supply
	}
	return f
}

// heads returns how many nodes open arcs of sources lead to. It also returns how many sources fit: they find
// one of the nodes cheapest to them free, one source after the other.
func heads(n *flowgraph.Network) (count, fit int64) {
	const led, taken = 1, 2
	state := make([]int8, n.NodeBound())
	for v := range state {
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) || len(n.In(id)) > 0 {
			continue
		}
		least := flowgraph.Cost(math.MaxInt64)
		for _, r := range n.Out(id) {
			if !n.Open(r.Arc) {
				continue
			}
			least = min(least, r.Cost)
			if state[r.Node] == 0 {
				state[r.Node] = led
				count++
			}
		}
		if n.Supply(id) == 0 {
			continue
		}
		for _, r := range n.Out(id) {
			if r.Cost == least && state[r.Node] == led && n.Open(r.Arc) {
				state[r.Node] = taken
				fit++
				break
			}
		}
	}
	return count, fit
}

// census counts sources, the arcs out of them, what they supply (all supply is below 2⁶²), sinks, and nodes
// at which flow begins. widest is the most arcs of a node.
type census struct{ arcs, sources, supply, sinks, origins, widest int64 }

func (c *census) add(d census) {
	c.arcs += d.arcs
	c.sources += d.sources
	c.supply += d.supply
	c.sinks += d.sinks
	c.origins += d.origins
	c.widest = max(c.widest, d.widest)
}

// count takes the census of nodes from..to−1.
func count(n *flowgraph.Network, from, to int) (c census) {
	for v := from; v < to; v++ {
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) {
			continue
		}
		in, out, supply := len(n.In(id)), len(n.Out(id)), n.Supply(id)
		c.widest = max(c.widest, int64(in+out))
		if supply > 0 {
			c.origins++
		}
		switch {
		case in == 0:
			c.arcs += int64(out)
			c.sources++
			c.supply += supply
		case supply < 0:
			c.sinks++
		}
	}
	return c
}

// few tells whether so little flows through so many nodes that repair, which sends it path by path, sees
// hardly any of them. Ways are long where most arcs do not leave sources. But ways around arcs that are worth
// filling rarely are.
func few(n *flowgraph.Network, layered bool) bool {
	most := int64(n.NumNodes() / fewNodes)
	if volume, ok := n.Volume(); ok && volume <= most {
		return layered || volume <= fewUnits
	}
	supply, worth := int64(0), int64(0)
	for v := 0; v < n.NodeBound() && supply <= fewUnits; v++ {
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			supply += max(0, n.Supply(id))
		}
	}
	for a := 0; a < n.ArcBound() && supply <= fewUnits && worth <= most; a++ {
		switch d := n.Arc(flowgraph.ArcID(a)); {
		case d.Tail < 0:
		case d.Cost < 0:
			worth += min(d.Upper, most+1)
		default:
			worth += min(d.Lower, most+1)
		}
	}
	return supply <= fewUnits && supply+worth <= most
}

// unpriced tells whether hardly any arc has a price. It is false where most arcs lie side by side between a
// handful of nodes: there the simplex is done at once.
func unpriced(n *flowgraph.Network) bool {
	nodes, arcs := n.NumNodes(), n.NumArcs()
	return freeArcs*(arcs-n.FreeArcs()) <= arcs && arcs <= nodes*nodes
}

// level tells whether all arcs have the same cost, which is not 0.
func level(n *flowgraph.Network) bool {
	cost := flowgraph.Cost(0)
	for a := range n.ArcBound() {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			continue
		}
		if cost == 0 {
			cost = d.Cost
		}
		if d.Cost != cost || cost == 0 {
			return false
		}
	}
	return cost != 0
}

// narrowPart: a narrow arc has room for at most one part of the flow in so many.
const narrowPart = 8

// narrow tells whether all open arcs are narrow, and have the same room.
func narrow(n *flowgraph.Network) bool {
	volume, ok := n.Volume()
	room := int64(0)
	for a := range n.ArcBound() {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 || d.Upper == 0 {
			continue
		}
		if room == 0 {
			room = d.Upper
		}
		if d.Upper != room || d.Upper > volume/narrowPart {
			return false
		}
	}
	return ok
}

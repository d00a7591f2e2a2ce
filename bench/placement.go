package bench

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver"
)

// Move is an arc whose flow is another than at the last reading.
type Move struct {
	Arc      flowgraph.ArcID
	Was, Now int32
}

// Reader follows the flow of one solver by its list of changes.
type Reader struct {
	flow  []int32 // indexed by ArcID
	again []flowgraph.ArcID
	moves []Move
}

// Forget tells which ids may since name other arcs, which begin at zero. A
// solver that knows arcs by id lists none whose flow is what the former arc had,
// so those with flow are looked at again.
func (r *Reader) Forget(removed []flowgraph.ArcID) {
	r.again = r.again[:0]
	for _, a := range removed {
		if int(a) < len(r.flow) && r.flow[a] != 0 {
			r.flow[a] = 0
			r.again = append(r.again, a)
		}
	}
}

// Read returns what moved, in the order of the solver's list. The slice is the
// reader's own until the next call. O(changed).
func (r *Reader) Read(n *flowgraph.Network, s solver.Solution) []Move {
	for len(r.flow) < n.ArcBound() {
		r.flow = append(r.flow, make([]int32, n.ArcBound()-len(r.flow))...)
	}
	r.moves = r.moves[:0]
	for next := range slices.Chunk(s.Changed(), 64) {
		prefetch.Each(r.flow, next, &next[0])
		for _, a := range next {
			r.look(a, s)
		}
	}
	for _, a := range r.again {
		if n.ArcAlive(a) {
			r.look(a, s)
		}
	}
	return r.moves
}

func (r *Reader) look(a flowgraph.ArcID, s solver.Solution) {
	if now := int32(s.Flow(a)); now != r.flow[a] {
		r.moves = append(r.moves, Move{a, r.flow[a], now})
		r.flow[a] = now
	}
}

// Removed returns the arcs that the last Apply removed, for [Reader.Forget].
func (c *Cluster) Removed() []flowgraph.ArcID { return c.plan.removed }

// Absorb ends a cycle: it learns from the leader's flow who waits and who runs
// where, and plans running arcs for the next one.
func (c *Cluster) Absorb(moves []Move, r *Reader) {
	c.learn()
	// A stay that was changed may carry the flow of before, and not be listed.
	c.pairs = append(c.pairs[:0], c.plan.stays...)
	c.plan.reset()
	for _, m := range moves {
		d := c.net.Arc(m.Arc)
		from, to := c.means[d.Tail], c.means[d.Head]
		switch {
		case from.kind == rackNode:
			c.fed.put(to.index, m.Now > 0)
		case from.kind != groupNode:
		case to.kind == hostNode:
			c.pairs = append(c.pairs, pair{from.index, to.index})
		case to.kind == jobNode:
			g := &c.groups[from.index]
			g.waiting += m.Now - m.Was
			c.waiting.put(from.index, g.waiting > 0)
		default:
			c.loose.put(int32(m.Arc), m.Now > 0)
		}
	}
	if c.w.Hysteresis == 0 {
		return
	}
	for _, p := range c.pairs {
		if c.groups[p.group].count > 0 {
			c.setStay(p.group, p.host, c.direct(p, r))
		}
	}
	c.decompose(r)
	for _, s := range c.settled {
		c.setStay(s.group, s.host, c.stayUnits(s.group, s.host)+1)
	}
}

// direct returns the flow from a group to a host that passes no aggregator.
func (c *Cluster) direct(p pair, r *Reader) int32 {
	g := &c.groups[p.group]
	units := int32(0)
	if i := g.pattern.find(p.host); i >= 0 {
		units = r.flow[g.ways[i]]
	}
	if i := g.stayAt(p.host); i >= 0 && g.stays[i].own && g.stays[i].arc != flowgraph.NoArc {
		units += r.flow[g.stays[i].arc]
	}
	return units
}

// decompose pairs, unit by unit and at random, the flow of groups into
// aggregators with the flow of racks into their hosts. Any pairing is right: the
// price is the same; one in order would put the tasks of a class side by side.
func (c *Cluster) decompose(r *Reader) {
	c.settled = c.settled[:0]
	rackUnits := make([][]int32, len(c.racks))
	var anyUnits []int32
	for _, a := range c.loose.list {
		d := c.net.Arc(flowgraph.ArcID(a))
		g, to := c.means[d.Tail].index, c.means[d.Head]
		for range r.flow[a] {
			if to.kind == rackNode {
				rackUnits[to.index] = append(rackUnits[to.index], g)
			} else {
				anyUnits = append(anyUnits, g)
			}
		}
	}
	mix := func(units []int32) {
		c.rng.Shuffle(len(units), func(i, k int) { units[i], units[k] = units[k], units[i] })
	}
	mix(anyUnits)
	for _, units := range rackUnits {
		mix(units)
	}
	for _, h := range c.fed.list {
		from := &rackUnits[c.rackOf(h)]
		for range r.flow[c.hosts[h].entry] {
			if len(*from) == 0 {
				from = &anyUnits
			}
			last := len(*from) - 1
			c.settled = append(c.settled, pair{(*from)[last], h})
			*from = (*from)[:last]
		}
	}
}

package bench

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Build adds the core of the network and everything that was planned.
func (c *Cluster) Build() {
	n := c.net
	c.sink = c.addNode(0, sinkNode, 0)
	c.any = c.addNode(0, anyNode, 0)
	slots := int64(c.w.Slots)
	into := slots
	if c.w.Fit > 0 {
		into = slots/2 + 1
	}
	for r := range c.racks {
		c.racks[r].node = c.addNode(0, rackNode, int32(r))
		size := min(c.w.HostsPerRack, len(c.hosts)-r*c.w.HostsPerRack)
		c.racks[r].entry = n.AddArc(c.any, c.racks[r].node, 0, int64(size)*into, 0)
	}
	for h := range c.hosts {
		r := &c.hosts[h]
		r.node = c.addNode(0, hostNode, int32(h))
		r.entry = n.AddArc(c.racks[c.rackOf(int32(h))].node, r.node, 0, into, 0)
		for i := range c.w.Convex {
			price := loadStep * i * (i + 1) / 2
			r.exits = append(r.exits, n.AddArc(r.node, c.sink, 0, c.exitBound(i), flowgraph.Cost(price)))
		}
	}
	for h := range c.hosts {
		c.places = append(c.places, c.hosts[h].node)
	}
	for r := range c.racks {
		c.places = append(c.places, c.racks[r].node)
	}
	c.places = append(c.places, c.any)
	c.Apply()
}

// exitBound shares the slots of a host among its exits.
func (c *Cluster) exitBound(i int) int64 {
	return int64(c.w.Slots*(i+1)/c.w.Convex - c.w.Slots*i/c.w.Convex)
}

// Apply brings what was planned into the network. It is nothing but verbs and
// the bookkeeping of their ids.
func (c *Cluster) Apply() {
	n, p := c.net, &c.plan
	for _, s := range p.stays {
		c.syncStay(s)
	}
	c.setPrices()
	n.RemoveNodes(p.deadNodes)
	for _, j := range p.deadJobs {
		for _, out := range n.Out(c.jobs[j].node) {
			p.removed = append(p.removed, out.Arc)
		}
		n.RemoveNode(c.jobs[j].node)
	}
	for _, g := range p.groups {
		if r := &c.groups[g]; r.count > 0 {
			c.syncGroup(r)
		}
	}
	c.grow()
	for _, h := range p.hosts {
		for i, a := range c.hosts[h].exits {
			bound := c.exitBound(i)
			if c.hosts[h].down {
				bound = 0
			}
			n.SetBounds(a, 0, bound)
		}
	}
	for _, j := range p.newJobs {
		c.jobs[j].node = c.addNode(0, jobNode, j)
		n.AddArc(c.jobs[j].node, c.sink, 0, flowgraph.Infinite, 0)
	}
	c.addGroups()
	c.setPrices()
	n.SetSupply(c.sink, -c.total)
	c.freeGroups = append(c.freeGroups, p.deadGroups...)
	c.freeJobs = append(c.freeJobs, p.deadJobs...)
}

// grow sets the prices of groups that have waited.
func (c *Cluster) grow() {
	for _, g := range c.plan.grown {
		r := &c.groups[g]
		if r.count == 0 {
			continue
		}
		for i, a := range r.waits {
			c.reprice(a, c.waitPrice(r, i))
		}
	}
	c.setPrices()
}

// reprice has a price set by the next call of setPrices.
func (c *Cluster) reprice(a flowgraph.ArcID, price flowgraph.Cost) {
	p := &c.plan
	p.repriced, p.prices = append(p.repriced, a), append(p.prices, price)
}

func (c *Cluster) setPrices() {
	p := &c.plan
	c.net.SetCosts(p.repriced, p.prices)
	p.repriced, p.prices = p.repriced[:0], p.prices[:0]
}

func (c *Cluster) addNode(supply int64, k kind, index int32) flowgraph.NodeID {
	v := c.net.AddNode(supply)
	for int(v) >= len(c.means) {
		c.means = append(c.means, meaning{})
	}
	c.means[v] = meaning{k, index}
	return v
}

// addGroups adds the groups that are new, some thousands at once.
func (c *Cluster) addGroups() {
	const most = 4096
	p := &c.plan
	for list := p.newGroups; len(list) > 0; {
		next := list[:min(most, len(list))]
		list = list[len(next):]
		p.arcs = p.arcs[:0]
		for _, g := range next {
			c.addGroup(g)
		}
		p.ids = c.net.AddArcs(p.arcs, p.ids[:0])
		ids := p.ids
		for _, g := range next {
			r := &c.groups[g]
			ways := len(r.pattern.ways)
			waits := ways + c.waitArcs()
			r.ways, r.waits = append(r.ways, ids[:ways]...), append(r.waits, ids[ways:waits]...)
			ids = ids[waits:]
			for i := range r.stays {
				c.syncStay(pair{g, r.stays[i].host})
			}
		}
	}
}

// addGroup adds the node of a group and lists its arcs.
func (c *Cluster) addGroup(g int32) {
	p, r := &c.plan, &c.groups[g]
	r.node = c.addNode(int64(r.count), groupNode, g)
	ways := r.pattern.ways
	k := len(p.arcs)
	p.arcs = slices.Grow(p.arcs, len(ways)+c.waitArcs())[:k+len(ways)+c.waitArcs()]
	for i := range ways {
		w, d := &ways[i], &p.arcs[k+i]
		d.Tail, d.Head, d.Upper, d.Cost = r.node, c.places[w.place], int64(w.upper), flowgraph.Cost(w.price)
		switch {
		case !c.w.Merge:
			d.Upper = 1
		case w.upper == 0:
			d.Upper = flowgraph.Infinite
		}
	}
	for i := range c.waitArcs() {
		d := &p.arcs[k+len(ways)+i]
		d.Tail, d.Head, d.Upper, d.Cost = r.node, c.jobs[r.job].node, c.waitBound(r, i), c.waitPrice(r, i)
	}
}

func (c *Cluster) syncGroup(r *group) {
	n := c.net
	n.SetSupply(r.node, int64(r.count))
	for i, a := range r.waits {
		n.SetBounds(a, 0, c.waitBound(r, i))
		n.SetCost(a, c.waitPrice(r, i))
	}
}

// waitArcs returns how many parallel arcs lead a group to its unscheduled
// aggregator: a class has one per tier.
func (c *Cluster) waitArcs() int {
	if c.w.Merge {
		return c.w.Convex
	}
	return 1
}

func (c *Cluster) waitBound(r *group, i int) int64 {
	if i == c.waitArcs()-1 {
		return flowgraph.Infinite
	}
	return (int64(r.count) + int64(c.w.Convex) - 1) / int64(c.w.Convex)
}

func (c *Cluster) waitPrice(r *group, i int) flowgraph.Cost {
	return flowgraph.Cost(c.jobs[r.job].wait + r.growth + int32(i)*tierStep)
}

// syncStay makes the arc of a stay what the stay says, and forgets an empty one.
func (c *Cluster) syncStay(at pair) {
	n, r := c.net, &c.groups[at.group]
	if r.count == 0 || r.node == flowgraph.NoNode {
		return
	}
	i := r.stayAt(at.host)
	if i < 0 {
		return
	}
	s := &r.stays[i]
	if !s.own {
		way := r.pattern.find(at.host)
		price := flowgraph.Cost(r.pattern.ways[way].price)
		if s.units > 0 {
			price = c.runPrice(r, at.host)
		}
		c.reprice(r.ways[way], price)
	} else if s.units == 0 && s.arc != flowgraph.NoArc {
		n.RemoveArc(s.arc)
		c.plan.removed = append(c.plan.removed, s.arc)
	} else if s.units > 0 && s.arc == flowgraph.NoArc {
		s.arc = n.AddArc(r.node, c.hosts[at.host].node, 0, int64(s.units), c.runPrice(r, at.host))
	} else if s.units > 0 {
		n.SetBounds(s.arc, 0, int64(s.units))
	}
	if way := r.pattern.find(at.host); way >= 0 && r.pattern.ways[way].upper > 0 {
		// Together, who stays and who starts fit.
		n.SetBounds(r.ways[way], 0, int64(max(0, r.pattern.ways[way].upper-s.units)))
	}
	if s.units == 0 {
		last := len(r.stays) - 1
		r.stays[i] = r.stays[last]
		r.stays = r.stays[:last]
	}
}

func (r *group) stayAt(h int32) int {
	for i := range r.stays {
		if r.stays[i].host == h {
			return i
		}
	}
	return -1
}

func (c *Cluster) stayUnits(g, h int32) int32 {
	r := &c.groups[g]
	if i := r.stayAt(h); i >= 0 {
		return r.stays[i].units
	}
	return 0
}

// setStay plans that units of g run on h.
func (c *Cluster) setStay(g, h, units int32) {
	r := &c.groups[g]
	i := r.stayAt(h)
	if i < 0 {
		if units == 0 {
			return
		}
		own := c.w.Merge || r.pattern.find(h) < 0
		r.stays = append(r.stays, stay{host: h, arc: flowgraph.NoArc, own: own})
		i = len(r.stays) - 1
	}
	if r.stays[i].units != units {
		r.stays[i].units = units
		c.plan.stays = append(c.plan.stays, pair{g, h})
	}
}

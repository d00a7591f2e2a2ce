package bench

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Build adds the core of the network and everything that was planned.
func (c *Cluster) Build() {
	n := c.net
	c.sink = c.addNode(sinkNode, 0)
	c.any = c.addNode(anyNode, 0)
	slots := int64(c.w.Slots)
	into := slots
	if c.w.Fit > 0 {
		into = slots/2 + 1
	}
	for r := range c.racks {
		c.racks[r] = c.addNode(rackNode, int32(r))
		size := min(c.w.HostsPerRack, len(c.hosts)-r*c.w.HostsPerRack)
		n.AddArc(c.any, c.racks[r], 0, int64(size)*into, 0)
	}
	for h := range c.hosts {
		r := &c.hosts[h]
		r.node = c.addNode(hostNode, int32(h))
		r.entry = n.AddArc(c.racks[c.rackOf(int32(h))], r.node, 0, into, 0)
		for i := range c.w.Convex {
			price := loadStep * i * (i + 1) / 2
			r.exits = append(r.exits, n.AddArc(r.node, c.sink, 0, c.exitBound(i), flowgraph.Cost(price)))
		}
	}
	for h := range c.hosts {
		c.places = append(c.places, c.hosts[h].node)
	}
	c.places = append(c.places, c.racks...)
	c.places = append(c.places, c.any)
	c.prepare()
	c.Apply()
	c.learn()
	// Who runs from the start has a node only now.
	stays := c.plan.stays
	c.plan = plan{stays: stays}
	c.prepare()
	c.Apply()
}

// exitBound shares the slots of a host among its exits.
func (c *Cluster) exitBound(i int) int64 {
	return int64(c.w.Slots*(i+1)/c.w.Convex - c.w.Slots*i/c.w.Convex)
}

// prepare turns what was planned into a list of verbs.
func (c *Cluster) prepare() {
	p := &c.plan
	for _, s := range p.stays {
		c.syncStay(s)
	}
	for _, j := range p.deadJobs {
		node := c.jobs[j].node
		p.deadNodes = append(p.deadNodes, node)
		for _, out := range c.net.Out(node) {
			p.removed = append(p.removed, out.Arc)
		}
	}
	for _, g := range p.groups {
		if r := &c.groups[g]; r.count > 0 {
			p.supplies = append(p.supplies, supply{r.node, int64(r.count)})
			for i, a := range r.waits {
				p.bound(a, c.waitBound(r, i))
				p.reprice(a, c.waitPrice(r, i))
			}
		}
	}
	for _, g := range p.grown {
		if r := &c.groups[g]; r.count > 0 {
			for i, a := range r.waits {
				p.reprice(a, c.waitPrice(r, i))
			}
		}
	}
	for _, h := range p.hosts {
		for i, a := range c.hosts[h].exits {
			bound := c.exitBound(i)
			if c.hosts[h].down {
				bound = 0
			}
			p.bound(a, bound)
		}
	}
	c.prepareNew()
}

// prepareNew lists the nodes and arcs that are new. Their tails, and what leads to a new job,
// are the positions of new nodes, jobs first, until these are there.
func (c *Cluster) prepareNew() {
	p := &c.plan
	at := map[int32]flowgraph.NodeID{}
	for i, j := range p.newJobs {
		at[j] = flowgraph.NodeID(i)
		p.nodes = append(p.nodes, newNode{meaning: meaning{jobNode, j}, arcs: 1})
		p.arcs = append(p.arcs, flowgraph.Arc{Head: c.sink, Bounds: flowgraph.Bounds{Upper: flowgraph.Infinite}})
	}
	for _, g := range p.newGroups {
		r := &c.groups[g]
		for _, w := range r.pattern.ways {
			upper := int64(w.upper)
			switch {
			case !c.w.Merge:
				upper = 1
			case w.upper == 0:
				upper = flowgraph.Infinite
			}
			p.arcs = append(p.arcs, flowgraph.Arc{Head: c.places[w.place], Bounds: flowgraph.Bounds{Upper: upper}, Cost: flowgraph.Cost(w.price)})
		}
		job := c.jobs[r.job].node
		for i := range c.waitArcs() {
			if k, ok := at[r.job]; ok {
				p.toNew = append(p.toNew, toNew{int32(len(p.arcs)), k})
			}
			p.arcs = append(p.arcs, flowgraph.Arc{Head: job, Bounds: flowgraph.Bounds{Upper: c.waitBound(r, i)}, Cost: c.waitPrice(r, i)})
		}
		p.nodes = append(p.nodes, newNode{meaning{groupNode, g}, int64(r.count), int32(len(r.pattern.ways) + c.waitArcs())})
	}
}

// Apply brings what was planned into the network. It is nothing but verbs.
func (c *Cluster) Apply() {
	n, p := c.net, &c.plan
	n.SetCosts(p.repriced, p.prices)
	for _, a := range p.cut {
		n.RemoveArc(a)
	}
	n.RemoveNodes(p.deadNodes)
	for _, b := range p.bounds {
		n.SetBounds(b.arc, 0, b.upper)
	}
	for _, s := range p.supplies {
		n.SetSupply(s.node, s.supply)
	}
	k := 0
	for i := range p.nodes {
		x := &p.nodes[i]
		p.added = append(p.added, n.AddNode(x.supply))
		for range x.arcs {
			p.arcs[k].Tail = p.added[i]
			k++
		}
	}
	for _, t := range p.toNew {
		p.arcs[t.arc].Head = p.added[t.node]
	}
	p.ids = n.AddArcs(p.arcs, p.ids)
	p.stayIDs = n.AddArcs(p.stayArcs, p.stayIDs)
	n.SetSupply(c.sink, -c.total)
}

// learn takes in the ids of what the last Apply has added.
func (c *Cluster) learn() {
	p := &c.plan
	ids := p.ids
	for i, x := range p.nodes {
		c.mean(p.added[i], x.meaning)
		next := ids[:x.arcs]
		ids = ids[x.arcs:]
		if x.kind == jobNode {
			c.jobs[x.index].node = p.added[i]
			continue
		}
		r := &c.groups[x.index]
		ways := len(r.pattern.ways)
		r.node, r.ways, r.waits = p.added[i], append(r.ways, next[:ways]...), append(r.waits, next[ways:]...)
	}
	for i, at := range p.newStays {
		r := &c.groups[at.group]
		r.stays[r.stayAt(at.host)].arc = p.stayIDs[i]
	}
	c.freeGroups = append(c.freeGroups, p.deadGroups...)
	c.freeJobs = append(c.freeJobs, p.deadJobs...)
}

func (c *Cluster) addNode(k kind, index int32) flowgraph.NodeID {
	v := c.net.AddNode(0)
	c.mean(v, meaning{k, index})
	return v
}

// mean notes what a node stands for.
func (c *Cluster) mean(v flowgraph.NodeID, m meaning) {
	for int(v) >= len(c.means) {
		c.means = append(c.means, meaning{})
	}
	c.means[v] = m
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
	return flowgraph.Cost(c.jobs[r.job].wait) + r.growth + flowgraph.Cost(i)*tierStep
}

// syncStay plans that the arc of a stay becomes what the stay says, and forgets an empty one.
func (c *Cluster) syncStay(at pair) {
	p, r := &c.plan, &c.groups[at.group]
	if r.count == 0 || r.node == flowgraph.NoNode {
		return
	}
	i := r.stayAt(at.host)
	if i < 0 {
		return
	}
	s := &r.stays[i]
	switch {
	case !s.own:
		way := r.pattern.find(at.host)
		price := flowgraph.Cost(r.pattern.ways[way].price)
		if s.units > 0 {
			price = c.runPrice(r, at.host)
		}
		p.reprice(r.ways[way], price)
	case s.arc == coming:
	case s.arc == flowgraph.NoArc && s.units > 0:
		s.arc = coming
		p.newStays = append(p.newStays, at)
		p.stayArcs = append(p.stayArcs, flowgraph.Arc{Tail: r.node, Head: c.hosts[at.host].node, Bounds: flowgraph.Bounds{Upper: int64(s.units)}, Cost: c.runPrice(r, at.host)})
	case s.arc != flowgraph.NoArc && s.units == 0:
		p.cut, p.removed = append(p.cut, s.arc), append(p.removed, s.arc)
	case s.arc != flowgraph.NoArc:
		p.bound(s.arc, int64(s.units))
	}
	if way := r.pattern.find(at.host); way >= 0 && r.pattern.ways[way].upper > 0 {
		// Together, who stays and who starts fit.
		p.bound(r.ways[way], int64(max(0, r.pattern.ways[way].upper-s.units)))
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

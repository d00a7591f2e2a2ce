package solvertest

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// Cluster is a network of the scheduler's shape under churn: classes of tasks
// point at hosts, racks, a cluster aggregator and a place to wait; hosts have
// convex parallel arcs to the sink.
type Cluster struct {
	*flowgraph.Network
	src             Source
	sink, all       flowgraph.NodeID
	hosts, racks    []flowgraph.NodeID
	waits           []flowgraph.NodeID
	classes         []flowgraph.NodeID
	pattern         [][]int // preferred hosts, shared by classes
	slots           int
	maxCost, supply int
	flows           Flows
}

// ClusterShape bounds a random cluster.
type ClusterShape struct {
	Hosts, Slots, Classes, Patterns, MaxCost, MaxSupply int
}

// NewCluster makes a cluster whose supply is near or above what fits.
func NewCluster(src Source, shape ClusterShape) *Cluster {
	c := &Cluster{Network: flowgraph.New(), src: src, slots: shape.Slots, maxCost: shape.MaxCost, supply: shape.MaxSupply}
	c.sink = c.AddNode(0)
	c.all = c.AddNode(0)
	for range shape.Hosts/4 + 1 {
		r := c.AddNode(0)
		c.racks = append(c.racks, r)
		c.AddArc(c.all, r, 0, flowgraph.Infinite, 0)
	}
	for range shape.Hosts {
		c.addHost()
	}
	for range shape.Classes/4 + 1 {
		w := c.AddNode(0)
		c.waits = append(c.waits, w)
		c.AddArc(w, c.sink, 0, flowgraph.Infinite, flowgraph.Cost(src.Intn(3)))
	}
	for range shape.Patterns {
		p := make([]int, 1+src.Intn(4))
		for i := range p {
			p[i] = src.Intn(shape.Hosts)
		}
		c.pattern = append(c.pattern, p)
	}
	for range shape.Classes {
		c.AddClass()
	}
	return c
}

func (c *Cluster) addHost() {
	h := c.AddNode(0)
	c.hosts = append(c.hosts, h)
	c.AddArc(c.racks[c.src.Intn(len(c.racks))], h, 0, int64(c.slots)*int64(1+c.src.Intn(2)), flowgraph.Cost(c.src.Intn(2)))
	for i := range c.slots {
		c.AddArc(h, c.sink, 0, 1, flowgraph.Cost(i*c.src.Intn(3)))
	}
}

// AddClass adds tasks alike, one to the limit of the shape.
func (c *Cluster) AddClass() {
	k := int64(c.src.Intn(c.supply) + 1)
	v := c.AddNode(k)
	c.SetSupply(c.sink, c.Supply(c.sink)-k)
	c.classes = append(c.classes, v)
	price := func() flowgraph.Cost { return flowgraph.Cost(c.src.Intn(c.maxCost + 1)) }
	c.AddArc(v, c.waits[c.src.Intn(len(c.waits))], 0, flowgraph.Infinite, 2*price()+flowgraph.Cost(c.maxCost))
	if c.src.Intn(4) > 0 {
		c.AddArc(v, c.all, 0, k, price()+flowgraph.Cost(c.maxCost)/2)
	}
	for range c.src.Intn(3) {
		c.AddArc(v, c.racks[c.src.Intn(len(c.racks))], 0, flowgraph.Infinite, price())
	}
	for _, i := range c.pattern[c.src.Intn(len(c.pattern))] {
		c.AddArc(v, c.hosts[i%len(c.hosts)], 0, int64(c.src.Intn(int(k)+1)), price())
	}
}

// Classes lists the nodes of the classes there are.
func (c *Cluster) Classes() []flowgraph.NodeID { return c.classes }

// Churn applies k random events of a cluster's life.
func (c *Cluster) Churn(k int) {
	for range k {
		switch c.src.Intn(10) {
		case 0, 1:
			c.AddClass()
		case 2, 3:
			c.finish()
		case 4:
			c.rescale()
		case 5, 6:
			c.reprice()
		case 7:
			c.toggleHost()
		case 8:
			c.replaceHost()
		case 9:
			c.growWaiting()
		}
	}
}

func (c *Cluster) remove(v flowgraph.NodeID) {
	for _, refs := range [][]flowgraph.Ref{c.In(v), c.Out(v)} {
		for _, r := range refs {
			c.flows.Forget(c.Network, r.Arc)
		}
	}
	c.RemoveNode(v)
}

// Follow reads what an optimal result of the network says has changed; see [Flows.Follow].
func (c *Cluster) Follow(r solver.Result) error { return c.flows.Follow(c.Network, r) }

func (c *Cluster) finish() {
	if len(c.classes) == 0 {
		return
	}
	i := c.src.Intn(len(c.classes))
	v := c.classes[i]
	c.SetSupply(c.sink, c.Supply(c.sink)+c.Supply(v))
	c.remove(v)
	c.classes[i] = c.classes[len(c.classes)-1]
	c.classes = c.classes[:len(c.classes)-1]
}

func (c *Cluster) rescale() {
	if len(c.classes) == 0 {
		return
	}
	v := c.classes[c.src.Intn(len(c.classes))]
	k := int64(c.src.Intn(c.supply + 1))
	c.SetSupply(c.sink, c.Supply(c.sink)+c.Supply(v)-k)
	c.SetSupply(v, k)
}

func (c *Cluster) reprice() {
	if len(c.classes) == 0 {
		return
	}
	out := c.Out(c.classes[c.src.Intn(len(c.classes))])
	a := out[c.src.Intn(len(out))].Arc
	c.SetCost(a, flowgraph.Cost(c.src.Intn(c.maxCost+1)))
}

func (c *Cluster) toggleHost() {
	for _, r := range c.Out(c.hosts[c.src.Intn(len(c.hosts))]) {
		c.SetBounds(r.Arc, 0, 1-c.Upper(r.Arc))
	}
}

func (c *Cluster) replaceHost() {
	i := c.src.Intn(len(c.hosts))
	c.remove(c.hosts[i])
	c.hosts[i] = c.hosts[len(c.hosts)-1]
	c.hosts = c.hosts[:len(c.hosts)-1]
	c.addHost()
}

// growWaiting raises the price of waiting for everyone in one place.
func (c *Cluster) growWaiting() {
	for _, r := range c.In(c.waits[c.src.Intn(len(c.waits))]) {
		c.SetCost(r.Arc, r.Cost+flowgraph.Cost(1+c.src.Intn(3)))
	}
}

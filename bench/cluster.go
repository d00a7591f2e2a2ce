package bench

import (
	"math/rand/v2"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// A band is a range of prices, both ends included.
type band struct{ low, high int }

// Prices, drawn evenly from their bands: of waiting for a job, the others for a
// pattern.
var (
	waitBand   = band{800, 2000} // of having no place
	anyBand    = band{300, 600}  // of the worst host, through the cluster aggregator
	rackBand   = band{150, 300}  // of the worst host of a rack
	preferBand = band{1, 150}    // of a preferred host
)

const (
	maxRacks = 3   // rack arcs of a task
	rackFit  = 4   // times as many units as to a host
	tierStep = 400 // between the parallel arcs of convex waiting
	loadStep = 15  // before the second of the parallel arcs out of a host; it grows with each
	downFor  = 5   // cycles that a host is gone
)

// way is an arc that a pattern offers: to a host, a rack or the cluster
// aggregator, as numbered by Cluster.place.
type way struct {
	place int32
	upper int32 // of the tasks of a class there, running ones included; 0: none
	price int32
}

// pattern is what the tasks of a class, or one task, are offered.
type pattern struct {
	ways []way
	// class is the group of this pattern, if merged and alive.
	class int32
}

// coming is the arc of a stay that the next Apply adds.
const coming = flowgraph.NoArc - 1

// stay holds the running tasks of a group on one host. If own is set their arc
// is theirs; else it is a way of a single task, re-priced.
type stay struct {
	host  int32
	units int32
	arc   flowgraph.ArcID
	own   bool
}

// group is a class, or a single task.
type group struct {
	node    flowgraph.NodeID
	job     int32
	count   int32          // tasks; 0: the group is gone
	waiting int32          // of them, by the last flow
	growth  flowgraph.Cost // added to the price of waiting
	pattern *pattern
	ways    []flowgraph.ArcID // parallel to pattern.ways
	waits   []flowgraph.ArcID
	stays   []stay
}

// job owns an unscheduled aggregator and its patterns.
type job struct {
	node     flowgraph.NodeID
	tasks    int32
	wait     int32 // price
	huge     bool
	patterns []*pattern
}

// host is a machine; exits are its parallel arcs to the sink.
type host struct {
	node  flowgraph.NodeID
	exits []flowgraph.ArcID
	entry flowgraph.ArcID // from its rack
	down  bool
}

// kind tells what a node of the network stands for.
type kind uint8

const (
	sinkNode kind = iota
	hostNode
	rackNode
	anyNode // the cluster aggregator
	jobNode
	groupNode
)

type meaning struct {
	kind  kind
	index int32
}

// Cluster plays a workload on a network. Use [NewCluster], then [Cluster.Build],
// then for each cycle [Cluster.Plan], [Cluster.Apply] and, after a solve, [Cluster.Absorb]. It
// is deterministic: the same workload and the same flows give the same network.
type Cluster struct {
	w   Workload
	rng *rand.Rand
	net *flowgraph.Network

	sink, any flowgraph.NodeID
	hosts     []host
	racks     []flowgraph.NodeID
	jobs      []job
	groups    []group
	means     []meaning          // indexed by NodeID
	places    []flowgraph.NodeID // of hosts, racks and the cluster aggregator, as numbered by place

	freeJobs, freeGroups []int32
	tasks                []int32 // one entry for each task: its group; those of huge jobs left out
	liveJobs             int
	total                int64 // tasks
	cycle                int
	downs                []outage // oldest first
	hugeJob              int32    // or -1

	waiting set // groups with waiting tasks
	loose   set // arcs of groups into aggregators that carry flow
	fed     set // hosts with flow from their rack
	settled []pair
	pairs   []pair
	plan    plan
}

// outage is a host that is gone since a cycle.
type outage struct {
	host  int32
	since int
}

// pair is a group on a host.
type pair struct{ group, host int32 }

// NewCluster draws the cluster and its first tasks; the network stays empty.
func NewCluster(w Workload) (*Cluster, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{
		w: w, rng: rand.New(rand.NewPCG(w.Seed, 0x5105ce)), net: flowgraph.New(),
		hosts: make([]host, w.Hosts), hugeJob: -1,
	}
	c.racks = make([]flowgraph.NodeID, (w.Hosts+w.HostsPerRack-1)/w.HostsPerRack)
	c.arrive(w.Tasks())
	if w.Placed {
		c.settle()
	}
	return c, nil
}

// Network returns the network that the cluster plays on.
func (c *Cluster) Network() *flowgraph.Network { return c.net }

// Counts of what is in the network now.
type Counts struct {
	Nodes   int `json:"nodes"`
	Arcs    int `json:"arcs"`
	Tasks   int `json:"tasks"`
	Groups  int `json:"groups"` // classes, or single tasks
	Running int `json:"running_arcs"`
}

// Counts returns them. O(groups).
func (c *Cluster) Counts() Counts {
	n := Counts{Nodes: c.net.NumNodes(), Arcs: c.net.NumArcs(), Tasks: int(c.total)}
	for i := range c.groups {
		if c.groups[i].count > 0 {
			n.Groups++
			n.Running += len(c.groups[i].stays)
		}
	}
	return n
}

func (c *Cluster) draw(b band) int32 { return int32(b.low + c.rng.IntN(b.high-b.low+1)) }

// rackPlace numbers a rack among what a way may lead to: hosts, then racks,
// then the cluster aggregator.
func (c *Cluster) rackPlace(r int32) int32 { return int32(len(c.hosts)) + r }
func (c *Cluster) anyPlace() int32         { return int32(len(c.hosts) + len(c.racks)) }
func (c *Cluster) rackOf(h int32) int32    { return h / int32(c.w.HostsPerRack) }

// newPattern draws preferred hosts, racks of the first few of them, and prices.
func (c *Cluster) newPattern() *pattern {
	p := &pattern{class: -1}
	racks := c.rng.IntN(maxRacks + 1)
	p.ways = make([]way, 0, c.w.Preferences+racks+1)
	for len(p.ways) < c.w.Preferences {
		h := int32(c.rng.IntN(len(c.hosts)))
		if p.find(h) < 0 {
			p.ways = append(p.ways, way{place: h, price: c.draw(preferBand), upper: c.bound(c.w.Fit)})
		}
	}
	for i := range min(racks, c.w.Preferences) {
		if r := c.rackPlace(c.rackOf(p.ways[i].place)); p.find(r) < 0 {
			p.ways = append(p.ways, way{place: r, price: c.draw(rackBand), upper: c.bound(rackFit * c.w.Fit)})
		}
	}
	p.ways = append(p.ways, way{place: c.anyPlace(), price: c.draw(anyBand)})
	return p
}

// bound draws the capacity of an arc of a class, if such are bounded.
func (c *Cluster) bound(most int) int32 {
	if most == 0 {
		return 0
	}
	return int32(1 + c.rng.IntN(most))
}

func (p *pattern) find(place int32) int {
	for i := range p.ways {
		if p.ways[i].place == place {
			return i
		}
	}
	return -1
}

// runPrice is what a running task of g pays on h: the cheapest way there, less
// the hysteresis.
func (c *Cluster) runPrice(g *group, h int32) flowgraph.Cost {
	p := g.pattern
	i := p.find(h)
	if i < 0 {
		i = p.find(c.rackPlace(c.rackOf(h)))
	}
	price := p.ways[len(p.ways)-1].price
	if i >= 0 {
		price = p.ways[i].price
	}
	return flowgraph.Cost(int(price) - c.w.Hysteresis)
}

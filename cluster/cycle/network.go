package cycle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ErrNotInNetwork says that a task has no part in the network of the last solve.
var ErrNotInNetwork = errors.New("cycle: not in the network of the last solve")

// NodeKind says what a node of the network stands for.
type NodeKind string

// The kinds of nodes.
const (
	ClassNode NodeKind = "CLASS" // tasks that wait and that placement cannot tell apart
	HostNode  NodeKind = "HOST"  // a candidate of some class
	SlotNode  NodeKind = "SLOT"  // what running tasks that may move have on a host
	PoolNode  NodeKind = "POOL"  // the unscheduled aggregator of a pool: who stays there waits
	SinkNode  NodeKind = "SINK"
)

// ArcKind says what it means to go along an arc.
type ArcKind string

// The kinds of arcs.
const (
	StartArc ArcKind = "START" // class to host: start there
	CrowdArc ArcKind = "CROWD" // host to sink: be one of so many that start there
	SwapArc  ArcKind = "SWAP"  // class to slot node: start in the place of one that moves
	MoveArc  ArcKind = "MOVE"  // slot node to class: move, and look for a place as those do who wait in the class
	WaitArc  ArcKind = "WAIT"  // class to pool: stay unplaced, in a tier
	DrainArc ArcKind = "DRAIN" // pool to sink
)

// Network is a copy of the flow network as the last solve left it. The caller owns it.
type Network struct {
	// Graph holds the copied nodes and arcs, numbered from 0 in the order of the planner's own.
	Graph *flowgraph.Network
	Nodes []Node // by NodeID
	Arcs  []Arc  // by ArcID
	// Solved tells whether the last solve found an optimum, so that flows, potentials and the objective mean
	// something.
	Solved    bool
	Objective int64 // of the whole network
}

// Node says what a node of a Network stands for.
type Node struct {
	Kind      NodeKind
	Name      string         // class: that of the first job with a task in it; host, pool: its own; slot node: the host's; or sink
	Potential flowgraph.Cost // sign as in package flowgraph; 0 if not solved
	// Of a class:
	Pool     cluster.PoolPath
	Priority int32
	Gang     bool // the core of a gang
	Request  cluster.Resources
}

// Arc says what an arc of a Network stands for.
type Arc struct {
	Kind ArcKind
	Flow int64 // of all classes, also where not all of them are in the copy; 0 if not solved
	// Of WaitArc: the tier, and its step, which is a part of the arc's cost.
	Tier cluster.Tier
	Step flowgraph.Cost
}

// Network returns a copy of the network of the last solve, with its flow. Classes that were placed by it are
// there until the next one. Given a task, it returns the part around it: its class, the hosts and the pool
// that the class has arcs to, and what leads on from there. The sink then asks for what the class supplies.
// It fails with ErrNotInNetwork if that solve knew nothing of the task. Complexity: nodes and arcs, and for a
// task what was placed.
func (p *Planner) Network(task *cluster.TaskKey) (*Network, error) {
	if p.newSolver == nil {
		return nil, errors.New("cycle: the planner plans without a flow, there is no network")
	}
	if p.graph == nil {
		return nil, errors.New("cycle: nothing has been planned yet, there is no network")
	}
	x := exporter{g: p.graph, ids: map[flowgraph.NodeID]flowgraph.NodeID{}, out: &Network{
		Graph: flowgraph.New(), Solved: p.graph.last.Solution != nil, Objective: p.graph.last.Objective,
	}}
	classes := p.solvedClasses()
	if task != nil {
		c := p.solvedClass(classes, *task)
		if c == nil {
			return nil, fmt.Errorf("%w: task %v", ErrNotInNetwork, *task)
		}
		classes = p.graph.reached(c)
	}
	x.copy(classes)
	return x.out, nil
}

// solvedClasses returns the classes that have a node: those that are left in the order of creation, then
// those gone.
func (p *Planner) solvedClasses() []*class {
	all := slices.Clone(p.order)
	for _, r := range p.graph.retired {
		if r.class != nil {
			all = append(all, r.class)
		}
	}
	return slices.DeleteFunc(all, func(c *class) bool { return c.node == flowgraph.NoNode })
}

// solvedClass returns the class that the task waits in, or was placed from by the last plan that solved.
func (p *Planner) solvedClass(classes []*class, k cluster.TaskKey) *class {
	at, waits := p.waiting[k]
	for _, c := range classes {
		if waits && c == at.class || !waits && slices.Contains(c.placed, k) {
			return c
		}
	}
	return nil
}

// reached returns the class, and those that its flow may go on to through slot nodes.
func (g *graph) reached(c *class) []*class {
	all := []*class{c}
	for i := 0; i < len(all); i++ {
		for _, s := range g.slots {
			if !s.takes(all[i]) {
				continue
			}
			for _, a := range s.out {
				if !slices.Contains(all, a.class) {
					all = append(all, a.class)
				}
			}
		}
	}
	return all
}

// exporter copies a part of a graph.
type exporter struct {
	g   *graph
	ids map[flowgraph.NodeID]flowgraph.NodeID // of the copy, by those of the original
	out *Network
}

func (x *exporter) copy(classes []*class) {
	g := x.g
	var supply int64
	hosts := map[*host]bool{}
	var order []*host
	for _, c := range classes {
		supply += g.net.Supply(c.node)
		for l := range c.links.all() {
			if !hosts[l.host] {
				hosts[l.host] = true
				order = append(order, l.host)
			}
		}
	}
	for _, c := range classes {
		key := &c.key.group
		x.node(c.node, g.net.Supply(c.node), Node{
			Kind: ClassNode, Name: string(c.job), Pool: key.pool, Priority: key.priority, Gang: key.gang, Request: c.row.task.Resources,
		})
	}
	for _, h := range order {
		x.node(h.node, 0, Node{Kind: HostNode, Name: string(h.id)})
	}
	var slots []*slotNode
	for _, s := range g.slots {
		if slices.ContainsFunc(s.in, func(a arrow) bool { return !x.absent(a.class.node) }) {
			slots = append(slots, s)
			x.node(s.node, 0, Node{Kind: SlotNode, Name: string(s.host.id), Request: s.out[0].unit.spec.Resources})
		}
	}
	for _, c := range classes {
		pool := c.key.group.pool
		if v, ok := g.pools[pool]; ok && x.absent(v) {
			x.node(v, 0, Node{Kind: PoolNode, Name: string(pool)})
		}
	}
	x.node(g.sink, -supply, Node{Kind: SinkNode, Name: "sink"})
	for _, c := range classes {
		x.class(c)
	}
	for _, h := range order {
		for _, a := range h.crowd {
			x.arc(a, Arc{Kind: CrowdArc})
		}
	}
	for _, s := range slots {
		for _, a := range s.in {
			if !x.absent(a.class.node) {
				x.arc(a.arc, Arc{Kind: SwapArc})
			}
		}
		for _, a := range s.out {
			x.arc(a.arc, Arc{Kind: MoveArc})
		}
	}
	drained := map[flowgraph.NodeID]bool{}
	for _, c := range classes {
		if v, ok := g.pools[c.key.group.pool]; ok && !drained[v] {
			drained[v] = true
			x.arc(g.net.Out(v)[0].Arc, Arc{Kind: DrainArc})
		}
	}
}

// class copies the arcs that leave the class.
func (x *exporter) class(c *class) {
	for l := range c.links.all() {
		x.arc(l.arc, Arc{Kind: StartArc})
	}
	for t, a := range c.wait {
		if a != flowgraph.NoArc {
			x.arc(a, Arc{Kind: WaitArc, Tier: cluster.Tier(t), Step: tierSteps[t]})
		}
	}
}

func (x *exporter) absent(v flowgraph.NodeID) bool {
	_, there := x.ids[v]
	return !there
}

func (x *exporter) node(v flowgraph.NodeID, supply int64, n Node) {
	x.ids[v] = x.out.Graph.AddNode(supply)
	if x.out.Solved {
		n.Potential = x.g.last.Potential(v)
	}
	x.out.Nodes = append(x.out.Nodes, n)
}

func (x *exporter) arc(a flowgraph.ArcID, as Arc) {
	d := x.g.net.Arc(a)
	x.out.Graph.AddArc(x.ids[d.Tail], x.ids[d.Head], d.Lower, d.Upper, d.Cost)
	if x.out.Solved {
		as.Flow = x.g.last.Flow(a)
	}
	x.out.Arcs = append(x.out.Arcs, as)
}

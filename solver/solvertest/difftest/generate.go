package difftest

import (
	"fmt"
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// Size bounds a generated script.
type Size struct {
	Nodes, Arcs int // sizes are log-uniform up to these
	Batches     int // of changes
}

// Shapes lists the kinds of networks, each of which hurts in its own way.
var Shapes = []string{"any", "cluster", "full", "chain", "parallel", "ring", "project", "streets", "sparse"}

// Generate makes the script of a seed: a network of one of [Shapes], then batches
// of changes with a solve after each. The same seed and size give the same.
func Generate(seed uint64, size Size) Script {
	src := solvertest.Seeded(seed)
	g := &generator{src: src}
	nodes := 1 + g.log(size.Nodes)
	arcs := g.log(size.Arcs)
	g.bounds()
	g.network(Shapes[src.Intn(len(Shapes))], nodes, arcs)
	g.op(Solve)
	for range size.Batches {
		g.batch()
	}
	return g.script
}

// Large makes one network of the given shape, of about as many arcs, or up to
// three times as many, for measuring. Not every one has a feasible flow.
func Large(shape string, seed uint64, arcs int) *flowgraph.Network {
	g := &generator{src: solvertest.Seeded(seed)}
	g.bounds()
	nodes := map[string]int{"any": arcs / 10, "cluster": arcs / 6, "full": arcs, "chain": arcs, "parallel": arcs, "ring": arcs / 10, "project": arcs / 4, "streets": arcs / 4, "sparse": arcs / 6}[shape]
	g.network(shape, nodes, arcs)
	w := newWorld()
	for _, op := range g.script {
		w.apply(op)
	}
	return w.net
}

// bounds draws how large costs and amounts may be.
func (g *generator) bounds() {
	g.maxCost = []int64{0, 1, 20, 1000, 1 << 20, 1 << 34, 1 << 40}[g.src.Intn(7)]
	g.maxAmount = []int64{1, 3, 12, 1000}[g.src.Intn(4)]
}

func (g *generator) network(shape string, nodes, arcs int) {
	switch shape {
	case "any":
		g.any(nodes, arcs)
	case "cluster":
		g.cluster(nodes, 0)
	case "full":
		g.cluster(nodes, 1)
	case "chain":
		g.chain(nodes, arcs)
	case "parallel":
		g.parallel(nodes, arcs)
	case "ring":
		g.ring(nodes, arcs)
	case "project":
		g.project(nodes)
	case "streets":
		g.streets(nodes)
	case "sparse":
		g.sparse(nodes, arcs)
	default:
		panic(fmt.Sprintf("difftest: %q is not a shape that there is a generator for", shape))
	}
}

type generator struct {
	src                solvertest.Source
	script             Script
	maxCost, maxAmount int64
	nodes, arcs        []int64 // labels in use; some arcs may be gone with their nodes
	label              int64
}

// log draws log-uniformly from [1, n].
func (g *generator) log(n int) int {
	return int(math.Exp(float64(g.src.Intn(1<<20)) / (1 << 20) * math.Log(float64(n+1))))
}

func (g *generator) op(verb Verb, args ...int64) {
	op := Op{Verb: verb}
	copy(op.Args[:], args)
	g.script = append(g.script, op)
}

func (g *generator) node(supply int64) int64 {
	g.label++
	g.op(AddNode, g.label)
	g.nodes = append(g.nodes, g.label)
	if supply != 0 {
		g.op(SetSupply, g.label, supply)
	}
	return g.label
}

func (g *generator) arc(tail, head, lower, upper, cost int64) {
	g.label++
	g.op(AddArc, g.label, tail, head, lower, upper, cost)
	g.arcs = append(g.arcs, g.label)
}

func (g *generator) cost() int64 {
	if g.maxCost > math.MaxInt32 {
		return int64(g.src.Intn(1<<10)) * (g.maxCost >> 10)
	}
	return int64(g.src.Intn(int(g.maxCost) + 1))
}

// amount is 0 as often as not when amounts are small.
func (g *generator) amount() int64 { return int64(g.src.Intn(int(g.maxAmount) + 1)) }

func (g *generator) supply() int64 {
	source, sink := g.amount(), g.amount()
	return source - sink
}

func (g *generator) some() int64 { return g.nodes[g.src.Intn(len(g.nodes))] }

// anyArc joins any two nodes: loops, lower bounds, negative costs of bounded
// capacity, no bound.
func (g *generator) anyArc() {
	cost, lower, upper := g.cost(), int64(0), g.amount()
	switch g.src.Intn(8) {
	case 0:
		cost = -cost
	case 1:
		lower = upper
	case 2, 3:
		upper = flowgraph.Infinite
	}
	g.arc(g.some(), g.some(), lower, upper, cost)
}

// grounded adds a node that a dear way joins with the first.
func (g *generator) grounded(supply int64) { g.ground(g.node(supply)) }

// ground adds the dear way, which no change touches: what is grounded stays
// feasible.
func (g *generator) ground(v int64) {
	dear := 3*g.maxCost + 1
	for _, way := range [][2]int64{{v, g.nodes[0]}, {g.nodes[0], v}} {
		g.label++
		g.op(AddArc, g.label, way[0], way[1], 0, flowgraph.Infinite, dear)
	}
}

// groundMost grounds all nodes of two scripts in three; the others become
// infeasible sooner or later.
func (g *generator) groundMost() {
	if g.src.Intn(3) > 0 {
		for _, v := range g.nodes[1:] {
			g.ground(v)
		}
	}
}

func (g *generator) any(nodes, arcs int) {
	g.node(0)
	for range nodes {
		g.grounded(g.supply())
	}
	for range arcs {
		g.anyArc()
	}
}

// cluster is the shape of scheduling: classes, patterns of preferred hosts that
// they share, two slots a host, a place to wait. With tight being 1, what there is
// to place is just what fits, and nobody may wait.
func (g *generator) cluster(nodes, tight int) {
	sink := g.node(0)
	wait := g.node(0)
	g.arc(wait, sink, 0, flowgraph.Infinite, 0)
	hosts := make([]int64, max(1, nodes/3))
	for i := range hosts {
		hosts[i] = g.node(0)
		for slot := range 2 {
			g.arc(hosts[i], sink, 0, 1, int64(slot)*g.cost())
		}
	}
	left := int64(2 * len(hosts))
	for c := 0; tight == 1 && left > 0 || tight == 0 && c < nodes; c++ {
		supply := g.amount()
		if tight == 1 {
			supply = min(left, 1+supply)
		}
		left -= supply
		class := g.node(supply)
		if tight == 0 {
			g.arc(class, wait, 0, flowgraph.Infinite, 2*g.maxCost+g.cost())
		}
		pattern := g.src.Intn(1 + len(hosts)/4)
		for i := range 1 + g.src.Intn(6) {
			g.arc(class, hosts[(4*pattern+i)%len(hosts)], 0, 1+g.amount(), g.cost())
		}
		if tight == 1 {
			g.arc(class, hosts[c%len(hosts)], 0, flowgraph.Infinite, g.cost())
		}
	}
	g.groundMost()
}

// chain is a long path with few shortcuts.
func (g *generator) chain(nodes, arcs int) {
	v := g.node(0)
	for range nodes {
		u := g.node(0)
		g.arc(v, u, 0, g.maxAmount+g.amount(), g.cost())
		v = u
	}
	g.op(SetSupply, v, -g.maxAmount)
	g.groundMost()
	for range min(arcs, nodes/8) {
		g.anyArc()
	}
}

// parallel has bundles of convex prices between few nodes.
func (g *generator) parallel(nodes, arcs int) {
	g.node(0)
	for range min(nodes, 12) {
		g.grounded(g.supply())
	}
	for arcs > 0 {
		tail, head, cost := g.some(), g.some(), int64(0)
		for range 1 + g.src.Intn(8) {
			cost += g.cost()
			g.arc(tail, head, 0, g.amount(), cost)
			arcs--
		}
	}
}

// ring has cycles of negative cost, rarely without a bound.
func (g *generator) ring(nodes, arcs int) {
	g.node(0)
	for range nodes {
		g.grounded(g.supply())
	}
	for i := range g.nodes {
		upper := g.amount()
		if g.src.Intn(4*len(g.nodes)) == 0 {
			upper = flowgraph.Infinite
		}
		g.arc(g.nodes[i], g.nodes[(i+1)%len(g.nodes)], 0, upper, -g.cost())
	}
	for range arcs {
		g.anyArc()
	}
}

// project has no cycle, costs below zero, and one end, which ways without a bound reach from
// nearly everywhere, as when a project is crashed.
func (g *generator) project(nodes int) {
	for range nodes {
		g.node(0)
	}
	end := g.node(0)
	for i, v := range g.nodes[:nodes] {
		for range 1 + g.src.Intn(3) {
			after := g.nodes[min(nodes, i+g.log(nodes))]
			short := -g.cost() / 3
			g.arc(v, after, 0, g.amount(), short-g.cost())
			if upper := g.maxAmount; g.src.Intn(8) > 0 {
				if g.src.Intn(2) == 0 {
					upper = flowgraph.Infinite
				}
				g.arc(v, after, 0, upper, short)
			}
		}
	}
	g.op(SetSupply, g.nodes[0], g.maxAmount)
	g.op(SetSupply, end, -g.maxAmount)
}

// streets is a map of streets, as wide as need be both ways, with beginnings and ends all over it. Beside some there is a
// narrow one.
func (g *generator) streets(nodes int) {
	few := 4 << g.src.Intn(10)
	way := func(v, w int64) {
		g.arc(v, w, 0, flowgraph.Infinite, g.cost())
		if g.src.Intn(few) == 0 {
			g.arc(v, w, 0, g.amount(), g.cost())
		}
	}
	width := g.log(nodes)
	for i := range nodes {
		v := g.node(0)
		if i%width > 0 {
			way(v, g.nodes[i-1])
			way(g.nodes[i-1], v)
		}
		if i >= width {
			way(v, g.nodes[i-width])
			way(g.nodes[i-width], v)
		}
	}
	supply := make([]int64, nodes)
	for range g.log(nodes) {
		amount := g.amount()
		supply[g.src.Intn(nodes)] += amount
		supply[g.src.Intn(nodes)] -= amount
	}
	g.supplies(supply)
	g.groundMost()
}

// sparse is a network without negative costs through which hardly anything flows, if at all.
func (g *generator) sparse(nodes, arcs int) {
	for range nodes {
		g.node(0)
	}
	for range arcs {
		g.arc(g.some(), g.some(), 0, []int64{g.amount(), flowgraph.Infinite}[g.src.Intn(2)], g.cost())
	}
	supply := make([]int64, nodes)
	for range g.src.Intn(8) {
		supply[g.src.Intn(nodes)]++
		supply[g.src.Intn(nodes)]--
	}
	g.supplies(supply)
	g.groundMost()
}

// supplies gives the nodes, in their order, what they supply.
func (g *generator) supplies(supply []int64) {
	for i, amount := range supply {
		if amount != 0 {
			g.op(SetSupply, g.nodes[i], amount)
		}
	}
}

// batch changes a few things or many and solves.
func (g *generator) batch() {
	for range g.log(1 + len(g.arcs)/8) {
		g.change()
	}
	switch g.src.Intn(40) {
	case 0:
		g.op(Copy)
	case 1, 2, 3:
		g.op(Step, int64(1+g.src.Intn(2000)))
		g.change()
	case 4:
		v := g.some()
		g.op(Tilt, v, 1)
		g.op(Solve)
		g.op(Tilt, v, -1)
	}
	g.op(Solve)
}

func (g *generator) change() {
	a := func() int64 {
		if len(g.arcs) == 0 {
			return 0
		}
		return g.arcs[g.src.Intn(len(g.arcs))]
	}
	switch g.src.Intn(12) {
	case 0:
		g.grounded(g.supply())
	case 1:
		if i := g.src.Intn(len(g.nodes)); i > 0 {
			g.op(RemoveNode, g.nodes[i])
			g.nodes[i] = g.nodes[len(g.nodes)-1]
			g.nodes = g.nodes[:len(g.nodes)-1]
		}
	case 2, 3:
		g.anyArc()
	case 4:
		g.op(RemoveArc, a())
	case 5, 6:
		g.op(SetSupply, g.some(), g.supply())
	case 7, 8:
		g.op(SetBounds, a(), 0, g.amount())
	case 9:
		lower := g.amount() / 2
		g.op(SetBounds, a(), lower, lower+g.amount())
	default:
		g.op(SetCost, a(), g.cost())
	}
}

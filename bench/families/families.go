package families

import (
	"math"
	"math/rand/v2"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Family is one kind of network.
type Family struct {
	Name  string
	Nodes int // of the usual size
	draw  func(d *drawer, nodes int)
}

// All are the families in the order of the documentation.
var All = []Family{
	{"netgen", 1 << 14, func(d *drawer, n int) { d.netgen(n, 8*n, 1000, 10_000) }},
	{"netgen-little-supply", 1 << 14, func(d *drawer, n int) { d.netgen(n, 8*n, 10, 10_000) }},
	{"netgen-dense", 1 << 11, func(d *drawer, n int) { d.netgen(n, n*root(n), 1000, 10_000) }},
	{"netgen-costs-2^40", 3000, func(d *drawer, n int) { d.netgen(n, 8*n, 1000, 1<<40) }},
	{"gridgen", 1 << 14, (*drawer).gridgen},
	{"goto", 1 << 14, (*drawer).gridOnTorus},
	{"grid-wide", 1 << 14, func(d *drawer, n int) { d.grid(16, n/16) }},
	{"grid-long", 1 << 14, func(d *drawer, n int) { d.grid(n/16, 16) }},
	{"grid-square", 1 << 14, func(d *drawer, n int) { d.grid(root(n), root(n)) }},
	{"roads-paths", 160 * 160, func(d *drawer, n int) { d.roads(n, root(n), 1, false) }},
	{"roads-flow", 160 * 160, func(d *drawer, n int) { d.roads(n, n/4, 20, false) }},
	{"roads-wide", 160 * 160, func(d *drawer, n int) { d.roads(n, n/4, 20, true) }},
	{"vision", 8000, (*drawer).vision},
	{"transportation-dense", 800, func(d *drawer, n int) { d.transportation(n/2, n/2) }},
	{"transportation-sparse", 20_000, func(d *drawer, n int) { d.transportation(n/2, 8) }},
	{"assignment-product", 512, (*drawer).assignmentProduct},
	{"assignment-geometric", 512, (*drawer).assignmentGeometric},
	{"assignment-sparse", 32_000, (*drawer).assignmentSparse},
	{"maximum-flow", 16_000, (*drawer).maximumFlow},
	{"one-path", 5000, (*drawer).onePath},
	{"all-paths", 5000, (*drawer).allPaths},
	{"circulation", 10_000, (*drawer).circulation},
	{"circulation-lower-bounds", 10_000, (*drawer).circulationLower},
	{"circulation-torus", 160 * 160, (*drawer).circulationTorus},
	{"pipeline", 8000, (*drawer).pipeline},
	{"time-space", 8000, (*drawer).timeSpace},
	{"earth-mover", 160 * 160, (*drawer).earthMover},
	{"phase-unwrapping", 100 * 100, (*drawer).phaseUnwrapping},
	{"power-law", 5000, (*drawer).powerLaw},
	{"lot-sizing", 30_000, (*drawer).lotSizing},
	{"ten-layers", 10_000, (*drawer).tenLayers},
	{"project-crashing", 4000, (*drawer).projectCrashing},
	{"evacuation", 8000, (*drawer).evacuation},
	{"total-variation", 120 * 120, (*drawer).totalVariation},
}

// Draw draws a network of about so many nodes, at least 200.
func (f Family) Draw(seed uint64, nodes int) *flowgraph.Network {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0)), net: flowgraph.New()}
	f.draw(d, nodes)
	return d.net
}

// drawer draws one network, the nodes of which are numbered from 0.
type drawer struct {
	*rand.Rand
	net *flowgraph.Network
}

// nodes adds k nodes and returns the first.
func (d *drawer) nodes(k int) int {
	first := d.net.NodeBound()
	for range k {
		d.net.AddNode(0)
	}
	return first
}

func (d *drawer) arc(tail, head int, upper, cost int64) { d.bounded(tail, head, 0, upper, cost) }

func (d *drawer) bounded(tail, head int, lower, upper, cost int64) {
	d.net.AddArc(flowgraph.NodeID(tail), flowgraph.NodeID(head), lower, upper, flowgraph.Cost(cost))
}

func (d *drawer) supply(v int) int64 { return d.net.Supply(flowgraph.NodeID(v)) }

// ship adds a demand for an amount from one node at another.
func (d *drawer) ship(from, to int, amount int64) {
	d.net.SetSupply(flowgraph.NodeID(from), d.supply(from)+amount)
	d.net.SetSupply(flowgraph.NodeID(to), d.supply(to)-amount)
}

// between draws from low to high, both included.
func (d *drawer) between(low, high int64) int64 { return low + d.Int64N(high-low+1) }

// scatter adds arcs between random nodes.
func (d *drawer) scatter(arcs, nodes int, maxUpper, minCost, maxCost int64) {
	for range arcs {
		d.arc(d.IntN(nodes), d.IntN(nodes), d.between(1, maxUpper), d.between(minCost, maxCost))
	}
}

// detour adds a node by which all supply can go at a price for each half of the
// way, so that some flow is feasible.
func (d *drawer) detour(price int64) {
	ground := d.nodes(1)
	for v := range ground {
		switch s := d.supply(v); {
		case s > 0:
			d.arc(v, ground, s, price)
		case s < 0:
			d.arc(ground, v, -s, price)
		}
	}
}

// root is the square root, rounded down.
func root(n int) int { return int(math.Sqrt(float64(n))) }

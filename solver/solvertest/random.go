package solvertest

import (
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Source draws numbers; from a seed, or from rapid so that failures shrink.
type Source interface {
	// Intn returns a number in [0, n).
	Intn(n int) int
}

// Seeded returns a source that repeats for a seed.
func Seeded(seed uint64) Source { return seeded{rand.New(rand.NewPCG(seed, 0))} }

type seeded struct{ *rand.Rand }

func (s seeded) Intn(n int) int { return s.IntN(n) }

type rapidSource struct{ t *rapid.T }

func (s rapidSource) Intn(n int) int { return rapid.IntRange(0, n-1).Draw(s.t, "draw") }

// Shape bounds a random network.
type Shape struct {
	Nodes, Arcs        int
	MaxCost, MaxAmount int64
}

// Random makes a network of any structure: loops, parallel arcs, negative costs,
// lower bounds, capacity zero, infinite capacity on arcs of no negative cost.
// Node 0 can reach and be reached by all at a high price, so that most are
// feasible.
func Random(src Source, shape Shape) *flowgraph.Network {
	n := flowgraph.New()
	ground := n.AddNode(0)
	for range shape.Nodes {
		AddNode(n, src, shape, ground)
	}
	for range shape.Arcs {
		AddArc(n, src, shape)
	}
	return n
}

// AddNode adds a node that can exchange flow with ground at a high price, and
// lets ground balance its supply.
func AddNode(n *flowgraph.Network, src Source, shape Shape, ground flowgraph.NodeID) flowgraph.NodeID {
	supply := int64(0)
	if src.Intn(3) > 0 {
		supply = int64(src.Intn(int(2*shape.MaxAmount+1))) - shape.MaxAmount
	}
	v := n.AddNode(supply)
	n.SetSupply(ground, n.Supply(ground)-supply)
	price := flowgraph.Cost(shape.MaxCost * 3)
	n.AddArc(v, ground, 0, flowgraph.Infinite, price)
	n.AddArc(ground, v, 0, flowgraph.Infinite, price)
	return v
}

// AddArc adds an arc between random nodes.
func AddArc(n *flowgraph.Network, src Source, shape Shape) {
	tail, head := node(n, src), node(n, src)
	cost := flowgraph.Cost(int64(src.Intn(int(2*shape.MaxCost+1))) - shape.MaxCost/2)
	lower, upper := int64(0), int64(src.Intn(int(shape.MaxAmount+1)))
	if src.Intn(8) == 0 {
		lower = upper
		upper += int64(src.Intn(3))
	}
	if cost >= 0 && src.Intn(3) == 0 {
		upper = flowgraph.Infinite
	}
	n.AddArc(tail, head, lower, upper, cost)
}

// Perturb applies k random verbs. Supplies stay balanced most of the time.
func Perturb(n *flowgraph.Network, src Source, k int) {
	shape := Shape{MaxCost: 20, MaxAmount: 5}
	for range k {
		ground := firstNode(n)
		switch src.Intn(9) {
		case 0:
			AddNode(n, src, shape, ground)
		case 1:
			if v := node(n, src); v != ground {
				n.SetSupply(ground, n.Supply(ground)+n.Supply(v))
				n.RemoveNode(v)
			}
		case 2, 3:
			AddArc(n, src, shape)
		case 4:
			if v := node(n, src); v != ground {
				s := int64(src.Intn(9) - 4)
				n.SetSupply(ground, n.Supply(ground)+n.Supply(v)-s)
				n.SetSupply(v, s)
			}
		default:
			if a, ok := anyArc(n, src); ok {
				changeArc(n, src, a)
			}
		}
	}
}

func changeArc(n *flowgraph.Network, src Source, a flowgraph.ArcID) {
	switch src.Intn(4) {
	case 0:
		n.RemoveArc(a)
	case 1:
		lower := int64(src.Intn(2))
		n.SetBounds(a, lower, lower+int64(src.Intn(5)))
	case 2:
		cost := flowgraph.Cost(src.Intn(60) - 15)
		if n.Upper(a) == flowgraph.Infinite && src.Intn(8) > 0 {
			cost = max(cost, 0)
		}
		n.SetCost(a, cost)
	case 3:
		n.SetBounds(a, 0, n.Upper(a))
	}
}

func firstNode(n *flowgraph.Network) flowgraph.NodeID {
	for v := flowgraph.NodeID(0); ; v++ {
		if n.NodeAlive(v) {
			return v
		}
	}
}

func node(n *flowgraph.Network, src Source) flowgraph.NodeID {
	v := flowgraph.NodeID(src.Intn(n.NodeBound()))
	for !n.NodeAlive(v) {
		v = flowgraph.NodeID((int(v) + 1) % n.NodeBound())
	}
	return v
}

func anyArc(n *flowgraph.Network, src Source) (flowgraph.ArcID, bool) {
	if n.NumArcs() == 0 {
		return flowgraph.NoArc, false
	}
	a := flowgraph.ArcID(src.Intn(n.ArcBound()))
	for !n.ArcAlive(a) {
		a = flowgraph.ArcID((int(a) + 1) % n.ArcBound())
	}
	return a, true
}

package flowgraph

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

// NodeID is the index of a node.
type NodeID int32

// ArcID is the index of an arc.
type ArcID int32

// Cost is a price per unit of flow.
type Cost int64

const (
	// NoNode and NoArc name no node and no arc.
	NoNode NodeID = -1
	NoArc  ArcID  = -1

	// Infinite as an upper bound means that there is none.
	Infinite int64 = math.MaxInt64

	maxIndex = math.MaxInt32
)

// Arc is the description of one arc. Lower and Upper are amounts of flow.
type Arc struct {
	Tail, Head   NodeID
	Lower, Upper int64
	Cost         Cost
}

// Slices are parallel only where one array is read alone. Every verb on an arc
// needs nearly all its fields, so an arc is one record: a removal then touches
// one cache line of it instead of eight.
type arcRecord struct {
	Arc                  // Tail is NoNode when the id is free
	outPos, inPos int32  // positions in the lists of tail and head
	stamp         uint32 // epoch in which it was last logged
	born          uint32 // low bits of the position in the log at which it was added
}

type nodeRecord struct {
	supply  int64
	out, in span
	stamp   uint32
	alive   bool
}

// Stats counts what the verbs have done since [New]. A call that changed
// nothing does not count.
type Stats struct {
	NodesAdded, NodesRemoved, SuppliesChanged           int64
	ArcsAdded, ArcsRemoved, CostsChanged, BoundsChanged int64
}

// Network is a directed network under change. Use [New].
//
// Memory is about 110 bytes an arc and 56 a node at the largest size reached;
// removal keeps it for reuse, and verbs allocate only when a new maximum is
// reached.
type Network struct {
	nodes     []nodeRecord
	arcs      []arcRecord
	open      []uint64 // a bit for each arc, see Open
	freeNodes []NodeID
	freeArcs  []ArcID
	out, in   adjacency
	log       changeLog
	stats     Stats
	totals    totals
	asked     [][2]int32 // scratch of what is asked for ahead
}

// totals are kept so that a solver can check its range without a scan.
type totals struct {
	supply, positive Int128
	lower, upper     Int128 // upper: finite ones only
	negative         int    // arcs of negative cost
	costBits         [65]int32
}

// New returns an empty network.
func New() *Network { return &Network{} }

// NumNodes returns the number of live nodes.
func (n *Network) NumNodes() int { return len(n.nodes) - len(n.freeNodes) }

// NumArcs returns the number of live arcs.
func (n *Network) NumArcs() int { return len(n.arcs) - len(n.freeArcs) }

// NodeBound is larger than every NodeID in use. It never falls.
func (n *Network) NodeBound() int { return len(n.nodes) }

// ArcBound is larger than every ArcID in use. It never falls.
func (n *Network) ArcBound() int { return len(n.arcs) }

// NodeAlive tells whether v names a node. Any value may be asked.
func (n *Network) NodeAlive(v NodeID) bool {
	return uint(v) < uint(len(n.nodes)) && n.nodes[v].alive
}

// ArcAlive tells whether a names an arc. Any value may be asked.
func (n *Network) ArcAlive(a ArcID) bool {
	return uint(a) < uint(len(n.arcs)) && n.arcs[a].Tail >= 0
}

// Stats returns the counters of work done so far.
func (n *Network) Stats() Stats { return n.stats }

// TotalSupply returns the sum of all supplies; a network with a feasible flow
// has sum zero. O(1).
func (n *Network) TotalSupply() Int128 { return n.totals.supply }

// Volume bounds from above the flow that any arc can carry in some optimal
// flow: all positive supply and lower bounds, and, where a cost is negative and
// so a cycle may pay, all finite upper bounds. O(1).
func (n *Network) Volume() (int64, bool) {
	v := n.totals.positive
	v.addWide(n.totals.lower)
	if n.totals.negative > 0 {
		v.addWide(n.totals.upper)
	}
	return v.Int64()
}

// CostBits returns the bit length of the largest |cost| on a live arc. O(1).
func (n *Network) CostBits() int {
	for b := 64; b > 0; b-- {
		if n.totals.costBits[b] > 0 {
			return b
		}
	}
	return 0
}

// Supply returns the supply of v.
func (n *Network) Supply(v NodeID) int64 { n.checkNode(v); return n.nodes[v].supply }

// AddNode adds a node and returns its id. Amortized O(1).
func (n *Network) AddNode(supply int64) NodeID {
	var v NodeID
	if k := len(n.freeNodes); k > 0 {
		v = n.freeNodes[k-1]
		n.freeNodes = n.freeNodes[:k-1]
	} else {
		if len(n.nodes) == maxIndex {
			panic("flowgraph: more than 2³¹ nodes")
		}
		v = NodeID(len(n.nodes))
		n.nodes = append(hugepage.Grow(n.nodes, 1), nodeRecord{})
	}
	r := &n.nodes[v]
	r.alive, r.supply = true, supply
	n.totals.addSupply(supply, 1)
	n.stats.NodesAdded++
	n.touchNode(v)
	return v
}

// SetSupply sets the supply of v; negative is demand. O(1).
func (n *Network) SetSupply(v NodeID, supply int64) {
	n.checkNode(v)
	r := &n.nodes[v]
	if r.supply == supply {
		return
	}
	n.totals.addSupply(r.supply, -1)
	n.totals.addSupply(supply, 1)
	r.supply = supply
	n.stats.SuppliesChanged++
	n.touchNode(v)
}

// Out returns the arcs that leave v, in an order that depends on the history of
// the network alone. The slice is the network's own: read only, valid until
// the next verb that changes the network. O(1).
func (n *Network) Out(v NodeID) []Ref { n.checkNode(v); return n.out.list(n.nodes[v].out) }

// In returns the arcs that enter v, under the rules of [Network.Out].
func (n *Network) In(v NodeID) []Ref { n.checkNode(v); return n.in.list(n.nodes[v].in) }

func (n *Network) checkNode(v NodeID) {
	if !n.NodeAlive(v) {
		panic(fmt.Sprintf("flowgraph: node %d is not alive", v))
	}
}

func (t *totals) addSupply(s int64, sign int64) {
	t.supply.AddMul(s, sign)
	if s > 0 {
		t.positive.AddMul(s, sign)
	}
}

func (t *totals) addBounds(lower, upper int64) {
	t.lower.Add(lower)
	if upper != Infinite {
		t.upper.Add(upper)
	}
}

func (t *totals) dropBounds(lower, upper int64) {
	t.lower.Add(-lower) // no overflow: 0 ≤ lower
	if upper != Infinite {
		t.upper.Add(-upper)
	}
}

func (t *totals) addCost(c Cost, sign int32) {
	size := uint64(c)
	if c < 0 {
		size = -size
		t.negative += int(sign)
	}
	t.costBits[bits.Len64(size)] += sign
}

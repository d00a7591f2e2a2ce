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

// Bounds are the least and the most flow that an arc may carry; Upper may be [Infinite].
type Bounds struct{ Lower, Upper int64 }

// Arc is the description of one arc. (The compiler keeps structs of up to four fields in
// registers.)
type Arc struct {
	Tail, Head NodeID
	Bounds
	Cost Cost
}

// Slices are parallel only where one array is read alone. Every verb on an arc needs nearly all its fields,
// so an arc is one record: a removal touches one cache line of it instead of eight. Bounds are apart, since
// those of most arcs are among the few that two bits tell. With them, half of all records would lie in two
// lines.
type arcRecord struct {
	tail, head    NodeID // tail is NoNode when the id is free
	outPos, inPos int32  // positions in the lists of tail and head
	cost          Cost
	stamp         uint32 // epoch in which it was last logged
	born          uint32 // low bits of the position in the log at which it was added, and what bounds it has
}

// The kinds of bounds, in the low bits of born: [0, 0], [0, 1], [0, Infinite], and those
// that are in Network.bounds.
const (
	upToOne     = 1
	upToAny     = 2
	otherBounds = 3
	kindBits    = 2
	kindMask    = 1<<kindBits - 1
)

var uppers = [1 << kindBits]int64{0, 1, Infinite}

// A record of a node does not straddle cache lines, either. What verbs on arcs need of heads is apart. So
// that of all nodes which arcs enter stays in the cache.
type nodeRecord struct {
	supply int64
	out    span
	stamp  uint32
	alive  bool
}

type headRecord struct {
	in    span
	alive bool
}

// Stats counts what the verbs have done since [New]. A call that changed
// nothing does not count.
type Stats struct {
	NodesAdded, NodesRemoved, SuppliesChanged           int64
	ArcsAdded, ArcsRemoved, CostsChanged, BoundsChanged int64
}

// Network is a directed network under change. Use [New].
//
// Memory is about 100 bytes an arc, 16 more where its bounds are none of the usual
// ones, and 64 a node at the largest size reached; removal keeps it for reuse, and
// verbs allocate only when a new maximum is reached.
type Network struct {
	nodes     []nodeRecord
	heads     []headRecord
	arcs      []arcRecord
	bounds    []Bounds // of arcs with otherBounds; perhaps shorter than arcs
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
func New() *Network {
	return &Network{log: changeLog{entries: make([]Change, 0, 2*minWindow), later: make([]Change, 0, 2*minWindow), epoch: 1}}
}

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
	return uint(a) < uint(len(n.arcs)) && n.arcs[a].tail >= 0
}

// Stats returns the counters of work done so far.
func (n *Network) Stats() Stats { return n.stats }

// TotalSupply returns the sum of all supplies; a network with a feasible flow
// has sum zero. O(1).
func (n *Network) TotalSupply() Int128 { return n.totals.supply }

// Volume bounds from above the flow that any arc can carry in some optimal flow. It is all positive supply
// and lower bounds. Where a cost is negative, and so a cycle may pay, all finite upper bounds are added. O(1).
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

// FreeArcs returns how many live arcs cost nothing. O(1).
func (n *Network) FreeArcs() int { return int(n.totals.costBits[0]) }

// NegativeArcs returns how many live arcs have a negative cost. O(1).
func (n *Network) NegativeArcs() int { return n.totals.negative }

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
		n.heads = append(hugepage.Grow(n.heads, 1), headRecord{})
	}
	n.begin(1)
	r := &n.nodes[v]
	r.alive, r.supply = true, supply
	n.heads[v].alive = true
	n.totals.addSupply(supply, 1)
	n.stats.NodesAdded++
	n.log.touchNode(v, &r.stamp)
	return v
}

// SetSupply sets the supply of v; negative is demand. O(1).
func (n *Network) SetSupply(v NodeID, supply int64) {
	n.checkNode(v)
	r := &n.nodes[v]
	if r.supply == supply {
		return
	}
	n.begin(1)
	n.totals.addSupply(r.supply, -1)
	n.totals.addSupply(supply, 1)
	r.supply = supply
	n.stats.SuppliesChanged++
	n.log.touchNode(v, &r.stamp)
}

// Out returns the arcs that leave v, in an order that depends on the history of
// the network alone. The slice is the network's own: read only, valid until
// the next verb that changes the network. O(1).
func (n *Network) Out(v NodeID) []Ref { n.checkNode(v); return n.out.list(n.nodes[v].out) }

// In returns the arcs that enter v, under the rules of [Network.Out].
func (n *Network) In(v NodeID) []Ref { n.checkHead(v); return n.in.list(n.heads[v].in) }

func (n *Network) checkNode(v NodeID) {
	if !n.NodeAlive(v) {
		panic(fmt.Sprintf("flowgraph: node %d is not alive", v))
	}
}

// checkHead is checkNode by the record of v as a head.
func (n *Network) checkHead(v NodeID) {
	if uint(v) >= uint(len(n.heads)) || !n.heads[v].alive {
		panic(fmt.Sprintf("flowgraph: node %d is not alive", v))
	}
}

func (t *totals) addSupply(s int64, sign int64) {
	t.supply.AddMul(s, sign)
	if s > 0 {
		t.positive.AddMul(s, sign)
	}
}

func (t *totals) addBounds(b Bounds) {
	t.lower.Add(b.Lower)
	if b.Upper != Infinite {
		t.upper.Add(b.Upper)
	}
}

func (t *totals) dropBounds(b Bounds) {
	t.lower.Add(-b.Lower) // no overflow: 0 ≤ lower
	if b.Upper != Infinite {
		t.upper.Add(-b.Upper)
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

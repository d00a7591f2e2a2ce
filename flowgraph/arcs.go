package flowgraph

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

// AddArc adds an arc and returns its id. Parallel arcs and loops are allowed.
// Amortized O(1).
func (n *Network) AddArc(tail, head NodeID, lower, upper int64, cost Cost) ArcID {
	n.checkNode(tail)
	n.checkHead(head)
	checkBounds(lower, upper)
	n.begin(1)
	a := n.newArc()
	n.put([]Arc{{tail, head, Bounds{lower, upper}, cost}}, []ArcID{a})
	return a
}

// newArc returns a free id.
func (n *Network) newArc() ArcID {
	if k := len(n.freeArcs); k > 0 {
		a := n.freeArcs[k-1]
		n.freeArcs = n.freeArcs[:k-1]
		return a
	}
	if len(n.arcs) == maxIndex {
		panic("flowgraph: more than 2³¹ arcs")
	}
	a := ArcID(len(n.arcs))
	n.arcs = append(hugepage.Grow(n.arcs, 1), arcRecord{})
	if a&63 == 0 {
		n.open = append(n.open, 0)
	}
	return a
}

// put makes ids, which are free no more, the arcs of the list.
func (n *Network) put(list []Arc, ids []ArcID) {
	epoch, log, heads, arcs := n.log.epoch, n.log.entries, n.heads, n.arcs
	for i := range list {
		d, a := &list[i], ids[i]
		out, in := &n.nodes[d.Tail].out, &heads[d.Head].in
		if out.len == out.room {
			n.out.grow(out)
		}
		if in.len == in.room {
			n.in.grow(in)
		}
		n.out.arena[out.off+out.len] = Ref{Cost: d.Cost, Arc: a, Node: d.Head}
		n.in.arena[in.off+in.len] = Ref{Cost: d.Cost, Arc: a, Node: d.Tail}
		r := &arcs[a]
		r.tail, r.head, r.outPos, r.inPos, r.cost = d.Tail, d.Head, out.len, in.len, d.Cost
		out.len++
		in.len++
		n.totals.addCost(d.Cost, 1)
		if r.stamp != epoch {
			r.stamp = epoch
			log = append(log, Change(a))
		}
		r.born = uint32(n.log.first+Seq(len(log))-1)<<kindBits | n.bind(a, d.Bounds)
	}
	n.log.entries = log
	n.stats.ArcsAdded += int64(len(list))
}

// bind keeps the bounds of a, which has none, and returns their kind.
func (n *Network) bind(a ArcID, b Bounds) uint32 {
	n.totals.addBounds(b)
	if open := b.Lower == 0 && b.Upper > 0; open != n.Open(a) {
		n.open[uint32(a)>>6] ^= 1 << (uint32(a) & 63)
	}
	switch {
	case b.Lower == 0 && b.Upper <= upToOne:
		return uint32(b.Upper)
	case b == Bounds{0, Infinite}:
		return upToAny
	}
	if k := int(a) + 1 - len(n.bounds); k > 0 {
		n.bounds = hugepage.Grow(n.bounds, k)[:a+1]
	}
	n.bounds[a] = b
	return otherBounds
}

// boundsOf returns the bounds of a, whose record is r.
func (n *Network) boundsOf(a ArcID, r *arcRecord) Bounds {
	if r.born&kindMask == otherBounds {
		return n.bounds[a]
	}
	return Bounds{0, uppers[r.born&kindMask]}
}

// RemoveArc removes a. O(1).
func (n *Network) RemoveArc(a ArcID) {
	n.checkArc(a)
	n.begin(1)
	r := &n.arcs[a]
	if moved := n.out.remove(&n.nodes[r.tail].out, r.outPos); moved != NoArc {
		n.arcs[moved].outPos = r.outPos
	}
	if moved := n.in.remove(&n.heads[r.head].in, r.inPos); moved != NoArc {
		n.arcs[moved].inPos = r.inPos
	}
	n.totals.dropBounds(n.boundsOf(a, r))
	n.totals.addCost(r.cost, -1)
	r.tail = NoNode
	n.freeArcs = append(n.freeArcs, a)
	n.stats.ArcsRemoved++
	n.log.touchArc(a, &r.stamp)
}

// SetCost sets the price per unit of flow on a. O(1).
func (n *Network) SetCost(a ArcID, c Cost) {
	n.checkArc(a)
	n.begin(1)
	n.setCost(a, c)
}

// setCost is SetCost within a verb.
func (n *Network) setCost(a ArcID, c Cost) {
	r := &n.arcs[a]
	if r.cost == c {
		return
	}
	n.totals.addCost(r.cost, -1)
	n.totals.addCost(c, 1)
	r.cost = c
	n.out.arena[n.nodes[r.tail].out.off+r.outPos].Cost = c
	n.in.arena[n.heads[r.head].in.off+r.inPos].Cost = c
	n.stats.CostsChanged++
	n.log.touchArc(a, &r.stamp)
}

// SetBounds sets the bounds of the flow on a. O(1).
func (n *Network) SetBounds(a ArcID, lower, upper int64) {
	n.checkArc(a)
	checkBounds(lower, upper)
	r, b := &n.arcs[a], Bounds{lower, upper}
	old := n.boundsOf(a, r)
	if old == b {
		return
	}
	n.begin(1)
	n.totals.dropBounds(old)
	r.born = r.born&^kindMask | n.bind(a, b)
	n.stats.BoundsChanged++
	n.log.touchArc(a, &r.stamp)
}

// Arc returns the description of a. a may be free, but must be below [Network.ArcBound]; Tail then is
// [NoNode].
func (n *Network) Arc(a ArcID) Arc {
	r := &n.arcs[a]
	return Arc{r.tail, r.head, n.boundsOf(a, r), r.cost}
}

// Tail returns the node that a leaves.
func (n *Network) Tail(a ArcID) NodeID { n.checkArc(a); return n.arcs[a].tail }

// Head returns the node that a enters.
func (n *Network) Head(a ArcID) NodeID { n.checkArc(a); return n.arcs[a].head }

// Lower returns the least flow that a must carry.
func (n *Network) Lower(a ArcID) int64 { n.checkArc(a); return n.boundsOf(a, &n.arcs[a]).Lower }

// Upper returns the most flow that a may carry, or [Infinite].
func (n *Network) Upper(a ArcID) int64 { n.checkArc(a); return n.boundsOf(a, &n.arcs[a]).Upper }

// Cost returns the price per unit of flow on a.
func (n *Network) Cost(a ArcID) Cost { n.checkArc(a); return n.arcs[a].cost }

// Open tells whether Lower(a) = 0 < Upper(a): a may carry nothing, and may carry something. a must be alive.
// Open reads a bit of a set, not the record of a. O(1).
func (n *Network) Open(a ArcID) bool { return n.open[uint32(a)>>6]>>(uint32(a)&63)&1 != 0 }

func (n *Network) checkArc(a ArcID) {
	if !n.ArcAlive(a) {
		panic(fmt.Sprintf("flowgraph: arc %d is not alive", a))
	}
}

func checkBounds(lower, upper int64) {
	if lower < 0 || lower > upper {
		panic(fmt.Sprintf("flowgraph: bounds [%d, %d] break 0 ≤ lower ≤ upper", lower, upper))
	}
}

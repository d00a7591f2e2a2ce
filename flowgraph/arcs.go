package flowgraph

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

// AddArc adds an arc and returns its id. Parallel arcs and loops are allowed.
// Amortized O(1).
func (n *Network) AddArc(tail, head NodeID, lower, upper int64, cost Cost) ArcID {
	n.checkNode(tail)
	n.checkNode(head)
	return n.addArc(&Arc{tail, head, lower, upper, cost})
}

// addArc is AddArc between nodes that are alive.
func (n *Network) addArc(d *Arc) ArcID {
	checkBounds(d.Lower, d.Upper)
	var a ArcID
	if k := len(n.freeArcs); k > 0 {
		a = n.freeArcs[k-1]
		n.freeArcs = n.freeArcs[:k-1]
	} else {
		if len(n.arcs) == maxIndex {
			panic("flowgraph: more than 2³¹ arcs")
		}
		a = ArcID(len(n.arcs))
		n.arcs = append(hugepage.Grow(n.arcs, 1), arcRecord{})
		if a&63 == 0 {
			n.open = append(n.open, 0)
		}
	}
	r := &n.arcs[a]
	r.Arc = *d
	r.outPos = n.out.push(&n.nodes[d.Tail].out, Ref{Cost: d.Cost, Arc: a, Node: d.Head})
	r.inPos = n.in.push(&n.nodes[d.Head].in, Ref{Cost: d.Cost, Arc: a, Node: d.Tail})
	n.setOpen(a, d.Lower, d.Upper)
	n.totals.addBounds(d.Lower, d.Upper)
	n.totals.addCost(d.Cost, 1)
	n.stats.ArcsAdded++
	n.touchArc(a, r)
	r.born = uint32(n.log.next() - 1)
	return a
}

// RemoveArc removes a. O(1).
func (n *Network) RemoveArc(a ArcID) {
	n.checkArc(a)
	r := &n.arcs[a]
	if moved := n.out.remove(&n.nodes[r.Tail].out, r.outPos); moved != NoArc {
		n.arcs[moved].outPos = r.outPos
	}
	n.removeInward(a, r)
}

// removeInward removes a, which is already out of the list of its tail.
func (n *Network) removeInward(a ArcID, r *arcRecord) {
	if moved := n.in.remove(&n.nodes[r.Head].in, r.inPos); moved != NoArc {
		n.arcs[moved].inPos = r.inPos
	}
	n.totals.dropBounds(r.Lower, r.Upper)
	n.totals.addCost(r.Cost, -1)
	r.Tail = NoNode
	n.freeArcs = append(n.freeArcs, a)
	n.stats.ArcsRemoved++
	n.touchArc(a, r)
}

// SetCost sets the price per unit of flow on a. O(1).
func (n *Network) SetCost(a ArcID, c Cost) {
	n.checkArc(a)
	r := &n.arcs[a]
	if r.Cost == c {
		return
	}
	n.totals.addCost(r.Cost, -1)
	n.totals.addCost(c, 1)
	r.Cost = c
	n.out.arena[n.nodes[r.Tail].out.off+r.outPos].Cost = c
	n.in.arena[n.nodes[r.Head].in.off+r.inPos].Cost = c
	n.stats.CostsChanged++
	n.touchArc(a, r)
}

// SetBounds sets the bounds of the flow on a. O(1).
func (n *Network) SetBounds(a ArcID, lower, upper int64) {
	n.checkArc(a)
	checkBounds(lower, upper)
	r := &n.arcs[a]
	if r.Lower == lower && r.Upper == upper {
		return
	}
	n.totals.dropBounds(r.Lower, r.Upper)
	n.totals.addBounds(lower, upper)
	r.Lower, r.Upper = lower, upper
	n.setOpen(a, lower, upper)
	n.stats.BoundsChanged++
	n.touchArc(a, r)
}

// Arc returns the description of a. For an id that is free, any value below
// [Network.ArcBound], its Tail is [NoNode].
func (n *Network) Arc(a ArcID) Arc { return n.arcs[a].Arc }

// Tail returns the node that a leaves.
func (n *Network) Tail(a ArcID) NodeID { n.checkArc(a); return n.arcs[a].Tail }

// Head returns the node that a enters.
func (n *Network) Head(a ArcID) NodeID { n.checkArc(a); return n.arcs[a].Head }

// Lower returns the least flow that a must carry.
func (n *Network) Lower(a ArcID) int64 { n.checkArc(a); return n.arcs[a].Lower }

// Upper returns the most flow that a may carry, or [Infinite].
func (n *Network) Upper(a ArcID) int64 { n.checkArc(a); return n.arcs[a].Upper }

// Cost returns the price per unit of flow on a.
func (n *Network) Cost(a ArcID) Cost { n.checkArc(a); return n.arcs[a].Cost }

// Open tells whether a, which is alive, may carry nothing and may carry something: Lower(a) = 0 <
// Upper(a). It reads a bit of a set, not the record of a. O(1).
func (n *Network) Open(a ArcID) bool { return n.open[uint32(a)>>6]>>(uint32(a)&63)&1 != 0 }

func (n *Network) setOpen(a ArcID, lower, upper int64) {
	word, bit := &n.open[uint32(a)>>6], uint64(1)<<(uint32(a)&63)
	if lower == 0 && upper > 0 {
		*word |= bit
	} else {
		*word &^= bit
	}
}

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

package flowgraph

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
)

// A network is larger than the caches, and what its verbs need lies here and there in
// memory. Verbs on many nodes or arcs first ask, step by step, for what they will need of
// all: nobody then waits for one after the other.

// ahead is for how many arcs at once: few enough for all that to stay in the cache.
const ahead = 128

// AddArcs adds arcs, in this order, and appends their ids to ids. Of many it is faster
// than AddArc of each. Amortized O(len(arcs)).
func (n *Network) AddArcs(arcs []Arc, ids []ArcID) []ArcID {
	for len(arcs) > 0 {
		next := arcs[:min(len(arcs), ahead)]
		arcs = arcs[len(next):]
		for i := range next {
			n.AskForNode(next[i].Head)
		}
		for i := range next {
			n.checkNode(next[i].Head)
			n.in.askForEnd(n.nodes[next[i].Head].in)
			if free := len(n.freeArcs) - 1 - i; free >= 0 {
				n.AskForArc(n.freeArcs[free])
			}
		}
		for _, d := range next {
			ids = append(ids, n.AddArc(d.Tail, d.Head, d.Lower, d.Upper, d.Cost))
		}
	}
	return ids
}

// RemoveNode removes v and all its arcs. O(degree).
func (n *Network) RemoveNode(v NodeID) { n.RemoveNodes([]NodeID{v}) }

// RemoveNodes removes nodes and all their arcs, in this order. Of many it is faster
// than RemoveNode of each. O(sum of degrees).
func (n *Network) RemoveNodes(nodes []NodeID) {
	for len(nodes) > 0 {
		k := n.askForArcsOut(nodes)
		for _, v := range nodes[:k] {
			n.removeNode(v)
		}
		nodes = nodes[k:]
	}
}

// removeNode is RemoveNode of a node alone.
func (n *Network) removeNode(v NodeID) {
	n.checkNode(v)
	r := &n.nodes[v]
	// Last first: the freed ids then come back in their old order, so that
	// the arcs of the next node lie side by side.
	for r.out.len > 0 {
		r.out.len--
		a := n.out.arena[r.out.off+r.out.len].Arc
		n.removeInward(a, &n.arcs[a])
	}
	for r.in.len > 0 {
		n.RemoveArc(n.in.arena[r.in.off+r.in.len-1].Arc)
	}
	n.totals.addSupply(r.supply, -1)
	r.alive, r.supply = false, 0
	n.freeNodes = append(n.freeNodes, v)
	n.stats.NodesRemoved++
	n.touchNode(v)
}

// askForArcsOut asks for what the removal of the first of the given nodes needs of their
// arcs out, and returns of how many.
func (n *Network) askForArcsOut(nodes []NodeID) (count int) {
	for arcs := int32(0); count < len(nodes) && arcs < ahead; count++ {
		n.checkNode(nodes[count])
		arcs += n.nodes[nodes[count]].out.len
	}
	nodes = nodes[:count]
	for _, v := range nodes {
		list := n.Out(v)
		for i := 0; i < len(list); i += 4 { // of one cache line
			prefetch.Line(&list[i])
		}
	}
	for _, v := range nodes {
		for _, ref := range n.Out(v) {
			n.AskForArc(ref.Arc)
			n.AskForNode(ref.Node)
		}
	}
	for _, v := range nodes {
		for _, ref := range n.Out(v) {
			in := n.nodes[ref.Node].in
			prefetch.Line(&n.in.arena[in.off+n.arcs[ref.Arc].inPos])
			prefetch.Line(&n.in.arena[in.off+in.len-1])
		}
	}
	for _, v := range nodes {
		for _, ref := range n.Out(v) {
			in := n.nodes[ref.Node].in
			prefetch.Line(&n.arcs[n.in.arena[in.off+in.len-1].Arc].inPos)
		}
	}
	return count
}

// SetCosts sets the price of each of arcs to the one of costs at the same index,
// in this order. Of many it is faster than SetCost of each. O(len(arcs)).
func (n *Network) SetCosts(arcs []ArcID, costs []Cost) {
	if len(arcs) != len(costs) {
		panic(fmt.Sprintf("flowgraph: %d arcs, %d costs", len(arcs), len(costs)))
	}
	for len(arcs) > 0 {
		k := min(len(arcs), ahead)
		for _, a := range arcs[:k] {
			n.AskForArc(a)
		}
		for _, a := range arcs[:k] {
			n.checkArc(a)
			n.AskForNode(n.arcs[a].Tail)
			n.AskForNode(n.arcs[a].Head)
		}
		for _, a := range arcs[:k] {
			r := &n.arcs[a]
			prefetch.Line(&n.out.arena[n.nodes[r.Tail].out.off+r.outPos])
			prefetch.Line(&n.in.arena[n.nodes[r.Head].in.off+r.inPos])
		}
		for i, a := range arcs[:k] {
			n.SetCost(a, costs[i])
		}
		arcs, costs = arcs[k:], costs[k:]
	}
}

// AskForNode brings the record of v into the cache while the caller goes on. Any value may
// be given.
func (n *Network) AskForNode(v NodeID) {
	if uint(v) < uint(len(n.nodes)) {
		prefetch.Line(&n.nodes[v])
	}
}

// AskForArc brings the record of a into the cache while the caller goes on. Any value may
// be given.
func (n *Network) AskForArc(a ArcID) {
	if uint(a) < uint(len(n.arcs)) {
		r := &n.arcs[a]
		prefetch.Line(&r.Tail)
		prefetch.Line(&r.stamp) // which may be of the next cache line
	}
}

// askForEnd asks for where s is appended to.
func (d *adjacency) askForEnd(s span) {
	if end := int(s.off + s.len); end < len(d.arena) {
		prefetch.Line(&d.arena[end])
	}
}

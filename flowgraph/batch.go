package flowgraph

import (
	"fmt"
	"slices"

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
		prefetch.Each(n.nodes, next, &next[0].Head)
		if free := n.freeArcs[max(0, len(n.freeArcs)-len(next)):]; len(free) > 0 {
			prefetch.Each(n.arcs, free, &free[0])
		}
		asked := n.forAsking(len(next))
		for i := range next {
			n.checkNode(next[i].Tail)
			n.checkNode(next[i].Head)
			in := n.nodes[next[i].Head].in
			asked[i][0] = in.off + in.len
		}
		prefetch.Each(n.in.arena, asked, &asked[0][0])
		for i := range next {
			ids = append(ids, n.addArc(&next[i]))
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
	arcs := 0
	for ; count < len(nodes) && arcs < ahead; count++ {
		n.checkNode(nodes[count])
		arcs += int(n.nodes[nodes[count]].out.len)
	}
	if arcs == 0 {
		return count
	}
	nodes = nodes[:count]
	for _, v := range nodes {
		list := n.Out(v)
		for i := 0; i < len(list); i += 4 { // of one cache line
			prefetch.Line(&list[i])
		}
	}
	for _, v := range nodes {
		if list := n.Out(v); len(list) > 0 {
			prefetch.Each(n.arcs, list, &list[0].Arc)
			prefetch.Each(n.nodes, list, &list[0].Node)
		}
	}
	asked, k := n.forAsking(arcs), 0
	for _, v := range nodes {
		for _, ref := range n.Out(v) {
			in := n.nodes[ref.Node].in
			asked[k][0], asked[k][1] = in.off+n.arcs[ref.Arc].inPos, in.off+in.len-1
			k++
		}
	}
	prefetch.Each(n.in.arena, asked, &asked[0][0])
	prefetch.Each(n.in.arena, asked, &asked[0][1])
	for i := range asked {
		asked[i][1] = int32(n.in.arena[asked[i][1]].Arc)
	}
	prefetch.Each(n.arcs, asked, &asked[0][1])
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
		prefetch.Each(n.arcs, arcs[:k], &arcs[0])
		asked := n.forAsking(k)
		for i, a := range arcs[:k] {
			n.checkArc(a)
			asked[i][0], asked[i][1] = int32(n.arcs[a].Tail), int32(n.arcs[a].Head)
		}
		prefetch.Each(n.nodes, asked, &asked[0][0])
		prefetch.Each(n.nodes, asked, &asked[0][1])
		for i, a := range arcs[:k] {
			r := &n.arcs[a]
			asked[i][0], asked[i][1] = n.nodes[r.Tail].out.off+r.outPos, n.nodes[r.Head].in.off+r.inPos
		}
		prefetch.Each(n.out.arena, asked, &asked[0][0])
		prefetch.Each(n.in.arena, asked, &asked[0][1])
		for i, a := range arcs[:k] {
			n.SetCost(a, costs[i])
		}
		arcs, costs = arcs[k:], costs[k:]
	}
}

// forAsking returns room for k pairs of indices.
func (n *Network) forAsking(k int) [][2]int32 {
	n.asked = slices.Grow(n.asked[:0], k)[:k]
	return n.asked
}

// AskForNodes brings into the cache, while the caller goes on, the records of the nodes that the
// records of a list name by their fields like first, which is of the first record. Any values
// may be given.
func AskForNodes[R any, I ~int32](n *Network, list []R, first *I) {
	prefetch.Each(n.nodes, list, first)
}

// AskForArcs is AskForNodes for arcs.
func AskForArcs[R any, I ~int32](n *Network, list []R, first *I) {
	prefetch.Each(n.arcs, list, first)
}

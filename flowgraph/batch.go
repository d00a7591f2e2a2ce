package flowgraph

import "fmt"

// A network is larger than the caches, and what its verbs need lies here and there in
// memory. Reads that do not wait for each other take hardly longer than one: verbs on
// many nodes or arcs first read, step by step, what they will need of all.

// ahead is how many arcs are read at once: few enough to stay in the cache.
const ahead = 128

// RemoveNode removes v and all its arcs. O(degree).
func (n *Network) RemoveNode(v NodeID) { n.RemoveNodes([]NodeID{v}) }

// RemoveNodes removes nodes and all their arcs, in this order. Of many it is faster
// than RemoveNode of each. O(sum of degrees).
func (n *Network) RemoveNodes(nodes []NodeID) {
	for len(nodes) > 0 {
		k := n.readAhead(nodes)
		for _, v := range nodes[:k] {
			n.removeNode(v)
		}
		nodes = nodes[k:]
	}
}

// removeNode is RemoveNode without reading ahead.
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

// readAhead reads what the removal of the first of the given nodes needs of their arcs
// out, and returns of how many.
func (n *Network) readAhead(nodes []NodeID) (count int) {
	sum := ArcID(0)
	for arcs := int32(0); count < len(nodes) && arcs < ahead; count++ {
		n.checkNode(nodes[count])
		arcs += n.nodes[nodes[count]].out.len
	}
	nodes = nodes[:count]
	for _, v := range nodes {
		list := n.out.list(n.nodes[v].out)
		for i := 0; i < len(list); i += 4 { // of one cache line
			sum += list[i].Arc
		}
	}
	for _, v := range nodes {
		for _, ref := range n.out.list(n.nodes[v].out) {
			r := &n.arcs[ref.Arc]
			sum += ArcID(r.Head) + ArcID(r.inPos) // which may be of two cache lines
		}
	}
	for _, v := range nodes {
		for _, ref := range n.out.list(n.nodes[v].out) {
			in := &n.nodes[ref.Node].in
			sum += n.in.arena[in.off+n.arcs[ref.Arc].inPos].Arc + n.in.arena[in.off+in.len-1].Arc
		}
	}
	for _, v := range nodes {
		for _, ref := range n.out.list(n.nodes[v].out) {
			in := &n.nodes[ref.Node].in
			sum += ArcID(n.arcs[n.in.arena[in.off+in.len-1].Arc].inPos)
		}
	}
	n.fetched = sum
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
		sum := int32(0)
		for _, a := range arcs[:k] {
			n.checkArc(a)
			r := &n.arcs[a]
			sum += int32(n.out.arena[n.nodes[r.Tail].out.off+r.outPos].Arc)
			sum += int32(n.in.arena[n.nodes[r.Head].in.off+r.inPos].Arc)
		}
		n.fetched = ArcID(sum)
		for i, a := range arcs[:k] {
			n.SetCost(a, costs[i])
		}
		arcs, costs = arcs[k:], costs[k:]
	}
}

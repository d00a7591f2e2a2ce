package flowgraph

import (
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
)

// A network is larger than the caches, and what its verbs need lies here and there in memory. Verbs on many
// nodes or arcs first ask, step by step, for all that they will need. So they do not wait for one after the
// other.

// ahead is for how many arcs they ask at once: few enough for all that to stay in the cache.
const ahead = 128

// lineRefs is how many references of arcs lie in a cache line.
const lineRefs = 4

// AddArcs adds arcs, in this order, and appends their ids to ids. For many arcs it is faster than AddArc for
// each. Amortized O(len(arcs)).
func (n *Network) AddArcs(arcs []Arc, ids []ArcID) []ArcID {
	for len(arcs) > 0 {
		next := arcs[:min(len(arcs), ahead)]
		arcs = arcs[len(next):]
		prefetch.Each(n.heads, next, &next[0].Head)
		free := n.freeArcs[max(0, len(n.freeArcs)-len(next)):]
		if len(free) > 0 {
			prefetch.Each(n.arcs, free, &free[0])
		}
		asked := n.forAsking(len(next))
		for i := range next {
			d := &next[i]
			n.checkHead(d.Head)
			if i == 0 || d.Tail != next[i-1].Tail {
				n.checkNode(d.Tail)
				out := &n.nodes[d.Tail].out
				for at := out.len; at < min(out.room, out.len+3*lineRefs); at += lineRefs { // a dozen arcs perhaps
					prefetch.Line(&n.out.arena[out.off+at])
				}
			}
			checkBounds(d.Lower, d.Upper)
			in := &n.heads[d.Head].in
			asked[i][0] = in.off + in.len
		}
		prefetch.Each(n.in.arena, asked, &asked[0][0])
		n.begin(len(next))
		n.freeArcs = n.freeArcs[:len(n.freeArcs)-len(free)]
		first := len(ids)
		for i := range next {
			if k := len(free) - 1 - i; k >= 0 {
				ids = append(ids, free[k])
			} else {
				ids = append(ids, n.newArc())
			}
		}
		n.put(next, ids[first:])
	}
	return ids
}

// RemoveNode removes v and all its arcs. O(degree).
func (n *Network) RemoveNode(v NodeID) { n.RemoveNodes([]NodeID{v}) }

// RemoveNodes removes nodes and all their arcs, in this order. For many nodes it is faster than RemoveNode
// for each. O(sum of degrees).
func (n *Network) RemoveNodes(nodes []NodeID) {
	for len(nodes) > 0 {
		next := nodes[:min(len(nodes), ahead)]
		nodes = nodes[len(next):]
		prefetch.Each(n.nodes, next, &next[0])
		prefetch.Each(n.heads, next, &next[0])
		for len(next) > 0 {
			k := n.askForArcsOut(next)
			for _, v := range next[:k] {
				n.removeNode(v)
			}
			next = next[k:]
		}
	}
}

// removeNode is RemoveNode of a node alone.
func (n *Network) removeNode(v NodeID) {
	n.checkNode(v)
	r := &n.nodes[v]
	for r.out.len > 0 {
		n.cut(v, min(int(r.out.len), ahead))
	}
	for in := &n.heads[v].in; in.len > 0; {
		n.RemoveArc(n.in.arena[in.off+in.len-1].Arc)
	}
	n.out.clear(&r.out)
	n.in.clear(&n.heads[v].in)
	n.begin(1)
	n.totals.addSupply(r.supply, -1)
	r.alive, r.supply, n.heads[v].alive = false, 0, false
	n.freeNodes = append(n.freeNodes, v)
	n.stats.NodesRemoved++
	n.log.touchNode(v, &r.stamp)
}

// cut removes the last k arcs out of v.
func (n *Network) cut(v NodeID, k int) {
	n.begin(k)
	out := &n.nodes[v].out
	out.len -= int32(k)
	gone := n.out.arena[out.off+out.len:][:k]
	n.freeArcs = slices.Grow(n.freeArcs, k)
	free, log := n.freeArcs[len(n.freeArcs):][:k], n.log.entries
	heads, arcs, in := n.heads, n.arcs, n.in.arena
	epoch, ones := n.log.epoch, int64(0)
	// Last first: the freed ids then come back in their old order, so that
	// the arcs of the next node lie side by side.
	for i := range free {
		ref := &gone[len(gone)-1-i]
		a := ref.Arc
		r := &arcs[a]
		list := &heads[ref.Node].in
		list.len--
		if at := r.inPos; at != list.len {
			moved := &in[list.off+list.len]
			in[list.off+at] = *moved
			arcs[moved.Arc].inPos = at
		}
		switch r.born & kindMask {
		case upToOne:
			ones++
		case otherBounds:
			n.totals.dropBounds(n.bounds[a])
		}
		n.totals.addCost(r.cost, -1)
		r.tail = NoNode
		free[i] = a
		if r.stamp != epoch {
			r.stamp = epoch
			log = append(log, Change(a))
		}
	}
	n.totals.upper.Add(-ones)
	n.freeArcs, n.log.entries = n.freeArcs[:len(n.freeArcs)+k], log
	n.stats.ArcsRemoved += int64(k)
}

// askForArcsOut asks for what the removal of the first nodes needs of their arcs out. It returns for how many
// nodes it did.
func (n *Network) askForArcsOut(nodes []NodeID) (count int) {
	arcs, asked := 0, n.asked[:0]
	for ; count < len(nodes) && arcs < ahead; count++ {
		n.checkNode(nodes[count])
		out := n.nodes[nodes[count]].out
		arcs += int(out.len)
		for at := int32(0); at < out.len; at += lineRefs {
			asked = append(asked, [2]int32{out.off + at})
		}
	}
	if arcs == 0 {
		return count
	}
	prefetch.Each(n.out.arena, asked, &asked[0][0])
	asked = asked[:0]
	for _, v := range nodes[:count] {
		for _, ref := range n.out.list(n.nodes[v].out) {
			asked = append(asked, [2]int32{int32(ref.Arc), int32(ref.Node)})
		}
	}
	n.asked = asked
	prefetch.Each(n.arcs, asked, &asked[0][0])
	prefetch.Each(n.heads, asked, &asked[0][1])
	for i := range asked {
		in := &n.heads[asked[i][1]].in
		asked[i][0], asked[i][1] = in.off+n.arcs[asked[i][0]].inPos, in.off+in.len-1
	}
	prefetch.Each(n.in.arena, asked, &asked[0][0])
	prefetch.Each(n.in.arena, asked, &asked[0][1])
	for i := range asked {
		asked[i][1] = int32(n.in.arena[asked[i][1]].Arc)
	}
	prefetch.Each(n.arcs, asked, &asked[0][1])
	return count
}

// SetCosts sets the price of each arc to the cost at the same index, in this order. For many arcs it is
// faster than SetCost for each. O(len(arcs)).
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
			asked[i][0], asked[i][1] = int32(n.arcs[a].tail), int32(n.arcs[a].head)
		}
		prefetch.Each(n.nodes, asked, &asked[0][0])
		prefetch.Each(n.heads, asked, &asked[0][1])
		for i, a := range arcs[:k] {
			r := &n.arcs[a]
			asked[i][0], asked[i][1] = n.nodes[r.tail].out.off+r.outPos, n.heads[r.head].in.off+r.inPos
		}
		prefetch.Each(n.out.arena, asked, &asked[0][0])
		prefetch.Each(n.in.arena, asked, &asked[0][1])
		n.begin(k)
		for i, a := range arcs[:k] {
			n.setCost(a, costs[i])
		}
		arcs, costs = arcs[k:], costs[k:]
	}
}

// forAsking returns room for k pairs of indices.
func (n *Network) forAsking(k int) [][2]int32 {
	n.asked = slices.Grow(n.asked[:0], k)[:k]
	return n.asked
}

// AskForNodes asks for records of nodes to be brought into the cache while the caller goes on. Each record of
// list names a node, by the field that first points to in list[0]. Any values may be given.
func AskForNodes[R any, I ~int32](n *Network, list []R, first *I) {
	prefetch.Each(n.nodes, list, first)
}

// AskForArcs is AskForNodes for arcs.
func AskForArcs[R any, I ~int32](n *Network, list []R, first *I) {
	prefetch.Each(n.arcs, list, first)
}

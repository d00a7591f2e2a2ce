package flowgraph

import (
	"errors"
	"fmt"
	"slices"
)

// ErrCorrupt is wrapped by every error of [Network.Check].
var ErrCorrupt = errors.New("flowgraph: invariant broken")

// Check verifies the invariants of the structure: every live arc stands exactly
// once in the lists of its two live ends, bounds are ordered, free ids are not
// alive, and the running totals equal a recount. It finds faults of this
// package, not of its user. O(nodes + arcs), allocates.
func (n *Network) Check() error {
	var want totals
	outs, ins := 0, 0
	for v := range n.nodes {
		r, head := &n.nodes[v], &n.heads[v]
		if r.alive != head.alive {
			return fmt.Errorf("%w: node %d is alive as a head or as a tail alone", ErrCorrupt, v)
		}
		if !r.alive {
			if r.out.len != 0 || head.in.len != 0 || r.supply != 0 {
				return fmt.Errorf("%w: removed node %d keeps arcs or supply", ErrCorrupt, v)
			}
			continue
		}
		want.addSupply(r.supply, 1)
		outs += int(r.out.len)
		ins += int(head.in.len)
	}
	live := 0
	for i := range n.arcs {
		if n.arcs[i].tail < 0 {
			continue
		}
		live++
		if err := n.checkArcRecord(ArcID(i)); err != nil {
			return err
		}
		d := n.Arc(ArcID(i))
		want.addBounds(d.Bounds)
		want.addCost(d.Cost, 1)
	}
	switch {
	case live != n.NumArcs() || outs != live || ins != live:
		return fmt.Errorf("%w: %d live arcs, %d counted, %d in out-lists, %d in in-lists", ErrCorrupt, live, n.NumArcs(), outs, ins)
	case want != n.totals:
		return fmt.Errorf("%w: totals %+v, recounted %+v", ErrCorrupt, n.totals, want)
	}
	return n.checkFree()
}

func (n *Network) checkArcRecord(a ArcID) error {
	r := &n.arcs[a]
	if !n.NodeAlive(r.tail) || !n.NodeAlive(r.head) {
		return fmt.Errorf("%w: arc %d joins %d and %d, not both alive", ErrCorrupt, a, r.tail, r.head)
	}
	if d := n.Arc(a); d.Lower < 0 || d.Lower > d.Upper {
		return fmt.Errorf("%w: arc %d has bounds [%d, %d]", ErrCorrupt, a, d.Lower, d.Upper)
	}
	if d := n.Arc(a); n.Open(a) != (d.Lower == 0 && d.Upper > 0) {
		return fmt.Errorf("%w: arc %d is open or not, against its bounds", ErrCorrupt, a)
	}
	out, in := n.Out(r.tail), n.In(r.head)
	if int(r.outPos) >= len(out) || out[r.outPos] != (Ref{r.cost, a, r.head}) ||
		int(r.inPos) >= len(in) || in[r.inPos] != (Ref{r.cost, a, r.tail}) {
		return fmt.Errorf("%w: arc %d is not where it says in its lists", ErrCorrupt, a)
	}
	return nil
}

func (n *Network) checkFree() error {
	nodes := slices.Clone(n.freeNodes)
	slices.Sort(nodes)
	arcs := slices.Clone(n.freeArcs)
	slices.Sort(arcs)
	if len(slices.Compact(nodes)) != len(n.freeNodes) || len(slices.Compact(arcs)) != len(n.freeArcs) {
		return fmt.Errorf("%w: an id is free twice", ErrCorrupt)
	}
	for _, v := range n.freeNodes {
		if n.NodeAlive(v) {
			return fmt.Errorf("%w: free node %d is alive", ErrCorrupt, v)
		}
	}
	for _, a := range n.freeArcs {
		if n.ArcAlive(a) {
			return fmt.Errorf("%w: free arc %d is alive", ErrCorrupt, a)
		}
	}
	return nil
}

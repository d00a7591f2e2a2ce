package netsimplex

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// crash chooses the first basis where all flow ends at one node: a tree of paths to
// it. Elsewhere, and for nodes without a path, artificial arcs do: pivots between trees
// that are deep from the beginning cost what they spare. It tells whether there is such a node.
func (s *simplex[C]) crash() bool {
	end := s.onlyEnd()
	if end == none {
		return false
	}
	if !s.pays() || !s.byOrder(end) {
		s.byBreadth(end)
	}
	return true
}

// byBreadth chooses a tree of paths of few arcs to end, each node leaving by the cheapest arc to a node
// passed before.
func (s *simplex[C]) byBreadth(end int32) {
	const unseen, queued, passed = 0, 1, 2
	stage, price, queue := s.child, s.need, append(s.sibling[:0], end)
	clear(stage)
	stage[end], price[end] = queued, 0
	for k := 0; k < len(queue); k++ {
		v := queue[k]
		stage[v] = passed
		for _, ref := range s.net.In(s.idAt[v]) {
			u, through := s.placeOf[ref.Node], price[v]+int64(ref.Cost)
			if stage[u] == passed || stage[u] == queued && through >= price[u] {
				continue
			}
			slot := s.slotOf[ref.Arc]
			if b := &s.bounds[slot]; b.lower == b.upper {
				continue
			}
			t := &s.nodes[u]
			if stage[u] == queued {
				s.state[t.pred] = atLower
			} else {
				stage[u] = queued
				queue = append(queue, u)
			}
			price[u], t.parent, t.pred, s.state[slot] = through, v, slot, inTree
		}
	}
}

// byOrder chooses a tree of shortest paths to end over arcs that have room for all that flows there, if
// the network is acyclic (Network Flows, §4.4); else it reports false and has done nothing. Where flow runs for what
// it gains, as when a project is crashed, paths of few arcs would be the wrong ones.
func (s *simplex[C]) byOrder(end int32) bool {
	left, price, order := s.child, s.need, s.sibling[:0]
	for v := range s.root {
		if s.nodes[v].size > 0 {
			if left[v] = int32(len(s.net.Out(s.idAt[v]))); left[v] == 0 {
				order = append(order, v)
			}
		}
	}
	for k := 0; k < len(order); k++ {
		for _, ref := range s.net.In(s.idAt[order[k]]) {
			u := s.placeOf[ref.Node]
			if left[u]--; left[u] == 0 {
				order = append(order, u)
			}
		}
	}
	if len(order) < s.net.NumNodes() {
		return false
	}
	const far = math.MaxInt64
	demand := -s.net.Supply(s.idAt[end])
	for _, v := range order {
		t := &s.nodes[v]
		if price[v] = far; v == end {
			price[v] = 0
		}
		for _, ref := range s.net.Out(s.idAt[v]) {
			slot, toHead := s.slotOf[ref.Arc], price[s.placeOf[ref.Node]]
			if b := &s.bounds[slot]; toHead == far || b.upper-b.lower < demand {
				continue
			}
			if through := toHead + int64(ref.Cost); through < price[v] {
				price[v], t.parent, t.pred = through, s.placeOf[ref.Node], slot
			}
		}
		if t.pred != none {
			s.state[t.pred] = inTree
		}
	}
	return true
}

// crowded tells whether more of the supply does not fit on the first tree than does, as
// where most sources like the same places best. Such a tree is worse than none: what
// would be placed at once if it came first has to make way for the rest.
func (s *simplex[C]) crowded() bool {
	var excess flowgraph.Int128
	for v := range s.root {
		if t := &s.nodes[v]; t.size > 0 && s.net.Supply(s.idAt[v]) > 0 {
			excess.Add(-s.net.Supply(s.idAt[v]))
		}
		if t := &s.nodes[v]; t.size > 0 && t.pred == none && t.up == flowgraph.Infinite {
			excess.AddMul(t.down, 2)
		}
	}
	return excess.Sign() > 0
}

// onlyEnd returns the one node with demand, or none.
func (s *simplex[C]) onlyEnd() int32 {
	end := none
	for v := range s.root {
		if id := s.idAt[v]; s.net.NodeAlive(id) && s.net.Supply(id) < 0 {
			if end != none {
				return none
			}
			end = v
		}
	}
	return end
}

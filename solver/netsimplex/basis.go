package netsimplex

import "github.com/sluice-scheduler/sluice/flowgraph"

// rebuild makes thread, sizes and last descendants from the parents.
func (s *simplex[C]) rebuild() {
	for v := range s.child {
		s.child[v] = none
	}
	for v := s.root - 1; v >= 0; v-- {
		if t := &s.nodes[v]; t.size > 0 {
			s.sibling[v] = s.child[t.parent]
			s.child[t.parent] = v
		}
	}
	prev := s.root
	for v := s.child[s.root]; v != none; {
		s.thread[prev], s.back[v] = v, prev
		prev = v
		if s.child[v] != none {
			v = s.child[v]
			continue
		}
		for v != s.root && s.sibling[v] == none {
			v = s.nodes[v].parent
		}
		if v == s.root {
			break
		}
		v = s.sibling[v]
	}
	s.thread[prev], s.back[s.root] = s.root, prev
	for v := s.root; ; v = s.thread[v] {
		s.nodes[v].size, s.nodes[v].last = 1, v
		if v == prev {
			break
		}
	}
	for v := prev; v != s.root; v = s.back[v] {
		t := &s.nodes[v]
		p := &s.nodes[t.parent]
		p.size += t.size
		// Children come last to first: the first to arrive ends the parent.
		if p.last == t.parent {
			p.last = t.last
		}
	}
}

// balance computes the flow on the tree, from the leaves up. An arc whose flow breaks a bound, or by which no
// more could be sent towards the root, leaves at the bound; an artificial arc carries the rest. It tells
// whether any arc left.
func (s *simplex[C]) balance() bool {
	for v := range s.root {
		s.need[v] = 0
		if s.nodes[v].size > 0 {
			s.need[v] = s.net.Supply(s.idAt[v])
		}
	}
	s.need[s.root] = 0
	for i, state := range s.state {
		where := state.where()
		if where == inTree || where == atLower && !s.lowered {
			continue
		}
		b, x := s.bound(int32(i)), &s.slots[i]
		if where == atUpper {
			s.need[x.head] -= b.upper
			s.need[x.tail] += b.upper
		} else if b.lower != 0 {
			s.need[x.tail] -= b.lower
			s.need[x.head] += b.lower
		}
	}
	left := false
	for v := s.back[s.root]; v != s.root; v = s.back[v] {
		if !s.carry(v) {
			left = true
		}
	}
	return left
}

// carry sends what the subtree of v has to its parent. If the arc cannot take it, the root gets it, and carry
// reports false.
func (s *simplex[C]) carry(v int32) bool {
	t := &s.nodes[v]
	need, fits := s.need[v], true
	if t.pred != none {
		b := s.bound(t.pred)
		if s.slots[t.pred].tail == v {
			flow := min(max(need, b.lower), b.upper)
			t.up, t.down = room(flow, b.upper), flow-b.lower
			s.need[t.parent] += flow
			need -= flow
		} else {
			flow := min(max(-need, b.lower), b.upper)
			t.up, t.down = flow-b.lower, room(flow, b.upper)
			s.need[t.parent] -= flow
			need += flow
		}
		if need == 0 && t.up > 0 {
			return true
		}
		s.retire(v)
		t.pred, t.parent, fits = none, s.root, false
	}
	if need >= 0 {
		t.up, t.down = flowgraph.Infinite, need
	} else {
		t.up, t.down = -need, flowgraph.Infinite
	}
	return fits
}

func room(flow, upper int64) int64 {
	if upper == flowgraph.Infinite {
		return flowgraph.Infinite
	}
	return upper - flow
}

// reprice computes potentials from the root down. What hangs by an artificial arc keeps its level among the
// others, as far as the artificial price stays above every path. Its arcs then gain no more than they did.
func (s *simplex[C]) reprice() {
	base := s.pi[s.root]
	s.pi[s.root] = 0
	for v := s.thread[s.root]; v != s.root; v = s.thread[v] {
		t := &s.nodes[v]
		switch {
		case t.pred == none && t.up == flowgraph.Infinite:
			s.pi[v] = s.level(s.pi[v]-base) - s.penalty
		case t.pred == none:
			s.pi[v] = s.level(s.pi[v]-base) + s.penalty
		case s.slots[t.pred].tail == v:
			s.pi[v] = s.pi[t.parent] - int64(s.slots[t.pred].cost)
		default:
			s.pi[v] = s.pi[t.parent] + int64(s.slots[t.pred].cost)
		}
	}
	s.former = s.penalty
}

// level returns what a potential was without the artificial price, or 0 if it had none or that is too much.
func (s *simplex[C]) level(pi int64) int64 {
	if pi < 0 {
		pi += s.former
	} else {
		pi -= s.former
	}
	if most := s.penalty / 4; pi <= -most || pi >= most {
		return 0
	}
	return pi
}

// fewPivots is how many pivots there must be before nodes get new places. A network that needs fewer lies in
// the nearest caches.
const fewPivots = 2048

// manySlots is how many slots are rewritten in what a pivot takes where nodes lie in the nearer caches.
const manySlots = 128

// renumber gives the nodes places in the order of the thread. A subtree then lies in one piece, and mostly
// stays so for as many pivots as there are nodes. It returns the work that this took.
func (s *simplex[C]) renumber() int64 {
	to, place := s.child, int32(0)
	for v := s.thread[s.root]; v != s.root; v = s.thread[v] {
		to[v] = place
		place++
	}
	last := place - 1
	for v := range s.root {
		if s.nodes[v].size == 0 {
			to[v] = place
			place++
		}
	}
	to[s.root] = s.root
	s.spare = grow(s.spare, len(s.nodes))
	for v, p := range to {
		t := s.nodes[v]
		if t.size > 0 {
			t.last = to[t.last]
			if t.parent != none {
				t.parent = to[t.parent]
			}
		}
		s.spare[p], s.need[p] = t, s.pi[v]
	}
	s.nodes, s.spare, s.pi, s.need = s.spare, s.nodes, s.need, s.pi
	for id, v := range s.placeOf {
		s.placeOf[id] = to[v]
		s.idAt[to[v]] = flowgraph.NodeID(id)
	}
	for v := range last {
		s.thread[v], s.back[v+1] = v+1, v
	}
	s.thread[s.root], s.back[0], s.thread[last], s.back[s.root] = 0, s.root, s.root, last
	for i := range s.slots {
		x := &s.slots[i]
		x.tail, x.head = to[x.tail], to[x.head]
	}
	s.pivots = 0
	return int64(len(s.slots) + len(s.nodes))
}

package netsimplex

import "github.com/sluice-scheduler/sluice/flowgraph"

// pivot brings arc a into the basis. It reports false if nothing limits the
// flow around the cycle that a closes.
func (s *Solver) pivot(a int32) bool {
	d := &s.arcs[a]
	// Flow will run first → second over a, and second → join → first in the tree.
	first, second := int32(d.Tail), int32(d.Head)
	if s.state[a] == atUpper {
		first, second = second, first
	}
	join := s.join(first, second)

	// The last blocking arc in the direction of the cycle from join leaves;
	// that keeps the tree strongly feasible.
	amount, leaving, onFirst := room(d.Lower, d.Upper), none, false
	for u := first; u != join; u = s.nodes[u].parent {
		if r := s.residual(u, false); r < amount {
			amount, leaving, onFirst = r, u, true
		}
	}
	for u := second; u != join; u = s.nodes[u].parent {
		if r := s.residual(u, true); r <= amount && r != flowgraph.Infinite {
			amount, leaving, onFirst = r, u, false
		}
	}
	if amount == flowgraph.Infinite {
		return false
	}
	if amount != 0 {
		s.flow[a] += int64(s.state[a]) * amount
		for u := first; u != join; u = s.nodes[u].parent {
			s.push(u, false, amount)
		}
		for u := second; u != join; u = s.nodes[u].parent {
			s.push(u, true, amount)
		}
	}
	if leaving == none {
		s.state[a] = -s.state[a]
		return true
	}
	s.retire(leaving)
	s.state[a] = inTree
	if onFirst {
		s.rehang(first, second, leaving, a)
	} else {
		s.rehang(second, first, leaving, a)
	}
	return true
}

func room(lower, upper int64) int64 {
	if upper == flowgraph.Infinite {
		return flowgraph.Infinite
	}
	return upper - lower
}

func (s *Solver) join(u, v int32) int32 {
	for s.nodes[u].depth > s.nodes[v].depth {
		u = s.nodes[u].parent
	}
	for s.nodes[v].depth > s.nodes[u].depth {
		v = s.nodes[v].parent
	}
	for u != v {
		u, v = s.nodes[u].parent, s.nodes[v].parent
	}
	return u
}

// residual is how much more can run over u's tree arc towards (up) or away from
// its parent.
func (s *Solver) residual(u int32, up bool) int64 {
	t := &s.nodes[u]
	if t.pred < 0 {
		if t.up == up {
			return flowgraph.Infinite
		}
		return s.spare[u]
	}
	d := &s.arcs[t.pred]
	if t.up == up {
		return room(s.flow[t.pred], d.Upper)
	}
	return s.flow[t.pred] - d.Lower
}

func (s *Solver) push(u int32, up bool, amount int64) {
	t := &s.nodes[u]
	if t.up != up {
		amount = -amount
	}
	if t.pred < 0 {
		s.spare[u] += amount
	} else {
		s.flow[t.pred] += amount
	}
}

// retire puts u's tree arc outside the basis at the bound it has reached.
func (s *Solver) retire(u int32) {
	a := s.nodes[u].pred
	if a < 0 {
		return // an artificial arc never comes back
	}
	s.state[a] = atLower
	if s.flow[a] != s.arcs[a].Lower {
		s.state[a] = atUpper
	}
}

// rehang cuts the subtree of leaving and hangs it under other by arc a from its
// node q, turning the tree path q … leaving upside down.
func (s *Solver) rehang(q, other, leaving, a int32) {
	parent, pred, up := other, a, int32(s.arcs[a].Tail) == q
	for u := q; ; {
		t := &s.nodes[u]
		next, oldPred, oldUp := t.parent, t.pred, t.up
		s.unlink(u)
		t.pred, t.up = pred, up
		s.link(u, parent)
		if u == leaving {
			break
		}
		// A tree path to an artificial arc ends there, so oldPred is real.
		parent, pred, up, u = u, oldPred, !oldUp, next
	}
	s.shift(q)
}

// shift recomputes depth and potentials in q's subtree.
func (s *Solver) shift(q int32) {
	d := &s.arcs[s.nodes[q].pred]
	rc := int64(d.Cost) + s.nodes[d.Tail].pi - s.nodes[d.Head].pi
	if s.nodes[q].up {
		rc = -rc
	}
	s.stack = append(s.stack[:0], q)
	for len(s.stack) > 0 {
		u := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		t := &s.nodes[u]
		t.pi += rc
		t.depth = s.nodes[t.parent].depth + 1
		for c := t.child; c != none; c = s.nodes[c].next {
			s.stack = append(s.stack, c)
		}
	}
}

func (s *Solver) link(u, parent int32) {
	t, p := &s.nodes[u], &s.nodes[parent]
	t.parent, t.prev, t.next = parent, none, p.child
	if p.child != none {
		s.nodes[p.child].prev = u
	}
	p.child = u
}

func (s *Solver) unlink(u int32) {
	t := &s.nodes[u]
	if t.prev != none {
		s.nodes[t.prev].next = t.next
	} else {
		s.nodes[t.parent].child = t.next
	}
	if t.next != none {
		s.nodes[t.next].prev = t.prev
	}
}

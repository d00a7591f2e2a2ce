package netsimplex

import "github.com/sluice-scheduler/sluice/flowgraph"

// pivot brings the arc in slot into the basis. It reports false if nothing limits
// the flow around the cycle that it closes.
func (s *Solver) pivot(slot int32) bool {
	x := s.slots[slot]
	entering := &s.arcs[x.arc]
	sign := int64(s.state[slot])
	// Flow will run first → second over the arc, and second → join → first in
	// the tree.
	first, second := x.tail, x.head
	if sign < 0 {
		first, second = second, first
	}
	join := s.join(first, second)
	s.effort += 2

	// The last blocking arc in the direction of the cycle from join leaves;
	// that keeps the tree strongly feasible.
	amount, leaving, onFirst := room(entering.lower, entering.upper), none, false
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
		entering.flow += sign * amount
		for u := first; u != join; u = s.nodes[u].parent {
			s.push(u, false, amount)
		}
		for u := second; u != join; u = s.nodes[u].parent {
			s.push(u, true, amount)
		}
	}
	if leaving == none {
		s.state[slot] = -s.state[slot]
		return true
	}
	s.retire(leaving)
	s.state[slot] = inTree
	if onFirst {
		s.rehang(first, second, leaving, join, x)
	} else {
		s.rehang(second, first, leaving, join, x)
	}
	return true
}

func room(flow, upper int64) int64 {
	if upper == flowgraph.Infinite {
		return flowgraph.Infinite
	}
	return upper - flow
}

// join is the lowest common ancestor: subtrees grow strictly on the way up.
func (s *Solver) join(u, v int32) int32 {
	for u != v {
		a, b := &s.nodes[u], &s.nodes[v]
		switch {
		case a.size < b.size:
			u = a.parent
		case a.size > b.size:
			v = b.parent
		default:
			u, v = a.parent, b.parent
		}
	}
	return u
}

// residual is how much more can run over u's tree arc towards (up) or away from
// its parent.
func (s *Solver) residual(u int32, up bool) int64 {
	t := &s.nodes[u]
	if t.pred == none {
		if t.up == up {
			return flowgraph.Infinite
		}
		return s.spare[u]
	}
	d := &s.arcs[t.pred]
	if t.up == up {
		return room(d.flow, d.upper)
	}
	return d.flow - d.lower
}

func (s *Solver) push(u int32, up bool, amount int64) {
	t := &s.nodes[u]
	if t.up != up {
		amount = -amount
	}
	if t.pred == none {
		s.spare[u] += amount
	} else {
		s.arcs[t.pred].flow += amount
	}
}

// retire puts u's tree arc outside the basis at the bound it has reached. An
// artificial arc that leaves does not come back in this run.
func (s *Solver) retire(u int32) {
	a := s.nodes[u].pred
	if a == none {
		return
	}
	d := &s.arcs[a]
	s.state[d.slot] = atLower
	if d.flow != d.lower {
		s.state[d.slot] = atUpper
	}
}

// rehang cuts off the subtree of leaving and hangs it under other by the arc x
// from its node q, turning the tree path q … leaving upside down.
func (s *Solver) rehang(q, other, leaving, join int32, x priced) {
	size := s.nodes[leaving].size
	above := s.nodes[leaving].parent
	end, before := s.cut(leaving)
	for u := above; u != join; u = s.nodes[u].parent {
		s.nodes[u].size -= size
	}
	for u := other; u != join; u = s.nodes[u].parent {
		s.nodes[u].size += size
	}
	// What is above the join keeps its size, but may end elsewhere.
	for u := above; u != none && s.nodes[u].last == end; u = s.nodes[u].parent {
		s.nodes[u].last = before
	}
	tail := s.turn(q, leaving)
	s.nodes[q].parent, s.nodes[q].pred, s.nodes[q].up = other, x.arc, x.tail == q
	s.paste(q, tail, other)
	for u := other; u != none && s.nodes[u].last == other; u = s.nodes[u].parent {
		s.nodes[u].last = tail
	}
	s.shift(q, tail, x)
}

// cut takes the subtree of u out of the thread; it returns its last node and the
// node that came before u.
func (s *Solver) cut(u int32) (end, before int32) {
	end, before = s.nodes[u].last, s.nodes[u].back
	after := s.thread[end]
	s.thread[before] = after
	s.nodes[after].back = before
	return end, before
}

// paste puts the chain q … tail into the thread after u.
func (s *Solver) paste(q, tail, u int32) {
	after := s.thread[u]
	s.thread[u], s.nodes[q].back = q, u
	s.thread[tail], s.nodes[after].back = after, tail
}

// link is a node of the stem as it was before the turn.
type link struct {
	node, pred    int32
	size, last    int32
	before, after int32 // neighbours of its subtree in the thread
	up            bool
}

// turn makes q the top of the subtree whose top was leaving. The nodes of the
// stem between become, each in turn, the last child of the one before; each keeps
// its other children. It returns the new last node of the subtree.
func (s *Solver) turn(q, leaving int32) int32 {
	s.stem = s.stem[:0]
	for u := q; ; u = s.nodes[u].parent {
		t := &s.nodes[u]
		s.stem = append(s.stem, link{
			node: u, pred: t.pred, size: t.size, last: t.last,
			before: t.back, after: s.thread[t.last], up: t.up,
		})
		if u == leaving {
			break
		}
	}
	total := s.nodes[leaving].size
	tail := s.stem[0].last
	for i := 1; i < len(s.stem); i++ {
		c, p := &s.stem[i-1], &s.stem[i]
		t := &s.nodes[p.node]
		s.thread[tail], t.back = p.node, tail
		if p.last != c.last {
			s.thread[c.before], s.nodes[c.after].back = c.after, c.before
			tail = p.last
		} else {
			tail = c.before
		}
		t.parent, t.pred, t.up, t.size = c.node, c.pred, !c.up, total-c.size
	}
	s.nodes[q].size = total
	for i := range s.stem {
		s.nodes[s.stem[i].node].last = tail
	}
	return tail
}

// shift moves the potentials of the subtree q … tail so that arc x, by which it
// now hangs, has reduced cost zero. Only differences count: if the subtree is
// more than half of all, the rest moves the other way, unless so many moves of
// the root might leave 64 bits.
func (s *Solver) shift(q, tail int32, x priced) {
	rc := x.cost + s.pi[x.tail] - s.pi[x.head]
	if x.tail == q {
		rc = -rc
	}
	end := s.thread[tail]
	if 2*s.nodes[q].size > s.nodes[s.root].size && s.penalty < 1<<40 {
		q, end, rc = end, q, -rc
	}
	for u := q; u != end; u = s.thread[u] {
		s.pi[u] += rc
		s.effort++
	}
}

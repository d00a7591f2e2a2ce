package netsimplex

import "github.com/sluice-scheduler/sluice/flowgraph"

// cycle is what the entering arc closes. Flow is to run first → second over it, and second → join → first in
// the tree.
type cycle struct {
	first, second, join int32
	amount              int64
	leaving             int32 // whose arc to the parent leaves, or none: the entering one itself
	onFirst             bool  // leaving is on the way from first to join
}

// pivot brings the arc in slot into the basis. It reports false if nothing limits
// the flow around the cycle that it closes.
func (s *simplex[C]) pivot(slot int32) bool {
	x, b := &s.slots[slot], s.bound(slot)
	c := cycle{first: x.tail, second: x.head, amount: room(b.lower, b.upper)}
	s.walk(&c)
	if c.amount == flowgraph.Infinite {
		return false
	}
	if c.leaving == none {
		s.push(c.first, c.second, c.join, c.amount)
		s.put(slot, atLower+atUpper-s.state[slot].where())
		return true
	}
	if c.amount != 0 {
		s.push(c.first, c.second, c.join, c.amount)
	}
	// The flow on the entering arc above its lower bound, and the room left.
	flow, left := c.amount, room(c.amount, room(b.lower, b.upper))
	if s.state[slot].where() == atUpper {
		flow, left = b.width()-c.amount, c.amount
	}
	s.retire(c.leaving)
	s.put(slot, inTree)
	q, other := c.first, c.second
	if !c.onFirst {
		q, other = other, q
	}
	t := node{parent: other, pred: slot, up: left, down: flow}
	if x.head == q {
		t.up, t.down = flow, left
	}
	s.rehang(q, c.leaving, c.join, t)
	return true
}

// walk finds the join, the lowest common ancestor: subtrees grow strictly on the way up. On the way it finds
// how much can run around. Of the blocking arcs, the last in the direction of the cycle from the join leaves.
// That keeps the tree strongly feasible.
func (s *simplex[C]) walk(c *cycle) {
	u, v := c.first, c.second
	least, most := c.amount, flowgraph.Infinite
	out1, out2 := none, none
	steps := int64(2)
	for u != v {
		steps++
		a, b := &s.nodes[u], &s.nodes[v]
		if a.size <= b.size {
			if a.down < least {
				least, out1 = a.down, u
			}
			u = a.parent
		} else {
			if b.up <= most {
				most, out2 = b.up, v
			}
			v = b.parent
		}
	}
	s.effort += steps
	c.join = u
	c.amount, c.leaving, c.onFirst = least, out1, true
	if most <= least && most != flowgraph.Infinite {
		c.amount, c.leaving, c.onFirst = most, out2, false
	}
}

// push runs amount from second over join to first.
func (s *simplex[C]) push(first, second, join int32, amount int64) {
	for u := first; u != join; {
		t := &s.nodes[u]
		if t.down != flowgraph.Infinite {
			t.down -= amount
		}
		if t.up != flowgraph.Infinite {
			t.up += amount
		}
		u = t.parent
	}
	for u := second; u != join; {
		t := &s.nodes[u]
		if t.up != flowgraph.Infinite {
			t.up -= amount
		}
		if t.down != flowgraph.Infinite {
			t.down += amount
		}
		u = t.parent
	}
}

// retire puts u's tree arc outside the basis at the bound it has reached. An
// artificial arc that leaves does not come back in this run.
func (s *simplex[C]) retire(u int32) {
	t := &s.nodes[u]
	if t.pred == none {
		return
	}
	flow := t.up
	if s.slots[t.pred].tail == u {
		flow = t.down
	}
	if flow != 0 {
		s.put(t.pred, atUpper)
	} else {
		s.put(t.pred, atLower)
	}
}

// rehang cuts off the subtree of leaving, turns the tree path q … leaving upside
// down, and hangs it by q as t says.
func (s *simplex[C]) rehang(q, leaving, join int32, t node) {
	size, other := s.nodes[leaving].size, t.parent
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
	t.size, t.last = size, tail
	s.nodes[q] = t
	s.paste(q, tail, other)
	for u := other; u != none && s.nodes[u].last == other; u = s.nodes[u].parent {
		s.nodes[u].last = tail
	}
	s.shift(q, tail)
}

// cut takes the subtree of u out of the thread; it returns its last node and the
// node that came before u.
func (s *simplex[C]) cut(u int32) (end, before int32) {
	end, before = s.nodes[u].last, s.back[u]
	after := s.thread[end]
	s.thread[before] = after
	s.back[after] = before
	return end, before
}

// paste puts the chain q … tail into the thread after u.
func (s *simplex[C]) paste(q, tail, u int32) {
	after := s.thread[u]
	s.thread[u], s.back[q] = q, u
	s.thread[tail], s.back[after] = after, tail
}

// turn makes q the top of the subtree whose top was leaving. The nodes of the
// stem between become, each in turn, the last child of the one before; each keeps
// its other children. It returns the new last node of the subtree.
func (s *simplex[C]) turn(q, leaving int32) int32 {
	if q == leaving {
		return s.nodes[q].last
	}
	s.stem = s.stem[:0]
	for u := q; ; {
		t := &s.nodes[u]
		s.stem = append(s.stem, link{node: *t, id: u, before: s.back[u], after: s.thread[t.last]})
		if u == leaving {
			break
		}
		u = t.parent
	}
	total := s.nodes[leaving].size
	tail := s.stem[0].last
	for i := 1; i < len(s.stem); i++ {
		c, p := &s.stem[i-1], &s.stem[i]
		s.thread[tail], s.back[p.id] = p.id, tail
		if p.last != c.last {
			s.thread[c.before], s.back[c.after] = c.after, c.before
			tail = p.last
		} else {
			tail = c.before
		}
		// The arc is that of the one below, upside down.
		s.nodes[p.id] = node{parent: c.id, pred: c.pred, size: total - c.size, up: c.down, down: c.up}
	}
	for i := range s.stem {
		s.nodes[s.stem[i].id].last = tail
	}
	return tail
}

// link is a node of the stem as it was before the turn.
type link struct {
	node
	id            int32
	before, after int32 // neighbours of its subtree in the thread
}

// shift moves the potentials of the subtree q … tail so that the arc by which it
// now hangs has reduced cost zero. Only differences count: if the subtree is
// more than half of all, the rest moves the other way.
func (s *simplex[C]) shift(q, tail int32) {
	x := &s.slots[s.nodes[q].pred]
	rc := x.reduced(s.pi)
	if x.tail == q {
		rc = -rc
	}
	end := s.thread[tail]
	if 2*s.nodes[q].size > s.nodes[s.root].size {
		q, end, rc = end, q, -rc
	}
	s.effort += raise(s.pi, s.thread, q, end, rc)
}

// raise adds to the potentials from one node of the thread up to another.
//
//go:noinline
func raise(pi []int64, thread []int32, from, to int32, by int64) (moved int64) {
	for u := from; u != to; u = thread[uint32(u)] {
		pi[uint32(u)] += by
		moved++
	}
	return moved
}

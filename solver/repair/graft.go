package repair

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// augment sends from the root above v to v and on over the arc out to the ground,
// if given.
func (s *Solver) augment(v, out int32) {
	f := &s.forest
	amount := -s.excess[v] * f.dir
	if out != none {
		amount = s.bears(out, s.ground)
	}
	top := v
	for f.stems[top].place == branch {
		amount = min(amount, s.bears(f.stems[top].arc, top))
		top = f.stems[top].from
		s.work.Units++
	}
	amount = min(amount, s.excess[top]*f.dir)
	if out != none {
		s.excess[s.ground] += amount * f.dir
		s.push(out, s.ground, amount)
	} else {
		s.excess[v] += amount * f.dir
	}
	for w := v; w != top; {
		t := &f.stems[w]
		s.push(t.arc, w, amount)
		up := t.from
		if s.bears(t.arc, w) == 0 {
			t.place = orphan
			f.orphans = append(f.orphans, w)
		}
		w = up
	}
	f.units -= amount
	s.excess[top] -= amount * f.dir
	if s.excess[top] == 0 {
		f.stems[top].place = orphan
		f.orphans = append(f.orphans, top)
	}
	f.turn++
	if f.units == 0 {
		return
	}
	slices.Reverse(f.orphans) // who hangs on others finds them in their places
	for i := 0; i < len(f.orphans); i++ {
		w := f.orphans[i]
		if !s.adopt(w) {
			s.abandon(w)
		}
	}
	f.orphans = f.orphans[:0]
}

func (s *Solver) push(a, v int32, amount int64) {
	if (s.arc(a).head == v) == (s.forest.dir > 0) {
		s.addFlow(a, amount)
	} else {
		s.addFlow(a, -amount)
	}
}

// rooted tells whether u hangs on a root.
func (s *Solver) rooted(u int32) bool {
	f := &s.forest
	w := u
	for {
		t := &f.stems[w]
		if t.place == root || t.place == branch && t.proven == f.turn {
			break
		}
		if t.place != branch {
			return false
		}
		w = t.from
		s.work.Units++
	}
	for w = u; f.stems[w].place == branch && f.stems[w].proven != f.turn; w = f.stems[w].from {
		f.stems[w].proven = f.turn
	}
	return true
}

// hang hangs v on u if a path may come from there over a at no cost.
func (s *Solver) hang(v, u, a int32, slack int64) bool {
	if slack != 0 || s.bears(a, v) == 0 || !s.rooted(u) {
		return false
	}
	t := &s.forest.stems[v]
	t.place, t.arc, t.from = branch, a, u
	return true
}

// adopt hangs v on another node; false if there is none.
func (s *Solver) adopt(v int32) bool {
	f := &s.forest
	p := s.at(v)
	source := s.kinds[v] == isSource
	if source || s.nodes[v].forks > 0 {
		out := s.net.Out(flowgraph.NodeID(v))
		s.work.Units += int64(len(out))
		for _, ref := range out {
			u := int32(ref.Node)
			if f.stems[u].place != outside && s.hang(v, u, int32(ref.Arc), p-int64(ref.Cost)-s.at(u)) {
				return true
			}
		}
	}
	if source {
		return false
	}
	if f.dir > 0 {
		in := s.net.In(flowgraph.NodeID(v))
		t := &f.stems[v]
		k := int(t.cursor)
		for i := range in {
			if k >= len(in) {
				k = 0
			}
			ref := &in[k]
			u := int32(ref.Node)
			if f.stems[u].place != outside && s.hang(v, u, int32(ref.Arc), p+int64(ref.Cost)-s.at(u)) {
				t.cursor = int32(k)
				s.work.Units += int64(i)
				return true
			}
			k++
		}
		s.work.Units += int64(len(in))
		return false
	}
	x := &s.nodes[v]
	s.work.Units += int64(len(x.in) + len(x.held))
	for _, a := range x.in {
		r := &s.arcs[a]
		if f.stems[r.tail].place != outside && s.hang(v, r.tail, a, p+r.cost-s.at(r.tail)) {
			return true
		}
	}
	for i := range x.held {
		h := &x.held[i]
		if f.stems[h.from].place != outside && s.hang(v, h.from, h.arc, p+h.cost-s.at(h.from)) {
			return true
		}
	}
	return false
}

// abandon takes v out: what hung on it looks for another, and v may come
// back from all who could reach it.
func (s *Solver) abandon(v int32) {
	s.part(v)
	s.forest.parted = true
	p := s.price[v]
	source := s.kinds[v] == isSource
	if source || s.nodes[v].forks > 0 {
		out := s.net.Out(flowgraph.NodeID(v))
		s.work.Units += int64(len(out))
		for _, ref := range out {
			if int32(ref.Node) != s.ground {
				s.drop(v, int32(ref.Node), int32(ref.Arc), p-int64(ref.Cost))
			}
		}
	}
	if source {
		return
	}
	in := s.net.In(flowgraph.NodeID(v))
	s.work.Units += int64(len(in))
	for _, ref := range in {
		if int32(ref.Node) != s.ground {
			s.drop(v, int32(ref.Node), int32(ref.Arc), p+int64(ref.Cost))
		}
	}
}

// drop lets u go on without its neighbour v, which left at a price that differs by
// the cost of a from the given one.
func (s *Solver) drop(v, u, a int32, price int64) {
	f := &s.forest
	t := &f.stems[u]
	if t.place == outside {
		return
	}
	if t.place == branch && t.from == v {
		t.place = orphan
		f.orphans = append(f.orphans, u)
	}
	if s.bears(a, v) > 0 {
		s.plan(f.dir*(price-s.at(u)), a, v)
	}
}

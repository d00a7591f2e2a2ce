package netsimplex

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// Adopt forgets what s knows. The next call of Solve then starts from a flow and potentials that another
// solver has of n. A good guess does, such as the answer to n before a change, or one that is half done. The
// flow must keep to the bounds, but need not be balanced. Adopt reads guess, and does not keep it. O(nodes +
// arcs).
func (s *Solver) Adopt(n *flowgraph.Network, guess solver.Solution) {
	*s = *New()
	if n.NumNodes() == 0 || solver.Precheck(n, MaxBits) != solver.Optimal {
		return
	}
	s.net = n
	if n.CostBits() < 32 {
		s.either = adopted[int32](n, guess)
	} else {
		s.either = adopted[int64](n, guess)
	}
}

func adopted[C cost](n *flowgraph.Network, guess solver.Solution) *simplex[C] {
	s := &simplex[C]{base: base{net: n, busy: true}}
	s.takeIn(guess)
	return s
}

// follow chooses a basis near the flow that was guessed. It takes the arcs with flow between their bounds.
// Those that close a cycle of such arcs go to the nearer bound. To join the trees, it takes arcs of reduced
// cost 0 by which more can be sent towards the root. O(nodes + arcs).
func (s *simplex[C]) follow(guess solver.Solution) {
	for slot, a := range s.arcOf {
		b := s.bound(int32(slot))
		if b.width() <= 0 {
			continue
		}
		switch flow := guess.Flow(flowgraph.ArcID(a)); {
		case flow <= b.lower:
		case flow < b.upper:
			s.put(int32(slot), inTree)
		default:
			s.put(int32(slot), atUpper)
		}
	}
	level, known := flowgraph.Cost(0), false // of the first node: only differences count
	for v := range s.root {
		if t := &s.nodes[v]; t.size > 0 {
			pi := guess.Potential(s.idAt[v])
			if !known {
				level, known = pi, true
			}
			s.pi[v] = int64(pi - level)
			t.parent, t.pred = none, none
		}
	}
	f := s.forest()
	for v := range s.root { // first where flow ends: most leads there
		if s.nodes[v].size > 0 && s.net.Supply(s.idAt[v]) < 0 {
			f.grow(v)
		}
	}
	for v := range s.root {
		if s.nodes[v].size > 0 {
			f.grow(v)
		}
	}
	for slot, state := range s.state {
		b, x := s.bound(int32(slot)), &s.slots[slot]
		if state.where() != inTree || b.width() <= 0 || s.nodes[x.tail].pred == int32(slot) || s.nodes[x.head].pred == int32(slot) {
			continue
		}
		s.put(int32(slot), atLower)
		if flow := guess.Flow(flowgraph.ArcID(s.arcOf[slot])); b.upper != flowgraph.Infinite && flow-b.lower > b.upper-flow {
			s.put(int32(slot), atUpper)
		}
	}
}

// forest is the trees into which follow joins the nodes.
type forest[C cost] struct {
	*simplex[C]
	between, tight joints
	order          []int32 // the nodes in trees as they were reached
	joined, tried  int     // up to where in order arcs between their bounds, and others, were looked at
}

// joints are, by node, the arcs by which others may be joined to it.
type joints struct {
	first []int32 // where those of a node end, then where they begin; one more than nodes
	slots []int32
}

// forest finds the joints of all nodes.
func (s *simplex[C]) forest() *forest[C] {
	f := &forest[C]{simplex: s, order: s.sibling[:0]}
	f.between.first, f.tight.first = make([]int32, len(s.nodes)+1), make([]int32, len(s.nodes)+1)
	f.each(func(j *joints, v, _ int32) { j.first[v]++ })
	for _, j := range [2]*joints{&f.between, &f.tight} {
		sum := int32(0)
		for v := range j.first {
			sum += j.first[v]
			j.first[v] = sum
		}
		j.slots = make([]int32, sum)
	}
	f.each(func(j *joints, v, slot int32) {
		j.first[v]--
		j.slots[j.first[v]] = slot
	})
	return f
}

// each calls add for every joint.
func (f *forest[C]) each(add func(j *joints, v, slot int32)) {
	for i := range f.slots {
		x, b := &f.slots[i], f.bound(int32(i))
		switch {
		case b.width() <= 0:
		case f.state[i].where() == inTree:
			add(&f.between, x.tail, int32(i))
			add(&f.between, x.head, int32(i))
		case x.reduced(f.pi) == 0:
			add(&f.tight, x.head, int32(i))
		}
	}
}

// grow makes r the root of a tree, unless it is in one, and joins to it what it can, whole trees too.
func (f *forest[C]) grow(r int32) {
	if f.nodes[r].parent != none {
		return
	}
	f.nodes[r].parent = f.root
	f.order = append(f.order, r)
	for {
		switch {
		case f.joined < len(f.order):
			f.join(r, f.order[f.joined], &f.between)
			f.joined++
		case f.tried < len(f.order):
			f.join(r, f.order[f.tried], &f.tight)
			f.tried++
		default:
			return
		}
	}
}

// join hangs below v, in the tree of r, nodes that are in no tree yet, and roots of other trees.
func (f *forest[C]) join(r, v int32, by *joints) {
	for _, slot := range by.slots[by.first[v]:by.first[v+1]] {
		x := &f.slots[slot]
		u := x.tail + x.head - v
		t := &f.nodes[u]
		switch {
		case u == r || t.parent != none && t.parent != f.root:
			continue
		case t.parent == none:
			f.order = append(f.order, u)
		}
		f.hang(u, v, slot)
	}
}

package costscaling

import (
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

// refinementEach is how many units of work price refinement may take for each residual. It is less than the
// phase takes that it may spare.
const refinementEach = 12

// Where a node stands in a pass of price refinement.
const (
	unplaced int8 = iota // not in the order, or scanned
	open                 // on the way of the depth-first search
	placed               // in the order, to be scanned
)

// order is what price refinement keeps of nodes.
type order struct {
	place []int8
	cheap []int32 // nodes that arcs too cheap may leave
	noted []bool  // is in cheap
	way   []int32 // of the depth-first search
	list  []int32 // last first
}

func (o *order) grow(nodes int) {
	o.place = residual.Grow(o.place, nodes)
	o.noted = residual.Grow(o.noted, nodes)
}

func (o *order) note(v int32) {
	if !o.noted[v] {
		o.noted[v] = true
		o.cheap = append(o.cheap, v)
	}
}

// forget drops what a pass left undone.
func (o *order) forget() {
	for _, v := range o.cheap {
		o.noted[v] = false
	}
	for _, list := range [2][]int32{o.way, o.list} {
		for _, v := range list {
			o.place[v] = unplaced
		}
	}
	o.cheap, o.way, o.list = o.cheap[:0], o.way[:0], o.list[:0]
}

// advance goes on to the next smaller ε for which the flow is not ε-optimal. It makes the flow so by filling
// arcs. It reports false if there is no such ε.
func (s *refiner[N]) advance(w *solver.Work) bool {
	for s.epsilon > 0 {
		s.epsilon -= min(s.epsilon, phaseBits)
		if !s.refinePrices(w) {
			s.begin(w)
			return true
		}
	}
	return false
}

// refinePrices looks for potentials by which the present flow is ε-optimal, and reports whether it found
// some. If not, potentials are nearer to that; but if they would leave their range, they stay as they were.
// They are distances by lengths of reduced cost + ε. These are found pass by pass along arcs that are too
// cheap, in topological order (Goldberg and Radzik, A heuristic improvement of the Bellman–Ford algorithm,
// 1993). A cycle of such arcs tells that there are none.
func (s *refiner[N]) refinePrices(w *solver.Work) bool {
	copy(s.rank, s.pi)
	for v := range s.Excess {
		if s.cheapFrom(int32(v), s.First[v]) != none {
			s.order.note(int32(v))
		}
	}
	units := int64(len(s.List))
	limit := refinementEach * units
	fits := true
	for fits && len(s.order.cheap) > 0 {
		fits = units < limit && s.sort(&units) && s.scan(&units)
	}
	w.Units += units
	s.order.forget()
	return fits
}

// cheapFrom returns the first residual of v, at or behind position i, with room
// and a reduced cost below −ε, or none.
func (s *refiner[N]) cheapFrom(v, i int32) int32 {
	list := s.List[i:s.First[v+1]]
	own := s.pi[v] + 1<<s.epsilon
	if k := firstAdmissible(list, s.pi, own, s.unit); int(k) < len(list) {
		return i + k
	}
	return none
}

// sort puts the nodes noted, and all that arcs too cheap lead to from these, in topological order. It reports
// false if there is a cycle.
func (s *refiner[N]) sort(units *int64) bool {
	o := &s.order
	for _, v := range o.cheap {
		if o.noted[v] = false; o.place[v] != unplaced {
			continue
		}
		o.way, o.place[v], s.next[v] = append(o.way, v), open, s.First[v]
		for len(o.way) > 0 {
			u := o.way[len(o.way)-1]
			i := s.cheapFrom(u, s.next[u])
			if i == none {
				*units += int64(s.First[u+1] - s.First[u])
				o.place[u] = placed
				o.list = append(o.list, u)
				o.way = o.way[:len(o.way)-1]
				continue
			}
			s.next[u] = i + 1
			switch x := s.List[i].Head; o.place[x] {
			case open:
				return false
			case unplaced:
				o.way, o.place[x], s.next[x] = append(o.way, x), open, s.First[x]
			}
		}
	}
	o.cheap = o.cheap[:0]
	return true
}

// scan lowers what lies behind arcs too cheap, node by node in topological order.
// It reports false if a potential would come near the end of its range.
func (s *refiner[N]) scan(units *int64) bool {
	o := &s.order
	for i := len(o.list) - 1; i >= 0; i-- {
		v := o.list[i]
		o.place[v] = unplaced
		own := s.pi[v] + 1<<s.epsilon
		list := s.List[s.First[v]:s.First[v+1]]
		*units += int64(len(list))
		for k := range list {
			r := &list[k]
			if x := int64(r.Cost)*s.unit + own; both(x-s.pi[r.Head], -int64(r.Room)) {
				if x < lowest/2 {
					copy(s.pi, s.rank)
					return false
				}
				s.pi[r.Head] = x
				if o.place[r.Head] != placed {
					o.note(r.Head)
				}
			}
		}
	}
	o.list = o.list[:0]
	return true
}

package relax

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

// relax sends what v has in excess (dir 1) over balanced arcs to neighbours that lack it. It moves the price
// of v as long as that raises the dual objective. With dir −1 it fetches what v lacks. It reports false if no
// price is high enough: then no flow keeps all bounds and balances.
func (s *relaxer[N]) relax(v int32, dir int64, w *solver.Work) bool {
	s.newSearch()
	s.near.Reset()
	w.Units += int64(s.First[v+1] - s.First[v])
	for i := s.First[v]; i < s.First[v+1]; i++ {
		head, room := s.List[i].Head, s.room(i, dir)
		if room == 0 || head == v {
			continue
		}
		if slack := s.slack(v, i, dir); slack > 0 {
			s.near.Push(radixheap.Item{Key: slack, Arc: i})
			continue
		}
		if lack := -s.Excess[head] * dir; lack > 0 {
			amount := min(room, s.Excess[v]*dir, lack)
			if s.Push(&s.Graph, v, i, amount*dir); s.Excess[v] == 0 {
				return true
			}
			if amount == room {
				continue
			}
		}
		s.balanced = append(s.balanced, i)
	}
	offset := int64(0)
	for {
		room := int64(0)
		for _, i := range s.balanced {
			room += s.room(i, dir)
		}
		if s.Excess[v]*dir <= room {
			break
		}
		if s.fill(dir); s.near.Len() == 0 {
			return false
		}
		for offset = s.near.Least(); s.near.Len() > 0 && s.near.Least() == offset; w.Units++ {
			s.balanced = append(s.balanced, s.near.Pop().Arc)
		}
	}
	s.move(v, offset*dir)
	return true
}

// newSearch begins a search, with an empty set.
func (s *state) newSearch() {
	if s.search++; s.search == 0 {
		clear(s.nodes)
		s.search = 1
	}
	s.boundary, s.balanced = s.boundary[:0], s.balanced[:0]
}

// fill fills the balanced arcs out of the set.
func (s *relaxer[N]) fill(dir int64) {
	for _, i := range s.balanced {
		if head := s.List[i].Head; s.nodes[head].set != s.search {
			s.Push(&s.Graph, s.List[s.Back[i]].Head, i, s.room(i, dir)*dir)
			s.enqueue(head)
		}
	}
	s.balanced = s.balanced[:0]
}

// least is the offset at which the next arc out of the set is balanced, or the largest number if there is
// none.
func (s *state) least(w *solver.Work) int64 {
	w.Units += int64(len(s.boundary)) / 2 // with what balance does: entries lie side by side, and hardly a head is looked at
	least := int64(math.MaxInt64)
	for k := range s.boundary {
		if e := &s.boundary[k]; e.slack < least && s.nodes[e.head].set != s.search {
			least = e.slack
		}
	}
	return least
}

// balance takes arcs that are balanced at the offset, or were before, from the boundary. It adds them to the
// balanced ones, unless they lead into the set.
func (s *state) balance(offset int64) {
	k := 0
	for _, e := range s.boundary {
		if e.slack > offset {
			s.boundary[k] = e
			k++
		} else if s.nodes[e.head].set != s.search {
			s.balanced = append(s.balanced, e.arc)
		}
	}
	s.boundary = s.boundary[:k]
}

// spread grows a set from v, which has an excess (dir 1) or lack (dir −1), along balanced arcs. It moves the
// prices of the set whenever that raises the dual objective, until flow can be sent from v to a node of the
// other sign. It reports false if there is no way. A budget that is spent ends it after prices have moved.
func (s *relaxer[N]) spread(v int32, dir int64, budget solver.Budget, w *solver.Work) bool {
	s.newSearch()
	s.list = append(s.list[:0], v)
	s.nodes[v].label, s.nodes[v].by = s.search, none
	size := 0 // of the set
	offset, excess, room := int64(0), int64(0), int64(0)
	for {
		end := none
		if size < len(s.list) {
			u := s.list[size]
			size++
			excess += s.Excess[u] * dir
			room, end = s.join(u, size, offset, room, dir, w)
		}
		for excess > room {
			s.fill(dir)
			least := s.least(w)
			if least == math.MaxInt64 {
				return false
			}
			for _, u := range s.list[:size] {
				s.move(u, (least-offset)*dir)
				s.enqueue(u)
			}
			offset = least
			excess -= room
			room = 0
			for _, u := range s.list[size:] {
				s.nodes[u].label = 0
			}
			s.list = s.list[:size]
			s.balance(offset)
			end = none
			for _, i := range s.balanced {
				room += s.room(i, dir)
				if u := s.label(i, dir); end == none {
					end = u
				}
			}
			if s.Failed || s.Excess[v]*dir <= 0 || budget.Spent(w.Units) {
				return true
			}
		}
		switch {
		case end != none:
			s.augment(v, end, dir)
			return true
		case size == len(s.list):
			return true // what was filled has left the set in lack
		}
	}
}

// line is how many residual arcs at least lie in a cache line. ahead is how many arcs of the next node are
// asked for in advance.
const line, ahead = 4, 32

// join takes u into the set. It returns the room that the balanced arcs out of the set have then, and a node
// of the other sign to which one of them leads, or none.
func (s *relaxer[N]) join(u int32, size int, offset, room, dir int64, w *solver.Work) (int64, int32) {
	if size < len(s.list) {
		next := s.list[size]
		for i := s.First[next]; i < min(s.First[next+1], s.First[next]+ahead); i += line {
			prefetch.Line(&s.List[i])
		}
	}
	s.nodes[u].set = s.search
	from, to := s.First[u], s.First[u+1]
	w.Units += int64(to - from)
	w.Steps++
	list, k := s.List[from:to], len(s.boundary)
	if most := k + len(list); most > cap(s.boundary) {
		s.boundary = slices.Grow(s.boundary, most)
	}
	s.found = residual.Grow(s.found, len(list))
	more, level := leaving(list, s.price, s.price[u], dir, offset, from, s.boundary[k:k+len(list)], s.found)
	s.boundary = s.boundary[:k+more]
	end := none
	for _, i := range s.found[:level] {
		r := &s.List[i]
		switch free := s.room(i, dir); {
		case r.Head == u:
		case s.nodes[r.Head].set == s.search:
			room -= int64(r.Total) - free
		case free > 0:
			room += free
			s.balanced = append(s.balanced, i)
			if x := s.label(i, dir); end == none {
				end = x
			}
		}
	}
	return room, end
}

// leaving notes arcs of a node. Those with room and a slack above 0 go to boundary, with the offset added to
// the slack; those of no slack go to found. Both must be as long as the list at least. It returns how many
// each has. About half of the arcs are of the first kind, so nothing branches: what is noted and is not of
// the kind is overwritten by the next.
//
//go:noinline
func leaving[N residual.Number](
	list []residual.Arc[N], price []int64, own, dir, offset int64, first int32, boundary []edge, found []int32,
) (k, z int) {
	mirror := min(dir, 0) // 0 or −1: x^mirror − mirror is x·dir
	for i := range list {
		r := &list[i]
		slack := (int64(r.Cost) - own + price[uint32(r.Head)]) ^ mirror - mirror
		free := int64(r.Room) ^ mirror - mirror + int64(r.Total)&mirror
		boundary[k] = edge{slack + offset, first + int32(i), r.Head}
		k += int(uint64(-slack&-free) >> 63) // both are above 0
		found[z] = first + int32(i)
		z += int(^uint64(slack|-slack) >> 63) // it is 0
	}
	return k, z
}

// label labels the head of a balanced arc. It returns the head if that is new and of the other sign, else
// none.
func (s *relaxer[N]) label(i int32, dir int64) int32 {
	head := s.List[i].Head
	x := &s.nodes[head]
	if x.label == s.search {
		return none
	}
	x.label, x.by = s.search, i
	s.list = append(s.list, head)
	if s.Excess[head]*dir < 0 {
		return head
	}
	return none
}

// augment sends from v to the labelled node end as much as both and the way between them bear. With dir −1 it
// fetches that.
func (s *relaxer[N]) augment(v, end int32, dir int64) {
	amount := min(s.Excess[v]*dir, -s.Excess[end]*dir)
	for u := end; u != v; {
		i := s.nodes[u].by
		amount = min(amount, s.room(i, dir))
		u = s.List[s.Back[i]].Head
	}
	for u := end; u != v; {
		i := s.nodes[u].by
		u = s.List[s.Back[i]].Head
		s.Push(&s.Graph, u, i, amount*dir)
	}
}

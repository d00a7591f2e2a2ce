package cycle

import (
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// link is the arc from a class to a candidate host.
type link struct {
	class *class
	host  *host
	arc   flowgraph.ArcID
	at    int // in the links of the host
	in    int // in the list of the class
}

// links is the arcs of a class to candidate hosts. The zero value has none.
type links struct {
	list  []*link // in the order in which they were added; nil where one was removed, but not at the end
	hosts []int32 // their hosts' indices, −1 where one was removed
	holes int     // how many are nil
	to    hostSet // hosts to which there is a link, once there were more than few; see mark
}

// few is how many indices of a list are compared as fast as a bit of a large set is found: one cache line.
const few = 16

func (s *links) len() int { return len(s.list) - s.holes }

// has reports whether there is a link to the host of that index.
func (s *links) has(i int32) bool {
	if s.to == nil {
		return slices.Contains(s.hosts, i)
	}
	return int(i/64) < len(s.to) && s.to.has(i)
}

// all yields the links in the order in which they were added. None may be added or removed meanwhile.
func (s *links) all() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, l := range s.list {
			if l != nil && !yield(l) {
				return
			}
		}
	}
}

func (s *links) add(l *link) {
	l.in = len(s.list)
	s.list = append(s.list, l)
	s.hosts = append(s.hosts, l.host.index)
	switch {
	case s.to != nil:
		s.mark(l.host.index)
	case len(s.list) > few:
		for x := range s.all() {
			s.mark(x.host.index)
		}
	}
}

func (s *links) mark(i int32) {
	if grow := int(i/64) + 1 - len(s.to); grow > 0 {
		s.to = append(s.to, make([]uint64, grow)...)
	}
	s.to.add(i)
}

// clear removes all links.
func (s *links) clear() {
	clear(s.list)
	clear(s.to)
	s.list, s.hosts, s.holes = s.list[:0], s.hosts[:0], 0
}

// remove takes a link out. Complexity: constant, if as many are removed as were added.
func (s *links) remove(l *link) {
	if i := l.host.index; s.to != nil {
		s.to.remove(i)
	}
	s.list[l.in], s.hosts[l.in] = nil, -1
	s.holes++
	n := len(s.list)
	for ; n > 0 && s.list[n-1] == nil; n-- {
		s.holes--
	}
	if s.list, s.hosts = s.list[:n], s.hosts[:n]; s.holes <= n/2 {
		return
	}
	kept := s.list[:0]
	for x := range s.all() {
		x.in = len(kept)
		s.hosts[x.in] = x.host.index
		kept = append(kept, x)
	}
	clear(s.list[len(kept):])
	s.list, s.hosts, s.holes = kept, s.hosts[:len(kept)], 0
}

// hostSet is a set of hosts: bit i%64 of word i/64 for that of index i.
type hostSet []uint64

// empty returns an empty set for n hosts. It uses the same memory if that is enough.
func (s hostSet) empty(n int) hostSet {
	words := n/64 + 1
	s = slices.Grow(s[:0], words)[:words]
	clear(s)
	return s
}

func (s hostSet) has(i int32) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s hostSet) add(i int32)      { s[i/64] |= 1 << (i % 64) }
func (s hostSet) remove(i int32)   { s[i/64] &^= 1 << (i % 64) }

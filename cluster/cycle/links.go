package cycle

import (
	"iter"

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
	list  []*link  // in the order in which they were added; nil where one was removed, but not at the end
	holes int      // how many are nil
	to    []uint64 // bit i%64 of word i/64: there is one to the host of index i
}

func (s *links) len() int { return len(s.list) - s.holes }

// has reports whether there is one to the host of that index.
func (s *links) has(i int32) bool {
	return int(i/64) < len(s.to) && s.to[i/64]>>(i%64)&1 != 0
}

// all yields them in the order in which they were added. None may be added or removed meanwhile.
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
	word := int(l.host.index / 64)
	if grow := word + 1 - len(s.to); grow > 0 {
		s.to = append(s.to, make([]uint64, grow)...)
	}
	s.to[word] |= 1 << (l.host.index % 64)
	l.in = len(s.list)
	s.list = append(s.list, l)
}

// clear takes all out.
func (s *links) clear() {
	clear(s.list)
	clear(s.to)
	s.list, s.holes = s.list[:0], 0
}

// remove takes one out. Complexity: constant, if as many are removed as were added.
func (s *links) remove(l *link) {
	s.to[l.host.index/64] &^= 1 << (l.host.index % 64)
	s.list[l.in] = nil
	s.holes++
	for n := len(s.list); n > 0 && s.list[n-1] == nil; n-- {
		s.list = s.list[:n-1]
		s.holes--
	}
	if s.holes <= len(s.list)/2 {
		return
	}
	kept := s.list[:0]
	for x := range s.all() {
		x.in = len(kept)
		kept = append(kept, x)
	}
	clear(s.list[len(kept):])
	s.list, s.holes = kept, 0
}

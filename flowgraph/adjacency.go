package flowgraph

import "github.com/sluice-scheduler/sluice/flowgraph/hugepage"

// Ref is an arc as seen from one of its ends: Node is the other end. Lists of
// them carry the price, so that a search reads one list in sequence and not an
// arc here and an arc there.
type Ref struct {
	Cost Cost
	Arc  ArcID
	Node NodeID
}

// span is one node's list of arcs inside the arena of an adjacency; its
// capacity is 1<<class, or none when class is zero.
type span struct {
	off   int32
	len   int32
	class uint8
}

// adjacency keeps one unordered list of arcs per node in a single arena without
// pointers, so that a million lists cost the garbage collector nothing. Removal
// moves the last entry into the hole; the caller keeps each arc's position.
type adjacency struct {
	arena []Ref
	free  [32][]int32 // offsets of unused spans by class
}

const firstClass = 2

func (d *adjacency) list(s span) []Ref { return d.arena[s.off : s.off+s.len : s.off+s.len] }

// push appends r and returns its position.
func (d *adjacency) push(s *span, r Ref) int32 {
	if s.class == 0 || s.len == 1<<s.class {
		d.grow(s)
	}
	d.arena[s.off+s.len] = r
	s.len++
	return s.len - 1
}

// remove drops position p and returns the arc that now stands there, or NoArc.
func (d *adjacency) remove(s *span, p int32) ArcID {
	s.len--
	if p == s.len {
		return NoArc
	}
	moved := d.arena[s.off+s.len]
	d.arena[s.off+p] = moved
	return moved.Arc
}

func (d *adjacency) grow(s *span) {
	class := max(s.class+1, firstClass)
	var off int32
	if k := len(d.free[class]); k > 0 {
		off = d.free[class][k-1]
		d.free[class] = d.free[class][:k-1]
	} else {
		if len(d.arena)+1<<class > maxIndex {
			panic("flowgraph: more than 2³¹ arc references")
		}
		off = int32(len(d.arena))
		d.arena = hugepage.Extend(d.arena, 1<<class)
	}
	copy(d.arena[off:], d.list(*s))
	d.release(*s)
	s.off, s.class = off, class
}

func (d *adjacency) release(s span) {
	if s.class != 0 {
		d.free[s.class] = append(d.free[s.class], s.off)
	}
}

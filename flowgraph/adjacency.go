package flowgraph

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

// Ref is an arc as seen from one of its ends: Node is the other end. Lists of them carry the price. So a
// search reads one list in sequence, not an arc here and an arc there.
type Ref struct {
	Cost Cost
	Arc  ArcID
	Node NodeID
}

// span is one node's list of arcs inside the arena of an adjacency; its room is
// zero or a power of two.
type span struct {
	off, len, room int32
}

// adjacency keeps one unordered list of arcs per node in a single arena without
// pointers, so that a million lists cost the garbage collector nothing. Removal
// moves the last entry into the hole; the caller keeps each arc's position.
type adjacency struct {
	arena []Ref
	free  [32][]int32 // offsets of unused spans by the bit length of their room
}

const (
	leastRoom = 4
	// mostKept is the room that the list of a removed node keeps for the next node of its id. More than that
	// goes to other lists: else every id that a large node once had would keep room for one.
	mostKept = 64
)

func (d *adjacency) list(s span) []Ref { return d.arena[s.off : s.off+s.len : s.off+s.len] }

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
	room := max(2*s.room, leastRoom)
	free := &d.free[bits.Len32(uint32(room))-1]
	var off int32
	if k := len(*free); k > 0 {
		off = (*free)[k-1]
		*free = (*free)[:k-1]
	} else {
		if len(d.arena)+int(room) > maxIndex {
			panic("flowgraph: more than 2³¹ arc references")
		}
		off = int32(len(d.arena))
		d.arena = hugepage.Extend(d.arena, int(room))
	}
	copy(d.arena[off:], d.list(*s))
	if s.room > 0 {
		d.release(s)
	}
	s.off, s.room = off, room
}

// clear gives up the room of the empty list of a removed node, if that is large.
func (d *adjacency) clear(s *span) {
	if s.room > mostKept {
		d.release(s)
		*s = span{}
	}
}

// release keeps the room of a list for another one.
func (d *adjacency) release(s *span) {
	free := &d.free[bits.Len32(uint32(s.room))-1]
	*free = append(*free, s.off)
}

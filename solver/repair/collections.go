package repair

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

// extend makes s as long as n, of zeros. There is some to spare, as a network whose
// size goes up and down soon reaches its next maximum, and copying takes longer than
// a solve.
func extend[S ~[]T, T any](s S, n int) S {
	if n > cap(s) {
		s = hugepage.Grow(s, n+n/8-len(s))
	}
	return s[:max(n, len(s))]
}

// blocks yields a list in pieces. What the elements need lies here and there in memory, and is asked for,
// step by step, for all of a piece at once.
func blocks[T any](list []T) iter.Seq[[]T] { return slices.Chunk(list, 64) }

// rooms gives room to many lists that grow and shrink, cut from large pieces. So a list that reaches a new
// maximum allocates nothing, as some do in every solve. What a list leaves goes to the next one of that size.
type rooms[T any] struct {
	piece []T
	made  int                  // elements in all pieces
	free  [bits.UintSize][][]T // by the bit length of their size, a power of two
}

const (
	leastRoom = 4
	pieceSize = 1 << 14
	mostKept  = 64 // see trim
)

// grow returns the full list s with room for more.
func (r *rooms[T]) grow(s []T) []T {
	size := max(leastRoom, 2*cap(s))
	grown := r.take(size)[:len(s)]
	copy(grown, s)
	if cap(s) > 0 {
		r.release(s)
	}
	return grown
}

// trim returns the list of a node that may be another one by now. An empty list loses its room if that is
// large: else every id that a large node once had would keep room for one.
func (r *rooms[T]) trim(s []T) []T {
	if len(s) > 0 || cap(s) <= mostKept {
		return s
	}
	r.release(s)
	return nil
}

func (r *rooms[T]) release(s []T) {
	k := bits.Len(uint(cap(s)))
	r.free[k] = append(r.free[k], s)
}

func (r *rooms[T]) take(size int) []T {
	if free := &r.free[bits.Len(uint(size))]; len(*free) > 0 {
		last := len(*free) - 1
		s := (*free)[last]
		*free = (*free)[:last]
		return s
	}
	if size > len(r.piece) {
		n := max(size, pieceSize, r.made)
		r.piece = hugepage.Grow([]T(nil), n)[:n]
		r.made += n
	}
	s := r.piece[:size:size]
	r.piece = r.piece[size:]
	return s
}

// marks is a list of indices, each at most once.
type marks struct {
	list []int32
	on   []bool
}

func (m *marks) grow(n int) {
	m.on = extend(m.on, n)
}

func (m *marks) add(i int32) {
	if !m.on[i] {
		m.on[i] = true
		m.list = append(m.list, i)
	}
}

// has is faster than a look at the flag where mostly there are none.
func (m *marks) has(i int32) bool { return len(m.list) > 0 && m.on[i] }

func (m *marks) clear() {
	for _, i := range m.list {
		m.on[i] = false
	}
	m.list = m.list[:0]
}

// bitset is a set of indices.
type bitset []uint64

func (b bitset) has(i int32) bool { return b[uint32(i)>>6]>>(uint32(i)&63)&1 != 0 }

func (b bitset) set(i int32, on bool) {
	mask := uint64(1) << (uint32(i) & 63)
	if on {
		b[uint32(i)>>6] |= mask
	} else {
		b[uint32(i)>>6] &^= mask
	}
}

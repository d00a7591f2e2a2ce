package repair

import (
	"iter"
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

// blocks yields a list in pieces: what their elements need lies here and there in memory, and
// is asked for, step by step, for all of a piece at once.
func blocks[T any](list []T) iter.Seq[[]T] { return slices.Chunk(list, 64) }

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

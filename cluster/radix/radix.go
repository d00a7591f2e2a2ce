// Package radix maps numbers to records, in order, and is copied in O(1).
//
// It is for numbers that are given in sequence, such as those of jobs and of the tasks of each. Sixteen numbers that follow
// each other lie in one leaf, and all nodes above the leaves of a large table fit into a processor's cache: to find a record
// is to wait for memory once, and finding one does not wait for another. A search tree of the same records has larger leaves,
// which it searches, and copies when one of their records is replaced.
//
// It is a radix tree without nodes of one branch (D. R. Morrison, PATRICIA, Journal of the ACM 15(4), 1968,
// doi:10.1145/321479.321481), of which a change copies what others may see: the nodes on the way to the record, unless they
// were made since the last copy (J. R. Driscoll, N. Sarnak, D. D. Sleator and R. E. Tarjan, Making Data Structures Persistent,
// Journal of Computer and System Sciences 38(1), 1989, doi:10.1016/0022-0000(89)90034-2).
package radix

import (
	"iter"
	"math/bits"
)

const (
	width    = 4 // bits that choose among the branches of a node
	branches = 1 << width
	top      = 64 - width // the shift of the root
)

// Map holds records by number; nil is no record. The zero value is empty. Copies share what is equal in them: each may be
// read from any number of goroutines while another one is changed. A Map must not be copied but by Copy.
type Map[V any] struct {
	root  *node[V]
	count int
	owner *owner // of the nodes that nobody else sees
}

// owner is an identity: only its address matters.
type owner struct{ _ byte }

// node is an inner node. A branch has a node below it, or a leaf, or nothing.
type node[V any] struct {
	owner  *owner
	some   uint64 // a number below it, or that was
	shift  uint8  // of the bits that choose the branch: all above them are equal below it
	nodes  [branches]*node[V]
	leaves [branches]*leaf[V]
}

type leaf[V any] struct {
	owner   *owner
	prefix  uint64 // of its numbers, without the lowest bits
	records [branches]*V
}

// Len returns the number of records.
func (m *Map[V]) Len() int { return m.count }

// Get returns the record of a number, nil if there is none. Complexity: the digits in which the numbers differ, to base 16.
func (m *Map[V]) Get(k uint64) *V {
	for n := m.root; n != nil; {
		i := k >> n.shift % branches
		if l := n.leaves[i]; l != nil {
			if l.prefix == k>>width {
				return l.records[k%branches]
			}
			return nil
		}
		n = n.nodes[i]
	}
	return nil
}

// Copy returns a map of its own with the same records. O(1).
func (m *Map[V]) Copy() Map[V] {
	m.owner = &owner{}
	return Map[V]{m.root, m.count, &owner{}}
}

// Set puts a record, which is not nil, in the place of what the number had, and returns that. Complexity: that of Get, times a
// node where it is seen by a copy.
func (m *Map[V]) Set(k uint64, v *V) (old *V) {
	if m.owner == nil {
		m.owner = &owner{}
	}
	if m.root == nil {
		m.root = &node[V]{owner: m.owner, shift: top}
	}
	r := &m.leafOf(k).records[k%branches]
	old, *r = *r, v
	if old == nil {
		m.count++
	}
	return old
}

// leafOf returns the leaf of a number, which may be changed. It makes one where there is none.
func (m *Map[V]) leafOf(k uint64) *leaf[V] {
	for p := &m.root; ; {
		n := m.own(p)
		i := k >> n.shift % branches
		l, below := n.leaves[i], n.nodes[i]
		switch {
		case l != nil && l.prefix == k>>width:
			return m.ownLeaf(&n.leaves[i])
		case l != nil:
			fork := m.fork(l.prefix<<width, k)
			fork.leaves[fork.some>>fork.shift%branches] = l
			n.leaves[i], n.nodes[i] = nil, fork
		case below == nil:
			n.leaves[i] = &leaf[V]{owner: m.owner, prefix: k >> width}
			return n.leaves[i]
		case (below.some^k)>>below.shift>>width != 0:
			fork := m.fork(below.some, k)
			fork.nodes[fork.some>>fork.shift%branches] = below
			n.nodes[i] = fork
		}
		p = &n.nodes[i]
	}
}

// fork returns an empty node where the ways to two numbers of different leaves part.
func (m *Map[V]) fork(some, k uint64) *node[V] {
	highest := uint8(bits.Len64(some^k) - 1)
	return &node[V]{owner: m.owner, some: some, shift: highest - highest%width}
}

// own returns the node, or in its place a copy that may be changed.
func (m *Map[V]) own(p **node[V]) *node[V] {
	if n := *p; n.owner != m.owner {
		c := *n
		c.owner = m.owner
		*p = &c
	}
	return *p
}

func (m *Map[V]) ownLeaf(p **leaf[V]) *leaf[V] {
	if l := *p; l.owner != m.owner {
		c := *l
		c.owner = m.owner
		*p = &c
	}
	return *p
}

// Delete takes a record away and returns it, nil if there was none. Complexity: that of Set.
func (m *Map[V]) Delete(k uint64) (old *V) {
	if old = m.Get(k); old != nil {
		m.count--
		if m.remove(m.own(&m.root), k) {
			m.root = nil
		}
	}
	return old
}

// remove takes a record away below a node, and reports whether nothing is left there. A node with a single branch stays:
// numbers near to those that are gone are likely to be next.
func (m *Map[V]) remove(n *node[V], k uint64) (empty bool) {
	i := k >> n.shift % branches
	if n.leaves[i] != nil {
		l := m.ownLeaf(&n.leaves[i])
		l.records[k%branches] = nil
		if l.records != [branches]*V{} {
			return false
		}
		n.leaves[i] = nil
	} else {
		if !m.remove(m.own(&n.nodes[i]), k) {
			return false
		}
		n.nodes[i] = nil
	}
	return n.leaves == [branches]*leaf[V]{} && n.nodes == [branches]*node[V]{}
}

// From yields the records with numbers from the given one on, in order. The map must not be changed meanwhile.
func (m *Map[V]) From(k uint64) iter.Seq2[uint64, *V] {
	return func(yield func(uint64, *V) bool) { m.root.ascend(k, yield) }
}

func (n *node[V]) ascend(from uint64, yield func(uint64, *V) bool) bool {
	if n == nil {
		return true
	}
	first := uint64(0)
	if from>>n.shift>>width == n.some>>n.shift>>width {
		first = from >> n.shift % branches
	} else if from > n.some {
		return true
	}
	for i := first; i < branches; i++ {
		if l := n.leaves[i]; l != nil && !l.ascend(from, yield) || !n.nodes[i].ascend(from, yield) {
			return false
		}
	}
	return true
}

func (l *leaf[V]) ascend(from uint64, yield func(uint64, *V) bool) bool {
	for i, v := range l.records {
		if k := l.prefix<<width | uint64(i); v != nil && k >= from && !yield(k, v) {
			return false
		}
	}
	return true
}

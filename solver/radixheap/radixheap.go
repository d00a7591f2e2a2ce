// Package radixheap is the queue of searches for cheapest paths.
package radixheap

import (
	"math"
	"math/bits"
)

// Heap is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, Faster algorithms for the
// shortest path problem, 1990): keys never fall below the last one taken. Equal
// keys come last in, first out, so that searches go deep where many nodes share a
// price. Most of what a search adds is never taken from it; adding is what is cheap: O(1), and
// all that becomes of an item until it is taken at most O(64). Outdated entries stay in it; the
// reader recognizes them. The zero Heap is one for keys of 0 and more.
type Heap struct {
	// Spread lets of equal keys come any of the last so many, so that searches of like
	// classes end in different places.
	Spread bool
	// Fell: a key was below the last one taken: it comes late.
	Fell bool

	last    int64
	size    int
	used    uint64     // which of the buckets but the first may not be empty
	buckets [65][]Item // by the highest bit in which a key differs from last
}

// anyOf is of how many equal keys any may come. Of all, searches pass by more arcs.
const anyOf = 512

// Item is a node to come at the given key and, where that matters, the arc that it comes by.
type Item struct {
	Key  int64
	Node int32
	Arc  int32
}

// Reset empties the heap, for keys of any size.
func (h *Heap) Reset() {
	h.buckets[0] = h.buckets[0][:0]
	for ; h.used != 0; h.used &= h.used - 1 {
		i := bits.TrailingZeros64(h.used) + 1
		h.buckets[i] = h.buckets[i][:0]
	}
	h.last, h.size, h.Fell = math.MinInt64, 0, false
}

// Len returns how many items there are, outdated ones too.
func (h *Heap) Len() int { return h.size }

// Push adds an item.
func (h *Heap) Push(x Item) {
	if x.Key < h.last {
		h.Fell = true
	}
	h.size++
	h.put(x)
}

func (h *Heap) put(x Item) {
	i := bits.Len64(uint64(x.Key ^ h.last))
	h.buckets[i] = append(h.buckets[i], x)
	h.used |= 1 << (uint(i) - 1) // nothing for the first
}

// Pop takes out an item of the least key. There must be one.
func (h *Heap) Pop() Item {
	h.Least()
	h.size--
	b := h.buckets[0]
	k := len(b) - 1
	if h.Spread {
		// A multiple of the golden ratio: as good as random, and the same each time.
		k -= int(uint64(uint32(h.size)*0x9e3779b1) * uint64(min(len(b), anyOf)) >> 32)
	}
	x := b[k]
	b[k] = b[len(b)-1]
	h.buckets[0] = b[:len(b)-1]
	return x
}

// Least returns the least key. There must be an item.
func (h *Heap) Least() int64 {
	if len(h.buckets[0]) > 0 {
		return h.last
	}
	i := bits.TrailingZeros64(h.used) + 1
	h.used &= h.used - 1
	b := h.buckets[i]
	h.buckets[i] = b[:0]
	h.last = b[0].Key
	for _, x := range b[1:] {
		h.last = min(h.last, x.Key)
	}
	for _, x := range b {
		h.put(x)
	}
	return h.last
}

// Each lets change, of every item, all but its key.
func (h *Heap) Each(change func(*Item)) {
	for i := range h.buckets {
		for k := range h.buckets[i] {
			change(&h.buckets[i][k])
		}
	}
}

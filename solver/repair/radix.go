package repair

import "math/bits"

// radix is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, Faster algorithms for the
// shortest path problem, 1990): keys never fall below the last one taken. Equal
// keys come last in, first out, so that searches go deep where many nodes share a
// price, or any of the last so many, so that those of like classes end in different
// places. Most of what a search adds is never taken from it; adding is what is cheap.
// Outdated entries stay in it; the reader recognizes them.
type radix struct {
	last    int64
	size    int
	spread  bool       // of equal keys comes any of the last
	fell    bool       // a key was below the last one taken: it comes late
	used    uint64     // which of the buckets but the first may not be empty
	buckets [65][]item // by the highest bit in which a key differs from last
}

// anyOf is of how many equal keys any may come. Of all, searches pass by more arcs.
const anyOf = 512

// item is a node to come at the given key, and in a forest the arc that it comes by.
type item struct {
	key  int64
	node int32
	arc  int32
}

func (h *radix) reset() {
	h.buckets[0] = h.buckets[0][:0]
	for ; h.used != 0; h.used &= h.used - 1 {
		i := bits.TrailingZeros64(h.used) + 1
		h.buckets[i] = h.buckets[i][:0]
	}
	h.last, h.size, h.fell = -far, 0, false
}

func (h *radix) push(x item) {
	if x.key < h.last {
		h.fell = true
	}
	h.size++
	h.put(x)
}

func (h *radix) put(x item) {
	i := bits.Len64(uint64(x.key ^ h.last))
	h.buckets[i] = append(h.buckets[i], x)
	h.used |= 1 << (uint(i) - 1) // nothing for the first
}

// pop takes out an item of the least key. There must be one.
func (h *radix) pop() item {
	h.least()
	h.size--
	b := h.buckets[0]
	k := len(b) - 1
	if h.spread {
		// A multiple of the golden ratio: as good as random, and the same each time.
		k -= int(uint64(uint32(h.size)*0x9e3779b1) * uint64(min(len(b), anyOf)) >> 32)
	}
	x := b[k]
	b[k] = b[len(b)-1]
	h.buckets[0] = b[:len(b)-1]
	return x
}

// least returns the least key. There must be an item.
func (h *radix) least() int64 {
	if len(h.buckets[0]) > 0 {
		return h.last
	}
	i := bits.TrailingZeros64(h.used) + 1
	h.used &= h.used - 1
	b := h.buckets[i]
	h.buckets[i] = b[:0]
	h.last = b[0].key
	for _, x := range b[1:] {
		h.last = min(h.last, x.key)
	}
	for _, x := range b {
		h.put(x)
	}
	return h.last
}

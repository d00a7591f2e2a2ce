package repair

import "math/bits"

// radix is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, Faster algorithms for the
// shortest path problem, 1990): keys never fall below the last one taken. Equal
// keys come last in, first out.
type radix struct {
	last    int64
	used    uint64      // which of the buckets but the first are not empty
	buckets [65][]event // by the highest bit in which a key differs from last
}

func (h *radix) reset() {
	for i := range h.buckets {
		h.buckets[i] = h.buckets[i][:0]
	}
	h.last, h.used = 0, 0
}

func (h *radix) push(e event) {
	i := bits.Len64(uint64(e.key ^ h.last))
	h.buckets[i] = append(h.buckets[i], e)
	if i > 0 {
		h.used |= 1 << (i - 1)
	}
}

func (h *radix) pop() (event, bool) {
	if len(h.buckets[0]) == 0 {
		if h.used == 0 {
			return event{}, false
		}
		i := bits.TrailingZeros64(h.used) + 1
		h.used &^= 1 << (i - 1)
		b := h.buckets[i]
		h.last = b[0].key
		for _, e := range b[1:] {
			h.last = min(h.last, e.key)
		}
		for _, e := range b {
			h.push(e)
		}
		h.buckets[i] = b[:0]
	}
	b := h.buckets[0]
	e := b[len(b)-1]
	h.buckets[0] = b[:len(b)-1]
	return e, true
}

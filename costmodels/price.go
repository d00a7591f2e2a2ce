package costmodels

import (
	"math"
	"math/bits"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Invalid is no price. A model that returns it is broken.
const Invalid flowgraph.Cost = -1

// Price turns milliseconds into a price: rounded to the nearest, halves up, at most MaxPrice. Less than nothing and what
// is not a number are Invalid, so that the mistake shows where it was made.
func Price(ms float64) flowgraph.Cost {
	switch {
	case math.IsNaN(ms) || ms < -0.5:
		return Invalid
	case ms >= float64(MaxPrice):
		return MaxPrice
	}
	return flowgraph.Cost(math.Floor(ms + 0.5))
}

// Scale returns a · b / c for a, b ≥ 0, exactly and rounded down, at most limit; limit where c ≤ 0 < a · b.
func Scale(a, b, c, limit int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if c <= 0 || hi >= uint64(c) {
		return limit
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, uint64(limit)))
}

// DominantShare returns, in thousandths and rounded down, the part of the capacity that n times the load takes of the
// dimension where that is largest, at most limit.
func DominantShare(load, capacity *cluster.Resources, n, limit int64) int64 {
	worst := int64(0)
	if n <= 0 {
		return 0
	}
	for d, v := range &load.Fixed {
		worst = max(worst, Scale(v, 1000*n, capacity.Fixed[d], limit))
	}
	for _, a := range load.Named {
		worst = max(worst, Scale(a.Value, 1000*n, capacity.Amount(a.Name), limit))
	}
	return worst
}

// ShareWith returns DominantShare of what is allocated and the request together, which asks for no less than nothing.
func ShareWith(allocated, request, capacity *cluster.Resources, limit int64) int64 {
	if len(allocated.Named)+len(request.Named) > 0 {
		load := allocated.Add(*request)
		return DominantShare(&load, capacity, 1, limit)
	}
	most, of := uint64(0), uint64(1)
	for d, v := range &request.Fixed {
		if !raise(&most, &of, v+allocated.Fixed[d], capacity.Fixed[d]) {
			return limit
		}
	}
	return int64(min(1000*most/of, uint64(limit))) // one division for all dimensions
}

// Shares answers ShareWith for one host and many requests.
type Shares struct {
	allocated, capacity *cluster.Resources
	limit               int64
	most, of            uint64 // the largest part that is allocated is most / of
	over                bool   // something is allocated that the host has nothing of
}

// SharesOn returns the shares of a host of that capacity, at most limit, for as long as neither vector changes.
func SharesOn(allocated, capacity *cluster.Resources, limit int64) Shares {
	s := Shares{allocated: allocated, capacity: capacity, limit: limit, of: 1}
	for d, v := range &allocated.Fixed {
		s.over = !raise(&s.most, &s.of, v, capacity.Fixed[d]) || s.over
	}
	return s
}

// With returns the share once the request, which asks for no less than nothing, is allocated too. Every start on every host
// that changed asks for it, so it makes no vector of the sum.
func (s *Shares) With(request *cluster.Resources) int64 {
	if len(s.allocated.Named)+len(request.Named) > 0 {
		return ShareWith(s.allocated, request, s.capacity, s.limit)
	}
	most, of := s.most, s.of
	for d, v := range &request.Fixed {
		if v > 0 && !raise(&most, &of, v+s.allocated.Fixed[d], s.capacity.Fixed[d]) {
			return s.limit
		}
	}
	if s.over {
		return s.limit
	}
	return int64(min(1000*most/of, uint64(s.limit))) // one division for all dimensions
}

// raise makes most / of the larger of itself and v / c, and returns false where c is nothing and v is something. Amounts are
// at most cluster.MaxAmount: a sum of two does not overflow, nor does a thousand times that.
func raise(most, of *uint64, v, c int64) bool {
	switch {
	case v <= 0:
		return true
	case c <= 0:
		return false
	}
	hi, lo := bits.Mul64(uint64(v), *of)
	hiMost, loMost := bits.Mul64(*most, uint64(c))
	if hi > hiMost || hi == hiMost && lo > loMost {
		*most, *of = uint64(v), uint64(c)
	}
	return true
}

// The price of waiting that most models share, in milliseconds: see Patience.
const (
	Step   = 1 << 20 // of one step of priority
	Second = 1000    // of a second of waiting
)

// Patience returns Step · (priority + 1) + Second · 2^(stage−1), the second term below Step: a step of priority outweighs
// any time of waiting, and the time of waiting decides among equals. It exceeds any Start below Step, so that nothing
// waits that fits.
func Patience(c *Class) flowgraph.Cost { return Preference(c, 0) }

// Preference is Patience for a class that counts as if it had waited the given milliseconds longer, 0 or more.
func Preference(c *Class, more flowgraph.Cost) flowgraph.Cost {
	if c.Stage > 0 {
		more += Second << min(c.Stage-1, 20)
	}
	return min(flowgraph.Cost(c.Priority+1)*Step+min(more, Step-1), MaxPrice)
}

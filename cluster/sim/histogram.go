package sim

import (
	"math"
	"time"
)

// ratio is the width of a bucket of a histogram: quantiles are at most 1 % too large.
const ratio = 1.01

// histogram counts durations, or other amounts, in buckets that grow by ratio. The zero value is empty. Memory: a few
// thousand counts at most, however many values there are.
type histogram struct {
	zeros  int64
	counts []int64 // counts[i] holds the values in (ratio^(i−1), ratio^i]
	n      int64
	sum    float64
	most   int64
}

func (h *histogram) add(v int64) { h.addTimes(v, 1) }

func (h *histogram) addTimes(v, n int64) {
	h.n += n
	h.sum += float64(v) * float64(n)
	h.most = max(h.most, v)
	if v <= 0 {
		h.zeros += n
		return
	}
	i := int(math.Ceil(math.Log(float64(v)) / math.Log(ratio)))
	for len(h.counts) <= i {
		h.counts = append(h.counts, 0)
	}
	h.counts[i] += n
}

// quantile returns the upper bound of the bucket in which the value of rank ⌈p·n⌉ lies, and never more than the largest
// value; 0 if there are none.
func (h *histogram) quantile(p float64) int64 {
	rank := int64(math.Ceil(p * float64(h.n)))
	seen := h.zeros
	if h.n == 0 || rank <= seen {
		return 0
	}
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			return min(int64(math.Pow(ratio, float64(i))), h.most)
		}
	}
	return h.most
}

// Quantiles sum up a distribution. Values are in the unit that the field's name says; quantiles are by nearest rank and
// at most 1 % too large, Max is exact.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// quantiles sums the histogram up, each value divided by unit.
func (h *histogram) quantiles(unit float64) Quantiles {
	q := Quantiles{Count: h.n, Max: float64(h.most) / unit}
	if h.n > 0 {
		q.Mean = h.sum / float64(h.n) / unit
	}
	q.P50 = float64(h.quantile(0.50)) / unit
	q.P90 = float64(h.quantile(0.90)) / unit
	q.P99 = float64(h.quantile(0.99)) / unit
	return q
}

// cdf returns up to n points of the cumulative distribution: the value, and the part of all values up to it.
func (h *histogram) cdf(unit float64, n int) [][2]float64 {
	var out [][2]float64
	if h.n == 0 {
		return nil
	}
	step := max(1, len(h.counts)/n)
	seen := h.zeros
	if seen > 0 {
		out = append(out, [2]float64{0, float64(seen) / float64(h.n)})
	}
	for i, c := range h.counts {
		seen += c
		if c > 0 && (i%step == 0 || seen == h.n) || i%step == step-1 && seen > h.zeros {
			out = append(out, [2]float64{min(math.Pow(ratio, float64(i)), float64(h.most)) / unit, float64(seen) / float64(h.n)})
		}
	}
	return out
}

const (
	milliseconds = float64(time.Millisecond)
	seconds      = float64(time.Second)
)

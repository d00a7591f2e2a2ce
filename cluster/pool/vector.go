package pool

import "math/bits"

// Vectors are indexed by the dimensions of a tree. Amounts that are taken away may leave less than nothing: what runs is
// counted wherever it is, also beyond a bound that was lowered.

// times returns n·v ≥ 0, saturating.
func times(v, n int64) int64 {
	if hi, lo := bits.Mul64(uint64(v), uint64(n)); hi == 0 && lo <= unlimited {
		return int64(lo)
	}
	return unlimited
}

func addTimes(to, v []int64, n int64) {
	for d := range to {
		to[d] = sum(to[d], times(v[d], n))
	}
}

// sub returns a − b for b ≥ 0, no less than −unlimited.
func sub(a, b int64) int64 {
	if a < b-unlimited {
		return -unlimited
	}
	return a - b
}

func subTimes(from, v []int64, n int64) {
	for d := range from {
		from[d] = sub(from[d], times(v[d], n))
	}
}

// count returns how many copies of v fit into the room, at most limit. A dimension of which v asks for nothing does not
// matter.
func count(v, room []int64, limit int64) int64 {
	for d, amount := range v {
		if amount > 0 {
			limit = min(limit, max(0, room[d])/amount)
		}
	}
	return limit
}

// lacking returns the first dimension in which v does not fit into the room, −1 if it fits.
func lacking(v, room []int64) int {
	for d, amount := range v {
		if amount > 0 && amount > room[d] {
			return d
		}
	}
	return -1
}

// over returns p/n rounded down, saturating.
func (p product) over(n uint64) uint64 {
	if p.hi >= n {
		return unlimited
	}
	q, _ := bits.Div64(p.hi, p.lo, n)
	return min(q, unlimited)
}

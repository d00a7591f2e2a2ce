package pool

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// unlimited stands for no limit. It is also the largest sum: sums saturate.
const unlimited = math.MaxInt64

// sum adds two amounts ≥ 0, saturating.
func sum(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return unlimited
}

// filler divides amounts by weighted max-min. Its slices are scratch that is used again.
type filler struct {
	order     []int32
	remainder []uint64
}

// fill divides an amount among the members by weighted max-min: out[i] ≤ caps[i], no member that is below its cap has
// less in proportion to its weight than another has, and the sum is the smaller of the amount and the caps with a weight.
// A member of weight 0 gets nothing. A fraction is rounded down, and the units that are left over go one each to the
// largest fractions, then in the order of the members.
//
// Instead of raising the water step by step, it visits the members in the order in which they fill up. Complexity:
// O(n log n), O(n) where there is enough for all.
func (f *filler) fill(amount int64, caps []int64, weights []uint64, out []int64) {
	var wanted int64
	f.order = f.order[:0]
	for i, c := range caps {
		out[i] = 0
		if weights[i] > 0 && c > 0 {
			wanted = sum(wanted, c)
			f.order = append(f.order, int32(i))
		}
	}
	if wanted <= amount && wanted < unlimited { // that may stand for more
		for _, i := range f.order {
			out[i] = caps[i]
		}
		return
	}
	shift := shiftOf(weights)
	weight := func(i int32) uint64 { return max(1, weights[i]>>shift) }
	slices.SortFunc(f.order, func(a, b int32) int { // by caps/weights
		ah, al := bits.Mul64(uint64(caps[a]), weight(b))
		bh, bl := bits.Mul64(uint64(caps[b]), weight(a))
		return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl), cmp.Compare(a, b))
	})
	var total uint64
	for _, i := range f.order {
		total += weight(i)
	}
	rest := f.order
	for len(rest) > 0 {
		i := rest[0]
		wanted, given := wide(uint64(caps[i]), total), wide(uint64(amount), weight(i))
		if given.less(wanted) {
			break // from here on the water does not reach anybody's cap
		}
		out[i] = caps[i]
		amount -= caps[i]
		total -= weight(i)
		rest = rest[1:]
	}
	f.split(amount, total, rest, weight, out)
}

// split divides an amount in proportion to the weights, which sum to total.
func (f *filler) split(amount int64, total uint64, members []int32, weight func(int32) uint64, out []int64) {
	f.remainder = slices.Grow(f.remainder[:0], len(out))[:len(out)]
	left := amount
	for _, i := range members {
		product := wide(uint64(amount), weight(i))
		q, r := bits.Div64(product.hi, product.lo, total) // weight ≤ total, so q ≤ amount
		out[i], f.remainder[i] = int64(q), r
		left -= int64(q)
	}
	if left == 0 {
		return
	}
	slices.SortFunc(members, func(a, b int32) int {
		return cmp.Or(cmp.Compare(f.remainder[b], f.remainder[a]), cmp.Compare(a, b))
	})
	for _, i := range members[:left] { // each lost less than one unit
		out[i]++
	}
}

// shiftOf returns by how many bits to shorten the weights so that their sum does not overflow. It is 0 unless
// they are reservations of astronomic size.
func shiftOf(weights []uint64) int {
	var hi, lo, carry uint64
	for _, w := range weights {
		lo, carry = bits.Add64(lo, w, 0)
		hi += carry
	}
	if hi == 0 {
		return 0
	}
	return bits.Len64(hi) + 1 // one more, since a weight never becomes 0
}

// product is a product of two words.
type product struct{ hi, lo uint64 }

func wide(a, b uint64) product {
	hi, lo := bits.Mul64(a, b)
	return product{hi, lo}
}

func (p product) less(q product) bool { return p.hi < q.hi || p.hi == q.hi && p.lo < q.lo }

package flowgraph

import "math/bits"

// Int128 is a signed 128-bit integer in two's complement, for sums of int64
// and of products of two of them: 2⁶⁰ such terms cannot overflow it. The zero
// value is zero.
type Int128 struct {
	hi int64
	lo uint64
}

// Add adds x.
func (s *Int128) Add(x int64) {
	lo, carry := bits.Add64(s.lo, uint64(x), 0)
	s.lo = lo
	s.hi += x>>63 + int64(carry)
}

func (s *Int128) addWide(x Int128) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, x.lo, 0)
	s.hi += x.hi + int64(carry)
}

// AddMul adds x·y.
func (s *Int128) AddMul(x, y int64) {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	// Mul64 is unsigned: a negative factor was read as itself + 2⁶⁴.
	hi -= uint64(x>>63)&uint64(y) + uint64(y>>63)&uint64(x)
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi += int64(hi) + int64(carry)
}

// Int64 returns the value, and whether it fits.
func (s Int128) Int64() (int64, bool) {
	return int64(s.lo), s.hi == int64(s.lo)>>63
}

// Sign returns -1, 0 or 1.
func (s Int128) Sign() int {
	switch {
	case s.hi < 0:
		return -1
	case s.hi == 0 && s.lo == 0:
		return 0
	}
	return 1
}

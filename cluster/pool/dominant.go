package pool

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// dominant divides vectors by weighted dominant resource fairness (Ghodsi et al., NSDI 2011), by progressive filling:
// every member's vector grows in proportion to what it asks for, all with the same dominant share by weight, until it has
// all or a dimension that it asks for is used up. Who has something beforehand grows when the others have come to as much.
type dominant struct {
	filler
	members []member
	order   []int32 // members that still grow, by where they end
	starts  []int32 // the same by base
	caps    []int64
	parts   []int64
	weights []uint64
}

// member is one who shares.
type member struct {
	ask    []int64  // per dimension, ≥ 0
	want   []int64  // the same without dimensions of which it can have nothing: there is none, or its weight is 0
	weight []uint64 // per dimension
	has    []int64  // per dimension, what it has beforehand, which is not among the amounts; nil for nothing
	out    []int64  // per dimension, the result
	base   float64  // the dominant share by weight of what it has beforehand
	span   float64  // the same of all that it wants, 0 if that is nothing
	served bool     // it has all that it wants
}

// end is the dominant share by weight at which the member has all that it wants.
func (m *member) end() float64 { return m.base + m.span }

// divide sets each member's out to its part of the amounts. Shares are measured against total, which is never less than
// the amounts in any dimension.
//
// The order in which members are served and dimensions run out is found in floating point. What a dimension that runs out
// gives to those who then stop is split exactly, in integers, and their other dimensions follow in proportion, rounded up
// so that whole tasks stay whole; so the amounts of a division that works out without fractions are exact. No dimension is
// ever over-spent. Complexity: O(n (log n + dimensions²)).
func (d *dominant) divide(amounts, total []int64) {
	d.order = d.order[:0]
	for i := range d.members {
		m := &d.members[i]
		m.want = attainable(m, total)
		m.base, m.span = span(m, m.has, total), span(m, m.want, total)
		clear(m.out)
		if m.served = m.span == 0; !m.served {
			d.order = append(d.order, int32(i))
		}
	}
	slices.SortFunc(d.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(d.members[a].end(), d.members[b].end()), cmp.Compare(a, b))
	})
	for {
		level, dim := d.nextSpent(amounts)
		d.serve(level)
		if dim < 0 {
			break
		}
		d.exhaust(dim, amounts, level) // nobody who asks for it grows any more
	}
	for dim, amount := range amounts {
		d.trim(dim, amount)
	}
}

// attainable returns what the member asks for, without dimensions of which it can have nothing whatever the others have.
func attainable(m *member, total []int64) []int64 {
	want := m.ask
	for k, ask := range m.ask {
		if ask > 0 && (total[k] == 0 || m.weight[k] == 0) {
			if &want[0] == &m.ask[0] {
				want = slices.Clone(m.ask)
			}
			want[k] = 0
		}
	}
	return want
}

// span returns the dominant share by weight of a vector, of which what the member can have nothing of is no part.
func span(m *member, v, total []int64) float64 {
	var most float64
	for k, n := range v {
		if n > 0 && total[k] > 0 && m.weight[k] > 0 {
			most = max(most, float64(n)/(float64(total[k])*float64(m.weight[k])))
		}
	}
	return most
}

// nextSpent returns the dimension that is used up first while the members that still grow do so, and at which level; −1
// and +Inf if all of them get what they ask for.
func (d *dominant) nextSpent(amounts []int64) (level float64, dim int) {
	level, dim = math.Inf(1), -1
	d.starts = append(d.starts[:0], d.order...)
	slices.SortStableFunc(d.starts, func(a, b int32) int { return cmp.Compare(d.members[a].base, d.members[b].base) })
	for k, amount := range amounts {
		left := float64(amount - d.used(k))
		if float64(d.asked(k)) <= left {
			continue // for all who still grow
		}
		rates, before := 0.0, 0.0 // of those who have begun and are not full, and what they would have more if all had begun at 0
		served := 0.0             // the members that are full
		begins, ends := d.starts, d.order
		for len(ends) > 0 {
			i, at, sign := ends[0], d.members[ends[0]].end(), -1.0
			if len(begins) > 0 && d.members[begins[0]].base < at {
				i, at, sign = begins[0], d.members[begins[0]].base, 1
			}
			if rates > 0 && left-served+before <= float64(rates*at) {
				break
			}
			m := &d.members[i]
			rates += sign * float64(m.want[k]) / m.span
			before += sign * float64(m.want[k]) / m.span * m.base
			if sign > 0 {
				begins = begins[1:]
			} else {
				served += float64(m.want[k])
				ends = ends[1:]
			}
		}
		if rates <= 0 {
			continue
		}
		if at := max(d.members[d.starts[0]].base, (left-served+before)/rates); at < level {
			level, dim = at, k
		}
	}
	return level, dim
}

func (d *dominant) used(dim int) (n int64) {
	for i := range d.members {
		n = sum(n, d.members[i].out[dim])
	}
	return n
}

func (d *dominant) asked(dim int) (n int64) {
	for _, i := range d.order {
		n = sum(n, d.members[i].want[dim])
	}
	return n
}

// serve gives all they ask for to the members that are full at the level.
func (d *dominant) serve(level float64) {
	full := 0
	for _, i := range d.order {
		if d.members[i].end() > level {
			break
		}
		copy(d.members[i].out, d.members[i].want)
		d.members[i].served = true
		full++
	}
	d.order = d.order[full:]
}

// makeColumns makes caps, weights and parts as long as there are members. What they hold is of another division.
func (d *dominant) makeColumns() {
	n := len(d.members)
	d.caps = slices.Grow(d.caps[:0], n)[:n]
	d.weights = slices.Grow(d.weights[:0], n)[:n]
	d.parts = slices.Grow(d.parts[:0], n)[:n]
}

// exhaust splits what is left of a dimension among the members that grow and ask for it, and ends their growth.
func (d *dominant) exhaust(dim int, amounts []int64, level float64) {
	left := max(0, amounts[dim]-d.used(dim))
	d.makeColumns()
	clear(d.weights) // who has none gets nothing, whatever the caps of another division
	fastest := 0.0
	for _, i := range d.order {
		fastest = max(fastest, float64(d.members[i].want[dim])/d.members[i].span)
	}
	scale := math.Ldexp(1, 62-bits.Len(uint(len(d.members)))) / fastest // the sum of the weights stays within a word
	for _, i := range d.order {
		m := &d.members[i]
		if m.base < level { // it has grown for that part of the way to the level
			d.caps[i] = m.want[dim]
			d.weights[i] = max(1, uint64(float64(m.want[dim])/m.span*scale*(1-m.base/level)))
		}
	}
	d.fill(left, d.caps, d.weights, d.parts)
	growing := d.order
	d.order = growing[:0]
	for _, i := range growing {
		m := &d.members[i]
		if m.want[dim] == 0 {
			d.order = append(d.order, i)
			continue
		}
		for k, ask := range m.want {
			m.out[k] = proportion(ask, d.parts[i], m.want[dim])
		}
	}
}

// proportion returns ⌈a·b/c⌉ for 0 ≤ b ≤ c, c > 0.
func proportion(a, b, c int64) int64 {
	p := wide(uint64(a), uint64(b))
	q, r := bits.Div64(p.hi, p.lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// trim takes back what rounding gave too much of a dimension, from those to whom it gave: who was served in full keeps that.
func (d *dominant) trim(dim int, amount int64) {
	if d.used(dim) <= amount {
		return
	}
	var served int64
	for i := range d.members {
		if m := &d.members[i]; m.served {
			served = sum(served, m.out[dim])
		}
	}
	full := served <= amount // else floating point was a unit off
	if full {
		amount -= served
	}
	d.makeColumns()
	for i := range d.members {
		m := &d.members[i]
		if d.caps[i] = m.out[dim]; m.served && full {
			d.caps[i] = 0
		}
		d.weights[i] = uint64(d.caps[i])
	}
	d.fill(amount, d.caps, d.weights, d.parts)
	for i := range d.members {
		if d.caps[i] > 0 {
			d.members[i].out[dim] = d.parts[i]
		}
	}
}

// spread divides what is left of each dimension among the members that ask for more of it.
func (d *dominant) spread(amounts []int64) {
	d.makeColumns()
	for dim, amount := range amounts {
		for i := range d.members {
			m := &d.members[i]
			d.caps[i], d.weights[i] = m.want[dim]-m.out[dim], m.weight[dim]
		}
		d.fill(amount-d.used(dim), d.caps, d.weights, d.parts)
		for i := range d.members {
			d.members[i].out[dim] += d.parts[i]
		}
	}
}

package cycle

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestSlotsAreSortedByPriceThenHost(t *testing.T) {
	var w pricer
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{0, 10, 1 << digit, 1 << (2 * digit), int64(costmodels.MaxPrice)}).Draw(t, "most")
		prices := rapid.SliceOfN(rapid.Int64Range(0, most), 0, 3*fewSlots).Draw(t, "prices")
		var found []slot
		for i, price := range prices {
			found = append(found, makeSlot(flowgraph.Cost(price), int32(i)))
		}
		want := slices.Sorted(slices.Values(found))
		require.Equal(t, want, append([]slot(nil), w.sorted(found)...))
	})
}

// CheckRows brings all rows in line together, and requires each to list the cheapest of its open hosts in order.
func (s *Supervisor) CheckRows(t require.TestingT) (rows, prices int) {
	p := s.planner
	var all []*row
	for _, r := range p.rows.byKey {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Compare(a.request.Task.Resources.Fixed[0], b.request.Task.Resources.Fixed[0])
	})
	from := slices.MinFunc(all, func(a, b *row) int { return cmp.Compare(a.read, b.read) }).read
	p.rows.renew(all, from)
	for _, r := range all {
		r.read = p.hosts.position()
		r.check(t)
	}
	return len(all), len(all) * len(p.rows.changes(from).hosts)
}

// check requires the row, which is fresh, to list the cheapest of its open hosts in order, and to tell whether any has the size.
func (r *row) check(t require.TestingT) {
	var want []slot
	nowhere := r.nowhere()
	for i, h := range r.table.hosts.byIndex {
		require.False(t, nowhere && couldTake(r.judge(h)))
		if s, open := r.price(int32(i)); open && s < r.end {
			want = append(want, s)
		}
	}
	slices.Sort(want)
	require.Truef(t, slices.Equal(want, r.head), "%v, and is %v", r.head, want)
}

// CheckRowsOfClasses is CheckRows for the rows of what waits, each brought in line by itself.
func (s *Supervisor) CheckRowsOfClasses(t require.TestingT) (rows int) {
	for _, c := range s.planner.order {
		s.planner.rows.refresh(c.row)
		c.row.check(t)
	}
	return len(s.planner.order)
}

// Unpriced returns how many plain rows are not in line with the hosts.
func (s *Supervisor) Unpriced() (rows int) {
	p := s.planner
	for _, r := range p.rows.byKey {
		if r.plain && r.read != p.hosts.position() {
			rows++
		}
	}
	return rows
}

// Part is how many prices are worth another goroutine.
const Part = part

// RanOut returns how many rows of the last plan ran out, and how many were lengthened then, themselves among them.
func (s *Supervisor) RanOut() (rows, together int) {
	t := s.planner.rows
	for _, r := range t.asked.rows {
		together += int(one(len(r.head) > usual.short))
	}
	return t.short.out, together
}

// Shorten has rows list hardly more than is looked at, and those without a class be forgotten soon.
func (s *Supervisor) Shorten() { s.planner.lengths = lengths{idle: 4, short: 1, full: 1, hosts: 1} }

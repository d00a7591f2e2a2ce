package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// changed is the hosts that changed between two positions of their log, each once, by index. The rows of a cycle were
// mostly last read at the same position, and share it.
type changed struct {
	from, to int
	hosts    []int32
}

// changes returns the hosts that changed since the position, which the log still holds.
func (t *rows) changes(from int) []int32 {
	c, to := &t.recent, t.hosts.position()
	if c.from == from && c.to == to {
		return c.hosts
	}
	*c = changed{from, to, c.hosts[:0]}
	for at, i := range t.hosts.log[from-t.hosts.start:] {
		if t.hosts.last[i] == from+at { // else it changed again later
			c.hosts = append(c.hosts, i)
		}
	}
	slices.Sort(c.hosts)
	return c.hosts
}

// block is how many rows are brought in line together.
const block = 64

// refresh brings a row in line with the hosts. Complexity: the changes of hosts since the last refresh, and the length of
// the head; all hosts for a new row or one that was not refreshed for long.
func (t *rows) refresh(r *row) {
	from := r.read
	if from == t.hosts.position() {
		return
	}
	r.read = t.hosts.position()
	t.renew([]*row{r}, from)
}

// refreshAll does so for the rows of all classes that are in the network.
func (t *rows) refreshAll(classes []*class) {
	to, from := t.hosts.position(), 0
	old := t.old[:0]
	for _, c := range classes {
		if c.node != flowgraph.NoNode && c.row.read != to {
			old = append(old, c.row)
		}
	}
	slices.SortStableFunc(old, func(a, b *row) int { return cmp.Compare(a.read, b.read) })
	together := t.together[:0]
	for _, r := range old {
		if r.read == to { // of another class, too
			continue
		}
		if len(together) == block || r.read != from {
			t.renew(together, from)
			together, from = together[:0], r.read
		}
		r.read = to
		together = append(together, r)
	}
	t.renew(together, from)
	t.together, t.old = together, old
}

// renew brings at most a block of rows that were last read at the position in line. It goes from host to host and not from
// row to row: what a host is made of lies all over the memory.
func (t *rows) renew(together []*row, from int) {
	if len(together) == 0 {
		return
	}
	for _, r := range together {
		if r.era != t.hosts.era {
			r.era, r.fixed = t.hosts.era, nil
		}
	}
	if from < t.hosts.start {
		for _, r := range together {
			t.rebuild(r, max(shortHead, len(r.head)))
		}
		return
	}
	if grow := len(together) - len(t.found); grow > 0 {
		t.found = append(t.found, make([][]slot, grow)...)
	}
	for k := range together {
		t.found[k] = t.found[k][:0]
	}
	for _, i := range t.changes(from) {
		h := t.hosts.byIndex[i]
		if h == nil {
			continue
		}
		t.askers = t.askers[:0]
		for k, r := range together {
			if r.opens(h, &t.hosts.rooms[i]) {
				t.askers = append(t.askers, int32(k))
			}
		}
		t.prices = t.model.Starts(t.round, len(t.askers), func(j int) (*costmodels.Request, *cluster.Host) {
			return &together[t.askers[j]].request, h.rec
		}, t.prices[:0])
		for j, k := range t.askers {
			if s := together[k].slot(t.prices[j], h.rec, i); s < together[k].end {
				t.found[k] = append(t.found[k], s)
			}
		}
	}
	last := t.hosts.last
	for k, r := range together {
		kept := r.head[:0]
		for _, s := range r.head {
			if last[s.index()] < from {
				kept = append(kept, s)
			}
		}
		t.found[k] = t.sorted(t.found[k])
		r.head = merge(kept, t.found[k])
	}
}

const (
	digit    = 11 // bits of a price that one pass of the radix sort looks at
	fewSlots = 64 // below it a sort by comparisons is faster
)

// sorted returns slots that come in the order of their hosts in the order of their prices, and may keep the slice that it
// was given. Complexity: linear, unless prices differ by 2^22 or more.
func (t *rows) sorted(found []slot) []slot {
	if len(found) < fewSlots {
		slices.Sort(found)
		return found
	}
	least, most := found[0].price(), found[0].price()
	for _, s := range found[1:] {
		least, most = min(least, s.price()), max(most, s.price())
	}
	if most-least >= 1<<(2*digit) {
		slices.Sort(found)
		return found
	}
	if t.counts == nil {
		t.counts = make([]int32, 1<<digit)
	}
	from, to := found, slices.Grow(t.spare[:0], len(found))[:len(found)]
	for shift := 0; (most-least)>>shift > 0; shift += digit {
		clear(t.counts)
		for _, s := range from {
			t.counts[int(s.price()-least)>>shift&(1<<digit-1)]++
		}
		sum := int32(0)
		for d, n := range t.counts {
			t.counts[d] = sum
			sum += n
		}
		for _, s := range from {
			d := int(s.price()-least) >> shift & (1<<digit - 1)
			to[t.counts[d]] = s
			t.counts[d]++
		}
		from, to = to, from
	}
	t.spare = to
	return from
}

// merge inserts sorted slots into sorted slots.
func merge(into, found []slot) []slot {
	i, j := len(into)-1, len(found)-1
	into = append(into, found...)
	for k := len(into) - 1; j >= 0; k-- {
		if i >= 0 && into[i] > found[j] {
			into[k] = into[i]
			i--
		} else {
			into[k] = found[j]
			j--
		}
	}
	return into
}

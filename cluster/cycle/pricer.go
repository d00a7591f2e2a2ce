package cycle

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// pricer is what one goroutine prices rows with.
type pricer struct {
	model *guard.Guard
	round costmodels.Round

	hosts   []*host // the next ones
	fetched int64   // see readAhead

	block []*row // the rows that are being priced, or nil; what follows is about it

	requests []*costmodels.Request // of the rows that were priced last
	listed   uint64                // which rows those are
	priced   [contentsKept]priced
	oldest   int // index in priced

	needs  []cluster.Need                // by index of the row
	least  [cluster.NumDimensions]ladder // what the rows need
	hungry []int32                       // rows by what they need, while a ladder is made
	found  [][]slot                      // by row
	all    []slot                        // of one row
	spare  []slot
	counts []int32
}

// priced is what starts cost on a host, and on all hosts that are the same to the model.
type priced struct {
	content int // −1 for none
	alike   signature
	rows    uint64           // the rows that it is open to: bit k is the row of index k
	prices  []flowgraph.Cost // for each of these rows
}

// need returns the room that a start takes, in the dimensions that are listed for each host.
func (r *row) need() cluster.Need {
	if r.key.revocable {
		return cluster.NeedOf(&[cluster.NumDimensions]int64{})
	}
	return cluster.NeedOf(&r.key.fixed)
}

// ladder answers which rows of a block need no more than a given amount of one dimension.
type ladder struct {
	steps []int64  // what the rows need, least first; empty before somebody asks
	rows  []uint64 // at k the rows of the first k steps, as bits
	top   int64    // the last step
}

// enough returns the rows that need no more than room.
func (l *ladder) enough(room int64) uint64 {
	n, _ := slices.BinarySearch(l.steps, room+1)
	return l.rows[n]
}

// renew brings rows in line with the hosts that changed.
func (w *pricer) renew(t *hosts, together []*row, c *changed) {
	w.block = nil
	for some := range slices.Chunk(together, block) {
		for len(w.found) < len(some) {
			w.found = append(w.found, nil)
		}
		w.find(t, some, c.hosts, w.found)
		for k, r := range some {
			w.bring(r, &w.found[k], c)
		}
	}
}

// find lists, for each row of at most a block, the slots of those hosts that are open and belong to its head.
// It goes from host to host, not from row to row: what a host is made of lies all over the memory.
func (w *pricer) find(t *hosts, together []*row, hosts []int32, found [][]slot) {
	w.begin(together)
	for k := range together {
		found[k] = found[k][:0]
	}
	var everywhere, somewhere uint64
	batches := w.model.Batches()
	byRoom := batches
	for k, r := range together {
		byRoom = byRoom && r.byRoom()
		if r.everywhere() {
			everywhere |= 1 << k
		} else {
			somewhere |= 1 << k
		}
	}
	var sure, maybe uint64
	alike := signature(-1)
	for some := range slices.Chunk(hosts, ahead) {
		w.hosts = w.hosts[:0]
		for _, i := range some {
			if h := t.byIndex[i]; h != nil {
				w.hosts = append(w.hosts, h)
			}
		}
		w.fetched = readAhead(w.hosts)
		for _, h := range w.hosts {
			x := w.opened(h, byRoom)
			if x == nil {
				if h.alike != alike {
					alike = h.alike
					sure, maybe = decided(together, somewhere, h)
					sure |= everywhere
				}
				rows := w.open(together, sure, maybe, h, &t.fits[h.index])
				if rows == 0 {
					continue
				}
				if x = w.known(h, rows, batches); x == nil {
					x = w.ask(together, rows, h)
				}
			}
			for rest, j := x.rows, 0; rest != 0; rest, j = rest&(rest-1), j+1 {
				k := bits.TrailingZeros64(rest)
				if s := together[k].slot(x.prices[j], h.rec, h.index); s < together[k].end {
					found[k] = append(found[k], s)
				}
			}
		}
	}
}

// bring brings a row in line with what was found, which comes in the order of the hosts, and leaves it
// sorted.
func (w *pricer) bring(r *row, found *[]slot, c *changed) {
	if c.all {
		r.list(w, found)
		return
	}
	*found = w.sorted(*found)
	w.merge(r, *found, c)
	r.shorten()
}

// begin makes the pricer ready for the rows, unless it is.
func (w *pricer) begin(together []*row) {
	if len(w.block) == len(together) && &w.block[0] == &together[0] {
		return
	}
	w.block, w.listed, w.requests = together, 0, w.requests[:0]
	for i := range w.priced {
		w.priced[i].content = -1
	}
	w.needs = w.needs[:0]
	for _, r := range together {
		w.needs = append(w.needs, r.need())
	}
	for d := range w.least {
		l := &w.least[d]
		l.steps, l.top = l.steps[:0], math.MinInt64
		for k := range w.needs {
			l.top = max(l.top, w.needs[k][d])
		}
	}
}

// climb makes the ladder of a dimension.
func (w *pricer) climb(d int) {
	l := &w.least[d]
	w.hungry, l.rows = w.hungry[:0], append(l.rows[:0], 0)
	for k := range w.needs {
		w.hungry = append(w.hungry, int32(k))
	}
	slices.SortFunc(w.hungry, func(a, b int32) int { return cmp.Compare(w.needs[a][d], w.needs[b][d]) })
	for i, k := range w.hungry {
		l.steps, l.rows = append(l.steps, w.needs[k][d]), append(l.rows, l.rows[i]|1<<k)
	}
}

// decided tells for rows, on hosts like this one: sure are those for which room in the fixed dimensions is
// all that it takes, maybe those that depend on more. Bit k is the row of index k.
func decided(together []*row, which uint64, h *host) (sure, maybe uint64) {
	for ; which != 0; which &= which - 1 {
		k := bits.TrailingZeros64(which)
		switch known := together[k].likeness(h.alike); {
		case !together[k].plain:
			maybe |= 1 << k
		case *known == likeness{verdict: open}:
			sure |= 1 << k
		}
	}
	return sure, maybe
}

// open returns which of the sure and maybe rows, see decided, the host is open to.
func (w *pricer) open(together []*row, sure, maybe uint64, h *host, room *[cluster.NumDimensions]int64) uint64 {
	fits := sure | maybe
	for d := range w.least {
		l := &w.least[d]
		if l.top <= room[d] {
			continue
		}
		if len(l.steps) == 0 {
			w.climb(d)
		}
		fits &= l.enough(room[d])
	}
	for rest := fits & maybe; rest != 0; rest &= rest - 1 {
		if k := bits.TrailingZeros64(rest); together[k].judge(h) != open {
			fits &^= 1 << k
		}
	}
	return fits
}

// opened returns what is known of a host that is open to the same rows and the same to the model, or nil. It
// looks only if room decides for all rows.
func (w *pricer) opened(h *host, byRoom bool) *priced {
	for i := range w.priced {
		if x := &w.priced[i]; byRoom && x.content == h.content && x.alike == h.alike {
			return x
		}
	}
	return nil
}

// known returns what is known of a host that is open to those rows and the same to the model as this one, or
// nil. It looks only if the model batches.
func (w *pricer) known(h *host, rows uint64, batches bool) *priced {
	for i := range w.priced {
		if x := &w.priced[i]; batches && x.content == h.content && x.rows == rows {
			return x
		}
	}
	return nil
}

// ask prices the requests of the rows on the host.
func (w *pricer) ask(together []*row, rows uint64, h *host) *priced {
	if w.listed != rows {
		w.listed, w.requests = rows, w.requests[:0]
		for rest := rows; rest != 0; rest &= rest - 1 {
			w.requests = append(w.requests, &together[bits.TrailingZeros64(rest)].request)
		}
	}
	x := &w.priced[w.oldest]
	w.oldest = (w.oldest + 1) % contentsKept
	x.content, x.alike, x.rows = h.content, h.alike, rows
	x.prices = slices.Grow(x.prices[:0], len(w.requests))[:len(w.requests)]
	w.model.Starts(&w.round, w.requests, h.rec, x.prices)
	return x
}

// merge replaces the changed hosts in the head of the row by the slots that were found, which are sorted.
func (w *pricer) merge(r *row, found []slot, c *changed) {
	kept := r.head[:0]
	for _, s := range r.head {
		if !c.set.has(s.index()) {
			kept = append(kept, s)
		}
	}
	i, j := len(kept)-1, len(found)-1
	r.head = append(kept, found...)
	for k := len(r.head) - 1; j >= 0; k-- {
		if i >= 0 && kept[i] > found[j] {
			r.head[k] = kept[i]
			i--
		} else {
			r.head[k] = found[j]
			j--
		}
	}
}

const (
	digit    = 11 // bits of a price that one pass of the radix sort looks at
	fewSlots = 64 // below it a sort by comparisons is faster
)

// sorted returns slots by price, given in the order of their hosts. It may keep the slice that it was given.
// Complexity: linear, unless prices differ by 2^22 or more.
func (w *pricer) sorted(found []slot) []slot {
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
	if w.counts == nil {
		w.counts = make([]int32, 1<<digit)
	}
	counts := w.counts[:min(most-least, 1<<digit-1)+1]
	from, to := found, slices.Grow(w.spare[:0], len(found))[:len(found)]
	for shift := 0; (most-least)>>shift > 0; shift += digit {
		clear(counts)
		for _, s := range from {
			counts[int(s.price()-least)>>shift&(1<<digit-1)]++
		}
		sum := int32(0)
		for d, n := range counts {
			counts[d] = sum
			sum += n
		}
		for _, s := range from {
			d := int(s.price()-least) >> shift & (1<<digit - 1)
			to[counts[d]] = s
			counts[d]++
		}
		from, to = to, from
	}
	w.spare = to
	return from
}

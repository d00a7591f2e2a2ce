package cycle

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// block is how many rows are priced together on a host.
	block = 64
	// span is the number of hosts on which a goroutine prices a block before it looks what is next.
	span = 256
	// ruled is how many rows with rules of their own a goroutine brings in line before it looks what is next.
	ruled = 16
	// part is how many prices are worth another goroutine.
	part = 1 << 13
	// most is how many rows are brought in line at once, and expected how many before anybody asks for them.
	most, expected = 8 * block, 2 * block
)

// renewal brings rows in line with the hosts that changed. Any number of goroutines work on it. What comes
// out depends neither on how many do, nor on who does what.
type renewal struct {
	table   *rows
	rows    []*row // those that go by room first: several goroutines may price those at once, each on other hosts
	byRoom  int
	changed *changed

	spans     int      // parts of each block of rows that go by room
	parts     int      // what one goroutine prices: a block on a span of hosts, or rows with rules on all
	found     [][]slot // by part, then by row of the part: those of changed hosts that are open
	prepared  sync.Once
	part, row atomic.Int32   // that are next
	priced    sync.WaitGroup // parts
	helpers   []*pricer
	others    sync.WaitGroup // goroutines of these
}

// begin starts to bring rows in line, beside what else is done until finish. Until then the rows, and what is
// known of the hosts, must be left alone.
func (t *rows) begin(together []*row, c *changed) *renewal {
	n := &renewal{table: t, changed: c, rows: make([]*row, 0, len(together)), spans: (len(c.hosts) + span - 1) / span}
	for _, r := range together {
		if r.byRoom() {
			n.rows = append(n.rows, r)
		}
	}
	n.byRoom = len(n.rows)
	for _, r := range together {
		if !r.byRoom() {
			n.rows = append(n.rows, r)
		}
	}
	n.parts = n.firstRuled() + (len(n.rows)-n.byRoom+ruled-1)/ruled
	for len(t.found) < n.parts*block {
		t.found = append(t.found, nil)
	}
	n.found = t.found
	n.priced.Add(n.parts)
	t.pricers[0].round = *t.round
	n.helpers = t.helpers(min(runtime.GOMAXPROCS(0), runtime.NumCPU(), n.parts) - 1)
	for _, w := range n.helpers {
		n.others.Go(func() { n.work(w) })
	}
	return n
}

// helpers returns pricers for n more goroutines; fewer if the model does not allow it.
func (t *rows) helpers(n int) []*pricer {
	for len(t.pricers) <= n {
		fork := t.model.Fork()
		if fork == nil {
			break
		}
		t.pricers = append(t.pricers, &pricer{model: fork})
	}
	all := t.pricers[1:min(1+n, len(t.pricers))]
	for _, w := range all {
		w.round = *t.round
	}
	return all
}

// finish takes part in what is left, and waits until all is done.
func (n *renewal) finish() {
	n.work(n.table.pricers[0])
	n.others.Wait()
	for _, w := range n.helpers {
		n.table.model.Join(w.model)
	}
}

// work does what nobody else does, until nothing is left. First come the parts. When all are priced, it
// brings the rows in line with what was found, row by row.
func (n *renewal) work(w *pricer) {
	n.prepared.Do(n.prepare)
	w.block = nil
	for i := int(n.part.Add(1)) - 1; i < n.parts; i = int(n.part.Add(1)) - 1 {
		rows, hosts := n.of(i)
		w.find(n.table.hosts, rows, hosts, n.found[i*block:])
		n.priced.Done()
	}
	n.priced.Wait()
	for i := int(n.row.Add(1)) - 1; i < len(n.rows); i = int(n.row.Add(1)) - 1 {
		w.bring(n.rows[i], n.gather(w, i), n.changed)
	}
}

// prepare works out what several goroutines would else work out each: what holds for all hosts of a
// signature, and what revocable tasks see of a host.
func (n *renewal) prepare() {
	var some []*row // for which it depends on the machine whether it is open
	for _, r := range n.rows[:n.byRoom] {
		if !r.everywhere() {
			some = append(some, r)
		}
	}
	revocable := slices.ContainsFunc(n.rows[n.byRoom:], func(r *row) bool { return r.key.revocable })
	if len(some) == 0 && !revocable {
		return
	}
	alike := signature(-1)
	for _, i := range n.changed.hosts {
		h := n.table.hosts.byIndex[i]
		if h == nil {
			continue
		}
		if h.alike != alike {
			alike = h.alike
			for _, r := range some {
				r.likeness(h.alike)
			}
		}
		if revocable {
			h.lend()
		}
	}
}

// firstRuled is the first part of rows with rules.
func (n *renewal) firstRuled() int { return (n.byRoom + block - 1) / block * n.spans }

// of returns the rows and hosts of a part.
func (n *renewal) of(i int) (rows []*row, hosts []int32) {
	hosts = n.changed.hosts
	if first := n.firstRuled(); i >= first {
		from := n.byRoom + (i-first)*ruled
		return n.rows[from:min(from+ruled, len(n.rows))], hosts
	}
	row, host := i/n.spans*block, i%n.spans*span
	return n.rows[row:min(row+block, n.byRoom)], hosts[host:min(host+span, len(hosts))]
}

// gather returns all that was found for a row, in the order of the hosts.
func (n *renewal) gather(w *pricer, i int) *[]slot {
	if i >= n.byRoom {
		i -= n.byRoom
		return &n.found[(n.firstRuled()+i/ruled)*block+i%ruled]
	}
	w.all = w.all[:0]
	for k := range n.spans {
		w.all = append(w.all, n.found[(i/block*n.spans+k)*block+i%block]...)
	}
	return &w.all
}

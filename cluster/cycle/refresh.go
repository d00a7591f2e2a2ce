package cycle

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// changed is the hosts that changed between two positions of their log, each once, by index. The rows of a cycle were
// mostly last read at the same position, and share it.
type changed struct {
	from, to int
	hosts    []int32
	bits     []uint64 // the same as a set
}

func (c *changed) has(i int32) bool { return c.bits[i/64]>>(i%64)&1 != 0 }

// changes returns the hosts that changed since the position, which the log still holds.
func (t *rows) changes(from int) *changed {
	c, to := &t.recent, t.hosts.position()
	if c.from == from && c.to == to && len(c.bits) > 0 {
		return c
	}
	c.from, c.to, c.hosts = from, to, c.hosts[:0]
	words := len(t.hosts.byIndex)/64 + 1
	c.bits = slices.Grow(c.bits[:0], words)[:words]
	clear(c.bits)
	for at, i := range t.hosts.log[from-t.hosts.start:] {
		if t.hosts.last[i] == from+at { // else it changed again later
			c.hosts = append(c.hosts, i)
			c.bits[i/64] |= 1 << (i % 64)
		}
	}
	slices.Sort(c.hosts)
	return c
}

const (
	// block is how many rows are brought in line together.
	block = 64
	// part is how many prices are worth another goroutine.
	part = 1 << 13
)

// refresh brings a row in line with the hosts. Complexity: the changes of hosts since the last refresh, and the length of
// the head; all hosts for a new row or one that was not refreshed for long.
func (t *rows) refresh(r *row) {
	from := r.read
	if from == t.hosts.position() {
		return
	}
	r.read = t.hosts.position()
	t.single = append(t.single[:0], r)
	t.renew(t.single, from)
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
		if r.read != from {
			t.renew(together, from)
			together, from = together[:0], r.read
		}
		r.read = to
		together = append(together, r)
	}
	t.renew(together, from)
	t.together, t.old = together, old
}

// renew brings rows that were last read at the position in line.
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
	c := t.changes(from)
	if pricers := t.divide(together, c); len(pricers) > 1 {
		t.share(pricers, together, c)
	} else {
		pricers[0].renew(t.hosts, together, c)
	}
}

// share lets each pricer bring a part of the rows in line.
func (t *rows) share(pricers []*pricer, together []*row, c *changed) {
	each := (len(together) + len(pricers) - 1) / len(pricers)
	var others sync.WaitGroup
	for i, w := range pricers[1:] {
		others.Go(func() { w.renew(t.hosts, together[min((i+1)*each, len(together)):min((i+2)*each, len(together))], c) })
	}
	pricers[0].renew(t.hosts, together[:each], c)
	others.Wait()
	for _, w := range pricers[1:] {
		t.model.Join(w.model)
	}
}

// divide returns who brings the rows in line. Where there is much to do and the model allows it, several goroutines take
// some of the rows each, so that none reads what another one writes.
func (t *rows) divide(together []*row, c *changed) []*pricer {
	n := min(runtime.GOMAXPROCS(0), len(together), 1+len(together)*len(c.hosts)/part)
	for len(t.pricers) < n {
		fork := t.model.Fork()
		if fork == nil {
			break
		}
		t.pricers = append(t.pricers, &pricer{model: fork})
	}
	n = min(n, len(t.pricers))
	for _, w := range t.pricers[:n] {
		w.round = *t.round
	}
	if n > 1 && slices.ContainsFunc(together, func(r *row) bool { return r.key.revocable }) {
		for _, i := range c.hosts { // what revocable tasks see of a host is worked out when it is first asked for
			if h := t.hosts.byIndex[i]; h != nil {
				h.lend()
			}
		}
	}
	return t.pricers[:n]
}

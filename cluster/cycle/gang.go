package cycle

import (
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// share is a number of tasks of one class for a host.
type share struct {
	host  *host
	n     int64
	may   int64 // as many may start now
	price flowgraph.Cost
}

// whole returns where all that is left of a gang fits together; nil if it does not fit. It takes the hosts of
// the flow first, as far as they have room, and then those that are cheapest for the gang. The tasks of a
// gang are alike. So the gang fits if and only if the hosts take enough tasks one by one. Rules that count
// the gang's own tasks are held at each step.
func (p *Planner) whole(c *class, flow []share) []share {
	if slices.ContainsFunc(p.cores[c.group.key.job].all(), (*unit).leaves) {
		return nil // they come with those that are still leaving
	}
	g := p.gather(c)
	defer g.end()
	for _, s := range flow {
		g.take(s.host, s.n, s.price)
	}
	if g.need == 0 {
		return g.shares
	}
	for before := int64(0); g.need != before; { // again where places open as others fill
		before = g.need
		p.rows.refresh(c.row)
		offers := p.cheapest(c)
		if g.counts {
			offers = collect(offers) // what is taken changes the row
		}
		for h, price := range offers {
			if g.take(h, g.need, price); g.need == 0 {
				return g.shares
			}
		}
		if !c.row.rule.balances() {
			break
		}
	}
	return nil
}

// together reports whether the waiting tasks of the class are placed all at once or not at all. That is so
// for the core of a gang, and for tasks that may only be where others like them are, if none is there.
func (c *class) together() bool { return c.group.key.gang || c.row.rule.unbegun() }

// apart reports whether a rule lets only so many of the class be in one domain.
func (c *class) apart() bool {
	return slices.ContainsFunc(c.row.leaves(), func(x *leaf) bool {
		return x.hard && x.self && (x.compare != cluster.Greater || x.balance != nil)
	})
}

// maySettle reports whether rules let n tasks of the class be on the host; if that is nil, on one that comes.
func (c *class) maySettle(h *host, n int64) bool {
	if h != nil {
		return c.row.rule.room(h.rec, n, false) >= n
	}
	return !slices.ContainsFunc(c.row.leaves(), func(x *leaf) bool {
		return x.hard && x.self && n > 1 && (x.balance != nil || x.compare == cluster.Equal || x.compare == cluster.Less && x.number < n)
	})
}

// evens reports whether the tasks of the class come together and a rule bounds how much more one domain has
// than another. Then each place that one of them gets counts for the next, since they come one after the
// other in one step.
func (c *class) evens() bool { return c.group.key.gang && c.row.rule.balances() }

// oneEach reports whether tasks of the class keep each other from their hosts: by a rule as in apart, or
// because they ask for the same ports.
func (c *class) oneEach() bool { return c.apart() || len(c.row.task.Ports.Numbers) > 0 }

// placesAtOnce returns for how many of the tasks that are placed together there is room at once. The host out
// counts for none. Complexity: hosts.
func (p *Planner) placesAtOnce(c *class, out *host) (most int64) {
	for hosts := range p.starts(c) {
		most = max(most, p.placesOn(c, hosts, out))
	}
	return most
}

func (p *Planner) placesOn(c *class, hosts []*host, out *host) int64 {
	g := p.gather(c)
	defer g.end()
	g.need = c.waiting()
	for before := int64(0); g.need > 0 && g.need != before; { // again where places open as others fill
		before = g.need
		for _, h := range hosts {
			if h != out && c.row.judge(h) == open {
				if g.take(h, g.need, 0); g.need == 0 {
					break
				}
			}
		}
		if !c.row.rule.balances() {
			break
		}
	}
	return c.waiting() - g.need
}

// collect reads a sequence to its end, and returns it.
func collect(offers iter.Seq2[*host, flowgraph.Cost]) iter.Seq2[*host, flowgraph.Cost] {
	var all []share
	for h, price := range offers {
		all = append(all, share{host: h, price: price})
	}
	return func(yield func(*host, flowgraph.Cost) bool) {
		for _, s := range all {
			if !yield(s.host, s.price) {
				return
			}
		}
	}
}

// gathering collects places for all that is left of a class.
type gathering struct {
	p      *Planner
	class  *class
	counts bool // the class's rules count its own tasks
	mark   int  // of the planned counts
	taken  map[*host]int64
	shares []share
	need   int64
}

func (p *Planner) gather(c *class) *gathering {
	counts := c.row.rule != nil && c.row.rule.growing
	return &gathering{p: p, class: c, counts: counts, mark: len(p.labels.plan), taken: map[*host]int64{}, need: c.open()}
}

// take takes as many places on the host as are needed and there, at most limit.
func (g *gathering) take(h *host, limit int64, price flowgraph.Cost) {
	already := g.taken[h]
	n := g.class.row.task.CountOn(g.class.row.lend(h), already+min(limit, g.need)) - already
	if n <= 0 {
		return
	}
	n = g.p.below(g.class, h, g.class.open()-g.need, g.class.row.rule.room(h.rec, n, false))
	if n <= 0 {
		return
	}
	if g.counts {
		head, _ := g.class.queue.Min() // where rules count their own, all of a class are labeled alike
		g.p.labels.planned(head.set, h, comes.times(n))
	}
	g.shares = append(g.shares, share{host: h, n: n, price: price})
	g.taken[h] += n
	g.need -= n
}

// end forgets what was counted meanwhile.
func (g *gathering) end() { g.p.labels.takeBack(g.mark) }

// placeTogether places all that is left of the class where find says. If only the price keeps tasks from a
// place, they rather wait.
func (p *Planner) placeTogether(out *Output, c *class, find func(*class) []share) {
	if shares := find(c); shares != nil {
		p.placeShares(out, c, shares)
		return
	}
	if p.rows.refresh(c.row); !c.shuns() {
		return
	}
	price := c.price
	if c.price = nowhere; find(c) != nil {
		p.wake(c)
	}
	c.price = price
}

// shuns reports whether there is an open host that costs more than to wait, unless data is near. The row must
// be fresh.
func (c *class) shuns() bool {
	for _, s := range c.row.from(0) {
		if s.price()+c.local.elsewhere >= c.price {
			return true
		}
	}
	return false
}

func (p *Planner) placeShares(out *Output, c *class, shares []share) {
	for _, s := range shares {
		p.place(out, c, s.host, s.n, s.price)
	}
}

package cycle

import (
	"cmp"
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// begin returns where all that waits of a class fits together that may only be where others like it are, while there are
// none: in the domain where that is cheapest, nil if it fits in none. Complexity: hosts.
func (p *Planner) begin(c *class) (best []share) {
	var cost flowgraph.Cost
	for hosts := range p.starts(c) {
		if shares, price := p.beginIn(c, hosts); shares != nil && (best == nil || price < cost) {
			best, cost = shares, price
		}
	}
	return best
}

// starts yields the hosts of each domain in which the first tasks of the class may be, while its rule lets them go there;
// all hosts at once if it does not wait for first ones.
func (p *Planner) starts(c *class) iter.Seq[[]*host] {
	return func(yield func([]*host) bool) {
		var first []*tally
		for _, x := range c.row.leaves() {
			if x.unbegun() {
				first = append(first, x.tally)
			}
		}
		for _, hosts := range p.hosts.divide(first) {
			for _, t := range first {
				t.seed, _ = hosts[0].rec.Domain(t.domain)
			}
			if !yield(hosts) {
				break
			}
		}
		for _, t := range first {
			t.seed = ""
		}
	}
}

// beginIn returns where all that waits of the class fits on the hosts, and what that costs; nil if it does not.
func (p *Planner) beginIn(c *class, hosts []*host) ([]share, flowgraph.Cost) {
	var offers []share
	for _, h := range hosts {
		if price, ok := c.accepts(h.index); ok {
			offers = append(offers, share{host: h, price: price})
		}
	}
	slices.SortStableFunc(offers, func(a, b share) int { return cmp.Compare(a.price, b.price) })
	g := p.gather(c)
	defer g.end()
	var cost flowgraph.Cost
	for _, o := range offers {
		before := g.need
		g.take(o.host, g.need, o.price)
		if cost += o.price * flowgraph.Cost(before-g.need); g.need == 0 {
			return g.shares, cost
		}
	}
	return nil, 0
}

// divide groups the hosts by their domains of the tallies, in the order of the first of each. Hosts that lack one of these
// are left out.
func (t *hosts) divide(by []*tally) [][]*host {
	index := map[string]int{}
	var groups [][]*host
next:
	for _, h := range t.byIndex {
		if h == nil {
			continue
		}
		key := ""
		for _, x := range by {
			value, ok := h.rec.Domain(x.domain)
			if !ok {
				continue next
			}
			key += value + "\x00"
		}
		at, there := index[key]
		if !there {
			at = len(groups)
			index[key] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], h)
	}
	return groups
}

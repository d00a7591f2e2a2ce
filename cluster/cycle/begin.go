package cycle

import (
	"cmp"
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// begin returns where all that waits of a class fits together, in the domain where that is cheapest; nil if
// it fits in none. The tasks may only be where others like them are, and there are none yet. Complexity:
// hosts.
func (p *Planner) begin(c *class) (best []share) {
	var cost flowgraph.Cost
	for hosts := range p.starts(c) {
		if shares, price := p.beginIn(c, hosts); shares != nil && (best == nil || price < cost) {
			best, cost = shares, price
		}
	}
	return best
}

// maxDomains is in how many domains room is sought for the first tasks of a class, at most.
const maxDomains = 4

// inCheapest calls do with the hosts of a domain in which the first tasks of a class may be, until do has
// found places for count of them. It begins with the domain where they seem to cost least. cost returns what
// one task costs on a host, and how many that takes. If the class does not wait for first ones, do is called
// once, with nil for all hosts. Complexity: hosts.
func (p *Planner) inCheapest(c *class, count int64, cost func(*host) (flowgraph.Cost, int64), do func(hosts []*host) bool) {
	if !c.row.rule.unbegun() {
		do(nil)
		return
	}
	type domain struct {
		hosts []*host
		price flowgraph.Cost
	}
	var domains []domain
	for hosts := range p.starts(c) {
		var offers []share
		for _, h := range hosts {
			if price, n := cost(h); n > 0 {
				offers = append(offers, share{n: n, price: price})
			}
		}
		slices.SortStableFunc(offers, func(a, b share) int { return cmp.Compare(a.price, b.price) })
		all, need := domain{hosts: hosts}, count
		for _, o := range offers {
			n := min(o.n, need)
			all.price, need = all.price+o.price*flowgraph.Cost(n), need-n
		}
		if need == 0 {
			domains = append(domains, all)
		}
	}
	slices.SortStableFunc(domains, func(a, b domain) int { return cmp.Compare(a.price, b.price) })
	for _, x := range domains[:min(len(domains), maxDomains)] {
		if startIn(c.row.firsts(), x.hosts, do) {
			return
		}
	}
}

// firsts returns the tallies of those tasks of which the rules wait for a first one.
func (r *row) firsts() (all []*tally) {
	for _, x := range r.leaves() {
		if x.hard && x.unbegun() {
			all = append(all, x.tally)
		}
	}
	return all
}

// starts yields the hosts of each domain in which the first tasks of the class may be, while its rule lets
// them go there. If the class does not wait for first ones, it yields all hosts at once.
func (p *Planner) starts(c *class) iter.Seq[[]*host] {
	return func(yield func([]*host) bool) {
		first := c.row.firsts()
		for _, hosts := range p.hosts.divide(first) {
			if !startIn(first, hosts, yield) {
				break
			}
		}
	}
}

// startIn calls do with the hosts of one domain, while rules let the first ones go there.
func startIn(first []*tally, hosts []*host, do func([]*host) bool) bool {
	for _, t := range first {
		t.seed, _ = hosts[0].rec.Domain(t.domain)
	}
	done := do(hosts)
	for _, t := range first {
		t.seed = ""
	}
	return done
}

// beginIn returns where on the hosts all that waits of the class fits, and what that costs; nil if it does
// not fit.
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

// divide groups the hosts by their domains of the tallies, in the order of the first host of each group.
// Hosts without one of these domains are left out.
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

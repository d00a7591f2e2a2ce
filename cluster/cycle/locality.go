package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// locality is what reading its inputs costs a class, by host.
type locality struct {
	elsewhere flowgraph.Cost
	near      map[int32]flowgraph.Cost // hosts where it costs something else
	order     []slot                   // the same, cheapest first
	version   int                      // of hosts, when this was resolved
}

// extra returns the price of reading the inputs on the host.
func (l *locality) extra(i int32) flowgraph.Cost {
	if len(l.near) > 0 {
		if price, ok := l.near[i]; ok {
			return price
		}
	}
	return l.elsewhere
}

// isNear reports whether the host has a price of its own.
func (l *locality) isNear(i int32) bool {
	if len(l.near) == 0 {
		return false
	}
	_, ok := l.near[i]
	return ok
}

// localize asks the model, if it cares, what the class's inputs and images cost, and resolves racks into their hosts. It does so
// once, and again when hosts came, went or changed rack, or more may be known of where images are.
func (p *Planner) localize(c *class) {
	if len(c.seen.Inputs)+len(c.seen.Images) == 0 || c.local.version == p.hosts.version {
		return
	}
	c.local = p.resolve(&c.seen)
	for l := range c.links.all() {
		p.graph.touch(l.host)
	}
}

// resolve asks the model what the inputs of the class cost.
func (p *Planner) resolve(seen *costmodels.Class) locality {
	prices := p.model.Locality(&p.round, seen)
	l := locality{elsewhere: clamp(prices.Elsewhere), near: map[int32]flowgraph.Cost{}, version: p.hosts.version}
	for _, r := range prices.Racks {
		for _, i := range p.hosts.inRack[r.Rack] {
			l.near[i] = clamp(r.Price)
		}
	}
	for _, h := range prices.Hosts {
		if host := p.hosts.byID[h.Host]; host != nil {
			l.near[host.index] = clamp(h.Price)
		}
	}
	for i, price := range l.near { // sorted below
		l.order = append(l.order, makeSlot(price, i))
	}
	slices.Sort(l.order)
	return l
}

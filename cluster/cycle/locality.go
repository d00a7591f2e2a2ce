package cycle

import (
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// locality is what reading its inputs costs a class, by place. A rack stands for all its hosts but those with
// a price of their own.
type locality struct {
	all       *hosts
	elsewhere flowgraph.Cost
	hosts     places // by index
	racks     places // by number
	version   int    // of hosts, when this was resolved
}

// places is prices of some hosts or racks.
type places struct {
	order []slot   // cheapest first
	byKey []uint64 // the same, key before price
}

// add has the place cost that much; sort is to be called when all are there.
func (q *places) add(key int32, price flowgraph.Cost) {
	q.byKey = append(q.byKey, uint64(key)<<32|uint64(price))
}

func (q *places) sort() {
	slices.Sort(q.byKey)
	q.byKey = slices.CompactFunc(q.byKey, func(a, b uint64) bool { return a>>32 == b>>32 })
	for _, x := range q.byKey {
		q.order = append(q.order, makeSlot(flowgraph.Cost(uint32(x)), int32(x>>32)))
	}
	slices.Sort(q.order)
}

func (q *places) len() int { return len(q.byKey) }

// price returns what the place costs, false if it has no price of its own. Complexity: the logarithm of the places.
func (q *places) price(key int32) (flowgraph.Cost, bool) {
	i, _ := slices.BinarySearch(q.byKey, uint64(key)<<32)
	if i == len(q.byKey) || int32(q.byKey[i]>>32) != key {
		return 0, false
	}
	return flowgraph.Cost(uint32(q.byKey[i])), true
}

// nowhere reports whether all places cost the same.
func (l *locality) nowhere() bool { return l.hosts.len()+l.racks.len() == 0 }

// at returns the price of reading the inputs on the host, and whether the host or its rack has a price of its
// own.
func (l *locality) at(i int32) (price flowgraph.Cost, near bool) {
	if l.nowhere() {
		return l.elsewhere, false
	}
	if price, near = l.hosts.price(i); near {
		return price, true
	}
	if price, near = l.racks.price(l.all.rackOf[i]); near {
		return price, true
	}
	return l.elsewhere, false
}

// extra returns the price of reading the inputs on the host.
func (l *locality) extra(i int32) flowgraph.Cost {
	price, _ := l.at(i)
	return price
}

// isNear reports whether the host has a price of its own, or its rack has.
func (l *locality) isNear(i int32) bool {
	_, near := l.at(i)
	return near
}

// near yields the indices of the hosts that have a price of their own, or whose rack has, and that price.
// First come those with their own price, cheapest first, then the others, as long as prices are below the
// end.
func (l *locality) near(end flowgraph.Cost) iter.Seq2[int32, flowgraph.Cost] {
	return func(yield func(int32, flowgraph.Cost) bool) {
		for _, x := range l.hosts.order {
			if x.price() >= end {
				break
			}
			if !yield(x.index(), x.price()) {
				return
			}
		}
		for _, x := range l.racks.order {
			if x.price() >= end {
				break
			}
			for _, i := range l.all.byRack[x.index()].hosts {
				if _, own := l.hosts.price(i); !own && !yield(i, x.price()) {
					return
				}
			}
		}
	}
}

// localize asks the model what the class's inputs and images cost, if there are any. It does so once, and
// again when hosts came, went or changed rack, or more may be known of where images are.
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
	l := locality{all: p.hosts, elsewhere: clamp(prices.Elsewhere), version: p.hosts.version}
	for _, r := range prices.Racks {
		if k, ok := p.hosts.racks[r.Rack]; ok {
			l.racks.add(k, clamp(r.Price))
		}
	}
	for _, h := range prices.Hosts {
		if host := p.hosts.byID[h.Host]; host != nil {
			l.hosts.add(host.index, clamp(h.Price))
		}
	}
	l.racks.sort()
	l.hosts.sort()
	return l
}

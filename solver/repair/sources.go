package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
)

// compare moves flow of a source from what has become too dear to what it could have. It withdraws what the
// source holds beyond its supply, dearest first, and renews what is cached of it.
func (s *Solver) compare(v int32) {
	p := &s.payers[v]
	p.listed = false
	if s.kinds[v] != isSource {
		return
	}
	holds := p.count > 0
	for p.count > 0 {
		dearest, most, cheapest, least := s.bound(v)
		if s.excess[v] < 0 {
			s.force(dearest, -min(s.load(dearest), -s.excess[v]))
		} else if most > least {
			s.exchange(v, dearest, cheapest)
		} else {
			break
		}
	}
	for _, b := range s.hubs {
		if holds || b.double {
			b.renew(s, v)
		}
	}
}

// askForValues asks for what compare needs of nodes.
func (s *Solver) askForValues(nodes []int32) {
	flowgraph.AskForNodes(s.net, nodes, &nodes[0])
	prefetch.Each(s.payers, nodes, &nodes[0])
	prefetch.Each(s.excess, nodes, &nodes[0])
	for _, v := range nodes {
		if s.kinds[v] == isSource && s.payers[v].count > 0 {
			s.askForOut(v)
		}
	}
	for _, v := range nodes {
		if p := &s.payers[v]; s.kinds[v] == isSource && p.count > 0 {
			if out := s.net.Out(flowgraph.NodeID(v)); len(out) > 0 {
				prefetch.Each(s.price, out, &out[0].Node)
				a := uint32(out[0].Arc)
				prefetch.Line(&s.full[a>>6])
				prefetch.Line(&s.loaded[a>>6])
				if p.count == 1 {
					prefetch.Line(&s.arcs[p.arc])
				}
			}
		}
	}
}

// bound renews the bounds and the price of v, and returns the arc on which its flow pays
// most and the residual one on which it would pay least.
func (s *Solver) bound(v int32) (dearest int32, most int64, cheapest int32, least int64) {
	p := &s.payers[v]
	p.first, p.second, p.best = far, far, none
	dearest, most, cheapest, least = none, -far, none, far
	out := s.net.Out(flowgraph.NodeID(v))
	s.work.Units += int64(len(out))
	for _, ref := range out {
		a, value := int32(ref.Arc), int64(ref.Cost)+s.price[ref.Node]
		if value > most && s.hasLoad(a) {
			dearest, most = a, value
		}
		if value < p.second && s.hasRoom(a) {
			if value < least {
				cheapest, least = a, value
			}
			if s.kinds[ref.Node] != isHub {
				p.loosen(a, value)
			}
		}
	}
	s.price[v] = most
	s.publish(v)
	return dearest, most, cheapest, least
}

// exchange moves flow of v from its dearest arc to its cheapest. Between arcs of one head nothing else is
// touched, as when running tasks get an arc of their own.
func (s *Solver) exchange(v, dearest, cheapest int32) {
	amount := min(s.load(dearest), s.room(cheapest))
	if p := &s.payers[v]; p.count == 1 && amount == s.load(dearest) && p.head != s.arc(cheapest).head {
		// All that v has: it looks for its place itself, the cheapest may be
		// taken at a higher price.
		s.force(dearest, -amount)
		return
	}
	s.force(dearest, -amount)
	s.force(cheapest, amount)
}

// takePrices takes in changes of which only the cost of a source's arc is left.
func (s *Solver) takePrices() {
	for next := range blocks(s.repriced) {
		s.askForPrices(next)
		for _, a := range next {
			s.takePrice(a)
		}
	}
	s.repriced = s.repriced[:0]
}

// askForPrices asks for what takePrice needs beside the records of arcs. Nearly all of these are of sources.
func (s *Solver) askForPrices(arcs []int32) {
	if len(arcs) == 0 {
		return
	}
	tails, heads := s.tails[:0], s.others[:0]
	for _, a := range arcs {
		r := &s.arcs[a]
		tails, heads = append(tails, r.tail), append(heads, r.head)
	}
	s.tails, s.others = tails, heads
	prefetch.Each(s.payers, tails, &tails[0])
	prefetch.Each(s.price, tails, &tails[0])
	prefetch.Each(s.nodes, heads, &heads[0])
	for _, b := range s.hubs {
		prefetch.Each(b.ways, tails, &tails[0])
	}
	for _, a := range arcs {
		r := &s.arcs[a]
		if held := s.nodes[r.head].held; int(r.pos) < len(held) {
			prefetch.Line(&held[r.pos])
		}
	}
}

// takePrice takes in a new cost of arc a. The bounds tell that most such changes leave everything in its
// place, as when waiting gets dearer for all.
func (s *Solver) takePrice(a int32) {
	r := &s.arcs[a]
	if s.payers[r.tail].count <= 0 && s.kinds[r.tail] != isSource {
		return // promoted since, at this cost
	}
	p, value := &s.payers[r.tail], r.cost+s.price[r.head]
	held := r.flow > r.lower
	if held {
		s.nodes[r.head].held[r.pos].cost = r.cost
		if p.arc == a {
			p.cost = r.cost
		}
		s.price[r.tail] = max(s.price[r.tail], value)
		if value > p.without(a) {
			s.lookAgain(r.tail)
		}
	}
	if r.flow < r.upper {
		if s.kinds[r.head] != isHub && value < p.second && (a != p.best || value < p.first) {
			p.loosen(a, value)
			s.publish(r.tail)
		}
		if p.count > 0 && value < s.price[r.tail] {
			s.lookAgain(r.tail)
		}
	}
	for _, b := range s.hubs {
		if b.node == r.head {
			b.found(s, a)
			s.renewLater(b, r.tail)
		} else if held {
			b.reconsider(s, r.head, a, r.tail)
			if to := b.ways[r.tail]; to.arc != none && to.cost+s.price[b.node] < value {
				s.lookAgain(r.tail)
			}
		}
	}
}

// renewLater has v compared before the taking in ends, after its arcs to the hub have changed, if there is
// more to it: flow that could move there, or another arc to it.
func (s *Solver) renewLater(b *hub, v int32) {
	if b.double || s.payers[v].count > 0 {
		s.lookAgain(v)
	}
}

// lookAgain has v, if it is a source, compared before the taking in ends.
func (s *Solver) lookAgain(v int32) {
	if p := &s.payers[v]; !p.listed {
		p.listed = true
		s.dirty = append(s.dirty, v)
	}
}

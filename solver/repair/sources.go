package repair

import "github.com/sluice-scheduler/sluice/flowgraph"

// compare moves flow of a source from what has become too dear to what it could
// have, withdraws what it holds beyond its supply, dearest first, and renews
// what is cached of it.
func (s *Solver) compare(v int32) {
	if s.kinds[v] != isSource {
		return
	}
	p := &s.payers[v]
	holds := p.count > 0
	if holds {
		s.exchange(v)
		s.withdraw(v)
		s.bound(v)
	}
	for _, b := range s.hubs {
		if holds || b.double {
			b.renew(s, v)
		}
	}
}

// bound sets the bounds of v.
func (s *Solver) bound(v int32) {
	p := &s.payers[v]
	p.first, p.second, p.best = far, far, none
	most := -far
	out := s.net.Out(flowgraph.NodeID(v))
	s.work.Units += int64(len(out))
	for _, ref := range out {
		value := int64(ref.Cost) + s.price[ref.Node]
		if value > most && s.hasLoad(int32(ref.Arc)) {
			most = value
		}
		if value < p.second && s.kinds[ref.Node] != isHub && s.hasRoom(int32(ref.Arc)) {
			p.loosen(int32(ref.Arc), value)
		}
	}
	if most > -far {
		s.price[v] = most
	}
}

// exchange moves flow of v from its dearest arc to its cheapest until that gains
// nothing. Between arcs of one head nothing else is touched: so it is when running
// tasks get an arc of their own.
func (s *Solver) exchange(v int32) {
	out := s.net.Out(flowgraph.NodeID(v))
	for {
		s.work.Units += int64(len(out))
		dearest, most, cheapest, least := none, -far, none, far
		for _, ref := range out {
			value := int64(ref.Cost) + s.price[ref.Node]
			if value < least && s.hasRoom(int32(ref.Arc)) {
				cheapest, least = int32(ref.Arc), value
			}
			if value > most && s.hasLoad(int32(ref.Arc)) {
				dearest, most = int32(ref.Arc), value
			}
		}
		if most <= least {
			return
		}
		if p := &s.payers[v]; p.count == 1 && s.load(dearest) <= s.room(cheapest) && p.head != s.arcs[cheapest].head {
			// All that v has: it looks for its place itself, the cheapest
			// may be taken at a higher price.
			s.force(dearest, -s.load(dearest))
			return
		}
		amount := min(s.load(dearest), s.room(cheapest))
		s.force(dearest, -amount)
		s.force(cheapest, amount)
	}
}

// withdraw takes back what v holds beyond its supply.
func (s *Solver) withdraw(v int32) {
	out := s.net.Out(flowgraph.NodeID(v))
	for s.excess[v] < 0 && s.payers[v].count > 0 {
		dearest, most := none, -far
		for _, ref := range out {
			value := int64(ref.Cost) + s.price[ref.Node]
			if value > most && s.hasLoad(int32(ref.Arc)) {
				dearest, most = int32(ref.Arc), value
			}
		}
		s.force(dearest, -min(s.load(dearest), -s.excess[v]))
	}
}

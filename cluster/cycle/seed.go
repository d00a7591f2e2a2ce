package cycle

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// prospect is a host that a class may be given as a candidate.
type prospect struct {
	price flowgraph.Cost // what its next unit would pay
	start flowgraph.Cost // of that, the price of the start
	host  int32
	fit   int64 // units that it still takes, −1 before anybody looked
}

// prospects is a heap, the cheapest first.
type prospects []prospect

func (a prospect) before(b prospect) bool {
	return a.price < b.price || a.price == b.price && a.host < b.host
}

func (q *prospects) push(x prospect) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 && x.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
}

func (q *prospects) pop() {
	h := *q
	last := len(h) - 1
	h[0] = h[last]
	*q = h[:last]
	q.sink()
}

// sink puts the first in its place after it became dearer.
func (q prospects) sink() {
	if len(q) == 0 {
		return
	}
	x, i := q[0], 0
	for {
		next := 2*i + 1
		if next+1 < len(q) && q[next+1].before(q[next]) {
			next++
		}
		if next >= len(q) || !q[next].before(x) {
			break
		}
		q[i] = q[next]
		i = next
	}
	q[i] = x
}

// seeder looks for the first candidates of one class.
type seeder struct {
	p     *Planner
	class *class
	queue prospects      // hosts that were looked at
	near  int            // position in the order of the hosts near the class
	rack  int            // position in the order of the racks near it
	row   *vacant        // the hosts of its row that are not full
	next  int            // position in row
	full  int            // full hosts that were passed
	later []slot         // hosts passed because others were offered them; their price may have risen
	due   int            // position in the first hosts of row, which others were offered, then in later
	taken []prospect     // hosts that others fill
	least flowgraph.Cost // what a start in the row costs at least
}

// seed gives units of a class their first candidates: the hosts where they would go if they chose one after
// the other, after the classes before, and a few more. A class that gets too few places that way contends for
// a few of those that others were offered: the flow decides who has them. That is close to the optimum, so
// the potentials of the first solve are worth something.
func (p *Planner) seed(c *class, units int64, short bool) {
	s := &p.offers.seeder
	*s = seeder{p: p, class: c, queue: s.queue[:0], later: s.later[:0], taken: s.taken[:0]}
	if first := c.row.at(0); first != endless {
		s.least = first.price()
	}
	s.begin()
	left, spare := units, spareCandidates
	for (left > 0 || spare > 0) && s.look() {
		first := &s.queue[0]
		i := first.host
		o := p.offer(i)
		if first.fit < 0 {
			if first.fit = p.fit(c, p.hosts.byIndex[i], cluster.MaxInstances); !short {
				first.fit -= o.units // in the flow it may be none the less: that counts tasks, whatever their size
			}
			if first.fit <= 0 {
				s.contend(*first)
			}
		}
		if first.fit <= 0 {
			s.queue.pop()
			continue
		}
		if !c.links.has(i) {
			p.graph.link(c, p.hosts.byIndex[i], p.round.Unit, first.start)
			if left == 0 {
				spare--
			}
		}
		if left > 0 {
			left--
			p.give(i, o)
			first.fit--
		}
		if left == 0 || first.fit == 0 {
			s.queue.pop()
			continue
		}
		first.price = first.start + o.ask
		s.queue.sink()
	}
	if left > 0 || spare > 0 {
		s.contendForRow()
		for _, x := range s.taken {
			if !c.links.has(x.host) {
				p.graph.link(c, p.hosts.byIndex[x.host], p.round.Unit, x.start)
			}
		}
	}
	s.forget()
}

// contendForRow has the class contend for the first hosts of its row, which all are full or too small.
func (s *seeder) contendForRow() {
	c := s.class
	if len(s.taken) == spareCandidates {
		return
	}
	for _, x := range c.row.from(0) {
		start := x.price() + c.local.elsewhere
		if start >= c.price {
			return
		}
		if c.local.isNear(x.index()) {
			continue
		}
		if s.contend(prospect{start: start, host: x.index()}); len(s.taken) == spareCandidates {
			return
		}
	}
}

// begin passes over the hosts at the beginning of the row that others were offered.
func (s *seeder) begin() {
	o, v := &s.p.offers, &s.class.row.vacant
	if s.class.row.users == 1 { // no other class will look
		v = &o.vacant
		v.pass = 0
	}
	if v.pass != o.pass {
		*v = vacant{pass: o.pass, slots: v.slots[:0]}
	}
	s.row = v
	for ; v.offered < len(v.slots); v.offered++ {
		if i := v.slots[v.offered].index(); !o.given.has(i) && !o.filled.has(i) {
			break
		}
	}
	s.next = v.offered
}

// vacant returns the next host of the row, behind those that others were offered, that is not full, or
// endless.
func (s *seeder) vacant() slot {
	r := s.class.row
	v := s.row
	for ; ; s.next++ {
		if s.next == len(v.slots) {
			x := r.at(v.read)
			if x == endless {
				return x
			}
			v.slots = append(v.slots, x)
			v.read++
		}
		if x := v.slots[s.next]; !s.p.offers.filled.has(x.index()) {
			return x
		}
		s.full++
	}
}

// offered returns the next host of the row that others were offered, or endless if none costs less than
// waiting.
func (s *seeder) offered() slot {
	c := s.class
	v := s.row
	for ; s.due < v.offered; s.due++ {
		switch x := v.slots[s.due]; {
		case x.price()+c.local.elsewhere >= c.price:
			return endless
		case s.p.offers.filled.has(x.index()):
			s.full++
		case !c.local.isNear(x.index()):
			return x
		}
	}
	if k := s.due - v.offered; k < len(s.later) {
		return s.later[k]
	}
	return endless
}

// forget drops full hosts from the row if many were passed, so that its next class passes over fewer.
func (s *seeder) forget() {
	if v := s.row; s.full > len(v.slots)/4 {
		v.slots = slices.DeleteFunc(v.slots, func(x slot) bool { return s.p.offers.filled.has(x.index()) })
		v.offered = 0
	}
}

// look queues hosts until no other may come before the first in the queue, and reports whether there is one.
// Most hosts of a row that are cheap by themselves were offered to the classes before. Such hosts wait, in
// the order of the row, until the next other host costs at least as much as the cheapest of them may.
func (s *seeder) look() bool {
	c, o := s.class, &s.p.offers
	for {
		first, queued := prospect{price: math.MaxInt64}, len(s.queue) > 0
		if queued {
			first = s.queue[0]
		}
		if s.near < c.local.hosts.len() {
			if x := c.local.hosts.order[s.near]; x.price() <= first.price { // no start costs less than nothing
				if s.near++; x.price() < c.price {
					if start, ok := c.acceptsAt(x.index(), x.price()); ok {
						s.consider(x.index(), start)
					}
				}
				continue
			}
		}
		if s.rack < c.local.racks.len() {
			if x := c.local.racks.order[s.rack]; x.price()+s.least <= first.price {
				s.rack++
				s.enter(x)
				continue
			}
		}
		x := s.vacant()
		elsewhere := x.price() + c.local.elsewhere
		ok := x != endless && elsewhere < c.price
		if y := s.offered(); y != endless {
			least := prospect{price: y.price() + c.local.elsewhere + o.least, host: y.index()}
			if least.before(first) && (!ok || least.price < elsewhere) {
				s.due++
				s.consider(y.index(), y.price()+c.local.elsewhere)
				continue
			}
		}
		if next := (prospect{price: elsewhere, host: x.index()}); !ok || !next.before(first) {
			return queued
		}
		switch s.next++; {
		case c.local.isNear(x.index()):
		case o.given.has(x.index()):
			s.later = append(s.later, x)
		default:
			s.consider(x.index(), elsewhere)
		}
	}
}

// enter queues the open hosts of a rack.
func (s *seeder) enter(rack slot) {
	c := s.class
	for _, x := range c.row.inRack(rack.index()).slots {
		start := clamp(x.price() + rack.price())
		if start >= c.price {
			break
		}
		if _, own := c.local.hosts.price(x.index()); !own {
			s.consider(x.index(), start)
		}
	}
}

// consider queues a host, unless others fill it.
func (s *seeder) consider(i int32, start flowgraph.Cost) {
	o := s.p.offer(i)
	if x := (prospect{price: start + o.ask, start: start, host: i, fit: -1}); o.full() {
		s.p.offers.filled.add(i)
		s.contend(x)
	} else {
		s.queue.push(x)
	}
}

func (s *seeder) contend(x prospect) {
	if len(s.taken) < spareCandidates {
		s.taken = append(s.taken, x)
	}
}

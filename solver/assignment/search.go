package assignment

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
)

// place sends unit q along a cheapest path to the ground; false if there is none.
func (s *Solver) place(q int32) bool {
	if s.search++; s.search == 0 {
		for i := range s.nodes {
			s.nodes[i].seen = 0
		}
		s.search = 1
	}
	s.queue, s.settled = s.queue[:0], s.settled[:0]
	t := target{cost: far / 2, node: none}
	ways := s.waysOf(q)
	s.work.Units += int64(len(ways))
	for k := range ways {
		s.reach(&t, ways[k].head, none, int32(k), q, int64(ways[k].cost))
	}
	for len(s.queue) > 0 {
		top := s.pop()
		if top.key >= t.cost {
			break
		}
		v := &s.nodes[top.node]
		if top.key != v.label+s.price[top.node] {
			continue // reached at less since
		}
		s.settled = append(s.settled, top.node)
		s.work.Steps++
		s.expand(&t, top.node, v.label)
	}
	if t.node == none {
		return false
	}
	for _, u := range s.settled {
		s.price[u] = max(s.price[u], t.cost-s.nodes[u].label)
	}
	s.augment(t.node)
	return true
}

// target is the best end of a search found so far: the node from which the path
// goes to the ground, and its cost.
type target struct {
	cost int64
	node int32
}

// reach labels w with a path that comes from node prev, over a link, or over the
// way k of unit through.
func (s *Solver) reach(t *target, w, prev, over, through int32, label int64) {
	x := &s.nodes[w]
	key := label + s.price[w]
	if key >= t.cost || x.seen == s.search && label >= x.label {
		return
	}
	x.seen, x.label, x.prev, x.over, x.through = s.search, label, prev, over, through
	if label+x.exit < t.cost {
		*t = target{label + x.exit, w}
		if key >= t.cost {
			return
		}
	}
	if list := s.held[w]; len(list) > 0 {
		prefetch.Line(&list[0])
		prefetch.Line(&list[len(list)/2])
	}
	s.push(key, w)
}

// expand steps from v over the links with room and over the units held there.
func (s *Solver) expand(t *target, u int32, label int64) {
	held := s.held[u]
	s.work.Units += int64(len(held))
	if s.leads[u] > 0 {
		s.follow(t, u, label)
	}
	for i := range held {
		h := &held[i]
		if next := label + int64(h.cost); h.next != none && next+s.price[h.head] < t.cost {
			s.reach(t, h.head, u, h.next, h.from, next)
		}
	}
	s.readAhead(held, t.cost-label)
	for i := range held {
		if h := &held[i]; label+h.rest < t.cost {
			s.open(t, u, h, label)
		}
	}
}

// readAhead reads the ways of the units that may be opened. Each unit's are elsewhere in memory; reads that
// do not wait for each other take hardly longer than one.
func (s *Solver) readAhead(held []holding, below int64) {
	s.ahead = s.ahead[:0]
	for i := range held {
		if held[i].rest < below {
			s.ahead = append(s.ahead, held[i].from)
		}
	}
	if len(s.ahead) < 2 {
		return
	}
	for _, q := range s.ahead {
		if x := &s.sources[q]; x.first != none {
			s.fetched += s.ways[x.first].cost + s.ways[x.first+x.count-1].cost
		}
	}
}

// follow steps from u over the links that lead on.
func (s *Solver) follow(t *target, u int32, label int64) {
	links := s.links[u]
	s.work.Units += int64(len(links))
	for i := range links {
		l := &links[i]
		if a := &s.arcs[l.arc]; l.sign > 0 && a.flow < a.upper || l.sign < 0 && a.flow > 0 {
			s.reach(t, l.head, u, int32(i), none, label+l.cost)
		}
	}
}

// open steps over the unit of h, which is at node u, to its other places. It renews what they cost.
func (s *Solver) open(t *target, u int32, h *holding, label int64) {
	ways := s.waysOf(h.from)
	now := int(s.sources[h.from].at)
	own := int64(ways[now].cost)
	base := label - own
	s.work.Units += int64(len(ways))
	least, second, next := far, far, none
	for i := range ways {
		w := &ways[i]
		value := int64(w.cost) + s.price[w.head]
		if value >= second && base+value >= t.cost || i == now {
			continue
		}
		if value < least {
			least, second, next = value, least, int32(i)
		} else {
			second = min(second, value)
		}
		if base+value < t.cost {
			s.reach(t, w.head, u, int32(i), h.from, base+int64(w.cost))
		}
	}
	h.rest = second - own
	if h.next = next; next != none {
		w := &ways[next]
		h.cost, h.head = w.cost-int32(own), w.head
	}
}

// waysOf returns the ways of q. They are copied when they are first needed.
func (s *Solver) waysOf(q int32) []way {
	x := &s.sources[q]
	if x.first == none {
		x.first = int32(len(s.ways))
		s.ways = hugepage.Grow(s.ways, int(x.count))[:x.first+x.count]
		s.copyWays(q)
	}
	return s.ways[x.first : x.first+x.count]
}

// copyWays copies the ways of q from the network.
func (s *Solver) copyWays(q int32) {
	ways := s.ways[s.sources[q].first:]
	for k, ref := range s.net.Out(s.of[q]) {
		ways[k] = way{int32(ref.Cost), s.head(ref)}
	}
}

// head returns the node of the core to which an arc of a source leads.
func (s *Solver) head(ref flowgraph.Ref) int32 {
	if s.closed && !s.net.Open(ref.Arc) {
		return int32(len(s.nodes) - 1) // from where there is no way
	}
	return s.index[ref.Node]
}

// augment sends a unit along the path to node v and on to the ground. Each unit on the path takes the place
// of the next.
func (s *Solver) augment(v int32) {
	s.fill(v)
	for {
		x := &s.nodes[v]
		prev := x.prev
		switch {
		case x.through == none:
			l := &s.links[prev][x.over]
			a := &s.arcs[l.arc]
			if a.flow += int64(l.sign); l.sign > 0 && a.flow == 1 {
				s.leads[v]++
			} else if l.sign < 0 && a.flow == 0 {
				s.leads[prev]--
			}
		default:
			if prev == none {
				s.others(s.hold(v, x.over, x.through), x.over)
				return
			}
			s.move(x.through, prev, x.over, v)
		}
		v = prev
	}
}

// fill sends a unit over the cheapest way from v straight to the ground.
func (s *Solver) fill(v int32) {
	a := &s.arcs[s.exitArc[v]]
	if a.flow++; a.flow == a.upper {
		s.findExit(v)
	}
}

// hold lets q take its way at, which leads to v. It returns the holding of q there, which the caller has to
// fill in.
func (s *Solver) hold(v, at, q int32) *holding {
	list := append(s.held[v], holding{})
	s.held[v] = list
	x := &s.sources[q]
	x.at, x.pos = at, int32(len(list)-1)
	h := &list[x.pos]
	h.from = q
	return h
}

// others notes what the ways of a unit cost other than at, which it takes.
func (s *Solver) others(h *holding, at int32) {
	ways := s.waysOf(h.from)
	least, second, next := far, far, none
	for i := range ways {
		w := &ways[i]
		value := int64(w.cost) + s.price[w.head]
		if value >= second || int32(i) == at {
			continue
		}
		if value < least {
			least, second, next = value, least, int32(i)
		} else {
			second = value
		}
	}
	own := ways[at].cost
	h.rest = second - int64(own)
	if h.next = next; next != none {
		h.cost, h.head = ways[next].cost-own, ways[next].head
	}
}

// move takes unit q from u, and lets it take its way at to v.
func (s *Solver) move(q, u, at, v int32) {
	x := &s.sources[q]
	list := s.held[u]
	h := &list[x.pos]
	rest, cost, back := s.price[v], int32(0), none // no place is better
	if h.next == at {
		rest, cost, back = h.rest-int64(h.cost), -h.cost, x.at
	}
	last := len(list) - 1
	*h = list[last]
	s.sources[h.from].pos = x.pos
	s.held[u] = list[:last]
	h = s.hold(v, at, q)
	h.rest, h.cost, h.next, h.head = rest, cost, back, u
}

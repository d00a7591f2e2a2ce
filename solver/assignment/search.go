package assignment

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
	x := &s.sources[q]
	s.work.Units += int64(x.last - x.first)
	for k := x.first; k < x.last; k++ {
		w := s.ways[k]
		s.reach(&t, w.head, none, k, q, int64(w.cost))
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
	s.push(key, w)
}

// expand steps from v over the links with room and over the units held there.
func (s *Solver) expand(t *target, u int32, label int64) {
	held := s.held[u]
	s.work.Units += int64(len(held))
	if s.leads[u] > 0 {
		s.follow(t, u, label)
	}
	s.readAhead(held, t.cost-label)
	for i := range held {
		h := &held[i]
		if next := label + int64(h.cost); h.next != none && next+s.price[h.head] < t.cost {
			s.reach(t, h.head, u, h.next, h.from, next)
		}
		if label+h.rest < t.cost {
			s.open(t, u, h, label)
		}
	}
}

// readAhead reads the ways of the units that may be opened, of which each is elsewhere in
// memory: reads that do not wait for each other take hardly longer than one.
func (s *Solver) readAhead(held []holding, below int64) {
	s.ahead = s.ahead[:0]
	for i := range held {
		if held[i].rest < below {
			s.ahead = append(s.ahead, s.sources[held[i].from])
		}
	}
	if len(s.ahead) < 2 {
		return
	}
	for _, x := range s.ahead {
		s.fetched += s.ways[x.first].cost + s.ways[x.last-1].cost
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

// open steps over the unit of h, which is at node u, to its other places, and
// renews what they cost.
func (s *Solver) open(t *target, u int32, h *holding, label int64) {
	x := &s.sources[h.from]
	ways := s.ways[x.first:x.last]
	now := int(x.at - x.first)
	own := int64(ways[now].cost)
	base := label - own
	least, second, next := far, far, none
	s.work.Units += int64(len(ways))
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
			s.reach(t, w.head, u, x.first+int32(i), h.from, base+int64(w.cost))
		}
	}
	h.rest = second - own
	if h.next = none; next != none {
		w := &ways[next]
		h.next, h.cost, h.head = x.first+next, w.cost-int32(own), w.head
	}
}

// augment sends a unit along the path to node v and on to the ground: each unit on
// it takes the place of the next.
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
			if prev != none {
				s.release(x.through)
			}
			s.hold(x.through, x.over)
			if prev == none {
				return
			}
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

// hold lets unit q take the way k.
func (s *Solver) hold(q, k int32) {
	x := &s.sources[q]
	v := s.ways[k].head
	x.at, x.pos = k, int32(len(s.held[v]))
	// Nothing is known of its other places but that none is better.
	s.held[v] = append(s.held[v], holding{rest: s.price[v], next: none, from: q})
}

// release takes unit q from where it is.
func (s *Solver) release(q int32) {
	x := &s.sources[q]
	v := s.ways[x.at].head
	list := s.held[v]
	last := len(list) - 1
	list[x.pos] = list[last]
	s.sources[list[x.pos].from].pos = x.pos
	s.held[v] = list[:last]
}

package repair

import "github.com/sluice-scheduler/sluice/flowgraph"

// arc returns the record of a, whose flow may be about to change.
func (s *Solver) arc(a int32) *arc {
	if !s.recorded.has(a) {
		s.record(a)
	}
	return &s.arcs[a]
}

// record makes the record of a, as yet without flow.
func (s *Solver) record(a int32) {
	d, r := s.net.Arc(flowgraph.ArcID(a)), &s.arcs[a]
	s.recorded.set(a, true)
	r.tail, r.head, r.pos = int32(d.Tail), int32(d.Head), 0
	r.cost, r.lower, r.upper, r.flow = int64(d.Cost), d.Lower, d.Upper, 0
	s.mark(a)
}

// room is how much more arc a can carry, load how much less.
func (s *Solver) room(a int32) int64 { r := s.arc(a); return r.upper - r.flow }
func (s *Solver) load(a int32) int64 { return s.arcs[a].flow - s.arcs[a].lower }

// hasRoom and hasLoad tell whether there is any. Searches ask for most arcs they
// see, so the answers lie close together.
func (s *Solver) hasRoom(a int32) bool { return !s.full.has(a) }
func (s *Solver) hasLoad(a int32) bool { return s.loaded.has(a) }

// mark notes whether a, of which flow or bounds changed, has room and load.
func (s *Solver) mark(a int32) {
	r := &s.arcs[a]
	s.full.set(a, r.flow >= r.upper)
	s.loaded.set(a, r.flow > r.lower)
}

// addFlow changes the flow on a and everything that is derived from it, except
// the excess of its ends.
func (s *Solver) addFlow(a int32, amount int64) {
	r := s.arc(a)
	if r.stamp != s.batch {
		r.stamp = s.batch
		s.moved = append(s.moved, movement{flow: r.flow, arc: a})
	}
	held, full := r.flow > r.lower, r.flow >= r.upper
	r.flow += amount
	s.objective.AddMul(r.cost, amount)
	s.derive(a, held, full)
}

// derive follows a change of flow, bounds or both on a, before which it had
// movable flow (held) and no room (full).
func (s *Solver) derive(a int32, held, full bool) {
	r := &s.arcs[a]
	s.mark(a)
	if r.tail == r.head {
		return
	}
	nowHeld, nowFull := r.flow > r.lower, r.flow >= r.upper
	if held == nowHeld && full == nowFull {
		return
	}
	if s.kinds[r.tail] == isSource {
		if nowHeld && !held {
			s.hold(a)
		} else if held && !nowHeld {
			s.release(a)
		}
		if full != nowFull {
			if !nowFull {
				s.courts.left(r.head, a, r.tail, r.cost)
			}
			if b := s.hubOf(r.head); b != nil {
				b.renew(s, r.tail)
			} else if !nowFull {
				s.payers[r.tail].loosen(a, r.cost+s.at(r.head))
				s.publish(r.tail)
			}
		}
		return
	}
	s.deriveExit(r)
}

// deriveExit renews the ways to and from the ground at the other end of r.
func (s *Solver) deriveExit(r *arc) {
	if r.head == s.ground {
		s.findExit(r.tail)
	} else if r.tail == s.ground {
		s.findExit(r.head)
	}
}

func (s *Solver) findExit(v int32) {
	x := &s.nodes[v]
	x.exit, x.exitArc, x.entry, x.entryArc = far, none, far, none
	s.passable.set(v, false)
	if !s.net.NodeAlive(flowgraph.NodeID(v)) {
		return
	}
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		if int32(ref.Node) != s.ground {
			continue
		}
		if r := &s.arcs[ref.Arc]; r.tail == v && r.head == s.ground {
			x.offerExit(int32(ref.Arc), r.cost, r.flow < r.upper, r.flow > r.lower)
		}
	}
	for _, a := range x.in {
		if r := &s.arcs[a]; r.tail == s.ground {
			x.offerExit(a, -r.cost, r.flow > r.lower, r.flow < r.upper)
		}
	}
	if x.exitArc != none {
		r := &s.arcs[x.exitArc]
		s.passable.set(v, r.head == s.ground && r.upper == flowgraph.Infinite)
	}
}

// offerExit takes in an arc to or from the ground of cost c towards it.
func (x *node) offerExit(a int32, c int64, out, in bool) {
	if out && c < x.exit {
		x.exit, x.exitArc = c, a
	}
	if in && -c < x.entry {
		x.entry, x.entryArc = -c, a
	}
}

func (s *Solver) hold(a int32) {
	r := &s.arcs[a]
	x := &s.nodes[r.head]
	r.pos = int32(len(x.held))
	if len(x.held) == cap(x.held) {
		x.held = s.holdings.grow(x.held)
	}
	x.held = append(x.held, holding{cost: r.cost, rest: -far, arc: a, from: r.tail})
	p := &s.payers[r.tail]
	value := r.cost + s.at(r.head)
	switch p.count {
	case 0:
		p.arc, p.head, p.cost, p.pos = a, r.head, r.cost, r.pos
	case 1:
		value = max(value, p.cost+s.at(p.head))
		s.nodes[p.head].held[p.pos].rest = -far
	default:
		value = max(value, s.price[r.tail])
	}
	p.count++
	s.publish(r.tail)
	if !s.grows(r.tail) {
		s.price[r.tail] = value
	}
	for _, b := range s.hubs {
		b.held(s, r.head, a, r.tail)
	}
}

func (s *Solver) release(a int32) {
	r := &s.arcs[a]
	s.unlist(a)
	for _, b := range s.hubs {
		b.left(r.head, a)
	}
	p := &s.payers[r.tail]
	p.count--
	if p.count != 1 {
		return
	}
	p.arc = none // unless found: the other is gone too, and about to be dropped
	if !s.net.NodeAlive(flowgraph.NodeID(r.tail)) {
		return
	}
	for _, ref := range s.net.Out(flowgraph.NodeID(r.tail)) {
		if b := int32(ref.Arc); b != a && s.hasLoad(b) && s.arcs[b].tail == r.tail {
			q := &s.arcs[b]
			p.arc, p.head, p.cost, p.pos = b, q.head, q.cost, q.pos
			s.publish(r.tail)
			break
		}
	}
}

// unlist takes a out of the list at its head.
func (s *Solver) unlist(a int32) {
	r := &s.arcs[a]
	x := &s.nodes[r.head]
	if s.kinds[r.tail] == isSource {
		last := len(x.held) - 1
		h := &x.held[r.pos]
		*h = x.held[last]
		s.arcs[h.arc].pos = r.pos
		if p := &s.payers[h.from]; p.arc == h.arc {
			p.pos = r.pos
		}
		x.held = x.held[:last]
		return
	}
	if r.head != s.ground {
		s.nodes[r.tail].forks--
	}
	last := len(x.in) - 1
	x.in[r.pos] = x.in[last]
	s.arcs[x.in[r.pos]].pos = r.pos
	x.in = x.in[:last]
}

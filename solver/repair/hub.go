package repair

import "github.com/sluice-scheduler/sluice/flowgraph"

// move is the cheapest way from some node to a hub for one of its holders: less flow on from, more on to. The
// gain of a stale move is a lower bound.
type move struct {
	gain     int64
	from, to int32
	stale    bool
}

// way is an arc to a hub, with its cost: offers need no other of its record.
type way struct {
	cost int64
	arc  int32
}

// hub is a node that very many sources have an arc to.
type hub struct {
	node   int32
	ways   []way   // by source: its cheapest residual arc to the hub, or none
	moves  []move  // by node
	blocks []int64 // by hubBlock nodes: bound from below on the least (gain - price)
	double bool    // some source has had two arcs to the hub
}

// A hub pays when going through all nodes is cheaper than through its arcs.
const (
	minHubDegree = 2048
	maxHubs      = 4
	hubBlock     = 64
)

func (s *Solver) hubOf(v int32) *hub {
	for _, b := range s.hubs {
		if b.node == v {
			return b
		}
	}
	return nil
}

// best renews the move of u if it is stale.
func (b *hub) best(s *Solver, u int32) *move {
	m := &b.moves[u]
	if !m.stale {
		return m
	}
	*m = move{gain: far, from: none, to: none}
	held := s.nodes[u].held
	s.work.Units += int64(len(held))
	for i := range held {
		b.offer(s, u, held[i].arc, held[i].from, held[i].cost)
	}
	return m
}

// offer takes in that source could leave u, where it has flow on arc from of that cost.
func (b *hub) offer(s *Solver, u, from, source int32, cost int64) {
	to := b.ways[source]
	if to.arc == none || to.arc == from {
		return
	}
	if m, gain := &b.moves[u], to.cost-cost; gain < m.gain {
		m.gain, m.from, m.to = gain, from, to.arc
		b.lower(s, u)
	}
}

// lower takes in that u has a better move, or a higher price.
func (b *hub) lower(s *Solver, u int32) {
	if gain := b.moves[u].gain; gain < far {
		b.blocks[u/hubBlock] = min(b.blocks[u/hubBlock], gain-s.price[u])
	}
}

// held tells the hub that source now has movable flow on arc a into u.
func (b *hub) held(s *Solver, u, a, source int32) {
	b.offer(s, u, a, source, s.arcs[a].cost)
}

// left tells the hub that flow on arc a into u is gone.
func (b *hub) left(u, a int32) {
	if m := &b.moves[u]; m.from == a {
		m.stale = true
	}
}

// renew looks again for the arc of source to the hub, after its arcs or the flow
// on one into the hub changed.
func (b *hub) renew(s *Solver, source int32) {
	best := way{far, none}
	out := s.net.Out(flowgraph.NodeID(source))
	for _, ref := range out {
		if int32(ref.Node) == b.node && int64(ref.Cost) < best.cost && s.hasRoom(int32(ref.Arc)) {
			best = way{int64(ref.Cost), int32(ref.Arc)}
		}
	}
	b.ways[source] = best
	switch p := &s.payers[source]; p.count {
	case 0:
	case 1:
		b.reconsider(s, p.head, p.arc, source)
	default:
		for _, ref := range out {
			if a := int32(ref.Arc); s.hasLoad(a) {
				b.reconsider(s, int32(ref.Node), a, source)
			}
		}
	}
}

// found takes in arc a to the hub.
func (b *hub) found(s *Solver, a int32) {
	r := s.arc(a)
	switch cur := &b.ways[r.tail]; {
	case !s.hasRoom(a):
		b.lost(r.tail, a)
	case cur.arc == a || cur.arc == none:
		*cur = way{r.cost, a}
	default:
		b.double = true
		if r.cost < cur.cost {
			*cur = way{r.cost, a}
		}
	}
}

// lost takes in that arc a to the hub is gone.
func (b *hub) lost(source, a int32) {
	if b.ways[source].arc == a {
		b.ways[source] = way{far, none}
	}
}

// reconsider takes in that a move from arc a on u may have another price now.
func (b *hub) reconsider(s *Solver, u, a, source int32) {
	if m := &b.moves[u]; m.from == a {
		m.stale, m.gain = true, -far
		b.lower(s, u)
	} else {
		b.offer(s, u, a, source, s.arcs[a].cost)
	}
}

func (b *hub) grow(n int) {
	k := len(b.ways)
	b.ways, b.moves = extend(b.ways, n), extend(b.moves, n)
	for ; k < n; k++ {
		b.ways[k], b.moves[k] = way{far, none}, move{gain: far, from: none, to: none}
	}
	for len(b.blocks)*hubBlock < n {
		b.blocks = append(b.blocks, far)
	}
}

// findHubs makes hubs of the nodes of highest degree, and tells whether sources are classes. A
// hub stays one.
func (s *Solver) findHubs() {
	cores, sources, units := 0, int64(0), int64(0)
	for v, k := range s.kinds {
		switch {
		case k >= isCore:
			cores++
		case k == isSource:
			sources++
			units += s.supply[v]
		}
	}
	s.cores = cores
	s.queue.Spread = units > 2*sources
	degree := max(s.hubDegree, 2*cores)
	if s.hubDegree < minHubDegree {
		degree = s.hubDegree
	}
	for v := range s.kinds {
		if len(s.hubs) == maxHubs {
			return
		}
		if s.kinds[v] != isCore || int32(v) == s.ground || len(s.net.In(flowgraph.NodeID(v))) < degree {
			continue
		}
		s.kinds[v] = isHub
		b := &hub{node: int32(v)}
		b.grow(len(s.kinds))
		s.hubs = append(s.hubs, b)
		for _, ref := range s.net.In(flowgraph.NodeID(v)) {
			if s.kinds[ref.Node] == isSource {
				b.found(s, int32(ref.Arc))
			}
		}
		for u := range s.kinds {
			if s.kinds[u] < isCore {
				continue
			}
			for _, h := range s.nodes[u].held {
				b.held(s, int32(u), h.arc, h.from)
			}
		}
	}
}

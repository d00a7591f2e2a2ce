package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// backward fetches what v lacks along a cheapest path; false if none exists.
// Labels are costs of paths that end in v.
func (s *Solver) backward(v int32) bool {
	s.begin()
	t := target{cost: far}
	if s.kinds[v] == isSource {
		return false // its flow was withdrawn when the lack was found
	}
	s.courts.trim(len(s.arcs))
	s.reachBack(&t, v, none, 0, none, none)
	from := -s.price[v]
	for s.queue.Len() > 0 {
		top := s.queue.Pop()
		if top.Key >= t.cost {
			break
		}
		if s.queue.Fell {
			s.broken = true
			return false
		}
		if top.Node < 0 {
			s.expandRest(&t, ^top.Node, top.Key)
			continue
		}
		if int(top.Node) >= len(s.kinds) {
			s.openBlock(&t, int(top.Node)-len(s.kinds))
			continue
		}
		if s.kinds[top.Node] == isSource {
			s.openBack(&t, top.Node)
			continue
		}
		x := &s.nodes[top.Node]
		if top.Key != x.label-s.price[top.Node] {
			continue
		}
		s.settled = append(s.settled, top.Node)
		s.work.Steps++
		s.expandBack(&t, top.Node, top.Key)
		if s.tires() {
			t = s.collect(-1)
			break
		}
	}
	s.ended()
	if !t.found {
		return false
	}
	s.courts.walked(t.cost - from)
	s.watch(t.cost)
	for _, u := range s.settled {
		if p := s.nodes[u].label - t.cost; p < s.price[u] {
			s.price[u] = p
			s.cheaper.add(u)
		}
	}
	s.sendBack(v, t)
	return true
}

// reachBack labels w with a path of the given cost that goes on to node next
// over arc over, freed arc through given back to it if a source lies between.
func (s *Solver) reachBack(t *target, w, next int32, label int64, over, through int32) {
	if w == s.ground {
		if label < t.cost {
			t.set(label, next, over, through)
		}
		return
	}
	key := label - s.price[w]
	if key >= t.cost {
		return
	}
	x := &s.nodes[w]
	if x.seen == s.search && label >= x.label {
		return
	}
	x.seen, x.label, x.over, x.through = s.search, label, over, through
	if s.excess[w] > 0 || s.collectors.has(w) {
		t.set(key, w, none, none)
		return
	}
	if x.entry < far && label+x.entry < t.cost {
		t.set(label+x.entry, w, x.entryArc, none)
		if key >= t.cost {
			return
		}
	}
	s.queue.Push(radixheap.Item{Key: key, Node: w})
}

// expandBack steps from v, which is settled at the given key, to all its residual
// predecessors.
func (s *Solver) expandBack(t *target, v int32, key int64) {
	x := &s.nodes[v]
	label := x.label
	s.work.Units += int64(len(x.in))
	if x.forks > 0 {
		out := s.net.Out(flowgraph.NodeID(v))
		s.work.Units += int64(len(out))
		for _, ref := range out {
			if w := int32(ref.Node); w != s.ground && s.hasLoad(int32(ref.Arc)) {
				s.reachBack(t, w, v, label-int64(ref.Cost), int32(ref.Arc), none)
			}
		}
	}
	for _, a := range x.in {
		if !s.hasRoom(a) {
			continue
		}
		if r := &s.arcs[a]; r.tail != s.ground {
			s.reachBack(t, r.tail, v, label+r.cost, a, none)
		}
	}
	if s.kinds[v] == isHub {
		s.expandHub(t, v, key)
		return
	}
	s.expandSuitors(t, v, key)
}

// openBack steps back over a source, whose turn it is, to every other head it has
// flow on, and renews what it pays at most.
func (s *Solver) openBack(t *target, source int32) {
	p := &s.payers[source]
	label, a := p.label, p.via
	if a == none {
		return // opened before
	}
	p.via = none
	v := int32(s.net.Arc(flowgraph.ArcID(a)).Head)
	out := s.net.Out(flowgraph.NodeID(source))
	s.work.Units += int64(len(out))
	most := -far
	for _, ref := range out {
		b, w := int32(ref.Arc), int32(ref.Node)
		value := int64(ref.Cost) + s.price[w]
		if value <= most && label-value >= t.cost || !s.hasLoad(b) {
			continue
		}
		most = max(most, value)
		if cost := label - int64(ref.Cost); b != a && label-value < t.cost && s.nodes[w].improves(s.search, cost) {
			s.reachBack(t, w, v, cost, b, a)
		}
	}
	s.price[source] = most
}

// expandHub plans steps back from hub v to the best holder of every node.
func (s *Solver) expandHub(t *target, v int32, key int64) {
	label := s.nodes[v].label
	for i, b := range s.hubs {
		if b.node != v {
			continue
		}
		s.work.Units += int64(len(b.blocks))
		for k, least := range b.blocks {
			if bound := label + least; bound < t.cost {
				s.queue.Push(radixheap.Item{Key: max(bound, key), Node: int32(len(s.kinds) + k*maxHubs + i)})
			}
		}
	}
}

// openBlock steps back from a hub to the best holders of a block of nodes.
func (s *Solver) openBlock(t *target, id int) {
	b, k := s.hubs[id%maxHubs], id/maxHubs
	label := s.nodes[b.node].label
	least := far
	s.work.Units += hubBlock
	for u := k * hubBlock; u < min((k+1)*hubBlock, len(b.moves)); u++ {
		// A stale entry is at most the true gain, so it may rule out, never in.
		m, price := &b.moves[u], s.price[u]
		if m.gain < far && int32(u) != b.node && label+m.gain-price < t.cost {
			if m = b.best(s, int32(u)); m.gain < far {
				s.reachBack(t, int32(u), b.node, label+m.gain, m.from, m.to)
			}
		}
		if m.gain < far {
			least = min(least, m.gain-price)
		}
	}
	b.blocks[k] = least
}

// tell lets sources know of prices that have risen since bounds on what they pay
// were last needed (dir -1), or fallen since those on their moves were (dir 1).
func (s *Solver) tell(dir int64) {
	list, tell := &s.dearer, s.charge
	if dir > 0 {
		list, tell = &s.cheaper, s.loosen
	}
	for i, u := range list.list {
		if dir > 0 && i+1 < len(list.list) {
			s.askForIn(list.list[i+1])
		}
		if s.kinds[u] >= isCore && s.net.NodeAlive(flowgraph.NodeID(u)) {
			tell(u)
		}
	}
	list.clear()
}

// askForIn asks for the list of arcs into v.
func (s *Solver) askForIn(v int32) {
	if s.kinds[v] == isCore && s.net.NodeAlive(flowgraph.NodeID(v)) {
		in := s.net.In(flowgraph.NodeID(v))
		prefetch.Each(in, lines[:min(len(lines), (len(in)+3)/4)], &lines[0])
	}
}

// lines are indices of arcs of which each begins another cache line, for lists of up to 128.
var lines = func() (l [32]int32) {
	for i := range l {
		l[i] = int32(4 * i)
	}
	return l
}()

// charge raises the bounds of holders on u, whose price rose.
func (s *Solver) charge(u int32) {
	held, price := s.nodes[u].held, s.price[u]
	s.work.Units += int64(len(held))
	for i := range held {
		h := &held[i]
		s.price[h.from] = max(s.price[h.from], h.cost+price)
	}
	for _, b := range s.hubs {
		b.lower(s, u)
	}
}

// loosen lowers the bounds of holders that could move to u, whose price fell.
func (s *Solver) loosen(u int32) {
	if s.kinds[u] == isHub {
		return
	}
	in := s.net.In(flowgraph.NodeID(u))
	s.work.Units += int64(len(in))
	price := s.price[u]
	// Who it concerns cannot be foreseen: as in invite, there is no branch for that.
	c := &s.courts
	c.near = extend(c.near, len(in))
	near, k, second := c.near[:len(in)], 0, s.second
	for i := range in {
		r := &in[i]
		near[k] = int32(i)
		if int64(r.Cost)+price < second[r.Node] {
			k++
		}
	}
	for _, i := range near[:k] {
		prefetch.Line(&s.payers[in[i].Node])
	}
	for _, i := range near[:k] {
		if r := &in[i]; s.hasRoom(int32(r.Arc)) {
			s.payers[r.Node].loosen(int32(r.Arc), int64(r.Cost)+price)
			s.publish(int32(r.Node))
		}
	}
}

// sendBack moves as much as the path from t to v bears.
func (s *Solver) sendBack(v int32, t target) {
	amount := -s.excess[v]
	if t.over == none {
		amount = min(amount, s.takes(t.node, -1))
	} else {
		amount = min(amount, s.bearsInto(s.ground, t.over, t.through))
	}
	for w := t.node; w != v; w = s.ahead(w) {
		amount = min(amount, s.bearsInto(w, s.nodes[w].over, s.nodes[w].through))
	}
	start := s.ground
	if t.over == none {
		start = t.node
	} else {
		s.shift(s.ground, t.over, t.through, amount)
	}
	for w := t.node; w != v; {
		x := &s.nodes[w]
		over, through, next := x.over, x.through, s.ahead(w)
		s.shift(w, over, through, amount)
		w = next
	}
	s.excess[v] += amount
	s.excess[start] -= amount
}

// bearsInto is how much can leave w over arc over, and a source's other arc.
func (s *Solver) bearsInto(w, over, through int32) int64 {
	if through != none {
		return min(s.load(over), s.room(through))
	}
	if s.arcs[over].tail == w {
		return s.room(over)
	}
	return s.load(over)
}

func (s *Solver) shift(w, over, through int32, amount int64) {
	switch {
	case through != none:
		s.addFlow(over, -amount)
		s.addFlow(through, amount)
	case s.arcs[over].tail == w:
		s.addFlow(over, amount)
	default:
		s.addFlow(over, -amount)
	}
}

// ahead returns the node after w on the path to v.
func (s *Solver) ahead(w int32) int32 {
	x := &s.nodes[w]
	if x.through != none {
		return s.arc(x.through).head
	}
	r := &s.arcs[x.over]
	if r.tail == w {
		return r.head
	}
	return r.tail
}

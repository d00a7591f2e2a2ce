package repair

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

const (
	// mostAhead is how many nodes a search settles at most beyond the cost of waiting.
	mostAhead = 8
	// foresight is for how many rises like the last ones it looks ahead.
	foresight = 2
)

// wait is an arc over which a source can send any amount to the ground, at a price that no search changes. If
// the source has no flow yet, no other path goes through it, and such a way out bounds no price. A search
// that will end in it may then find out how dear places are for a while to come. Else it would be made again
// when waiting has become a little dearer.
type wait struct {
	cost  int64
	arc   int32
	found bool
}

// target is the best end of a search found so far.
type target struct {
	cost    int64 // of the path, in A* terms: cost plus price of the end
	node    int32 // where the path leaves the nodes; none: straight from the start to the ground
	over    int32 // arc between node and ground, or none if the path ends in node
	through int32 // other arc of a source between node and ground
	found   bool
}

// set is field by field. A struct of five would be put together on the stack, and read there before the
// processor has written it.
func (t *target) set(cost int64, node, over, through int32) {
	t.cost, t.node, t.over, t.through, t.found = cost, node, over, through, true
}

func (s *Solver) begin() {
	s.search++
	if s.search == 0 {
		for i := range s.nodes {
			s.nodes[i].seen, s.payers[i].seen = 0, 0
		}
		s.search = 1
	}
	s.queue.Reset()
	s.settled = s.settled[:0]
}

// placeAll sends excess of sources to the ground, or to nodes that lack it, as long as no price has to
// change. It lists as late the nodes that still have some. Those that lose most by waiting come first. A late
// one then waits at once, instead of driving out an earlier one.
func (s *Solver) placeAll() {
	late := s.late[:0]
	crowded := s.crowded()
	for next := range blocks(s.pending.list) {
		s.askForPlaces(next)
		for i, v := range next {
			if s.excess[v] > 0 && s.kinds[v] == isSource && !crowded {
				s.place(v, s.choices[i])
			}
			if s.excess[v] > 0 && v != s.ground {
				late = append(late, v)
			}
		}
	}
	s.order(late)
	s.late = late
}

// askForPlaces asks for what place needs of sources that have some excess. What is known of them was
// read when it was taken in.
func (s *Solver) askForPlaces(nodes []int32) {
	s.choices = s.choices[:0]
	for _, v := range nodes {
		s.choices = append(s.choices, flowgraph.Ref{Arc: flowgraph.NoArc})
		if s.kinds[v] == isSource && s.excess[v] > 0 {
			s.askForOut(v)
		}
	}
	for i, v := range nodes {
		if s.kinds[v] == isSource && s.excess[v] > 0 {
			s.choices[i] = s.survey(v)
		}
	}
	choices := s.choices
	prefetch.Each(s.nodes, choices, &choices[0].Node)
	prefetch.Each(s.arcs, choices, &choices[0].Arc)
	flowgraph.AskForArcs(s.net, choices, &choices[0].Arc)
	for _, b := range s.hubs {
		prefetch.Each(b.moves, choices, &choices[0].Node)
	}
	for _, c := range choices {
		if c.Arc == flowgraph.NoArc {
			continue
		}
		x := &s.nodes[c.Node]
		if x.exitArc != none {
			prefetch.Line(&s.arcs[x.exitArc])
		}
		if k := len(x.held); k < cap(x.held) {
			prefetch.Line(&x.held[:k+1][k])
		}
	}
}

// survey renews the bounds of source v, and returns its cheapest arc with room.
func (s *Solver) survey(v int32) flowgraph.Ref {
	p := &s.payers[v]
	p.first, p.second, p.best = far, far, none
	best, least := flowgraph.Ref{Arc: flowgraph.NoArc}, far
	out := s.net.Out(flowgraph.NodeID(v))
	s.work.Units += int64(len(out))
	for _, ref := range out {
		value := int64(ref.Cost) + s.price[ref.Node]
		if value >= p.second || !s.hasRoom(int32(ref.Arc)) {
			continue
		}
		if value < least {
			best, least = ref, value
		}
		if s.kinds[ref.Node] != isHub {
			p.loosen(int32(ref.Arc), value)
		}
	}
	s.publish(v)
	return best
}

// askForOut asks for the list of arcs out of v.
func (s *Solver) askForOut(v int32) {
	out := s.net.Out(flowgraph.NodeID(v))
	for i := 0; i < len(out); i += 4 { // of one cache line
		prefetch.Line(&out[i])
	}
}

// crowded tells whether sources have more than the nodes can pass on to the ground within bounds. To place
// what fits would then only delay what must wait.
func (s *Solver) crowded() bool {
	if len(s.pending.list) < 64 {
		return false // the order of a few does not matter
	}
	var excess, free int64
	for _, v := range s.pending.list {
		if s.kinds[v] == isSource {
			excess += s.excess[v]
		}
	}
	for _, a := range s.nodes[s.ground].in {
		if r := &s.arcs[a]; r.upper != flowgraph.Infinite {
			free += r.upper - r.flow
		}
		if free >= excess {
			return false
		}
	}
	return true
}

// place sends what it can of source v, whose cheapest arc is known, without a change of prices.
func (s *Solver) place(v int32, best flowgraph.Ref) {
	for best.Arc != flowgraph.NoArc && s.passesOn(int32(best.Node)) {
		s.pass(v, int32(best.Arc))
		if s.excess[v] == 0 {
			return
		}
		best = s.survey(v)
	}
	for s.excess[v] > 0 {
		s.begin()
		t, own := s.leave(v, 0)
		if !t.found && !own.found || s.queue.Len() > 0 && s.queue.Least() < t.cost {
			return
		}
		s.end(v, t, own)
	}
}

func (s *Solver) order(list []int32) {
	s.ranks = s.ranks[:0]
	for _, v := range list {
		key := -far
		if s.kinds[v] == isSource {
			key = s.regret(v)
		}
		s.ranks = append(s.ranks, radixheap.Item{Key: key, Node: v})
	}
	slices.SortFunc(s.ranks, func(a, b radixheap.Item) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Node, b.Node))
	})
	for i, x := range s.ranks {
		list[i] = x.Node
	}
}

// regret is what the best place of v saves over waiting, as a negative number. Waiting is the cheapest arc
// whose head has free passage to the ground.
func (s *Solver) regret(v int32) int64 {
	least, wait := far, far
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		value := int64(ref.Cost) + s.price[ref.Node]
		least = min(least, value)
		if w := int32(ref.Node); w == s.ground || s.passable.has(w) {
			wait = min(wait, value)
		}
	}
	return least - wait
}

// forward sends excess of v along a cheapest path; false if none exists.
func (s *Solver) forward(v int32) bool {
	s.begin()
	t, own := target{cost: far}, wait{cost: far}
	if s.kinds[v] == isSource {
		t, own = s.leave(v, foresight*s.rise)
	} else {
		s.reach(&t, v, none, 0, none, none)
	}
	ahead := 0
	for s.queue.Len() > 0 {
		top := s.queue.Pop()
		if top.Key >= t.cost {
			break
		}
		if s.queue.Fell {
			s.broken = true
			return false
		}
		if s.kinds[top.Node] == isSource {
			s.open(&t, top.Node)
			continue
		}
		x := &s.nodes[top.Node]
		if top.Key != x.label+s.price[top.Node] {
			continue
		}
		s.settled = append(s.settled, top.Node)
		s.work.Steps++
		s.expand(&t, top.Node, top.Key)
		if top.Key >= own.cost {
			if ahead++; ahead == mostAhead {
				t = target{cost: top.Key}
				break
			}
		}
		if s.tires() {
			t = s.collect(1)
			break
		}
	}
	s.ended()
	if !t.found && !own.found {
		return false
	}
	s.watch(t.cost)
	for _, u := range s.settled {
		if p := t.cost - s.nodes[u].label; p > s.price[u] {
			s.price[u] = p
			s.dearer.add(u)
		}
	}
	s.end(v, t, own)
	return true
}

// end sends excess of v to where its search ended: t, or own if that costs no more.
func (s *Solver) end(v int32, t target, own wait) {
	if own.found && own.cost <= t.cost {
		s.pass(v, own.arc)
	} else {
		s.sendForward(v, t)
	}
}

// leave starts a search from source v, and renews the bounds of v on the way. It returns the cheapest wait of
// v, which ends the search and is no part of it. If v has no flow yet, the search goes on to that cost plus
// beyond.
func (s *Solver) leave(v int32, beyond int64) (target, wait) {
	t, own := target{cost: far}, wait{cost: far}
	p := &s.payers[v]
	p.first, p.second, p.best = far, far, none
	p.seen, p.label, p.via = s.search, 0, none
	out := s.net.Out(flowgraph.NodeID(v))
	s.work.Units += int64(len(out))
	cheapest, least := 0, far
	for i, ref := range out {
		a, w := int32(ref.Arc), int32(ref.Node)
		if !s.hasRoom(a) {
			continue
		}
		value := int64(ref.Cost) + s.price[w]
		if s.kinds[w] != isHub {
			p.loosen(a, value)
		}
		if value < own.cost && s.absorbs(w) {
			own = wait{value, a, true}
		}
		if value < least {
			cheapest, least = i, value
		}
	}
	s.publish(v)
	if own.found {
		if t.cost = own.cost; p.count == 0 {
			t.cost += beyond
		}
	}
	// First the cheapest, which if it has an exit spares the others.
	if least < t.cost {
		if ref := out[cheapest]; !s.absorbs(int32(ref.Node)) {
			s.reach(&t, int32(ref.Node), none, int64(ref.Cost), int32(ref.Arc), none)
		}
	}
	for _, ref := range out {
		a, w := int32(ref.Arc), int32(ref.Node)
		if int64(ref.Cost)+s.price[w] < t.cost && s.hasRoom(a) && !s.absorbs(w) {
			s.reach(&t, w, none, int64(ref.Cost), a, none)
		}
	}
	return t, own
}

// reach labels w with a path of the given cost that comes from node last over
// arc over, having taken flow off arc through if a source lies between.
func (s *Solver) reach(t *target, w, last int32, label int64, over, through int32) {
	if w == s.ground {
		if label < t.cost {
			t.set(label, last, over, through)
		}
		return
	}
	key := label + s.price[w]
	if key >= t.cost {
		return
	}
	x := &s.nodes[w]
	if x.seen == s.search && label >= x.label {
		return
	}
	x.seen, x.label, x.over, x.through = s.search, label, over, through
	if s.excess[w] < 0 || s.collectors.has(w) {
		t.set(key, w, none, none)
		return
	}
	if x.exit < far && label+x.exit < t.cost {
		t.set(label+x.exit, w, x.exitArc, none)
		if key >= t.cost {
			return
		}
	}
	s.queue.Push(radixheap.Item{Key: key, Node: w})
}

// expand steps from v, which is settled at the given key, to all its residual
// successors.
func (s *Solver) expand(t *target, v int32, key int64) {
	x := &s.nodes[v]
	label := x.label
	s.work.Units += int64(len(x.in) + len(x.held))
	if x.forks > 0 {
		out := s.net.Out(flowgraph.NodeID(v))
		s.work.Units += int64(len(out))
		for _, ref := range out {
			if w := int32(ref.Node); w != s.ground && s.hasRoom(int32(ref.Arc)) {
				s.reach(t, w, v, label+int64(ref.Cost), int32(ref.Arc), none)
			}
		}
	}
	for _, a := range x.in {
		if !s.hasLoad(a) {
			continue
		}
		if r := &s.arcs[a]; r.tail != s.ground {
			s.reach(t, r.tail, v, label-r.cost, a, none)
		}
	}
	for i := range x.held {
		h := &x.held[i]
		base := label - h.cost
		if base+h.rest >= t.cost {
			continue
		}
		if h.rest > -far {
			s.queue.Push(radixheap.Item{Key: max(base+h.rest, key), Node: h.from})
			continue
		}
		p := &s.payers[h.from]
		if bound := base + p.without(h.arc); bound < t.cost && p.improves(s.search, base) {
			p.seen, p.label, p.via = s.search, base, h.arc
			s.queue.Push(radixheap.Item{Key: max(bound, key), Node: h.from})
		}
	}
	for _, b := range s.hubs {
		if b.node == v {
			continue
		}
		if m := b.best(s, v); m.gain < far {
			s.reach(t, b.node, v, label+m.gain, m.to, m.from)
		}
	}
}

// open steps over a source, whose turn it is, to its other heads and renews its
// bounds.
func (s *Solver) open(t *target, source int32) {
	p := &s.payers[source]
	var base int64
	var via, v int32
	if p.count == 1 {
		via, v = p.arc, p.head
		base = s.nodes[v].label - p.cost
	} else {
		base, via = p.label, p.via
		if via == none {
			return // opened before
		}
		p.via = none
		v = s.arcs[via].head
	}
	p.first, p.second, p.best = far, far, none
	out := s.net.Out(flowgraph.NodeID(source))
	s.work.Units += int64(len(out))
	for _, ref := range out {
		w := int32(ref.Node)
		value := int64(ref.Cost) + s.price[w]
		if value >= p.second && base+value >= t.cost || s.kinds[w] == isHub {
			continue
		}
		// Of a source that holds one arc only, the others are empty. If one
		// bears nothing at all the bound is lower than need be.
		a := int32(ref.Arc)
		if p.count > 1 && !s.hasRoom(a) {
			continue
		}
		p.loosen(a, value)
		if a != via && base+value < t.cost && s.nodes[w].improves(s.search, base+int64(ref.Cost)) && s.hasRoom(a) {
			s.reach(t, w, v, base+int64(ref.Cost), a, via)
		}
	}
	s.publish(source)
}

// absorbs tells whether what comes to w at its price goes on to the ground.
func (s *Solver) absorbs(w int32) bool {
	return w == s.ground || s.passable.has(w) && s.price[w] == s.nodes[w].exit
}

// passesOn tells whether w lacks units, or an arc takes on to the ground what comes to w at its price.
func (s *Solver) passesOn(w int32) bool {
	if w == s.ground || s.excess[w] < 0 {
		return true
	}
	x := &s.nodes[w]
	return x.exit == s.price[w] && s.arcs[x.exitArc].tail == w
}

// pass sends excess of source v over arc a, whose head passes some of it on.
func (s *Solver) pass(v, a int32) {
	amount := min(s.excess[v], s.room(a))
	w := s.arcs[a].head
	switch lack := -s.excess[w]; {
	case w == s.ground:
	case lack > 0:
		amount = min(amount, lack)
	default:
		exit := s.nodes[w].exitArc
		amount = min(amount, s.room(exit))
		s.addFlow(exit, amount)
		w = s.ground
	}
	s.addFlow(a, amount)
	s.excess[v] -= amount
	s.excess[w] += amount
}

// sendForward moves as much as the path from v to t bears.
func (s *Solver) sendForward(v int32, t target) {
	amount := s.excess[v]
	if t.over != none {
		if t.node == none || s.arc(t.over).head == s.ground {
			amount = min(amount, s.room(t.over))
		} else {
			amount = min(amount, s.load(t.over))
		}
		if t.through != none {
			amount = min(amount, s.load(t.through))
		}
	} else {
		amount = min(amount, s.takes(t.node, 1))
	}
	for w := t.node; w != none && w != v; {
		x := &s.nodes[w]
		if s.arc(x.over).head == w {
			amount = min(amount, s.room(x.over))
		} else {
			amount = min(amount, s.load(x.over))
		}
		if x.through != none {
			amount = min(amount, s.load(x.through))
		}
		w = s.back(w)
	}
	end := s.ground
	if t.over == none {
		end = t.node
	} else {
		if t.through != none {
			s.addFlow(t.through, -amount)
		}
		if t.node == none || s.arc(t.over).head == s.ground {
			s.addFlow(t.over, amount)
		} else {
			s.addFlow(t.over, -amount)
		}
	}
	for w := t.node; w != none && w != v; {
		x := &s.nodes[w]
		prev := s.back(w)
		if x.through != none {
			s.addFlow(x.through, -amount)
		}
		if s.arc(x.over).head == w {
			s.addFlow(x.over, amount)
		} else {
			s.addFlow(x.over, -amount)
		}
		w = prev
	}
	s.excess[v] -= amount
	s.excess[end] += amount
}

// back returns the node before w on its path.
func (s *Solver) back(w int32) int32 {
	x := &s.nodes[w]
	if x.through != none {
		return s.arcs[x.through].head
	}
	r := s.arc(x.over)
	if r.head == w {
		return r.tail
	}
	return r.head
}

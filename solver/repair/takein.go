package repair

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver"
)

// reset forgets everything but the flow that the caller knows of, and chooses the ground.
func (s *Solver) reset(n *flowgraph.Network) {
	fresh := Solver{net: n, batch: 1, ground: none, hubDegree: s.hubDegree, stamina: s.stamina, few: s.few, patience: s.patience, work: s.work}
	least := int64(0)
	for v := range n.NodeBound() {
		id := flowgraph.NodeID(v)
		if n.NodeAlive(id) && (fresh.ground == none || n.Supply(id) < least) {
			fresh.ground, least = int32(v), n.Supply(id)
		}
	}
	old := s.arcs
	same := n == s.net
	// Flow moved since the last optimum is known to the caller as it was then.
	for i := len(s.moved) - 1; same && i >= 0; i-- {
		old[s.moved[i].arc].flow = s.moved[i].flow
	}
	*s = fresh
	s.grow()
	for a := range old {
		if same && old[a].flow != 0 {
			s.arcs[a].stamp = s.batch
			s.moved = append(s.moved, movement{flow: old[a].flow, arc: int32(a), list: true})
		}
	}
}

func (s *Solver) grow() {
	n := s.net
	if k := n.ArcBound(); k > len(s.arcs) {
		s.arcs = extend(s.arcs, k)
		words := (k + 63) / 64
		s.recorded = extend(s.recorded, words)
		s.full = extend(s.full, words)
		s.loaded = extend(s.loaded, words)
		s.idle = extend(s.idle, words)
	}
	if k := n.NodeBound(); k > len(s.kinds) {
		s.kinds = extend(s.kinds, k)
		s.supply = extend(s.supply, k)
		s.excess = extend(s.excess, k)
		s.price = extend(s.price, k)
		s.payers = extend(s.payers, k)
		s.second = extend(s.second, k)
		s.raised = extend(s.raised, k)
		s.nodes = extend(s.nodes, k)
		s.passable = extend(s.passable, (k+63)/64)
		s.courts.of = extend(s.courts.of, k)
		s.forest.stems = extend(s.forest.stems, k)
		s.collectors.grow(k)
		s.pending.grow(k)
		s.dearer.grow(k)
		s.cheaper.grow(k)
		s.suspect.grow(k)
		for _, b := range s.hubs {
			b.grow(k)
		}
	}
}

// takeIn brings the copy up to date. The flow becomes one that is optimal for what nodes then lack or have
// too much. It reports false if prices do not settle.
func (s *Solver) takeIn() bool {
	s.sync()
	if !s.settle() {
		return false
	}
	for _, v := range s.pending.list {
		if s.excess[v] < 0 && s.kinds[v] == isSource {
			s.lookAgain(v)
		}
	}
	for next := range blocks(s.dirty) {
		s.askForValues(next)
		for _, v := range next {
			s.compare(v)
		}
	}
	s.dirty = s.dirty[:0]
	return true
}

// sync brings the copy up to date, and the flow within bounds.
func (s *Solver) sync() {
	since := s.seq
	touched, next, complete := s.net.Changes(since)
	changed := len(touched) > 0 || !complete
	if changed {
		s.interrupt()
		s.courts.forget()
		if len(s.moved) > 2*len(s.arcs)+64 {
			s.thin()
		}
	}
	s.seq = next
	s.grow()
	if changed {
		// Prices that searches moved which found no way, or were interrupted.
		s.tell(1)
		s.tell(-1)
	}
	s.node(s.ground)
	s.promote(s.ground)
	switch {
	case s.sized == 0:
		s.takeAll()
		s.work.Touched = int64(s.net.NumArcs() + s.net.NumNodes())
	case complete:
		s.sift(touched)
		s.takeFormer(since)
		s.takeNodes()
		s.setArcs(since)
		s.work.Touched = int64(len(touched))
	default:
		for a := range s.arcs {
			if a := int32(a); s.recorded.has(a) && !s.same(a) {
				s.dropArc(a)
			}
		}
		for v := range s.kinds {
			s.node(int32(v))
		}
		for a := range s.arcs {
			s.setArc(int32(a), since)
		}
		s.work.Touched = int64(len(s.arcs) + len(s.kinds))
	}
	s.takePrices()
	s.work.Units += s.work.Touched
	if m := s.net.NumArcs(); m > s.sized+s.sized/4 {
		s.sized = m
		s.findHubs()
	}
}

// thin keeps of moved only the first entry of each arc. There are more where arcs come and go and no call
// finds an optimum.
func (s *Solver) thin() {
	k := 0
	for _, m := range s.moved {
		if !s.idle.has(m.arc) {
			s.idle.set(m.arc, true)
			s.moved[k] = movement{flow: m.flow, arc: m.arc, list: true}
			k++
		}
	}
	s.moved = s.moved[:k]
	clear(s.idle)
}

// takeAll takes in a whole network where nothing was before.
func (s *Solver) takeAll() {
	n := s.net
	for v := range s.kinds {
		s.node(int32(v))
		if id := flowgraph.NodeID(v); n.NodeAlive(id) && len(n.In(id)) > 0 {
			s.kinds[v] = isCore
		}
	}
	for a := range s.arcs {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 || s.recorded.has(int32(a)) {
			continue // none, or of a node that was promoted
		}
		if s.kinds[d.Tail] == isSource && d.Lower == 0 {
			s.full.set(int32(a), d.Upper == 0)
			continue
		}
		s.record(int32(a))
		if r := &s.arcs[a]; s.kinds[r.tail] >= isCore {
			if r.tail != r.head {
				s.enlist(int32(a))
			}
			s.suspectArc(int32(a))
		}
		if d.Lower > 0 {
			s.force(int32(a), d.Lower)
		}
	}
	ground := flowgraph.NodeID(s.ground)
	for _, refs := range [][]flowgraph.Ref{n.In(ground), n.Out(ground)} {
		for _, ref := range refs {
			if s.kinds[ref.Node] >= isCore {
				s.findExit(int32(ref.Node))
			}
		}
	}
}

// beside is how many sources a node may hold flow of for a new arc to look there.
const beside = 64

// sift splits what was touched into nodes, arcs that have a record, and other arcs. Few arcs have one. Which
// cannot be foreseen, so there is no branch for that.
func (s *Solver) sift(touched []flowgraph.Change) {
	s.touched = s.touched[:0]
	s.former, s.fresh = extend(s.former[:0], len(touched)), extend(s.fresh[:0], len(touched))
	k, l := 0, 0
	for _, c := range touched {
		if v, ok := c.Node(); ok {
			s.touched = append(s.touched, int32(v))
			continue
		}
		s.former[k], s.fresh[l] = int32(c), int32(c)
		if s.recorded.has(int32(c)) {
			k++
		} else {
			l++
		}
	}
	s.former, s.fresh = s.former[:k], s.fresh[:l]
}

// takeFormer deals with touched arcs that have a record. It takes out those that are no longer the same. It
// takes in those of sources of which only the cost changed: there are very many where waiting gets dearer for
// all. The rest joins the arcs without a record.
func (s *Solver) takeFormer(since flowgraph.Seq) {
	for next := range blocks(s.former) {
		prefetch.Each(s.arcs, next, &next[0])
		flowgraph.AskForArcs(s.net, next, &next[0])
		s.gone, s.kept = s.gone[:0], s.kept[:0]
		for _, a := range next {
			if s.same(a) {
				s.kept = append(s.kept, a)
			} else {
				s.gone = append(s.gone, a)
			}
		}
		s.askForPrices(s.kept)
		s.askForGone(s.gone)
		for _, a := range s.kept {
			if !s.follow(a, since) {
				s.fresh = append(s.fresh, a)
			}
		}
		for _, a := range s.gone {
			if s.recorded.has(a) { // not listed twice
				s.dropArc(a)
			}
			if s.net.ArcAlive(flowgraph.ArcID(a)) {
				s.fresh = append(s.fresh, a)
			}
		}
	}
}

// same tells whether a, which has a record, is still the same arc or one alike.
func (s *Solver) same(a int32) bool {
	r, d := &s.arcs[a], s.net.Arc(flowgraph.ArcID(a))
	return int32(d.Tail) == r.tail && int32(d.Head) == r.head
}

// askForGone asks for what dropArc needs beside the records of arcs.
func (s *Solver) askForGone(arcs []int32) {
	if len(arcs) == 0 {
		return
	}
	tails, heads := s.tails[:0], s.others[:0]
	for _, a := range arcs {
		r := &s.arcs[a]
		if k := len(tails); k == 0 || r.tail != tails[k-1] {
			tails = append(tails, r.tail)
		}
		heads = append(heads, r.head)
	}
	s.tails, s.others = tails, heads
	s.askForSources(tails)
	prefetch.Each(s.excess, heads, &heads[0])
	prefetch.Each(s.nodes, heads, &heads[0])
	for _, b := range s.hubs {
		prefetch.Each(b.moves, heads, &heads[0])
	}
	for _, a := range arcs {
		r := &s.arcs[a]
		if held := s.nodes[r.head].held; int(r.pos) < len(held) {
			prefetch.Line(&held[r.pos])
			prefetch.Line(&held[len(held)-1])
		}
	}
	for _, a := range arcs {
		r := &s.arcs[a]
		x := &s.nodes[r.head]
		if int(r.pos) < len(x.held) {
			last := &x.held[len(x.held)-1]
			prefetch.Line(&s.arcs[last.arc])
			prefetch.Line(&s.payers[last.from])
		}
		if x.entryArc != none {
			prefetch.Line(&s.arcs[x.entryArc])
		}
	}
}

// follow takes in the cost of a, which is the same arc or one alike. It does so only if a is a source's and
// nothing else of it can have changed.
func (s *Solver) follow(a int32, since flowgraph.Seq) bool {
	r, d := &s.arcs[a], s.net.Arc(flowgraph.ArcID(a))
	if s.payers[r.tail].count <= 0 && s.kinds[r.tail] != isSource || r.lower != d.Lower || r.upper != d.Upper || s.net.AddedSince(flowgraph.ArcID(a), since) {
		return false
	}
	if old := r.cost; old != int64(d.Cost) {
		r.cost = int64(d.Cost)
		s.objective.AddMul(r.cost-old, r.flow)
		if r.flow > r.lower {
			s.rise = max(r.cost-old, s.rise-(s.rise+31)/32)
		}
		s.takePrice(a)
	}
	return true
}

// askForSources asks for what is known of sources.
func (s *Solver) askForSources(nodes []int32) {
	if len(nodes) == 0 {
		return
	}
	first := &nodes[0]
	prefetch.Each(s.payers, nodes, first)
	prefetch.Each(s.kinds, nodes, first)
	prefetch.Each(s.excess, nodes, first)
	prefetch.Each(s.price, nodes, first)
	prefetch.Each(s.second, nodes, first)
	prefetch.Each(s.pending.on, nodes, first)
	for _, b := range s.hubs {
		prefetch.Each(b.ways, nodes, first)
	}
}

// dropArc takes out a, which has a record but is no longer the same arc, with its flow.
func (s *Solver) dropArc(a int32) {
	r := &s.arcs[a]
	if s.kinds[r.head] == isHub {
		b := s.hubOf(r.head)
		b.lost(r.tail, a)
		s.renewLater(b, r.tail)
	}
	if s.kinds[r.tail] == isSource && r.flow == 0 && r.lower == 0 && r.stamp != s.batch {
		s.erase(a)
		return
	}
	r.stamp = s.batch
	s.moved = append(s.moved, movement{flow: r.flow, arc: a, list: true})
	flow, tail, head := r.flow, r.tail, r.head
	s.excess[tail] += flow
	s.pending.add(tail)
	s.objective.AddMul(r.cost, -flow)
	if s.kinds[tail] == isSource {
		s.vacate(head, flow)
	} else {
		s.excess[head] -= flow
		s.pending.add(head)
	}
	if tail != head {
		if s.kinds[tail] != isSource {
			s.unlist(a)
		} else if r.flow > r.lower {
			s.release(a)
		}
	}
	s.erase(a)
	if s.kinds[tail] == isSource {
		return
	}
	if head == s.ground {
		s.findExit(tail)
	} else if tail == s.ground {
		s.findExit(head)
	}
}

// vacate takes in that v lacks what came to it. No search is needed if the ground pays its price for that.
func (s *Solver) vacate(v int32, amount int64) {
	if x := &s.nodes[v]; x.entry == -s.price[v] && s.arcs[x.entryArc].tail == v {
		back := min(amount, s.load(x.entryArc))
		s.addFlow(x.entryArc, -back)
		s.excess[s.ground] -= back
		amount -= back
	}
	if amount > 0 {
		s.excess[v] -= amount
		s.pending.add(v)
	}
}

// erase forgets a, without flow or with flow that was taken off.
func (s *Solver) erase(a int32) {
	r := &s.arcs[a]
	s.recorded.set(a, false)
	if r.flow > r.lower {
		s.loaded.set(a, false)
	}
	if r.flow >= r.upper {
		s.full.set(a, false)
	}
	r.cost, r.lower, r.upper, r.flow = 0, 0, 0, 0
	r.tail, r.head, r.pos = 0, 0, 0
}

// takeNodes takes in the nodes that were touched.
func (s *Solver) takeNodes() {
	for next := range blocks(s.touched) {
		flowgraph.AskForNodes(s.net, next, &next[0])
		prefetch.Each(s.supply, next, &next[0])
		s.askForSources(next)
		for _, v := range next {
			s.node(v)
		}
		for _, v := range next {
			if s.isNew(v) {
				s.askForOut(v)
			}
		}
		for _, v := range next {
			if s.isNew(v) {
				s.greet(v)
			}
		}
	}
}

// isNew tells whether v is a source that has no flow yet.
func (s *Solver) isNew(v int32) bool { return s.kinds[v] == isSource && s.payers[v].count == 0 }

// greet lists as idle the arcs of v, which is new, of which nothing need be known: they may be empty, have
// room and lead to no hub. Of these not even the network's records are read.
func (s *Solver) greet(v int32) {
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		if a := int32(ref.Arc); s.kinds[ref.Node] == isCore && s.net.Open(ref.Arc) && !s.recorded.has(a) && !s.full.has(a) {
			s.idle.set(a, true)
		}
	}
}

// node takes in the existence and the supply of v.
func (s *Solver) node(v int32) {
	if s.kinds[v] >= isCore {
		x := &s.nodes[v]
		x.held, x.in = s.holdings.trim(x.held), s.inward.trim(x.in)
	}
	if !s.net.NodeAlive(flowgraph.NodeID(v)) {
		if s.kinds[v] == isHub {
			s.hubs = slices.DeleteFunc(s.hubs, func(b *hub) bool { return b.node == v })
		}
		if s.kinds[v] != absent {
			// Its arcs are gone, so what is left is the supply.
			s.kinds[v], s.supply[v], s.excess[v], s.price[v] = absent, 0, 0, 0
			s.payers[v], s.second[v] = payer{}, 0
		}
		return
	}
	if s.kinds[v] == absent {
		s.kinds[v] = isSource
		x := &s.nodes[v]
		x.exit, x.entry, x.exitArc, x.entryArc = far, far, none, none
	}
	supply := s.net.Supply(flowgraph.NodeID(v))
	if supply != s.supply[v] {
		s.excess[v] += supply - s.supply[v]
		s.supply[v] = supply
		s.pending.add(v)
	}
	if supply < 0 {
		s.promote(v)
		s.misplaced = s.misplaced || supply/4 < min(s.supply[s.ground], -16)
	}
}

// promote makes a source a node that paths may enter.
func (s *Solver) promote(v int32) {
	if s.kinds[v] != isSource {
		return
	}
	s.payers[v], s.second[v] = payer{}, 0 // first: what it is about to lose is no longer its
	price := far
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		if s.net.Lower(ref.Arc) > 0 && !s.recorded.has(int32(ref.Arc)) || int32(ref.Node) == v {
			continue // not taken in yet
		}
		r := s.arc(int32(ref.Arc))
		if r.flow < r.upper {
			price = min(price, r.cost+s.price[r.head])
		}
		if r.flow > r.lower {
			s.release(int32(ref.Arc))
		}
	}
	s.kinds[v] = isCore
	for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
		if r := &s.arcs[ref.Arc]; s.recorded.has(int32(ref.Arc)) && r.tail != r.head {
			s.enlist(int32(ref.Arc))
			s.deriveExit(r)
		}
	}
	if v == s.ground || price == far {
		price = 0
	}
	s.price[v] = price
	s.suspect.add(v)
}

// enlist puts a into the list of arcs in at its head.
func (s *Solver) enlist(a int32) {
	r := &s.arcs[a]
	x := &s.nodes[r.head]
	r.pos = int32(len(x.in))
	if len(x.in) == cap(x.in) {
		x.in = s.inward.grow(x.in)
	}
	x.in = append(x.in, a)
	if r.head != s.ground {
		s.nodes[r.tail].forks++
	}
}

// setArcs takes in the bounds and costs of touched arcs that are not idle and not yet taken in.
func (s *Solver) setArcs(since flowgraph.Seq) {
	k := 0
	for _, a := range s.fresh {
		s.fresh[k] = a
		if !s.idle.has(a) {
			k++
		}
	}
	s.fresh = s.fresh[:k]
	clear(s.idle)
	for next := range blocks(s.fresh) {
		s.askForTails(next)
		rest := s.others[:0]
		for _, a := range next {
			d := s.net.Arc(flowgraph.ArcID(a))
			if d.Tail < 0 {
				continue
			}
			if s.kinds[d.Tail] == isSource && s.kinds[d.Head] == isCore && s.payers[d.Tail].count == 0 && d.Lower == 0 && !s.recorded.has(a) {
				s.full.set(a, d.Upper == 0)
				continue
			}
			rest = append(rest, a)
		}
		s.others = rest
		if len(rest) == 0 {
			continue
		}
		s.askForArcs(rest)
		for _, a := range rest {
			s.setArc(a, since)
		}
	}
}

// askForTails asks for what tells how to take in arcs.
func (s *Solver) askForTails(arcs []int32) {
	flowgraph.AskForArcs(s.net, arcs, &arcs[0])
	line := none
	for _, a := range arcs {
		if a>>9 != line {
			line = a >> 9
			s.askForBits(a)
		}
	}
	tails := s.tails[:0]
	for _, a := range arcs {
		v := int32(s.net.Arc(flowgraph.ArcID(a)).Tail)
		if k := len(tails); v >= 0 && (k == 0 || v != tails[k-1]) {
			tails = append(tails, v)
		}
	}
	s.tails = tails
	if len(tails) > 0 {
		prefetch.Each(s.payers, tails, &tails[0])
		prefetch.Each(s.kinds, tails, &tails[0])
	}
}

// askForArcs asks for what setArc needs beside.
func (s *Solver) askForArcs(arcs []int32) {
	prefetch.Each(s.arcs, arcs, &arcs[0])
	tails := s.tails[:0]
	for _, a := range arcs {
		if v := int32(s.net.Arc(flowgraph.ArcID(a)).Tail); len(tails) == 0 || v != tails[len(tails)-1] {
			tails = append(tails, v)
		}
	}
	s.tails = tails
	s.askForSources(tails)
}

// askForBits asks for what is known of a by its bits.
func (s *Solver) askForBits(a int32) {
	prefetch.Line(&s.recorded[uint32(a)>>6])
	prefetch.Line(&s.full[uint32(a)>>6])
}

// setArc takes in the bounds and cost of a, which may be new.
func (s *Solver) setArc(a int32, since flowgraph.Seq) {
	d := s.net.Arc(flowgraph.ArcID(a))
	if d.Tail < 0 {
		return
	}
	if s.kinds[d.Head] == isSource {
		s.promote(int32(d.Head))
	}
	if !s.recorded.has(a) && s.kinds[d.Tail] == isSource && d.Lower == 0 {
		s.offered(a, d)
		return
	}
	r := &s.arcs[a]
	if !s.recorded.has(a) {
		s.record(a)
		r.lower, r.upper = 0, 0
		s.mark(a)
		if r.tail != r.head && s.kinds[r.tail] >= isCore {
			s.enlist(a)
		}
	} else if (r.flow != 0 || r.stamp == s.batch) && s.net.AddedSince(flowgraph.ArcID(a), since) {
		// It was removed and added alike, and may have lost its flow to another since.
		r.stamp = s.batch
		s.moved = append(s.moved, movement{flow: r.flow, arc: a, list: true})
	}
	if r.cost == int64(d.Cost) && r.lower == d.Lower && r.upper == d.Upper {
		return
	}
	// Withdrawing what no longer fits, or adding what must flow.
	held, bounds := r.flow > r.lower, r.lower != d.Lower || r.upper != d.Upper
	s.objective.AddMul(int64(d.Cost)-r.cost, r.flow)
	r.cost, r.lower, r.upper = int64(d.Cost), d.Lower, d.Upper
	if !bounds && s.kinds[r.tail] == isSource {
		s.repriced = append(s.repriced, a)
		return
	}
	s.derive(a, held, r.flow >= r.upper)
	if x := min(max(r.flow, r.lower), r.upper) - r.flow; x != 0 {
		s.force(a, x)
	}
	if s.kinds[r.tail] == isSource {
		if !held && r.flow > r.lower {
			s.lookAgain(r.tail) // its bounds may know nothing of arcs that were idle
		}
		s.drawBeside(a)
		s.repriced = append(s.repriced, a)
		return
	}
	s.deriveExit(r)
	s.suspectArc(a)
}

// offered takes in an arc of a source without a record. Anything of it may be new. It does not matter to a
// source that has no flow to move.
func (s *Solver) offered(a int32, d flowgraph.Arc) {
	v := int32(d.Tail)
	s.full.set(a, d.Upper == 0)
	if s.kinds[d.Head] == isHub {
		b := s.hubOf(int32(d.Head))
		b.found(s, a)
		s.renewLater(b, v)
		return
	}
	p := &s.payers[v]
	if p.count == 0 || d.Upper == 0 {
		return
	}
	value := int64(d.Cost) + s.price[d.Head]
	p.loosen(a, value)
	s.publish(v)
	if value >= s.price[v] {
		return
	}
	if s.drawBeside(a); s.hasRoom(a) {
		s.lookAgain(v)
	}
}

// drawBeside moves flow of a source to arc a from dearer arcs between the same nodes, the dearest first, as
// when running tasks get an arc of their own. Nothing else is touched.
func (s *Solver) drawBeside(a int32) {
	d := s.net.Arc(flowgraph.ArcID(a))
	if p := &s.payers[d.Tail]; p.count == 0 || p.count == 1 && p.head != int32(d.Head) {
		return
	}
	for s.hasRoom(a) {
		from, most := none, int64(d.Cost)
		held := s.nodes[d.Head].held
		if len(held) > beside {
			return
		}
		for i := range held {
			if h := &held[i]; h.from == int32(d.Tail) && h.arc != a && h.cost > most {
				from, most = h.arc, h.cost
			}
		}
		if from == none {
			return
		}
		amount := min(s.load(from), s.room(a))
		s.addFlow(from, -amount)
		s.addFlow(a, amount)
		s.repriced = append(s.repriced, from) // it has room now
	}
}

func (s *Solver) suspectArc(a int32) {
	s.todo = append(s.todo, a)
}

// force adds flow to a, whatever its ends say.
func (s *Solver) force(a int32, amount int64) {
	r := s.arc(a)
	s.addFlow(a, amount)
	s.excess[r.tail] -= amount
	s.excess[r.head] += amount
	s.pending.add(r.tail)
	s.pending.add(r.head)
}

// Adopt takes over an optimal solution of n found by another solver, so that the
// next call of Solve starts from it. O(nodes + arcs).
func (s *Solver) Adopt(n *flowgraph.Network, found solver.Solution) {
	if n != s.net || s.seq == 0 || !n.NodeAlive(flowgraph.NodeID(s.ground)) {
		s.reset(n)
	}
	s.interrupt()
	s.sync()
	shift := int64(found.Potential(flowgraph.NodeID(s.ground)))
	for v, k := range s.kinds {
		if k >= isCore {
			s.price[v] = shift - int64(found.Potential(flowgraph.NodeID(v)))
		}
	}
	for a := range s.arcs {
		if id := flowgraph.ArcID(a); n.ArcAlive(id) {
			if x := found.Flow(id) - s.arcs[a].flow; x != 0 {
				s.force(int32(a), x)
			}
		}
	}
	s.todo = s.todo[:0]
	s.suspect.clear()
	s.dirty = s.dirty[:0]
	for v, k := range s.kinds {
		if k == isSource {
			s.compare(int32(v))
		}
	}
}

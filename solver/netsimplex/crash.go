package netsimplex

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// crash chooses the first basis. Where most arcs have room for all flow, it is one of cheapest paths to the
// ends. Where all flow ends at one node, it is one of what sources choose one after the other, or one of paths
// to the end, unless most flow would wait on it. Elsewhere, and for nodes without a path, artificial arcs do:
// pivots between trees that are deep from the beginning cost what they spare. It returns the one end if flow on paths to it may not fit, else none.
func (s *simplex[C]) crash() int32 {
	if s.byDistance() {
		return none
	}
	end := s.onlyEnd()
	if end != none && s.layered() && s.bySources(end) {
		return end
	}
	if end != none && (!s.pays() || !s.byOrder(end)) {
		if s.byBreadth(end); s.waits(end) {
			s.abandon()
			return none
		}
	}
	return end
}

// open has the cheapest arc from a source to each end enter first, where there are several ends. Nearly all
// is done then if most of these arcs are wanted in the end, as in assignment (the column minimum start of F.
// Glover, D. Karney, D. Klingman and A. Napier, A computation study on start procedures, basis change
// criteria, and solution algorithms for transportation problems, Management Science 20, 1974). It leaves out
// arcs that are dearer than another arc by which the source may reach ends through other nodes. The dearer
// one is the price of a way around, and would have to be left again.
func (s *simplex[C]) open() {
	const unknown = math.MinInt64
	through := s.need // of a source: what its cheapest arc to another node than an end costs
	for v := range s.root {
		through[v] = unknown
	}
	for v := range s.root {
		if s.nodes[v].size == 0 || s.net.Supply(s.idAt[v]) >= 0 {
			continue
		}
		cheapest, least, from := flowgraph.NoArc, flowgraph.Cost(0), none
		for _, ref := range s.net.In(s.idAt[v]) {
			if (cheapest == flowgraph.NoArc || ref.Cost < least) && s.net.Supply(ref.Node) > 0 && s.net.Upper(ref.Arc) > 0 {
				cheapest, least, from = ref.Arc, ref.Cost, s.placeOf[ref.Node]
			}
		}
		if cheapest == flowgraph.NoArc {
			continue
		}
		if through[from] == unknown {
			through[from] = s.through(s.idAt[from])
		}
		if int64(least) <= through[from] {
			s.opening = append(s.opening, s.slotOf[cheapest])
		}
	}
}

// through returns the least cost of an open arc from v to a node that is no end, or MaxInt64.
func (s *simplex[C]) through(v flowgraph.NodeID) int64 {
	least := int64(math.MaxInt64)
	for _, ref := range s.net.Out(v) {
		if int64(ref.Cost) < least && s.net.Open(ref.Arc) && s.net.Supply(ref.Node) >= 0 {
			least = int64(ref.Cost)
		}
	}
	return least
}

// fewNodes: the simplex solves a smaller network in hardly longer than it takes to find its shortest paths. A
// variable for tests only.
var fewNodes = 1024

// hardly any is at most one in so many.
const hardly = 4

// byDistance chooses a forest of cheapest paths to the ends. It does so if no cost is negative, and hardly
// any arc, arc to an end, or path of the forest is too narrow for all flow. Else it reports false and has
// done nothing. Pivots later deal with what an end gets too much and others lack.
func (s *simplex[C]) byDistance() bool {
	nodes := s.net.NumNodes()
	if s.net.NegativeArcs() > 0 || nodes < fewNodes {
		return false
	}
	var volume int64
	for v := range s.root {
		if s.nodes[v].size > 0 {
			volume += max(0, s.net.Supply(s.idAt[v]))
		}
	}
	wide := func(slot int32) bool { return s.bound(slot).width() >= volume }
	arcs, narrow := 0, 0
	for slot := range s.state {
		if width := s.bound(int32(slot)).width(); width > 0 {
			arcs++
			if width < volume {
				if narrow++; hardly*narrow > len(s.state) {
					return false
				}
			}
		}
	}
	if hardly*narrow > arcs {
		return false
	}
	var ends []int32
	fits := s.sibling
	clear(fits)
	arcs, narrow = 0, 0
	for v := range s.root {
		if s.nodes[v].size == 0 || s.net.Supply(s.idAt[v]) >= 0 {
			continue
		}
		fits[v] = 1
		ends = append(ends, v)
		for _, ref := range s.net.In(s.idAt[v]) {
			if s.net.Open(ref.Arc) {
				arcs++
				if !wide(s.slotOf[ref.Arc]) {
					narrow++
				}
			}
		}
	}
	if hardly*narrow > arcs {
		return false
	}
	narrow = 0
	return s.byPaths(ends, s.net.Open, func(v, slot int32) bool {
		if slot != none && wide(slot) {
			fits[v] = fits[s.slots[slot].head]
		}
		if fits[v] == 0 {
			narrow++
		}
		return hardly*narrow <= nodes
	})
}

// byPaths chooses a forest of cheapest paths over usable arcs, each node to its nearest end (Dijkstra's
// algorithm, Network Flows, §4.5). It tells passed of each node, and of the arc by which that leaves, or
// none. If passed says no, byPaths reports false and has done nothing.
func (s *simplex[C]) byPaths(ends []int32, usable func(flowgraph.ArcID) bool, passed func(v, slot int32) bool) bool {
	price, pred := s.need, s.child
	for v := range s.root {
		price[v], pred[v] = math.MaxInt64, none
	}
	var queue radixheap.Heap
	for _, v := range ends {
		price[v] = 0
		queue.Push(radixheap.Item{Node: v})
	}
	for queue.Len() > 0 {
		x := queue.Pop()
		v := x.Node
		if x.Key > price[v] {
			continue
		}
		if !passed(v, pred[v]) {
			return false
		}
		for _, ref := range s.net.In(s.idAt[v]) {
			u, through := s.placeOf[ref.Node], x.Key+int64(ref.Cost)
			if through < price[u] && usable(ref.Arc) {
				price[u], pred[u] = through, s.slotOf[ref.Arc]
				queue.Push(radixheap.Item{Key: through, Node: u})
			}
		}
	}
	for v := range s.root {
		if slot := pred[v]; slot != none {
			s.hang(v, s.slots[slot].head, slot)
		}
	}
	return true
}

// byBreadth chooses a tree of paths of few arcs to end. Each node leaves by the cheapest arc to a node passed
// before.
func (s *simplex[C]) byBreadth(end int32) {
	const unseen, queued, passed = 0, 1, 2
	stage, price, queue := s.child, s.need, append(s.sibling[:0], end)
	clear(stage)
	stage[end], price[end] = queued, 0
	for k := 0; k < len(queue); k++ {
		v := queue[k]
		stage[v] = passed
		for _, ref := range s.net.In(s.idAt[v]) {
			u, through := s.placeOf[ref.Node], price[v]+int64(ref.Cost)
			if stage[u] == passed || stage[u] == queued && through >= price[u] {
				continue
			}
			slot := s.slotOf[ref.Arc]
			if s.bound(slot).width() == 0 {
				continue
			}
			if stage[u] == queued {
				s.put(s.nodes[u].pred, atLower)
			} else {
				stage[u] = queued
				queue = append(queue, u)
			}
			price[u] = through
			s.hang(u, v, slot)
		}
	}
}

// byOrder chooses a tree of shortest paths to end, over arcs that have room for all that flows there, if the
// network is acyclic (Network Flows, §4.4). Else it reports false and has done nothing. It is for flow that
// runs for what it gains, as when a project is crashed: paths of few arcs would be the wrong ones.
func (s *simplex[C]) byOrder(end int32) bool {
	left, price, order := s.child, s.need, s.sibling[:0]
	for v := range s.root {
		if s.nodes[v].size > 0 {
			if left[v] = int32(len(s.net.Out(s.idAt[v]))); left[v] == 0 {
				order = append(order, v)
			}
		}
	}
	for k := 0; k < len(order); k++ {
		for _, ref := range s.net.In(s.idAt[order[k]]) {
			u := s.placeOf[ref.Node]
			if left[u]--; left[u] == 0 {
				order = append(order, u)
			}
		}
	}
	if len(order) < s.net.NumNodes() {
		return false
	}
	const far = math.MaxInt64
	demand := -s.net.Supply(s.idAt[end])
	for _, v := range order {
		t := &s.nodes[v]
		if price[v] = far; v == end {
			price[v] = 0
		}
		for _, ref := range s.net.Out(s.idAt[v]) {
			slot, toHead := s.slotOf[ref.Arc], price[s.placeOf[ref.Node]]
			if toHead == far || s.bound(slot).width() < demand {
				continue
			}
			if through := toHead + int64(ref.Cost); through < price[v] {
				price[v], t.parent, t.pred = through, s.placeOf[ref.Node], slot
			}
		}
		if t.pred != none {
			s.put(t.pred, inTree)
		}
	}
	return true
}

// layered tells whether most arcs leave sources that no arc enters, as those of classes do.
func (s *simplex[C]) layered() bool {
	arcs := 0
	for v := range s.root {
		if id := s.idAt[v]; s.nodes[v].size > 0 && len(s.net.In(id)) == 0 {
			arcs += len(s.net.Out(id))
		}
	}
	return 2*arcs >= s.net.NumArcs()
}

// byWidth chooses a tree of cheapest paths to end over arcs that have room for all that flows there. The tree
// fits wherever there are such paths.
func (s *simplex[C]) byWidth(end int32) {
	demand := -s.net.Supply(s.idAt[end])
	wide := func(a flowgraph.ArcID) bool { return s.bound(s.slotOf[a]).width() >= demand }
	s.byPaths([]int32{end}, wide, func(int32, int32) bool { return true })
}

// crowded tells whether more of the supply does not fit on the first tree than does, as where most sources
// like the same places best. Such a tree is worse than none. What would be placed at once if it came first
// has to make way for the rest.
func (s *simplex[C]) crowded() bool {
	var excess flowgraph.Int128
	for v := range s.root {
		if t := &s.nodes[v]; t.size > 0 && s.net.Supply(s.idAt[v]) > 0 {
			excess.Add(-s.net.Supply(s.idAt[v]))
		}
		if t := &s.nodes[v]; t.size > 0 && t.pred == none && t.up == flowgraph.Infinite {
			excess.AddMul(t.down, 2)
		}
	}
	return excess.Sign() > 0
}

// waits tells whether most of the supply goes straight to the end on the first tree although a cheaper arc
// leads elsewhere, as where tasks have a price of waiting. It does so only if most arcs to the end lie side
// by side, as where hosts are dearer the fuller they are. All that is to be placed would have to leave such a
// tree, which holds one of those arcs in turn with all that is behind it.
func (s *simplex[C]) waits(end int32) bool {
	into := s.net.In(s.idAt[end])
	last := s.child
	for i, ref := range into {
		last[s.placeOf[ref.Node]] = int32(i)
	}
	beside := 0
	for i, ref := range into {
		if last[s.placeOf[ref.Node]] != int32(i) {
			beside++
		}
	}
	if 2*beside < len(into) {
		return false
	}
	var waiting flowgraph.Int128
	for v := range s.root {
		if s.nodes[v].size == 0 {
			continue
		}
		supply := max(0, s.net.Supply(s.idAt[v]))
		if waiting.Add(-supply); supply > 0 && s.nodes[v].parent == end {
			cost := flowgraph.Cost(s.slots[s.nodes[v].pred].cost)
			saves := func(ref flowgraph.Ref) bool { return ref.Cost < cost && s.net.Open(ref.Arc) }
			if slices.ContainsFunc(s.net.Out(s.idAt[v]), saves) {
				waiting.AddMul(supply, 2)
			}
		}
	}
	return waiting.Sign() > 0
}

// onlyEnd returns the one node with demand, or none.
func (s *simplex[C]) onlyEnd() int32 {
	end := none
	for v := range s.root {
		if id := s.idAt[v]; s.net.NodeAlive(id) && s.net.Supply(id) < 0 {
			if end != none {
				return none
			}
			end = v
		}
	}
	return end
}

// bySources has the sources, one after the other, send what they have by the cheapest arcs to nodes from which
// arcs to the end have room, and makes a tree of that (the row minimum start of Glover et al., see open). A
// source hangs by the arc that it would take next, and a node that it filled hangs by the arc from it. So the
// node's price is what the source would pay before it went elsewhere, as in an auction (D. P. Bertsekas, The
// auction algorithm, Annals of Operations Research 14, 1988), and most prices are right at once. Whom a source
// hangs by is filled later than those that hang by it, if at all; so there is no cycle. If more than hardly any
// node is filled, and not just by those that nobody else would have come for, bySources reports false and has
// done nothing: the tree would be deep, and most of the flow have to be moved again, since those that come first
// take what others need more.
func (s *simplex[C]) bySources(end int32) bool {
	w := s.waysTo(end)
	for u := range s.root {
		if id := s.idAt[u]; s.nodes[u].size > 0 && len(s.net.In(id)) == 0 {
			s.send(u, s.net.Supply(id), w)
		}
		if hardly*w.full > w.nodes && seldom*w.missed > w.sources {
			s.abandon()
			return false
		}
	}
	return true
}

// seldom is at most once in so many times.
const seldom = 64

// ways is how nodes reach the end by one arc.
type ways struct {
	arcs []outlet // by node, then by cost
	next []int32  // by node: which of arcs takes the next unit
	open []way    // by node, and of the end: what that costs, and its room
	list []outlet // scratch
	// How many nodes there are that have an arc to the end, how many of them are filled, how many sources have
	// chosen, and how many of them found filled what was cheapest.
	nodes, full, sources, missed int
}

type outlet struct {
	cost int64
	arc  flowgraph.ArcID
	node int32
}

type way struct{ price, room int64 }

// waysTo hangs all nodes but sources that have an arc to the end by the cheapest.
func (s *simplex[C]) waysTo(end int32) *ways {
	w := &ways{next: s.child, open: make([]way, len(s.nodes))}
	for v := range w.open {
		w.open[v].price = math.MaxInt64 / 2 // dearer than any way
	}
	for _, ref := range s.net.In(s.idAt[end]) {
		if s.net.Open(ref.Arc) && len(s.net.In(ref.Node)) > 0 && s.placeOf[ref.Node] != end {
			w.arcs = append(w.arcs, outlet{int64(ref.Cost), ref.Arc, s.placeOf[ref.Node]})
		}
	}
	slices.SortFunc(w.arcs, func(a, b outlet) int { return cmp.Or(cmp.Compare(a.node, b.node), cheaper(a, b)) })
	for i, a := range w.arcs {
		if i == 0 || a.node != w.arcs[i-1].node {
			s.hang(a.node, end, s.slotOf[a.arc])
			w.next[a.node], w.open[a.node] = int32(i), way{a.cost, s.bound(s.slotOf[a.arc]).width()}
			w.nodes++
		}
	}
	w.open[end] = way{0, flowgraph.Infinite}
	return w
}

// send has u send what it has, and hangs it by its next choice.
func (s *simplex[C]) send(u int32, supply int64, w *ways) {
	for _, x := range s.choices(u, supply, w) {
		v, slot := x.node, s.slotOf[x.arc]
		switch {
		case w.open[v].room == 0: // filled by an arc beside
			continue
		case supply == 0:
			s.hang(u, v, slot)
			return
		}
		left, full := s.bound(slot).width(), false
		for supply > 0 && left > 0 && !full {
			amount := min(supply, left, w.open[v].room)
			supply -= amount
			left = room(amount, left)
			w.open[v].room = room(amount, w.open[v].room)
			full = w.open[v].room == 0 && !s.proceed(v, w)
		}
		switch {
		case full:
			w.full++
			s.put(s.nodes[v].pred, atUpper)
			s.hang(v, u, slot)
		case left > 0:
			s.hang(u, v, slot)
			return
		default:
			s.put(slot, atUpper)
		}
	}
}

// proceed has v use its next arc to the end, since the one before is full, and reports whether there is one.
func (s *simplex[C]) proceed(v int32, w *ways) bool {
	i := w.next[v] + 1
	if int(i) == len(w.arcs) || w.arcs[i].node != v {
		return false
	}
	a := w.arcs[i]
	s.put(s.nodes[v].pred, atUpper)
	s.hang(v, s.nodes[v].parent, s.slotOf[a.arc])
	w.next[v], w.open[v] = i, way{a.cost, s.bound(s.slotOf[a.arc]).width()}
	return true
}

// choices returns the cheapest ways by which u may send units, one more than it has units, cheapest first.
// They are valid until the next call.
func (s *simplex[C]) choices(u int32, units int64, w *ways) []outlet {
	if units <= 0 {
		return nil
	}
	refs := s.net.Out(s.idAt[u])
	most, below, filled := int(min(units, int64(len(refs))))+1, int64(math.MaxInt64), int64(math.MaxInt64)
	list := w.list[:0]
	keep := func() {
		slices.SortFunc(list, cheaper)
		if len(list) >= most {
			list = list[:most]
			below = list[most-1].cost
		}
	}
	for _, ref := range refs {
		v := s.placeOf[ref.Node]
		to := &w.open[v]
		cost := int64(ref.Cost) + to.price
		switch {
		case cost >= below || !s.net.Open(ref.Arc):
			continue
		case to.room == 0:
			filled = min(filled, cost)
			continue
		}
		if list = append(list, outlet{cost, ref.Arc, v}); len(list) == 2*most {
			keep()
		}
	}
	keep()
	w.list = list
	if w.sources++; len(list) > 0 && filled < list[0].cost {
		w.missed++
	}
	return list
}

func cheaper(a, b outlet) int {
	switch {
	case a.cost < b.cost:
		return -1
	case a.cost > b.cost:
		return 1
	}
	return cmp.Compare(a.arc, b.arc)
}

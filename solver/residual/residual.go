// Package residual lays a network out as residual arcs, those of a node side by side, for methods that
// start from prices: it keeps their flow between calls, and has them go on from what changed.
package residual

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

const none = int32(-1)

// Number is what costs and amounts of arcs are kept in.
type Number interface{ int32 | int64 }

// Arc is one direction of an arc. What the other direction has room for is
// Total − Room, at cost −Cost.
type Arc[N Number] struct {
	Cost, Room, Total N
	Head              int32
}

// Graph is what is known of a network whatever the width of numbers. The zero value, with Net set, has seen nothing.
type Graph struct {
	Net    *flowgraph.Network
	First  []int32 // by node: where its residual arcs begin; one more than nodes
	Back   []int32 // by residual arc: position of the other direction
	Excess []int64 // by node: supply and what comes, less what goes
	Limit  int64   // stands for no upper bound
	Degree int     // the most residual arcs of a node
	Failed bool    // set by the method: a price left its range

	busy    bool // a budget ran out on the way
	warm    bool // flow and prices are those of an optimum before changes
	work    solver.Work
	seq     flowgraph.Seq
	supply  []int64
	ends    []ends  // by arc
	old     []int64 // flow of the last optimal result, unknown where negative
	flow    []int64 // scratch of layOut, as is next
	next    []int32
	changed []flowgraph.ArcID
}

// ends tells whether an arc is still the same one.
type ends struct {
	tail, head int32
	place      int32 // of its forward direction
	lower      int64
}

// Arcs are the residual arcs of a Graph. The zero value is empty.
type Arcs[N Number] struct {
	List     []Arc[N]
	Exceeded bool // a number did not fit: all is void
}

// Flow returns the flow on a in the last optimal result. O(1).
func (g *Graph) Flow(a flowgraph.ArcID) int64 { return g.old[a] }

// Changed lists the arcs whose flow differs from the last optimal result.
func (g *Graph) Changed() []flowgraph.ArcID { return g.changed }

// Warm tells whether flow and prices are those of an optimum before changes.
func (g *Graph) Warm() bool { return g.warm }

// Forget has the next call of [Arcs.Solve] begin without flow and prices.
func (g *Graph) Forget() { g.seq, g.warm, g.Failed = 0, false, false }

// stale tells whether the network has changed since it was taken in.
func (g *Graph) stale() bool {
	_, next, _ := g.Net.Changes(g.seq)
	return next != g.seq
}

// Place returns where the forward direction of a live arc lies.
func (g *Graph) Place(a flowgraph.ArcID) int32 { return g.ends[a].place }

// Method is a way to an optimum.
type Method interface {
	// Fit makes room for what the method knows of the nodes; from a cold start it is to know nothing.
	Fit(cold bool)
	// Begin begins with the flow and the prices that there are, as they may be after changes.
	Begin(w *solver.Work)
	// Run goes on until the flow is optimal, or something else ends it. After [solver.BudgetSpent] it is called again.
	Run(budget solver.Budget, w *solver.Work) solver.Status
	// Potential returns π(v) of an optimum.
	Potential(v flowgraph.NodeID) flowgraph.Cost
}

// Solve takes in what changed and has the method, which works on these arcs, bring it to an optimum, or go on where its
// budget ran out if nothing did. It completes the result but for the solution. Where a number does not fit it stops: see
// Exceeded.
func (r *Arcs[N]) Solve(g *Graph, m Method, budget solver.Budget, out *solver.Result) {
	g.work = out.Work
	r.advance(g, m, budget, out)
	out.Work = g.work
}

// advance is Solve but for the work done.
func (r *Arcs[N]) advance(g *Graph, m Method, budget solver.Budget, out *solver.Result) {
	switch stale := g.stale(); {
	case !stale && g.busy:
	case !stale && g.warm:
		r.finish(g, out)
		return
	default:
		r.takeIn(g, m)
		if r.Exceeded {
			return
		}
		if !r.amountsFit(g) {
			g.Forget()
			out.Status = solver.CostRange
			return
		}
		m.Begin(&g.work)
	}
	out.Status = r.run(g, m, budget)
	if g.Failed && g.warm {
		// Prices may have drifted apart over many calls.
		g.Forget()
		r.takeIn(g, m)
		m.Begin(&g.work)
		out.Status = r.run(g, m, budget)
	}
	switch g.busy = out.Status == solver.BudgetSpent; {
	case out.Status == solver.Optimal:
		r.finish(g, out)
	case !g.busy:
		g.Forget()
	}
}

// run has the method go on.
func (r *Arcs[N]) run(g *Graph, m Method, budget solver.Budget) solver.Status {
	status := m.Run(budget, &g.work)
	if status != solver.Optimal {
		return status
	}
	g.work.Units += int64(g.Net.ArcBound())
	if r.unbounded(g, m) {
		return solver.Unbounded
	}
	return status
}

// takeIn brings the copy up to date, and what the method knows.
func (r *Arcs[N]) takeIn(g *Graph, m Method) {
	cold := g.seq == 0
	compared := r.follow(g, cold)
	g.work.Touched += compared
	g.work.Units += compared
	m.Fit(cold)
}

// follow brings the copy up to date, keeping flow that bounds still allow. It
// returns how many nodes and arcs it compared. Where nodes or arcs came or went
// all is laid out anew. O(changes), else O(nodes + arcs).
func (r *Arcs[N]) follow(g *Graph, cold bool) int64 {
	n := g.Net
	touched, next, complete := n.Changes(g.seq)
	g.seq = next
	volume, _ := n.Volume()
	if cold || !complete || volume >= g.Limit || !g.sameArcs(touched) {
		r.layOut(g, cold, volume)
		return int64(n.NumNodes() + n.NumArcs())
	}
	for _, c := range touched {
		if v, ok := c.Node(); ok {
			supply := n.Supply(v)
			g.Excess[v] += supply - g.supply[v]
			g.supply[v] = supply
		}
		if a, ok := c.Arc(); ok && g.ends[a].place != none {
			r.patch(g, a)
		}
	}
	return int64(len(touched))
}

// sameArcs tells whether what was touched is there as it was.
func (g *Graph) sameArcs(touched []flowgraph.Change) bool {
	if g.Net.ArcBound() > len(g.ends) || g.Net.NodeBound() > len(g.supply) {
		return false
	}
	for _, c := range touched {
		if v, ok := c.Node(); ok && !g.Net.NodeAlive(v) {
			return false
		}
		if a, ok := c.Arc(); ok {
			d, e := g.Net.Arc(a), &g.ends[a]
			if d.Tail < 0 && e.place == none {
				continue
			}
			if int32(d.Tail) != e.tail || int32(d.Head) != e.head {
				return false
			}
		}
	}
	return true
}

// patch takes in the bounds and cost of an arc that was there before.
func (r *Arcs[N]) patch(g *Graph, a flowgraph.ArcID) {
	d, e := g.Net.Arc(a), &g.ends[a]
	x := &r.List[e.place]
	back := &r.List[g.Back[e.place]]
	flow := e.lower + int64(x.Total-x.Room)
	e.lower = d.Lower
	kept := r.place(x, d, flow, g.Limit)
	g.Excess[e.tail] += flow - kept
	g.Excess[e.head] -= flow - kept
	back.Cost, back.Total, back.Room = -x.Cost, x.Total, x.Total-x.Room
	g.doubt(int32(a))
}

// doubt makes the flow that the caller knows of a be listed: the arc may have
// been removed and added alike.
func (g *Graph) doubt(a int32) {
	if g.old[a] > 0 {
		g.old[a] = -1
	}
}

// place sets the forward direction of d to carry about the given flow and returns
// what it is.
func (r *Arcs[N]) place(x *Arc[N], d flowgraph.Arc, flow, limit int64) int64 {
	total := min(d.Upper-d.Lower, limit)
	kept := min(max(flow-d.Lower, 0), total)
	x.Cost, x.Total, x.Room = N(d.Cost), N(total), N(total-kept)
	if int64(x.Total) != total || int64(x.Cost) != int64(d.Cost) || int64(-x.Cost) != -int64(d.Cost) {
		r.Exceeded = true
	}
	return d.Lower + kept
}

// layOut lays out the whole network.
func (r *Arcs[N]) layOut(g *Graph, cold bool, volume int64) {
	n := g.Net
	nodes := n.NodeBound()
	if cold || volume >= g.Limit {
		g.Limit = 1 << bits.Len64(uint64(volume)+1)
	}
	g.First = Grow(g.First, nodes+1)
	g.next = Grow(g.next, nodes)
	g.Excess = Grow(g.Excess, nodes)
	g.supply = Grow(g.supply, nodes)
	r.keepFlow(g, cold)
	// Count, sum, fill: the residual arcs of a node lie side by side.
	clear(g.First)
	for a := range g.ends {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			g.ends[a] = ends{tail: none, head: none, place: none}
			continue
		}
		g.First[d.Tail+1]++
		g.First[d.Head+1]++
	}
	most := int32(0)
	for v := range nodes {
		most = max(most, g.First[v+1])
		g.First[v+1] += g.First[v]
		g.next[v] = g.First[v]
		g.supply[v], g.Excess[v] = 0, 0
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			g.supply[v] = n.Supply(id)
			g.Excess[v] = g.supply[v]
		}
	}
	g.Degree = int(most)
	r.List = Grow(r.List, int(g.First[nodes]))[:g.First[nodes]]
	g.Back = Grow(g.Back, int(g.First[nodes]))[:g.First[nodes]]
	for a := range g.ends {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			continue
		}
		i, j := g.next[d.Tail], g.next[d.Head]
		if d.Tail == d.Head {
			j++
		}
		g.next[d.Tail]++
		g.next[d.Head]++
		x := &r.List[i]
		flow := r.place(x, d, g.flow[a], g.Limit)
		x.Head = int32(d.Head)
		g.Back[i], g.Back[j] = j, i
		r.List[j] = Arc[N]{Cost: -x.Cost, Room: x.Total - x.Room, Total: x.Total, Head: int32(d.Tail)}
		g.ends[a] = ends{tail: int32(d.Tail), head: int32(d.Head), place: i, lower: d.Lower}
		g.Excess[d.Tail] -= flow
		g.Excess[d.Head] += flow
	}
}

// keepFlow saves the flow of arcs that are still there.
func (r *Arcs[N]) keepFlow(g *Graph, cold bool) {
	before, arcs := len(g.ends), g.Net.ArcBound()
	g.ends = Grow(g.ends, arcs)
	g.old = Grow(g.old, arcs)
	g.flow = Grow(g.flow, arcs)
	for a := range g.ends[:before] {
		e := &g.ends[a]
		d := g.Net.Arc(flowgraph.ArcID(a))
		same := e.place != none && int32(d.Tail) == e.tail && int32(d.Head) == e.head
		g.flow[a] = 0
		if same && !cold {
			x := &r.List[e.place]
			g.flow[a] = e.lower + int64(x.Total-x.Room)
		}
		if g.doubt(int32(a)); d.Tail < 0 {
			g.old[a] = 0
		}
	}
}

// amountsFit tells whether sums of flow at a node stay in 64 bits while every arc
// may be full. O(arcs) at most.
func (r *Arcs[N]) amountsFit(g *Graph) bool {
	if bits.Len64(uint64(g.Limit))+bits.Len(uint(g.Net.NumArcs())) <= 62 {
		return true
	}
	left := int64(1<<62) - g.Limit
	if g.Limit <= 0 || left <= 0 { // it is 2⁶³, or 2⁶²
		return false
	}
	for i := range r.List {
		if left -= int64(r.List[i].Total); left <= 0 {
			return false
		}
	}
	return true
}

// Push moves flow along residual arc i out of tail.
func (r *Arcs[N]) Push(g *Graph, tail, i int32, amount int64) {
	x := &r.List[i]
	x.Room -= N(amount)
	r.List[g.Back[i]].Room += N(amount)
	g.Excess[tail] -= amount
	g.Excess[x.Head] += amount
}

// unbounded tells whether an optimal flow uses up the bound that stands for none. O(arcs).
func (r *Arcs[N]) unbounded(g *Graph, m Method) bool {
	for a := range g.ends {
		e := &g.ends[a]
		if e.place == none {
			continue
		}
		x := &r.List[e.place]
		if x.Room > 0 || int64(x.Total) < g.Limit || g.Net.Upper(flowgraph.ArcID(a))-e.lower == g.Limit {
			continue
		}
		tail, head := m.Potential(flowgraph.NodeID(e.tail)), m.Potential(flowgraph.NodeID(e.head))
		if g.Net.Cost(flowgraph.ArcID(a))+tail-head < 0 {
			return true
		}
	}
	return false
}

// finish lists what changed and sets the objective of an optimum. O(arcs).
func (r *Arcs[N]) finish(g *Graph, out *solver.Result) {
	g.warm = true
	var sum flowgraph.Int128
	g.changed = g.changed[:0]
	for a := range g.ends {
		e := &g.ends[a]
		if e.place == none {
			g.old[a] = 0
			continue
		}
		x := &r.List[e.place]
		flow := e.lower + int64(x.Total-x.Room)
		if flow != 0 {
			sum.AddMul(int64(x.Cost), flow)
		}
		if flow != g.old[a] {
			g.old[a] = flow
			g.changed = append(g.changed, flowgraph.ArcID(a))
		}
	}
	var fits bool
	if out.Objective, fits = sum.Int64(); !fits {
		out.Status = solver.CostRange
		// Nobody will read the list: each of its arcs is to be listed next time.
		for _, a := range g.changed {
			g.old[a] = -1
		}
	}
}

// Grow makes s as long as n at least, with zeros.
func Grow[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}

// Ring is a queue of nodes, each in it at most once. The zero value is empty, for no nodes.
type Ring struct {
	list      []int32
	in        []bool
	head, len int
}

// Grow makes room for so many nodes, and empties the ring if there was less.
func (q *Ring) Grow(n int) {
	if n > len(q.list) {
		q.list = make([]int32, n)
		q.in = make([]bool, n)
		q.head, q.len = 0, 0
	}
}

// Len returns how many nodes are in it.
func (q *Ring) Len() int { return q.len }

// Clear empties it.
func (q *Ring) Clear() {
	q.head, q.len = 0, 0
	clear(q.in)
}

// Push puts v at the end, unless it is in it.
func (q *Ring) Push(v int32) {
	if q.in[v] {
		return
	}
	q.in[v] = true
	i := q.head + q.len
	if i >= len(q.list) {
		i -= len(q.list)
	}
	q.list[i] = v
	q.len++
}

// Pop takes the first out; there must be one.
func (q *Ring) Pop() int32 {
	v := q.list[q.head]
	if q.head++; q.head == len(q.list) {
		q.head = 0
	}
	q.len--
	q.in[v] = false
	return v
}

package auto

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// paths gives the first answer where flow comes from few nodes, few ways bear it, and no arc has a negative
// cost. It sends as much as there is room for along the cheapest way left (Busacker and Gowen, A procedure
// for determining minimal-cost network flow patterns, 1960; potentials as in Edmonds and Karp, 1972). It
// keeps no copy of the network and reads no more of it than its searches reach; others would need longer to
// read it all. O(m + n log C) for each way.
type paths struct {
	net    *flowgraph.Network
	from   []flowgraph.NodeID // nodes with excess at first, in the order of their ids
	limit  int64              // of work, after which others are to answer: what it takes to read half of the network
	spent  int64
	volume int64   // all that is to flow
	done   int64   // what flows already
	excess []int64 // by node
	flow   []int64 // by arc
	pi     []int64
	labels []label
	queue  radixheap.Heap
	// labelled are the nodes that a search has reached, settled those it has gone on from. A label as far as
	// reach is of no use.
	labelled, settled []flowgraph.NodeID
	reach             int64
	changed           []flowgraph.ArcID // those with flow
}

// label is what a search knows of a node: its distance, and the arc that leads there, if any.
type label struct {
	dist  int64
	via   flowgraph.ArcID
	known bool
}

// newPaths returns nil where others are to answer. O(nodes).
func newPaths(n *flowgraph.Network) *paths {
	volume, ok := n.Volume()
	if !ok || n.NegativeArcs() > 0 {
		return nil
	}
	p := &paths{net: n, limit: int64(n.NumNodes()+n.NumArcs()) / 2, volume: volume}
	most := min(fewUnits, n.NumNodes()/fewNodes)
	if volume <= int64(most) {
		p.limit = math.MaxInt64
	}
	for v := range n.NodeBound() {
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) || n.Supply(id) <= 0 {
			continue
		}
		if p.from = append(p.from, id); len(p.from) > most {
			return nil
		}
		volume -= n.Supply(id)
	}
	if volume > 0 { // lower bounds
		return nil
	}
	if len(p.from) == 0 {
		return p
	}
	p.excess = make([]int64, n.NodeBound())
	for v := range p.excess {
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			p.excess[v] = n.Supply(id)
		}
	}
	p.flow = make([]int64, n.ArcBound())
	p.pi = make([]int64, n.NodeBound())
	p.labels = make([]label, n.NodeBound())
	return p
}

// Flow returns the flow on a.
func (p *paths) Flow(a flowgraph.ArcID) int64 {
	if p.done == 0 {
		return 0
	}
	return p.flow[a]
}

// Potential returns π(v). O(1).
func (p *paths) Potential(v flowgraph.NodeID) flowgraph.Cost {
	if p.done == 0 {
		return 0
	}
	return flowgraph.Cost(p.pi[v])
}

// Changed lists the arcs with flow.
func (p *paths) Changed() []flowgraph.ArcID { return p.changed }

// solve goes on from where the last call stopped, until it is tired. The network must not have changed since newPaths.
func (p *paths) solve(budget solver.Budget) (r solver.Result) {
	for len(p.from) > 0 {
		v := p.from[0]
		if p.excess[v] == 0 {
			p.from = p.from[1:]
			continue
		}
		if budget.Spent(r.Work.Units) || p.tired() {
			r.Status = solver.BudgetSpent
			return r
		}
		before := r.Work.Units
		to := p.search(v, &r.Work)
		p.spent += r.Work.Units - before
		if to == flowgraph.NoNode {
			r.Status = solver.Infeasible
			return r
		}
		p.send(v, to)
	}
	var sum flowgraph.Int128
	p.changed = p.changed[:0]
	for i, x := range p.flow {
		if x > 0 {
			a := flowgraph.ArcID(i)
			sum.AddMul(int64(p.net.Cost(a)), x)
			p.changed = append(p.changed, a)
		}
	}
	var fits bool
	if r.Objective, fits = sum.Int64(); !fits {
		r.Status = solver.CostRange
		return r
	}
	r.Status, r.Solution = solver.Optimal, p
	return r
}

// tired tells whether too many ways are needed: there will be no answer. It never is where no more than
// fewUnits flow. From a small part of the limit on it also counts what flows by then: if, with as much work
// for each unit, all would take more than twice the limit, it is tired.
func (p *paths) tired() bool {
	const soon, over = 16, 2
	if p.limit == math.MaxInt64 || p.spent < p.limit/soon {
		return false
	}
	return p.spent >= p.limit || float64(p.spent)*float64(p.volume) > over*float64(p.limit)*float64(p.done)
}

// search finds the cheapest way to a node that lacks flow, and lifts potentials to it. It returns NoNode if
// there is no way.
func (p *paths) search(from flowgraph.NodeID, w *solver.Work) flowgraph.NodeID {
	for _, v := range p.labelled {
		p.labels[v] = label{}
	}
	p.labelled, p.settled, p.reach = p.labelled[:0], p.settled[:0], math.MaxInt64
	p.queue.Reset()
	p.label(from, flowgraph.NoArc, 0)
	for p.queue.Len() > 0 {
		x := p.queue.Pop()
		v := flowgraph.NodeID(x.Node)
		if x.Key > p.labels[v].dist {
			continue
		}
		if p.excess[v] < 0 {
			for _, u := range p.settled {
				p.pi[u] += p.labels[u].dist - x.Key
			}
			return v
		}
		p.settled = append(p.settled, v)
		p.scan(v, x.Key+p.pi[v], w)
	}
	return flowgraph.NoNode
}

// scan labels the nodes that residual arcs lead to from v.
func (p *paths) scan(v flowgraph.NodeID, base int64, w *solver.Work) {
	out := p.net.Out(v)
	w.Steps++
	w.Units += int64(len(out)) + 1
	for _, r := range out {
		if x := p.flow[r.Arc]; x == 0 && p.net.Open(r.Arc) || x > 0 && x < p.net.Upper(r.Arc) {
			p.label(r.Node, r.Arc, base+int64(r.Cost)-p.pi[r.Node])
		}
	}
	if p.done == 0 {
		return
	}
	in := p.net.In(v)
	w.Units += int64(len(in))
	for _, r := range in {
		if p.flow[r.Arc] > 0 {
			p.label(r.Node, r.Arc, base-int64(r.Cost)-p.pi[r.Node])
		}
	}
}

// label notes a way to v, unless one as cheap is known to v, or one no dearer to a node that lacks flow.
func (p *paths) label(v flowgraph.NodeID, via flowgraph.ArcID, dist int64) {
	l := &p.labels[v]
	if dist >= p.reach || l.known && dist >= l.dist {
		return
	}
	if !l.known {
		p.labelled = append(p.labelled, v)
	}
	*l = label{dist: dist, via: via, known: true}
	if p.excess[v] < 0 {
		p.reach = dist
	}
	p.queue.Push(radixheap.Item{Key: dist, Node: int32(v)})
}

// send sends as much as the way that search found bears.
func (p *paths) send(from, to flowgraph.NodeID) {
	amount := min(p.excess[from], -p.excess[to])
	for v := to; v != from; {
		a := p.labels[v].via
		if p.net.Head(a) == v {
			amount, v = min(amount, p.net.Upper(a)-p.flow[a]), p.net.Tail(a)
		} else {
			amount, v = min(amount, p.flow[a]), p.net.Head(a)
		}
	}
	p.excess[from] -= amount
	p.excess[to] += amount
	for v := to; v != from; {
		a := p.labels[v].via
		if p.net.Head(a) == v {
			p.flow[a] += amount
			v = p.net.Tail(a)
		} else {
			p.flow[a] -= amount
			v = p.net.Head(a)
		}
	}
	p.done += amount
}

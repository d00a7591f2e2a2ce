// Package ssp is the oracle: successive shortest paths, short and obvious, for
// any network, and always from zero.
//
// Every arc starts at the bound that its reduced cost asks for; what nodes then
// have too much is sent along shortest residual paths to where it lacks, which
// keeps all reduced costs of residual arcs at zero or above (Ahuja, Magnanti,
// Orlin, Network Flows, §9.7; potentials as in Edmonds and Karp 1972). First
// potentials come from Bellman and Ford over the arcs without an upper bound,
// the only ones that cannot start saturated.
//
// A solve takes O(F·(m log n)) for F augmentations, F at most the sum of all
// excesses.
package ssp

import (
	"container/heap"
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits.
const MaxBits = 59

// Solver is the oracle. Use [New].
type Solver struct {
	net  *flowgraph.Network
	seq  flowgraph.Seq
	busy bool // a budget ran out on the way

	cost      func(flowgraph.Arc) int64
	flow, old []int64
	pi        []int64
	excess    []int64
	dist      []int64
	via       []flowgraph.ArcID // arc by which the shortest path comes in
	done      []bool
	queue     queue
	changed   []flowgraph.ArcID
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver {
	return &Solver{cost: func(d flowgraph.Arc) int64 { return int64(d.Cost) }}
}

// Name returns "ssp".
func (s *Solver) Name() string { return "ssp" }

// Flow returns the flow on a in the last optimal result.
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.flow[a] }

// Potential returns π(v) in the last optimal result. O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return flowgraph.Cost(s.pi[v]) }

// Changed lists the arcs with flow now or before.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve starts from zero unless it goes on after a spent budget.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	var r solver.Result
	if n != s.net {
		s.net, s.seq, s.busy, s.old = n, 0, false, nil
	}
	if _, seq, _ := n.Changes(s.seq); seq != s.seq || !s.busy {
		s.seq, s.busy = seq, false
		if r.Status = solver.Precheck(n, MaxBits); r.Status != solver.Optimal {
			return r, nil
		}
		if r.Status = s.start(&r.Work); r.Status != solver.Optimal {
			return r, nil
		}
	}
	r.Status = s.run(budget, &r.Work)
	s.busy = r.Status == solver.BudgetSpent
	if r.Status == solver.Optimal {
		var fits bool
		if r.Objective, fits = s.finish(); !fits {
			r.Status = solver.CostRange
			return r, nil
		}
		r.Solution = s
	}
	return r, nil
}

// start puts every arc at the bound its reduced cost asks for.
func (s *Solver) start(w *solver.Work) solver.Status {
	n := s.net
	s.flow = make([]int64, n.ArcBound())
	s.pi = make([]int64, n.NodeBound())
	s.dist = make([]int64, n.NodeBound())
	s.excess = make([]int64, n.NodeBound())
	s.via = make([]flowgraph.ArcID, n.NodeBound())
	s.done = make([]bool, n.NodeBound())
	if !s.relaxInfinite(w) {
		return s.unboundedOrInfeasible()
	}
	for v := range s.excess {
		if n.NodeAlive(flowgraph.NodeID(v)) {
			s.excess[v] = n.Supply(flowgraph.NodeID(v))
		}
	}
	for a := range s.flow {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			continue
		}
		x := d.Lower
		if s.reduced(d) < 0 {
			x = d.Upper
		}
		s.flow[a] = x
		s.excess[d.Tail] -= x
		s.excess[d.Head] += x
	}
	return solver.Optimal
}

func (s *Solver) reduced(d flowgraph.Arc) int64 { return s.cost(d) + s.pi[d.Tail] - s.pi[d.Head] }

// relaxInfinite makes reduced costs of arcs without upper bound non-negative; it
// reports false when they close a negative cycle.
func (s *Solver) relaxInfinite(w *solver.Work) bool {
	n := s.net
	for range n.NumNodes() + 1 {
		stable := true
		for a := range n.ArcBound() {
			d := n.Arc(flowgraph.ArcID(a))
			if d.Tail >= 0 && d.Upper == flowgraph.Infinite && s.reduced(d) < 0 {
				s.pi[d.Head] += s.reduced(d)
				stable = false
			}
		}
		w.Units += int64(n.ArcBound())
		if stable {
			return true
		}
	}
	return false
}

// unboundedOrInfeasible decides what a free negative cycle means: without any
// feasible flow the problem is infeasible. Prices do not matter for that.
func (s *Solver) unboundedOrInfeasible() solver.Status {
	probe := &Solver{net: s.net, cost: func(flowgraph.Arc) int64 { return 0 }}
	var w solver.Work
	probe.start(&w)
	if probe.run(solver.Budget{}, &w) == solver.Infeasible {
		return solver.Infeasible
	}
	return solver.Unbounded
}

func (s *Solver) run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		target, more := s.search(w)
		if !more {
			return solver.Optimal
		}
		if target == flowgraph.NoNode {
			return solver.Infeasible
		}
		s.augment(target)
		w.Steps++
		if budget.Spent(w.Units) {
			return solver.BudgetSpent
		}
	}
}

// search finds the shortest residual path from any excess to any lack and adds
// the distances to the potentials. more is false when nothing is in excess.
func (s *Solver) search(w *solver.Work) (target flowgraph.NodeID, more bool) {
	s.queue = s.queue[:0]
	for v := range s.dist {
		s.dist[v], s.done[v], s.via[v] = math.MaxInt64, false, flowgraph.NoArc
		if s.excess[v] > 0 {
			s.dist[v] = 0
			s.queue = append(s.queue, label{0, flowgraph.NodeID(v)})
		}
	}
	if len(s.queue) == 0 {
		return flowgraph.NoNode, false
	}
	target = flowgraph.NoNode
	for len(s.queue) > 0 {
		top := heap.Pop(&s.queue).(label)
		if s.done[top.node] {
			continue
		}
		s.done[top.node] = true
		if s.excess[top.node] < 0 {
			target = top.node
			break
		}
		s.scan(top.node, w)
	}
	if target == flowgraph.NoNode {
		return target, true
	}
	for v := range s.pi {
		s.pi[v] += min(s.dist[v], s.dist[target])
	}
	return target, true
}

func (s *Solver) scan(v flowgraph.NodeID, w *solver.Work) {
	out, in := s.net.Out(v), s.net.In(v)
	w.Units += int64(len(out) + len(in))
	for _, r := range out {
		if d := s.net.Arc(r.Arc); s.flow[r.Arc] < d.Upper {
			s.label(d.Head, r.Arc, s.dist[v]+s.reduced(d))
		}
	}
	for _, r := range in {
		if d := s.net.Arc(r.Arc); s.flow[r.Arc] > d.Lower {
			s.label(d.Tail, r.Arc, s.dist[v]-s.reduced(d))
		}
	}
}

func (s *Solver) label(v flowgraph.NodeID, a flowgraph.ArcID, dist int64) {
	if dist < s.dist[v] {
		s.dist[v], s.via[v] = dist, a
		heap.Push(&s.queue, label{dist, v})
	}
}

// augment sends as much as the path to target bears.
func (s *Solver) augment(target flowgraph.NodeID) {
	amount := -s.excess[target]
	v := target
	for s.via[v] != flowgraph.NoArc {
		a := s.via[v]
		if d := s.net.Arc(a); d.Head == v {
			amount, v = min(amount, d.Upper-s.flow[a]), d.Tail
		} else {
			amount, v = min(amount, s.flow[a]-d.Lower), d.Head
		}
	}
	amount = min(amount, s.excess[v])
	s.excess[v] -= amount
	s.excess[target] += amount
	for v = target; s.via[v] != flowgraph.NoArc; {
		a := s.via[v]
		if d := s.net.Arc(a); d.Head == v {
			s.flow[a] += amount
			v = d.Tail
		} else {
			s.flow[a] -= amount
			v = d.Head
		}
	}
}

// finish takes the objective and the list of changes.
func (s *Solver) finish() (int64, bool) {
	var sum flowgraph.Int128
	s.changed = s.changed[:0]
	for a, x := range s.flow {
		id := flowgraph.ArcID(a)
		if !s.net.ArcAlive(id) {
			continue
		}
		sum.AddMul(int64(s.net.Cost(id)), x)
		if x != 0 || a < len(s.old) && s.old[a] != 0 {
			s.changed = append(s.changed, id)
		}
	}
	objective, fits := sum.Int64()
	if fits { // else nobody reads it
		s.old = append(s.old[:0], s.flow...)
	}
	return objective, fits
}

type label struct {
	dist int64
	node flowgraph.NodeID
}

// queue is a heap of labels by distance, then node.
type queue []label

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].dist < q[j].dist || q[i].dist == q[j].dist && q[i].node < q[j].node
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(label)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// Package netsimplex is the primal network simplex method on any network.
//
// A basis is a spanning tree over the nodes and one root; each node also has an
// artificial arc to the root at a price above every path, so that a basis
// exists for any supplies. The tree is kept strongly feasible (Cunningham
// 1976), which excludes cycling; the entering arc comes from block search (as
// measured best by Király and Kovács, Efficient implementations of
// minimum-cost flow algorithms, 2012); theory in Ahuja, Magnanti, Orlin,
// Network Flows, ch. 11.
//
// A pivot takes O(path + nodes of the smaller changed subtree) besides pricing.
package netsimplex

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits, as the
// artificial price is above every path and potentials are sums of both.
const MaxBits = 59

// Where an arc stands.
const (
	atUpper int8 = -1
	inTree  int8 = 0 // also: not alive
	atLower int8 = 1
)

const none = int32(-1)

// node is a node of the tree. The arc to the parent is the network's arc pred,
// or the artificial one if pred is negative.
type node struct {
	pi                int64
	parent            int32
	pred              int32
	child, next, prev int32 // children as a doubly linked list
	depth             int32
	up                bool // the arc to the parent leads to it
}

// Solver is a network simplex. Use [New].
type Solver struct {
	net  *flowgraph.Network
	seq  flowgraph.Seq
	busy bool

	// Indexed by ArcID.
	arcs  []flowgraph.Arc
	flow  []int64
	old   []int64
	state []int8
	// Indexed by NodeID; the root comes last.
	nodes   []node
	spare   []int64 // flow on the artificial arc
	root    int32
	penalty int64
	scan    int // where block search goes on

	stack   []int32
	changed []flowgraph.ArcID
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{} }

// Name returns "netsimplex".
func (s *Solver) Name() string { return "netsimplex" }

// Flow returns the flow on a in the last optimal result.
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.flow[a] }

// Potential returns π(v) in the last optimal result. O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return flowgraph.Cost(s.nodes[v].pi) }

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve pivots to the optimum.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	var r solver.Result
	_, seq, _ := n.Changes(s.seq)
	if n != s.net {
		s.old = s.old[:0]
	}
	if n != s.net || seq != s.seq || !s.busy {
		s.net, s.seq, s.busy = n, seq, false
		if r.Status = solver.Precheck(n, MaxBits); r.Status != solver.Optimal {
			return r, nil
		}
		s.start()
	}
	r.Status = s.run(budget, &r.Work)
	switch r.Status {
	case solver.Unbounded:
		r.Status = s.unboundedOrInfeasible()
	case solver.BudgetSpent:
		s.busy = true
		return r, nil
	}
	s.busy = false
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

// start builds the basis of artificial arcs alone.
func (s *Solver) start() {
	n := s.net
	s.arcs = grow(s.arcs, n.ArcBound())
	s.flow = grow(s.flow, n.ArcBound())
	s.state = grow(s.state, n.ArcBound())
	s.nodes = grow(s.nodes, n.NodeBound()+1)
	s.spare = grow(s.spare, n.NodeBound())
	s.root = int32(n.NodeBound())
	s.penalty = 1 << (solver.PotentialBits(n) + 1)
	s.scan = 0
	for v := range s.spare {
		s.spare[v] = 0
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			s.spare[v] = n.Supply(id)
		}
	}
	for a := range s.arcs {
		d := n.Arc(flowgraph.ArcID(a))
		s.arcs[a], s.flow[a], s.state[a] = d, 0, inTree
		if d.Tail < 0 {
			continue
		}
		s.flow[a], s.state[a] = d.Lower, atLower
		s.spare[d.Tail] -= d.Lower
		s.spare[d.Head] += d.Lower
	}
	s.nodes[s.root] = node{parent: none, pred: none, child: none, next: none, prev: none}
	for v := int32(0); v < s.root; v++ {
		if !n.NodeAlive(flowgraph.NodeID(v)) {
			continue
		}
		up := s.spare[v] >= 0
		pi := -s.penalty // rc of v→root is zero
		if !up {
			pi, s.spare[v] = s.penalty, -s.spare[v]
		}
		s.nodes[v] = node{pi: pi, pred: none, child: none, next: none, prev: none, up: up}
		s.link(v, s.root)
		s.nodes[v].depth = 1
	}
}

func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}

func (s *Solver) run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		entering := s.price(w)
		if entering == none {
			break
		}
		if !s.pivot(entering) {
			return solver.Unbounded
		}
		w.Steps++
		if budget.Spent(w.Units) {
			return solver.BudgetSpent
		}
	}
	for v := range s.spare {
		if s.net.NodeAlive(flowgraph.NodeID(v)) && s.nodes[v].pred < 0 && s.spare[v] != 0 {
			return solver.Infeasible
		}
	}
	return solver.Optimal
}

// price returns the arc of the most negative reduced cost in the first block
// that has any, or none.
func (s *Solver) price(w *solver.Work) int32 {
	m := len(s.arcs)
	block := max(20, int(math.Sqrt(float64(m))))
	best, bestCost := none, int64(0)
	left := block
	for i := range m {
		a := s.scan
		if s.scan++; s.scan == m {
			s.scan = 0
		}
		if s.state[a] != inTree {
			d := &s.arcs[a]
			rc := int64(s.state[a]) * (int64(d.Cost) + s.nodes[d.Tail].pi - s.nodes[d.Head].pi)
			if rc < bestCost {
				best, bestCost = int32(a), rc
			}
		}
		if left--; left == 0 || i == m-1 {
			w.Units += int64(block - left)
			if best != none {
				return best
			}
			left = block
		}
	}
	return none
}

func (s *Solver) unboundedOrInfeasible() solver.Status {
	free := New()
	free.net = s.net
	free.start()
	for a := range free.arcs {
		free.arcs[a].Cost = 0
	}
	var w solver.Work
	if free.run(solver.Budget{}, &w) == solver.Infeasible {
		return solver.Infeasible
	}
	return solver.Unbounded
}

func (s *Solver) finish() (int64, bool) {
	var sum flowgraph.Int128
	s.changed = s.changed[:0]
	for a, x := range s.flow {
		if s.arcs[a].Tail < 0 {
			continue
		}
		sum.AddMul(int64(s.arcs[a].Cost), x)
		if a >= len(s.old) && x != 0 || a < len(s.old) && x != s.old[a] {
			s.changed = append(s.changed, flowgraph.ArcID(a))
		}
	}
	s.old = append(s.old[:0], s.flow...)
	return sum.Int64()
}

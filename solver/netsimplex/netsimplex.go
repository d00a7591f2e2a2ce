// Package netsimplex is the primal network simplex method, cold and warm.
//
// A basis is a spanning tree over the nodes and one root; each node also has an
// artificial arc to the root, priced above every path, so that a basis exists
// for any supplies. The tree is kept strongly feasible (Cunningham 1976), which
// excludes cycling. The entering arc comes from block search over the arcs in a
// mixed order (both as measured best by Király and Kovács, Efficient
// implementations of minimum-cost flow algorithms, 2012); the tree is a
// preorder thread with sizes and last descendants, so that a pivot costs the
// cycle and the potentials of the moved subtree. Theory in Ahuja, Magnanti,
// Orlin, Network Flows, ch. 11.
//
// # Warm
//
// After changes the tree stays. Arcs that are gone leave it, flows on it are
// computed anew, and wherever one breaks a bound or strong feasibility, its arc
// leaves at the bound and an artificial arc takes what is over. That basis is
// feasible, and few pivots from the next optimum if little changed. It costs
// O(nodes) and a full round of pricing, O(arcs), whatever changed.
package netsimplex

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits, as the
// artificial price is above every path and potentials are sums of both.
const MaxBits = 59

// Where an arc stands, as the sign that its reduced cost must have.
const (
	atUpper int8 = -1
	inTree  int8 = 0 // also: not there
	atLower int8 = 1
)

const none = int32(-1)

// priced is what pricing reads of an arc.
type priced struct {
	cost       int64
	tail, head int32
	arc        int32
}

// carried is what else a pivot needs.
type carried struct {
	lower, upper, flow int64
	slot               int32 // in the mixed order
	here               bool
}

// node is a node of the tree. Its arc to the parent is the network's arc pred,
// or the artificial one if pred is none.
type node struct {
	parent, pred int32
	size         int32 // nodes in the subtree
	back         int32 // previous in preorder
	last         int32 // last of the subtree in preorder
	up           bool  // the arc to the parent leads to it
	here         bool
}

// Solver is a network simplex. Use [New].
type Solver struct {
	net  *flowgraph.Network
	seq  flowgraph.Seq
	busy bool // a budget ran out on the way

	slots []priced // mixed order of arcs
	state []int8   // by slot
	arcs  []carried
	nodes []node // by NodeID, then the root
	// thread is the next node in preorder. It and pi are all that moving a
	// subtree's potentials reads.
	thread []int32
	pi     []int64
	spare  []int64 // flow on the artificial arc
	need   []int64 // scratch: what a subtree lacks
	root   int32

	penalty int64
	effort  int64 // nodes moved by pivots since last counted
	scan    int   // slot where block search goes on
	stem    []link
	child   []int32 // scratch: first child, next sibling
	sibling []int32

	old     []int64 // flow of the last optimal result
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
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.arcs[a].flow }

// Potential returns π(v) in the last optimal result. O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return flowgraph.Cost(s.pi[v]) }

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve pivots to the optimum.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r := solver.Result{Status: solver.Precheck(n, MaxBits)}
	if r.Status != solver.Optimal {
		return r, nil
	}
	if n != s.net {
		*s = Solver{net: n}
	}
	if _, seq, _ := n.Changes(s.seq); seq != s.seq || !s.busy {
		r.Work.Touched = s.takeIn()
	}
	r.Status = s.run(budget, &r.Work)
	s.busy = r.Status == solver.BudgetSpent
	switch r.Status {
	case solver.Unbounded:
		r.Status = s.unboundedOrInfeasible()
	case solver.Optimal:
		var fits bool
		if r.Objective, fits = s.finish(); !fits {
			r.Status = solver.CostRange
			return r, nil
		}
		r.Solution = s
	}
	return r, nil
}

func (s *Solver) run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		slot := s.price(w)
		if slot == none {
			break
		}
		if !s.pivot(slot) {
			return solver.Unbounded
		}
		w.Steps++
		w.Units += s.effort
		s.effort = 0
		if budget.Spent(w.Units) {
			return solver.BudgetSpent
		}
	}
	for v := range s.root {
		if s.nodes[v].here && s.nodes[v].pred == none && s.spare[v] != 0 {
			return solver.Infeasible
		}
	}
	return solver.Optimal
}

// price returns the slot of the most negative reduced cost in the first block
// that has any, or none.
func (s *Solver) price(w *solver.Work) int32 {
	m := len(s.slots)
	block := max(32, int(math.Sqrt(float64(m))))
	for left := m; left > 0; {
		from := s.scan
		to := min(from+block, m, from+left)
		best, least := none, int64(0)
		slots, state := s.slots[from:to], s.state[from:to]
		for i := range slots {
			x := &slots[i]
			if rc := int64(state[i]) * (x.cost + s.pi[x.tail] - s.pi[x.head]); rc < least {
				best, least = int32(from+i), rc
			}
		}
		w.Units += int64(to - from)
		left -= to - from
		if s.scan = to; to == m {
			s.scan = 0
		}
		if best != none {
			return best
		}
	}
	return none
}

// unboundedOrInfeasible decides what a free negative cycle means: without any
// feasible flow the problem is infeasible. Prices do not matter for that.
func (s *Solver) unboundedOrInfeasible() solver.Status {
	free := &Solver{net: s.net}
	free.takeIn()
	for i := range free.slots {
		free.slots[i].cost = 0
	}
	free.reprice()
	var w solver.Work
	// The basis is half way along a ray: the next solve starts cold.
	*s = Solver{net: s.net, old: s.old}
	if free.run(solver.Budget{}, &w) == solver.Infeasible {
		return solver.Infeasible
	}
	return solver.Unbounded
}

func (s *Solver) finish() (int64, bool) {
	var sum flowgraph.Int128
	s.changed = s.changed[:0]
	s.old = grow(s.old, len(s.arcs))
	for a := range s.arcs {
		r := &s.arcs[a]
		if !r.here {
			s.old[a] = 0
			continue
		}
		if r.flow != 0 {
			sum.AddMul(s.slots[r.slot].cost, r.flow)
		}
		if r.flow != s.old[a] {
			s.old[a] = r.flow
			s.changed = append(s.changed, flowgraph.ArcID(a))
		}
	}
	total, fits := sum.Int64()
	if !fits {
		// Nobody will read the list: each of its arcs is to be listed next time.
		for _, a := range s.changed {
			s.old[a] = -1
		}
	}
	return total, fits
}

func grow[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}

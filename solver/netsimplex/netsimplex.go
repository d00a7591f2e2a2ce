// Package netsimplex is the primal network simplex method, cold and warm.
//
// A basis is a spanning tree over the nodes and one root. Each node also has an artificial arc to the root,
// priced above every path, so that a basis exists for any supplies. The tree is kept strongly feasible
// (Cunningham 1976), which excludes cycling. It is a preorder thread with sizes and last descendants, so that
// a pivot costs the cycle and the potentials of the moved subtree.
//
// The entering arc comes from block search over the arcs in a mixed order (both as measured best by Király
// and Kovács, Efficient implementations of minimum-cost flow algorithms, 2012). A short list of good arcs
// that earlier pivots passed over joins it (multiple partial pricing). Theory in Ahuja, Magnanti, Orlin,
// Network Flows, ch. 11.
//
// # Warm
//
// After changes the tree stays. Arcs that are gone leave it, and flows on it are computed anew. Wherever one
// breaks a bound or strong feasibility, its arc leaves at the bound and an artificial arc takes what is over.
// That basis is feasible, and few pivots from the next optimum if little changed. It costs O(nodes) and a
// full round of pricing, O(arcs), whatever changed. What hangs by an artificial arc keeps its potentials, so
// that no arc gains by that alone.
//
// [Solver.Adopt] starts from the flow and the potentials of another solver, also of one that has not ended.
// The tree is grown of the arcs whose flow is between their bounds, and of others of reduced cost 0 that can
// take more towards the root.
package netsimplex

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits, as the
// artificial price is above every path and potentials are sums of both.
const MaxBits = 59

// Solver is a network simplex. Use [New].
type Solver struct {
	net *flowgraph.Network
	either
}

// either is a simplex of either width.
type either interface {
	solver.Solution
	// Walked returns how many units of work, since the network last changed, pivots took to walk around
	// cycles and to move subtrees, not to find the arcs to enter. It is most of the work where the tree is
	// deep. O(1).
	Walked() int64
	// Gaining counts the arcs of negative reduced cost, those that may yet enter. O(arcs).
	Gaining() int
	solve(budget solver.Budget) solver.Result
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{either: &simplex[int32]{}} }

// Name returns "netsimplex".
func (s *Solver) Name() string { return "netsimplex" }

// Solve pivots to the optimum.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if status := solver.Precheck(n, MaxBits); status != solver.Optimal {
		return solver.Result{Status: status}, nil
	}
	fits := n.CostBits() < 32
	if n != s.net {
		s.net = n
		if fits {
			s.either = &simplex[int32]{base: base{net: n}}
		} else {
			s.either = &simplex[int64]{base: base{net: n}}
		}
	} else if narrow, ok := s.either.(*simplex[int32]); ok && !fits {
		s.either = widen(narrow)
	}
	r := s.solve(budget)
	if r.Status == solver.Optimal {
		r.Solution = s
	}
	return r, nil
}

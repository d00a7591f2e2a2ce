package solver

import (
	"fmt"
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Solver finds a minimum-cost flow.
type Solver interface {
	// Name is the key of the solver in configuration.
	Name() string
	// Solve brings the flow to the optimum of n, or says why there is none.
	// The result is valid until the next call. It does not change n.
	Solve(n *flowgraph.Network, budget Budget) (Result, error)
}

// Budget limits one call of Solve.
type Budget struct {
	// Work is the number of work units after which to stop with
	// [BudgetSpent]; zero is no limit. A solver may overshoot by one step of
	// its algorithm.
	Work int64
}

// Spent tells whether work exceeds the budget.
func (b Budget) Spent(work int64) bool { return b.Work > 0 && work >= b.Work }

// Status is the outcome of a solve.
type Status uint8

const (
	// Unknown is the zero value; no solver returns it.
	Unknown Status = iota
	// Optimal: the result carries an optimal flow with potentials.
	Optimal
	// Infeasible: no flow keeps all bounds and balances.
	Infeasible
	// Unbalanced: the supplies do not sum to zero.
	Unbalanced
	// Unbounded: a cycle of negative cost has no upper bound.
	Unbounded
	// CostRange: a number of the problem, or the objective, is outside the
	// range in which the solver is exact.
	CostRange
	// BudgetSpent: the budget ran out first; calling again goes on.
	BudgetSpent
)

var statusNames = [...]string{"unknown", "optimal", "infeasible", "unbalanced", "unbounded", "cost range", "budget spent"}

// String returns the status in words.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Work counts what one call of Solve did.
type Work struct {
	// Units is the effort that budgets limit: arcs examined, and nodes moved.
	Units int64
	// Steps counts the algorithm's own unit of progress: pivots of a simplex,
	// expanded nodes of a search, pushes of a scaling method.
	Steps int64
	// Touched counts changes of the network taken in.
	Touched int64
	// Rebuilds counts how often the solver found its own state inconsistent
	// and started again from nothing. The answer stands; the defect should be
	// reported.
	Rebuilds int64
}

// Solution is read access to an optimal flow and its potentials.
type Solution interface {
	// Flow returns the flow on a live arc.
	Flow(a flowgraph.ArcID) int64
	// Potential returns π of a live node, sign as in package flowgraph. It may
	// cost as much as the node has arcs.
	Potential(v flowgraph.NodeID) flowgraph.Cost
	// Changed returns the live arcs whose flow differs from the previous
	// optimal result of this solver, an arc added since counting from zero.
	// Each is listed once, and a few may be listed without need. The order
	// is deterministic. After a cold start on another network it lists
	// every arc with flow.
	Changed() []flowgraph.ArcID
}

// Result is the outcome of one call of Solve. The Solution is nil unless
// Status is [Optimal], belongs to the solver, and is valid until its next call.
type Result struct {
	Status    Status
	Objective int64 // Σ cost·flow, if Optimal
	Work      Work
	Solution
}

// Precheck finds what is wrong with n at a glance: supplies that do not
// balance, or numbers outside the range a solver is exact for, which is
// |cost|·(nodes+1) < 2^maxBits for potentials and [flowgraph.Network.Volume]
// below 2⁶² for amounts. It returns Optimal when neither. O(1).
func Precheck(n *flowgraph.Network, maxBits int) Status {
	if sum := n.TotalSupply(); sum.Sign() != 0 {
		return Unbalanced
	}
	if PotentialBits(n) > maxBits {
		return CostRange
	}
	if v, ok := n.Volume(); !ok || v >= 1<<62 {
		return CostRange
	}
	return Optimal
}

// Plenty is the room of an arc from which on a solver that follows changes does not fill it, however
// cheap it becomes, but moves prices as if it had no bound. All arcs with less, which are fewer than
// 2³¹, bring a node less than 2⁶², though all be filled at once.
const Plenty = 1 << 31

// PotentialBits bounds the size of any difference of potentials along a simple
// path of n, as a power of two. O(1).
func PotentialBits(n *flowgraph.Network) int {
	return n.CostBits() + bits.Len(uint(n.NumNodes()+1))
}

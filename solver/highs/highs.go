//go:build highs

package highs

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/lanl/highs"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// The range in which an answer in floating point, rounded, is exact: |cost|·(nodes+1) below 2^MaxBits, and amounts whose
// sum stays below 2^MaxVolumeBits, since HiGHS keeps balances to 1e-7.
const (
	MaxBits       = 50
	MaxVolumeBits = 40
)

// ErrNotExact is wrapped when the rounded answer is not an optimal flow.
var ErrNotExact = errors.New("highs: the answer is not exact")

// Solver hands every network to HiGHS from zero. Use [New].
//
// A linear program of a network has an integral optimum, and the simplex method finds one. The flow is rounded, and the
// potentials are computed from it exactly, by Bellman and Ford on the residual network, which at the same time proves it
// optimal. O(nodes · arcs) for that, whatever HiGHS takes.
type Solver struct {
	net       *flowgraph.Network
	flow, old []int64
	pi        []int64
	changed   []flowgraph.ArcID
	limit     int // iterations, after a budget was spent
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{} }

// Name returns "highs".
func (s *Solver) Name() string { return "highs" }

// Flow returns the flow on a in the last optimal result.
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.flow[a] }

// Potential returns π(v) in the last optimal result. O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return flowgraph.Cost(s.pi[v]) }

// Changed returns the arcs whose flow differs from the previous optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve implements [solver.Solver]. A unit of work is an iteration of HiGHS. It cannot be continued: when a budget is
// spent, the next call begins again with twice as much.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if s.net != n {
		*s = Solver{net: n}
	}
	if st := solver.Precheck(n, MaxBits); st != solver.Optimal {
		return solver.Result{Status: st}, nil
	}
	if v, _ := n.Volume(); v >= 1<<MaxVolumeBits {
		return solver.Result{Status: solver.CostRange}, nil
	}
	status, values, work, err := s.run(n, budget)
	result := solver.Result{Status: status, Work: work}
	if err != nil || status != solver.Optimal {
		return result, err
	}
	return s.finish(n, result, values)
}

// isLoop reports whether the arc ends where it begins. Loops are in no balance, so they are left out of the program.
func isLoop(n *flowgraph.Network, a flowgraph.ArcID) bool { return n.Tail(a) == n.Head(a) }

// loops returns how many loops there are, and whether one pays without end.
func loops(n *flowgraph.Network) (count int, unbounded bool) {
	for a := range flowgraph.ArcID(n.ArcBound()) {
		if n.ArcAlive(a) && isLoop(n, a) {
			count++
			unbounded = unbounded || n.Cost(a) < 0 && n.Upper(a) == flowgraph.Infinite
		}
	}
	return count, unbounded
}

// run solves the linear program: one column per arc that is no loop, one row per node.
func (s *Solver) run(n *flowgraph.Network, budget solver.Budget) (solver.Status, []float64, solver.Work, error) {
	count, unbounded := loops(n)
	if n.NumArcs() == count {
		for v := range flowgraph.NodeID(n.NodeBound()) {
			if n.NodeAlive(v) && n.Supply(v) != 0 {
				return solver.Infeasible, nil, solver.Work{}, nil
			}
		}
		if unbounded {
			return solver.Unbounded, nil, solver.Work{}, nil
		}
		return solver.Optimal, nil, solver.Work{}, nil
	}
	limit := math.MaxInt32
	if budget.Work > 0 {
		s.limit = max(2*s.limit, int(min(budget.Work, math.MaxInt32/2)))
		limit = s.limit
	}
	status, values, steps, err := program(n, limit, true)
	if status == solver.Unknown && err == nil { // infeasible or unbounded: without costs it is infeasible or optimal
		var more int64
		status, _, more, err = program(n, math.MaxInt32, false)
		steps += more
		if status == solver.Optimal {
			status = solver.Unbounded
		}
	}
	if status != solver.BudgetSpent {
		s.limit = 0
	}
	if status == solver.Optimal && unbounded {
		status = solver.Unbounded
	}
	return status, values, solver.Work{Units: steps, Steps: steps}, err
}

// program builds and solves the linear program. Unknown stands for "infeasible or unbounded".
func program(n *flowgraph.Network, limit int, priced bool) (solver.Status, []float64, int64, error) {
	m := highs.NewRawModel()
	defer runtime.KeepAlive(m) // a model that is collected frees what its solution is read from
	var lower, upper, cost []float64
	column := make([]int, n.ArcBound())
	for a := range flowgraph.ArcID(n.ArcBound()) {
		if !n.ArcAlive(a) || isLoop(n, a) {
			continue
		}
		d := n.Arc(a)
		column[a] = len(cost)
		lower = append(lower, float64(d.Lower))
		top := math.Inf(1)
		if d.Upper != flowgraph.Infinite {
			top = float64(d.Upper)
		}
		upper = append(upper, top)
		price := 0.0
		if priced {
			price = float64(d.Cost)
		}
		cost = append(cost, price)
	}
	supply, start, index, value := balances(n, column)
	err := errors.Join(
		m.SetBoolOption("output_flag", false),
		m.SetStringOption("solver", "simplex"),
		m.SetIntOption("simplex_iteration_limit", limit),
		m.AddColumnBounds(lower, upper),
		m.SetColumnCosts(cost),
		m.AddCompSparseRows(supply, start, index, value, supply),
	)
	if err != nil {
		return solver.Unknown, nil, 0, fmt.Errorf("highs: %w", err)
	}
	solution, err := m.Solve()
	var call highs.CallStatus
	if errors.As(err, &call) && call.IsWarning() {
		return solver.BudgetSpent, nil, int64(limit), nil
	}
	if err != nil {
		return solver.Unknown, nil, 0, fmt.Errorf("highs: %w", err)
	}
	steps, _ := solution.GetIntInfo("simplex_iteration_count")
	switch solution.Status {
	case highs.Optimal, highs.ModelEmpty:
		return solver.Optimal, solution.ColumnPrimal, int64(steps), nil
	case highs.Infeasible:
		return solver.Infeasible, nil, int64(steps), nil
	case highs.UnboundedOrInfeasible, highs.Unbounded:
		return solver.Unknown, nil, int64(steps), nil
	case highs.IterationLimit:
		return solver.BudgetSpent, nil, int64(steps), nil
	default:
		return solver.Unknown, nil, int64(steps), fmt.Errorf("highs: it ended with %v", solution.Status)
	}
}

// balances returns the rows: what leaves a node less what enters it is its supply.
func balances(n *flowgraph.Network, column []int) (supply []float64, start, index []int, value []float64) {
	for v := range flowgraph.NodeID(n.NodeBound()) {
		if !n.NodeAlive(v) {
			continue
		}
		supply = append(supply, float64(n.Supply(v)))
		start = append(start, len(index))
		for _, out := range n.Out(v) {
			if n.Head(out.Arc) != v {
				index, value = append(index, column[out.Arc]), append(value, 1)
			}
		}
		for _, in := range n.In(v) {
			if n.Tail(in.Arc) != v {
				index, value = append(index, column[in.Arc]), append(value, -1)
			}
		}
	}
	return supply, start, index, value
}

// finish rounds the flow, certifies it by its potentials, and lists what changed.
func (s *Solver) finish(n *flowgraph.Network, result solver.Result, values []float64) (solver.Result, error) {
	s.old, s.flow = s.flow, make([]int64, n.ArcBound())
	s.changed = s.changed[:0]
	var sum flowgraph.Int128
	next := 0
	for a := range flowgraph.ArcID(n.ArcBound()) {
		switch {
		case !n.ArcAlive(a):
		case isLoop(n, a) && n.Cost(a) < 0:
			s.flow[a] = n.Upper(a)
		case isLoop(n, a):
			s.flow[a] = n.Lower(a)
		default:
			s.flow[a] = int64(math.Round(values[next]))
			next++
		}
		if n.ArcAlive(a) {
			sum.AddMul(int64(n.Cost(a)), s.flow[a])
		}
		if n.ArcAlive(a) && (int(a) >= len(s.old) && s.flow[a] != 0 || int(a) < len(s.old) && s.flow[a] != s.old[a]) {
			s.changed = append(s.changed, a)
		}
	}
	var ok bool
	if result.Objective, ok = sum.Int64(); !ok {
		return solver.Result{Status: solver.CostRange, Work: result.Work}, nil
	}
	if !s.potentials(n) {
		return solver.Result{}, fmt.Errorf("%w: a residual cycle has a negative cost", ErrNotExact)
	}
	result.Solution = s
	return result, nil
}

// potentials computes shortest distances in the residual network from a node with an arc of cost zero to every other, and
// reports whether there are any: π(head) ≤ π(tail) + c on every residual arc.
func (s *Solver) potentials(n *flowgraph.Network) bool {
	s.pi = make([]int64, n.NodeBound())
	for round := 0; ; round++ {
		moved := false
		for a := range flowgraph.ArcID(n.ArcBound()) {
			if !n.ArcAlive(a) {
				continue
			}
			d := n.Arc(a)
			if s.flow[a] < d.Upper && s.pi[d.Tail]+int64(d.Cost) < s.pi[d.Head] {
				s.pi[d.Head], moved = s.pi[d.Tail]+int64(d.Cost), true
			}
			if s.flow[a] > d.Lower && s.pi[d.Head]-int64(d.Cost) < s.pi[d.Tail] {
				s.pi[d.Tail], moved = s.pi[d.Head]-int64(d.Cost), true
			}
		}
		if !moved {
			return true
		}
		if round > n.NumNodes() {
			return false
		}
	}
}

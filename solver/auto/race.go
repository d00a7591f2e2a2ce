package auto

import (
	"errors"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// pace is how many units others get in a race for one of repair, which reads
// arcs here and there and not in sequence.
func pace(s solver.Solver) int64 {
	switch s.(type) {
	case *netsimplex.Solver:
		return 8
	case *costscaling.Solver:
		return 4
	case *anew:
		return 2
	}
	return 1
}

type outcome struct {
	result solver.Result
	err    error
}

// sideBySide gives each of two solvers a turn and waits for both.
func sideBySide(n *flowgraph.Network, a solver.Solver, forA solver.Budget, b solver.Solver, forB solver.Budget) (mine, theirs outcome) {
	other := make(chan outcome, 1)
	go func() {
		r, err := b.Solve(n, forB)
		other <- outcome{r, err}
	}()
	r, err := a.Solve(n, forA)
	return outcome{r, err}, <-other
}

// anew answers from zero with assignment. The zero value is ready.
type anew struct {
	units *assignment.Solver
	seq   flowgraph.Seq
}

// Solve goes on if n has not changed since the last call. It says CostRange of a
// network that assignment does not take.
func (a *anew) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if _, seq, _ := n.Changes(a.seq); a.units == nil || seq != a.seq {
		units, ok := assignment.New(n)
		if !ok {
			return solver.Result{Status: solver.CostRange}, nil
		}
		a.units, a.seq = units, seq
	}
	return a.units.Solve(n, budget)
}

// Name is not asked.
func (a *anew) Name() string { return "assignment" }

// rival returns who runs beside repair.
func (s *Solver) rival() solver.Solver {
	if s.challenger != nil {
		return s.challenger
	}
	return s.simplex
}

// endRace frees what a race needed.
func (s *Solver) endRace() {
	s.racing, s.spent, s.alone, s.gaining, s.last, s.most, s.early = false, 0, 0, 0, 0, 0, 0
	if a, ok := s.challenger.(*anew); ok {
		a.units = nil
	}
}

// race advances both in quanta until one has an answer. When a challenger refuses,
// the simplex takes its place for good.
func (s *Solver) race(n *flowgraph.Network, budget solver.Budget, quantum int64, total solver.Work) (solver.Result, error) {
	turn := solver.Budget{Work: max(1, quantum)}
	for {
		if budget.Spent(total.Units) {
			return solver.Result{Status: solver.BudgetSpent, Work: total}, nil
		}
		rival := s.rival()
		mine, theirs := sideBySide(n, s.repair, turn, rival, solver.Budget{Work: pace(rival) * turn.Work})
		if err := errors.Join(mine.err, theirs.err); err != nil {
			return solver.Result{}, err
		}
		add(&total, mine.result.Work)
		add(&total, theirs.result.Work)
		won := mine.result
		switch {
		case won.Status != solver.BudgetSpent:
		case theirs.result.Status == solver.Optimal:
			return s.handOver(n, theirs.result, total)
		case theirs.result.Status == solver.CostRange && rival != s.simplex:
			s.single, s.challenger = false, nil
			continue
		case theirs.result.Status != solver.BudgetSpent:
			won = theirs.result
		default:
			continue
		}
		s.endRace()
		won.Work = total
		return won, nil
	}
}

// handOver gives the answer of who overtook it to repair, which answers from then on.
func (s *Solver) handOver(n *flowgraph.Network, found solver.Result, total solver.Work) (solver.Result, error) {
	s.patience -= s.patience / 4
	s.repair.Adopt(n, found)
	s.endRace()
	r, err := s.repair.Solve(n, solver.Budget{})
	add(&total, r.Work)
	r.Work = total
	return r, err
}

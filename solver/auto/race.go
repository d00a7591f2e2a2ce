package auto

import (
	"errors"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// pace is how many units another solver gets in a race for one unit of repair. Repair reads arcs here and
// there, others in sequence.
func pace(s solver.Solver) int64 {
	switch s.(type) {
	case *netsimplex.Solver, *Solver:
		return 8
	case *costscaling.Solver:
		return 4
	case *anew:
		return 2
	}
	return 1
}

// effort is how much work the simplex does in the time of some work of repair. That is its pace, or less
// where repair reads many arcs of one node in sequence at each step.
func effort(w solver.Work) int64 {
	return min(pace(&netsimplex.Solver{})*w.Units, w.Units+stride*int64(w.Steps))
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

// Solve goes on if n has not changed since the last call. It returns CostRange for a network that assignment
// does not take.
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

// cold is how much work an answer from zero takes, judged by the last one.
func (s *Solver) cold(n *flowgraph.Network) int64 {
	return s.dear * int64(n.NumNodes()+n.NumArcs()) / 100
}

// learn notes what an answer from zero took.
func (s *Solver) learn(n *flowgraph.Network) {
	s.dear = 100 * s.ran / int64(max(1, n.NumNodes()+n.NumArcs()))
	s.ran = 0
}

// rivals returns who race for an answer after changes. On a network of single tasks that is repair and
// assignment from zero. Elsewhere it is first repair and the simplex. When the simplex has worked for half as
// long as an answer from zero takes, a solver from zero takes the place of repair.
func (s *Solver) rivals(n *flowgraph.Network) (one, beside solver.Solver) {
	switch {
	case s.single:
		return s.repair, &s.anew
	case s.chaser == nil:
		return s.repair, s.fresh
	case s.fresh == nil && 2*s.ran < s.cold(n):
		return s.repair, s.chaser
	case s.fresh == nil:
		s.fresh, s.ran = New(), 0
	}
	return s.chaser, s.fresh
}

// chase starts the simplex from where repair, which knows of all changes, has come to. If an answer from zero
// takes hardly longer than that, it starts one from zero.
func (s *Solver) chase(n *flowgraph.Network) {
	if s.ran = 0; s.dear < 100*chasing {
		s.fresh = New()
		return
	}
	s.chaser = netsimplex.New()
	s.chaser.Adopt(n, s.repair)
}

// endRace frees what a race needed.
func (s *Solver) endRace() {
	s.racing, s.spent, s.alone, s.gaining, s.last, s.most, s.early = false, 0, 0, 0, 0, 0, 0
	s.effort, s.challenger, s.anew, s.chaser, s.fresh = 0, nil, anew{}, nil, nil
}

// race advances two solvers in quanta until one has an answer. When assignment refuses, the network from then
// on counts as one that is not of single tasks.
func (s *Solver) race(n *flowgraph.Network, budget solver.Budget, quantum int64, total solver.Work) (solver.Result, error) {
	for {
		if budget.Spent(total.Units) {
			return solver.Result{Status: solver.BudgetSpent, Work: total}, nil
		}
		a, b := s.rivals(n)
		mine, theirs := sideBySide(n, a, solver.Budget{Work: pace(a) * quantum}, b, solver.Budget{Work: pace(b) * quantum})
		if err := errors.Join(mine.err, theirs.err); err != nil {
			return solver.Result{}, err
		}
		add(&total, mine.result.Work)
		add(&total, theirs.result.Work)
		s.ran += theirs.result.Work.Units
		if s.single && theirs.result.Status == solver.CostRange {
			s.single = false
			s.chase(n)
			theirs.result.Status = solver.BudgetSpent
		}
		won, by := mine.result, a
		if won.Status == solver.BudgetSpent {
			won, by = theirs.result, b
		}
		if won.Status == solver.BudgetSpent {
			continue
		}
		if s.fresh != nil && (by == s.fresh || s.ran > s.cold(n)) {
			s.learn(n)
		}
		if won.Status == solver.Optimal && by != s.repair {
			return s.handOver(n, won, total)
		}
		s.endRace()
		won.Work = total
		return won, nil
	}
}

// handOver gives the answer of the one that overtook repair to repair, which answers from then on.
func (s *Solver) handOver(n *flowgraph.Network, found solver.Result, total solver.Work) (solver.Result, error) {
	s.patience -= s.patience / 4
	s.repair.Adopt(n, found)
	s.endRace()
	r, err := s.repair.Solve(n, solver.Budget{})
	add(&total, r.Work)
	r.Work = total
	return r, err
}

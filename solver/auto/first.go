package auto

import (
	"math"
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/repair"
)

// start begins with paths where those may do. After an answer by paths, repair goes on from it, unless most
// of the network is new.
func (s *Solver) start(n *flowgraph.Network) {
	_, most, seq := changed(n, s.seq)
	if s.first == nil || most {
		s.first, s.seq, s.seen = nil, seq, seq
		if s.paths = newPaths(n); s.paths != nil {
			return
		}
	}
	s.survey(n)
}

// survey looks at the shape of n. If there is no first answer yet, it chooses by the shape who gives it.
func (s *Solver) survey(n *flowgraph.Network) {
	s.paths, s.shape = nil, layers(n)
	s.patience = s.mostPatience()
	if s.first != nil {
		return
	}
	free := unpriced(n)
	s.level = level(n)
	classes := s.layered && !s.single && !s.apart && free && n.NegativeArcs() == 0
	s.ready = s.crowd || classes || !s.apart && few(n, s.layered)
	if s.trial = s.ready; s.trial {
		switch s.patience = fewPatience; {
		case s.crowd || classes:
			s.patience = crowdRepair
		case s.layered:
			s.patience = fewLayered
		}
		if s.crowd {
			s.repair.Tire(crowdStamina)
		}
	} else if !s.layered && !free && s.diffuse && !s.level {
		s.relaxes, s.relaxed = relax.New(), 0
	} else if !s.layered && free {
		if s.wary = n.NegativeArcs() == 0 && n.FreeArcs() < n.NumArcs(); !s.wary {
			s.scale(n)
		}
	}
}

// giveUp leaves the first answer to others than repair.
func (s *Solver) giveUp() {
	s.endRace()
	s.repair, s.ready, s.trial, s.patience = repair.New(), false, false, s.mostPatience()
}

// begin gets assignment ready for the first answer. It returns false if tasks are not single, or assignment
// is not exact.
func (s *Solver) begin(n *flowgraph.Network) bool {
	if !s.single && !s.likely {
		return false
	}
	if _, seq, _ := n.Changes(s.seq); s.units == nil || seq != s.seq {
		var ok bool
		if s.units, ok = assignment.New(n); !ok {
			s.leaveUnits()
			return false
		}
		s.seq = seq
	}
	return true
}

// leaveUnits from now on treats the network as one that is not of single tasks.
func (s *Solver) leaveUnits() {
	s.units, s.single, s.likely, s.spent = nil, false, false, 0
	s.patience = s.mostPatience()
}

// byUnits lets assignment work alone. When that takes long, it is left.
func (s *Solver) byUnits(n *flowgraph.Network, budget solver.Budget, total *solver.Work) (solver.Result, error) {
	block := int64(math.Sqrt(float64(n.NumArcs())))
	limit := min(unitPatience*s.size, unitPivots*block*int64(n.NumNodes()))
	var r solver.Result
	var err error
	most := limit / crowdPatience
	if s.spent >= most { // it is not crowded
		most = limit
	}
	for ; ; most = limit {
		own := solver.Budget{Work: max(1, most-s.spent)}
		if budget.Work > 0 {
			own.Work = min(own.Work, rest(budget, *total).Work)
		}
		r, err = s.units.Solve(n, own)
		s.spent += r.Work.Units
		add(total, r.Work)
		r.Work = *total
		if err != nil || r.Status == solver.BudgetSpent && s.spent < most {
			return r, err
		}
		if r.Status != solver.BudgetSpent || most == limit || s.units.Crowded() {
			break
		}
	}
	if r.Status == solver.BudgetSpent {
		// Many tasks want the same, or ways are long.
		single := s.single
		if s.leaveUnits(); single && block < int64(n.NumNodes())/sparse {
			s.scale(n)
		}
		return r, nil
	}
	s.spent = 0
	s.remember(n, r)
	return r, nil
}

// scale lets cost scaling run, alone at first, then beside the simplex.
func (s *Solver) scale(n *flowgraph.Network) {
	s.racing, s.challenger, s.alone = true, costscaling.New(), alone*int64(n.NumNodes()+n.NumArcs())
}

// remember keeps the first answer. Repair takes it over when the network turns out to change.
func (s *Solver) remember(n *flowgraph.Network, r solver.Result) {
	if r.Status != solver.Optimal {
		return
	}
	s.first = &repair.Older{Solution: withFlow{r.Solution, n.ArcBound()}, Nodes: n.NodeBound()}
	_, s.first.Since, _ = n.Changes(0)
}

// bySimplex answers with relaxation while that works, else with the simplex or its challenger.
func (s *Solver) bySimplex(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if s.relaxes != nil {
		r, err := s.byRelaxation(n, budget)
		if err != nil || s.relaxes != nil {
			return r, err
		}
		done := r.Work
		r, err = s.bySimplex(n, rest(budget, done))
		add(&r.Work, done)
		return r, err
	}
	r, err := s.fromZero(n, budget)
	if err != nil || r.Status == solver.BudgetSpent {
		return r, err
	}
	if s.endRace(); !s.ready {
		s.remember(n, r)
	}
	return r, nil
}

// milestones tell whether relaxation is to go on: after so much work for each node and arc of a network of
// relaxNodes, at most such a part of the first excess may be left, in hundredths. The first list is for flow
// that has ends of its own. The second is for flow that runs only for what arcs gain; the simplex needs much
// longer for that.
var milestones = [2][]struct{ each, part int64 }{{{10, 98}, {20, 50}, {30, 10}}, {{6, 90}, {8, 75}, {10, 50}, {15, 25}, {20, 15}}}

// byRelaxation lets relaxation work as long as it gets ahead. It is left when it does not, or cannot begin.
func (s *Solver) byRelaxation(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	size := int64(n.NumNodes() + n.NumArcs())
	marks, most := milestones[0], relaxMost*size
	if !s.supplied {
		marks, most = milestones[1], 3*most
	}
	// On a larger one they come later; but the simplex then needs even more for each.
	each := size * int64(4+max(1, bits.Len(uint(n.NumNodes()/relaxNodes)))) / 5
	var total solver.Work
	for {
		end, part := most, int64(0)
		for _, m := range marks {
			if s.relaxed < m.each*each {
				end, part = m.each*each, m.part
				break
			}
		}
		own := solver.Budget{Work: end - s.relaxed}
		if budget.Work > 0 {
			own.Work = min(own.Work, rest(budget, total).Work)
		}
		r, err := s.relaxes.Solve(n, own)
		s.relaxed += r.Work.Units
		add(&total, r.Work)
		r.Work = total
		switch {
		case err != nil:
			return r, err
		case r.Status == solver.CostRange:
			s.relaxes = nil
			return r, nil
		case r.Status != solver.BudgetSpent:
			s.relaxed = 0
			s.remember(n, r)
			return r, nil
		}
		if left, of := s.relaxes.Left(); s.relaxed >= end && 100*left > part*of {
			s.relaxes = nil
			return r, nil
		}
		if budget.Spent(total.Units) {
			return r, nil
		}
	}
}

// fromZero lets the simplex work alone, then beside another.
func (s *Solver) fromZero(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	size := int64(n.NumNodes() + n.NumArcs())
	var total solver.Work
	if !s.racing {
		r, err := s.byTree(n, budget, size)
		if err != nil || !s.racing {
			return r, err
		}
		total = r.Work
	}
	unit := size/beginning + 1
	longer := solver.Budget{Work: pace(s.simplex) * unit}
	for !budget.Spent(total.Units) {
		if s.challenger == nil {
			// It refused the costs.
			r, err := s.simplex.Solve(n, longer)
			add(&total, r.Work)
			if r.Work = total; err != nil || r.Status != solver.BudgetSpent {
				return r, err
			}
			continue
		}
		turn := solver.Budget{Work: pace(s.challenger) * unit}
		var mine, theirs outcome
		if s.alone > 0 {
			mine.result.Status = solver.BudgetSpent
			theirs.result, theirs.err = s.challenger.Solve(n, turn)
			s.alone -= theirs.result.Work.Units
		} else {
			mine, theirs = sideBySide(n, s.simplex, longer, s.challenger, turn)
		}
		add(&total, mine.result.Work)
		add(&total, theirs.result.Work)
		mine.result.Work, theirs.result.Work = total, total
		switch {
		case mine.err != nil || mine.result.Status != solver.BudgetSpent:
			s.challenger = nil
			return mine.result, mine.err
		case theirs.err != nil || theirs.result.Status == solver.CostRange:
			s.challenger = nil
		case theirs.result.Status != solver.BudgetSpent:
			if r, is := s.challenger.(*repair.Solver); is && theirs.result.Status == solver.Optimal {
				s.simplex, s.repair, s.ready, s.shaken = netsimplex.New(), r, true, 0
			}
			return theirs.result, nil
		}
	}
	return solver.Result{Status: solver.BudgetSpent, Work: total}, nil
}

// byTree lets the simplex work alone. It sets racing if another is to start, and alone if that one is to work
// without the simplex at first.
func (s *Solver) byTree(n *flowgraph.Network, budget solver.Budget, size int64) (solver.Result, error) {
	start := headStart + headStartEach*size
	limit := start
	if !s.layered {
		limit *= 2
	}
	step := start / looks
	if s.wary {
		step /= 2
	}
	var total solver.Work
	for {
		own := solver.Budget{Work: step}
		if budget.Work > 0 {
			own.Work = min(own.Work, max(1, budget.Work-total.Units))
		}
		r, err := s.simplex.Solve(n, own)
		s.spent += r.Work.Units
		add(&total, r.Work)
		if r.Work = total; err != nil || r.Status != solver.BudgetSpent {
			return r, err
		}
		deep := !s.layered && (s.spreads() || s.slow(start)) || s.wary && s.walks(start/looks)
		if deep || s.level || s.lags(limit/2) {
			if s.scale(n); !deep || s.rooted || s.wary && s.settled(s.last) {
				s.alone = 0
			}
			if s.layered && !s.level && size > large {
				s.challenger = repair.New()
			}
			return r, nil
		}
		if budget.Spent(total.Units) {
			return r, nil
		}
	}
}

// slow tells whether the simplex mostly walks around in a deep tree, and has taken as long as start or will
// need as long again. It is called at each look and judges by how many fewer arcs gain than at the last one.
// That number goes up and down: two looks tell nothing yet, nor does one when twice as many have gained, or
// when few gain.
func (s *Solver) slow(start int64) bool {
	walked, before := s.simplex.Walked(), s.gaining
	if s.most == 0 {
		s.most, s.rooted = s.simplex.Gaining(), s.net.NegativeArcs() > 0 && 5*walked >= 3*s.spent
	}
	if s.gaining = 0; 5*walked < s.spent {
		return false
	}
	s.gaining = s.simplex.Gaining()
	s.most = max(s.most, s.gaining)
	if 5*walked < 2*s.spent || 2*s.gaining <= s.most || s.settled(s.gaining) {
		return false
	}
	return s.spent >= start || before > 0 && 2*looks*s.spent > 5*start && s.gaining > looks*(before-s.gaining)
}

// spreads tells whether all arcs are narrow, and half as many again gain as at the first look. Flow then
// finds its way to where it has not been, as through a grid, and there is as much ahead as ever.
func (s *Solver) spreads() bool {
	if !narrow(s.net) {
		return false
	}
	g := s.simplex.Gaining()
	if s.early == 0 {
		s.early = g
	}
	return 2*g > 3*s.early
}

// walks tells whether the simplex has begun to walk among trees of one cost: it has spent as much as from,
// and since the last look hardly fewer arcs gain.
func (s *Solver) walks(from int64) bool {
	before := s.last
	s.last = s.simplex.Gaining()
	return s.spent >= from && wariness*s.simplex.Walked() >= s.spent && 5*s.last > 4*before
}

// settled tells whether so few arcs gain that most flow is where it belongs. The simplex is then faster than
// its deep tree suggests.
func (s *Solver) settled(gaining int) bool { return !s.layered && gainful*gaining <= s.net.NumArcs() }

// lags tells whether the simplex has spent within, or twice that where few arcs gain, since twice as many
// gained. It does not before it has spent within.
func (s *Solver) lags(within int64) bool {
	if s.spent < within {
		s.half = 0
		return false
	}
	g := s.simplex.Gaining()
	if s.half == 0 || 2*g <= s.half {
		s.half, s.since = g, s.spent
	}
	if s.settled(g) {
		within *= 2
	}
	return s.spent-s.since >= within
}

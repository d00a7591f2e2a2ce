// Package auto is the solver to use when there is no reason to choose: it picks one, watches its effort, and lets two
// race when the first takes long.
//
// # From zero
//
// The shape of the network decides who gives the first answer:
//
//   - paths, in the network itself and before anything is read in, where a few ways may do;
//   - repair, where little flows through many nodes; where most arcs leave sources of classes and hardly any has a price;
//     and where single tasks all pass the same few nodes, such as a cluster aggregator, to many others;
//   - assignment, where most nodes are sources of single tasks; or where each task could have a node of its own, and many
//     one that is cheapest to them;
//   - cost scaling, where hardly any arc has a price and most do not leave sources; if some have and none is negative, the
//     simplex begins, and cost scaling starts as soon as that has begun to walk;
//   - relaxation, where many nodes have some arcs each and most arcs do not leave sources, for as long as what is in excess
//     quickly becomes less;
//   - the simplex everywhere else.
//
// When that takes long, another goes on or starts beside it:
//
//   - After paths, the shape decides among the others. The simplex takes the place of repair and relaxation. Cost scaling
//     takes that of assignment, since most tasks are alike then; if sources have very many arcs, the simplex does.
//   - Beside a simplex starts repair on a large network most of whose arcs are of classes; elsewhere cost scaling, which
//     reads the same arcs fewer times.
//   - Cost scaling starts sooner, and works alone at first, where flow spreads over narrow arcs, so that ever more gain, and
//     where the simplex spends its work on a deep tree and arcs that gain hardly get fewer. It starts beside the simplex if
//     the tree was deep from the first and some arc has a negative cost, and after the first look where all arcs have the
//     same cost.
//
// # After a change
//
// Repair takes over the answer and goes on from it: it is by far the fastest after a small change. A larger one, or a shock
// that moves the whole price level, can keep it busy for long.
//
//   - When repair has worked for as long as an answer from zero took, or spent its patience, a multiple of the size of the
//     network, the simplex starts beside it from where repair has come to. On a network of single tasks that is assignment
//     from zero.
//   - If that simplex takes long, too, an answer from zero takes the place of repair.
//   - If a change touches most of the network, as when nearly all classes of one cycle are gone in the next, repair would
//     keep nothing of what it knows. The simplex answers in its place, from its own last tree, until changes have been small
//     for a while.
//
// # Races
//
// Both that race advance in quanta of counted work that take about as long, with a barrier after each. The first to finish
// wins, the one that began if both do. No clock is read: the same history gives the same answer on any machine, with one
// core or two.
package auto

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/repair"
)

const (
	// patience is how many units of work per node and arc repair gets before
	// another starts, less if that is assignment: about what the other would need.
	// It is a quarter less after each race that repair lost, twice that, up to the
	// constant, after each solve that needed no race.
	patience, patienceSingle = 32, 24
	// chasing is how much work for each node and arc an answer from zero must take if the simplex is to start beside repair.
	chasing = 8
	// stride is how much work of the simplex takes as long as a step of repair, besides the arcs read.
	stride = 200
	// shock is how many wide searches of repair in a network of single tasks end its
	// patience at once: a price level moves, unit by unit.
	shock = 6
	// unitPatience is how many units of work for each source and arc out of one
	// assignment gets before the simplex begins, but no more than unitPivots for each node
	// and arc of a block of pricing: a few pivots a node, each of a block, are about what
	// the simplex needs, little where sources have very many arcs.
	unitPatience, unitPivots = 32, 4
	// crowdPatience is which part of that must do where hardly any task fits where it would go first.
	crowdPatience = 8
	// sparse is of how many nodes there must be one at least for each arc of a block of
	// pricing if cost scaling is to begin then, and alone.
	sparse = 8
	// quanta is into how many turns a race divides that much work.
	quanta = 24
	// fewNodes is how many nodes there must be for one unit of flow if repair is to
	// give the first answer, unless each could have a node of its own, and fewPatience its patience then, fewLayered where most arcs
	// leave sources. Where they do not, ways are long: more than fewUnits would take it that long, and the
	// simplex gives the answer.
	fewUnits, fewNodes, fewPatience, fewLayered = 16, 8, 4, 8
	// together is how many single tasks there must be for a node that they can go to if, few for
	// the nodes behind those, they are a crowd: repair gives the first answer then, with
	// crowdRepair as its patience, and its searches leave units together after crowdStamina nodes.
	together, crowdRepair, crowdStamina = 8, 24, 64
	// manyNodes is of how many nodes one at least is a source where they are a layer.
	manyNodes = 1024
	// fitting is of how many single tasks one at least must find a cheapest place free if each could have one of its own and
	// assignment is to place them: else most would have to give way to others, which the simplex does faster.
	fitting = 3
	// manyPlaces is how many single tasks there must be for a place that demands some.
	manyPlaces = 4
	// headStart and more for each node and arc is what the simplex may do from zero before
	// another starts, twice that where most arcs do not leave sources: some 0.1 s, and of a
	// large network most of what it needs if it suits it, a quarter of what cost scaling does.
	headStart, headStartEach = 15_000_000, 200
	// looks is how many times within that the simplex is looked at for a deep tree, and
	// alone for how many units of work for each node and arc cost scaling then works
	// without it, about twice what it needs.
	looks, alone = 8, 2048
	// gainful is of how many arcs one at most has a negative reduced cost where few have.
	gainful = 7
	// freeArcs is of how many arcs all but one at most cost nothing where the problem is nearly one of
	// maximum flow: the simplex goes through very many trees of one cost then. Where some cost more and none less
	// it may be short of that: it is looked at twice as often, until it walks for one unit of wariness at one
	// but the first, and hardly fewer arcs gain than at the last.
	freeArcs, wariness = 5, 12
	// beginning is into how many turns a race from zero divides one unit of repair for
	// each node and arc.
	beginning = 12
	// lasting is for how many changes the simplex answers on after one that touched most
	// of the network: price-out follows it with a dozen small ones, and then it comes again.
	lasting = 16
	// relaxNodes is how many nodes, and relaxDegree how many arcs for each, relaxation needs to be tried, relaxHub of how many
	// nodes one may have an arc to or from the same; relaxMost is how much work for each node and arc it gets at most, several times
	// that where all flow is for what arcs gain.
	relaxNodes, relaxDegree, relaxHub, relaxMost = 16_000, 4, 32, 80
	// large is how many nodes and arcs make a network on which a dozen solves by the simplex
	// cost more than repair loses by one change, and, of classes, cost scaling from zero more than repair.
	large = 1 << 17
)

// Solver picks. Use [New].
type Solver struct {
	net     *flowgraph.Network
	repair  *repair.Solver
	simplex *netsimplex.Solver
	// challenger runs beside a simplex that takes long from zero.
	challenger solver.Solver
	// anew, on a network of single tasks, else chaser, the simplex from where repair has come to, runs beside a repair that takes
	// long; fresh, a solver from zero, then takes the place of repair, or if that costs little begins at once. ran is the work that
	// who runs beside has done.
	anew   anew
	chaser *netsimplex.Solver
	fresh  *Solver
	ran    int64
	// dear is the work of the last answer from zero, as far as known, in hundredths for each node and arc; effort is the work of the
	// simplex in the time that repair has taken.
	dear, effort int64
	// paths, where a few ways may do, or units, on a network of single tasks, take the place of
	// repair until the first answer, on a network that is as it was at seq; else nil.
	paths *paths
	units *assignment.Solver
	seq   flowgraph.Seq
	shape
	// relaxes, where relaxation may do, gives the first answer, else nil; relaxed is the work that it has spent.
	relaxes *relax.Solver
	relaxed int64
	// first is the first answer, until repair takes it over.
	first *repair.Older
	// ready: repair answers; trial: it has yet to show that it can.
	ready, trial bool
	racing       bool
	// wary: hardly any arc has a price, but some have, and none a negative one.
	wary bool
	// patience is the present one, from 1 to what is due to the network.
	patience int64
	// spent is the work since its last answer of the one that begins; alone is for how
	// much more its challenger works without it.
	spent, alone int64
	// gaining is how many arcs the simplex found to gain when it was looked at, or 0, and most how many at most,
	// at the first look or in a deep tree; last is how many did at the last look where wary, early at the first where not layered.
	gaining, most, last, early int
	// rooted: the tree was deep already when it was looked at first, and some flow runs for what it gains. The
	// simplex may then be faster all the same, and goes on beside cost scaling.
	rooted bool
	// half is how many there were when they were last found to be half as many, and since is what it had spent then.
	half  int
	since int64
	// shaken is for how many more changes the simplex answers in place of repair; seen is
	// up to where changes have been looked at.
	shaken int
	seen   flowgraph.Seq
	// teller gave the last answer, nil before the first; adopted: repair has taken over
	// the flow that the caller knows, though it is not the teller.
	teller  solver.Solution
	adopted bool
}

// anyFlow is a solution that says of every live arc that its flow may have changed.
type anyFlow struct {
	solver.Solution
	net *flowgraph.Network
}

// Changed lists the live arcs.
func (f anyFlow) Changed() []flowgraph.ArcID {
	all := make([]flowgraph.ArcID, 0, f.net.NumArcs())
	for i := range f.net.ArcBound() {
		if a := flowgraph.ArcID(i); f.net.ArcAlive(a) {
			all = append(all, a)
		}
	}
	return all
}

// withFlow is a solution that lists the arcs with flow, of those below bound.
type withFlow struct {
	solver.Solution
	bound int
}

// Changed lists the arcs with flow.
func (f withFlow) Changed() (arcs []flowgraph.ArcID) {
	for i := range f.bound {
		if a := flowgraph.ArcID(i); f.Flow(a) != 0 {
			arcs = append(arcs, a)
		}
	}
	return arcs
}

var _ solver.Solver = (*Solver)(nil)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{} }

// Name returns "auto".
func (s *Solver) Name() string { return "auto" }

// Solve finds an optimal flow by whatever means are fastest.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if status := solver.Precheck(n, repair.MaxBits); status != solver.Optimal {
		return solver.Result{Status: status}, nil
	}
	if n != s.net {
		*s = Solver{net: n, repair: repair.New(), simplex: netsimplex.New()}
		s.start(n)
	} else if s.paths != nil {
		if _, seq, _ := n.Changes(s.seq); s.first != nil || seq != s.seq {
			s.start(n)
		}
	}
	leads := s.shaken > 0
	s.look(n)
	if leads != (s.shaken > 0) {
		s.endRace()
	}
	if s.shaken > 0 && !leads {
		s.repair, s.ready, s.adopted = repair.New(), false, false
	}
	var r solver.Result
	var err error
	if s.shaken > 0 {
		s.first, s.units, s.relaxes = nil, nil, nil
		r, err = s.bySimplex(n, budget)
	} else {
		r, err = s.answer(n, budget)
	}
	if s.teller == nil {
		if s.ran += r.Work.Units; r.Status != solver.BudgetSpent {
			s.learn(n)
		}
	}
	if r.Status == solver.Optimal {
		known := s.teller == nil || s.teller == r.Solution || s.adopted
		s.teller, s.adopted = r.Solution, false
		if !known {
			r.Solution = anyFlow{r.Solution, n}
		}
	}
	return r, err
}

// mayLead tells whether the simplex may ever answer in place of repair: not on networks of single tasks, nor on large ones, on
// which it is slow.
func (s *Solver) mayLead(n *flowgraph.Network) bool {
	return !s.single && n.NumNodes()+n.NumArcs() <= large
}

// look notes whether what changed since the last call is most of the network.
func (s *Solver) look(n *flowgraph.Network) {
	some, most, next := changed(n, s.seen)
	s.seen = next
	switch {
	case !s.mayLead(n):
		s.shaken = 0
	case s.teller == nil || !some:
	case most:
		s.shaken = lasting
	case s.shaken > 0:
		s.shaken--
	}
}

// changed tells whether some of the network, and whether most of it, has changed since, and up to where that is.
func changed(n *flowgraph.Network, since flowgraph.Seq) (some, most bool, next flowgraph.Seq) {
	touched, next, complete := n.Changes(since)
	return !complete || len(touched) > 0, !complete || 2*len(touched) > n.NumNodes()+n.NumArcs(), next
}

// answer lets repair answer, or before it knows of a flow, who gives the first.
func (s *Solver) answer(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if s.paths != nil {
		r := s.paths.solve(budget)
		if s.remember(n, r); r.Status != solver.BudgetSpent || !s.paths.tired() {
			return r, nil
		}
		s.survey(n)
		done := r.Work
		r, err := s.answer(n, rest(budget, done))
		add(&r.Work, done)
		return r, err
	}
	if s.first != nil {
		s.repair.AdoptOlder(n, *s.first)
		s.first, s.units, s.relaxes, s.ready, s.adopted = nil, nil, nil, true, true
		if !s.mayLead(n) {
			s.simplex = netsimplex.New() // for its memory: nobody asks it again
		}
	}
	if !s.ready && !s.begin(n) {
		return s.bySimplex(n, budget)
	}
	var total solver.Work
	if s.units != nil {
		r, err := s.byUnits(n, budget, &total)
		if err != nil || s.units != nil {
			return r, err
		}
		r, err = s.bySimplex(n, rest(budget, total))
		add(&r.Work, total)
		return r, err
	}
	size := int64(n.NumNodes() + n.NumArcs() + 64)
	limit := s.patience * size
	if !s.racing {
		r, err := s.byRepair(n, budget, limit, &total)
		if err != nil || !s.racing {
			if s.trial && r.Status != solver.BudgetSpent {
				s.trial, s.patience = false, s.mostPatience()
				s.repair.Tire(repair.Stamina)
			}
			return r, err
		}
		if s.trial {
			s.giveUp()
			r, err := s.answer(n, rest(budget, total))
			add(&r.Work, total)
			return r, err
		}
	}
	return s.race(n, budget, max(1, limit/quanta, size/beginning), total)
}

// rest is what a budget leaves after work.
func rest(budget solver.Budget, done solver.Work) solver.Budget {
	if budget.Work > 0 {
		budget.Work = max(1, budget.Work-done.Units)
	}
	return budget
}

// byRepair lets repair work alone. It sets racing if that is not enough.
func (s *Solver) byRepair(n *flowgraph.Network, budget solver.Budget, limit int64, total *solver.Work) (solver.Result, error) {
	chased := !s.single && !s.trial
	for {
		own := solver.Budget{Work: max(1, min(limit/quanta, limit-s.spent))}
		if budget.Work > 0 {
			own.Work = min(own.Work, max(1, budget.Work-total.Units))
		}
		r, err := s.repair.Solve(n, own)
		s.spent += r.Work.Units
		s.effort += effort(r.Work)
		add(total, r.Work)
		r.Work = *total
		switch {
		case err != nil:
			return r, err
		case r.Status != solver.BudgetSpent:
			s.spent, s.effort = 0, 0
			s.patience = min(2*s.patience, s.mostPatience())
			return r, nil
		case budget.Spent(total.Units):
			return r, nil
		case s.spent >= limit || s.single && s.repair.Wide() >= shock || chased && s.effort >= s.cold(n):
			if s.racing = true; chased {
				s.chase(n)
			}
			return r, nil
		}
	}
}

func (s *Solver) mostPatience() int64 {
	if s.single {
		return patienceSingle
	}
	return patience
}

func add(total *solver.Work, w solver.Work) {
	total.Units += w.Units
	total.Steps += w.Steps
	total.Touched += w.Touched
	total.Rebuilds += w.Rebuilds
}

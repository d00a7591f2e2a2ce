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
	// patience is how many units of work for each node and arc repair gets before another starts: about what
	// the other would need. patienceSingle is that where the other is assignment. Each race that repair loses
	// takes a quarter of it away. Each solve that needs no race doubles it, up to the constant.
	patience, patienceSingle = 32, 24
	// chasing is how much work for each node and arc an answer from zero must take if the simplex is to start
	// beside repair. If it takes less, a solver from zero starts instead.
	chasing = 8
	// stride is how much work of the simplex takes as long as one step of repair, besides the arcs that it
	// reads.
	stride = 200
	// shock is how many wide searches end repair's patience at once, in a network of single tasks: a price
	// level moves then, unit by unit.
	shock = 6
	// unitPatience is how many units of work assignment gets before the simplex begins, for each source and
	// each arc out of one. unitPivots bounds that, for each node times the arcs of a block of pricing. The
	// simplex needs about a few pivots a node, each of a block: little where sources have very many arcs.
	unitPatience, unitPivots = 32, 4
	// crowdPatience is after which part of that assignment ends already if hardly any task fits where it
	// would go first.
	crowdPatience = 8
	// sparse is how many nodes there must be for each arc of a block of pricing if cost scaling is to begin
	// when assignment has ended, and alone.
	sparse = 8
	// quanta is into how many turns a race divides the work of repair's patience.
	quanta = 24
	// Repair gives the first answer where there are fewNodes nodes for each unit of flow, unless each unit
	// could have a node of its own. fewPatience is its patience then, fewLayered where most arcs leave
	// sources. Where they do not, ways are long: there the simplex answers if more than fewUnits flow.
	fewUnits, fewNodes, fewPatience, fewLayered = 16, 8, 4, 8
	// Single tasks are a crowd if there are at least together of them for each node that they can go to
	// first, and fewer of them than of other nodes. Repair gives the first answer then, with crowdRepair as
	// its patience. Its searches leave units together after crowdStamina nodes.
	together, crowdRepair, crowdStamina = 8, 24, 64
	// manyNodes: sources are a layer if at least one node of so many is one.
	manyNodes = 1024
	// fitting: where each single task could have a place of its own, assignment places them if at least one
	// of so many finds a cheapest place free. Else most would have to give way to others, which the simplex
	// does faster.
	fitting = 3
	// manyPlaces is how many tasks there must be for each place that demands some, if they are to count as
	// single.
	manyPlaces = 4
	// headStart, and headStartEach more for each node and arc, is what the simplex may do from zero before
	// another starts, twice that where most arcs do not leave sources. It is some 0.1 s. On a large network
	// it is most of what the simplex needs if that suits, and a quarter of what cost scaling does.
	headStart, headStartEach = 15_000_000, 200
	// looks is how many times within the head start the simplex is looked at for a deep tree. alone is for
	// how many units of work for each node and arc cost scaling then works without it, about twice what cost
	// scaling needs.
	looks, alone = 8, 2048
	// gainful: few arcs gain if at most one of so many has a negative reduced cost.
	gainful = 7
	// freeArcs: the problem is nearly one of maximum flow if at most one arc of so many has a cost. The
	// simplex then goes through very many trees of one cost. Where costs are positive it may need few of
	// them: it is looked at twice as often, until it begins to walk. That is so if, at any look but the
	// first, it has walked for one unit of wariness, and hardly fewer arcs gain than at the last look.
	freeArcs, wariness = 5, 12
	// beginning is into how many turns a race from zero divides one unit of repair for each node and arc.
	beginning = 12
	// lasting is for how many changes the simplex answers on after one that touched most of the network. A
	// price-out is followed by a dozen small changes, and then comes again.
	lasting = 16
	// Relaxation is tried from relaxNodes nodes on, with relaxDegree arcs for each node. No node may have
	// more arcs than one for relaxHub nodes. relaxMost is how much work for each node and arc it gets at
	// most, several times that where all flow is for what arcs gain.
	relaxNodes, relaxDegree, relaxHub, relaxMost = 16_000, 4, 32, 80
	// large is how many nodes and arcs make a large network. There a dozen solves by the simplex cost more
	// than repair loses by one change. Where it is of classes, cost scaling from zero also costs more than
	// repair.
	large = 1 << 17
)

// Solver picks. Use [New].
type Solver struct {
	net     *flowgraph.Network
	repair  *repair.Solver
	simplex *netsimplex.Solver
	// challenger runs beside a simplex that takes long from zero.
	challenger solver.Solver
	// Beside a repair that takes long runs anew on a network of single tasks, else chaser, the simplex from
	// where repair has come to. fresh, a solver from zero, later takes the place of repair; it begins at once
	// if that costs little. ran is the work of the one that runs beside.
	anew   anew
	chaser *netsimplex.Solver
	fresh  *Solver
	ran    int64
	// dear is the work of the last answer from zero, in hundredths for each node and arc, 0 before the first.
	// effort is the work that the simplex does in the time that repair has taken.
	dear, effort int64
	// paths or units take the place of repair until the first answer: paths where a few ways may do, units on
	// a network of single tasks. Else they are nil. seq says for which state of the network they are.
	paths *paths
	units *assignment.Solver
	seq   flowgraph.Seq
	shape
	// relaxes gives the first answer where relaxation may do, else it is nil. relaxed is the work that it has
	// spent.
	relaxes *relax.Solver
	relaxed int64
	// first is the first answer, until repair takes it over.
	first *repair.Older
	// ready: repair answers. trial: it has yet to show that it can.
	ready, trial bool
	racing       bool
	// wary: hardly any arc has a price, but some have one, and none a negative one.
	wary bool
	// patience is the present one, from 1 to what the network is due.
	patience int64
	// spent is the work since the last answer of the one that began. alone is how much more its challenger
	// works without it.
	spent, alone int64
	// How many arcs gained when the simplex was looked at. gaining: at the last look, 0 if its tree was not
	// deep. most: at most, at the first look and those at a deep tree. last: at the last look where wary.
	// early: at the first look where not layered.
	gaining, most, last, early int
	// rooted: the tree was deep at the first look already, and some flow runs for what it gains. The simplex
	// may be faster all the same, so it goes on beside cost scaling.
	rooted bool
	// half is how many arcs gained when they were last found to be half as many. since is what the simplex
	// had spent then.
	half  int
	since int64
	// shaken is for how many more changes the simplex answers in place of repair. seen is up to where changes
	// have been looked at.
	shaken int
	seen   flowgraph.Seq
	// teller gave the last answer, nil before the first. adopted: repair is not the teller, but has taken
	// over the flow that the caller knows.
	teller  solver.Solution
	adopted bool
}

// anyFlow is a solution that lists every live arc as changed.
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

// withFlow is a solution that lists the arcs below bound that have flow.
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

// mayLead tells whether the simplex may ever answer in place of repair. It may not on networks of single
// tasks, nor on large ones, on which it is slow.
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

// changed tells whether some of the network has changed since, whether most of it has, and up to where it
// looked.
func changed(n *flowgraph.Network, since flowgraph.Seq) (some, most bool, next flowgraph.Seq) {
	touched, next, complete := n.Changes(since)
	return !complete || len(touched) > 0, !complete || 2*len(touched) > n.NumNodes()+n.NumArcs(), next
}

// answer lets repair answer. Before repair knows of a flow, others give the first.
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

// rest is what a budget leaves after the work done.
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

// Package auto is the solver to use when there is no reason to choose: it picks
// one, watches its effort, and lets two race when the first takes long.
//
// From zero, networks where little flows through many nodes go to repair, and those where
// single tasks all pass the same few nodes, such as a cluster aggregator, to many others; those
// that are mostly sources of single tasks, or where each of them could have a node of its own,
// to assignment, others to the simplex. Where
// these take long, the simplex goes on, or after assignment, unless sources have very
// many arcs, cost scaling: most tasks are alike then. If
// the network then changes, repair takes over the answer and goes on from it: it is
// by far the fastest after a small change, but a shock that moves the whole price
// level can keep it busy for long. When it has spent its patience, a multiple of
// the size of the network, another starts beside it: the simplex from its last
// answer, or on a network of single tasks assignment from zero. Likewise another
// starts beside a simplex that takes long from zero: where most arcs are of
// classes repair, else cost scaling, which of a large network reads the same arcs
// fewer times. If either wins there, cost scaling takes the place of the simplex in
// later races. Where the simplex spends its work on a deep tree, and arcs that gain
// hardly get fewer, cost scaling starts sooner, and alone.
//
// Where a change touches most of the network, as when nearly all classes of one cycle are
// gone in the next, repair would keep nothing of what it knows, and the simplex answers
// in its place, from its own last tree, until changes have been small for a while.
//
// Both that race advance in quanta of counted work that take about as long, with a barrier
// after each; the first to finish wins, the one that began if both do.
//
// No clock is read: the same history gives the same answer on any machine, with
// one core or two.
package auto

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/parts"
	"github.com/sluice-scheduler/sluice/solver/repair"
)

const (
	// patience is how many units of work per node and arc repair gets before
	// another starts, less if that is assignment: about what the other would need.
	// It is a quarter less after each race that repair lost, twice that, up to the
	// constant, after each solve that needed no race.
	patience, patienceSingle = 32, 24
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
	// give the first answer, and fewPatience its patience then, fewLayered where most arcs
	// leave sources. Where they do not, ways are long: more than fewUnits would take it that long, and the
	// simplex gives the answer.
	fewUnits, fewNodes, fewPatience, fewLayered = 16, 8, 4, 8
	// together is how many single tasks there must be for a node that they can go to if, few for
	// the nodes behind those, they are a crowd: repair gives the first answer then, with
	// crowdRepair as its patience, and its searches leave units together after crowdStamina nodes.
	together, crowdRepair, crowdStamina = 8, 24, 64
	// manyNodes is of how many nodes one at least is a source where they are a layer.
	manyNodes = 1024
	// manyPlaces is how many single tasks there must be for a place that demands some.
	manyPlaces = 4
	// headStart and more for each node and arc, up to a bound, is what the simplex may
	// do from zero before another starts: some 0.1 s, as a race takes two cores.
	headStart, headStartEach, headStartMost = 20_000_000, 100, 60_000_000
	// looks is how many times within that the simplex is looked at for a deep tree, and
	// alone for how many units of work for each node and arc cost scaling then works
	// without it, about twice what it needs.
	looks, alone = 8, 2048
	// beginning is into how many turns a race from zero divides one unit of repair for
	// each node and arc.
	beginning = 12
	// lasting is for how many changes the simplex answers on after one that touched most
	// of the network: price-out follows it with a dozen small ones, and then it comes again.
	lasting = 16
	// large is how many nodes and arcs make a network on which a dozen solves by the simplex
	// cost more than repair loses by one change.
	large = 1 << 17
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

// Solver picks. Use [New].
type Solver struct {
	net     *flowgraph.Network
	repair  *repair.Solver
	simplex *netsimplex.Solver
	// challenger runs beside a simplex that takes long from zero. Later it, or cost
	// scaling after repair won there, or on a network of single tasks assignment, runs
	// beside repair. If nil, the simplex does.
	challenger solver.Solver
	// units takes the place of repair until the first answer, on a network of
	// single tasks that is as it was at seq; else nil.
	units *assignment.Solver
	seq   flowgraph.Seq
	shape
	// first is the first answer, until repair takes it over.
	first *repair.Older
	// ready: repair answers; trial: it has yet to show that it can.
	ready, trial bool
	racing       bool
	// patience is the present one, from 1 to what is due to the network.
	patience int64
	// spent is the work since its last answer of the one that begins; alone is for how
	// much more its challenger works without it.
	spent, alone int64
	// gaining is how many arcs the simplex found to gain when it was looked at, or 0.
	gaining int
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

type outcome struct {
	result solver.Result
	err    error
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
		s.shape = layers(n)
		if s.single {
			s.challenger = &anew{}
		}
		s.ready = s.crowd || few(n, s.layered)
		s.patience = s.mostPatience()
		if s.trial = s.ready; s.trial {
			switch s.patience = fewPatience; {
			case s.crowd:
				s.patience = crowdRepair
				s.repair.Tire(crowdStamina)
			case s.layered:
				s.patience = fewLayered
			}
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
		s.first, s.units = nil, nil
		r, err = s.bySimplex(n, budget)
	} else {
		r, err = s.answer(n, budget)
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

// look notes whether what changed since the last call is most of the network. It does not
// concern networks of single tasks, nor large ones, on which the simplex is slow.
func (s *Solver) look(n *flowgraph.Network) {
	touched, next, complete := n.Changes(s.seen)
	s.seen = next
	size := n.NumNodes() + n.NumArcs()
	switch {
	case s.single || size > large:
		s.shaken = 0
	case s.teller == nil || complete && len(touched) == 0:
	case !complete || 2*len(touched) > size:
		s.shaken = lasting
	case s.shaken > 0:
		s.shaken--
	}
}

// answer lets repair answer, or before it knows of a flow, who gives the first.
func (s *Solver) answer(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	if s.first != nil {
		s.repair.AdoptOlder(n, *s.first)
		s.first, s.units, s.ready, s.adopted = nil, nil, true, true
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
	limit := s.patience * int64(n.NumNodes()+n.NumArcs()+64)
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
	return s.race(n, budget, limit/quanta, total)
}

// shape is what the first answer is chosen by.
type shape struct {
	// layered: most arcs leave sources, which with them are size; single: sources
	// of one unit are most of the nodes too, and go to few places in the end: where each place waits
	// for one unit of its own, the simplex is faster than assignment.
	layered, single bool
	// crowd: there are fewer of them than other nodes, and all have to pass the same few; apart:
	// each could go first to a node of its own.
	crowd, apart bool
	size         int64
}

// layers finds the shape of n.
func layers(n *flowgraph.Network) (f shape) {
	const part = 1 << 12
	var arcs, sources, sinks, supply atomic.Int64
	parts.Do(n.NodeBound(), part, func(from, to int) {
		c := count(n, from, to)
		arcs.Add(c.arcs)
		sources.Add(c.sources)
		sinks.Add(c.sinks)
		supply.Add(c.supply)
	})
	f.layered = 2*arcs.Load() >= int64(n.NumArcs()) && manyNodes*sources.Load() >= int64(n.NumNodes())
	f.size = arcs.Load() + sources.Load()
	if supply.Load() > 2*sources.Load() || manyPlaces*sinks.Load() > sources.Load() {
		return f
	}
	if 2*sources.Load() >= int64(n.NumNodes()) {
		f.single = f.layered
	} else if volume, ok := n.Volume(); ok && volume <= supply.Load() {
		to := heads(n)
		f.crowd = 0 < to && together*to <= sources.Load()
		f.apart = f.layered && sources.Load() <= to
	}
	return f
}

// heads counts to how many nodes open arcs of sources lead.
func heads(n *flowgraph.Network) (count int64) {
	led := make([]bool, n.NodeBound())
	for v := range led {
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) || len(n.In(id)) > 0 {
			continue
		}
		for _, r := range n.Out(id) {
			if !led[r.Node] && n.Open(r.Arc) {
				led[r.Node] = true
				count++
			}
		}
	}
	return count
}

// census counts sources, the arcs out of them, what they supply (all supply is below 2⁶²), and
// sinks.
type census struct{ arcs, sources, supply, sinks int64 }

// count counts among some nodes.
func count(n *flowgraph.Network, from, to int) (c census) {
	for v := from; v < to; v++ {
		id := flowgraph.NodeID(v)
		switch {
		case !n.NodeAlive(id):
		case len(n.In(id)) == 0:
			c.arcs += int64(len(n.Out(id)))
			c.sources++
			c.supply += n.Supply(id)
		case n.Supply(id) < 0:
			c.sinks++
		}
	}
	return c
}

// few tells whether so little flows through so many nodes that repair, which sends
// it path by path, sees hardly any of them.
func few(n *flowgraph.Network, layered bool) bool {
	volume, ok := n.Volume()
	return ok && fewNodes*volume <= int64(n.NumNodes()) && (layered || volume <= fewUnits)
}

// giveUp leaves the first answer to others than repair.
func (s *Solver) giveUp() {
	s.endRace()
	s.repair, s.ready, s.trial, s.patience = repair.New(), false, false, s.mostPatience()
}

// rest is what a budget leaves after work.
func rest(budget solver.Budget, done solver.Work) solver.Budget {
	if budget.Work > 0 {
		budget.Work = max(1, budget.Work-done.Units)
	}
	return budget
}

// begin gets ready for the first answer on a network of single tasks; false on
// any other, and where assignment is not exact.
func (s *Solver) begin(n *flowgraph.Network) bool {
	if !s.single && !s.apart {
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

// leaveUnits treats the network as one that is not of single tasks, from now on.
func (s *Solver) leaveUnits() {
	s.units, s.single, s.apart, s.challenger, s.spent = nil, false, false, nil, 0
	s.patience = s.mostPatience()
}

// byUnits lets assignment work alone. When that takes long, units are left.
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
			s.racing, s.challenger, s.alone = true, costscaling.New(), alone*int64(n.NumNodes()+n.NumArcs())
		}
		return r, nil
	}
	s.spent = 0
	s.remember(n, r)
	return r, nil
}

// remember keeps the first answer for repair, which takes it over when it turns
// out that the network changes.
func (s *Solver) remember(n *flowgraph.Network, r solver.Result) {
	if r.Status != solver.Optimal {
		return
	}
	s.first = &repair.Older{Solution: withFlow{r.Solution, n.ArcBound()}, Nodes: n.NodeBound()}
	_, s.first.Since, _ = n.Changes(0)
}

// bySimplex answers with the simplex, or what overtakes it.
func (s *Solver) bySimplex(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r, err := s.fromZero(n, budget)
	if err != nil || r.Status == solver.BudgetSpent {
		return r, err
	}
	if s.endRace(); !s.ready {
		s.remember(n, r)
	}
	return r, nil
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
			// The simplex keeps its tree for the next change, unless cost scaling races then.
			if r, is := s.challenger.(*repair.Solver); is && theirs.result.Status == solver.Optimal {
				s.simplex = netsimplex.New()
				s.repair, s.ready, s.challenger, s.shaken = r, true, costscaling.New(), 0
			}
			return theirs.result, nil
		}
	}
	return solver.Result{Status: solver.BudgetSpent, Work: total}, nil
}

// byTree lets the simplex work alone. It sets racing if another is to start, and alone if
// that goes on without the simplex.
func (s *Solver) byTree(n *flowgraph.Network, budget solver.Budget, size int64) (solver.Result, error) {
	start := min(headStart+headStartEach*size, headStartMost)
	limit := start
	if !s.layered {
		limit *= 2
	}
	var total solver.Work
	for {
		own := solver.Budget{Work: start / looks}
		if budget.Work > 0 {
			own.Work = min(own.Work, max(1, budget.Work-total.Units))
		}
		r, err := s.simplex.Solve(n, own)
		s.spent += r.Work.Units
		add(&total, r.Work)
		if r.Work = total; err != nil || r.Status != solver.BudgetSpent {
			return r, err
		}
		deep := !s.layered && s.slow(start)
		if deep || s.lags(limit/2) && s.spent >= limit {
			s.racing = true
			if s.challenger = costscaling.New(); s.layered {
				s.challenger = repair.New()
			}
			if deep {
				s.alone = alone * size
			}
			return r, nil
		}
		if budget.Spent(total.Units) {
			return r, nil
		}
	}
}

// slow tells whether the simplex, looked at from time to time, mostly walks around in
// a deep tree and, by how many arcs gain no more since the last look, will need as long
// as start again, or has taken that long.
func (s *Solver) slow(start int64) bool {
	walked, before := s.simplex.Walked(), s.gaining
	if s.gaining = 0; 5*walked < s.spent {
		return false
	}
	s.gaining = s.simplex.Gaining()
	return 5*walked >= 2*s.spent && (s.spent >= start || before > 0 && s.gaining > looks*(before-s.gaining))
}

// lags tells whether the simplex has spent as much as within since the arcs that gain were
// twice as many.
func (s *Solver) lags(within int64) bool {
	if s.spent < within {
		s.half = 0
		return false
	}
	if g := s.simplex.Gaining(); s.half == 0 || 2*g <= s.half {
		s.half, s.since = g, s.spent
	}
	return s.spent-s.since >= within
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

// byRepair lets repair work alone. It sets racing if that is not enough.
func (s *Solver) byRepair(n *flowgraph.Network, budget solver.Budget, limit int64, total *solver.Work) (solver.Result, error) {
	for {
		own := solver.Budget{Work: max(1, min(limit/quanta, limit-s.spent))}
		if budget.Work > 0 {
			own.Work = min(own.Work, max(1, budget.Work-total.Units))
		}
		r, err := s.repair.Solve(n, own)
		s.spent += r.Work.Units
		add(total, r.Work)
		r.Work = *total
		switch {
		case err != nil:
			return r, err
		case r.Status != solver.BudgetSpent:
			s.spent = 0
			s.patience = min(2*s.patience, s.mostPatience())
			return r, nil
		case budget.Spent(total.Units):
			return r, nil
		case s.spent >= limit || s.single && s.repair.Wide() >= shock:
			s.racing = true
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
	s.racing, s.spent, s.alone, s.gaining = false, 0, 0, 0
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

func add(total *solver.Work, w solver.Work) {
	total.Units += w.Units
	total.Steps += w.Steps
	total.Touched += w.Touched
	total.Rebuilds += w.Rebuilds
}

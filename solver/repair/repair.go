// Package repair re-solves a network that changed a little. What a change puts out of balance is brought back
// along shortest paths, and everything else stays. Between calls it keeps a flow and exact prices.
//
// # Prices
//
// The price p(v) = −π(v) of a node is the cost of bringing one more unit from it to the ground, the node that
// demands most. A residual arc of cost c from v to w must have p(v) ≤ c + p(w). Both searches are those of
// the successive shortest path method (Ahuja, Magnanti, Orlin, Network Flows, §9.7). They are ordered by cost
// so far plus price, which makes them A*:
//
//   - forward: v has a unit too much. The search looks for the cheapest way to the ground, or to a node that
//     lacks a unit, and raises the prices that it has passed.
//   - backward: v lacks a unit, such as a slot set free, and keeps its price. The search looks for who would pay
//     that, the ground included (then the slot stays empty), and lowers the prices that it has passed.
//
// As the ground takes and gives any amount, the order of repairs is free; when all other nodes balance, so
// does the ground.
//
// Very many nodes may share a price, as where every host is as good as any other. Each search would then pass
// over all of them. One that has settled many nodes therefore stops at the best connected of them, a
// collector, and leaves its units there, as do all after it that come by. Searches of both kinds share the
// collectors, so that excess and lack meet there. If more than a few units are left, a forest of paths grows
// from the collectors. It stays while unit after unit is sent, and the prices of all its nodes move as one.
// This is the primal-dual method (ibid., §9.8), with the forest kept as in Boykov and Kolmogorov, An
// experimental comparison of min-cut/max-flow algorithms (2004).
//
// Where many more units come than there is room for, all prices will rise by about the same. They are first
// lifted by a guess of that, and searches put right the rest.
//
// # Two layers
//
// Nearly all nodes of a scheduling network are sources: classes or tasks, with no arc in. A source may have
// flow on its arc into node v. A search steps from v over that source straight to its other heads, as if
// there were an arc between them. Each node lists the flow that sources hold on it. For each source a lower
// bound is known on what its best move would cost, and an upper one on what it pays. Most sources are passed
// over by that. The others wait in the queue until the search has come as far as the bound, and only then are
// their arcs read. Prices that moved are told to the sources around once, before the direction of searches
// changes: searches forward need the one bound, those backward the other.
//
// Where a cluster is full, searches backward pass the same nodes again and again. Each node then keeps a list
// of the sources that are near to paying its price. While searches go backward nobody pays more than before,
// so none is missed.
//
// A node that nearly every source points at would make backward steps long. For such a hub each node caches
// which of its holders could move there at the least cost, and each block of nodes a bound on the best of
// them.
//
// # Changes
//
// What was touched is compared with a copy of it. Where only a price changed, the bounds tell whether
// anything can be in the wrong place. Flow that has become illegal or too dear is withdrawn: its source then
// has a unit too much, and its head lacks one, at the old price.
package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits.
const MaxBits = 59

// patience is how many units of work for each node and arc one batch of changes gets
// before the simplex is asked: more than twice what any declared workload takes.
const patience = 1024

const (
	far  = int64(1) << 62 // above every price and label
	none = int32(-1)
	// tall is a price that only many changes one after the other come to, in a part of the network that no arc
	// joins with the ground: nothing there brings prices back. After the next change all begin anew.
	tall = far / 4
)

// arc is the record of an arc with its flow: a copy, to compare with after changes. Most arcs of sources
// never carry flow and have no record: theirs is zero, without room.
type arc struct {
	cost         int64
	lower, upper int64
	flow         int64
	tail, head   int32
	pos          int32 // where it is listed at its head: in held if the tail is a source, else in in
	stamp        uint32
	_            [2]int64 // a record then is one cache line
}

// holding is movable flow of one source into a node.
type holding struct {
	cost int64
	// rest is a lower bound on what the source's best other residual arc costs, without hubs. It is -far if
	// the source has flow on several arcs: then the source itself is asked.
	rest int64
	arc  int32
	from int32
}

// node is what searches know of a node that is no source.
type node struct {
	label    int64 // cost of the best path found between here and its end
	exit     int64 // of the cheapest residual arc to the ground, or far
	entry    int64 // of the cheapest residual arc from the ground, or far
	seen     uint32
	over     int32 // arc by which the path leaves its last stop
	through  int32 // other arc of the source in between, or none
	exitArc  int32
	entryArc int32
	forks    int32 // arcs out that do not lead to the ground
	held     []holding
	in       []int32 // arcs from nodes that are no sources
}

// improves tells whether a path of the given cost is the best to x so far.
func (x *node) improves(search uint32, label int64) bool {
	return x.seen != search || label < x.label
}

// payer is what searches know of a source. arc is the one on which it has movable flow, if that is one. first
// is a lower bound on (cost + price of head) of its cheapest residual arc, second of the cheapest but that
// one, both without hubs. label and via are of the best path found to it. Its price is an upper bound on what
// it pays anywhere.
type payer struct {
	cost          int64
	first, second int64
	label         int64
	arc, head     int32
	best          int32 // arc of first
	count         int32 // arcs with movable flow
	seen          uint32
	via           int32 // arc by which the path enters the source, or none once opened
	pos           int32 // where arc is listed at head
	listed        bool  // it is to be compared again
}

// improves tells whether a path of the given cost is the best to p so far.
func (p *payer) improves(search uint32, label int64) bool {
	return p.seen != search || label < p.label
}

// without is the bound that leaves out arc a.
func (p *payer) without(a int32) int64 {
	if p.best == a {
		return p.second
	}
	return p.first
}

// loosen takes in that arc a may now be had at value.
func (p *payer) loosen(a int32, value int64) {
	switch {
	case a == p.best:
		p.first = min(p.first, value)
	case value < p.first:
		p.second, p.first, p.best = p.first, value, a
	case value < p.second:
		p.second = value
	}
}

// publish puts the bounds of source v where searches come by. They pass nearly all sources, and should not
// have to open a record of each.
func (s *Solver) publish(v int32) {
	p := &s.payers[v]
	s.second[v] = p.second
	if p.count == 1 && p.arc != none {
		s.nodes[p.head].held[p.pos].rest = p.without(p.arc)
	}
}

type kind uint8

const (
	absent kind = iota
	isSource
	isCore
	isHub // and core
)

// Solver repairs. Use [New].
type Solver struct {
	net    *flowgraph.Network
	seq    flowgraph.Seq
	ground int32
	// misplaced: another node demands so much more than the ground that it
	// should be the ground.
	misplaced bool
	drifted   bool // a price is tall

	arcs []arc // indexed by ArcID
	// recorded are the arcs that have a record. Arcs of sources have none as long as they have had no flow,
	// need have none and do not lead to a hub.
	recorded bitset
	full     bitset // arcs without room
	loaded   bitset // arcs with flow above their lower bound
	// The rest is indexed by NodeID.
	kinds  []kind
	supply []int64
	excess []int64
	price  []int64
	nodes  []node
	payers []payer
	second []int64 // of payers, as published
	// holdings and inward are where the lists of nodes lie.
	holdings rooms[holding]
	inward   rooms[int32]
	// passable are nodes whose exit takes any amount.
	passable bitset
	hubs     []*hub
	// hubDegree is how many arcs in make a hub.
	hubDegree int
	sized     int // arcs when hubs were last looked for

	objective  flowgraph.Int128
	work       solver.Work
	forest     forest
	courts     courts
	market     market
	collectors marks // nodes that keep excess, or lack, for the forest
	// stamina is how many nodes a search settles before it leaves the rest to the
	// forest.
	stamina int
	// few is for how many units no forest is planted.
	few int64
	// rise is by how much flow got dearer where it stayed: about the most of recent rises.
	rise int64

	search  uint32
	cores   int  // nodes that were no sources when hubs were last looked for
	wide    int  // see Wide
	broken  bool // a search went backwards: prices do not fit the flow
	queue   radixheap.Heap
	settled []int32
	choices []flowgraph.Ref  // scratch of placeAll
	ranks   []radixheap.Item // scratch of order
	needy   []int32          // scratch of searchAlong
	late    []int32          // nodes whose excess no free place takes
	// dearer and cheaper list nodes whose price moved and whose sources do not know yet.
	dearer, cheaper marks
	// underWay: the last call spent its budget, and nothing has changed since.
	underWay bool
	// lost: only the answer of adviser, which is under way, is of use.
	lost bool
	// patience is how much work for each node and arc the present changes get before adviser is asked.
	// adviser is nil until then. spent is the work that they have had.
	patience, spent int64
	adviser         *netsimplex.Solver
	step            step
	pending         marks   // nodes that may be out of balance
	dirty           []int32 // sources to compare again
	suspect         marks   // nodes whose arcs to compare again
	todo            []int32
	raised          []uint32
	repriced        []int32 // arcs of sources whose cost has yet to be taken in
	reprice         int     // price changes while taking in one batch

	touched       []int32 // nodes
	former        []int32 // arcs with a record that were touched
	fresh         []int32 // others, and those of which more than the cost has to be taken in
	gone, kept    []int32 // scratch of takeFormer
	idle          bitset  // arcs that need not be taken in, see greet
	tails, others []int32 // scratch of what is asked for ahead
	reaches       []int64 // scratch of askForSteps
	batch         uint32  // stamps arcs whose flow moved since the last optimum
	moved         []movement
	changed       []flowgraph.ArcID
}

// movement remembers the flow of an arc at the last optimum. With list the caller may not know of that:
// whatever flow there is must be listed.
type movement struct {
	flow int64
	arc  int32
	list bool
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver {
	return &Solver{hubDegree: minHubDegree, stamina: Stamina, few: few, patience: patience}
}

// Name returns "repair".
func (s *Solver) Name() string { return "repair" }

// Flow returns the flow on a in the last optimal result.
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.arcs[a].flow }

// Potential returns π(v) in the last optimal result. O(1), for a source
// O(degree).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost {
	if s.kinds[v] >= isCore {
		return flowgraph.Cost(-s.price[v])
	}
	least, most := far, -far
	for _, ref := range s.net.Out(v) {
		value := int64(ref.Cost) + s.price[ref.Node]
		if s.hasRoom(int32(ref.Arc)) {
			least = min(least, value)
		} else {
			most = max(most, value)
		}
	}
	switch {
	case least < far:
		return flowgraph.Cost(-least)
	case most > -far:
		return flowgraph.Cost(-most)
	}
	return 0
}

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve takes in what changed and repairs it.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	s.work = solver.Work{}
	if status := solver.Precheck(n, MaxBits); status != solver.Optimal {
		return solver.Result{Status: status}, nil
	}
	if n.NumNodes() == 0 {
		s.net, s.changed = nil, s.changed[:0]
		return solver.Result{Status: solver.Optimal, Solution: s}, nil
	}
	if n != s.net || s.seq == 0 || !n.NodeAlive(flowgraph.NodeID(s.ground)) || s.misplaced || (s.lost || s.drifted) && s.changedSince() {
		s.reset(n)
	}
	if !s.lost {
		settled := s.takeIn()
		if !s.underWay {
			s.spent, s.adviser = 0, nil
		}
		s.lost = !settled || !s.underWay && !s.lift()
	}
	r := solver.Result{Status: s.proceed(budget)}
	r.Work = s.work
	if r.Status != solver.Optimal {
		return r, nil
	}
	var fits bool
	if r.Objective, fits = s.objective.Int64(); !fits {
		r.Status = solver.CostRange
		return r, nil
	}
	s.finish()
	r.Solution = s
	return r, nil
}

// changedSince tells whether something has changed since the last call.
func (s *Solver) changedSince() bool {
	_, next, _ := s.net.Changes(s.seq)
	return next != s.seq
}

// proceed balances what has been taken in. If prices do not settle, or do not fit, it goes on from what the
// simplex finds.
func (s *Solver) proceed(budget solver.Budget) solver.Status {
	for {
		if s.lost {
			if status := s.consult(budget); status != solver.Optimal {
				return status
			}
			s.lost = false
		}
		status := s.goOn(budget)
		if !s.broken {
			return status
		}
		s.work.Rebuilds++
		s.reset(s.net)
		_, s.seq, _ = s.net.Changes(s.seq)
		s.lost = true
	}
}

// goOn balances. That takes very long where flow has to go unit by unit over most of the network, again and
// again. The simplex is asked in the end.
func (s *Solver) goOn(budget solver.Budget) solver.Status {
	limit := s.patience * int64(s.net.NumNodes()+s.net.NumArcs()+64)
	if s.spent < limit {
		own := limit - s.spent
		if budget.Work > 0 {
			own = min(own, budget.Work)
		}
		status := s.balance(solver.Budget{Work: own})
		s.spent += s.work.Units
		if status != solver.BudgetSpent || s.spent < limit || budget.Spent(s.work.Units) {
			return status
		}
	}
	if status := s.consult(budget); status != solver.Optimal {
		return status
	}
	return s.balance(solver.Budget{})
}

// consult asks the simplex, as when prices do not settle on a free negative cycle, and goes on from its
// answer if there is one. If the budget is spent before, the next call asks on.
func (s *Solver) consult(budget solver.Budget) solver.Status {
	if s.adviser == nil {
		s.adviser = netsimplex.New()
	}
	if budget.Work > 0 {
		budget.Work = max(1, budget.Work-s.work.Units)
	}
	r, err := s.adviser.Solve(s.net, budget)
	s.work.Units += r.Work.Units
	if err == nil && r.Status == solver.BudgetSpent {
		s.underWay = true
		return r.Status
	}
	s.adviser = nil
	if err != nil || r.Status != solver.Optimal {
		s.seq = 0
		return r.Status
	}
	s.Adopt(s.net, r)
	return solver.Optimal
}

func (s *Solver) finish() {
	s.changed = s.changed[:0]
	for next := range blocks(s.moved) {
		prefetch.Each(s.arcs, next, &next[0].arc)
		s.gone = s.gone[:0]
		for _, m := range next {
			if !s.recorded.has(m.arc) {
				s.gone = append(s.gone, m.arc)
			}
		}
		if len(s.gone) > 0 {
			flowgraph.AskForArcs(s.net, s.gone, &s.gone[0])
		}
		for _, m := range next {
			r := &s.arcs[m.arc]
			if r.stamp != s.batch || !s.recorded.has(m.arc) && !s.net.ArcAlive(flowgraph.ArcID(m.arc)) {
				continue // gone, or listed
			}
			if r.flow != m.flow || m.list && r.flow != 0 {
				s.changed = append(s.changed, flowgraph.ArcID(m.arc))
				r.stamp = 0
			}
		}
	}
	s.moved = s.moved[:0]
	s.batch++
}

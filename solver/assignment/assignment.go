package assignment

import (
	"sync/atomic"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/parts"
)

const (
	// far is the price of a node from which there is no way; no path costs half of it.
	far  = int64(1) << 62
	none = int32(-1)
	// maxCostBits keeps a cost in 32 bits, maxBits a price in 64.
	maxCostBits = 30
	maxBits     = 59
	// many is more flow than is kept in a byte.
	many = 255
)

// way is an arc of a source, as searches see it.
type way struct {
	cost int32
	head int32 // in the core
}

// source is a node of one unit. Its ways are numbered as the network lists its arcs.
type source struct {
	first, count int32 // its ways, not copied yet if first is none
	at           int32 // the way that it has taken, or none
	pos          int32 // where it is listed at the head of that
	best         int32 // the way that was best by the first prices, or none
	head, cost   int32 // of best
}

// holding is a unit at a node of the core, with what searches ask of it. Costs are
// beyond that of the way that it has taken.
type holding struct {
	rest int64 // bounds from below the cost, price included, of all other ways but next
	cost int32 // of next
	next int32 // the way that was best of the others when last seen, or none
	head int32 // of next
	from int32 // source
}

// link is one direction of an arc between nodes of the core.
type link struct {
	cost int64
	arc  int32 // of the core
	head int32
	sign int32 // 1 along the arc, −1 against it
}

// coreArc is an arc between nodes of the core.
type coreArc struct {
	id          flowgraph.ArcID
	flow, upper int64
}

// node is what a search reads of a node of the core at once.
type node struct {
	label int64 // cost of the best path from the source that searches
	exit  int64 // cost of the cheapest arc with room to the ground, or far
	seen  uint32
	// The path comes from node prev. If through is none, it takes link over of prev. Else it takes the unit
	// of source through, which goes its way over.
	prev, over, through int32
}

// Solver places units. Use [New].
type Solver struct {
	net    *flowgraph.Network
	ground flowgraph.NodeID // or none
	index  []int32          // by NodeID: the index of a node of the core, −2 − the index of a source, or none
	closed bool             // an arc of a source has no capacity
	arcs   []coreArc

	// By node of the core.
	core    []flowgraph.NodeID
	nodes   []node
	price   []int64
	held    [][]holding
	links   [][]link // to and from nodes that are not the ground
	leads   []int32  // how many of links lead on: all outward ones, and inward ones with flow
	exits   [][]link // to the ground
	exitArc []int32  // the arc of exit

	of      []flowgraph.NodeID // by source
	sources []source
	ways    []way // of some sources

	// The answer. Before that, potential has the first prices of the core, and changed the arcs of first
	// choices.
	flows     []uint8                   // by ArcID, or many
	more      map[flowgraph.ArcID]int64 // flows of many and more
	potential []flowgraph.Cost          // by NodeID
	changed   []flowgraph.ArcID         // of the sources, then others

	waiting []int32 // sources to place, the next one first
	search  uint32
	queue   []item
	settled []int32
	work    solver.Work

	ahead   []int32 // see readAhead
	fetched int32   // what was read, which no compiler then takes away
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver for n as it is, or false if n is not in its range.
// O(nodes + arcs), at most.
func New(n *flowgraph.Network) (*Solver, bool) {
	s := &Solver{net: n, ground: flowgraph.NoNode}
	if !s.survey() || !s.takeCore() {
		return nil, false
	}
	s.priceCore()
	if !s.takeSources() {
		return nil, false
	}
	return s, true
}

// Name returns "assignment".
func (s *Solver) Name() string { return "assignment" }

// Flow returns the flow on a. O(1).
func (s *Solver) Flow(a flowgraph.ArcID) int64 {
	if x := s.flows[a]; x < many {
		return int64(x)
	}
	return s.more[a]
}

// Potential returns π(v). O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return s.potential[v] }

// Changed lists the arcs with flow.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve places the units that are left. The network must be the one that [New]
// was given, unchanged.
func (s *Solver) Solve(_ *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r := solver.Result{Status: solver.Optimal}
	for len(s.waiting) > 0 {
		if !s.place(s.waiting[0]) {
			r.Status = solver.Infeasible
			break
		}
		s.waiting = s.waiting[1:]
		if budget.Spent(s.work.Units) {
			r.Status = solver.BudgetSpent
			break
		}
	}
	r.Work = s.work
	s.work = solver.Work{}
	if r.Status != solver.Optimal {
		return r, nil
	}
	var fits bool
	if r.Objective, fits = s.finish(); !fits {
		r.Status = solver.CostRange
		return r, nil
	}
	r.Solution = s
	return r, nil
}

// finish prices what no unit can reach. It writes down flow by arc and potentials by node, and returns the
// objective.
func (s *Solver) finish() (int64, bool) {
	var sum flowgraph.Int128
	s.flows = make([]uint8, s.net.ArcBound())
	s.more = map[flowgraph.ArcID]int64{}
	for i := range s.arcs {
		if a := &s.arcs[i]; a.flow > 0 && a.id != flowgraph.NoArc {
			if s.flows[a.id] = uint8(min(a.flow, many)); a.flow >= many {
				s.more[a.id] = a.flow
			}
			s.changed = append(s.changed, a.id)
			sum.AddMul(int64(s.net.Cost(a.id)), a.flow)
		}
	}
	top := int64(0)
	for i := range s.nodes {
		if p := s.price[i]; p < far {
			top = max(top, p)
		}
	}
	for i := range s.nodes {
		if s.price[i] == far {
			s.price[i] = top + 1<<(maxCostBits+1)
		}
	}
	var cost atomic.Int64 // of the ways taken: below 2³⁰ each
	parts.Do(len(s.index), part, func(from, to int) {
		paid := int64(0)
		for v := from; v < to; v++ {
			paid += s.write(flowgraph.NodeID(v))
		}
		cost.Add(paid)
	})
	sum.Add(cost.Load())
	return sum.Int64()
}

// write writes down what became of v. It returns what a source pays for its way.
func (s *Solver) write(v flowgraph.NodeID) int64 {
	i := s.index[v]
	switch {
	case i >= 0:
		s.potential[v] = flowgraph.Cost(-s.price[i])
	case i < none:
		i = -2 - i
		x := &s.sources[i]
		if x.at != x.best {
			ref := &s.net.Out(v)[x.at]
			s.changed[i], x.cost, x.head = ref.Arc, int32(ref.Cost), s.index[ref.Node]
		}
		s.flows[s.changed[i]] = 1
		s.potential[v] = -flowgraph.Cost(int64(x.cost) + s.price[x.head])
		return int64(x.cost)
	case s.net.NodeAlive(v):
		least := far
		for _, ref := range s.net.Out(v) {
			least = min(least, int64(ref.Cost)+s.price[s.index[ref.Node]])
		}
		if least < far {
			s.potential[v] = flowgraph.Cost(-least)
		}
	}
	return 0
}

package relax

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits. Prices are watched on the way:
// [solver.CostRange] is also the answer if one leaves ±2^60. Amounts must be small enough for all arcs to be
// full at once: twice the sum of their rooms, none above [flowgraph.Network.Volume], must be below 2^62.
const MaxBits = 57

const (
	highest = int64(1) << 60 // price
	none    = int32(-1)
)

// Solver relaxes. Use [New].
type Solver struct {
	state *state // of the one that works
	// narrow works as long as all costs and amounts of arcs fit its numbers. After that wide works, until
	// another network comes.
	narrow *relaxer[int32]
	wide   *relaxer[int64]
}

// state is what does not depend on the width of numbers.
type state struct {
	residual.Graph
	price  []int64
	nodes  []node
	queue  residual.Ring // nodes with excess or lack
	singly int           // how many of them have yet to be looked at by themselves
	outset int64         // what was in excess when all had been

	// Of the search that goes on.
	search   uint32
	list     []int32        // the set, then those that are labelled
	balanced []int32        // balanced residual arcs out of the set; some lead into it since
	boundary []edge         // arcs out of it that are not balanced; some lead into it since
	found    []int32        // scratch of join
	near     radixheap.Heap // of relax: arcs by slack
}

// node is what searches know of a node.
type node struct {
	label uint32 // the last search that labelled it
	set   uint32 // the last search whose set it joined
	by    int32  // residual arc by which it was labelled
}

// edge is a residual arc with room out of a set. It is balanced once the prices of the set have moved by
// slack.
type edge struct {
	slack     int64
	arc, head int32
}

// relaxer does the work with residual arcs of one width.
type relaxer[N residual.Number] struct {
	state
	residual.Arcs[N]
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{state: &state{}} }

// Name returns "relax".
func (s *Solver) Name() string { return "relax" }

// Flow returns the flow on a in the last optimal result. O(1).
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.state.Flow(a) }

// Potential returns π(v) in the last optimal result. O(1).
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return s.state.Potential(v) }

// Potential is [Solver.Potential].
func (s *state) Potential(v flowgraph.NodeID) flowgraph.Cost { return flowgraph.Cost(-s.price[v]) }

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.state.Changed() }

// Left returns how many units are in excess while a solve is under way, and how many were when each node had
// been looked at by itself; 0 before that. O(nodes).
func (s *Solver) Left() (units, of int64) { return s.state.left(), s.state.outset }

func (s *state) left() (units int64) {
	for _, x := range s.Excess {
		units += max(0, x)
	}
	return units
}

// Solve relaxes the network from the prices that there are. O(arcs) at least, whatever changed.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r := solver.Result{Status: solver.Precheck(n, MaxBits)}
	if r.Status != solver.Optimal {
		return r, nil
	}
	if n != s.state.Net {
		s.narrow, s.wide = &relaxer[int32]{state: state{Graph: residual.Graph{Net: n}}}, nil
		s.state = &s.narrow.state
	}
	if s.narrow != nil {
		if s.narrow.Solve(&s.narrow.Graph, s.narrow, budget, &r); s.narrow.Exceeded {
			s.state.Forget()
			s.wide, s.narrow = &relaxer[int64]{state: *s.state}, nil
			s.state = &s.wide.state
		}
	}
	if s.wide != nil {
		s.wide.Solve(&s.wide.Graph, s.wide, budget, &r)
	}
	if r.Status == solver.Optimal {
		r.Solution = s
	}
	return r, nil
}

// Fit makes room for what is known of the nodes.
func (s *state) Fit(cold bool) {
	nodes := len(s.Excess)
	s.price = residual.Grow(s.price, nodes)
	s.nodes = residual.Grow(s.nodes, nodes)
	s.queue.Grow(nodes)
	if cold {
		clear(s.price)
	}
}

// Begin makes flow and prices fit by filling what has room at a negative slack. It collects the nodes out of
// balance.
func (s *relaxer[N]) Begin(w *solver.Work) {
	w.Units += int64(len(s.List))
	for v := range s.Excess {
		p := s.price[v]
		for i := s.First[v]; i < s.First[v+1]; i++ {
			if r := &s.List[i]; (int64(r.Cost)-p+s.price[r.Head])&-int64(r.Room) < 0 {
				s.Push(&s.Graph, int32(v), i, int64(r.Room))
			}
		}
	}
	s.queue.Clear()
	for v := range s.Excess {
		s.enqueue(int32(v))
	}
	s.singly, s.outset = s.queue.Len(), 0
}

// enqueue has v looked at, if it is out of balance.
func (s *state) enqueue(v int32) {
	if s.Excess[v] != 0 {
		s.queue.Push(v)
	}
}

// Run relaxes until all is in balance.
func (s *relaxer[N]) Run(budget solver.Budget, w *solver.Work) solver.Status {
	for s.queue.Len() > 0 {
		v := s.queue.Pop()
		dir := int64(1)
		if s.Excess[v] < 0 {
			dir = -1
		}
		possible := true
		if s.Excess[v] != 0 {
			possible = s.relax(v, dir, w)
		}
		if s.singly > 0 {
			if s.singly--; s.singly == 0 {
				s.outset = s.left()
			}
		} else if possible && s.Excess[v]*dir > 0 {
			possible = s.spread(v, dir, budget, w)
		}
		switch {
		case s.Failed:
			return solver.CostRange
		case !possible:
			return solver.Infeasible
		}
		if s.enqueue(v); budget.Spent(w.Units) && s.queue.Len() > 0 {
			return solver.BudgetSpent
		}
	}
	return solver.Optimal
}

// slack and room are those of residual arc i out of v. With dir −1 they are those of its other direction,
// into v.
func (s *relaxer[N]) slack(v, i int32, dir int64) int64 {
	r := &s.List[i]
	return (int64(r.Cost) - s.price[v] + s.price[r.Head]) * dir
}

func (s *relaxer[N]) room(i int32, dir int64) int64 {
	r := &s.List[i]
	if dir < 0 {
		return int64(r.Total - r.Room)
	}
	return int64(r.Room)
}

// move changes a price, and watches its range.
func (s *state) move(v int32, by int64) {
	p := s.price[v] + by
	s.price[v] = p
	s.Failed = s.Failed || p > highest || p < -highest
}

package costscaling

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits, as
// scaled costs must fit. Potentials are watched on the way, and [solver.CostRange]
// is also the answer if one leaves ±2^61: that takes price differences of many
// arcs in sequence, or dead ends that lower prices before a network is found to
// be infeasible. Amounts must be small enough for all arcs to be full at once: twice
// the sum of their rooms, none above [flowgraph.Network.Volume], must be below 2^62.
const MaxBits = 57

const (
	lowest = -1 << 61 // potential
	none   = int32(-1)
)

// number is what costs and amounts of arcs are kept in.
type number interface{ int32 | int64 }

// residual is one direction of an arc. What the other direction has room for is
// total − room, at cost −cost.
type residual[N number] struct {
	cost, room, total N
	head              int32
}

// ends tells whether an arc is still the same one.
type ends struct {
	tail, head int32
	place      int32 // of its forward direction in residuals
	lower      int64
}

// Solver is a cost-scaling solver. Use [New].
type Solver struct {
	*state // of the one that works
	// narrow works as long as all costs and amounts of arcs fit its numbers, wide after
	// that, until another network comes.
	narrow *refiner[int32]
	wide   *refiner[int64]
}

// state is what does not depend on the width of numbers.
type state struct {
	net  *flowgraph.Network
	seq  flowgraph.Seq
	busy bool // a budget ran out on the way
	warm bool // flow and potentials are those of an optimum before changes

	scale   uint  // costs are multiplied by 1<<scale, which is above the nodes
	unit    int64 // 1<<scale
	limit   int64 // stands for no upper bound
	epsilon uint  // ε is 1<<epsilon

	first  []int32 // by node: where its residuals begin
	next   []int32 // by node: where to look for an admissible one
	back   []int32 // by residual: position of the other direction
	arcs   []ends
	pi     []int64 // scaled potentials
	excess []int64
	supply []int64

	queue    ring // nodes with excess
	path     []int32
	relabels int // since prices were updated
	updates  int
	rank     []int64 // by node, in updates
	found    []ranked
	heap     radix
	order    order
	failed   bool // a potential left its range

	boundary int64 // see Potential
	taken    []uint64
	old      []int64 // flow of the last optimal result, unknown where negative
	flow     []int64 // scratch for take-in
	changed  []flowgraph.ArcID
}

// refiner does the work with residuals of one width.
type refiner[N number] struct {
	state
	residuals []residual[N]
	exceeded  bool // a number did not fit
}

var (
	_ solver.Solver   = (*Solver)(nil)
	_ solver.Solution = (*Solver)(nil)
)

// New returns a solver that has seen nothing.
func New() *Solver { return &Solver{state: &state{}} }

// Name returns "costscaling".
func (s *Solver) Name() string { return "costscaling" }

// Flow returns the flow on a in the last optimal result. O(1).
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.old[a] }

// Potential returns π(v) in the last optimal result. O(1).
//
// Scaled potentials keep every residual reduced cost at −1 or above. Rounding
// them down to whole costs could turn that into −1 of a whole cost only where
// the rounding falls between two residues that are both in use; there are more
// residues than nodes, so one boundary is harmless for all.
func (s *state) Potential(v flowgraph.NodeID) flowgraph.Cost {
	return flowgraph.Cost((s.pi[v] - s.boundary) >> s.scale)
}

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.changed }

// Solve refines the flow to the optimum. O(arcs) at least, whatever changed.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r := solver.Result{Status: solver.Precheck(n, MaxBits)}
	if r.Status != solver.Optimal {
		return r, nil
	}
	if n != s.net {
		s.narrow, s.wide = &refiner[int32]{state: state{net: n}}, nil
		s.state = &s.narrow.state
	}
	if s.narrow != nil {
		if s.narrow.solve(budget, &r); s.narrow.exceeded {
			s.forget()
			s.wide, s.narrow = &refiner[int64]{state: *s.state}, nil
			s.state = &s.wide.state
		}
	}
	if s.wide != nil {
		s.wide.solve(budget, &r)
	}
	if r.Status == solver.Optimal {
		r.Solution = s
	}
	return r, nil
}

// solve completes the result but for the solution. It stops if a number exceeds N.
func (s *refiner[N]) solve(budget solver.Budget, r *solver.Result) {
	switch _, seq, _ := s.net.Changes(s.seq); {
	case seq == s.seq && s.busy:
	case seq == s.seq && s.warm:
		s.finish(r)
		return
	default:
		r.Work.Touched = s.takeIn()
		r.Work.Units += r.Work.Touched
		if s.exceeded {
			return
		}
		if !s.amountsFit() {
			s.forget()
			r.Status = solver.CostRange
			return
		}
		if s.warm {
			s.epsilon = s.violation(&r.Work)
		}
		s.begin(&r.Work)
	}
	r.Status = s.run(budget, &r.Work)
	if s.failed && s.warm {
		// Potentials may have drifted apart over many calls.
		s.forget()
		s.takeIn()
		s.begin(&r.Work)
		r.Status = s.run(budget, &r.Work)
	}
	switch s.busy = r.Status == solver.BudgetSpent; {
	case r.Status == solver.Optimal:
		s.finish(r)
	case !s.busy:
		s.forget()
	}
}

// run refines phase by phase until ε is below one part in nodes of a cost.
func (s *refiner[N]) run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		if status := s.refine(budget, w); status != solver.Optimal {
			return status
		}
		if !s.advance(w) {
			break
		}
	}
	s.chooseBoundary()
	return s.bounded(w)
}

// bounded reports Unbounded if the optimum uses up the bound that stands for
// none.
func (s *refiner[N]) bounded(w *solver.Work) solver.Status {
	w.Units += int64(len(s.arcs))
	for a := range s.arcs {
		e := &s.arcs[a]
		if e.place == none {
			continue
		}
		r := &s.residuals[e.place]
		if r.room > 0 || int64(r.total) < s.limit || s.net.Upper(flowgraph.ArcID(a))-e.lower == s.limit {
			continue
		}
		tail, head := s.Potential(flowgraph.NodeID(e.tail)), s.Potential(flowgraph.NodeID(e.head))
		if s.net.Cost(flowgraph.ArcID(a))+tail-head < 0 {
			return solver.Unbounded
		}
	}
	return solver.Optimal
}

// forget makes the next solve a cold one.
func (s *state) forget() { s.seq, s.warm, s.failed = 0, false, false }

// finish lists what changed and sets the objective of an optimum.
func (s *refiner[N]) finish(r *solver.Result) {
	var sum flowgraph.Int128
	s.warm = true
	s.changed = s.changed[:0]
	for a := range s.arcs {
		e := &s.arcs[a]
		if e.place == none {
			s.old[a] = 0
			continue
		}
		x := &s.residuals[e.place]
		flow := e.lower + int64(x.total-x.room)
		if flow != 0 {
			sum.AddMul(int64(x.cost), flow)
		}
		if flow != s.old[a] {
			s.old[a] = flow
			s.changed = append(s.changed, flowgraph.ArcID(a))
		}
	}
	var fits bool
	if r.Objective, fits = sum.Int64(); !fits {
		r.Status = solver.CostRange
		// Nobody will read the list: each of its arcs is to be listed next time.
		for _, a := range s.changed {
			s.old[a] = -1
		}
	}
}

// chooseBoundary finds a residue of potentials that no live node has.
func (s *state) chooseBoundary() {
	size := int64(1) << s.scale
	s.taken = grow(s.taken, int(size/64)+1)
	clear(s.taken)
	for v, p := range s.pi {
		// Together with those of nodes that are gone they might be all.
		if s.net.NodeAlive(flowgraph.NodeID(v)) {
			x := p & (size - 1)
			s.taken[x/64] |= 1 << (x % 64)
		}
	}
	free := int64(0)
	for s.taken[free/64]>>(free%64)&1 != 0 {
		free++
	}
	s.boundary = free + 1
}

func grow[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}

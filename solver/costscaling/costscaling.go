package costscaling

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

// MaxBits is the cost range: |cost|·(nodes+1) must stay below 2^MaxBits, as scaled costs must fit. Potentials
// are watched on the way: [solver.CostRange] is also the answer if one leaves ±2^61. That takes price
// differences of many arcs in sequence, or dead ends that lower prices before a network is found to be
// infeasible. Amounts must be small enough for all arcs to be full at once: twice the sum of their rooms,
// none above [flowgraph.Network.Volume], must be below 2^62.
const MaxBits = 57

const (
	lowest = -1 << 61 // potential
	none   = int32(-1)
)

// Solver is a cost-scaling solver. Use [New].
type Solver struct {
	state *state // of the one that works
	// narrow works as long as all costs and amounts of arcs fit its numbers. After that wide works, until
	// another network comes.
	narrow *refiner[int32]
	wide   *refiner[int64]
}

// state is what does not depend on the width of numbers.
type state struct {
	residual.Graph
	scale   uint  // costs are multiplied by 1<<scale, which is more than there are nodes
	unit    int64 // 1<<scale
	epsilon uint  // ε is 1<<epsilon

	next []int32 // by node: where to look for an admissible residual arc
	pi   []int64 // scaled potentials

	queue    residual.Ring // nodes with excess
	path     []int32
	relabels int // since prices were updated
	updates  int
	rank     []int64 // by node, in updates
	found    []ranked
	heap     radix
	order    order

	boundary int64 // see Potential
	taken    []uint64
}

// refiner does the work with residuals of one width.
type refiner[N residual.Number] struct {
	state
	residual.Arcs[N]
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
func (s *Solver) Flow(a flowgraph.ArcID) int64 { return s.state.Flow(a) }

// Potential returns π(v) in the last optimal result. O(1).
//
// Scaled potentials keep every residual reduced cost at −1 or above. Rounding
// them down to whole costs could turn that into −1 of a whole cost only where
// the rounding falls between two residues that are both in use; there are more
// residues than nodes, so one boundary is harmless for all.
func (s *Solver) Potential(v flowgraph.NodeID) flowgraph.Cost { return s.state.Potential(v) }

// Potential is [Solver.Potential].
func (s *state) Potential(v flowgraph.NodeID) flowgraph.Cost {
	return flowgraph.Cost((s.pi[v] - s.boundary) >> s.scale)
}

// Changed lists the arcs whose flow differs from the last optimal result.
func (s *Solver) Changed() []flowgraph.ArcID { return s.state.Changed() }

// Solve refines the flow to the optimum. O(arcs) at least, whatever changed.
func (s *Solver) Solve(n *flowgraph.Network, budget solver.Budget) (solver.Result, error) {
	r := solver.Result{Status: solver.Precheck(n, MaxBits)}
	if r.Status != solver.Optimal {
		return r, nil
	}
	if n != s.state.Net {
		s.narrow, s.wide = &refiner[int32]{state: state{Graph: residual.Graph{Net: n}}}, nil
		s.state = &s.narrow.state
	}
	if s.narrow != nil {
		if s.narrow.Solve(&s.narrow.Graph, s.narrow, budget, &r); s.narrow.Exceeded {
			s.state.Forget()
			s.wide, s.narrow = &refiner[int64]{state: *s.state}, nil
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

// Run refines phase by phase until ε is below one part in nodes of a cost.
func (s *refiner[N]) Run(budget solver.Budget, w *solver.Work) solver.Status {
	for {
		if status := s.refine(budget, w); status != solver.Optimal {
			return status
		}
		if !s.advance(w) {
			break
		}
	}
	s.chooseBoundary()
	return solver.Optimal
}

// Begin begins the phases at the first ε; after changes, at the least ε for which the flow is ε-optimal.
func (s *refiner[N]) Begin(w *solver.Work) {
	if s.Warm() {
		s.epsilon = s.violation(w)
	}
	s.begin(w)
}

// Fit makes room for what is known of the nodes, and chooses scale and, when cold, the first ε.
func (s *state) Fit(cold bool) {
	n := s.Net
	was := s.scale
	if cold || n.NumNodes() >= 1<<s.scale {
		s.scale = uint(bits.Len(uint(n.NumNodes() + 1)))
		s.unit = 1 << s.scale
	}
	nodes := n.NodeBound()
	s.next = residual.Grow(s.next, nodes)
	s.pi = residual.Grow(s.pi, nodes)
	s.queue.Grow(nodes)
	s.rank = residual.Grow(s.rank, nodes)
	s.order.grow(nodes)
	s.found = residual.Grow(s.found, s.Degree)
	if cold {
		s.epsilon = uint(max(n.CostBits()+int(s.scale)-firstBits, 0))
		clear(s.pi)
		return
	}
	for v := range s.pi {
		s.pi[v] <<= s.scale - was
	}
}

// chooseBoundary finds a residue of potentials that no live node has.
func (s *state) chooseBoundary() {
	size := int64(1) << s.scale
	s.taken = residual.Grow(s.taken, int(size/64)+1)
	clear(s.taken)
	for v, p := range s.pi {
		// With those of nodes that are gone, they might be all residues.
		if s.Net.NodeAlive(flowgraph.NodeID(v)) {
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

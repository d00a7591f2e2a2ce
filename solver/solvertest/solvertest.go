// Package solvertest is the conformance suite of solvers: every implementation
// runs [Run] from its own tests.
package solvertest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// Run holds fresh solvers against fixed cases, the oracle on random networks
// under random changes, and the laws of the contract.
func Run(t *testing.T, fresh func() solver.Solver) {
	t.Run("statuses", func(t *testing.T) { statuses(t, fresh) })
	t.Run("budget", func(t *testing.T) { budget(t, fresh) })
	t.Run("changed", func(t *testing.T) { changed(t, fresh) })
	t.Run("changed beyond the range", func(t *testing.T) { changedBeyondTheRange(t, fresh) })
	t.Run("emptied", func(t *testing.T) { emptied(t, fresh) })
	t.Run("plenty of room", func(t *testing.T) { plenty(t, fresh) })
	t.Run("differential", func(t *testing.T) { differential(t, fresh) })
	t.Run("cluster", func(t *testing.T) { cluster(t, fresh) })
}

const inf = flowgraph.Infinite

// Build makes a network of nodes with the given supplies.
func Build(supplies []int64, arcs ...[5]int64) *flowgraph.Network {
	n := flowgraph.New()
	for _, s := range supplies {
		n.AddNode(s)
	}
	for _, a := range arcs {
		n.AddArc(flowgraph.NodeID(a[0]), flowgraph.NodeID(a[1]), a[2], a[3], flowgraph.Cost(a[4]))
	}
	return n
}

func statuses(t *testing.T, fresh func() solver.Solver) {
	for _, c := range []struct {
		name      string
		supplies  []int64
		arcs      [][5]int64
		status    solver.Status
		objective int64
	}{
		{name: "empty", status: solver.Optimal},
		{name: "lonely node", supplies: []int64{0}, status: solver.Optimal},
		{name: "one arc", supplies: []int64{2, -2}, arcs: [][5]int64{{0, 1, 0, inf, 3}}, status: solver.Optimal, objective: 6},
		{
			name: "convex parallel arcs", supplies: []int64{3, -3},
			arcs:   [][5]int64{{0, 1, 0, 1, 9}, {0, 1, 0, 1, 1}, {0, 1, 0, 1, 5}, {0, 1, 0, 1, 7}},
			status: solver.Optimal, objective: 13,
		},
		{
			name: "lower bound forces a detour", supplies: []int64{1, 0, -1},
			arcs:   [][5]int64{{0, 2, 0, 1, 1}, {0, 1, 1, 2, 5}, {1, 2, 0, 2, 5}},
			status: solver.Optimal, objective: 10,
		},
		{
			name: "negative cycle with a bound", supplies: []int64{0, 0},
			arcs:   [][5]int64{{0, 1, 0, 4, -3}, {1, 0, 0, inf, 1}},
			status: solver.Optimal, objective: -8,
		},
		{name: "negative loop with a bound", supplies: []int64{0}, arcs: [][5]int64{{0, 0, 0, 5, -2}}, status: solver.Optimal, objective: -10},
		{name: "costly loop with a lower bound", supplies: []int64{0}, arcs: [][5]int64{{0, 0, 2, 5, 7}}, status: solver.Optimal, objective: 14},
		{name: "no arc", supplies: []int64{1, -1}, status: solver.Infeasible},
		{name: "capacity too small", supplies: []int64{2, -2}, arcs: [][5]int64{{0, 1, 0, 1, 0}}, status: solver.Infeasible},
		{name: "wrong way", supplies: []int64{1, -1}, arcs: [][5]int64{{1, 0, 0, 5, 0}}, status: solver.Infeasible},
		{name: "lower bound out of a dead end", supplies: []int64{0, 0}, arcs: [][5]int64{{0, 1, 1, 2, 0}}, status: solver.Infeasible},
		{name: "unbalanced", supplies: []int64{2, -1}, arcs: [][5]int64{{0, 1, 0, 5, 0}}, status: solver.Unbalanced},
		{name: "unbounded", supplies: []int64{0, 0}, arcs: [][5]int64{{0, 1, 0, inf, -3}, {1, 0, 0, inf, 1}}, status: solver.Unbounded},
		{name: "unbounded loop", supplies: []int64{0}, arcs: [][5]int64{{0, 0, 0, inf, -1}}, status: solver.Unbounded},
		{
			name: "infeasible before unbounded", supplies: []int64{1, 0, -1},
			arcs:   [][5]int64{{0, 1, 0, inf, -3}, {1, 0, 0, inf, 1}},
			status: solver.Infeasible,
		},
		{name: "absurd cost", supplies: []int64{1, -1}, arcs: [][5]int64{{0, 1, 0, 1, math.MaxInt64}}, status: solver.CostRange},
		{name: "absurd amounts", supplies: []int64{inf, inf, -inf, -inf}, arcs: [][5]int64{{0, 2, 0, inf, 0}, {1, 3, 0, inf, 0}}, status: solver.CostRange},
		{name: "objective beyond 64 bits", supplies: []int64{1 << 50, -1 << 50}, arcs: [][5]int64{{0, 1, 0, inf, 1 << 30}}, status: solver.CostRange},
		{name: "large costs in range", supplies: []int64{4, -4}, arcs: [][5]int64{{0, 1, 0, inf, 1 << 40}}, status: solver.Optimal, objective: 1 << 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := Build(c.supplies, c.arcs...)
			r, err := fresh().Solve(n, solver.Budget{})
			require.NoError(t, err)
			require.Equal(t, c.status.String(), r.Status.String())
			if c.status != solver.Optimal {
				require.Nil(t, r.Solution, "only an optimal result has a flow")
				return
			}
			require.Equal(t, c.objective, r.Objective)
			require.NoError(t, solver.Verify(n, r))
		})
	}
}

// budget solves in the smallest steps there are and must come out the same.
func budget(t *testing.T, fresh func() solver.Solver) {
	n := Random(Seeded(7), Shape{Nodes: 40, Arcs: 200, MaxCost: 50, MaxAmount: 6})
	whole, err := fresh().Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Optimal, whole.Status)
	s := fresh()
	spent := 0
	for {
		r, err := s.Solve(n, solver.Budget{Work: 1})
		require.NoError(t, err)
		if r.Status != solver.BudgetSpent {
			require.Equal(t, solver.Optimal, r.Status)
			require.Equal(t, whole.Objective, r.Objective)
			require.NoError(t, solver.Verify(n, r))
			break
		}
		require.Nil(t, r.Solution)
		spent++
		require.Less(t, spent, 1<<20, "no progress")
	}
	require.Positive(t, spent, "a budget of one unit must run out")
}

// changed follows the flow by the list of changes alone.
func changed(t *testing.T, fresh func() solver.Solver) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapidSource{t}
		n := Random(src, Shape{Nodes: 8, Arcs: 20, MaxCost: 9, MaxAmount: 4})
		s := fresh()
		known := map[flowgraph.ArcID]int64{}
		for range 4 {
			r, err := s.Solve(n, solver.Budget{})
			require.NoError(t, err)
			if r.Status == solver.Optimal {
				seen := map[flowgraph.ArcID]bool{}
				for _, a := range r.Changed() {
					require.True(t, n.ArcAlive(a))
					require.False(t, seen[a], "arc %d listed twice", a)
					seen[a] = true
					known[a] = r.Flow(a)
				}
				for i := range n.ArcBound() {
					if a := flowgraph.ArcID(i); n.ArcAlive(a) {
						require.Equal(t, r.Flow(a), known[a], "arc %d", a)
					}
				}
			}
			Perturb(n, src, 3)
			for a := range known {
				if !n.ArcAlive(a) {
					delete(known, a)
				}
			}
		}
	})
}

// changedBeyondTheRange follows the flow over a result whose objective does not fit: nobody has read that flow.
func changedBeyondTheRange(t *testing.T, fresh func() solver.Solver) {
	n := Build([]int64{1, -1}, [5]int64{0, 1, 0, inf, 1}, [5]int64{0, 1, 0, inf, 2})
	s := fresh()
	var known Flows
	for _, step := range []struct {
		amount int64
		costs  []flowgraph.Cost
		status solver.Status
	}{
		{1, []flowgraph.Cost{1, 2}, solver.Optimal},
		{1 << 30, []flowgraph.Cost{1 << 40, 1 << 39}, solver.CostRange},
		{1, []flowgraph.Cost{2, 1}, solver.Optimal},
	} {
		n.SetSupply(0, step.amount)
		n.SetSupply(1, -step.amount)
		n.SetCosts([]flowgraph.ArcID{0, 1}, step.costs)
		r, err := s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, step.status, r.Status)
		if r.Status == solver.Optimal {
			require.NoError(t, known.Follow(n, r))
		}
	}
}

// emptied takes all nodes away, and brings others.
func emptied(t *testing.T, fresh func() solver.Solver) {
	for _, supply := range []int64{0, 2} {
		n := flowgraph.New()
		s := fresh()
		var known Flows
		for range 4 {
			require.Empty(t, Compare(t, n, s).Changed())
			a := n.AddArc(n.AddNode(supply), n.AddNode(-supply), 0, 3, -1)
			require.NoError(t, known.Follow(n, Compare(t, n, s)))
			known.Forget(n, a)
			n.RemoveNodes([]flowgraph.NodeID{n.Tail(a), n.Head(a)})
		}
	}
}

// plenty makes arcs wide that were full, and those cheap that are wide: filled, they would carry more than 64 bits hold.
func plenty(t *testing.T, fresh func() solver.Solver) {
	const count, units = 20, 6
	for _, room := range []int64{1 << 31, 1 << 60, inf - 1} {
		n := Build([]int64{units, 0, -units}, [5]int64{0, 1, 0, inf, 90}, [5]int64{1, 2, 0, inf, 90})
		for i := range flowgraph.Cost(count) {
			n.AddArc(0, 1, 0, 1, i)
			n.AddArc(1, 2, 0, room, 100+i)
		}
		s := fresh()
		Compare(t, n, s)
		for i := range flowgraph.ArcID(count) {
			n.SetBounds(2+2*i, 0, room)
		}
		Compare(t, n, s)
		for i := range flowgraph.ArcID(count) {
			n.SetCost(3+2*i, flowgraph.Cost(i))
		}
		Compare(t, n, s)
	}
}

// differential compares with the oracle after every batch of changes.
func differential(t *testing.T, fresh func() solver.Solver) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapidSource{t}
		n := Random(src, Shape{
			Nodes: src.Intn(12) + 1, Arcs: src.Intn(40),
			MaxCost: int64(1) << src.Intn(41), MaxAmount: int64(src.Intn(6) + 1),
		})
		s := fresh()
		for range 5 {
			Compare(t, n, s)
			Perturb(n, src, 1+src.Intn(6))
		}
	})
}

// cluster compares on networks of the scheduler's shape under churn.
func cluster(t *testing.T, fresh func() solver.Solver) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapidSource{t}
		c := NewCluster(src, ClusterShape{
			Hosts: 1 + src.Intn(12), Slots: 1 + src.Intn(3), Classes: src.Intn(30),
			Patterns: 1 + src.Intn(4), MaxCost: src.Intn(20), MaxSupply: 1 + src.Intn(4),
		})
		s := fresh()
		for range 6 {
			Compare(t, c.Network, s)
			c.Churn(1 + src.Intn(8))
		}
	})
}

// Compare solves n with s and with the oracle and certifies the answer.
func Compare(t require.TestingT, n *flowgraph.Network, s solver.Solver) solver.Result {
	require.NoError(t, n.Check())
	want, err := ssp.New().Solve(n, solver.Budget{})
	require.NoError(t, err)
	got, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, want.Status.String(), got.Status.String())
	require.Equal(t, want.Objective, got.Objective)
	if got.Status == solver.Optimal {
		require.NoError(t, solver.Verify(n, got))
		require.NoError(t, solver.Verify(n, want))
	}
	return got
}

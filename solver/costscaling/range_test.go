package costscaling_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestInfeasibleCorner: what cannot leave a corner of a large network does not lower
// prices there until they leave their range.
func TestInfeasibleCorner(t *testing.T) {
	n := flowgraph.New()
	for range 20_000 {
		n.AddNode(0)
	}
	for v := range flowgraph.NodeID(19_990) {
		n.AddArc(v, v+1, 0, 5, 1<<20)
		n.AddArc(v+1, v, 0, 5, 1<<20)
	}
	n.SetSupply(0, 1)
	n.SetSupply(3, -1)
	n.SetSupply(19_997, 3)
	n.SetSupply(19_999, -3)
	n.AddArc(19_997, 19_998, 0, 3, 1)
	narrow := n.AddArc(19_998, 19_999, 0, 2, 1)
	s := costscaling.New()
	r, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Infeasible, r.Status)
	n.SetBounds(narrow, 0, 3)
	r, err = s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.NoError(t, solver.Verify(n, r))
}

// TestLargeAmounts: a few arcs without an upper bound among many narrow ones leave room
// for amounts near 2⁴⁰; amounts that a node could not sum up are refused.
func TestLargeAmounts(t *testing.T) {
	const large = 1 << 46
	arcs := [][5]int64{{0, 1, 0, flowgraph.Infinite, 9}}
	for i := range int64(1 << 14) {
		arcs = append(arcs, [5]int64{0, 1, 0, large / 1024, i % 7})
	}
	for _, c := range []struct {
		amount int64
		status solver.Status
	}{{large, solver.Optimal}, {1 << 61, solver.CostRange}, {1<<62 - 1, solver.CostRange}} {
		n := solvertest.Build([]int64{c.amount, -c.amount}, arcs...)
		r, err := costscaling.New().Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, c.status, r.Status)
		if c.status == solver.Optimal {
			require.NoError(t, solver.Verify(n, r))
		}
	}
}

// TestLargeAmountsOfOneArc: the no larger amount is taken than one that is refused.
func TestLargeAmountsOfOneArc(t *testing.T) {
	for _, c := range []struct {
		amount int64
		status solver.Status
	}{{1<<60 - 2, solver.Optimal}, {1 << 60, solver.CostRange}, {1<<61 - 1, solver.CostRange}, {1<<61 + 1, solver.CostRange}, {1<<62 - 2, solver.CostRange}} {
		n := solvertest.Build([]int64{c.amount, -c.amount}, [5]int64{0, 1, 0, flowgraph.Infinite, 1})
		r, err := costscaling.New().Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, c.status, r.Status, c.amount)
	}
}

// TestBeyond32Bits: costs and amounts may leave 32 bits, and come back, from call to call;
// what changed is told against the last answer all the same.
func TestBeyond32Bits(t *testing.T) {
	for name, change := range map[string]func(n *flowgraph.Network, a flowgraph.ArcID){
		"cost":     func(n *flowgraph.Network, a flowgraph.ArcID) { n.SetCost(a, 1<<31) },
		"negative": func(n *flowgraph.Network, a flowgraph.ArcID) { n.SetCost(a, -1<<31) },
		"amount": func(n *flowgraph.Network, a flowgraph.ArcID) {
			n.SetBounds(a, 3, 1<<40)
			n.SetSupply(0, 1<<33)
			n.SetSupply(1, -1<<33)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := solvertest.Build([]int64{7, -7}, [5]int64{0, 1, 0, 4, 1}, [5]int64{0, 1, 0, 9, 2}, [5]int64{0, 1, 0, flowgraph.Infinite, 30})
			s := costscaling.New()
			flow := make([]int64, n.ArcBound())
			solve := func() {
				r, err := s.Solve(n, solver.Budget{})
				require.NoError(t, err)
				require.Equal(t, solver.Optimal, r.Status)
				require.NoError(t, solver.Verify(n, r))
				for _, a := range r.Changed() {
					flow[a] = r.Flow(a)
				}
				for a := range flow {
					require.Equal(t, r.Flow(flowgraph.ArcID(a)), flow[a])
				}
			}
			solve()
			change(n, 0)
			solve()
			n.SetCost(0, 5)
			n.SetCost(1, 4)
			solve()
		})
	}
}

package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return New() })
}

// TestConformanceWithHubs treats nearly every node as a hub.
func TestConformanceWithHubs(t *testing.T) {
	solvertest.Run(t, func() solver.Solver {
		s := New()
		s.hubDegree = 3
		return s
	})
}

// TestConformanceWithForest lets nearly every search leave its units to the
// forest, or if they are few, to searches that go on to the end.
func TestConformanceWithForest(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		for _, units := range []int64{0, 4} {
			solvertest.Run(t, func() solver.Solver {
				s := New()
				s.stamina, s.few = nodes, units
				return s
			})
		}
	}
}

// TestConformanceWithAdviser asks the simplex nearly every time.
func TestConformanceWithAdviser(t *testing.T) {
	for _, patience := range []int64{0, 1, 4} {
		solvertest.Run(t, func() solver.Solver {
			s := New()
			s.patience = patience
			return s
		})
	}
}

// TestBudgetWhilePricesDoNotSettle has a negative cycle so wide that prices move instead of its flow, for ever: the simplex
// answers, within the budget too, and is not asked for what has changed since.
func TestBudgetWhilePricesDoNotSettle(t *testing.T) {
	const wide = 2 * solver.Plenty
	n := solvertest.Random(solvertest.Seeded(7), solvertest.Shape{Nodes: 40, Arcs: 200, MaxCost: 50, MaxAmount: 6})
	addCycle := func() {
		u, v, w := n.AddNode(0), n.AddNode(0), n.AddNode(0)
		for _, ends := range [][2]flowgraph.NodeID{{u, v}, {v, w}, {w, u}} {
			n.AddArc(ends[0], ends[1], 0, wide, -1)
		}
	}
	s := New()
	solve := func(steps int) (spent int) {
		for {
			r, err := s.Solve(n, solver.Budget{Work: 1})
			require.NoError(t, err)
			if r.Status == solver.BudgetSpent && spent < steps {
				spent++
				continue
			}
			if spent < steps {
				require.Equal(t, solver.Optimal, r.Status)
				want, err := ssp.New().Solve(n, solver.Budget{})
				require.NoError(t, err)
				require.Equal(t, want.Objective, r.Objective)
				require.NoError(t, solver.Verify(n, r))
			}
			return spent
		}
	}
	addCycle()
	require.Greater(t, solve(1<<20), 10)
	addCycle()
	require.Equal(t, 5, solve(5), "not done yet")
	addCycle()
	require.Greater(t, solve(1<<20), 10)
}

// TestDrift has prices rise, change after change, where no arc leads to the ground or comes from it: by arcs whose costs
// fall in turn, or by units that go either way in turn.
func TestDrift(t *testing.T) {
	const dear = 1 << 51
	for _, turn := range []func(n *flowgraph.Network, i int, u, v flowgraph.NodeID, there, back flowgraph.ArcID){
		func(n *flowgraph.Network, i int, _, _ flowgraph.NodeID, there, back flowgraph.ArcID) {
			sign := flowgraph.Cost(1 - i%2*2)
			n.SetCost(there, -sign*dear)
			n.SetCost(back, sign*dear)
		},
		func(n *flowgraph.Network, i int, u, v flowgraph.NodeID, _, _ flowgraph.ArcID) {
			supply := []int64{1, 0, -1, 0}[i%4]
			n.SetSupply(u, supply)
			n.SetSupply(v, -supply)
		},
	} {
		n := flowgraph.New()
		ground, from, u, v := n.AddNode(-3), n.AddNode(3), n.AddNode(0), n.AddNode(0)
		n.AddArc(from, ground, 0, 9, 1)
		there, back := n.AddArc(u, v, 0, flowgraph.Infinite, dear), n.AddArc(v, u, 0, flowgraph.Infinite, dear)
		s := New()
		for i := range 5000 {
			turn(n, i, u, v, there, back)
			r, err := s.Solve(n, solver.Budget{})
			require.NoError(t, err)
			require.NoError(t, solver.Verify(n, r), "turn %d", i)
			require.Zero(t, r.Work.Rebuilds)
		}
	}
}

// TestNoOptimum has arcs come and go, with flow, while there is a unit without a way, and then a way for it.
func TestNoOptimum(t *testing.T) {
	n := flowgraph.New()
	ground, place, from := n.AddNode(-10), n.AddNode(0), n.AddNode(10)
	n.AddArc(place, ground, 0, 20, 0)
	arcs := make([]flowgraph.ArcID, 10)
	for i := range arcs {
		arcs[i] = n.AddArc(from, place, 0, 1, 1)
	}
	s, known := New(), solvertest.Flows{}
	r, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.NoError(t, known.Follow(n, r))
	for round := range 3 {
		n.SetSupply(ground, -11)
		stuck := n.AddNode(1)
		for i := range 2000 {
			a := &arcs[i*i%(7+round)]
			n.RemoveArc(*a)
			known.Forget(n, *a)
			side := n.AddNode(0)
			out, in := n.AddArc(side, place, 0, 3, 2), n.AddArc(place, side, 0, 3, 2)
			*a = n.AddArc(from, place, 0, int64(1+i%3), 1)
			r, err = s.Solve(n, solver.Budget{})
			require.NoError(t, err)
			require.Equal(t, solver.Infeasible, r.Status)
			known.Forget(n, out)
			known.Forget(n, in)
			n.RemoveNode(side)
		}
		require.Less(t, len(s.moved), 200)
		n.AddArc(stuck, place, 0, 1, 3)
		r, err = s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		require.NoError(t, known.Follow(n, r))
		n.SetSupply(ground, -10)
		n.RemoveNode(stuck)
	}
}

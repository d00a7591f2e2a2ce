package costscaling

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// least returns the least reduced cost of a residual with room.
func least(s *Solver) int64 {
	found := far
	for v := range s.supply {
		for _, r := range s.residuals[s.first[v]:s.first[v+1]] {
			if r.room > 0 {
				found = min(found, r.cost+s.pi[v]-s.pi[r.head])
			}
		}
	}
	return found
}

func TestPricesOfAnOptimalFlowAreFoundAgain(t *testing.T) {
	spoilt := 0
	for seed := range uint64(200) {
		src := solvertest.Seeded(seed)
		s := New()
		r, err := s.Solve(solvertest.Random(src, solvertest.Shape{Nodes: 12, Arcs: 40, MaxCost: 20, MaxAmount: 5}), solver.Budget{})
		require.NoError(t, err)
		if r.Status != solver.Optimal {
			continue
		}
		for v := range s.pi {
			s.pi[v] += int64(src.Intn(3)-1) << s.scale
		}
		if least(s) < -1 {
			spoilt++
		}
		var w solver.Work
		require.True(t, s.refinePrices(&w), "seed %d", seed)
		require.GreaterOrEqual(t, least(s), int64(-1), "seed %d", seed)
		require.False(t, slices.Contains(s.order.noted, true))
		require.NotContains(t, s.order.place, placed)
	}
	require.Greater(t, spoilt, 100)
}

func TestPricesOfAFlowThatIsNotOptimalStay(t *testing.T) {
	n := solvertest.Build([]int64{5, 0, -5}, [5]int64{0, 1, 0, 5, 1}, [5]int64{0, 1, 0, 5, 10}, [5]int64{1, 2, 0, 9, 0})
	s := New()
	r, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Optimal, r.Status)
	cheap, dear := flowgraph.ArcID(0), flowgraph.ArcID(1)
	s.push(0, s.arcs[dear].place, 1)
	s.push(1, s.residuals[s.arcs[cheap].place].back, 1)
	before := slices.Clone(s.pi)
	var w solver.Work
	require.False(t, s.refinePrices(&w), "a unit that takes the dear arc closes a negative cycle")
	require.Equal(t, before, s.pi)
	require.False(t, slices.Contains(s.order.noted, true))
	require.NotContains(t, s.order.place, open)
	require.NotContains(t, s.order.place, placed)
}

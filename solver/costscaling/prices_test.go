package costscaling

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/residual"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// least returns the least reduced cost of a residual with room.
func least[N residual.Number](s *refiner[N]) int64 {
	found := far
	for v := range s.Excess {
		for _, r := range s.List[s.First[v]:s.First[v+1]] {
			if r.Room > 0 {
				found = min(found, int64(r.Cost)*s.unit+s.pi[v]-s.pi[r.Head])
			}
		}
	}
	return found
}

// refined returns a refiner that has solved n.
func refined[N residual.Number](n *flowgraph.Network) (*refiner[N], solver.Status) {
	r := solver.Result{Status: solver.Precheck(n, MaxBits)}
	s := &refiner[N]{state: state{Graph: residual.Graph{Net: n}}}
	if r.Status == solver.Optimal {
		s.Solve(&s.Graph, s, solver.Budget{}, &r)
	}
	return s, r.Status
}

func TestPricesOfAnOptimalFlowAreFoundAgain(t *testing.T) {
	t.Run("narrow", pricesAreFoundAgain[int32])
	t.Run("wide", pricesAreFoundAgain[int64])
}

func pricesAreFoundAgain[N residual.Number](t *testing.T) {
	spoilt := 0
	for seed := range uint64(200) {
		src := solvertest.Seeded(seed)
		s, status := refined[N](solvertest.Random(src, solvertest.Shape{Nodes: 12, Arcs: 40, MaxCost: 20, MaxAmount: 5}))
		if status != solver.Optimal {
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

func TestAFlowThatIsNotOptimalHasNoPrices(t *testing.T) {
	s, status := refined[int32](solvertest.Build([]int64{5, 0, -5}, [5]int64{0, 1, 0, 5, 1}, [5]int64{0, 1, 0, 5, 10}, [5]int64{1, 2, 0, 9, 0}))
	require.Equal(t, solver.Optimal, status)
	cheap, dear := flowgraph.ArcID(0), flowgraph.ArcID(1)
	s.push(0, s.Place(dear), 1)
	s.push(1, s.Back[s.Place(cheap)], 1)
	var w solver.Work
	require.False(t, s.refinePrices(&w), "a unit that takes the dear arc closes a negative cycle")
	require.False(t, slices.Contains(s.order.noted, true))
	require.NotContains(t, s.order.place, open)
	require.NotContains(t, s.order.place, placed)
}

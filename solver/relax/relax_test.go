package relax_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return relax.New() })
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, relax.New())
}

// TestLeft: what is in excess is known while a solve is under way, in parts as small as may be, and is nothing at its end.
func TestLeft(t *testing.T) {
	solved := 0
	for seed := range uint64(50) {
		n := solvertest.Random(solvertest.Seeded(seed), solvertest.Shape{Nodes: 60, Arcs: 300, MaxCost: 1000, MaxAmount: 50})
		s := relax.New()
		most := int64(0)
		r, err := s.Solve(n, solver.Budget{Work: 1})
		for ; err == nil && r.Status == solver.BudgetSpent; r, err = s.Solve(n, solver.Budget{Work: 1}) {
			left, of := s.Left()
			require.True(t, left >= 0 && of >= 0)
			most = max(most, of)
		}
		require.NoError(t, err)
		if r.Status != solver.Optimal {
			continue
		}
		require.NoError(t, solver.Verify(n, r))
		left, of := s.Left()
		require.Zero(t, left)
		require.Equal(t, most, of, "it is measured once")
		if of > 0 {
			solved++
		}
	}
	require.Greater(t, solved, 10)
}

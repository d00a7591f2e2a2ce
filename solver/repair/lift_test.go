package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// crowd is a cluster with room for its tasks, solved, to which many more have come.
func crowd(t *testing.T, seed uint64, tasks int) (*solvertest.Cluster, *Solver) {
	c := solvertest.NewCluster(solvertest.Seeded(seed), solvertest.ClusterShape{
		Hosts: 60, Slots: 4, Classes: 180, Patterns: 40, MaxCost: 100, MaxSupply: 1,
	})
	s := New()
	r, err := s.Solve(c.Network, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Optimal, r.Status)
	for range tasks {
		c.AddClass()
	}
	return c, s
}

// TestLift: lifted prices make as many units wait as there is no room for.
func TestLift(t *testing.T) {
	lifted := 0
	for seed := range uint64(20) {
		c, s := crowd(t, seed, 150)
		require.True(t, s.takeIn())
		missing, host := s.missing(), s.nodes[s.ground].in[0]
		require.Positive(t, missing)
		by := s.level(missing)
		waiting := s.market.waiting
		require.Less(t, s.market.waiters(by), waiting+missing)
		require.GreaterOrEqual(t, s.market.waiters(by+1), waiting+missing)
		before := s.price[s.arcs[host].tail]
		require.True(t, s.lift())
		if by > 0 {
			lifted++
			require.GreaterOrEqual(t, s.price[s.arcs[host].tail], before+by)
			require.Zero(t, s.level(missing), "as many would rather wait now")
		}
		solvertest.Compare(t, c.Network, s)
	}
	require.Greater(t, lifted, 10)
}

// TestNoLift: where there is room for all, or who comes too late would wait in any case, prices stay.
func TestNoLift(t *testing.T) {
	c, s := crowd(t, 1, 0)
	for range 5 {
		c.AddClass()
	}
	require.True(t, s.takeIn())
	require.LessOrEqual(t, s.missing(), int64(0))
	before := append([]int64(nil), s.price...)
	require.True(t, s.lift())
	require.Equal(t, before, s.price)
}

package solvertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// WarmAllocatesNothing lets s follow a cluster that swings between two states, and
// requires that no solve allocates once both have been seen.
func WarmAllocatesNothing(t *testing.T, s solver.Solver) {
	t.Helper()
	c := NewCluster(Seeded(1), ClusterShape{Hosts: 60, Slots: 3, Classes: 100, Patterns: 10, MaxCost: 50, MaxSupply: 4})
	var touched int64
	cycle := func() {
		r, err := s.Solve(c.Network, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, r.Status)
		touched += r.Work.Touched
	}
	class := c.Classes()
	swing := func(by int64) {
		supply := c.Supply(c.sink)
		for _, v := range class[:20] {
			c.SetSupply(v, c.Supply(v)+by)
			supply -= by
		}
		c.SetSupply(c.sink, supply)
		for _, ref := range c.Out(class[30]) {
			c.SetCost(ref.Arc, ref.Cost+flowgraph.Cost(3*by))
		}
	}
	for range 50 {
		cycle()
		swing(1)
		cycle()
		swing(-1)
	}
	touched = 0
	require.Zero(t, testing.AllocsPerRun(20, func() {
		swing(1)
		cycle()
		swing(-1)
		cycle()
	}))
	require.Positive(t, touched, "the solver must have seen the changes")
}

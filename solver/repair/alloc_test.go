package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestWarmSolveDoesNotAllocate lets a cluster come to its largest size first.
func TestWarmSolveDoesNotAllocate(t *testing.T) {
	src := solvertest.Seeded(1)
	c := solvertest.NewCluster(src, solvertest.ClusterShape{Hosts: 60, Slots: 3, Classes: 100, Patterns: 10, MaxCost: 50, MaxSupply: 4})
	s := New()
	var touched int64
	cycle := func() {
		r, err := s.Solve(c.Network, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, r.Status)
		touched += r.Work.Touched
	}
	// The same two states in turn: everything has been seen in the first rounds.
	supply := c.Supply(0)
	class := c.Classes()
	swing := func(by int64) {
		for _, v := range class[:20] {
			c.SetSupply(v, c.Supply(v)+by)
			supply -= by
		}
		c.SetSupply(0, supply)
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
	require.Positive(t, touched)
}

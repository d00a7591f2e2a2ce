package auto

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return New() })
}

// TestEveryHandOver forces a race on every solve, whoever wins.
func TestEveryHandOver(t *testing.T) {
	for seed := range uint64(200) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1 + src.Intn(12), Slots: 1 + src.Intn(3), Classes: src.Intn(30),
			Patterns: 1 + src.Intn(4), MaxCost: src.Intn(20), MaxSupply: 1 + src.Intn(4),
		})
		s := New()
		for range 6 {
			s.racing = s.net != nil
			solvertest.Compare(t, c.Network, s)
			c.Churn(1 + src.Intn(8))
		}
	}
}

// TestSameHistorySameFlow: goroutines may run in any order, answers may not.
func TestSameHistorySameFlow(t *testing.T) {
	flows := func() []int64 {
		src := solvertest.Seeded(3)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{Hosts: 12, Slots: 2, Classes: 30, Patterns: 3, MaxCost: 9, MaxSupply: 4})
		s := New()
		var all []int64
		for range 20 {
			s.racing = s.net != nil
			r, err := s.Solve(c.Network, solver.Budget{})
			require.NoError(t, err)
			require.Equal(t, solver.Optimal, r.Status)
			for _, a := range r.Changed() {
				all = append(all, int64(a), r.Flow(a))
			}
			c.Churn(5)
		}
		return all
	}
	require.Equal(t, flows(), flows())
}

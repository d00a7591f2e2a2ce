package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// TestDrawBeside lets arcs that run side by side get other bounds and prices at once, with
// flow on both.
func TestDrawBeside(t *testing.T) {
	n := flowgraph.New()
	sink, class, host := n.AddNode(-6), n.AddNode(6), n.AddNode(0)
	n.AddArc(host, sink, 0, 6, 0)
	wait := n.AddArc(class, sink, 0, flowgraph.Infinite, 100)
	first, second := n.AddArc(class, host, 0, 2, 7), n.AddArc(class, host, 0, 2, 9)
	s := New()
	for _, next := range []struct {
		upper    int64
		cost     flowgraph.Cost
		onSecond int64
	}{{2, 9, 2}, {3, 5, 3}, {4, 3, 4}, {1, 20, 1}, {6, 1, 6}, {2, 8, 2}} {
		n.SetBounds(second, 0, next.upper)
		n.SetCost(second, next.cost)
		r, err := s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		require.Equal(t, next.onSecond, r.Flow(second))
		require.Equal(t, min(2, 6-next.onSecond), r.Flow(first))
		require.Equal(t, 6-r.Flow(first)-r.Flow(second), r.Flow(wait))
	}
}

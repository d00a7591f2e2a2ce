package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestForestEnds: a source that could only go on to nodes of the forest, whose prices move as its own, does not keep the
// forest growing.
func TestForestEnds(t *testing.T) {
	for _, cost := range []flowgraph.Cost{5, 1 << 54} {
		for _, units := range []int64{20, -20} {
			n := flowgraph.New()
			ground, u, w, source := n.AddNode(-1), n.AddNode(0), n.AddNode(0), n.AddNode(1)
			n.AddArc(u, ground, 0, 1, 0)
			n.AddArc(source, u, 0, 1, 0)
			n.AddArc(source, w, 0, 1, cost)
			s := New()
			s.stamina, s.few = 0, 0
			solvertest.Compare(t, n, s)
			v := n.AddNode(units)
			n.SetSupply(ground, -1-units)
			for _, x := range []flowgraph.NodeID{u, w} {
				if units > 0 {
					n.AddArc(v, x, 0, units, 0)
				} else {
					n.AddArc(x, v, 0, -units, 0)
				}
			}
			r := solvertest.Compare(t, n, s)
			require.Equal(t, solver.Infeasible, r.Status)
			require.Less(t, r.Work.Units, int64(100))
			n.AddArc(v, ground, 0, flowgraph.Infinite, 1)
			n.AddArc(ground, v, 0, flowgraph.Infinite, 1)
			solvertest.Compare(t, n, s)
		}
	}
}

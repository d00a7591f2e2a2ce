package cycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

func kinds(n *cycle.Network) map[cycle.NodeKind]int {
	all := map[cycle.NodeKind]int{}
	for i := range n.Nodes {
		all[n.Nodes[i].Kind]++
	}
	return all
}

// balanced checks that the flow of a whole network leaves nothing anywhere.
func balanced(t *testing.T, n *cycle.Network) {
	t.Helper()
	for v := range n.Nodes {
		left := n.Graph.Supply(flowgraph.NodeID(v))
		for _, r := range n.Graph.Out(flowgraph.NodeID(v)) {
			left -= n.Arcs[r.Arc].Flow
		}
		for _, r := range n.Graph.In(flowgraph.NodeID(v)) {
			left += n.Arcs[r.Arc].Flow
		}
		require.Zero(t, left, "node %d", v)
	}
}

// TestNetworkIsWhatWasSolved: the copy has the objective of the cycle by another solver and by its own flow, also after cycles
// that solve nothing, and after everything in it was placed.
func TestNetworkIsWhatWasSolved(t *testing.T) {
	w := newWorldWith(t, sluice.Model{})
	_, err := w.planner.Network(nil)
	require.ErrorContains(t, err, "nothing has been planned yet")
	for i := range 6 {
		w.host(i, vector(4000, 8<<30))
	}
	many := w.submit(cluster.JobSpec{Instances: 30, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}})
	few := w.submit(cluster.JobSpec{Instances: 3, Priority: 5, Task: cluster.TaskSpec{Resources: vector(2000, 1<<30)}})
	out := w.cycle()
	check := func() *cycle.Network {
		t.Helper()
		n, err := w.planner.Network(nil)
		require.NoError(t, err)
		require.True(t, n.Solved)
		require.Equal(t, out.Stats.Objective, n.Objective)
		res, err := ssp.New().Solve(n.Graph, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, n.Objective, res.Objective)
		var cost int64
		for a := range n.Arcs {
			cost += n.Arcs[a].Flow * int64(n.Graph.Cost(flowgraph.ArcID(a)))
			require.GreaterOrEqual(t, n.Graph.Cost(flowgraph.ArcID(a)), n.Arcs[a].Step)
		}
		require.Equal(t, n.Objective, cost)
		balanced(t, n)
		return n
	}
	first := check()
	require.Equal(t, map[cycle.NodeKind]int{cycle.ClassNode: 2, cycle.HostNode: 6, cycle.PoolNode: 1, cycle.SinkNode: 1}, kinds(first))

	require.Zero(t, w.cycle().Stats.Solves, "nothing new")
	require.Equal(t, first, check(), "a cycle that solves nothing leaves the network")

	around, err := w.planner.Network(new(cluster.MakeTaskKey(few, 1)))
	require.NoError(t, err)
	require.Equal(t, 1, kinds(around)[cycle.ClassNode])
	require.Equal(t, int32(5), around.Nodes[0].Priority)
	require.Equal(t, int64(3), around.Graph.Supply(0))
	res, err := ssp.New().Solve(around.Graph, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Optimal, res.Status, "a part is a problem of its own")

	waits, err := w.planner.Network(new(cluster.MakeTaskKey(many, 29)))
	require.NoError(t, err)
	require.Equal(t, vector(1000, 1<<30), waits.Nodes[0].Request)

	_, err = w.planner.Network(new(cluster.MakeTaskKey(many+7, 0)))
	require.ErrorIs(t, err, cycle.ErrNotInNetwork)

	gone := cluster.MakeHostID("s", "h00000")
	for _, k := range w.state.Host(gone).Tasks {
		w.end(k)
	}
	out = w.cycle()
	require.NotZero(t, out.Stats.Solves)
	again := check()
	require.Equal(t, 1, kinds(again)[cycle.ClassNode], "the next solve has what waits only")
	_, err = w.planner.Network(new(cluster.MakeTaskKey(few, 1)))
	require.ErrorIs(t, err, cycle.ErrNotInNetwork, "it runs since an earlier solve")
}

func TestNetworkOfAPlannerWithoutFlow(t *testing.T) {
	p := cycle.New(sluice.Model{}, nil)
	_, err := p.Network(nil)
	require.ErrorContains(t, err, "without a flow")
}

package netsimplex_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return netsimplex.New() })
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, netsimplex.New())
}

// TestCrowd: where everybody likes the same places best, hardly anybody fits on a tree of
// shortest paths, and the simplex begins without one.
func TestCrowd(t *testing.T) {
	const tasks, places, slots, ways = 2000, 200, 9, 25
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	sink := n.AddNode(-tasks)
	for place := range places {
		n.AddNode(0)
		n.AddArc(flowgraph.NodeID(1+place), sink, 0, slots, 0)
	}
	for range tasks {
		task := n.AddNode(1)
		n.AddArc(task, sink, 0, 1, 3000)
		for range ways {
			place := src.Intn(places)
			n.AddArc(task, flowgraph.NodeID(1+place), 0, 1, flowgraph.Cost(10+place/2))
		}
	}
	r := solvertest.Compare(t, n, netsimplex.New())
	require.Less(t, r.Work.Units, int64(100*n.NumArcs()))
}

// TestProject: without a cycle, and where flow runs for what it gains, the simplex begins with a
// tree of shortest paths that are wide enough, be they of many arcs.
func TestProject(t *testing.T) {
	const events, activities, flow = 600, 4, 1000
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range events {
		n.AddNode(0)
	}
	for v := range events - 1 {
		for range activities {
			after := flowgraph.NodeID(min(events-1, v+1+src.Intn(60)))
			usual := flowgraph.Cost(10 + src.Intn(90))
			n.AddArc(flowgraph.NodeID(v), after, 0, int64(1+src.Intn(50)), -usual)
			n.AddArc(flowgraph.NodeID(v), after, 0, flowgraph.Infinite, -usual/3)
		}
	}
	n.SetSupply(0, flow)
	n.SetSupply(events-1, -flow)
	s := netsimplex.New()
	r := solvertest.Compare(t, n, s)
	require.Less(t, r.Work.Units, int64(80*n.NumArcs()))

	n.AddArc(events-1, 0, 0, 7, 0) // a cycle
	solvertest.Compare(t, n, netsimplex.New())
	solvertest.Compare(t, n, s)
}

// TestWiden: a cost that does not fit into 32 bits comes to a network that is solved already.
func TestWiden(t *testing.T) {
	n := flowgraph.New()
	from, over, to := n.AddNode(2), n.AddNode(0), n.AddNode(-2)
	cheap, dear := n.AddArc(from, to, 0, 1, 3), n.AddArc(from, to, 0, 2, 1<<31-1)
	first, second := n.AddArc(from, over, 0, 2, 4), n.AddArc(over, to, 0, 2, -2)
	s := netsimplex.New()
	solvertest.Compare(t, n, s)
	require.Equal(t, int64(2), s.Flow(first))

	n.SetCost(second, 1<<40)
	r := solvertest.Compare(t, n, s)
	require.Equal(t, int64(3+1<<31-1), r.Objective)
	require.ElementsMatch(t, []flowgraph.ArcID{cheap, dear, first, second}, s.Changed())

	n.SetCost(dear, 1<<41)
	r = solvertest.Compare(t, n, s)
	require.Equal(t, int64(3+4+1<<40), r.Objective)
	require.ElementsMatch(t, []flowgraph.ArcID{dear, first, second}, s.Changed())

	n.SetCost(second, -1<<31)
	r = solvertest.Compare(t, n, s)
	require.Equal(t, 2*int64(4-1<<31), r.Objective)
}

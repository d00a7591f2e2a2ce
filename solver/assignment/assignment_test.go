package assignment_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestAgainstOracle compares on networks of the scheduler's shape: convex exits,
// bounded racks, hosts that are gone.
func TestAgainstOracle(t *testing.T) {
	taken := 0
	for seed := range uint64(300) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1 + src.Intn(12), Slots: 1 + src.Intn(3), Classes: src.Intn(60),
			Patterns: 1 + src.Intn(8), MaxCost: src.Intn(20), MaxSupply: 1,
		})
		for range 6 {
			if s, ok := assignment.New(c.Network); ok {
				taken++
				solvertest.Compare(t, c.Network, s)
				flows(t, c.Network, s)
			}
			c.Churn(1 + src.Intn(8))
		}
	}
	require.Greater(t, taken, 1000)
}

// flows requires that the arcs with flow are those listed.
func flows(t *testing.T, n *flowgraph.Network, s *assignment.Solver) {
	listed := map[flowgraph.ArcID]bool{}
	for _, a := range s.Changed() {
		require.False(t, listed[a], "arc %d is listed twice", a)
		listed[a] = true
	}
	for i := range n.ArcBound() {
		if a := flowgraph.ArcID(i); n.ArcAlive(a) {
			require.Equal(t, s.Flow(a) != 0, listed[a], "arc %d", a)
		}
	}
}

const inf = flowgraph.Infinite

func TestRange(t *testing.T) {
	for name, c := range map[string]struct {
		supplies []int64
		arcs     [][5]int64
	}{
		"class of two":        {[]int64{2, -2}, [][5]int64{{0, 1, 0, 2, 0}}},
		"supply in the core":  {[]int64{1, 1, -2}, [][5]int64{{0, 1, 0, 1, 0}, {1, 2, 0, 2, 0}}},
		"lower bound, source": {[]int64{1, -1}, [][5]int64{{0, 1, 1, 1, 0}}},
		"lower bound, core":   {[]int64{1, 0, -1}, [][5]int64{{0, 1, 0, 1, 0}, {1, 2, 1, 1, 0}}},
		"negative in core":    {[]int64{1, 0, -1}, [][5]int64{{0, 1, 0, 1, 0}, {1, 2, 0, 1, -1}}},
		"cost":                {[]int64{1, -1}, [][5]int64{{0, 1, 0, 1, 1 << 30}}},
		"balance":             {[]int64{1, -2}, [][5]int64{{0, 1, 0, 1, 0}}},
	} {
		_, ok := assignment.New(solvertest.Build(c.supplies, c.arcs...))
		require.False(t, ok, name)
	}
}

// TestFarGround: keys have room for prices below 2⁴¹.
func TestFarGround(t *testing.T) {
	n := flowgraph.New()
	source, last := n.AddNode(1), n.AddNode(-1)
	for length := range 1 << 12 {
		v := n.AddNode(0)
		n.AddArc(v, last, 0, 1, 1<<30-1)
		if last = v; length != 1<<10 {
			continue
		}
		a := n.AddArc(source, last, 0, 1, -5)
		s, ok := assignment.New(n)
		require.True(t, ok)
		solvertest.Compare(t, n, s)
		n.RemoveArc(a)
	}
	n.AddArc(source, last, 0, 1, -5)
	_, ok := assignment.New(n)
	require.False(t, ok)
}

// TestProcessors: two goroutines find what one does.
func TestProcessors(t *testing.T) {
	for seed := range uint64(3) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1000, Slots: 9, Classes: 7000 + 1500*int(seed), Patterns: 500, MaxCost: 1000, MaxSupply: 1,
		})
		c.Churn(100)
		var answers [3]solver.Result
		for i := range answers {
			before := runtime.GOMAXPROCS(1 + i)
			s, ok := assignment.New(c.Network)
			require.True(t, ok)
			var err error
			answers[i], err = s.Solve(c.Network, solver.Budget{})
			runtime.GOMAXPROCS(before)
			require.NoError(t, err)
			require.NoError(t, solver.Verify(c.Network, answers[i]))
			require.Equal(t, answers[0].Work, answers[i].Work)
			require.Equal(t, answers[0].Changed(), answers[i].Changed())
		}
		for a := range c.Network.ArcBound() {
			if id := flowgraph.ArcID(a); answers[0].Flow(id) != answers[1].Flow(id) || answers[0].Flow(id) != answers[2].Flow(id) {
				require.Fail(t, "another flow", "arc %d", a)
			}
		}
		for v := range c.Network.NodeBound() {
			if id := flowgraph.NodeID(v); answers[0].Potential(id) != answers[1].Potential(id) || answers[0].Potential(id) != answers[2].Potential(id) {
				require.Fail(t, "another potential", "node %d", v)
			}
		}
	}
}

// TestStraightToGround: ways may lead there without a node between.
func TestStraightToGround(t *testing.T) {
	n := solvertest.Build([]int64{1, 1, 1, 0, -3},
		[5]int64{0, 3, 0, 1, 1}, [5]int64{0, 4, 0, 1, 9}, [5]int64{1, 3, 0, 1, 2}, [5]int64{1, 4, 0, inf, 5},
		[5]int64{2, 4, 0, 1, -7}, [5]int64{3, 4, 0, 1, 1})
	s, ok := assignment.New(n)
	require.True(t, ok)
	solvertest.Compare(t, n, s)
	flows(t, n, s)
}

// TestSinks: several nodes demand, and more may lie behind them.
func TestSinks(t *testing.T) {
	for seed := range uint64(300) {
		src := solvertest.Seeded(seed)
		n := flowgraph.New()
		units, sinks, inner := 1+src.Intn(12), 1+src.Intn(5), 1+src.Intn(5)
		for range units {
			n.AddNode(1)
		}
		for range sinks + inner {
			n.AddNode(0)
		}
		for range units {
			v := flowgraph.NodeID(units + src.Intn(sinks))
			n.SetSupply(v, n.Supply(v)-1)
		}
		for v := range units {
			for range 1 + src.Intn(4) {
				n.AddArc(flowgraph.NodeID(v), flowgraph.NodeID(units+src.Intn(sinks+inner)), 0, int64(src.Intn(3)), flowgraph.Cost(src.Intn(20)-5))
			}
		}
		for range src.Intn(20) {
			n.AddArc(flowgraph.NodeID(units+src.Intn(sinks+inner)), flowgraph.NodeID(units+src.Intn(sinks+inner)), 0, int64(src.Intn(6)), flowgraph.Cost(src.Intn(9)))
		}
		s, ok := assignment.New(n)
		require.True(t, ok)
		solvertest.Compare(t, n, s)
	}
}

func TestInfeasible(t *testing.T) {
	for _, arcs := range [][][5]int64{
		{{0, 2, 0, 1, 0}, {1, 2, 0, 1, 0}, {2, 3, 0, 1, 0}},                  // room for one
		{{0, 3, 0, 0, 0}, {1, 2, 0, 1, 0}, {2, 3, 0, 1, 0}},                  // closed
		{{1, 2, 0, 1, 0}, {2, 3, 0, inf, 0}},                                 // no way
		{{0, 2, 0, 1, 0}, {1, 2, 0, 1, 0}, {2, 3, 0, 1, 7}, {2, 3, 0, 0, 0}}, // convex and closed
	} {
		s, ok := assignment.New(solvertest.Build([]int64{1, 1, 0, -2}, arcs...))
		require.True(t, ok)
		r, err := s.Solve(nil, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Infeasible, r.Status)
		require.Nil(t, r.Solution)
	}
}

// TestBudget goes on in the smallest steps.
func TestBudget(t *testing.T) {
	c := solvertest.NewCluster(solvertest.Seeded(1), solvertest.ClusterShape{
		Hosts: 30, Slots: 2, Classes: 80, Patterns: 20, MaxCost: 50, MaxSupply: 1,
	})
	whole, ok := assignment.New(c.Network)
	require.True(t, ok)
	want, err := whole.Solve(c.Network, solver.Budget{})
	require.NoError(t, err)
	s, _ := assignment.New(c.Network)
	turns := 0
	for {
		r, err := s.Solve(c.Network, solver.Budget{Work: 1})
		require.NoError(t, err)
		if turns++; r.Status != solver.BudgetSpent {
			require.Equal(t, want.Objective, r.Objective)
			require.NoError(t, solver.Verify(c.Network, r))
			break
		}
		require.Nil(t, r.Solution)
	}
	require.Greater(t, turns, 5)
}

package auto

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/repair"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestPaths draws networks in which hardly anything flows, some without a feasible flow, and changes them while a
// budget is being spent and after the answer.
func TestPaths(t *testing.T) {
	tellers, statuses := map[string]int{}, map[solver.Status]int{}
	seeds := uint64(600)
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		src := solvertest.Seeded(seed)
		n := flowgraph.New()
		nodes := 130 + src.Intn(60)
		for range nodes {
			n.AddNode(0)
		}
		anywhere := func() flowgraph.NodeID { return flowgraph.NodeID(src.Intn(nodes)) }
		arc := func() {
			n.AddArc(anywhere(), anywhere(), 0, []int64{0, 1, 2, 5, flowgraph.Infinite}[src.Intn(5)], flowgraph.Cost(src.Intn(1+int(seed%20))))
		}
		ship := func() {
			from, to, amount := anywhere(), anywhere(), int64(1+src.Intn([]int{4, 40}[src.Intn(2)]))
			n.SetSupply(from, n.Supply(from)+amount)
			n.SetSupply(to, n.Supply(to)-amount)
		}
		for range nodes * (2 + src.Intn(4)) {
			arc()
		}
		for range src.Intn(5) {
			ship()
		}
		s := New()
		var flows solvertest.Flows
		compare := func() {
			r := solvertest.Compare(t, n, s)
			statuses[r.Status]++
			if r.Status != solver.Optimal {
				return
			}
			require.NoError(t, flows.Follow(n, r))
			switch s.teller.(type) {
			case *paths:
				tellers["paths"]++
			case *repair.Solver:
				tellers["repair"]++
			default:
				tellers["other"]++
			}
		}
		for range src.Intn(3) {
			r, err := s.Solve(n, solver.Budget{Work: 1})
			require.NoError(t, err)
			statuses[r.Status]++
			if r.Status == solver.Optimal {
				require.NoError(t, flows.Follow(n, r))
			}
			if src.Intn(2) == 0 {
				arc()
			}
		}
		for range 4 {
			compare()
			for range src.Intn(6) {
				arc()
			}
			if src.Intn(3) == 0 {
				ship()
			}
			if src.Intn(8) == 0 { // most of it is new
				for range n.NumArcs() {
					n.SetCost(flowgraph.ArcID(src.Intn(n.ArcBound())), flowgraph.Cost(src.Intn(9)))
					arc()
				}
			}
		}
	}
	for _, who := range []string{"paths", "repair", "other"} {
		require.Greater(t, tellers[who], 10, who)
	}
	for _, status := range []solver.Status{solver.Optimal, solver.Infeasible, solver.BudgetSpent} {
		require.Greater(t, statuses[status], 10, status)
	}
}

// TestPathsThenTasks: a cluster that is looked at empty, and then gets all its tasks, is one of single tasks.
func TestPathsThenTasks(t *testing.T) {
	n := flowgraph.New()
	sink := n.AddNode(0)
	var hosts []flowgraph.NodeID
	for range 10 {
		host := n.AddNode(0)
		n.AddArc(host, sink, 0, 3, 0)
		hosts = append(hosts, host)
	}
	s := New()
	require.Zero(t, solvertest.Compare(t, n, s).Objective)
	require.IsType(t, &paths{}, s.teller)
	for k := range 25 {
		task := n.AddNode(1)
		n.AddArc(task, sink, 0, 1, 50)
		n.AddArc(task, hosts[k%10], 0, 1, 2)
		n.AddArc(task, hosts[k*k%10], 0, 1, 1)
	}
	n.SetSupply(sink, -25)
	solvertest.Compare(t, n, s)
	require.IsType(t, &assignment.Solver{}, s.teller)
}

// TestPathsCostRange: a way that costs as much as there can be is exact, or refused.
func TestPathsCostRange(t *testing.T) {
	n := flowgraph.New()
	for range 128 {
		n.AddNode(0)
	}
	a := n.AddArc(0, 1, 0, 16, 1<<50)
	n.SetSupply(0, 16)
	n.SetSupply(1, -16)
	require.Equal(t, int64(16)<<50, solvertest.Compare(t, n, New()).Objective)
	n.SetCost(a, 1<<59)
	r, err := New().Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.CostRange, r.Status)
}

// TestFreeClasses: repair answers first where hardly an arc of classes has a price, unless that takes long.
func TestFreeClasses(t *testing.T) {
	for _, patient := range []bool{true, false} {
		src := solvertest.Seeded(5)
		n := flowgraph.New()
		sink, wait := n.AddNode(0), n.AddNode(0)
		n.AddArc(wait, sink, 0, flowgraph.Infinite, 0)
		var hosts []flowgraph.NodeID
		for range 40 {
			host := n.AddNode(0)
			n.AddArc(host, sink, 0, 10, 0)
			hosts = append(hosts, host)
		}
		for range 100 {
			class := n.AddNode(5)
			n.SetSupply(sink, n.Supply(sink)-5)
			n.AddArc(class, wait, 0, 5, 100)
			for range 6 {
				n.AddArc(class, hosts[src.Intn(40)], 0, 5, 0)
			}
		}
		s := New()
		if !patient {
			_, err := s.Solve(n, solver.Budget{Work: 1})
			require.NoError(t, err)
			require.True(t, s.trial)
			s.spent = crowdRepair * int64(n.NumNodes()+n.NumArcs()+64)
		}
		solvertest.Compare(t, n, s)
		require.Equal(t, patient, s.ready)
		require.False(t, s.trial)
	}
}

// TestManyWays: that more ways are needed than there may be shows after the first few.
func TestManyWays(t *testing.T) {
	const ways, beside = 300, 10_000
	n := flowgraph.New()
	source, sink := n.AddNode(ways), n.AddNode(-ways)
	for range ways {
		v := n.AddNode(0)
		n.AddArc(source, v, 0, 1, flowgraph.Cost(v))
		n.AddArc(v, sink, 0, 1, 0)
	}
	for v := range flowgraph.NodeID(beside) {
		n.AddArc(2+v%ways, 2+(v+1)%ways, 0, 1, 1000)
	}
	p := newPaths(n)
	require.Equal(t, solver.BudgetSpent, p.solve(solver.Budget{}).Status)
	require.True(t, p.tired())
	require.Less(t, p.spent, p.limit/4)
	solvertest.Compare(t, n, New())
}

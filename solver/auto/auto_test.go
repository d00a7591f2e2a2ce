package auto

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/assignment"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/repair"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return New() })
}

// tired is more work than any patience.
const tired = 1 << 40

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
			s.spent = tired
			compare(t, c, s)
			c.Churn(1 + src.Intn(8))
		}
	}
}

// TestAnyNetworkAnyRace races on every change of networks of any structure, also infeasible ones and ones without a bound, the simplex
// or a solver from zero against repair, or both against each other, with budgets in between.
func TestAnyNetworkAnyRace(t *testing.T) {
	races := map[bool]int{} // by whether the simplex ran
	for seed := range uint64(600) {
		src := solvertest.Seeded(seed)
		n := solvertest.Random(src, solvertest.Shape{Nodes: 2 + src.Intn(40), Arcs: src.Intn(160), MaxCost: []int64{3, 50, 1 << 40}[seed%3], MaxAmount: 6})
		s := New()
		solvertest.Compare(t, n, s)
		for range 6 {
			solvertest.Perturb(n, src, 1+src.Intn(12))
			s.spent, s.patience, s.dear = tired, 1, []int64{0, 100 * chasing, 1 << 40}[src.Intn(3)]
			r, err := s.Solve(n, solver.Budget{Work: int64(1 + src.Intn(400))})
			require.NoError(t, err)
			if s.chaser != nil || s.fresh != nil {
				require.Equal(t, solver.BudgetSpent, r.Status)
				races[s.chaser != nil]++
			}
			if src.Intn(4) == 0 { // in the middle
				solvertest.Perturb(n, src, 1+src.Intn(3))
			}
			solvertest.Compare(t, n, s)
		}
	}
	require.Greater(t, races[false], 50)
	require.Greater(t, races[true], 50)
}

// TestAssignmentOvertakes lets assignment race against repair on every change of
// networks of single tasks, and with its answer repair goes on.
func TestAssignmentOvertakes(t *testing.T) {
	overtaken := 0
	for seed := range uint64(100) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1 + src.Intn(12), Slots: 1 + src.Intn(3), Classes: 30 + src.Intn(30),
			Patterns: 1 + src.Intn(4), MaxCost: 1 + src.Intn(20), MaxSupply: 1,
		})
		s := New()
		compare(t, c, s)
		for range 6 {
			c.Churn(4 + src.Intn(20))
			s.spent, s.patience = tired, 8
			compare(t, c, s)
			if s.single && s.patience < 8 {
				overtaken++
			}
		}
	}
	require.Greater(t, overtaken, 30)
}

// TestSimplexFollowsAssignment gives assignment products of ranks as costs (Machol and
// Wien, 1976), for which it searches nearly everything, task by task; budgets in between
// and a change after it must not show. Where each place has a demand of its own, assignment
// is not even tried.
func TestSimplexFollowsAssignment(t *testing.T) {
	const tasks = 90
	for k, budget := range []int64{0, 5_000, 0, 5_000} {
		n := flowgraph.New()
		for i := range 2 * tasks {
			n.AddNode(1 - 2*int64(i/tasks))
		}
		if k < 2 {
			ground := flowgraph.NodeID(2*tasks - 1) // the dearest place: nobody takes it who can have another
			n.SetSupply(ground, -tasks)
			for place := flowgraph.NodeID(tasks); place < ground; place++ {
				n.SetSupply(place, 0)
				n.AddArc(place, ground, 0, 1, 0)
			}
		}
		for i := range tasks {
			for j := range tasks {
				n.AddArc(flowgraph.NodeID(i), flowgraph.NodeID(tasks+j), 0, 1, flowgraph.Cost((i+1)*(j+1)))
			}
		}
		single := layers(n).single
		require.Equal(t, k < 2, single)
		s := New()
		r, err := s.Solve(n, solver.Budget{Work: budget})
		for err == nil && r.Status == solver.BudgetSpent {
			r, err = s.Solve(n, solver.Budget{Work: budget})
		}
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		require.Equal(t, int64(tasks*(tasks+1)*(tasks+2)/6), r.Objective)
		require.False(t, s.single)
		n.SetCost(flowgraph.ArcID(n.NumArcs()-1), 1000)
		solvertest.Compare(t, n, s)
	}
}

// long skips what takes half a minute with the race detector: TestEveryRaceFromZero races too.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long with the race detector")
	}
}

// TestCostScalingFollowsAssignment gives assignment many tasks of which most are alike, on
// hosts that get dearer slot by slot, more tasks than slots.
func TestCostScalingFollowsAssignment(t *testing.T) {
	long(t)
	const hosts, slots, tasks, kinds = 250, 8, 2200, 5
	for _, budget := range []int64{0, 50_000} {
		n := flowgraph.New()
		sink, cluster := n.AddNode(-tasks), n.AddNode(0)
		for range hosts {
			host := n.AddNode(0)
			n.AddArc(cluster, host, 0, slots, 0)
			for k := range flowgraph.Cost(slots) {
				n.AddArc(host, sink, 0, 1, 10*k)
			}
		}
		for i := range tasks {
			task := n.AddNode(1)
			n.AddArc(task, cluster, 0, 1, flowgraph.Cost(40+i%kinds))
			n.AddArc(task, sink, 0, 1, flowgraph.Cost(140+17*(i%kinds)))
		}
		s := New()
		r, err := s.Solve(n, solver.Budget{Work: budget})
		for err == nil && r.Status == solver.BudgetSpent {
			require.Nil(t, r.Solution)
			r, err = s.Solve(n, solver.Budget{Work: budget})
		}
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		require.IsType(t, &costscaling.Solver{}, s.teller)
		n.SetCost(flowgraph.ArcID(n.NumArcs()-1), 1000)
		solvertest.Compare(t, n, s)
	}
}

// compare holds the answer to the oracle, and what it says has changed to the flow, whoever gave it.
func compare(t *testing.T, c *solvertest.Cluster, s *Solver) {
	r := solvertest.Compare(t, c.Network, s)
	require.NoError(t, c.Follow(r))
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, New())
}

// TestEveryRaceFromZero starts cost scaling or repair beside the simplex at once, every
// other time so far ahead that it wins; then cost scaling also races later changes.
func TestEveryRaceFromZero(t *testing.T) {
	races, overtaken, repaired, again := 0, 0, 0, 0
	for seed := range uint64(200) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1 + src.Intn(12), Slots: 1 + src.Intn(3), Classes: 1 + src.Intn(30),
			Patterns: 1 + src.Intn(4), MaxCost: src.Intn(20), MaxSupply: 6,
		})
		s := New()
		r, err := s.Solve(c.Network, solver.Budget{Work: 1})
		require.NoError(t, err)
		if s.ready || s.paths != nil || s.units != nil || r.Status != solver.BudgetSpent {
			continue
		}
		races++
		start := func() solver.Solver { return costscaling.New() }
		if seed%4 >= 2 {
			start = func() solver.Solver { return repair.New() }
		}
		s.racing, s.challenger = true, start()
		if seed%2 == 0 {
			s.challenger = almostDone(t, c, start)
		}
		compare(t, c, s)
		if s.ready {
			repaired++
			require.Nil(t, s.first, "repair goes on from its own answer")
		} else if _, by := s.teller.(*costscaling.Solver); by {
			overtaken++
		}
		for range 4 {
			c.Churn(10 + src.Intn(20))
			s.spent, s.patience = tired, 4
			compare(t, c, s)
			if s.patience < 4 {
				again++
			}
		}
	}
	require.Greater(t, races, 50)
	require.Greater(t, overtaken, 10)
	require.Greater(t, repaired, 10)
	require.Positive(t, again)
}

// TestFewUnitsOnManyNodes tells who gives the first answer by how many units there
// are for the nodes: paths, or repair where one of them is a lower bound. 18 units need as many ways.
func TestFewUnitsOnManyNodes(t *testing.T) {
	for _, c := range []struct {
		units, lower int64
		few          bool
	}{{0, 0, true}, {2, 0, true}, {18, 0, false}, {1, 1, true}, {2, 1, false}} {
		n := flowgraph.New()
		sink, class := n.AddNode(-c.units), n.AddNode(c.units)
		for k := range 18 {
			host := n.AddNode(0)
			a := n.AddArc(class, host, 0, 1, 7)
			n.AddArc(host, sink, 0, 1, 1)
			if k == 0 {
				n.SetBounds(a, c.lower, 1)
			}
		}
		s := New()
		r := solvertest.Compare(t, n, s)
		require.Equal(t, 8*c.units, r.Objective)
		_, sparse := s.teller.(*paths)
		require.Equal(t, c.few && c.lower == 0, sparse, "%d units on %d nodes", c.units, n.NumNodes())
		require.Equal(t, c.few && c.lower > 0, s.ready, "%d units on %d nodes", c.units, n.NumNodes())
	}
}

// TestFewTasksWithManyPlaces: of tasks that have many more places than there are tasks assignment gives the first answer, few as they
// are, but not where all like the same places best: there the simplex does.
func TestFewTasksWithManyPlaces(t *testing.T) {
	require.IsType(t, &assignment.Solver{}, firstOfFew(t, 1000).teller)
	require.IsType(t, &assignment.Solver{}, firstOfFew(t, 0).teller) // each finds a place among the many that cost the same
	s := firstOfFew(t, 10)
	require.IsType(t, &netsimplex.Solver{}, s.teller)
	require.False(t, s.likely) // assignment was not even tried
}

// firstOfFew returns a solver after the first answer where places cost so much more for some tasks than for others.
func firstOfFew(t *testing.T, most int) *Solver {
	const tasks, places = 30, 400
	src, like := solvertest.Seeded(1), flowgraph.NodeID(10)
	if most == 0 {
		like = 0
	}
	n := flowgraph.New()
	sink := n.AddNode(-tasks)
	for range places {
		n.AddArc(n.AddNode(0), sink, 0, 1, 0)
	}
	for range tasks {
		task := n.AddNode(1)
		for place := range flowgraph.NodeID(places) {
			n.AddArc(task, sink+1+place, 0, 1, flowgraph.Cost(like*place+flowgraph.NodeID(src.Intn(most+1))))
		}
	}
	s := New()
	solvertest.Compare(t, n, s)
	return s
}

// TestLargeCore: where tasks, fewer than the other nodes, all have to pass the same node, repair
// gives the first answer. What they like is closed; if it is open, assignment gives it. After that a
// shock and small changes must not show.
func TestLargeCore(t *testing.T) {
	long(t)
	const hosts, cores, tasks = 60, 4, 200
	for _, upper := range []int64{0, 1} {
		src := solvertest.Seeded(1)
		price := func() flowgraph.Cost { return flowgraph.Cost(1 + src.Intn(250)) }
		n := flowgraph.New()
		sink, cluster, wait := n.AddNode(-tasks), n.AddNode(0), n.AddNode(0)
		n.AddArc(wait, sink, 0, tasks, 0)
		var places []flowgraph.NodeID
		for range hosts {
			host := n.AddNode(0)
			n.AddArc(cluster, host, 0, cores, price())
			for range cores {
				core, place := n.AddNode(0), n.AddNode(0)
				n.AddArc(host, core, 0, 1, price())
				n.AddArc(core, place, 0, 1, 0)
				n.AddArc(place, sink, 0, 1, 0)
				places = append(places, place)
			}
		}
		for range tasks {
			task := n.AddNode(1)
			n.AddArc(task, cluster, 0, 1, 2*price())
			n.AddArc(task, wait, 0, 1, 500+2*price())
			for range 10 {
				n.AddArc(task, places[src.Intn(len(places))], 0, upper, price())
			}
		}
		require.False(t, few(n, true))
		s := New()
		solvertest.Compare(t, n, s)
		require.Equal(t, upper == 0, s.ready)
		if _, is := s.teller.(*assignment.Solver); upper == 1 {
			require.True(t, is)
		}
		for k := range 2 * lasting {
			for a := range n.NumArcs() {
				if k == 1 || a%997 == k {
					n.SetCost(flowgraph.ArcID(a), price())
				}
			}
			solvertest.Compare(t, n, s)
			require.Equal(t, 0 < k && k <= lasting, s.shaken > 0)
		}
	}
}

// TestLongWays: where even few units have so far to go, as through a square in which all ways cost the same, that
// repair passes most nodes for each, the simplex gives the first answer, and repair goes on from it. One arc has a lower
// bound, else paths would answer, and another cost, else cost scaling would.
func TestLongWays(t *testing.T) {
	const side, units = 64, 12
	n := flowgraph.New()
	for range side * side {
		n.AddNode(0)
	}
	for v := range flowgraph.NodeID(side * side) {
		for _, w := range [...]flowgraph.NodeID{v + 1, v + side} {
			if w < side*side && (w == v+side || w%side > 0) {
				n.AddArc(v, w, 0, 1, 1)
				n.AddArc(w, v, 0, 1, 1)
			}
		}
	}
	for k := range flowgraph.NodeID(units) {
		n.SetSupply(k*side, 1)
		n.SetSupply((side-k)*side-1, -1)
	}
	n.SetBounds(n.AddArc(0, 1, 0, 1, 2), 1, 1)
	require.True(t, few(n, false))
	s := New()
	solvertest.Compare(t, n, s)
	require.False(t, s.ready)
	require.IsType(t, &netsimplex.Solver{}, s.teller)
	n.SetSupply(0, n.Supply(0)+1)
	n.SetSupply(9, n.Supply(9)-1)
	solvertest.Compare(t, n, s)
	require.True(t, s.ready)
}

// circulation draws arcs all over so many nodes, a third of them worth filling.
func circulation(nodes int) *flowgraph.Network {
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range nodes {
		n.AddNode(0)
	}
	node := func() flowgraph.NodeID { return flowgraph.NodeID(src.Intn(nodes)) }
	for range 8 * nodes {
		n.AddArc(node(), node(), 0, int64(1+src.Intn(100)), flowgraph.Cost(src.Intn(1500)-500))
	}
	return n
}

// TestDeepTree: where the simplex walks around in a deep tree and hardly any arc less
// gains, cost scaling goes on alone and wins.
func TestDeepTree(t *testing.T) {
	for _, budget := range []int64{0, 1_000_000} {
		n := circulation(4000)
		s := New()
		r, err := s.Solve(n, solver.Budget{Work: budget})
		alone := false
		for err == nil && r.Status == solver.BudgetSpent {
			alone = alone || s.alone > 0
			r, err = s.Solve(n, solver.Budget{Work: budget})
		}
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		require.IsType(t, &costscaling.Solver{}, s.teller)
		require.Equal(t, budget > 0, alone, "seen only between calls")
		require.Zero(t, s.alone)
	}
}

// narrowGrid returns a grid whose arcs have room for one unit and cost up to most, with a way to be found along each row.
func narrowGrid(width, most int) *flowgraph.Network {
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range width * width {
		n.AddNode(0)
	}
	side := flowgraph.NodeID(width)
	for v := range side * side {
		for _, w := range []flowgraph.NodeID{v + 1, v + side} {
			if w < side*side && (w != v+1 || w%side > 0) {
				n.AddArc(v, w, 0, 1, flowgraph.Cost(1+src.Intn(most)))
				n.AddArc(w, v, 0, 1, flowgraph.Cost(1+src.Intn(most)))
			}
		}
	}
	for row := range side {
		n.SetSupply(row*side, 1)
		n.SetSupply(row*side+side-1, -1)
	}
	return n
}

// TestSpreads: where many ways through narrow streets find ever more arcs that gain, cost scaling goes on alone and wins.
func TestSpreads(t *testing.T) {
	n := narrowGrid(110, 10)
	s := New()
	r, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.NoError(t, solver.Verify(n, r))
	require.IsType(t, &costscaling.Solver{}, s.teller)
	require.Less(t, r.Work.Units, int64(25_000_000), "the simplex takes twice its head start")
}

// TestLevelCosts: where all arcs cost the same, cost scaling starts beside the simplex once that was looked at.
func TestLevelCosts(t *testing.T) {
	for _, other := range []flowgraph.Cost{0, 1} {
		n := narrowGrid(110, 1)
		n.SetCost(0, 1+other)
		step := solver.Budget{Work: (headStart + headStartEach*int64(n.NumNodes()+n.NumArcs())) / looks}
		s := New()
		r, err := s.Solve(n, step)
		require.NoError(t, err)
		require.Equal(t, solver.BudgetSpent, r.Status)
		require.Equal(t, other == 0, s.racing)
		require.Zero(t, s.alone)
		r, err = s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
	}
}

// TestRelaxation: what is soon in balance nearly everywhere is left to relaxation, and repair takes over; what is not goes to
// others.
func TestRelaxation(t *testing.T) {
	long(t)
	for _, budget := range []int64{0, 50_000} {
		n := circulation(relaxNodes / 2)
		s := New()
		solve := func() solver.Result {
			r, err := s.Solve(n, solver.Budget{Work: budget})
			for err == nil && r.Status == solver.BudgetSpent {
				require.Positive(t, budget)
				r, err = s.Solve(n, solver.Budget{Work: budget})
			}
			require.NoError(t, err)
			require.NoError(t, solver.Verify(n, r))
			return r
		}
		solve()
		require.IsType(t, &relax.Solver{}, s.teller)
		n.SetBounds(0, 0, n.Upper(0)+1)
		solve()
		require.True(t, s.ready)
		require.Nil(t, s.relaxes)

		s = New()
		for n.NumNodes() < relaxNodes {
			n.AddNode(0)
		}
		for v := range flowgraph.NodeID(relaxNodes) { // a long chain, from end to end
			if n.SetSupply(v, 0); v > 0 {
				n.AddArc(v-1, v, 0, flowgraph.Infinite, 1)
			}
		}
		for a := range flowgraph.ArcID(4 * relaxNodes) {
			n.SetCost(a, n.Cost(a)+100_000)
		}
		for v := range flowgraph.NodeID(100) {
			n.SetSupply(v, 100)
			n.SetSupply(relaxNodes-1-v, -100)
		}
		solve()
		require.Nil(t, s.relaxes)
		require.IsNotType(t, &relax.Solver{}, s.teller)
	}
}

// TestStreets: on a map of streets as wide as need be, with beginnings and ends all over it, the simplex is fast, deep as
// its tree is.
func TestStreets(t *testing.T) {
	const width, height = 120, 120
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range width * height {
		n.AddNode(0)
	}
	for v := range flowgraph.NodeID(width * height) {
		if v%width > 0 {
			n.AddArc(v, v-1, 0, flowgraph.Infinite, flowgraph.Cost(1+src.Intn(1000)))
			n.AddArc(v-1, v, 0, flowgraph.Infinite, flowgraph.Cost(1+src.Intn(1000)))
		}
		if v >= width {
			n.AddArc(v, v-width, 0, flowgraph.Infinite, flowgraph.Cost(1+src.Intn(1000)))
			n.AddArc(v-width, v, 0, flowgraph.Infinite, flowgraph.Cost(1+src.Intn(1000)))
		}
	}
	for range 3000 {
		v, w := flowgraph.NodeID(src.Intn(n.NumNodes())), flowgraph.NodeID(src.Intn(n.NumNodes()))
		amount := int64(1 + src.Intn(50))
		n.SetSupply(v, n.Supply(v)+amount)
		n.SetSupply(w, n.Supply(w)-amount)
	}
	s := New()
	r, err := s.Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.NoError(t, solver.Verify(n, r))
	require.IsType(t, &netsimplex.Solver{}, s.teller)
}

// almostDone returns a solver that has done as much as it can without having an answer.
func almostDone(t *testing.T, c *solvertest.Cluster, start func() solver.Solver) solver.Solver {
	r, err := start().Solve(c.Network, solver.Budget{})
	require.NoError(t, err)
	for work := r.Work.Units; ; work = work * 3 / 4 {
		s := start()
		r, err := s.Solve(c.Network, solver.Budget{Work: max(1, work)})
		require.NoError(t, err)
		if r.Status == solver.BudgetSpent {
			return s
		}
		require.Positive(t, work, "it answers at once")
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
			s.spent = tired
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

// TestLags: the simplex lags when it has worked for long since the arcs that gain were twice as many.
func TestLags(t *testing.T) {
	src := solvertest.Seeded(3)
	n := flowgraph.New()
	sink := n.AddNode(0)
	for range 100 {
		v := n.AddNode(1)
		n.AddArc(v, sink, 0, 1, flowgraph.Cost(1000+src.Intn(1000)))
		for w := range v {
			n.AddArc(v, w, 0, 1, flowgraph.Cost(src.Intn(100)))
		}
	}
	n.SetSupply(sink, -100)
	s := New()
	s.net, s.simplex = n, netsimplex.New()
	r, err := s.simplex.Solve(n, solver.Budget{Work: 100})
	require.NoError(t, err)
	require.Equal(t, solver.BudgetSpent, r.Status)
	few := s.simplex.Gaining()
	for _, c := range []struct {
		arcs   int
		within int64
	}{{gainful*few - 1, 20}, {gainful * few, 40}} {
		s.net, s.half = flowgraph.New(), 0
		s.net.AddNode(0)
		for range c.arcs {
			s.net.AddArc(0, 0, 0, 1, 0)
		}
		for _, step := range []struct {
			spent int64
			lags  bool
		}{{10, false}, {20, false}, {19 + c.within, false}, {20 + c.within, true}} {
			s.spent = step.spent
			require.Equal(t, step.lags, s.lags(20), "%d of %d", step.spent, c.within)
		}
	}
	solvertest.Compare(t, n, s.simplex)
	require.False(t, s.lags(20), "no arc gains any more")
}

// TestWalks: where nothing has a price, walking around cycles tells that the simplex will take long only while no fewer arcs gain.
func TestWalks(t *testing.T) {
	src := solvertest.Seeded(3)
	n := flowgraph.New()
	for range 100 {
		n.AddNode(0)
	}
	for range 1000 {
		n.AddArc(flowgraph.NodeID(src.Intn(100)), flowgraph.NodeID(src.Intn(100)), 0, 1, flowgraph.Cost(src.Intn(2)))
	}
	n.SetSupply(0, 5)
	n.SetSupply(99, -5)
	n.AddArc(0, 99, 0, 5, 1000)
	s := New()
	s.simplex = netsimplex.New()
	r, err := s.simplex.Solve(n, solver.Budget{Work: 4000})
	require.NoError(t, err)
	require.Equal(t, solver.BudgetSpent, r.Status)
	s.spent = s.simplex.Walked()
	require.Positive(t, s.spent)
	gaining := s.simplex.Gaining()
	require.Greater(t, gaining, 10)

	s.last = gaining*5/4 + 1
	require.False(t, s.walks(s.spent), "a fifth of the arcs gains no more")
	require.Equal(t, gaining, s.last)
	require.True(t, s.walks(s.spent))
	require.False(t, s.walks(s.spent+1), "it has only begun")
	s.spent *= wariness
	require.True(t, s.walks(s.spent))
	s.spent++
	require.False(t, s.walks(s.spent), "it walks little")
}

// TestHardlyAnyCost: where hardly any arc costs something, and one costs less than nothing, or none costs anything, cost
// scaling begins, unless most leave sources or lie side by side; elsewhere the simplex does, which is watched if a few cost something.
func TestHardlyAnyCost(t *testing.T) {
	for _, c := range []struct {
		nodes, priced int
		cost          flowgraph.Cost
		scales, wary  bool
	}{
		{200, 0, -9, true, false},
		{200, 100, -9, true, false},
		{200, 600, -9, false, false},
		{12, 0, -9, false, false},
		{200, 0, 0, true, false},
		{12, 0, 0, false, false},
		{200, 0, 9, false, true},
		{200, 100, 9, false, true},
		{200, 600, 9, false, false},
		{12, 0, 9, false, false},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		n := flowgraph.New()
		for range c.nodes {
			n.AddNode(0)
		}
		for i := range 1000 {
			v := flowgraph.NodeID(i % c.nodes)
			w := flowgraph.NodeID(rng.IntN(c.nodes))
			n.AddArc(v, w, 0, 5, flowgraph.Cost(max(0, min(1, c.priced-i))))
		}
		for v := 0; v < min(40, c.nodes); v += 2 {
			n.SetSupply(flowgraph.NodeID(v), 1)
			n.SetSupply(1, n.Supply(1)-1)
		}
		n.AddArc(0, 1, 0, 100, c.cost)
		s := New()
		r, err := s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, r.Status)
		require.NoError(t, solver.Verify(n, r))
		_, is := r.Solution.(*costscaling.Solver)
		require.Equal(t, c.scales, is, "%+v", c)
		require.Equal(t, c.wary, s.wary, "%+v", c)
	}
}

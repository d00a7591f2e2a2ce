package netsimplex_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
	"github.com/sluice-scheduler/sluice/solver/solvertest/difftest"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return netsimplex.New() })
}

// TestCompact: conformance where no slot of an arc that is gone is kept.
func TestCompact(t *testing.T) {
	netsimplex.AlwaysCompact(t)
	solvertest.Run(t, func() solver.Solver { return netsimplex.New() })
	for seed := range uint64(300) {
		src := solvertest.Seeded(seed)
		n := solvertest.Random(src, solvertest.Shape{Nodes: 2 + src.Intn(40), Arcs: src.Intn(160), MaxCost: 50, MaxAmount: 6})
		s := netsimplex.New()
		var flows solvertest.Flows
		for range 12 {
			if r := solvertest.Compare(t, n, s); r.Status == solver.Optimal {
				require.NoError(t, flows.Follow(n, r))
			}
			for a := range flowgraph.ArcID(n.ArcBound()) {
				if n.ArcAlive(a) && src.Intn(4) == 0 {
					flows.Forget(n, a)
					n.RemoveArc(a)
				}
			}
			for range src.Intn(40) {
				solvertest.AddArc(n, src, solvertest.Shape{MaxCost: 20, MaxAmount: 5})
			}
		}
	}
}

// TestParts: who takes in which arcs makes no difference, nor does it whether bounds are the usual ones.
func TestParts(t *testing.T) {
	for seed := range uint64(60) {
		src := solvertest.Seeded(seed)
		n := solvertest.Random(src, solvertest.Shape{Nodes: 2 + src.Intn(40), Arcs: 200 + src.Intn(2000), MaxCost: 50, MaxAmount: 1 + int64(src.Intn(3))})
		if seed%4 == 0 {
			n.RemoveArc(flowgraph.ArcID(src.Intn(n.ArcBound())))
		}
		one := solvertest.Compare(t, n, netsimplex.New())
		var other solver.Result
		netsimplex.InParts(func() { other = solvertest.Compare(t, n, netsimplex.New()) })
		require.Equal(t, one.Work, other.Work)
		if one.Status != solver.Optimal {
			continue
		}
		require.Equal(t, one.Changed(), other.Changed())
		for a := range flowgraph.ArcID(n.ArcBound()) {
			require.Equal(t, one.Flow(a), other.Flow(a))
		}
	}
}

// TestAfterMuchIsGone: small changes of a network that was much larger take no longer than of one that was not.
func TestAfterMuchIsGone(t *testing.T) {
	const many, few = 60_000, 600
	src := solvertest.Seeded(1)
	n := solvertest.Random(src, solvertest.Shape{Nodes: 300, Arcs: many, MaxCost: 50, MaxAmount: 6})
	s := netsimplex.New()
	solvertest.Compare(t, n, s)
	for a := flowgraph.ArcID(n.ArcBound() - 1); n.NumArcs() > few; a-- {
		if n.ArcAlive(a) {
			n.RemoveArc(a)
		}
	}
	solvertest.Compare(t, n, s)
	for range 20 {
		solvertest.Perturb(n, src, 3)
		require.Less(t, solvertest.Compare(t, n, s).Work.Units, int64(many/4))
	}
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, netsimplex.New())
}

// guess is a flow and potentials as they were noted down.
type guess struct {
	flow       []int64
	potentials []flowgraph.Cost
}

func (g *guess) Flow(a flowgraph.ArcID) int64 { return at(g.flow, int(a)) }

func (g *guess) Potential(v flowgraph.NodeID) flowgraph.Cost { return at(g.potentials, int(v)) }

func (g *guess) Changed() []flowgraph.ArcID { return nil }

func at[T any](list []T, i int) (value T) {
	if i < len(list) {
		value = list[i]
	}
	return value
}

func note(n *flowgraph.Network, r solver.Result) *guess {
	g := &guess{}
	for a := range n.ArcBound() {
		flow := int64(0)
		if n.ArcAlive(flowgraph.ArcID(a)) {
			flow = r.Flow(flowgraph.ArcID(a))
		}
		g.flow = append(g.flow, flow)
	}
	for v := range n.NodeBound() {
		pi := flowgraph.Cost(0)
		if n.NodeAlive(flowgraph.NodeID(v)) {
			pi = r.Potential(flowgraph.NodeID(v))
		}
		g.potentials = append(g.potentials, pi)
	}
	return g
}

// TestAdopt: from an optimal flow hardly a pivot is left, from the flow of before a few changes fewer than from zero.
func TestAdopt(t *testing.T) {
	var same, near, cold int64
	for seed := range uint64(100) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 1 + src.Intn(30), Slots: 1 + src.Intn(3), Classes: 10 + src.Intn(50),
			Patterns: 1 + src.Intn(4), MaxCost: 1 + src.Intn(20), MaxSupply: 1 + src.Intn(6),
		})
		s := netsimplex.New()
		was := note(c.Network, solvertest.Compare(t, c.Network, ssp.New()))
		s.Adopt(c.Network, was)
		same += solvertest.Compare(t, c.Network, s).Work.Steps
		c.Churn(2)
		s.Adopt(c.Network, was)
		near += solvertest.Compare(t, c.Network, s).Work.Steps
		cold += solvertest.Compare(t, c.Network, netsimplex.New()).Work.Steps
		for range 3 { // what it has taken over is as good as what it has found
			c.Churn(2)
			solvertest.Compare(t, c.Network, s)
		}
	}
	require.Less(t, 10*same, cold)
	require.Less(t, 2*near, cold)
}

// TestAdoptAnything: whatever is guessed of any network, what it finds is right, also where it is changed half way, empty,
// infeasible or without a bound.
func TestAdoptAnything(t *testing.T) {
	for seed := range uint64(2000) {
		src := solvertest.Seeded(seed)
		n := solvertest.Random(src, solvertest.Shape{Nodes: src.Intn(12), Arcs: src.Intn(40), MaxAmount: 6, MaxCost: []int64{3, 50, 1 << 40}[seed%3]})
		g := &guess{}
		for a := range n.ArcBound() {
			d := n.Arc(flowgraph.ArcID(a))
			g.flow = append(g.flow, d.Lower+int64(src.Intn(int(min(d.Upper-d.Lower, 8))+1)))
		}
		for range n.NodeBound() {
			g.potentials = append(g.potentials, flowgraph.Cost(src.Intn(4)-2)<<src.Intn(62))
		}
		s := netsimplex.New()
		if seed%2 == 0 {
			solvertest.Compare(t, n, s)
			solvertest.Perturb(n, src, 3)
		}
		s.Adopt(n, g)
		if seed%5 == 0 {
			_, err := s.Solve(n, solver.Budget{Work: 1})
			require.NoError(t, err)
			solvertest.Perturb(n, src, 2)
		}
		solvertest.Compare(t, n, s)
		solvertest.Perturb(n, src, 3)
		solvertest.Compare(t, n, s)
	}
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

// TestLikeJobs: like jobs for the positions of like machines. All arcs of a job make two rows of the mixed order.
func TestLikeJobs(t *testing.T) {
	const jobs, machines = 150, 4
	n := flowgraph.New()
	sink := n.AddNode(-jobs)
	for range jobs * machines {
		n.AddArc(n.AddNode(0), sink, 0, 1, 0)
	}
	for range jobs {
		job := n.AddNode(1)
		for position := range flowgraph.NodeID(jobs * machines) {
			n.AddArc(job, 1+position, 0, 1, flowgraph.Cost(10*(1+position%jobs)))
		}
	}
	r := solvertest.Compare(t, n, netsimplex.New())
	require.Less(t, r.Work.Units, int64(15*n.NumArcs()))
}

// TestRacks: where classes may wait, and reach hosts through racks that each takes a part of, a tree on which all wait would
// have to be left unit by unit; the simplex begins without one.
func TestRacks(t *testing.T) {
	const classes, racks, hosts, steps = 200, 20, 40, 4
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	sink := n.AddNode(0)
	for range racks {
		rack := n.AddNode(0)
		for range hosts {
			host := n.AddNode(0)
			n.AddArc(rack, host, 0, 12, 5)
			for k := range flowgraph.Cost(steps) { // the more, the dearer
				n.AddArc(host, sink, 0, 3, 20*k)
			}
		}
	}
	for range classes {
		tasks := int64(1 + src.Intn(80))
		class := n.AddNode(tasks)
		n.SetSupply(sink, n.Supply(sink)-tasks)
		n.AddArc(class, sink, 0, tasks, flowgraph.Cost(100+src.Intn(900)))
		for range racks / 3 {
			some, rack := n.AddNode(0), sink+1+flowgraph.NodeID(src.Intn(racks)*(1+hosts))
			n.AddArc(class, some, 0, max(1, tasks/5), flowgraph.Cost(src.Intn(10)))
			n.AddArc(some, rack, 0, tasks, 20)
			for range 4 {
				n.AddArc(some, rack+1+flowgraph.NodeID(src.Intn(hosts)), 0, 2, flowgraph.Cost(src.Intn(30)))
			}
		}
	}
	r := solvertest.Compare(t, n, netsimplex.New())
	require.Less(t, r.Work.Units, int64(200*n.NumArcs()))
}

// TestLikeToLike: where the cheapest arc into each end is what is wanted, it takes one pivot each.
func TestLikeToLike(t *testing.T) {
	const pairs, ways = 500, 5
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range pairs {
		n.AddNode(1)
	}
	for end := range flowgraph.NodeID(pairs) {
		n.AddNode(-1)
		n.AddArc(end, pairs+end, 0, 1, 0)
		for range ways {
			other := flowgraph.NodeID(src.Intn(pairs))
			n.AddArc(other, pairs+end, 0, 1, flowgraph.Cost(1+(other-end)*(other-end)))
		}
	}
	require.LessOrEqual(t, solvertest.Compare(t, n, netsimplex.New()).Work.Steps, int64(pairs))
}

// TestFallback: where a few have a dear arc to their ends and much narrow room elsewhere, that arc does not enter first: all would have
// to be moved from it, little by little.
func TestFallback(t *testing.T) {
	const nodes, ways, pairs = 2000, 10, 5
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range nodes {
		n.AddNode(0)
	}
	for range nodes * ways {
		room := int64(1)
		if src.Intn(4) == 0 {
			room = 1_000_000
		}
		n.AddArc(flowgraph.NodeID(src.Intn(nodes)), flowgraph.NodeID(src.Intn(nodes)), 0, room, flowgraph.Cost(1+src.Intn(1000)))
	}
	for pair := range flowgraph.NodeID(pairs) {
		amount := int64(100_000 * (1 + src.Intn(9)))
		n.SetSupply(pair, amount)
		n.SetSupply(nodes-1-pair, -amount)
		n.AddArc(pair, nodes-1-pair, 0, 10_000_000, 100_000)
	}
	r := solvertest.Compare(t, n, netsimplex.New())
	require.Less(t, r.Work.Units, int64(220*n.NumArcs()))
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

// TestWide: where arcs have room for all flow, the simplex begins with shortest paths: to one end they are the answer, and
// to several ends near it.
func TestWide(t *testing.T) {
	for _, c := range []struct {
		ends, most int64
		room       int64
	}{{1, 0, flowgraph.Infinite}, {1, 1, 300}, {2, 1000, flowgraph.Infinite}, {20, 1500, flowgraph.Infinite}} {
		const nodes, units = 2500, 300
		src := solvertest.Seeded(1)
		n := flowgraph.New()
		for range nodes {
			n.AddNode(0)
		}
		for v := range flowgraph.NodeID(nodes) {
			n.AddArc(v, (v+1)%nodes, 0, c.room, flowgraph.Cost(1+src.Intn(5000)))
			for range 3 {
				n.AddArc(v, flowgraph.NodeID(src.Intn(nodes)), 0, c.room, flowgraph.Cost(1+src.Intn(5000)))
			}
		}
		for range units {
			v := flowgraph.NodeID(src.Intn(nodes))
			n.SetSupply(v, n.Supply(v)+1)
			end := flowgraph.NodeID(src.Intn(int(c.ends)))
			n.SetSupply(end, n.Supply(end)-1)
		}
		r := solvertest.Compare(t, n, netsimplex.New())
		require.LessOrEqual(t, r.Work.Steps, c.most, "%+v", c)
	}
}

// TestNarrow: where most flow does not fit on paths of few arcs to the end, and has a dear way, it begins on that.
func TestNarrow(t *testing.T) {
	const nodes = 800
	src := solvertest.Seeded(1)
	n := flowgraph.New()
	for range nodes {
		n.AddNode(0)
	}
	end := flowgraph.NodeID(nodes / 2)
	for v := range flowgraph.NodeID(nodes) {
		for k := range flowgraph.NodeID(18) {
			to := (v + k + 1) % nodes
			if src.Intn(10) == 0 {
				to = flowgraph.NodeID(src.Intn(nodes))
			}
			n.AddArc(v, to, 0, int64(1+src.Intn(10)), flowgraph.Cost(src.Intn(4)/3*(1+src.Intn(1000))))
		}
	}
	around := n.AddNode(0)
	n.AddArc(around, end, 0, flowgraph.Infinite, 50_000)
	for v := range flowgraph.NodeID(nodes) {
		if v%4 == 1 {
			n.AddArc(v, around, 0, flowgraph.Infinite, 50_000)
			n.SetSupply(v, int64(30+src.Intn(60)))
			n.SetSupply(end, n.Supply(end)-n.Supply(v))
		}
	}
	r := solvertest.Compare(t, n, netsimplex.New())
	require.LessOrEqual(t, r.Work.Steps, int64(2000))
}

// TestSourcesInTurn: where few nodes are filled, what sources choose one after the other is nearly the answer: the answer itself if
// all like the same best. An arc of the end to itself makes no difference.
func TestSourcesInTurn(t *testing.T) {
	const jobs, machines, positions = 40, 10, 60
	for _, c := range []struct {
		costs int   // of a job on a machine, from 0
		units int64 // of a job
		most  int64
	}{{1, 1, 0}, {1, 3, 0}, {20, 1, 200}, {20, 3, 500}} {
		src := solvertest.Seeded(1)
		n := flowgraph.New()
		end := n.AddNode(-jobs * c.units)
		n.AddArc(end, end, 0, 5, 1)
		var places []flowgraph.NodeID
		for range machines * positions {
			places = append(places, n.AddNode(0))
			n.AddArc(places[len(places)-1], end, 0, 1, 0)
		}
		for range jobs {
			job := n.AddNode(c.units)
			for m := range machines {
				cost := src.Intn(c.costs)
				for k := range positions {
					n.AddArc(job, places[m*positions+k], 0, 1, flowgraph.Cost(cost+10*k))
				}
			}
		}
		r := solvertest.Compare(t, n, netsimplex.New())
		require.LessOrEqual(t, r.Work.Steps, c.most, "%+v", c)
	}
}

// TestSmallForests: scripts of small networks, nearly all of which are too small to begin with shortest paths elsewhere.
func TestSmallForests(t *testing.T) {
	netsimplex.AlwaysByDistance(t)
	list := []difftest.Contender{
		{Name: "ssp", MaxBits: ssp.MaxBits, New: func() solver.Solver { return ssp.New() }},
		{Name: "netsimplex", MaxBits: netsimplex.MaxBits, New: func() solver.Solver { return netsimplex.New() }},
	}
	for seed := range uint64(400) {
		_, err := difftest.Play(difftest.Generate(seed, difftest.Size{Nodes: 60, Arcs: 300, Batches: 3}), list)
		require.NoError(t, err, "seed %d", seed)
	}
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

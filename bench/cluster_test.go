package bench

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// small are workloads of every shape that a test can afford.
func small() map[string]Workload {
	base := Default()
	base.Hosts, base.Slots, base.HostsPerRack, base.TasksPerJob = 30, 4, 8, 10
	base.Churn, base.Failures, base.Cycles, base.Samples = 0.05, 0.1, 12, 3
	all := map[string]Workload{}
	add := func(name string, change func(*Workload)) {
		w := base
		w.Name = name
		change(&w)
		all[name] = w
	}
	merged := func(w *Workload) { w.Shape, w.Merge, w.Convex, w.Fit = Patterns, true, 3, 2 }
	add("random", func(*Workload) {})
	add("full", func(w *Workload) { w.Utilisation = 1 })
	add("waiting", func(w *Workload) { w.Utilisation = 1.2 })
	add("patterns", func(w *Workload) { w.Shape = Patterns })
	add("merged", merged)
	add("merged-waiting", func(w *Workload) { merged(w); w.Utilisation = 1.3 })
	add("placed", func(w *Workload) { merged(w); w.Utilisation, w.Placed, w.WarmUp = 1.5, true, 3 })
	add("placed-tasks", func(w *Workload) { w.Utilisation, w.Placed = 1.5, true })
	add("free", func(w *Workload) { w.Hysteresis, w.Growth = 0, 0 })
	add("huge", func(w *Workload) { w.Huge = Huge{40, 4} })
	return all
}

// play runs a workload with one solver and calls check after each solve.
func play(t *testing.T, w Workload, check func(c *Cluster, r solver.Result, reader *Reader)) *Cluster {
	t.Helper()
	c, err := NewCluster(w)
	require.NoError(t, err)
	c.Build()
	s := netsimplex.New()
	var reader Reader
	for i := 0; i <= w.Cycles; i++ {
		if i > 0 {
			c.Plan()
			c.Apply()
			reader.Forget(c.Removed())
		}
		r, err := s.Solve(c.Network(), solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, r.Status)
		moves := reader.Read(c.Network(), r)
		c.Absorb(moves, &reader)
		check(c, r, &reader)
	}
	return c
}

func TestClusterKeepsAccount(t *testing.T) {
	for name, w := range small() {
		t.Run(name, func(t *testing.T) {
			play(t, w, func(c *Cluster, r solver.Result, reader *Reader) {
				n := c.Network()
				require.NoError(t, n.Check())
				require.NoError(t, solver.Verify(n, r))
				expected := w.Tasks()
				if c.hugeJob >= 0 {
					expected += w.Huge.Tasks
				}
				require.EqualValues(t, expected, c.total)
				for a := range n.ArcBound() {
					if id := flowgraph.ArcID(a); n.ArcAlive(id) {
						require.EqualValues(t, r.Flow(id), reader.flow[a], "reading changes alone must follow the flow")
					}
				}
				checkGroups(t, c, reader)
			})
		})
	}
}

// checkGroups compares what the cluster believes of each group with the flow.
func checkGroups(t *testing.T, c *Cluster, reader *Reader) {
	tasks, waiting := 0, int64(0)
	onHost := make([]int32, len(c.hosts))
	for i := range c.groups {
		g := &c.groups[i]
		if g.count == 0 {
			continue
		}
		tasks += int(g.count)
		flow := int32(0)
		for _, a := range g.waits {
			flow += reader.flow[a]
		}
		require.Equal(t, flow, g.waiting)
		waiting += int64(flow)
		running := int32(0)
		for _, s := range g.stays {
			running += s.units
			onHost[s.host] += s.units
		}
		if c.w.Hysteresis > 0 {
			require.Equal(t, g.count-g.waiting, running, "who does not wait runs somewhere")
		}
	}
	require.EqualValues(t, c.total, tasks)
	for h, units := range onHost {
		exit := int32(0)
		for _, a := range c.hosts[h].exits {
			exit += reader.flow[a]
		}
		if c.w.Hysteresis > 0 {
			require.Equal(t, exit, units, "host %d runs what flows through it", h)
		}
		require.True(t, !c.hosts[h].down || exit == 0, "host %d is gone", h)
	}
	if slots := int64(c.w.Hosts * c.w.Slots); c.total > slots {
		require.GreaterOrEqual(t, waiting, c.total-slots)
	}
}

func TestClusterRepeats(t *testing.T) {
	for name, w := range small() {
		last := func(w Workload) string {
			c := play(t, w, func(*Cluster, solver.Result, *Reader) {})
			var text bytes.Buffer
			require.NoError(t, dimacs.Write(&text, c.Network()))
			return text.String()
		}
		first := last(w)
		require.Equal(t, first, last(w), name)
		w.Seed++
		require.NotEqual(t, first, last(w), name)
	}
}

func TestMergedIsSmallerAndCostsTheSame(t *testing.T) {
	w := small()["patterns"]
	w.Cycles, w.Churn = 0, 0
	cost := func(w Workload) (objective int64, counts Counts) {
		c := play(t, w, func(_ *Cluster, r solver.Result, _ *Reader) { objective = r.Objective })
		return objective, c.Counts()
	}
	single, many := cost(w)
	w.Merge = true
	merged, few := cost(w)
	require.Equal(t, single, merged, "merging tasks that are alike changes nothing")
	require.Equal(t, many.Tasks, few.Tasks)
	require.LessOrEqual(t, few.Groups, many.Groups/3)
}

func TestSet(t *testing.T) {
	var s set
	for _, x := range []int32{5, 2, 9, 2} {
		s.put(x, true)
	}
	s.put(5, false)
	s.put(7, false)
	require.Equal(t, []int32{9, 2}, s.list)
	s.put(9, false)
	s.put(2, false)
	require.Empty(t, s.list)
}

// A task that has waited for thousands of cycles pays more, not less than nothing.
func TestWaitingPriceKeepsGrowing(t *testing.T) {
	w := small()["waiting"]
	w.Growth = 1_000_000
	c, err := NewCluster(w)
	require.NoError(t, err)
	c.Build()
	c.groups[0].growth = math.MaxInt32
	c.waiting.put(0, true)
	c.Plan()
	require.Greater(t, c.waitPrice(&c.groups[0], 0), flowgraph.Cost(math.MaxInt32+w.Growth))
}

// Package modeltest holds cost models to their contract.
package modeltest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Run checks on random rounds that the model's prices lie in range, are reproducible and leave their arguments alone,
// that marginal prices never fall, that waiting never gets cheaper with time or priority, and that the model would
// rather start a task on an empty host that has room than let it wait.
func Run(t *testing.T, m costmodels.Model) {
	t.Run("name", func(t *testing.T) { require.NotEmpty(t, m.Name()) })
	t.Run("laws", rapid.MakeCheck(func(t *rapid.T) { laws(t, m) }))
}

func laws(t *rapid.T, m costmodels.Model) {
	round := &costmodels.Round{Unit: drawResources(t, "unit")}
	host := &cluster.Host{
		ID:        "shard/host",
		Machine:   cluster.Machine{Capacity: drawResources(t, "capacity"), Rack: "r", Zone: "z"},
		Allocated: drawResources(t, "allocated"),
	}
	class := &costmodels.Class{
		Pool:     "root/pool",
		Priority: rapid.Int32Range(0, cluster.MaxPriority).Draw(t, "priority"),
		Request:  drawResources(t, "request"),
		Stage:    rapid.IntRange(0, 40).Draw(t, "stage"),
	}
	price := func(what string, ask func() flowgraph.Cost) flowgraph.Cost {
		p := ask()
		require.GreaterOrEqual(t, p, flowgraph.Cost(0), "%s is negative", what)
		require.LessOrEqual(t, p, costmodels.MaxPrice, "%s is out of range", what)
		require.Equal(t, p, ask(), "%s differs when asked again", what)
		return p
	}
	before := *host

	wait := price("wait", func() flowgraph.Cost { return m.Wait(round, class) })
	price("start", func() flowgraph.Cost { return m.Start(round, class.Request, host) })
	last := flowgraph.Cost(0)
	for _, k := range []int64{0, 1, 2, 3, 5, 10, 100, 10_000, 1 << 30} {
		crowd := price("crowd", func() flowgraph.Cost { return m.Crowd(round, host, k) })
		require.GreaterOrEqual(t, crowd, last, "the marginal price falls at %d", k)
		last = crowd
	}

	older, dearer := *class, *class
	older.Stage++
	dearer.Priority = min(dearer.Priority+1, cluster.MaxPriority)
	require.GreaterOrEqual(t, m.Wait(round, &older), wait, "waiting got cheaper with time")
	require.GreaterOrEqual(t, m.Wait(round, &dearer), wait, "waiting got cheaper with priority")

	empty := &cluster.Host{ID: host.ID, Machine: host.Machine}
	if class.Request.Fits(empty.Capacity) {
		require.Less(t, m.Start(round, class.Request, empty)+m.Crowd(round, empty, 0), wait,
			"the model lets a task wait beside an empty host with room")
	}
	require.Equal(t, before, *host, "the model modified the host")
}

func drawResources(t *rapid.T, label string) cluster.Resources {
	amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 100), rapid.Int64Range(0, cluster.MaxAmount))
	var fixed [cluster.NumDimensions]int64
	for d := range fixed {
		fixed[d] = amount.Draw(t, label)
	}
	return cluster.NewResources(fixed, cluster.Amount{Name: "license", Value: amount.Draw(t, label)})
}

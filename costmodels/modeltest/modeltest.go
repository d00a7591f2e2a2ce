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
		Task:     &cluster.TaskSpec{Resources: drawResources(t, "request")},
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
	price("start", func() flowgraph.Cost { return m.Start(round, class.Task, host) })
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
	if class.Task.Resources.Fits(empty.Capacity) {
		require.Less(t, m.Start(round, class.Task, empty)+m.Crowd(round, empty, 0), wait,
			"the model lets a task wait beside an empty host with room")
	}
	require.Equal(t, before, *host, "the model modified the host")
	if l, ok := m.(costmodels.Localizer); ok {
		locality(t, l, round, class, price)
	}
}

// locality checks that the prices of places are in range, that no place is dearer than elsewhere, that a host with all
// of the data reads it for nothing, and that without data every place is the same.
func locality(t *rapid.T, m costmodels.Localizer, r *costmodels.Round, c *costmodels.Class, price func(string, func() flowgraph.Cost) flowgraph.Cost) {
	require.Equal(t, costmodels.Locality{}, m.Locality(r, c), "without data")
	const everything = cluster.HostID("s/everything")
	for range rapid.IntRange(1, 5).Draw(t, "inputs") {
		c.Inputs = append(c.Inputs, cluster.Input{
			Bytes: rapid.Int64Range(1, cluster.MaxAmount).Draw(t, "bytes"),
			Hosts: []cluster.HostID{everything, rapid.SampledFrom([]cluster.HostID{"s/a", "s/b", "s/c"}).Draw(t, "replica")},
			Racks: []string{rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rack")},
		})
	}
	got := m.Locality(r, c)
	require.Equal(t, got, m.Locality(r, c), "differs when asked again")
	price("elsewhere", func() flowgraph.Cost { return got.Elsewhere })
	for _, rack := range got.Racks {
		price("rack", func() flowgraph.Cost { return rack.Price })
		require.LessOrEqual(t, rack.Price, got.Elsewhere)
	}
	for _, host := range got.Hosts {
		price("host", func() flowgraph.Cost { return host.Price })
		require.LessOrEqual(t, host.Price, got.Elsewhere)
		if host.Host == everything {
			require.Zero(t, host.Price, "all of the data is there")
		}
	}
}

func drawResources(t *rapid.T, label string) cluster.Resources {
	amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 100), rapid.Int64Range(0, cluster.MaxAmount))
	var fixed [cluster.NumDimensions]int64
	for d := range fixed {
		fixed[d] = amount.Draw(t, label)
	}
	return cluster.NewResources(fixed, cluster.Amount{Name: "license", Value: amount.Draw(t, label)})
}

package binpack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, binpack.Model{}) }

// A task costs the mean part of what is free beside it, of all that the host has, and hosts that are equal have an order.
func TestWhatATaskLeaves(t *testing.T) {
	vector := func(cpu, memory, licenses int64) cluster.Resources {
		return cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}, cluster.Amount{Name: "license", Value: licenses})
	}
	h := &cluster.Host{ID: "s/h", Machine: &cluster.Machine{Capacity: vector(10, 20, 4)}, Allocated: vector(2, 0, 0)}
	require.EqualValues(t, (500+1000+750)/3, binpack.Spare(vector(3, 0, 1), h))
	require.EqualValues(t, (0+1000+1000)/3, binpack.Spare(vector(30, 0, 0), h), "no less than nothing")
	h.Capacity = vector(10, 0, 0)
	require.EqualValues(t, 500, binpack.Spare(vector(3, 5, 0), h), "without what it does not have")
	h.Capacity = cluster.Resources{}
	require.Zero(t, binpack.Spare(vector(0, 0, 0), h))

	orders := map[flowgraph.Cost]bool{}
	for _, id := range []cluster.HostID{"s/a", "s/b", "s/c", "s/d", "s/e"} {
		h = &cluster.Host{ID: id, Machine: &cluster.Machine{Capacity: vector(1000, 0, 0)}}
		task := &cluster.TaskSpec{Resources: vector(255, 0, 0)} // leaves 745
		price := binpack.Model{}.Start(&costmodels.Round{}, &costmodels.Request{Task: task}, h)
		require.GreaterOrEqual(t, price, flowgraph.Cost(740))
		require.Less(t, price, flowgraph.Cost(740+binpack.Grain))
		orders[price] = true
	}
	require.Greater(t, len(orders), 2)
}

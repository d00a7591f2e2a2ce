package loadspread_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, loadspread.Model{}) }

func vector(cpu, memory int64) cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}}
}

func TestStartFollowsTheBusiestResource(t *testing.T) {
	for _, c := range []struct {
		name      string
		allocated cluster.Resources
		want      flowgraph.Cost
	}{
		{"empty: memory binds", vector(0, 0), 250},
		{"half the memory taken", vector(0, 50), 750},
		{"cpu binds", vector(3000, 0), 870},
		{"full afterwards", vector(0, 75), 1000},
		{"over-committed", vector(100_000, 0), 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &cluster.Host{Machine: &cluster.Machine{Capacity: vector(4000, 100)}, Allocated: c.allocated}
			got := loadspread.Model{}.Start(&costmodels.Round{}, &costmodels.Request{Task: &cluster.TaskSpec{Resources: vector(500, 25)}}, h)
			require.Equal(t, c.want, got)
		})
	}
}

func TestPriorityOutweighsWaiting(t *testing.T) {
	wait := func(priority int32, stage int) flowgraph.Cost {
		return loadspread.Model{}.Wait(&costmodels.Round{}, &costmodels.Class{Priority: priority, Stage: stage})
	}
	require.Greater(t, wait(1, 0), wait(0, 40))
	require.Greater(t, wait(0, 3), wait(0, 2))
	require.LessOrEqual(t, wait(cluster.MaxPriority, 60), costmodels.MaxPrice)
}

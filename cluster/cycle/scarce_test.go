package cycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
)

// A model that answers for one start on a host with GPUs, until it is asked again, does not have a batch seem to have one place on each:
// those that may go anywhere leave the hosts of a scarce model to those that may not, even if these matter less.
func TestABatchLeavesScarceModelsToThoseThatNeedThem(t *testing.T) {
	const hosts = 40 // of each model: too many starts for a refit
	w := newWorldWith(t, sluice.Model{})
	gpus := func(i, count int, model string) {
		m := cluster.Machine{Capacity: vector(64_000, 64<<30)}
		m.Capacity.Fixed[cluster.GPU] = int64(count) * cluster.WholeGPU
		for range count {
			m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: model})
		}
		w.machine(i, m)
	}
	for i := range hosts {
		gpus(i, 2, "scarce")
		gpus(hosts+i, 8, "common")
	}
	submit := func(priority int32, n uint32, models ...string) {
		spec := cluster.JobSpec{Instances: n, Priority: priority, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}}
		spec.Task.GPU = cluster.GPURequest{Count: 1, Models: models}
		spec.Task.Resources.Fixed[cluster.GPU] = cluster.WholeGPU
		w.submit(spec)
	}
	submit(2, 8*hosts)
	submit(1, 2*hosts, "scarce")
	require.Len(t, w.plan().Placements, 10*hosts, "there is a place for each")
}

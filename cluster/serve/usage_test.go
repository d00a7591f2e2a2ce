package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What a run was measured to use at most is remembered of its kind of work when it ends.
func TestTheHighestUsageIsLearned(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	spec := sleepJob("job")
	spec.Labels = map[string]string{cluster.WorkLabel: "sort"}
	a.submit(t, spec)
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_RUNNING)
	k := cluster.MakeTaskKey(1, 0)
	var run *sluicev1.RunRef
	require.Eventually(t, func() bool {
		task := a.Snapshot().Task(k)
		run = &sluicev1.RunRef{JobUid: uint32(k.Job()), Instance: k.Instance(), Run: task.Run}
		return task.State == cluster.TaskRunning
	}, 10*time.Second, time.Millisecond)
	for i, cpu := range []int64{200, 700, 300} {
		require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Usage{Usage: &sluicev1.UsageReport{
			Runs: []*sluicev1.RunUsage{{Run: run, CpuMilli: cpu, MemoryBytes: 1000 - int64(i)}},
		}}}))
		require.Eventually(t, func() bool {
			u, ok := a.TaskUsage(a.Snapshot().Task(k))
			return ok && u.CPUMilli == cpu
		}, 10*time.Second, time.Millisecond)
	}
	sh.report(t, 2, run, sluicev1.RunState_RUN_STATE_SUCCEEDED)
	var work *cluster.Work
	require.Eventually(t, func() bool {
		work = a.Snapshot().Work("sort")
		return work != nil
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, int64(700), work.Peak.Fixed[cluster.CPU])
	require.Equal(t, int64(1000), work.Peak.Fixed[cluster.Memory])
}

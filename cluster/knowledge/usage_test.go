package knowledge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
)

func TestUsesKeepThePeakUntilTheEndIsReported(t *testing.T) {
	s := cluster.NewState()
	emit := func(e cluster.Event) { require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: e})) }
	spec := &cluster.JobSpec{Name: "j", Pool: cluster.RootPool, Instances: 2}
	emit(&cluster.HostReported{ID: "s/h"})
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	a, b := cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: 1}, cluster.RunID{Task: cluster.MakeTaskKey(1, 1), Run: 1}
	for _, run := range []cluster.RunID{a, b} {
		emit(&cluster.Placed{Task: run.Task, Run: run.Run, Host: "s/h"})
	}
	using := func(run cluster.RunID, cpu, network int64) knowledge.Sample {
		return knowledge.Sample{Run: run, Used: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Network: network}}}
	}
	snapshot, _ := s.Snapshot()
	on := func(u knowledge.Uses) cluster.Resources {
		sums := knowledge.Usage{}
		sums.Add(u, snapshot)
		return sums["s/h"]
	}

	var none knowledge.Uses
	first := none.Next(snapshot, []knowledge.Sample{using(a, 5, 1), using(b, 2, 7)})
	require.Equal(t, using(a, 7, 8).Used, on(first))
	second := first.Next(snapshot, []knowledge.Sample{using(a, 1, 3)})
	require.Equal(t, using(a, 3, 10).Used, on(second), "b is believed to go on")
	require.Equal(t, using(a, 5, 3).Used, *second.Peak(a))
	require.Nil(t, second.Peak(cluster.RunID{Task: a.Task, Run: 2}))
	require.Equal(t, using(a, 5, 1).Used, *first.Peak(a), "it does not change")

	emit(&cluster.TaskStatus{Task: b.Task, Run: b.Run, State: cluster.TaskSucceeded})
	snapshot, _ = s.Snapshot()
	require.Equal(t, using(a, 1, 3).Used, on(second), "b holds no room any more")
	require.Nil(t, second.Next(snapshot, nil).Peak(b))
}

// What one run of a task used is not what the next one uses, and tells nothing of its peak. Nor does a task count that is gone.
func TestUsesAreOfOneRun(t *testing.T) {
	s := runs(t, "sort", 1)
	emit := func(e cluster.Event) { require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: e})) }
	emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0), Reason: cluster.ReasonTaskRestarted, Restart: true})
	emit(&cluster.Placed{Task: cluster.MakeTaskKey(1, 0), Run: 2, Host: "s/h"})
	snapshot, _ := s.Snapshot()
	sample := func(run uint32, cpu int64) knowledge.Sample {
		m := knowledge.Sample{Run: cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: run}}
		m.Used.Fixed[cluster.CPU] = cpu
		return m
	}
	on := func(u knowledge.Uses) int64 {
		sums := knowledge.Usage{}
		sums.Add(u, snapshot)
		return sums["s/h"].Fixed[cluster.CPU]
	}
	first := knowledge.Uses(nil).Next(snapshot, []knowledge.Sample{sample(1, 9)})
	require.Zero(t, on(first))
	require.Empty(t, first.Next(snapshot, nil))
	second := first.Next(snapshot, []knowledge.Sample{sample(2, 4)})
	require.EqualValues(t, 4, on(second))
	require.EqualValues(t, 4, second.Peak(sample(2, 0).Run).Fixed[cluster.CPU])

	snapshot, _ = cluster.NewState().Snapshot()
	require.Zero(t, on(second))
	require.Empty(t, second.Next(snapshot, nil))
}

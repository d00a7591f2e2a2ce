package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestMisfires: launches count that come to nothing one after another, until one begins, or somebody looks after the host.
func TestMisfires(t *testing.T) {
	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 100, cluster.Memory: 100}}
	id := cluster.MakeHostID("s", "h0")
	var s *cluster.State
	var now cluster.Time
	apply := func(e cluster.Event) {
		t.Helper()
		now++
		require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: now, Event: e}))
	}
	begin := func() {
		s, now = cluster.NewState(), 0
		apply(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
		spec := &cluster.JobSpec{
			Name: "work", Pool: cluster.RootPool, Instances: 3, MaxFailures: 100,
			Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}},
		}
		apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	}
	place := func(i uint32) {
		k := cluster.MakeTaskKey(1, i)
		apply(&cluster.Placed{Task: k, Run: s.Job(1).NextRun(s.Task(k)), Host: id})
	}
	refuse := func(i uint32) {
		apply(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonLaunchRefused})
	}
	report := func(i uint32, state cluster.TaskState, why cluster.Reason) {
		k := cluster.MakeTaskKey(1, i)
		apply(&cluster.TaskStatus{Task: k, Run: s.Task(k).Run, State: state, Reason: why})
	}
	fail := func(i uint32) {
		report(i, cluster.TaskFailed, cluster.ReasonLaunchFailed)
		apply(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonRetry})
	}
	for name, c := range map[string]struct {
		what func()
		want uint32
	}{
		"given back, then failed": {func() { place(0); refuse(0); place(0); fail(0) }, 2},
		"those under way together": {func() {
			place(0)
			place(1)
			place(2)
			refuse(0)
			refuse(1)
			fail(2)
		}, 1},
		"one begins":   {func() { place(0); refuse(0); place(0); report(0, cluster.TaskRunning, "") }, 0},
		"one was fast": {func() { place(0); refuse(0); place(0); report(0, cluster.TaskSucceeded, cluster.ReasonExited) }, 0},
		"a run that began fails": {func() {
			place(0)
			report(0, cluster.TaskRunning, "")
			report(0, cluster.TaskFailed, cluster.ReasonExited)
		}, 0},
		"the host was away": {func() {
			place(0)
			refuse(0)
			apply(&cluster.HostUnreached{ID: id})
			apply(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
		}, 0},
		"its facts change": {func() {
			place(0)
			refuse(0)
			apply(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room, Rack: "r"}})
		}, 1},
		"it was drained": {func() { place(0); refuse(0); apply(&cluster.HostDrain{ID: id, Drain: true}) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			begin()
			c.what()
			require.Equal(t, c.want, s.Host(id).Misfires)
		})
	}
}

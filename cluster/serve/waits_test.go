package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func (a *apiTest) listTasks(t *testing.T) []*sluicev1.Task {
	t.Helper()
	res, err := a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Explain: true})
	require.NoError(t, err)
	return res.Tasks
}

// Whoever waits is listed with the reason, also where no cycle looks at it; whoever does not, is not.
func TestAListSaysWhyTasksWait(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	dependent := sleepJob("dependent")
	dependent.DependsOn = []*sluicev1.Dependency{{Job: "runs"}}
	a.submit(t, sleepJob("runs"))
	require.Eventually(t, func() bool { return len(a.Snapshot().Host("s/h").Tasks) == 1 }, 10*time.Second, time.Millisecond)
	a.submit(t, sleepJob("waits"))
	a.submit(t, dependent)
	reasons := func() (all []string) {
		for _, task := range a.listTasks(t) {
			all = append(all, task.Waiting.GetReason())
		}
		return all
	}
	require.Eventually(t, func() bool { return reasons()[1] == "NO_ROOM" }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{"", "NO_ROOM", "DEPENDENCIES"}, reasons())
	require.Equal(t, "runs", a.listTasks(t)[2].Waiting.BlockingJob)
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	require.Equal(t, []string{"", "SCHEDULING_STOPPED", "DEPENDENCIES"}, reasons())
}

// A list does not wait for a planner that is busy: it leaves the reasons out.
func TestAListDoesNotWaitForAPlannerThatIsBusy(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	large := sleepJob("large")
	large.Task.Resources.CpuMilli = 5000
	large.Instances = proto.Uint32(3)
	a.submit(t, large)
	require.Eventually(t, func() bool { return a.listTasks(t)[2].Waiting.GetReason() == "NO_HOST_FITS" }, 10*time.Second, time.Millisecond)
	busy, done := make(chan struct{}), make(chan error)
	go func() {
		done <- a.consult(context.Background(), func(*cycle.Supervisor) {
			busy <- struct{}{}
			<-busy
		})
	}()
	<-busy
	tasks := a.listTasks(t)
	require.Len(t, tasks, 3)
	for _, task := range tasks {
		require.Nil(t, task.Waiting)
	}
	busy <- struct{}{}
	require.NoError(t, <-done)
}

// Who has been placed since the list was made does not wait for the next cycle.
func TestWhoIsPlacedMeanwhileDoesNotWait(t *testing.T) {
	a := newAPITest(t)
	a.emit(t, &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}})
	a.submit(t, sleepJob("job"))
	a.emit(t, &cluster.ModeSet{})
	k := cluster.MakeTaskKey(a.Snapshot().JobByName("job").UID, 0)
	require.Eventually(t, func() bool { return a.listTasks(t)[0].Waiting.GetReason() == "NO_HOSTS" }, 10*time.Second, time.Millisecond)
	before := a.Snapshot()
	a.addHost(t, "s/h", 1)
	require.Eventually(t, func() bool { return a.Snapshot().Task(k).State.Bound() }, 10*time.Second, time.Millisecond)
	require.Nil(t, (&api{s: a.Scheduler}).whyTheyWait(t.Context(), before, []*cluster.Task{before.Task(k)})[0])
}

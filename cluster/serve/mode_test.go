package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func (a *apiTest) setMode(t *testing.T, m *sluicev1.ClusterMode) {
	t.Helper()
	_, err := a.cluster.SetMode(t.Context(), &sluicev1.SetModeRequest{Mode: m})
	require.NoError(t, err)
}

func TestReadOnly(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	a.setMode(t, &sluicev1.ClusterMode{ReadOnly: true})
	for method, entry := range policyTable {
		if !rows[apiPackage+"."+method].writes {
			continue
		}
		err := a.conn.Invoke(t.Context(), "/"+apiPackage+"."+method, entry.request, &sluicev1.GetStatusResponse{})
		require.Equal(t, codes.FailedPrecondition, status.Code(err), "%s: %v", method, err)
		require.ErrorContains(t, err, "read-only")
	}
	require.Equal(t, 1, a.Snapshot().NumJobs())
	try := &sluicev1.UpdateJobRequest{Spec: sleepJob("job"), ExpectedVersion: 1, DryRun: true}
	try.Spec.Priority = 1
	would, err := a.jobs.UpdateJob(t.Context(), try)
	require.NoError(t, err, "it changes nothing")
	require.Equal(t, int32(1), would.Job.Spec.Priority)
	require.Zero(t, a.job(t, "job").Spec.Priority)
	res, err := a.cluster.GetStatus(t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
	require.True(t, res.Mode.ReadOnly)
	a.setMode(t, &sluicev1.ClusterMode{})
	a.submit(t, sleepJob("late"))
	_, err = a.cluster.SetMode(t.Context(), &sluicev1.SetModeRequest{})
	requireViolation(t, err, codes.InvalidArgument, "mode", "is required")
}

func (r *rig) mode(m cluster.Mode) {
	require.NoError(r.t, r.s.Do(r.t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.ModeSet{Mode: m}) }))
}

func TestSchedulingStopped(t *testing.T) {
	j := journal.NewMemory()
	r := newRig(t, j)
	r.mode(cluster.Mode{SchedulingStopped: true})
	r.stop()
	r = newRig(t, j) // it holds over a restart
	sh := r.connect("s", 1)
	uid := r.submit("job", 1, 0)
	k := cluster.MakeTaskKey(uid, 0)
	time.Sleep(50 * DefaultBatchWindow)
	require.Equal(t, cluster.TaskPending, r.s.Snapshot().Task(k).State)
	r.mode(cluster.Mode{})
	require.Equal(t, uint32(uid), sh.down().GetLaunch().GetRun().GetJobUid())
}

// An update that is paused before it can begin goes on when it is resumed.
func TestAnUpdateIsPausedWhileKillingIsStopped(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	a.submit(t, spec)
	a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true})
	spec.Task.Processes[0].Environment = map[string]string{"A": "b"}
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	require.NoError(t, err)
	for _, action := range []sluicev1.ControlUpdateRequest_Action{sluicev1.ControlUpdateRequest_PAUSE, sluicev1.ControlUpdateRequest_RESUME} {
		_, err = a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: action})
		require.NoError(t, err)
	}
	require.Equal(t, sluicev1.UpdateState_UPDATE_STATE_ROLLING_FORWARD, a.job(t, "job").Update.State)
}

func TestKillingStopped(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	runs := map[cluster.JobUID]*sluicev1.RunRef{}
	running := func(name string) cluster.JobUID {
		uid := r.submit(name, 1, 0)
		runs[uid] = sh.down().GetLaunch().GetRun()
		sh.status(runStatus(runs[uid], sluicev1.RunState_RUN_STATE_RUNNING))
		return uid
	}
	first, second := running("first"), running("second")
	r.mode(cluster.Mode{KillingStopped: true})
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobStopping{Job: first}) }))
	// What nobody waits for is not killed either, and the next thing that comes down answers this.
	sh.status(runStatus(ref(99, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING))
	sh.status(runStatus(runs[second], sluicev1.RunState_RUN_STATE_RUNNING))
	require.Equal(t, cluster.TaskKilling, r.s.Snapshot().Task(cluster.MakeTaskKey(first, 0)).State, "it is remembered")

	r.mode(cluster.Mode{})
	_, err := sh.stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err), "the shard is to tell all that it runs")
	sh = r.connect("s", 1, runStatus(runs[first], sluicev1.RunState_RUN_STATE_RUNNING),
		runStatus(runs[second], sluicev1.RunState_RUN_STATE_RUNNING), runStatus(ref(99, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING))
	killed := map[uint32]bool{}
	for range 2 {
		killed[sh.down().GetKill().GetRun().GetJobUid()] = true
	}
	require.Equal(t, map[uint32]bool{uint32(first): true, 99: true}, killed)
}

// Why a task waits while nothing is placed is said, also where it was looked at before.
func TestWhyATaskWaitsWhileSchedulingIsStopped(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	a.submit(t, sleepJob("there"))
	a.submit(t, sleepJob("before"))
	require.Eventually(t, func() bool { return len(a.Snapshot().Host("s/h").Tasks) == 1 }, 10*time.Second, time.Millisecond)
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	a.submit(t, sleepJob("since"))
	dependent := sleepJob("dependent")
	dependent.DependsOn = []*sluicev1.Dependency{{Job: "there"}}
	a.submit(t, dependent)
	explain := func(job string) *sluicev1.ExplainTaskResponse {
		answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: job})
		require.NoError(t, err)
		return answer
	}
	for _, job := range []string{"before", "since"} {
		require.Equal(t, "SCHEDULING_STOPPED", explain(job).GetWaiting().GetReason())
		require.Contains(t, explain(job).Summary, "--stop-scheduling=false")
	}
	require.Equal(t, "DEPENDENCIES", explain("dependent").GetWaiting().GetReason())
	require.NotNil(t, explain("there").GetPlaced())
	a.setMode(t, &sluicev1.ClusterMode{})
	require.Eventually(t, func() bool { return explain("since").GetWaiting().GetReason() == "NO_ROOM" }, 10*time.Second, time.Millisecond)
}

// A plan that is only looked at has nobody leave either, while that is switched off.
func TestAPlanWhileKillingIsStopped(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	a.submit(t, sleepJob("there"))
	require.Eventually(t, func() bool { return len(a.Snapshot().Host("s/h").Tasks) == 1 }, 10*time.Second, time.Millisecond)
	urgent := sleepJob("urgent")
	urgent.Priority = 7
	plan := func() *sluicev1.PlanJobsResponse {
		res, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{proto.CloneOf(urgent)}})
		require.NoError(t, err)
		return res
	}
	require.Len(t, plan().Preemptions, 1)
	a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true})
	res := plan()
	require.Empty(t, res.Preemptions)
	require.Empty(t, res.Placements)
	require.Len(t, res.Waiting, 1)
}

// A plan tells the revision that it was made from, whatever changes while it is made.
func TestTheRevisionOfAPlan(t *testing.T) {
	var a *apiTest
	a = newAPITestWith(t, func(c *Config) {
		c.Costs.New = func(policy string) (costmodels.Model, error) {
			a.submit(t, sleepJob("meanwhile"))
			return models.New(policy)
		}
	})
	before := a.submit(t, sleepJob("before")).Revision
	res, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("job")}, CostModel: "loadspread"})
	require.NoError(t, err)
	require.Equal(t, before, res.Revision)
	require.Greater(t, a.Snapshot().Revision(), before)
}

func TestRestsWhenNothingChanged(t *testing.T) {
	rests := make(chan struct{})
	a := newAPITestWith(t, func(c *Config) {
		c.Rest = func() {
			select {
			case rests <- struct{}{}:
			case <-t.Context().Done():
			}
		}
	})
	<-rests // in it, the first cycle is over, and the next one cannot begin
	a.submit(t, sleepJob("job"))
	<-rests
	last, _ := a.LastCycle()
	require.Positive(t, last.Number)
}

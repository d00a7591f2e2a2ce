package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// A job that waits for another says for which, cannot be run before by hand, and keeps the other from being deleted. It ends
// with a reason when it would wait for ever, and with the other where that is stopped with all that depends on it.
func TestJobsThatWaitForOthers(t *testing.T) {
	a := newAPITest(t)
	after := func(name, on string) *sluicev1.JobSpec {
		s := sleepJob(name)
		s.DependsOn = []*sluicev1.Dependency{{Job: on}}
		return s
	}
	_, err := a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{
		after("c", "b"), after("b", "a"), sleepJob("a"), sleepJob("other"),
	}})
	require.NoError(t, err)
	b := a.job(t, "b")
	require.Equal(t, sluicev1.JobState_JOB_STATE_INITIALIZED, b.State)
	require.Equal(t, "DEPENDENCIES", b.Reason)
	why, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "b"})
	require.NoError(t, err)
	require.Equal(t, "a", why.GetWaiting().BlockingJob)
	_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "b"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))

	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "a"})
	require.NoError(t, err)
	for _, name := range []string{"b", "c"} {
		j := a.job(t, name)
		require.Equal(t, sluicev1.JobState_JOB_STATE_KILLED, j.State)
		require.Equal(t, "NEVER_RELEASED", j.Reason)
		require.Contains(t, j.Message, "to have SUCCEEDED, which has KILLED")
		_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: name})
		require.ErrorContains(t, err, j.Message+": its tasks do not run any more", "nobody stopped it")
	}
	a.submit(t, after("d", "other"))
	a.submit(t, after("e", "d"))
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "other", Cascade: true})
	require.NoError(t, err)
	require.Equal(t, "JOB_STOPPED", a.job(t, "e").Reason)
}

// A job that another waits for is not deleted, also where it has ended.
func TestAwaitedJobsStay(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("ended"))
	a.submit(t, sleepJob("open"))
	waits := sleepJob("waits")
	waits.DependsOn = []*sluicev1.Dependency{{Job: "ended", Condition: sluicev1.Dependency_ENDED}, {Job: "open", Condition: sluicev1.Dependency_ENDED}}
	a.submit(t, waits)
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "ended"})
	require.NoError(t, err)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "ended"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, `"waits" waits for it: stop that first`)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "open"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.JobState_JOB_STATE_PENDING, a.job(t, "waits").State)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "ended"})
	require.NoError(t, err)

	// One whose tasks were all stopped has ended, and waits on.
	idle := sleepJob("idle")
	idle.DependsOn = []*sluicev1.Dependency{{Job: "open", Condition: sluicev1.Dependency_ENDED}, {Job: "waits", Condition: sluicev1.Dependency_ENDED}}
	a.submit(t, idle)
	_, err = a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "idle", ExpectedRun: proto.Uint32(0)})
	require.NoError(t, err)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "open"})
	require.ErrorContains(t, err, `"idle" waits for it: delete that first`)
	for _, name := range []string{"idle", "open"} {
		_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: name})
		require.NoError(t, err)
	}
}

// A job stays what it is when another that it waited for has been deleted: it can be submitted again, and planned, as before.
func TestAJobWhoseDependencyHasGone(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("first"))
	service := sleepJob("service")
	service.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	service.DependsOn = []*sluicev1.Dependency{{Job: "first", Condition: sluicev1.Dependency_ENDED}}
	a.submit(t, service)
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "first"})
	require.NoError(t, err)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "first"})
	require.NoError(t, err)

	res, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: service})
	require.NoError(t, err)
	require.False(t, res.Created)
	service.Instances = proto.Uint32(2)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: service})
	require.Equal(t, codes.AlreadyExists, status.Code(err), err)
	_, err = a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{service}})
	require.NoError(t, err)
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: service, ExpectedVersion: 1})
	require.NoError(t, err)

	service.Name = "another"
	for _, specs := range [][]*sluicev1.JobSpec{{service}, {a.job(t, "service").Spec, service}} {
		_, err = a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: specs})
		require.ErrorContains(t, err, `depends_on[0].job: is "first": there is no such job`)
	}
}

// Which instances run which version shows how far an update has come.
func TestTasksTellTheVersionThatTheyRun(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	spec := sleepJob("job")
	spec.Type, spec.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, proto.Uint32(2)
	a.submit(t, spec)
	version := func(instance uint32) uint64 {
		got, err := a.tasks.GetTask(t.Context(), &sluicev1.GetTaskRequest{Job: "job", Instance: instance})
		require.NoError(t, err)
		return got.Task.JobVersion
	}
	require.Eventually(t, func() bool { return version(0) == 1 }, 10*time.Second, time.Millisecond)
	spec.Labels, spec.Update = map[string]string{"a": "b"}, &sluicev1.UpdatePolicy{StartPaused: true}
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	require.NoError(t, err)
	require.Equal(t, uint64(1), version(0), "the update is paused")
	require.Zero(t, version(1), "it waits")
}

// A job that came to its end before its deadline is not restarted after it: it would fail then.
func TestWhatEndedInTimeIsNotRestartedTooLate(t *testing.T) {
	a := newAPITest(t)
	batch := jobSpecFrom(sleepJob("batch"), "spec", new(violations))
	batch.Pool, batch.Limits.Deadline = cluster.DefaultPool, cluster.Time(time.Second)
	service := *batch
	service.Name, service.Type = "service", cluster.Stateless
	a.emit(t, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: batch}, {UID: 2, Spec: &service}}},
		&cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0)}, &cluster.TaskStopping{Task: cluster.MakeTaskKey(2, 0)})
	const over = "its deadline, 1970-01-01T00:00:01Z, is over"
	for _, name := range []string{"batch", "service"} {
		_, err := a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: name})
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, over)
		require.Equal(t, sluicev1.JobState_JOB_STATE_KILLED, a.job(t, name).State)
	}
	more := jobSpecTo(&service)
	more.Instances = proto.Uint32(2)
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
	require.ErrorContains(t, err, over)
	more.Limits.Deadline = timestamppb.New(time.Now().Add(time.Hour))
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
	require.NoError(t, err)
	_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "service"})
	require.NoError(t, err)
}

// Of a job whose controller has ended nothing but the controller is restarted: the rest would be stopped at once.
func TestNothingIsRestartedWithoutItsController(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 8)
	spec := sleepJob("job")
	spec.Instances, spec.Controller = proto.Uint32(2), &sluicev1.ControllerPolicy{}
	a.submit(t, spec)
	for i := range uint32(2) {
		k := cluster.MakeTaskKey(1, 1-i)
		require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskPlaced }, time.Minute, time.Millisecond)
		a.emit(t, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
	}
	require.Equal(t, sluicev1.JobState_JOB_STATE_SUCCEEDED, a.job(t, "job").State)
	_, err := a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "job", Instance: 1})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "its controller has ended")
	require.Equal(t, cluster.TaskSucceeded, a.Snapshot().Task(cluster.MakeTaskKey(1, 1)).State)
	for i := range uint32(2) {
		_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "job", Instance: i})
		require.NoError(t, err)
	}
	require.Equal(t, sluicev1.JobState_JOB_STATE_RUNNING, a.job(t, "job").State)
}

// A plan says where the tasks of its jobs would start and why the others would wait, and changes nothing.
func TestPlanningJobs(t *testing.T) {
	a := newAPITest(t)
	there := sleepJob("there")
	a.submit(t, there)
	plan := func(specs ...*sluicev1.JobSpec) *sluicev1.PlanJobsResponse {
		res, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: specs})
		require.NoError(t, err)
		return res
	}
	more, fresh := proto.CloneOf(there), sleepJob("fresh")
	more.Instances = proto.Uint32(2)
	res := plan(more, fresh)
	require.Len(t, res.Waiting, 3)
	require.Equal(t, "NO_HOSTS", res.Waiting[0].Reason)
	require.Equal(t, "NO_HOSTS", res.Waiting[0].Waiting.GetReason())
	require.Nil(t, res.Waiting[1].Waiting, "as the one before")

	machine := cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{64_000, 1 << 40, 1 << 40}}}
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		return tx.Emit(&cluster.HostReported{ID: "s/h", Machine: machine})
	}))
	require.Eventually(t, func() bool { return a.Snapshot().Host("s/h").Tasks != nil }, time.Minute, time.Millisecond)
	before := a.Snapshot().Seq()
	res = plan(more, fresh)
	require.Empty(t, res.Waiting)
	require.Len(t, res.Placements, 2, "one more of the job that runs, and the new one")
	require.Equal(t, "s/h", res.Placements[0].Host)
	require.Equal(t, before, a.Snapshot().Seq())

	large, dependent := sleepJob("large"), sleepJob("dependent")
	large.Instances, large.Task.Resources.CpuMilli = proto.Uint32(2), 64_001
	dependent.DependsOn = []*sluicev1.Dependency{{Job: "large"}}
	res = plan(large, dependent)
	require.Len(t, res.Waiting, 3)
	require.True(t, proto.Equal(&sluicev1.WaitingExplanation{
		Reason: "NO_HOST_FITS", Hosts: 1, Tally: []*sluicev1.HostTally{{Reason: "TOO_SMALL", Hosts: 1, Detail: "cpu_milli"}},
	}, res.Waiting[0].Waiting), "%v", res.Waiting[0])
	require.Equal(t, "NO_HOST_FITS", res.Waiting[1].Reason)
	require.Nil(t, res.Waiting[1].Waiting)
	require.True(t, proto.Equal(&sluicev1.WaitingExplanation{Reason: "DEPENDENCIES", BlockingJob: "large"}, res.Waiting[2].Waiting), "%v", res.Waiting[2])

	service := sleepJob("service") // which may be updated although all of its instances have been stopped
	service.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	a.submit(t, service)
	_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "service"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.JobState_JOB_STATE_KILLED, a.job(t, "service").State)
	service.Instances = proto.Uint32(2)
	res = plan(service)
	require.Len(t, res.Placements, 1)
	require.Equal(t, "SCHEDULING_STOPPED", res.Placements[0].Reason)

	_, err = a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{fresh}, CostModel: "none"})
	requireViolation(t, err, codes.InvalidArgument, "cost_model", "cannot be used")
	many := sleepJob("many")
	many.Instances = proto.Uint32(maxPlanned + 1)
	_, err = a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{many}})
	requireViolation(t, err, codes.InvalidArgument, "specs", "at most 20000")
}

// What of a gang is beside its core is planned as it comes then, after the core: it waits for the core only where that waits.
func TestPlanningAnElasticGang(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	gang := sleepJob("gang")
	gang.Instances, gang.Gang = proto.Uint32(5), &sluicev1.GangPolicy{Minimum: 2}
	gang.Task.Resources.CpuMilli = 300
	plan := func() (starts, waits []string) {
		res, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{gang}})
		require.NoError(t, err)
		for _, x := range res.Placements {
			starts = append(starts, fmt.Sprint(x.Instance, x.Reason))
		}
		for _, x := range res.Waiting {
			waits = append(waits, fmt.Sprint(x.Instance, x.Reason))
			if x.Waiting.GetTogether() > 0 {
				waits = append(waits, fmt.Sprintf("room for %d of %d", x.Waiting.TogetherFit, x.Waiting.Together))
			}
		}
		return starts, waits
	}
	starts, waits := plan()
	require.Equal(t, []string{"0", "1", "2"}, starts)
	require.Equal(t, []string{"3NO_ROOM", "4NO_ROOM"}, waits)
	gang.Gang.Minimum = 4
	starts, waits = plan()
	require.Empty(t, starts)
	require.Equal(t, []string{"0NO_ROOM", "room for 3 of 4", "1NO_ROOM", "2NO_ROOM", "3NO_ROOM", "4GANG"}, waits)
}

// What is planned of a job that is there is its update: what waits has the new spec at once, and who starts first starts.
func TestPlanningUpdates(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "k") })
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{
		Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{8000, 8 << 30}}, Capabilities: cluster.CanSecrets,
	}})
	plan := func(spec *sluicev1.JobSpec) *sluicev1.PlanJobsResponse {
		res, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{spec}})
		require.NoError(t, err)
		return res
	}
	large := sleepJob("large")
	large.Task.Resources.CpuMilli = 1 << 40
	a.submit(t, large)
	large.Task.Resources.CpuMilli = 100
	require.Len(t, plan(large).Placements, 1)

	web := sleepJob("web")
	web.Type, web.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, proto.Uint32(3)
	web.Update = &sluicev1.UpdatePolicy{Order: sluicev1.UpdatePolicy_START_FIRST, Batch: &sluicev1.UpdatePolicy_BatchSize{BatchSize: 2}}
	web.Secrets = []*sluicev1.Secret{{Name: "s", Path: "s", Value: []byte("old")}}
	a.submit(t, web)
	for i := range uint32(3) {
		k := cluster.MakeTaskKey(2, i)
		require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskPlaced }, time.Minute, time.Millisecond)
		a.emit(t, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	}
	require.Empty(t, plan(web).Placements)
	web.Secrets[0].Value, web.Priority, web.Task.Resources.CpuMilli = []byte("new"), 7, 1100
	before := a.Snapshot().Seq()
	res := plan(web)
	require.Len(t, res.Placements, 2)
	require.EqualValues(t, 3, res.Placements[0].Instance)
	require.Empty(t, res.Stops)
	require.Equal(t, before, a.Snapshot().Seq())

	stops := func() (list []string) {
		for _, x := range plan(web).Stops {
			list = append(list, fmt.Sprint(x.Job, x.Instance, x.Host, x.Reason))
		}
		return list
	}
	web.Update.Order = sluicev1.UpdatePolicy_STOP_FIRST
	require.Equal(t, []string{"web0s/hUPDATED"}, stops(), "one may be missing")
	web.Limits = &sluicev1.JobLimits{MaxUnavailableInstances: proto.Uint32(2)}
	require.Equal(t, []string{"web0s/hUPDATED", "web1s/hUPDATED"}, stops())
	web.Update.Canaries = 1
	require.Equal(t, []string{"web0s/hUPDATED"}, stops())
	web.Instances = proto.Uint32(1)
	require.Equal(t, []string{"web0s/hUPDATED", "web1s/hREMOVED", "web2s/hREMOVED"}, stops())
}

// The same spec once more begins an update again that was aborted, or has failed, before it had come to all instances. Another
// number of them does not.
func TestAnUpdateIsBegunAgain(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Type, spec.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, proto.Uint32(2)
	spec.Update = &sluicev1.UpdatePolicy{Batch: &sluicev1.UpdatePolicy_BatchSize{BatchSize: 3}}
	a.submit(t, spec)
	a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that it does not go on
	update := func() *sluicev1.Job {
		t.Helper()
		res, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, "job").Version})
		require.NoError(t, err)
		return res.Job
	}
	spec.Task.Processes[0].Environment = map[string]string{"A": "b"}
	require.EqualValues(t, 2, update().Version)
	require.EqualValues(t, 2, update().Version, "it is under way")
	_, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ABORT})
	require.NoError(t, err)
	spec.Instances = proto.Uint32(3)
	require.Equal(t, sluicev1.UpdateState_UPDATE_STATE_ABORTED, update().Update.State)

	again := update()
	require.Equal(t, sluicev1.UpdateState_UPDATE_STATE_INITIALIZED, again.Update.State)
	require.EqualValues(t, 1, again.Update.FromVersion)
	require.EqualValues(t, 2, again.Update.InstancesTotal)
	a.setMode(t, &sluicev1.ClusterMode{})
	for task := range a.Snapshot().TasksOf(cluster.JobUID(again.Uid), 0) {
		require.EqualValues(t, again.Version, task.Version)
	}
	_, err = a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ABORT})
	require.NoError(t, err)
	require.Equal(t, again.Version, update().Version, "it has come to all")
}

// So it does when instances were restarted meanwhile, each by the spec that it had, and what to return to is that spec.
func TestAnUpdateIsBegunAgainAfterARestart(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Type, spec.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, proto.Uint32(2)
	a.submit(t, spec)
	a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that nothing goes on
	update := func() *sluicev1.Job {
		t.Helper()
		res, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, "job").Version})
		require.NoError(t, err)
		return res.Job
	}
	restart := func() {
		t.Helper()
		_, err := a.jobs.RestartJob(t.Context(), &sluicev1.RestartJobRequest{Name: "job", ExpectedVersion: proto.Uint64(a.job(t, "job").Version)})
		require.NoError(t, err)
	}
	restart()
	require.EqualValues(t, 1, update().Version, "all have it")
	spec.Task.Processes[0].Environment = map[string]string{"A": "b"}
	update()
	for _, more := range []string{"b", "c"} { // the same, and another one
		_, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ABORT})
		require.NoError(t, err)
		restart()
		spec.Task.Processes[0].Environment["A"] = more
		again := update()
		require.Equal(t, sluicev1.UpdateState_UPDATE_STATE_INITIALIZED, again.Update.State)
		require.EqualValues(t, 1, again.Update.FromVersion)
		require.EqualValues(t, 2, again.Update.InstancesTotal)
	}
}

// Neither another number of instances nor a restart is in the way of a rollback: it leads to another spec than the present one.
func TestWhereARollbackLeads(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	a.submit(t, spec)
	update := func(instances uint32) {
		t.Helper()
		spec.Instances = proto.Uint32(instances)
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, "job").Version})
		require.NoError(t, err)
	}
	steer := func(action sluicev1.ControlUpdateRequest_Action) (*sluicev1.ControlUpdateResponse, error) {
		return a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: action})
	}
	update(2)
	_, err := steer(sluicev1.ControlUpdateRequest_ROLLBACK)
	require.ErrorContains(t, err, "there is nothing to return to")
	spec.Task.Processes[0].Environment = map[string]string{"A": "b"}
	update(2)
	_, err = steer(sluicev1.ControlUpdateRequest_ABORT)
	require.NoError(t, err)
	update(3)
	_, err = a.jobs.RestartJob(t.Context(), &sluicev1.RestartJobRequest{Name: "job", ExpectedVersion: proto.Uint64(4)})
	require.NoError(t, err)
	back, err := steer(sluicev1.ControlUpdateRequest_ROLLBACK)
	require.NoError(t, err)
	require.EqualValues(t, 5, back.Job.Version)
	require.Empty(t, back.Job.Spec.Task.Processes[0].Environment)
	require.EqualValues(t, 3, back.Job.Spec.GetInstances())
}

// What an update waits for did not come about while no scheduler was there: its times begin anew.
func TestUpdatesWaitAnewWithTheScheduler(t *testing.T) {
	for _, live := range []bool{true, false} {
		state, log := cluster.NewState(), journal.NewMemory()
		tx := rules.Begin(state, 1)
		spec := jobSpecFrom(sleepJob("job"), "spec", new(violations))
		spec.Pool = cluster.RootPool
		require.NoError(t, tx.Emit(&cluster.ClusterCreated{ID: "c"}))
		require.NoError(t, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}}))
		if live {
			require.NoError(t, tx.Emit(&cluster.JobUpdated{Job: 1, Spec: spec, Update: &cluster.Update{From: 1}}))
		}
		require.NoError(t, log.Append(tx.Records()))
		before := time.Now()
		_, err := New(Config{State: state, Journal: log})
		require.NoError(t, err)
		require.Equal(t, live, state.ModeSince() >= cluster.Time(before.UnixNano()))
	}
}

// So does what began by a clock that is ahead of the scheduler's.
func TestTimesBeginAnewByAClockThatIsBehind(t *testing.T) {
	for ahead, want := range map[time.Duration]bool{time.Hour: true, 0: false} {
		state, log := cluster.NewState(), journal.NewMemory()
		tx := rules.Begin(state, cluster.Time(time.Now().Add(ahead).UnixNano()))
		spec := jobSpecFrom(sleepJob("job"), "spec", new(violations))
		spec.Pool = cluster.RootPool
		require.NoError(t, tx.Emit(&cluster.ClusterCreated{ID: "c"}))
		require.NoError(t, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}}))
		require.NoError(t, log.Append(tx.Records()))
		_, err := New(Config{State: state, Journal: log})
		require.NoError(t, err)
		require.Equal(t, want, state.ModeSince() != 0)
	}
}

// So do gangs: what their tasks did meanwhile is not known before their host managers are back.
func TestGangsBeginAnewWithTheScheduler(t *testing.T) {
	state, log := cluster.NewState(), journal.NewMemory()
	tx := rules.Begin(state, 1)
	spec := jobSpecFrom(sleepJob("job"), "spec", new(violations))
	spec.Pool, spec.Instances, spec.Gang = cluster.RootPool, 2, &cluster.Gang{Minimum: 2}
	require.NoError(t, tx.Emit(&cluster.ClusterCreated{ID: "c"}))
	require.NoError(t, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}}))
	require.NoError(t, tx.Emit(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: spec.Task.Resources.Times(2)}}))
	for i := range uint32(2) {
		require.NoError(t, tx.Emit(&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: "s/h"}))
	}
	require.NoError(t, log.Append(tx.Records()))
	before := time.Now()
	_, err := New(Config{State: state, Journal: log})
	require.NoError(t, err)
	require.GreaterOrEqual(t, state.ModeSince(), cluster.Time(before.UnixNano()))
}

// endUpdate ends the update of the job "job", which has only begun.
func (a *apiTest) endUpdate(t *testing.T, as cluster.UpdateState) {
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		j := tx.State().JobByName("job")
		for _, next := range []cluster.UpdateState{cluster.RollingForward, as} {
			u := *tx.State().Job(j.UID).Update
			u.End(tx.Now(), next, cluster.ReasonRequested)
			if err := tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// After an update that failed or was aborted the next one comes from, and so returns to, the version that was good; after one that came
// to its end from that one's.
func TestAnUpdateReturnsToWhatWasGood(t *testing.T) {
	for state, from := range map[cluster.UpdateState]uint64{cluster.UpdateFailed: 1, cluster.UpdateAborted: 1, cluster.UpdateSucceeded: 2} {
		a := newAPITest(t)
		spec := sleepJob("job")
		spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
		a.submit(t, spec)
		a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that it does not go on
		update := func(value string) *sluicev1.Job { return a.updateA(t, spec, value) }
		update("b")
		a.endUpdate(t, state)
		require.Equal(t, from, update("c").Update.FromVersion, "%v", state)
	}
}

// A rollback, or a restart, that did not come to its end does not make what it led to, or away from, a version that is known to be good.
func TestAnUpdateReturnsToWhatWasGoodBeforeARollback(t *testing.T) {
	const failed, aborted, back, done = cluster.UpdateFailed, cluster.UpdateAborted, cluster.RolledBack, cluster.UpdateSucceeded
	type step struct {
		to  uint64 // a rollback to that version; 0: a restart
		end cluster.UpdateState
	}
	for name, c := range map[string]struct { // version 1 is good, and 2 is not
		steps []step
		from  uint64
	}{
		"back to the bad one fails":           {[]step{{1, back}, {2, failed}}, 3},
		"back to the bad one is aborted":      {[]step{{1, back}, {2, aborted}}, 3},
		"back to the bad one is superseded":   {[]step{{1, back}, {2, cluster.RollingBackward}}, 3},
		"twice":                               {[]step{{1, back}, {2, failed}, {2, failed}}, 3},
		"the way back to the good one fails":  {[]step{{1, failed}}, 1},
		"the bad one serves after all":        {[]step{{1, back}, {2, back}}, 4},
		"a restart of the bad one fails":      {[]step{{0, failed}}, 1},
		"the bad one serves after a restart":  {[]step{{0, done}}, 2},
		"a restart after the way back fails":  {[]step{{1, back}, {0, failed}}, 3},
		"a restart after the way to it fails": {[]step{{1, back}, {2, failed}, {0, failed}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPITest(t)
			spec := sleepJob("job")
			spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
			a.submit(t, spec)
			a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that nothing goes on by itself
			end := func(as cluster.UpdateState) {
				t.Helper()
				require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
					j := tx.State().JobByName("job")
					u := *j.Update
					if u.State == cluster.UpdateInitialized {
						u.State = cluster.RollingForward
						if err := tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u}); err != nil {
							return err
						}
					}
					if as.Terminal() {
						u.End(tx.Now(), as, "")
					}
					return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u})
				}))
			}
			update := func(value string) *sluicev1.Job { return a.updateA(t, spec, value) }
			update("bad")
			require.NoError(t, a.Do(t.Context(), func(tx *Tx) error { // all have it
				for task := range tx.State().TasksOf(tx.State().JobByName("job").UID, 0) {
					if err := tx.Emit(&cluster.TaskUpdated{Task: task.Key, Version: 2}); err != nil {
						return err
					}
				}
				return nil
			}))
			end(failed)
			for _, s := range c.steps {
				var err error
				if s.to == 0 {
					_, err = a.jobs.RestartJob(t.Context(), &sluicev1.RestartJobRequest{Name: "job", ExpectedVersion: proto.Uint64(a.job(t, "job").Version)})
				} else {
					_, err = a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{
						Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: proto.Uint64(s.to),
					})
				}
				require.NoError(t, err)
				end(s.end)
			}
			require.Equal(t, c.from, update("next").Update.FromVersion)
		})
	}
}

// After a rollback that was aborted the user says where to, as after one that is done: the version that it led away from is not meant.
func TestARollbackIsNotRolledBack(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	a.submit(t, spec)
	spec.Task.Processes[0].Environment = map[string]string{"A": "b"}
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	require.NoError(t, err)
	steer := func(action sluicev1.ControlUpdateRequest_Action) error {
		_, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: action})
		return err
	}
	require.NoError(t, steer(sluicev1.ControlUpdateRequest_ROLLBACK))
	require.NoError(t, steer(sluicev1.ControlUpdateRequest_ABORT))
	require.ErrorContains(t, steer(sluicev1.ControlUpdateRequest_ROLLBACK), "its last update was a rollback: name the version to return to")
}

// A rolling restart of a daemon may name instances by their numbers, which have gaps.
func TestRestartingInstancesOfADaemon(t *testing.T) {
	a := newAPITest(t)
	for _, h := range []cluster.HostID{"s/a", "s/b", "s/c"} {
		a.addHost(t, h, 2)
	}
	spec := sleepJob("daemon")
	spec.Type = sluicev1.JobType_JOB_TYPE_DAEMON
	a.submit(t, spec)
	restart := func(first, last uint32) error {
		_, err := a.jobs.RestartJob(t.Context(), &sluicev1.RestartJobRequest{Name: "daemon", Instances: []*sluicev1.InstanceRange{{First: first, Last: last}}})
		return err
	}
	requireViolation(t, restart(3, 9), codes.InvalidArgument, "instances[0]", "the daemon has none of them now")
	require.NoError(t, restart(1, 5))
}

// A service that rests, since each of its instances was stopped, can be scaled up again, and no more once it is stopped itself.
func TestAServiceThatRestsIsStopped(t *testing.T) {
	a := newAPITest(t)
	for _, name := range []string{"rests", "ends"} {
		spec := sleepJob(name)
		spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
		a.submit(t, spec)
		_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: name})
		require.NoError(t, err)
		require.Equal(t, cluster.JobKilled, a.Snapshot().JobByName(cluster.JobID(name)).State())
	}
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "ends"})
	require.NoError(t, err)
	scale := func(name string) error {
		spec := a.job(t, name).Spec
		spec.Instances = proto.Uint32(2)
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, name).Version})
		return err
	}
	require.NoError(t, scale("rests"))
	require.ErrorContains(t, scale("ends"), "it has ended or is being stopped")
	require.Equal(t, cluster.JobKilled, a.Snapshot().JobByName("ends").State())
}

// What a job says of its highest instances does not keep it from being scaled down, nor from going back to a spec that says it, and
// holds again when it is scaled up.
func TestScalingAJobWhoseInstancesDiffer(t *testing.T) {
	a := newAPITest(t)
	spec := func(instances uint32) *sluicev1.JobSpec {
		s := sleepJob("ov")
		high := &sluicev1.InstanceRange{First: 2, Last: 3}
		s.Instances = &instances
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: high, Environment: map[string]string{"ROLE": "last"}}}
		s.Locality = &sluicev1.Locality{Inputs: []*sluicev1.DataInput{{Bytes: 1, Instances: high}}}
		return s
	}
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec(2)})
	requireViolation(t, err, codes.InvalidArgument, "spec.overrides[0].instances.last", "is 3: the last instance is 1")
	requireViolation(t, err, codes.InvalidArgument, "spec.locality.inputs[0].instances.last", "is 3: the last instance is 1")
	a.submit(t, spec(4))
	update := func(s *sluicev1.JobSpec) {
		t.Helper()
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: s, ExpectedVersion: a.job(t, "ov").Version})
		require.NoError(t, err)
	}
	update(spec(2))
	plain := spec(2)
	plain.Overrides = nil
	update(plain)
	_, err = a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "ov", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: proto.Uint64(1)})
	require.NoError(t, err)
	for _, n := range []uint32{1, 4} {
		now := a.job(t, "ov").Spec
		now.Instances = &n
		update(now)
	}
	j := a.Snapshot().JobByName("ov")
	require.Len(t, j.Spec.TaskOf(3).Processes[0].Env, 1+len(j.Spec.TaskOf(1).Processes[0].Env))
}

// TestAGivenBackLaunchIsExplained: who asks why a task is not started yet is told what its host manager said.
func TestAGivenBackLaunchIsExplained(t *testing.T) {
	task := &cluster.Task{Reason: cluster.ReasonLaunchRefused, Refusals: 2, Message: "the disk is full"}
	require.Contains(t, summarizeWaiting(&sluicev1.WaitingExplanation{Reason: waitingForRetry}, pool.Binding{}, task, nil), "gave the launch back 2 times (the disk is full) and")
}

// TestWhatKeepsAHeldTaskIsExplained: room that is held for a task is of no use to it before a limit lets it start.
func TestWhatKeepsAHeldTaskIsExplained(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 6)
	a.createPool(t, cpuClaim("root/a", 0, 1000))
	batch, agent := sleepJob("batch"), sleepJob("agent")
	batch.Pool, agent.Pool, agent.Type = "root/a", "root/a", sluicev1.JobType_JOB_TYPE_DAEMON
	explain := func(job string) *sluicev1.ExplainTaskResponse {
		answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: job})
		require.NoError(t, err)
		return answer
	}
	a.submit(t, batch)
	require.Eventually(t, func() bool { return explain("batch").GetPlaced() != nil }, 10*time.Second, time.Millisecond)
	a.submit(t, agent)
	require.Equal(t, "ROOM_HELD", explain("agent").GetWaiting().Reason)
	require.Contains(t, explain("agent").Summary, "until pool root/a, which is at its limit, has less cpu_milli")

	job := &cluster.Job{Spec: &cluster.JobSpec{Limits: cluster.JobLimits{MaxRunning: 1}}}
	job.Counts[cluster.TaskRunning] = 1
	task := &cluster.Task{State: cluster.TaskReserved, Home: "s/h", Hold: &cluster.Hold{Host: "s/h", Until: cluster.Forever}}
	require.Contains(t, summarizeWaiting(&sluicev1.WaitingExplanation{Reason: waitingForHold}, pool.Binding{}, task, job), "max_running_instances")
}

// What is on a host that is out of reach is told so: it may not run any more.
func TestWhoIsOutOfReachIsExplained(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.LostAfter = time.Hour })
	a.emit(t, &cluster.HostReported{ID: "s/h"}, &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{
		UID: 1, Spec: &cluster.JobSpec{Name: "web", Pool: cluster.DefaultPool, Type: cluster.Stateless, Instances: 1},
	}}}, &cluster.Placed{Task: cluster.MakeTaskKey(1, 0), Run: 1, Host: "s/h"})
	explain := func() string {
		answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "web"})
		require.NoError(t, err)
		return answer.Summary
	}
	require.Regexp(t, `^run 1 is PLACED on host s/h, whose host manager is cut off since \S+$`, explain())
	a.emit(t, &cluster.HostUnreached{ID: "s/h"})
	require.Regexp(t, `^run 1 is PLACED on host s/h, which is unreachable since \S+: the run is given up 1h0m0s \(scheduler.lost_after\) after that, or after .* started, if that was later$`, explain())
	list, err := a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Job: "web"})
	require.NoError(t, err)
	require.Regexp(t, `^its host is unreachable since 2\S+$`, list.Tasks[0].Message)
}

// TestWhoWaitsForItsHostIsExplained: no cycle looks at a task that runs on one host only, and that takes no work.
func TestWhoWaitsForItsHostIsExplained(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 6)
	a.addHost(t, "s/other", 6)
	k := cluster.MakeTaskKey(1, 0)
	a.emit(t, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{Name: "db", Pool: cluster.DefaultPool, Type: cluster.Stateful, Instances: 1}}}},
		&cluster.Placed{Task: k, Run: 1, Host: "s/h"}, &cluster.HostDrain{ID: "s/h", Drain: true},
		&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost}, &cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry})
	explain := func() *sluicev1.ExplainTaskResponse {
		answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "db"})
		require.NoError(t, err)
		require.Equal(t, "HOST_AWAY", answer.GetWaiting().Reason)
		return answer
	}
	require.Equal(t, "it runs on host s/h only, which is draining\nwould help: host s/h takes work again\n"+
		"        or: where its data is gone for good: `sluice task forget-data db/0`", explain().Summary)
	a.emit(t, &cluster.HostUnreached{ID: "s/h"})
	require.Contains(t, explain().Summary, "which is unreachable\nwould help: the host manager of host s/h connects again\n")
	h := a.Snapshot().Host("s/h")
	a.emit(t, &cluster.HostDrain{ID: "s/h"}, &cluster.HostReported{ID: "s/h", Machine: *h.Machine}, &cluster.JobUpdated{Job: 1, Spec: &cluster.JobSpec{
		Name: "db", Pool: cluster.DefaultPool, Type: cluster.Stateful, Instances: 1, Preemption: cluster.PreemptionPolicy{Command: []string{"save"}},
	}})
	require.Contains(t, explain().Summary, "which has a host manager that cannot do what the task needs: on-preempt\n")
	require.Equal(t, "INCAPABLE", explain().GetWaiting().Tally[0].Reason)

	asks := func(task cluster.TaskSpec) {
		spec := &cluster.JobSpec{Name: "db", Pool: cluster.DefaultPool, Type: cluster.Stateful, Instances: 1, Task: task}
		a.emit(t, &cluster.JobUpdated{Job: 1, Spec: spec}, &cluster.TaskUpdated{Task: k, Version: a.Snapshot().Job(1).Version + 1})
	}
	asks(cluster.TaskSpec{Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.Memory: 1 << 50}}})
	require.Contains(t, explain().Summary, "which has too little memory_bytes, even empty\n")
	require.Equal(t, "memory_bytes", explain().GetWaiting().Tally[0].Detail)
	asks(cluster.TaskSpec{GPU: cluster.GPURequest{Milli: 500}})
	require.Contains(t, explain().Summary, "which has no such GPUs, or too few of them\n")
	spec := *a.Snapshot().Job(1).Spec
	spec.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: cluster.LabelHostname, Value: "s/h"}, Comparison: cluster.Equal}
	a.emit(t, &cluster.JobUpdated{Job: 1, Spec: &spec}, &cluster.TaskUpdated{Task: k, Version: a.Snapshot().Job(1).Version + 1})
	require.Contains(t, explain().Summary, "it runs on host s/h only, which does not meet the constraints: no hostname=s/h\n")
	p := *a.Snapshot().Pool(cluster.DefaultPool)
	p.Hosts = []cluster.KeyValue{{Key: cluster.LabelHostname, Value: "s/other"}}
	a.emit(t, &cluster.PoolPut{Pool: p})
	require.Contains(t, explain().Summary, "it runs on host s/h only, which is not among the hosts of its pool\n")
}

// TestWhatKeepsATaskOutIsNamed: by its rule, whatever hosts there are, and with a dimension where the rule has one.
func TestWhatKeepsATaskOutIsNamed(t *testing.T) {
	job, task := &cluster.Job{Spec: &cluster.JobSpec{Pool: "root/a"}}, &cluster.Task{State: cluster.TaskPending}
	for binds, want := range map[pool.Binding]string{
		{Rule: pool.RuleLimit, Pool: "root", Dimension: "cpu_milli"}:  "pool root lets no more in: limit of cpu_milli",
		{Rule: pool.RuleRunningJobs, Pool: "root/a"}:                  "pool root/a lets no more in: running jobs",
		{Rule: pool.RuleMaxRunning, Pool: "root/a"}:                   "its job lets no more in: max running instances",
		{Rule: pool.RuleGang, Pool: "root/a"}:                         "the core of its gang goes first, as a whole",
		{Rule: pool.RuleStatic, Pool: "root", Dimension: "cpu_milli"}: "what is left of cpu_milli is claimed, or kept free for a pool with a static reservation",
	} {
		for _, reason := range []string{waitingForFit, waitingForRoom} {
			said := summarizeWaiting(&sluicev1.WaitingExplanation{Reason: reason}, binds, task, job)
			require.Contains(t, strings.Split(said, "\n"), want)
		}
	}
}

// What is said of one host, port or GPU is not what is said of several.
func TestOneIsNoneOfSeveral(t *testing.T) {
	job, task := &cluster.Job{Spec: &cluster.JobSpec{Pool: "root/a"}}, &cluster.Task{State: cluster.TaskPending}
	w := &sluicev1.WaitingExplanation{Reason: waitingForFit, Hosts: 4, Tally: []*sluicev1.HostTally{
		{Hosts: 1, Reason: string(cycle.HostFull), Detail: "ports"}, {Hosts: 3, Reason: string(cycle.HostFull), Detail: "cpu_milli"},
	}}
	said := strings.Split(summarizeWaiting(w, pool.Binding{}, task, job), "\n")
	require.Equal(t, []string{"  1 has too few ports free", "  3 have too little cpu_milli free"}, said[1:3])
	for reason := range hostReasons {
		w := &sluicev1.WaitingExplanation{Reason: waitingForFit, Hosts: 1, Tally: []*sluicev1.HostTally{{Hosts: 1, Reason: reason}}}
		said := strings.Split(summarizeWaiting(w, pool.Binding{}, task, job), "\n")
		require.Regexp(t, "; of 1 host$", said[0])
		require.Regexp(t, "^  1 (has|is|does|belongs) ", said[1])
	}
	require.Equal(t, "the core of its gang begins, for which room is held", unblockerWord(&cycle.Unblocker{Kind: cycle.CoreBegins}))
	require.Equal(t, "1 more port free on host s/a", unblockerWord(&cycle.Unblocker{Kind: cycle.MorePorts, Host: "s/a", FreePorts: 1}))
	require.Equal(t, "1 more whole GPU free on host s/a", unblockerWord(&cycle.Unblocker{Kind: cycle.MoreGPUs, Host: "s/a", GPUs: 1, Milli: cluster.WholeGPU}))
	require.Equal(t, "gpu_milli=300 more free on one GPU of host s/a, with what the one other that may go there first asks for",
		unblockerWord(&cycle.Unblocker{Kind: cycle.MoreGPUs, Host: "s/a", GPUs: 1, Milli: 300, Ahead: 1}))
	require.Equal(t, "2 times gpu_milli=300 more free, each on one GPU, on host s/a", unblockerWord(&cycle.Unblocker{Kind: cycle.MoreGPUs, Host: "s/a", GPUs: 2, Milli: 300}))
	require.Equal(t, "revocable tasks of pool root/a may have 50 % of the cluster instead of 20 % (limits.revocable_percent)",
		unblockerWord(&cycle.Unblocker{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a", Count: 50, Amount: 30}))
	w = &sluicev1.WaitingExplanation{Reason: waitingForRoom, Hosts: 1, Together: 1, QueuePosition: 1, QueueLength: 1}
	said = strings.Split(summarizeWaiting(w, pool.Binding{}, task, job), "\n")
	require.Equal(t, []string{
		"it starts together with others or not at all: 1 needs a place yet, and there is room for 0",
		"it is the only one that waits in pool root/a",
	}, said[1:])
}

// TestHowManyHaveToEndIsSaid: one where there is nobody else, and else those that are let in first, too; none where that is of no use.
func TestHowManyHaveToEndIsSaid(t *testing.T) {
	for rule, want := range map[pool.Rule]string{
		pool.RuleMaxRunning:  "7 other instances of its job end",
		pool.RuleRunningJobs: "7 other jobs of pool root/a end",
		pool.RuleController:  "7 other controllers of pool root/a end",
	} {
		u := cycle.Unblocker{Kind: cycle.LiftLimit, Rule: string(rule), Pool: "root/a", Count: 7}
		require.Contains(t, unblockerWord(&u), want)
		u.Count = 1
		require.Regexp(t, "^another .* ends, or ", unblockerWord(&u))
		u.Count = 0
		require.NotContains(t, unblockerWord(&u), " end")
	}
}

// updateA updates the job of the spec to another value of the variable A.
func (a *apiTest) updateA(t *testing.T, spec *sluicev1.JobSpec, value string) *sluicev1.Job {
	t.Helper()
	spec.Task.Processes[0].Environment = map[string]string{"A": value}
	res, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, spec.Name).Version})
	require.NoError(t, err)
	return res.Job
}

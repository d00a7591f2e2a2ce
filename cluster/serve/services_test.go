package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestIdempotencyKeys(t *testing.T) {
	a := newAPITest(t)
	graph := func(key string, names ...string) ([]*sluicev1.SubmitJobResponse, error) {
		r := &sluicev1.SubmitJobsRequest{IdempotencyKey: key}
		for _, n := range names {
			r.Specs = append(r.Specs, sleepJob(n))
		}
		answer, err := a.jobs.SubmitJobs(t.Context(), r)
		return answer.GetJobs(), err
	}
	first, err := graph("k", "a", "b", "c")
	require.NoError(t, err)
	again, err := graph("k", "a", "b", "c")
	require.NoError(t, err)
	require.Len(t, again, 3)
	for i := range first {
		require.Equal(t, first[i].Uid, again[i].Uid)
		require.True(t, again[i].Created)
	}
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c", "d"}, {"x"}} {
		_, err = graph("k", names...)
		requireViolation(t, err, codes.AlreadyExists, "idempotency_key", `is "k": it was used for another request: choose another one`)
	}
	other := sleepJob("a")
	other.Priority = 3
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: other, IdempotencyKey: "k"})
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
	require.Equal(t, 3, a.Snapshot().NumJobs())

	// A request that came late, after the job was updated, still gets its answer, and another one none.
	submitted, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("d"), IdempotencyKey: "d"})
	require.NoError(t, err)
	update := sleepJob("d")
	update.Priority = 9
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: update, ExpectedVersion: 1})
	require.NoError(t, err)
	late, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("d"), IdempotencyKey: "d"})
	require.NoError(t, err)
	requireSame(t, submitted, late)
	other = sleepJob("d")
	other.Instances = proto.Uint32(50)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: other, IdempotencyKey: "d"})
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
}

func TestDefaultPool(t *testing.T) {
	a := newAPITest(t)
	_, err := a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: string(cluster.DefaultPool)})
	require.NoError(t, err)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("lost")})
	requireViolation(t, err, codes.InvalidArgument, "spec.pool", `there is no pool "root/default"`)

	_, err = a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: string(cluster.DefaultPool)}})
	require.NoError(t, err)
	a.submit(t, sleepJob("late"))
	require.Equal(t, "root/default", a.job(t, "late").Spec.Pool)
}

func TestStopUpdateDelete(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	more := sleepJob("job")
	more.Instances, more.Priority, more.Labels = proto.Uint32(3), 5, map[string]string{"a": "b"}
	updated, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
	require.NoError(t, err)
	require.Equal(t, uint64(2), updated.Job.Version)
	require.Equal(t, uint32(3), updated.Job.TaskCounts[0].Count)
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
	require.Equal(t, codes.Aborted, status.Code(err))
	same, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 2})
	require.NoError(t, err)
	require.Equal(t, uint64(2), same.Job.Version)
	fewer := proto.CloneOf(more)
	fewer.Instances = proto.Uint32(2)
	updated, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: fewer, ExpectedVersion: 2})
	require.NoError(t, err)
	require.Equal(t, uint32(2), updated.Job.TaskCounts[0].Count)

	stopped, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.JobState_JOB_STATE_KILLED, stopped.Job.State)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job"})
	require.NoError(t, err)
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 3})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "job"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))

	deleted, err := a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "job"})
	require.NoError(t, err)
	require.Equal(t, "job", deleted.Name)
	_, err = a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: "job"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestStopAndRestartTask(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	stopped, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "job", Instance: 1})
	require.NoError(t, err)
	require.Equal(t, sluicev1.TaskState_TASK_STATE_KILLED, stopped.Task.State)
	require.Equal(t, "TASK_STOPPED", stopped.Task.Reason)
	_, err = a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "job", Instance: 1})
	require.NoError(t, err)
	restarted, err := a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "job", Instance: 1})
	require.NoError(t, err)
	require.Equal(t, sluicev1.TaskState_TASK_STATE_PENDING, restarted.Task.State)
}

// A run that is being ended since it took too long would be followed by another: whoever stops the task then has none follow.
func TestStopATaskThatTookTooLong(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 1)
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	spec := sleepJob("job")
	spec.Type = sluicev1.JobType_JOB_TYPE_STATELESS
	a.submit(t, spec)
	k := cluster.MakeTaskKey(1, 0)
	a.emit(t, &cluster.Placed{Task: k, Run: 1, Host: "s/h"}, &cluster.TaskStopping{Task: k, Reason: cluster.ReasonRunTime})
	_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "job"})
	require.NoError(t, err)
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		_, err := rules.Report(tx, "s", &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled})
		return err
	}))
	require.Equal(t, cluster.TaskKilled, a.Snapshot().Task(k).State)
	require.Equal(t, cluster.ReasonTaskStopped, a.Snapshot().Task(k).Reason)
}

// pages reads a list to its end in pages of the given size.
func pages[A interface{ GetNextPageToken() string }, T any](t *testing.T, get func(token string) (A, error), items func(A) []T) []T {
	t.Helper()
	var all []T
	for token := ""; ; {
		answer, err := get(token)
		require.NoError(t, err)
		all = append(all, items(answer)...)
		if token = answer.GetNextPageToken(); token == "" {
			return all
		}
		require.NotEmpty(t, items(answer))
	}
}

func TestListJobs(t *testing.T) {
	a := newAPITest(t)
	for _, p := range []string{"root/a", "root/b", "root/b/c", "root/bb"} {
		_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: p}})
		require.NoError(t, err)
	}
	for i, pool := range []string{"root/a", "root/b/c", "root/bb", "root/a", "root/b/c"} {
		spec := sleepJob(fmt.Sprintf("job-%d", 9-i))
		spec.Pool, spec.Priority, spec.Owner = pool, int32(i%2), fmt.Sprintf("u%d", i%3)
		spec.Labels = map[string]string{"parity": fmt.Sprint(i % 2)}
		a.submit(t, spec)
	}
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job-9"})
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		request *sluicev1.ListJobsRequest
		want    []string
	}{
		{"all by name", &sluicev1.ListJobsRequest{}, []string{"job-5", "job-6", "job-7", "job-8", "job-9"}},
		{"descending", &sluicev1.ListJobsRequest{Descending: true}, []string{"job-9", "job-8", "job-7", "job-6", "job-5"}},
		{"by age", &sluicev1.ListJobsRequest{Order: sluicev1.JobOrder_JOB_ORDER_CREATE_TIME}, []string{"job-9", "job-8", "job-7", "job-6", "job-5"}},
		{"newest first", &sluicev1.ListJobsRequest{Order: sluicev1.JobOrder_JOB_ORDER_CREATE_TIME, Descending: true}, []string{"job-5", "job-6", "job-7", "job-8", "job-9"}},
		{"by priority", &sluicev1.ListJobsRequest{Order: sluicev1.JobOrder_JOB_ORDER_PRIORITY}, []string{"job-5", "job-7", "job-9", "job-6", "job-8"}},
		{"highest first", &sluicev1.ListJobsRequest{Order: sluicev1.JobOrder_JOB_ORDER_PRIORITY, Descending: true}, []string{"job-8", "job-6", "job-9", "job-7", "job-5"}},
		{"names", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Names: []string{"job-7", "job-5", "ghost"}}}, []string{"job-5", "job-7"}},
		{"prefix", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{NamePrefix: "job-9"}}, []string{"job-9"}},
		{"pool and below", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Pool: "root/b"}}, []string{"job-5", "job-8"}},
		{"owner", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Owner: "u1"}}, []string{"job-5", "job-8"}},
		{"label", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Labels: map[string]string{"parity": "1"}}}, []string{"job-6", "job-8"}},
		{"state", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{States: []sluicev1.JobState{sluicev1.JobState_JOB_STATE_KILLED}}}, []string{"job-9"}},
		{"type", &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Types: []sluicev1.JobType{sluicev1.JobType_JOB_TYPE_DAEMON}}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := range uint32(6) {
				c.request.PageSize = nil
				if size > 0 {
					c.request.PageSize = &size
				}
				var got []string
				for _, j := range pages(t, func(token string) (*sluicev1.ListJobsResponse, error) {
					c.request.PageToken = token
					return a.jobs.ListJobs(t.Context(), c.request)
				}, (*sluicev1.ListJobsResponse).GetJobs) {
					got = append(got, j.Name)
				}
				c.request.PageToken = ""
				require.Equal(t, c.want, got, "page size %d", size)
			}
		})
	}

	first, err := a.jobs.ListJobs(t.Context(), &sluicev1.ListJobsRequest{PageSize: proto.Uint32(1)})
	require.NoError(t, err)
	_, err = a.jobs.ListJobs(t.Context(), &sluicev1.ListJobsRequest{Descending: true, PageToken: first.NextPageToken})
	requireViolation(t, err, codes.InvalidArgument, "page_token", "is not of this list")
}

// A page of large specs ends early rather than exceed what a client takes.
func TestListLargeJobs(t *testing.T) {
	a := newAPITest(t)
	for i := range 8 {
		spec := sleepJob(fmt.Sprintf("job-%d", i))
		spec.Task.Processes[0].Environment = map[string]string{}
		for k := range 6 {
			spec.Task.Processes[0].Environment[fmt.Sprintf("K%d", k)] = fmt.Sprintf("%0100000d", k)
		}
		a.submit(t, spec)
	}
	n := 0
	all := pages(t, func(token string) (*sluicev1.ListJobsResponse, error) {
		n++
		return a.jobs.ListJobs(t.Context(), &sluicev1.ListJobsRequest{PageToken: token})
	}, (*sluicev1.ListJobsResponse).GetJobs)
	require.Len(t, all, 8)
	require.Greater(t, n, 4)
}

func TestListTasks(t *testing.T) {
	a := newAPITest(t)
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/p"})
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/p/q"})
	for _, name := range []string{"a", "b"} {
		spec := sleepJob(name)
		spec.Instances = proto.Uint32(5)
		if name == "b" {
			spec.Pool = "root/p/q"
		}
		a.submit(t, spec)
	}
	_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "b", Instance: 3})
	require.NoError(t, err)
	list := func(r *sluicev1.ListTasksRequest) []string {
		var got []string
		for _, task := range pages(t, func(token string) (*sluicev1.ListTasksResponse, error) {
			r.PageToken = token
			return a.tasks.ListTasks(t.Context(), r)
		}, (*sluicev1.ListTasksResponse).GetTasks) {
			got = append(got, fmt.Sprintf("%s/%d", task.Job, task.Instance))
		}
		return got
	}
	for _, size := range []uint32{1, 2, 3, 100} {
		require.Equal(t, []string{"b/0", "b/1", "b/2", "b/3", "b/4"}, list(&sluicev1.ListTasksRequest{Job: "b", PageSize: &size}))
		require.Len(t, list(&sluicev1.ListTasksRequest{PageSize: &size}), 10)
	}
	killed := []sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_KILLED}
	require.Equal(t, []string{"b/3"}, list(&sluicev1.ListTasksRequest{States: killed}))
	require.Equal(t, []string{"b/0", "b/1", "b/2", "b/3", "b/4"}, list(&sluicev1.ListTasksRequest{Pool: "root/p"}))
	require.Len(t, list(&sluicev1.ListTasksRequest{Pool: "root"}), 10)
	require.Empty(t, list(&sluicev1.ListTasksRequest{Pool: "root/default", Job: "b"}))
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Pool: "root/ghost"})
	requireViolation(t, err, codes.NotFound, "pool", "there is no such pool")
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Pool: "p"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Host: "s/h"})
	require.Equal(t, codes.NotFound, status.Code(err))
	a.addHost(t, "s/idle", 0)
	require.Empty(t, list(&sluicev1.ListTasksRequest{Host: "s/idle"}))
	a.addHost(t, "s/h", 2)
	require.Eventually(t, func() bool { return len(list(&sluicev1.ListTasksRequest{Host: "s/h"})) == 2 }, 10*time.Second, time.Millisecond)
	_, err = a.tasks.ListTasks(t.Context(), &sluicev1.ListTasksRequest{Job: "ghost"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func TestHosts(t *testing.T) {
	a := newAPITest(t)
	for i := range 5 {
		a.addHost(t, cluster.HostID(fmt.Sprintf("s/h%d", i)), 1)
	}
	list := func(r *sluicev1.ListHostsRequest) []string {
		var got []string
		for _, h := range pages(t, func(token string) (*sluicev1.ListHostsResponse, error) {
			r.PageToken = token
			return a.hosts.ListHosts(t.Context(), r)
		}, (*sluicev1.ListHostsResponse).GetHosts) {
			got = append(got, h.Name)
		}
		return got
	}
	require.Equal(t, []string{"s/h0", "s/h1", "s/h2", "s/h3", "s/h4"}, list(&sluicev1.ListHostsRequest{PageSize: proto.Uint32(2)}))
	require.Empty(t, list(&sluicev1.ListHostsRequest{Zone: "z2"}))
	require.Len(t, list(&sluicev1.ListHostsRequest{Zone: "z1", Rack: "r1", Shard: "s"}), 5)

	drained, err := a.hosts.DrainHost(t.Context(), &sluicev1.DrainHostRequest{Name: "s/h3", Reason: "disk"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.HostState_HOST_STATE_DRAINED, drained.Host.State)
	require.Equal(t, "disk", drained.Host.Drain.Reason)
	require.Equal(t, []string{"s/h3"}, list(&sluicev1.ListHostsRequest{States: []sluicev1.HostState{sluicev1.HostState_HOST_STATE_DRAINED}}))
	before := a.Snapshot().Seq()
	_, err = a.hosts.DrainHost(t.Context(), &sluicev1.DrainHostRequest{Name: "s/h3", Reason: "disk"})
	require.NoError(t, err)
	require.Equal(t, before, a.Snapshot().Seq())
	resumed, err := a.hosts.ResumeHost(t.Context(), &sluicev1.ResumeHostRequest{Name: "s/h3"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.HostState_HOST_STATE_UP, resumed.Host.State)
	got, err := a.hosts.GetHost(t.Context(), &sluicev1.GetHostRequest{Name: "s/h3"})
	require.NoError(t, err)
	require.Equal(t, int64(1000), got.Host.Capacity.Total.CpuMilli)
}

// A host that is being drained says what is still there and why; of jobs that the caller may not see only how many tasks. What is over by the
// deadline leaves then.
func TestWhatKeepsAHostFromBeingDrained(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	ops := a.as(t, "olga", "ops")
	a.addHost(t, "s/h", 8)
	events := []cluster.Event{&cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}}}
	for uid, spec := range []*cluster.JobSpec{
		{Name: "anns", Owner: "ann", Type: cluster.Stateless, Instances: 3},
		{Name: "bobs", Owner: "bob", Type: cluster.Stateful, Instances: 1},
		{Name: "more", Owner: "bob", Type: cluster.Batch, Instances: 1},
	} {
		spec.Pool = cluster.DefaultPool
		events = append(events, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: cluster.JobUID(uid + 1), Spec: spec}}})
		for i := range spec.Instances {
			k := cluster.MakeTaskKey(cluster.JobUID(uid+1), i)
			events = append(events, &cluster.Placed{Task: k, Run: 1, Host: "s/h"}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
		}
	}
	a.emit(t, events...)
	seen := func(ctx context.Context) (lines []string) {
		res, err := a.hosts.GetHost(ctx, &sluicev1.GetHostRequest{Name: "s/h"})
		require.NoError(t, err)
		for _, r := range res.Host.Remaining {
			lines = append(lines, fmt.Sprintf("%d %s %s", r.Tasks, r.Job, strings.TrimPrefix(r.Reason.String(), "STAY_REASON_")))
		}
		return lines
	}
	require.Empty(t, seen(ops), "nobody drains it")
	drained, err := a.hosts.DrainHost(ops, &sluicev1.DrainHostRequest{Name: "s/h", Move: true, Deadline: durationpb.New(time.Hour)})
	require.NoError(t, err)
	require.True(t, drained.Host.Drain.Move)
	require.WithinDuration(t, time.Now().Add(time.Hour), drained.Host.Drain.Deadline.AsTime(), time.Minute)
	require.Len(t, drained.Host.Remaining, 4)
	require.Equal(t, []string{"1 anns LEAVING", "2 anns AVAILABILITY", "1 bobs BOUND", "1 more NOT_PREEMPTIBLE"}, seen(ops))
	require.Equal(t, []string{"1  BOUND", "1  NOT_PREEMPTIBLE", "1 anns LEAVING", "2 anns AVAILABILITY"}, seen(a.as(t, "ann")))
	list, err := a.hosts.ListHosts(ops, &sluicev1.ListHostsRequest{})
	require.NoError(t, err)
	require.Empty(t, list.Hosts[0].Remaining)

	_, err = a.hosts.DrainHost(ops, &sluicev1.DrainHostRequest{Name: "s/h", Deadline: durationpb.New(0)})
	require.NoError(t, err)
	require.Equal(t, []string{"3 anns LEAVING", "1 bobs LEAVING", "1 more LEAVING"}, seen(ops))
}

// A host that is gone for good is forgotten once nothing is known to run there, and with the last one its shard.
func TestForgetHosts(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/a", 1)
	a.addHost(t, "s/b", 1)
	key := cluster.MakeTaskKey(1, 0)
	a.emit(t, &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{
		UID: 1, Spec: &cluster.JobSpec{Name: "job", Pool: cluster.DefaultPool, Instances: 1},
	}}}, &cluster.Placed{Task: key, Run: 1, Host: "s/a"}, &cluster.HostDrain{ID: "s/b", Drain: true})
	forget := func(name string) error {
		res, err := a.hosts.ForgetHost(t.Context(), &sluicev1.ForgetHostRequest{Name: name})
		if err == nil {
			require.Equal(t, name, res.Name)
		}
		return err
	}
	refused := func(name, why string) {
		err := forget(name)
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, why)
	}
	refused("s/b", "it is not unreachable")
	a.emit(t, &cluster.HostUnreached{ID: "s/a"}, &cluster.HostUnreached{ID: "s/b"})
	refused("s/a", "and has 1 task: what it has is given up 5m0s (scheduler.lost_after) after that")
	require.NoError(t, forget("s/b"), "also where it is drained")
	require.Equal(t, codes.NotFound, status.Code(forget("s/b")))
	_, _ = a.shards.away("s", a.now())
	require.Len(t, a.Shards(), 1)
	a.emit(t, &cluster.TaskStatus{Task: key, Run: 1, State: cluster.TaskLost})
	require.NoError(t, forget("s/a"))
	require.Zero(t, a.Snapshot().NumHosts())
	require.Empty(t, a.Shards())
	a.shards.detach(&sluicev1.BulkHello{Shard: "s"}, &bulk{}) // whose stream went on
	a.takeUsage("s", nil)
	require.ErrorIs(t, a.ReadLog(t.Context(), "s/a", &sluicev1.LogRequest{}, nil), ErrShardAway)
	require.Empty(t, a.Shards(), "nobody who asks brings it back")
}

func TestPools(t *testing.T) {
	a := newAPITest(t)
	create := func(path string) *sluicev1.Pool {
		answer, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{
			Spec: &sluicev1.PoolSpec{Path: path, Labels: map[string]string{"team": "x"}},
		})
		require.NoError(t, err)
		return answer.Pool
	}
	require.True(t, create("root/a").Leaf)
	create("root/a/b")
	create("root/ab")
	spec := sleepJob("job")
	spec.Pool, spec.Instances = "root/a/b", proto.Uint32(4)
	a.submit(t, spec)
	list := pages(t, func(token string) (*sluicev1.ListPoolsResponse, error) {
		return a.pools.ListPools(t.Context(), &sluicev1.ListPoolsRequest{Path: "root/a", PageSize: proto.Uint32(1), PageToken: token})
	}, (*sluicev1.ListPoolsResponse).GetPools)
	require.Len(t, list, 2)
	for _, p := range list {
		require.Equal(t, uint64(1), p.ActiveJobs)
		require.Equal(t, uint64(4), p.WaitingTasks)
		require.Equal(t, p.Spec.Path == "root/a/b", p.Leaf)
		require.Equal(t, "cpu_milli", p.Dimensions[0].Dimension)
		require.Equal(t, int64(4000), p.Dimensions[0].Demand)
	}
	_, err := a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: "root/a"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Contains(t, err.Error(), "pools below it")
	_, err = a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: "root/a/b"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Contains(t, err.Error(), `it has jobs, such as "job"`)
	_, err = a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: "root/ab", ExpectedVersion: proto.Uint64(1)})
	require.NoError(t, err)

	updated, err := a.pools.UpdatePool(t.Context(), &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a"}, ExpectedVersion: 1})
	require.NoError(t, err)
	require.Equal(t, uint64(2), updated.Pool.Version)
	require.Empty(t, updated.Pool.Spec.Labels)
}

func TestExplain(t *testing.T) {
	a := newAPITest(t)
	huge := sleepJob("huge")
	huge.Task.Resources.CpuMilli = 5000
	picky := sleepJob("picky")
	picky.Constraints = []*sluicev1.ConstraintRule{{Expression: hostLabel("zone", "z9", sluicev1.LabelConstraint_GREATER, 0)}}
	for _, spec := range []*sluicev1.JobSpec{huge, picky} {
		a.submit(t, spec)
	}
	a.addHost(t, "s/h", 1)
	a.submit(t, sleepJob("first"))
	explain := func(job string) *sluicev1.ExplainTaskResponse {
		answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: job})
		require.NoError(t, err)
		return answer
	}
	require.Eventually(t, func() bool { return explain("first").GetPlaced().GetHost() == "s/h" }, 10*time.Second, time.Millisecond)
	a.submit(t, sleepJob("second"))
	for job, want := range map[string]struct{ reason, host, detail string }{
		"huge":   {"NO_HOST_FITS", "TOO_SMALL", "cpu_milli"},
		"picky":  {"NO_HOST_FITS", "CONSTRAINT_MISMATCH", "zone=z9"},
		"second": {"NO_ROOM", "NO_ROOM", "cpu_milli"},
	} {
		var w *sluicev1.WaitingExplanation
		require.Eventually(t, func() bool {
			w = explain(job).GetWaiting()
			return w.GetReason() == want.reason
		}, 10*time.Second, time.Millisecond, job)
		require.Equal(t, uint64(1), w.Hosts)
		require.Len(t, w.Tally, 1)
		require.Equal(t, want.host, w.Tally[0].Reason)
		require.Equal(t, want.detail, w.Tally[0].Detail)
		require.Equal(t, uint64(1), w.Tally[0].Hosts)
		require.Len(t, w.Unblockers, 1)
	}
	for _, task := range a.listTasks(t) {
		w := explain(task.Job).GetWaiting()
		if w != nil {
			w.QueuePosition, w.QueueLength, w.CheapestBlocked, w.Unblockers, w.Cycle, w.Time = 0, 0, nil, nil, 0, nil
		}
		require.True(t, proto.Equal(w, task.Waiting), "%v: %v", w, task)
		one, err := a.tasks.GetTask(t.Context(), &sluicev1.GetTaskRequest{Explain: true, Job: task.Job})
		require.NoError(t, err)
		plain, err := a.tasks.GetTask(t.Context(), &sluicev1.GetTaskRequest{Job: task.Job})
		require.NoError(t, err)
		require.Nil(t, plain.Task.Waiting, "nobody asked")
		require.True(t, proto.Equal(w, one.Task.Waiting), "%v: %v", w, one)
	}
	require.Contains(t, explain("huge").Summary, "1 has too little cpu_milli, even empty")
	require.Contains(t, explain("huge").Summary, "a host that its rules allow and that has cpu_milli=7000 memory_bytes=3145728, with what the 2 others that may go there first ask for")
	require.Contains(t, explain("second").Summary, "would help: cpu_milli=")
	require.Equal(t, "s/h", explain("second").GetWaiting().GetCheapestBlocked().GetHost())

	_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "huge"})
	require.NoError(t, err)
	require.Equal(t, "TASK_STOPPED", explain("huge").GetEnded().GetReason())
}

func TestEveryReasonHasWords(t *testing.T) {
	for _, r := range []cycle.HostReason{
		cycle.HostDraining, cycle.HostUnreachable, cycle.HostMismatch, cycle.HostWrongGPU, cycle.HostIncapable, cycle.HostTooSmall, cycle.HostFull, cycle.HostOpen,
		cycle.HostExclusive, cycle.HostOutside, cycle.HostCrowded, cycle.HostLonely, cycle.HostUneven, cycle.HostNoDomain,
	} {
		require.NotEmpty(t, hostReasons[string(r)], r)
	}
}

// watcher replays a WatchJobs stream into the view that a client has.
type watcher struct {
	stream   grpc.ServerStreamingClient[sluicev1.WatchJobsResponse]
	jobs     map[uint32]*sluicev1.Job
	tasks    map[string]sluicev1.TaskState
	revision uint64
	fresh    int // jobs that were sent
}

func (a *apiTest) watch(t *testing.T, ctx context.Context, r *sluicev1.WatchJobsRequest, from *watcher) *watcher {
	t.Helper()
	w := &watcher{jobs: map[uint32]*sluicev1.Job{}, tasks: map[string]sluicev1.TaskState{}}
	var old map[uint32]*sluicev1.Job
	if from != nil {
		r.AfterRevision, old = from.revision, from.jobs
	}
	var err error
	w.stream, err = a.jobs.WatchJobs(ctx, r)
	require.NoError(t, err)
	for synced := false; !synced; {
		m := w.next(t)
		for _, uid := range m.Unchanged {
			require.Contains(t, old, uid)
			w.jobs[uid] = old[uid]
		}
		synced = m.Synced
	}
	return w
}

func (w *watcher) next(t *testing.T) *sluicev1.WatchJobsResponse {
	t.Helper()
	m, err := w.stream.Recv()
	require.NoError(t, err)
	for _, j := range m.Jobs {
		w.jobs[j.Uid] = j
		w.fresh++
	}
	for _, task := range m.Tasks {
		w.tasks[fmt.Sprintf("%s/%d", task.Job, task.Instance)] = task.State
	}
	for _, uid := range m.Gone {
		delete(w.jobs, uid)
	}
	w.revision = max(w.revision, m.Revision)
	return m
}

func (w *watcher) names() map[string]sluicev1.JobState {
	names := map[string]sluicev1.JobState{}
	for _, j := range w.jobs {
		names[j.Name] = j.State
	}
	return names
}

func TestWatchJobs(t *testing.T) {
	a := newAPITest(t)
	const (
		pending = sluicev1.JobState_JOB_STATE_PENDING
		killed  = sluicev1.JobState_JOB_STATE_KILLED
	)
	for i := range 4 {
		a.submit(t, sleepJob(fmt.Sprintf("old-%d", i)))
	}
	a.submit(t, sleepJob("other"))
	filter := &sluicev1.JobFilter{NamePrefix: "old-"}
	ctx, cancel := context.WithCancel(t.Context())
	w := a.watch(t, ctx, &sluicev1.WatchJobsRequest{Filter: filter, IncludeTasks: true}, nil)
	require.Equal(t, map[string]sluicev1.JobState{"old-0": pending, "old-1": pending, "old-2": pending, "old-3": pending}, w.names())
	require.Len(t, w.tasks, 4)

	// Changes arrive; what does not match does not.
	a.submit(t, sleepJob("other-2"))
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "old-1"})
	require.NoError(t, err)
	for w.names()["old-1"] != killed {
		w.next(t)
	}
	require.Equal(t, sluicev1.TaskState_TASK_STATE_KILLED, w.tasks["old-1/0"])
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "old-1"})
	require.NoError(t, err)
	for len(w.jobs) == 4 {
		w.next(t)
	}
	require.NotContains(t, w.names(), "old-1")
	cancel()

	// While the client is away a job changes, one goes and one comes.
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "old-2"})
	require.NoError(t, err)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "old-3"})
	require.NoError(t, err)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "old-3"})
	require.NoError(t, err)
	a.submit(t, sleepJob("old-4"))
	again := a.watch(t, t.Context(), &sluicev1.WatchJobsRequest{Filter: filter}, w)
	require.Equal(t, map[string]sluicev1.JobState{"old-0": pending, "old-2": killed, "old-4": pending}, again.names())
	require.Equal(t, 2, again.fresh, "old-0 has not changed and need not be sent")
}

// A job that stops to match is gone, and one that begins to match comes with all its tasks.
func TestWatchJobsByState(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	pending := a.watch(t, t.Context(), &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{
		States: []sluicev1.JobState{sluicev1.JobState_JOB_STATE_PENDING},
	}}, nil)
	killed := a.watch(t, t.Context(), &sluicev1.WatchJobsRequest{IncludeTasks: true, Filter: &sluicev1.JobFilter{
		States: []sluicev1.JobState{sluicev1.JobState_JOB_STATE_KILLED},
	}}, nil)
	require.Len(t, pending.jobs, 1)
	require.Empty(t, killed.jobs)
	_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: "job", Instance: 0})
	require.NoError(t, err)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job"})
	require.NoError(t, err)
	for len(pending.jobs) > 0 {
		pending.next(t)
	}
	for len(killed.tasks) < 2 {
		killed.next(t)
	}
	require.Len(t, killed.jobs, 1)
}

func TestWatchJobsInParts(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(40_000)
	a.submit(t, spec)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := a.watch(t, ctx, &sluicev1.WatchJobsRequest{IncludeTasks: true}, nil)
	require.Len(t, w.tasks, 40_000)
}

// A cycle tells what was done of its plan: that a part of it was refused takes nothing from the rest.
func TestWhatBecameOfAPlan(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/a", 1)
	a.addHost(t, "s/b", 1)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	first, second, none := cluster.MakeTaskKey(1, 0), cluster.MakeTaskKey(1, 1), cluster.MakeTaskKey(9, 0)
	require.Eventually(t, func() bool { return a.Snapshot().Task(second).State == cluster.TaskPlaced }, 10*time.Second, time.Millisecond)
	leave := func(k cluster.TaskKey) *cluster.TaskPreempted { return &cluster.TaskPreempted{Task: k, Run: 1} }
	done, refused, err := a.commitPlan(t.Context(), [][]cluster.Event{
		{leave(first)},
		{leave(none)},
		{&cluster.Placed{Task: none, Run: 1, Host: "s/a"}},
		{&cluster.TaskHeld{Task: none}, leave(second), leave(none)},
	})
	require.NoError(t, err)
	require.Equal(t, 5, refused)
	require.Equal(t, Done{Preemptions: 1}, done)
	told := cycleTo(&CycleSummary{Number: 1, Conflicts: refused, Done: done}, "")
	require.Equal(t, []uint32{0, 1, 0}, []uint32{told.Placements, told.Preemptions, told.Migrations})
}

func TestClusterStatusAndCycles(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 2)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(3)
	a.submit(t, spec)
	cycles, err := a.cluster.WatchCycles(t.Context(), &sluicev1.WatchCyclesRequest{})
	require.NoError(t, err)
	placed := uint32(0)
	var last *sluicev1.CycleSummary
	for seen := uint64(0); ; {
		m, err := cycles.Recv()
		require.NoError(t, err)
		require.Greater(t, m.Cycle.Number, seen)
		seen, last = m.Cycle.Number, m.Cycle
		placed += last.Placements
		if last.Waiting == 1 {
			break
		}
	}
	var sum int64
	for _, p := range last.Phases {
		sum += p.DurationUs
	}
	require.InDelta(t, last.TotalUs, sum, float64(len(last.Phases)), "the phases make up the cycle, up to rounding")
	got, err := a.cluster.GetStatus(t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
	require.Equal(t, a.Snapshot().ClusterID(), got.ClusterId)
	require.Equal(t, "test", got.Version)
	require.Equal(t, uint64(1), got.ActiveJobs)
	require.Equal(t, uint64(1), got.WaitingTasks)
	require.Equal(t, uint64(2), got.RunningTasks, "also while they are launched: they have what is allocated")
	require.Equal(t, uint64(1), got.HostsUp)
	states := &sluicev1.GetStatusResponse{
		JobCounts: []*sluicev1.JobStateCount{{State: sluicev1.JobState_JOB_STATE_RUNNING, Count: 1}},
		TaskCounts: []*sluicev1.TaskStateCount{
			{State: sluicev1.TaskState_TASK_STATE_PENDING, Count: 1}, {State: sluicev1.TaskState_TASK_STATE_PLACED, Count: 2},
		},
		HostCounts: []*sluicev1.HostStateCount{{State: sluicev1.HostState_HOST_STATE_UP, Count: 1}},
	}
	require.True(t, proto.Equal(states, &sluicev1.GetStatusResponse{JobCounts: got.JobCounts, TaskCounts: got.TaskCounts, HostCounts: got.HostCounts}), "%v", got)
	require.Equal(t, int64(2000), got.Capacity.CpuMilli)
	require.Equal(t, int64(2000), got.Allocated.CpuMilli)
	require.NotNil(t, got.LastCycle)
	w := httptest.NewRecorder()
	a.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`sluice_capacity{dimension="cpu_milli"} 2000`, `sluice_allocated{dimension="cpu_milli"} 2000`,
		`sluice_tasks_asked_to_leave_total{why="preemption"} 0`,
	} {
		require.Contains(t, w.Body.String(), "\n"+line+"\n")
	}
}

// What an alert waits for the growth of is there before it grows.
func TestMetricsBeginWithZero(t *testing.T) {
	api, _ := tracedAPI(t, func(*Config) {})
	w := httptest.NewRecorder()
	api.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`sluice_task_runs_total{state="LOST"} 0`, `sluice_task_runs_total{state="FAILED"} 0`, `sluice_tasks_asked_to_leave_total{why="preemption"} 0`,
		`sluice_spans_total{outcome="lost"} 0`,
	} {
		require.Contains(t, w.Body.String(), "\n"+line+"\n")
	}
}

// The page about metrics has all of them, and no others. Some of those with labels are there once there is something to count.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	api, _ := tracedAPI(t, func(*Config) {})
	_, _ = api.shards.away("s", api.now()) // which lists it
	api.createPool(t, cpuClaim("root/a", 0, 1000))
	api.metrics.observe(&CycleSummary{})
	api.metrics.compare(&cycle.Comparison{})
	api.shards.mu.Lock()
	api.shards.list("s").control = &control{expires: time.Now()}
	api.shards.mu.Unlock()
	api.config.Identity = &Identity{Expires: time.Now}
	w := httptest.NewRecorder()
	api.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	names := func(pattern, text string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	served := names(`(?m)^# HELP (sluice_\w+)`, w.Body.String())
	require.NotEmpty(t, served)
	documented := names("`(sluice_\\w+)[`{]", string(page))
	slices.Sort(documented)
	require.ElementsMatch(t, served, slices.Compact(documented))
}

func TestExportSnapshot(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(5000)
	a.submit(t, spec)
	stream, err := a.cluster.ExportSnapshot(t.Context(), &sluicev1.ExportSnapshotRequest{})
	require.NoError(t, err)
	var raw []byte
	messages := 0
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Equal(t, messages == 0, m.Revision > 0)
		raw = append(raw, m.Data...)
		messages++
	}
	require.Greater(t, messages, 1)
	// The export is enough to build an equal state.
	state := cluster.NewState()
	for decoder := json.NewDecoder(bytes.NewReader(raw)); decoder.More(); {
		part := &cluster.Restored{}
		require.NoError(t, decoder.Decode(part))
		require.NoError(t, state.Apply(cluster.Record{Event: part}))
	}
	copied, _ := state.Snapshot()
	require.Equal(t, a.Snapshot().Seq(), copied.Seq())
	require.Equal(t, 5000, copied.NumTasks())
	require.Equal(t, a.Snapshot().JobByName("job"), copied.JobByName("job"))
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestDescribe(t *testing.T) {
	violations := func(code codes.Code) error {
		s, err := status.New(code, "2 violations").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "spec.name", Description: "is empty"},
			{Field: "spec.task", Description: "is missing"},
		}})
		require.NoError(t, err)
		return s.Err()
	}
	noField, err := status.New(codes.FailedPrecondition, "no key").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Description: "no key"}},
	})
	require.NoError(t, err)
	shard, err := status.New(codes.Unavailable, "its host manager is away").WithDetails(&errdetails.ResourceInfo{ResourceType: "host"})
	require.NoError(t, err)
	stalled, err := status.New(codes.Unavailable, "its disk hangs").WithDetails(&errdetails.ErrorInfo{Reason: serve.ReasonStalled, Domain: "sluice"})
	require.NoError(t, err)
	c := &client{server: "there:1"}
	for name, test := range map[string]struct {
		err  error
		code int
		text string
	}{
		"violations":    {violations(codes.InvalidArgument), exitRefused, "spec.name: is empty\nsluice: spec.task: is missing"},
		"no field":      {noField.Err(), exitConflict, "no key"},
		"not yet":       {violations(codes.Unimplemented), exitRefused, "spec.name: is empty\nsluice: spec.task: is missing"},
		"unknown call":  {status.Error(codes.Unimplemented, "unknown method"), exitRefused, "this scheduler cannot do that yet: unknown method"},
		"not found":     {status.Error(codes.NotFound, "no job x"), exitNotFound, "no job x"},
		"exists":        {status.Error(codes.AlreadyExists, "job x exists"), exitConflict, "job x exists"},
		"version":       {status.Error(codes.Aborted, "version 2"), exitConflict, "version 2"},
		"ended":         {status.Error(codes.FailedPrecondition, "has ended"), exitConflict, "has ended"},
		"too large":     {status.Error(codes.ResourceExhausted, "larger than 4 MiB"), exitRefused, "larger than 4 MiB"},
		"away":          {status.Error(codes.Unavailable, "EOF"), exitUnavailable, "the scheduler at there:1 went away: EOF"},
		"shard away":    {shard.Err(), exitUnavailable, "its host manager is away"},
		"stalled":       {stalled.Err(), exitUnavailable, "its disk hangs"},
		"slow":          {status.Error(codes.DeadlineExceeded, "x"), exitUnavailable, "the scheduler at there:1 did not answer in time"},
		"interrupted":   {status.Error(codes.Canceled, "x"), exitInterrupted, "interrupted"},
		"fault":         {status.Error(codes.Internal, "a bug"), exitFailure, "a bug"},
		"has code":      {exitError{exitNotFound, errors.New("gone")}, exitNotFound, "gone"},
		"no status":     {errors.New("disk full"), exitFailure, "disk full"},
		"nothing wrong": {nil, exitOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.describe(test.err)
			if test.code == exitOK {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.text)
			var e exitError
			if errors.As(err, &e) {
				require.Equal(t, test.code, e.code)
			} else {
				require.Equal(t, test.code, exitFailure)
			}
		})
	}
}

// What no message of the API can hold is refused with the field that it was meant for.
func TestArgumentsThatAreNoText(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SERVER", serveFake(t, func(grpc.ServiceRegistrar) {}))
	for want, line := range map[string]string{
		`name: "a\xff" is not UTF-8`:           "job get a\xff",
		`--owner: "\xff" is not UTF-8`:         "job list --owner \xff",
		`--label["a"]: "\xff" is not UTF-8`:    "job stop --label a=\xff",
		`--label["\xff"]: "\xff" is not UTF-8`: "job list --label \xff=1",
		`NAME[1]: "\xff" is not UTF-8`:         "job wait a \xff",
		`NAME[0]: "\xff" is not UTF-8`:         "job watch \xff",
		`job: "a\xff" is not UTF-8`:            "task logs a\xff/0 -f",
		`NAME: "a\xff" is not UTF-8`:           "job run a\xff -- true",
	} {
		require.Equal(t, answer{exitUsage, "", "sluice: " + want + "\n"}, try(t, "", strings.Fields(line)...), line)
	}
}

// flaky serves output in pieces and watches of one job, and breaks every stream off after a few messages.
type flaky struct {
	sluicev1.UnimplementedTaskServiceServer
	sluicev1.UnimplementedJobServiceServer
	output    string
	broken    error // why streams break off; errBroken if nil
	requests  []*sluicev1.TaskLogsRequest
	revisions []uint64
}

var errBroken = status.Error(codes.Unavailable, "broken")

func (f *flaky) TaskLogs(req *sluicev1.TaskLogsRequest, stream sluicev1.TaskService_TaskLogsServer) error {
	f.requests = append(f.requests, req)
	from := req.GetStdoutOffset()
	for sent := 0; from < int64(len(f.output)); sent++ {
		if sent == 2 {
			return cmp.Or(f.broken, errBroken)
		}
		to := min(from+3, int64(len(f.output)))
		err := stream.Send(&sluicev1.TaskLogsResponse{
			Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Data: []byte(f.output[from:to]), Offset: from, Run: 4,
		})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (f *flaky) WatchJobs(req *sluicev1.WatchJobsRequest, stream sluicev1.JobService_WatchJobsServer) error {
	f.revisions = append(f.revisions, req.GetAfterRevision())
	n := uint64(len(f.revisions))
	job := &sluicev1.Job{Name: "a", Uid: 1, Revision: n, State: sluicev1.JobState_JOB_STATE_RUNNING, Spec: &sluicev1.JobSpec{}}
	switch n {
	case 1:
		err := stream.Send(&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job}, Revision: 7, Synced: true})
		return errors.Join(err, errBroken)
	case 2:
		err := stream.Send(&sluicev1.WatchJobsResponse{Unchanged: []uint32{1}, Revision: 7, Synced: true})
		return errors.Join(err, errBroken)
	}
	job.State = sluicev1.JobState_JOB_STATE_SUCCEEDED
	return stream.Send(&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job}, Revision: 9, Synced: true})
}

// serveFake starts a server, which ends with the test, and returns its address.
func serveFake(t *testing.T, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// serveFlaky starts a server of f and returns an app that is connected to it.
func serveFlaky(t *testing.T, f *flaky) (*app, *client, *bytes.Buffer) {
	t.Helper()
	address := serveFake(t, func(s grpc.ServiceRegistrar) {
		sluicev1.RegisterTaskServiceServer(s, f)
		sluicev1.RegisterJobServiceServer(s, f)
	})
	var notes bytes.Buffer
	a := &app{err: &notes, config: &config.Loaded{Config: config.Config{Server: address, Reconnect: time.Minute}}}
	c, err := a.connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.close)
	return a, c, &notes
}

func TestLogsGoOnWhereTheyBroke(t *testing.T) {
	f := &flaky{output: "the quick brown fox"}
	_, c, notes := serveFlaky(t, f)
	var got bytes.Buffer
	lines := uint32(3)
	req := &sluicev1.TaskLogsRequest{Job: "a", Tail: &sluicev1.TaskLogsRequest_TailLines{TailLines: lines}}
	require.NoError(t, c.logs(t.Context(), req, func(res *sluicev1.TaskLogsResponse) error {
		got.Write(res.GetData())
		return nil
	}))
	require.Equal(t, f.output, got.String())
	require.Len(t, f.requests, 4)
	require.Nil(t, f.requests[0].Run)
	require.Equal(t, lines, f.requests[0].GetTailLines())
	for i, r := range f.requests[1:] {
		require.EqualValues(t, 4, r.GetRun(), "a resumed stream is of the same run")
		require.EqualValues(t, 6*(i+1), r.GetStdoutOffset())
		require.Equal(t, lines, r.GetTailLines(), "for an output whose position is not known")
	}
	require.Contains(t, notes.String(), "is away, trying again for up to 1m0s\n")
}

// TestLogsInTheWay: a pager that stands still does not end what it shows, and a host manager that is away is named.
func TestLogsInTheWay(t *testing.T) {
	f := &flaky{output: "the quick brown fox", broken: status.Error(codes.DeadlineExceeded, "nothing was read for 30s")}
	_, c, notes := serveFlaky(t, f)
	var got bytes.Buffer
	handle := func(res *sluicev1.TaskLogsResponse) error { got.Write(res.GetData()); return nil }
	require.NoError(t, c.logs(t.Context(), &sluicev1.TaskLogsRequest{Job: "a"}, handle))
	require.Equal(t, f.output, got.String())
	require.Empty(t, notes.String())

	f.broken = status.Error(codes.ResourceExhausted, "not read for too long")
	got.Reset()
	require.NoError(t, c.logs(t.Context(), &sluicev1.TaskLogsRequest{Job: "a"}, handle))
	require.Equal(t, f.output, got.String())
	require.Empty(t, notes.String())
	c.tasks = refusing{err: f.broken}
	require.EqualError(t, c.logs(t.Context(), &sluicev1.TaskLogsRequest{Job: "a"}, handle), "not read for too long", "never begun")

	away, err := status.New(codes.Unavailable, "host h: away").WithDetails(&errdetails.ResourceInfo{ResourceType: "host"})
	require.NoError(t, err)
	c.tasks, c.reconnect = refusing{err: away.Err()}, 250*time.Millisecond
	require.EqualError(t, c.logs(t.Context(), &sluicev1.TaskLogsRequest{Job: "a"}, handle), "host h: away")
	require.EqualError(t, c.logs(t.Context(), &sluicev1.TaskLogsRequest{Job: "a", Follow: true}, handle), "the host manager has been away for 250ms")
	require.Equal(t, strings.Repeat("sluice: the host manager is away, trying again\n", 2), notes.String())
}

type refusing struct {
	sluicev1.TaskServiceClient
	err error
}

func (r refusing) TaskLogs(context.Context, *sluicev1.TaskLogsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.TaskLogsResponse], error) {
	return nil, r.err
}

func TestWaitGoesOnWhereItBroke(t *testing.T) {
	f := &flaky{}
	a, c, _ := serveFlaky(t, f)
	jobs, err := a.waitForJobs(t.Context(), c, []string{"a"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.JobState_JOB_STATE_SUCCEEDED, jobs[0].GetState())
	require.Equal(t, []uint64{0, 7, 7}, f.revisions)
}

// A watch goes on too when whoever reads it has stood still, and tells nobody twice what has not changed.
func TestAWatchThatIsReadSlowly(t *testing.T) {
	f := &impatient{patience: 1, jobs: []*sluicev1.Job{{Name: "a", Uid: 1, Revision: 3}, {Name: "b", Uid: 2, Revision: 4}, {Name: "c", Uid: 3, Revision: 5}}}
	_, c, notes := serveFlaky(t, &flaky{})
	c.jobs = f
	var told []string
	require.NoError(t, c.follow(t.Context(), nil, func(v *jobView, res *sluicev1.WatchJobsResponse) (bool, error) {
		for _, j := range res.GetJobs() {
			told = append(told, j.GetName())
		}
		return v.synced, nil
	}))
	require.Equal(t, []string{"a", "b", "c"}, told)
	require.Empty(t, notes.String())
	f.begun, f.patience = 0, 0
	require.EqualError(t, c.follow(t.Context(), nil, nil), "the scheduler at "+c.server+" did not answer in time", "never begun")
}

// impatient gives a watch up after one message, then after two and so on; after none if patience is 0.
type impatient struct {
	sluicev1.JobServiceClient
	grpc.ServerStreamingClient[sluicev1.WatchJobsResponse]
	jobs            []*sluicev1.Job
	begun, patience int
	sent            int
}

func (f *impatient) WatchJobs(context.Context, *sluicev1.WatchJobsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.WatchJobsResponse], error) {
	f.begun++
	f.sent = 0
	return f, nil
}

func (f *impatient) Recv() (*sluicev1.WatchJobsResponse, error) {
	if f.sent == f.begun*f.patience {
		return nil, status.Error(codes.DeadlineExceeded, "nothing was read for 30s")
	}
	res := &sluicev1.WatchJobsResponse{Jobs: f.jobs[f.sent : f.sent+1 : f.sent+1]}
	f.sent++
	if f.sent == len(f.jobs) {
		res.Revision, res.Synced = 9, true
	}
	return res, nil
}

// Endpoints that are the same when the scheduler is back are not shown again.
func TestWatchingEndpoints(t *testing.T) {
	_, c, _ := serveFlaky(t, &flaky{})
	c.places = &moving{ports: []uint32{1, 1, 2}}
	var shown []uint32
	err := c.watchEndpoints(t.Context(), nil, func(all *sluicev1.ListEndpointsResponse) error {
		shown = append(shown, all.GetEndpoints()[0].GetPort())
		return nil
	})
	require.EqualError(t, err, "no more")
	require.Equal(t, []uint32{1, 2}, shown)
}

// moving breaks a watch after each message.
type moving struct {
	sluicev1.DiscoveryServiceClient
	grpc.ServerStreamingClient[sluicev1.ListEndpointsResponse]
	ports []uint32
	told  bool
}

func (f *moving) WatchEndpoints(context.Context, *sluicev1.ListEndpointsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.ListEndpointsResponse], error) {
	f.told = false
	return f, nil
}

func (f *moving) Recv() (*sluicev1.ListEndpointsResponse, error) {
	if f.told {
		return nil, errBroken
	}
	if len(f.ports) == 0 {
		return nil, status.Error(codes.NotFound, "no more")
	}
	res := &sluicev1.ListEndpointsResponse{Endpoints: []*sluicev1.Endpoint{{Port: f.ports[0]}}}
	f.ports, f.told = f.ports[1:], true
	return res, nil
}

func TestWaitForWhatIsNotThere(t *testing.T) {
	a, c, _ := serveFlaky(t, &flaky{})
	_, err := a.waitForJobs(t.Context(), c, []string{"a", "b"})
	require.EqualError(t, err, "job b does not exist, or has been deleted")
}

// A job that has ended is known to have, also when it has been deleted since, and another one has its name.
func TestWaitForJobsThatGoWhenTheyHaveEnded(t *testing.T) {
	job := func(name string, uid uint32, s sluicev1.JobState) *sluicev1.Job {
		return &sluicev1.Job{Name: name, Uid: uid, State: s, Revision: uint64(s)}
	}
	const running, succeeded, failed = sluicev1.JobState_JOB_STATE_RUNNING, sluicev1.JobState_JOB_STATE_SUCCEEDED, sluicev1.JobState_JOB_STATE_FAILED
	first := &sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job("a", 1, running), job("b", 2, running)}, Synced: true, Revision: 1}
	last := &sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job("b", 2, failed)}, Revision: 9}
	wait := func(between ...*sluicev1.WatchJobsResponse) ([]*sluicev1.Job, error) {
		a, c, _ := serveFlaky(t, &flaky{})
		c.jobs = &telling{messages: append(append([]*sluicev1.WatchJobsResponse{first}, between...), last)}
		return a.waitForJobs(t.Context(), c, []string{"a", "b"})
	}
	jobs, err := wait(
		&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job("a", 1, succeeded)}, Revision: 2},
		&sluicev1.WatchJobsResponse{Gone: []uint32{1}, Revision: 3},
		&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job("a", 3, running)}, Revision: 4})
	require.NoError(t, err)
	require.EqualValues(t, 1, jobs[0].GetUid())
	require.Equal(t, succeeded, jobs[0].GetState())
	require.Equal(t, failed, jobs[1].GetState())

	_, err = wait(&sluicev1.WatchJobsResponse{Gone: []uint32{1}, Revision: 3})
	require.EqualError(t, err, "job a does not exist, or has been deleted", "nobody knows how it ended")
}

// telling tells one message of a watch after the other.
type telling struct {
	sluicev1.JobServiceClient
	grpc.ServerStreamingClient[sluicev1.WatchJobsResponse]
	messages []*sluicev1.WatchJobsResponse
}

func (f *telling) WatchJobs(context.Context, *sluicev1.WatchJobsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.WatchJobsResponse], error) {
	return f, nil
}

func (f *telling) Recv() (*sluicev1.WatchJobsResponse, error) {
	next := f.messages[0]
	f.messages = f.messages[1:]
	return next, nil
}

// Who watches is told which jobs are gone, also those that went while the scheduler was away.
func TestAWatchTellsWhoIsGone(t *testing.T) {
	noSettings(t)
	watch := func(output string) []string {
		server := serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, &leaving{}) })
		a := try(t, "", "job", "watch", "--server", server, "-o", output)
		require.Equal(t, exitRefused, a.code, a.err)
		return strings.Split(strings.TrimSpace(a.out), "\n")
	}
	table := watch("table")
	require.Len(t, table, 5)
	require.Regexp(t, `^\d\d:\d\d:\d\d  gone       b$`, table[3])
	require.Regexp(t, `^\d\d:\d\d:\d\d  gone       c$`, table[4])
	require.Equal(t, []string{`{"gone":[2],"revision":"8"}`, `{"unchanged":[1],"gone":[3],"revision":"9","synced":true}`}, watch("json")[1:])
}

// A name that was mistyped would be waited for in silence.
func TestAWatchTellsWhoIsNotThere(t *testing.T) {
	noSettings(t)
	server := serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, &leaving{}) })
	a := try(t, "", "job", "watch", "c", "typo", "a", "typo", "--server", server)
	const note = "sluice: job typo does not exist, or does not match: it is shown when that changes\n"
	require.True(t, strings.HasPrefix(a.err, note), a.err)
	require.Equal(t, 1, strings.Count(a.err, note), "of each once, also when the watch is taken up again")
	require.NotContains(t, a.err, "sluice: job a")
}

// leaving has three jobs, of which one goes while it is watched and one while nobody watches.
type leaving struct {
	sluicev1.UnimplementedJobServiceServer
	streams int
}

func (f *leaving) WatchJobs(_ *sluicev1.WatchJobsRequest, stream grpc.ServerStreamingServer[sluicev1.WatchJobsResponse]) error {
	f.streams++
	switch f.streams {
	case 1:
		return errors.Join(stream.Send(&sluicev1.WatchJobsResponse{
			Jobs: []*sluicev1.Job{{Uid: 1, Name: "a"}, {Uid: 2, Name: "b"}, {Uid: 3, Name: "c"}}, Revision: 7, Synced: true,
		}), stream.Send(&sluicev1.WatchJobsResponse{Gone: []uint32{2}, Revision: 8}), errBroken)
	case 2:
		return errors.Join(stream.Send(&sluicev1.WatchJobsResponse{Unchanged: []uint32{1}, Revision: 9, Synced: true}), errBroken)
	}
	return status.Error(codes.PermissionDenied, "no more")
}

// As many jobs can be waited for as can be stopped, though a watch takes only so many names.
func TestWaitForMoreJobsThanAWatchTakes(t *testing.T) {
	a, c, _ := serveFlaky(t, &flaky{})
	c.jobs = choosy{}
	names := make([]string, 2001)
	for i := range names {
		names[i] = fmt.Sprint("job-", i)
	}
	jobs, err := a.waitForJobs(t.Context(), c, names)
	require.NoError(t, err)
	require.Len(t, jobs, len(names))
	for i, j := range jobs {
		require.Equal(t, names[i], j.GetName())
	}
	_, err = a.waitForJobs(t.Context(), c, append(names, "gone"))
	require.EqualError(t, err, "job gone does not exist, or has been deleted")
}

// choosy has every job save one, and all have ended. It refuses what a scheduler refuses.
type choosy struct{ sluicev1.JobServiceClient }

func (choosy) WatchJobs(_ context.Context, req *sluicev1.WatchJobsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.WatchJobsResponse], error) {
	res := &sluicev1.WatchJobsResponse{Synced: true, Revision: 1}
	if len(req.GetFilter().GetNames()) > 1000 {
		return nil, status.Error(codes.InvalidArgument, "filter.names: too many")
	}
	for _, name := range req.GetFilter().GetNames() {
		number, err := strconv.Atoi(strings.TrimPrefix(name, "job-"))
		if err == nil {
			res.Jobs = append(res.Jobs, &sluicev1.Job{Name: name, Uid: uint32(number), State: sluicev1.JobState_JOB_STATE_KILLED})
		}
	}
	return &telling{messages: []*sluicev1.WatchJobsResponse{res}}, nil
}

func TestPersistGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine would take the millisecond by itself
		c := &client{server: "there:1", reconnect: time.Millisecond, notes: new(bytes.Buffer)}
		attempts := 0
		err := c.persist(t.Context(), func(func()) error { attempts++; return errBroken })
		require.EqualError(t, err, "the scheduler at there:1 has been away for 1ms")
		require.Equal(t, 2, attempts)
		attempts = 0
		err = c.persist(t.Context(), func(func()) error { attempts++; return status.Error(codes.NotFound, "none") })
		require.EqualError(t, err, "none")
		require.Equal(t, 1, attempts)
		ctx, cancel := context.WithCancel(t.Context())
		err = c.persist(ctx, func(func()) error { cancel(); return errBroken })
		require.Error(t, err)
	})
}

// Of one that stands by it is told who leads, not that it is away.
func TestPersistWithOneThatStandsBy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := serve.NewStandby(func() string { return "member n1 stands by: n2 leads, at there:1" },
		func() (string, string) { return "n2", "there:1" })
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	var notes bytes.Buffer
	a := &app{err: &notes, config: &config.Loaded{Config: config.Config{Server: l.Addr().String(), Reconnect: time.Second}}}
	c, err := a.connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.close)
	err = c.persist(t.Context(), func(func()) error {
		_, err := c.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{})
		return err
	})
	require.EqualError(t, err, "member n1 stands by: n2 leads, at there:1")
	require.Equal(t, exitUnavailable, codeOf(err))
	require.Equal(t, "sluice: member n1 stands by: n2 leads, at there:1, trying again for up to 1s\n", notes.String())

	_, err = c.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{}) // programs need not read the sentence
	require.Len(t, status.Convert(err).Details(), 1)
	info := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
	require.Equal(t, map[string]string{"leader": "n2", "address": "there:1"}, info.GetMetadata())
}

func TestJobView(t *testing.T) {
	job := func(uid uint32, name string) *sluicev1.Job { return &sluicev1.Job{Uid: uid, Name: name} }
	names := func(v *jobView) (all []string) {
		for _, uid := range []uint32{1, 2, 3} {
			if j := v.jobs[uid]; j != nil {
				all = append(all, j.GetName())
			}
		}
		return all
	}
	v := &jobView{jobs: map[uint32]*sluicev1.Job{}}
	v.begin()
	v.take(&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job(1, "a"), job(2, "b")}}) // more of the same revision follows
	require.False(t, v.synced)
	require.Zero(t, v.revision)
	v.take(&sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job(3, "c")}, Revision: 5, Synced: true})
	require.True(t, v.synced)
	require.Equal(t, []string{"a", "b", "c"}, names(v))
	v.take(&sluicev1.WatchJobsResponse{Gone: []uint32{2}, Revision: 6})
	require.Equal(t, []string{"a", "c"}, names(v))

	v.begin() // one was deleted while nobody watched
	require.False(t, v.synced)
	v.take(&sluicev1.WatchJobsResponse{Unchanged: []uint32{3}, Revision: 8, Synced: true})
	require.Equal(t, []string{"c"}, names(v))
	require.EqualValues(t, 8, v.revision)
	require.Nil(t, v.named([]string{"a"})[0])
}

// slowVolumes tells how long it may take.
type slowVolumes struct {
	sluicev1.UnimplementedVolumeServiceServer
	patience time.Duration
}

func (s *slowVolumes) DeleteVolume(ctx context.Context, _ *sluicev1.DeleteVolumeRequest) (*sluicev1.DeleteVolumeResponse, error) {
	until, _ := ctx.Deadline()
	s.patience = time.Until(until)
	return &sluicev1.DeleteVolumeResponse{}, nil
}

// The scheduler gives the host manager a minute to destroy a volume: who asked for that waits for what it says then.
func TestVolumesAreWaitedFor(t *testing.T) {
	noSettings(t)
	s := &slowVolumes{}
	server := serveFake(t, func(r grpc.ServiceRegistrar) { sluicev1.RegisterVolumeServiceServer(r, s) })
	require.Zero(t, try(t, "", "volume", "delete", "db", "--server", server).code)
	require.Greater(t, s.patience, time.Minute)
}

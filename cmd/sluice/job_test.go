package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Where the wait fails, what was stopped and what was refused before are told all the same.
func TestStopWhereTheWaitFails(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, unwatched{}) }))
	require.Equal(t, answer{exitNotFound, "job a is killing\n", "sluice: no job none\nsluice: nobody may watch\n"},
		try(t, "", "job", "stop", "a", "none", "--wait"))
	require.Equal(t, answer{exitRefused, "job a is killing\n", "sluice: nobody may watch\n"}, try(t, "", "job", "stop", "a", "--wait"))
}

// Who waits for a drain sees what is still there and why, until nothing is; a host that is resumed will not be drained.
func TestWaitForADrain(t *testing.T) {
	noSettings(t)
	rest := func(tasks uint32, why sluicev1.StayReason) *sluicev1.RemainingWork {
		return &sluicev1.RemainingWork{Job: "web", Tasks: tasks, Reason: why}
	}
	full := &sluicev1.Host{Name: "s/h", Tasks: 3, State: sluicev1.HostState_HOST_STATE_DRAINING, Drain: &sluicev1.Drain{}, Remaining: []*sluicev1.RemainingWork{
		rest(1, sluicev1.StayReason_STAY_REASON_LEAVING), rest(2, sluicev1.StayReason_STAY_REASON_AVAILABILITY),
	}}
	empty := &sluicev1.Host{Name: "s/h", State: sluicev1.HostState_HOST_STATE_DRAINED, Drain: &sluicev1.Drain{}}
	const leaving, stay = "1 task of job web: leaving", "2 tasks of job web: no more of its job may be unavailable (max_unavailable_instances)"
	waits := "host s/h: " + leaving + "; " + stay + "\n"
	for _, c := range []struct {
		args []string
		then *sluicev1.Host
		want answer
	}{
		{nil, empty, answer{exitOK, "host s/h is draining, tasks on it: 3\n  " + leaving + "\n  " + stay + "\n", ""}},
		{[]string{"--wait"}, empty, answer{exitOK, "host s/h is drained, tasks on it: 0\n", waits}},
		{[]string{"--wait"}, nil, answer{exitOK, "host s/h is drained, tasks on it: 0\n", waits + "sluice: the scheduler at SERVER is away, trying again for up to 5m0s\n"}},
		{[]string{"--wait"}, &sluicev1.Host{Name: "s/h", Tasks: 1}, answer{exitJobFailed, "", waits + "sluice: host s/h has been resumed\n"}},
	} {
		server := serveFake(t, func(s grpc.ServiceRegistrar) {
			sluicev1.RegisterHostServiceServer(s, &emptying{is: []*sluicev1.Host{full, full, c.then, empty}})
		})
		t.Setenv("SLUICE_SERVER", server)
		c.want.err = strings.ReplaceAll(c.want.err, "SERVER", server)
		require.Equal(t, c.want, try(t, "", append([]string{"host", "drain", "s/h", "--move"}, c.args...)...))
	}
}

// emptying is a host that is being drained, as it is each time that somebody asks; nil: the scheduler is away then.
type emptying struct {
	sluicev1.UnimplementedHostServiceServer
	is []*sluicev1.Host
}

func (e *emptying) next() *sluicev1.Host {
	h := e.is[0]
	e.is = e.is[1:]
	return h
}

func (e *emptying) DrainHost(context.Context, *sluicev1.DrainHostRequest) (*sluicev1.DrainHostResponse, error) {
	return &sluicev1.DrainHostResponse{Host: e.next()}, nil
}

func (e *emptying) GetHost(context.Context, *sluicev1.GetHostRequest) (*sluicev1.GetHostResponse, error) {
	h := e.next()
	if h == nil {
		return nil, status.Error(codes.Unavailable, "the scheduler is starting")
	}
	return &sluicev1.GetHostResponse{Host: h}, nil
}

// Who waits for the end of jobs is told of the first task that does not hear of it, once there is one.
func TestWhatCannotBeToldToEnd(t *testing.T) {
	at := func(instance uint32, host string) *sluicev1.Task {
		return &sluicev1.Task{Job: "a", Instance: instance, Host: host, State: sluicev1.TaskState_TASK_STATE_KILLING}
	}
	for want, tasks := range map[string][]*sluicev1.Task{
		"": {at(0, "s/near")},
		"sluice: task a/1 cannot be told to end, since host s/far is unreachable; see: sluice task explain a/1\n":              {at(0, "s/near"), at(1, "s/far")},
		"sluice: task a/1 (and 2 more) cannot be told to end, since host s/far is unreachable; see: sluice task explain a/1\n": {at(1, "s/far"), at(2, "s/far"), at(3, "s/far")},
	} {
		var notes bytes.Buffer
		c := &client{tasks: &writers{tasks: tasks}, hosts: unreachable{name: "s/far"}, notes: &notes}
		require.False(t, c.tellAway(t.Context(), nil))
		require.Equal(t, want != "", c.tellAway(t.Context(), []string{"a"}))
		require.Equal(t, want, notes.String())
	}
}

// unreachable is that host, and no other is.
type unreachable struct {
	sluicev1.HostServiceClient
	name string
}

func (u unreachable) ListHosts(context.Context, *sluicev1.ListHostsRequest, ...grpc.CallOption) (*sluicev1.ListHostsResponse, error) {
	return &sluicev1.ListHostsResponse{Hosts: []*sluicev1.Host{{Name: u.name}}}, nil
}

// Who waits until a job has ended waits for a scheduler that goes away too, whenever that is.
func TestStopGoesOnWhereItBroke(t *testing.T) {
	noSettings(t)
	jobs := &stumbling{}
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, jobs) }))
	a := try(t, "", "job", "stop", "a")
	require.Equal(t, exitUnavailable, a.code, a.err)
	jobs.stops = 0
	a = try(t, "", "job", "stop", "a", "--wait")
	require.Equal(t, answer{exitOK, "job a is killed\n", a.err}, a)
	require.Contains(t, a.err, " is away, trying again for up to 5m0s\n")
	jobs.stops, jobs.deletes = 0, 1
	a = try(t, "", "job", "delete", "a", "--stop")
	require.Equal(t, answer{exitOK, "job a deleted\n", a.err}, a)
	for _, jobs.deleted = range []bool{false, true} {
		jobs.stops, jobs.deletes = 1, 0
		a = try(t, "", "job", "delete", "a", "--stop")
		require.Equal(t, answer{exitOK, "job a deleted\n", a.err}, a)
		require.Equal(t, 2, jobs.deletes)
	}
}

// stumbling breaks off when it is asked to stop or to delete a job for the first time.
type stumbling struct {
	shop
	stops, deletes int
	deleted        bool // though it broke off
}

// DeleteJob is that of the shop from the second time on.
func (s *stumbling) DeleteJob(ctx context.Context, req *sluicev1.DeleteJobRequest) (*sluicev1.DeleteJobResponse, error) {
	if s.deletes++; s.deletes == 1 {
		if s.deleted {
			s.gone = req.GetName()
		}
		return nil, errBroken
	}
	return s.shop.DeleteJob(ctx, req)
}

func (s *stumbling) StopJob(_ context.Context, req *sluicev1.StopJobRequest) (*sluicev1.StopJobResponse, error) {
	if s.stops++; s.stops == 1 {
		return nil, errBroken
	}
	return &sluicev1.StopJobResponse{Job: &sluicev1.Job{Name: req.GetName(), State: sluicev1.JobState_JOB_STATE_KILLING}}, nil
}

// unwatched stops any job but "none", and lets nobody watch.
type unwatched struct {
	sluicev1.UnimplementedJobServiceServer
}

func (unwatched) StopJob(_ context.Context, req *sluicev1.StopJobRequest) (*sluicev1.StopJobResponse, error) {
	if req.GetName() == "none" {
		return nil, status.Error(codes.NotFound, "no job none")
	}
	return &sluicev1.StopJobResponse{Job: &sluicev1.Job{Name: req.GetName(), State: sluicev1.JobState_JOB_STATE_KILLING}}, nil
}

func (unwatched) WatchJobs(*sluicev1.WatchJobsRequest, grpc.ServerStreamingServer[sluicev1.WatchJobsResponse]) error {
	return status.Error(codes.PermissionDenied, "nobody may watch")
}

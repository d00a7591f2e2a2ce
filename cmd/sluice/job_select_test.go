package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// shop has jobs, three on a page, and remembers what was asked of it.
type shop struct {
	sluicev1.UnimplementedJobServiceServer
	jobs   []*sluicev1.Job
	filter *sluicev1.JobFilter
	did    []string
	gone   string // the name of one that went after it was listed and stopped
}

func (s *shop) ListJobs(_ context.Context, r *sluicev1.ListJobsRequest) (*sluicev1.ListJobsResponse, error) {
	s.filter = r.GetFilter()
	from := len(r.GetPageToken())
	to := min(from+3, len(s.jobs))
	res := &sluicev1.ListJobsResponse{Jobs: s.jobs[from:to]}
	if to < len(s.jobs) {
		res.NextPageToken = strings.Repeat("x", to)
	}
	return res, nil
}

func (s *shop) StopJob(_ context.Context, r *sluicev1.StopJobRequest) (*sluicev1.StopJobResponse, error) {
	s.did = append(s.did, "stop "+r.GetName())
	return &sluicev1.StopJobResponse{Job: &sluicev1.Job{Name: r.GetName(), State: sluicev1.JobState_JOB_STATE_KILLING}}, nil
}

func (s *shop) DeleteJob(_ context.Context, r *sluicev1.DeleteJobRequest) (*sluicev1.DeleteJobResponse, error) {
	s.did = append(s.did, "delete "+r.GetName())
	if r.GetName() == s.gone {
		return nil, status.Error(codes.NotFound, "there is no such job")
	}
	return &sluicev1.DeleteJobResponse{Revision: 9, Name: r.GetName()}, nil
}

// WatchJobs has that all jobs have ended that are there.
func (s *shop) WatchJobs(r *sluicev1.WatchJobsRequest, stream grpc.ServerStreamingServer[sluicev1.WatchJobsResponse]) error {
	res := &sluicev1.WatchJobsResponse{Revision: 1, Synced: true}
	for i, name := range r.GetFilter().GetNames() {
		if name != s.gone {
			res.Jobs = append(res.Jobs, &sluicev1.Job{Name: name, Uid: uint32(i), State: sluicev1.JobState_JOB_STATE_KILLED})
		}
	}
	return stream.Send(res)
}

// A job that was there and has gone when its turn comes, as when its time to be listed was over, is deleted as it was to be.
func TestJobsThatGoBeforeTheyAreDeleted(t *testing.T) {
	noSettings(t)
	s := &shop{gone: "j1"}
	for i := range 3 {
		s.jobs = append(s.jobs, &sluicev1.Job{Name: fmt.Sprint("j", i), State: sluicev1.JobState_JOB_STATE_FAILED, Spec: &sluicev1.JobSpec{}})
	}
	server := serveFake(t, func(r grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(r, s) })
	for _, line := range []string{"job delete --prefix j", "job delete --prefix j --stop", "job delete --stop j0 j1 j2"} {
		a := try(t, "", append(strings.Fields(line), "--server", server)...)
		require.Zero(t, a.code, "%s: %s", line, a.err)
		require.Equal(t, "job j0 deleted\njob j1 deleted\njob j2 deleted\n", a.out, line)
	}
	a := try(t, "", "job", "delete", "j0", "j1", "--server", server)
	require.Equal(t, answer{exitNotFound, "job j0 deleted\n", "sluice: there is no such job\n"}, a, "nothing told that it was there")
}

// What is selected is stopped or deleted, as far as that can be, from all pages; and nothing where it is only asked what that is.
func TestJobsAreSelected(t *testing.T) {
	noSettings(t)
	s := &shop{}
	for i := range 7 {
		state := sluicev1.JobState_JOB_STATE_RUNNING
		if i%2 == 1 {
			state = sluicev1.JobState_JOB_STATE_FAILED
		}
		s.jobs = append(s.jobs, &sluicev1.Job{Name: fmt.Sprint("j", i), State: state, Spec: &sluicev1.JobSpec{}})
	}
	server := serveFake(t, func(r grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(r, s) })
	for _, tt := range []struct {
		line      string
		did       string
		out, note string
	}{
		{"job stop --label app=a,team=b --pool root/a", "stop j0,stop j2,stop j4,stop j6", "job j0 is killing\njob j2 is killing\n", "3 of the 7 jobs that are selected have ended already"},
		{"job stop --owner ann --dry-run", "", "j6 ", ""},
		{"job stop --owner ann --dry-run -o json", "", `"name": "j6"`, ""},
		{"job delete --prefix j", "delete j1,delete j3,delete j5", "job j5 deleted\n", "4 of the 7 jobs that are selected have not ended: --stop ends them first"},
		{"job delete --prefix j -o json", "delete j1,delete j3,delete j5", `{"revision":"9","name":"j5"}`, ""},
		{"job delete --state failed --type batch --dry-run", "", "j5 ", ""},
		{"job stop j1 j0", "stop j1,stop j0", "job j1 is killing\n", ""},
	} {
		s.did = nil
		a := try(t, "", append(strings.Fields(tt.line), "--server", server)...)
		require.Zero(t, a.code, a.err)
		require.Equal(t, tt.did, strings.Join(s.did, ","), tt.line)
		require.Contains(t, a.out, tt.out)
		require.Contains(t, a.err, tt.note)
	}
	require.Equal(t, []sluicev1.JobState{sluicev1.JobState_JOB_STATE_FAILED}, s.filter.GetStates())
	require.Equal(t, []sluicev1.JobType{sluicev1.JobType_JOB_TYPE_BATCH}, s.filter.GetTypes())
	require.Zero(t, try(t, "", "job", "stop", "--label", "app=a,team=b", "--pool", "root/a", "--owner", "ann", "--prefix", "j", "--dry-run", "--server", server).code)
	require.Equal(t, map[string]string{"app": "a", "team": "b"}, s.filter.GetLabels())
	require.Equal(t, []string{"root/a", "ann", "j"}, []string{s.filter.GetPool(), s.filter.GetOwner(), s.filter.GetNamePrefix()})

	// A service that rests has not been stopped: it is selected, too.
	s.did = nil
	s.jobs[1].State, s.jobs[1].Spec.Type = sluicev1.JobState_JOB_STATE_KILLED, sluicev1.JobType_JOB_TYPE_STATELESS
	s.jobs[3].State, s.jobs[3].Spec.Type, s.jobs[3].Reason = sluicev1.JobState_JOB_STATE_KILLED, sluicev1.JobType_JOB_TYPE_STATELESS, "JOB_STOPPED"
	s.jobs[5].Spec.Type = sluicev1.JobType_JOB_TYPE_BATCH
	require.Contains(t, try(t, "", "job", "stop", "--prefix", "j", "--server", server).err, "2 of the 7 jobs that are selected have ended already")
	require.Equal(t, "stop j0,stop j1,stop j2,stop j4,stop j6", strings.Join(s.did, ","))

	// The answers of a selection are lines, also where it has one job.
	s.jobs = s.jobs[:1]
	require.Regexp(t, `^\{.*\}\n$`, try(t, "", "job", "stop", "--prefix", "j", "-o", "json", "--server", server).out)
	require.Regexp(t, `^\{\n`, try(t, "", "job", "stop", "j0", "-o", "json", "--server", server).out)

	s.jobs, s.did = nil, nil
	require.Equal(t, answer{0, "", "sluice: no job is selected\n"}, try(t, "", "job", "stop", "--wait", "--pool", "root/a", "--server", server))
	require.Empty(t, s.did)
	for _, line := range []string{
		"job stop j1 --label a=b", "job delete j1 --prefix j", "job stop j1 --dry-run", "job stop --owner ann --expected-version 3",
		"job stop", "job stop --cascade", "job delete --stop", "job stop --pool= --label a=b", "job delete --label=",
	} {
		require.Equal(t, exitUsage, try(t, "", append(strings.Fields(line), "--server", server)...).code, line)
		require.Empty(t, s.did, line)
	}
}

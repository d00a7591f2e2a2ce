package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What flags say of a job is what a file would say.
func TestAJobWithoutAFile(t *testing.T) {
	noSettings(t)
	a := try(t, "", "job", "run", "web", "--type", "stateless", "--instances", "3", "--cpu", "1.5", "--memory", "1Gi", "--disk", "2Gi", "--gpu", "0.25",
		"--pool", "root/a", "--priority", "7", "--env", "A=1,2", "--env", "B=", "--env", "C=x=y", "--label", "app=web", "--max-failures", "2",
		"--max-run-time", "1m30s", "--working-directory", "/srv", "--dry-run", "--", "./serve", "--port", "80", "a b")
	require.Zero(t, a.code, a.err)
	got, err := jobfile.Jobs("printed", []byte(a.out))
	require.NoError(t, err)
	want, err := jobfile.Jobs("written", []byte(`
name: web
type: stateless
pool: root/a
labels: {app: web}
instances: 3
priority: 7
limits: {max_run_time: 1m30s}
restart: {max_failures: 2}
task:
  processes:
    - argv: [./serve, --port, "80", a b]
      environment: {A: "1,2", B: "", C: x=y}
      working_directory: /srv
  resources: {cpu: 1.5, memory: 1Gi, disk: 2Gi, gpu: {milli: 250}}
`))
	require.NoError(t, err)
	require.Equal(t, want[0].String(), got[0].String())
	require.NotContains(t, try(t, "", "job", "run", "agent", "--type", "daemon", "--dry-run", "--", "true").out, "instances")
	require.Contains(t, try(t, "", "job", "run", "a", "--gpu", "2", "--dry-run", "--", "true").out, "count: 2")
}

// What no message of the API can hold is refused by its name.
func TestCommandsThatAreNoText(t *testing.T) {
	noSettings(t)
	for want, args := range map[string][]string{
		`sluice: COMMAND: "b\xff" is not UTF-8` + "\n": {"--", "a", "b\xff"},
		`sluice: --env: "A=\xff" is not UTF-8` + "\n":  {"--env", "A=\xff", "--", "a"},
	} {
		a := try(t, "", append([]string{"job", "run", "x", "--dry-run"}, args...)...)
		require.Equal(t, answer{exitUsage, "", want}, a)
	}
}

// What the scheduler says of fields is said of the flags that they come from.
func TestErrorsNameFlags(t *testing.T) {
	for from, to := range map[string]string{
		"spec.name: is bad\nsluice: spec.task.resources.gpu.count: is -1": "NAME: is bad\nsluice: --gpu: is -1",
		"spec.task.processes[0].argv.args: is required":                   "COMMAND: is required",
		`spec.labels["a b"]: is bad`:                                      `--label["a b"]: is bad`,
		`spec.task.processes[0].environment["SLUICE_X"]: is the server's`: `--env["SLUICE_X"]: is the server's`,
		"spec.kill_grace: is bad":                                         "spec.kill_grace: is bad",
		"the scheduler went away":                                         "the scheduler went away",
	} {
		err := flagged(exitError{exitRefused, errors.New(from)})
		require.EqualError(t, err, to)
		require.Equal(t, exitRefused, codeOf(err))
	}
	require.NoError(t, flagged(nil))
	require.Equal(t, exitJobFailed, codeOf(flagged(exitError{exitJobFailed, nil})))
}

// fussy refuses what its requests say.
type fussy struct {
	sluicev1.UnimplementedTaskServiceServer
	sluicev1.UnimplementedAccessServiceServer
	sluicev1.UnimplementedJobServiceServer
	sluicev1.UnimplementedPoolServiceServer
}

func (fussy) refuse(code codes.Code, fields ...string) error {
	bad := &errdetails.BadRequest{}
	for _, field := range fields {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: "is wrong"})
	}
	s, _ := status.New(code, "no").WithDetails(bad)
	return s.Err()
}

func (f fussy) ListTasks(context.Context, *sluicev1.ListTasksRequest) (*sluicev1.ListTasksResponse, error) {
	return nil, f.refuse(codes.InvalidArgument, "job", "host", "states[0]")
}

func (f fussy) GrantRole(context.Context, *sluicev1.GrantRoleRequest) (*sluicev1.GrantRoleResponse, error) {
	return nil, f.refuse(codes.InvalidArgument, "binding.user", "binding.pool")
}

func (f fussy) PlanJobs(context.Context, *sluicev1.PlanJobsRequest) (*sluicev1.PlanJobsResponse, error) {
	return nil, f.refuse(codes.InvalidArgument, "specs[0].name", "cost_model")
}

func (fussy) GetJob(context.Context, *sluicev1.GetJobRequest) (*sluicev1.GetJobResponse, error) {
	return &sluicev1.GetJobResponse{Job: &sluicev1.Job{Spec: &sluicev1.JobSpec{Name: "a"}}}, nil
}

func (f fussy) UpdateJob(context.Context, *sluicev1.UpdateJobRequest) (*sluicev1.UpdateJobResponse, error) {
	return nil, f.refuse(codes.InvalidArgument, "spec.gang", "spec.instances", "description")
}

func (f fussy) CreatePool(context.Context, *sluicev1.CreatePoolRequest) (*sluicev1.CreatePoolResponse, error) {
	return nil, f.refuse(codes.InvalidArgument, "spec.path", "spec.description")
}

// So it is of all commands; what a file or an argument says keeps its name.
func TestErrorsOfAllCommandsNameFlags(t *testing.T) {
	noSettings(t)
	server := serveFake(t, func(r grpc.ServiceRegistrar) {
		sluicev1.RegisterTaskServiceServer(r, fussy{})
		sluicev1.RegisterAccessServiceServer(r, fussy{})
		sluicev1.RegisterJobServiceServer(r, fussy{})
		sluicev1.RegisterPoolServiceServer(r, fussy{})
	})
	const file = "name: a\ntask: {processes: [{shell: x}]}\n"
	for command, fields := range map[string][]string{
		"task list":                  {"job", "--host", "--state"},
		"role grant viewer --user a": {"--user", "--pool"},
		"job plan -":                 {"specs[0].name", "--cost-model"},
		"job scale a 2":              {"spec.gang", "INSTANCES", "description"},
		"job update - --description what-is-done": {"spec.gang", "spec.instances", "--description"},
		"pool create root/a --description it":     {"PATH", "--description"},
	} {
		want := ""
		for _, field := range fields {
			want += "sluice: " + field + ": is wrong\n"
		}
		require.Equal(t, answer{exitRefused, "", want}, try(t, file, append(strings.Fields(command), "--server", server)...), command)
	}
}

// Who is attached to a job that fails ends as its command did.
func TestTheCodeOfACommand(t *testing.T) {
	for _, tt := range []struct {
		results []*sluicev1.RunResult
		code    int
	}{
		{nil, 0},
		{[]*sluicev1.RunResult{{}}, 0},
		{[]*sluicev1.RunResult{{ExitCode: proto.Int32(3)}, {ExitCode: proto.Int32(7)}, {ExitCode: proto.Int32(1)}}, 7},
		{[]*sluicev1.RunResult{{Signal: 15}, {ExitCode: proto.Int32(2)}}, 143},
		{[]*sluicev1.RunResult{{ExitCode: proto.Int32(-1)}, {ExitCode: proto.Int32(70_000)}, {Signal: 1 << 30}}, 0},
	} {
		w := &writers{}
		for _, r := range tt.results {
			w.tasks = append(w.tasks, &sluicev1.Task{State: sluicev1.TaskState_TASK_STATE_FAILED, Result: r})
		}
		require.Equal(t, tt.code, (&client{tasks: w}).commandCode(t.Context(), "job"), tt.results)
	}

	// So too where the scheduler goes away as soon as it has told that the job has failed.
	var notes bytes.Buffer
	w := &fleeting{writers: writers{tasks: []*sluicev1.Task{{State: sluicev1.TaskState_TASK_STATE_FAILED, Result: &sluicev1.RunResult{ExitCode: proto.Int32(7)}}}}}
	require.Equal(t, 7, (&client{tasks: w, server: "there:1", reconnect: time.Minute, notes: &notes}).commandCode(t.Context(), "job"))
	require.Equal(t, "sluice: the scheduler at there:1 is away, trying again for up to 1m0s\n", notes.String())
}

// fleeting is away when it is asked for the first time, and no longer.
type fleeting struct {
	writers
	away bool
}

func (f *fleeting) ListTasks(ctx context.Context, r *sluicev1.ListTasksRequest, o ...grpc.CallOption) (*sluicev1.ListTasksResponse, error) {
	if !f.away {
		f.away = true
		return nil, errBroken
	}
	return f.writers.ListTasks(ctx, r, o...)
}

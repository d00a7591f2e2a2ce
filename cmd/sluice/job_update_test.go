package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Who waits for an update is told how far it is and how it ends, and by the exit code whether it has brought what was asked for.
func TestWaitForAnUpdate(t *testing.T) {
	noSettings(t)
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	job := func(command string) string {
		return `name: web
type: stateless
instances: 2
restart: {backoff_initial: 0s}
limits: {max_unavailable_instances: 2}
update: {max_attempts: 1, max_failed_instances: 1, rollback_on_failure: true}
task: {processes: [{argv: [` + command + `]}], resources: {cpu: 1m, memory: 1Mi}}
`
	}
	does := func(code int, out, in string, args ...string) {
		t.Helper()
		a := try(t, in, append([]string{"job"}, args...)...)
		require.Equal(t, code, a.code, a.err)
		require.Regexp(t, out, a.out)
	}
	does(exitOK, "", job("sleep, '60'"), "submit", "-")
	shows(t, "2 running, 2 ready", "job", "get", "web")
	does(exitOK, "^job web: succeeded, 2 of 2 done, version 1 to 2\n$", job("sleep, '61'"), "update", "-", "--wait")
	does(exitJobFailed, "^job web: rolled_back, .* version 3 to 4: TOO_MANY_FAILED .*\n$", job("/none"), "update", "-", "--wait")
	does(exitOK, "^job web: rolled_back, 2 of 2 done, version 4 to 5: REQUESTED\n$", "", "rollback", "web", "--to-version", "1", "--wait")
	does(exitOK, "^job web: succeeded, 2 of 2 done, restart of version 5", "", "restart", "web", "--rolling", "--wait")
	does(exitOK, "^job web has version 6, update succeeded", strings.Replace(job("sleep, '60'"), "instances: 2", "instances: 3", 1), "update", "-", "--wait")
	does(exitOK, "start_paused", strings.Replace(job("sleep, '62'"), "max_attempts", "start_paused: true, max_attempts", 1), "update", "-", "-o", "json")
	shows(t, "update: +paused", "job", "get", "web")
	does(exitOK, "^job web: succeeded, 2 of 2 done, version 6 to 7\n$", "", "resume", "web", "--wait")
	require.Zero(t, finish())
}

// An update that would begin again is a difference in every form of output.
func TestAnUpdateThatWouldBeginAgain(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, leftOver{}) }))
	file := "name: a\ntask: {processes: [{shell: sleep 60}]}\n"
	require.Equal(t, answer{0, "~ version: 3 -> 4\n", ""}, try(t, file, "job", "diff", "-"))
	require.Equal(t, answer{0, "- field: version\n  from: \"3\"\n  to: \"4\"\n", ""}, try(t, file, "job", "diff", "-", "-o", "yaml"))
}

// Of the secrets that a file gives values for, those differ that the job has others of, or none.
func TestSecretsThatWouldChange(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, secretive{}) }))
	const file = "name: a\npriority: 7\nsecrets: [{name: same, value: kept}, {name: other, value: given}, {name: new, value: given}, {name: left}]\n"
	a := try(t, file, "job", "diff", "-")
	require.Zero(t, a.code, a.err)
	require.Contains(t, a.out, "~ secrets[1].value: the value that is kept -> the value that is given\n+ secrets[2].value: the value that is given\n")
	require.NotContains(t, a.out, "secrets[0].value")
	require.NotContains(t, a.out, "secrets[3].value")
}

// What an update leaves out is gone after the next one, and whoever left it out by mistake is told at once.
func TestSecretsThatAnUpdateLeavesOut(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterJobServiceServer(s, secretive{}) }))
	a := try(t, "name: a\nsecrets: [{name: same}]\n", "job", "update", "-")
	require.Equal(t, answer{
		0, "job a has version 3\n", "sluice: the file leaves out secrets, whose values are kept for a rollback of this update and gone after the next one: left, other\n",
	}, a)
	require.Empty(t, try(t, "name: a\nsecrets: [{name: same}, {name: other}, {name: left}]\n", "job", "update", "-").err)
}

// secretive has a job whose secrets are all "kept".
type secretive struct {
	sluicev1.UnimplementedJobServiceServer
}

func (secretive) GetJob(context.Context, *sluicev1.GetJobRequest) (*sluicev1.GetJobResponse, error) {
	return &sluicev1.GetJobResponse{Job: &sluicev1.Job{Name: "a", Version: 3, Spec: &sluicev1.JobSpec{
		Name: "a", Secrets: []*sluicev1.Secret{{Name: "left"}, {Name: "same"}, {Name: "other"}},
	}}}, nil
}

func (secretive) UpdateJob(_ context.Context, r *sluicev1.UpdateJobRequest) (*sluicev1.UpdateJobResponse, error) {
	job := &sluicev1.Job{Name: "a", Version: 3, Spec: r.GetSpec()}
	for _, s := range r.GetSpec().GetSecrets() {
		if len(s.GetValue()) > 0 && string(s.GetValue()) != "kept" {
			job.Version = 4
		}
		s.Value = nil
	}
	return &sluicev1.UpdateJobResponse{Job: job}, nil
}

// leftOver has a job whose last update did not come to its end.
type leftOver struct {
	sluicev1.UnimplementedJobServiceServer
}

func (leftOver) GetJob(context.Context, *sluicev1.GetJobRequest) (*sluicev1.GetJobResponse, error) {
	return &sluicev1.GetJobResponse{Job: &sluicev1.Job{Name: "a", Version: 3, Spec: &sluicev1.JobSpec{Name: "a"}}}, nil
}

func (leftOver) UpdateJob(context.Context, *sluicev1.UpdateJobRequest) (*sluicev1.UpdateJobResponse, error) {
	return &sluicev1.UpdateJobResponse{Job: &sluicev1.Job{Name: "a", Version: 4, Spec: &sluicev1.JobSpec{Name: "a"}}}, nil
}

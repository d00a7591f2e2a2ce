package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

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

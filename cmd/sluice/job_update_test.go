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

package main

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// judged is a scheduler whose last plan is as told.
type judged struct {
	sluicev1.UnimplementedClusterServiceServer
	answer *sluicev1.VerifyPlanResponse
}

func (j *judged) VerifyPlan(context.Context, *sluicev1.VerifyPlanRequest) (*sluicev1.VerifyPlanResponse, error) {
	return j.answer, nil
}

func TestClusterVerify(t *testing.T) {
	noSettings(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, service := grpc.NewServer(), &judged{}
	sluicev1.RegisterClusterServiceServer(server, service)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	for _, c := range []struct {
		answer *sluicev1.VerifyPlanResponse
		want   answer
	}{
		{
			&sluicev1.VerifyPlanResponse{Cycle: 7, Placements: 3, Preemptions: 1},
			answer{0, "plan of cycle 7 holds: 3 placements, 1 preemption, 0 migrations\n", ""},
		},
		{
			&sluicev1.VerifyPlanResponse{Cycle: 8, Placements: 2, Violations: []string{"task 1/0 is placed twice"}, ViolationsTotal: 3},
			answer{exitFailure, "plan of cycle 8 is wrong: 2 placements, 0 preemptions, 0 migrations, 3 violations\n  task 1/0 is placed twice\n  and 2 more\n", ""},
		},
	} {
		service.answer = c.answer
		require.Equal(t, c.want, try(t, "", "cluster", "verify", "--server", listener.Addr().String()))
	}
}

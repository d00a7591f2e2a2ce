package serve

import (
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster/cycle/netview"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func (a *apiTest) export(t *testing.T, r *sluicev1.ExportGraphRequest) (data []byte, err error) {
	t.Helper()
	stream, err := a.cluster.ExportGraph(t.Context(), r)
	require.NoError(t, err)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		data = append(data, m.Data...)
	}
}

func TestExportGraph(t *testing.T) {
	a := newAPITest(t)
	whole := &sluicev1.ExportGraphRequest{Format: sluicev1.ExportGraphRequest_JSON}
	a.addHost(t, "s/h1", 2)
	spec := sleepJob("three")
	spec.Instances = proto.Uint32(3)
	a.submit(t, spec)
	require.Eventually(t, func() bool { made := a.lastPlan(); return !made.idle() }, 10*time.Second, time.Millisecond)
	data, err := a.export(t, whole)
	require.NoError(t, err)
	var d netview.Document
	require.NoError(t, json.Unmarshal(data, &d))
	require.True(t, d.Solved)
	require.Equal(t, "three", d.Nodes[0].Name)
	require.Positive(t, d.Nodes[0].Supply)

	for _, format := range []sluicev1.ExportGraphRequest_Format{
		sluicev1.ExportGraphRequest_DOT, sluicev1.ExportGraphRequest_MERMAID, sluicev1.ExportGraphRequest_DIMACS,
	} {
		data, err = a.export(t, &sluicev1.ExportGraphRequest{Format: format, Job: "three", Instance: 2})
		require.NoError(t, err)
		require.Contains(t, string(data), "three")
	}

	for _, c := range []struct {
		name string
		r    *sluicev1.ExportGraphRequest
		code codes.Code
		text string
	}{
		{"no format", &sluicev1.ExportGraphRequest{}, codes.InvalidArgument, "format: is required"},
		{"unknown format", &sluicev1.ExportGraphRequest{Format: 99}, codes.Unimplemented, "knows no Format of that number"},
		{"no job", &sluicev1.ExportGraphRequest{Format: 1, Instance: 3}, codes.InvalidArgument, "instance: is 3 of no job"},
		{"bad name", &sluicev1.ExportGraphRequest{Format: 1, Job: "No Job"}, codes.InvalidArgument, "job"},
		{"no such job", &sluicev1.ExportGraphRequest{Format: 1, Job: "none"}, codes.NotFound, "there is no such job"},
		{"no such instance", &sluicev1.ExportGraphRequest{Format: 1, Job: "three", Instance: 3}, codes.NotFound, "instances 0 to 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := a.export(t, c.r)
			require.Equal(t, c.code, status.Code(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// TestExportGraphOfTheLastSolve: what an earlier solve placed is not in the network any more.
func TestExportGraphOfTheLastSolve(t *testing.T) {
	a := newAPITest(t)
	dot := func(job string) error {
		_, err := a.export(t, &sluicev1.ExportGraphRequest{Format: sluicev1.ExportGraphRequest_DOT, Job: job})
		return err
	}
	waiting := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { last, _ := a.LastCycle(); return last.Stats.Waiting == n }, 10*time.Second, time.Millisecond)
	}
	a.submit(t, sleepJob("first")) // no host yet
	waiting(1)
	require.NoError(t, dot("first"))
	a.addHost(t, "s/h1", 1)
	waiting(0)
	require.NoError(t, dot("first"))
	a.submit(t, sleepJob("second"))
	waiting(1)
	require.NoError(t, dot("second"))
	err := dot("first")
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "no part in the network of the last solve")
}

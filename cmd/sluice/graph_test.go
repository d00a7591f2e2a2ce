package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// drawn is a scheduler whose network is what was asked for.
type drawn struct {
	sluicev1.UnimplementedClusterServiceServer
}

func (drawn) ExportGraph(r *sluicev1.ExportGraphRequest, stream grpc.ServerStreamingServer[sluicev1.ExportGraphResponse]) error {
	for _, part := range []string{r.Format.String(), " ", r.Job, "\n"} {
		if err := stream.Send(&sluicev1.ExportGraphResponse{Data: []byte(part)}); err != nil {
			return err
		}
	}
	return nil
}

func TestGraphExport(t *testing.T) {
	noSettings(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	sluicev1.RegisterClusterServiceServer(server, drawn{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	export := func(args ...string) answer {
		return try(t, "", append([]string{"graph", "export", "--server", listener.Addr().String()}, args...)...)
	}
	require.Equal(t, answer{0, "DOT \n", ""}, export())
	require.Equal(t, answer{0, "MERMAID \n", ""}, export("--format", "mermaid"))
	require.Equal(t, answer{0, "DIMACS sort\n", ""}, export("--format", "dimacs", "--task", "sort/3"))
	require.Equal(t, exitUsage, export("--format", "svg").code)
	require.Contains(t, export("--format", "svg").err, `--format: "svg" is none of dot, mermaid, dimacs, json`)
	require.Contains(t, export("--task", "sort").err, `"sort" is not JOB/INSTANCE`)
}

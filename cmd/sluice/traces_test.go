//go:build linux

package main

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// fakeCollector takes spans over OTLP and keeps their names, by service.
type fakeCollector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string][]string
	keys  []string // shown in the header x-key
}

// Export implements collectorv1.TraceServiceServer.
func (c *fakeCollector) Export(ctx context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, _ := metadata.FromIncomingContext(ctx)
	c.keys = append(c.keys, m.Get("x-key")...)
	for _, of := range r.ResourceSpans {
		service := valueOf(of.Resource.Attributes, "service.name")
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.names[service] = append(c.names[service], span.Name)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func valueOf(all []*commonv1.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// What a scheduler did arrives at a collector before it ends, with what the variables of OpenTelemetry say of it.
func TestTracesArrive(t *testing.T) {
	noSettings(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	collector := &fakeCollector{names: map[string][]string{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, collector)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=open")
	for _, c := range []struct{ variable, service string }{{"", "sluice"}, {"here", "here"}} {
		t.Setenv("OTEL_SERVICE_NAME", c.variable)
		scheduler := start(t, "scheduler", "--insecure", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", t.TempDir(), "--traces", "http://"+l.Addr().String())
		t.Setenv("SLUICE_SERVER", scheduler.says(t, `API on (\S+),`))
		require.Zero(t, try(t, "", "job", "list").code)
		scheduler.stop(t)
		require.NotContains(t, scheduler.out.String(), "traces")
		collector.mu.Lock()
		require.Contains(t, collector.names[c.service], "sluice.v1.JobService/ListJobs")
		require.Contains(t, collector.keys, "open")
		collector.mu.Unlock()
	}
}

// A collector that is not there keeps nobody from starting, answering and stopping, and the log says so.
func TestCollectorIsAway(t *testing.T) {
	noSettings(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	scheduler := start(t, "scheduler", "--insecure", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", t.TempDir(), "--traces", "http://"+l.Addr().String())
	t.Setenv("SLUICE_SERVER", scheduler.says(t, `API on (\S+),`))
	require.Zero(t, try(t, "", "job", "list").code)
	scheduler.stop(t)
	require.Contains(t, scheduler.out.String(), "the last spans of traces could not be exported")
}

func TestTracesAreRefused(t *testing.T) {
	noSettings(t)
	a := try(t, "", "scheduler", "--insecure", "--traces", "localhost:4317")
	require.Equal(t, exitUsage, a.code)
	require.Contains(t, a.err, `scheduler.traces: "localhost:4317" is not the address of a collector`)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nothing")
	a = try(t, "", "scheduler", "--insecure", "--state-dir", t.TempDir(), "--traces", "http://localhost:4317")
	require.Equal(t, exitUsage, a.code)
	require.Contains(t, a.err, "scheduler.traces: OTEL_RESOURCE_ATTRIBUTES: ")
}

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// tracedAPI is an API whose spans are kept in memory, with a host.
func tracedAPI(t *testing.T, configure func(*Config)) (*apiTest, *tracetest.InMemoryExporter) {
	t.Helper()
	memory := tracetest.NewInMemoryExporter()
	traces := NewTraces(memory, resource.Empty(), slog.New(slog.DiscardHandler))
	t.Cleanup(traces.Close)
	a := newAPITestWith(t, func(c *Config) {
		c.Traces = traces
		configure(c)
	})
	a.addHost(t, "s/h1", 4)
	return a, memory
}

// awaitSpan waits for the first span of that name that is as wanted, and returns it with all that there are then.
func (a *apiTest) awaitSpan(t *testing.T, memory *tracetest.InMemoryExporter, name string, wanted func(tracetest.SpanStub) bool) (tracetest.SpanStub, tracetest.SpanStubs) {
	t.Helper()
	for begun := time.Now(); ; {
		require.NoError(t, a.config.Traces.provider.ForceFlush(t.Context()))
		all := memory.GetSpans()
		for _, s := range all {
			if s.Name == name && wanted(s) {
				return s, all
			}
		}
		require.Less(t, time.Since(begun), time.Minute, "there is no such span: %s", name)
		time.Sleep(time.Millisecond)
	}
}

func attributesOf(all []attribute.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range all {
		values[string(a.Key)] = a.Value.AsInterface()
	}
	return values
}

func places(s tracetest.SpanStub) bool {
	return attributesOf(s.Attributes)["sluice.placements"] == int64(2)
}

func TestCyclesAreTraced(t *testing.T) {
	a, memory := tracedAPI(t, func(*Config) {})
	spec := sleepJob("traced")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	whole, all := a.awaitSpan(t, memory, "cycle", places)

	var names []string
	last := whole.StartTime
	for _, s := range all { // each ends before its cycle, and is exported before it
		if s.Parent.SpanID() != whole.SpanContext.SpanID() {
			continue
		}
		names = append(names, s.Name)
		require.Equal(t, whole.SpanContext.TraceID(), s.SpanContext.TraceID())
		require.False(t, s.StartTime.Before(last), "%s begins before the end of the phase before it", s.Name)
		require.False(t, s.EndTime.Before(s.StartTime), s.Name)
		last = s.EndTime
	}
	require.Equal(t, []string{"ingest", "pools", "price", "graph", "solve", "fit", "commit"}, names)
	require.True(t, last.Equal(whole.EndTime), "the cycle ends with its placements durable")
	require.True(t, whole.StartTime.Before(whole.EndTime))

	got := attributesOf(whole.Attributes)
	sum, _ := a.LastCycle()
	require.LessOrEqual(t, got["sluice.cycle"], int64(sum.Number))
	require.Positive(t, got["sluice.revision"])
	require.Positive(t, got["sluice.solves"])
	for _, none := range []string{"preemptions", "migrations", "conflicts", "waiting"} {
		require.Zero(t, got["sluice."+none], none)
	}
	require.Equal(t, "", got["sluice.limited_by"])
	require.Equal(t, "loadspread", got["sluice.cost_model"])

	require.Len(t, whole.Events, 2)
	for i, e := range whole.Events {
		require.Equal(t, "placement", e.Name)
		require.Equal(t, map[string]any{"sluice.job": "traced", "sluice.instance": int64(i), "sluice.host": "s/h1"}, attributesOf(e.Attributes))
	}

	call, _ := a.awaitSpan(t, memory, "sluice.v1.JobService/SubmitJob", func(tracetest.SpanStub) bool { return true })
	require.Len(t, whole.Links, 1)
	require.Equal(t, call.SpanContext.SpanID(), whole.Links[0].SpanContext.SpanID(), "it is linked with the call that it follows from")
	require.Equal(t, call.SpanContext.TraceID(), whole.Links[0].SpanContext.TraceID())
}

// The span of a cycle tells of whom it moves, of no more than the SDK keeps, and that another cost model plans than was wanted.
func TestPlansAreTraced(t *testing.T) {
	a, memory := tracedAPI(t, func(*Config) {})
	spec := sleepJob("traced")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	a.awaitSpan(t, memory, "cycle", places)
	plan := madePlan{snapshot: a.Snapshot(), out: &cycle.Output{Displacements: make([]cycle.Displacement, 1)}}
	plan.cycle.Stats.Fault = "no price"
	first := cluster.MakeTaskKey(a.Snapshot().JobByName("traced").UID, 0)
	second := cluster.MakeTaskKey(first.Job(), 1)
	victims := &plan.out.Displacements[0].Victims
	*victims = []cycle.Victim{{Task: first}, {Task: second}}
	(*victims)[1].Hold = &cluster.Hold{Host: "s/h2"}
	memory.Reset()
	a.config.Traces.cycle(&plan)
	broken := func(s tracetest.SpanStub) bool { return s.Status.Code == otelcodes.Error }
	span, _ := a.awaitSpan(t, memory, "cycle", broken)
	require.Equal(t, "the cost model is broken: no price", span.Status.Description)
	require.Len(t, span.Events, 2)
	require.Equal(t, "preemption", span.Events[0].Name)
	require.Equal(t, map[string]any{"sluice.job": "traced", "sluice.instance": int64(0), "sluice.host": "s/h1"}, attributesOf(span.Events[0].Attributes))
	require.Equal(t, "migration", span.Events[1].Name)
	require.Equal(t, map[string]any{"sluice.job": "traced", "sluice.instance": int64(1), "sluice.host": "s/h2"}, attributesOf(span.Events[1].Attributes))

	for range maxEvents - 1 {
		plan.out.Placements = append(plan.out.Placements, cycle.Placement{Task: second, Host: "s/h1"})
	}
	memory.Reset()
	a.config.Traces.cycle(&plan)
	span, _ = a.awaitSpan(t, memory, "cycle", broken)
	require.Len(t, span.Events, maxEvents)
	require.Zero(t, span.DroppedEvents)
	require.Equal(t, "preemption", span.Events[maxEvents-1].Name)
}

// A cycle that found nothing to do has no span, and forgets the calls that it took in.
func TestIdleCyclesAreNotTraced(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	traces := NewTraces(memory, resource.Empty(), slog.New(slog.DiscardHandler))
	defer traces.Close()
	state := cluster.NewState()
	snapshot, _ := state.Snapshot()
	traces.changed(t.Context(), 0)
	traces.changed(t.Context(), 1)
	traces.cycle(&madePlan{snapshot: snapshot, out: &cycle.Output{}})
	require.Len(t, traces.causes, 1, "a change that is not in the snapshot waits")
	require.NoError(t, traces.provider.ForceFlush(t.Context()))
	require.Empty(t, memory.GetSpans())
}

func TestCallsAreTraced(t *testing.T) {
	var audit syncBuffer
	a, memory := tracedAPI(t, func(c *Config) { c.Audit = slog.New(slog.NewJSONHandler(&audit, nil)) })
	_, err := healthv1.NewHealthClient(a.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	a.submit(t, sleepJob("traced"))
	const id = "0123456789abcdef0123456789abcdef"
	begun := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+id+"-0123456789abcdef-01")
	_, err = a.jobs.DeleteJob(begun, &sluicev1.DeleteJobRequest{Name: "none"})
	require.Equal(t, codes.NotFound, status.Code(err))
	unwanted := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+id+"-0123456789abcdef-00")
	_, err = a.jobs.GetJob(unwanted, &sluicev1.GetJobRequest{Name: "traced"})
	require.NoError(t, err)

	failed, all := a.awaitSpan(t, memory, "sluice.v1.JobService/DeleteJob", func(tracetest.SpanStub) bool { return true })
	require.Equal(t, "NOT_FOUND", attributesOf(failed.Attributes)["rpc.response.status_code"])
	require.Equal(t, otelcodes.Unset, failed.Status.Code, "it is no error of the server")
	require.Equal(t, trace.SpanKindServer, failed.SpanKind)
	require.Equal(t, id, failed.SpanContext.TraceID().String(), "it is in the trace that the client began")
	submitted, _ := a.awaitSpan(t, memory, "sluice.v1.JobService/SubmitJob", func(tracetest.SpanStub) bool { return true })
	require.Equal(t, "OK", attributesOf(submitted.Attributes)["rpc.response.status_code"])
	for _, s := range all {
		require.NotContains(t, s.Name, "Health")
		require.NotContains(t, s.Name, "GetJob", "its client does not want it traced")
	}

	var lines []map[string]any
	for line := range strings.Lines(audit.String()) {
		var told map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &told))
		lines = append(lines, told)
	}
	i := slices.IndexFunc(lines, func(l map[string]any) bool { return l["call"] == "JobService/DeleteJob" })
	require.GreaterOrEqual(t, i, 0, audit.String())
	require.Equal(t, id, lines[i]["trace"])
}

func TestWithoutTracesNothingIsTraced(t *testing.T) {
	var audit syncBuffer
	a := newAPITestWith(t, func(c *Config) { c.Audit = slog.New(slog.NewJSONHandler(&audit, nil)) })
	a.addHost(t, "s/h1", 4)
	begun := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	_, err := a.jobs.SubmitJob(begun, &sluicev1.SubmitJobRequest{Spec: sleepJob("untraced")})
	require.NoError(t, err)
	require.Contains(t, audit.String(), "SubmitJob")
	require.NotContains(t, audit.String(), "trace\"")
	families, err := a.metrics.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotEqual(t, "sluice_spans_total", f.GetName())
	}
}

// stuckExporter answers nothing until its context ends or it is told to fail.
type stuckExporter struct {
	asked  chan struct{}
	answer chan error
}

func (e *stuckExporter) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case e.asked <- struct{}{}:
	default:
	}
	select {
	case err := <-e.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *stuckExporter) Shutdown(context.Context) error { return nil }

// What takes no spans holds nobody up: the queue fills, further spans are counted as lost and told of once, and a stop waits
// two seconds.
func TestCollectorThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		stuck := &stuckExporter{asked: make(chan struct{}, 1), answer: make(chan error)}
		traces := NewTraces(stuck, resource.Empty(), slog.New(slog.NewTextHandler(&log, nil)))
		end := func(n int) {
			for range n {
				_, s := traces.tracer.Start(t.Context(), "x")
				s.End()
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(traces.spans.ended)
		count := func(outcome string) (n float64) {
			families, err := registry.Gather()
			require.NoError(t, err)
			for _, f := range families {
				for _, m := range f.Metric {
					if m.Label[0].GetValue() == outcome {
						n = m.Counter.GetValue()
					}
				}
			}
			return n
		}
		begun := time.Now()
		end(maxSpans)
		<-stuck.asked
		require.Zero(t, count("lost"))
		end(100)
		require.Equal(t, begun, time.Now(), "nobody has waited")
		require.Equal(t, 100., count("lost"))
		require.Equal(t, 1, strings.Count(log.String(), "spans of traces are lost"))
		require.Contains(t, log.String(), errSpanQueueFull.Error())

		stuck.answer <- errors.New("no room")
		synctest.Wait()
		require.Equal(t, 100.+sdktrace.DefaultMaxExportBatchSize, count("lost"))
		require.Zero(t, count("sent"))
		require.Equal(t, 1, strings.Count(log.String(), "spans of traces are lost"))
		for range 2 {
			stuck.answer <- nil
			synctest.Wait()
		}
		require.Equal(t, 2.*sdktrace.DefaultMaxExportBatchSize, count("sent"))
		require.Equal(t, 1, strings.Count(log.String(), "spans of traces are exported again"))

		begun = time.Now()
		traces.Close()
		require.Equal(t, flushTime, time.Since(begun))
		require.Contains(t, log.String(), "the last spans of traces could not be exported")
		time.Sleep(time.Hour) // what the SDK has under way ends
	})
}

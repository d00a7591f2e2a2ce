package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// Bounds of what is traced.
const (
	maxSpans  = sdktrace.DefaultMaxQueueSize    // that wait to be exported; further ones are lost
	maxEvents = sdktrace.DefaultEventCountLimit // of a cycle's span; the SDK would keep no more
	maxLinks  = sdktrace.DefaultLinkCountLimit  // of a cycle's span, as well
	// flushTime is how long a stop waits for spans to be exported.
	flushTime = 2 * time.Second
)

// Traces makes spans of calls and of cycles, and hands them to an exporter in the background: neither a call nor a cycle ever waits
// for that. Its methods are safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	spans    *spans
	exporter sdktrace.SpanExporter

	mu     sync.Mutex
	causes []cause // that no cycle has taken in yet, at most maxLinks, by revision
}

// cause is a call that changed something, with the revision that it made.
type cause struct {
	revision uint64
	call     trace.Link
}

// NewTraces returns traces that go to the exporter, which they own from then on, as those of the resource. Close ends them. What the
// environment variables of the SDK say holds, such as OTEL_TRACES_SAMPLER, save that the length of the queue is fixed.
func NewTraces(exporter sdktrace.SpanExporter, of *resource.Resource, log *slog.Logger) *Traces {
	s := &spans{log: log, ended: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "sluice", Name: "spans_total", Help: "Spans of traces that ended, by whether they could be exported.",
	}, []string{"outcome"})}
	s.ended.WithLabelValues("sent")
	s.ended.WithLabelValues("lost")
	batches := sdktrace.NewBatchSpanProcessor(spanSender{exporter, s}, sdktrace.WithMaxQueueSize(maxSpans))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spanQueue{batches, s}), sdktrace.WithResource(of))
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/sluice-scheduler/sluice"), spans: s, exporter: exporter}
}

// Close exports what has ended, for two seconds at most, and drops what is left then.
func (t *Traces) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.spans.log.Warn("the last spans of traces could not be exported", "spans", t.spans.waiting.Load(), "error", err)
		_ = t.exporter.Shutdown(ctx) // has what is under way end now
	}
}

// option has a server make a span of every call of the API, one that its client began a trace with being in that trace. Health checks
// and reflection have none.
func (t *Traces) option() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(i *stats.RPCTagInfo) bool { return strings.HasPrefix(i.FullMethodName, "/"+apiPackage+".") }),
	))
}

// changed has the span of a cycle that takes in this revision linked with the span of the call that made it.
func (t *Traces) changed(ctx context.Context, revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.causes) < maxLinks {
		t.causes = append(t.causes, cause{revision, trace.LinkFromContext(ctx)})
	}
}

// takeIn returns what was changed up to a revision, and forgets it.
func (t *Traces) takeIn(revision uint64) (calls []trace.Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.causes) > 0 && t.causes[0].revision <= revision {
		calls = append(calls, t.causes[0].call)
		t.causes = t.causes[1:]
	}
	return calls
}

// cycle makes the spans of a cycle that did something: one of the whole, linked with the calls that changed what it took in, and below
// it one for each of its phases. A phase that the cycle was in several times, as in several rounds, has all of its time in one piece.
func (t *Traces) cycle(plan *madePlan) {
	sum := &plan.cycle
	calls := t.takeIn(plan.snapshot.Revision())
	if plan.idle() && sum.Stats.Solves == 0 && sum.Conflicts == 0 {
		return
	}
	at, end := sum.At, sum.At.Add(sum.Total)
	ctx, span := t.tracer.Start(context.Background(), "cycle", trace.WithTimestamp(at), trace.WithLinks(calls...), trace.WithAttributes(
		attribute.Int64("sluice.cycle", int64(sum.Number)),
		attribute.Int64("sluice.revision", int64(plan.snapshot.Revision())),
		attribute.Int("sluice.placements", sum.Done.Placements),
		attribute.Int("sluice.preemptions", sum.Done.Preemptions),
		attribute.Int("sluice.migrations", sum.Done.Migrations),
		attribute.Int("sluice.conflicts", sum.Conflicts),
		attribute.Int("sluice.waiting", sum.Stats.Waiting),
		attribute.Int("sluice.solves", sum.Stats.Solves),
		attribute.Int64("sluice.solver_work", sum.Stats.SolverWork),
		attribute.String("sluice.limited_by", sum.Stats.LimitedBy),
		attribute.String("sluice.cost_model", sum.Stats.Model),
	))
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	if fault := sum.Stats.Fault; fault != "" {
		span.SetStatus(codes.Error, "the cost model is broken: "+fault)
	}
	phase := func(name string, took time.Duration) {
		_, part := t.tracer.Start(ctx, name, trace.WithTimestamp(at))
		at = at.Add(took)
		part.End(trace.WithTimestamp(at))
	}
	for p := range cycle.NumPhases {
		phase(p.String(), sum.Stats.Durations[p])
	}
	at = end.Add(-sum.Commit)
	phase("commit", sum.Commit)
	plan.tell(func(name string, task cluster.TaskKey, host cluster.HostID) {
		span.AddEvent(name, trace.WithTimestamp(end), trace.WithAttributes(
			attribute.String("sluice.job", string(plan.snapshot.Job(task.Job()).Spec.Name)),
			attribute.Int64("sluice.instance", int64(task.Instance())),
			attribute.String("sluice.host", string(host)),
		))
	})
}

// tell calls event for the first tasks that the plan moves: with the host that each one is to start on, to leave, or to go on on.
func (m *madePlan) tell(event func(name string, task cluster.TaskKey, host cluster.HostID)) {
	left := maxEvents
	for i := range m.out.Placements[:min(left, len(m.out.Placements))] {
		p := &m.out.Placements[i]
		event("placement", p.Task, p.Host)
		left--
	}
	for i := range m.out.Displacements {
		for _, v := range m.out.Displacements[i].Victims {
			if left--; left < 0 {
				return
			}
			if v.Hold != nil {
				event("migration", v.Task, v.Hold.Host)
			} else {
				event("preemption", v.Task, m.snapshot.Task(v.Task).Host)
			}
		}
	}
}

// traced reports whether the call of a handler has a span that is exported.
func traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// spans counts the spans between their end and the exporter's answer.
type spans struct {
	log     *slog.Logger
	ended   *prometheus.CounterVec
	waiting atomic.Int64
	losing  atomic.Bool // which was logged
}

var errSpanQueueFull = errors.New("as many as there may be wait to be exported")

func (s *spans) lose(n int, err error) {
	s.ended.WithLabelValues("lost").Add(float64(n))
	if s.losing.CompareAndSwap(false, true) {
		s.log.Warn("spans of traces are lost; sluice_spans_total counts how many", "error", err)
	}
}

// sent counts what was exported. Losses are at an end when there is room for more.
func (s *spans) sent(n int) {
	s.ended.WithLabelValues("sent").Add(float64(n))
	if s.waiting.Load() < maxSpans/2 && s.losing.CompareAndSwap(true, false) {
		s.log.Info("spans of traces are exported again")
	}
}

// spanQueue lets no more spans into the batches than they have room for, since they do not tell what they lose.
type spanQueue struct {
	sdktrace.SpanProcessor
	*spans
}

// OnEnd implements sdktrace.SpanProcessor.
func (q spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > maxSpans {
		q.waiting.Add(-1)
		q.lose(1, errSpanQueueFull)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanSender tells what becomes of the batches.
type spanSender struct {
	sdktrace.SpanExporter
	*spans
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error: it was told, and the SDK would do no more than tell it each time.
func (e spanSender) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, batch)
	e.waiting.Add(-int64(len(batch)))
	if err != nil {
		e.lose(len(batch), err)
		return nil
	}
	e.sent(len(batch))
	return nil
}

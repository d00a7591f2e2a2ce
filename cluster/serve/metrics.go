package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// metrics are the scheduler's own figures, in a registry of its own.
type metrics struct {
	registry   *prometheus.Registry
	cycles     prometheus.Counter
	phases     *prometheus.HistogramVec
	total      prometheus.Histogram
	placements prometheus.Counter
	left       *prometheus.CounterVec
	conflicts  prometheus.Counter
	solves     prometheus.Counter
	work       prometheus.Counter
	limited    prometheus.Counter
	touched    *prometheus.CounterVec
	outcomes   *prometheus.CounterVec
	shadow     *prometheus.CounterVec
}

func newMetrics(s *Scheduler) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sluice", Name: name, Help: help}, []string{label})
	}
	buckets := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	m := &metrics{
		registry: prometheus.NewRegistry(),
		cycles:   counter("cycles_total", "Scheduling cycles run."),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "sluice", Name: "cycle_phase_seconds", Help: "Time spent in each phase of a cycle.", Buckets: buckets,
		}, []string{"phase"}),
		total: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sluice", Name: "cycle_seconds", Help: "Time of a whole cycle, its placements durable.", Buckets: buckets,
		}),
		placements: counter("placements_total", "Placements planned."),
		left:       vec("tasks_asked_to_leave_total", "Tasks that were asked to leave their hosts: for others, or to go on elsewhere.", "why"),
		conflicts:  counter("placement_conflicts_total", "Placements that the state refused when they were to be committed."),
		solves:     counter("solves_total", "Calls of the min-cost-flow solver."),
		work:       counter("solver_work_total", "Work of the solver, in its own units."),
		limited:    counter("cycles_limited_total", "Cycles that were planned without an optimal flow."),
		touched:    vec("network_touched_total", "Nodes and arcs of the flow network that were added, removed or changed.", "kind"),
		outcomes:   vec("task_runs_total", "Runs of tasks that ended, by how.", "state"),
		shadow:     vec("shadow_placements_total", "What the model in the shadow would do with tasks, compared with the plan.", "outcome"),
	}
	// What an alert looks at is there before there is something to count: nobody sees the growth of what begins with it.
	for _, end := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskLost} {
		m.outcomes.WithLabelValues(end.String())
	}
	m.left.WithLabelValues("preemption")
	m.left.WithLabelValues("migration")
	m.registry.MustRegister(m.cycles, m.phases, m.total, m.placements, m.left, m.conflicts, m.solves, m.work, m.limited, m.touched, m.outcomes, m.shadow,
		&stateCollector{s}, leading(1), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if t := s.config.Traces; t != nil {
		m.registry.MustRegister(t.spans.ended)
	}
	return m
}

func (m *metrics) observe(c *CycleSummary) {
	m.cycles.Inc()
	m.total.Observe(c.Total.Seconds())
	for p := range cycle.NumPhases {
		m.phases.WithLabelValues(p.String()).Observe(c.Stats.Durations[p].Seconds())
	}
	m.phases.WithLabelValues("commit").Observe(c.Commit.Seconds())
	m.placements.Add(float64(c.Placements))
	m.left.WithLabelValues("preemption").Add(float64(c.Done.Preemptions))
	m.left.WithLabelValues("migration").Add(float64(c.Done.Migrations))
	m.conflicts.Add(float64(c.Conflicts))
	m.solves.Add(float64(c.Stats.Solves))
	m.work.Add(float64(c.Stats.SolverWork))
	m.touched.WithLabelValues("node").Add(float64(c.Stats.NodesTouched))
	m.touched.WithLabelValues("arc").Add(float64(c.Stats.ArcsTouched))
	if c.Stats.LimitedBy != "" {
		m.limited.Inc()
	}
}

// compare takes in what the model in the shadow would have done.
func (m *metrics) compare(c *cycle.Comparison) {
	for outcome, n := range map[string]int{"same": c.Same, "elsewhere": c.Elsewhere, "later": c.Later, "earlier": c.Earlier} {
		m.shadow.WithLabelValues(outcome).Add(float64(n))
	}
}

// count takes in what became durable.
func (m *metrics) count(records []cluster.Record) {
	for _, r := range records {
		if e, ok := r.Event.(*cluster.TaskStatus); ok && e.State.Terminal() {
			m.outcomes.WithLabelValues(e.State.String()).Inc()
		}
	}
}

// MetricsHandler serves the figures in Prometheus's text format; those of pools that the reader may know, if it is protected.
func (s *Scheduler) MetricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pools := prometheus.NewRegistry()
		pools.MustRegister(&poolCollector{s, readerOf(r.Context())})
		promhttp.HandlerFor(prometheus.Gatherers{s.metrics.registry, pools}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// stateCollector counts tasks, jobs, hosts and queues when it is asked.
type stateCollector struct{ s *Scheduler }

var (
	tasksDesc    = prometheus.NewDesc("sluice_tasks", "Tasks by state.", []string{"state"}, nil)
	jobsDesc     = prometheus.NewDesc("sluice_jobs", "Jobs by state.", []string{"state"}, nil)
	hostsDesc    = prometheus.NewDesc("sluice_hosts", "Hosts by state.", []string{"state"}, nil)
	capacityDesc = prometheus.NewDesc("sluice_capacity", "What all hosts have, in the unit of the dimension.", []string{"dimension"}, nil)
	heldDesc     = prometheus.NewDesc("sluice_allocated", "What tasks have of the hosts, in the unit of the dimension.", []string{"dimension"}, nil)
	commandsDesc = prometheus.NewDesc("sluice_writer_queue", "Commands that wait for the writer.", nil, nil)
	shardDesc    = prometheus.NewDesc("sluice_shard_queue", "Messages that wait to be sent to a shard.", []string{"shard"}, nil)
	brokenDesc   = prometheus.NewDesc("sluice_cost_model_broken", "Whether the cost model is broken and another one plans.", nil, nil)
	connected    = prometheus.NewDesc("sluice_shard_connected", "Whether a shard is connected.", []string{"shard"}, nil)
	expiryDesc   = prometheus.NewDesc("sluice_certificate_expires", "When the scheduler's certificate ends, in seconds since 1970.", nil, nil)
	shardExpiry  = prometheus.NewDesc("sluice_shard_credentials_expire", "When the certificate or token of a shard ends, in seconds since 1970.", []string{"shard"}, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	snapshot := c.s.Snapshot()
	var tasks [cluster.NumTaskStates]uint64
	jobs := make([]uint64, cluster.JobKilled+1)
	for j := range snapshot.Jobs(0) {
		jobs[j.State()]++
		for state, n := range j.Counts {
			tasks[state] += uint64(n)
		}
	}
	hosts := make([]uint64, cluster.HostUnreachable+1)
	var capacity, allocated cluster.Resources
	for h := range snapshot.Hosts("") {
		hosts[h.State()]++
		capacity, allocated = capacity.Add(h.Capacity), allocated.Add(h.Allocated)
	}
	for d, n := range capacity.Fixed {
		gauge(capacityDesc, float64(n), cluster.Dimension(d).String())
		gauge(heldDesc, float64(allocated.Fixed[d]), cluster.Dimension(d).String())
	}
	for _, a := range capacity.Named {
		gauge(capacityDesc, float64(a.Value), a.Name)
		gauge(heldDesc, float64(allocated.Amount(a.Name)), a.Name)
	}
	for state, n := range tasks {
		gauge(tasksDesc, float64(n), cluster.TaskState(state).String())
	}
	for state, n := range jobs {
		gauge(jobsDesc, float64(n), cluster.JobState(state).String())
	}
	for state, n := range hosts {
		gauge(hostsDesc, float64(n), cluster.HostState(state).String())
	}
	gauge(commandsDesc, float64(len(c.s.queue)))
	last, _ := c.s.LastCycle()
	gauge(brokenDesc, truth(last.Stats.Fault != ""))
	for _, sh := range c.s.Shards() {
		gauge(shardDesc, float64(sh.Pending), string(sh.Name))
		gauge(connected, truth(sh.Connected), string(sh.Name))
		if !sh.Expires.IsZero() {
			gauge(shardExpiry, float64(sh.Expires.Unix()), string(sh.Name))
		}
	}
	if id := c.s.config.Identity; id != nil && id.Expires != nil {
		gauge(expiryDesc, float64(id.Expires().Unix()))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

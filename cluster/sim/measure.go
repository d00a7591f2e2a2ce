package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// measure reads the records and the cycles and sums them up.
type measure struct {
	s     *simulation
	began time.Duration // wall

	byUID map[cluster.JobUID]*measuredJob
	hosts map[cluster.HostID]*measuredHost
	runs  map[cluster.TaskKey]*openRun // bound tasks

	jobs, placements        int64
	preemptions, migrations int64
	tasks                   Tasks
	ends                    map[string]int64
	read                    BytesRead
	work                    [numFates][cluster.NumDimensions]float64 // of runs that have ended, by what came of them
	pools                   *poolMeasure
	loans                   loanMeasure
	copies                  Copies
	turnaround              histogram
	waits                   map[waitKey]*histogram

	capacity, allocated amounts
	peak                [cluster.NumDimensions]float64
	full                int
	series              *series
	stress              Stress

	ending   int64 // bound tasks that will end by themselves
	quiet    int64
	refused  int64
	restarts int64
	verdicts [3]int64

	cycle  cycleMeasure
	writer *placementWriter
}

// amounts are by fixed dimension.
type amounts [cluster.NumDimensions]int64

func (a *amounts) add(b *amounts, times int64) {
	for d, v := range b {
		a[d] += times * v
	}
}

// fate is what came of the work of a run.
type fate int

// The fates.
const (
	useful    fate = iota // the run succeeded
	preempted             // it left for another, or moved
	lost                  // it failed, or its host was lost
	numFates
)

// measuredJob is a job that exists.
type measuredJob struct {
	spec      *cluster.JobSpec
	submitted cluster.Time                     // when it arrived: a scheduler that is away accepts it later
	ended     cluster.Time                     // when a run of it ended last
	queued    map[cluster.TaskKey]cluster.Time // of tasks that wait again
	finite    []bool                           // by instance, or one for all: whether its runs end by themselves
	placed    marks                            // at least once
	finished  marks                            // and not restarted since
	inputs    cluster.InputIndex
}

// marks are true or false by instance.
type marks []bool

func (m *marks) of(instance uint32) *bool {
	for len(*m) <= int(instance) {
		*m = append(*m, false)
	}
	return &(*m)[instance]
}

type measuredHost struct {
	rack      string
	capacity  cluster.Resources
	allocated amounts
	full      bool
}

// openRun is a run that holds room.
type openRun struct {
	run     uint32
	host    cluster.HostID
	devices []uint16
	placed  cluster.Time
	finite  bool
	leaves  bool           // was asked to, for another
	outrun  bool           // a copy has succeeded
	told    cluster.Reason // why it was, or would be, told to stop; the host only says that it was killed
}

type waitKey struct {
	pool cluster.PoolPath
	kind cluster.JobType
}

// The positions in the series after those of the dimensions.
const (
	seriesWaiting = int(cluster.NumDimensions) + iota
	seriesRunning
	seriesHosts
)

func newMeasure(s *simulation) *measure {
	m := &measure{
		s: s, began: s.stopwatch(),
		byUID: map[cluster.JobUID]*measuredJob{}, hosts: map[cluster.HostID]*measuredHost{},
		runs: map[cluster.TaskKey]*openRun{}, ends: map[string]int64{}, waits: map[waitKey]*histogram{},
		pools: newPoolMeasure(),
	}
	var names []string
	for d := range cluster.NumDimensions {
		names = append(names, d.String())
	}
	m.series = newSeries(append(names, "waiting_tasks", "running_tasks", "hosts")...)
	if s.config.Placements != nil {
		m.writer = newPlacementWriter(s.config.Placements, s.begin)
	}
	return m
}

// record takes in a durable record.
func (m *measure) record(r cluster.Record) {
	switch e := r.Event.(type) {
	case *cluster.JobsSubmitted:
		for _, n := range e.Jobs {
			m.submit(n, m.s.begin.Add(m.s.jobs[n.Spec.Name].Submit))
		}
	case *cluster.JobDeleted:
		if j := m.byUID[e.Job]; !j.spec.Type.Service() {
			m.turnaround.add(int64(cmp.Or(j.ended, r.At).Sub(j.submitted)))
		}
		delete(m.byUID, e.Job)
	case *cluster.Placed:
		m.place(e, r.At)
	case *cluster.TaskStatus:
		if e.State.Terminal() {
			m.end(e.Task, e.State, e.Reason, r.At)
		}
	case *cluster.CopyAdded:
		m.copies.Started++
	case *cluster.CopyWon:
		m.win(e.Task.Original())
	case *cluster.TaskRequeued:
		m.requeue(e, r.At)
	case *cluster.TaskPreempted:
		m.preempt(e)
	case *cluster.TaskStopping:
		if run := m.runs[e.Task]; run != nil {
			run.told = e.Reason
		}
	case *cluster.HostReported:
		m.report(e)
	case *cluster.HostRemoved:
		m.resize(m.hosts[e.ID], -1)
		delete(m.hosts, e.ID)
	}
}

// resume takes in what there is at the beginning of a run that goes on from a snapshot. What is counted begins with the run.
func (m *measure) resume(snap *cluster.Snapshot) {
	for h := range snap.Hosts("") {
		m.report(&cluster.HostReported{ID: h.ID, Machine: *h.Machine})
	}
	for j := range snap.Jobs(0) {
		m.submit(cluster.NewJob{UID: j.UID, Spec: j.Spec}, j.Submitted)
	}
	m.tasks = Tasks{}
	for t := range snap.Tasks(0) {
		j := m.byUID[t.Key.Job()]
		if t.Key.IsCopy() && !t.State.Bound() {
			continue
		}
		m.tasks.Submitted++
		m.tasks.Waiting++
		switch {
		case t.State.Bound():
			m.place(&cluster.Placed{Task: t.Key, Run: t.Run, Host: t.Host, GPUs: t.GPUs}, t.Placed)
			m.runs[t.Key].leaves = t.State == cluster.TaskPreempting
			if t.Key.IsCopy() {
				m.tasks.Submitted--
				m.tasks.Waiting--
			}
		case t.State == cluster.TaskSucceeded:
			m.tasks.Waiting--
			*j.placed.of(t.Key.Instance()) = true
			m.finish(t.Key)
		case t.State.Terminal():
			m.tasks.Waiting--
			m.tasks.Failed++
		default:
			j.waitAgain(t.Key, t.Since)
		}
	}
	m.placements, m.waits, m.read = 0, map[waitKey]*histogram{}, BytesRead{}
	m.batch()
}

func (m *measure) submit(n cluster.NewJob, at cluster.Time) {
	j := &measuredJob{
		spec: n.Spec, inputs: cluster.IndexInputs(n.Spec.Inputs), submitted: at,
	}
	for _, d := range m.s.jobs[n.Spec.Name].Durations {
		j.finite = append(j.finite, d > 0)
	}
	m.byUID[n.UID] = j
	m.jobs++
	m.tasks.Submitted += int64(n.Spec.Instances)
	m.tasks.Waiting += int64(n.Spec.Instances)
}

func (m *measure) place(e *cluster.Placed, at cluster.Time) {
	j, h := m.byUID[e.Task.Job()], m.hosts[e.Host]
	i := e.Task.Instance()
	run := &openRun{run: e.Run, host: e.Host, devices: e.GPUs, placed: at, finite: j.finite[min(int(i), len(j.finite)-1)]}
	m.runs[e.Task] = run
	m.placements++
	if run.finite {
		m.ending++
	}
	m.load(h, j.spec, i, 1)
	m.readInputs(j, i, e.Host, h.rack)
	if e.Task.IsCopy() { // counts stay those of the tasks
		run.told = cluster.ReasonRemoved
		return
	}
	m.tasks.Waiting--
	m.tasks.Running++
	if placed := j.placed.of(i); !*placed {
		*placed = true
		m.tasks.Placed++
	}
	since := j.submitted
	if queued, again := j.queued[e.Task]; again {
		since = queued
	}
	key := waitKey{j.spec.Pool, j.spec.Type}
	if m.waits[key] == nil {
		m.waits[key] = &histogram{}
	}
	m.waits[key].add(int64(at.Sub(since)))
}

// win takes in that a copy of the task has succeeded.
func (m *measure) win(k cluster.TaskKey) {
	m.copies.Won++
	if run := m.runs[k]; run != nil {
		run.outrun, run.told = true, cluster.ReasonOutrun
		return
	}
	m.tasks.Waiting--
	m.finish(k)
}

// finish counts a task as finished.
func (m *measure) finish(k cluster.TaskKey) {
	*m.byUID[k.Job()].finished.of(k.Instance()) = true
	m.tasks.Finished++
}

// end ends the run of a task for the given reason.
func (m *measure) end(k cluster.TaskKey, state cluster.TaskState, why cluster.Reason, at cluster.Time) {
	run := m.runs[k]
	if run == nil {
		return
	}
	delete(m.runs, k)
	j := m.byUID[k.Job()]
	j.ended = at
	if run.leaves && (state == cluster.TaskFailed || state == cluster.TaskKilled) {
		state, why = cluster.TaskKilled, cluster.ReasonPreempted // whatever it said when it was told to go
	}
	if state == cluster.TaskKilled && why == cluster.ReasonNone {
		why = run.told
	}
	m.ends[state.String()+"/"+string(why)]++
	if run.finite {
		m.ending--
	}
	if !k.IsCopy() {
		m.tasks.Running--
		switch {
		case state == cluster.TaskPending: // given back
		case state == cluster.TaskSucceeded || run.outrun:
			m.finish(k)
		default:
			m.tasks.Failed++
		}
	}
	m.load(m.hosts[run.host], j.spec, k.Instance(), -1)
	m.account(j.spec.TaskOf(k.Instance()), run, state, at)
	m.writer.write(j.spec, k, run, at.Sub(m.s.begin), state.String())
}

// account books the work of a run that ends.
func (m *measure) account(s *cluster.TaskSpec, run *openRun, state cluster.TaskState, at cluster.Time) {
	f := lost
	switch {
	case state == cluster.TaskSucceeded:
		f = useful
	case run.leaves:
		f = preempted
	}
	for d, v := range s.Resources.Fixed {
		m.work[f][d] += float64(v) * at.Sub(run.placed).Seconds()
	}
}

// preempt takes in that a task was asked to leave for another, or to go on elsewhere.
func (m *measure) preempt(e *cluster.TaskPreempted) {
	m.runs[e.Task].leaves = true
	switch {
	case e.Hold != nil:
		m.migrations++
	case e.Preemption.For == 0:
		m.loans.Revoked++
	default:
		m.preemptions++
	}
}

func (m *measure) requeue(e *cluster.TaskRequeued, at cluster.Time) {
	switch j := m.byUID[e.Task.Job()]; {
	case e.Reason == cluster.ReasonHoldEnded:
		return // it has waited all the time
	case m.runs[e.Task] != nil: // the launch was given back
		m.end(e.Task, cluster.TaskPending, e.Reason, at)
		j.waitAgain(e.Task, at)
		if e.Task.IsCopy() {
			return
		}
	default:
		if finished := j.finished.of(e.Task.Instance()); *finished { // it is restarted
			*finished = false
			m.tasks.Finished--
		} else {
			m.tasks.Failed--
		}
		j.waitAgain(e.Task, at)
	}
	m.tasks.Waiting++
}

func (j *measuredJob) waitAgain(k cluster.TaskKey, at cluster.Time) {
	if j.queued == nil {
		j.queued = map[cluster.TaskKey]cluster.Time{}
	}
	j.queued[k] = at
}

func (m *measure) report(e *cluster.HostReported) {
	h := m.hosts[e.ID]
	if h == nil {
		h = &measuredHost{}
		m.hosts[e.ID] = h
	} else {
		m.resize(h, -1)
	}
	h.rack, h.capacity = e.Machine.Rack, e.Machine.Capacity
	m.resize(h, 1)
}

// resize adds a host to the capacity, or takes it away.
func (m *measure) resize(h *measuredHost, sign int64) {
	m.capacity.add((*amounts)(&h.capacity.Fixed), sign)
	m.judgeFull(h, sign > 0)
}

// load adds a task to a host's allocation, or takes it away.
func (m *measure) load(h *measuredHost, s *cluster.JobSpec, instance uint32, sign int64) {
	takes := (*amounts)(&s.TaskOf(instance).Resources.Fixed)
	if s.Revocable {
		m.loans.load(takes, sign, m.s.now())
		return
	}
	h.allocated.add(takes, sign)
	m.allocated.add(takes, sign)
	m.pools.load(m.s.now(), s.Pool, takes, sign)
	m.judgeFull(h, true)
}

func (m *measure) judgeFull(h *measuredHost, there bool) {
	full := false
	for d, c := range h.capacity.Fixed {
		full = full || there && c > 0 && h.allocated[d] > c-c/100
	}
	switch {
	case full && !h.full:
		m.full++
	case !full && h.full:
		m.full--
	}
	h.full = full
}

// part returns the part of a dimension that is allocated now.
func (m *measure) part(d cluster.Dimension) float64 {
	if m.capacity[d] == 0 {
		return 0
	}
	return float64(m.allocated[d]) / float64(m.capacity[d])
}

// batch is called after the records of a batch.
func (m *measure) batch() {
	now := m.s.now()
	for d := range cluster.NumDimensions {
		part := m.part(d)
		m.peak[d] = max(m.peak[d], part)
		m.series.set(int(d), now, part)
	}
	m.series.set(seriesWaiting, now, float64(m.tasks.Waiting))
	m.series.set(seriesRunning, now, float64(m.tasks.Running))
	m.series.set(seriesHosts, now, float64(len(m.hosts)))
	m.stress.PeakWaiting = max(m.stress.PeakWaiting, m.tasks.Waiting)
	m.stress.PeakRunning = max(m.stress.PeakRunning, m.tasks.Running)
	m.stress.PeakFullHosts = max(m.stress.PeakFullHosts, m.full)
}

// readInputs adds what an instance reads to the bytes by distance.
func (m *measure) readInputs(j *measuredJob, instance uint32, host cluster.HostID, rack string) {
	for _, in := range j.inputs.Of(instance) {
		switch {
		case slices.Contains(in.Hosts, host):
			m.read.Local += in.Bytes
		case slices.Contains(in.Racks, rack):
			m.read.InRack += in.Bytes
		default:
			m.read.Remote += in.Bytes
		}
	}
}

// fetched returns the bytes that a task reads from elsewhere when it runs on the host.
func (m *measure) fetched(k cluster.TaskKey, host cluster.HostID) (bytes int64) {
	for _, in := range m.byUID[k.Job()].inputs.Of(k.Instance()) {
		if !slices.Contains(in.Hosts, host) {
			bytes += in.Bytes
		}
	}
	return bytes
}

func (m *measure) waitingTimes() []WaitingTime {
	keys := slices.SortedFunc(maps.Keys(m.waits), func(a, b waitKey) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.kind, b.kind))
	})
	var out []WaitingTime
	for _, k := range keys {
		h := m.waits[k]
		out = append(out, WaitingTime{
			Pool: string(k.pool), Type: k.kind.String(), Seconds: h.quantiles(seconds), CDF: h.cdf(seconds, 200),
		})
	}
	return out
}

func (m *measure) progress() Progress {
	arrived, known := m.s.config.Workload.Arrived(m.s.now())
	if !known {
		arrived = -1
	}
	return Progress{
		Now: m.s.now(), Arrived: arrived, Jobs: m.jobs, Waiting: m.tasks.Waiting, Running: m.tasks.Running,
		Finished: m.tasks.Finished + m.tasks.Failed, Cycles: m.cycle.count,
	}
}

// cycleMeasure sums up cycles.
type cycleMeasure struct {
	count, solved, solves, work, inserted, limited, preempting int64
	price, cost, starts, asked                                 int64 // of placements, of plans; tasks placed, or placed or waiting

	phases  [cycle.NumPhases]histogram // wall
	commit  histogram
	total   histogram
	idle    histogram
	arcs    histogram
	nodes   histogram
	placed  histogram
	now     cycle.Stats // of the cycle in progress
	plans   int
	took    time.Duration // planning of it
	durable time.Duration // making its placements durable
	placing bool          // the batch in progress holds its placements
	fault   string        // the first of the model
}

// planned takes in a plan and how long it took.
func (m *measure) planned(out *cycle.Output, took time.Duration) {
	m.pools.entitle(m.s.now(), out.Pools)
	c := &m.cycle
	c.fault = cmp.Or(c.fault, out.Stats.Fault)
	c.now, c.plans, c.took, c.durable = out.Stats, len(out.Placements), took, 0
	if c.now.Rounds == 0 {
		return
	}
	c.cost += c.now.Cost
	c.starts += int64(c.plans)
	c.asked += int64(c.plans + c.now.Waiting)
	for i := range out.Placements {
		c.price += int64(out.Placements[i].Price)
	}
}

// committed takes in how long a batch took.
func (m *measure) committed(took time.Duration) {
	if m.cycle.placing {
		m.cycle.placing, m.cycle.durable = false, took
	}
}

func (m *measure) cycleEnded() {
	c := &m.cycle
	c.count++
	if c.now.Preemptions > c.now.Revoked {
		c.preempting++
	}
	if c.now.Rounds == 0 {
		c.idle.add(int64(c.took))
		return
	}
	c.solved++
	c.solves += int64(c.now.Solves)
	c.work += c.now.SolverWork
	c.inserted += int64(c.now.Inserted)
	if c.now.LimitedBy != "" {
		c.limited++
	}
	for p, d := range c.now.Durations {
		c.phases[p].add(int64(d))
	}
	c.commit.add(int64(c.durable))
	c.total.add(int64(c.took + c.durable))
	c.arcs.add(c.now.ArcsTouched)
	c.nodes.add(c.now.NodesTouched)
	c.placed.add(int64(c.plans))
	m.stress.VectorConflicts += int64(max(0, c.now.Rounds-1))
}

func (m *measure) cycles() Cycles {
	c := &m.cycle
	out := Cycles{
		Count: c.count, Solved: c.solved, Solves: c.solves, SolverWork: c.work, Inserted: c.inserted,
		Refused: m.refused, Limited: c.limited, Preempting: c.preempting, Latency: map[string]Quantiles{},
		ArcsTouched: c.arcs.quantiles(1), NodesTouched: c.nodes.quantiles(1), Placements: c.placed.quantiles(1),
		MeanPrice: per(c.price, c.starts), CostPerTask: per(c.cost, c.asked),
	}
	for p := range cycle.NumPhases {
		out.Latency[p.String()] = c.phases[p].quantiles(milliseconds)
	}
	out.Latency["commit"] = c.commit.quantiles(milliseconds)
	out.Latency["total"] = c.total.quantiles(milliseconds)
	out.Latency["idle"] = c.idle.quantiles(milliseconds)
	return out
}

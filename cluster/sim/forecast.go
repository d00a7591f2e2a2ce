package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// JobForecast says what becomes of a job whose tasks wait. The times are from the beginning of the forecast on, negative where the run
// ended before.
type JobForecast struct {
	Job     cluster.JobID
	Pool    cluster.PoolPath
	Waiting int           // tasks at the beginning, those that wait for other jobs among them
	First   time.Duration // until the first of these is placed
	Last    time.Duration // until all of them have been
	End     time.Duration // until the job has ended; a service does not
}

// Outlook is what a forecast says.
type Outlook struct {
	Jobs    []JobForecast // that wait, in the order of their submission
	Unknown int           // batch jobs that run or wait and of whose run times nothing is known
	Away    int           // hosts that are unreachable, and are taken to be gone
	Result  *Result       // how the run went
}

// Forecast goes on from a snapshot, as a run of the simulator that begins at now, which is not before LastChange, and says what becomes of
// the jobs that wait in it. What runs goes on as long as the median of its kind of work, those left out that took less than it has run
// already, and no longer than its job allows. Where no such runs are known it is as long as the job's estimate says, or else unknown: 0 is
// for ever, as services run. No job comes. The configuration needs no workload, and its Horizon ends the run. No checker is asked, which
// would have to know all that was before. If ctx ends first, the outlook is as far as the run came, and comes with ctx's error.
func Forecast(ctx context.Context, snap *cluster.Snapshot, now cluster.Time, unknown time.Duration, c Config) (*Outlook, error) {
	p := &present{snap: snap, now: now, remaining: map[cluster.RunID]time.Duration{}, waiting: map[cluster.JobUID]*prospect{}}
	out := &Outlook{Unknown: p.estimate(unknown)}
	c.present = p
	c.Workload = &trace.Workload{Jobs: noJobs{}, Departures: true, Arrivals: true}
	for h := range snap.Hosts("") {
		if h.Unreachable {
			out.Away++
			continue
		}
		c.Workload.Hosts = append(c.Workload.Hosts, trace.Host{Name: h.ID.Name(), Shard: h.ID.Shard(), Machine: *h.Machine})
	}
	slices.SortStableFunc(c.Workload.Hosts, func(a, b trace.Host) int { return cmp.Compare(a.Name, b.Name) })
	if len(c.Workload.Hosts) == 0 {
		return nil, errors.New("sim: no host of the snapshot is there, so nothing will ever start")
	}
	var err error
	if out.Result, err = Run(ctx, c); out.Result == nil {
		return nil, err
	}
	for _, x := range p.order {
		out.Jobs = append(out.Jobs, x.JobForecast)
	}
	return out, err
}

// noJobs is a source without jobs.
type noJobs struct{}

// Next implements trace.Source.
func (noJobs) Next() (*trace.Job, error) { return nil, io.EOF }

// present is a cluster from which a run goes on.
type present struct {
	snap      *cluster.Snapshot
	now       cluster.Time
	jobs      map[cluster.JobID]*trace.Job
	remaining map[cluster.RunID]time.Duration // of runs that there are
	waiting   map[cluster.JobUID]*prospect    // what has not ended yet
	order     []*prospect
}

// prospect is a job that waits, and for what.
type prospect struct {
	JobForecast
	unplaced map[cluster.TaskKey]bool
	service  bool
	ended    cluster.Time // when a task of it ended last
}

// LastChange returns when the cluster changed last.
func LastChange(snap *cluster.Snapshot) (at cluster.Time) {
	for t := range snap.Tasks(0) {
		at = max(at, t.Since, t.Queued, t.Placed, t.Started, t.Finished)
	}
	for j := range snap.Jobs(0) {
		at = max(at, j.Submitted)
	}
	return max(at, begin)
}

// told reports whether all is known that a forecast says.
func (p *present) told() bool { return p != nil && len(p.waiting) == 0 }

// estimate works out how long everything goes on, and who waits. It returns of how many batch jobs that have not ended no run times are
// known and none is estimated.
func (p *present) estimate(unknown time.Duration) (strangers int) {
	p.jobs = map[cluster.JobID]*trace.Job{}
	known := newEstimates(p.snap)
	takes := func(spec *cluster.JobSpec, elapsed time.Duration) time.Duration {
		return bounded(known.runTime(cluster.WorkOf(spec), elapsed, cmp.Or(spec.Estimate, unknown)), spec)
	}
	for j := range p.snap.Jobs(0) {
		spec := *j.Spec
		duration := time.Duration(0)
		if !spec.Type.Service() {
			if spec.Estimate == 0 && len(known.of(cluster.WorkOf(&spec))) == 0 && !j.State().Terminal() {
				strangers++
			}
			duration = takes(&spec, 0)
		}
		p.jobs[spec.Name] = &trace.Job{Spec: spec, Durations: []time.Duration{duration}}
	}
	for t := range p.snap.Tasks(0) {
		j := p.snap.Job(t.Key.Job())
		switch {
		case t.State.Bound() && !j.Spec.Type.Service():
			elapsed := time.Duration(0)
			if t.Started >= t.Placed {
				elapsed = max(0, p.now.Sub(t.Started))
			}
			if d := takes(j.Spec, elapsed); d > 0 {
				if d -= elapsed; d <= 0 { // it has run longer than all others, and ends some time soon: nobody knows when
					d = max(elapsed/10, time.Second)
				}
				p.remaining[t.RunID()] = d
			}
		case (t.State.Waits() || t.State == cluster.TaskInitialized) && !t.Key.IsCopy():
			o := p.waiting[j.UID]
			if o == nil {
				o = &prospect{
					JobForecast: JobForecast{Job: j.Spec.Name, Pool: j.Spec.Pool, First: -1, Last: -1, End: -1},
					unplaced:    map[cluster.TaskKey]bool{}, service: j.Spec.Type.Service(),
				}
				p.waiting[j.UID], p.order = o, append(p.order, o)
			}
			o.Waiting++
			o.unplaced[t.Key] = true
		}
	}
	return strangers
}

// estimates are the run times of works, each as those that a thousandth, two thousandths and so on of its runs did not exceed; none where
// too few runs were seen.
type estimates struct {
	known *knowledge.Base
	works map[string][]time.Duration
}

func newEstimates(snap *cluster.Snapshot) *estimates {
	return &estimates{(&knowledge.Feed{}).Next(snap, 0, nil), map[string][]time.Duration{}}
}

func (e *estimates) of(work string) []time.Duration {
	times, asked := e.works[work]
	if _, ok := e.known.RunTime(work); ok && !asked {
		for permille := range 1000 {
			d, _ := e.known.RunTimeWithin(work, permille+1)
			times = append(times, max(d, time.Millisecond))
		}
	}
	e.works[work] = times
	return times
}

// runTime returns the median run time of the work, of those runs that took longer than the time that has passed; unknown where nothing is
// known. 0 is for ever.
func (e *estimates) runTime(work string, elapsed, unknown time.Duration) time.Duration {
	times := e.of(work)
	if len(times) == 0 {
		return unknown
	}
	longer, _ := slices.BinarySearch(times, elapsed+1)
	return times[(longer+len(times)-1)/2]
}

// bounded holds a run time to what the job allows.
func bounded(d time.Duration, spec *cluster.JobSpec) time.Duration {
	if most := spec.Limits.MaxRunTime; most > 0 && (d == 0 || d > most) {
		return most
	}
	return d
}

// observe takes in a durable record.
func (p *present) observe(r cluster.Record) {
	at := r.At.Sub(p.now)
	switch e := r.Event.(type) {
	case *cluster.Placed:
		if o := p.waiting[e.Task.Job()]; o != nil && o.unplaced[e.Task] {
			delete(o.unplaced, e.Task)
			if o.First < 0 {
				o.First = at
			}
			if len(o.unplaced) == 0 {
				o.Last = at
				if o.service {
					delete(p.waiting, e.Task.Job())
				}
			}
		}
	case *cluster.TaskStatus:
		if o := p.waiting[e.Task.Job()]; o != nil && e.State.Terminal() {
			o.ended = r.At
		}
	case *cluster.JobDeleted:
		if o := p.waiting[e.Job]; o != nil {
			o.End = cmp.Or(o.ended, r.At).Sub(p.now)
			delete(p.waiting, e.Job)
		}
	}
}

// resume puts what the snapshot says runs into the world, and has what is measured begin with it.
func (s *simulation) resume() error {
	p := s.config.present
	for _, l := range s.links {
		for h := range p.snap.Hosts(cluster.MakeHostID(l.shard, "")) {
			if h.ID.Shard() != l.shard {
				break
			}
			for _, k := range h.Tasks {
				t := p.snap.Task(k)
				if t.State == cluster.TaskPlaced || h.Unreachable {
					continue // it has not been sent; it is lost, or will be found
				}
				j := p.snap.Job(k.Job())
				err := l.driver.Launch(context.Background(), hostmgr.Launch{
					Run: t.RunID(), Job: j.Spec.Name, Host: h.ID.Name(), Task: *j.TaskFor(t), GPUs: t.GPUs, Ports: t.Ports,
				})
				if err != nil {
					return fmt.Errorf("sim: %v, which runs in the snapshot: %w", k, err)
				}
			}
		}
	}
	s.clock.Advance(0) // they run
	s.measure.resume(p.snap)
	return nil
}

package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// begin is the virtual time at which every trace begins. What goes on from a snapshot begins at its time.
const begin = cluster.Time(24 * time.Hour)

// simulation is one run.
type simulation struct {
	config Config
	begin  cluster.Time
	clock  *fleet.VirtualClock
	err    error // ends the run

	journal   journal.Journal
	digest    hash.Hash
	scheduler *scheduler
	links     []*link
	checker   *check.Checker
	measure   *measure
	faults    *injector

	next    *trace.Job                   // to arrive, nil after the last
	unheard []*trace.Job                 // submitted and not acknowledged
	jobs    map[cluster.JobID]*trace.Job // that are alive
	steps   int64                        // of the loop
	paid    int                          // for questions to the checker, in records; see quiet
	ending  bool                         // the horizon has passed
	moved   cluster.Time                 // when a task was placed, asked to leave or ended last
}

// Run simulates the workload to its end. An error means that the run could not be carried out; what the checker found is
// in the result. If ctx ends first, the result is that of the time until then, and comes with ctx's error: of what is asked at
// the end of a run nothing was asked. Run is single-threaded.
func Run(ctx context.Context, config Config) (*Result, error) {
	if err := config.fill(); err != nil {
		return nil, err
	}
	s, err := newSimulation(config)
	if err != nil {
		return nil, err
	}
	interrupted := s.loop(ctx)
	if interrupted == nil {
		s.finish()
	}
	if s.err != nil {
		return nil, s.err
	}
	r, err := s.result()
	return r, cmp.Or(err, interrupted)
}

func newSimulation(config Config) (*simulation, error) {
	s := &simulation{
		config: config, begin: begin, journal: journal.NewMemory(), digest: sha256.New(),
		jobs: map[cluster.JobID]*trace.Job{},
	}
	if p := config.present; p != nil {
		s.begin, s.moved, s.jobs = p.now, p.now, p.jobs
		if err := s.journal.Restore(context.Background(), p.snap); err != nil {
			return nil, err
		}
	}
	s.clock = fleet.NewVirtualClock(s.begin)
	truth := map[cluster.HostID]cluster.Machine{}
	hosts := map[cluster.ShardID][]hostmgr.Host{}
	for _, h := range config.Workload.Hosts {
		truth[h.ID()] = h.Machine
		shard := h.ID().Shard()
		hosts[shard] = append(hosts[shard], hostmgr.Host{Name: h.Name, Machine: h.Machine})
	}
	if config.present != nil {
		for h := range config.present.snap.Hosts("") { // also where none is reachable
			hosts[h.ID.Shard()] = slices.Clip(hosts[h.ID.Shard()])
		}
	}
	s.checker = check.New(truth)
	s.measure = newMeasure(s)
	for _, shard := range slices.Sorted(maps.Keys(hosts)) {
		world, err := fleet.New(fleet.Config{
			Hosts: hosts[shard], Clock: s.clock, Plan: func(l hostmgr.Launch) fleet.Plan { return s.script(l, cluster.MakeHostID(shard, l.Host)) },
			OnStart: func(l hostmgr.Launch) {
				if s.judged() {
					s.checker.Started(l.Run)
				}
			},
			Faults: config.Faults.ofReports(config.Seed),

			UsageInterval: config.Usage.Interval, Interference: config.Interference,
		})
		if err != nil {
			return nil, err
		}
		l := &link{
			s: s, shard: shard, fleet: world, driver: world.Open(), since: s.begin, sent: map[cluster.TaskKey]sentRun{},
			told: map[cluster.RunID]bool{}, refused: map[cluster.RunID]hostmgr.Status{}, health: map[cluster.RunID]cluster.Health{},
		}
		s.links = append(s.links, l)
		if err := l.driver.Start(context.Background(), l); err != nil {
			return nil, err
		}
	}
	s.faults = newInjector(s)
	if config.present != nil {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	if err := s.startScheduler(); err != nil {
		return nil, err
	}
	for _, l := range s.links {
		l.connect()
	}
	if config.Horizon > 0 {
		s.clock.AfterFunc(config.Horizon, func() {
			s.ending = true
			s.faults.stop()
		})
	}
	s.faults.start()
	for _, b := range config.byHand {
		s.clock.AfterFunc(b.at, func() {
			if !s.scheduler.dead {
				s.scheduler.send(b.do, nil)
			}
		})
	}
	return s, s.arrive()
}

// script tells a fleet what becomes of a run on a host.
func (s *simulation) script(l hostmgr.Launch, host cluster.HostID) fleet.Plan {
	job := s.jobs[l.Job]
	d := job.Duration(l.Run.Task.Instance())
	if p := s.config.present; p != nil {
		d = cmp.Or(p.remaining[l.Run], d)
	}
	if d == 0 {
		d = fleet.Forever
	}
	plan := fleet.Plan{Duration: s.config.Stragglers.stretch(d, s.config.Seed, l), Work: cluster.WorkOf(&job.Spec)}
	if s.config.Usage.Mean > 0 {
		plan.Usage = s.usage(l, host, plan.Duration)
	}
	if s.config.life != nil {
		s.config.life(l, &plan)
	}
	return plan
}

// progressSteps is how many steps of the loop lie between two reports of progress.
const progressSteps = 1 << 10

// loop moves the clock from event to event until there is none left, or the run has come to its end, or failed: only that ctx
// ended is an error of its own.
func (s *simulation) loop(ctx context.Context) error {
	for s.err == nil {
		at, more := s.clock.Next()
		if !more || s.over() || s.config.StopAfter > 0 && s.checker.Count() >= s.config.StopAfter {
			break
		}
		s.clock.Advance(at.Sub(s.clock.Now()))
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.steps++; s.steps%progressSteps == 0 && s.config.Progress != nil {
			s.config.Progress(s.measure.progress())
		}
	}
	return nil
}

// over reports whether the moment is quiet, and the horizon has passed, all has ended, or all has settled. Where no moment is quiet, as
// plans never do without another one, the run ends some time after the horizon.
func (s *simulation) over() bool {
	if !s.scheduler.idle() {
		return s.ending && s.now() > s.config.Horizon+settleTime
	}
	return s.ending || s.next == nil && len(s.jobs) == 0 || s.config.present.told() || s.settled()
}

// judged reports whether the checker knows all that was before, and so what may be.
func (s *simulation) judged() bool { return s.config.present == nil }

// settleTime is how long nothing has to move until it never will: longer than room is held in vain. patientTime is how long
// that has to be where a task rather waits than goes where there is room. Under sjf that may take hours: by its price it
// waits longer for a host where launches came to nothing than they are held against that.
const (
	settleTime  = 15 * time.Minute
	patientTime = 12 * time.Hour
)

// settled reports whether nothing is to come, nothing that runs will end, and nothing has moved for long. Holds may still
// come and go for ever, each to expire in vain.
func (s *simulation) settled() bool {
	still := settleTime
	if s.scheduler.patient {
		still = patientTime
	}
	return !s.busy() && s.faults.idle() && s.clock.Now().Sub(s.moved) > still
}

// now returns the virtual time since the beginning of the trace.
func (s *simulation) now() time.Duration { return s.clock.Now().Sub(s.begin) }

// fail ends the run; failOn does if there is an error.
func (s *simulation) fail(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("sim: at %v: %w", s.now(), err)
	}
}

func (s *simulation) failOn(err error) {
	if err != nil {
		s.fail(err)
	}
}

func (s *simulation) stopwatch() time.Duration {
	if s.config.Stopwatch == nil {
		return 0
	}
	return s.config.Stopwatch()
}

// append makes records durable and adds them to the digest.
func (s *simulation) append(records []cluster.Record) error {
	if len(records) == 0 {
		return nil
	}
	blob, err := journal.Encode(records)
	if err != nil {
		return err
	}
	_, _ = s.digest.Write(blob) // never fails
	return s.journal.Append(records)
}

func (s *simulation) checkpoint(snapshot *cluster.Snapshot) error {
	return s.journal.Checkpoint(context.Background(), snapshot)
}

// observe shows a batch that is in the journal to those who judge and measure.
func (s *simulation) observe(records []cluster.Record) {
	for _, r := range records {
		if e, gone := r.Event.(*cluster.JobDeleted); gone {
			if name := s.measure.byUID[e.Job].spec.Name; s.scheduler.state.JobByName(name) == nil {
				delete(s.jobs, name)
			}
		}
		s.measure.record(r)
		if s.config.rewrite != nil {
			s.config.rewrite(&r)
		}
		if s.judged() {
			s.checker.Record(r)
		} else {
			s.config.present.observe(r)
		}
		switch r.Event.(type) {
		case *cluster.Placed, *cluster.TaskStatus, *cluster.TaskPreempted, *cluster.JobsSubmitted, *cluster.JobStopping, *cluster.TaskStopping, *cluster.UpdateAdvanced:
			s.moved = r.At
		}
	}
	s.measure.batch()
	s.paid += len(records)
}

// quietPrice is how many looks, at a job or at a host for one request, a record pays for.
const quietPrice = 50

// quiet is called when the scheduler has planned with all there is and nothing has happened since. Asking the checker
// costs jobs + requests × hosts, so it is done as often as the records pay for it, and at the end in any case.
func (s *simulation) quiet() {
	if s.paid < 0 || !s.judged() {
		return
	}
	s.measure.quiet++
	s.paid -= s.checker.Quiet() / quietPrice
}

// finish asks the last questions. The loop has come to a quiet end.
func (s *simulation) finish() {
	if !s.judged() {
		return
	}
	if !s.scheduler.patient || s.settled() { // else some wait because they want to
		s.measure.quiet++
		s.checker.Quiet()
	}
	if s.config.Horizon == 0 {
		s.checker.Settled()
	}
	waiting, bound := 0, 0
	for t := range s.scheduler.state.Tasks(0) {
		switch {
		case t.State.Bound():
			bound++
		case t.State == cluster.TaskPending && t.NotBefore == 0:
			waiting++
		}
	}
	s.checker.Compare(waiting, bound)
}

// allow lets the tasks of a job, nil for none, have copies where all may that can.
func (s *simulation) allow(j *trace.Job) {
	if j != nil && s.config.Idempotent && j.Spec.Type == cluster.Batch && j.Spec.Gang == nil && !j.Spec.Controller && j.Spec.Speculation == nil {
		j.Spec.Speculation = &cluster.Speculation{}
	}
}

// arrive schedules the submission of the next jobs.
func (s *simulation) arrive() error {
	if s.next == nil {
		next, err := s.config.Workload.Jobs.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.allow(next)
		s.next = next
	}
	at := s.begin.Add(s.next.Submit)
	s.clock.AfterFunc(at.Sub(s.clock.Now()), func() { s.failOn(s.submitDue()) })
	return nil
}

// arrivalBatch bounds the jobs of one submission.
const arrivalBatch = 1000

// submitDue submits the jobs whose time has come, and schedules the next.
func (s *simulation) submitDue() error {
	if s.ending {
		s.next = nil
		return nil
	}
	at := s.next.Submit
	var due []*trace.Job
	for s.next != nil && s.next.Submit == at && len(due) < arrivalBatch {
		due = append(due, s.next)
		next, err := s.config.Workload.Jobs.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.allow(next)
		s.next = next
	}
	s.unheard = append(s.unheard, due...)
	if !s.scheduler.dead {
		s.submit(due)
	}
	if s.next == nil {
		return nil
	}
	return s.arrive()
}

// submit has the jobs accepted by the scheduler that lives now. If it crashes before it answers, they come again.
func (s *simulation) submit(jobs []*trace.Job) {
	s.scheduler.send(func(tx *rules.Tx) error {
		var fresh []cluster.NewJob
		for _, j := range jobs {
			if s.jobs[j.Spec.Name] != nil {
				continue // durable, and its acknowledgement was lost, or the name is taken
			}
			if err := makePool(tx, j.Spec.Pool); err != nil {
				return err
			}
			if !tx.State().IsLeaf(j.Spec.Pool) {
				return fmt.Errorf("job %q: there are pools below its pool %q, and jobs go to the lowest ones only", j.Spec.Name, j.Spec.Pool)
			}
			s.jobs[j.Spec.Name] = j
			fresh = append(fresh, cluster.NewJob{UID: tx.State().NextJob() + cluster.JobUID(len(fresh)), Spec: &j.Spec})
		}
		if len(fresh) == 0 {
			return nil
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: fresh})
	}, func(err error) {
		s.failOn(err)
		s.unheard = s.unheard[len(jobs):] // they are answered in the order in which they were sent
		for _, j := range jobs {
			if accepted := s.scheduler.snapshot.JobByName(j.Spec.Name); accepted != nil {
				s.scheduler.forget([]cluster.JobUID{accepted.UID}) // it may have ended before
			}
		}
	})
}

// makePool creates a pool and those above it as far as they are missing.
func makePool(tx *rules.Tx, path cluster.PoolPath) error {
	if path == "" || tx.State().Pool(path) != nil {
		return nil
	}
	if err := makePool(tx, path.Parent()); err != nil {
		return err
	}
	return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}})
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// CycleSummary is what one cycle did, from the changes it took in to its placements being durable.
type CycleSummary struct {
	Number     uint64 // from 1, since the start of the scheduler
	At         time.Time
	Stats      cycle.Stats
	Commit     time.Duration // making the placements durable
	Total      time.Duration
	Placements int // planned
	Conflicts  int // events of the plan that the state no longer allowed
	Done       Done
}

// Done is what became of a plan: as much of it as the state allowed.
type Done struct{ Placements, Preemptions, Migrations int }

// count takes a step of a plan in, or, if by is −1, out again.
func (d *Done) count(step []cluster.Event, by int) {
	for _, e := range step {
		switch e := e.(type) {
		case *cluster.Placed:
			d.Placements += by
		case *cluster.TaskPreempted:
			if e.Hold != nil {
				d.Migrations += by
			} else {
				d.Preemptions += by
			}
		}
	}
}

// runCycles plans whenever something changed, and never otherwise.
func (s *Scheduler) runCycles(ctx context.Context) error {
	w := s.watchEarly()
	defer w.Close()
	atOnce, missed := false, false
	var refusals rules.Refusals
	lastFault := ""
	costs := costPolicy{s: s}
	feed := knowledge.Feed{Interval: s.config.LearnEvery}
	wake, wakeAt := time.NewTimer(time.Hour), time.Time{}
	defer wake.Stop()
	wake.Stop()
	for number := uint64(0); ; {
		if !atOnce && len(w.C) == 0 && s.config.Rest != nil {
			s.config.Rest()
		}
		if !atOnce {
			select {
			case <-ctx.Done():
				return nil
			case ask := <-s.questions:
				if ask(); s.config.Planner.Cold() {
					wakeAt = time.Time{}
					wake.Reset(0)
				}
				continue
			case <-wake.C:
				if left := wakeAt.Sub(s.now()); left > 0 { // see clockLook
					wake.Reset(min(left, clockLook))
					continue
				}
			case <-w.C:
			}
		}
		if !sleep(ctx, s.config.BatchWindow) {
			return nil
		}
		snapshot, changes, all := w.Take()
		mode := snapshot.Mode()
		if s.evacuating.Load() || mode.PlacesNothing() {
			atOnce, missed = false, true
			continue
		}
		number++
		begun, now := time.Now(), s.clock()
		out := s.config.Planner.Run(cycle.Input{
			Snapshot: snapshot, Changes: changes, Rescan: all || missed,
			KeepAll:   mode.KillingStopped,
			Now:       now,
			Policy:    costs.of(snapshot),
			Knowledge: feed.Next(snapshot, now, func() knowledge.Usage { return s.hostUsage(snapshot) }),
			Budget:    s.budget(),
			Stopwatch: func() time.Duration { return time.Since(begun) },
		})
		missed = false
		sum := CycleSummary{Number: number, At: begun, Stats: out.Stats, Placements: len(out.Placements)}
		committing := time.Now()
		done, refused, err := s.commitPlan(ctx, out.Steps())
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, ErrStopped) { // the writer tells why
				return nil
			}
			return err
		}
		sum.Done, sum.Conflicts, sum.Commit, sum.Total = done, refused, time.Since(committing), time.Since(begun)
		wakeAt = out.WakeAt.Go()
		pause, again := refusals.Next(snapshot, refused)
		if atOnce = again && pause == 0; again && !atOnce && (out.WakeAt == 0 || wakeAt.Sub(s.now()) > pause) {
			wakeAt = s.now().Add(pause)
		}
		if wake.Stop(); !wakeAt.IsZero() {
			wake.Reset(min(wakeAt.Sub(s.now()), clockLook))
		}
		if fault := out.Stats.Fault; fault != lastFault {
			if lastFault = fault; fault != "" {
				s.log.Error("the cost model is broken; another one plans until another policy is set", "fault", fault, "planning", out.Stats.Model)
			}
		}
		plan := madePlan{sum, snapshot, &out}
		s.cycles.publish(plan)
		s.metrics.observe(&sum)
		if t := s.config.Traces; t != nil {
			t.cycle(&plan)
		}
		if c := out.Shadow; c != nil {
			s.metrics.compare(c)
			s.log.Info("the model in the shadow plans otherwise", "model", c.Model, "same", c.Same, "elsewhere", c.Elsewhere, "later", c.Later,
				"earlier", c.Earlier, "preemptions", c.Preemptions, "fault", c.Fault, "first", c.Differences)
		}
	}
}

// Beats returns what beats once in that time.
func Beats(every time.Duration) cycle.Watch {
	return func() (<-chan time.Time, func()) {
		t := time.NewTicker(every)
		return t.C, t.Stop
	}
}

// consult has the planner answer between two cycles, which it belongs to otherwise.
func (s *Scheduler) consult(ctx context.Context, ask func(*cycle.Supervisor)) error {
	done := make(chan struct{})
	question := func() {
		defer close(done)
		ask(s.config.Planner)
	}
	select {
	case s.questions <- question:
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// commitPlan makes the plan durable, and before it what it was made of, and returns what was done of it, and how many of its events
// the state refused: since the snapshot of the plan, a task may have been stopped, or a host drained or lost.
func (s *Scheduler) commitPlan(ctx context.Context, steps [][]cluster.Event) (done Done, refused int, err error) {
	var made Done // neither it nor count is a result: the command may run on when Do has given up
	count := 0
	err = s.Do(ctx, func(tx *Tx) error {
		for _, step := range steps {
			made.count(step, 1)
		}
		count = rules.Commit(tx, steps, func(step []cluster.Event, err error) {
			made.count(step, -1)
			s.log.Debug("a step of the plan was refused", "event", fmt.Sprintf("%T", step[0]), "error", err)
		})
		return nil
	})
	if err != nil {
		return Done{}, 0, err
	}
	return made, count, nil
}

// cycleFeed holds the latest cycle for readers and wakes those who wait for the next.
type cycleFeed struct {
	mu    sync.Mutex
	last  CycleSummary
	pools []pool.Status // by path
	plan  madePlan      // see lastPlan
	next  chan struct{} // closed when last changes
}

func (f *cycleFeed) init() { f.next = make(chan struct{}) }

func (f *cycleFeed) publish(plan madePlan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.pools = plan.cycle, plan.out.Pools
	if !plan.idle() || f.plan.idle() {
		f.plan = plan
	}
	close(f.next)
	f.next = make(chan struct{})
}

// LastCycle returns the latest cycle (Number 0 before the first) and a channel that is closed when there is a later one.
func (s *Scheduler) LastCycle() (CycleSummary, <-chan struct{}) {
	s.cycles.mu.Lock()
	defer s.cycles.mu.Unlock()
	return s.cycles.last, s.cycles.next
}

// poolStatus returns what the last cycle found out about a pool; empty if that cycle did not know the pool.
func (s *Scheduler) poolStatus(p cluster.PoolPath) pool.Status {
	s.cycles.mu.Lock()
	defer s.cycles.mu.Unlock()
	if status := pool.Find(s.cycles.pools, p); status != nil {
		return *status
	}
	return pool.Status{Path: p}
}

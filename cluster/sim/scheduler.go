package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/cluster/verify"
)

// maxBatch bounds the commands that share one sync, as in production.
const maxBatch = 512

// Planner decides placements: cycle.Planner, or something a test puts around it.
type Planner interface {
	Run(cycle.Input) cycle.Output
}

// command is a function for the writer with its answer, which is called when what it emitted is durable.
type command struct {
	about cluster.TaskKey // the task that run is about; 0: none, or not one alone
	run   func(*rules.Tx) error
	done  func(error)
}

// scheduler is one life of the scheduler process, from a start to a crash: what package serve does, on the event loop.
type scheduler struct {
	s       *simulation
	state   *cluster.State
	planner Planner
	feed    knowledge.Feed
	slack   knowledge.Slack
	uses    knowledge.Uses
	dead    bool // crashed: whatever the loop still calls does nothing

	queue   []command
	syncing bool // a batch is on its way to the journal

	snapshot *cluster.Snapshot // the latest durable view
	fresh    cluster.Changes   // since the snapshot that the last cycle took
	rescan   bool              // the next cycle is the first
	planning planStage
	wakeAt   cluster.Time // when time alone may change the plan, 0 for never
	noWake   func()       // takes the alarm for wakeAt back
	refusals rules.Refusals
	patient  bool // some task rather waits than goes where there is room
	awake    bool // the alarm has rung, and no cycle has begun since
	spins    int  // see verify

	mode    cluster.Mode // of the snapshot
	timers  *rules.Timers
	alarmAt cluster.Time // when the alarm for what the timers know of rings, 0 if it is not set
	noAlarm func()       // takes the alarm back

	checkpointed uint64 // Seq of the last checkpoint
	watching     bool   // for deadlines
	speculating  bool   // looking for tasks that lag behind
}

// planStage is where the cycle is.
type planStage uint8

const (
	resting   planStage = iota // nothing has changed since the last cycle
	gathering                  // the batch window is open
	deciding                   // a plan is being made, or on its way to the journal
)

// startScheduler begins a life from what the journal holds. In an empty journal it creates the cluster.
func (s *simulation) startScheduler() error {
	state, err := journal.Load(s.journal)
	if err != nil {
		return fmt.Errorf("sim: replaying the journal: %w", err)
	}
	p := &scheduler{
		s: s, state: state, planner: s.config.newPlanner(), rescan: true,
		feed:         knowledge.Feed{Interval: s.config.LearnEvery},
		slack:        knowledge.Slack{Window: s.config.Usage.Window, Margin: s.config.Usage.Margin},
		checkpointed: state.Seq(), noWake: func() {},
		timers: rules.NewTimers(0), noAlarm: func() {},
	}
	p.snapshot, _ = state.Snapshot()
	p.mode = p.snapshot.Mode()
	s.scheduler = p
	p.timers.Note(p.snapshot, p.s.clock.Now(), cluster.Changes{}, true)
	p.setAlarm()
	if state.ClusterID() == "" {
		p.send(func(tx *rules.Tx) error {
			return s.found(tx)
		}, s.failOn)
	}
	if mode := p.mode; mode.Restored {
		mode.Restored = false // there is nothing here but what the snapshot knows
		p.send(func(tx *rules.Tx) error { return tx.Emit(&cluster.ModeSet{Mode: mode}) }, s.failOn)
	}
	for h := range state.Hosts("") {
		if h.Unreachable {
			p.watch()
		}
	}
	p.speculate() // for what an earlier life began
	var before []cluster.JobUID
	for j := range p.snapshot.Jobs(0) {
		before = append(before, j.UID)
	}
	p.forget(before) // those that ended when it did
	p.gather()
	return nil
}

// found creates the cluster with the pools that are there from the beginning.
func (s *simulation) found(tx *rules.Tx) error {
	if err := tx.Emit(&cluster.ClusterCreated{ID: fmt.Sprintf("simulation-%d", s.config.Seed)}); err != nil {
		return err
	}
	for _, p := range slices.Concat(s.config.Workload.Pools, s.config.Pools) {
		if err := makePool(tx, p.Path.Parent()); err != nil {
			return err
		}
		if err := tx.Emit(&cluster.PoolPut{Pool: p}); err != nil {
			return err
		}
	}
	return nil
}

// crash ends this life. What the journal holds is all that is left of it.
func (p *scheduler) crash() {
	p.dead = true
	p.state, p.planner, p.snapshot = nil, nil, nil
}

// idle reports whether the scheduler has planned with all there is, and nothing has happened since.
func (p *scheduler) idle() bool {
	return !p.dead && p.planning == resting && !p.due() && !p.syncing && len(p.queue) == 0
}

// due reports whether there is something to plan for.
func (p *scheduler) due() bool { return !p.fresh.Empty() || p.rescan || p.awake }

// after has the loop call fn unless the scheduler has crashed by then. stop takes fn back.
func (p *scheduler) after(d time.Duration, fn func()) (stop func()) {
	return p.s.clock.AfterFunc(d, func() {
		if !p.dead && p.s.err == nil {
			fn()
		}
	})
}

// send queues a command for the writer. done, which may be nil, is called when it is durable, and never if the scheduler
// crashes first.
func (p *scheduler) send(run func(*rules.Tx) error, done func(error)) { p.sendAbout(0, run, done) }

// sendAbout is send of a command that is about one task.
func (p *scheduler) sendAbout(task cluster.TaskKey, run func(*rules.Tx) error, done func(error)) {
	p.queue = append(p.queue, command{task, run, done})
	if !p.syncing {
		p.syncing = true
		p.after(0, p.commit) // what else comes in this moment shares the sync
	}
}

// commit runs the commands that wait as one batch, and publishes the result when the sync is over.
func (p *scheduler) commit() {
	batch := p.queue[:min(len(p.queue), maxBatch)]
	p.queue = p.queue[len(batch):]
	begun := p.s.stopwatch()
	tx := rules.Begin(p.state, p.s.clock.Now())
	answers := make([]error, len(batch))
	for i, c := range rules.ReadingAhead(tx, batch, func(c *command) cluster.TaskKey { return c.about }) {
		answers[i] = c.run(tx)
	}
	if err := rules.Settle(tx); err != nil {
		p.s.fail(err)
		return
	}
	records := tx.Records()
	if err := p.s.append(records); err != nil {
		p.s.fail(err)
		return
	}
	p.s.measure.committed(p.s.stopwatch() - begun)
	if len(records) == 0 {
		p.answer(batch, answers)
		return
	}
	p.s.observe(records)
	snapshot, changes := p.state.Snapshot()
	p.after(p.s.config.SyncTime, func() {
		p.publish(snapshot, changes)
		p.answer(batch, answers)
	})
}

// answer ends a batch and begins the next.
func (p *scheduler) answer(batch []command, answers []error) {
	p.syncing = false
	for i, c := range batch {
		if c.done != nil {
			c.done(answers[i])
		}
	}
	if len(p.queue) > 0 && !p.syncing {
		p.syncing = true
		p.after(0, p.commit)
	}
}

// publish lets everybody who watches see the durable state.
func (p *scheduler) publish(snapshot *cluster.Snapshot, changes cluster.Changes) {
	p.snapshot = snapshot
	p.fresh.Merge(changes)
	p.timers.Note(snapshot, p.s.clock.Now(), changes, false)
	p.setAlarm()
	if before := p.mode; snapshot.Mode() != before {
		p.mode, p.awake = snapshot.Mode(), true
		for _, l := range p.s.links {
			if before.KillingStopped && !p.mode.KillingStopped && l.connected {
				l.connect() // what has to end is found out anew
			}
		}
	}
	p.dispatch(changes.Tasks)
	p.forget(changes.Jobs)
	for _, id := range changes.Hosts {
		if h := snapshot.Host(id); h != nil && h.Unreachable {
			p.watch()
		}
	}
	for _, uid := range changes.Jobs {
		if j := snapshot.Job(uid); j != nil && j.Spec.Speculation != nil {
			p.speculate()
		}
	}
	if snapshot.Seq()-p.checkpointed >= p.s.config.CheckpointEvery {
		p.checkpointed = snapshot.Seq()
		if err := p.s.checkpoint(snapshot); err != nil {
			p.s.fail(err)
			return
		}
	}
	p.gather()
}

// gather opens the batch window of the next cycle if there is something to plan for.
func (p *scheduler) gather() {
	if p.planning != resting || !p.due() {
		return
	}
	p.planning = gathering
	p.after(p.s.config.BatchWindow, p.plan)
}

// setAlarm has the timers' next alarm ring.
func (p *scheduler) setAlarm() {
	at := p.timers.Next()
	if at == p.alarmAt {
		return
	}
	p.noAlarm()
	p.noAlarm = func() {}
	if p.alarmAt = at; at == 0 {
		return
	}
	p.noAlarm = p.after(max(0, at.Sub(p.s.clock.Now())), func() {
		p.alarmAt = 0
		due := p.timers.Due(p.s.clock.Now())
		p.send(func(tx *rules.Tx) error { return p.timers.Fire(tx, due) }, func(err error) {
			if err != nil {
				p.s.fail(err)
				return
			}
			p.setAlarm()
		})
	})
}

// plan makes a plan of the durable state and sends it to the writer when the time that planning takes is over.
func (p *scheduler) plan() {
	if p.mode.SchedulingStopped {
		p.planning, p.rescan, p.awake = resting, true, false
		return
	}
	p.planning = deciding
	in := cycle.Input{
		Snapshot: p.snapshot, Changes: p.fresh, Rescan: p.rescan, KeepAll: p.mode.KillingStopped,
		Now: p.s.clock.Now(), Budget: p.s.config.SolveBudget, Stopwatch: p.s.config.Stopwatch,
		Knowledge: p.feed.Next(p.snapshot, p.s.clock.Now(), p.usage),
	}
	p.fresh, p.rescan, p.awake = cluster.Changes{}, false, false
	begun := p.s.stopwatch()
	out := p.planner.Run(in)
	p.s.measure.planned(&out, p.s.stopwatch()-begun)
	steps := out.Steps()
	if p.s.config.Verify {
		p.verify(&in, &out, len(steps) == 0)
	}
	p.after(p.s.config.PlanTime, func() {
		if len(steps) == 0 {
			p.planned(in.Snapshot, 0, &out)
			return
		}
		refused := 0
		p.send(func(tx *rules.Tx) error {
			p.s.measure.cycle.placing = true
			refused = rules.Commit(tx, steps, func([]cluster.Event, error) {})
			return nil
		}, func(error) {
			p.s.measure.refused += int64(refused)
			p.planned(in.Snapshot, refused, &out)
		})
	})
}

// maxSpins is how many plans in a row may change nothing and be made anew at once, though nothing has changed.
const maxSpins = 50

// verify tells the checker what is wrong with a plan, and if the planner does not come to rest.
func (p *scheduler) verify(in *cycle.Input, out *cycle.Output, idle bool) {
	wrong := verify.Plan(in.Snapshot, out, in.Now, cycle.DefaultOptions().Hysteresis)
	if p.spins++; !idle || in.Rescan || !in.Changes.Empty() || out.WakeAt == 0 || out.WakeAt > in.Now {
		p.spins = 0
	}
	if p.spins == maxSpins {
		wrong = append(wrong, fmt.Sprintf("it is the %dth in a row that changes nothing and is made again at once", maxSpins))
	}
	p.s.checker.Plan(wrong)
}

// usage sums what was measured by host.
func (p *scheduler) usage() knowledge.Usage {
	sums := knowledge.Usage{}
	sums.Add(p.uses, p.snapshot)
	return sums
}

// planned ends a cycle. The tasks of a refused placement wait again though nothing else may change, so then the next one
// begins at once, or soon.
func (p *scheduler) planned(from *cluster.Snapshot, refused int, out *cycle.Output) {
	p.s.measure.cycleEnded()
	p.planning = resting
	p.noWake()
	p.patient = out.Patient
	p.wakeAt, p.noWake = out.WakeAt, func() {}
	pause, again := p.refusals.Next(from, refused)
	if again && pause == 0 {
		p.plan()
		return
	}
	if at := p.s.clock.Now().Add(pause); again && (p.wakeAt == 0 || at < p.wakeAt) {
		p.wakeAt = at
	}
	if p.wakeAt != 0 {
		p.noWake = p.after(p.wakeAt.Sub(p.s.clock.Now()), func() {
			p.awake = true
			p.gather()
		})
	}
	if p.idle() && !p.patient && !again {
		p.s.quiet()
	}
	p.gather()
}

// dispatch sends to the shards what the durable state of tasks calls for: a launch for each that is PLACED, a kill for
// each that is KILLING, each once in a session.
func (p *scheduler) dispatch(tasks []cluster.TaskKey) {
	for _, k := range tasks {
		t := p.snapshot.Task(k)
		if t == nil || !t.State.Bound() {
			for _, l := range p.s.links {
				delete(l.sent, k)
			}
			continue
		}
		l := p.s.linkOf(t.Host.Shard())
		if !l.ready {
			continue
		}
		before := l.sent[k]
		switch j := p.snapshot.Job(k.Job()); {
		case t.State == cluster.TaskPlaced && before.run != t.Run:
			l.sent[k] = sentRun{run: t.Run}
			l.launch(t, j)
		case t.State.Vacating() && !p.mode.KillingStopped && (before.run != t.Run || !before.killed):
			l.sent[k] = sentRun{run: t.Run, killed: true}
			grace, _ := rules.Leave(t, j.SpecFor(t))
			l.kill(t.RunID(), grace)
		}
	}
}

// forget deletes the jobs that have ended and do not go by themselves, as their owners would, so that a long trace needs no more memory
// than what is alive of it. Who has not heard yet that a job was accepted would submit it again.
func (p *scheduler) forget(jobs []cluster.JobUID) {
	for _, uid := range jobs {
		j := p.snapshot.Job(uid)
		if j == nil || !j.State().Terminal() || j.Spec.TTL > 0 || slices.ContainsFunc(p.s.unheard, func(u *trace.Job) bool { return u.Spec.Name == j.Spec.Name }) {
			continue
		}
		p.send(func(tx *rules.Tx) error {
			switch j := tx.State().Job(uid); {
			case j == nil:
				return nil // named twice among the changes
			case !j.State().Terminal():
				return errors.New("somebody has restarted it")
			}
			return tx.Emit(&cluster.JobDeleted{Job: uid})
		}, nil)
	}
}

// speculate looks for tasks that lag behind now and then, for as long as some job lets its tasks have copies.
func (p *scheduler) speculate() {
	s := &p.s.config.Speculation
	if p.speculating || s.Interval <= 0 {
		return
	}
	p.speculating = true
	p.after(s.Interval, func() {
		p.speculating = false
		for j := range p.snapshot.Jobs(0) {
			if j.Spec.Speculation == nil || j.State().Terminal() {
				continue
			}
			if !p.mode.SchedulingStopped {
				base := p.feed.Next(p.snapshot, p.s.clock.Now(), p.usage)
				if chosen := s.Choose(p.snapshot, base, nil, p.s.clock.Now()); len(chosen) > 0 {
					p.send(func(tx *rules.Tx) error { return rules.Copy(tx, chosen) }, p.s.failOn)
				}
			}
			p.speculate()
			return
		}
	})
}

// deadlineTick is how often deadlines are looked at, as in production.
const deadlineTick = time.Second

// watch looks at the deadlines of unreachable hosts once a second for as long as there are any with tasks.
func (p *scheduler) watch() {
	if p.watching {
		return
	}
	p.watching = true
	p.after(deadlineTick, func() {
		p.watching = false
		deadlines := rules.Deadlines{
			UnreachableAfter: p.s.config.UnreachableAfter, LostAfter: p.s.config.LostAfter, Away: p.s.away, Unsent: p.s.unsent,
		}
		again := false
		for h := range p.snapshot.Hosts("") {
			again = again || h.Unreachable && len(h.Tasks) > 0
		}
		if len(deadlines.Overdue(p.snapshot, p.s.clock.Now())) > 0 {
			p.send(deadlines.Expire, nil)
		}
		if again || p.s.cutOff() {
			p.watch()
		}
	})
}

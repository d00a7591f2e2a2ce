package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// link is a host-manager shard and its connection with the scheduler: what hostmgr.Shard and the streams do. While it
// is cut nothing gets through, and a session begins with all hosts and the inventory.
type link struct {
	s         *simulation
	shard     cluster.ShardID
	fleet     *fleet.Fleet
	driver    hostmgr.Driver
	connected bool
	since     cluster.Time // connected, or cut off, since then
	session   uint64
	ready     bool // its inventory has been reconciled
	sent      map[cluster.TaskKey]sentRun

	hosts   map[string]cluster.Machine // as reported last
	told    map[cluster.RunID]bool     // runs of which it was told, as far as they are not released
	refused map[cluster.RunID]hostmgr.Status
	health  map[cluster.RunID]cluster.Health // of runs that are not released, as reported last
}

var _ hostmgr.Sink = (*link)(nil)

// sentRun is what a session has sent for a run.
type sentRun struct {
	run    uint32
	killed bool
}

// linkOf returns the link of a shard.
func (s *simulation) linkOf(shard cluster.ShardID) *link {
	return s.links[slices.IndexFunc(s.links, func(l *link) bool { return l.shard == shard })]
}

// cutOff reports whether a link is cut.
func (s *simulation) cutOff() bool {
	return slices.ContainsFunc(s.links, func(l *link) bool { return !l.connected })
}

// away is rules.Deadlines.Away.
func (s *simulation) away(shard cluster.ShardID) (since cluster.Time, away bool) {
	l := s.linkOf(shard)
	return l.since, !l.connected
}

// unsent is rules.Deadlines.Unsent.
func (s *simulation) unsent(shard cluster.ShardID, run cluster.RunID) bool {
	return !s.linkOf(shard).told[run]
}

// cut ends the session.
func (l *link) cut() {
	if l.connected {
		l.connected, l.since, l.session = false, l.s.clock.Now(), l.session+1 // what is on its way back to it comes too late
		l.ready = false
		l.s.scheduler.watch()
	}
}

// connect begins a session with the scheduler that lives now: all hosts, then the inventory, and when both are durable
// the commands that the state calls for.
func (l *link) connect() {
	p := l.s.scheduler
	l.connected, l.since, l.session = true, l.s.clock.Now(), l.session+1
	session := l.session
	l.ready = false // what is launched before it is reconciled would be missing in the inventory
	clear(l.sent)
	p.send(func(tx *rules.Tx) error {
		return rules.ReportHosts(tx, l.shard, l.hosts, nil, true)
	}, l.s.failOn)
	var inventory []*cluster.TaskStatus
	for _, s := range l.driver.Inventory() {
		inventory = append(inventory, l.event(s))
	}
	var answers []rules.Answer
	p.send(func(tx *rules.Tx) (err error) {
		for _, e := range inventory {
			if err := l.retire(tx, e); err != nil {
				return err
			}
		}
		answers, err = rules.Reconcile(tx, l.shard, inventory)
		return err
	}, func(err error) {
		if err != nil || l.session != session {
			l.s.failOn(err)
			return
		}
		for _, a := range answers {
			if a.Release {
				l.release(a.Run)
			} else {
				l.killStale(a.Run)
			}
		}
		for _, e := range inventory { // as the shard does
			l.tellHealth(cluster.RunID{Task: e.Task, Run: e.Run})
		}
		l.ready = true
		var bound []cluster.TaskKey
		for h := range p.snapshot.ShardHosts(l.shard) {
			bound = append(bound, h.Tasks...)
		}
		p.dispatch(bound)
	})
}

// ReportHosts implements hostmgr.Sink.
func (l *link) ReportHosts(hosts []hostmgr.Host) {
	now := make(map[string]cluster.Machine, len(hosts))
	for _, h := range hosts {
		if l.s.config.report != nil {
			h = l.s.config.report(h)
		}
		now[h.Name] = h.Machine
	}
	changed, gone := map[string]cluster.Machine{}, []string(nil)
	for name, m := range now { // into a map and a list that is sorted where it is used
		if old, there := l.hosts[name]; !there || !old.Equal(m) {
			changed[name] = m
		}
	}
	for name := range l.hosts {
		if _, there := now[name]; !there {
			gone = append(gone, name)
		}
	}
	before := l.hosts
	l.hosts = now
	if !l.connected {
		return
	}
	l.s.scheduler.send(func(tx *rules.Tx) error {
		return rules.ReportHosts(tx, l.shard, changed, gone, false)
	}, l.s.failOn)
	for _, s := range l.driver.Inventory() { // as the shard does: what runs on a host that comes back may have been given up
		if _, stayed := before[s.Host]; !stayed && !s.State.Terminal() {
			l.ReportStatus(s)
		}
	}
}

// ReportStatus implements hostmgr.Sink. A status that the cut link swallows is in the inventory of the next session.
func (l *link) ReportStatus(s hostmgr.Status) {
	if !l.connected {
		return
	}
	e, session := l.event(s), l.session
	var verdict rules.Verdict
	l.s.scheduler.sendAbout(e.Task, func(tx *rules.Tx) (err error) {
		if err = l.retire(tx, e); err == nil {
			verdict, err = rules.Report(tx, l.shard, e)
		}
		return err
	}, func(err error) {
		l.s.measure.verdicts[verdict]++
		switch {
		case err != nil:
			l.s.fail(err)
		case l.session != session:
		case e.State.Terminal():
			l.release(s.Run)
		case verdict == rules.Stale:
			l.killStale(s.Run)
		}
	})
}

// retire has its owner stop the instance of a service whose time is over. It would begin anew: nobody but its owner ends a
// service.
func (l *link) retire(tx *rules.Tx, e *cluster.TaskStatus) error {
	t := tx.State().Task(e.Task)
	if e.State != cluster.TaskSucceeded || !rules.Awaited(t, l.shard, e.Run) || !tx.State().Job(e.Task.Job()).Spec.Type.Service() {
		return nil
	}
	return tx.Emit(&cluster.TaskStopping{Task: e.Task, Reason: cluster.ReasonTaskStopped})
}

// ReportHealth implements hostmgr.Sink. What the cut link swallows is told in the next session.
func (l *link) ReportHealth(h hostmgr.Health) {
	l.health[h.Run] = h.Health
	if l.connected {
		l.tellHealth(h.Run)
	}
}

// tellHealth tells what is known of the health of a run, if anything is.
func (l *link) tellHealth(run cluster.RunID) {
	h := l.health[run]
	if h == cluster.HealthUnknown {
		return
	}
	e := &cluster.TaskHealth{Task: run.Task, Run: run.Run, Health: h}
	l.s.scheduler.sendAbout(e.Task, func(tx *rules.Tx) error { return rules.Health(tx, l.shard, e) }, l.s.failOn)
}

func (l *link) event(s hostmgr.Status) *cluster.TaskStatus {
	e := &cluster.TaskStatus{
		Task: s.Run.Task, Run: s.Run.Run, State: s.State, ExitCode: s.ExitCode, Signal: s.Signal,
		Reason: s.Reason, Message: s.Message,
	}
	if s.State.Terminal() {
		e.Peak = l.s.scheduler.uses.Peak(s.Run)
	}
	return e
}

// launch starts the run of a task that is PLACED. A launch that was refused once must never start later.
func (l *link) launch(t *cluster.Task, j *cluster.Job) {
	run := t.RunID()
	l.told[run] = true
	if s, was := l.refused[run]; was {
		l.ReportStatus(s)
		return
	}
	err := l.driver.Launch(context.Background(), hostmgr.Launch{
		Run: run, Job: j.Spec.Name, Host: t.Host.Name(),
		Task: *j.TaskFor(t), GPUs: t.GPUs, Ports: t.Ports,
	})
	if err == nil {
		return
	}
	why := cluster.ReasonLaunchFailed
	if errors.Is(err, hostmgr.ErrUnknownHost) || errors.Is(err, hostmgr.ErrRefused) {
		why = cluster.ReasonLaunchRefused
	}
	s := hostmgr.Status{
		Run: run, Host: t.Host.Name(), State: cluster.TaskFailed, ExitCode: -1, Reason: why,
		Message: err.Error(), At: l.s.clock.Now(),
	}
	l.refused[run] = s
	l.ReportStatus(s)
}

// killStale ends a run that nobody waits for, unless nothing is killed: then it is found again when that is over.
func (l *link) killStale(run cluster.RunID) {
	if !l.s.scheduler.mode.KillingStopped {
		l.kill(run, rules.StaleGrace)
	}
}

// kill ends a run. One that the driver does not know is answered for.
func (l *link) kill(run cluster.RunID, grace time.Duration) {
	err := l.driver.Kill(context.Background(), run, grace)
	if errors.Is(err, hostmgr.ErrUnknownRun) {
		l.ReportStatus(hostmgr.Status{
			Run: run, State: cluster.TaskKilled, ExitCode: -1, Reason: cluster.ReasonUnknownToHost,
			Message: "the host manager does not know the run", At: l.s.clock.Now(),
		})
		return
	}
	l.s.failOn(err)
}

// release tells the driver that the end of a run is durable.
func (l *link) release(run cluster.RunID) {
	delete(l.told, run)
	delete(l.refused, run)
	delete(l.health, run)
	l.driver.Release(run)
}

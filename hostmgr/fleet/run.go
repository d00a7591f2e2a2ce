package fleet

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// run is a run in the world: what is true of it, and what the driver knows.
type run struct {
	launch hostmgr.Launch
	plan   Plan
	host   *host

	truth     hostmgr.Status
	known     hostmgr.Status // behind the truth while the host is cut off
	health    cluster.Health // as its checks say
	started   cluster.Time   // when it began to run, 0 before
	left      time.Duration  // that it would still run alone, at the time paced
	paced     cluster.Time   // when its company changed last
	extra     int64          // thousandths of its time that its company costs it
	changed   chan struct{}  // closed and replaced with every change, for followers of its logs
	cancel    func()         // of the next step of its life
	killed    bool           // SIGTERM was sent
	killAt    cluster.Time   // when SIGKILL follows
	ordered   bool           // a kill was ordered while the host was cut off
	grace     time.Duration  // of that kill, the shortest
	delivered cluster.Time   // when the last report gets, or got, to the sink
	reports   uint64
}

// begin starts the life of a run that was just recorded.
func (f *Fleet) begin(r *run) {
	r.changed = make(chan struct{})
	f.enter(r, hostmgr.Status{State: cluster.TaskLaunching, ExitCode: -1})
	if r.plan.Fails == "" && f.happens(f.config.Faults.LaunchFails, "launch fails", r, 0) {
		r.plan.Fails = "the host could not start it"
	}
	f.later(r, r.plan.Launch, func() {
		if r.plan.Fails != "" {
			f.end(r, cluster.TaskFailed, -1, 0, cluster.ReasonLaunchFailed, r.plan.Fails)
			return
		}
		if r.plan.Startup > 0 {
			f.enter(r, hostmgr.Status{State: cluster.TaskStarting, ExitCode: -1})
		}
		f.later(r, r.plan.Startup, func() { f.start(r) })
	})
}

// later schedules the next step of a run's life. A step that the clock has begun can no longer be cancelled, but may
// still wait for the lock when the run ends: it finds that there is nothing left to do.
func (f *Fleet) later(r *run, d time.Duration, step func()) {
	r.cancel = f.after(d, func() {
		if !r.truth.State.Terminal() {
			step()
		}
	})
}

// start lets the run run, and schedules its end.
func (f *Fleet) start(r *run) {
	r.started = f.clock.Now()
	r.left, r.paced = r.plan.Duration, r.started
	f.enter(r, hostmgr.Status{State: cluster.TaskRunning, ExitCode: -1})
	r.cancel = func() {}
	f.join(r)
	f.goOn(r)
	if f.config.OnStart != nil {
		f.config.OnStart(r.launch)
	}
	for _, x := range r.plan.Findings {
		f.after(x.After, func() { f.find(r, x.Health) })
	}
}

// find makes what the checks say of a run true.
func (f *Fleet) find(r *run, health cluster.Health) {
	if r.truth.State.Terminal() || r.killed {
		return
	}
	r.health = health
	if !r.host.cutOff {
		f.tell(r)
	}
	if health == cluster.Unhealthy {
		f.end(r, cluster.TaskFailed, -1, sigkill, cluster.ReasonUnhealthy, "its checks failed")
	}
}

// tell lets the driver see the health of a run.
func (f *Fleet) tell(r *run) {
	if f.driver != nil && r.health != cluster.HealthUnknown {
		f.reportHealth(r)
	}
}

// finish ends the run as planned.
func (f *Fleet) finish(r *run) {
	switch {
	case r.plan.Signal != 0:
		f.end(r, cluster.TaskFailed, -1, r.plan.Signal, cluster.ReasonSignaled, "")
	case r.plan.ExitCode != 0:
		f.end(r, cluster.TaskFailed, r.plan.ExitCode, 0, cluster.ReasonExited, "")
	default:
		f.end(r, cluster.TaskSucceeded, 0, 0, cluster.ReasonExited, "")
	}
}

// end makes a terminal status true. Nothing of the run's life follows.
func (f *Fleet) end(r *run, state cluster.TaskState, code, signal int32, why cluster.Reason, message string) {
	r.cancel()
	f.part(r)
	f.enter(r, hostmgr.Status{State: state, ExitCode: code, Signal: signal, Reason: why, Message: message})
}

// enter makes a status true, and known where the host can be seen.
func (f *Fleet) enter(r *run, s hostmgr.Status) {
	s.Run, s.Host, s.At = r.launch.Run, r.host.Name, f.clock.Now()
	r.truth = s
	close(r.changed)
	r.changed = make(chan struct{})
	if !r.host.cutOff {
		f.learn(r)
	}
}

// learn lets the driver see what is true.
func (f *Fleet) learn(r *run) {
	if r.known == r.truth {
		return
	}
	r.known = r.truth
	if f.driver != nil {
		f.report(r, r.known)
	}
}

const (
	sigkill = 9
	sigterm = 15
)

// kill asks a run to end.
func (f *Fleet) kill(r *run, grace time.Duration) {
	switch {
	case r.truth.State.Terminal():
		return
	case r.host.cutOff:
		if !r.ordered || grace < r.grace {
			r.ordered, r.grace = true, grace
		}
		return
	case r.started == 0:
		f.end(r, cluster.TaskKilled, -1, 0, cluster.ReasonNone, "killed before it started")
		return
	}
	now := f.clock.Now()
	deadline := now.Add(max(0, grace))
	if deadline < now {
		deadline = cluster.Time(Forever)
	}
	if !r.killed {
		r.killed, r.killAt = true, deadline
		if r.plan.Stop != Forever && now.Add(r.plan.Stop) <= deadline && grace > 0 {
			f.after(r.plan.Stop, func() { f.fall(r, sigterm) })
		}
	}
	r.killAt = min(r.killAt, deadline)
	at := r.killAt
	f.after(at.Sub(now), func() {
		if r.killAt == at { // no shorter grace has come since
			f.fall(r, sigkill)
		}
	})
}

// fall ends a run by a signal of ours.
func (f *Fleet) fall(r *run, signal int32) {
	if !r.truth.State.Terminal() {
		f.end(r, cluster.TaskKilled, -1, signal, cluster.ReasonNone, "")
	}
}

// usage returns what the run uses now.
func (r *run) usage(now cluster.Time) hostmgr.Usage {
	u := hostmgr.Usage{Run: r.launch.Run, Used: r.launch.Task.Resources}
	if r.plan.Usage != nil {
		u.Used = r.plan.Usage(now.Sub(r.started), r.pace())
	}
	return u
}

package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/rules/rulestest"
)

// serving is a service on a few hosts: what the cycle and the host managers would do is done here, in an order that the test
// draws. Specs say by their command how they turn out.
type serving struct {
	t       require.TestingT
	state   *cluster.State
	now     cluster.Time
	timers  *rules.Timers
	records []cluster.Record
}

const servingJob = cluster.JobUID(1)

// How a spec turns out.
const (
	serves  = "serves"
	fails   = "fails"   // every run ends with an error
	sickens = "sickens" // runs go on and never get ready
	done    = "done"    // every run succeeds
)

func serviceSpec(instances uint32, turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
	return &cluster.JobSpec{
		Name: "web", Type: cluster.Stateless, Pool: cluster.RootPool, Instances: instances, Update: policy, Preemptible: true,
		Backoff: cluster.Backoff{Initial: 10 * time.Second, Max: time.Minute},
		Task: cluster.TaskSpec{
			Resources: amounts(1, 1),
			Processes: []cluster.Process{{
				Command: []string{turns, fmt.Sprint(number)},
				Checks:  []cluster.HealthCheck{{Effect: cluster.Readiness, Interval: 1, Timeout: 1, Failures: 1, Successes: 1}},
			}},
		},
	}
}

func amounts(cpu, memory int64) cluster.Resources {
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU], fixed[cluster.Memory] = cpu, memory
	return cluster.NewResources(fixed)
}

func newServing(t require.TestingT, spec *cluster.JobSpec, hosts int) *serving {
	w := &serving{t: t, state: cluster.NewState(), now: cluster.Time(time.Hour), timers: rules.NewTimers(0)}
	w.do(func(tx *rules.Tx) error {
		for i := range hosts {
			if err := tx.Emit(reported(hostID(i))); err != nil {
				return err
			}
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: servingJob, Spec: spec}}})
	})
	return w
}

func hostID(i int) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprint("h", i)) }

// reported has a host be there, for the first time or again.
func reported(h cluster.HostID) *cluster.HostReported {
	return &cluster.HostReported{ID: h, Machine: cluster.Machine{Capacity: amounts(100, 100), Capabilities: cluster.CanHealthChecks}}
}

// do runs a command as the writer does, and checks the availability budget of everything that followed by itself.
func (w *serving) do(command func(tx *rules.Tx) error) {
	tx := rules.Begin(w.state, w.now)
	require.NoError(w.t, command(tx))
	ready := w.ready()
	require.NoError(w.t, rules.Settle(tx))
	ready = slices.DeleteFunc(ready, func(k cluster.TaskKey) bool {
		t := w.state.Task(k)
		return t == nil || t.Ready != 0 || t.Removed && w.state.Job(servingJob).Spec.Type == cluster.Daemon
	})
	if j := w.state.Job(servingJob); len(ready) > 0 && !j.Stopping && j.Spec.Type.Service() {
		require.LessOrEqual(w.t, w.away(j), j.Spec.MaxAway(), "%v were ready, of %d", ready, j.Spec.Instances)
	}
	w.records = append(w.records, tx.Records()...)
	w.check()
	snapshot, changes := w.state.Snapshot()
	rulestest.Settled(w.t, snapshot, w.now)
	w.timers.Note(snapshot, w.now, changes, false)
}

// ready returns the instances that are ready, but for those of daemons that leave hosts which take no work: nobody lacks them.
func (w *serving) ready() (all []cluster.TaskKey) {
	for _, t := range w.tasks() {
		if t.Ready != 0 && (w.state.Job(servingJob).Spec.Type != cluster.Daemon || w.state.Host(t.Home).State() == cluster.HostUp) {
			all = append(all, t.Key)
		}
	}
	return all
}

// away counts the instances that the job lacks. A daemon has none where hosts take no work or it was stopped.
func (w *serving) away(j *cluster.Job) (n int64) {
	if j.Spec.Type != cluster.Daemon {
		return j.Away()
	}
	for _, t := range w.tasks() {
		stopped := t.State.Terminal() || t.State == cluster.TaskKilling && !t.Restart
		if t.Ready == 0 && !stopped && w.state.Host(t.Home).State() == cluster.HostUp {
			n++
		}
	}
	return n
}

// check counts anew what the state counts.
func (w *serving) check() {
	j := w.state.Job(servingJob)
	ready, tasks := uint32(0), uint32(0)
	for t := range w.state.TasksOf(servingJob, 0) {
		require.NotNil(w.t, j.SpecOf(t.Version), "task %v runs version %d, which is not kept", t.Key, t.Version)
		if t.Ready != 0 {
			ready++
			require.Equal(w.t, cluster.TaskRunning, t.State)
		}
		if !t.Removed {
			tasks++
		}
	}
	require.Equal(w.t, ready, j.Ready)
	if j.Spec.Type != cluster.Daemon {
		require.Equal(w.t, j.Spec.Instances+j.Surge, tasks)
	}
	for i := range 10 {
		h := w.state.Host(hostID(i))
		if h == nil {
			continue
		}
		var sum cluster.Resources
		for _, k := range h.Tasks {
			sum = sum.Add(w.state.Job(k.Job()).TaskFor(w.state.Task(k)).Resources)
		}
		require.True(w.t, sum.Equal(h.Allocated.Add(h.Lent)), "%v is allocated on %s, the tasks have %v", h.Allocated.Add(h.Lent), h.ID, sum)
	}
}

func (w *serving) report(t *cluster.Task, state cluster.TaskState) {
	e := &cluster.TaskStatus{Task: t.Key, Run: t.Run, State: state}
	if state == cluster.TaskFailed {
		e.ExitCode = 3
	}
	w.do(func(tx *rules.Tx) error { _, err := rules.Report(tx, shard, e); return err })
}

// turn lets happen to a task what would happen to it next, if anything would.
func (w *serving) turn(t *cluster.Task) bool {
	j := w.state.Job(servingJob)
	turns := j.TaskFor(t).Processes[0].Command[0]
	switch {
	case (t.State == cluster.TaskPending || t.State == cluster.TaskReserved) && t.NotBefore != 0:
		return false
	case (t.State == cluster.TaskPending || t.State == cluster.TaskReserved) && !j.MayRun(1):
		return false
	case t.State == cluster.TaskPending || t.State == cluster.TaskReserved:
		for i := range 10 {
			at := hostID((i + int(t.Key.Instance())) % 10)
			if h := w.state.Host(at); h == nil || h.State() != cluster.HostUp || !h.Meets(w.state.HostsOf(j.Spec.Pool)) || !h.Meets(j.SpecFor(t).Constraint) || !j.TaskFor(t).Resources.Fits(h.Room()) || t.Home != "" && t.Home != at {
				continue
			}
			w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.Placed{Task: t.Key, Run: t.Run + 1, Host: at}) })
			return true
		}
		return false
	case t.State.Vacating():
		w.report(t, cluster.TaskKilled)
	case t.State == cluster.TaskPlaced:
		w.report(t, cluster.TaskRunning)
	case t.State != cluster.TaskRunning:
		return false
	case turns == fails:
		w.report(t, cluster.TaskFailed)
	case turns == done:
		w.report(t, cluster.TaskSucceeded)
	case turns == serves && t.Health != cluster.HealthReady:
		w.do(func(tx *rules.Tx) error {
			return rules.Health(tx, shard, &cluster.TaskHealth{Task: t.Key, Run: t.Run, Health: cluster.HealthReady})
		})
	default:
		return false
	}
	return true
}

// String lists the tasks, for messages.
func (w *serving) String() string {
	j := w.state.Job(servingJob)
	text := fmt.Sprintf("%d wanted, %d more, %d ready\n", j.Spec.Instances, j.Surge, j.Ready)
	for _, t := range w.tasks() {
		text += fmt.Sprintf("%v %v run %d on %s, version %d then %d (%v), ready %d, %d failures\n",
			t.Key, t.State, t.Run, t.Host, t.Version, t.Next, j.TaskFor(t).Processes[0].Command, t.Ready, t.Failures)
	}
	return text
}

func (w *serving) tasks() (all []*cluster.Task) {
	for t := range w.state.TasksOf(servingJob, 0) {
		all = append(all, t)
	}
	return all
}

// ring moves the clock to the next alarm, and reports whether there is one.
func (w *serving) ring() bool {
	at := w.timers.Next()
	if at == 0 {
		return false
	}
	w.now = max(w.now, at)
	due := w.timers.Due(w.now)
	w.do(func(tx *rules.Tx) error { return w.timers.Fire(tx, due) })
	return true
}

// settle lets everything happen until nothing more does.
func (w *serving) settle() {
	for range 2000 {
		moved := false
		for _, t := range w.tasks() {
			if now := w.state.Task(t.Key); now == t {
				moved = w.turn(t) || moved
			}
		}
		if w.quiet() || !moved && !w.ring() {
			return
		}
	}
	require.Fail(w.t, "it never comes to rest", "%+v\n%v", w.state.Job(servingJob).Update, w)
}

// quiet reports whether nothing is on its way but what fails again and again.
func (w *serving) quiet() bool {
	j := w.state.Job(servingJob)
	if u := j.Update; u.Live() && u.State != cluster.UpdatePaused && !rules.AwaitsPromotion(u) || !u.Live() && j.Surge > 0 && j.Bears(1) {
		return false
	}
	for _, t := range w.tasks() {
		well := j.TaskFor(t).Processes[0].Command[0] == serves && (t.Home == "" || w.state.Host(t.Home).Opens(j.SpecFor(t).Constraint, w.state.HostsOf(j.Spec.Pool)))
		if t.State.Vacating() || well && t.Ready == 0 && !t.State.Terminal() {
			return false
		}
	}
	return true
}

func (w *serving) update(spec *cluster.JobSpec) {
	w.do(func(tx *rules.Tx) error {
		j := tx.State().Job(servingJob)
		u := &cluster.Update{From: j.Version, State: cluster.UpdateInitialized}
		if spec.Update != nil {
			u.Policy = *spec.Update
		}
		return tx.Emit(&cluster.JobUpdated{Job: servingJob, Spec: spec, Update: u})
	})
}

// scale gives the job another number of instances.
func (w *serving) scale(instances uint32) {
	scaled := *w.state.Job(servingJob).Spec
	scaled.Instances = instances
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.JobUpdated{Job: servingJob, Spec: &scaled}) })
}

// steer changes the record of the update, if there is one under way.
func (w *serving) steer(change func(u *cluster.Update)) {
	w.do(func(tx *rules.Tx) error {
		j := tx.State().Job(servingJob)
		if !j.Update.Live() {
			return nil
		}
		u := *j.Update
		change(&u)
		return tx.Emit(&cluster.UpdateAdvanced{Job: servingJob, Update: u, Surge: j.Surge})
	})
}

func pause(u *cluster.Update) {
	if u.State != cluster.UpdatePaused {
		u.Resume, u.State = u.State, cluster.UpdatePaused
	}
}

func resume(u *cluster.Update) {
	if u.State == cluster.UpdatePaused {
		u.State, u.Resume = max(u.Resume, cluster.RollingForward), cluster.UpdateInitialized // it may have been paused before it began
	}
}

func abort(u *cluster.Update) { u.State = cluster.UpdateAborted }

func promote(u *cluster.Update) { u.Promoted = true }

// TestAFailedUpdateSaysHowRunsEnded: of an instance that runs again when the update fails nothing is said, as it has not ended.
func TestAFailedUpdateSaysHowRunsEnded(t *testing.T) {
	spec := func(turns string, version int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
		s := serviceSpec(5, turns, version, policy)
		s.Limits.MaxUnavailable = 4
		return s
	}
	w := newServing(t, spec(serves, 0, nil), 3)
	w.settle()
	w.update(spec(sickens, 1, &cluster.UpdatePolicy{BatchSize: 1, MaxAttempts: 2, MaxFailed: 2}))
	w.settle()
	require.Contains(t, w.state.Job(servingJob).Update.Message, "instances [0 1] failed (run 3 of instance 1 on s/h1 was not ready within 5m0s)")
}

// step lets everything happen that does before the next alarm.
func (w *serving) step() {
	for moved := true; moved; {
		moved = false
		for _, t := range w.tasks() {
			moved = w.turn(w.state.Task(t.Key)) || moved
		}
	}
}

// An update that does not go on says which instances it waits for.
func TestWhatAnUpdateAwaits(t *testing.T) {
	spec := func(turns string, version int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
		s := serviceSpec(6, turns, version, policy)
		s.Limits.MaxUnavailable = 5
		return s
	}
	w := newServing(t, spec(serves, 0, nil), 1)
	w.settle()
	awaits := func() []string {
		snapshot, _ := w.state.Snapshot()
		return rules.UpdateAwaits(snapshot, w.state.Job(servingJob), w.now)
	}
	at := func(d time.Duration) string { return w.now.Add(d).Go().Format(time.RFC3339) }
	require.Empty(t, awaits(), "there is none")

	w.update(spec(fails, 1, &cluster.UpdatePolicy{BatchSize: 5}))
	require.Contains(t, awaits(), "instance 0 is leaving host s/h0")
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.HostUnreached{ID: "s/h0"}) })
	require.Contains(t, awaits(), "instance 0 is leaving host s/h0, which is unreachable")
	w.do(func(tx *rules.Tx) error {
		return tx.Emit(&cluster.HostReported{ID: "s/h0", Machine: *w.state.Host("s/h0").Machine})
	})
	w.step()
	failed := " has had 1 failed run (update.max_attempts: 3), run 2 on s/h0 ended with exit code 3, and starts again at " + at(10*time.Second)
	require.Equal(t, []string{"instance 0" + failed, "instance 1" + failed, "instance 2" + failed, "and 2 more"}, awaits())
	w.ring()
	require.Equal(t, "instance 0 has had 1 failed run (update.max_attempts: 3), waits for a place: `sluice task explain web/0` says why", awaits()[0])
	w.steer(pause)
	require.Empty(t, awaits(), "its state says so")
	w.steer(resume)

	w.update(spec(sickens, 2, nil))
	w.step()
	require.Equal(t, []string{
		"instance 0 is running on host s/h0 and not ready: it may take until " + at(cluster.DefaultHealthyDeadline) + " (update.healthy_deadline)",
	}, awaits())
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}}) })
	require.Contains(t, awaits()[0], "killing is switched off")
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.ModeSet{}) })

	w.update(spec(serves, 3, &cluster.UpdatePolicy{MinHealthy: time.Minute}))
	w.step()
	require.Equal(t, []string{"instance 0 is ready, and is good if it stays so until " + at(time.Minute) + " (update.min_healthy_time)"}, awaits())
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
	require.Empty(t, awaits())
}

// One that has touched none since others are all that may be unavailable names these.
func TestAnUpdateAwaitsThoseThatFailAfterIt(t *testing.T) {
	w := newServing(t, serviceSpec(3, serves, 0, nil), 1)
	w.settle()
	spec := serviceSpec(3, fails, 1, nil)
	spec.Task.Processes[0].Checks = nil // it is ready as soon as it runs
	w.update(spec)
	w.step()
	snapshot, _ := w.state.Snapshot()
	j := w.state.Job(servingJob)
	require.Empty(t, j.Update.Active)
	failed := " has had 1 failed run (update.max_attempts: 3), run 2 on s/h0 ended with exit code 3, and starts again at " + w.now.Add(10*time.Second).Go().Format(time.RFC3339)
	require.Equal(t, []string{
		"2 of its instances are not ready, and no more than 1 may be at once (limits.max_unavailable_instances)",
		"instance 0" + failed, "instance 1" + failed,
	}, rules.UpdateAwaits(snapshot, j, w.now))
}

func TestUpdates(t *testing.T) {
	policy := cluster.UpdatePolicy{BatchSize: 2, MaxAttempts: 2, MaxFailed: 1}
	with := func(change func(*cluster.UpdatePolicy)) *cluster.UpdatePolicy {
		p := policy
		change(&p)
		return &p
	}
	for name, c := range map[string]struct {
		policy *cluster.UpdatePolicy
		turns  string
		state  cluster.UpdateState
		reason cluster.Reason
		runs   int // that were begun for it, of the five instances
		serve  int // instances that run the new spec in the end
	}{
		"nothing said":                    {nil, serves, cluster.UpdateSucceeded, "", 5, 5},
		"in batches":                      {&policy, serves, cluster.UpdateSucceeded, "", 5, 5},
		"another is started first":        {with(func(p *cluster.UpdatePolicy) { p.StartFirst = true }), serves, cluster.UpdateSucceeded, "", 7, 5},
		"it has to serve for a while":     {with(func(p *cluster.UpdatePolicy) { p.MinHealthy = time.Minute }), serves, cluster.UpdateSucceeded, "", 5, 5},
		"runs fail":                       {&policy, fails, cluster.UpdateFailed, cluster.ReasonTooManyFailed, 2, 1},
		"runs never get ready":            {&policy, sickens, cluster.UpdateFailed, cluster.ReasonTooManyFailed, 2, 1},
		"the one started first fails":     {with(func(p *cluster.UpdatePolicy) { p.StartFirst = true }), fails, cluster.UpdateFailed, cluster.ReasonTooManyFailed, 4, 0},
		"it is taken back":                {with(func(p *cluster.UpdatePolicy) { p.Rollback = true }), fails, cluster.RolledBack, cluster.ReasonTooManyFailed, 3, 0},
		"failures do not count":           {with(func(p *cluster.UpdatePolicy) { p.MaxFailed = 0 }), fails, cluster.UpdateFailed, cluster.ReasonNoneToSpare, 2, 1},
		"a canary fails":                  {with(func(p *cluster.UpdatePolicy) { p.Canaries, p.MaxFailed = 1, 0 }), fails, cluster.UpdateFailed, cluster.ReasonCanaryFailed, 2, 1},
		"canaries wait to be promoted":    {with(func(p *cluster.UpdatePolicy) { p.Canaries = 2 }), serves, cluster.RollingForward, "", 2, 2},
		"it begins when somebody says so": {with(func(p *cluster.UpdatePolicy) { p.StartPaused = true }), serves, cluster.UpdatePaused, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, serviceSpec(5, serves, 0, nil), 3)
			w.settle()
			require.EqualValues(t, 5, w.state.Job(servingJob).Ready)
			before := len(w.records)
			w.update(serviceSpec(5, c.turns, 1, c.policy))
			w.settle()
			j := w.state.Job(servingJob)
			require.Equal(t, c.state, j.Update.State, "%+v", j.Update)
			require.Equal(t, c.reason, j.Update.Reason)
			switch {
			case c.reason == "":
				require.Empty(t, j.Update.Message)
			case c.turns == sickens:
				require.Contains(t, j.Update.Message, "instance 0 failed (run 3 of instance 0 on s/h0 was not ready within 5m0s)")
			case c.policy.StartFirst:
				require.Contains(t, j.Update.Message, "instance 5 failed (run 2 of instance 5 on s/h0 ended with exit code 3)")
			default:
				require.Contains(t, j.Update.Message, "instance 0 failed (run 3 of instance 0 on s/h0 ended with exit code 3)")
			}
			require.Equal(t, c.state == cluster.RolledBack, strings.Contains(j.Update.Message, "; back to version 1"), j.Update.Message)
			runs, serve := 0, 0
			for _, r := range w.records[before:] {
				if _, ok := r.Event.(*cluster.Placed); ok {
					runs++
				}
			}
			for _, task := range w.tasks() {
				if j.TaskFor(task).Processes[0].Command[1] == "1" {
					serve++
				}
			}
			require.Equal(t, c.runs, runs)
			require.Equal(t, c.serve, serve)
			require.Zero(t, j.Surge)
			if rules.AwaitsPromotion(j.Update) {
				w.steer(promote)
			}
			w.steer(resume)
			w.settle()
			require.True(t, w.state.Job(servingJob).Update.State.Terminal())
		})
	}
}

// An update whose last instances fail has failed as one whose first do, also where no others are left that it could not go on with.
func TestTheLastInstancesFail(t *testing.T) {
	for name, c := range map[string]struct {
		instances, batch, may uint32
		turns                 string
		state                 cluster.UpdateState
	}{
		"the only one":            {1, 1, 0, fails, cluster.RolledBack},
		"the only one never runs": {1, 1, 0, sickens, cluster.RolledBack},
		"all at once":             {3, 3, 0, fails, cluster.RolledBack},
		"fewer than may be away":  {3, 3, 4, fails, cluster.UpdateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, serviceSpec(c.instances, serves, 0, nil), 3)
			w.settle()
			spec := serviceSpec(c.instances, c.turns, 1, &cluster.UpdatePolicy{BatchSize: c.batch, MaxAttempts: 2, Rollback: true})
			spec.Limits.MaxUnavailable = c.may
			w.update(spec)
			w.settle()
			j := w.state.Job(servingJob)
			require.Equal(t, c.state, j.Update.State, "%+v\n%v", j.Update, w)
			if c.state == cluster.RolledBack {
				require.Equal(t, cluster.ReasonNoneToSpare, j.Update.Reason)
				require.Equal(t, c.instances, j.Ready)
			}
		})
	}
}

// An update that bears failures says of whom, and does not count them among the good.
func TestFailuresThatAreBorneAreTold(t *testing.T) {
	w := newServing(t, serviceSpec(2, serves, 0, nil), 3)
	w.settle()
	spec := serviceSpec(2, serves, 1, &cluster.UpdatePolicy{MaxAttempts: 1})
	spec.Limits.MaxUnavailable = 2
	spec.Overrides = []cluster.InstanceOverride{{First: 0, Last: 0, Task: &serviceSpec(1, fails, 1, nil).Task}}
	w.update(spec)
	w.settle()
	u := w.state.Job(servingJob).Update
	require.Equal(t, cluster.UpdateSucceeded, u.State)
	require.Equal(t, []uint32{0}, u.Failed)
	require.Equal(t, [2]uint32{1, 2}, [2]uint32{u.Good, u.Total})
	require.Contains(t, u.Message, "instance 0 failed")
}

// An instance that is ready is good when it has been so for the time of the policy, and no further one is touched before. If it ends
// before that, it has failed.
func TestAnInstanceHasToServeForAWhile(t *testing.T) {
	for _, first := range []bool{false, true} {
		w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
		w.settle()
		w.update(serviceSpec(3, serves, 1, &cluster.UpdatePolicy{MinHealthy: time.Minute, StartFirst: first, MaxAttempts: 1, MaxFailed: 1}))
		updated := func() (all []*cluster.Task) {
			for _, task := range w.tasks() {
				if task.Version == 2 || task.Next == 2 {
					all = append(all, task)
				}
			}
			return all
		}
		for updated()[0].Ready == 0 {
			require.True(t, w.turn(updated()[0]), "%v", w)
		}
		require.Len(t, updated(), 1, "%v", w)
		require.Equal(t, updated()[0].Ready.Add(time.Minute), w.timers.Next())
		w.now = w.now.Add(59 * time.Second)
		w.report(updated()[0], cluster.TaskFailed)
		require.Equal(t, cluster.UpdateFailed, w.state.Job(servingJob).Update.State, "%v", w)
	}
}

// Nothing that serves is touched before all that were started first are good.
func TestAllThatAreStartedFirstAreGoodBefore(t *testing.T) {
	w := newServing(t, serviceSpec(4, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(4, serves, 1, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 2}))
	for i := 4; i < 6; i++ {
		for _, task := range w.tasks()[:4] {
			require.Zero(t, task.Next, "%v", w)
		}
		for w.tasks()[i].Ready == 0 {
			require.True(t, w.turn(w.tasks()[i]))
		}
	}
	require.EqualValues(t, 2, w.tasks()[0].Next)
}

// Nothing is started first by an update that changes nothing of any instance.
func TestAnUpdateOfNoInstanceStartsNone(t *testing.T) {
	policy := &cluster.UpdatePolicy{StartFirst: true, BatchSize: 2}
	w := newServing(t, serviceSpec(4, serves, 0, policy), 3)
	w.settle()
	spec := serviceSpec(4, serves, 0, policy)
	spec.Limits.MaxUnavailable = 2
	w.update(spec)
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
	require.Len(t, w.tasks(), 4, "%v", w)
	w.do(func(tx *rules.Tx) error { return rules.Rollback(tx, w.state.Job(servingJob), 1, "", "") })
	require.Equal(t, cluster.RolledBack, w.state.Job(servingJob).Update.State)
	require.Len(t, w.tasks(), 4, "%v", w)
}

// No more are started first than there are to change.
func TestFewAreStartedFirstForFew(t *testing.T) {
	policy := &cluster.UpdatePolicy{StartFirst: true, BatchSize: 3}
	w := newServing(t, serviceSpec(4, serves, 0, policy), 3)
	w.settle()
	spec := serviceSpec(4, serves, 0, policy)
	spec.Overrides = []cluster.InstanceOverride{{First: 2, Last: 2, Env: []cluster.KeyValue{{Key: "A", Value: "b"}}}}
	w.update(spec)
	require.EqualValues(t, 1, w.state.Job(servingJob).Surge)
	w.settle()
	w.succeeded(1)
	w.restart(cluster.Update{Policy: *policy, Only: []cluster.InstanceRange{{First: 1, Last: 2}}})
	require.EqualValues(t, 2, w.state.Job(servingJob).Surge)
	w.settle()
	w.succeeded(2)
}

// Instances that come while an update is held back, and of which it changes nothing, are none that there are to change.
func TestWhoComesUnchangedIsNotCounted(t *testing.T) {
	policy := &cluster.UpdatePolicy{StartFirst: true, BatchSize: 3, StartPaused: true}
	w := newServing(t, serviceSpec(4, serves, 0, policy), 3)
	w.settle()
	spec := serviceSpec(4, serves, 0, policy)
	spec.Overrides = []cluster.InstanceOverride{{First: 2, Last: 2, Env: []cluster.KeyValue{{Key: "A", Value: "b"}}}}
	w.update(spec)
	w.scale(7)
	require.EqualValues(t, 1, w.state.Job(servingJob).Update.Total)
	w.settle()
	w.steer(resume)
	require.EqualValues(t, 1, w.state.Job(servingJob).Surge)
	w.settle()
	w.succeeded(1)

	w = newServing(t, daemonSpec(serves, 0, nil), 3)
	w.settle()
	spec = daemonSpec(serves, 0, &cluster.UpdatePolicy{StartPaused: true})
	spec.Limits.MaxUnavailable = 2
	w.update(spec)
	w.emit(reported(hostID(3)))
	w.settle()
	w.steer(resume)
	require.Equal(t, map[uint32][2]uint64{0: {2, 1}, 1: {2, 1}, 2: {2, 1}, 3: {2, 1}}, w.runs(), "%v", w)
	w.succeeded(0)
}

// Nothing is started first for changes that need no new run. As soon as one does, others are, and that one waits for them.
func TestChangesInPlaceStartNothingFirst(t *testing.T) {
	policy := &cluster.UpdatePolicy{StartFirst: true, BatchSize: 2, InPlace: true}
	for name, c := range map[string]struct {
		change func(s *cluster.JobSpec)
		more   uint32
	}{
		"what fits":     {func(s *cluster.JobSpec) { s.Task.Resources = amounts(2, 2) }, 0},
		"what does not": {func(s *cluster.JobSpec) { s.Task.Resources = amounts(90, 90) }, 2},
		"what they run": {func(s *cluster.JobSpec) { s.Task = serviceSpec(4, serves, 1, nil).Task }, 2},
		"what one runs": {func(s *cluster.JobSpec) {
			s.Overrides = []cluster.InstanceOverride{{First: 2, Last: 2, Env: []cluster.KeyValue{{Key: "A", Value: "b"}}}}
			s.Task.Resources = amounts(2, 2)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, serviceSpec(4, serves, 0, policy), 3)
			w.settle()
			spec := serviceSpec(4, serves, 0, policy)
			c.change(spec)
			w.update(spec)
			require.Equal(t, c.more, w.state.Job(servingJob).Surge, "%v", w)
			if c.more == 0 {
				require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State, "%v", w)
			}
		})
	}
}

// Where nothing was started first, as many may be down as of a service otherwise.
func TestOneFailsBesideChangesInPlace(t *testing.T) {
	spec := func(cpu int64) *cluster.JobSpec {
		s := serviceSpec(4, serves, 0, &cluster.UpdatePolicy{StartFirst: true, InPlace: true, MaxAttempts: 1})
		s.Limits.MaxUnavailable = 2
		s.Task.Resources = amounts(cpu, 1)
		s.Overrides = []cluster.InstanceOverride{{First: 3, Last: 3, Task: &cluster.TaskSpec{Processes: serviceSpec(1, fails, 0, nil).Task.Processes}}}
		return s
	}
	w := newServing(t, spec(1), 3)
	w.settle()
	w.update(spec(2))
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State, "%+v\n%v", w.state.Job(servingJob).Update, w)
	require.EqualValues(t, 3, w.state.Job(servingJob).Update.Good)
}

// One that fails and backs off is not waiting for a place.
func TestWhoBacksOffWaitsForNoPlace(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(1, serves, number, &cluster.UpdatePolicy{Unplaced: time.Minute})
		s.Backoff = cluster.Backoff{Initial: time.Hour, Max: time.Hour}
		return s
	}
	w := newServing(t, spec(0), 1)
	w.settle()
	w.update(spec(1))
	for w.tasks()[0].State != cluster.TaskRunning {
		require.True(t, w.turn(w.tasks()[0]))
	}
	w.report(w.tasks()[0], cluster.TaskFailed)
	w.settle()
	w.succeeded(1)
}

// A service of which all instances were stopped rests on: nothing is started first where nothing is replaced, though there were no place.
func TestWhatRestsIsNotWokenByAnUpdate(t *testing.T) {
	policy := cluster.UpdatePolicy{StartFirst: true, BatchSize: 2}
	w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
	w.settle()
	for _, task := range w.tasks() {
		w.emit(&cluster.TaskStopping{Task: task.Key, Reason: cluster.ReasonTaskStopped})
	}
	w.settle()
	w.update(serviceSpec(3, serves, 1, &policy))
	w.succeeded(3)
	require.Len(t, w.tasks(), 3)
	w.restart(cluster.Update{Policy: policy})
	w.succeeded(0)
	require.Len(t, w.tasks(), 3)
	require.Equal(t, cluster.JobKilled, w.state.Job(servingJob).State())
	w.emit(&cluster.TaskStopping{Task: w.tasks()[1].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	w.settle()
	require.Equal(t, map[uint32][2]uint64{1: {2, 2}}, w.runs())
	w.update(serviceSpec(3, serves, 2, &policy)) // while one serves another is started first
	require.Len(t, w.tasks(), 5)
}

// One that was started first for a spec that was superseded, and serves, makes way for the next one when the job bears it.
func TestWhoWasStartedFirstFollowsTheNextUpdate(t *testing.T) {
	w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(3, serves, 1, &cluster.UpdatePolicy{StartFirst: true, MinHealthy: time.Hour}))
	for len(w.tasks()) < 4 || w.tasks()[3].Ready == 0 {
		require.True(t, w.turn(w.tasks()[3]))
	}
	w.update(serviceSpec(3, serves, 2, &cluster.UpdatePolicy{StartFirst: true}))
	w.settle()
	w.succeeded(3)
	require.Equal(t, map[uint32][2]uint64{0: {3, 2}, 1: {3, 2}, 2: {3, 2}}, w.runs())
}

// An update that has touched nobody, since an instance that it is not about uses the budget up, waits for that as long as for one of its own.
func TestAnUpdateWaitsForOthersAsLongAsForItsOwn(t *testing.T) {
	spec := serviceSpec(2, serves, 0, nil)
	spec.Overrides = []cluster.InstanceOverride{{First: 0, Last: 0, Task: &serviceSpec(1, sickens, 0, nil).Task}}
	w := newServing(t, spec, 2)
	w.settle()
	w.now = w.now.Add(time.Minute)
	w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	for w.turn(w.tasks()[0]) {
	}
	w.restart(cluster.Update{Only: []cluster.InstanceRange{{First: 1, Last: 1}}})
	require.Empty(t, w.state.Job(servingJob).Update.Active)
	placed := w.tasks()[0].Placed
	for w.state.Job(servingJob).Update.Live() {
		require.True(t, w.ring())
	}
	require.Equal(t, placed.Add(cluster.DefaultHealthyDeadline), w.now)
	require.Equal(t, cluster.UpdateFailed, w.state.Job(servingJob).Update.State)
	require.Equal(t, cluster.ReasonNoneToSpare, w.state.Job(servingJob).Update.Reason)
}

// A rolling restart restarts the instances that it is about. There is nothing that it could be taken back to.
func TestARestart(t *testing.T) {
	w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
	w.settle()
	policy := cluster.UpdatePolicy{MaxAttempts: 1, MaxFailed: 1, Rollback: true, InPlace: true}
	w.restart(cluster.Update{Policy: policy, Only: []cluster.InstanceRange{{First: 1, Last: 1}}})
	w.settle()
	w.succeeded(1)
	require.Equal(t, map[uint32][2]uint64{0: {1, 1}, 1: {1, 2}, 2: {1, 1}}, w.runs())
	w.restart(cluster.Update{Policy: policy})
	for w.tasks()[0].State != cluster.TaskRunning || w.tasks()[0].Run == 1 {
		require.True(t, w.turn(w.tasks()[0]))
	}
	w.report(w.tasks()[0], cluster.TaskFailed)
	require.Equal(t, cluster.UpdateFailed, w.state.Job(servingJob).Update.State)
}

// What was placed at a time to come was so before the clock was set back: it is restarted as well, and what follows is not again.
func TestARestartWhenTheClockWasSetBack(t *testing.T) {
	for name, policy := range map[string]cluster.UpdatePolicy{"stop first": {}, "start first": {StartFirst: true}} {
		for _, when := range []string{"before", "in the middle"} {
			t.Run(name+", "+when, func(t *testing.T) {
				w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
				w.settle()
				if when == "before" {
					w.now = w.now.Add(-time.Minute)
				}
				w.restart(cluster.Update{Policy: policy})
				if when == "in the middle" {
					w.now = w.now.Add(-time.Minute)
				}
				w.settle()
				w.succeeded(3)
				require.Equal(t, map[uint32][2]uint64{0: {1, 2}, 1: {1, 2}, 2: {1, 2}}, w.runs())
			})
		}
	}
}

// An update does not wait until the clock shows again what it showed before it was set back.
func TestAnUpdateGoesOnWhenTheClockWasSetBack(t *testing.T) {
	w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(3, serves, 1, &cluster.UpdatePolicy{MinHealthy: time.Minute}))
	for first := w.tasks()[0]; first.Version != 2 || first.Ready == 0; first = w.tasks()[0] {
		require.True(t, w.turn(first), "%v", w)
	}
	w.now = w.now.Add(-time.Hour / 2)
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.ModeSet{Mode: tx.State().Mode()}) })
	until := w.now.Add(10 * time.Minute)
	w.settle()
	w.succeeded(3)
	require.Less(t, w.now, until)
}

// A failed instance that is taken away in the middle of an update is none of its failures any more.
func TestWhoFailedAndIsTakenAwayIsForgotten(t *testing.T) {
	w := newServing(t, serviceSpec(4, serves, 0, nil), 3)
	w.settle()
	w.report(w.tasks()[3], cluster.TaskFailed) // so that it is touched first
	spec := serviceSpec(4, serves, 1, &cluster.UpdatePolicy{MaxAttempts: 1, Rollback: true})
	spec.Limits.MaxUnavailable = 2
	spec.Overrides = []cluster.InstanceOverride{{First: 3, Last: 3, Task: &serviceSpec(1, fails, 1, nil).Task}}
	w.update(spec)
	for len(w.state.Job(servingJob).Update.Failed) == 0 {
		require.True(t, w.turn(w.tasks()[3]), "%v", w)
	}
	fewer := *spec
	fewer.Instances = 3
	w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.JobUpdated{Job: servingJob, Spec: &fewer}) })
	w.settle()
	u := w.state.Job(servingJob).Update
	require.Equal(t, cluster.UpdateSucceeded, u.State, "%+v\n%v", u, w)
	require.Equal(t, []uint32{3, 3, 0}, []uint32{u.Total, u.Good, uint32(len(u.Failed))})
	require.Empty(t, u.Message)
}

// An instance that finds no place fails for that when the deadline is over: the update goes by the policy, and does not wait for ever.
func TestAnInstanceThatFindsNoPlaceFails(t *testing.T) {
	huge := func(instances uint32, policy *cluster.UpdatePolicy) *cluster.JobSpec {
		spec := serviceSpec(instances, serves, 1, policy)
		spec.Task.Resources = amounts(1000, 1)
		return spec
	}
	for name, c := range map[string]struct {
		policy cluster.UpdatePolicy
		state  cluster.UpdateState
		reason cluster.Reason
		after  time.Duration
	}{
		"nothing said":          {cluster.UpdatePolicy{}, cluster.UpdateFailed, cluster.ReasonNoneToSpare, cluster.DefaultPlacementDeadline},
		"too many":              {cluster.UpdatePolicy{MaxFailed: 1, Unplaced: time.Minute}, cluster.UpdateFailed, cluster.ReasonTooManyFailed, time.Minute},
		"it is taken back":      {cluster.UpdatePolicy{Rollback: true}, cluster.RolledBack, cluster.ReasonNoneToSpare, cluster.DefaultPlacementDeadline},
		"a canary":              {cluster.UpdatePolicy{Canaries: 1}, cluster.UpdateFailed, cluster.ReasonCanaryFailed, cluster.DefaultPlacementDeadline},
		"the one started first": {cluster.UpdatePolicy{StartFirst: true}, cluster.UpdateFailed, cluster.ReasonTooManyFailed, cluster.DefaultPlacementDeadline},
		"all at once":           {cluster.UpdatePolicy{BatchSize: 3}, cluster.UpdateFailed, cluster.ReasonNoneToSpare, cluster.DefaultPlacementDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
			w.settle()
			w.update(huge(3, &c.policy))
			for _, task := range w.tasks() {
				for w.state.Task(task.Key).State.Vacating() {
					require.True(t, w.turn(w.state.Task(task.Key)))
				}
			}
			begun := w.now
			for j := w.state.Job(servingJob); j.Update.Live() && !j.Update.Back(); j = w.state.Job(servingJob) {
				require.True(t, w.ring(), "%+v\n%v", j.Update, w)
			}
			require.Equal(t, c.after, w.now.Sub(begun))
			if c.policy.Rollback {
				w.settle()
			}
			j := w.state.Job(servingJob)
			require.Equal(t, c.state, j.Update.State, "%+v\n%v", j.Update, w)
			require.Equal(t, c.reason, j.Update.Reason)
			require.Contains(t, j.Update.Message, "there was no place within")
		})
	}
}

// Where there is room for a part of the instances that are started first, the update goes on in batches of so many when the others have
// found no place in time.
func TestAsManyAreStartedFirstAsThereIsRoomFor(t *testing.T) {
	for name, c := range map[string]struct {
		policy cluster.UpdatePolicy
		state  cluster.UpdateState
	}{
		"some":             {cluster.UpdatePolicy{BatchSize: 3}, cluster.UpdateSucceeded},
		"by percent":       {cluster.UpdatePolicy{BatchPercent: 100}, cluster.UpdateSucceeded},
		"canaries":         {cluster.UpdatePolicy{Canaries: 3, BatchSize: 3}, cluster.UpdateFailed},
		"they do not last": {cluster.UpdatePolicy{BatchSize: 3, MinHealthy: time.Hour, Deadline: 2 * time.Hour}, cluster.UpdateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.StartFirst, c.policy.MaxFailed = true, 1
			spec := func(version int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
				s := serviceSpec(4, serves, version, policy)
				s.Task.Resources = amounts(50, 1)
				return s
			}
			w := newServing(t, spec(0, nil), 3) // six fit
			w.settle()
			begun := w.now
			w.update(spec(1, &c.policy))
			told := func() bool {
				snapshot, _ := w.state.Snapshot()
				lines := rules.UpdateAwaits(snapshot, w.state.Job(servingJob), w.now)
				return slices.Contains(lines, "batches have a size of 2, since there was no place for more that start first")
			}
			for w.state.Job(servingJob).Update.Live() && !told() {
				w.step()
				w.ring()
			}
			require.Equal(t, c.state == cluster.UpdateSucceeded, told())
			w.settle()
			j := w.state.Job(servingJob)
			require.Equal(t, c.state, j.Update.State, "%+v\n%v", j.Update, w)
			require.GreaterOrEqual(t, w.now.Sub(begun), cluster.DefaultPlacementDeadline)
			require.EqualValues(t, 4, j.Ready)
			if c.state == cluster.UpdateSucceeded {
				require.EqualValues(t, 2, j.Update.Policy.Batch(4))
				require.EqualValues(t, 4, j.Update.Good)
				for _, task := range w.tasks() {
					require.Equal(t, j.Version, task.Version)
				}
			}
		})
	}
}

// An instance that waited for long already has the whole time when an update touches it, as all have when a scheduler is there again,
// something is placed again, or the update is resumed.
func TestTheTimeForAPlaceBeginsAnew(t *testing.T) {
	spec := serviceSpec(1, serves, 0, nil)
	spec.Task.Resources = amounts(1000, 1)
	w := newServing(t, spec, 3)
	w.now = w.now.Add(time.Hour)
	policy := &cluster.UpdatePolicy{Unplaced: time.Minute}
	spec = serviceSpec(1, serves, 1, policy)
	spec.Task.Resources = amounts(500, 1)
	w.update(spec)
	live := func() bool { return w.state.Job(servingJob).Update.Live() }
	mode := func(m cluster.Mode) { w.do(func(tx *rules.Tx) error { return tx.Emit(&cluster.ModeSet{Mode: m}) }) }
	require.Equal(t, w.now.Add(time.Minute), w.timers.Next())
	w.now = w.now.Add(30 * time.Second)
	mode(cluster.Mode{SchedulingStopped: true})
	w.now = w.now.Add(time.Hour)
	w.ring()
	require.True(t, live(), "nothing is placed")
	mode(cluster.Mode{})
	require.True(t, live(), "it may have a place now")
	w.now = w.now.Add(30 * time.Second)
	w.steer(pause)
	w.now = w.now.Add(time.Hour)
	w.steer(resume)
	require.True(t, live(), "nobody looked at it while it was paused")
	begun := w.now
	for live() {
		require.True(t, w.ring())
	}
	require.Equal(t, begun.Add(time.Minute), w.now)

	// A batch job waits for its turn.
	spec = serviceSpec(1, done, 0, nil)
	spec.Type, spec.Task.Resources = cluster.Batch, amounts(1000, 1)
	w = newServing(t, spec, 3)
	spec = serviceSpec(1, done, 1, &cluster.UpdatePolicy{Canaries: 1})
	spec.Type, spec.Task.Resources = cluster.Batch, amounts(500, 1)
	w.update(spec)
	require.Zero(t, w.timers.Next())
	require.True(t, live(), "and counts as a canary when it has run")
}

// So it does where nobody has looked between the pause and its end.
func TestAPauseThatNobodySawGivesTime(t *testing.T) {
	w := newServing(t, serviceSpec(1, serves, 0, nil), 1)
	w.settle()
	spec := serviceSpec(1, serves, 1, &cluster.UpdatePolicy{Unplaced: time.Minute})
	spec.Task.Resources = amounts(1000, 1)
	w.update(spec)
	require.True(t, w.turn(w.tasks()[0]))
	w.now = w.now.Add(30 * time.Second)
	begun := w.now
	w.do(func(tx *rules.Tx) error {
		for _, change := range []func(*cluster.Update){pause, resume} {
			u := *tx.State().Job(servingJob).Update
			change(&u)
			if err := tx.Emit(&cluster.UpdateAdvanced{Job: servingJob, Update: u}); err != nil {
				return err
			}
		}
		return nil
	})
	for w.state.Job(servingJob).Update.Live() {
		require.True(t, w.ring(), "nobody will look at it any more")
	}
	require.Equal(t, begun.Add(time.Minute), w.now)
}

// Room that is held for an instance, and that it never gets, gives it no more time.
func TestHeldRoomIsNoPlace(t *testing.T) {
	w := newServing(t, serviceSpec(1, serves, 0, nil), 1)
	w.settle()
	w.update(serviceSpec(1, serves, 1, nil))
	require.True(t, w.turn(w.tasks()[0]))
	begun, k := w.now, w.tasks()[0].Key
	for range 2 {
		w.emit(&cluster.TaskHeld{Task: k, Hold: cluster.Hold{Host: hostID(0), Until: w.now.Add(4 * time.Minute)}})
		w.now = w.now.Add(4 * time.Minute)
		w.emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonHoldEnded})
	}
	for w.state.Job(servingJob).Update.Live() {
		require.True(t, w.ring())
	}
	require.Equal(t, begun.Add(cluster.DefaultPlacementDeadline), w.now)
}

// Instances that one update started first, and that stand in for those that failed meanwhile, stay when another update that
// needs fewer of them takes over; they go when the others serve again.
func TestWhoStandsInStays(t *testing.T) {
	w := newServing(t, serviceSpec(5, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(5, serves, 1, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 3, MinHealthy: time.Hour}))
	for _, task := range w.tasks() {
		for task.Key.Instance() >= 5 && w.state.Task(task.Key).Ready == 0 {
			require.True(t, w.turn(w.state.Task(task.Key)))
		}
	}
	for _, task := range w.tasks() {
		if task.Key.Instance() < 5 {
			w.report(task, cluster.TaskFailed)
		}
	}
	require.EqualValues(t, 3, w.state.Job(servingJob).Ready, "%v", w)
	w.update(serviceSpec(5, serves, 2, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 1}))
	require.EqualValues(t, 3, w.state.Job(servingJob).Ready, "%v", w)
	w.settle()
	j := w.state.Job(servingJob)
	require.Equal(t, cluster.UpdateSucceeded, j.Update.State)
	require.Zero(t, j.Surge)
	require.EqualValues(t, 5, j.Ready)
}

// No more instances are started first than may run at once beside those wanted. Where that are none, as after a rollback to a spec
// with a lower limit, the old ones are stopped first.
func TestAsManyAsMayRunAreStartedFirst(t *testing.T) {
	for most, more := range map[uint32]uint32{0: 3, 9: 3, 7: 2, 6: 1, 5: 0} {
		w := newServing(t, serviceSpec(5, serves, 0, nil), 3)
		w.settle()
		spec := serviceSpec(5, serves, 1, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 3})
		spec.Limits.MaxRunning = most
		w.update(spec)
		require.Equal(t, more, w.state.Job(servingJob).Surge)
		w.settle()
		j := w.state.Job(servingJob)
		require.Equal(t, cluster.UpdateSucceeded, j.Update.State, "at most %d: %+v\n%v", most, j.Update, w)
		require.Zero(t, j.Surge)

		// The one started first is in the way of a lower limit.
		w.update(serviceSpec(5, serves, 2, &cluster.UpdatePolicy{StartFirst: true, MinHealthy: time.Hour}))
		for _, task := range w.tasks() {
			for task.Key.Instance() >= 5 && w.state.Task(task.Key).Ready == 0 {
				require.True(t, w.turn(w.state.Task(task.Key)))
			}
		}
		spec = serviceSpec(5, serves, 3, &cluster.UpdatePolicy{StartFirst: true})
		spec.Limits.MaxRunning = 5
		w.update(spec)
		w.settle()
		require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State, "%+v\n%v", w.state.Job(servingJob).Update, w)
	}
}

// No more instances are started first for canaries than there are canaries: a batch of the rest has to wait for the promotion.
func TestCanariesAreStartedFirst(t *testing.T) {
	w := newServing(t, serviceSpec(5, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(5, serves, 1, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 4, Canaries: 1}))
	w.settle()
	j := w.state.Job(servingJob)
	require.True(t, rules.AwaitsPromotion(j.Update))
	updated := 0
	for _, task := range w.tasks() {
		if task.Version == j.Version {
			updated++
		}
	}
	require.Equal(t, 2, updated, "the canary, and the one that was started before it went\n%v", w)
	w.steer(promote)
	require.EqualValues(t, 4, w.state.Job(servingJob).Surge)
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
	require.Zero(t, w.state.Job(servingJob).Surge)
}

// A job that is scaled while its update is paused runs no more instances first than it would if that went on.
func TestAPausedUpdateStartsNoMoreFirstThanItNeeds(t *testing.T) {
	for _, c := range []struct{ most, scaled, more uint32 }{{0, 2, 2}, {0, 1, 1}, {0, 8, 3}, {8, 6, 2}, {8, 8, 0}} {
		spec := func(version int) *cluster.JobSpec {
			s := serviceSpec(5, serves, version, &cluster.UpdatePolicy{StartFirst: true, BatchSize: 3, MinHealthy: time.Hour})
			s.Limits.MaxRunning = c.most
			return s
		}
		w := newServing(t, spec(0), 3)
		w.settle()
		w.update(spec(1))
		w.steer(pause)
		require.EqualValues(t, 3, w.state.Job(servingJob).Surge)
		w.scale(c.scaled)
		w.settle()
		require.Equal(t, c.more, w.state.Job(servingJob).Surge, "%+v: %v", c, w)
		require.Len(t, w.tasks(), int(c.scaled+c.more), "%+v: %v", c, w)
		w.steer(resume)
		w.settle()
		j := w.state.Job(servingJob)
		require.Equal(t, cluster.UpdateSucceeded, j.Update.State, "%+v: %v", c, w)
		require.Len(t, w.tasks(), int(c.scaled))
	}
}

// A canary that is stopped, taken away or goes with its host before it is good has shown nothing: another one takes its place.
func TestAnotherIsCanary(t *testing.T) {
	policy := &cluster.UpdatePolicy{Canaries: 1}
	for name, c := range map[string]struct {
		spec func(string, int, *cluster.UpdatePolicy) *cluster.JobSpec
		do   func(w *serving)
	}{
		"it is stopped": {daemonSpec, func(w *serving) {
			w.emit(&cluster.TaskStopping{Task: w.tasks()[2].Key, Reason: cluster.ReasonTaskStopped})
		}},
		"its host is drained": {daemonSpec, func(w *serving) { w.emit(&cluster.HostDrain{ID: w.tasks()[2].Home, Drain: true}) }},
		"it is stopped, of a batch job": {
			func(turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
				return batchSpec(3, turns, number, policy)
			}, func(w *serving) {
				w.emit(&cluster.TaskStopping{Task: w.tasks()[2].Key, Reason: cluster.ReasonTaskStopped})
			},
		},
		"it is taken away": {
			func(turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
				return serviceSpec(3, turns, number, policy)
			}, func(w *serving) { w.scale(2) },
		},
	} {
		w := newServing(t, c.spec(serves, 0, nil), 3)
		w.settle()
		w.emit(&cluster.TaskStopping{Task: w.tasks()[2].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
		w.update(c.spec(serves, 1, policy))
		require.Equal(t, []uint32{2}, w.state.Job(servingJob).Update.Active, name)
		c.do(w)
		require.False(t, rules.AwaitsPromotion(w.state.Job(servingJob).Update), "%s: %v", name, w)
		w.settle()
		require.True(t, rules.AwaitsPromotion(w.state.Job(servingJob).Update), name)
		now := w.state.Job(servingJob).Version
		require.Equal(t, map[uint32][2]uint64{0: {now, 2}, 1: {1, 1}}, w.runs(), name)
	}
}

// While canaries wait to be promoted a job that grows does so by the version that they are held against.
func TestAJobGrowsByWhatIsKnownToServe(t *testing.T) {
	for _, first := range []bool{false, true} {
		w := newServing(t, serviceSpec(3, serves, 0, nil), 3)
		w.settle()
		versions := func() map[uint64]int {
			counts := map[uint64]int{}
			for _, task := range w.tasks() {
				if w.state.Job(servingJob).Spec.Wants(task.Key.Instance()) {
					counts[task.Version]++
				}
			}
			return counts
		}
		w.update(serviceSpec(4, serves, 1, &cluster.UpdatePolicy{Canaries: 1, StartFirst: first}))
		w.settle()
		require.Equal(t, map[uint64]int{1: 3, 2: 1}, versions(), "%v", w)
		w.scale(6)
		w.settle()
		j := w.state.Job(servingJob)
		require.True(t, rules.AwaitsPromotion(j.Update))
		canaries := 1
		if first { // what was started before the canary went is an instance like others now
			canaries = 2
		}
		require.Equal(t, map[uint64]int{1: 6 - canaries, 3: canaries}, versions(), "%v", w)
		require.EqualValues(t, 6+j.Surge, j.Ready, "%v", w)
		w.steer(promote)
		w.settle()
		j = w.state.Job(servingJob)
		require.Equal(t, cluster.UpdateSucceeded, j.Update.State)
		require.Equal(t, map[uint64]int{3: 6}, versions(), "%v", w)
		require.EqualValues(t, 7-canaries, j.Update.Total)
		require.Equal(t, j.Update.Total, j.Update.Good)
	}
}

// So does a daemon on hosts that join, whatever holds its update back: they have the new spec with the others.
func TestADaemonGrowsByWhatIsKnownToServe(t *testing.T) {
	for name, c := range map[string]struct {
		policy cluster.UpdatePolicy
		held   func(*cluster.Update)
		goesOn func(*cluster.Update)
		before int // instances by the version before
	}{
		"it awaits promotion": {cluster.UpdatePolicy{Canaries: 1}, func(*cluster.Update) {}, promote, 3},
		"it starts paused":    {cluster.UpdatePolicy{StartPaused: true}, func(*cluster.Update) {}, resume, 4},
		"it is paused":        {cluster.UpdatePolicy{}, pause, resume, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, daemonSpec(serves, 0, nil), 3)
			w.settle()
			w.update(daemonSpec(serves, 1, &c.policy))
			w.steer(c.held)
			w.settle()
			w.emit(reported(hostID(3)))
			w.settle()
			before := 0
			for _, run := range w.runs() {
				if run[0] == 1 {
					before++
				}
			}
			require.Equal(t, c.before, before, "%v", w)
			require.Len(t, w.runs(), 4)
			w.steer(c.goesOn)
			w.settle()
			w.succeeded(4)
			for _, run := range w.runs() {
				require.EqualValues(t, 2, run[0], "%v", w)
			}
		})
	}
}

// A host that goes and comes again while an update of a daemon is held back is one to change, as it was.
func TestAHostThatComesAgainCountsOnce(t *testing.T) {
	w := newServing(t, daemonSpec(serves, 0, nil), 4)
	w.settle()
	w.update(daemonSpec(serves, 1, &cluster.UpdatePolicy{StartPaused: true}))
	for range 3 {
		w.emit(&cluster.HostUnreached{ID: hostID(3)})
		w.report(w.tasks()[3], cluster.TaskLost)
		w.emit(&cluster.HostRemoved{ID: hostID(3)})
		require.Len(t, w.tasks(), 3)
		w.emit(reported(hostID(3)))
		w.settle()
		require.EqualValues(t, 4, w.state.Job(servingJob).Update.Total)
	}
	w.steer(resume)
	w.settle()
	w.succeeded(4)
}

// A host that only the new spec is for gets its instance by that: by the version before it could run nothing.
func TestADaemonComesToHostsThatOnlyItsNewSpecIsFor(t *testing.T) {
	before := daemonSpec(serves, 0, nil)
	before.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: cluster.LabelHostname, Value: string(hostID(3))}, Comparison: cluster.Equal}
	w := newServing(t, before, 4)
	w.settle()
	require.Len(t, w.runs(), 3)
	w.update(daemonSpec(serves, 1, &cluster.UpdatePolicy{StartPaused: true}))
	w.settle()
	require.Equal(t, map[uint32][2]uint64{0: {1, 1}, 1: {1, 1}, 2: {1, 1}, 3: {2, 1}}, w.runs(), "%v", w)
	w.steer(resume)
	w.settle()
	w.succeeded(3)
}

// Nor does a job grow by what an update has yet to bring, or an instance that comes a second time keep the version before.
func TestAJobGrowsByNothingThatIsHeldBack(t *testing.T) {
	versions := func(w *serving) (all []uint64) {
		for _, task := range w.tasks() {
			all = append(all, task.Version)
		}
		return all
	}
	w := newServing(t, serviceSpec(2, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(3, serves, 1, &cluster.UpdatePolicy{StartPaused: true}))
	w.settle()
	require.Equal(t, []uint64{1, 1, 1}, versions(w), "%v", w)
	w.scale(4)
	w.settle()
	require.Equal(t, []uint64{1, 1, 1, 1}, versions(w), "%v", w)
	w.steer(resume)
	w.settle()
	w.succeeded(4)
	require.Equal(t, []uint64{3, 3, 3, 3}, versions(w), "%v", w)

	w.scale(6)
	w.settle()
	spec := serviceSpec(6, serves, 2, &cluster.UpdatePolicy{Canaries: 3, BatchSize: 3})
	spec.Limits.MaxUnavailable = 3
	w.update(spec)
	w.scale(2)
	w.scale(6)
	w.settle()
	w.steer(promote)
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
	require.Equal(t, []uint64{7, 7, 7, 7, 7, 7}, versions(w), "%v", w)

	w.update(serviceSpec(6, serves, 3, &cluster.UpdatePolicy{StartFirst: true}))
	w.scale(7)
	w.settle()
	w.succeeded(7) // the one that was started first is one of them
}

// Instances that went in the middle of an update are none of those that it has reached, whether they were good before or not.
func TestWhoWentIsNotCounted(t *testing.T) {
	w := newServing(t, serviceSpec(4, serves, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(4, serves, 1, nil))
	for w.state.Job(servingJob).Update.Good < 2 {
		for _, task := range w.tasks() {
			w.turn(task)
		}
	}
	w.scale(1)
	w.settle()
	w.succeeded(1)

	w.scale(4)
	w.settle()
	w.update(serviceSpec(4, serves, 2, &cluster.UpdatePolicy{StartPaused: true}))
	for _, instances := range []uint32{1, 3} { // also before it goes on
		w.scale(instances)
		require.Equal(t, instances, w.state.Job(servingJob).Update.Total)
	}
	w.steer(resume)
	w.settle()
	w.succeeded(3)
}

// What the next run of an instance is to be stays what the update brings when the job is scaled meanwhile: it is not run again for it, and
// one whose host is drained does not miss it.
func TestAScaledJobGoesOnWithItsUpdate(t *testing.T) {
	w := newServing(t, serviceSpec(3, sickens, 0, nil), 3)
	w.settle()
	w.update(serviceSpec(3, serves, 1, nil))
	w.scale(4)
	w.settle()
	w.succeeded(3)
	for _, task := range w.tasks() {
		require.LessOrEqual(t, task.Run, uint32(2), "%v", w)
	}

	stateful := func(turns string, number int) *cluster.JobSpec {
		spec := serviceSpec(2, turns, number, nil)
		spec.Type, spec.Preemptible = cluster.Stateful, false
		return spec
	}
	w = newServing(t, stateful(serves, 0), 3)
	w.settle()
	away := w.tasks()[0].Host
	w.emit(&cluster.HostDrain{ID: away, Drain: true})
	w.update(stateful(serves, 1))
	w.scale(3)
	w.emit(&cluster.HostDrain{ID: away})
	w.settle()
	w.succeeded(2)
	for _, task := range w.tasks() {
		require.EqualValues(t, 3, task.Version, "%v", w)
	}
}

// Who was asked to leave for others has the grace that it was promised, whether an update comes to it or its deadline passes meanwhile, and
// waits at the head of its priority then. It has the new spec with its next run, or, where its policy ends it, when it is restarted.
func TestAnUpdateLeavesTheirGraceToThoseWhoMakeWay(t *testing.T) {
	policy := cluster.UpdatePolicy{MaxAttempts: 1, MaxFailed: 1, MinHealthy: 10 * time.Second, Deadline: 20 * time.Second}
	leaves := func(w *serving) cluster.TaskKey {
		first := w.tasks()[0]
		w.emit(&cluster.TaskPreempted{Task: first.Key, Run: first.Run, Preemption: cluster.Preemption{ForPool: "root"}})
		return first.Key
	}
	pass := func(w *serving) {
		w.now = w.now.Add(10 * time.Minute)
		for at := w.timers.Next(); at != 0 && at <= w.now; at = w.timers.Next() {
			w.ring()
		}
	}
	begin := map[string]func(*serving, *cluster.JobSpec){
		"it begins": func(w *serving, spec *cluster.JobSpec) { w.update(spec) },
		"it is a restart": func(w *serving, _ *cluster.JobSpec) {
			w.restart(cluster.Update{Policy: policy})
		},
	}
	for name, begin := range begin {
		for _, kill := range []bool{false, true} {
			spec := serviceSpec(2, serves, 0, &policy)
			spec.Preemption, spec.Limits.MaxUnavailable = cluster.PreemptionPolicy{Grace: time.Hour, Kill: kill}, 2
			w := newServing(t, spec, 3)
			w.settle()
			first := leaves(w)
			next := *spec
			next.Task.Processes = serviceSpec(2, serves, 1, nil).Task.Processes
			begin(w, &next)
			pass(w)
			require.Equal(t, cluster.TaskPreempting, w.state.Task(first).State, "%s\n%v", name, w)
			w.report(w.state.Task(first), cluster.TaskKilled)
			task := w.state.Task(first)
			require.Equal(t, kill, task.State == cluster.TaskKilled, "%s\n%v", name, w)
			require.Equal(t, !kill, task.Ahead, "%s\n%v", name, w)
			w.settle()
			u := w.state.Job(servingJob).Update
			require.Equal(t, cluster.UpdateSucceeded, u.State, "%s: %+v\n%v", name, u, w)
			require.Equal(t, u.Total, u.Good, "%s: %+v", name, u)
			if task = w.state.Task(first); kill {
				require.Equal(t, cluster.TaskKilled, task.State, "%s\n%v", name, w)
			} else {
				require.NotZero(t, task.Ready, "%s\n%v", name, w)
				require.Equal(t, w.state.Job(servingJob).Version, task.Version, "%s\n%v", name, w)
			}
		}
	}

	w := newServing(t, serviceSpec(1, serves, 0, nil), 2) // one that was to move does so by what it asks for now
	w.settle()
	first := w.tasks()[0]
	w.emit(&cluster.TaskPreempted{Task: first.Key, Run: first.Run, Hold: &cluster.Hold{Host: hostID(1), Until: cluster.Forever}})
	require.True(t, w.state.Host(hostID(1)).Withheld.Equal(amounts(1, 1)))
	large := serviceSpec(1, serves, 1, &policy)
	large.Task.Resources = amounts(90, 90)
	w.update(large)
	require.True(t, w.state.Host(hostID(1)).Withheld.IsZero())
	w.settle()
	w.succeeded(1)

	w = newServing(t, serviceSpec(2, serves, 0, nil), 3) // one that was touched, and is asked to leave before it is good
	w.settle()
	spec := serviceSpec(2, serves, 1, &policy)
	spec.Preemption.Grace = time.Hour
	w.update(spec)
	for w.tasks()[0].Run == 1 || w.tasks()[0].Ready == 0 {
		w.turn(w.tasks()[0])
	}
	left := leaves(w)
	pass(w)
	require.Equal(t, cluster.TaskPreempting, w.state.Task(left).State, "%v", w)
	w.settle()
	w.succeeded(2)
}

// Who had to leave for others and waits at the head of its priority keeps that place when an update gives it another spec.
func TestAnUpdateLeavesTheirPlaceToThoseWhoMadeWay(t *testing.T) {
	w := newServing(t, serviceSpec(1, serves, 0, nil), 1)
	w.settle()
	first := w.tasks()[0]
	w.emit(&cluster.TaskPreempted{Task: first.Key, Run: first.Run, Preemption: cluster.Preemption{ForPool: "root"}})
	w.report(w.state.Task(first.Key), cluster.TaskKilled)
	require.True(t, w.state.Task(first.Key).Ahead, "%v", w)
	w.update(serviceSpec(1, serves, 1, nil))
	waits := w.state.Task(first.Key)
	require.Equal(t, w.state.Job(servingJob).Version, waits.Version, "%v", w)
	require.True(t, waits.Ahead, "%v", w)
}

// Instances that are just being replaced, or have just ceased to be ready, are not given up, however long ago they were placed:
// an update that takes over, or goes on, waits for them.
func TestWhoIsOnTheWayIsNotGivenUp(t *testing.T) {
	policy := cluster.UpdatePolicy{StartFirst: true, BatchSize: 2, MaxFailed: 1, Rollback: true, MinHealthy: time.Second}
	leaving := func(w *serving) (n int) {
		for _, task := range w.tasks() {
			if task.State.Vacating() {
				n++
			}
		}
		return n
	}
	w := newServing(t, serviceSpec(5, serves, 0, nil), 3)
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.update(serviceSpec(5, serves, 1, &policy))
	for leaving(w) < 2 {
		for _, task := range w.tasks() {
			if task = w.state.Task(task.Key); task.Ready == 0 && !task.State.Vacating() {
				w.turn(task)
			}
		}
		w.ring()
	}
	w.update(serviceSpec(5, serves, 2, &policy))
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State, "%v", w)
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)

	w.now = w.now.Add(time.Hour)
	policy.StartFirst, policy.Canaries = false, 1
	w.update(serviceSpec(5, serves, 3, &policy))
	w.settle() // the canary waits to be promoted
	canary := w.tasks()[0]
	w.now = w.now.Add(time.Hour)
	unready := &cluster.TaskHealth{Task: canary.Key, Run: canary.Run, Health: cluster.HealthUnready}
	w.do(func(tx *rules.Tx) error { return rules.Health(tx, shard, unready) })
	w.steer(promote)
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State, "%+v", w.state.Job(servingJob).Update)
	w.settle()
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
}

// What fails as it is does not keep the spec that mends it away, though another instance is to be started first; neither does
// one started first for a spec that was superseded.
func TestWhatMendsAServiceIsStartedFirst(t *testing.T) {
	policy := cluster.UpdatePolicy{StartFirst: true, MaxFailed: 1, Rollback: true}
	for _, superseded := range []bool{false, true} {
		w := newServing(t, serviceSpec(3, fails, 0, nil), 3)
		for range 30 {
			for _, task := range w.tasks() {
				w.turn(task)
			}
			w.ring()
		}
		require.Greater(t, w.tasks()[0].Failures, policy.Attempts())
		if superseded {
			policy := policy
			policy.MinHealthy = time.Minute
			w.update(serviceSpec(3, serves, 1, &policy))
			for w.state.Job(servingJob).Ready == 0 {
				require.True(t, w.turn(w.tasks()[3]))
			}
		}
		w.update(serviceSpec(3, serves, 2, &policy))
		require.True(t, w.state.Job(servingJob).Update.Live(), "%+v", w.state.Job(servingJob).Update)
		w.settle()
		j := w.state.Job(servingJob)
		require.Equal(t, cluster.UpdateSucceeded, j.Update.State, "%+v\n%v", j.Update, w)
		require.EqualValues(t, 3, j.Ready)
		require.Zero(t, j.Surge)
	}
}

// Whom somebody stops while an update is paused is none of the update's when that goes on, however his run ended.
func TestAnUpdateLeavesWhoWasStopped(t *testing.T) {
	for _, end := range []cluster.TaskState{cluster.TaskKilled, cluster.TaskLost, cluster.TaskFailed, cluster.TaskSucceeded} {
		spec := func(number int) *cluster.JobSpec {
			s := serviceSpec(2, serves, number, nil)
			s.Limits.MaxUnavailable = 2
			return s
		}
		w := newServing(t, spec(0), 3)
		w.settle()
		w.update(spec(1))
		for w.tasks()[0].State != cluster.TaskPlaced {
			require.True(t, w.turn(w.tasks()[0]))
		}
		w.steer(pause)
		w.do(func(tx *rules.Tx) error {
			return tx.Emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskStopped})
		})
		w.report(w.tasks()[0], end)
		w.steer(resume)
		w.settle()
		require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State, "%v: %+v\n%v", end, w.state.Job(servingJob).Update, w)
		require.Equal(t, end, w.tasks()[0].State)
		require.Equal(t, w.state.Job(servingJob).Version, w.tasks()[1].Version)
	}
}

// It does so however its run ended before the signal took effect.
func TestUpdatesLeaveWhoWasStoppedAndEndedFirst(t *testing.T) {
	for _, end := range []cluster.TaskState{cluster.TaskKilled, cluster.TaskLost, cluster.TaskFailed, cluster.TaskSucceeded} {
		for name, spec := range map[string]func(string, int, *cluster.UpdatePolicy) *cluster.JobSpec{
			"daemon": daemonSpec,
			"stateless": func(turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
				s := serviceSpec(3, turns, number, policy)
				s.Limits.MaxUnavailable = 2
				return s
			},
		} {
			w := newServing(t, spec(serves, 0, nil), 3)
			w.settle()
			w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskStopped})
			w.report(w.tasks()[0], end)
			w.update(spec(serves, 1, nil))
			w.settle()
			w.succeeded(3)
			require.Equal(t, end, w.tasks()[0].State, "%s: %v", name, w)
			require.EqualValues(t, 2, w.tasks()[0].Version)
			require.Equal(t, map[uint32][2]uint64{1: {2, 2}, 2: {2, 2}}, w.runs(), name)
			w.restart(cluster.Update{})
			w.settle()
			require.Equal(t, end, w.tasks()[0].State, "%s: %v", name, w)
			require.Equal(t, map[uint32][2]uint64{1: {2, 3}, 2: {2, 3}}, w.runs(), name)
			w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
			w.settle()
			require.EqualValues(t, 2, w.runs()[0][0])
		}
	}
	w := newServing(t, batchSpec(3, serves, 0, nil), 3)
	w.settle()
	w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskStopped})
	w.report(w.tasks()[0], cluster.TaskLost)
	w.update(batchSpec(3, serves, 1, nil))
	w.settle()
	require.Equal(t, cluster.TaskLost, w.tasks()[0].State)
}

func TestInPlaceUpdates(t *testing.T) {
	policy := &cluster.UpdatePolicy{InPlace: true, BatchSize: 10}
	w := newServing(t, serviceSpec(4, serves, 0, nil), 2)
	w.settle()
	more := serviceSpec(4, serves, 0, policy)
	more.Labels = []cluster.KeyValue{{Key: "a", Value: "b"}}
	more.Task.Resources = amounts(3, 2)
	w.update(more)
	w.settle()
	j := w.state.Job(servingJob)
	require.Equal(t, cluster.UpdateSucceeded, j.Update.State)
	for _, task := range w.tasks() {
		require.EqualValues(t, 1, task.Run)
		require.EqualValues(t, 2, task.Version)
	}
	w.do(func(tx *rules.Tx) error {
		for i := range 4 {
			if err := tx.Emit(&cluster.HostReported{ID: hostID(i), Machine: *w.state.Host(hostID(0)).Machine}); err != nil {
				return err
			}
		}
		return nil
	})
	large := *more
	large.Task.Resources = amounts(60, 1) // two of them do not fit on one host
	w.update(&large)
	w.settle()
	moved := 0
	for _, task := range w.tasks() {
		moved += int(task.Run - 1)
	}
	require.Equal(t, 2, moved, "those that do not fit beside others any more begin anew elsewhere")
}

// Without a word for it nothing changes in place. With one, what has just begun goes on, and what failed before and serves now.
func TestWhatChangesInPlace(t *testing.T) {
	for _, in := range []bool{false, true} {
		w := newServing(t, serviceSpec(2, serves, 0, nil), 2)
		w.settle()
		for _, task := range w.tasks() {
			w.report(task, cluster.TaskFailed)
		}
		w.settle()
		require.EqualValues(t, 1, w.tasks()[1].Failures)
		w.now = w.now.Add(2 * time.Minute)
		w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
		for w.tasks()[0].State != cluster.TaskPlaced {
			require.True(t, w.turn(w.tasks()[0]))
		}
		more := serviceSpec(2, serves, 0, &cluster.UpdatePolicy{InPlace: in})
		more.Task.Resources = amounts(3, 2)
		w.update(more)
		w.settle()
		w.succeeded(2)
		want := map[uint32][2]uint64{0: {2, 4}, 1: {2, 3}}
		if in {
			want = map[uint32][2]uint64{0: {2, 3}, 1: {2, 2}}
		}
		require.Equal(t, want, w.runs())
	}
}

// What runs on slack grows in place within the slack that is left, whatever is free besides.
func TestRevocableTasksGrowWithinTheSlack(t *testing.T) {
	spec := func(cpu int64) *cluster.JobSpec {
		s := serviceSpec(3, serves, 0, &cluster.UpdatePolicy{InPlace: true, BatchSize: 10})
		s.Revocable, s.Limits.MaxUnavailable = true, 3
		s.Task.Resources = amounts(cpu, 1)
		return s
	}
	for _, taken := range []int64{1, 100} {
		w := newServing(t, spec(1), 1)
		machine := *w.state.Host(hostID(0)).Machine
		machine.Revocable = amounts(5, 5)
		other := serviceSpec(1, serves, 0, nil)
		other.Name, other.Task.Resources = "other", amounts(taken, 1)
		w.emit(&cluster.HostReported{ID: hostID(0), Machine: machine})
		w.settle()
		w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: other}}}, &cluster.Placed{Task: cluster.MakeTaskKey(2, 0), Run: 1, Host: hostID(0)})
		w.update(spec(2))
		h := w.state.Host(hostID(0))
		require.Zero(t, h.Excess(), "%v", w)
		grown := 0
		for _, task := range w.tasks() {
			if task.Run == 1 && task.Version == 2 {
				grown++
			}
		}
		require.Equal(t, 2, grown, "%v", w)
	}
}

// What failed by the spec before does not count when an instance gets more in place: it is tried as often as any other.
func TestWhatFailsIsMendedInPlace(t *testing.T) {
	for _, end := range []cluster.TaskState{cluster.TaskPending, cluster.TaskRunning} {
		spec := func(memory int64) *cluster.JobSpec {
			s := serviceSpec(2, serves, 0, &cluster.UpdatePolicy{InPlace: true, MaxFailed: 1, Rollback: true})
			s.Task.Resources = amounts(1, memory)
			return s
		}
		w := newServing(t, spec(1), 2)
		w.settle()
		for range 4 {
			w.report(w.tasks()[0], cluster.TaskFailed)
			for w.tasks()[0].NotBefore != 0 && (end == cluster.TaskRunning || w.tasks()[0].Failures < 4) {
				require.True(t, w.ring())
			}
			for range 2 {
				w.turn(w.tasks()[0])
			}
		}
		require.Equal(t, end, w.tasks()[0].State)
		w.update(spec(2))
		if end == cluster.TaskRunning && w.tasks()[0].State == cluster.TaskRunning {
			w.report(w.tasks()[0], cluster.TaskFailed)
		}
		w.settle()
		w.succeeded(2)
		require.EqualValues(t, 2, w.tasks()[0].Version, "%v", w)
		require.Equal(t, uint64(1), w.runs()[1][1], "the other one goes on")
	}
}

// Nor does the time count for which it waited for a place before it asked for less in place.
func TestWhatFindsNoPlaceIsMendedInPlace(t *testing.T) {
	spec := func(cpu int64) *cluster.JobSpec {
		s := serviceSpec(2, serves, 0, &cluster.UpdatePolicy{InPlace: true, MaxFailed: 1, Rollback: true})
		s.Task.Resources = amounts(cpu, 1)
		return s
	}
	w := newServing(t, spec(60), 1)
	w.settle()
	require.Equal(t, cluster.TaskPending, w.tasks()[1].State)
	w.now = w.now.Add(time.Hour)
	w.update(spec(40))
	w.settle()
	w.succeeded(2)
	require.Equal(t, map[uint32][2]uint64{0: {2, 1}, 1: {2, 1}}, w.runs())
}

// A host keeps nothing for an instance that is bound to it and could not have it, since it asks for more now, or the host has less: others
// may have it until the instance can.
func TestAHostKeepsNothingThatItCouldNotGive(t *testing.T) {
	spec := func(cpu int64) *cluster.JobSpec {
		s := serviceSpec(2, serves, 0, &cluster.UpdatePolicy{InPlace: true})
		s.Type, s.Preemptible = cluster.Stateful, false
		s.Task.Resources = amounts(cpu, 1)
		return s
	}
	w := newServing(t, spec(50), 2)
	w.settle()
	home, machine := w.tasks()[0].Home, *w.state.Host(hostID(0)).Machine
	w.emit(&cluster.TaskStopping{Task: w.tasks()[0].Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	w.report(w.tasks()[0], cluster.TaskKilled)
	require.Equal(t, amounts(50, 99), w.state.Host(home).Room())
	small := machine
	small.Capacity = amounts(40, 40)
	w.emit(&cluster.HostReported{ID: home, Machine: small})
	require.Equal(t, cluster.TaskPending, w.tasks()[0].State)
	require.Equal(t, amounts(40, 40), w.state.Host(home).Room())
	w.emit(&cluster.HostReported{ID: home, Machine: machine})
	require.Equal(t, cluster.TaskReserved, w.tasks()[0].State)
	w.update(spec(150))
	require.Equal(t, cluster.TaskPending, w.tasks()[0].State)
	require.Equal(t, amounts(100, 100), w.state.Host(home).Room())
	w.update(spec(60))
	require.Equal(t, cluster.TaskReserved, w.tasks()[0].State)
	require.Equal(t, amounts(40, 99), w.state.Host(home).Room())
}

// What would take its pool beyond its limit does not grow in place: it begins anew, as others start, when the pool has room for it.
func TestNothingGrowsBeyondALimit(t *testing.T) {
	w := newServing(t, serviceSpec(4, serves, 0, nil), 2)
	w.settle()
	has := w.state.Job(servingJob).Spec.Task.Resources.In(cluster.CPU.String())
	w.do(func(tx *rules.Tx) error {
		return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: 4*has + 2}, {Dimension: cluster.Memory.String(), Limit: 0},
		}}})
	})
	more := serviceSpec(4, serves, 0, &cluster.UpdatePolicy{InPlace: true, BatchSize: 10})
	more.Task.Resources = amounts(has+1, more.Task.Resources.In(cluster.Memory.String()))
	w.update(more)
	grown := 0
	for _, task := range w.tasks() {
		if task.Version == 2 && task.Run == 1 && task.State == cluster.TaskRunning {
			grown++
		}
	}
	require.Equal(t, 2, grown)
	require.EqualValues(t, 4*has+2, w.state.Used(cluster.RootPool).Fixed[cluster.CPU])
}

// anySpec draws a spec of a kind, by which runs turn out well or not.
func anySpec(t *rapid.T, kind cluster.JobType, number int) *cluster.JobSpec {
	one := func(of int, name string) bool { return rapid.IntRange(0, of-1).Draw(t, name) == 0 }
	turns := []string{serves, serves, fails, sickens}
	if kind == cluster.Batch {
		turns = append(turns, done, done)
	}
	s := serviceSpec(rapid.Uint32Range(1, 6).Draw(t, "instances"), rapid.SampledFrom(turns).Draw(t, "turns"), number, &cluster.UpdatePolicy{
		BatchSize: rapid.Uint32Range(0, 4).Draw(t, "batch"), StartFirst: one(4, "start first") && kind == cluster.Stateless,
		Rollback: one(4, "rollback"), StartPaused: one(4, "paused"), InPlace: one(4, "in place"),
		Canaries: rapid.Uint32Range(0, 1).Draw(t, "canaries"), MaxFailed: rapid.Uint32Range(0, 2).Draw(t, "failed"),
		MaxAttempts: rapid.Uint32Range(0, 2).Draw(t, "attempts"), MinHealthy: time.Duration(rapid.IntRange(0, 1).Draw(t, "healthy")) * time.Minute,
		Unplaced: time.Duration(rapid.IntRange(0, 1).Draw(t, "unplaced")) * time.Minute,
	})
	s.Type, s.Preemptible = kind, kind == cluster.Stateless || kind == cluster.Batch
	s.Limits.MaxUnavailable = rapid.Uint32Range(0, 3).Draw(t, "unavailable")
	if rapid.Bool().Draw(t, "limited") {
		s.Limits.MaxRunning = rapid.Uint32Range(6, 8).Draw(t, "running") // of which all instances may run, however many come back
	}
	if one(3, "small") { // against another such, a change that can be made in place
		s.Task.Processes[0].Command[1] = "0"
		s.Task.Resources = amounts(rapid.Int64Range(1, 3).Draw(t, "cpu"), 1)
	}
	if one(3, "run time") {
		s.Limits.MaxRunTime = 3 * time.Minute // longer than it ever backs off, so that at times all run
	}
	s.Preemption.Kill = s.Preemptible && one(5, "kill")
	if one(4, "constrained") && (kind == cluster.Stateless || kind == cluster.Daemon) {
		s.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: cluster.LabelHostname, Value: string(hostID(rapid.IntRange(0, 3).Draw(t, "but")))}, Comparison: cluster.Equal}
	}
	switch kind {
	case cluster.Daemon:
		s.Instances, s.Limits.MaxRunning = 0, 0
	case cluster.Batch:
		s.MaxFailures = rapid.Uint32Range(0, 3).Draw(t, "failures")
		if rapid.Bool().Draw(t, "short") {
			s.Limits.MaxRunTime = 30 * time.Second
		}
	}
	return s
}

// stir does something at random that may happen to the job.
func (w *serving) stir(t *rapid.T, number int) {
	j, tasks, h := w.state.Job(servingJob), w.tasks(), hostID(rapid.IntRange(0, 3).Draw(t, "host"))
	what, task := rapid.IntRange(0, 19).Draw(t, "what"), &cluster.Task{Removed: true}
	if len(tasks) > 0 {
		task = tasks[rapid.IntRange(0, len(tasks)-1).Draw(t, "task")]
	}
	switch {
	case what == 0:
		w.update(anySpec(t, j.Spec.Type, number))
	case what == 1:
		w.steer(rapid.SampledFrom([]func(*cluster.Update){pause, resume, abort, promote}).Draw(t, "steer"))
	case what == 2 && j.Versions()[0].Number != j.Version:
		w.do(func(tx *rules.Tx) error {
			return rules.Rollback(tx, j, j.Versions()[0].Number, cluster.ReasonRequested, "")
		})
	case what == 3 && w.state.Host(h) != nil:
		drain := rapid.Bool().Draw(t, "drain")
		w.emit(&cluster.HostDrain{ID: h, Drain: drain, Move: drain})
	case what == 4 && w.state.Host(h) != nil && rapid.Bool().Draw(t, "away"):
		w.emit(&cluster.HostUnreached{ID: h})
	case what == 4:
		w.emit(reported(h))
	case what == 5 && task.State.Bound():
		w.report(task, rapid.SampledFrom([]cluster.TaskState{cluster.TaskLost, cluster.TaskFailed}).Draw(t, "end"))
	case what == 6 && task.State.Bound() && !task.State.Vacating():
		w.do(func(tx *rules.Tx) error {
			rules.Commit(tx, [][]cluster.Event{{&cluster.TaskPreempted{Task: task.Key, Run: task.Run}}}, func([]cluster.Event, error) {})
			return nil
		})
	case what == 7 && !j.Update.Live():
		w.emit(&cluster.UpdateAdvanced{Job: servingJob, Update: cluster.Update{From: j.Version, To: j.Version}, Surge: j.Surge, Begins: true})
	case what == 8:
		w.ring()
	case what == 9 && j.Spec.Type != cluster.Daemon:
		w.scale(rapid.Uint32Range(1, 6).Draw(t, "scale"))
	case what == 10 && !task.Removed:
		stop := &cluster.TaskStopping{Task: task.Key, Restart: rapid.Bool().Draw(t, "restart"), Reason: cluster.ReasonTaskRestarted}
		if !stop.Restart {
			stop.Reason = cluster.ReasonTaskStopped
		}
		if stop.Restart || !task.State.Terminal() {
			w.emit(stop)
		}
	case what == 11:
		w.emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: rapid.IntRange(0, 2).Draw(t, "none killed") == 0}})
	case what == 12: // as a scheduler does that begins anew
		snapshot, _ := w.state.Snapshot()
		w.timers = rules.NewTimers(0)
		w.timers.Note(snapshot, w.now, cluster.Changes{}, true)
		w.emit(&cluster.ModeSet{Mode: w.state.Mode()})
	case what == 14:
		pool := *w.state.Pool(cluster.RootPool)
		pool.Hosts = nil
		if rapid.Bool().Draw(t, "one host") {
			pool.Hosts = []cluster.KeyValue{{Key: cluster.LabelHostname, Value: string(h)}}
		}
		w.emit(&cluster.PoolPut{Pool: pool})
	case what == 13: // for as long nothing happens but by itself
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
		for at := w.timers.Next(); at != 0 && at <= w.now; at = w.timers.Next() {
			w.ring()
		}
	default:
		w.turn(task)
	}
}

// From every state that random commands, failures and losses lead to, the update and the job come to rest; the minimum is
// never broken by anything voluntary, and the history leads to the same state again.
func TestUpdatesComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []cluster.JobType{cluster.Stateless, cluster.Stateless, cluster.Stateful, cluster.Daemon, cluster.Batch, cluster.Batch}
		w := newServing(t, anySpec(t, rapid.SampledFrom(kinds).Draw(t, "kind"), 0), rapid.IntRange(3, 4).Draw(t, "hosts"))
		over := func(j *cluster.Job) bool { return j.Stopping || j.State().Terminal() && !j.Spec.Type.Service() }
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			if over(w.state.Job(servingJob)) {
				break
			}
			w.stir(t, i+1)
		}
		for i := range 4 {
			w.emit(reported(hostID(i)), &cluster.HostDrain{ID: hostID(i)})
		}
		w.emit(&cluster.ModeSet{})
		pool := *w.state.Pool(cluster.RootPool)
		pool.Hosts = nil
		w.emit(&cluster.PoolPut{Pool: pool})
		w.steer(resume)
		w.settle()
		if rules.AwaitsPromotion(w.state.Job(servingJob).Update) {
			w.steer(promote)
			w.settle()
		}
		j := w.state.Job(servingJob)
		require.False(t, j.Update.Live(), "%+v\n%v", j.Update, w)
		require.True(t, j.Surge == 0 || !j.Bears(1), "%d instances beyond those wanted, with %d ready", j.Surge, j.Ready)
		if j.Spec.Type == cluster.Daemon {
			n := 4
			if j.Spec.Constraint != nil {
				n--
			}
			require.Len(t, w.tasks(), n)
		}
		reached := j.Update != nil && !j.Update.Restarts() && (j.Update.State == cluster.UpdateSucceeded || j.Update.State == cluster.RolledBack)
		for _, task := range w.tasks() {
			if j.TaskFor(task).Processes[0].Command[0] == serves && !task.State.Terminal() {
				require.True(t, task.Ready != 0 || !j.Spec.Type.Service() && !j.MayRun(1), "%+v", task)
			}
			if reached && j.Spec.Wants(task.Key.Instance()) {
				require.True(t, task.Version == j.Version || task.Next == j.Version, "%+v\n%v", j.Update, w)
			}
		}
		again := cluster.NewState()
		for _, r := range w.records {
			require.NoError(t, again.Apply(r))
		}
		one, _ := w.state.Snapshot()
		two, _ := again.Snapshot()
		require.Equal(t, contents(one), contents(two))
	})
}

func contents(s *cluster.Snapshot) (all []cluster.Event) {
	for p := range s.Parts() {
		all = append(all, p)
	}
	return all
}

// What began at the very time of a rolling restart is not restarted again, or where no time passes there would be no end.
func TestARestartEndsWhereTimeStandsStill(t *testing.T) {
	policy := &cluster.UpdatePolicy{StartFirst: true}
	w := newServing(t, serviceSpec(2, serves, 1, policy), 10)
	turns := func() (n int) {
		for again := true; again && n < 100; n++ {
			again = false
			for task := range w.state.TasksOf(servingJob, 0) {
				if again = w.turn(task); again {
					break
				}
			}
		}
		return n
	}
	require.Less(t, turns(), 100)
	w.do(func(tx *rules.Tx) error {
		u := cluster.Update{From: 1, To: 1, Policy: *policy}
		return tx.Emit(&cluster.UpdateAdvanced{Job: servingJob, Update: u, Begins: true})
	})
	require.Less(t, turns(), 100)
}

func daemonSpec(turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
	s := serviceSpec(0, turns, number, policy)
	s.Type, s.Preemptible = cluster.Daemon, false
	return s
}

// restart begins a rolling restart of the present version.
func (w *serving) restart(u cluster.Update) {
	w.now = w.now.Add(time.Second)
	u.From, u.To = w.state.Job(servingJob).Version, w.state.Job(servingJob).Version
	w.emit(&cluster.UpdateAdvanced{Job: servingJob, Update: u, Begins: true})
}

// runs returns the version and the run of every instance that is ready, by number.
func (w *serving) runs() map[uint32][2]uint64 {
	all := map[uint32][2]uint64{}
	for _, t := range w.tasks() {
		if t.Ready != 0 {
			all[t.Key.Instance()] = [2]uint64{t.Version, uint64(t.Run)}
		}
	}
	return all
}

// succeeded checks that the last update has succeeded with so many instances done, of as many.
func (w *serving) succeeded(done uint32) {
	u := w.state.Job(servingJob).Update
	require.Equal(w.t, cluster.UpdateSucceeded, u.State, "%+v\n%v", u, w)
	require.Equal(w.t, [2]uint32{done, done}, [2]uint32{u.Good, u.Total}, "%+v\n%v", u, w)
}

func (w *serving) emit(events ...cluster.Event) {
	w.do(func(tx *rules.Tx) error {
		for _, e := range events {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// An update and a restart of a daemon reach the instances of all hosts, no more at a time than may be away.
func TestUpdatesOfDaemons(t *testing.T) {
	w := newServing(t, daemonSpec(serves, 0, nil), 4)
	w.settle()
	half := daemonSpec(serves, 1, &cluster.UpdatePolicy{BatchPercent: 50, MinHealthy: time.Second})
	half.Limits.MaxUnavailable = 4
	w.update(half)
	require.EqualValues(t, 4, w.state.Job(servingJob).Update.Total)
	require.Equal(t, []uint32{0, 1}, w.state.Job(servingJob).Update.Active)
	w.settle()
	w.succeeded(4)
	require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}, 2: {2, 2}, 3: {2, 2}}, w.runs())
	w.restart(cluster.Update{})
	w.settle()
	w.succeeded(4)
	require.Equal(t, map[uint32][2]uint64{0: {2, 3}, 1: {2, 3}, 2: {2, 3}, 3: {2, 3}}, w.runs())

	bad := &cluster.UpdatePolicy{MaxAttempts: 1, MaxFailed: 1, Rollback: true}
	w.update(daemonSpec(fails, 2, bad))
	w.settle()
	require.Equal(t, cluster.RolledBack, w.state.Job(servingJob).Update.State)
	require.Equal(t, map[uint32][2]uint64{0: {4, 5}, 1: {4, 3}, 2: {4, 3}, 3: {4, 3}}, w.runs(), "one was tried")
}

// A daemon whose update is taken back returns to the hosts that the update had it leave.
func TestARollbackBringsDaemonsBack(t *testing.T) {
	w := newServing(t, daemonSpec(serves, 0, nil), 3)
	m := *w.state.Host(hostID(2)).Machine
	m.Attributes = []cluster.KeyValue{{Key: "disk", Value: "ssd"}}
	w.emit(&cluster.HostReported{ID: hostID(2), Machine: m})
	w.settle()
	spec := daemonSpec(fails, 1, &cluster.UpdatePolicy{MaxAttempts: 1, MaxFailed: 1, Rollback: true})
	spec.Constraint = &cluster.Constraint{Op: cluster.HostLabel, Label: m.Attributes[0], Comparison: cluster.Equal}
	w.update(spec)
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State)
	w.settle()
	require.Equal(t, cluster.RolledBack, w.state.Job(servingJob).Update.State)
	require.Len(t, w.runs(), 3)
}

// An instance that somebody stopped stays so, is no loss to a daemon, and has the new spec when it runs again.
func TestUpdatesOfDaemonsLeaveWhoWasStopped(t *testing.T) {
	stop := &cluster.TaskStopping{Task: cluster.MakeTaskKey(servingJob, 0), Reason: cluster.ReasonTaskStopped}
	for name, begin := range map[string]func(w *serving, spec *cluster.JobSpec){
		"before":            func(w *serving, spec *cluster.JobSpec) { w.emit(stop); w.turn(w.tasks()[0]); w.update(spec) },
		"while it is ended": func(w *serving, spec *cluster.JobSpec) { w.emit(stop); w.update(spec) },
		"after it began":    func(w *serving, spec *cluster.JobSpec) { w.update(spec); w.emit(stop) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, daemonSpec(serves, 0, nil), 3)
			w.settle()
			begin(w, daemonSpec(serves, 1, nil))
			w.settle()
			w.succeeded(3)
			require.Equal(t, map[uint32][2]uint64{1: {2, 2}, 2: {2, 2}}, w.runs())
			w.restart(cluster.Update{})
			w.settle()
			w.succeeded(2)
			require.Equal(t, map[uint32][2]uint64{1: {2, 3}, 2: {2, 3}}, w.runs())
			w.emit(&cluster.TaskStopping{Task: stop.Task, Reason: cluster.ReasonTaskRestarted, Restart: true})
			w.settle()
			require.EqualValues(t, 2, w.runs()[0][0])
		})
	}
}

// Hosts that take no work, leave or join while a daemon is updated hold nobody up, and have the new spec when they are back.
func TestUpdatesOfDaemonsWhileHostsComeAndGo(t *testing.T) {
	drain := &cluster.HostDrain{ID: hostID(0), Drain: true}
	resume := &cluster.HostDrain{ID: hostID(0)}
	away := &cluster.HostUnreached{ID: hostID(0)}
	seen := func(i int) cluster.Event { return reported(hostID(i)) }
	removed := []cluster.Event{away, &cluster.TaskStatus{Task: cluster.MakeTaskKey(servingJob, 0), Run: 1, State: cluster.TaskLost}, &cluster.HostRemoved{ID: hostID(0)}}
	for name, c := range map[string]struct {
		before, within []cluster.Event
		done           uint32 // without those that went
		back           []cluster.Event
	}{
		"drained before":      {[]cluster.Event{drain}, nil, 3, []cluster.Event{resume}},
		"drained within":      {nil, []cluster.Event{drain}, 3, []cluster.Event{resume}},
		"drained and resumed": {[]cluster.Event{drain}, []cluster.Event{resume}, 3, nil},
		"unreachable before":  {[]cluster.Event{away}, nil, 3, nil},
		"unreachable within":  {nil, []cluster.Event{away}, 3, nil},
		"removed before":      {removed, nil, 2, nil},
		"removed within":      {nil, removed, 2, nil},
		"another joins":       {nil, []cluster.Event{seen(3)}, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, daemonSpec(serves, 0, nil), 3)
			w.settle()
			w.emit(c.before...)
			w.settle()
			w.update(daemonSpec(serves, 1, nil))
			w.emit(c.within...)
			w.settle()
			w.succeeded(c.done)
			w.emit(append(c.back, seen(0))...)
			w.settle()
			require.GreaterOrEqual(t, len(w.runs()), 3)
			for i, run := range w.runs() {
				require.EqualValues(t, 2, run[0], "instance %d", i)
			}
		})
	}
}

// newLastOff has a daemon serve on three hosts, the first of which is drained and has another task left.
func newLastOff(t *testing.T) (w *serving, other cluster.TaskKey) {
	w, other = newServing(t, daemonSpec(serves, 0, nil), 3), cluster.MakeTaskKey(2, 0)
	w.settle()
	work := serviceSpec(1, serves, 0, nil)
	work.Name, work.Type = "work", cluster.Batch
	w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: work}}}, &cluster.Placed{Task: other, Run: 1, Host: hostID(0)},
		&cluster.TaskStatus{Task: other, Run: 1, State: cluster.TaskRunning}, &cluster.HostDrain{ID: hostID(0), Drain: true})
	return w, other
}

// The last off a host that is drained stays there while it is updated: no run could follow. It has the new spec when the host is
// resumed, or its next run.
func TestUpdatesOfDaemonsLeaveTheLastOff(t *testing.T) {
	for _, when := range []string{"within", "after", "when the host is empty"} {
		t.Run(when, func(t *testing.T) {
			w, other := newLastOff(t)
			policy := &cluster.UpdatePolicy{MinHealthy: time.Minute, BatchSize: 3}
			w.update(daemonSpec(serves, 1, policy))
			require.NotZero(t, w.tasks()[0].Ready)
			if when == "within" {
				w.emit(&cluster.HostDrain{ID: hostID(0)})
			} else {
				w.settle()
				require.Equal(t, map[uint32][2]uint64{0: {1, 1}, 1: {2, 2}, 2: {2, 2}}, w.runs())
			}
			if when == "when the host is empty" {
				w.emit(&cluster.TaskStatus{Task: other, Run: 1, State: cluster.TaskSucceeded})
				w.settle()
				require.Len(t, w.runs(), 2)
			}
			w.emit(&cluster.HostDrain{ID: hostID(0)})
			w.settle()
			w.succeeded(3)
			require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}, 2: {2, 2}}, w.runs())
		})
	}
}

// One that is to catch up after the update need not wait for another that is missing on a host that takes no work any more.
func TestDaemonsCatchUpWithoutWhoHasNoHost(t *testing.T) {
	for name, gone := range map[string]cluster.Event{
		"drained": &cluster.HostDrain{ID: hostID(1), Drain: true}, "unreachable": &cluster.HostUnreached{ID: hostID(1)},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newLastOff(t)
			w.update(daemonSpec(serves, 1, nil))
			w.settle()
			w.report(w.tasks()[1], cluster.TaskLost)
			w.emit(&cluster.HostDrain{ID: hostID(0)})
			require.Equal(t, map[uint32][2]uint64{0: {1, 1}, 2: {2, 2}}, w.runs(), "two may not be missing")
			w.emit(gone)
			require.Equal(t, cluster.TaskKilling, w.tasks()[0].State, "%v", w)
		})
	}
}

// An update of a daemon that has waited for another instance has failed as soon as a host comes back on which one is down for too long.
func TestAnUpdateOfADaemonLooksAtWhoComesBack(t *testing.T) {
	w := newServing(t, daemonSpec(serves, 0, nil), 3)
	w.settle()
	w.update(daemonSpec(serves, 1, nil))
	w.report(w.tasks()[2], cluster.TaskFailed)
	w.report(w.tasks()[0], cluster.TaskKilled)
	require.True(t, w.turn(w.tasks()[0]))
	w.emit(&cluster.HostUnreached{ID: hostID(0)})
	late := w.now.Add(cluster.DefaultHealthyDeadline)
	for w.timers.Next() <= late {
		require.True(t, w.ring())
	}
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State)
	w.emit(&cluster.HostReported{ID: hostID(0), Machine: *w.state.Host(hostID(0)).Machine})
	require.Equal(t, cluster.UpdateFailed, w.state.Job(servingJob).Update.State, "%v", w)
	require.Equal(t, cluster.ReasonNoneToSpare, w.state.Job(servingJob).Update.Reason)
}

func batchSpec(instances uint32, turns string, number int, policy *cluster.UpdatePolicy) *cluster.JobSpec {
	s := serviceSpec(instances, turns, number, policy)
	s.Type, s.Backoff = cluster.Batch, cluster.Backoff{}
	return s
}

// A rolling restart that has nobody left but who is bound to a host that is drained waits for nothing more.
func TestARestartEndsWithWhoIsBoundToADrainedHost(t *testing.T) {
	spec := serviceSpec(2, serves, 0, nil)
	spec.Type, spec.Preemptible = cluster.Stateful, false
	w := newServing(t, spec, 2)
	for w.tasks()[1].Ready == 0 {
		require.True(t, w.turn(w.tasks()[1]))
	}
	w.restart(cluster.Update{})
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State, "another is missing already")
	w.emit(&cluster.HostDrain{ID: w.tasks()[1].Home, Drain: true})
	require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
}

// An instance of a stateful service runs on while its host is drained, since no run could follow there: it gets its new spec when the
// host takes work again, during the update or after it. A rolling restart passes it over.
func TestUpdatesLeaveWhoIsBoundToADrainedHost(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(3, serves, number, &cluster.UpdatePolicy{BatchSize: 3, MinHealthy: time.Minute})
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	for _, within := range []bool{false, true} {
		w := newServing(t, spec(0), 3)
		w.settle()
		home := w.tasks()[0].Home
		w.emit(&cluster.HostDrain{ID: home, Drain: true})
		w.restart(cluster.Update{})
		w.settle()
		w.succeeded(2)
		w.update(spec(1))
		if !within {
			w.settle()
			w.succeeded(3)
		}
		require.NotZero(t, w.tasks()[0].Ready)
		require.EqualValues(t, 1, w.tasks()[0].Run)
		w.emit(&cluster.HostDrain{ID: home})
		w.settle()
		w.succeeded(3)
		require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 3}, 2: {2, 3}}, w.runs())
		require.EqualValues(t, 3, w.state.Job(servingJob).Ready)
	}
}

// Nor could one follow where the hosts of the pool have changed, and that of the instance is none of them any more.
func TestUpdatesLeaveWhoIsBoundToAHostOutsideItsPool(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(3, serves, number, &cluster.UpdatePolicy{BatchSize: 3, MinHealthy: time.Minute})
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	w := newServing(t, spec(0), 3)
	w.settle()
	home := w.tasks()[0].Home
	pool := *w.state.Pool(spec(0).Pool)
	pool.Hosts = []cluster.KeyValue{{Key: cluster.LabelHostname, Value: string(w.tasks()[1].Home)}}
	require.NotEqual(t, home, w.tasks()[1].Home)
	w.emit(&cluster.PoolPut{Pool: pool})
	w.update(spec(1))
	w.settle()
	w.succeeded(3)
	require.Equal(t, map[uint32][2]uint64{0: {1, 1}, 1: {2, 2}, 2: {1, 1}}, w.runs())
	require.EqualValues(t, 3, w.state.Job(servingJob).Ready)
	pool.Hosts = nil
	w.emit(&cluster.PoolPut{Pool: pool})
	w.settle()
	require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}, 2: {2, 2}}, w.runs(), "when it is again")
}

// One whose host takes work again during the update is looked after by that as all others are.
func TestWhoIsLateMayFail(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(2, serves, number, &cluster.UpdatePolicy{MinHealthy: time.Minute, MaxAttempts: 1, MaxFailed: 1})
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	w := newServing(t, spec(0), 2)
	w.settle()
	home := w.tasks()[0].Home
	w.emit(&cluster.HostDrain{ID: home, Drain: true})
	bad := spec(1)
	bad.Overrides = []cluster.InstanceOverride{{First: 0, Last: 0, Task: &serviceSpec(1, fails, 1, nil).Task}}
	w.update(bad)
	require.Equal(t, []uint32{1}, w.state.Job(servingJob).Update.Active)
	w.emit(&cluster.HostDrain{ID: home})
	w.settle()
	u := w.state.Job(servingJob).Update
	require.Equal(t, cluster.UpdateFailed, u.State, "%v", w)
	require.Equal(t, []uint32{0}, u.Failed)
}

// One whose new spec waits for its next run, since the job could not bear that it began one, has it with a rolling restart.
func TestARestartBringsTheSpecThatWaits(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(2, serves, number, nil)
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	w := newServing(t, spec(0), 2)
	w.settle()
	home := w.tasks()[0].Home
	w.emit(&cluster.HostDrain{ID: home, Drain: true})
	w.update(spec(1))
	w.settle()
	w.succeeded(2)
	w.report(w.tasks()[1], cluster.TaskFailed)
	w.emit(&cluster.HostDrain{ID: home})
	require.EqualValues(t, 1, w.tasks()[0].Version)
	w.restart(cluster.Update{})
	w.settle()
	w.succeeded(1) // the other one waited already
	for _, task := range w.tasks() {
		require.EqualValues(t, 2, task.Version, "%v", w)
	}
}

// Those that could not begin anew when their hosts were resumed, since the job bears one only, do so one by one.
func TestWhoIsBehindCatchesUpWhenItsJobBearsIt(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(4, serves, number, nil)
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	for _, killing := range []bool{true, false} {
		w := newServing(t, spec(0), 4)
		w.settle()
		var resumed []cluster.Event
		for _, task := range w.tasks()[:3] {
			w.emit(&cluster.HostDrain{ID: task.Home, Drain: true})
			resumed = append(resumed, &cluster.HostDrain{ID: task.Home})
		}
		w.update(spec(1))
		w.settle()
		w.succeeded(4)
		if !killing {
			w.emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
		}
		w.emit(resumed...)
		if !killing {
			w.settle()
			require.Len(t, w.state.Later(servingJob), 3)
			w.emit(&cluster.ModeSet{})
		}
		w.settle()
		require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}, 2: {2, 2}, 3: {2, 2}}, w.runs())
		require.Empty(t, w.state.Later(servingJob))
	}
}

// Room that is held for an instance is kept for what a later spec asks for, in place, where the host could have that at all, and else given up.
func TestHeldRoomGrowsAsFarAsTheHostBears(t *testing.T) {
	for asks, held := range map[int64]bool{90: true, 101: false} {
		for _, of := range []func(uint32, string, int, *cluster.UpdatePolicy) *cluster.JobSpec{batchSpec, serviceSpec} {
			policy := &cluster.UpdatePolicy{InPlace: true}
			w := newServing(t, of(1, serves, 0, policy), 1)
			k := w.tasks()[0].Key
			w.emit(&cluster.TaskHeld{Task: k, Hold: cluster.Hold{Host: hostID(0), Until: w.now.Add(time.Hour)}})
			more := of(1, serves, 0, policy)
			more.Task.Resources = amounts(asks, 1)
			w.update(more)
			require.EqualValues(t, 2, w.state.Task(k).Version)
			require.Equal(t, held, w.state.Task(k).Hold != nil, "%d: %v", asks, w)
			if !held {
				require.Equal(t, cluster.TaskPending, w.state.Task(k).State)
				require.Empty(t, w.state.Host(hostID(0)).Held)
			}
		}
	}
}

// One that is behind and gets a later spec in place has no other one to come.
func TestInPlaceLeavesNoneBehind(t *testing.T) {
	spec := func(number int) *cluster.JobSpec {
		s := serviceSpec(2, serves, number, &cluster.UpdatePolicy{InPlace: true})
		s.Type, s.Preemptible = cluster.Stateful, false
		return s
	}
	w := newServing(t, spec(0), 2)
	w.settle()
	home := w.tasks()[0].Home
	w.emit(&cluster.HostDrain{ID: home, Drain: true})
	w.update(spec(1))
	w.settle()
	require.Len(t, w.state.Later(servingJob), 1)
	last := spec(0)
	last.Labels = []cluster.KeyValue{{Key: "a", Value: "b"}}
	w.update(last)
	w.settle()
	w.emit(&cluster.HostDrain{ID: home})
	w.settle()
	require.Equal(t, map[uint32][2]uint64{0: {3, 1}, 1: {3, 3}}, w.runs())
}

// An update of a batch job sees what it stopped run before it counts as done: where it fails, the others are left alone.
func TestUpdatesOfBatchJobs(t *testing.T) {
	for name, c := range map[string]struct {
		policy cluster.UpdatePolicy
		turns  string
		state  cluster.UpdateState
		runs   map[uint32][2]uint64 // that are ready in the end
	}{
		"it runs":                 {cluster.UpdatePolicy{}, serves, cluster.UpdateSucceeded, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}, 2: {2, 2}, 3: {2, 2}}},
		"it is done soon":         {cluster.UpdatePolicy{MinHealthy: time.Minute}, done, cluster.UpdateSucceeded, map[uint32][2]uint64{}},
		"it fails":                {cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 1}, fails, cluster.UpdateFailed, map[uint32][2]uint64{1: {1, 1}, 2: {1, 1}, 3: {1, 1}}},
		"it fails and goes back":  {cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 2, Rollback: true}, fails, cluster.RolledBack, map[uint32][2]uint64{0: {3, 4}, 1: {3, 1}, 2: {3, 1}, 3: {3, 1}}},
		"the canary fails":        {cluster.UpdatePolicy{Canaries: 1, MaxAttempts: 1}, fails, cluster.UpdateFailed, map[uint32][2]uint64{1: {1, 1}, 2: {1, 1}, 3: {1, 1}}},
		"the canary is good":      {cluster.UpdatePolicy{Canaries: 1}, serves, cluster.RollingForward, map[uint32][2]uint64{0: {2, 2}, 1: {1, 1}, 2: {1, 1}, 3: {1, 1}}},
		"failures do not count":   {cluster.UpdatePolicy{MaxAttempts: 1}, fails, cluster.UpdateSucceeded, map[uint32][2]uint64{}},
		"runs never become ready": {cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 1}, sickens, cluster.UpdateFailed, map[uint32][2]uint64{1: {1, 1}, 2: {1, 1}, 3: {1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, batchSpec(4, serves, 0, nil), 2)
			w.settle()
			w.update(batchSpec(4, c.turns, 1, &c.policy))
			w.settle()
			j := w.state.Job(servingJob)
			require.Equal(t, c.state, j.Update.State, "%+v\n%v", j.Update, w)
			require.Equal(t, c.runs, w.runs())
			require.Equal(t, c.state == cluster.RollingForward, rules.AwaitsPromotion(j.Update))
			if c.state == cluster.UpdateSucceeded && c.turns != fails {
				w.succeeded(4)
			}
		})
	}
}

// What has ended or waits already holds no update of a batch job up, and is no canary: an instance that runs is.
func TestUpdatesOfBatchJobsThatWaitAndEnd(t *testing.T) {
	begin := func() *serving {
		w := newServing(t, batchSpec(4, serves, 0, nil), 2)
		for _, task := range w.tasks()[:3] {
			for w.turn(w.state.Task(task.Key)) {
			}
		}
		w.report(w.tasks()[0], cluster.TaskSucceeded)
		w.report(w.tasks()[1], cluster.TaskFailed)
		return w
	}
	w := begin()
	w.update(batchSpec(4, serves, 1, nil))
	for range 10 { // the last one waits for ever
		for _, task := range w.tasks()[:3] {
			w.turn(w.state.Task(task.Key))
		}
	}
	w.succeeded(4)
	require.Equal(t, map[uint32][2]uint64{1: {2, 2}, 2: {2, 2}}, w.runs(), "what has failed runs once more")
	require.Equal(t, cluster.TaskSucceeded, w.tasks()[0].State)
	require.EqualValues(t, 2, w.tasks()[3].Version)

	w = begin()
	w.update(batchSpec(4, fails, 1, &cluster.UpdatePolicy{Canaries: 1, MaxAttempts: 1, Rollback: true}))
	require.False(t, rules.AwaitsPromotion(w.state.Job(servingJob).Update))
	w.settle()
	require.Equal(t, cluster.RolledBack, w.state.Job(servingJob).Update.State)
	require.EqualValues(t, 1, w.tasks()[2].Run, "only one was tried")
}

// A run that takes too long has not shown that it is good, and is not stopped by its user: it has failed, and one by the spec before
// makes way for the next one.
func TestUpdatesOfBatchJobsThatTakeTooLong(t *testing.T) {
	spec := func(turns string, number int) *cluster.JobSpec {
		s := batchSpec(2, turns, number, &cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 1, BatchSize: 2})
		s.Limits.MaxRunTime = 20 * time.Second
		return s
	}
	all := func(w *serving) {
		for moved := true; moved; {
			moved = false
			for _, task := range w.tasks() {
				moved = w.turn(w.state.Task(task.Key)) || moved
			}
		}
	}
	w := newServing(t, spec(sickens, 0), 2)
	all(w)
	w.update(spec(sickens, 1))
	all(w)
	require.True(t, w.ring())
	for _, task := range w.tasks() {
		require.Equal(t, cluster.TaskKilling, task.State)
	}
	require.Equal(t, cluster.RollingForward, w.state.Job(servingJob).Update.State)
	all(w)
	require.Equal(t, cluster.UpdateFailed, w.state.Job(servingJob).Update.State, "%+v\n%v", w.state.Job(servingJob).Update, w)

	w = newServing(t, spec(sickens, 0), 2)
	all(w)
	require.True(t, w.ring())
	w.update(spec(serves, 1))
	all(w)
	w.succeeded(2)
	require.Equal(t, map[uint32][2]uint64{0: {2, 2}, 1: {2, 2}}, w.runs())
}

// A job that its update has run once more has not failed, for those that wait for it.
func TestWhoWaitsForAJobWaitsForItsUpdate(t *testing.T) {
	w := newServing(t, batchSpec(1, serves, 0, nil), 2)
	w.settle()
	after := batchSpec(1, serves, 0, nil)
	after.Name, after.DependsOn = "after", []cluster.Dependency{{Job: "web", On: cluster.OnSuccess}}
	w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: after}}})
	w.update(batchSpec(1, fails, 1, &cluster.UpdatePolicy{MaxFailed: 1, Rollback: true}))
	w.settle()
	require.Equal(t, cluster.RolledBack, w.state.Job(servingJob).Update.State)
	require.Equal(t, cluster.JobRunning, w.state.Job(servingJob).State())
	require.Equal(t, cluster.JobInitialized, w.state.Job(2).State())
}

// A way back to an earlier spec, whoever asks for it, gives the job back to nobody.
func TestARollbackKeepsTheOwner(t *testing.T) {
	spec := func(turns, owner string, groups ...string) *cluster.JobSpec {
		s := serviceSpec(2, turns, 0, &cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 1, Rollback: true})
		s.Owner, s.Groups = owner, groups
		return s
	}
	w := newServing(t, spec(serves, "ann", "staff", "lab"), 3)
	w.settle()
	w.update(spec(fails, "bob", "staff"))
	w.settle()
	j := w.state.Job(servingJob)
	require.Equal(t, cluster.RolledBack, j.Update.State)
	require.Equal(t, serves, j.Spec.Task.Processes[0].Command[0])
	require.Equal(t, "bob", j.Spec.Owner)
	require.Equal(t, []string{"staff"}, j.Spec.Groups)
}

// A way back to a spec whose deadline is over by now does not end the job.
func TestARollbackBringsNoDeadlineBackThatIsOver(t *testing.T) {
	spec := func(turns string, deadline cluster.Time) *cluster.JobSpec {
		s := serviceSpec(2, turns, 0, &cluster.UpdatePolicy{MaxFailed: 1, MaxAttempts: 1, Rollback: true})
		s.Limits.Deadline = deadline
		return s
	}
	start := cluster.Time(time.Hour)
	for name, tt := range map[string]struct{ before, after, want cluster.Time }{
		"over":       {start.Add(time.Second), start.Add(24 * time.Hour), start.Add(24 * time.Hour)},
		"over, none": {start.Add(time.Second), 0, 0},
		"to come":    {start.Add(48 * time.Hour), start.Add(24 * time.Hour), start.Add(48 * time.Hour)},
		"none":       {0, start.Add(24 * time.Hour), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, spec(serves, tt.before), 3)
			w.settle()
			w.update(spec(fails, tt.after))
			w.now = w.now.Add(time.Minute)
			w.settle()
			j := w.state.Job(servingJob)
			require.Equal(t, cluster.JobRunning, j.State())
			require.Equal(t, cluster.RolledBack, j.Update.State)
			require.Equal(t, serves, j.Spec.Task.Processes[0].Command[0])
			require.Equal(t, tt.want, j.Spec.Limits.Deadline)
		})
	}
}

// A way back goes by the policy of the update that it takes back, else by that of the spec to which it leads; nobody is asked about it.
func TestThePolicyOfARollback(t *testing.T) {
	w := newServing(t, serviceSpec(3, serves, 0, &cluster.UpdatePolicy{BatchSize: 3}), 3)
	w.settle()
	w.update(serviceSpec(3, fails, 1, &cluster.UpdatePolicy{BatchSize: 2, MaxAttempts: 1, Canaries: 1, StartPaused: true, Rollback: true}))
	w.steer(resume)
	w.settle()
	j := w.state.Job(servingJob)
	require.Equal(t, cluster.RolledBack, j.Update.State)
	require.Equal(t, cluster.UpdatePolicy{BatchSize: 2, MaxAttempts: 1}, j.Update.Policy)

	back := func(to uint64) cluster.UpdatePolicy {
		w.do(func(tx *rules.Tx) error {
			return rules.Rollback(tx, w.state.Job(servingJob), to, cluster.ReasonRequested, "")
		})
		w.settle()
		return w.state.Job(servingJob).Update.Policy
	}
	w.update(serviceSpec(3, serves, 2, nil))
	w.settle()
	without := w.state.Job(servingJob).Version
	require.Equal(t, cluster.UpdatePolicy{BatchSize: 3}, back(j.Version))
	require.Zero(t, back(without))
}

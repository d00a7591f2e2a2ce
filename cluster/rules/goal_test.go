package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/rules/rulestest"
)

// world is a state with its journal, and a fleet that does what it is told.
type world struct {
	t      *rapid.T
	state  *cluster.State
	log    []cluster.Record
	now    cluster.Time
	timers *rules.Timers
	byHand map[cluster.TaskKey]bool // tasks that the user stopped last
}

const fleet = 3 // hosts

func newWorld(t *rapid.T) *world {
	w := &world{t: t, state: cluster.NewState(), now: at(0), timers: rules.NewTimers(0), byHand: map[cluster.TaskKey]bool{}}
	for i := range fleet {
		require.NoError(t, w.do(w.report(i)))
	}
	require.NoError(t, w.do(func(tx *rules.Tx) error {
		var jobs []cluster.NewJob
		add := func(name cluster.JobID, change func(*cluster.JobSpec)) {
			spec := &cluster.JobSpec{Name: name, Pool: cluster.RootPool, Instances: 2, Task: cluster.TaskSpec{Resources: size(100)}}
			spec.Backoff = cluster.Backoff{Initial: time.Second, Max: 4 * time.Second}
			change(spec)
			jobs = append(jobs, cluster.NewJob{UID: tx.State().NextJob() + cluster.JobUID(len(jobs)), Spec: spec})
		}
		on := func(c cluster.Condition, names ...cluster.JobID) (all []cluster.Dependency) {
			for _, n := range names {
				all = append(all, cluster.Dependency{Job: n, On: c})
			}
			return all
		}
		add("batch", func(s *cluster.JobSpec) { s.MaxFailures = 1 })
		add("after", func(s *cluster.JobSpec) { s.DependsOn = on(cluster.OnSuccess, "batch") })
		add("failed", func(s *cluster.JobSpec) { s.DependsOn = on(cluster.OnFailure, "batch") })
		add("last", func(s *cluster.JobSpec) { s.DependsOn = on(cluster.OnEnd, "after", "failed") })
		add("controlled", func(s *cluster.JobSpec) { s.Controller, s.Instances = true, 3 })
		add("gang", func(s *cluster.JobSpec) { s.Gang, s.MaxFailures = &cluster.Gang{Minimum: 2}, 3 })
		add("service", func(s *cluster.JobSpec) { s.Type = cluster.Stateless })
		add("stateful", func(s *cluster.JobSpec) { s.Type = cluster.Stateful })
		add("daemon", func(s *cluster.JobSpec) { s.Type, s.Instances = cluster.Daemon, 0 })
		add("copied", func(s *cluster.JobSpec) { s.Speculation, s.MaxFailures = &cluster.Speculation{}, 1 })
		return tx.Emit(&cluster.JobsSubmitted{Jobs: jobs})
	}))
	return w
}

func size(milli int64) (r cluster.Resources) {
	r.Fixed[cluster.CPU] = milli
	return r
}

func hostAt(i int) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprintf("h%d", i)) }

// report has the shard see a host.
func (w *world) report(i int) func(*rules.Tx) error {
	return func(tx *rules.Tx) error {
		machines := map[string]cluster.Machine{hostAt(i).Name(): {Capacity: size(2000)}}
		return rules.ReportHosts(tx, "s", machines, nil, false)
	}
}

// do carries a command out as the server does. What it refuses changes nothing.
func (w *world) do(command func(*rules.Tx) error) error {
	tx := rules.Begin(w.state, w.now)
	err := command(tx)
	require.NoError(w.t, rules.Settle(tx))
	settled := len(tx.Records())
	require.NoError(w.t, rules.Settle(tx))
	require.Len(w.t, tx.Records(), settled, "what is settled stays so")
	w.log = append(w.log, tx.Records()...)
	snapshot, changes := w.state.Snapshot()
	rulestest.Settled(w.t, snapshot, w.now)
	w.timers.Note(snapshot, w.now, changes, false)
	return err
}

func (w *world) emit(e cluster.Event) { _ = w.do(func(tx *rules.Tx) error { return tx.Emit(e) }) }

// crash begins anew from the journal, which gives the same state.
func (w *world) crash() {
	again := cluster.NewState()
	for _, r := range w.log {
		require.NoError(w.t, again.Apply(r))
	}
	a, _ := w.state.Snapshot()
	b, _ := again.Snapshot()
	require.Equal(w.t, parts(a), parts(b))
	w.state, w.timers = again, rules.NewTimers(0)
	w.timers.Note(b, w.now, cluster.Changes{}, true)
	require.NoError(w.t, w.do(func(*rules.Tx) error { return nil }))
}

func parts(s *cluster.Snapshot) (all []cluster.Restored) {
	for p := range s.Parts() {
		all = append(all, *p)
	}
	return all
}

// some draws one of the tasks.
func (w *world) some() *cluster.Task {
	var all []*cluster.Task
	for t := range w.state.Tasks(0) {
		all = append(all, t)
	}
	if len(all) == 0 {
		return &cluster.Task{}
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(w.t, "task")]
}

// stir does something at random that may happen.
func (w *world) stir() {
	k := rapid.IntRange(0, 26).Draw(w.t, "what")
	i := rapid.IntRange(0, fleet-1).Draw(w.t, "host")
	job := cluster.JobUID(rapid.IntRange(1, 10).Draw(w.t, "job"))
	ends := []cluster.TaskState{cluster.TaskRunning, cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled}
	switch {
	case k < 6:
		w.place()
	case k < 12:
		t := w.some()
		end := rapid.SampledFrom(ends).Draw(w.t, "end")
		_ = w.do(func(tx *rules.Tx) error {
			e := &cluster.TaskStatus{Task: t.Key, Run: t.Run, State: end, ExitCode: -1}
			if end == cluster.TaskFailed && t.State == cluster.TaskPlaced && k < 8 {
				e.Reason = cluster.ReasonLaunchRefused
			}
			_, err := rules.Report(tx, shard, e)
			return err
		})
	case k == 12:
		w.emit(&cluster.HostDrain{ID: hostAt(i), Drain: rapid.Bool().Draw(w.t, "drain")})
	case k == 13:
		w.emit(&cluster.HostUnreached{ID: hostAt(i)})
	case k == 14:
		_ = w.do(func(tx *rules.Tx) error { return rules.ReportHosts(tx, "s", nil, []string{hostAt(i).Name()}, false) })
	case k == 15:
		_ = w.do(w.report(i))
	case k == 16:
		e := &cluster.TaskStopping{Task: w.some().Key, Reason: cluster.ReasonTaskStopped, Restart: rapid.Bool().Draw(w.t, "restart")}
		if w.do(func(tx *rules.Tx) error { return tx.Emit(e) }) == nil {
			w.byHand[e.Task] = !e.Restart
		}
	case k == 17 && rapid.Bool().Draw(w.t, "stop"):
		w.emit(&cluster.JobStopping{Job: job})
	case k == 17:
		w.resize(job, rapid.Uint32Range(2, 4).Draw(w.t, "instances"))
	case k == 18:
		w.tick()
	case k == 20:
		_ = w.do(func(tx *rules.Tx) error {
			var chosen []cluster.CopyAdded
			for t := range tx.State().Tasks(0) {
				chosen = append(chosen, cluster.CopyAdded{Task: t.Key, Run: t.Run})
			}
			return rules.Copy(tx, chosen)
		})
	case k == 21:
		w.restart(job)
	case k == 22 || k == 23:
		w.update(job)
	case k == 24:
		w.steer(job, rapid.SampledFrom([]func(*cluster.Update){pause, resume, abort, promote}).Draw(w.t, "steer"))
	case k == 25:
		w.emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: rapid.IntRange(0, 2).Draw(w.t, "none killed") == 0}})
	case k == 26:
		t := w.some()
		switch {
		case t.State == cluster.TaskRunning && rapid.Bool().Draw(w.t, "too long"):
			w.emit(&cluster.TaskStopping{Task: t.Key, Reason: cluster.ReasonRunTime})
		case t.State.Bound() && !t.State.Vacating():
			_ = w.do(func(tx *rules.Tx) error {
				rules.Commit(tx, [][]cluster.Event{{&cluster.TaskPreempted{Task: t.Key, Run: t.Run}}}, func([]cluster.Event, error) {})
				return nil
			})
		}
	default:
		w.crash()
	}
}

// live returns a job that can be updated, nil if it cannot.
func (w *world) live(uid cluster.JobUID) *cluster.Job {
	j := w.state.Job(uid)
	if j == nil || j.Stopping || j.State().Terminal() && !j.Spec.Type.Service() {
		return nil
	}
	return j
}

// restart begins a rolling restart of a job, or of one of its instances, if no update of it is under way.
func (w *world) restart(uid cluster.JobUID) {
	j := w.live(uid)
	if j == nil || j.Update.Live() {
		return
	}
	u := cluster.Update{From: j.Version, To: j.Version}
	if rapid.Bool().Draw(w.t, "only one") {
		u.Only = []cluster.InstanceRange{{First: 0, Last: 0}}
	}
	u.Policy.BatchSize = rapid.Uint32Range(0, 3).Draw(w.t, "batch")
	w.emit(&cluster.UpdateAdvanced{Job: uid, Update: u, Surge: j.Surge, Begins: true})
}

// update begins an update of a job. What the tasks of a gang run stays the same.
func (w *world) update(uid cluster.JobUID) {
	j := w.live(uid)
	if j == nil {
		return
	}
	spec := *j.Spec
	spec.Priority++
	if spec.Gang == nil {
		spec.Task.Processes = []cluster.Process{{Command: []string{fmt.Sprint(len(w.log))}}}
		if rapid.IntRange(0, 3).Draw(w.t, "resized") == 0 {
			spec.Task.Resources = size(rapid.Int64Range(50, 300).Draw(w.t, "size"))
		}
	}
	u := cluster.Update{From: j.Version, State: cluster.UpdateInitialized, Policy: cluster.UpdatePolicy{
		BatchSize: rapid.Uint32Range(0, 3).Draw(w.t, "batch"), Canaries: rapid.Uint32Range(0, 1).Draw(w.t, "canaries"),
		MaxFailed: rapid.Uint32Range(0, 2).Draw(w.t, "failed"), InPlace: rapid.Bool().Draw(w.t, "in place"),
		Rollback: rapid.Bool().Draw(w.t, "rollback"), StartFirst: spec.Type == cluster.Stateless && rapid.Bool().Draw(w.t, "first"),
	}}
	w.emit(&cluster.JobUpdated{Job: uid, Spec: &spec, Update: &u})
}

// steer changes the record of the update of a job, if there is one under way.
func (w *world) steer(uid cluster.JobUID, change func(*cluster.Update)) {
	if j := w.state.Job(uid); j != nil && j.Update.Live() {
		u := *j.Update
		change(&u)
		w.emit(&cluster.UpdateAdvanced{Job: uid, Update: u, Surge: j.Surge})
	}
}

func (w *world) resize(uid cluster.JobUID, n uint32) {
	j := w.live(uid)
	if j == nil || j.Spec.Type == cluster.Daemon {
		return
	}
	spec := *j.Spec
	spec.Instances = n
	w.emit(&cluster.JobUpdated{Job: uid, Spec: &spec})
}

// tick lets time pass until a timer is due.
func (w *world) tick() bool {
	due := w.timers.Next()
	if due == 0 {
		return false
	}
	w.now = max(w.now, due)
	require.NoError(w.t, w.do(func(tx *rules.Tx) error { return w.timers.Fire(tx, w.timers.Due(w.now)) }))
	return true
}

// place starts everything that waits and fits: what a cycle does, as plainly as can be.
func (w *world) place() (placed bool) {
	snapshot, _ := w.state.Fork().Snapshot()
	for t := range snapshot.Tasks(0) {
		for i := range fleet {
			if !t.State.CanBecome(cluster.TaskPlaced) || t.Hold != nil && t.Hold.Host != hostAt(i) || t.Home != "" && t.Hold == nil {
				continue
			}
			e := &cluster.Placed{Task: t.Key, Run: t.Run + 1, Host: hostAt(i)}
			if w.do(func(tx *rules.Tx) error { return tx.Emit(e) }) == nil {
				placed = true
				break
			}
		}
	}
	for t := range snapshot.Tasks(0) { // holds on hosts that take no work end
		if h := w.state.Host(t.Home); t.State == cluster.TaskReserved && (h == nil || h.State() != cluster.HostUp) {
			w.emit(&cluster.TaskRequeued{Task: t.Key, Reason: cluster.ReasonHoldEnded})
		}
	}
	return placed
}

// obey has the fleet do what it is told: launches run, batch work succeeds, kills kill. It reports whether there was
// anything to do.
func (w *world) obey() (busy bool) {
	snapshot, _ := w.state.Fork().Snapshot()
	for t := range snapshot.Tasks(0) {
		var next cluster.TaskState
		switch {
		case t.State.Vacating():
			next = cluster.TaskKilled
		case t.State == cluster.TaskRunning && !snapshot.Job(t.Key.Job()).Spec.Type.Service():
			next = cluster.TaskSucceeded
		case t.State.Bound() && t.State != cluster.TaskRunning:
			next = cluster.TaskRunning
		default:
			continue
		}
		busy = true
		require.NoError(w.t, w.do(func(tx *rules.Tx) error {
			_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: t.Key, Run: t.Run, State: next})
			return err
		}))
	}
	return busy
}

// From every state that can be reached by what may happen, every goal is reached once nothing more happens and hosts are
// there: batch jobs end, services run, updates are over, daemons are on every host, what was stopped is gone; no step is illegal, a crash
// anywhere changes nothing, and it takes a bounded number of events.
func TestEveryGoalIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 90).Draw(t, "steps") {
			w.stir()
		}
		for i := range fleet {
			require.NoError(t, w.do(w.report(i)))
			w.emit(&cluster.HostDrain{ID: hostAt(i)})
		}
		w.emit(&cluster.ModeSet{})
		for uid := cluster.JobUID(1); uid <= 10; uid++ {
			w.steer(uid, resume)
			w.steer(uid, promote)
		}
		calm := len(w.log)
		for w.place() || w.obey() || w.tick() {
			require.Less(t, len(w.log)-calm, 2000, "it has no end")
		}
		w.crash()
		w.inspect()
	})
}

// inspect asks whether every job is where it is meant to be.
func (w *world) inspect() {
	for j := range w.state.Jobs(0) {
		name := j.Spec.Name
		require.False(w.t, j.Waiting, "job %s waits, though all others have ended or run for ever", name)
		if j.Stopping || !j.Spec.Type.Service() {
			require.True(w.t, j.State().Terminal(), "job %s is %v", name, j.State())
		}
		require.False(w.t, j.Update.Live(), "job %s: %+v", name, j.Update)
		require.Zero(w.t, j.Surge, "job %s", name)
		at := map[cluster.HostID]int{}
		for t := range w.state.TasksOf(j.UID, 0) {
			require.False(w.t, t.Removed || t.Key.IsCopy(), "task %v", t.Key)
			require.Zero(w.t, t.NotBefore, "task %v", t.Key)
			require.True(w.t, t.State.Terminal() || t.State == cluster.TaskRunning, "task %v of %s is %v", t.Key, name, t.State)
			if j.Spec.Type.Service() && !j.Stopping {
				require.True(w.t, t.State == cluster.TaskRunning || w.byHand[t.Key], "task %v of %s is %v: %v", t.Key, name, t.State, t.Reason)
			}
			if j.Spec.Type == cluster.Daemon || j.Spec.Type == cluster.Stateful && t.State == cluster.TaskRunning {
				require.True(w.t, t.State.Terminal() || t.Home == t.Host, "task %v of %s is on %s, not on %s", t.Key, name, t.Host, t.Home)
			}
			at[t.Home]++
		}
		for i := range fleet {
			if j.Spec.Type == cluster.Daemon && !j.Stopping {
				require.Equal(w.t, 1, at[hostAt(i)], "instances of %s for host %d", name, i)
			}
		}
	}
}

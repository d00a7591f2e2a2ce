package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// submit adds a job of one task with the next uid and settles.
func submit(t *testing.T, state *cluster.State, name cluster.JobID, change func(*cluster.JobSpec)) cluster.JobUID {
	t.Helper()
	spec := &cluster.JobSpec{Name: name, Pool: cluster.RootPool, Instances: 1}
	if change != nil {
		change(spec)
	}
	uid := state.NextJob()
	settle(t, state, at(0), &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	return uid
}

// settle emits events and what follows from them.
func settle(t *testing.T, state *cluster.State, when cluster.Time, events ...cluster.Event) {
	t.Helper()
	_, _ = state.Snapshot() // what changed before has been settled, and does not change again
	tx := rules.Begin(state, when)
	for _, e := range events {
		require.NoError(t, tx.Emit(e))
	}
	require.NoError(t, rules.Settle(tx))
	before := len(tx.Records())
	require.NoError(t, rules.Settle(tx))
	require.Len(t, tx.Records(), before, "settling what is settled")
}

// ends runs the only task of a job to an end.
func ends(t *testing.T, state *cluster.State, uid cluster.JobUID, end cluster.TaskState) {
	t.Helper()
	k := cluster.MakeTaskKey(uid, 0)
	tx := rules.Begin(state, at(0))
	require.NoError(t, tx.Emit(&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host}))
	_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: end})
	require.NoError(t, err)
	require.NoError(t, rules.Settle(tx))
}

// Every condition against every end of the job that is waited for; a job waits until all have come true, and ends as soon
// as one cannot.
func TestDependencies(t *testing.T) {
	const waits, runs, gone = cluster.JobInitialized, cluster.JobPending, cluster.JobKilled
	for _, c := range []struct {
		on                         cluster.Condition
		succeeded, failed, stopped cluster.JobState
	}{
		{cluster.OnSuccess, runs, gone, gone},
		{cluster.OnFailure, gone, runs, gone},
		{cluster.OnEnd, runs, runs, runs},
	} {
		for i, want := range []cluster.JobState{c.succeeded, c.failed, c.stopped} {
			state := running(t)
			first := submit(t, state, "first", nil)
			second := submit(t, state, "second", nil)
			after := submit(t, state, "after", func(s *cluster.JobSpec) {
				s.DependsOn = []cluster.Dependency{{Job: "second", On: cluster.OnEnd}, {Job: "first", On: c.on}}
			})
			task := state.Task(cluster.MakeTaskKey(after, 0))
			require.Equal(t, cluster.TaskInitialized, task.State)
			require.Error(t, rules.Begin(state, at(0)).Emit(&cluster.Placed{Task: task.Key, Run: 1, Host: host}))
			ends(t, state, second, cluster.TaskSucceeded)
			require.Equal(t, waits, state.Job(after).State())
			require.Error(t, rules.Begin(state, at(0)).Emit(&cluster.JobDeleted{Job: second}), "it is waited for")
			switch i {
			case 0:
				ends(t, state, first, cluster.TaskSucceeded)
			case 1:
				ends(t, state, first, cluster.TaskFailed)
			default:
				settle(t, state, at(0), &cluster.JobStopping{Job: first})
			}
			require.Equal(t, want, state.Job(after).State(), "%v, end %d", c.on, i)
			require.Empty(t, state.WaitingFor("first"))
			settle(t, state, at(0), &cluster.JobDeleted{Job: second})
		}
	}
}

// A job that waits may have all its tasks stopped, one by one, and go: nothing waits for the other job then.
func TestWhoWaitedAndIsGoneIsNotReleased(t *testing.T) {
	state := running(t)
	first := submit(t, state, "first", nil)
	after := submit(t, state, "after", func(s *cluster.JobSpec) { s.DependsOn = []cluster.Dependency{{Job: "first"}} })
	settle(t, state, at(0), &cluster.TaskStopping{Task: cluster.MakeTaskKey(after, 0)})
	require.Equal(t, cluster.JobKilled, state.Job(after).State())
	settle(t, state, at(0), &cluster.JobDeleted{Job: after})
	require.Empty(t, state.WaitingFor("first"))
	ends(t, state, first, cluster.TaskSucceeded)
	settle(t, state, at(0), &cluster.JobDeleted{Job: first})
	require.Nil(t, state.Job(first))
}

// A chain is told at once that its head cannot come; a job that is submitted behind one that has ended runs at once; and what
// is rebuilt from a checkpoint waits as before.
func TestChainsOfJobs(t *testing.T) {
	state := running(t)
	head := submit(t, state, "head", nil)
	depends := func(on cluster.JobID) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) { s.DependsOn = []cluster.Dependency{{Job: on}} }
	}
	middle, tail := submit(t, state, "middle", depends("head")), submit(t, state, "tail", depends("middle"))
	snapshot, _ := state.Fork().Snapshot()
	copied := cluster.NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, copied.Apply(cluster.Record{Event: part}))
	}
	for _, s := range []*cluster.State{state.Fork(), copied} {
		ends(t, s, head, cluster.TaskFailed)
		require.Equal(t, cluster.JobKilled, s.Job(middle).State())
		require.Equal(t, cluster.JobKilled, s.Job(tail).State())
		require.Equal(t, cluster.ReasonNeverReleased, s.Job(tail).StopReason)
		require.Equal(t, "it waited for job middle to have SUCCEEDED, which has KILLED", s.Job(tail).StopMessage)
	}
	ends(t, state, head, cluster.TaskSucceeded)
	require.Equal(t, cluster.JobPending, state.Job(middle).State())
	require.Equal(t, cluster.JobInitialized, state.Job(tail).State())
	late := submit(t, state, "late", depends("head"))
	require.Equal(t, cluster.JobPending, state.Job(late).State())
	var names []cluster.JobID
	for _, j := range rules.Dependents(state, state.Job(head)) {
		names = append(names, j.Spec.Name)
	}
	require.Equal(t, []cluster.JobID{"middle", "tail", "late"}, names)
}

// Who depends on a job does so also where the clock was set back before it was submitted.
func TestDependentsWhenTheClockWasSetBack(t *testing.T) {
	state := running(t)
	spec := *state.Job(submit(t, state, "like", nil)).Spec
	on, after := spec, spec
	on.Name, after.Name, after.DependsOn = "on", "after", []cluster.Dependency{{Job: "on"}}
	uid := state.NextJob()
	settle(t, state, at(time.Hour), &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &on}}})
	settle(t, state, at(0), &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid + 1, Spec: &after}}})
	require.Equal(t, []*cluster.Job{state.Job(uid + 1)}, rules.Dependents(state, state.Job(uid)))
}

// What fails waits longer each time, up to a bound, and is not placed before; a restart by the user ends the wait.
func TestBackOff(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "fails", func(s *cluster.JobSpec) {
		s.MaxFailures, s.Backoff = 9, cluster.Backoff{Initial: time.Second, Max: 5 * time.Second}
	})
	k := cluster.MakeTaskKey(uid, 0)
	timers := rules.NewTimers(0)
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		ends(t, state, uid, cluster.TaskFailed)
		until := at(wait)
		require.Equal(t, until, state.Task(k).NotBefore)
		require.Equal(t, cluster.TaskPending, state.Task(k).State)
		require.Error(t, rules.Begin(state, until).Emit(&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host}))
		require.Error(t, rules.Begin(state, until-1).Emit(&cluster.TaskReleased{Task: k}))
		snapshot, _ := state.Snapshot()
		timers.Note(snapshot, at(0), cluster.Changes{Tasks: []cluster.TaskKey{k}}, false)
		require.Equal(t, until, timers.Next())
		require.NoError(t, timers.Fire(rules.Begin(state, until), timers.Due(until)))
		require.Zero(t, state.Task(k).NotBefore)
	}
	ends(t, state, uid, cluster.TaskFailed)
	snapshot, _ := state.Snapshot()
	require.Empty(t, rules.Rested(snapshot, at(0)))
	back := at(0) - 1 // before it began to wait
	require.Equal(t, []cluster.TaskKey{k}, rules.Rested(snapshot, back))
	require.NoError(t, timers.Fire(rules.Begin(state, back), []cluster.TaskKey{k}))
	require.Zero(t, state.Task(k).NotBefore, "the clock was set back")
	ends(t, state, uid, cluster.TaskFailed)
	settle(t, state, at(0), &cluster.TaskStopping{Task: k, Restart: true})
	require.Zero(t, state.Task(k).NotBefore)
	ends(t, state, uid, cluster.TaskLost)
	require.Zero(t, state.Task(k).NotBefore, "a lost run is nobody's fault")
}

// A launch that is refused is tried again at once, and later ones ever later, until it has run.
func TestRefusedLaunchesBackOff(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "refused", nil)
	k := cluster.MakeTaskKey(uid, 0)
	refuse := func() cluster.Time {
		tx := rules.Begin(state, at(0))
		require.NoError(t, tx.Emit(&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host}))
		_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused, Message: "no more room"})
		require.NoError(t, err)
		require.Equal(t, "no more room", state.Task(k).Message)
		until := state.Task(k).NotBefore
		if until != 0 {
			emit(t, state, until, &cluster.TaskReleased{Task: k})
		}
		return until
	}
	require.Zero(t, refuse())
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, at(wait*time.Second), refuse())
	}
	tx := rules.Begin(state, at(0))
	require.NoError(t, tx.Emit(&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host}))
	require.NoError(t, tx.Emit(&cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: cluster.TaskRunning}))
	require.NoError(t, tx.Emit(&cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: cluster.TaskLost}))
	require.NoError(t, tx.Emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry}))
	require.Zero(t, refuse(), "it has run meanwhile")
}

// An instance of a service runs again however it ends, later each time as long as it does not stay up.
func TestServicesRunAgain(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "service", func(s *cluster.JobSpec) {
		s.Type, s.Backoff = cluster.Stateless, cluster.Backoff{Initial: time.Second, Max: time.Minute}
	})
	k := cluster.MakeTaskKey(uid, 0)
	wait := func(end cluster.TaskState, up time.Duration) time.Duration {
		tx := rules.Begin(state, at(0))
		require.NoError(t, tx.Emit(&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host}))
		require.NoError(t, tx.Emit(&cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: cluster.TaskRunning}))
		_, err := rules.Report(rules.Begin(state, at(up)), shard, &cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: end})
		require.NoError(t, err)
		require.Equal(t, cluster.TaskPending, state.Task(k).State)
		until := state.Task(k).NotBefore
		emit(t, state, until, &cluster.TaskReleased{Task: k})
		return until.Sub(at(up))
	}
	require.Equal(t, time.Second, wait(cluster.TaskSucceeded, time.Second))
	require.Equal(t, 2*time.Second, wait(cluster.TaskFailed, time.Second))
	require.Equal(t, time.Second, wait(cluster.TaskFailed, time.Hour))
	settle(t, state, at(0), &cluster.JobStopping{Job: uid})
	require.Equal(t, cluster.JobKilled, state.Job(uid).State())
}

// A job that waited and is gone at once holds nobody whom it waited for.
func TestEndedJobsGoWhenWhoWaitedIsGone(t *testing.T) {
	state := running(t)
	awaited := submit(t, state, "awaited", func(s *cluster.JobSpec) { s.TTL = time.Minute })
	waits := submit(t, state, "waits", func(s *cluster.JobSpec) {
		s.DependsOn = []cluster.Dependency{{Job: "awaited"}, {Job: "job"}}
	})
	ends(t, state, awaited, cluster.TaskSucceeded)
	timers := rules.NewTimers(0)
	fire := func() {
		snapshot, changes := state.Snapshot()
		timers.Note(snapshot, at(time.Minute), changes, false)
		tx := rules.Begin(state, at(time.Minute))
		require.NoError(t, timers.Fire(tx, timers.Due(at(time.Minute))))
		require.NoError(t, rules.Settle(tx))
	}
	fire()
	require.NotNil(t, state.Job(awaited), "it is waited for")
	settle(t, state, at(time.Minute), &cluster.JobStopping{Job: waits}, &cluster.JobDeleted{Job: waits})
	fire()
	require.Nil(t, state.Job(awaited))
}

// A job that has ended goes when its time is over: what it says itself counts before the general setting, and one that
// others wait for stays until they do not.
func TestEndedJobsGo(t *testing.T) {
	state := running(t)
	own := submit(t, state, "own", func(s *cluster.JobSpec) { s.TTL = time.Minute })
	general := submit(t, state, "general", nil)
	awaited := submit(t, state, "awaited", func(s *cluster.JobSpec) { s.TTL = time.Minute })
	waits := submit(t, state, "waits", func(s *cluster.JobSpec) {
		s.DependsOn = []cluster.Dependency{{Job: "awaited"}, {Job: "job"}}
	})
	for _, uid := range []cluster.JobUID{own, general, awaited} {
		ends(t, state, uid, cluster.TaskSucceeded)
	}
	timers := rules.NewTimers(time.Hour)
	fire := func(now cluster.Time) {
		snapshot, changes := state.Snapshot()
		timers.Note(snapshot, now, changes, false)
		tx := rules.Begin(state, now)
		require.NoError(t, timers.Fire(tx, timers.Due(now)))
		require.NoError(t, rules.Settle(tx))
	}
	fire(at(time.Minute - 1))
	require.NotNil(t, state.Job(own))
	fire(at(time.Minute))
	require.Nil(t, state.Job(own))
	require.NotNil(t, state.Job(awaited), "it is waited for")
	settle(t, state, at(time.Minute), &cluster.JobStopping{Job: waits})
	fire(at(time.Minute))
	require.Nil(t, state.Job(awaited))
	require.NotNil(t, state.Job(general))
	fire(at(time.Hour))
	require.Nil(t, state.Job(general))
	require.NotNil(t, state.Job(1), "it has not ended")
}

package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// A gang of which one member does not come to run in time is given back whole; one that has come to run goes on without a
// member that fails later.
func TestAGangComesToRunTogetherOrIsGivenBack(t *testing.T) {
	state, placed := gang(t)
	timers := rules.NewTimers(0)
	snapshot, _ := state.Fork().Snapshot()
	timers.Note(snapshot, at(0), cluster.Changes{}, true)
	due := at(0).Add(rules.DefaultGangTimeout)
	require.Equal(t, due, timers.Next())
	require.Empty(t, timers.Due(due-1))
	hurried := rules.NewTimers(0)
	state.Job(placed[0].Job()).Spec.Gang.LaunchTimeout = time.Second
	snapshot, _ = state.Fork().Snapshot()
	hurried.Note(snapshot, at(0), cluster.Changes{}, true)
	require.Equal(t, at(time.Second), hurried.Next(), "as the gang wants it")
	state.Job(placed[0].Job()).Spec.Gang.LaunchTimeout = 0

	run(t, state, placed[0], cluster.TaskRunning)
	require.NoError(t, timers.Fire(rules.Begin(state, due), timers.Due(due)))
	for _, k := range placed {
		require.Equal(t, cluster.TaskKilling, state.Task(k).State)
		run(t, state, k, cluster.TaskKilled)
		require.Equal(t, cluster.TaskPending, state.Task(k).State)
	}
}

// The time in which no scheduler is there that could hear that it runs does not count.
func TestAGangComesToRunWhileNobodyIsThere(t *testing.T) {
	state, placed := gang(t)
	late := at(time.Hour)
	emit(t, state, late, &cluster.ModeSet{Mode: state.Mode()})
	timers := rules.NewTimers(0)
	snapshot, _ := state.Fork().Snapshot()
	timers.Note(snapshot, late, cluster.Changes{}, true)
	require.Equal(t, late.Add(rules.DefaultGangTimeout), timers.Next())
	require.NoError(t, timers.Fire(rules.Begin(state, late), placed))
	require.Equal(t, cluster.TaskPlaced, state.Task(placed[0]).State)
}

func TestAGangThatOnceRanGoesOnWithoutAMember(t *testing.T) {
	state, placed := gang(t)
	for _, k := range placed {
		run(t, state, k, cluster.TaskRunning)
	}
	run(t, state, placed[0], cluster.TaskLost)
	require.Equal(t, cluster.TaskPending, state.Task(placed[0]).State)
	require.Equal(t, cluster.TaskRunning, state.Task(placed[1]).State)
}

// Nor does it end where the next run of that member cannot be launched, fails before it runs, or takes long to come to run.
func TestAGangThatOnceRanWaitsForAMemberToComeBack(t *testing.T) {
	due := at(time.Minute).Add(rules.DefaultGangTimeout)
	for name, trouble := range map[string]func(tx *rules.Tx, k cluster.TaskKey) error{
		"refused": func(tx *rules.Tx, k cluster.TaskKey) error {
			_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused})
			return err
		},
		"lost": func(tx *rules.Tx, k cluster.TaskKey) error {
			_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskLost})
			return err
		},
		"slow": func(tx *rules.Tx, k cluster.TaskKey) error {
			return rules.NewTimers(0).Fire(tx, []cluster.TaskKey{k})
		},
	} {
		t.Run(name, func(t *testing.T) {
			state, placed := gang(t)
			for _, k := range placed {
				run(t, state, k, cluster.TaskRunning)
			}
			run(t, state, placed[0], cluster.TaskLost)
			emit(t, state, at(time.Minute), &cluster.Placed{Task: placed[0], Run: 2, Host: host})
			require.NoError(t, trouble(rules.Begin(state, due), placed[0]))
			require.Equal(t, cluster.TaskRunning, state.Task(placed[1]).State)
		})
	}
}

// It goes on as well where the clock was set back since it came to run, or another scheduler leads whose clock is behind.
func TestAGangThatOnceRanGoesOnWhenTheClockWasSetBack(t *testing.T) {
	state, placed := gang(t)
	for _, k := range placed {
		run(t, state, k, cluster.TaskRunning)
	}
	run(t, state, placed[0], cluster.TaskLost)
	emit(t, state, at(-time.Minute), &cluster.Placed{Task: placed[0], Run: 2, Host: host})
	refused := &cluster.TaskStatus{Task: placed[0], Run: 2, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused}
	_, err := rules.Report(rules.Begin(state, at(-time.Minute)), shard, refused)
	require.NoError(t, err)
	require.Equal(t, cluster.TaskRunning, state.Task(placed[1]).State)
}

func TestAGangIsGivenBackWhenAMemberCannotBeLaunched(t *testing.T) {
	state, placed := gang(t)
	run(t, state, placed[1], cluster.TaskRunning)
	_, err := rules.Report(rules.Begin(state, at(0)), shard, &cluster.TaskStatus{
		Task: placed[0], Run: 1, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused, ExitCode: -1,
	})
	require.NoError(t, err)
	require.Equal(t, cluster.TaskPending, state.Task(placed[0]).State)
	require.Equal(t, cluster.TaskKilling, state.Task(placed[1]).State)
	require.True(t, state.Task(placed[1]).Restart)
}

func TestARunThatTakesTooLongHasFailed(t *testing.T) {
	state := running(t)
	k := cluster.MakeTaskKey(1, 0)
	spec := *state.Job(1).Spec
	spec.Limits.MaxRunTime, spec.MaxFailures = time.Minute, 0
	emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &spec})
	timers := rules.NewTimers(0)
	snapshot, _ := state.Fork().Snapshot()
	timers.Note(snapshot, at(0), cluster.Changes{}, true)
	require.Equal(t, state.Task(k).Started.Add(time.Minute), timers.Next())
	require.NoError(t, timers.Fire(rules.Begin(state, timers.Next()), timers.Due(timers.Next())))
	require.Equal(t, cluster.TaskKilling, state.Task(k).State)
	run(t, state, k, cluster.TaskKilled)
	require.Equal(t, cluster.TaskFailed, state.Task(k).State)
	require.Equal(t, cluster.ReasonRunTime, state.Task(k).Reason)
}

// How long a run may take is what the spec says that it runs by, whatever its job has by now.
func TestARunTakesAsLongAsItsOwnSpecAllows(t *testing.T) {
	for name, limits := range map[string][2]time.Duration{"none any more": {time.Minute, 0}, "one now": {0, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			state := running(t)
			k := cluster.MakeTaskKey(1, 0)
			spec := *state.Job(1).Spec
			spec.Limits.MaxRunTime = limits[0]
			emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &spec})
			timers := rules.NewTimers(0)
			snapshot, _ := state.Snapshot()
			timers.Note(snapshot, at(0), cluster.Changes{}, true)
			next := spec
			next.Limits.MaxRunTime, next.Task.Processes = limits[1], []cluster.Process{{Command: []string{"another"}}}
			paused := &cluster.Update{From: 2, State: cluster.UpdateInitialized, Policy: cluster.UpdatePolicy{StartPaused: true}}
			emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &next, Update: paused})
			snapshot, changes := state.Snapshot()
			timers.Note(snapshot, at(0), changes, false)
			ends, want := at(time.Minute), cluster.TaskRunning
			if limits[0] != 0 {
				want = cluster.TaskKilling
				require.Equal(t, state.Task(k).Started.Add(limits[0]), timers.Next())
			}
			require.NoError(t, timers.Fire(rules.Begin(state, ends), []cluster.TaskKey{k}))
			require.Equal(t, want, state.Task(k).State)
		})
	}
}

// What was to be looked at because of runs that have ended is forgotten, however long they might have taken; what is due still is not.
func TestAlarmsOfRunsThatHaveEndedAreForgotten(t *testing.T) {
	state := running(t)
	k := cluster.MakeTaskKey(1, 0)
	spec := *state.Job(1).Spec
	spec.Limits.MaxRunTime = 24 * time.Hour
	emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &spec})
	timers := rules.NewTimers(0)
	snapshot, _ := state.Snapshot()
	timers.Note(snapshot, at(0), cluster.Changes{}, true)
	for i := range 3000 {
		now := at(time.Duration(i) * time.Second)
		emit(t, state, now,
			&cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: true},
			&cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: cluster.TaskKilled},
			&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonTaskRestarted},
			&cluster.Placed{Task: k, Run: state.Task(k).Run + 1, Host: host},
			&cluster.TaskStatus{Task: k, Run: state.Task(k).Run + 1, State: cluster.TaskRunning},
		)
		snapshot, changes := state.Snapshot()
		timers.Note(snapshot, now, changes, false)
	}
	ends := state.Task(k).Started.Add(24 * time.Hour)
	require.Less(t, len(timers.Due(ends-1)), 1500)
	require.Equal(t, []cluster.TaskKey{k}, timers.Due(ends))
}

// Who is looked at before his time is left alone: that he may wait no longer, and that his run has taken too long; and the limit of a
// run that is to end already says nothing more.
func TestWhoIsLookedAtTooEarlyIsLeftAlone(t *testing.T) {
	state, k := running(t), cluster.MakeTaskKey(1, 0)
	spec := *state.Job(1).Spec
	spec.Limits.MaxRunTime = time.Minute
	emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &spec})
	fire := func(when cluster.Time) {
		tx := rules.Begin(state, when)
		require.NoError(t, rules.NewTimers(0).Fire(tx, []cluster.TaskKey{k}))
		require.Empty(t, tx.Records())
	}
	fire(state.Task(k).Started.Add(time.Minute) - 1)
	emit(t, state, at(1), &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: true})
	fire(at(time.Hour))
	emit(t, state, at(2), &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled}, &cluster.TaskRequeued{Task: k, NotBefore: at(time.Second)})
	fire(at(time.Second) - 1)
}

func TestAJobPastItsDeadlineHasFailed(t *testing.T) {
	state := running(t)
	spec := *state.Job(1).Spec
	spec.Limits.Deadline = at(time.Hour)
	emit(t, state, at(0), &cluster.JobUpdated{Job: 1, Spec: &spec})
	k := cluster.MakeTaskKey(1, 0)
	timers := rules.NewTimers(0)
	require.NoError(t, timers.Fire(rules.Begin(state, at(time.Hour)-1), []cluster.TaskKey{k}))
	require.Equal(t, cluster.TaskRunning, state.Task(k).State)
	require.NoError(t, timers.Fire(rules.Begin(state, at(time.Hour)), []cluster.TaskKey{k}))
	run(t, state, k, cluster.TaskKilled)
	require.Equal(t, cluster.JobFailed, state.Job(1).State())
}

// What is wrong with one job keeps no other from what is due for it.
func TestWhatIsDueForOthersIsDone(t *testing.T) {
	state := running(t)
	bad := submit(t, state, "bad", func(s *cluster.JobSpec) { s.Limits.Deadline = at(time.Hour) })
	good := submit(t, state, "good", func(s *cluster.JobSpec) { s.Limits.Deadline = at(time.Hour) })
	state.Job(bad).UID = 99 // as no rule allows
	keys := []cluster.TaskKey{cluster.MakeTaskKey(bad, 0), cluster.MakeTaskKey(good, 0)}
	require.Error(t, rules.NewTimers(0).Fire(rules.Begin(state, at(time.Hour)), keys))
	require.True(t, state.Job(good).Stopping)
}

// gang returns a state with a gang of two on one host, both just placed.
func gang(t *testing.T) (*cluster.State, []cluster.TaskKey) {
	t.Helper()
	state := running(t)
	spec := &cluster.JobSpec{
		Name: "gang", Pool: cluster.RootPool, Instances: 2, Gang: &cluster.Gang{Minimum: 2},
		Task: cluster.TaskSpec{Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1}}},
	}
	uid := state.NextJob()
	emit(t, state, at(0), &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	keys := []cluster.TaskKey{cluster.MakeTaskKey(uid, 0), cluster.MakeTaskKey(uid, 1)}
	for _, k := range keys {
		emit(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host})
	}
	return state, keys
}

// run reports a state of the task's current run.
func run(t *testing.T, state *cluster.State, k cluster.TaskKey, to cluster.TaskState) {
	t.Helper()
	_, err := rules.Report(rules.Begin(state, at(0)), shard, &cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: to, ExitCode: -1})
	require.NoError(t, err)
}

// Where the clock was set back, what takes time counts from when on it is known to have been, and takes its time once more at most.
func TestLimitsWhenTheClockWasSetBack(t *testing.T) {
	const limit = time.Minute
	for name, c := range map[string]struct {
		by, due time.Duration
	}{
		"by much":   {time.Hour / 2, limit},
		"by little": {time.Second, limit + time.Second},
		"not":       {0, limit},
	} {
		t.Run(name, func(t *testing.T) {
			state, placed := gang(t)
			for _, k := range placed {
				state.Job(k.Job()).Spec.Gang.LaunchTimeout = limit
			}
			back := at(-c.by) // they were placed at 0
			emit(t, state, back, &cluster.ModeSet{Mode: state.Mode()})
			snapshot, _ := state.Snapshot()
			timers := rules.NewTimers(0)
			timers.Note(snapshot, back, cluster.Changes{}, true)
			fire := func(now cluster.Time) {
				due := timers.Due(now)
				require.NoError(t, timers.Fire(rules.Begin(state, now), due))
			}
			fire(back.Add(c.due) - 1)
			require.Equal(t, cluster.TaskPlaced, state.Task(placed[1]).State)
			require.NotZero(t, timers.Next())
			fire(back.Add(c.due))
			require.Equal(t, cluster.TaskKilling, state.Task(placed[1]).State)

			state = running(t)
			k := cluster.MakeTaskKey(1, 0)
			state.Job(1).Spec.Limits.MaxRunTime = limit
			back = state.Task(k).Started.Add(-c.by)
			emit(t, state, back, &cluster.ModeSet{Mode: state.Mode()})
			snapshot, _ = state.Snapshot()
			timers = rules.NewTimers(0)
			timers.Note(snapshot, back, cluster.Changes{}, true)
			fire(back.Add(c.due) - 1)
			require.Equal(t, cluster.TaskRunning, state.Task(k).State)
			fire(back.Add(c.due))
			require.Equal(t, cluster.TaskKilling, state.Task(k).State)
		})
	}
}

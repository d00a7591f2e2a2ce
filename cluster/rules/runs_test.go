package rules_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

const (
	shard = cluster.ShardID("s")
	host  = cluster.HostID("s/h")
)

// running returns a state in which task 1.0 runs on the host, with failures to spare.
func running(t *testing.T) *cluster.State {
	state := cluster.NewState()
	k := cluster.MakeTaskKey(1, 0)
	emit(t, state, 1,
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 1, MaxFailures: 5,
		}}}},
		&cluster.Placed{Task: k, Run: 1, Host: host},
		&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
	)
	return state
}

func emit(t *testing.T, state *cluster.State, at cluster.Time, events ...cluster.Event) {
	tx := rules.Begin(state, at)
	for _, e := range events {
		require.NoError(t, tx.Emit(e))
	}
}

// What becomes of a task that has left for another is what the spec says that it ran by.
func TestATaskThatLeftGoesOnByItsOwnSpec(t *testing.T) {
	for _, kill := range []bool{false, true} {
		state := running(t)
		k := cluster.MakeTaskKey(1, 0)
		spec := *state.Job(1).Spec
		spec.Preemption.Kill = kill
		next := spec
		next.Preemption.Kill, next.Task.Processes = !kill, []cluster.Process{{Command: []string{"another"}}}
		emit(t, state, 2,
			&cluster.JobUpdated{Job: 1, Spec: &spec},
			&cluster.JobUpdated{Job: 1, Spec: &next, Update: &cluster.Update{From: 2, Policy: cluster.UpdatePolicy{StartPaused: true}}},
			&cluster.TaskPreempted{Task: k, Run: 1},
		)
		run(t, state, k, cluster.TaskKilled)
		want := cluster.TaskPending
		if kill {
			want = cluster.TaskKilled
		}
		require.Equal(t, want, state.Task(k).State, "kill %v", kill)
	}
}

// A task that the user stopped does not run again, however its run ended; one that was restarted does.
func TestAStoppedTaskIsNotRetried(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for _, end := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled} {
		for _, restart := range []bool{false, true} {
			state := running(t)
			emit(t, state, 2, &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped, Restart: restart})
			verdict, err := rules.Report(rules.Begin(state, 3), shard, &cluster.TaskStatus{Task: k, Run: 1, State: end})
			require.NoError(t, err)
			require.Equal(t, rules.Applied, verdict)
			want := end
			if restart {
				want = cluster.TaskPending
			}
			require.Equal(t, want, state.Task(k).State, "restart %v, ends %v", restart, end)
		}
	}
}

// What was killed though nobody here asked for that is retried as what failed.
func TestWhoWasKilledByOthersHasFailed(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	state := running(t)
	_, err := rules.Report(rules.Begin(state, 2), shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled, Signal: 9})
	require.NoError(t, err)
	require.Equal(t, cluster.TaskPending, state.Task(k).State)
	require.EqualValues(t, 1, state.Task(k).Failures)
}

// A launch that is given back after its task was told to end has not failed: the task was killed before it began.
func TestALaunchGivenBackWhileItsTaskEnds(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for _, restart := range []bool{false, true} {
		state := running(t)
		emit(t, state, 2, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded},
			&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonTaskRestarted},
			&cluster.Placed{Task: k, Run: 2, Host: host},
			&cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped, Restart: restart})
		verdict, err := rules.Report(rules.Begin(state, 3), shard, &cluster.TaskStatus{
			Task: k, Run: 2, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused, ExitCode: -1, Message: "no master",
		})
		require.NoError(t, err)
		require.Equal(t, rules.Applied, verdict)
		got := state.Task(k)
		require.Zero(t, got.Failures)
		if restart {
			require.Equal(t, cluster.TaskPending, got.State)
			continue
		}
		require.Equal(t, cluster.TaskKilled, got.State)
		require.Equal(t, cluster.ReasonTaskStopped, got.Reason)
	}
}

// A task that was asked to leave while its host had not yet said that it runs still leaves, and that is no failure.
func TestALateReportTakesNoPreemptionBack(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	state := running(t)
	emit(t, state, 2, &cluster.TaskPreempted{Task: k, Run: 1})
	report := func(at cluster.Time, s cluster.TaskState) rules.Verdict {
		verdict, err := rules.Report(rules.Begin(state, at), shard, &cluster.TaskStatus{Task: k, Run: 1, State: s, ExitCode: 143})
		require.NoError(t, err)
		return verdict
	}
	require.Equal(t, rules.Known, report(3, cluster.TaskRunning))
	require.Equal(t, cluster.TaskPreempting, state.Task(k).State)
	require.Equal(t, rules.Applied, report(4, cluster.TaskFailed))
	require.Equal(t, cluster.TaskPending, state.Task(k).State)
	require.Equal(t, cluster.ReasonPreempted, state.Task(k).Reason)
	require.Zero(t, state.Task(k).Failures)
}

// A plan for what is left of a gang is not carried out when more of it has come to wait since.
func TestAGangStartsWithAllThatWait(t *testing.T) {
	state := running(t)
	emit(t, state, 2, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: &cluster.JobSpec{
		Name: "gang", Pool: cluster.RootPool, Instances: 2, Gang: &cluster.Gang{Minimum: 2},
	}}}})
	place := func(instances ...uint32) (step []cluster.Event) {
		for _, i := range instances {
			step = append(step, &cluster.Placed{Task: cluster.MakeTaskKey(2, i), Run: 1, Host: host})
		}
		return step
	}
	var why error
	refuse := func(_ []cluster.Event, err error) { why = err }
	require.Equal(t, 1, rules.Commit(rules.Begin(state, 3), [][]cluster.Event{place(1)}, refuse))
	require.ErrorContains(t, why, `2 tasks of the gang of job "gang" wait and 1 would start`)
	require.Zero(t, rules.Commit(rules.Begin(state, 3), [][]cluster.Event{place(0, 1)}, refuse))
	require.Equal(t, cluster.TaskPlaced, state.Task(cluster.MakeTaskKey(2, 1)).State)
}

// What a plan starts after the core of a gang is not started if the core was refused.
func TestTheRestOfAGangStartsWithItsCore(t *testing.T) {
	state := running(t)
	emit(t, state, 2, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: &cluster.JobSpec{
		Name: "gang", Pool: cluster.RootPool, Instances: 3, Gang: &cluster.Gang{Minimum: 2},
	}}}})
	place := func(i uint32, on cluster.HostID) cluster.Event {
		return &cluster.Placed{Task: cluster.MakeTaskKey(2, i), Run: 1, Host: on}
	}
	plan := func(second cluster.HostID) [][]cluster.Event {
		return [][]cluster.Event{{place(0, host), place(1, second)}, {place(2, host)}}
	}
	var why error
	refuse := func(_ []cluster.Event, err error) { why = err }
	require.Equal(t, 3, rules.Commit(rules.Begin(state, 3), plan("s/gone"), refuse))
	require.ErrorContains(t, why, `task 2.2 of job "gang" starts after the core of its gang, which waits`)
	require.Zero(t, rules.Commit(rules.Begin(state, 3), plan(host), refuse))
	require.Equal(t, cluster.TaskPlaced, state.Task(cluster.MakeTaskKey(2, 2)).State)
}

// A run that fails while it is being replaced counts against nobody: least of all against what comes after it.
func TestARunThatMakesWayHasNotFailed(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	state := running(t)
	emit(t, state, 2, &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: true})
	_, err := rules.Report(rules.Begin(state, 3), shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskFailed, ExitCode: 1})
	require.NoError(t, err)
	require.Equal(t, cluster.TaskPending, state.Task(k).State)
	require.Zero(t, state.Task(k).Failures)
	require.Zero(t, state.Task(k).NotBefore)
}

// A task that was to run elsewhere, or later, since its host is lost or drained or its gang given back, and has succeeded meanwhile, is
// done, like those of its gang that have before; not so if the user wants another run.
func TestATaskThatHasSucceededIsDone(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for why, want := range map[cluster.Reason]cluster.TaskState{
		cluster.ReasonHostLost: cluster.TaskSucceeded, cluster.ReasonDrained: cluster.TaskSucceeded,
		cluster.ReasonGangBroken: cluster.TaskSucceeded, cluster.ReasonTaskRestarted: cluster.TaskPending,
	} {
		state := running(t)
		emit(t, state, 2, &cluster.TaskStopping{Task: k, Reason: why, Restart: true})
		_, err := rules.Report(rules.Begin(state, 3), shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
		require.NoError(t, err)
		require.Equal(t, want, state.Task(k).State, why)
		require.Equal(t, want == cluster.TaskSucceeded, state.Job(1).State() == cluster.JobSucceeded, why)
	}
}

// Failures count until the user restarts the task, not only until its host is drained or lost, or its gang given back.
func TestOnlyTheUserForgivesFailures(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for why, want := range map[cluster.Reason]uint32{
		cluster.ReasonHostLost: 1, cluster.ReasonDrained: 1, cluster.ReasonGangBroken: 1, cluster.ReasonTaskRestarted: 0,
	} {
		state := running(t)
		_, err := rules.Report(rules.Begin(state, 2), shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskFailed, ExitCode: 1})
		require.NoError(t, err)
		emit(t, state, 3, &cluster.Placed{Task: k, Run: 2, Host: host}, &cluster.TaskStopping{Task: k, Reason: why, Restart: true})
		_, err = rules.Report(rules.Begin(state, 4), shard, &cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskKilled})
		require.NoError(t, err)
		require.Equal(t, cluster.TaskPending, state.Task(k).State, why)
		require.Equal(t, want, state.Task(k).Failures, why)
		require.Equal(t, why, state.Task(k).Reason, "it waits since that ended its run")
	}
}

// Whatever a shard says of a run on a host of another, the run goes on: to that shard it is one that nobody waits for.
func TestAShardHasNothingToSayOfOthersRuns(t *testing.T) {
	state, k := running(t), cluster.MakeTaskKey(1, 0)
	tx := rules.Begin(state, 3)
	before := *state.Task(k)
	end := &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded}
	verdict, err := rules.Report(tx, "t", end)
	require.NoError(t, err)
	require.Equal(t, rules.Stale, verdict)
	require.NoError(t, rules.Health(tx, "t", &cluster.TaskHealth{Task: k, Run: 1, Health: cluster.HealthUnready}))
	run := cluster.RunID{Task: k, Run: 1}
	for _, e := range []*cluster.TaskStatus{end, {Task: k, Run: 1, State: cluster.TaskRunning}} {
		answers, err := rules.Reconcile(tx, "t", []*cluster.TaskStatus{e})
		require.NoError(t, err)
		require.Equal(t, []rules.Answer{{Run: run, Release: e == end}}, answers)
	}
	require.Empty(t, tx.Records())
	require.Equal(t, before, *state.Task(k))
	verdict, err = rules.Report(tx, shard, end)
	require.NoError(t, err)
	require.Equal(t, rules.Applied, verdict)
}

// What has begun does not wait again because somebody says that it waits.
func TestNobodySaysThatATaskWaits(t *testing.T) {
	state, k := running(t), cluster.MakeTaskKey(1, 0)
	again := rules.Begin(state, 2)
	_, err := rules.Report(again, shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost})
	require.NoError(t, err)
	emit(t, state, 3, &cluster.Placed{Task: k, Run: 2, Host: host})
	tx := rules.Begin(state, 4)
	verdict, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskPending})
	require.NoError(t, err)
	require.Equal(t, rules.Known, verdict)
	require.Empty(t, tx.Records())
}

// Runs are found in an inventory in whatever order it lists them.
func TestAnInventoryInAnyOrder(t *testing.T) {
	state, placed := gang(t)
	inventory := []*cluster.TaskStatus{{Task: cluster.MakeTaskKey(1, 0), Run: 1, State: cluster.TaskRunning}}
	for _, k := range placed {
		run(t, state, k, cluster.TaskRunning)
		inventory = append(inventory, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	}
	slices.Reverse(inventory)
	tx := rules.Begin(state, at(1))
	answers, err := rules.Reconcile(tx, shard, inventory)
	require.NoError(t, err)
	require.Empty(t, answers)
	require.Empty(t, tx.Records())
}

// A launch that did not arrive is sent again. In a restored cluster nobody knows whether it did: its run may be over since.
func TestNoLaunchIsRepeatedFromBeforeARestore(t *testing.T) {
	for _, restored := range []bool{false, true} {
		state, k := running(t), cluster.MakeTaskKey(1, 0)
		_, err := rules.Report(rules.Begin(state, 2), shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost})
		require.NoError(t, err)
		emit(t, state, 3, &cluster.Placed{Task: k, Run: 2, Host: host})
		if restored {
			before, _ := state.Snapshot()
			state = cluster.NewState()
			for part := range before.Parts() {
				part.Forget(1000)
				require.NoError(t, state.Apply(cluster.Record{Event: part}))
			}
		}
		_, err = rules.Reconcile(rules.Begin(state, 4), shard, nil)
		require.NoError(t, err)
		want := cluster.TaskPlaced
		if restored {
			want = cluster.TaskPending
		}
		require.Equal(t, want, state.Task(k).State)
		if !restored {
			continue
		}
		run := state.Job(1).NextRun(state.Task(k))
		emit(t, state, 5, &cluster.Placed{Task: k, Run: run, Host: host})
		_, err = rules.Reconcile(rules.Begin(state, 6), shard, nil)
		require.NoError(t, err)
		require.Equal(t, cluster.TaskPlaced, state.Task(k).State, "of what was placed since it is known")
	}
}

// A run that the state has not given out shows that its store is that of an earlier time, whatever runs other instances had.
func TestOutlived(t *testing.T) {
	state := cluster.NewState()
	key := func(i uint32) cluster.TaskKey { return cluster.MakeTaskKey(1, i) }
	emit(t, state, 1,
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 2, Type: cluster.Stateless,
		}}}})
	for run := range uint32(3) {
		emit(t, state, 2,
			&cluster.Placed{Task: key(1), Run: run + 1, Host: host},
			&cluster.TaskStatus{Task: key(1), Run: run + 1, State: cluster.TaskFailed},
			&cluster.TaskRequeued{Task: key(1)})
	}
	fewer := *state.Job(1).Spec
	fewer.Instances = 1
	emit(t, state, 3, &cluster.JobUpdated{Job: 1, Spec: &fewer})
	require.EqualValues(t, 3, state.Job(1).LastRun)
	outlived := func(task cluster.TaskKey, run uint32) bool {
		return rules.Outlived(state, []*cluster.TaskStatus{{Task: key(1), Run: 1}, {Task: task, Run: run}})
	}
	require.True(t, outlived(key(0), 1), "it waits for its first")
	require.False(t, outlived(key(1), 3))
	require.True(t, outlived(key(1), 4))
	require.False(t, outlived(cluster.MakeTaskKey(0, 0), 9))
	require.True(t, outlived(cluster.MakeTaskKey(2, 0), 1))
	emit(t, state, 4, &cluster.NumbersForgotten{})
	for i := range uint32(3) {
		require.False(t, outlived(key(i), 4))
	}
	require.False(t, outlived(cluster.MakeTaskKey(2, 0), 1))
}

// An instance of a service that moves waits for the room that is kept for it, however its run ends: with 0 as well, which is no failure.
func TestWhatMovesMoves(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	machine := cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}
	for _, end := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled} {
		state := cluster.NewState()
		emit(t, state, 1,
			&cluster.HostReported{ID: host, Machine: machine},
			&cluster.HostReported{ID: "s/other", Machine: machine},
			&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
				Name: "job", Type: cluster.Stateless, Pool: cluster.RootPool, Instances: 1, Backoff: cluster.Backoff{Initial: 10, Max: 10},
			}}}},
			&cluster.Placed{Task: k, Run: 1, Host: host},
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
			&cluster.TaskPreempted{Task: k, Run: 1, Hold: &cluster.Hold{Host: "s/other", Until: 100}},
		)
		_, err := rules.Report(rules.Begin(state, 2), shard, &cluster.TaskStatus{Task: k, Run: 1, State: end, Reason: cluster.ReasonExited})
		require.NoError(t, err, end)
		task := state.Task(k)
		require.Equal(t, cluster.TaskReserved, task.State, end)
		require.Zero(t, task.Failures, end)
		require.Zero(t, task.NotBefore, end)
	}
}

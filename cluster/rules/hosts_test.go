package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

func at(d time.Duration) cluster.Time { return cluster.Time(time.Hour).Add(d) }

func machines(names ...string) map[string]cluster.Machine {
	m := map[string]cluster.Machine{}
	for _, n := range names {
		m[n] = cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}
	}
	return m
}

// What a report leaves out is removed, unless something is known of it that must not be forgotten: its tasks, or that the
// operator wants no work there.
func TestWhatAReportLeavesOut(t *testing.T) {
	state := running(t)
	report := func(names ...string) { report(t, state, machines(names...)) }
	report("h", "idle", "drained")
	emit(t, state, at(1), &cluster.HostDrain{ID: "s/drained", Drain: true, Reason: "new disks"})
	report()
	require.Nil(t, state.Host("s/idle"))
	require.Equal(t, cluster.HostUnreachable, state.Host("s/h").State())
	report("h", "idle", "drained")
	require.Equal(t, cluster.HostUp, state.Host("s/idle").State())
	require.Equal(t, cluster.HostUp, state.Host("s/h").State())
	require.Equal(t, cluster.HostDraining, state.Host("s/drained").State())
	require.Equal(t, "new disks", state.Host("s/drained").DrainReason)

	emit(t, state, at(2), &cluster.HostReported{ID: "t/other", Machine: machines("other")["other"]})
	again := rules.Begin(state, at(3))
	require.NoError(t, rules.ReportHosts(again, "s", machines("h", "idle", "drained"), nil, true))
	require.Empty(t, again.Records(), "nothing has changed, and the hosts of other shards are none of its business")
}

// Hosts count as unreachable when their shard has been away for long enough; one that is connected may be silent as long as it likes.
func TestHowLongSilenceIsBorne(t *testing.T) {
	for _, away := range []bool{false, true} {
		state := running(t)
		d := rules.Deadlines{
			UnreachableAfter: time.Minute, LostAfter: time.Hour, Away: func(cluster.ShardID) (cluster.Time, bool) { return at(0), away },
		}
		for _, when := range []time.Duration{time.Minute - 1, time.Minute} {
			overdue := away && when == time.Minute
			require.Equal(t, overdue, len(d.Overdue(state, at(when))) > 0)
			require.NoError(t, d.Expire(rules.Begin(state, at(when))))
			require.Equal(t, overdue, state.Host(host).Unreachable)
		}
	}
}

// What kept a host that its shard does not see any more from being forgotten may come to an end later: then it is forgotten, with
// the instances of daemons that were bound to it. A host whose shard is cut off stays.
func TestAHostIsForgottenWithWhatKeptIt(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	state := running(t)
	daemon := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances = cluster.Daemon, 0 })
	report(t, state, machines("h", "drained", "cut"))
	settle(t, state, at(1), &cluster.HostDrain{ID: "s/drained", Drain: true}, &cluster.HostUnreached{ID: "s/cut", Reason: "cut off"})
	tx := rules.Begin(state, at(2))
	require.NoError(t, rules.ReportHosts(tx, "s", nil, []string{"h", "drained"}, false))
	require.NoError(t, rules.Settle(tx))
	again := rules.Begin(state, at(3))
	require.NoError(t, rules.ReportHosts(again, "s", nil, []string{"h", "drained"}, false))
	require.Empty(t, again.Records(), "it is known")

	settle(t, state, at(3), &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost})
	require.Nil(t, state.Host(host))
	settle(t, state, at(3), &cluster.HostDrain{ID: "s/drained"})
	require.Nil(t, state.Host("s/drained"))
	require.NotNil(t, state.Host("s/cut"))
	homes, _ := daemons(state, daemon)
	require.Len(t, homes, 1)

	report(t, state, machines("h"))
	require.Nil(t, state.Host("s/cut"), "its shard is back without it")
	homes, _ = daemons(state, daemon)
	require.Len(t, homes, 1)
	require.Equal(t, cluster.HostUp, state.Host(host).State())
}

// The time after which tasks are given up begins when the host got out of reach, whatever the operator does meanwhile, and
// does not go on while nobody listens: after a restart a shard has as long again.
func TestWhenTasksAreGivenUp(t *testing.T) {
	began, away := at(0), true
	d := rules.Deadlines{
		UnreachableAfter: 10 * time.Second, LostAfter: time.Minute,
		Away: func(cluster.ShardID) (cluster.Time, bool) { return began, away },
	}
	state := running(t)
	expire := func(now cluster.Time) cluster.TaskState {
		require.NoError(t, d.Expire(rules.Begin(state, now)))
		return state.Task(cluster.MakeTaskKey(1, 0)).State
	}
	require.Equal(t, cluster.TaskRunning, expire(at(10*time.Second)))
	require.True(t, state.Host(host).Unreachable)
	emit(t, state, at(30*time.Second), &cluster.HostDrain{ID: host, Drain: true, Reason: "off"})

	began = at(2 * time.Hour) // the scheduler was down for long
	require.Equal(t, cluster.TaskRunning, expire(began.Add(59*time.Second)))
	began, away = began.Add(30*time.Second), false // it connects, and its report is on its way
	require.Equal(t, cluster.TaskRunning, expire(began.Add(59*time.Second)))
	began, away = at(0), true
	require.Equal(t, cluster.TaskRunning, expire(at(69*time.Second)))
	require.Equal(t, cluster.TaskPending, expire(at(70*time.Second)))
}

// What was never sent to a shard that is cut off waits again as soon as its host is unreachable: nobody can have begun it. Of a gang so
// does all that was never sent, and what was is taken down.
func TestWhatWasNeverSentGoesElsewhere(t *testing.T) {
	state := cluster.NewState()
	report(t, state, machines("a", "b"))
	away, sent := true, map[cluster.TaskKey]bool{}
	d := rules.Deadlines{
		UnreachableAfter: 10 * time.Second, LostAfter: time.Hour,
		Away: func(cluster.ShardID) (cluster.Time, bool) { return at(0), away },
		Unsent: func(shard cluster.ShardID, run cluster.RunID) bool {
			return shard == "s" && run.Run == 1 && !sent[run.Task]
		},
	}
	single := submit(t, state, "single", func(s *cluster.JobSpec) { s.Instances = 2 })
	gang := submit(t, state, "gang", func(s *cluster.JobSpec) { s.Instances, s.Gang = 3, &cluster.Gang{Minimum: 3} })
	stateful := submit(t, state, "stateful", func(s *cluster.JobSpec) { s.Type = cluster.Stateful })
	key := cluster.MakeTaskKey
	sent[key(single, 1)], sent[key(gang, 1)] = true, true
	settle(t, state, at(1),
		&cluster.Placed{Task: key(single, 0), Run: 1, Host: "s/a"}, &cluster.Placed{Task: key(single, 1), Run: 1, Host: "s/a"},
		&cluster.Placed{Task: key(gang, 0), Run: 1, Host: "s/b"}, &cluster.Placed{Task: key(gang, 1), Run: 1, Host: "s/a"},
		&cluster.Placed{Task: key(gang, 2), Run: 1, Host: "s/a"}, &cluster.Placed{Task: key(stateful, 0), Run: 1, Host: "s/a"})
	expire := func(when time.Duration) {
		overdue := d.Overdue(state, at(when))
		tx := rules.Begin(state, at(when))
		require.NoError(t, d.Expire(tx))
		require.Equal(t, len(overdue) > 0, len(tx.Records()) > 0)
	}
	expire(10 * time.Second)
	require.Equal(t, cluster.TaskPlaced, state.Task(key(single, 0)).State)
	away = false // for a moment, in which launches may be sent
	expire(11 * time.Second)
	require.Equal(t, cluster.TaskPlaced, state.Task(key(single, 0)).State)
	away = true
	expire(12 * time.Second)
	for k, want := range map[cluster.TaskKey]cluster.TaskState{
		key(single, 0): cluster.TaskPending, key(single, 1): cluster.TaskPlaced, key(stateful, 0): cluster.TaskPending,
		key(gang, 0): cluster.TaskPending, key(gang, 1): cluster.TaskKilling, key(gang, 2): cluster.TaskPending,
	} {
		require.Equal(t, want, state.Task(k).State, k)
	}
	require.Equal(t, cluster.ReasonHostLost, state.Task(key(single, 0)).Reason)
	require.Zero(t, state.Task(key(single, 0)).Failures)
	require.Empty(t, state.Task(key(stateful, 0)).Home, "it has no data there")
	expire(13 * time.Second)
}

// Who wants nothing to be given up says so with a time that is longer than any.
func TestNothingIsGivenUpWhereThatWouldTakeLongerThanTimeGoesOn(t *testing.T) {
	away := true
	d := rules.Deadlines{
		UnreachableAfter: math.MaxInt64, LostAfter: math.MaxInt64,
		Away: func(cluster.ShardID) (cluster.Time, bool) { return at(0), away },
	}
	state := running(t)
	emit(t, state, at(0), &cluster.HostUnreached{ID: host, Reason: "cut off"})
	late := at(100 * 365 * 24 * time.Hour)
	require.Empty(t, d.Overdue(state, late))
	emit(t, state, at(0), &cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0), Reason: cluster.ReasonTaskStopped})
	away = false
	require.Empty(t, d.Overdue(state, late))
}

// A host that got out of reach at a time to come did so before the clock was set back: it is the shard's silence that counts.
func TestTasksAreGivenUpAfterTheClockWasSetBack(t *testing.T) {
	began := at(0)
	d := rules.Deadlines{
		UnreachableAfter: 10 * time.Second, LostAfter: time.Minute,
		Away: func(cluster.ShardID) (cluster.Time, bool) { return began, true },
	}
	state := running(t)
	require.NoError(t, d.Expire(rules.Begin(state, at(10*time.Second))))
	require.True(t, state.Host(host).Unreachable)
	began = at(-time.Hour)
	require.Empty(t, d.Overdue(state, began.Add(59*time.Second)))
	require.Equal(t, []cluster.HostID{host}, d.Overdue(state, began.Add(time.Minute)))
}

// Where the shard is connected and does not see the host, a run is told to end before another takes its place: the task waits
// for the end, or for as long as the shard may say nothing of it, which begins anew when the shard connects.
func TestARunEndsBeforeItsReplacementBegins(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	began, away := at(0), false
	d := rules.Deadlines{
		UnreachableAfter: 10 * time.Second, LostAfter: time.Minute,
		Away: func(cluster.ShardID) (cluster.Time, bool) { return began, away },
	}
	lost := func(t *testing.T) *cluster.State {
		state := running(t)
		emit(t, state, at(0), &cluster.HostUnreached{ID: host, Reason: "gone"})
		return state
	}
	expire := func(t *testing.T, state *cluster.State, now cluster.Time) *cluster.Task {
		overdue := d.Overdue(state, now)
		tx := rules.Begin(state, now)
		require.NoError(t, d.Expire(tx))
		require.Equal(t, len(overdue) > 0, len(tx.Records()) > 0)
		return state.Task(k)
	}
	end := at(time.Minute)
	patience := rules.StaleGrace + d.UnreachableAfter

	t.Run("it ends", func(t *testing.T) {
		state := lost(t)
		require.Equal(t, cluster.TaskRunning, expire(t, state, end-1).State)
		task := expire(t, state, end)
		require.Equal(t, cluster.TaskKilling, task.State)
		require.Equal(t, cluster.ReasonHostLost, task.Reason)
		grace, command := rules.Leave(task, state.Job(1).Spec)
		require.Equal(t, rules.StaleGrace, grace)
		require.Empty(t, command)
		_, err := rules.Report(rules.Begin(state, end), "s", &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled})
		require.NoError(t, err)
		require.Equal(t, cluster.TaskPending, state.Task(k).State)
	})
	t.Run("nothing is heard of it", func(t *testing.T) {
		state := lost(t)
		require.Equal(t, cluster.TaskKilling, expire(t, state, end).State)
		require.Equal(t, cluster.TaskKilling, expire(t, state, end.Add(patience)-1).State)
		require.Equal(t, cluster.TaskPending, expire(t, state, end.Add(patience)).State)
	})
	t.Run("the shard connects anew, and is told again", func(t *testing.T) {
		state := lost(t)
		require.Equal(t, cluster.TaskKilling, expire(t, state, end).State)
		began = end
		defer func() { began = at(0) }()
		require.Equal(t, cluster.TaskKilling, expire(t, state, end.Add(time.Minute)-1).State)
		require.Equal(t, cluster.TaskPending, expire(t, state, end.Add(time.Minute)).State)
	})
	t.Run("the shard goes away", func(t *testing.T) {
		state := lost(t)
		require.Equal(t, cluster.TaskKilling, expire(t, state, end).State)
		away = true
		defer func() { away = false }()
		require.Equal(t, cluster.TaskPending, expire(t, state, end).State)
	})
	t.Run("the user stops it first", func(t *testing.T) {
		state := lost(t)
		emit(t, state, at(55*time.Second), &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped})
		require.Equal(t, cluster.TaskKilling, expire(t, state, end).State)
		require.Equal(t, cluster.ReasonTaskStopped, state.Task(k).Reason)
		require.Equal(t, cluster.TaskLost, expire(t, state, end.Add(5*time.Second)).State)
	})
	t.Run("nothing is killed", func(t *testing.T) {
		state := lost(t)
		emit(t, state, at(0), &cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
		require.Equal(t, cluster.TaskRunning, expire(t, state, end.Add(time.Hour)).State)
		emit(t, state, at(0), &cluster.ModeSet{})
		require.Equal(t, cluster.TaskKilling, expire(t, state, end.Add(time.Hour)).State)
	})
}

// The loss of a member takes a gang down that has not come to run as a whole, also while the member is still to end.
func TestALostMemberGivesItsGangBack(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "gang", func(s *cluster.JobSpec) {
		s.Instances, s.Gang, s.Task.Resources = 2, &cluster.Gang{Minimum: 2}, size(100)
	})
	report(t, state, machines("h", "other"))
	first, second := cluster.MakeTaskKey(uid, 0), cluster.MakeTaskKey(uid, 1)
	emit(t, state, at(0),
		&cluster.Placed{Task: first, Run: 1, Host: host}, &cluster.Placed{Task: second, Run: 1, Host: "s/other"},
		&cluster.TaskStatus{Task: first, Run: 1, State: cluster.TaskRunning}, &cluster.HostUnreached{ID: host})
	d := rules.Deadlines{LostAfter: time.Minute, Away: func(cluster.ShardID) (cluster.Time, bool) { return at(0), false }}
	require.NoError(t, d.Expire(rules.Begin(state, at(time.Minute))))
	require.Equal(t, cluster.ReasonHostLost, state.Task(first).Reason)
	require.Equal(t, cluster.ReasonGangBroken, state.Task(second).Reason)
}

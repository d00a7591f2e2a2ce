package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// daemons returns the homes of a daemon's instances, by number, and their states.
func daemons(state *cluster.State, uid cluster.JobUID) (homes map[uint32]cluster.HostID, states map[uint32]cluster.TaskState) {
	homes, states = map[uint32]cluster.HostID{}, map[uint32]cluster.TaskState{}
	for t := range state.TasksOf(uid, 0) {
		homes[t.Key.Instance()], states[t.Key.Instance()] = t.Home, t.State
	}
	return homes, states
}

// report has the shard see exactly these hosts, and settles.
func report(t *testing.T, state *cluster.State, machines map[string]cluster.Machine) {
	t.Helper()
	tx := rules.Begin(state, at(0))
	require.NoError(t, rules.ReportHosts(tx, "s", machines, nil, true))
	require.NoError(t, rules.Settle(tx))
}

// A daemon has one instance for every host that matches, with room held before anything else can be placed there, and under
// numbers that stay.
func TestADaemonIsOnEveryHostThatMatches(t *testing.T) {
	state := running(t)
	fleet := machines("h", "a", "b", "small")
	fleet["small"] = cluster.Machine{Capacity: size(50)}
	odd := fleet["b"]
	odd.Attributes = []cluster.KeyValue{{Key: "gpu", Value: "no"}}
	fleet["b"] = odd
	report(t, state, fleet)
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) {
		s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100)
		s.Constraint = &cluster.Constraint{Op: cluster.HostLabel, Label: cluster.KeyValue{Key: "gpu"}, AnyValue: true, Comparison: cluster.Equal}
	})
	homes, states := daemons(state, uid)
	require.Equal(t, map[uint32]cluster.HostID{0: "s/a", 1: "s/h"}, homes)
	require.Equal(t, map[uint32]cluster.TaskState{0: cluster.TaskReserved, 1: cluster.TaskReserved}, states)
	a := state.Host("s/a")
	require.Equal(t, size(900), a.Room())
	elsewhere := &cluster.Placed{Task: cluster.MakeTaskKey(uid, 0), Run: 1, Host: "s/b"}
	require.ErrorContains(t, rules.Begin(state, at(0)).Emit(elsewhere), "only")

	fleet["joins"] = fleet["a"]
	delete(fleet, "a")
	report(t, state, fleet)
	homes, _ = daemons(state, uid)
	require.Equal(t, map[uint32]cluster.HostID{0: "s/joins", 1: "s/h"}, homes, "one went with its host, one came with another")
	fleet["joins"] = odd
	report(t, state, fleet)
	homes, _ = daemons(state, uid)
	require.Equal(t, map[uint32]cluster.HostID{1: "s/h"}, homes, "a host that does not match any more loses its own")
	spec := *state.Job(uid).Spec
	spec.Priority = 9
	settle(t, state, at(0), &cluster.JobUpdated{Job: uid, Spec: &spec})
	homes, _ = daemons(state, uid)
	require.Equal(t, map[uint32]cluster.HostID{1: "s/h"}, homes, "an update takes no instance away")
	settle(t, state, at(0), &cluster.JobStopping{Job: uid})
	require.Equal(t, cluster.JobKilled, state.Job(uid).State())
	require.Empty(t, state.Daemons())
}

// A daemon runs on the hosts of its pool, and follows when these change.
func TestADaemonStaysInsideItsPoolsHosts(t *testing.T) {
	state := running(t)
	lab := []cluster.KeyValue{{Key: "hosts", Value: "lab"}}
	fleet := machines("h", "a", "b")
	a := fleet["a"]
	a.Attributes = lab
	fleet["a"] = a
	report(t, state, fleet)
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100) })
	pool := *state.Pool(state.Job(uid).Spec.Pool)
	for hosts, want := range map[int]int{0: 3, 1: 1} {
		pool.Hosts = lab[:hosts]
		settle(t, state, at(0), &cluster.PoolPut{Pool: pool})
		homes, _ := daemons(state, uid)
		require.Len(t, homes, want)
	}
}

// A daemon runs until its job is stopped: one whose instances were all stopped comes to a host that joins.
func TestADaemonWithoutInstancesWaitsForHosts(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100) })
	settle(t, state, at(0), &cluster.TaskStopping{Task: cluster.MakeTaskKey(uid, 0), Reason: cluster.ReasonTaskStopped})
	_, states := daemons(state, uid)
	require.Equal(t, map[uint32]cluster.TaskState{0: cluster.TaskKilled}, states)
	require.False(t, state.Job(uid).State().Terminal(), "its only instance was stopped, not the job")
	report(t, state, machines("h", "joins"))
	_, states = daemons(state, uid)
	require.Equal(t, map[uint32]cluster.TaskState{0: cluster.TaskKilled, 1: cluster.TaskReserved}, states)
	settle(t, state, at(0), &cluster.JobStopping{Job: uid})
	require.Equal(t, cluster.JobKilled, state.Job(uid).State())
}

// Daemons leave a host that is drained last, and come back when it is resumed.
func TestDaemonsAreLastOff(t *testing.T) {
	state := running(t) // a batch task runs on the host
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100) })
	k := cluster.MakeTaskKey(uid, 0)
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	settle(t, state, at(1), &cluster.HostDrain{ID: host, Drain: true})
	require.Equal(t, cluster.TaskRunning, state.Task(k).State)
	end := func(k cluster.TaskKey, as cluster.TaskState) {
		tx := rules.Begin(state, at(2))
		_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 1, State: as})
		require.NoError(t, err)
		require.NoError(t, rules.Settle(tx))
	}
	end(cluster.MakeTaskKey(1, 0), cluster.TaskSucceeded)
	require.Equal(t, cluster.TaskKilling, state.Task(k).State)
	require.Equal(t, cluster.ReasonDrained, state.Task(k).Reason)
	end(k, cluster.TaskKilled)
	require.Equal(t, cluster.TaskPending, state.Task(k).State, "it waits for its host")
	settle(t, state, at(3), &cluster.HostDrain{ID: host})
	require.Equal(t, cluster.TaskReserved, state.Task(k).State)
}

// A daemon comes to a host when that takes work.
func TestADaemonComesWhenAHostTakesWork(t *testing.T) {
	state := running(t)
	settle(t, state, at(0), &cluster.HostDrain{ID: host, Drain: true})
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100) })
	homes, _ := daemons(state, uid)
	require.Empty(t, homes)
	settle(t, state, at(1), &cluster.HostDrain{ID: host})
	homes, _ = daemons(state, uid)
	require.Equal(t, map[uint32]cluster.HostID{0: host}, homes)
}

// While nothing is killed they stay, and go when that is over.
func TestDaemonsStayWhileNothingIsKilled(t *testing.T) {
	state := running(t)
	uid := submit(t, state, "daemon", func(s *cluster.JobSpec) { s.Type, s.Instances, s.Task.Resources = cluster.Daemon, 0, size(100) })
	k := cluster.MakeTaskKey(uid, 0)
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	settle(t, state, at(1), &cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
	settle(t, state, at(1), &cluster.HostDrain{ID: host, Drain: true})
	settle(t, state, at(2), &cluster.TaskStatus{Task: cluster.MakeTaskKey(1, 0), Run: 1, State: cluster.TaskSucceeded})
	require.Equal(t, cluster.TaskRunning, state.Task(k).State)
	settle(t, state, at(3), &cluster.ModeSet{})
	require.Equal(t, cluster.TaskKilling, state.Task(k).State)
}

// A stateful instance comes back to its host only, whose room for it nobody else gets, and may go elsewhere when its data is
// given up.
func TestAStatefulTaskComesBack(t *testing.T) {
	state := running(t)
	report(t, state, machines("h", "other"))
	uid := submit(t, state, "stateful", func(s *cluster.JobSpec) { s.Type, s.Task.Resources = cluster.Stateful, size(600) })
	k := cluster.MakeTaskKey(uid, 0)
	require.Equal(t, cluster.TaskPending, state.Task(k).State, "it may begin anywhere")
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: "s/other"})
	lose := func(run uint32) {
		tx := rules.Begin(state, at(0))
		_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: run, State: cluster.TaskLost})
		require.NoError(t, err)
		require.NoError(t, rules.Settle(tx))
	}
	lose(1)
	require.Equal(t, cluster.TaskReserved, state.Task(k).State)
	require.Equal(t, size(400), state.Host("s/other").Room())
	require.Error(t, rules.Begin(state, at(0)).Emit(&cluster.Placed{Task: k, Run: 2, Host: host}))
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 2, Host: "s/other"})
	require.Error(t, rules.Begin(state, at(0)).Emit(&cluster.HomeForgotten{Task: k}), "it runs")
	lose(2)
	settle(t, state, at(0), &cluster.HomeForgotten{Task: k})
	require.Equal(t, cluster.TaskPending, state.Task(k).State)
	require.Equal(t, size(1000), state.Host("s/other").Room())
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 3, Host: host})
	require.Equal(t, []cluster.TaskKey{k}, state.HomeTo(host))
}

// A stateful instance whose launches were all given back has no data anywhere, and is not bound to the host that cannot have it. One that
// began is, whatever is given back later.
func TestAStatefulTaskThatNeverBeganIsBoundToNoHost(t *testing.T) {
	state := running(t)
	report(t, state, machines("h", "other"))
	uid := submit(t, state, "stateful", func(s *cluster.JobSpec) { s.Type, s.Task.Resources = cluster.Stateful, size(600) })
	k := cluster.MakeTaskKey(uid, 0)
	refuse := func(run uint32) {
		settle(t, state, at(time.Duration(run)), &cluster.Placed{Task: k, Run: run, Host: "s/other"})
		tx := rules.Begin(state, at(time.Duration(run)))
		_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: run, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchRefused})
		require.NoError(t, err)
		require.NoError(t, rules.Settle(tx))
	}
	refuse(1)
	require.Empty(t, state.Task(k).Home)
	require.Equal(t, cluster.TaskPending, state.Task(k).State)
	require.Equal(t, size(1000), state.Host("s/other").Room())
	refuse(2)
	require.Empty(t, state.Task(k).Home)
	settle(t, state, state.Task(k).NotBefore, &cluster.TaskReleased{Task: k})
	settle(t, state, at(9), &cluster.Placed{Task: k, Run: 3, Host: "s/other"}, &cluster.TaskStatus{Task: k, Run: 3, State: cluster.TaskRunning})
	settle(t, state, at(9), &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: true})
	tx := rules.Begin(state, at(9))
	_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 3, State: cluster.TaskKilled})
	require.NoError(t, err)
	require.NoError(t, rules.Settle(tx))
	refuse(4)
	require.Equal(t, cluster.HostID("s/other"), state.Task(k).Home)

	settle(t, state, at(20), &cluster.HomeForgotten{Task: k})
	refuse(5)
	require.Empty(t, state.Task(k).Home, "its data is gone, and there is no other")
	resize := func(instances uint32) {
		spec := *state.Job(uid).Spec
		spec.Instances = instances
		settle(t, state, at(20), &cluster.JobUpdated{Job: uid, Spec: &spec})
	}
	resize(2)
	k = cluster.MakeTaskKey(uid, 1)
	settle(t, state, at(20), &cluster.Placed{Task: k, Run: 1, Host: "s/h"}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost})
	resize(1)
	resize(2)
	refuse(2)
	require.Empty(t, state.Task(k).Home, "another instance had that number before")
}

// waitAtHome has a stateful task run on s/a, and wait there to run again.
func waitAtHome(t *testing.T, state *cluster.State, k cluster.TaskKey) {
	t.Helper()
	settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: "s/a"})
	settle(t, state, at(0), &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: true})
	tx := rules.Begin(state, at(0))
	_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled})
	require.NoError(t, err)
	require.NoError(t, rules.Settle(tx))
	require.Equal(t, cluster.TaskReserved, state.Task(k).State)
}

// What is run before a task leaves is part of what its host has to be able to do.
func TestAHomeCanWarn(t *testing.T) {
	state := running(t)
	fleet := machines("h", "a")
	a := fleet["a"]
	a.Capabilities = cluster.CanWarn
	fleet["a"] = a
	report(t, state, fleet)
	warned := func(s *cluster.JobSpec) {
		s.Task.Resources, s.Preemption.Command = size(600), []string{"save"}
	}
	stateful := submit(t, state, "stateful", func(s *cluster.JobSpec) { warned(s); s.Type = cluster.Stateful })
	k := cluster.MakeTaskKey(stateful, 0)
	waitAtHome(t, state, k)
	a.Capabilities = 0
	fleet["a"] = a
	report(t, state, fleet)
	require.Equal(t, cluster.TaskPending, state.Task(k).State, "its host cannot run it any more, and keeps nothing from others")
	require.Equal(t, size(1000), state.Host("s/a").Room())

	a.Capabilities = cluster.CanWarn
	fleet["a"] = a
	settle(t, state, at(0), &cluster.JobStopping{Job: stateful})
	report(t, state, fleet)
	homes, _ := daemons(state, submit(t, state, "daemon", func(s *cluster.JobSpec) { warned(s); s.Type, s.Instances = cluster.Daemon, 0 }))
	require.Equal(t, map[uint32]cluster.HostID{0: "s/a"}, homes)
}

// A host where a stateful task may not run any more keeps nothing for it, and does again when it may.
func TestAHomeKeepsNothingForWhoMayNotRunThere(t *testing.T) {
	state := running(t)
	report(t, state, machines("h", "a"))
	uid := submit(t, state, "stateful", func(s *cluster.JobSpec) { s.Type, s.Task.Resources = cluster.Stateful, size(600) })
	k := cluster.MakeTaskKey(uid, 0)
	waitAtHome(t, state, k)
	here := cluster.Constraint{Label: cluster.KeyValue{Key: cluster.LabelHostname, Value: "s/a"}, Comparison: cluster.Greater}
	there, around := here, cluster.Constraint{Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: "web"}, Domain: cluster.DomainHost}
	there.Comparison = cluster.Equal
	pool := *state.Pool(state.Job(uid).Spec.Pool)
	for name, c := range map[string]struct {
		constraint *cluster.Constraint
		hosts      []cluster.KeyValue
		want       cluster.TaskState
	}{
		"elsewhere by its job":    {&there, nil, cluster.TaskPending},
		"here by its job":         {&here, nil, cluster.TaskReserved},
		"where others allow it":   {&around, nil, cluster.TaskReserved},
		"elsewhere by its pool":   {nil, []cluster.KeyValue{{Key: cluster.LabelHostname, Value: "s/h"}}, cluster.TaskPending},
		"here by its pool":        {nil, []cluster.KeyValue{here.Label}, cluster.TaskReserved},
		"nowhere else in the end": {nil, nil, cluster.TaskReserved},
	} {
		spec := *state.Job(uid).Spec
		spec.Constraint, pool.Hosts = c.constraint, c.hosts
		settle(t, state, at(0), &cluster.JobUpdated{Job: uid, Spec: &spec, Update: &cluster.Update{From: state.Job(uid).Version}})
		settle(t, state, at(0), &cluster.PoolPut{Pool: pool})
		require.Equal(t, c.want, state.Task(k).State, name)
		room := size(1000)
		if c.want == cluster.TaskReserved {
			room = size(400)
		}
		require.Equal(t, room, state.Host("s/a").Room(), name)
	}
}

// A job with a controller ends as that does, and takes the others with it.
func TestAJobEndsWithItsController(t *testing.T) {
	for end, want := range map[cluster.TaskState]cluster.JobState{
		cluster.TaskSucceeded: cluster.JobSucceeded, cluster.TaskFailed: cluster.JobFailed,
	} {
		state := running(t)
		uid := submit(t, state, "controlled", func(s *cluster.JobSpec) { s.Controller, s.Instances = true, 3 })
		other := cluster.MakeTaskKey(uid, 1)
		settle(t, state, at(0), &cluster.Placed{Task: other, Run: 1, Host: host})
		ends(t, state, uid, end)
		require.Equal(t, cluster.JobKilling, state.Job(uid).State())
		require.Equal(t, cluster.TaskKilling, state.Task(other).State)
		require.Equal(t, cluster.ReasonController, state.Job(uid).StopReason)
		settle(t, state, at(0), &cluster.TaskStatus{Task: other, Run: 1, State: cluster.TaskKilled})
		require.Equal(t, want, state.Job(uid).State())
	}
}

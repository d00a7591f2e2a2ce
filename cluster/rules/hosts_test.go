package rules_test

import (
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
	report := func(names ...string) {
		require.NoError(t, rules.ReportHosts(rules.Begin(state, at(0)), "s", machines(names...), nil, true))
	}
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
	began = at(0)
	require.Equal(t, cluster.TaskRunning, expire(at(69*time.Second)))
	require.Equal(t, cluster.TaskPending, expire(at(70*time.Second)))
}

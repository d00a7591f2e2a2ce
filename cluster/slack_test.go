package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lending is a history with a task of 6,000 on a host of 10,000, and a revocable job of two tasks of 2,000.
func lending(t *testing.T) *history {
	h := newHistory(t)
	spec := func(name cluster.JobID, n uint32, cpu int64, revocable bool) *cluster.JobSpec {
		return &cluster.JobSpec{
			Name: name, Pool: cluster.RootPool, Instances: n, Revocable: revocable, Task: cluster.TaskSpec{Resources: vector(cpu, 0)},
		}
	}
	h.emit(
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 0)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec("a", 1, 6000, false)}, {UID: 2, Spec: spec("b", 2, 2000, true)}}},
	)
	h.place(0)
	return h
}

func lend(i uint32) *cluster.Placed {
	return &cluster.Placed{Task: cluster.MakeTaskKey(2, i), Run: 1, Host: host}
}

func TestRevocableTasksHoldSlackOnly(t *testing.T) {
	h := lending(t)
	require.ErrorIs(t, h.try(lend(0)), cluster.ErrIllegal, "nothing is measured")
	h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(3000, 0)}, lend(0))
	require.ErrorIs(t, h.try(lend(1)), cluster.ErrIllegal, "only 1,000 are left of it")
	require.ErrorIs(t, h.try(&cluster.TaskHeld{Task: cluster.MakeTaskKey(2, 1), Hold: cluster.Hold{Host: host, Until: 9}}), cluster.ErrIllegal)
	is := h.state.Host(host)
	require.Equal(t, vector(6000, 0), is.Allocated)
	require.Equal(t, vector(2000, 0), is.Lent)
	require.Equal(t, vector(4000, 0), is.Free())
	require.Equal(t, vector(1000, 0), is.Spare())

	h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(500, 0)})
	is = h.state.Host(host)
	require.Equal(t, vector(1500, 0), is.Excess())
	require.Equal(t, vector(2500, 0), is.Free())
	require.Zero(t, is.Spare())

	h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(3000, 0)})
	require.NoError(t, h.report(0, cluster.TaskSucceeded))
	is = h.state.Host(host)
	require.Zero(t, is.Slack, "it was that task's")
	require.Equal(t, vector(8000, 0), is.Free())
	require.ErrorIs(t, h.try(&cluster.SlackMeasured{Host: host, Slack: vector(-1, 0)}), cluster.ErrIllegal)
	require.ErrorIs(t, h.try(&cluster.SlackMeasured{Host: "s/none"}), cluster.ErrIllegal)

	spec := *h.state.Job(2).Spec
	spec.Revocable = false
	require.ErrorIs(t, h.try(&cluster.JobUpdated{Job: 2, Spec: &spec}), cluster.ErrIllegal)
}

// What is withheld for a hold does not count on more than revocable tasks give back that leave.
func TestHoldsCountOnWhatRevocableTasksGiveBack(t *testing.T) {
	h := lending(t)
	h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(2000, 0)}, lend(0))
	h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(500, 0)}) // 1,500 of the 2,000 are on what is free
	spec := &cluster.JobSpec{Name: "c", Pool: cluster.RootPool, Instances: 1, Task: cluster.TaskSpec{Resources: vector(3000, 0)}}
	h.emit(
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: spec}}},
		&cluster.TaskHeld{Task: cluster.MakeTaskKey(3, 0), Hold: cluster.Hold{Host: host, Until: 100}},
		&cluster.TaskPreempted{Task: cluster.MakeTaskKey(2, 0), Run: 1, Preemption: cluster.Preemption{For: cluster.MakeTaskKey(3, 0)}},
	)
	is := h.state.Host(host)
	require.Equal(t, vector(1500, 0), is.Withheld)
	require.Equal(t, vector(1000, 0), is.Room())
	h.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(2, 0), Run: 1, State: cluster.TaskKilled})
	is = h.state.Host(host)
	require.Equal(t, vector(3000, 0), is.Withheld)
	require.Equal(t, vector(1000, 0), is.Room())
}

func TestLendingCountsJobsThatAskForSlack(t *testing.T) {
	h := lending(t)
	require.Equal(t, 1, h.state.Lending())
	snapshot, _ := h.state.Snapshot()
	again := newHistory(t)
	for part := range snapshot.Parts() {
		require.NoError(t, again.state.Apply(cluster.Record{Event: part}))
	}
	require.Equal(t, 1, again.state.Lending())
	h.emit(&cluster.JobStopping{Job: 2})
	require.Zero(t, h.state.Lending())
	more := *h.state.Job(2).Spec
	more.Instances = 3
	h.emit(&cluster.JobUpdated{Job: 2, Spec: &more})
	require.Equal(t, 1, h.state.Lending(), "the third one waits")
}

// The count of jobs that may ask for slack follows an update that gives a job whose instances were all stopped one more.
func TestLendingFollowsSurge(t *testing.T) {
	h := newHistory(t)
	h.emit(
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Type: cluster.Stateless, Pool: cluster.RootPool, Instances: 1, Revocable: true, Task: cluster.TaskSpec{Resources: vector(100, 1)},
		}}}},
		&cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0), Reason: cluster.ReasonTaskStopped},
	)
	require.Zero(t, h.state.Lending())
	begin := cluster.Update{From: 1, To: 1, State: cluster.UpdateInitialized}
	h.emit(&cluster.UpdateAdvanced{Job: 1, Update: begin, Surge: 1, Begins: true})
	require.Equal(t, 1, h.state.Lending())
	require.Equal(t, h.state.Lending(), restored(t, h.state).Lending())
	h.emit(&cluster.JobStopping{Job: 1})
	require.Zero(t, h.state.Lending())
}

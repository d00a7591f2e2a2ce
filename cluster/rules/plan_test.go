package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// TestRefusals: what a state has refused twice is not tried a third time at once.
func TestRefusals(t *testing.T) {
	state := cluster.NewState()
	var r rules.Refusals
	next := func(refused int) (time.Duration, bool) {
		snapshot, _ := state.Snapshot()
		return r.Next(snapshot, refused)
	}
	for _, step := range []struct {
		changes bool
		refused int
		pause   time.Duration
	}{
		{refused: 0},
		{refused: 1},
		{refused: 1, pause: rules.RefusedPause},
		{refused: 2, pause: rules.RefusedPause},
		{refused: 2, changes: true},
		{refused: 0},
		{refused: 1},
	} {
		if step.changes {
			require.NoError(t, rules.Begin(state, 1).Emit(&cluster.ClusterCreated{ID: "c"}))
		}
		pause, again := next(step.refused)
		require.Equal(t, step.refused > 0, again)
		require.Equal(t, step.pause, pause)
	}
}

// TestNoMoreStartThanTheJobSays: how many tasks may run at once is asked again when a plan is carried out, for it may have been made for
// another version of the job.
func TestNoMoreStartThanTheJobSays(t *testing.T) {
	state := cluster.NewState()
	tx := rules.Begin(state, 1)
	spec := &cluster.JobSpec{Name: "job", Pool: cluster.RootPool, Instances: 2}
	host := cluster.MakeHostID("s", "h")
	require.NoError(t, tx.Emit(&cluster.HostReported{ID: host}))
	require.NoError(t, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}}))
	var plan [][]cluster.Event
	for i := range uint32(2) {
		plan = append(plan, []cluster.Event{&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: host}})
	}
	fewer := *spec
	fewer.Limits.MaxRunning = 1
	require.NoError(t, tx.Emit(&cluster.JobUpdated{Job: 1, Spec: &fewer}))
	var wrong error
	require.Equal(t, 1, rules.Commit(tx, plan, func(_ []cluster.Event, err error) { wrong = err }))
	require.ErrorContains(t, wrong, "as many tasks at once as it may")
	require.EqualValues(t, 1, state.Job(1).OnHosts())
}

// TestAPlanIsHeldToTheMode: what was switched off while the plan was made is not done any more.
func TestAPlanIsHeldToTheMode(t *testing.T) {
	state := cluster.NewState()
	tx := rules.Begin(state, 1)
	host := cluster.MakeHostID("s", "h")
	require.NoError(t, tx.Emit(&cluster.HostReported{ID: host}))
	require.NoError(t, tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{
		{UID: 1, Spec: &cluster.JobSpec{Name: "job", Pool: cluster.RootPool, Instances: 2, Preemptible: true}},
	}}))
	there, waits := cluster.MakeTaskKey(1, 0), cluster.MakeTaskKey(1, 1)
	require.NoError(t, tx.Emit(&cluster.Placed{Task: there, Run: 1, Host: host}))
	plan := [][]cluster.Event{
		{&cluster.Placed{Task: waits, Run: 1, Host: host}},
		{&cluster.TaskPreempted{Task: there, Run: 1}},
	}
	commit := func(mode cluster.Mode) (refused []error) {
		require.NoError(t, tx.Emit(&cluster.ModeSet{Mode: mode}))
		rules.Commit(tx, plan, func(_ []cluster.Event, err error) { refused = append(refused, err) })
		return refused
	}
	refused := commit(cluster.Mode{SchedulingStopped: true})
	require.Len(t, refused, 2)
	require.ErrorContains(t, refused[0], "scheduling is switched off")
	require.Equal(t, cluster.TaskPending, state.Task(waits).State)
	refused = commit(cluster.Mode{Restored: true})
	require.Len(t, refused, 2)
	require.ErrorContains(t, refused[0], "what runs since the snapshot")
	refused = commit(cluster.Mode{KillingStopped: true})
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[0], "killing is switched off")
	require.Equal(t, cluster.TaskPlaced, state.Task(there).State)
	require.Equal(t, cluster.TaskPlaced, state.Task(waits).State)
	plan = plan[1:]
	require.Empty(t, commit(cluster.Mode{}))
	require.Equal(t, cluster.TaskPreempting, state.Task(there).State)
}

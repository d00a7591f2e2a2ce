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
	require.Equal(t, 1, rules.Commit(tx, plan, func(_ cluster.Event, err error) { wrong = err }))
	require.ErrorContains(t, wrong, "as many tasks at once as it may")
	require.EqualValues(t, 1, state.Job(1).OnHosts())
}

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

// Package rulestest checks what holds of every state that the rules have settled.
package rulestest

import (
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// Settled requires that nothing is left to do at that time in the state that begins with the snapshot, whatever is looked at.
// Complexity: that of [rules.Settle] if everything has changed.
func Settled(t require.TestingT, snapshot *cluster.Snapshot, now cluster.Time) {
	state := cluster.NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, state.Apply(cluster.Record{Seq: snapshot.Seq(), Event: part}))
	}
	changed := state.Changed()
	for h := range state.Hosts("") {
		changed.Hosts = append(changed.Hosts, h.ID)
	}
	for j := range state.Jobs(0) {
		changed.Jobs = append(changed.Jobs, j.UID)
	}
	for task := range state.Tasks(0) {
		changed.Tasks = append(changed.Tasks, task.Key)
	}
	tx := rules.Begin(state, now)
	require.NoError(t, rules.Settle(tx))
	for _, r := range tx.Records() {
		require.Fail(t, "what was settled is not", "%T%+v", r.Event, r.Event)
	}
}

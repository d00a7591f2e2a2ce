package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// While nothing is killed neither an update nor a drain asks anything to leave, in whichever order they come and whatever the
// time; both go on when that is over.
func TestNothingLeavesWhileNothingIsKilled(t *testing.T) {
	mode := func(w *serving, stopped bool) {
		w.do(func(tx *rules.Tx) error {
			return tx.Emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: stopped}})
		})
	}
	policy := &cluster.UpdatePolicy{BatchSize: 2, MinHealthy: time.Second}
	begin := func(w *serving) {
		w.update(serviceSpec(6, serves, 1, policy))
		w.do(func(tx *rules.Tx) error {
			return tx.Emit(&cluster.HostDrain{ID: hostID(0), Drain: true, Move: true, Reason: "repair"})
		})
	}
	for name, before := range map[string]func(w *serving){
		"stopped before": func(w *serving) { mode(w, true); begin(w) },
		"stopped under way": func(w *serving) {
			begin(w)
			mode(w, true)
			for _, task := range w.tasks() { // what was asked already goes, and runs again
				for w.state.Task(task.Key).State != cluster.TaskRunning {
					require.True(w.t, w.turn(w.state.Task(task.Key)))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServing(t, serviceSpec(6, serves, 0, nil), 3)
			w.settle()
			before(w)
			runs := map[cluster.TaskKey]uint32{}
			for _, task := range w.tasks() {
				runs[task.Key] = task.Run
			}
			for range 20 {
				w.now = w.now.Add(time.Minute)
				w.ring()
				for _, task := range w.tasks() {
					w.turn(task)
				}
			}
			for _, task := range w.tasks() {
				require.Equal(t, cluster.TaskRunning, task.State, "%v", w)
				require.Equal(t, runs[task.Key], task.Run)
			}
			require.True(t, w.state.Job(servingJob).Update.Live())
			require.NotEmpty(t, w.state.Host(hostID(0)).Tasks)

			mode(w, false)
			w.settle()
			require.Equal(t, cluster.UpdateSucceeded, w.state.Job(servingJob).Update.State)
			require.Empty(t, w.state.Host(hostID(0)).Tasks)
		})
	}
}

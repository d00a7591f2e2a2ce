//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// audit reads the whole history of a scheduler that was killed and never wrote a checkpoint, and holds everything that it did
// of its own accord to the availability budget of a service: with what it took away, no more instances were out of service
// than the spec of that moment bears. What serves is counted here, from the tasks. It returns how many instances were taken,
// by reason.
func (s *site) audit(t *testing.T, job cluster.JobID) map[cluster.Reason]int {
	t.Helper()
	history, err := journal.Open(filepath.Join(s.path("state"), "journal"), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, history.Close()) }()
	state := cluster.NewState()
	taken := map[cluster.Reason]int{}
	first := uint64(0)
	require.NoError(t, history.Replay(func(r cluster.Record) error {
		if first == 0 {
			first = r.Seq
		}
		before := serving(state, job)
		if err := state.Apply(r); err != nil {
			return err
		}
		j := state.JobByName(job)
		if j == nil || j.Stopping || serving(state, job) >= before {
			return nil
		}
		var why cluster.Reason
		switch e := r.Event.(type) {
		case *cluster.TaskStopping:
			why = e.Reason
		case *cluster.TaskUpdated:
			why = e.Reason
		case *cluster.TaskPreempted:
			why = cluster.ReasonPreempted
		case *cluster.UpdateAdvanced, *cluster.JobUpdated:
			why = cluster.ReasonRemoved
		case *cluster.TaskStatus, *cluster.TaskHealth, *cluster.HostUnreached:
			return nil // what befell it
		default:
			require.Failf(t, "nobody knows why it lost an instance", "%T %+v", e, e)
		}
		taken[why]++
		out := int64(j.Spec.Instances) - int64(serving(state, job))
		require.LessOrEqual(t, out, j.Spec.MaxAway(), "record %d takes one more away: %T %+v", r.Seq, r.Event, r.Event)
		return nil
	}))
	require.EqualValues(t, 1, first, "the history is whole")
	return taken
}

// serving counts the instances that run where somebody vouches for their host, and that say that they are fit to serve.
func serving(in *cluster.State, job cluster.JobID) (n int) {
	j := in.JobByName(job)
	if j == nil {
		return 0
	}
	for task := range in.TasksOf(j.UID, 0) {
		h := in.Host(task.Host)
		if task.State == cluster.TaskRunning && task.Health == cluster.HealthReady && h != nil && !h.Unreachable {
			n++
		}
	}
	return n
}

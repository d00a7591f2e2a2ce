package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

const host = cluster.HostID("s/h")

// running returns a state in which task 1.0 runs on the host, with failures to spare.
func running(t *testing.T) *cluster.State {
	state := cluster.NewState()
	k := cluster.MakeTaskKey(1, 0)
	emit(t, state, 1,
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 1, MaxFailures: 5,
		}}}},
		&cluster.Placed{Task: k, Run: 1, Host: host},
		&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
	)
	return state
}

func emit(t *testing.T, state *cluster.State, at cluster.Time, events ...cluster.Event) {
	tx := rules.Begin(state, at)
	for _, e := range events {
		require.NoError(t, tx.Emit(e))
	}
}

// A task that the user stopped does not run again, however its run ended; one that was restarted does.
func TestAStoppedTaskIsNotRetried(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for _, end := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled} {
		for _, restart := range []bool{false, true} {
			state := running(t)
			emit(t, state, 2, &cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped, Restart: restart})
			verdict, err := rules.Report(rules.Begin(state, 3), &cluster.TaskStatus{Task: k, Run: 1, State: end})
			require.NoError(t, err)
			require.Equal(t, rules.Applied, verdict)
			want := end
			if restart {
				want = cluster.TaskPending
			}
			require.Equal(t, want, state.Task(k).State, "restart %v, ends %v", restart, end)
		}
	}
}

package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// Whichever of a task and its copy ends how, at most one of them goes on, and none is left over.
func TestATaskAndItsCopy(t *testing.T) {
	const there, away = cluster.TaskRunning, cluster.NumTaskStates // away: it exists no more
	k := cluster.MakeTaskKey(1, 0)
	reports := func(k cluster.TaskKey, s cluster.TaskState) func(*testing.T, *cluster.State) {
		return func(t *testing.T, state *cluster.State) {
			tx := rules.Begin(state, at(1))
			_, err := rules.Report(tx, shard, &cluster.TaskStatus{Task: k, Run: state.Task(k).Run, State: s})
			require.NoError(t, err)
			require.NoError(t, rules.Settle(tx))
		}
	}
	emits := func(e cluster.Event) func(*testing.T, *cluster.State) {
		return func(t *testing.T, state *cluster.State) { settle(t, state, at(1), e) }
	}
	for _, c := range []struct {
		name       string
		happens    func(*testing.T, *cluster.State)
		task, copy cluster.TaskState
	}{
		{"the task succeeds", reports(k, cluster.TaskSucceeded), cluster.TaskSucceeded, cluster.TaskKilling},
		{"the copy succeeds", reports(k.Copy(), cluster.TaskSucceeded), cluster.TaskKilling, away},
		{"the copy fails", reports(k.Copy(), cluster.TaskFailed), there, away},
		{"the copy is lost", reports(k.Copy(), cluster.TaskLost), there, away},
		{"the task fails and waits again", reports(k, cluster.TaskFailed), cluster.TaskPending, there},
		{"the task is lost", reports(k, cluster.TaskLost), cluster.TaskPending, there},
		{"the host of the task is lost", emits(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonHostLost, Restart: true}), cluster.TaskKilling, there},
		{"the task is to leave for another", emits(&cluster.TaskPreempted{Task: k, Run: 1}), cluster.TaskPreempting, there},
		{"the copy is to leave for another", emits(&cluster.TaskPreempted{Task: k.Copy(), Run: 1}), there, cluster.TaskPreempting},
		{"the user stops the task", emits(&cluster.TaskStopping{Task: k}), cluster.TaskKilling, cluster.TaskKilling},
		{"the user restarts the task", emits(&cluster.TaskStopping{Task: k, Restart: true}), cluster.TaskKilling, cluster.TaskKilling},
		{"the user stops the job", emits(&cluster.JobStopping{Job: 1}), cluster.TaskKilling, cluster.TaskKilling},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := cluster.NewState()
			capacity := machines("h")["h"]
			settle(t, state, at(0), &cluster.HostReported{ID: host, Machine: capacity}, &cluster.HostReported{ID: "s/other", Machine: capacity})
			submit(t, state, "job", func(s *cluster.JobSpec) {
				s.Speculation, s.MaxFailures, s.Preemptible = &cluster.Speculation{}, 1, true
			})
			settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: there})
			tx := rules.Begin(state, at(0))
			chosen := cluster.CopyAdded{Task: k, Run: 1}
			require.NoError(t, rules.Copy(tx, []cluster.CopyAdded{{Task: k, Run: 7}, chosen, chosen}))
			require.Len(t, tx.Records(), 1, "what is no longer so is left out")
			settle(t, state, at(0), &cluster.Placed{Task: k.Copy(), Run: 1, Host: "s/other"}, &cluster.TaskStatus{Task: k.Copy(), Run: 1, State: there})

			c.happens(t, state)
			require.Equal(t, c.task, state.Task(k).State)
			if copied := state.Task(k.Copy()); c.copy == away {
				require.Nil(t, copied)
			} else {
				require.Equal(t, c.copy, copied.State)
				require.Equal(t, c.copy == cluster.TaskKilling, copied.Removed)
			}
			for _, left := range []cluster.TaskKey{k, k.Copy()} { // what was told to end does
				if task := state.Task(left); task != nil && task.State.Vacating() {
					reports(left, cluster.TaskKilled)(t, state)
				}
			}
			if c.copy != there {
				require.Nil(t, state.Task(k.Copy()))
			}
		})
	}
}

// A copy goes where an update gives its task, which waits again, something else to run: its success would be that of the spec before.
func TestACopyGoesWithItsSpec(t *testing.T) {
	for command, there := range map[string]bool{"other": false, "": true} {
		k := cluster.MakeTaskKey(1, 0)
		state := cluster.NewState()
		capacity := machines("h")["h"]
		settle(t, state, at(0), &cluster.HostReported{ID: host, Machine: capacity}, &cluster.HostReported{ID: "s/other", Machine: capacity})
		submit(t, state, "job", func(s *cluster.JobSpec) { s.Speculation = &cluster.Speculation{} })
		settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
		settle(t, state, at(0), &cluster.CopyAdded{Task: k, Run: 1})
		copied := &cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskRunning}
		settle(t, state, at(0), &cluster.Placed{Task: k.Copy(), Run: 1, Host: "s/other"}, copied)
		settle(t, state, at(1), &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost}, &cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry})
		spec := *state.Job(1).Spec
		spec.Labels = []cluster.KeyValue{{Key: "a", Value: "b"}}
		if command != "" {
			spec.Task.Processes = []cluster.Process{{Command: []string{command}}}
		}
		policy := cluster.UpdatePolicy{InPlace: true}
		settle(t, state, at(1), &cluster.JobUpdated{Job: 1, Spec: &spec, Update: &cluster.Update{From: 1, Policy: policy}})
		require.EqualValues(t, 2, state.Task(k).Version)
		require.Equal(t, there, !state.Task(k.Copy()).Removed)
		tx := rules.Begin(state, at(2))
		end := &cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskSucceeded}
		_, err := rules.Report(tx, shard, end)
		require.NoError(t, err)
		require.NoError(t, rules.Settle(tx))
		require.Equal(t, there, state.Task(k).State == cluster.TaskSucceeded)
		require.Nil(t, state.Task(k.Copy()))
	}
}

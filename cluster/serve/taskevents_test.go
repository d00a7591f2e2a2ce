package serve

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What happened to a task is told step by step, also steps that became durable together, and after a restart from what it was
// then.
func TestTaskEvents(t *testing.T) {
	j := journal.NewMemory()
	a := newAPITestWith(t, func(c *Config) { c.Journal = j })
	a.addHost(t, "s/h", 2)
	spec := sleepJob("job")
	spec.Instances, spec.Restart = proto.Uint32(1), &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(1)}
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	a.submit(t, spec)
	k := cluster.MakeTaskKey(a.Snapshot().JobByName("job").UID, 0)
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		for _, e := range []cluster.Event{
			&cluster.Placed{Task: k, Run: 1, Host: "s/h"},
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning, ExitCode: -1},
			&cluster.TaskHealth{Task: k, Run: 1, Health: cluster.HealthReady}, // is no step
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskFailed, ExitCode: 7, Reason: cluster.ReasonExited, Message: "exit code 7"},
			&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry},
		} {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	}))
	list := func(a *apiTest, r *sluicev1.ListTaskEventsRequest) (steps []string, next string) {
		t.Helper()
		r.Job = "job"
		res, err := a.tasks.ListTaskEvents(t.Context(), r)
		require.NoError(t, err)
		for _, e := range res.Events {
			require.NotZero(t, e.Time.AsTime())
			steps = append(steps, e.State.String()[len("TASK_STATE_"):]+" "+e.Reason+" "+e.Host)
		}
		return steps, res.NextPageToken
	}
	all, _ := list(a, &sluicev1.ListTaskEventsRequest{})
	require.Equal(t, []string{"PENDING  ", "PLACED  s/h", "RUNNING  s/h", "FAILED EXITED s/h", "PENDING RETRY s/h"}, all)
	first, next := list(a, &sluicev1.ListTaskEventsRequest{PageSize: proto.Uint32(2)})
	token := next
	second, next := list(a, &sluicev1.ListTaskEventsRequest{PageSize: proto.Uint32(2), PageToken: next})
	third, next := list(a, &sluicev1.ListTaskEventsRequest{PageSize: proto.Uint32(2), PageToken: next})
	require.Equal(t, all, append(append(first, second...), third...))
	require.Empty(t, next)
	none, _ := list(a, &sluicev1.ListTaskEventsRequest{Run: proto.Uint32(0)})
	require.Equal(t, all[:1], none)
	_, err := a.tasks.ListTaskEvents(t.Context(), &sluicev1.ListTaskEventsRequest{Job: "job", Instance: 1})
	require.Equal(t, codes.NotFound, status.Code(err))

	state, err := journal.Load(j)
	require.NoError(t, err)
	again := newAPITestWith(t, func(c *Config) { c.Journal, c.State = j, state })
	all, _ = list(again, &sluicev1.ListTaskEventsRequest{})
	require.Equal(t, []string{"PENDING RETRY s/h"}, all)
	all, _ = list(again, &sluicev1.ListTaskEventsRequest{PageSize: proto.Uint32(2), PageToken: token})
	require.Equal(t, []string{"PENDING RETRY s/h"}, all, "the token of a page is from before the restart")
}

// The history keeps exactly the latest events of all tasks, as many as there is room for and for what they say, each with those
// before it of its own task.
func TestTaskHistoryKeepsTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		text := rapid.IntRange(3, 20).Draw(t, "text")
		h := newTaskHistory(size, text)
		var all []taskEvent
		for i, task := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 40).Draw(t, "tasks") {
			message := rapid.StringMatching("x{0,3}").Draw(t, "message")
			e := taskEvent{task: cluster.TaskKey(task), run: uint32(i), message: message}
			all = append(all, e)
			h.add([]taskEvent{e, e}) // the second says nothing new
		}
		latest, used := all, 0
		for i, e := range slices.Backward(all) {
			if used += len(e.message); used > text || len(all)-i > size {
				latest = all[i+1:]
				break
			}
		}
		for task := range cluster.TaskKey(4) {
			var want, got []uint32
			for _, e := range latest {
				if e.task == task {
					want = append(want, e.run)
				}
			}
			for _, e := range h.of(task) {
				got = append(got, e.run)
			}
			require.Equal(t, want, got)
		}
		require.LessOrEqual(t, len(h.last), size)
	})
}

package serve

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// restored is a journal that goes on from a snapshot of the scheduler.
func (r *rig) restored() journal.Journal {
	var file bytes.Buffer
	require.NoError(r.t, writeSnapshot(&file, r.s.Snapshot()))
	state, err := ReadSnapshot(&file, cluster.Time(time.Now().UnixNano()))
	require.NoError(r.t, err)
	snapshot, _ := state.Snapshot()
	j := journal.NewMemory()
	require.NoError(r.t, j.Restore(r.t.Context(), snapshot))
	return j
}

// waiting submits a job to a cluster of two shards, both of which are away.
func (r *rig) waiting(job string) cluster.JobUID {
	for _, shard := range []string{"a", "b"} {
		sh := r.connect(shard, 1)
		synctest.Wait()
		sh.cancel()
	}
	time.Sleep(DefaultUnreachableAfter + 2*deadlineTick)
	return r.submit(job, 1, 0)
}

// status asks for the status of the cluster.
func (r *rig) status() *sluicev1.GetStatusResponse {
	answer, err := sluicev1.NewClusterServiceClient(r.conn).GetStatus(r.t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(r.t, err)
	return answer
}

// A restored cluster starts nothing while what was started since the snapshot, and nobody knows, may run on: neither a task of the
// snapshot nor one of a job that is submitted again.
func TestARestoredClusterStartsNothingBesideWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, journal.NewMemory())
		uid := first.waiting("job")
		first.stop()
		j := first.restored()

		waits := func(r *rig, jobs ...cluster.JobUID) {
			t.Helper()
			time.Sleep(10 * deadlineTick)
			synctest.Wait()
			for _, job := range jobs {
				require.Equal(t, cluster.TaskPending, r.s.Snapshot().Task(cluster.MakeTaskKey(job, 0)).State)
			}
			require.Equal(t, []string{"b"}, r.status().AwaitedShards)
			why, err := sluicev1.NewTaskServiceClient(r.conn).ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "job"})
			require.NoError(t, err)
			require.Equal(t, "RESTORED", why.GetWaiting().GetReason())
		}
		r := newRig(t, j)
		require.Equal(t, []string{"a", "b"}, r.status().AwaitedShards)
		r.connect("a", 1)
		again := r.submit("again", 1, 0)
		waits(r, uid, again)
		r.stop()

		r = newRig(t, j) // it holds over a restart, and for whatever an operator sets
		a := r.connect("a", 1)
		synctest.Wait()
		a.cancel() // it has told
		_, err := sluicev1.NewClusterServiceClient(r.conn).SetMode(t.Context(), &sluicev1.SetModeRequest{Mode: &sluicev1.ClusterMode{}})
		require.NoError(t, err)
		runs := []*sluicev1.RunRef{ref(uid, 0, 5), ref(again-1, 0, 1)}
		b := r.connect("b", 1, runStatus(runs[0], sluicev1.RunState_RUN_STATE_RUNNING), runStatus(runs[1], sluicev1.RunState_RUN_STATE_RUNNING))
		for range runs {
			require.NotNil(t, b.down().GetKill())
		}
		waits(r, uid, again)
		b.status(runStatus(runs[0], sluicev1.RunState_RUN_STATE_KILLED))
		waits(r, uid, again)
		b.status(runStatus(runs[1], sluicev1.RunState_RUN_STATE_KILLED))
		require.Greater(t, b.down().GetLaunch().GetRun().GetRun(), uint32(0))
		require.Empty(t, r.status().AwaitedShards)
		require.Equal(t, cluster.Mode{}, r.s.Snapshot().Mode())
		r.stop()

		r = newRig(t, j) // from now on a restart waits for nobody
		r.connect("a", 1)
		r.submit("last", 1, 0)
		r.eventually(cluster.MakeTaskKey(again+1, 0), inState(cluster.TaskPlaced))
	})
}

// What a shard runs that stays away is given up.
func TestARestoredClusterWaitsNoLongerThanForLostHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, journal.NewMemory())
		uid := first.waiting("job")
		first.stop()
		r := newRig(t, first.restored())
		a := r.connect("a", 1)
		time.Sleep(DefaultLostAfter - 2*deadlineTick)
		require.Equal(t, cluster.TaskPending, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State)
		require.NotNil(t, a.down().GetLaunch())
	})
}

// A host manager that has not served the cluster cannot tell what was started since the snapshot on a shard that the snapshot knows.
func TestARestoredClusterAsksNoStrangerWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, journal.NewMemory())
		id := first.s.Snapshot().ClusterID()
		sh, _ := first.served("A", "")
		synctest.Wait()
		sh.cancel()
		synctest.Wait()
		first.stop()
		j := first.restored()

		r := newRig(t, j)
		uid := r.submit("job", 1, 0)
		for _, folder := range []string{"B", ""} {
			_, refused := r.served(folder, "")
			require.Contains(t, refused, `shard "a" may have tasks that were started since the snapshot that the cluster was restored from`)
		}
		time.Sleep(10 * deadlineTick)
		require.Equal(t, []string{"a"}, r.status().AwaitedShards)
		run := runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING)
		sh, refused := r.served("A", id, run)
		require.Empty(t, refused)
		require.NotNil(t, sh.down().GetKill(), "it is not known to the snapshot")
		r.stop()

		r = newRig(t, j)
		time.Sleep(DefaultLostAfter + 2*deadlineTick)
		sh, refused = r.served("B", "")
		require.Empty(t, refused, "they have been given up")
		require.NotNil(t, sh.down().GetLaunch())
	})
}

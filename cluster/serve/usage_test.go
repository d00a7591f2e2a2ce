package serve

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What a run was measured to use at most is remembered of its kind of work when it ends.
func TestTheHighestUsageIsLearned(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	spec := sleepJob("job")
	spec.Labels = map[string]string{cluster.WorkLabel: "sort"}
	a.submit(t, spec)
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_RUNNING)
	k := cluster.MakeTaskKey(1, 0)
	var run *sluicev1.RunRef
	require.Eventually(t, func() bool {
		task := a.Snapshot().Task(k)
		run = &sluicev1.RunRef{JobUid: uint32(k.Job()), Instance: k.Instance(), Run: task.Run}
		return task.State == cluster.TaskRunning
	}, 10*time.Second, time.Millisecond)
	for i, cpu := range []int64{200, 700, 300} {
		require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Usage{Usage: &sluicev1.UsageReport{
			Runs: []*sluicev1.RunUsage{{Run: run, CpuMilli: cpu, MemoryBytes: 1000 - int64(i), DiskBytes: -cpu, NetworkBytesPerSecond: 10 * cpu}},
		}}}))
		require.Eventually(t, func() bool {
			u, ok := a.TaskUsage(a.Snapshot().Task(k))
			return ok && u.Used.Fixed[cluster.CPU] == cpu
		}, 10*time.Second, time.Millisecond)
	}
	sh.report(t, 2, run, sluicev1.RunState_RUN_STATE_SUCCEEDED)
	var works []*cluster.Work
	require.Eventually(t, func() bool {
		works = slices.Collect(a.Snapshot().Works())
		return len(works) > 0
	}, 10*time.Second, time.Millisecond)
	work := works[0]
	require.Equal(t, "sort", work.Name)
	require.Equal(t, int64(700), work.Peak.Fixed[cluster.CPU])
	require.Equal(t, int64(1000), work.Peak.Fixed[cluster.Memory])
	require.Equal(t, int64(0), work.Peak.Fixed[cluster.Disk])
	require.Equal(t, int64(7000), work.Peak.Fixed[cluster.Network])
}

// A report in parts counts when its last part has come, and as one.
func TestUsageInParts(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(2)
	a.submit(t, spec)
	send := func(instance uint32, cpu int64, more bool) {
		k := cluster.MakeTaskKey(1, instance)
		sh.launch(t, uint64(instance)+1, sluicev1.RunState_RUN_STATE_RUNNING)
		require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskRunning }, 10*time.Second, time.Millisecond)
		run := &sluicev1.RunRef{JobUid: 1, Instance: instance, Run: a.Snapshot().Task(k).Run}
		require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Usage{Usage: &sluicev1.UsageReport{
			Runs: []*sluicev1.RunUsage{{Run: run, CpuMilli: cpu}}, More: more,
		}}}))
	}
	measured := func(instance uint32) int64 {
		u, _ := a.TaskUsage(a.Snapshot().Task(cluster.MakeTaskKey(1, instance)))
		return u.Used.Fixed[cluster.CPU]
	}
	send(0, 100, true)
	read := make(chan error, 1)
	go func() {
		read <- a.ReadLog(t.Context(), "s/h", &sluicev1.LogRequest{}, func(*sluicev1.LogChunk) error { return nil })
	}()
	sh.answer(t, <-sh.requests, &sluicev1.LogChunk{Done: true})
	require.NoError(t, <-read) // what came before it has been read
	require.Zero(t, measured(0))
	send(1, 200, false)
	require.Eventually(t, func() bool { return measured(1) == 200 }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 100, measured(0))
}

// What the wire says of runs is what the cost models are told of their host.
func TestMeasuredUsageIsKnownOfHosts(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	a.submit(t, sleepJob("job"))
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_RUNNING)
	k := cluster.MakeTaskKey(1, 0)
	require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskRunning }, 10*time.Second, time.Millisecond)
	task := a.Snapshot().Task(k)
	require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Usage{Usage: &sluicev1.UsageReport{
		Runs: []*sluicev1.RunUsage{{
			Run:      &sluicev1.RunRef{JobUid: uint32(k.Job()), Instance: k.Instance(), Run: task.Run},
			CpuMilli: 1, MemoryBytes: 2, DiskBytes: 1<<63 - 1, NetworkBytesPerSecond: 125_000_001,
		}},
	}}}))
	require.Eventually(t, func() bool { _, ok := a.TaskUsage(task); return ok }, 10*time.Second, time.Millisecond)
	var feed knowledge.Feed
	snapshot := a.Snapshot()
	used, ok := feed.Next(snapshot, 0, func() knowledge.Usage { return a.hostUsage(snapshot) }).Used(task.Host)
	require.True(t, ok)
	require.Equal(t, [cluster.NumDimensions]int64{
		cluster.CPU: 1, cluster.Memory: 2, cluster.Disk: cluster.MaxAmount, cluster.Network: 125_000_001,
	}, used.Fixed)
	got, err := a.cluster.GetStatus(t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
	require.Equal(t, int64(2), got.Used.GetMemoryBytes())
	host, err := a.hosts.GetHost(t.Context(), &sluicev1.GetHostRequest{Name: string(task.Host)})
	require.NoError(t, err)
	require.Equal(t, int64(2), host.Host.Used.GetMemoryBytes())
}

// The progress of a job is the mean of its tasks: those that have succeeded are all done, those that do not say how far they are count as
// if they had not begun, and what is no part of a whole is not believed.
func TestProgressOfAJob(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 4)
	spec := sleepJob("job")
	spec.Instances, spec.Progress = proto.Uint32(4), &sluicev1.ProgressPolicy{}
	a.submit(t, spec)
	k := func(i uint32) cluster.TaskKey { return cluster.MakeTaskKey(1, i) }
	require.Eventually(t, func() bool { return a.Snapshot().Task(k(3)).State == cluster.TaskPlaced }, 10*time.Second, time.Millisecond)
	for i := range uint32(4) {
		a.emit(t, &cluster.TaskStatus{Task: k(i), Run: 1, State: cluster.TaskRunning})
	}
	a.emit(t, &cluster.TaskStatus{Task: k(0), Run: 1, State: cluster.TaskSucceeded})
	said := func(i uint32, progress float64) *sluicev1.RunUsage {
		return &sluicev1.RunUsage{Run: &sluicev1.RunRef{JobUid: 1, Instance: i, Run: 1}, Progress: &progress}
	}
	a.shards.list("s")
	a.takeUsage("s", a.samplesOf("s", &sluicev1.UsageReport{Runs: []*sluicev1.RunUsage{said(1, 0.5), said(2, 7), said(3, -1)}}))
	require.InDelta(t, (1+0.5)/4, a.job(t, "job").GetProgress(), 1e-9)
}

// A shard cannot say what is used on the hosts of another, nor take back what that one says.
func TestAShardMeasuresItsOwnRunsOnly(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "a/h", 1)
	a.submit(t, sleepJob("job"))
	k := cluster.MakeTaskKey(1, 0)
	require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskPlaced }, 10*time.Second, time.Millisecond)
	a.emit(t, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	using := func(shard cluster.ShardID, run uint32, cpu int64) {
		a.shards.list(shard)
		a.takeUsage(shard, a.samplesOf(shard, &sluicev1.UsageReport{Runs: []*sluicev1.RunUsage{{
			Run: &sluicev1.RunRef{JobUid: uint32(k.Job()), Instance: k.Instance(), Run: run}, CpuMilli: cpu,
		}}}))
	}
	using("b", 1, 900)
	require.Empty(t, a.hostUsage(a.Snapshot()))
	using("a", 1, 100)
	using("b", 1, 900)
	used := a.hostUsage(a.Snapshot())
	require.Len(t, used, 1)
	require.Equal(t, int64(100), used["a/h"].Fixed[cluster.CPU])

	using("a", 2, 900) // a run that there is not
	used = a.hostUsage(a.Snapshot())
	require.Equal(t, int64(100), used["a/h"].Fixed[cluster.CPU])
}

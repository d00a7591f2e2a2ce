package journal_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// history is a writer of events that the State accepts.
type history struct {
	tb    testing.TB
	j     journal.Journal
	state *cluster.State
	seq   uint64
}

func (h *history) append(events ...cluster.Event) {
	records := make([]cluster.Record, len(events))
	for i, e := range events {
		h.seq++
		records[i] = cluster.Record{Seq: h.seq, At: cluster.Time(h.seq) * 1e6, Event: e}
		require.NoError(h.tb, h.state.Apply(records[i]))
	}
	require.NoError(h.tb, h.j.Append(records))
}

// fillCluster makes a cluster of that many hosts with tasks running on them, 100 tasks to a job.
func fillCluster(h *history, hosts, tasks int) {
	h.append(&cluster.ClusterCreated{ID: "0123456789abcdef"})
	ids := make([]cluster.HostID, hosts)
	for i := range ids {
		ids[i] = cluster.MakeHostID("shard", fmt.Sprintf("host-%05d", i))
		h.append(&cluster.HostReported{ID: ids[i], Machine: cluster.Machine{
			Rack: fmt.Sprintf("rack-%03d", i/40), Zone: "a",
			Attributes: []cluster.KeyValue{{Key: "kernel", Value: "6.1"}, {Key: "machine", Value: "standard"}},
			Capacity:   cluster.NewResources([cluster.NumDimensions]int64{64_000, 256 << 30, 2 << 40, 0}),
		}})
	}
	const perJob = 100
	for n := range tasks / perJob {
		uid := cluster.JobUID(n + 1)
		h.append(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprint("job-", n)), Pool: cluster.RootPool, Owner: "someone", Instances: perJob,
			Labels: []cluster.KeyValue{{Key: "team", Value: "search"}},
			Task: cluster.TaskSpec{
				Resources: cluster.NewResources([cluster.NumDimensions]int64{500, 1 << 30, 0, 0}),
				Processes: []cluster.Process{{
					Command: []string{"/bin/sh", "-c", "exec work --input \"$INPUT\""},
					Env:     []cluster.KeyValue{{Key: "INPUT", Value: "somewhere"}},
				}},
			},
		}}}}, &cluster.RequestAnswered{Receipt: cluster.Receipt{
			For: cluster.RequestKey{User: "someone", Key: fmt.Sprint("key-", n)}, Digest: make([]byte, 32), Jobs: []cluster.JobAnswer{{UID: uid, Version: 1, Created: true}},
		}})
		var placed, running []cluster.Event
		for i := range perJob {
			key := cluster.MakeTaskKey(uid, uint32(i))
			placed = append(placed, &cluster.Placed{Task: key, Run: 1, Host: ids[(n*perJob+i)%hosts]})
			running = append(running, &cluster.TaskStatus{Task: key, Run: 1, State: cluster.TaskRunning, ExitCode: -1})
		}
		h.append(placed...)
		h.append(running...)
	}
}

// BenchmarkLoad recovers 5,000 hosts and 100,000 running tasks, from a checkpoint and from the whole history.
func BenchmarkLoad(b *testing.B) {
	for _, from := range []string{"checkpoint", "history"} {
		b.Run(from, func(b *testing.B) {
			dir := b.TempDir()
			j, err := journal.Open(dir, store.Options{})
			require.NoError(b, err)
			h := &history{tb: b, j: j, state: cluster.NewState()}
			fillCluster(h, 5_000, 100_000)
			if from == "checkpoint" {
				snapshot, _ := h.state.Snapshot()
				require.NoError(b, j.Checkpoint(b.Context(), snapshot))
			}
			require.NoError(b, j.Close())
			for b.Loop() {
				j, err := journal.Open(dir, store.Options{})
				require.NoError(b, err)
				s, err := journal.Load(j)
				require.NoError(b, err)
				require.Equal(b, 100_000, s.NumTasks())
				require.Equal(b, 5_000, s.NumHosts())
				require.NoError(b, j.Close())
			}
		})
	}
}

// BenchmarkAppend measures batches of placements; ns/op is the time until a batch is durable.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j, err := journal.Open(b.TempDir(), store.Options{})
			require.NoError(b, err)
			records := make([]cluster.Record, size)
			var seq uint64
			for b.Loop() {
				for i := range records {
					seq++
					records[i] = cluster.Record{Seq: seq, At: cluster.Time(seq), Event: &cluster.Placed{
						Task: cluster.TaskKey(seq), Run: 1, Host: "shard/host-00001",
					}}
				}
				require.NoError(b, j.Append(records))
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			require.NoError(b, j.Close())
		})
	}
}

// BenchmarkCheckpoint writes a checkpoint of 5,000 hosts and 100,000 tasks.
func BenchmarkCheckpoint(b *testing.B) {
	j, err := journal.Open(b.TempDir(), store.Options{})
	require.NoError(b, err)
	h := &history{tb: b, j: j, state: cluster.NewState()}
	fillCluster(h, 5_000, 100_000)
	for b.Loop() {
		h.append(&cluster.PoolPut{Pool: cluster.Pool{Path: "root"}}) // so that the checkpoint is a new one
		snapshot, _ := h.state.Snapshot()
		require.NoError(b, j.Checkpoint(b.Context(), snapshot))
	}
	require.NoError(b, j.Close())
}

package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// A limit counts what holds room in its pool and below it, but for what is revocable: what ran before it was set, what comes and what goes.
func TestWhatALimitCounts(t *testing.T) {
	h := newHistory(t)
	job := func(uid cluster.JobUID, pool cluster.PoolPath, revocable bool) cluster.NewJob {
		spec := &cluster.JobSpec{Name: cluster.JobID(fmt.Sprint("job", uid)), Pool: pool, Instances: 3, Revocable: revocable}
		spec.Task.Resources = vector(100, 1)
		return cluster.NewJob{UID: uid, Spec: spec}
	}
	h.emit(&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 100)}})
	for _, p := range []cluster.PoolPath{"root/a", "root/a/x", "root/b"} {
		h.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: p}})
	}
	h.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{job(1, "root/a/x", false), job(2, "root/b", false), job(3, "root/a/x", true)}})
	place := func(uid cluster.JobUID, i uint32) {
		h.emit(&cluster.Placed{Task: cluster.MakeTaskKey(uid, i), Run: 1, Host: host})
	}
	limit := func(n int64) {
		p := *h.state.Pool("root/a")
		p.Resources = []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: n}}
		h.emit(&cluster.PoolPut{Pool: p})
	}
	used := func(want int64) {
		t.Helper()
		over := func(n int64) cluster.PoolPath {
			p, _ := h.state.OverLimit(h.state.Job(1), vector(n, 1))
			return p
		}
		require.Empty(t, over(1000-want))
		require.Equal(t, cluster.PoolPath("root/a"), over(1001-want))
	}
	lend := func(i uint32) {
		h.emit(&cluster.SlackMeasured{Host: host, Slack: vector(1000, 10)})
		place(3, i)
	}
	place(1, 0)
	place(2, 0)
	lend(0)
	limit(1000)
	used(100)
	place(1, 1)
	place(2, 1)
	lend(1)
	used(200)
	h.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(1, 0), Run: 1, State: cluster.TaskSucceeded}, &cluster.TaskStatus{Task: cluster.MakeTaskKey(3, 0), Run: 1, State: cluster.TaskSucceeded})
	used(100)
	limit(cluster.NoLimit)
	place(1, 2)
	limit(1000)
	used(200)
	limit(2000)
	limit(1000)
	used(200)
}

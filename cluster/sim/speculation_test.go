package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

// idempotent lets tasks have copies, and as many as are wanted.
func idempotent(s *cluster.JobSpec) { s.Speculation = &cluster.Speculation{MaxPercent: 100} }

// waves is jobs of 24 tasks of a minute, one after the other, on six hosts of four cores, of which some are slow.
func waves(stragglers Stragglers, speculation knowledge.Speculation, change func(*cluster.JobSpec)) Config {
	w := &trace.Workload{Arrivals: true, Departures: true, Hosts: mixed(1, 6, 0, 0).Hosts}
	for i := range w.Hosts {
		w.Hosts[i].Machine.Capacity = cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 4000, cluster.Memory: 16 << 30})
		w.Hosts[i].Machine.GPUs = nil
	}
	w.Jobs = &jobs{n: 4, make: func(i int) *trace.Job {
		j := work([]string{"a", "b", "c", "d"}[i], time.Duration(i)*time.Hour, 24, change)
		return &j
	}}
	c := config(w)
	c.Seed, c.Stragglers, c.Speculation = 3, stragglers, speculation
	return c
}

// TestCopiesOvertakeStragglers: the last job is done much earlier with copies, none are made where the job does not allow them
// or nothing lags behind, and no task counts twice.
func TestCopiesOvertakeStragglers(t *testing.T) {
	on := knowledge.DefaultSpeculation()
	slow := Stragglers{Hosts: 0.2, Slowdown: 20}
	last := func(r *Result) float64 { return r.VirtualSeconds - (3 * time.Hour).Seconds() }
	for _, c := range []struct {
		name        string
		stragglers  Stragglers
		speculation knowledge.Speculation
		job         func(*cluster.JobSpec)
		copies      bool
		within      float64 // seconds until the last job is done
		beyond      float64
	}{
		{"slow hosts", slow, on, idempotent, true, 150, 60},
		{"slow hosts, few copies", slow, on, func(s *cluster.JobSpec) { s.Speculation = &cluster.Speculation{} }, true, 300, 200},
		{"slow runs", Stragglers{Runs: 0.1, Slowdown: 20}, on, idempotent, true, 150, 60},
		{"switched off", slow, knowledge.Speculation{}, idempotent, false, 1300, 1200},
		{"not allowed", slow, on, nil, false, 1300, 1200},
		{"nothing is slow", Stragglers{}, on, idempotent, false, 70, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := waves(c.stragglers, c.speculation, c.job)
			var placements bytes.Buffer
			config.Placements = &placements
			r := run(t, config)
			clean(t, r)
			rows, err := csv.NewReader(&placements).ReadAll()
			require.NoError(t, err)
			runs := map[string]bool{}
			for _, row := range rows {
				key := fmt.Sprint(row[:3], row[8]) // job, instance, run; copy
				require.False(t, runs[key], "%v is there twice", key)
				runs[key] = true
			}
			require.Equal(t, Tasks{Submitted: 96, Placed: 96, Finished: 96}, r.Tasks)
			require.Equal(t, c.copies, r.Copies.Started > 0, "%+v", r.Copies)
			require.Equal(t, c.copies, r.Copies.Won > 0, "%+v", r.Copies)
			t.Logf("done after %.0f s, %+v", last(r), r.Copies)
			require.LessOrEqual(t, last(r), c.within)
			require.GreaterOrEqual(t, last(r), c.beyond)
		})
	}
}

// TestCopiesUnderFaults: whatever fails, and whenever the scheduler begins anew, each task succeeds once.
func TestCopiesUnderFaults(t *testing.T) {
	started, won := int64(0), int64(0)
	for seed := range uint64(3) {
		c := config(crowded(seed, 20, 40, 4*time.Second))
		plain := c.Workload.Jobs.(*jobs).make
		c.Workload.Jobs.(*jobs).make = func(i int) *trace.Job {
			j := plain(i)
			if j.Spec.Gang == nil {
				idempotent(&j.Spec)
			}
			return j
		}
		c.Seed, c.Faults, c.LostAfter, c.CheckpointEvery = seed, faulty(20*time.Second), 15*time.Second, 1000
		c.Stragglers = Stragglers{Hosts: 0.2, Runs: 0.1, Slowdown: 10}
		c.Speculation = knowledge.Speculation{Interval: time.Second, After: 10 * time.Second, SlowTaskPercent: 25, MaxSlowdown: 200, MaxCopiesPercent: 50}
		r := run(t, c)
		clean(t, r)
		require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "%+v", r.Tasks)
		require.Zero(t, r.Tasks.Waiting+r.Tasks.Running+r.Tasks.Failed)
		started, won = started+r.Copies.Started, won+r.Copies.Won
	}
	t.Logf("%d copies, %d won", started, won)
	require.Greater(t, started, won)
	require.Greater(t, won, int64(5))
}

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

// snapshotter keeps the first snapshot that is planned with after a time.
type snapshotter struct {
	Planner
	after cluster.Time
	snap  *cluster.Snapshot
}

func (p *snapshotter) Run(in cycle.Input) cycle.Output {
	if p.snap == nil && in.Now >= p.after {
		p.snap = in.Snapshot
	}
	return p.Planner.Run(in)
}

// history notes when tasks were placed first after a time, and when jobs ended.
type history struct {
	placed map[cluster.TaskKey]cluster.Time
	ended  map[cluster.JobUID]cluster.Time
}

// backlog is a cluster with more work than fits for a long time, of which none comes later than after half an hour. All runs take the same time.
func backlog(seed uint64, runTime time.Duration) *trace.Workload {
	w := mixed(seed, 10, 0, 0)
	random := rand.New(rand.NewPCG(seed, 3))
	at := time.Duration(0)
	w.Jobs = &jobs{n: 60, make: func(i int) *trace.Job {
		at += time.Duration(random.Int64N(int64(time.Minute)))
		j := &trace.Job{Submit: at, Durations: []time.Duration{runTime}}
		j.Spec = cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprintf("j%d", i)), Pool: cluster.DefaultPool, Instances: 1 + random.Uint32N(8), Preemptible: true,
			Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"true"}}},
				Resources: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 4_000, cluster.Memory: 1 << 30}),
			},
		}
		if i == 7 {
			j.Spec.Type, j.Durations = cluster.Stateless, []time.Duration{0}
		}
		return j
	}}
	return w
}

// seeds is how many seeds are tried: one where time is short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// A forecast says of the jobs that wait what then happens, where it knows how long everything runs.
func TestForecastSaysWhatHappens(t *testing.T) {
	const runTime = 20 * time.Minute
	for seed := range seeds(5) {
		took := history{map[cluster.TaskKey]cluster.Time{}, map[cluster.JobUID]cluster.Time{}}
		var at snapshotter
		c := config(backlog(seed, runTime))
		c.wrap = func(p Planner) Planner {
			at = snapshotter{Planner: p, after: begin.Add(45 * time.Minute)}
			return &at
		}
		c.rewrite = func(r *cluster.Record) {
			switch e := r.Event.(type) {
			case *cluster.Placed:
				took.placed[e.Task] = cmp.Or(took.placed[e.Task], r.At)
			case *cluster.TaskStatus:
				took.ended[e.Task.Job()] = r.At
			}
		}
		r, err := Run(t.Context(), c)
		require.NoError(t, err)
		require.Empty(t, r.Violations)

		now := LastChange(at.snap)
		out, err := Forecast(t.Context(), at.snap, now, runTime, config(nil))
		require.NoError(t, err)
		require.Greater(t, len(out.Jobs), 10)
		require.Greater(t, out.Unknown, len(out.Jobs), "nobody says what work it is")
		waiting := 0
		for _, j := range out.Jobs {
			waiting += j.Waiting
			uid := at.snap.JobByName(j.Job).UID
			var first, last cluster.Time
			for task := range at.snap.TasksOf(uid, 0) {
				if task.State.Waits() {
					placed := took.placed[task.Key]
					first, last = cmp.Or(min(cmp.Or(first, placed), placed), placed), max(last, placed)
				}
			}
			near := func(want cluster.Time, got time.Duration, what string) {
				require.InDelta(t, want.Sub(now).Seconds(), got.Seconds(), 2, "seed %d: %s: %s", seed, j.Job, what)
			}
			near(first, j.First, "first")
			near(last, j.Last, "last")
			near(took.ended[uid], j.End, "end")
		}
		require.Greater(t, waiting, 30)
	}
}

// A forecast goes on from whatever there is: with hosts that are away or drained, gangs that form, tasks that leave for others, services
// that are updated, copies.
func TestForecastFromAnywhere(t *testing.T) {
	hosts, jobs := 20, 300
	if testing.Short() {
		hosts, jobs = 8, 80
	}
	for seed := range seeds(4) {
		var at snapshotter
		c := config(crowded(seed, hosts, jobs, 2*time.Second))
		c.Seed = seed
		var err error
		c.Faults, err = ParseFaults("host=1m/30s,rack=3m/30s,drain=2m/1m,link=2m/20s,scheduler=3m/5s,launch-fails=0.05,launch-refused=0.05")
		require.NoError(t, err)
		c.Horizon = 6 * time.Minute
		c.wrap = func(p Planner) Planner { // another one in each life of the scheduler
			at.Planner, at.after = p, begin.Add(time.Duration(2+seed)*time.Minute)
			return &at
		}
		clean(t, run(t, c))
		require.NotNil(t, at.snap)
		waiting := map[cluster.JobID]int{}
		for task := range at.snap.Tasks(0) {
			if task.State.Waits() && !task.Key.IsCopy() {
				waiting[at.snap.Job(task.Key.Job()).Spec.Name]++
			}
		}
		out, err := Forecast(t.Context(), at.snap, LastChange(at.snap), time.Minute, config(nil))
		require.NoError(t, err, "seed %d", seed)
		clean(t, out.Result)
		require.Len(t, out.Jobs, len(waiting))
		for _, j := range out.Jobs {
			require.Equal(t, waiting[j.Job], j.Waiting)
			if j.End >= 0 {
				require.LessOrEqual(t, j.First, j.Last, "%+v", j)
				require.LessOrEqual(t, j.Last, j.End, "%+v", j)
			}
		}
	}
}

// What ran when the cluster changed last has run on until now.
func TestForecastBeginsNow(t *testing.T) {
	state, at := cluster.NewState(), begin
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: at, Event: e}))
	}
	cpu := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 1000})
	emit(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: cpu}})
	spec := &cluster.JobSpec{Name: "j", Pool: cluster.RootPool, Instances: 2, Task: cluster.TaskSpec{
		Processes: []cluster.Process{{Command: []string{"true"}}}, Resources: cpu,
	}}
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	first := cluster.MakeTaskKey(1, 0)
	emit(&cluster.Placed{Task: first, Run: 1, Host: "s/h"})
	emit(&cluster.TaskStatus{Task: first, Run: 1, State: cluster.TaskRunning})
	snap, _ := state.Snapshot()
	require.Equal(t, at, LastChange(snap))
	emit(&cluster.ModeSet{Mode: cluster.Mode{Restored: true}})
	snap, _ = state.Snapshot() // as it is read from a file: nothing runs that it does not know
	for _, later := range []time.Duration{0, 40 * time.Second} {
		out, err := Forecast(t.Context(), snap, at.Add(later), time.Minute, config(nil))
		require.NoError(t, err)
		require.Len(t, out.Jobs, 1)
		require.InDelta(t, (time.Minute - later).Seconds(), out.Jobs[0].First.Seconds(), 1)
		require.InDelta(t, (2*time.Minute - later).Seconds(), out.Jobs[0].End.Seconds(), 2)
	}
}

// Until runs of a kind of work have been seen, a job's own estimate says how long they take.
func TestForecastGoesByEstimates(t *testing.T) {
	state, at := cluster.NewState(), begin
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: at, Event: e}))
	}
	cpu := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 1000})
	emit(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: cpu}})
	spec := &cluster.JobSpec{
		Name: "j", Pool: cluster.RootPool, Instances: 2, Labels: []cluster.KeyValue{{Key: cluster.WorkLabel, Value: "w"}},
		Estimate: 5 * time.Minute, Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}, Resources: cpu},
	}
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	first := cluster.MakeTaskKey(1, 0)
	emit(&cluster.Placed{Task: first, Run: 1, Host: "s/h"})
	emit(&cluster.TaskStatus{Task: first, Run: 1, State: cluster.TaskRunning})
	forecast := func(after time.Duration) *Outlook {
		snap, _ := state.Snapshot()
		out, err := Forecast(t.Context(), snap, at.Add(after), time.Hour, config(nil))
		require.NoError(t, err)
		require.Len(t, out.Jobs, 1)
		require.Zero(t, out.Unknown)
		return out
	}
	job := forecast(time.Minute).Jobs[0]
	require.InDelta(t, (4 * time.Minute).Seconds(), job.First.Seconds(), 1)
	require.InDelta(t, (9 * time.Minute).Seconds(), job.End.Seconds(), 2)
	job = forecast(10 * time.Minute).Jobs[0] // it has run longer than was estimated
	require.InDelta(t, time.Minute.Seconds(), job.First.Seconds(), 1)

	old := *spec
	old.Name, old.Instances, old.Estimate = "old", 3, 0
	emit(&cluster.HostReported{ID: "s/other", Machine: cluster.Machine{Capacity: cpu}})
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: &old}}})
	for i := range uint32(3) { // runs that have been seen are believed rather than an estimate
		k := cluster.MakeTaskKey(2, i)
		emit(&cluster.Placed{Task: k, Run: 1, Host: "s/other"})
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
		at = at.Add(2 * time.Minute)
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
	}
	emit(&cluster.HostDrain{ID: "s/other", Drain: true})
	job = forecast(0).Jobs[0]
	require.InDelta(t, (2 * time.Minute).Seconds(), (job.End - job.First).Seconds(), 10)
}

func TestRunTimesOfWhatRunsAlready(t *testing.T) {
	state, at := cluster.NewState(), cluster.Time(time.Hour)
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: at, Event: e}))
	}
	emit(&cluster.HostReported{ID: "s/h"})
	spec := &cluster.JobSpec{Name: "j", Pool: cluster.RootPool, Instances: 10, Labels: []cluster.KeyValue{{Key: cluster.WorkLabel, Value: "w"}}}
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	for i := range uint32(10) { // 10 to 100 seconds
		k := cluster.MakeTaskKey(1, i)
		emit(&cluster.Placed{Task: k, Run: 1, Host: "s/h"})
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
		at = at.Add(time.Duration(i+1) * 10 * time.Second)
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
	}
	snap, _ := state.Snapshot()
	known := newEstimates(snap)
	for _, test := range []struct {
		work    string
		elapsed time.Duration
		want    float64 // seconds
	}{
		{"w", 0, 50},
		{"w", 5 * time.Second, 50},
		{"w", 55 * time.Second, 80},
		{"w", 95 * time.Second, 100},
		{"w", time.Hour, 100},
		{"", 0, 7},
		{"other", time.Hour, 7},
	} {
		got := known.runTime(test.work, test.elapsed, 7*time.Second)
		require.InEpsilon(t, test.want, got.Seconds(), 0.07, "%+v", test)
	}
	limited := &cluster.JobSpec{Limits: cluster.JobLimits{MaxRunTime: time.Minute}}
	require.Equal(t, time.Minute, bounded(0, limited))
	require.Equal(t, time.Minute, bounded(time.Hour, limited))
	require.Equal(t, time.Second, bounded(time.Second, limited))
	require.Equal(t, time.Hour, bounded(time.Hour, spec))
}

package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// jobs is a Source of jobs made by index.
type jobs struct {
	n, at int
	make  func(i int) *trace.Job
}

func (j *jobs) Next() (*trace.Job, error) {
	if j.at == j.n {
		return nil, io.EOF
	}
	j.at++
	return j.make(j.at - 1), nil
}

// mixed is a small cluster with everything that can bind: racks, GPUs of two models, a named resource, constraints.
func mixed(seed uint64, hosts, n int, gap time.Duration) *trace.Workload {
	w := &trace.Workload{Departures: true, Arrivals: true}
	for i := range hosts {
		m := cluster.Machine{
			Rack: fmt.Sprintf("r%d", i/5),
			Capacity: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 16_000, cluster.Memory: 64 << 30},
				cluster.Amount{Name: "ports", Value: 10}),
			Attributes: []cluster.KeyValue{{Key: "disk", Value: []string{"ssd", "hdd"}[i%2]}},
			Ports:      []cluster.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8009}}, Capabilities: cluster.CanPorts,
		}
		if i%4 == 0 {
			m.GPUs = []cluster.GPUDevice{{Model: "A"}, {Model: "A"}, {Model: "B"}, {Model: "B"}}
			m.Capacity.Fixed[cluster.GPU] = int64(len(m.GPUs)) * cluster.WholeGPU
		}
		w.Hosts = append(w.Hosts, trace.Host{Name: fmt.Sprintf("h%03d", i), Machine: m})
	}
	random := rand.New(rand.NewPCG(seed, 1))
	at := time.Duration(0)
	w.Jobs = &jobs{n: n, make: func(i int) *trace.Job {
		at += time.Duration(random.ExpFloat64() * float64(gap))
		return mixedJob(random, i, at)
	}}
	return w
}

func mixedJob(random *rand.Rand, i int, at time.Duration) *trace.Job {
	j := &trace.Job{Submit: at, Spec: cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprintf("job-%d", i)), Pool: cluster.PoolPath([]string{"root/a", "root/b/c"}[random.IntN(2)]),
		Instances: 1 + random.Uint32N(8), MaxFailures: 100, Priority: random.Int32N(3),
	}}
	s := &j.Spec
	s.Task.Processes = []cluster.Process{{Command: []string{"true"}}}
	s.Task.Resources.Fixed = [cluster.NumDimensions]int64{
		cluster.CPU: 500 << random.IntN(4), cluster.Memory: 1 << (30 + random.IntN(5)),
	}
	switch random.IntN(8) {
	case 6:
		s.Task.Ports = cluster.PortRequest{Numbers: []uint16{80}, Dynamic: 1}
	case 7:
		s.Task.Ports = cluster.PortRequest{Dynamic: 1 + uint16(random.IntN(3))}
	case 0:
		s.Task.GPU = cluster.GPURequest{Count: 1 + random.Int32N(2)}
	case 1:
		s.Task.GPU = cluster.GPURequest{Milli: 100 + 250*random.Int32N(4), Models: []string{"A"}}
	case 2:
		s.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: "disk", Value: "ssd"}, Comparison: cluster.Greater}
	case 3:
		s.Task.Resources.Named = []cluster.Amount{{Name: "ports", Value: 1 + random.Int64N(4)}}
	}
	s.Task.Resources.Fixed[cluster.GPU] = s.Task.GPU.Amount()
	for range s.Instances {
		j.Durations = append(j.Durations, time.Second+time.Duration(random.ExpFloat64()*float64(time.Minute)))
	}
	return j
}

// crowded is mixed with gangs, and with jobs that may be preempted for others.
func crowded(seed uint64, hosts, n int, gap time.Duration) *trace.Workload {
	w := mixed(seed, hosts, n, gap)
	random, all := rand.New(rand.NewPCG(seed, 2)), w.Jobs.(*jobs)
	plain := all.make
	all.make = func(i int) *trace.Job {
		j := plain(i)
		j.Spec.Preemptible = random.IntN(2) == 0
		if j.Spec.Instances > 1 && random.IntN(5) == 0 {
			j.Spec.Gang = &cluster.Gang{Minimum: j.Spec.Instances}
		}
		return j
	}
	return w
}

func config(w *trace.Workload) Config {
	return Config{Workload: w, Model: loadspread.Model{}, NewSolver: func() solver.Solver { return netsimplex.New() }, Verify: true}
}

func run(t *testing.T, c Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	return r
}

func clean(t *testing.T, r *Result) {
	t.Helper()
	for end := range r.RunEnds {
		require.NotRegexp(t, "/$", end, "a run ended, and nobody says why")
	}
	require.Zero(t, r.ViolationCount, "%v", r.Violations)
}

func TestAWorkloadRunsToItsEnd(t *testing.T) {
	oneGoroutine(t)
	var placements bytes.Buffer
	c := config(mixed(1, 20, 400, 2*time.Second))
	c.Placements = &placements
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 400, r.Jobs)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "%+v", r.Tasks)
	require.Zero(t, r.Tasks.Waiting+r.Tasks.Running+r.Tasks.Failed)
	require.Positive(t, r.QuietChecks)
	require.Greater(t, r.Stress.PeakWaiting, int64(10), "the workload was too light to test anything")
	require.Positive(t, r.Stress.PeakFullHosts)
	require.Greater(t, r.Utilisation["cpu_milli"].Mean, 0.2)

	rows, err := csv.NewReader(&placements).ReadAll()
	require.NoError(t, err)
	require.Equal(t, placementColumns, rows[0])
	require.Len(t, rows, int(r.Placements)+1)
}

// faulty has everything go wrong that can.
func faulty(every time.Duration) Faults {
	rate := Rate{Every: every, For: every}
	return Faults{
		Rates: map[FaultKind]Rate{
			HostCrash: rate, RackCut: {2 * every, every}, HostDrain: rate, LinkCut: {4 * every, every}, Crash: {4 * every, every / 4},
		},
		LaunchRefused: 0.01, LaunchFails: 0.01, StatusDelay: every / 2, StatusDuplicated: 0.1, StatusReordered: 0.1,
	}
}

// Launches that are given back are no failures: they are tried again, and all work is done.
func TestRefusedLaunchesAreNoFailures(t *testing.T) {
	oneGoroutine(t)
	c := config(mixed(1, 10, 100, time.Second))
	from := c.Workload.Jobs
	c.Workload.Jobs = &jobs{n: 100, make: func(int) *trace.Job {
		j, _ := from.Next()
		j.Spec.MaxFailures = 0
		return j
	}}
	c.Faults.LaunchRefused = 0.5
	r := run(t, c)
	clean(t, r)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "%+v", r.Tasks)
	require.Positive(t, r.RunEnds["PENDING/LAUNCH_REFUSED"])
	require.Equal(t, r.RunEnds["PENDING/LAUNCH_REFUSED"], r.Faults.Launches)
	require.Zero(t, r.Turnaround.Count-r.Jobs)
}

// TestWhoIsPatientIsWaitedFor: under sjf a long task is in no hurry to go to a host where launches came to nothing, and the run goes on until it
// does.
func TestWhoIsPatientIsWaitedFor(t *testing.T) {
	c := config(mixed(1, 1, 1, 0))
	c.Model = sjf.Model{}
	c.Workload.Jobs = &jobs{n: 1, make: func(int) *trace.Job {
		j := mixedJob(rand.New(rand.NewPCG(1, 1)), 0, time.Second)
		j.Spec.Instances, j.Spec.Priority, j.Spec.Task = 1, 0, cluster.TaskSpec{Processes: j.Spec.Task.Processes}
		return j
	}}
	c.Faults.LaunchRefused = 0.95
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 1, r.Tasks.Finished)
	require.Greater(t, r.RunEnds["PENDING/LAUNCH_REFUSED"], int64(3))
	require.Greater(t, r.VirtualSeconds, settleTime.Seconds())
}

// A job that ends before its submission is acknowledged, which the scheduler does not live to do, is submitted once.
func TestASubmissionIsNotRepeated(t *testing.T) {
	c := config(mixed(1, 1, 1, 0))
	c.Workload.Jobs = &jobs{n: 1, make: func(int) *trace.Job {
		j := mixedJob(rand.New(rand.NewPCG(1, 1)), 0, 5*time.Second)
		j.Spec.DependsOn = []cluster.Dependency{{Job: "gone"}} // so that it ends at once
		return j
	}}
	c.SyncTime = time.Second
	c.Faults.Script = []Fault{{At: 5500 * time.Millisecond, Kind: Crash, For: time.Second}}
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 1, r.Faults.Restarts)
	require.EqualValues(t, 1, r.Jobs)
	require.EqualValues(t, 1, r.Turnaround.Count) // it was deleted
}

// TestWaitingBeginsWithTheArrival: who arrives while there is no scheduler waits for one, and that counts.
func TestWaitingBeginsWithTheArrival(t *testing.T) {
	one := work("one", 20*time.Second, 1, nil)
	c := config(&trace.Workload{Hosts: mixed(1, 1, 0, 0).Hosts, Jobs: &jobs{n: 1, make: func(int) *trace.Job { return &one }}})
	c.Faults.Script = []Fault{{At: 10 * time.Second, Kind: Crash, For: 5 * time.Minute}}
	r := run(t, c)
	clean(t, r)
	require.Len(t, r.Waiting, 1)
	require.InDelta(t, 290, r.Waiting[0].Seconds.Max, 0.1)
	require.InDelta(t, 350, r.Turnaround.Max, 0.1)
}

// TestFaultsThatMeet: a fault that begins when another one of the same target is mended is a fault of its own.
func TestFaultsThatMeet(t *testing.T) {
	one := work("one", time.Minute, 1, nil)
	w := &trace.Workload{Hosts: mixed(1, 1, 0, 0).Hosts, Jobs: &jobs{n: 1, make: func(int) *trace.Job { return &one }}}
	target := targetOf(w.Hosts[0].ID())
	c := config(w)
	c.Faults.Script = []Fault{{10 * time.Minute, HostCrash, target, 20 * time.Minute}, {0, HostCrash, target, 10 * time.Minute}}
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 2, r.Faults.Injected)
	require.InDelta(t, (29 * time.Minute).Seconds(), r.Waiting[0].Seconds.Max, 0.1)
}

// oneGoroutine skips what takes long with the race detector, which has nothing to find there.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long with the race detector, and there is one goroutine")
	}
}

// Preempting, with gangs and faults, is no more subject to chance than anything else.
func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	preemptions := int64(0)
	n := 60
	if testing.Short() {
		n = 15
	}
	hash := func(procs int, seed uint64) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		c := config(crowded(3, 15, n, time.Second))
		c.Seed, c.Faults, c.LostAfter = seed, faulty(10*time.Second), 20*time.Second
		r := run(t, c)
		clean(t, r)
		preemptions += r.Preemptions
		return r.Hash
	}
	one := hash(1, 7)
	require.Equal(t, one, hash(2, 7))
	require.NotEqual(t, one, hash(2, 8))
	require.Positive(t, preemptions)
}

func TestNothingBreaksUnderFaults(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	c := config(mixed(5, 20, n, 4*time.Second))
	c.Seed, c.Faults = 5, faulty(8*time.Second)
	c.LostAfter, c.CheckpointEvery = 15*time.Second, 1000
	r := run(t, c)
	clean(t, r)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "%+v", r.Tasks)
	require.Greater(t, r.Faults.Injected, int64(n))
	require.Greater(t, r.Faults.Restarts, int64(n/30))
	require.Positive(t, r.Faults.Known)
	require.Positive(t, r.Faults.Stale)
	require.Positive(t, r.Faults.Launches)

	require.Positive(t, r.RunEnds["LOST/HOST_LOST"])
}

// A full cluster with pools, gangs and preemption: all plans are true, and no rule is broken until all has ended.
func TestCrowdedPoolsKeepTheirLaws(t *testing.T) {
	c := config(crowded(11, 10, 60, time.Second))
	c.Pools = []cluster.Pool{
		{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 40_000, Limit: cluster.NoLimit, Share: 1}}},
		{Path: "root/b"},
		{Path: "root/b/c", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit, Share: 2}}},
	}
	r := run(t, c)
	clean(t, r)
	require.Positive(t, r.Preemptions)
	require.Positive(t, r.RunEnds["KILLED/PREEMPTED"])
	require.Positive(t, r.Work[cluster.CPU.String()].Preempted)
	work := r.Work[cluster.CPU.String()]
	require.Positive(t, work.Preempted+work.Lost)
	require.Positive(t, r.Fairness.Contended)
	require.Greater(t, r.Fairness.Jain, 0.5)
	require.LessOrEqual(t, r.Fairness.Jain, 1.0)
	require.Len(t, r.Fairness.Satisfaction, 2)
}

// Holds that expire in vain come and go for ever where nothing ends; the run ends all the same.
func TestARunEndsWhenNothingMovesAnyMore(t *testing.T) {
	c := config(&trace.Workload{Hosts: mixed(1, 4, 0, 0).Hosts, Jobs: &jobs{n: 60, make: func(i int) *trace.Job {
		j := mixedJob(rand.New(rand.NewPCG(uint64(i), 3)), i, 0)
		j.Durations = []time.Duration{0}
		return j
	}}})
	r := run(t, c)
	clean(t, r)
	require.Positive(t, r.Tasks.Waiting)
	require.Positive(t, r.Tasks.Running)
	require.Less(t, r.VirtualSeconds, 3600.0)
	require.Positive(t, r.QuietChecks)
}

// TestARunDoesNotEndWhileSomebodyLeaves: nobody is asked to leave as the last thing that is seen of a run, however long nothing has moved.
func TestARunDoesNotEndWhileSomebodyLeaves(t *testing.T) {
	w := mixed(1, 1, 2, 0)
	w.Jobs.(*jobs).make = func(i int) *trace.Job {
		j := work(fmt.Sprint("job", i), time.Duration(i)*time.Second, 1, nil)
		j.Durations, j.Spec.Priority, j.Spec.Preemptible, j.Spec.Pool = []time.Duration{0}, int32(i), true, "root/calm"
		j.Spec.Task.Resources = cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 16_000}}
		return &j
	}
	c := config(w)
	c.Pools = []cluster.Pool{{Path: cluster.RootPool, Preemption: "none"}, {Path: "root/calm"}}
	c.Faults.StatusDelay = 2 * time.Second // that it has left is told late
	c.byHand = append(c.byHand, byHand{16 * time.Minute, func(tx *rules.Tx) error {
		return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool}})
	}})
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 1, r.Preemptions)
}

// TestARunEndsWithItsJobs: neither the next fault nor the next report of usage is waited for, which would count as a cluster without work.
func TestARunEndsWithItsJobs(t *testing.T) {
	one := func() *trace.Workload {
		w := mixed(1, 1, 1, 0)
		w.Jobs.(*jobs).make = func(int) *trace.Job { j := work("job", 0, 1, nil); return &j }
		return w
	}
	plain := run(t, config(one()))
	for name, change := range map[string]func(*Config){
		"faults": func(c *Config) {
			c.Faults.Rates = map[FaultKind]Rate{HostCrash: {Every: 1000 * time.Hour, For: time.Minute}}
		},
		"usage": func(c *Config) { c.Usage.Mean = 0.5 },
	} {
		c := config(one())
		change(&c)
		r := run(t, c)
		require.Less(t, r.VirtualSeconds, 61.0, name)
		require.InDelta(t, plain.Utilisation["cpu_milli"].Mean, r.Utilisation["cpu_milli"].Mean, 0.01, name)
	}
}

// TestAJobThatIsRestartedIsNotForgotten: who restarts a job as it ends has it run again, also where its end takes a while to be
// durable and known.
func TestAJobThatIsRestartedIsNotForgotten(t *testing.T) {
	w := mixed(1, 1, 1, 0)
	w.Jobs.(*jobs).make = func(int) *trace.Job { j := work("job", 0, 1, nil); return &j }
	c := config(w)
	c.SyncTime = 300 * time.Millisecond
	again := false
	for at := range 10 * 90 {
		c.byHand = append(c.byHand, byHand{time.Duration(at) * 100 * time.Millisecond, func(tx *rules.Tx) error {
			j := tx.State().Job(1)
			if again || j == nil || !j.State().Terminal() {
				return nil
			}
			again = true
			return tx.Emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0), Restart: true})
		}})
	}
	r := run(t, c)
	clean(t, r)
	require.True(t, again)
}

// TestNothingIsLaunchedBehindTheInventory: where killing is switched on again as a task is placed, the new session launches it after its
// inventory was compared, or it would be taken for lost.
func TestNothingIsLaunchedBehindTheInventory(t *testing.T) {
	w := mixed(1, 1, 1, 0)
	w.Jobs.(*jobs).make = func(int) *trace.Job { j := work("job", 1200*time.Millisecond, 1, nil); return &j }
	c := config(w)
	c.SyncTime, c.PlanTime, c.BatchWindow = 300*time.Millisecond, 100*time.Millisecond, NoTime
	at := func(ms int, e cluster.Event) {
		c.byHand = append(c.byHand, byHand{time.Duration(ms) * time.Millisecond, func(tx *rules.Tx) error { return tx.Emit(e) }})
	}
	at(500, &cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
	at(1550, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/z"}}) // the writer is busy when the plan comes
	at(1700, &cluster.ModeSet{})
	at(2000, &cluster.JobStopping{Job: 1})
	clean(t, run(t, c))
}

// TestJobsGoToTheLowestPools: a workload whose jobs go to a pool that --pools puts others below is refused as that.
func TestJobsGoToTheLowestPools(t *testing.T) {
	w := mixed(1, 1, 1, 0)
	w.Jobs.(*jobs).make = func(int) *trace.Job {
		j := work("job", 0, 1, func(s *cluster.JobSpec) { s.Pool = "root/a" })
		return &j
	}
	c := config(w)
	c.Pools = []cluster.Pool{{Path: "root/a"}, {Path: "root/a/x"}}
	_, err := Run(t.Context(), c)
	require.ErrorContains(t, err, `job "job": there are pools below its pool "root/a"`)
}

// TestARefusedPlanIsNotRepeatedForEver: where the same state refuses a plan again and again, the next is made at once only the first
// time, and then once in a while.
func TestARefusedPlanIsNotRepeatedForEver(t *testing.T) {
	w := mixed(1, 1, 1, 0)
	w.Jobs.(*jobs).make = func(int) *trace.Job { j := work("job", 0, 1, nil); return &j }
	c := config(w)
	c.Horizon, c.Verify = 10*time.Second, false
	cycles := 0
	c.wrap = func(p Planner) Planner {
		return plannerFunc(func(in cycle.Input) cycle.Output {
			out := p.Run(in)
			cycles++
			for i := range out.Placements {
				if in.Now < begin.Add(5*time.Second) && cycles < 1000 {
					out.Placements[i].Run++ // no run of the task has that number
				}
			}
			return out
		})
	}
	r := run(t, c)
	require.Greater(t, r.Cycles.Refused, int64(4))
	require.Less(t, cycles, 20)
	require.EqualValues(t, 1, r.Tasks.Placed)
}

// TestTheHorizonEndsWhatNeverRests: a run in which no moment is quiet ends, too.
func TestTheHorizonEndsWhatNeverRests(t *testing.T) {
	c := config(mixed(1, 1, 1, 0))
	c.Horizon, c.PlanTime, c.Verify = time.Minute, time.Second, false
	c.wrap = func(p Planner) Planner {
		return plannerFunc(func(in cycle.Input) cycle.Output {
			out := p.Run(in)
			out.WakeAt = in.Now
			require.Less(t, in.Now.Sub(begin), time.Hour)
			return out
		})
	}
	run(t, c)
}

// TestAllThatEndedIsCounted: a job whose end was the last thing that a scheduler did is forgotten, and counted, by the next.
func TestAllThatEndedIsCounted(t *testing.T) {
	oneGoroutine(t)
	c := config(mixed(1, 10, 100, time.Second))
	c.SyncTime = 200 * time.Millisecond
	c.Faults.Rates = map[FaultKind]Rate{Crash: {1500 * time.Millisecond, 20 * time.Millisecond}}
	r := run(t, c)
	clean(t, r)
	require.EqualValues(t, 100, r.Turnaround.Count)

	one := work("one", 0, 1, nil)
	c = config(&trace.Workload{Hosts: mixed(1, 1, 0, 0).Hosts, Jobs: &jobs{n: 1, make: func(int) *trace.Job { return &one }}})
	c.BatchWindow, c.PlanTime, c.SyncTime = NoTime, NoTime, 7*time.Second
	r = run(t, c)
	began := 21.0 // seconds: until the cluster was durable, then the job, then its placement
	require.InDelta(t, began+60, r.Turnaround.Max, 1e-6, "the deletion is not the end")
}

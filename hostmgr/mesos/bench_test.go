package mesos_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// BenchmarkLaunches launches 10,000 tasks on a cluster of 5,000 agents on which 40,000 run already, end to end: scheduler,
// journal in memory, streams, driver with its store on disk, HTTP in memory, master and agents. It measures from the
// submission to RUNNING, by the clock and by the processor's time, and shows when half of the tasks, and 99 of 100, had got to each stage. SLUICE_BENCH_SCALE divides
// all numbers.
func BenchmarkLaunches(b *testing.B) {
	scale := 1
	if n, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_SCALE")); err == nil && n > 0 {
		scale = n
	}
	agents, before, launched := 5000/scale, uint32(40_000/scale), uint32(10_000/scale)
	for b.Loop() {
		b.StopTimer()
		w := newBenchWorld(b, agents)
		b.StartTimer()
		first := w.launch(1, before)
		second := w.launch(2, launched)
		b.StopTimer()
		b.ReportMetric(float64(before)/first.took.Seconds(), "first-launches/s")
		b.ReportMetric(float64(launched)/second.took.Seconds(), "launches/s")
		b.ReportMetric(second.processor.Seconds()*1000/float64(launched), "cpu-ms/launch")
		for _, s := range second.stages {
			b.ReportMetric(s.half.Seconds()*1000, s.name+"-p50-ms")
			b.ReportMetric(s.most.Seconds()*1000, s.name+"-p99-ms")
		}
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MB")
		w.close()
		b.StartTimer()
	}
}

// benchWorld is a cluster with a scheduler.
type benchWorld struct {
	*testing.B
	scheduler *serve.Scheduler
	mesos     *mesostest.Cluster
	close     func()
}

func newBenchWorld(b *testing.B, agents int) *benchWorld {
	w := &benchWorld{B: b}
	w.mesos = mesostest.New(mesostest.Config{
		AllocationInterval: 200 * time.Millisecond,
		Behave:             func(api.TaskInfo) mesostest.Behaviour { return mesostest.Behaviour{Runs: mesostest.Forever} },
	})
	masters := mesostest.NewNet(w.mesos)
	specs := make([]mesostest.AgentSpec, agents)
	for i := range specs {
		specs[i] = mesostest.AgentSpec{
			Hostname: fmt.Sprint("h", i), Attributes: map[string]string{"rack": fmt.Sprint("r", i%100)},
			Resources: []api.Resource{
				mesostest.Scalar("cpus", 16), mesostest.Scalar("mem", 65536), mesostest.Scalar("disk", 100_000), mesostest.Ports(31000, 31999),
			},
		}
	}
	w.mesos.AddAgents(specs)

	state := cluster.NewState()
	var err error
	w.scheduler, err = serve.New(serve.Config{
		Journal: journal.NewMemory(), State: state,
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
	})
	require.NoError(b, err)
	server := serve.NewServer(w.scheduler, serve.About{Version: "bench"})
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = server.Serve(listener) }()
	stopped := make(chan struct{}, 2)
	go func() { _ = w.scheduler.Run(ctx); stopped <- struct{}{} }()
	conn, err := grpc.NewClient("passthrough:scheduler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(b, err)
	driver, err := mesos.New(mesos.Config{Dir: b.TempDir(), Masters: "master:5050", User: "nobody", Dial: masters.DialContext})
	require.NoError(b, err)
	shard, err := hostmgr.NewShard(hostmgr.ShardConfig{Name: "mesos", Kind: "mesos", Driver: driver, Conn: conn})
	require.NoError(b, err)
	go func() { _ = shard.Run(ctx); stopped <- struct{}{} }()
	w.close = func() {
		server.Stop()
		cancel()
		<-stopped
		<-stopped
		require.NoError(b, driver.Close())
		require.NoError(b, conn.Close())
		masters.Close()
		w.mesos.Close()
	}
	require.NoError(b, w.scheduler.Do(b.Context(), func(tx *serve.Tx) error {
		return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/work"}})
	}))
	return w
}

// stage tells when half of the tasks, and 99 of 100, had got to a state.
type stage struct {
	name       string
	half, most time.Duration
}

type launches struct {
	took, processor time.Duration
	stages          []stage
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// launch submits a job and waits until all its tasks run.
func (w *benchWorld) launch(uid cluster.JobUID, n uint32) launches {
	begun, used := time.Now(), processor(w.B)
	require.NoError(w, w.scheduler.Do(w.Context(), func(tx *serve.Tx) error {
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprint("job-", uid)), Pool: "root/work", Instances: n, MaxFailures: 1,
			Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"work"}}},
				Resources: cluster.NewResources([cluster.NumDimensions]int64{1000, 1 << 30, 0, 0}),
			},
		}}}})
	}))
	states := []cluster.TaskState{cluster.TaskPlaced, cluster.TaskLaunching, cluster.TaskStarting, cluster.TaskRunning}
	out := launches{stages: []stage{{name: "placed"}, {name: "recorded"}, {name: "starting"}, {name: "running"}}}
	shown := time.Now()
	for {
		counts := w.scheduler.Snapshot().Job(uid).Counts
		at, reached := time.Since(begun), uint32(0)
		for i := len(states) - 1; i >= 0; i-- {
			reached += uint32(counts[states[i]])
			s := &out.stages[i]
			if s.half == 0 && reached >= n/2 {
				s.half = at
			}
			if s.most == 0 && reached >= n-n/100 {
				s.most = at
			}
		}
		if uint32(counts[cluster.TaskRunning]) == n {
			out.took, out.processor = at, processor(w.B)-used
			return out
		}
		if time.Since(shown) > 10*time.Second {
			shown = time.Now()
			w.Logf("%v: %v", at.Round(time.Second), counts)
		}
		require.Less(w, at, 10*time.Minute, "%v", counts)
		time.Sleep(5 * time.Millisecond)
	}
}

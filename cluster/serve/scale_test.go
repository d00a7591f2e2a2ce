package serve

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// BenchmarkHundredThousand measures a service of 100,000 instances on 12,500 hosts, from request to state, over gRPC with the
// journal on disk: submitted until all run; made 90,000; each brought to another spec, a tenth at a time; stopped. The host
// manager does what it is told at once. From the change of size on a client reads jobs, tasks and hosts, 1,000 times a second,
// and what it waits is measured.
func BenchmarkHundredThousand(b *testing.B) {
	for b.Loop() {
		w := newWide(b)
		spec := sleepJob("wide")
		spec.Type, spec.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, proto.Uint32(100_000)
		spec.Task.Resources = &sluicev1.ResourceRequest{CpuMilli: 100, MemoryBytes: 1 << 20}
		spec.Update = &sluicev1.UpdatePolicy{Batch: &sluicev1.UpdatePolicy_BatchPercent{BatchPercent: 10}}
		spec.Limits = &sluicev1.JobLimits{MaxUnavailableInstances: proto.Uint32(10_000)}
		step := func(name string, do func() error, there func(*cluster.Job) bool) {
			begun := time.Now()
			require.NoError(b, do())
			b.ReportMetric(time.Since(begun).Seconds()*1000, name+"-answer-ms")
			for !there(w.Snapshot().JobByName("wide")) {
				require.Less(b, time.Since(begun), 10*time.Minute, "%s: %v", name, w.Snapshot().JobByName("wide").Counts)
				time.Sleep(5 * time.Millisecond)
			}
			b.ReportMetric(time.Since(begun).Seconds(), name+"-s")
		}
		update := func() error {
			_, err := w.jobs.UpdateJob(b.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: w.Snapshot().JobByName("wide").Version})
			return err
		}
		running := func(n uint32) func(*cluster.Job) bool {
			return func(j *cluster.Job) bool { return j.Ready == n && !j.Update.Live() }
		}
		step("submit", func() error {
			_, err := w.jobs.SubmitJob(b.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
			return err
		}, running(100_000))
		w.measureHeap("submitted-heap-MB")
		reader := w.read()
		*spec.Instances = 90_000
		step("scale", update, func(j *cluster.Job) bool { return j.Ready == 90_000 && w.Snapshot().NumTasks() == 90_000 })
		spec.Task.Processes[0].Command = &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"sleep", "2"}}}
		step("roll", update, running(90_000))
		w.measureHeap("rolled-heap-MB")
		step("stop", func() error {
			_, err := w.jobs.StopJob(b.Context(), &sluicev1.StopJobRequest{Name: "wide"})
			return err
		}, func(j *cluster.Job) bool { return j.State() == cluster.JobKilled })
		reader.end(b)
		w.close()
	}
}

// wide is a server with many hosts.
type wide struct {
	*Scheduler
	b     *testing.B
	jobs  sluicev1.JobServiceClient
	conn  *grpc.ClientConn
	close func()
}

const wideHosts = 12_500

func newWide(b *testing.B) *wide {
	store, err := journal.Open(b.TempDir(), store.Options{})
	require.NoError(b, err)
	model, err := models.New(models.Default)
	require.NoError(b, err)
	newSolver, err := registry.Maker(registry.Default)
	require.NoError(b, err)
	s, err := New(Config{Journal: store, State: cluster.NewState(), Planner: cycle.New(model, newSolver)})
	require.NoError(b, err)
	listener := bufconn.Listen(1 << 20)
	server := NewServer(s, About{Version: "test"})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		require.NoError(b, err)
		return conn
	}
	shard, conn := dial(), dial()
	running.Go(func() { obey(ctx, shard) })
	w := &wide{Scheduler: s, b: b, conn: conn, jobs: sluicev1.NewJobServiceClient(conn)}
	w.close = func() {
		server.Stop()
		cancel()
		_, _ = shard.Close(), conn.Close()
		running.Wait()
		require.NoError(b, store.Close())
	}
	for w.Snapshot().NumHosts() < wideHosts {
		time.Sleep(time.Millisecond)
	}
	return w
}

// obey is a host manager that does what it is told at once. What it says waits in a queue without bound, so that it always
// reads.
func obey(ctx context.Context, conn *grpc.ClientConn) {
	stream, err := sluicev1.NewHostManagerServiceClient(conn).Control(ctx)
	if err != nil {
		return
	}
	report := &sluicev1.HostReport{Full: true, Last: true}
	for i := range wideHosts {
		report.Hosts = append(report.Hosts, &sluicev1.HostInfo{
			Name: fmt.Sprint("h", i), Rack: fmt.Sprint("r", i/40), Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 1200, MemoryBytes: 1 << 30}},
		})
	}
	var mu sync.Mutex
	queue := []*sluicev1.ShardUp{
		{Message: &sluicev1.ShardUp_Hello{Hello: &sluicev1.Hello{Shard: "s", SessionId: "1", ProtocolVersion: protocolVersion}}},
		{Message: &sluicev1.ShardUp_HostReport{HostReport: report}},
		{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Last: true}}},
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
			mu.Lock()
			messages := queue
			queue = nil
			mu.Unlock()
			for _, m := range messages {
				if stream.Send(m) != nil {
					return
				}
			}
		}
	}()
	var number uint64
	for {
		down, err := stream.Recv()
		if err != nil {
			return
		}
		run, state := down.GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING
		if k := down.GetKill(); k != nil {
			run, state = k.GetRun(), sluicev1.RunState_RUN_STATE_KILLED
		}
		if run == nil {
			continue
		}
		number++
		status := runStatus(run, state)
		status.UpdateId = number
		mu.Lock()
		queue = append(queue, &sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: status}})
		mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (w *wide) measureHeap(name string) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.b.ReportMetric(float64(m.HeapAlloc)/1e6, name)
}

// reader reads 1,000 times a second, and does not wait for one answer before it asks again.
type reader struct {
	stop  context.CancelFunc
	asked sync.WaitGroup
	mu    sync.Mutex
	times []time.Duration
	wrong error
}

func (w *wide) read() *reader {
	ctx, stop := context.WithCancel(context.Background())
	r := &reader{stop: stop}
	tasks, hosts := sluicev1.NewTaskServiceClient(w.conn), sluicev1.NewHostServiceClient(w.conn)
	reads := []func(i uint32) error{
		func(uint32) error {
			_, err := w.jobs.GetJob(ctx, &sluicev1.GetJobRequest{Name: "wide"})
			return err
		},
		func(i uint32) error {
			_, err := tasks.GetTask(ctx, &sluicev1.GetTaskRequest{Job: "wide", Instance: i * 7919 % 90_000})
			return err
		},
		func(i uint32) error {
			_, err := hosts.ListHosts(ctx, &sluicev1.ListHostsRequest{PageSize: proto.Uint32(20)})
			return err
		},
		func(uint32) error {
			_, err := tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{Job: "wide", PageSize: proto.Uint32(20)})
			return err
		},
	}
	r.asked.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := uint32(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for range 10 {
				i++
				n := i
				r.asked.Go(func() {
					begun := time.Now()
					err := reads[n%uint32(len(reads))](n)
					took := time.Since(begun)
					r.mu.Lock()
					defer r.mu.Unlock()
					if err != nil && ctx.Err() == nil {
						r.wrong = err
					}
					r.times = append(r.times, took)
				})
			}
		}
	})
	return r
}

func (r *reader) end(b *testing.B) {
	r.stop()
	r.asked.Wait()
	require.NoError(b, r.wrong)
	slices.Sort(r.times)
	at := func(share float64) float64 { return r.times[int(share*float64(len(r.times)-1))].Seconds() * 1000 }
	b.ReportMetric(float64(len(r.times)), "reads")
	b.ReportMetric(at(0.5), "read-p50-ms")
	b.ReportMetric(at(0.99), "read-p99-ms")
	b.ReportMetric(at(1), "read-max-ms")
}

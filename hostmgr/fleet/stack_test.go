package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// stack is the whole system in one bubble of virtual time: journal, scheduler, streams, shard and fleet. Scheduler and
// host manager can be killed and started again, over the same history and the same world.
type stack struct {
	*testing.T
	history  journal.Journal
	listener atomic.Pointer[bufconn.Listener]
	world    *fleet.Fleet
	cluster  string // file with the id of the cluster that the world's runs are of

	scheduler     *serve.Scheduler
	killScheduler func()
	driver        hostmgr.Driver
	killManager   func()
}

func (s *stack) startScheduler() {
	state, err := journal.Load(s.history)
	require.NoError(s, err)
	s.scheduler, err = serve.New(serve.Config{
		Journal: s.history, State: state, CheckpointEvery: 500,
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
	})
	require.NoError(s, err)
	server := serve.NewServer(s.scheduler, serve.About{Version: "test"})
	listener := bufconn.Listen(1 << 20)
	s.listener.Store(listener)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _ = s.scheduler.Run(ctx) })
	s.killScheduler = func() {
		server.Stop()
		cancel()
		running.Wait()
	}
}

func (s *stack) startManager() {
	conn, err := grpc.NewClient("passthrough:scheduler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return s.listener.Load().DialContext(ctx)
		}))
	require.NoError(s, err)
	driver := s.world.Open()
	s.driver = driver
	shard, err := hostmgr.NewShard(hostmgr.ShardConfig{
		Name: "fleet", Kind: "fleet", Driver: driver, Conn: conn, Cluster: hostmgr.ClusterFile{Path: s.cluster, Shard: "fleet"},
	})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- shard.Run(ctx) }()
	s.killManager = func() {
		cancel()
		assert.NoError(s, <-result)
		assert.NoError(s, driver.Close())
		assert.NoError(s, conn.Close())
	}
}

// TestStackStandsEverything: with every fault there is, and with scheduler and host manager killed now and then, a job
// ends well, no run is started twice, and nothing is left over.
func TestStackStandsEverything(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { standEverything(t, seed) })
		})
	}
}

// bubbleClock returns a clock of a fleet whose time is the bubble's.
func bubbleClock(t *testing.T) *fleet.VirtualClock {
	clock := fleet.NewVirtualClock(cluster.Time(time.Now().UnixNano()))
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
				clock.Advance(10 * time.Millisecond)
			}
		}
	}()
	return clock
}

// TestOneNameTwoFolders: of two host managers with one name, which have both served the cluster before, only that one gets in over
// whose folder tasks run, also when the other one is the first that a new scheduler hears of.
func TestOneNameTwoFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock(t)
		s := &stack{T: t, history: journal.NewMemory()}
		var starts atomic.Int32
		var worlds [2]*fleet.Fleet
		var files [2]string
		for i := range worlds {
			var err error
			worlds[i], err = fleet.New(fleet.Config{
				Hosts: hosts(2), Clock: clock,
				Plan:    func(hostmgr.Launch) fleet.Plan { return fleet.Plan{Duration: 24 * time.Hour} },
				OnStart: func(hostmgr.Launch) { starts.Add(1) },
			})
			require.NoError(t, err)
			files[i] = filepath.Join(t.TempDir(), "cluster")
		}
		start := func(i int) (kill func()) {
			s.world, s.cluster = worlds[i], files[i]
			s.startManager()
			time.Sleep(time.Minute)
			return s.killManager
		}
		s.startScheduler()
		defer func() { s.killScheduler() }()
		start(0)()
		kill := start(1)
		require.NoError(t, s.scheduler.Do(t.Context(), func(tx *serve.Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
				Name: "web", Type: cluster.Stateless, Pool: cluster.DefaultPool, Instances: 2,
				Task: cluster.TaskSpec{
					Processes: []cluster.Process{{Command: []string{"web"}}},
					Resources: cluster.NewResources([cluster.NumDimensions]int64{1000, 1 << 30, 0, 0}),
				},
			}}}})
		}))
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, starts.Load())

		defer start(0)() // and waits
		s.killScheduler()
		kill()
		s.startScheduler()
		time.Sleep(time.Minute)
		defer start(1)()
		for task := range s.scheduler.Snapshot().TasksOf(1, 0) {
			require.Equal(t, cluster.TaskRunning, task.State)
			require.EqualValues(t, 1, task.Run)
		}
		require.EqualValues(t, 2, starts.Load())
		require.True(t, s.scheduler.Shards()[0].Connected)
	})
}

func standEverything(t *testing.T, seed uint64) {
	clock := bubbleClock(t)
	var mu sync.Mutex
	starts := map[cluster.RunID]int{}
	world, err := fleet.New(fleet.Config{
		Hosts: hosts(16), Clock: clock,
		Plan: func(l hostmgr.Launch) fleet.Plan {
			return fleet.Plan{
				Launch: 100 * time.Millisecond, Startup: 200 * time.Millisecond,
				Duration: time.Duration(10+l.Run.Task.Instance()%7) * time.Second,
				ExitCode: int32(l.Run.Task.Instance()%20) / 19 * int32(l.Run.Run%2), // some fail every other time
			}
		},
		OnStart: func(l hostmgr.Launch) {
			mu.Lock()
			defer mu.Unlock()
			starts[l.Run]++
		},
		UsageInterval: 5 * time.Second,
		Faults: fleet.Faults{
			Seed: seed, LaunchRefused: 0.05, LaunchFails: 0.05,
			StatusDelay: 2 * time.Second, StatusDuplicated: 0.2, StatusReordered: 0.2,
			HostUptime: 3 * time.Minute, HostDowntime: 20 * time.Second,
			RackUptime: 4 * time.Minute, RackDowntime: 20 * time.Second,
		},
	})
	require.NoError(t, err)
	s := &stack{T: t, history: journal.NewMemory(), world: world, cluster: filepath.Join(t.TempDir(), "cluster")}
	s.startScheduler()
	defer func() { s.killScheduler() }() // the one that lives then
	s.startManager()
	defer func() { s.killManager() }()
	const tasks = 1500
	require.NoError(t, s.scheduler.Do(t.Context(), func(tx *serve.Tx) error {
		if err := tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/work"}}); err != nil {
			return err
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "work", Pool: "root/work", Instances: tasks, MaxFailures: cluster.MaxMaxFailures,
			Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"work"}}},
				Resources: cluster.NewResources([cluster.NumDimensions]int64{1000, 1 << 30, 0, 0}),
			},
		}}}})
	}))

	random := rand.New(rand.NewPCG(seed, 0))
	begun := time.Now()
	for s.scheduler.Snapshot().Job(1).State() != cluster.JobSucceeded {
		require.Less(t, time.Since(begun), 2*time.Hour, "%v", s.scheduler.Snapshot().Job(1).Counts)
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
		switch random.IntN(4) {
		case 0:
			s.killScheduler()
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			s.startScheduler()
		case 1:
			s.killManager()
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			s.startManager()
		}
	}
	for len(s.driver.Inventory()) > 0 { // what was cut off comes back, is ended and released
		require.Less(t, time.Since(begun), 3*time.Hour, "%v", s.driver.Inventory())
		time.Sleep(time.Second)
	}
	for h := range s.scheduler.Snapshot().Hosts("") {
		require.Empty(t, h.Tasks)
		require.True(t, h.Allocated.IsZero())
	}
	retried := slices.ContainsFunc(slices.Collect(s.scheduler.Snapshot().TasksOf(1, 0)), func(t *cluster.Task) bool { return t.Run > 3 })
	require.True(t, retried, "the faults were felt")
	mu.Lock()
	defer mu.Unlock()
	for run, n := range starts {
		require.Equal(t, 1, n, "run %v", run)
	}
}

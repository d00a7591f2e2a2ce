package mesos_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
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
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// storm is the whole system in one bubble of virtual time: scheduler with its journal, shard, driver and a Mesos cluster,
// in which everything goes wrong that can.
type storm struct {
	*testing.T
	mesos  *mesostest.Cluster
	net    *mesostest.Net
	random *rand.Rand
	dir    string

	history       journal.Journal
	listener      atomic.Pointer[bufconn.Listener]
	scheduler     *serve.Scheduler
	killScheduler func()
	driver        hostmgr.Driver
	killManager   func()

	away []outage
	done []string // what was done to it, for a failure's message
}

// outage is a time in which nobody could know what runs on some hosts.
type outage struct {
	host     string // "" = all
	from, to time.Time
}

const (
	stormHosts = 12
	lostAfter  = 3 * time.Minute
	agentTime  = 75 * time.Second
	offerHold  = 5 * time.Minute
)

var stormMasters = []string{"one:5050", "two:5050", "three:5050"}

// TestStorm: with all that can go wrong going wrong, jobs end as their policies say, no task runs twice at once but for a
// replacement after its timeout, and nothing is left over. SLUICE_LONG makes it an hour of several storms; SLUICE_SEED
// takes one seed.
func TestStorm(t *testing.T) {
	seeds, lasts := []uint64{1, 2}, 10*time.Minute
	if os.Getenv("SLUICE_LONG") != "" {
		seeds, lasts = []uint64{1, 2, 3, 4, 5, 6, 7, 8}, time.Hour
	}
	if seed, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { runStorm(t, seed, lasts, dir) })
		})
	}
}

// stormBehaviour is what a task does, from its id: most end well after a while, some fail in their first runs.
func stormBehaviour(info api.TaskInfo) mesostest.Behaviour {
	run, err := cluster.ParseRunID(info.TaskID.Value)
	if err != nil {
		panic(err)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(info.TaskID.Value))
	n := h.Sum32()
	b := mesostest.Behaviour{
		Startup: time.Duration(50+n%500) * time.Millisecond, Runs: time.Duration(5+n%240) * time.Second,
		TermTakes: time.Duration(n%3000) * time.Millisecond, IgnoresTerm: n%11 == 0,
	}
	if run.Task.Job() == serviceJob {
		b.Runs = mesostest.Forever
		return b
	}
	if run.Run <= 2 && n%5 == 0 {
		b.ExitCode = 1
	}
	return b
}

const (
	batchJob   = 1
	serviceJob = 2
	services   = 20
	perMinute  = 40 // batch tasks for each minute of the storm
)

func runStorm(t *testing.T, seed uint64, lasts time.Duration, dir string) {
	s := &storm{T: t, random: rand.New(rand.NewPCG(seed, 0)), dir: dir, history: journal.NewMemory()}
	s.mesos = mesostest.New(mesostest.Config{
		Masters: stormMasters, Behave: stormBehaviour, AgentTimeout: agentTime, Seed: seed,
	})
	s.net = mesostest.NewNet(s.mesos)
	defer func() { s.net.Close(); s.mesos.Close() }()
	for i := range stormHosts {
		s.mesos.AddAgent(stormAgent(i))
	}
	s.startScheduler()
	defer func() { s.killScheduler() }() // the one that lives then
	s.startManager()
	defer func() { s.killManager() }()
	s.submit(uint32(lasts.Minutes() * perMinute))

	for begun := time.Now(); time.Since(begun) < lasts; {
		time.Sleep(time.Duration(s.random.IntN(15_000)) * time.Millisecond)
		s.strike()
		s.noLeakedOffer()
	}
	s.calm()
	s.endsWell(time.Now())
	s.noneTwice()
}

func stormAgent(i int) mesostest.AgentSpec {
	return mesostest.AgentSpec{
		Hostname: fmt.Sprint("h", i), Attributes: map[string]string{"rack": fmt.Sprint("r", i%3)},
		Resources: []api.Resource{
			mesostest.Scalar("cpus", 8), mesostest.Scalar("mem", 16384), mesostest.Scalar("disk", 10000), mesostest.Ports(31000, 31099),
		},
	}
}

func (s *storm) startScheduler() {
	state, err := journal.Load(s.history)
	require.NoError(s, err)
	s.scheduler, err = serve.New(serve.Config{
		Journal: s.history, State: state, CheckpointEvery: 500, LostAfter: lostAfter,
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

func (s *storm) startManager() {
	conn, err := grpc.NewClient("passthrough:scheduler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return s.listener.Load().DialContext(ctx)
		}))
	require.NoError(s, err)
	driver, err := mesos.New(mesos.Config{
		Dir: s.dir, Masters: strings.Join(stormMasters, ","), User: "nobody", Dial: s.net.DialContext,
		OfferHold: offerHold, FailoverTimeout: 24 * time.Hour, ReconcileEvery: time.Minute,
	})
	require.NoError(s, err)
	s.driver = driver
	shard, err := hostmgr.NewShard(hostmgr.ShardConfig{Name: "mesos", Kind: "mesos", Driver: driver, Conn: conn})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- shard.Run(ctx) }()
	s.killManager = func() {
		cancel()
		if err := <-result; err != nil {
			assert.ErrorIs(s, err, context.Canceled, "%v", s.done)
		}
		assert.NoError(s, driver.Close())
		assert.NoError(s, conn.Close())
	}
}

func (s *storm) submit(batch uint32) {
	task := func(milli int64) cluster.TaskSpec {
		return cluster.TaskSpec{
			Processes: []cluster.Process{{Command: []string{"work"}}},
			Resources: cluster.NewResources([cluster.NumDimensions]int64{milli, 1 << 30, 0, 0}),
		}
	}
	require.NoError(s, s.scheduler.Do(s.Context(), func(tx *serve.Tx) error {
		if err := tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/work"}}); err != nil {
			return err
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{
			{UID: batchJob, Spec: &cluster.JobSpec{
				Name: "batch", Pool: "root/work", Instances: batch, MaxFailures: cluster.MaxMaxFailures, Task: task(500),
			}},
			{UID: serviceJob, Spec: &cluster.JobSpec{
				Name: "services", Pool: "root/work", Instances: services, MaxFailures: cluster.MaxMaxFailures, Task: task(1000),
			}},
		}})
	}))
}

// strike does one bad thing, chosen by the seed, and lets it last for a while.
func (s *storm) strike() {
	host := fmt.Sprint("h", s.random.IntN(stormHosts))
	lasts := time.Duration(s.random.IntN(120_000)) * time.Millisecond
	begun := time.Now()
	note := func(what string) { s.done = append(s.done, fmt.Sprintf("%v %s", begun.Format("15:04:05.000"), what)) }
	out := func(where string) { s.away = append(s.away, outage{where, begun, time.Now()}) }
	switch s.random.IntN(17) {
	case 0:
		note("a new leader")
		s.mesos.Elect(stormMasters[s.random.IntN(3)])
		out("")
	case 1:
		note("no leader for a while, one master down")
		s.mesos.Elect("")
		down := stormMasters[s.random.IntN(3)]
		s.mesos.SetMasterDown(down, true)
		time.Sleep(lasts / 4)
		s.mesos.Elect(stormMasters[(slices.Index(stormMasters, down)+1)%3])
		s.mesos.SetRecovering(true)
		time.Sleep(time.Second)
		s.mesos.SetRecovering(false)
		s.mesos.SetMasterDown(down, false)
		out("")
	case 2:
		note("the agent's process of " + host + " dies")
		s.mesos.StopAgent(host)
		time.Sleep(lasts)
		s.mesos.ReturnAgent(host)
		out(host)
	case 3:
		note(host + " is cut off")
		s.mesos.CutAgent(host)
		time.Sleep(lasts)
		s.mesos.ReturnAgent(host)
		out(host)
	case 4:
		note(host + " is cut off for long")
		s.mesos.CutAgent(host)
		time.Sleep(agentTime + lostAfter + lasts)
		s.mesos.ReturnAgent(host)
		out(host)
	case 5:
		note(host + " crashes")
		s.mesos.CrashHost(host)
		time.Sleep(lasts)
		s.mesos.RebootHost(host)
		out(host)
	case 6:
		note(host + " unregisters")
		s.mesos.UnregisterAgent(host)
		time.Sleep(lasts / 2)
		s.mesos.RebootHost(host)
		out(host)
	case 7:
		note(host + " is gone, says the operator")
		s.mesos.MarkAgentGone(host)
		time.Sleep(lasts / 2)
		s.mesos.RebootHost(host)
		out(host)
	case 8:
		note("streams break")
		s.mesos.BreakStreams(s.random.IntN(2) == 0)
	case 9:
		note("calls go wrong")
		s.mesos.SetFaults(mesostest.Faults{
			RefuseCalls: s.random.IntN(5), LoseCalls: s.random.IntN(5), LoseAnswers: s.random.IntN(5), Accepting: s.random.IntN(2) == 0,
		})
	case 10:
		note("updates come twice and late, offers go")
		s.mesos.SetFaults(mesostest.Faults{
			Duplicate: s.random.IntN(30), HoldBack: s.random.IntN(30), RescindAccepts: s.random.IntN(6),
		})
	case 11:
		note("streams crawl")
		s.mesos.SetFaults(mesostest.Faults{Slow: 20 * time.Millisecond})
		s.mesos.BreakStreams(false)
		time.Sleep(lasts)
		s.mesos.SetFaults(mesostest.Faults{})
		s.mesos.BreakStreams(false)
	case 12:
		note("offers are rescinded")
		s.mesos.RescindOffers()
	case 13:
		note(host + " is drained")
		s.mesos.DrainAgent(host, 5*time.Second)
		time.Sleep(lasts)
		s.mesos.ReactivateAgent(host)
	case 14:
		note("the scheduler is killed")
		s.killScheduler()
		time.Sleep(lasts / 20)
		s.startScheduler()
		out("")
	case 15:
		note("the host manager is killed")
		s.killManager()
		time.Sleep(lasts / 10)
		s.startManager()
		out("")
	case 16:
		note(host + " is due for maintenance")
		s.mesos.Maintain(begun.Add(lasts), time.Minute, host)
		time.Sleep(lasts)
		s.mesos.Maintain(time.Time{}, 0)
	}
}

// calm lets everything come back.
func (s *storm) calm() {
	s.done = append(s.done, time.Now().Format("15:04:05.000")+" calm")
	s.mesos.SetFaults(mesostest.Faults{})
	s.mesos.BreakStreams(false)
}

// noLeakedOffer: no offer stays out for longer than the driver holds offers, and a call may be lost and repeated.
func (s *storm) noLeakedOffer() {
	for _, o := range s.mesos.Offers() {
		require.Less(s, time.Since(o.Since), offerHold+5*time.Minute, "offer %s on %s\n%s", o.ID, o.Hostname, strings.Join(s.done, "\n"))
	}
}

// endsWell waits until the batch job has succeeded, stops the services, and looks for what is left.
func (s *storm) endsWell(from time.Time) {
	history := func() string { return strings.Join(s.done, "\n") }
	job := func(uid cluster.JobUID) *cluster.Job { return s.scheduler.Snapshot().Job(uid) }
	for job(batchJob).State() != cluster.JobSucceeded {
		require.Less(s, time.Since(from), time.Hour, "%v\n%s\n%s", job(batchJob).Counts, s.unfinished(batchJob), history())
		time.Sleep(time.Second)
	}
	for job(serviceJob).Counts[cluster.TaskRunning] != services {
		require.Less(s, time.Since(from), time.Hour, "%v\n%s\n%s", job(serviceJob).Counts, s.unfinished(serviceJob), history())
		time.Sleep(time.Second)
	}
	require.NoError(s, s.scheduler.Do(s.Context(), func(tx *serve.Tx) error {
		return tx.Emit(&cluster.JobStopping{Job: serviceJob})
	}))
	for job(serviceJob).State() != cluster.JobKilled || s.living() > 0 {
		require.Less(s, time.Since(from), 2*time.Hour, "%v, %d live\n%s\n%v\n%s", job(serviceJob).Counts, s.living(), s.unfinished(serviceJob), s.driver.Inventory(), history())
		time.Sleep(time.Second)
	}
	for h := range s.scheduler.Snapshot().Hosts("") {
		require.Empty(s, h.Tasks)
		require.True(s, h.Allocated.IsZero())
	}
	time.Sleep(offerHold + time.Minute)
	s.noLeakedOffer()
	used, offered, total := s.mesos.Cores()
	require.Zero(s, used, "resources are still used")
	require.LessOrEqual(s, offered, total)
}

func (s *storm) unfinished(job cluster.JobUID) string {
	var b strings.Builder
	for t := range s.scheduler.Snapshot().TasksOf(job, 0) {
		if !t.State.Terminal() {
			fmt.Fprintf(&b, "%v run %d %v on %v; ", t.Key, t.Run, t.State, t.Host)
		}
	}
	return b.String()
}

// living counts the processes that run.
func (s *storm) living() (n int) {
	for _, r := range s.mesos.Runs() {
		if r.Ended.IsZero() {
			n++
		}
	}
	return n
}

// noneTwice checks the history: a run starts once, and two runs of one task live at once only if the older one was out of
// reach for as long as it takes to replace it.
func (s *storm) noneTwice() {
	byTask := make(map[cluster.TaskKey][]mesostest.Run)
	seen := make(map[string]bool)
	replaced, failed := 0, 0
	for _, r := range s.mesos.Runs() {
		require.False(s, seen[r.TaskID], "%s was started twice", r.TaskID)
		seen[r.TaskID] = true
		run, err := cluster.ParseRunID(r.TaskID)
		require.NoError(s, err)
		for _, before := range byTask[run.Task] {
			if before.Ended.After(r.Started) {
				replaced++
				require.True(s, s.outOfReach(before, r.Started), "%s ran on %s from %v to %v, and %s on %s from %v\n%s", before.TaskID, before.Hostname,
					before.Started, before.Ended, r.TaskID, r.Hostname, r.Started, strings.Join(s.done, "\n"))
			}
		}
		byTask[run.Task] = append(byTask[run.Task], r)
		if run.Run > 1 {
			failed++
		}
	}
	require.Positive(s, failed, "the storm was felt")
	s.Logf("%d runs, %d of them after others, %d beside one that was out of reach; %d strikes", len(seen), failed, replaced, len(s.done))
}

// outOfReach tells whether a run's host had been out of reach when its replacement started, for long enough.
func (s *storm) outOfReach(r mesostest.Run, replaced time.Time) bool {
	return slices.ContainsFunc(s.away, func(o outage) bool {
		return o.host == r.Hostname && o.from.Before(replaced) && replaced.Sub(o.from) >= lostAfter && r.Ended.Before(o.to.Add(10*time.Minute))
	})
}

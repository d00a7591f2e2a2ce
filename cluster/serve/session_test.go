package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// rig is a scheduler with its real server, over connections in memory.
type rig struct {
	t    *testing.T
	s    *Scheduler
	conn *grpc.ClientConn
	stop func() // may be called before the test ends
}

// newRig starts a scheduler over the journal; it stops with the test.
func newRig(t *testing.T, j journal.Journal) *rig { return newRigAt(t, j, time.Now) }

// newRigAt is newRig with a clock of its own for what is written.
func newRigAt(t *testing.T, j journal.Journal, now func() time.Time) *rig {
	state, err := journal.Load(j)
	require.NoError(t, err)
	s, err := New(Config{
		Journal: j, State: state,
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
	})
	require.NoError(t, err)
	s.now = now
	server := NewServer(s, About{})
	listener := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient("passthrough:///rig", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) })
	group.Go(func() {
		if err := s.Run(ctx); err != nil && !errors.Is(err, errBroken) {
			t.Errorf("the scheduler failed: %v", err)
		}
	})
	stop := sync.OnceFunc(func() {
		_ = conn.Close()
		server.Stop()
		cancel()
		group.Wait()
	})
	t.Cleanup(stop)
	return &rig{t, s, conn, stop}
}

func (r *rig) submit(name string, instances, maxFailures uint32) cluster.JobUID {
	var uid cluster.JobUID
	require.NoError(r.t, r.s.Do(r.t.Context(), func(tx *Tx) error {
		uid = tx.State().NextJob()
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID(name), Pool: cluster.DefaultPool, Instances: instances, MaxFailures: maxFailures,
			Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"/bin/true"}}},
				Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 1000}},
			},
		}}}})
	}))
	return uid
}

// eventually waits until the task is as wanted.
func (r *rig) eventually(k cluster.TaskKey, want func(*cluster.Task) bool) *cluster.Task {
	w := r.s.Watch()
	defer w.Close()
	patience := time.After(time.Minute)
	for {
		select {
		case <-w.C:
			snapshot, _, _ := w.Take()
			if t := snapshot.Task(k); t != nil && want(t) {
				return t
			}
		case <-patience:
			r.t.Fatalf("task %v is %+v", k, r.s.Snapshot().Task(k))
		}
	}
}

// scripted is a host-manager shard that a test plays by hand.
type scripted struct {
	t      *testing.T
	stream sluicev1.HostManagerService_ControlClient
	cancel context.CancelFunc
	update uint64
}

func (r *rig) hello(hello *sluicev1.Hello) (*scripted, *sluicev1.ShardDown) {
	ctx, cancel := context.WithCancel(r.t.Context())
	stream, err := sluicev1.NewHostManagerServiceClient(r.conn).Control(ctx)
	require.NoError(r.t, err)
	sh := &scripted{t: r.t, stream: stream, cancel: cancel}
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: hello}})
	return sh, sh.down()
}

// connect plays the beginning of a session: hosts with room for four tasks each, and the runs that the shard knows.
func (r *rig) connect(name string, hosts int, runs ...*sluicev1.RunStatus) *scripted {
	sh, answer := r.hello(&sluicev1.Hello{
		Shard: name, ProtocolVersion: protocolVersion, SessionId: fmt.Sprint(time.Now().UnixNano()), ClusterId: r.s.Snapshot().ClusterID(),
	})
	require.NotNil(r.t, answer.GetWelcome(), "%v", answer)
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("h%d", i)
	}
	sh.up(hostReport(names...))
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Runs: runs, Last: true}}})
	return sh
}

func hostReport(names ...string) *sluicev1.ShardUp {
	report := &sluicev1.HostReport{Full: true, Last: true}
	for _, name := range names {
		report.Hosts = append(report.Hosts, &sluicev1.HostInfo{
			Name: name, Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000}},
		})
	}
	return &sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: report}}
}

func (sh *scripted) up(m *sluicev1.ShardUp) { require.NoError(sh.t, sh.stream.Send(m)) }

func (sh *scripted) down() *sluicev1.ShardDown {
	m, err := sh.stream.Recv()
	require.NoError(sh.t, err)
	return m
}

func runStatus(run *sluicev1.RunRef, state sluicev1.RunState) *sluicev1.RunStatus {
	return &sluicev1.RunStatus{Run: run, State: state}
}

// status reports a state and returns what comes back: an acknowledgement, then a release of a run that has ended.
func (sh *scripted) status(st *sluicev1.RunStatus) {
	sh.update++
	st.UpdateId = sh.update
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: st}})
	require.Equal(sh.t, sh.update, sh.down().GetAck().GetUpdateId())
	if runStates[st.State].Terminal() {
		require.Equal(sh.t, runFrom(st.Run), runFrom(sh.down().GetRelease().GetRun()))
	}
}

func ref(uid cluster.JobUID, instance, run uint32) *sluicev1.RunRef {
	return &sluicev1.RunRef{JobUid: uint32(uid), Instance: instance, Run: run}
}

func inState(state cluster.TaskState) func(*cluster.Task) bool {
	return func(t *cluster.Task) bool { return t.State == state }
}

func TestLaunchStatusAcknowledgement(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	uid := r.submit("job", 1, 0)
	launch := sh.down().GetLaunch()
	require.Equal(t, "h0", launch.GetHost())
	require.Equal(t, "job", launch.GetRun().GetJob())
	require.Equal(t, []string{"/bin/true"}, launch.GetTask().GetSpec().GetProcesses()[0].GetArgv().GetArgs())

	sh.status(runStatus(launch.GetRun(), sluicev1.RunState_RUN_STATE_RUNNING))
	require.Equal(t, cluster.TaskRunning, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State, "acknowledged means durable")
	sh.status(runStatus(launch.GetRun(), sluicev1.RunState_RUN_STATE_RUNNING)) // again: acknowledged, and no harm
	sh.status(runStatus(launch.GetRun(), sluicev1.RunState_RUN_STATE_SUCCEEDED))
	require.Equal(t, cluster.JobSucceeded, r.s.Snapshot().Job(uid).State())
	sh.status(runStatus(launch.GetRun(), sluicev1.RunState_RUN_STATE_SUCCEEDED))
}

// That a task was stopped by the user, or left for another, is not for a host manager to say: an instance of a service would never run
// again.
func TestAShardDoesNotSayWhoWasStopped(t *testing.T) {
	for _, c := range []struct {
		state sluicev1.RunState
		why   cluster.Reason
	}{
		{sluicev1.RunState_RUN_STATE_KILLED, cluster.ReasonTaskStopped},
		{sluicev1.RunState_RUN_STATE_SUCCEEDED, cluster.ReasonTaskStopped},
		{sluicev1.RunState_RUN_STATE_FAILED, cluster.ReasonPreempted},
		{sluicev1.RunState_RUN_STATE_KILLED, cluster.ReasonPreempted},
	} {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("s", 1)
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
				Name: "web", Type: cluster.Stateless, Pool: cluster.DefaultPool, Instances: 1,
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}}}})
		}))
		st := runStatus(sh.down().GetLaunch().GetRun(), c.state)
		st.Reason = string(c.why)
		sh.status(st)
		require.False(t, r.s.Snapshot().Task(cluster.MakeTaskKey(1, 0)).State.Terminal(), "%v for %v", c.state, c.why)
	}
}

// What runs, or has ended well, is not given back, whatever a host manager says why.
func TestWhatHasBegunIsNotGivenBack(t *testing.T) {
	for _, state := range []sluicev1.RunState{sluicev1.RunState_RUN_STATE_RUNNING, sluicev1.RunState_RUN_STATE_SUCCEEDED} {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("s", 1)
		uid := r.submit("job", 1, 0)
		st := runStatus(sh.down().GetLaunch().GetRun(), state)
		st.Reason = string(cluster.ReasonLaunchRefused)
		sh.status(st)
		task := r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0))
		require.Equal(t, runStates[state], task.State)
		require.Zero(t, task.Refusals)
	}
}

// newRunning returns a rig with a shard, on which the one task of a job runs.
func newRunning(t *testing.T) (*rig, *scripted, cluster.JobUID, *sluicev1.RunRef) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	uid := r.submit("job", 1, 0)
	run := sh.down().GetLaunch().GetRun()
	sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
	return r, sh, uid, run
}

// What a session has said of a task's health, and the writer has not come to when the session ends, does not come after what the next
// one says.
func TestHealthOfAnEndedSession(t *testing.T) {
	r, _, uid, run := newRunning(t)
	k := cluster.MakeTaskKey(uid, 0)
	held, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, r.s.Send(t.Context(), 0, func(*Tx) error { close(held); <-release; return nil }, func(error) {}))
	<-held
	says := func(ready bool) context.CancelFunc {
		ctx, end := context.WithCancel(t.Context())
		c := &control{s: r.s, shard: "s"}
		require.NoError(t, c.health(ctx, &sluicev1.RunHealth{Run: run, Healthy: true, Ready: ready}))
		return end
	}
	next := says(true)
	defer next()
	says(false)()
	close(release)
	require.NoError(t, r.s.Do(t.Context(), func(*Tx) error { return nil }))
	require.Equal(t, cluster.HealthReady, r.s.Snapshot().Task(k).Health)
}

// A clock that is set forward makes nobody away for longer: what runs with a host manager that is cut off for a moment is not given up.
func TestTheClockIsSetForward(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	r := newRigAt(t, journal.NewMemory(), now)
	sh := r.connect("s", 1)
	r.submit("job", 1, 0)
	require.NotNil(t, sh.down().GetLaunch())
	sh.cancel()
	require.Eventually(t, func() bool { // the server notices
		_, away := r.s.shards.away("s", now())
		return away
	}, time.Minute, time.Millisecond)
	const jump = 1000 * time.Hour
	ahead.Store(int64(jump))
	d := rules.Deadlines{
		UnreachableAfter: jump, LostAfter: jump, Away: func(name cluster.ShardID) (cluster.Time, bool) { return r.s.shards.away(name, now()) },
	}
	require.Empty(t, d.Overdue(r.s.Snapshot(), cluster.Time(now().UnixNano())))
	since, _ := r.s.shards.away("s", now())
	require.NotEmpty(t, d.Overdue(r.s.Snapshot(), since.Add(2*jump)))
}

// The log names the hosts that are out of reach for too long, once, and whose they are.
func TestTheLogNamesHostsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := New(Config{
			Journal: journal.NewMemory(), State: cluster.NewState(), UnreachableAfter: time.Minute,
			Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		require.NoError(t, s.Do(t.Context(), func(tx *Tx) error {
			for _, h := range []cluster.HostID{"t/a", "s/b", "s/a"} {
				if err := tx.Emit(&cluster.HostReported{ID: h}); err != nil {
					return err
				}
			}
			return nil
		}))
		time.Sleep(5 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 1, strings.Count(log.String(), "out of reach"), "%s", log.String())
		require.Contains(t, log.String(), `level=WARN msg="hosts are out of reach for too long" shards="[s t]" hosts=3 first=s/a`)
	})
}

// While the scheduler is stopped nobody can come back to it: that makes nobody away for longer.
func TestTheSchedulerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shards shardTable
		shards.init(time.Now())
		away := func(name cluster.ShardID) time.Duration {
			since, away := shards.away(name, time.Now())
			require.True(t, away)
			return cluster.Time(time.Now().UnixNano()).Sub(since)
		}
		for range 10 {
			time.Sleep(deadlineTick)
			require.Zero(t, shards.look(time.Now()))
		}
		require.Equal(t, 10*deadlineTick, away("before"))
		time.Sleep(30 * time.Minute)
		shards.list("just now").since = time.Now()
		time.Sleep(time.Second)
		require.Equal(t, 30*time.Minute+time.Second, shards.look(time.Now()))
		require.Equal(t, 10*deadlineTick, away("before"))
		require.Equal(t, 10*deadlineTick, away("never connected"))
		require.Zero(t, away("just now"))
		time.Sleep(deadlineTick)
		require.Zero(t, shards.look(time.Now()))
		require.Equal(t, 11*deadlineTick, away("before"))
	})
}

// What is due at a time is done when a clock that is set forward, or that went on while the machine slept, shows it.
func TestTheClockIsSetForwardOverADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
				Name: "job", Pool: cluster.DefaultPool, Instances: 1, Limits: cluster.JobLimits{Deadline: tx.Now().Add(9 * time.Hour)},
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}}}})
		}))
		time.Sleep(time.Hour)
		require.False(t, r.s.Snapshot().JobByName("job").State().Terminal())
		ahead.Store(int64(8 * time.Hour))
		time.Sleep(clockLook)
		synctest.Wait()
		require.True(t, r.s.Snapshot().JobByName("job").State().Terminal())
	})
}

// So is what the planner waits for.
func TestTheClockIsSetForwardOverAPreference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		r.connect("s", 1)
		rule := cluster.SoftConstraint{
			Constraint: cluster.Constraint{Op: cluster.HostLabel, Label: cluster.KeyValue{Key: "ssd"}, AnyValue: true, Comparison: cluster.Greater},
			Soft:       cluster.Soft{Timeout: 9 * time.Hour, Penalty: time.Millisecond},
		}
		spec := &cluster.JobSpec{
			Name: "job", Pool: cluster.DefaultPool, Instances: 1, Preferences: []cluster.SoftConstraint{rule},
			Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
		}
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: spec}}})
		}))
		state := func() cluster.TaskState {
			return r.s.Snapshot().Task(cluster.MakeTaskKey(r.s.Snapshot().JobByName("job").UID, 0)).State
		}
		time.Sleep(time.Hour)
		require.Equal(t, cluster.TaskPending, state())
		cycles, _ := r.s.LastCycle()
		time.Sleep(time.Hour)
		require.Equal(t, cluster.TaskPending, state())
		still, _ := r.s.LastCycle()
		require.Equal(t, cycles.Number, still.Number, "to look at the clock is no cycle")
		ahead.Store(int64(7 * time.Hour))
		time.Sleep(2 * clockLook)
		require.Equal(t, cluster.TaskPlaced, state())
	})
}

// What is due is not forgotten where the clock is set back just before it is done.
func TestTheClockIsSetBackOverADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := time.Now().Add(9*time.Hour + time.Second/2)
		var back atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time {
			now := time.Now().Add(-time.Duration(back.Load()))
			if !now.Before(deadline) {
				back.Store(int64(time.Hour))
			}
			return now
		})
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
				Name: "job", Pool: cluster.DefaultPool, Instances: 1, Limits: cluster.JobLimits{Deadline: cluster.Time(deadline.UnixNano())},
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}}}})
		}))
		time.Sleep(9*time.Hour + 59*time.Minute)
		require.NotZero(t, back.Load())
		require.False(t, r.s.Snapshot().JobByName("job").State().Terminal())
		time.Sleep(2 * time.Minute)
		require.True(t, r.s.Snapshot().JobByName("job").State().Terminal())
	})
}

// A clock that is set back holds nothing up until it has caught up: neither what is written after that, nor what was before.
func TestTheClockIsSetBack(t *testing.T) {
	var ahead atomic.Int64
	ahead.Store(int64(time.Hour))
	r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	sh := r.connect("s", 1)
	down := make(chan *sluicev1.ShardDown)
	go func() {
		defer close(down)
		for {
			m, err := sh.stream.Recv()
			if err != nil {
				return
			}
			down <- m
		}
	}()
	next := func() *sluicev1.ShardDown {
		select {
		case m := <-down:
			return m
		case <-time.After(time.Minute):
			require.FailNow(t, "it waits for the time that the clock had come to")
			return nil
		}
	}
	for _, stopped := range []time.Duration{time.Hour, 0} {
		ahead.Store(int64(time.Hour))
		uid := r.submit(fmt.Sprint("job", stopped), 1, 0)
		launch := next().GetLaunch()
		require.NotNil(t, launch)
		ahead.Store(int64(stopped))
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobStopping{Job: uid}) }))
		require.Equal(t, runFrom(launch.GetRun()), runFrom(next().GetKill().GetRun()))
	}
}

// Nor does it have those wait longer who have been given time to be turned away from.
func TestTheClockIsSetBackWhileTasksAreTurnedAwayFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		sh := r.connect("s", 1)
		for _, by := range []time.Duration{0, 10 * time.Second, time.Hour} {
			spec := &cluster.JobSpec{
				Name: cluster.JobID(fmt.Sprint("web-", by)), Type: cluster.Stateless, Pool: cluster.DefaultPool, Instances: 1,
				Discovery: &cluster.Discovery{Delay: time.Minute},
				Task:      cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}
			uid := r.s.Snapshot().NextJob()
			require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
				return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
			}))
			run := sh.down().GetLaunch().GetRun()
			sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
			require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobStopping{Job: uid}) }))
			begun := time.Now()
			time.Sleep(30 * time.Second)
			back.Add(int64(by))
			require.Equal(t, runFrom(run), runFrom(sh.down().GetKill().GetRun()))
			require.Equal(t, time.Minute, time.Since(begun), "the clock is set back by %v", by)
		}
	})
}

// Nor who backs off, also where something changes all the time.
func TestTheClockIsSetBackOverABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		sh := r.connect("s", 2)
		for _, busy := range []bool{false, true} {
			spec := &cluster.JobSpec{
				Name: cluster.JobID(fmt.Sprint("job-", busy)), Pool: cluster.DefaultPool, Instances: 1, MaxFailures: 1,
				Backoff: cluster.Backoff{Initial: 10 * time.Second, Max: time.Minute},
				Task:    cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}
			require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
				return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: spec}}})
			}))
			run := sh.down().GetLaunch().GetRun()
			st := runStatus(run, sluicev1.RunState_RUN_STATE_FAILED)
			st.Reason = string(cluster.ReasonExited)
			sh.status(st)
			back.Add(int64(time.Hour))
			begun, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; busy && time.Since(begun) < 2*clockLook; i++ {
					time.Sleep(time.Second)
					_ = r.s.Do(t.Context(), func(tx *Tx) error {
						return tx.Emit(&cluster.HostDrain{ID: cluster.MakeHostID("s", "h1"), Drain: i%2 == 0})
					})
				}
			}()
			require.Equal(t, uint32(2), sh.down().GetLaunch().GetRun().GetRun())
			require.LessOrEqual(t, time.Since(begun), clockLook, "busy: %t", busy)
			<-done
		}
	})
}

// A step back that comes right behind the start of a run is noticed by that, before it is asked how long the run has lasted.
func TestTheClockIsSetBackRightBehindAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		sh := r.connect("s", 1)
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.ModeSet{}) }))
		time.Sleep(time.Hour)
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
				Name: "job", Pool: cluster.DefaultPool, Instances: 1, Limits: cluster.JobLimits{MaxRunTime: 10 * time.Minute},
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
			}}}})
		}))
		run := runFrom(sh.down().GetLaunch().GetRun())
		time.Sleep(time.Minute)
		begun := time.Now()
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			back.Store(int64(time.Second))
			return tx.Emit(&cluster.TaskStatus{Task: run.Task, Run: run.Run, State: cluster.TaskRunning})
		}))
		require.Equal(t, run, runFrom(sh.down().GetKill().GetRun()))
		require.GreaterOrEqual(t, time.Since(begun), 10*time.Minute)
	})
}

// Nor does it have a run go on for longer than for its limit once more.
func TestTheClockIsSetBackOverALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := newRigAt(t, journal.NewMemory(), func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		sh := r.connect("s", 1)
		spec := &cluster.JobSpec{
			Name: "job", Pool: cluster.DefaultPool, Instances: 1, Limits: cluster.JobLimits{MaxRunTime: 10 * time.Minute},
			Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"/bin/true"}}}},
		}
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: spec}}})
		}))
		run := sh.down().GetLaunch().GetRun()
		sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
		begun := time.Now()
		back.Store(int64(24 * time.Hour))
		require.Equal(t, runFrom(run), runFrom(sh.down().GetKill().GetRun()))
		require.LessOrEqual(t, time.Since(begun), 10*time.Minute+clockLook)
	})
}

func TestFailuresAreRetriedAndRefusalsAreNotFailures(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	uid := r.submit("job", 1, 1)
	for run, reason := range []cluster.Reason{
		cluster.ReasonExited, cluster.ReasonLaunchRefused, cluster.ReasonLaunchRefused, cluster.ReasonExited,
	} {
		launch := sh.down().GetLaunch()
		require.Equal(t, uint32(run+1), launch.GetRun().GetRun())
		st := runStatus(launch.GetRun(), sluicev1.RunState_RUN_STATE_FAILED)
		st.Reason = string(reason)
		sh.status(st)
	}
	task := r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0))
	require.Equal(t, cluster.TaskFailed, task.State)
	require.Equal(t, uint32(2), task.Failures)
	require.Equal(t, cluster.JobFailed, r.s.Snapshot().Job(uid).State())
}

// A launch that its host manager would not take would break the session, and the next one, and nothing else would be launched.
func TestALaunchThatIsTooLarge(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	var uid cluster.JobUID
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		uid = tx.State().NextJob()
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
			Name: "large", Pool: cluster.DefaultPool, Instances: 1,
			Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"/bin/true"}}},
				Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 1000}},
			},
			Overrides: []cluster.InstanceOverride{{Env: []cluster.KeyValue{{Key: "A", Value: strings.Repeat("x", MaxRequestBytes)}}}},
		}}}})
	}))
	task := r.eventually(cluster.MakeTaskKey(uid, 0), inState(cluster.TaskFailed))
	require.Equal(t, cluster.ReasonLaunchFailed, task.Reason)
	require.Contains(t, task.Message, "let overrides add less to the environment of its processes")

	r.submit("small", 1, 0)
	require.Equal(t, "small", sh.down().GetLaunch().GetRun().GetJob())
}

func TestStoppingKillsOnce(t *testing.T) {
	r, sh, uid, run := newRunning(t)
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobStopping{Job: uid}) }))
	require.Equal(t, runFrom(run), runFrom(sh.down().GetKill().GetRun()))
	sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_KILLED))
	require.Equal(t, cluster.JobKilled, r.s.Snapshot().Job(uid).State())
}

// Who is stopped while he leaves for another has as long as one that is stopped, not as one that leaves.
func TestStoppingWhoLeaves(t *testing.T) {
	r, sh, uid, run := newRunning(t)
	spec := *r.s.Snapshot().Job(uid).Spec
	spec.Preemption.Grace, spec.Task.KillGrace = time.Hour, time.Second
	k := cluster.MakeTaskKey(uid, 0)
	for _, e := range []cluster.Event{
		&cluster.JobUpdated{Job: uid, Spec: &spec}, &cluster.TaskPreempted{Task: k, Run: 1}, &cluster.JobStopping{Job: uid},
	} {
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(e) }))
		if _, changes := e.(*cluster.JobUpdated); changes {
			continue
		}
		kill := sh.down().GetKill()
		require.Equal(t, runFrom(run), runFrom(kill.GetRun()))
		want := time.Hour
		if r.s.Snapshot().Task(k).State == cluster.TaskKilling {
			want = time.Second
		}
		require.Equal(t, want, kill.GetGrace().AsDuration())
	}
}

// A run of an earlier version is launched by that one.
func TestLaunchByAnEarlierVersion(t *testing.T) {
	before, now := &cluster.JobSpec{}, &cluster.JobSpec{}
	before.Limits.MaxRunTime, now.Limits.MaxRunTime = time.Minute, time.Hour
	before.Preemption.Grace, now.Preemption.Grace = time.Minute, time.Hour
	j := &cluster.Job{UID: 1, Spec: now, Version: 2, Past: []cluster.Version{{Number: 1, Spec: before}}}
	for version, want := range map[uint64]time.Duration{1: time.Minute, 2: time.Hour} {
		l := launchDown(&cluster.Task{Key: cluster.MakeTaskKey(1, 0), Run: 1, Version: version}, j).GetLaunch()
		require.EqualValues(t, want, l.GetTask().GetMaxRunTimeNs(), "version %d", version)
		require.Equal(t, want, l.GetTask().GetPreemptionGrace().AsDuration(), "version %d", version)
	}
}

// After a restart of the scheduler the shard's inventory and the journal are brought together.
func TestReconciliation(t *testing.T) {
	j := journal.NewMemory()
	first := newRig(t, j)
	sh := first.connect("s", 2)
	uid := first.submit("job", 4, 0)
	for range 4 {
		sh.down()
	}
	// 0 is running and stays; 1 was running and is forgotten by the shard; 2 ended unseen, in its second run; 3 never reached the shard.
	sh.status(runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING))
	sh.status(runStatus(ref(uid, 1, 1), sluicev1.RunState_RUN_STATE_RUNNING))
	sh.status(runStatus(ref(uid, 2, 1), sluicev1.RunState_RUN_STATE_LOST))
	for sh.down().GetLaunch() == nil {
	}
	gone := first.submit("gone", 0, 0)
	for _, e := range []cluster.Event{&cluster.JobStopping{Job: gone}, &cluster.JobDeleted{Job: gone}} {
		require.NoError(t, first.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(e) }))
	}
	first.stop()

	second := newRig(t, j)
	sh = second.connect("s", 2,
		runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING),
		runStatus(ref(uid, 2, 2), sluicev1.RunState_RUN_STATE_SUCCEEDED),
		runStatus(ref(uid, 2, 1), sluicev1.RunState_RUN_STATE_RUNNING),  // a run of a task that is elsewhere by now
		runStatus(ref(gone, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING), // a job that nobody knows any more
		runStatus(ref(gone, 1, 1), sluicev1.RunState_RUN_STATE_FAILED),
	)
	var launched, killed, released []string
	for range 6 {
		m := sh.down()
		switch {
		case m.GetLaunch() != nil:
			launched = append(launched, runFrom(m.GetLaunch().GetRun()).String())
		case m.GetKill() != nil:
			killed = append(killed, runFrom(m.GetKill().GetRun()).String())
		case m.GetRelease() != nil:
			released = append(released, runFrom(m.GetRelease().GetRun()).String())
		}
	}
	require.ElementsMatch(t, []string{"1.1.2", "1.3.1"}, launched)
	require.ElementsMatch(t, []string{"1.2.1", "2.0.1"}, killed)
	require.ElementsMatch(t, []string{"1.2.2", "2.1.1"}, released)
	task := func(i uint32) *cluster.Task { return second.s.Snapshot().Task(cluster.MakeTaskKey(uid, i)) }
	require.Equal(t, cluster.TaskRunning, task(0).State)
	require.Equal(t, cluster.TaskSucceeded, task(2).State)
	require.Zero(t, task(1).Failures, "a lost run is no failure")
}

// A host manager that comes back begins a launch that it has recorded when that is acknowledged: one that was given up meanwhile is not.
func TestALaunchThatWasGivenUp(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	uid := r.submit("job", 1, 0)
	sh.down()
	sh.status(runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_LAUNCHING))
	sh.status(runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_LAUNCHING))
	sh.status(runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_LOST))
	require.Equal(t, uint32(2), sh.down().GetLaunch().GetRun().GetRun())

	late := runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_LAUNCHING)
	late.UpdateId = sh.update + 1
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: late}})
	require.Equal(t, uint32(1), sh.down().GetKill().GetRun().GetRun())
}

// A scheduler over an earlier copy of its store gives out no number that its shards know from the time after it: a launch would be
// taken for the repetition of another, which is being killed.
func TestAnEarlierCopyOfTheStore(t *testing.T) {
	for name, known := range map[string]*sluicev1.RunRef{"a later job": ref(2, 0, 1), "a later run": ref(1, 1, 2)} {
		t.Run(name, func(t *testing.T) {
			j := journal.NewMemory()
			first := newRig(t, j)
			uid := first.submit("job", 1, 0)
			first.stop()
			second := newRig(t, j)
			sh := second.connect("s", 2, runStatus(known, sluicev1.RunState_RUN_STATE_RUNNING))
			require.Equal(t, runFrom(known), runFrom(sh.down().GetKill().GetRun()))
			time.Sleep(50 * DefaultBatchWindow)
			require.Equal(t, cluster.TaskPending, second.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State, "nothing starts beside it")
			sh.status(runStatus(known, sluicev1.RunState_RUN_STATE_KILLED))
			run := runFrom(sh.down().GetLaunch().GetRun())
			require.Equal(t, uid, run.Task.Job())
			require.Greater(t, run.Run, uint32(cluster.Forgettable))
			require.Greater(t, second.submit("next", 1, 0), cluster.JobUID(cluster.Forgettable))
			sh.down()
			second.stop()

			third := newRig(t, j)
			third.connect("s", 2, runStatus(known, sluicev1.RunState_RUN_STATE_RUNNING))
			require.Less(t, third.submit("last", 1, 0), cluster.JobUID(2*cluster.Forgettable), "what it knows was given out before now")
		})
	}
}

// A run whose shard knows it, and cannot say more, is not taken for one that the shard does not know, which would begin again
// elsewhere.
func TestRunsOfWhichAShardKnowsNoMore(t *testing.T) {
	j := journal.NewMemory()
	first := newRig(t, j)
	sh := first.connect("s", 1)
	uid := first.submit("job", 2, 0)
	sh.down()
	sh.down()
	for i := range uint32(2) {
		sh.status(runStatus(ref(uid, i, 1), sluicev1.RunState_RUN_STATE_RUNNING))
	}
	sh.status(runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_UNREACHABLE))
	first.stop()

	second := newRig(t, j)
	sh = second.connect("s", 1,
		runStatus(ref(uid, 0, 1), sluicev1.RunState_RUN_STATE_UNREACHABLE),
		runStatus(ref(uid, 1, 1), 99), // of a newer release
		runStatus(ref(77, 0, 1), sluicev1.RunState_RUN_STATE_UNREACHABLE),
	)
	require.Equal(t, "77.0.1", runFrom(sh.down().GetKill().GetRun()).String(), "nobody waits for it")
	for i := range uint32(2) {
		task := second.s.Snapshot().Task(cluster.MakeTaskKey(uid, i))
		require.Equal(t, cluster.TaskRunning, task.State)
		require.Equal(t, uint32(1), task.Run)
	}
}

// A shard that stays away loses its tasks to other hosts, and what it brings back is killed.
func TestACutOffShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("a", 1)
		uid := r.submit("job", 1, 0)
		run := sh.down().GetLaunch().GetRun()
		sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
		other := r.connect("b", 1)
		sh.cancel()

		time.Sleep(DefaultUnreachableAfter - 5*time.Second)
		require.Equal(t, cluster.HostUp, r.s.Snapshot().Host("a/h0").State())
		time.Sleep(10 * time.Second)
		require.Equal(t, cluster.HostUnreachable, r.s.Snapshot().Host("a/h0").State())
		require.Equal(t, cluster.TaskRunning, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State)
		time.Sleep(DefaultLostAfter)
		again := other.down().GetLaunch().GetRun()
		require.Equal(t, "1.0.2", runFrom(again).String())

		sh = r.connect("a", 1, runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
		require.Equal(t, runFrom(run), runFrom(sh.down().GetKill().GetRun()))
		other.status(runStatus(again, sluicev1.RunState_RUN_STATE_SUCCEEDED))
		synctest.Wait()
		require.Equal(t, cluster.HostUp, r.s.Snapshot().Host("a/h0").State())
		require.Equal(t, cluster.JobSucceeded, r.s.Snapshot().Job(uid).State())
	})
}

// What is placed on hosts of a shard when that is cut off already was never sent: it goes elsewhere as soon as they are unreachable. What may
// have been sent before waits for longer, also in another process.
func TestWhatACutOffShardWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.NewMemory()
		r := newRig(t, j)
		sh := r.connect("a", 1)
		sent := cluster.MakeTaskKey(r.submit("sent", 1, 0), 0)
		require.NotNil(t, sh.down().GetLaunch())
		sh.cancel()
		synctest.Wait()
		late := cluster.MakeTaskKey(r.submit("late", 1, 0), 0)
		r.eventually(late, inState(cluster.TaskPlaced))
		other := r.connect("b", 1)
		state := func(k cluster.TaskKey) cluster.TaskState { return r.s.Snapshot().Task(k).State }
		time.Sleep(DefaultUnreachableAfter - 2*time.Second)
		require.Equal(t, cluster.TaskPlaced, state(late))
		time.Sleep(5 * time.Second)
		launch := other.down().GetLaunch()
		require.Equal(t, late, runFrom(launch.GetRun()).Task)
		require.Equal(t, uint32(2), launch.GetRun().GetRun())
		require.Equal(t, cluster.TaskPlaced, state(sent))
		require.Equal(t, cluster.HostID("a/h0"), r.s.Snapshot().Task(sent).Host)
		r.stop()

		r = newRig(t, j)
		time.Sleep(DefaultUnreachableAfter + 5*time.Second)
		require.Equal(t, cluster.TaskPlaced, state(sent))
		require.Equal(t, cluster.TaskPlaced, state(late))
		sh = r.connect("a", 1)
		require.Equal(t, sent, runFrom(sh.down().GetLaunch().GetRun()).Task)
	})
}

// A host manager that begins anew under the name of one that is away knows nothing of what that one runs, and which runs on: it is
// taken when that has been given up.
func TestAShardThatBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		anew := func(session string) (*scripted, *sluicev1.ShardDown) {
			return r.hello(&sluicev1.Hello{Shard: "a", ProtocolVersion: protocolVersion, SessionId: session})
		}
		sh, answer := anew("first")
		require.NotNil(t, answer.GetWelcome(), "%v", answer)
		sh.up(hostReport("h0"))
		sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Last: true}}})
		uid := r.submit("job", 1, 0)
		sh.status(runStatus(sh.down().GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING))
		sh.cancel()
		synctest.Wait()

		_, answer = anew("second")
		require.True(t, answer.GetReject().GetRetry())
		require.Contains(t, answer.GetReject().GetReason(), "start it over the folder where they are, or give it another name")
		require.Equal(t, cluster.TaskRunning, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State)
		time.Sleep(DefaultUnreachableAfter + DefaultLostAfter + 2*deadlineTick)
		_, answer = anew("second")
		require.NotNil(t, answer.GetWelcome(), "%v", answer)
	})
}

// served plays the beginning of a session over a state folder, with a host that has room for four tasks and the runs that the folder
// knows, or returns why it was rejected.
func (r *rig) served(folder, clusterID string, runs ...*sluicev1.RunStatus) (*scripted, string) {
	sh, answer := r.hello(&sluicev1.Hello{
		Shard: "a", ProtocolVersion: protocolVersion, SessionId: rand.Text(), ClusterId: clusterID, Folder: folder,
	})
	if reject := answer.GetReject(); reject != nil {
		require.True(r.t, reject.GetRetry())
		return nil, reject.GetReason()
	}
	sh.up(hostReport("h0"))
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Runs: runs, Last: true}}})
	return sh, ""
}

// Of two host managers with one name and a state folder each, which have both served the cluster, the one is taken that knows what runs
// on the hosts, by whichever scheduler: after a change of leaders, a checkpoint, or when a session breaks.
func TestAShardOfTwoFolders(t *testing.T) {
	for name, again := range map[string]func(*rig, journal.Journal) *rig{
		"the same scheduler": func(r *rig, _ journal.Journal) *rig { return r },
		"another scheduler": func(r *rig, j journal.Journal) *rig {
			r.stop()
			return newRig(r.t, j)
		},
		"two others": func(r *rig, j journal.Journal) *rig {
			r.stop()
			next := newRig(r.t, j)
			next.stop()
			return newRig(r.t, j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := journal.NewMemory()
				r := newRig(t, j)
				id := r.s.Snapshot().ClusterID()
				end := func(sh *scripted) { sh.cancel(); synctest.Wait() }
				sh, _ := r.served("A", "")
				synctest.Wait()
				end(sh)
				sh, refused := r.served("B", "")
				require.Empty(t, refused, "there are no tasks")
				uid := r.submit("job", 1, 0)
				run := runStatus(sh.down().GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING)
				sh.status(run)
				end(sh)
				r = again(r, j)

				for range 2 {
					_, refused = r.served("A", id)
					require.Contains(t, refused, `start it over the folder where they are (its file "folder" says B), or give it another name`)
					_, refused = r.served("C", "")
					require.Contains(t, refused, "says B")
					sh, refused = r.served("B", id, run)
					require.Empty(t, refused)
					synctest.Wait()
					require.Equal(t, uint32(1), r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).Run)
					end(sh)
				}
				sh, refused = r.served("B", "", run) // the note of the cluster is lost, not what runs
				require.Empty(t, refused)
				end(sh)

				time.Sleep(DefaultUnreachableAfter + DefaultLostAfter + 2*deadlineTick)
				_, refused = r.served("A", id)
				require.Empty(t, refused, "they have been given up")
			})
		})
	}
}

// A host manager of an earlier version names no folder: it is taken if it has served the cluster. What it runs is no more that of the
// folder that served before, and the first folder that is named then is taken for its own.
func TestAShardThatNamesNoFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		id := r.s.Snapshot().ClusterID()
		sh, _ := r.served("A", "")
		r.submit("job", 1, 0)
		run := runStatus(sh.down().GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING)
		sh.status(run)
		for _, now := range []struct {
			folder string
			taken  bool
		}{{"A", true}, {"", true}, {"B", true}, {"A", false}, {"", true}, {"", true}, {"A", true}, {"B", false}} {
			sh.cancel()
			synctest.Wait()
			next, refused := r.served(now.folder, id, run)
			require.Equal(t, now.taken, refused == "", "%v: %s", now, refused)
			if next != nil {
				sh = next
			}
			_, refused = r.served("", "")
			require.NotEmpty(t, refused, "an empty folder")
			synctest.Wait()
		}
		require.Equal(t, uint32(1), r.s.Snapshot().Task(cluster.MakeTaskKey(1, 0)).Run)
	})
}

// With its last host it is forgotten which folder served a shard, and with its first one it is known, also within one session.
func TestTheFolderOfAShardWithoutHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh, _ := r.served("A", "")
		for range 2 {
			synctest.Wait()
			require.Equal(t, "A", r.s.Snapshot().FolderOf("a"))
			sh.up(hostReport())
			synctest.Wait()
			require.Zero(t, r.s.Snapshot().NumHosts())
			require.Empty(t, r.s.Snapshot().FolderOf("a"))
			sh.up(hostReport("h1"))
		}
	})
}

// A shard that connects, again and again, and never ends the list of what it runs, is as good as cut off: nothing can be launched
// there.
func TestAShardThatNeverTellsWhatItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("a", 1)
		uid := r.submit("job", 1, 0)
		sh.down()
		r.connect("b", 1)
		sh.cancel()
		for range 4 {
			time.Sleep(DefaultLostAfter / 4)
			sh, _ = r.hello(&sluicev1.Hello{
				Shard: "a", ProtocolVersion: protocolVersion, SessionId: fmt.Sprint(time.Now().UnixNano()), ClusterId: r.s.Snapshot().ClusterID(),
			})
			sh.up(hostReport("h0"))
			sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{}}})
			time.Sleep(2 * DefaultUnreachableAfter)
			require.Equal(t, cluster.HostUnreachable, r.s.Snapshot().Host("a/h0").State())
			require.False(t, r.s.Shards()[0].Connected)
			sh.cancel()
			synctest.Wait()
		}
		require.Equal(t, cluster.HostID("b/h0"), r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).Host)
		r.connect("a", 1)
		synctest.Wait()
		require.Equal(t, cluster.HostUp, r.s.Snapshot().Host("a/h0").State())
		require.True(t, r.s.Shards()[0].Connected)
	})
}

// Who has no hosts is missed by nobody once it is gone, and nothing is left that an operator could forget.
func TestAShardWithoutHostsIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		none, some := r.connect("none", 0), r.connect("some", 1)
		synctest.Wait()
		require.Len(t, r.s.Shards(), 2)
		none.cancel()
		some.cancel()
		synctest.Wait()
		require.Len(t, r.s.Shards(), 1)
		require.Equal(t, cluster.ShardID("some"), r.s.Shards()[0].Name)
	})
}

// A connected shard that does not see a host any more is told to end what runs there, also by the next scheduler, and no other run
// begins before it has.
func TestAHostThatItsShardLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.NewMemory()
		r := newRig(t, j)
		sh := r.connect("s", 1)
		uid := r.submit("job", 1, 0)
		run := sh.down().GetLaunch().GetRun()
		status := runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING)
		sh.status(status)
		r.connect("other", 1)
		sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true}}})
		ended := func(sh *scripted) {
			t.Helper()
			kill := sh.down().GetKill()
			require.Equal(t, runFrom(run), runFrom(kill.GetRun()))
			require.Equal(t, rules.StaleGrace, kill.GetGrace().AsDuration())
			require.Equal(t, string(cluster.ReasonHostLost), kill.GetReason())
		}
		time.Sleep(DefaultLostAfter + 2*deadlineTick)
		require.Equal(t, cluster.TaskKilling, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State)
		ended(sh)
		r.stop()

		r = newRig(t, j)
		sh = r.connect("s", 0, status)
		other := r.connect("other", 1)
		ended(sh)
		sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_KILLED))
		require.Equal(t, "1.0.2", runFrom(other.down().GetLaunch().GetRun()).String())
	})
}

// What a shard tells of some hosts while it lists all of them neither ends the list nor is undone by it.
func TestChangesWhileAllHostsAreListed(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 4)
	part := func(p *sluicev1.HostReport, names ...string) {
		for _, name := range names {
			p.Hosts = append(p.Hosts, &sluicev1.HostInfo{Name: name, Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000}}})
		}
		sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: p}})
	}
	hosts := func() (up []string) {
		for h := range r.s.Snapshot().Hosts("") {
			up = append(up, h.ID.Name())
		}
		return up
	}
	await := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool { return slices.Equal(want, hosts()) }, time.Minute, time.Millisecond, "%v", want)
	}
	part(&sluicev1.HostReport{Full: true}, "h0", "h1", "h2")
	part(&sluicev1.HostReport{Removed: []string{"h1"}}, "new")
	await("h0", "h2", "h3", "new")
	part(&sluicev1.HostReport{Full: true, Last: true}, "late")
	await("h0", "h2", "late", "new")
	part(&sluicev1.HostReport{Full: true, Last: true}, "h0")
	await("h0")
}

// A shard that does not read what it is sent delays nobody else.
func TestASlowShardDelaysNoOther(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	r.connect("slow", 500) // and reads nothing
	r.submit("flood", 2000, 0)
	k := cluster.MakeTaskKey(1, 1999)
	r.eventually(k, inState(cluster.TaskPlaced))
	fast := r.connect("fast", 1)
	r.submit("job", 1, 0)
	require.Equal(t, "job", fast.down().GetLaunch().GetRun().GetJob())
}

// A shard that sends and does not read is held up until it does; nothing is lost and the session goes on.
func TestAShardThatReadsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("s", 1)
		const statuses = 10 * maxAnswers
		go func() {
			for i := range statuses {
				st := runStatus(ref(99, uint32(i), 1), sluicev1.RunState_RUN_STATE_SUCCEEDED)
				st.UpdateId = uint64(i + 1)
				if sh.stream.Send(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: st}}) != nil {
					return // the reader finds out why
				}
			}
		}()
		synctest.Wait() // all that has room on the way is on the way
		for i := range statuses {
			require.Equal(t, uint64(i+1), sh.down().GetAck().GetUpdateId())
			require.Equal(t, uint32(i), sh.down().GetRelease().GetRun().GetInstance())
		}
	})
}

// A shard that closes its side and never reads what it was sent is gone all the same.
func TestAShardThatReadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("s", 1)
		synctest.Wait()
		session := r.s.shards.get("s").control
		for len(session.commands) == 0 { // until the stream has no room for more
			session.commands <- killDown(ref(1, 0, 1), 0, nil, cluster.Reason(strings.Repeat("x", 1<<20)))
			synctest.Wait()
		}
		require.NoError(t, sh.stream.CloseSend())
		synctest.Wait()
		require.Nil(t, r.s.shards.get("s").control)
	})
}

// What a session said of hosts and runs does not count any more when another has taken its place.
func TestASessionThatWasReplacedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, journal.NewMemory())
		sh := r.connect("s", 1)
		uid := r.submit("job", 1, 0)
		sh.status(runStatus(sh.down().GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING))

		ctx, replaced := context.WithCancel(t.Context())
		begun := &control{s: r.s, shard: "s", ready: make(chan struct{})}
		served := &control{s: r.s, shard: "s", ready: make(chan struct{})}
		close(served.ready)
		busy := make(chan struct{})
		go func() { _ = r.s.Do(t.Context(), func(*Tx) error { <-busy; return nil }) }()
		synctest.Wait()
		go func() {
			_ = begun.hostReport(ctx, &sluicev1.HostReport{Full: true, Last: true})
			_ = begun.inventory(ctx, &sluicev1.Inventory{Last: true})
		}()
		go func() { _ = served.hostReport(ctx, &sluicev1.HostReport{Full: true, Last: true}) }()
		synctest.Wait() // all are in the queue of the writer
		replaced()
		close(busy)
		synctest.Wait()
		require.Equal(t, cluster.HostUp, r.s.Snapshot().Host("s/h0").State())
		require.Equal(t, cluster.TaskRunning, r.s.Snapshot().Task(cluster.MakeTaskKey(uid, 0)).State)
	})
}

func TestWhoMayConnect(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	r.connect("taken", 1)
	good := func(change func(*sluicev1.Hello)) *sluicev1.Hello {
		h := &sluicev1.Hello{Shard: "s", ProtocolVersion: protocolVersion, SessionId: "x"}
		change(h)
		return h
	}
	for _, c := range []struct {
		name   string
		hello  *sluicev1.Hello
		says   string
		repeat bool
	}{
		{"no name", good(func(h *sluicev1.Hello) { h.Shard = "" }), "hello.shard", false},
		{"a bad name", good(func(h *sluicev1.Hello) { h.Shard = "a/b" }), "hello.shard", false},
		{"a long folder", good(func(h *sluicev1.Hello) { h.Folder = strings.Repeat("f", 65) }), "hello.folder", false},
		{"no session", good(func(h *sluicev1.Hello) { h.SessionId = "" }), "session_id", false},
		{"another protocol", good(func(h *sluicev1.Hello) { h.ProtocolVersion = 99 }), "protocol_version is 99", false},
		{"another cluster", good(func(h *sluicev1.Hello) { h.ClusterId = "other" }), "belongs to cluster other", false},
		{"a name in use", good(func(h *sluicev1.Hello) { h.Shard = "taken" }), "connected already", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, answer := r.hello(c.hello)
			require.Contains(t, answer.GetReject().GetReason(), c.says)
			require.NotContains(t, answer.GetReject().GetReason(), "rpc error")
			require.Equal(t, c.repeat, answer.GetReject().GetRetry())
		})
	}
}

// What a shard sends that makes no sense is left out; it neither stops the scheduler nor the session.
// Whoever asks for the shards gets an answer that is no longer than a message may be.
func TestAShardOfALongDriver(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	_, answer := r.hello(&sluicev1.Hello{Shard: "s", ProtocolVersion: protocolVersion, SessionId: "x", Driver: strings.Repeat("d", 3<<20)})
	require.NotNil(t, answer.GetWelcome())
	require.Less(t, len(r.s.Shards()[0].Driver), 100)
}

func TestNonsenseFromAShard(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Hosts: []*sluicev1.HostInfo{
		{Name: "a/b"},
		{Name: ""},
		{Name: "a\nb"}, // page tokens have it as a separator
		{Name: "\x1b[31m"},
		nil,
		{Name: "negative", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: -1}}},
		{Name: "endless", Notes: []string{strings.Repeat("n", maxSpecBytes)}}, // nobody could list the hosts
		{Name: "ambiguous", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{Named: map[string]int64{"cpu_milli": 9}}}},
		{Name: "nameless", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{Named: map[string]int64{"": 9}}}},
		{Name: "spaced", Capacity: &sluicev1.Capacity{Revocable: &sluicev1.ResourceVector{Named: map[string]int64{"a b": 0}}}},
	}}}})
	sh.up(&sluicev1.ShardUp{})
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: &sluicev1.RunStatus{UpdateId: 1, State: 99}}})
	require.Equal(t, uint64(1), sh.down().GetAck().GetUpdateId())
	require.Equal(t, 1, r.s.Snapshot().NumHosts())
	uid := r.submit("job", 1, 0)
	require.Equal(t, uint32(uid), sh.down().GetLaunch().GetRun().GetJobUid())
}

package hostmgr_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestHandshake(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.runs[run(7)] = status(7, cluster.TaskRunning)
		b.start()
		c, hello := b.hello()
		require.Equal(t, "here", hello.GetShard())
		require.EqualValues(t, 1, hello.GetProtocolVersion())
		require.Empty(t, hello.GetClusterId())
		require.Len(t, hello.GetSessionId(), 32)
		require.Equal(t, "scripted", hello.GetDriver())
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
			ClusterId: "cluster-1", ProtocolVersion: 1,
		}}})
		want := &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{{
			Name: "h0", Rack: "r0", Zone: "z", Notes: []string{"a note"},
			Attributes: []*sluicev1.Attribute{{Key: "os", Value: "linux"}},
			Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{
				CpuMilli: 4000, MemoryBytes: 1 << 30, DiskBytes: 1 << 40, GpuMilli: 2000, Named: map[string]int64{"licence": 3},
			}},
		}}}
		got := b.up(c).GetHostReport()
		require.True(t, proto.Equal(want, got), "%v", got)
		inventory := b.up(c).GetInventory()
		require.True(t, inventory.GetLast())
		require.Len(t, inventory.GetRuns(), 1)
		require.Equal(t, sluicev1.RunState_RUN_STATE_RUNNING, inventory.GetRuns()[0].GetState())
		require.Zero(t, inventory.GetRuns()[0].GetUpdateId())

		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Ping{Ping: &sluicev1.Ping{Number: 5}}})
		require.EqualValues(t, 5, b.up(c).GetPong().GetNumber())

		c.result <- nil // the scheduler goes away
		_, hello2 := b.hello()
		require.Equal(t, "cluster-1", hello2.GetClusterId(), "the shard knows its cluster now")
		require.Equal(t, hello.GetSessionId(), hello2.GetSessionId())
	})
}

func TestLongListsComeInParts(t *testing.T) {
	onBench(t, func(b *bench) {
		note := fmt.Sprintf("%0900d", 1)
		for i := range 5000 {
			h := b.driver.hosts[0]
			h.Name = fmt.Sprint("host-", i)
			h.Notes = []string{note}
			b.driver.hosts = append(b.driver.hosts, h)
			st := status(i, cluster.TaskRunning)
			st.Message = note
			b.driver.runs[st.Run] = st
		}
		b.start()
		c, _ := b.hello()
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
			ClusterId: "cluster-1", ProtocolVersion: 1,
		}}})
		hosts, parts := 0, 0
		for last := false; !last; parts++ {
			m := b.up(c)
			require.Less(t, proto.Size(m), 2<<20)
			hosts += len(m.GetHostReport().GetHosts())
			last = m.GetHostReport().GetLast()
			require.True(t, m.GetHostReport().GetFull())
		}
		require.Equal(t, 5001, hosts)
		require.Greater(t, parts, 3)
		runs, parts := 0, 0
		for last := false; !last; parts++ {
			m := b.up(c)
			require.Less(t, proto.Size(m), 2<<20)
			runs += len(m.GetInventory().GetRuns())
			last = m.GetInventory().GetLast()
		}
		require.Equal(t, 5000, runs)
		require.Greater(t, parts, 3)
	})
}

func TestLifeOfARun(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.launch(c, 1)
		synctest.Wait()
		require.Equal(t, []hostmgr.Launch{{
			Run: run(1), Job: "work", Host: "h0", Task: cluster.TaskSpec{
				Processes: []cluster.Process{{Command: []string{"work", "hard"}}},
				Resources: cluster.NewResources([cluster.NumDimensions]int64{100, 1 << 20, 0, 0}),
			},
		}}, b.driver.launched)

		b.driver.report(status(1, cluster.TaskLaunching))
		st := b.status(c)
		require.Equal(t, sluicev1.RunState_RUN_STATE_LAUNCHING, st.GetState())
		require.Nil(t, st.GetResult())
		b.ack(c, st)

		b.kill(c, 1, &sluicev1.Kill{Grace: durationpb.New(3 * time.Second)})
		synctest.Wait()
		require.Equal(t, []cluster.RunID{run(1)}, b.driver.killed)
		require.Equal(t, []time.Duration{3 * time.Second}, b.driver.graces)

		end := hostmgr.Status{
			Run: run(1), Host: "h0", State: cluster.TaskKilled, ExitCode: -1, Signal: 15, Message: "not UTF-8: \xff", At: 42,
		}
		b.driver.report(end)
		st = b.status(c)
		require.True(t, proto.Equal(&sluicev1.RunStatus{
			UpdateId: 2, Run: &sluicev1.RunRef{JobUid: 1, Instance: 1, Run: 1}, State: sluicev1.RunState_RUN_STATE_KILLED,
			Host: "h0", Result: &sluicev1.RunResult{Signal: 15}, Message: "not UTF-8: �", TimeUnixNs: 42,
		}, st), "%v", st)
		b.ack(c, st)
		b.release(c, 1)
		synctest.Wait()
		require.Equal(t, []cluster.RunID{run(1)}, b.driver.released)
		b.silent(c)
		_, runs := b.welcome()
		require.Empty(t, runs)
	})
}

// TestARunThatComesUpAgainIsTold: a driver may hear once more of a run as soon as it has forgotten it, as when Mesos repeats the update of its
// end. The scheduler is told, or it would never release it again.
func TestARunThatComesUpAgainIsTold(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.onRelease = func(cluster.RunID) {
			if len(b.driver.released) == 1 {
				b.driver.report(status(1, cluster.TaskSucceeded))
			}
		}
		c := b.begin()
		b.driver.report(status(1, cluster.TaskSucceeded))
		for range 2 {
			b.ack(c, b.status(c))
			b.release(c, 1)
			synctest.Wait()
		}
		require.Equal(t, []cluster.RunID{run(1), run(1)}, b.driver.released)
		b.silent(c)
		_, runs := b.welcome()
		require.Empty(t, runs)
	})
}

func TestRefusedLaunch(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason cluster.Reason
	}{
		"no such host": {fmt.Errorf("%w: h0", hostmgr.ErrUnknownHost), cluster.ReasonLaunchRefused},
		"disk full":    {errors.New("disk full"), cluster.ReasonLaunchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.driver.onLaunch = func(hostmgr.Launch) error { return test.err }
				c := b.begin()
				b.launch(c, 1)
				st := b.status(c)
				require.Equal(t, sluicev1.RunState_RUN_STATE_FAILED, st.GetState())
				require.Equal(t, string(test.reason), st.GetReason())
				require.Equal(t, test.err.Error(), st.GetMessage())
				require.Equal(t, "h0", st.GetHost())
				require.NotZero(t, st.GetTimeUnixNs())

				// What was refused stays refused, even if it would work now and whatever was acknowledged.
				b.driver.onLaunch = func(hostmgr.Launch) error { return nil }
				b.launch(c, 1)
				require.Equal(t, st.GetReason(), b.status(c).GetReason())
				c.result <- nil
				c, runs := b.welcome()
				require.Len(t, runs, 1)
				require.Equal(t, sluicev1.RunState_RUN_STATE_FAILED, runs[0].GetState())
				b.ack(c, b.status(c))
				b.launch(c, 1)
				b.ack(c, b.status(c))
				require.Equal(t, 1, b.driver.launches(1))
				b.release(c, 1)
				b.silent(c)
				_, runs = b.welcome()
				require.Empty(t, runs)
			})
		})
	}
}

func TestKnownRunIsNotLaunchedAgain(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.launch(c, 1)
		synctest.Wait()
		b.driver.report(status(1, cluster.TaskRunning))
		b.ack(c, b.status(c))
		b.launch(c, 1)
		require.Equal(t, sluicev1.RunState_RUN_STATE_RUNNING, b.status(c).GetState(), "the answer is the run's status")
		require.Equal(t, 1, b.driver.launches(1))

		// Two that come before the driver has reported anything: the driver is the one that tells them apart.
		b.driver.onLaunch = func(hostmgr.Launch) error {
			if b.driver.launches(2) == 2 {
				return hostmgr.ErrConflict
			}
			return nil
		}
		b.launch(c, 2)
		b.launch(c, 2)
		b.silent(c) // in particular no failure of a run that goes on
		require.Equal(t, 2, b.driver.launches(2))
	})
}

// The scheduler has given a run up while the shard was away, and starts the task anew where it still runs.
func TestATaskDoesNotStartBesideItsEarlierRun(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.runs[run(1)] = status(1, cluster.TaskRunning)
		b.start()
		c, runs := b.welcome()
		require.Len(t, runs, 1)
		again := func(n uint32) {
			l := launch(1)
			l.Run.Run = n
			b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Launch{Launch: l}})
		}
		b.kill(c, 1, &sluicev1.Kill{})
		again(2)
		st := b.status(c)
		require.Equal(t, uint32(2), st.GetRun().GetRun())
		require.Equal(t, string(cluster.ReasonLaunchRefused), st.GetReason())
		require.Contains(t, st.GetMessage(), "run 1.1.1 of the task has not ended yet on host h0")
		require.Empty(t, b.driver.launched)

		b.driver.report(status(1, cluster.TaskKilled))
		b.ack(c, b.status(c))
		again(3)
		synctest.Wait()
		require.Len(t, b.driver.launched, 1)
	})
}

// Nobody knows when a run on a host that is away ends, so it keeps its task from nothing.
func TestATaskStartsBesideARunThatIsOutOfReach(t *testing.T) {
	onBench(t, func(b *bench) {
		away := status(1, cluster.TaskRunning)
		away.Host = "gone"
		b.driver.runs[run(1)] = away
		b.start()
		c, _ := b.welcome()
		l := launch(1)
		l.Run.Run = 2
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Launch{Launch: l}})
		synctest.Wait()
		require.Len(t, b.driver.launched, 1)
	})
}

func TestKillOfAnUnknownRun(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.onKill = func(cluster.RunID) error { return hostmgr.ErrUnknownRun }
		c := b.begin()
		for range 2 {
			b.kill(c, 3, &sluicev1.Kill{})
			st := b.status(c)
			require.Equal(t, sluicev1.RunState_RUN_STATE_KILLED, st.GetState())
			require.Equal(t, string(cluster.ReasonUnknownToHost), st.GetReason())
			b.ack(c, st)
		}
	})
}

func TestKillThatFailsIsTriedAgain(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.onKill = func(cluster.RunID) error {
			if len(b.driver.killed) < 3 {
				return errors.New("disk full")
			}
			return nil
		}
		c := b.begin()
		b.kill(c, 1, &sluicev1.Kill{})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, b.driver.killed, 3)
		b.silent(c)
	})
}

func TestStatusUntilAcknowledged(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for n := range 4 {
			b.driver.report(status(n, cluster.TaskRunning))
		}
		var got []*sluicev1.RunStatus
		for range 4 {
			got = append(got, b.status(c))
		}
		b.ack(c, got[1])
		synctest.Wait()
		c.result <- grpcstatus.Error(codes.Unavailable, "crash")
		b.driver.report(status(2, cluster.TaskSucceeded)) // replaces what was not acknowledged
		b.driver.report(status(5, cluster.TaskLaunching))
		b.driver.report(status(5, cluster.TaskFailed))  // replaces what was not sent
		b.driver.report(status(5, cluster.TaskRunning)) // nothing follows the end

		c, runs := b.welcome()
		require.Len(t, runs, 5, "the inventory lists all, acknowledged or not")
		var repeated []string
		for range 4 {
			st := b.status(c)
			repeated = append(repeated, fmt.Sprintf("%d %v", st.GetRun().GetInstance(), st.GetState()))
			require.Greater(t, st.GetUpdateId(), got[3].GetUpdateId())
			b.ack(c, st)
		}
		require.Equal(t, []string{
			"0 RUN_STATE_RUNNING", "3 RUN_STATE_RUNNING", "2 RUN_STATE_SUCCEEDED", "5 RUN_STATE_FAILED",
		}, repeated)
		b.ack(c, got[0]) // an old id means nothing any more
		b.silent(c)
	})
}

func TestInventoryIsTheDriversWord(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.driver.report(status(1, cluster.TaskRunning))
		b.driver.report(status(2, cluster.TaskRunning))
		b.status(c)
		b.status(c)
		b.driver.mu.Lock()
		delete(b.driver.runs, run(1))
		b.driver.runs[run(2)] = status(2, cluster.TaskSucceeded) // about to be reported
		b.driver.runs[run(3)] = status(3, cluster.TaskRunning)   // adopted
		b.driver.mu.Unlock()
		c.result <- nil
		_, runs := b.welcome()
		require.Len(t, runs, 2)
		require.Equal(t, sluicev1.RunState_RUN_STATE_SUCCEEDED, runs[0].GetState())
		require.EqualValues(t, 3, runs[1].GetRun().GetInstance())
	})
}

// TestCommandsEndBeforeTheInventory: a launch that is in progress when the session breaks is finished before the next
// inventory is taken, or the scheduler would take the run for one that does not exist.
func TestCommandsEndBeforeTheInventory(t *testing.T) {
	onBench(t, func(b *bench) {
		proceed := make(chan struct{})
		b.driver.onLaunch = func(l hostmgr.Launch) error {
			<-proceed
			b.driver.report(hostmgr.Status{Run: l.Run, Host: l.Host, State: cluster.TaskLaunching, ExitCode: -1, At: 1})
			return nil
		}
		c := b.begin()
		b.launch(c, 1)
		synctest.Wait()
		c.result <- nil
		time.Sleep(time.Minute)
		select {
		case <-b.controls:
			require.Fail(t, "the next session began while a launch was in progress")
		default:
		}
		close(proceed)
		_, runs := b.welcome()
		require.Len(t, runs, 1)
	})
}

func TestCommandsOfOneRunKeepTheirOrder(t *testing.T) {
	onBench(t, func(b *bench) {
		proceed := make(chan struct{})
		b.driver.onLaunch = func(l hostmgr.Launch) error {
			if l.Run == run(1) {
				<-proceed
			}
			return nil
		}
		c := b.begin()
		b.launch(c, 1)
		b.kill(c, 1, &sluicev1.Kill{})
		b.launch(c, 2)
		b.kill(c, 2, &sluicev1.Kill{})
		synctest.Wait()
		require.Equal(t, []cluster.RunID{run(2)}, b.driver.killed, "a slow launch holds up its own run only")
		close(proceed)
		synctest.Wait()
		require.Equal(t, []cluster.RunID{run(2), run(1)}, b.driver.killed)
	})
}

// TestSlowScheduler: a scheduler that does not read holds nobody up, and learns the end of everything in the end.
func TestSlowScheduler(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		const runs = 3000
		for _, state := range []cluster.TaskState{cluster.TaskLaunching, cluster.TaskStarting, cluster.TaskRunning, cluster.TaskSucceeded} {
			for n := range runs {
				st := status(n, state)
				st.Message = "the queue of the stream is full after a few of these, and then some more"
				b.driver.report(st) // returns, though nobody reads
			}
			synctest.Wait()
		}
		ended, received := map[uint32]bool{}, 0
		for ; len(ended) < runs; received++ {
			st := b.status(c)
			b.ack(c, st)
			require.False(t, ended[st.GetRun().GetInstance()], "nothing follows the end")
			if st.GetState() == sluicev1.RunState_RUN_STATE_SUCCEEDED {
				ended[st.GetRun().GetInstance()] = true
			}
		}
		require.Less(t, received, 2*runs, "what was not sent in time was replaced")
		b.silent(c)
	})
}

func TestHostsChange(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.driver.sink.ReportHosts(nil)
		b.driver.sink.ReportHosts(b.driver.hosts[:1])
		synctest.Wait()
		for {
			report := b.up(c).GetHostReport()
			require.True(t, report.GetFull() && report.GetLast())
			if len(report.GetHosts()) == 1 { // the report between may have been left out
				break
			}
		}
		b.silent(c)
	})
}

func TestMessagesThatMakeNoSense(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for _, m := range []*sluicev1.ShardDown{
			{},
			{Message: &sluicev1.ShardDown_Launch{}},
			{Message: &sluicev1.ShardDown_Launch{Launch: &sluicev1.Launch{Run: &sluicev1.RunRef{JobUid: 1}}}},
			{Message: &sluicev1.ShardDown_Kill{Kill: &sluicev1.Kill{}}},
			{Message: &sluicev1.ShardDown_Release{}},
			{Message: &sluicev1.ShardDown_Ack{Ack: &sluicev1.Ack{UpdateId: 1 << 60}}},
			{Message: &sluicev1.ShardDown_Adjust{Adjust: &sluicev1.Adjust{Run: ref(1)}}},
			{Message: &sluicev1.ShardDown_Host{}},
			{Message: &sluicev1.ShardDown_Welcome{}},
		} {
			b.down(c, m)
		}
		b.driver.sink.ReportStatus(status(1, cluster.TaskPending)) // nor may a driver say everything
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Ping{Ping: &sluicev1.Ping{Number: 1}}})
		require.NotNil(t, b.up(c).GetPong(), "the session goes on")
		require.Empty(t, b.driver.launched)
		require.Empty(t, b.driver.killed)
		require.Empty(t, b.driver.released)
	})
}

package mesos

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestAMachineThatComesBackAsANewAgent: what ran there is LOST, though the master may call it unreachable for weeks, and
// the host has its name again.
func TestAMachineThatComesBackAsANewAgent(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"unreachable": 20 * time.Millisecond, "disconnected": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{AgentTimeout: timeout}, 1)
			d, recorder := w.drive(t, nil)
			require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
			becomes(t, d, runID(0), cluster.TaskRunning)
			w.CrashHost("h0")
			if name == "unreachable" {
				require.Eventually(t, func() bool { return len(recorder.Hosts()) == 0 }, 30*time.Second, time.Millisecond)
			}
			w.RebootHost("h0")
			lost := becomes(t, d, runID(0), cluster.TaskLost)
			require.Equal(t, cluster.ReasonHostLost, lost.Reason)
			require.Contains(t, lost.Message, "a new agent")
			require.Eventually(t, func() bool {
				hosts := recorder.Hosts()
				return len(hosts) == 1 && hosts[0].Name == "h0"
			}, 30*time.Second, time.Millisecond)
		})
	}
}

// TestAHostThatIsFullAtARestart: nothing of it is offered, and it is a host all the same from the first report on: else its scheduler
// would take it for unreachable.
func TestAHostThatIsFullAtARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, nil)
		all := launchOf(0, "h0", "serve")
		all.Task.Resources = cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 4000, cluster.Memory: 4096 << 20}}
		require.NoError(t, d.Launch(t.Context(), all))
		time.Sleep(time.Second)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		require.NoError(t, d.Close())

		d, recorder := w.drive(t, nil)
		require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		w.CutAgent("h0")
		time.Sleep(10 * time.Minute)
		require.Empty(t, recorder.Hosts())
		require.NoError(t, d.Close())

		_, recorder = w.drive(t, nil)
		time.Sleep(time.Minute)
		require.Empty(t, recorder.Hosts(), "it is asked for, and the master says that it is out of reach")
	})
}

// TestALaunchThatItsAgentNeverGot: an agent that was cut off before a launch reached it, and that comes back without the
// task, says nothing about it.
func TestALaunchThatItsAgentNeverGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
		d, recorder := w.drive(t, nil)
		w.CutAgent("h0")
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(2 * time.Minute)
		require.Empty(t, recorder.Hosts(), "the master has given the agent up")
		require.Equal(t, cluster.TaskLaunching, d.Inventory()[0].State)
		w.ReturnAgent("h0")
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskLost, d.Inventory()[0].State)
		require.Zero(t, w.starts(runID(0)))
	})
}

// TestANewMasterHearsOfALaunchThatItsAgentNeverGot from the agent, and of its framework, while that is away: it keeps the framework for as
// long as that wishes.
func TestANewMasterHearsOfALaunchThatItsAgentNeverGot(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		w.dir = dir
		d := newDriver(t, w.config()) // of a scheduler that hears of nothing
		require.NoError(t, d.Start(t.Context(), drivertest.NewRecorder()))
		w.CutAgent("h0")
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(10 * time.Second)
		w.ReturnAgent("h0")
		require.Equal(t, cluster.ReasonLaunchRefused, becomes(t, d, runID(0), cluster.TaskFailed).Reason)
		require.NoError(t, d.Close())
		w.Elect("master:5050")
		time.Sleep(time.Minute)
		_, recorder := w.drive(t, nil)
		require.Len(t, recorder.Hosts(), 1)
	})
}

// TestARunOfAnAgentThatIsForgotten: a crash may leave the record of a run, whose end waited to be durable with the
// scheduler, and not that of its agent, whose host has another agent by now.
func TestARunOfAnAgentThatIsForgotten(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	s, err := openFolder(w.dir, func(string) {})
	require.NoError(t, err)
	require.NoError(t, s.setFramework("framework-1"))
	require.NoError(t, putAll(s, agentPrefix, map[string]*agentRecord{w.AgentID("h0"): {ID: w.AgentID("h0"), Name: "h0"}}))
	require.NoError(t, s.putRun(&runRecord{Run: runID(0), Host: "h0", Agent: "forgotten", At: 1}, nil))
	require.NoError(t, s.Close())
	d, recorder := w.drive(t, nil)
	require.Contains(t, becomes(t, d, runID(0), cluster.TaskLost).Message, "a new agent", "Mesos may call it unreachable for weeks")
	require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "serve")))
	becomes(t, d, runID(1), cluster.TaskRunning)
	require.Len(t, recorder.Hosts(), 1)
	require.Equal(t, "h0", recorder.Hosts()[0].Name)
}

// serving starts a driver, of a scheduler that hears of nothing but the start of the run that it has launched on h0.
func (w *world) serving(t *testing.T) *driver {
	d := newDriver(t, w.config())
	require.NoError(t, d.Start(t.Context(), drivertest.NewRecorder()))
	require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
	for range 3 {
		time.Sleep(time.Second)
		d.Durable(d.Inventory()[0])
	}
	require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
	return d
}

// TestTheEndOfARunOutlivesItsAgent: a run ended with its machine, and before the scheduler knew, the agent that came in its
// place was gone too, and the driver restarted. Mesos calls the run unreachable for ever.
func TestTheEndOfARunOutlivesItsAgent(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
		w.dir = dir
		d := w.serving(t)
		w.CrashHost("h0")
		time.Sleep(2 * time.Minute)
		w.RebootHost("h0")
		becomes(t, d, runID(0), cluster.TaskLost)
		w.CrashHost("h0")
		time.Sleep(2 * time.Minute)
		require.NoError(t, d.Close())
		w.RebootHost("h0")
		again, recorder := w.drive(t, nil)
		time.Sleep(10 * time.Minute)
		require.Equal(t, cluster.TaskLost, again.Inventory()[0].State)
		require.Len(t, recorder.Hosts(), 1)
		require.Equal(t, "h0", recorder.Hosts()[0].Name)
	})
}

// TestAnAgentThatIsBackWithATaskThatIsKilled is there, though nothing of it is offered and its task takes long to end.
func TestAnAgentThatIsBackWithATaskThatIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
		d, recorder := w.drive(t, nil)
		l := launchOf(0, "h0", "stubborn")
		l.Task.Resources.Fixed[cluster.CPU], l.Task.Resources.Fixed[cluster.Memory] = 4000, 4096<<20
		l.Task.KillGrace = time.Hour
		require.NoError(t, d.Launch(t.Context(), l))
		time.Sleep(time.Second)
		require.NoError(t, d.Kill(t.Context(), l.Run, time.Hour))
		time.Sleep(time.Second)
		w.CutAgent("h0")
		time.Sleep(3 * time.Minute)
		require.Empty(t, recorder.Hosts())
		w.ReturnAgent("h0")
		time.Sleep(3 * time.Minute)
		require.Len(t, recorder.Hosts(), 1)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
	})
}

// TestTheNameOfAHostOutlivesARestart: a run ended with its agent, which was forgotten, and the driver was restarted before the scheduler
// knew. The machine is back as the host that it was: stateful tasks wait for it.
func TestTheNameOfAHostOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		w.dir = dir
		d := w.serving(t)
		w.UnregisterAgent("h0")
		becomes(t, d, runID(0), cluster.TaskLost)
		require.NoError(t, d.Close())
		again, recorder := w.drive(t, nil)
		w.RebootHost("h0")
		time.Sleep(10 * time.Minute)
		require.Equal(t, "h0", hosted(t, recorder).Name)
		require.Equal(t, cluster.TaskLost, again.Inventory()[0].State)
	})
}

// TestTextThatIsNotUTF8: attributes and messages may hold any bytes, and what is recorded of them is read again.
func TestTextThatIsNotUTF8(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 0)
	spec := agentSpec(0)
	spec.Attributes["site"] = "Orl\xe9ans"
	w.AddAgent(spec)
	d, _ := w.drive(t, nil)
	require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
	becomes(t, d, runID(0), cluster.TaskRunning)
	require.NoError(t, d.Close())
	d, recorder := w.drive(t, nil)
	require.Equal(t, runID(0), d.Inventory()[0].Run)
	require.Contains(t, recorder.Hosts()[0].Attributes, cluster.KeyValue{Key: "site", Value: "Orl\xe9ans"})
}

// TestAnAgentWithTooMuchToKeep: attributes and volumes that do not fit into a record keep nothing else from being recorded. Mesos repeats
// what is not.
func TestAnAgentWithTooMuchToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		spec := agentSpec(1)
		for i := range 20_000 {
			spec.Attributes[fmt.Sprint("attribute-", i)] = "some text"
		}
		w.AddAgent(spec)
		d, recorder := w.drive(t, nil)
		time.Sleep(time.Second)
		hosts := recorder.Hosts()
		require.Len(t, hosts, 2)
		require.Equal(t, "r1", hosts[1].Rack)
		require.NotEmpty(t, hosts[1].Attributes)
		var volumes []cluster.HeldVolume
		for i := range 20_000 {
			volumes = append(volumes, cluster.HeldVolume{Name: fmt.Sprintf("volume-of-somebody-%05d", i), Bytes: 1 << 30})
		}
		d.mu.Lock()
		d.keepAndWrite(d.agents[w.AgentID("h1")], volumes...)
		d.mu.Unlock()
		for i, host := range []string{"h0", "h1"} {
			require.NoError(t, d.Launch(t.Context(), launchOf(i, host, "second")))
		}
		time.Sleep(time.Minute)
		for _, run := range d.Inventory() {
			require.Equal(t, cluster.TaskSucceeded, run.State, run.Message)
		}
		d.mu.Lock()
		require.Empty(t, d.toWrite)
		d.mu.Unlock()
		require.NoError(t, d.Close())
		_, again := w.drive(t, nil)
		require.Equal(t, hosts[1].Attributes, again.Hosts()[1].Attributes)
		require.NotEmpty(t, again.Hosts()[1].Volumes, "as many as fit")
	})
}

// TestTwoAgentsOfOneName: a crash may leave the record of an agent beside that of the one that had come in its place.
func TestTwoAgentsOfOneName(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	s, err := openFolder(w.dir, func(string) {})
	require.NoError(t, err)
	require.NoError(t, s.setFramework("framework-1"))
	require.NoError(t, putAll(s, agentPrefix, map[string]*agentRecord{
		"z": {ID: "z", Name: "h0", Serial: 3}, w.AgentID("h0"): {ID: w.AgentID("h0"), Name: "h0", Serial: 7},
	}))
	require.NoError(t, s.putRun(&runRecord{Run: runID(0), Host: "h0", Agent: "z", At: 1}, nil))
	require.NoError(t, s.Close())
	for range 2 {
		d, recorder := w.drive(t, nil)
		require.Contains(t, becomes(t, d, runID(0), cluster.TaskLost).Message, "a new agent")
		require.Eventually(t, func() bool { return len(recorder.Hosts()) == 1 && recorder.Hosts()[0].Name == "h0" }, 30*time.Second, time.Millisecond)
		require.NoError(t, d.Close())
	}
	s, err = openFolder(w.dir, func(string) {})
	require.NoError(t, err)
	agents, _, err := s.load()
	require.NoError(t, err)
	require.Len(t, agents, 1, "the other one is forgotten")
	require.NoError(t, s.Close())
}

// TestAMasterThatHasForgottenItsAgents answers that it does not know their tasks until they have found it, which is no news. What was on
// an agent that does not come back is lost, two minutes after the subscription.
func TestAMasterThatHasForgottenItsAgents(t *testing.T) {
	for name, unaware := range map[string]bool{"partition-aware": false, "not partition-aware": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{ReregisterAfter: 80 * time.Second}, 2) // by their missing pings
				d, _ := w.drive(t, func(c *Config) { c.PartitionUnaware = unaware })
				require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
				require.NoError(t, d.Launch(t.Context(), launchOf(1, "h1", "serve")))
				becomes(t, d, runID(0), cluster.TaskRunning)
				becomes(t, d, runID(1), cluster.TaskRunning)
				w.CrashHost("h1")
				w.ElectAnew("master:5050")
				time.Sleep(time.Minute)
				for _, r := range d.Inventory() {
					require.Equal(t, cluster.TaskRunning, r.State, r.Message)
				}
				time.Sleep(time.Hour)
				require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State, d.Inventory()[0].Message)
				require.Equal(t, cluster.TaskLost, d.Inventory()[1].State)
				require.Equal(t, cluster.ReasonUnknownToHost, d.Inventory()[1].Reason)
			})
		})
	}
}

// TestALaunchThatIsLostBesideAnAgentThatIsAway is asked for and given back soon, though what runs there is asked for ever more rarely.
func TestALaunchThatIsLostBesideAnAgentThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 2)
		d, _ := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		becomes(t, d, runID(0), cluster.TaskRunning)
		w.CutAgent("h0")
		for n := 1; n <= 5; n++ {
			time.Sleep(10*time.Minute + time.Duration(n)*17*time.Second)
			w.SetFaults(mesostest.Faults{LoseCalls: 1, Accepting: true})
			require.NoError(t, d.Launch(t.Context(), launchOf(n, "h1", "serve")))
			time.Sleep(2 * minRound)
			require.Equal(t, cluster.TaskFailed, d.Inventory()[n].State)
			require.Equal(t, cluster.ReasonLaunchRefused, d.Inventory()[n].Reason)
		}
	})
}

package mesos

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
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

// TestARunOfAnAgentThatIsForgotten: a crash may leave the record of a run, whose end waited to be durable with the
// scheduler, and not that of its agent, whose host has another agent by now.
func TestARunOfAnAgentThatIsForgotten(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	s, err := openStore(w.dir, func(string) {})
	require.NoError(t, err)
	require.NoError(t, s.setFramework("framework-1"))
	require.NoError(t, s.putAgent(agentRecord{ID: w.AgentID("h0"), Name: "h0"}))
	require.NoError(t, s.putRun(&runRecord{Run: runID(0), Host: "h0", Agent: "forgotten", At: 1}))
	require.NoError(t, s.close())
	d, recorder := w.drive(t, nil)
	require.Contains(t, becomes(t, d, runID(0), cluster.TaskLost).Message, "a new agent", "Mesos may call it unreachable for weeks")
	require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "serve")))
	becomes(t, d, runID(1), cluster.TaskRunning)
	require.Len(t, recorder.Hosts(), 1)
	require.Equal(t, "h0", recorder.Hosts()[0].Name)
}

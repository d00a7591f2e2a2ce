package mesos

import (
	"testing"
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

package mesos

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestOffersOfAnAcceptThatFailed: whether it arrived or not, no offer stays out for ever, the launch is given back if it
// did not arrive, and nothing runs twice.
func TestOffersOfAnAcceptThatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		faults mesostest.Faults
		state  cluster.TaskState
		starts int
	}{
		"refused":          {mesostest.Faults{RefuseCalls: 1, Accepting: true}, cluster.TaskFailed, 0},
		"lost on its way":  {mesostest.Faults{LoseCalls: 1, Accepting: true}, cluster.TaskFailed, 0},
		"its answer lost":  {mesostest.Faults{LoseAnswers: 1, Accepting: true}, cluster.TaskRunning, 1},
		"offers rescinded": {mesostest.Faults{RescindAccepts: 1}, cluster.TaskFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{}, 1)
				d, _ := w.drive(t, nil)
				before := w.Offers()
				require.Len(t, before, 1)
				w.SetFaults(c.faults)
				require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
				time.Sleep(time.Minute)
				got := d.Inventory()[0]
				require.Equal(t, c.state, got.State, got.Message)
				if c.state == cluster.TaskFailed {
					require.Equal(t, cluster.ReasonLaunchRefused, got.Reason)
				}
				require.Equal(t, c.starts, w.starts(runID(0)))
				after := w.Offers()
				require.Len(t, after, 1)
				require.NotEqual(t, before[0].ID, after[0].ID)
			})
		})
	}
}

// TestASlowMaster: calls that take seconds, and those that take too long to wait for, delay launches and lose or double
// none.
func TestASlowMaster(t *testing.T) {
	for name, slow := range map[string]time.Duration{"slow": 3 * time.Second, "too slow": callTimeout + time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 40
				w := newWorld(t, mesostest.Config{}, n/8)
				d, _ := w.drive(t, nil)
				w.SetFaults(mesostest.Faults{SlowCalls: slow})
				for i := range n {
					require.NoError(t, d.Launch(t.Context(), launchOf(i, fmt.Sprint("h", i%(n/8)), "serve")))
				}
				time.Sleep(2 * time.Minute)
				w.SetFaults(mesostest.Faults{})
				time.Sleep(5 * time.Minute)
				for _, st := range d.Inventory() {
					starts := w.starts(st.Run)
					switch st.State {
					case cluster.TaskRunning:
						require.Equal(t, 1, starts)
					case cluster.TaskFailed:
						require.Equal(t, cluster.ReasonLaunchRefused, st.Reason)
						require.Zero(t, starts)
					default:
						require.Fail(t, "a run hangs", "%+v", st)
					}
					if slow < callTimeout {
						require.Equal(t, cluster.TaskRunning, st.State)
					}
				}
				require.Len(t, d.Inventory(), n)
			})
		})
	}
}

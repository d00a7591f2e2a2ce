package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// From a host that is to be cleared those go who may run elsewhere, as many of a service as it bears, to wait again; while nothing is killed
// they stay, and nobody is asked to leave a host that does not hear of it.
func TestWhoLeavesAHostThatIsCleared(t *testing.T) {
	kinds := map[cluster.JobID]struct {
		change func(*cluster.JobSpec)
		leave  int // of two
	}{
		"batch":            {func(s *cluster.JobSpec) { s.Preemptible = true }, 2},
		"not preemptible":  {func(*cluster.JobSpec) {}, 0},
		"one may be away":  {func(s *cluster.JobSpec) { s.Type = cluster.Stateless }, 1},
		"both may be away": {func(s *cluster.JobSpec) { s.Type, s.Limits.MaxUnavailable = cluster.Stateless, 2 }, 2},
		"stateful":         {func(s *cluster.JobSpec) { s.Type = cluster.Stateful }, 0},
	}
	for name, kind := range kinds {
		for _, trouble := range []cluster.Event{nil, &cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}}, &cluster.HostUnreached{ID: host}} {
			state := running(t)
			uid := submit(t, state, name, func(s *cluster.JobSpec) {
				s.Instances = 2
				kind.change(s)
			})
			for i := range uint32(2) {
				k := cluster.MakeTaskKey(uid, i)
				settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
			}
			leave := func() (n int) {
				for task := range state.TasksOf(uid, 0) {
					if task.State == cluster.TaskKilling {
						require.Equal(t, cluster.ReasonDrained, task.Reason)
						require.True(t, task.Restart)
						n++
					}
				}
				return n
			}
			if trouble != nil {
				settle(t, state, at(1), trouble)
			}
			settle(t, state, at(2), &cluster.HostDrain{ID: host, Drain: true})
			require.Zero(t, leave(), "they may end where they are")
			settle(t, state, at(2), &cluster.HostDrain{ID: host, Drain: true, Move: true})
			if trouble != nil {
				require.Zero(t, leave(), name)
			}
			if _, mode := trouble.(*cluster.ModeSet); mode {
				settle(t, state, at(3), &cluster.ModeSet{})
			}
			if _, cut := trouble.(*cluster.HostUnreached); !cut {
				require.Equal(t, kind.leave, leave(), "%s after %T", name, trouble)
			}
		}
	}
}

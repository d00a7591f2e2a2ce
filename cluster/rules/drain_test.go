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

// The core of a gang leaves a host that is cleared as a whole, wherever its members are: those that stayed could do nothing, and would keep
// their hosts from others for as long as there is no room for the one that left. Of a service as many go as it bears.
func TestTheCoreOfAGangLeavesTogether(t *testing.T) {
	other := cluster.MakeHostID("shard", "other")
	for name, c := range map[string]struct {
		change func(*cluster.JobSpec)
		want   []cluster.Reason // of the members; the first two are on the host, the last one is not of the core
	}{
		"batch": {func(s *cluster.JobSpec) { s.Preemptible = true }, []cluster.Reason{
			cluster.ReasonDrained, cluster.ReasonDrained, cluster.ReasonGangBroken, "",
		}},
		"not preemptible": {func(*cluster.JobSpec) {}, []cluster.Reason{"", "", "", ""}},
		"service":         {func(s *cluster.JobSpec) { s.Type = cluster.Stateless }, []cluster.Reason{cluster.ReasonDrained, "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			state := running(t)
			settle(t, state, at(0), &cluster.HostReported{ID: other, Machine: *state.Host(host).Machine})
			uid := submit(t, state, "gang", func(s *cluster.JobSpec) {
				s.Instances, s.Gang = 4, &cluster.Gang{Minimum: 3}
				c.change(s)
			})
			for i := range uint32(4) {
				k, on := cluster.MakeTaskKey(uid, i), host
				if i >= 2 {
					on = other
				}
				settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: on}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
			}
			settle(t, state, at(1), &cluster.HostDrain{ID: host, Drain: true, Move: true})
			var got []cluster.Reason
			for task := range state.TasksOf(uid, 0) {
				require.Equal(t, task.State == cluster.TaskKilling, task.Restart)
				got = append(got, task.Reason)
			}
			require.Equal(t, c.want, got)
		})
	}
}

package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// From a host that is to be cleared those go who may run elsewhere, as many of a service as it bears, to wait again; while nothing is killed
// they stay, and nobody is asked to leave a host that does not hear of it.
func TestWhoLeavesAHostThatIsCleared(t *testing.T) {
	kinds := map[cluster.JobID]struct {
		change func(*cluster.JobSpec)
		leave  int        // of two
		rest   rules.Stay // why the others stay
	}{
		"batch":            {func(s *cluster.JobSpec) { s.Preemptible = true }, 2, rules.Leaving},
		"not preemptible":  {func(*cluster.JobSpec) {}, 0, rules.NotPreempted},
		"one may be away":  {func(s *cluster.JobSpec) { s.Type = cluster.Stateless }, 1, rules.Needed},
		"both may be away": {func(s *cluster.JobSpec) { s.Type, s.Limits.MaxUnavailable = cluster.Stateless, 2 }, 2, rules.Leaving},
		"stateful":         {func(s *cluster.JobSpec) { s.Type = cluster.Stateful }, 0, rules.Bound},
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
			// why returns why each of the two is on the host.
			why := func() (stay []rules.Stay) {
				for task := range state.TasksOf(uid, 0) {
					stay = append(stay, rules.StayOf(state.Mode(), at(2), state.Host(host), state.Job(uid), task))
				}
				return stay
			}
			rest := []rules.Stay{kind.rest, kind.rest} // of all that leave the first ones are asked
			for i := range kind.leave {
				rest[i] = rules.Leaving
			}
			_, cut := trouble.(*cluster.HostUnreached)
			if trouble != nil {
				settle(t, state, at(1), trouble)
			}
			settle(t, state, at(2), &cluster.HostDrain{ID: host, Drain: true})
			require.Zero(t, leave(), "they may end where they are")
			if !cut {
				stays := kind.rest
				if kind.leave > 0 {
					stays = rules.NotMoved
				}
				require.Equal(t, []rules.Stay{stays, stays}, why())
			}
			settle(t, state, at(2), &cluster.HostDrain{ID: host, Drain: true, Move: true})
			if trouble != nil {
				require.Zero(t, leave(), name)
			}
			switch {
			case cut:
				require.Equal(t, []rules.Stay{rules.Unreached, rules.Unreached}, why())
			case trouble != nil && kind.leave > 0:
				require.Equal(t, rules.NotKilled, why()[0])
			default:
				require.Equal(t, rest, why())
			}
			if _, mode := trouble.(*cluster.ModeSet); mode {
				settle(t, state, at(3), &cluster.ModeSet{})
			}
			if !cut {
				require.Equal(t, kind.leave, leave(), "%s after %T", name, trouble)
			}
		}
	}
}

// At the deadline of a drain all leave that are still there, whatever they are and however many their jobs bear; those of services and of
// what is bound to the host wait, and batch work runs again. While nothing is killed they stay beyond it, and leave afterwards.
func TestAllLeaveAtTheDeadline(t *testing.T) {
	stopped := &cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}}
	for name, c := range map[string]struct{ move, held bool }{"moved": {move: true}, "not moved": {}, "held": {held: true}} {
		t.Run(name, func(t *testing.T) {
			state := running(t) // a batch task that may not be preempted
			tasks := []cluster.TaskKey{cluster.MakeTaskKey(1, 0)}
			for _, kind := range []cluster.JobType{cluster.Stateless, cluster.Stateful, cluster.Daemon} {
				uid := submit(t, state, cluster.JobID(kind.String()), func(s *cluster.JobSpec) {
					if s.Type = kind; kind != cluster.Daemon {
						s.Instances = 2
					}
				})
				var own []cluster.TaskKey
				for task := range state.TasksOf(uid, 0) {
					own = append(own, task.Key)
				}
				for _, k := range own {
					settle(t, state, at(0), &cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
				}
				tasks = append(tasks, own...)
			}
			require.Len(t, tasks, 6)
			count := func() (leave int) {
				for _, k := range tasks {
					if task := state.Task(k); task.State == cluster.TaskKilling {
						require.Equal(t, cluster.ReasonDrained, task.Reason)
						require.True(t, task.Restart)
						leave++
					}
				}
				return leave
			}
			timers := rules.NewTimers(0)
			note := func() {
				snapshot, changes := state.Snapshot()
				timers.Note(snapshot, at(2), changes, false)
			}
			note()
			due := at(time.Hour)
			moved := 0
			if c.move {
				moved = 1
			}
			emit(t, state, at(1), &cluster.HostDrain{ID: host, Drain: true, Move: c.move, Deadline: due})
			note()
			require.Equal(t, due, timers.Next())
			settle(t, state, at(2), &cluster.HostDrain{ID: host, Drain: true, Move: c.move, Deadline: due})
			require.Equal(t, moved, count())
			if c.held {
				settle(t, state, at(2), stopped)
			}

			_, _ = state.Snapshot()
			tx := rules.Begin(state, due)
			require.NoError(t, timers.Fire(tx, timers.Due(due)))
			require.NoError(t, rules.Settle(tx))
			if c.held {
				require.Zero(t, count())
				settle(t, state, due, &cluster.ModeSet{})
			}
			require.Equal(t, len(tasks), count())
		})
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

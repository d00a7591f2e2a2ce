package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

func revocable(s *cluster.JobSpec) { s.Revocable = true }

func (s *shared) slack(i cluster.HostID, cpu int64) {
	s.emit(&cluster.SlackMeasured{Host: i, Slack: vector(cpu, 0)})
}

// A host of 10 CPUs, of which 8 are allocated and 6 of these not used: six revocable tasks run beside, and when more of the
// slack is used, those leave in the next cycle for which there is no room any more.
func TestRevocableTasksRunOnSlack(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(10, 0))
	s.job("root/a", 8, 1)
	s.settle()
	low := s.job("root/a", 9, 1, revocable)
	require.Empty(t, s.step().Placements, "nothing is measured, and what is free is not theirs")
	s.slack(h, 6)
	s.settle()
	require.Equal(t, 6, s.running(low))
	require.Equal(t, vector(2, 0), s.state.Host(h).Free(), "others may have as much as before")

	s.slack(h, 4)
	out := s.step()
	require.Empty(t, out.Displacements, "they are on what is free")
	require.Equal(t, vector(0, 0), s.state.Host(h).Free())
	s.now = s.now.Add(time.Second)

	s.slack(h, 1)
	out = s.step()
	require.Equal(t, 3, out.Stats.Revoked)
	require.Equal(t, 3, s.leave())
	require.Equal(t, 3, s.running(low))
	require.Empty(t, s.step().Placements, "they do not come back")
	s.slack(h, 5)
	s.settle()
	require.Equal(t, 5, s.running(low), "hysteresis is for those who left for others")
}

// Of a revocable gang those leave who do not already.
func TestARevocableGangLeavesWithoutThoseWhoLeaveAlready(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(10, 0))
	s.job("root/a", 1, 10)
	s.settle()
	s.slack(h, 6)
	gang := s.job("root/a", 3, 2, core(3), revocable)
	s.settle()
	require.Equal(t, 3, s.running(gang))
	s.emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(gang, 0), Reason: cluster.ReasonTaskRestarted, Restart: true})
	s.slack(h, 2)
	require.Equal(t, 2, s.step().Stats.Revoked)
	require.Empty(t, s.step().Displacements)
}

// Room on which revocable tasks are beyond the slack is made free for others who ask for it.
func TestRevocableTasksGiveWay(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(10, 0))
	s.job("root/a", 8, 1)
	s.settle()
	s.slack(h, 6)
	low := s.job("root/a", 6, 1, revocable)
	s.settle()
	s.slack(h, 4)
	other := s.job("root/a", 2, 1)
	out := s.step()
	require.Equal(t, 2, out.Stats.Preemptions)
	require.Zero(t, out.Stats.Revoked)
	require.Zero(t, s.running(other), "before they are gone")
	s.leave()
	s.settle()
	require.Equal(t, 2, s.running(other))
	require.Equal(t, 4, s.running(low))
	require.Equal(t, vector(0, 0), s.state.Host(h).Free())
}

// So it is for those who only borrow: what is beyond the slack is no less free to them than if it were not there.
func TestRevocableTasksGiveWayToBorrowers(t *testing.T) {
	for name, spec := range map[string]func(*cluster.JobSpec){
		"tasks":         func(*cluster.JobSpec) {},
		"a gang":        core(3),
		"a limited job": func(j *cluster.JobSpec) { j.Limits.MaxRunning = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/a", 6)
			s.pool("root/b", 0)
			s.pool("root/c", 4)
			h := s.host(0, vector(10, 0))
			s.job("root/a", 6, 1)
			s.settle()
			s.slack(h, 5)
			low := s.job("root/a", 5, 1, revocable)
			s.settle()
			s.slack(h, 1)
			s.job("root/c", 1, 5) // all that is left is claimed for it, which is too little
			s.settle()
			other := s.job("root/b", 3, 1, spec)
			out := s.step()
			require.Equal(t, 3, out.Stats.Preemptions)
			require.Zero(t, out.Stats.Revoked)
			s.leave()
			s.settle()
			require.Equal(t, 3, s.running(other))
			require.Equal(t, 2, s.running(low))
			for range 3 {
				require.Empty(t, s.step().Displacements)
			}
		})
	}
}

// Nobody else leaves for a borrower, whom he would have to stop beside them.
func TestOnlyRevocableTasksGiveWayToBorrowers(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 6)
	s.pool("root/b", 0)
	s.pool("root/c", 4)
	h := s.host(0, vector(10, 0))
	s.job("root/a", 6, 1)
	s.job("root/b", 2, 1)
	s.settle()
	s.slack(h, 2)
	s.job("root/a", 2, 1, revocable)
	s.settle()
	s.slack(h, 0)
	s.job("root/c", 1, 5)
	s.settle()
	s.job("root/b", 1, 3, urgent(1))
	require.Empty(t, s.step().Displacements)
}

// A gang that all slack together does not hold keeps nobody out where a limit counts the jobs that run.
func TestALimitIsNotUsedUpByAGangBeyondTheSlack(t *testing.T) {
	one := uint32(1)
	s := newShared(t)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one}}})
	s.pool("root/b", 0)
	hosts := []cluster.HostID{s.host(0, vector(4, 0)), s.host(1, vector(4, 0))}
	s.job("root/b", 4, 1)
	s.settle()
	for _, h := range hosts {
		s.slack(h, 1)
	}
	gang := s.job("root/a", 3, 1, revocable, func(j *cluster.JobSpec) { j.Gang = &cluster.Gang{Minimum: 3} })
	next := s.job("root/a", 1, 1)
	s.settle()
	require.Zero(t, s.running(gang))
	require.Equal(t, 1, s.running(next))
}

// Slack that is too little for the first in line on every host is for those behind.
func TestSlackIsNotKeptForWhoHasNoHost(t *testing.T) {
	s := newShared(t)
	s.slack(s.host(0, vector(10, 0)), 2)
	s.slack(s.host(1, vector(10, 0)), 1)
	s.job(cluster.RootPool, 1, 3, revocable, urgent(1))
	s.job(cluster.RootPool, 1, 2, revocable)
	require.Len(t, s.step().Placements, 1)
}

// What runs on a host of which the slack has shrunk, or that is drained, takes nothing from the slack of others.
func TestSlackIsLentWhereverItIs(t *testing.T) {
	for name, change := range map[string]func(s *shared, h cluster.HostID){
		"shrunk":  func(s *shared, h cluster.HostID) { s.slack(h, 1) },
		"drained": func(s *shared, h cluster.HostID) { s.emit(&cluster.HostDrain{ID: h, Drain: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			hosts := []cluster.HostID{s.host(0, vector(10, 0)), s.host(1, vector(10, 0))}
			s.slack(hosts[0], 4)
			low := s.job(cluster.RootPool, 8, 1, revocable)
			s.settle()
			require.Equal(t, 4, s.running(low))
			change(s, hosts[0])
			s.slack(hosts[1], 4)
			s.settle()
			require.Equal(t, 8, s.running(low))
		})
	}
}

// Why a revocable task waits says what it waits for.
func TestNoSlackIsExplained(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(10, 0))
	s.job("root/a", 8, 1)
	s.settle()
	s.slack(h, 1)
	low := s.job("root/a", 1, 2, revocable)
	s.step()
	why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(low, 0))
	require.True(t, known)
	require.Equal(t, cycle.HostNoSlack, why.Tally[0].Reason)
	require.Equal(t, cluster.CPU.String(), why.Tally[0].Detail)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.MoreSlack, Host: h, Room: vector(1, 0)}}, why.Unblockers)
}

// No more leave in one cycle than the cycle, the job and the pool allow.
func TestRatesOfPreemption(t *testing.T) {
	tests := []struct {
		name  string
		bound func(s *shared)
		spec  func(*cluster.JobSpec)
		want  int
	}{
		{"nothing bounds it", nil, nil, 5},
		{"the cycle", func(s *shared) {
			o := cycle.DefaultOptions()
			o.MaxDisplaced = 3
			s.planner.Bound(o)
		}, nil, 3},
		{"the job", nil, func(j *cluster.JobSpec) { j.Limits.MaxPreempted = 2 }, 2},
		{"the pool", func(s *shared) { s.emit(calm("root/b", 1)) }, nil, 1},
		{"a pool above", func(s *shared) { s.emit(calm(cluster.RootPool, 4)) }, nil, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(10, 0))
			s.pool("root/a", 5)
			s.pool("root/b", 5)
			if test.bound != nil {
				test.bound(s)
			}
			if test.spec == nil {
				test.spec = func(*cluster.JobSpec) {}
			}
			s.job("root/b", 10, 1, test.spec)
			s.settle()
			s.job("root/a", 5, 1)
			require.Equal(t, test.want, s.step().Stats.Preemptions)
			for range 10 { // it takes longer, and gets there
				s.leave()
				s.step()
			}
			require.Len(t, s.in(cluster.TaskRunning), 10)
			require.Len(t, s.in(cluster.TaskPending), 5)
		})
	}
}

func calm(path cluster.PoolPath, n uint32) *cluster.PoolPut {
	p := cluster.Pool{Path: path, Limits: cluster.PoolLimits{PreemptedPerCycle: &n}}
	if path != cluster.RootPool {
		p.Resources = []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 5, Limit: cluster.NoLimit, Share: 1}}
	}
	return &cluster.PoolPut{Pool: p}
}

// Revocable tasks need slack for those before them that are revocable as well, and ports like any other; what is not revocable needs no
// room for them.
func TestSlackIsNeededForThoseBeforeToo(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.machine(0, cluster.Machine{Capacity: vector(10, 0), Capabilities: cluster.CanPorts, Ports: []cluster.PortRange{{First: 100, Last: 101}}})
	s.job("root/a", 8, 1)
	s.job("root/a", 1, 1, ports(1))
	s.settle()
	s.slack(h, 1)
	s.job("root/a", 2, 2)
	low := s.job("root/a", 3, 2, revocable)
	porter := s.job("root/a", 1, 2, revocable, ports(2))
	s.step()
	for k, want := range map[cluster.TaskKey][]cycle.Unblocker{
		cluster.MakeTaskKey(low, 2):    {{Kind: cycle.MoreSlack, Host: h, Room: vector(7, 0), Ahead: 3}},
		cluster.MakeTaskKey(porter, 0): {{Kind: cycle.MoreSlack, Host: h, Room: vector(7, 0), Ahead: 3}, {Kind: cycle.MorePorts, Host: h, FreePorts: 1, Ahead: 5}},
		cluster.MakeTaskKey(low-1, 1):  {{Kind: cycle.MoreRoom, Host: h, Room: vector(3, 0), Ahead: 1}},
	} {
		why, known := s.planner.WhyWaiting(k)
		require.True(t, known)
		require.Equal(t, want, why.Unblockers, k)
	}
	why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(low, 2))
	s.slack(h, 1+why.Unblockers[0].Room.Fixed[cluster.CPU])
	s.step()
	require.Equal(t, 3, s.running(low))
}

// Where revocable tasks hold more than the slack, as much more of it is needed before another one has any; of what it does not ask for none is
// needed, however little there is.
func TestSlackIsNeededForThoseWhoHoldTooMuch(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(10, 9))
	s.job("root/a", 1, 5, func(j *cluster.JobSpec) { j.Task.Resources = vector(5, 8) })
	s.settle()
	s.slack(h, 3)
	s.job("root/a", 1, 3, revocable)
	s.settle()
	s.slack(h, 0)
	s.host(0, vector(10, 7))
	low := cluster.MakeTaskKey(s.job("root/a", 1, 2, revocable), 0)
	high := cluster.MakeTaskKey(s.job("root/a", 1, 6), 0)
	s.step()
	why, _ := s.planner.WhyWaiting(low)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.MoreSlack, Host: h, Room: vector(5, 0)}}, why.Unblockers)
	why, _ = s.planner.WhyWaiting(high)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.MoreRoom, Host: h, Room: vector(4, 0)}}, why.Unblockers)
	s.slack(h, 5)
	s.step()
	require.Equal(t, 1, s.running(low.Job()))
}

// Where it is the limit on revocable tasks that keeps one out, of its pool or of one above, that is named with what it has to be; and where
// slack is lacking that keeps it out next, too. No limit of a pool is to be raised that does not count revocable tasks.
func TestALimitOnRevocableTasksIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		leaf, above, slack int64 // in percent, 0 for none; and of 100
		binds              pool.Binding
		want               []cycle.Unblocker
	}{
		"of the leaf": {20, 0, 90, pool.Binding{Rule: pool.RuleRevocable, Pool: "root/a/x", Dimension: cluster.CPU.String()}, []cycle.Unblocker{
			{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a/x", Count: 50, Amount: 30},
		}},
		"of one above": {0, 20, 90, pool.Binding{Rule: pool.RuleRevocable, Pool: "root/a", Dimension: cluster.CPU.String()}, []cycle.Unblocker{
			{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a", Count: 60, Amount: 40}, // who waits in another pool may go first
		}},
		"of both": {20, 25, 90, pool.Binding{Rule: pool.RuleRevocable, Pool: "root/a", Dimension: cluster.CPU.String()}, []cycle.Unblocker{
			{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a/x", Count: 50, Amount: 30},
			{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a", Count: 60, Amount: 35},
		}},
		"and slack": {30, 0, 20, pool.Binding{Rule: pool.RuleSlack, Pool: "root/a/x", Dimension: cluster.CPU.String()}, []cycle.Unblocker{
			{Kind: cycle.LiftLimit, Rule: string(pool.RuleRevocable), Pool: "root/a/x", Count: 50, Amount: 20},
			{Kind: cycle.MoreSlack, Host: "s/h00000", Room: vector(40, 0), Ahead: 3},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			put := func(path cluster.PoolPath, percent int64) {
				p := cluster.Pool{Path: path, Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 80, Share: 1}}}
				if most := uint32(percent); percent > 0 {
					p.Limits.RevocablePercent = &most
				}
				s.emit(&cluster.PoolPut{Pool: p})
			}
			put("root/a", tt.above)
			put("root/a/x", tt.leaf)
			s.pool("root/a/y", 0)
			h := s.host(0, vector(100, 0))
			s.job("root/a/y", 1, 80)
			s.settle()
			s.slack(h, tt.slack)
			first := s.job("root/a/x", 4, 10, revocable)
			s.settle()
			require.Equal(t, 2, s.running(first))
			s.job("root/a/y", 1, 10, revocable, must(host("disk", "none")))
			last := cluster.MakeTaskKey(s.job("root/a/x", 1, 10, revocable), 0)
			s.settle()
			why, known := s.planner.WhyWaiting(last)
			require.True(t, known)
			require.Equal(t, tt.binds, why.Binding)
			require.Equal(t, tt.want, why.Unblockers)
			for _, u := range why.Unblockers {
				switch u.Pool {
				case "root/a":
					put(u.Pool, u.Count)
				case "root/a/x":
					put(u.Pool, u.Count)
				default:
					s.slack(h, tt.slack+u.Room.Fixed[cluster.CPU])
				}
			}
			s.settle()
			require.Equal(t, 1, s.running(last.Job()))
		})
	}
}

// Who would have a claim to the memory that others of his pool have who only borrow CPUs, and who do not leave for him, borrows what is free:
// also where revocable tasks hold it beyond the slack.
func TestWhoMayNotHaveHisClaimBorrows(t *testing.T) {
	s := newShared(t)
	for _, p := range []cluster.PoolPath{"root/a", "root/b"} {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: p, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit, Share: 1}, {Dimension: cluster.Memory.String(), Limit: cluster.NoLimit, Share: 1},
		}}})
	}
	asks := func(cpu, memory int64) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) { s.Task.Resources = vector(cpu, memory) }
	}
	h := s.host(0, vector(10, 12))
	s.job("root/b", 1, 2)
	s.job("root/a", 7, 1, asks(1, 1))
	s.settle()
	s.job("root/b", 1, 0, asks(4, 5))
	s.emit(&cluster.SlackMeasured{Host: h, Slack: vector(0, 5)})
	low := s.job("root/a", 1, 0, asks(0, 5), revocable)
	s.settle()
	require.Equal(t, 1, s.running(low))
	s.slack(h, 0)
	waits := s.job("root/a", 1, 0, asks(0, 1))
	require.Equal(t, 1, s.step().Stats.Preemptions)
	s.leave()
	s.settle()
	require.Equal(t, []int{1, 0}, []int{s.running(waits), s.running(low)})
}

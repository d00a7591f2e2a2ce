package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
)

// TestALimitIsFreeWhereNoHostGainsRoom: the only task that its job may run at once ends on a host that is drained, and the next one
// begins elsewhere.
func TestALimitIsFreeWhereNoHostGainsRoom(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(2, 0))
	s.host(1, vector(2, 0))
	s.job(cluster.RootPool, 2, 1, func(j *cluster.JobSpec) { j.Limits.MaxRunning = 1 })
	first := s.step().Placements
	require.Len(t, first, 1)
	s.emit(&cluster.HostDrain{ID: first[0].Host, Drain: true})
	require.Empty(t, s.step().Placements)
	s.report(first[0].Task, cluster.TaskSucceeded)
	require.Len(t, s.step().Placements, 1)
}

// TestALimitIsNotUsedUpByWhoHasNoHost: where limits count who runs, what fits on no host keeps nobody out, also where it only borrows.
func TestALimitIsNotUsedUpByWhoHasNoHost(t *testing.T) {
	one := uint32(1)
	for _, limits := range []cluster.PoolLimits{{}, {RunningJobs: &one}, {RunningJobsPerUser: &one}} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: limits}})
		s.host(0, vector(2, 0))
		s.host(1, vector(2, 0))
		big := s.job("root/a", 2, 9, func(j *cluster.JobSpec) {
			j.Limits.MaxRunning = 1
			j.Overrides = []cluster.InstanceOverride{{First: 1, Last: 1, Task: &cluster.TaskSpec{Resources: vector(1, 0)}}}
		})
		require.Len(t, s.step().Placements, 1)
		require.Equal(t, 1, s.running(big))
		s.report(cluster.MakeTaskKey(big, 1), cluster.TaskSucceeded)

		small := s.job("root/a", 1, 1)
		s.settle()
		require.Equal(t, 1, s.running(small))
	}
}

// TestALimitIsNotUsedUpByWhoCannotStart: where limits count who runs, what could not start whoever ended keeps nobody out.
func TestALimitIsNotUsedUpByWhoCannotStart(t *testing.T) {
	one, half := uint32(1), uint32(50)
	for name, first := range map[string]func(*cluster.JobSpec){
		"no slack":                    revocable,
		"larger than the reservation": func(j *cluster.JobSpec) { j.Preemptible, j.Task.Resources = false, vector(3, 0) },
		"larger than the limit":       func(j *cluster.JobSpec) { j.Task.Resources = vector(5, 0) },
		"a gang larger than that":     func(j *cluster.JobSpec) { j.Instances, j.Gang = 5, &cluster.Gang{Minimum: 5} },
		"and what is not of its core": func(j *cluster.JobSpec) { j.Instances, j.Gang = 6, &cluster.Gang{Minimum: 5} },
		"a controller too large":      func(j *cluster.JobSpec) { j.Controller, j.Task.Resources = true, vector(2, 0) },
		"a gang with too few hosts": func(j *cluster.JobSpec) {
			j.Instances, j.Gang, j.Task.Resources = 4, &cluster.Gang{Minimum: 2}, vector(2, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{
				Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one, ControllerPercent: &half},
				Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 2, Limit: 4, Share: 1}},
			}})
			s.host(0, vector(6, 3))
			s.job("root/a", 1, 1, first)
			next := s.job("root/a", 1, 1)
			s.settle()
			require.Equal(t, 1, s.running(next))
		})
	}
}

// TestALimitIsNotUsedUpByWhoAsksForMoreThanThereIs: nor does a gang that asks for more than all hosts have, also of what a pool reserves statically.
func TestALimitIsNotUsedUpByWhoAsksForMoreThanThereIs(t *testing.T) {
	one := uint32(1)
	for _, static := range []bool{false, true} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one}}})
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Resources: []cluster.PoolResource{
			{Dimension: cluster.Memory.String(), Reservation: 1, Limit: cluster.NoLimit, Share: 1, Static: static},
		}}})
		s.host(0, vector(4, 3))
		s.host(1, vector(4, 3))
		s.job("root/a", 3, 1, core(3), func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = 3 })
		next := s.job("root/a", 1, 1)
		s.settle()
		require.Equal(t, 1, s.running(next))
	}
}

// TestALimitLetsInWhoMayClaim: a job that can start nowhere does not keep the next one of its pool from what that reserves, where a limit
// counts the jobs that run: others leave for it.
func TestALimitLetsInWhoMayClaim(t *testing.T) {
	one := uint32(1)
	for name, first := range map[string]func(*cluster.JobSpec){
		"no slack": revocable,
		"no host":  must(host("disk", "tape")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{
				Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one},
				Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 4, Limit: cluster.NoLimit, Share: 1}},
			}})
			s.pool("root/b", 0)
			s.host(0, vector(6, 0))
			s.job("root/b", 6, 1)
			s.settle()
			s.job("root/a", 1, 1, first)
			next := s.job("root/a", 1, 4)
			s.step()
			require.Equal(t, 4, s.leave())
			s.step()
			require.Equal(t, 1, s.running(next))
		})
	}
}

// TestTheJobSaysHowManyRun: how many tasks of a job run at once is what its present spec says, whichever version they are of.
func TestTheJobSaysHowManyRun(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(9, 0))
	job := s.job(cluster.RootPool, 9, 1, func(j *cluster.JobSpec) { j.Limits.MaxRunning = 2 })
	s.settle()
	require.Equal(t, 2, s.running(job))

	update := func(from uint64, most, touched uint32) {
		spec := *s.state.Job(job).Spec
		spec.Limits.MaxRunning = most
		s.emit(&cluster.JobUpdated{Job: job, Spec: &spec, Update: &cluster.Update{From: from}})
		s.emit(&cluster.TaskUpdated{Task: cluster.MakeTaskKey(job, touched), Version: from + 1})
	}
	update(1, 4, 8)
	s.settle()
	require.Equal(t, 4, s.running(job))
	update(2, 3, 7)
	s.report(s.in(cluster.TaskRunning)[0], cluster.TaskSucceeded)
	s.settle()
	require.Equal(t, 3, s.running(job))
}

// TestAJobThatGetsALimit: what runs by a version without a limit counts as soon as the present one has one, and what waits by it is held to it.
func TestAJobThatGetsALimit(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(5, 0))
	job := s.job(cluster.RootPool, 6, 1)
	s.settle()
	require.Equal(t, 5, s.running(job))
	s.host(1, vector(9, 0))
	spec := *s.state.Job(job).Spec
	spec.Limits.MaxRunning, spec.Instances = 3, 7
	spec.Task.Processes = []cluster.Process{{Command: []string{"another"}}}
	s.emit(&cluster.JobUpdated{Job: job, Spec: &spec, Update: &cluster.Update{From: 1}})
	for _, running := range []int{5, 4, 3, 3} {
		s.settle()
		require.Equal(t, running, s.running(job))
		s.report(s.in(cluster.TaskRunning)[0], cluster.TaskSucceeded)
	}
}

// TestWhoMayBesideOthersHasAHost: those of a job with a limit that fit get what others of it cannot use, also where what they have to be
// beside starts in the same plan.
func TestWhoMayBesideOthersHasAHost(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(6, 0))
	job := s.job(cluster.RootPool, 4, 3, must(tasks("x", cluster.Greater, 1, cluster.DomainHost)), func(j *cluster.JobSpec) {
		j.Limits.MaxRunning = 2
		j.Overrides = []cluster.InstanceOverride{{First: 2, Last: 3, Task: &cluster.TaskSpec{Resources: vector(1, 0)}}}
	})
	s.settle()
	require.Zero(t, s.running(job))
	s.job(cluster.RootPool, 2, 1, labeled("app", "x"))
	s.settle()
	require.Equal(t, 2, s.running(job), "one of 3 and one of 1 beside two of 1")
}

// TestALimitIsNotKeptForWhoHasNoHost: a part of a limit that is too large for every host is for those next in the pool, until there
// is a host.
func TestALimitIsNotKeptForWhoHasNoHost(t *testing.T) {
	for _, order := range []cluster.PoolOrder{cluster.PriorityFIFO, cluster.FairJobs} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Order: order, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: 6},
		}}})
		for i := range 4 {
			s.host(i, vector(2, 0))
		}
		large := s.job("root/a", 1, 3)
		small := s.job("root/a", 9, 2)
		s.settle()
		require.Equal(t, 3, s.running(small))

		s.host(4, vector(3, 0))
		s.settle()
		require.Zero(t, s.running(large))
		s.report(cluster.MakeTaskKey(small, 0), cluster.TaskSucceeded)
		s.report(cluster.MakeTaskKey(small, 1), cluster.TaskSucceeded)
		s.settle()
		require.Equal(t, 1, s.running(large))
		require.Equal(t, 1, s.running(small))
	}
}

// TestALimitIsNotKeptForWhoHasNoHostAndMayStopOthers: nor is one that is reached, where more urgent work that no host has room for was
// let in instead of what it might stop, or only borrows.
func TestALimitIsNotKeptForWhoHasNoHostAndMayStopOthers(t *testing.T) {
	for _, own := range []cluster.PoolResource{{Reservation: 8, Limit: 8}, {Limit: 8, Share: 1}, {Limit: 8}} {
		s := newShared(t)
		own.Dimension = cluster.CPU.String()
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{own}}})
		s.host(0, vector(16, 8))
		s.host(1, vector(1, 8))
		s.job("root/a", 6, 1, urgent(2))
		s.job("root/a", 1, 1)
		s.settle()
		s.job("root/a", 1, 2, urgent(2), func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = 9 })
		small := s.job("root/a", 2, 1, urgent(1))
		s.settle()
		require.Equal(t, 1, s.running(small), "%+v", own)
	}
}

// TestALimitAboveIsNotKeptForAPoolWithoutAHost: what no host has room for keeps no part of a limit from other pools below that either;
// when a host comes, its pool has its part back.
func TestALimitAboveIsNotKeptForAPoolWithoutAHost(t *testing.T) {
	s := newShared(t)
	s.limited("root/a", 8)
	s.pool("root/a/x", 0)
	s.pool("root/a/y", 0)
	s.host(0, vector(16, 0))
	first := s.job("root/a/x", 9, 1, must(host("disk", "tape")))
	second := s.job("root/a/y", 9, 1)
	s.settle()
	require.Equal(t, 8, s.running(second))

	s.host(1, vector(16, 0), cluster.KeyValue{Key: "disk", Value: "tape"})
	require.Equal(t, 4, s.exchange())
	require.Equal(t, 4, s.running(first))
	require.Equal(t, 4, s.running(second))
}

// TestWhoStopsWaitingLetsOthersStart: the core of a gang that does not fit starts without a member that was stopped, also where
// nothing else happens.
func TestWhoStopsWaitingLetsOthersStart(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(1, 0))
	gang := s.job(cluster.RootPool, 2, 1, core(2))
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(gang, 1), Reason: cluster.ReasonTaskStopped})
	require.Len(t, s.step().Placements, 1)
}

// TestAPreferenceOfTheOnlyHostGivesWay: a daemon starts on its host when what it would rather have has given way, without anything
// else happening.
func TestAPreferenceOfTheOnlyHostGivesWay(t *testing.T) {
	s := newShared(t)
	id := s.rack(0, "r1", 2)
	daemon := cluster.MakeTaskKey(s.job(cluster.RootPool, 0, 1, func(j *cluster.JobSpec) {
		j.Type = cluster.Daemon
		j.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r0"), Soft: cluster.Soft{Penalty: time.Second, Timeout: 10 * time.Second}}}
	}), 0)
	s.emit(&cluster.InstanceAdded{Task: daemon, Host: id})
	s.emit(&cluster.TaskHeld{Task: daemon, Hold: cluster.Hold{Host: id, Until: cluster.Forever}})
	out := s.step()
	require.Empty(t, out.Placements)
	require.NotZero(t, out.WakeAt)
	s.now = out.WakeAt
	require.Len(t, s.step().Placements, 1)
}

// TestWhoHasRoomHeldStartsAfterARestore: its run is numbered from beyond those that may have been forgotten, too.
func TestWhoHasRoomHeldStartsAfterARestore(t *testing.T) {
	s := newShared(t)
	id := s.host(0, vector(1, 0))
	daemon := cluster.MakeTaskKey(s.job(cluster.RootPool, 0, 1, func(j *cluster.JobSpec) { j.Type = cluster.Daemon }), 0)
	s.emit(&cluster.InstanceAdded{Task: daemon, Host: id})
	s.emit(&cluster.TaskHeld{Task: daemon, Hold: cluster.Hold{Host: id, Until: cluster.Forever}})
	before, _ := s.state.Snapshot()
	s.world = newWorld(t)
	for part := range before.Parts() {
		part.Forget(1000)
		require.NoError(t, s.state.Apply(cluster.Record{Event: part}))
	}
	s.emit(&cluster.ModeSet{}) // it is known what runs
	require.Len(t, s.step().Placements, 1)
	require.Greater(t, s.state.Task(daemon).Run, uint32(cluster.Forgettable))
}

// TestWhoWaitsStartsWhenNumbersAreForgotten: by the first plan after that, though nothing about the task itself has changed.
func TestWhoWaitsStartsWhenNumbersAreForgotten(t *testing.T) {
	s := newShared(t)
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1), 0)
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.NumbersForgotten{})
	s.host(0, vector(1, 0))
	require.Len(t, s.step().Placements, 1)
	require.Equal(t, uint32(cluster.Forgettable+1), s.state.Task(waits).Run)
}

// TestWhoWasAskedToLeaveIsAskedAgainInTime: a claim that may only have the place of somebody who had to leave a moment ago has it as
// soon as that may be asked again, without anything else happening.
func TestWhoWasAskedToLeaveIsAskedAgainInTime(t *testing.T) {
	s := newShared(t)
	first := s.host(0, vector(1, 0))
	low := s.job(cluster.RootPool, 1, 1)
	s.settle()
	s.job(cluster.RootPool, 1, 1, urgent(1))
	require.Len(t, s.step().Displacements, 1)
	asked := s.now
	s.leave()
	s.settle()
	s.emit(&cluster.HostDrain{ID: first, Drain: true})
	s.host(1, vector(1, 0))
	s.settle()
	require.Equal(t, 1, s.running(low))

	again := asked.Add(cycle.DefaultOptions().Hysteresis)
	s.job(cluster.RootPool, 1, 1)
	require.NotEqual(t, again, s.step().WakeAt, "one as urgent may not have him leave then either")
	s.job(cluster.RootPool, 1, 1, urgent(2))
	out := s.step()
	require.Empty(t, out.Displacements)
	require.Equal(t, again, out.WakeAt)
	s.now = out.WakeAt
	require.Len(t, s.step().Displacements, 1)
}

// TestAHostIsKeptUntilOthersMayBeAsked: a host that is kept for a claim, since who is there was asked to leave a moment ago, is kept
// until he may be asked again, and then he is.
func TestAHostIsKeptUntilOthersMayBeAsked(t *testing.T) {
	s := newShared(t)
	options := cycle.DefaultOptions()
	options.HoldFor = 10 * time.Minute
	s.planner.Bound(options)
	small, large := s.host(0, vector(1, 0)), s.host(1, vector(2, 0))
	s.emit(&cluster.HostDrain{ID: large, Drain: true})
	low := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1), 0)
	s.settle()
	s.emit(&cluster.HostDrain{ID: small, Drain: true})
	s.job(cluster.RootPool, 1, 2, urgent(1))
	require.Empty(t, s.step().Displacements)

	s.now = s.now.Add(30 * time.Second)
	asked := s.now
	s.emit(&cluster.HostDrain{ID: small})
	s.emit(&cluster.HostDrain{ID: large})
	s.emit(&cluster.TaskPreempted{Task: low, Run: 1, Hold: &cluster.Hold{Host: large, Until: s.now.Add(time.Hour)}})
	s.report(low, cluster.TaskKilled)
	s.settle()
	require.Equal(t, large, s.state.Task(low).Host)

	s.now = s.now.Add(30 * time.Second)
	out := s.step()
	require.Len(t, out.Displacements, 1)
	require.Empty(t, out.Displacements[0].Victims)
	again := asked.Add(options.Hysteresis)
	require.Equal(t, again, out.Displacements[0].Holds[0].Hold.Until)
	require.Equal(t, again, out.WakeAt)

	s.now = out.WakeAt
	require.Len(t, s.step().Ended, 1)
	out = s.step()
	require.Len(t, out.Displacements, 1)
	require.Equal(t, low, out.Displacements[0].Victims[0].Task)
}

// TestNoHostIsKeptForWhomTheNextPlanMakesRoom: of claims that have waited long, those for whom no more may be asked to leave at once
// have others asked by the plans that follow, and no hosts kept until others end.
func TestNoHostIsKeptForWhomTheNextPlanMakesRoom(t *testing.T) {
	s := newShared(t)
	var large []cluster.HostID
	for i := range 3 {
		large = append(large, s.host(i, vector(2, 0)))
	}
	s.job(cluster.RootPool, 3, 1, func(j *cluster.JobSpec) { j.Limits.MaxPreempted = 1 })
	s.settle()
	drain := func(on bool) {
		for _, h := range large {
			s.emit(&cluster.HostDrain{ID: h, Drain: on})
		}
	}
	drain(true)
	for i := range 3 {
		s.host(3+i, vector(1, 0))
	}
	s.job(cluster.RootPool, 3, 2, urgent(1))
	s.step()
	s.now = s.now.Add(5 * time.Minute)
	drain(false)
	for range large {
		out := s.step()
		require.Len(t, out.Displacements, 1)
		require.Len(t, out.Displacements[0].Victims, 1)
	}
}

// TestNoHostIsKeptForMoreThanItHas: a gang that waits long has room held only where all of its core fits into what the hosts have
// that it may use; one that never will keeps nobody out of them.
func TestNoHostIsKeptForMoreThanItHas(t *testing.T) {
	devices := func(j *cluster.JobSpec) {
		j.Task.GPU = cluster.GPURequest{Count: 1}
		j.Task.Resources.Fixed[cluster.GPU] = cluster.WholeGPU
	}
	for _, c := range []struct {
		core uint32
		mine []func(*cluster.JobSpec)
		held int
	}{{4, nil, 4}, {5, nil, 0}, {4, []func(*cluster.JobSpec){devices}, 4}, {5, []func(*cluster.JobSpec){devices}, 0}} {
		s := newShared(t)
		capacity := vector(2, 0)
		if c.mine != nil {
			capacity = vector(9, 0)
			capacity.Fixed[cluster.GPU] = 2 * cluster.WholeGPU
		}
		for i := range 6 {
			m := cluster.Machine{Capacity: capacity, Rack: "r1"}
			if c.mine != nil {
				m.GPUs = make([]cluster.GPUDevice, 2)
			}
			if i < 2 {
				m.Rack = "r0"
			}
			s.machine(i, m)
		}
		in := host("rack", "r0")
		mine := append(c.mine, func(j *cluster.JobSpec) { j.Constraint = &in })
		s.job(cluster.RootPool, 1, 1, append(mine, func(j *cluster.JobSpec) { j.Preemptible = false })...)
		s.settle()
		s.job(cluster.RootPool, c.core, 1, append(mine, core(c.core), urgent(1))...)
		require.Empty(t, s.step().Displacements)

		s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
		held := 0
		for _, d := range s.step().Displacements {
			held += len(d.Holds)
		}
		require.Equal(t, c.held, held, "a core of %d", c.core)
		small := s.job(cluster.RootPool, 1, 1, mine...)
		s.settle()
		require.Equal(t, c.held == 0, s.running(small) == 1, "a core of %d", c.core)
	}
}

// TestNoPlanIsMadeForWhatNoHostHas: who asks for more than any host has when it is empty waits for one that comes. No time brings
// that about, so there is no plan for it, and nobody is asked to leave.
func TestNoPlanIsMadeForWhatNoHostHas(t *testing.T) {
	capacity := vector(6, 0)
	capacity.Fixed[cluster.GPU] = 3 * cluster.WholeGPU
	large := cluster.Machine{Capacity: capacity, GPUs: make([]cluster.GPUDevice, 3), Rack: "r9"}
	for name, asks := range map[string]func(*cluster.JobSpec){
		"cores":           func(j *cluster.JobSpec) { j.Task.Resources = vector(3, 0) },
		"a gang's cores":  func(j *cluster.JobSpec) { j.Task.Resources, j.Gang = vector(3, 0), &cluster.Gang{Minimum: 2} },
		"another machine": func(j *cluster.JobSpec) { in := host("rack", "r9"); j.Constraint = &in },
		"devices": func(j *cluster.JobSpec) {
			j.Task.GPU = cluster.GPURequest{Count: 3}
			j.Task.Resources.Fixed[cluster.GPU] = j.Task.GPU.Amount()
		},
	} {
		s := newShared(t)
		for i := range 2 {
			s.machine(i, cluster.Machine{Capacity: vector(2, 0), Rack: "r0"})
		}
		s.job(cluster.RootPool, 4, 1)
		s.settle()
		waits := s.job(cluster.RootPool, 2, 1, asks, urgent(9))
		for range 3 {
			out := s.step()
			require.Empty(t, out.Displacements, name)
			require.Zero(t, out.WakeAt, name)
			s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
		}
		s.machine(2, large)
		s.settle()
		require.Positive(t, s.running(waits), name)
	}
}

// TestACoreWaitsAsOne: who restarts one of a gang's core that waits does not have its preferences give way later than those of the
// others: they start together.
func TestACoreWaitsAsOne(t *testing.T) {
	s := newShared(t)
	s.rack(0, "r1", 2)
	gang := s.job(cluster.RootPool, 2, 1, core(2), func(j *cluster.JobSpec) {
		j.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r0"), Soft: cluster.Soft{Penalty: time.Second, Timeout: 10 * time.Second}}}
	})
	yields := s.now.Add(10 * time.Second)
	require.Empty(t, s.step().Placements)
	s.now = s.now.Add(5 * time.Second)
	s.emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(gang, 1), Restart: true})
	require.Equal(t, yields, s.step().WakeAt)
	s.now = yields
	require.Len(t, s.step().Placements, 2)
}

// TestRoomHeldInVainIsGivenBackInTime: also where others wait, whom the same cycle looks for places for.
func TestRoomHeldInVainIsGivenBackInTime(t *testing.T) {
	s := newShared(t)
	h := s.host(0, vector(1, 0))
	s.job(cluster.RootPool, 1, 1)
	s.settle()
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1), 0)
	until := s.now.Add(10 * time.Second)
	s.emit(&cluster.TaskHeld{Task: waits, Hold: cluster.Hold{Host: h, Until: until}})
	s.job(cluster.RootPool, 1, 2)
	require.Equal(t, until, s.step().WakeAt)
	s.now = until
	require.Equal(t, []cluster.TaskKey{waits}, s.step().Ended)
}

// TestWhoWaitsForOneThatStartsGoesNext: borrowed work that is to be beside a task starts once the plan has started that, without
// anything else happening.
func TestWhoWaitsForOneThatStartsGoesNext(t *testing.T) {
	s := newShared(t)
	s.planner = cycle.New(loadspread.Model{}, nil)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit}}}})
	s.rack(0, "r0", 8)
	s.job("root/a", 1, 1, urgent(9), must(tasks("x", cluster.Greater, 0, "rack")))
	require.Empty(t, s.step().Placements)
	s.job("root/a", 2, 1, core(2), labeled("app", "x"))
	n := 0
	for range 2 {
		n += len(s.step().Placements)
	}
	require.Equal(t, 3, n)
}

// TestWhoMovesTakesRoomElsewhereWhenItsOwnDoesNotDo: the same for who moves himself, from a host that gives his room to nobody.
func TestWhoMovesTakesRoomElsewhereWhenItsOwnDoesNotDo(t *testing.T) {
	s := newShared(t)
	from := s.machine(0, cluster.Machine{Capacity: vector(2, 0)})
	moves := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2), 0)
	s.settle()
	to, other := s.machine(1, cluster.Machine{Capacity: vector(2, 0)}), s.machine(2, cluster.Machine{Capacity: vector(2, 0)})
	s.emit(&cluster.HostDrain{ID: from, Drain: true})
	s.emit(&cluster.TaskPreempted{Task: moves, Run: 1, Hold: &cluster.Hold{Host: to, Until: s.now.Add(time.Hour)}})
	s.machine(1, cluster.Machine{Capacity: vector(1, 0)})
	s.settle()
	s.report(moves, cluster.TaskKilled)
	s.settle()
	require.Equal(t, other, s.state.Task(moves).Host)
}

// TestWhoComesToItsRoomLetsOthersStart: who may only be beside another starts when that one has come to where room was held for it,
// without anything else happening.
func TestWhoComesToItsRoomLetsOthersStart(t *testing.T) {
	s := newShared(t)
	from, to := s.host(0, vector(1, 0)), s.rack(1, "r1", 2)
	s.emit(&cluster.HostDrain{ID: to, Drain: true})
	moves := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1, labeled("app", "x")), 0)
	s.settle()
	s.emit(&cluster.HostDrain{ID: to})
	s.emit(&cluster.HostDrain{ID: from, Drain: true})
	s.emit(&cluster.TaskPreempted{Task: moves, Run: 1, Hold: &cluster.Hold{Host: to, Until: s.now.Add(time.Hour)}})
	s.job(cluster.RootPool, 1, 1, must(tasks("x", cluster.Greater, 0, "rack")))
	require.Empty(t, s.step().Placements)
	s.report(moves, cluster.TaskKilled)
	require.Len(t, s.step().Placements, 2)
}

// TestACoreComesTogether: of a core that wait, nobody starts alone, whatever the others are about: room that was held for one is given
// back when another comes to wait, and found again for both; and waits for one that backs off.
func TestACoreComesTogether(t *testing.T) {
	s := newShared(t)
	h := s.host(0, vector(2, 0))
	gang := s.job(cluster.RootPool, 2, 1, core(2), func(j *cluster.JobSpec) {
		j.MaxFailures, j.Backoff = 9, cluster.Backoff{Initial: time.Second, Max: time.Second}
	})
	first, second := cluster.MakeTaskKey(gang, 0), cluster.MakeTaskKey(gang, 1)
	restart := func(k cluster.TaskKey) {
		s.emit(&cluster.TaskStopping{Task: k, Restart: true})
		s.report(k, cluster.TaskKilled)
	}
	s.settle()

	restart(first)
	s.emit(&cluster.TaskHeld{Task: first, Hold: cluster.Hold{Host: h, Until: s.now.Add(time.Minute)}})
	restart(second)
	out := s.step()
	require.Equal(t, []cluster.TaskKey{first}, out.Ended)
	require.Empty(t, out.Placements)
	require.Len(t, s.step().Placements, 2)

	restart(first)
	s.emit(&cluster.TaskHeld{Task: first, Hold: cluster.Hold{Host: h, Until: s.now.Add(time.Minute)}})
	s.report(second, cluster.TaskFailed)
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.TaskReleased{Task: second})
	require.Equal(t, []cluster.TaskKey{first}, s.step().Ended)
	require.Len(t, s.step().Placements, 2)
}

// TestACoreHasItsPartOfWhatMayRun: where no more of a gang may run at once than its core, the others wait for members of that to end, and
// not these for them: a core that was lost, whole or in part, starts anew.
func TestACoreHasItsPartOfWhatMayRun(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(9, 0))
	gang := s.job(cluster.RootPool, 3, 1, core(2), func(j *cluster.JobSpec) {
		j.Limits.MaxRunning = 2
		j.MaxFailures, j.Backoff = 9, cluster.Backoff{Initial: time.Second, Max: time.Second}
	})
	both := []cluster.TaskKey{cluster.MakeTaskKey(gang, 0), cluster.MakeTaskKey(gang, 1)}
	s.settle()
	for _, lost := range [][]cluster.TaskKey{both, both[1:], both} {
		require.Equal(t, both, s.in(cluster.TaskRunning))
		for _, k := range lost {
			s.report(k, cluster.TaskFailed)
		}
		s.settle()
		for _, k := range lost {
			s.emit(&cluster.TaskReleased{Task: k})
		}
		s.settle()
	}
	require.Equal(t, both, s.in(cluster.TaskRunning))
	s.report(both[1], cluster.TaskSucceeded)
	s.settle()
	require.Len(t, s.in(cluster.TaskRunning), 2)
}

// planKeeping plans as step, but asks nobody to leave.
func (s *shared) planKeeping() cycle.Output {
	snapshot, changes := s.state.Snapshot()
	s.now = s.now.Add(time.Second)
	return s.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now, KeepAll: true})
}

// TestWhoMayLeaveNowIsAsked: urgent work has others leave as soon as these may be asked: when an update lets them be preempted or
// lowers their priority, and when killing goes on.
func TestWhoMayLeaveNowIsAsked(t *testing.T) {
	for name, test := range map[string]struct{ before, after func(*cluster.JobSpec) }{
		"preemptible":     {func(j *cluster.JobSpec) { j.Preemptible = false }, func(j *cluster.JobSpec) { j.Preemptible = true }},
		"less urgent":     {urgent(5), urgent(0)},
		"killing goes on": {urgent(0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/a", 2)
			s.host(0, vector(1, 0))
			low := s.job("root/a", 1, 1, test.before)
			s.settle()
			s.job("root/a", 1, 1, urgent(3))
			if test.after == nil {
				require.Zero(t, s.planKeeping().Stats.Preemptions)
				require.Zero(t, s.planKeeping().Stats.Preemptions)
			} else {
				require.Zero(t, s.step().Stats.Preemptions)
				spec := *s.state.Job(low).Spec
				test.after(&spec)
				s.emit(&cluster.JobUpdated{Job: low, Spec: &spec})
			}
			require.Equal(t, 1, s.step().Stats.Preemptions)
		})
	}
}

// TestAsManyAreAskedAsTheJobAllowsNow: where room takes two of a job of which one plan may ask one, both are asked when the job allows it,
// whether its tasks follow the update at once or not.
func TestAsManyAreAskedAsTheJobAllowsNow(t *testing.T) {
	for _, labels := range [][]cluster.KeyValue{nil, {{Key: "color", Value: "blue"}}} {
		s := newShared(t)
		s.pool("root/a", 2)
		s.host(0, vector(2, 0))
		low := s.job("root/a", 2, 1, func(j *cluster.JobSpec) { j.Limits.MaxPreempted = 1 })
		s.settle()
		s.job("root/a", 1, 2, urgent(1))
		require.Zero(t, s.step().Stats.Preemptions)
		spec := *s.state.Job(low).Spec
		spec.Limits.MaxPreempted, spec.Labels = 2, labels
		s.emit(&cluster.JobUpdated{Job: low, Spec: &spec, Update: &cluster.Update{From: 1}})
		require.Equal(t, 2, s.step().Stats.Preemptions)
	}
}

// TestWhoIsToEndAfterAllClaimsNothing: a task that leaves to begin anew wants room as long as it is to, and no longer.
func TestWhoIsToEndAfterAllClaimsNothing(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 1)
	s.host(0, vector(1, 0))
	leaves := cluster.MakeTaskKey(s.job("root/a", 1, 1), 0)
	s.settle()
	s.job("root/a", 1, 1)
	for _, restart := range []bool{true, false} {
		s.emit(&cluster.TaskStopping{Task: leaves, Reason: cluster.ReasonTaskStopped, Restart: restart})
		out := s.step()
		i := slices.IndexFunc(out.Pools, func(p pool.Status) bool { return p.Path == "root/a" })
		wanted := map[bool]int64{true: 2, false: 1}[restart]
		require.Equal(t, wanted, out.Pools[i].Dimensions[0].Demand)
	}
}

// TestAJobCountsForTheGroupsItIsOfNow: a job of the same group begins when the first is of another one.
func TestAJobCountsForTheGroupsItIsOfNow(t *testing.T) {
	s := newShared(t)
	one := uint32(1)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobsPerGroup: &one}}})
	s.host(0, vector(2, 0))
	in := func(group string) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) { j.Groups = []string{group} }
	}
	first, second := s.job("root/a", 1, 1, in("x")), s.job("root/a", 1, 1, in("x"))
	s.settle()
	require.Equal(t, []int{1, 0}, []int{s.running(first), s.running(second)})
	spec := *s.state.Job(first).Spec
	in("y")(&spec)
	s.emit(&cluster.JobUpdated{Job: first, Spec: &spec, Update: &cluster.Update{From: 1}})
	s.settle()
	require.Equal(t, 1, s.running(second))
}

// TestWhoStartsWhereRoomWasHeldMayBeAsked: work with room held on a host starts there when that of another job fails, which is to come back.
// A second later more urgent work that found nobody to leave has it leave, though there was nothing to plan when it started.
func TestWhoStartsWhereRoomWasHeldMayBeAsked(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 4000)
	h := s.rack(0, "r0", 2)
	s.rack(1, "r1", 2)
	mine := must(host("rack", "r0"))
	service := cluster.MakeTaskKey(s.job("root/a", 1, 1000, mine, func(j *cluster.JobSpec) {
		j.Type, j.Preemptible, j.Backoff = cluster.Stateful, false, cluster.Backoff{Initial: time.Minute, Max: time.Minute}
	}), 0)
	s.settle()
	low := cluster.MakeTaskKey(s.job("root/a", 1, 2000, mine), 0)
	s.emit(&cluster.TaskHeld{Task: low, Hold: cluster.Hold{Host: h, Until: s.now.Add(time.Hour)}})
	s.job("root/a", 1, 1000, mine, urgent(1))
	s.settle()
	s.report(service, cluster.TaskFailed)
	s.emit(&cluster.TaskHeld{Task: service, Hold: cluster.Hold{Host: h, Until: cluster.Forever}})
	out := s.step()
	require.Equal(t, h, s.state.Task(low).Host)
	require.Equal(t, s.now.Add(time.Second), out.WakeAt)
	require.Equal(t, 1, s.step().Stats.Preemptions)
}

// TestSlackIsTakenBackWhenKillingGoesOn: while nobody is asked to leave, neither are revocable tasks.
func TestSlackIsTakenBackWhenKillingGoesOn(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(4, 0))
	s.job("root/a", 4, 1)
	s.settle()
	s.slack(h, 2)
	s.job("root/a", 2, 1, revocable)
	s.settle()
	s.slack(h, 0)
	require.Zero(t, s.planKeeping().Stats.Preemptions)
	require.Zero(t, s.planKeeping().Stats.Preemptions)
	require.Equal(t, 2, s.step().Stats.Revoked)
}

// TestAServiceThatRecoversGivesMore: who waits since a service bears the loss of no more instances has the next one leave when one is
// ready again.
func TestAServiceThatRecoversGivesMore(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	s.host(0, vector(2, 0), cluster.KeyValue{Key: "disk", Value: "ssd"})
	s.job("root/a", 2, 1, func(j *cluster.JobSpec) { j.Type = cluster.Stateless })
	s.settle()
	high := s.job("root/a", 2, 1, urgent(1), must(host("disk", "ssd")))
	require.Equal(t, 1, s.step().Stats.Preemptions)
	s.leave()
	s.settle()
	require.Equal(t, 1, s.running(high))

	s.host(1, vector(1, 0))
	out := s.plan()
	for _, step := range out.Steps() { // the instance starts elsewhere
		for _, e := range step {
			s.emit(e)
		}
	}
	s.now = s.now.Add(time.Minute)
	require.Zero(t, s.step().Stats.Preemptions)
	s.report(s.in(cluster.TaskPlaced)[0], cluster.TaskRunning)
	require.Equal(t, 1, s.step().Stats.Preemptions)
}

// TestAClaimStopsWhoHasJustCome: work that starts in the same plan in which an urgent gang finds no room leaves for it, though nothing
// else happens.
func TestAClaimStopsWhoHasJustCome(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(2, 0))
	low := s.job(cluster.RootPool, 3, 1)
	s.settle()
	s.report(s.in(cluster.TaskRunning)[0], cluster.TaskSucceeded)
	s.job(cluster.RootPool, 2, 1, urgent(1), core(2))
	out := s.step()
	require.Len(t, out.Placements, 1)
	require.Equal(t, 2, s.running(low))
	require.Equal(t, s.now.Add(time.Second), out.WakeAt)
	require.Equal(t, 2, s.step().Stats.Preemptions)
}

// TestNoMoreRunThanTheJobSays: who leaves counts until gone, and who has room held where its data is starts only when it may.
func TestNoMoreRunThanTheJobSays(t *testing.T) {
	most := func(n uint32) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) { j.Limits.MaxRunning = n }
	}
	t.Run("stopped", func(t *testing.T) {
		s := newShared(t)
		s.host(0, vector(9, 0))
		job := s.job(cluster.RootPool, 3, 1, most(1))
		s.settle()
		s.emit(&cluster.TaskStopping{Task: s.in(cluster.TaskRunning)[0], Reason: cluster.ReasonTaskStopped})
		s.settle()
		require.Zero(t, s.running(job))
		s.report(s.in(cluster.TaskKilling)[0], cluster.TaskKilled)
		s.settle()
		require.Equal(t, 1, s.running(job))
	})
	t.Run("asked to leave for good", func(t *testing.T) {
		s := newShared(t)
		s.host(0, vector(1, 0))
		job := s.job(cluster.RootPool, 3, 1, most(1), func(j *cluster.JobSpec) { j.Preemption.Kill = true })
		s.settle()
		s.job(cluster.RootPool, 1, 1, urgent(1))
		s.step()
		require.Len(t, s.in(cluster.TaskPreempting), 1)
		s.host(1, vector(9, 0))
		s.settle()
		require.Zero(t, s.running(job))
		s.leave()
		s.settle()
		require.Equal(t, 1, s.running(job))
	})
	t.Run("comes back", func(t *testing.T) {
		s := newShared(t)
		do := func(e cluster.Event) {
			tx := rules.Begin(s.state, s.now)
			require.NoError(t, tx.Emit(e))
			require.NoError(t, rules.Settle(tx))
		}
		s.host(0, vector(1, 0))
		job := s.job(cluster.RootPool, 2, 1, most(1), func(j *cluster.JobSpec) { j.Type, j.Preemptible = cluster.Stateful, false })
		s.settle()
		first := s.in(cluster.TaskRunning)[0]
		home := s.state.Task(first).Host
		do(&cluster.HostUnreached{ID: home})
		s.report(first, cluster.TaskLost)
		other := s.host(1, vector(1, 0))
		s.settle()
		require.Equal(t, 1, s.running(job))
		do(&cluster.HostReported{ID: home, Machine: cluster.Machine{Capacity: vector(1, 0)}})
		require.Equal(t, cluster.TaskReserved, s.state.Task(first).State)
		s.settle()
		require.Equal(t, cluster.TaskReserved, s.state.Task(first).State)
		require.Equal(t, 1, s.running(job))
		do(&cluster.HostDrain{ID: other, Drain: true})
		s.report(s.in(cluster.TaskRunning)[0], cluster.TaskLost)
		s.settle()
		require.Equal(t, []cluster.TaskKey{first}, s.in(cluster.TaskRunning))
	})
}

// TestManyThatFitNowhereKeepNobodyOut: those next in a pool start, or have others leave for them, however many more urgent ones have no
// host.
func TestManyThatFitNowhereKeepNobodyOut(t *testing.T) {
	one := uint32(1)
	for name, pool := range map[string]cluster.Pool{
		"limit": {Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 7, Limit: 7, Share: 1}}},
		"jobs": {
			Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 7, Limit: cluster.NoLimit, Share: 1}},
			Limits:    cluster.PoolLimits{RunningJobs: &one},
		},
	} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, full %t", name, full), func(t *testing.T) {
				s := newShared(t)
				for i := range 3 {
					s.host(i, vector(6, 100))
				}
				s.pool("root/kept", 3)
				s.pool("root/others", 0)
				s.job("root/kept", 3, 1, func(j *cluster.JobSpec) { j.Preemptible, j.Spread = false, []cluster.Spread{{Domain: "host", Max: 1}} })
				s.settle()
				if full {
					s.job("root/others", 15, 1)
					s.settle()
				}
				pool.Path = "root/a"
				s.emit(&cluster.PoolPut{Pool: pool})
				for i := range 40 {
					s.job("root/a", 1, 6, urgent(int32(100-i)), func(j *cluster.JobSpec) {
						if !full {
							j.Task.Resources.Fixed[cluster.Memory] = int64(i)
						}
					})
				}
				small := s.job("root/a", 1, 2)
				for range 3 {
					s.step()
					s.leave()
				}
				require.Equal(t, 1, s.running(small))
			})
		}
	}
}

// crowdedByOthers fills two hosts of 6 thousandths with a task each of a job that keeps its place, and with what may be asked to leave,
// and adds the pool root/a, of which one job may run at a time.
func (s *shared) crowdedByOthers() (kept cluster.JobUID) {
	one := uint32(1)
	s.pool("root/kept", 2)
	s.pool("root/others", 0)
	kept = s.job("root/kept", 2, 1, func(j *cluster.JobSpec) { j.Preemptible, j.Spread = false, []cluster.Spread{{Domain: "host", Max: 1}} })
	s.settle()
	s.job("root/others", 10, 1)
	s.settle()
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{
		Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one},
		Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 6, Limit: cluster.NoLimit, Share: 1}},
	}})
	return kept
}

// TestManyGangsThatCannotBeWholeAreLeftAlone: where more gangs wait than one plan passes over, each with a host for one of its tasks, the
// plans that follow go on with those behind them and come to an end. None begins before the time has come that the one before names.
func TestManyGangsThatCannotBeWholeAreLeftAlone(t *testing.T) {
	one := uint32(1)
	for _, running := range []*uint32{&one, nil} {
		manyGangs(t, running)
	}
}

func manyGangs(t *testing.T, running *uint32) {
	const disk = "disk"
	s := newShared(t)
	s.host(0, vector(8, 100))
	s.host(1, vector(16, 0), cluster.KeyValue{Key: disk, Value: "ssd"})
	onSecond := func(j *cluster.JobSpec) {
		j.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: disk, Value: "ssd"}, Comparison: cluster.Greater}
	}
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{
		Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: running},
		Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 24, Limit: cluster.NoLimit, Share: 1}},
	}})
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit},
	}}})
	s.job("root/b", 16, 1, onSecond)
	s.settle()
	for i := range 12 {
		s.job("root/a", 2, 8, urgent(int32(100-i)), core(2), func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = int64(i + 1) })
	}
	s.step()
	small := s.job("root/a", 1, 1, onSecond)
	plans := 0
	for ; plans < 100; plans++ {
		out := s.step()
		s.leave()
		if out.WakeAt == 0 && len(out.Placements)+len(out.Displacements) == 0 {
			break
		}
		require.True(t, out.WakeAt == 0 || out.WakeAt > s.now, "plan %d is to be made again at once", plans)
		s.now = max(s.now, out.WakeAt)
	}
	require.Equal(t, 1, s.running(small))
	require.Less(t, plans, 100, "plans go on for ever")
}

// TestManyThatFindNoRoomKeepNobodyOut: nor do more of different sizes for whom no room can be made than one plan passes over, where a limit
// counts the jobs that run: the plans that follow go on with those behind them, though nothing else happens.
func TestManyThatFindNoRoomKeepNobodyOut(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(6, 100))
	s.host(1, vector(6, 100))
	s.crowdedByOthers()
	for i := range 10 {
		s.job("root/a", 1, 6, urgent(int32(100-i)), func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = int64(i) })
	}
	small := s.job("root/a", 1, 2)
	for range 10 {
		s.step()
		s.leave()
	}
	require.Equal(t, 1, s.running(small))
}

// TestALimitIsNotKeptForManyGangsThatCannotBeWhole: nor do more gangs than one plan passes over, each with a host for one of its tasks,
// keep a limit from somebody who has a host.
func TestALimitIsNotKeptForManyGangsThatCannotBeWhole(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.host(1, vector(3, 0))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 8}}}})
	for range 20 {
		s.job("root/a", 2, 4, core(2))
	}
	small := s.job("root/a", 1, 3)
	s.step()
	require.Equal(t, 1, s.running(small))
}

// TestWhoStartsMayBeAskedByAClaimThatWasPassedOver: a claim that finds no room in a plan that gets no further is looked at again, though the next
// plan passes it over, since who starts in the first one may be asked to leave for it.
func TestWhoStartsMayBeAskedByAClaimThatWasPassedOver(t *testing.T) {
	s := newShared(t)
	one := uint32(1)
	s.pool("root/a", 4000)
	s.pool("root/b", 2000)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{
		Path: "root/c", Limits: cluster.PoolLimits{RunningJobs: &one},
		Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: 4000, Limit: cluster.NoLimit, Share: 1}},
	}})
	h := s.rack(0, "r0", 4)
	s.rack(1, "r1", 20)
	mine := must(host("rack", "r0"))
	stays := func(j *cluster.JobSpec) { j.Preemptible = false }
	ends := cluster.MakeTaskKey(s.job("root/b", 1, 1000, mine, stays), 0)
	s.job("root/b", 1, 1000, mine, stays)
	s.settle()
	low := cluster.MakeTaskKey(s.job("root/a", 1, 3000, mine), 0)
	s.emit(&cluster.TaskHeld{Task: low, Hold: cluster.Hold{Host: h, Until: s.now.Add(time.Hour)}})
	high := s.job("root/a", 1, 1000, mine, urgent(9))
	for i := range 10 {
		s.job("root/c", 1, 4000, mine, func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = int64(i) })
	}
	s.report(ends, cluster.TaskSucceeded)
	s.step()
	require.Equal(t, h, s.state.Task(low).Host)
	for range 10 {
		s.step()
		s.leave()
	}
	require.Equal(t, 1, s.running(high))
}

// TestManyWhoOnlyBorrowKeepNobodyOut: nor do more that only borrow, and have no host, than one plan passes over: somebody behind them has a
// claim for which others leave, and then plans come to an end.
func TestManyWhoOnlyBorrowKeepNobodyOut(t *testing.T) {
	one := uint32(1)
	s := newShared(t)
	s.host(0, vector(8, 0))
	s.host(1, vector(8, 0))
	for _, p := range []cluster.Pool{{Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one}}, {Path: "root/b"}} {
		own := cluster.PoolResource{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit}
		if p.Path == "root/a" {
			own.Reservation = 4
		}
		p.Resources = []cluster.PoolResource{own}
		s.emit(&cluster.PoolPut{Pool: p})
	}
	s.job("root/b", 10, 1)
	s.settle()
	for range 20 {
		s.job("root/a", 1, 6, urgent(9))
	}
	small := s.job("root/a", 1, 4)
	plans := 0
	for ; plans < 100; plans++ {
		out := s.step()
		if out.WakeAt == 0 && len(out.Placements)+len(out.Displacements) == 0 {
			break
		}
		if s.leave() == 0 {
			s.now = max(s.now, out.WakeAt)
		}
	}
	require.Equal(t, 1, s.running(small))
	require.Less(t, plans, 100, "plans go on for ever")
}

// TestAClaimThatWasPassedOverIsLookedAtAgain: where more claims find no room than one plan passes over, what becomes possible for one of
// the first before the next plan, which goes on with those behind, is seen by the one after that, though nothing else happens.
func TestAClaimThatWasPassedOverIsLookedAtAgain(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(6, 50))
	s.host(1, vector(6, 100))
	kept := s.crowdedByOthers()
	first := s.job("root/a", 1, 6, urgent(200))
	for i := range 10 {
		s.job("root/a", 1, 6, urgent(int32(100-i)), func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = int64(60 + i) })
	}
	require.Empty(t, s.step().Displacements)
	for k := range s.state.TasksOf(kept, 0) {
		if k.Host.Name() == "h00000" {
			s.report(k.Key, cluster.TaskSucceeded)
			break
		}
	}
	for range 10 {
		s.step()
		s.leave()
	}
	require.Equal(t, 1, s.running(first))
}

// keptOnTwo fills the two hosts of a rack, beside four others, with tasks of 1 that nobody may stop, and returns a task of 2 for which one of
// the two is kept, and what has a job run in that rack only.
func (s *shared) keptOnTwo(capacity int64) (task cluster.TaskKey, kept cluster.HostID, mine func(*cluster.JobSpec)) {
	for i := range 6 {
		m := cluster.Machine{Capacity: vector(capacity, 0), Rack: "r1"}
		if i < 2 {
			m.Rack = "r0"
		}
		s.machine(i, m)
	}
	in := host("rack", "r0")
	mine = func(j *cluster.JobSpec) { j.Constraint = &in }
	s.job(cluster.RootPool, uint32(2*capacity), 1, mine, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	task = cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2, mine), 0)
	require.Empty(s.t, s.step().Displacements)
	s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
	require.Len(s.t, s.step().Displacements, 1)
	return task, s.state.Task(task).Hold.Host, mine
}

// endAllBut ends what runs on other hosts, and settles.
func (s *shared) endAllBut(kept cluster.HostID) {
	for _, k := range s.in(cluster.TaskRunning) {
		if s.state.Task(k).Host != kept {
			s.report(k, cluster.TaskSucceeded)
		}
	}
	s.settle()
}

// TestWhoHasAHostKeptTakesRoomElsewhere: who waits for others to end on a host that is kept for him starts on another one as soon
// as it has room, before who came later, unless that is more urgent.
func TestWhoHasAHostKeptTakesRoomElsewhere(t *testing.T) {
	for priority := range int32(2) {
		s := newShared(t)
		large, kept, mine := s.keptOnTwo(2)
		later := s.job(cluster.RootPool, 2, 1, mine, urgent(priority))
		s.endAllBut(kept)
		if priority > 0 {
			require.Equal(t, cluster.TaskReserved, s.state.Task(large).State)
			require.Equal(t, 2, s.running(later))
			continue
		}
		require.Equal(t, cluster.TaskRunning, s.state.Task(large).State)
		require.NotEqual(t, kept, s.state.Task(large).Host)
		require.Zero(t, s.running(later))
	}
}

// TestWhoHasAHostKeptTakesWhatIsLeftElsewhere: when somebody more urgent has started on the other host, there is room for both.
func TestWhoHasAHostKeptTakesWhatIsLeftElsewhere(t *testing.T) {
	s := newShared(t)
	large, kept, mine := s.keptOnTwo(3)
	urgent := s.job(cluster.RootPool, 1, 1, mine, urgent(1))
	s.endAllBut(kept)
	require.Equal(t, 1, s.running(urgent))
	require.Equal(t, cluster.TaskRunning, s.state.Task(large).State)
	require.NotEqual(t, kept, s.state.Task(large).Host)
}

// TestWhatIsKeptForManyEndsTogether: hosts that are kept for tasks which began to wait at different times are kept until the same times, so
// that a plan looks for a host for all of them anew, and there are few such plans.
func TestWhatIsKeptForManyEndsTogether(t *testing.T) {
	s := newShared(t)
	for i := range 8 {
		s.rack(i, "r0", 3)
	}
	s.job(cluster.RootPool, 8, 1000, func(j *cluster.JobSpec) {
		j.Preemptible, j.Spread = false, []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}}
	})
	s.settle()
	for i := range 6 {
		s.job(cluster.RootPool, 1, 2100+int64(i))
		s.settle()
		s.now = s.now.Add(7 * time.Second)
	}
	began, plans := s.now, 0
	for s.now < began.Add(2*time.Hour) {
		out := s.step()
		require.Empty(t, out.Placements)
		if plans++; len(out.Ended)+len(out.Displacements) > 0 {
			continue // the next plan follows at once
		}
		require.NotZero(t, out.WakeAt)
		s.now = max(s.now, out.WakeAt.Add(-time.Second)) // a step takes a second
	}
	require.Less(t, plans, 50)
	kept := s.in(cluster.TaskReserved)
	require.Len(t, kept, 6)
	for _, k := range kept {
		require.Equal(t, s.state.Task(kept[0]).Hold.Until, s.state.Task(k).Hold.Until)
	}
}

// TestOneHostAtATimeIsKept: of tasks that ask for the same and have waited long one has its host kept, so that what fits on the other
// one starts there; and when that one has started, the next has.
func TestOneHostAtATimeIsKept(t *testing.T) {
	s := newShared(t)
	hosts := []cluster.HostID{s.rack(0, "r0", 3), s.rack(1, "r0", 3)}
	s.rack(2, "r1", 10)
	mine := must(host("rack", "r0"))
	s.job(cluster.RootPool, 2, 1000, mine, func(j *cluster.JobSpec) {
		j.Preemptible, j.Spread = false, []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}}
	})
	s.settle()
	large := s.job(cluster.RootPool, 3, 3000, mine)
	s.settle()
	s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
	s.settle()
	kept := s.in(cluster.TaskReserved)
	require.Len(t, kept, 1)
	first := s.state.Task(kept[0]).Hold.Host
	second := hosts[1-slices.Index(hosts, first)]
	small := s.job(cluster.RootPool, 3, 1000, mine)
	s.settle()
	require.Equal(t, 2, s.running(small), "there is room for two on the other one")

	s.endAllBut(second)
	require.Equal(t, first, s.state.Task(kept[0]).Host)
	require.Equal(t, 1, s.running(large))
	require.Len(t, s.in(cluster.TaskReserved), 1, "now the next one's")
}

// TestWhatWasKeptForOneDoesForAnother: who starts elsewhere leaves the host that was kept for it to another one for whom a host is kept,
// though that is looked at first.
func TestWhatWasKeptForOneDoesForAnother(t *testing.T) {
	s := newShared(t)
	full, half := s.rack(0, "r0", 1), s.rack(1, "r0", 2)
	s.job(cluster.RootPool, 2, 1000, func(j *cluster.JobSpec) { j.Spread = []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}} })
	s.settle()
	small := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000, must(host("rack", "r0"))), 0)
	large := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2000), 0)
	s.emit(&cluster.TaskHeld{Task: small, Hold: cluster.Hold{Host: full, Until: s.now.Add(time.Hour)}})
	s.emit(&cluster.TaskHeld{Task: large, Hold: cluster.Hold{Host: half, Until: s.now.Add(time.Hour)}})
	s.settle()
	require.Equal(t, cluster.TaskReserved, s.state.Task(small).State)
	other := s.rack(2, "r1", 2)
	s.settle()
	require.Equal(t, other, s.state.Task(large).Host)
	require.Equal(t, half, s.state.Task(small).Host)
}

// TestAStartElsewhereThatComesToNothingTakesNoRoom: where who has room held does not start after all, others may.
func TestAStartElsewhereThatComesToNothingTakesNoRoom(t *testing.T) {
	s := newShared(t)
	full := s.rack(0, "r0", 1)
	s.job(cluster.RootPool, 1, 1000)
	s.settle()
	held := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000), 0)
	s.emit(&cluster.TaskHeld{Task: held, Hold: cluster.Hold{Host: full, Until: s.now.Add(time.Hour)}})
	other := s.rack(1, "r0", 1)
	out := s.plan()
	require.Len(t, out.Placements, 1)
	require.Equal(t, held, out.Placements[0].Task)
	s.emit(&cluster.TaskStopping{Task: held})
	next := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000), 0)
	s.settle()
	require.Equal(t, other, s.state.Task(next).Host)
}

// TestWhoHasRoomHeldTakesRoomElsewhereWhenItDoesNotDo: room is held on a host that somebody leaves for another one. When he has left,
// and the host has become smaller meanwhile, who waited starts where there was room all the time.
func TestWhoHasRoomHeldTakesRoomElsewhereWhenItDoesNotDo(t *testing.T) {
	s := newShared(t)
	first := s.machine(0, cluster.Machine{Capacity: vector(2, 0)})
	moves := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2), 0)
	s.settle()
	second, third := s.machine(1, cluster.Machine{Capacity: vector(2, 0)}), s.machine(2, cluster.Machine{Capacity: vector(2, 0)})
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2), 0)
	s.emit(&cluster.TaskHeld{Task: waits, Hold: cluster.Hold{Host: first, Until: s.now.Add(time.Hour)}})
	s.emit(&cluster.TaskPreempted{Task: moves, Run: 1, Hold: &cluster.Hold{Host: second, Until: s.now.Add(time.Hour)}})
	s.machine(0, cluster.Machine{Capacity: vector(1, 0)})
	s.settle()
	require.Equal(t, cluster.TaskReserved, s.state.Task(waits).State, "somebody leaves for it")
	s.report(moves, cluster.TaskKilled)
	s.settle()
	require.Equal(t, second, s.state.Task(moves).Host)
	require.Equal(t, third, s.state.Task(waits).Host)
}

// TestWhoHasAHostKeptTakesOneThatBecomesTooSmallForWhoIsMoreUrgent: what was left to somebody more urgent, who may not start yet, is for
// who waits for others to end once it is too small for the first.
func TestWhoHasAHostKeptTakesOneThatBecomesTooSmallForWhoIsMoreUrgent(t *testing.T) {
	s := newShared(t)
	large, kept, _ := s.keptOnTwo(3)
	s.job(cluster.RootPool, 2, 3, urgent(1), func(j *cluster.JobSpec) { j.Limits.MaxRunning = 1 })
	s.settle()
	var other *cluster.Host
	for h := range s.state.Hosts("") {
		if h.Rack == "r0" && h.ID != kept {
			other = h
		}
	}
	for _, k := range other.Tasks {
		s.report(k, cluster.TaskSucceeded)
	}
	s.settle()
	require.Equal(t, cluster.TaskReserved, s.state.Task(large).State)
	s.emit(&cluster.HostReported{ID: other.ID, Machine: cluster.Machine{Capacity: vector(2, 0), Rack: "r0"}})
	s.settle()
	require.Equal(t, other.ID, s.state.Task(large).Host)
}

// TestWhoHasADeviceHeldTakesAnother: who has a device held that somebody still has starts on another one of the host that is free.
func TestWhoHasADeviceHeldTakesAnother(t *testing.T) {
	s := newShared(t)
	m := cluster.Machine{Capacity: vector(8, 0), GPUs: []cluster.GPUDevice{{Model: "A"}, {Model: "A"}}}
	m.Capacity.Fixed[cluster.GPU] = 2 * cluster.WholeGPU
	host := s.machine(0, m)
	first := s.job(cluster.RootPool, 2, 1, gpus(1, 0))
	s.settle()
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1, gpus(1, 0)), 0)
	one, other := s.state.Task(cluster.MakeTaskKey(first, 0)), cluster.MakeTaskKey(first, 1)
	s.emit(&cluster.TaskHeld{Task: waits, Hold: cluster.Hold{Host: host, GPUs: one.GPUs, Until: s.now.Add(time.Hour)}})
	free := s.state.Task(other).GPUs
	s.report(other, cluster.TaskSucceeded)
	s.settle()
	require.Equal(t, cluster.TaskRunning, s.state.Task(waits).State)
	require.Equal(t, free, s.state.Task(waits).GPUs)
}

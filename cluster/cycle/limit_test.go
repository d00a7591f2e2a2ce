package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// limited adds a pool with a limit of CPU.
func (s *shared) limited(path cluster.PoolPath, limit int64) {
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Limit: limit, Share: 1},
	}}})
}

// More urgent work of a pool at its limit starts only when less urgent work has left for it, although hosts have room.
func TestUrgentWorkWaitsForTheLimitOfItsPool(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(20, 0))
	s.limited("root/a", 4)
	low := s.job("root/a", 4, 1)
	s.settle()
	require.Equal(t, 4, s.running(low))

	high := s.job("root/a", 1, 2, urgent(1))
	out := s.step()
	require.Empty(t, out.Placements)
	require.Equal(t, 2, out.Stats.Preemptions)
	require.Len(t, s.in(cluster.TaskReserved), 1)
	require.Empty(t, s.step().Placements, "nobody has left yet")
	for _, k := range s.in(cluster.TaskPreempting)[:1] {
		s.report(k, cluster.TaskKilled)
	}
	require.Empty(t, s.step().Placements, "one of two has left")
	s.leave()
	s.settle()
	require.Equal(t, []int{2, 1}, []int{s.running(low), s.running(high)})
	require.Equal(t, vector(4, 0), s.state.Used("root/a"))
}

// Who fills a limit in CPUs, and asks for no memory, makes way at once for as many that do: more urgent ones, or the half of a fair leaf.
func TestALimitFilledInOneDimensionIsGivenBack(t *testing.T) {
	for _, order := range []cluster.PoolOrder{cluster.PriorityFIFO, cluster.FairJobs} {
		s := newShared(t)
		s.host(0, vector(40, 40))
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Order: order, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: 20, Share: 1},
		}}})
		first := s.job("root/a", 40, 1)
		s.settle()
		require.Equal(t, 20, s.running(first))
		var urgency []func(*cluster.JobSpec)
		if order == cluster.PriorityFIFO {
			urgency = append(urgency, urgent(1))
		}
		second := s.job("root/a", 10, 1, append(urgency, func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = 2 })...)
		require.Equal(t, 10, s.step().Stats.Preemptions)
		s.leave()
		s.settle()
		require.Equal(t, []int{10, 10}, []int{s.running(first), s.running(second)})
	}
}

// Whom no host can take, at the head of a pool at its limit, keeps those next in it from nothing: they have their part of the memory, too, for
// which another pool would have all.
func TestWhoHasNoHostLeavesTheClaimsOfALimitToThoseNext(t *testing.T) {
	for _, limited := range []cluster.PoolPath{"root/p", "root/p/a"} {
		s := newShared(t)
		s.host(0, vector(100, 20))
		s.limited("root/p", cluster.NoLimit)
		s.limited("root/p/a", cluster.NoLimit)
		s.limited(limited, 10)
		s.limited("root/q", cluster.NoLimit)
		s.job("root/p/a", 10, 1, must(host("rack", "nowhere")))
		other := s.job("root/q", 40, 1, func(j *cluster.JobSpec) { j.Task.Resources = vector(0, 1) })
		s.settle()
		require.Equal(t, 20, s.running(other))
		next := s.job("root/p/a", 20, 1, func(j *cluster.JobSpec) { j.Task.Resources = vector(1, 1) })
		for range 30 {
			s.now = s.now.Add(20 * time.Second)
			s.step()
			s.leave()
		}
		require.Equal(t, []int{10, 10}, []int{s.running(next), s.running(other)}, limited)
	}
}

// What was let in by a limit of a pool above, in the part of another leaf, gives it back for that leaf.
func TestALimitIsSharedByTheLeavesBelowIt(t *testing.T) {
	s := newShared(t)
	for i := range 2 {
		s.host(i, vector(10, 0))
	}
	s.limited("root/p", 4)
	s.limited("root/p/a", cluster.NoLimit)
	s.limited("root/p/b", cluster.NoLimit)
	a := s.job("root/p/a", 4, 1)
	s.settle()
	require.Equal(t, 4, s.running(a))
	b := s.job("root/p/b", 4, 1)
	out := s.step()
	require.Empty(t, out.Placements)
	require.Equal(t, 2, out.Stats.Preemptions)
	s.leave()
	s.settle()
	require.Equal(t, []int{2, 2}, []int{s.running(a), s.running(b)})
}

// A claim on a part of a limit that others just took is met a second later, though nothing else happens: who starts now has to leave then.
func TestALimitIsSharedWithWhoHasJustCome(t *testing.T) {
	s := newShared(t)
	h := s.host(0, vector(10, 0))
	s.limited("root/p", 2)
	s.limited("root/p/a", cluster.NoLimit)
	s.limited("root/p/b", cluster.NoLimit)
	low := s.job("root/p/b", 1, 1)
	s.emit(&cluster.TaskHeld{Task: cluster.MakeTaskKey(low, 0), Hold: cluster.Hold{Host: h, Until: s.now.Add(time.Hour)}})
	high := s.job("root/p/b", 1, 1, urgent(1))
	a := s.job("root/p/a", 1, 1)
	out := s.step()
	require.Equal(t, []int{0, 1, 1}, []int{s.running(a), s.running(low), s.running(high)})
	require.Equal(t, s.now.Add(time.Second), out.WakeAt)
	require.Equal(t, 1, s.step().Stats.Preemptions)
	s.leave()
	s.settle()
	require.Equal(t, []int{1, 0, 1}, []int{s.running(a), s.running(low), s.running(high)})
}

// A part of a limit that is let in to borrow and has no host keeps nothing from what the pool may claim: that has its room, and who
// has none goes first as soon as a host has room for it.
func TestALimitIsNotKeptForBorrowersWithoutAHost(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.limited("root/a", cluster.NoLimit)
	s.limited("root/b", 4)
	a := s.job("root/a", 4, 1)
	s.settle()
	require.Equal(t, 4, s.running(a))
	head := s.job("root/b", 1, 4)
	small := s.job("root/b", 6, 1)
	s.settle()
	require.Equal(t, 2, s.leave())
	s.settle()
	require.Equal(t, []int{2, 2}, []int{s.running(a), s.running(small)})
	for range 10 {
		s.now = s.now.Add(time.Minute)
		require.Empty(t, s.step().Displacements)
	}
	s.report(s.in(cluster.TaskRunning)[3], cluster.TaskSucceeded)
	require.Empty(t, s.step().Displacements)
	require.Equal(t, []int{2, 2}, []int{s.running(a), s.running(small)}, "the next one comes without taking anything from others")

	end := func(uid cluster.JobUID) {
		for _, k := range s.in(cluster.TaskRunning) {
			if k.Job() == uid {
				s.report(k, cluster.TaskSucceeded)
			}
		}
		s.settle()
	}
	end(a)
	end(a) // those that had to leave came back
	require.Equal(t, 2, s.running(small), "the first in line waits for these to end")
	end(small)
	require.Equal(t, 1, s.running(head))
}

// While a task leaves, or comes back, nobody else has its part of the limit.
func TestALimitCountsThoseWhoLeave(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(10, 0))
	s.limited("root/a", 2)
	first := s.job("root/a", 2, 1)
	s.settle()
	second := s.job("root/a", 2, 1)
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(first, 0)})
	require.Empty(t, s.step().Placements, "it still runs")
	why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(second, 0))
	require.Equal(t, pool.Binding{Rule: pool.RuleLimit, Pool: "root/a", Dimension: cluster.CPU.String()}, why.Binding)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.RaisePool, Rule: "LIMIT", Pool: "root/a", Dimension: cluster.CPU.String(), Amount: 2}}, why.Unblockers)
	s.report(cluster.MakeTaskKey(first, 0), cluster.TaskKilled)
	require.Len(t, s.step().Placements, 1)
	require.Equal(t, 1, s.running(second))
}

// A limit that is lowered stops nobody, and nobody starts beside those that have more.
func TestALoweredLimitStopsNobody(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(10, 0))
	s.limited("root/a", 4)
	low := s.job("root/a", 4, 1)
	s.settle()
	s.limited("root/a", 2)
	s.job("root/a", 1, 1)
	for range 3 {
		out := s.step()
		require.Empty(t, out.Placements)
		require.Zero(t, out.Stats.Preemptions)
	}
	require.Equal(t, 4, s.running(low))
}

// Who moves from one host to another has a part of the limit all the time: no host is kept for another one who waits long.
func TestALimitCountsThoseWhoMove(t *testing.T) {
	s := newShared(t)
	for i := range 3 {
		s.host(i, vector(1, 0))
	}
	s.limited("root/a", 2)
	moves := s.job("root/a", 1, 1)
	s.job("root/a", 1, 1, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	s.moveToEmpty(cluster.MakeTaskKey(moves, 0))
	s.job("root/a", 1, 1, urgent(1))
	s.step()
	s.now = s.now.Add(2 * time.Minute)
	require.Empty(t, s.step().Displacements)
	s.leave()
	s.step()
	require.Equal(t, 1, s.running(moves))
	require.Equal(t, 1, s.step().Stats.Preemptions, "when it has come it may be asked to leave for that")
}

// What moves within a pool is the pool's all the time: it has no less meanwhile, of which another one could borrow more than there is.
func TestAPoolHasWhatMoves(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	s.pool("root/b", 0)
	for i := range 2 {
		s.host(i, vector(4, 0))
	}
	moves := s.job("root/a", 1, 3)
	s.settle()
	s.moveToEmpty(cluster.MakeTaskKey(moves, 0))
	s.job("root/b", 1, 1)
	has := map[cluster.PoolPath]int64{}
	for _, p := range s.step().Pools {
		has[p.Path] = p.Dimensions[0].Allocation
	}
	require.Equal(t, map[cluster.PoolPath]int64{"root": 3, "root/a": 3, "root/b": 0}, has)
	s.leave()
	s.settle()
	require.Equal(t, 1, s.running(moves))
}

// moveToEmpty asks the task to leave for a host that has no tasks.
func (s *shared) moveToEmpty(k cluster.TaskKey) {
	hold := &cluster.Hold{Until: s.now.Add(time.Hour)}
	for h := range s.state.Hosts("") {
		if h.Allocated.IsZero() {
			hold.Host = h.ID
		}
	}
	s.emit(&cluster.TaskPreempted{Task: k, Run: s.state.Task(k).Run, Hold: hold})
}

// What is kept for a static reservation stays free when somebody has a claim that he found no host for, others borrow it, and he has a
// host after all, beside them: he waits for the next plan.
func TestAStaticReservationOutlivesAClaimThatComesBack(t *testing.T) {
	s := newShared(t)
	put := func(path cluster.PoolPath, r cluster.PoolResource) {
		r.Dimension, r.Limit = cluster.CPU.String(), cluster.NoLimit
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{r}}})
	}
	put("root/static", cluster.PoolResource{Reservation: 3, Static: true})
	put("root/claims", cluster.PoolResource{Share: 2})
	put("root/lent", cluster.PoolResource{Share: 1})
	s.host(0, vector(8, 0))
	s.job("root/lent", 1, 2)
	s.settle()
	follows := s.job("root/claims", 1, 3, must(tasks("web", cluster.Greater, 0, cluster.DomainHost)))
	leads := s.job("root/lent", 1, 3, labeled("app", "web"))
	s.step()
	require.Equal(t, []int{1, 0}, []int{s.running(leads), s.running(follows)})
	s.settle()
	require.Equal(t, 1, s.running(follows), "it has a claim and a host")
}

// Who loses least is not enough for a limit, and with him gone his pool may not lose the one who is: that one leaves alone.
func TestOneLeavesForALimitWhereTheCheapestIsNotEnough(t *testing.T) {
	s := newShared(t)
	put := func(path cluster.PoolPath, limit int64, share uint32) {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: limit, Share: share}}}})
	}
	put("root/p", 4, 1)
	put("root/p/a", cluster.NoLimit, 1)
	put("root/p/b", cluster.NoLimit, 3)
	s.host(0, vector(10, 0))
	small, large := s.job("root/p/a", 1, 1), s.job("root/p/a", 1, 2, urgent(1))
	s.job("root/p/b", 1, 1)
	s.settle()
	waits := s.job("root/p/b", 1, 2)
	s.settle()
	s.leave()
	s.settle()
	require.Equal(t, []int{1, 0, 1}, []int{s.running(small), s.running(large), s.running(waits)})
}

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
)

// shared is a world with pools. Its plans are verified and carried out by the rules of the server.
type shared struct {
	*world
	named int
}

func newShared(t require.TestingT) *shared { return &shared{world: newWorld(t)} }

// pool adds a pool with a reservation of CPU, and the share 1 of the rest.
func (s *shared) pool(path cluster.PoolPath, reservation int64) {
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Reservation: reservation, Limit: cluster.NoLimit, Share: 1},
	}}})
}

// job submits instances that ask for CPU only.
func (s *shared) job(pool cluster.PoolPath, instances uint32, cpu int64, change ...func(*cluster.JobSpec)) cluster.JobUID {
	s.named++
	spec := &cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprintf("job-%d", s.named)), Pool: pool, Owner: "user", Instances: instances, Preemptible: true,
		Task: cluster.TaskSpec{Resources: vector(cpu, 0), KillGrace: 5 * time.Second},
	}
	for _, c := range change {
		c(spec)
	}
	uid := s.state.NextJob()
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	return uid
}

func urgent(priority int32) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Priority = priority }
}

func core(n uint32) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Gang = &cluster.Gang{Minimum: n} }
}

// step plans, verifies the plan and carries it out; then everything that was placed runs.
func (s *shared) step() cycle.Output {
	out := s.plan()
	tx := rules.Begin(s.state, s.now)
	require.Zero(s.t, rules.Commit(tx, out.Steps(), func(step []cluster.Event, err error) { require.NoError(s.t, err, "%T", step[0]) }))
	for _, p := range out.Placements {
		s.report(p.Task, cluster.TaskRunning)
	}
	return out
}

func (s *shared) report(k cluster.TaskKey, state cluster.TaskState) {
	t := s.state.Task(k)
	_, err := rules.Report(rules.Begin(s.state, s.now), t.Host.Shard(), &cluster.TaskStatus{Task: k, Run: t.Run, State: state, ExitCode: -1})
	require.NoError(s.t, err)
}

// settle steps until nothing more is placed.
func (s *shared) settle() {
	for range 10 {
		if len(s.step().Placements) == 0 {
			return
		}
	}
	require.Fail(s.t, "placing goes on")
}

// leave ends everybody who was asked to leave.
func (s *shared) leave() (left int) {
	for _, k := range s.in(cluster.TaskPreempting) {
		s.report(k, cluster.TaskKilled)
		left++
	}
	return left
}

func (s *shared) in(states ...cluster.TaskState) (keys []cluster.TaskKey) {
	for t := range s.state.Tasks(0) {
		if slices.Contains(states, t.State) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

func (s *shared) running(jobs ...cluster.JobUID) (n int) {
	for _, k := range s.in(cluster.TaskRunning) {
		if slices.Contains(jobs, k.Job()) {
			n++
		}
	}
	return n
}

// TestRoomIsMadeWhereTheHostHasShrunk: a host has come back with less memory than its tasks have. Who asks for a CPU and no memory has
// one made free there all the same.
func TestRoomIsMadeWhereTheHostHasShrunk(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	h := s.host(0, vector(2, 4))
	s.job("root/a", 1, 1, urgent(2), func(s *cluster.JobSpec) { s.Task.Resources = vector(1, 4) })
	low := s.job("root/a", 1, 1)
	s.settle()
	s.emit(&cluster.HostReported{ID: h, Machine: cluster.Machine{Capacity: vector(2, 2)}})
	s.job("root/a", 1, 1, urgent(1))
	s.step()
	require.Equal(t, []cluster.TaskKey{cluster.MakeTaskKey(low, 0)}, s.in(cluster.TaskPreempting))
}

// A pool that has borrowed more than it is entitled to divides that among its own all the same: what one of them gives another takes nothing
// from those outside.
func TestAPoolWithMoreThanItsPartDividesIt(t *testing.T) {
	s := newShared(t)
	for _, p := range []cluster.PoolPath{"root/p", "root/p/a", "root/p/b", "root/q"} {
		s.pool(p, 0)
	}
	s.host(0, vector(8, 0))
	first := s.job("root/p/a", 8, 1)
	s.settle()
	s.job("root/q", 8, 1, must(host("rack", "none")))
	second := s.job("root/p/b", 8, 1)
	s.settle()
	s.leave()
	s.settle()
	require.Equal(t, []int{6, 2}, []int{s.running(first), s.running(second)}, "the part of each is two of four")
	s.now = s.now.Add(time.Hour)
	require.Zero(t, s.step().Stats.Preemptions)
}

// near has tasks labeled app=web begin where others like them are, in one rack.
func near(s *cluster.JobSpec) {
	labeled("app", "web")(s)
	must(tasks("web", cluster.Greater, 0, "rack"))(s)
}

// TestOthersLeaveForThoseWhoBeginTogether: for tasks that all begin in one rack others are asked to leave, in the rack where they lose
// least, and in none if no rack has room for all; a gang or not.
func TestOthersLeaveForThoseWhoBeginTogether(t *testing.T) {
	for name, gang := range map[string]func(*cluster.JobSpec){"a gang": core(5), "a job": func(*cluster.JobSpec) {}} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 0)
			for i := range 6 {
				s.rack(i, fmt.Sprint("r", i/2), 4)
			}
			old := s.job("root/p", 16, 1000, func(j *cluster.JobSpec) {
				must(host("rack", "r1"))(j)
				j.Constraint.Comparison = cluster.Less
				j.Constraint.Count = 1
			})
			s.settle()
			s.now = s.now.Add(time.Minute)
			young := s.job("root/p", 8, 1000, must(host("rack", "r1")))
			s.settle()
			s.job("root/p", 9, 1000, near, urgent(9), func(j *cluster.JobSpec) { // no rack has room for all of them
				if gang(j); j.Gang != nil {
					j.Gang.Minimum = 9
				}
			})
			require.Empty(t, s.step().Displacements)
			together := s.job("root/p", 5, 1000, near, urgent(5), gang)
			out := s.step()
			require.Equal(t, 5, out.Stats.Preemptions)
			require.Equal(t, []int{16, 3}, []int{s.running(old), s.running(young)}, "those lose least who came last")
			require.Equal(t, 5, s.leave())
			require.Equal(t, map[string]int{"r1": 5}, s.where(s.step()))
			require.Equal(t, 5, s.running(together))
		})
	}
}

// TestHostsAreKeptForThoseWhoBeginTogether: tasks that all begin in one rack, of which each needs more than any host has left, do not
// wait for ever behind small ones that take what comes free piece by piece.
func TestHostsAreKeptForThoseWhoBeginTogether(t *testing.T) {
	for name, gang := range map[string]func(*cluster.JobSpec){"a gang": core(2), "a job": func(*cluster.JobSpec) {}} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 8000)
			s.pool("root/q", 8000)
			for i := range 4 {
				s.rack(i, fmt.Sprint("r", i/2), 4)
			}
			small := func(n uint32, change ...func(*cluster.JobSpec)) {
				s.job("root/p", n, 1000, append(change, func(j *cluster.JobSpec) { j.Preemptible = false })...)
			}
			small(8, atMost(2, "host"))
			s.settle()
			together := s.job("root/q", 2, 3000, near, gang)
			waited := time.Duration(0)
			for ; s.running(together) < 2; waited += 4 * time.Second {
				require.Less(t, waited, 5*time.Minute)
				s.step()
				ended := slices.DeleteFunc(s.in(cluster.TaskRunning), func(k cluster.TaskKey) bool { return k.Job() == together })
				s.report(ended[0], cluster.TaskSucceeded)
				small(1)
				s.now = s.now.Add(3 * time.Second)
			}
			require.Greater(t, waited, cycle.DefaultOptions().ReserveAfter)
		})
	}
}

// TestNoHostIsKeptThatServicesFill: the host that is kept for a task that waits long is one where enough ends by itself, though another one,
// with a service, lacks no more now.
func TestNoHostIsKeptThatServicesFill(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 6000)
	s.pool("root/q", 4000)
	stays := func(j *cluster.JobSpec) { j.Preemptible = false }
	filled := s.rack(0, "r0", 5)
	s.job("root/p", 1, 3000, stays, func(j *cluster.JobSpec) { j.Type = cluster.Stateless })
	s.settle()
	kept := s.rack(1, "r0", 5)
	small := s.job("root/p", 3, 1000, stays, must(host("hostname", "h00001")))
	s.settle()
	waits := s.job("root/q", 1, 3000)
	s.step()
	s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
	s.step()
	held := s.in(cluster.TaskReserved)
	require.Len(t, held, 1)
	require.Equal(t, waits, held[0].Job())
	require.Equal(t, kept, s.state.Task(held[0]).Hold.Host, "%s has room for none as long as the service is there", filled)
	s.report(cluster.MakeTaskKey(small, 0), cluster.TaskSucceeded)
	s.step()
	require.Equal(t, 1, s.running(waits))
}

// TestHostsAreKeptForThoseWhoAskForPorts: a host is kept for a task with ports, too, one where these are free.
func TestHostsAreKeptForThoseWhoAskForPorts(t *testing.T) {
	for name, ask := range map[string]func(*cluster.JobSpec){"any": ports(1), "by number": ports(0, 100)} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 5000)
			s.pool("root/q", 3000)
			for i := range 2 {
				s.machine(i, cluster.Machine{Capacity: vector(4000, 1<<30), Capabilities: cluster.CanPorts, Ports: []cluster.PortRange{{First: 100, Last: 100}}})
			}
			stays := func(j *cluster.JobSpec) { j.Preemptible = false }
			s.job("root/p", 1, 2000, stays, must(host("hostname", "h00000")), ask)
			small := s.job("root/p", 3, 1000, stays, must(host("hostname", "h00001")))
			s.settle()
			waits := s.job("root/q", 1, 3000, ask)
			s.step()
			s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
			s.step()
			held := s.in(cluster.TaskReserved)
			require.Len(t, held, 1)
			require.Equal(t, cluster.MakeHostID("s", "h00001"), s.state.Task(held[0]).Hold.Host)
			require.Equal(t, []uint16{100}, s.state.Task(held[0]).Hold.Ports)
			s.report(cluster.MakeTaskKey(small, 0), cluster.TaskSucceeded)
			s.report(cluster.MakeTaskKey(small, 1), cluster.TaskSucceeded)
			s.step()
			require.Equal(t, 1, s.running(waits))
			require.Equal(t, []uint16{100}, s.state.Task(held[0]).Ports)
		})
	}
}

// Capacity 300, three pools that reserve 60 each. The first takes back what the others borrowed, exactly as much as makes
// them equal, in one decision; and it is done one cycle after the last of the others is gone.
func TestWhatIsLentComesBackAtOnceAndNotMore(t *testing.T) {
	s := newShared(t)
	for i := range 30 {
		s.host(i, vector(10, 0))
	}
	for _, p := range []cluster.PoolPath{"root/a", "root/b", "root/c"} {
		s.pool(p, 60)
	}
	a, b, c := s.job("root/a", 30, 1), s.job("root/b", 135, 1), s.job("root/c", 135, 1)
	s.settle()
	require.Equal(t, []int{30, 135, 135}, []int{s.running(a), s.running(b), s.running(c)})

	more := s.job("root/a", 120, 1)
	out := s.step()
	require.Equal(t, 70, out.Stats.Preemptions)
	require.Len(t, s.in(cluster.TaskReserved), 70)
	require.Equal(t, []int{30, 100, 100}, []int{s.running(a), s.running(b), s.running(c)})
	require.Empty(t, s.step().Placements, "nobody has left yet")
	require.Equal(t, 70, s.leave())
	require.Len(t, s.step().Placements, 70)
	require.Equal(t, 100, s.running(a, more))

	for range 50 { // and so it stays
		out := s.step()
		require.Empty(t, out.Placements)
		require.Empty(t, out.Displacements)
	}
}

// Services that ask for the same are one class and count together for the pools, however many jobs they are.
func TestServicesOfManyJobsAreOneClass(t *testing.T) {
	s := newShared(t)
	for i := range 10 {
		s.host(i, vector(10, 0))
	}
	s.pool("root/a", 30)
	service := func(j *cluster.JobSpec) { j.Type = cluster.Stateless }
	for range 40 {
		s.job("root/a", 1, 1, service)
	}
	out := s.step()
	require.Len(t, out.Placements, 40)
	require.Less(t, out.Stats.NodesTouched, int64(20), "a class, its hosts, the sink and what waits")
	s.job("root/a", 1, 200, service) // has the pools looked at, and waits
	s.step()
	pools := s.plan().Pools
	cpu := pools[slices.IndexFunc(pools, func(p pool.Status) bool { return p.Path == "root/a" })].Dimensions[cluster.CPU]
	require.Equal(t, int64(40), cpu.Allocation)
	require.Equal(t, [cluster.NumTiers]int64{cluster.TierReserved: 30, cluster.TierEntitled: 10, cluster.TierBorrowed: 1}, cpu.Tiers)
}

// Where a job bounds how many of it leave, and two have to, one of another job leaves beside one of it, though all ask for the same.
func TestBoundsOfJobsOnWhoLeavesDoNotHideOthers(t *testing.T) {
	for name, bounded := range map[string]func(*cluster.JobSpec){
		"service": func(j *cluster.JobSpec) { j.Type, j.Limits.MaxUnavailable = cluster.Stateless, 1 },
		"batch":   func(j *cluster.JobSpec) { j.Limits.MaxPreempted = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(4, 0))
			a := s.job(cluster.RootPool, 2, 1, bounded)
			s.settle()
			s.now = s.now.Add(-30 * time.Minute) // who began later loses less
			b := s.job(cluster.RootPool, 1, 1, bounded)
			s.job(cluster.RootPool, 1, 1, func(j *cluster.JobSpec) { j.Preemptible = false })
			s.settle()
			s.now = s.now.Add(time.Hour)
			s.job(cluster.RootPool, 1, 2, urgent(1))
			out := s.step()
			require.Len(t, out.Displacements, 1)
			var from []cluster.JobUID
			for _, v := range out.Displacements[0].Victims {
				from = append(from, v.Task.Job())
			}
			require.ElementsMatch(t, []cluster.JobUID{a, b}, from)
		})
	}
}

// Who asks for as much, but may go elsewhere, moves for a task that may not, in the same pool and no more urgent.
func TestWhoMayGoElsewhereMovesForOneOfHisKind(t *testing.T) {
	s := newShared(t)
	s.rack(0, "r0", 1)
	moves := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000), 0)
	s.settle()
	to := s.rack(1, "r1", 1)
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000, must(host("rack", "r0"))), 0)
	out := s.step()
	require.Equal(t, 1, out.Stats.Migrations)
	require.Equal(t, waits, out.Displacements[0].Holds[0].Task)
	require.Equal(t, to, s.state.Task(moves).Hold.Host)
	s.job(cluster.RootPool, 1, 1000, must(host("rack", "r0")))
	require.Zero(t, s.step().Stats.Migrations, "nobody moves for one who asks for the same")
}

// A claim leaves other pools' work alone as long as enough ends by itself, but not for long, and not below its reservation.
func TestAClaimWaitsForWhatComesFreeByItself(t *testing.T) {
	for _, c := range []struct {
		name        string
		reservation int64
		patience    time.Duration
		atOnce      bool
	}{
		{"patient", 0, 15 * time.Second, false},
		{"reserved", 60, 15 * time.Second, true},
		{"switched off", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t)
			options := cycle.DefaultOptions()
			options.Patience = c.patience
			s.planner.Bound(options)
			for i := range 10 {
				s.host(i, vector(10, 0))
			}
			s.pool("root/a", c.reservation)
			s.pool("root/b", 0)
			b := s.job("root/b", 1000, 1)
			s.settle()
			require.Equal(t, 100, s.running(b))
			end := func() {
				for _, k := range s.in(cluster.TaskRunning)[:8] {
					s.report(k, cluster.TaskSucceeded)
				}
			}
			for range 10 { // 8 a second: 120 in 15 seconds
				end()
				require.Len(t, s.step().Placements, 8)
			}
			a := s.job("root/a", 10, 1)
			out := s.step()
			if c.atOnce {
				require.Equal(t, 10, out.Stats.Preemptions)
				return
			}
			require.Empty(t, out.Displacements)
			require.NotZero(t, out.WakeAt)
			end()
			require.Empty(t, s.step().Displacements)
			require.Equal(t, 8, s.running(a), "they come before those who borrow")
			for range 12 { // now nothing ends
				require.Empty(t, s.step().Displacements)
			}
			displaced := 0
			for range 3 {
				displaced += s.step().Stats.Preemptions
			}
			require.Equal(t, 2, displaced)
		})
	}
}

// While a claim waits for what comes free by itself, those behind it in its pool take nothing from others on its account.
func TestAClaimThatWaitsIsNotPassedOverToTakeFromOthers(t *testing.T) {
	s := newShared(t)
	for i := range 10 {
		s.host(i, vector(10, 0))
	}
	s.pool("root/a", 0)
	s.pool("root/b", 0)
	b := s.job("root/b", 1000, 1)
	s.settle()
	for range 30 { // 8 a second: 60 in 15 seconds, counted over a minute
		for _, k := range s.in(cluster.TaskRunning)[:8] {
			s.report(k, cluster.TaskSucceeded)
		}
		require.Len(t, s.step().Placements, 8)
	}
	s.job("root/a", 50, 1) // all that the pool is entitled to
	for range 14 {
		require.Empty(t, s.step().Displacements)
	}
	first := s.job("root/a", 50, 1, urgent(10))
	displaced := 0
	for range 18 {
		for _, d := range s.step().Displacements {
			for _, v := range d.Victims {
				require.Equal(t, b, v.Task.Job())
				require.Equal(t, first, v.Preemption.For.Job(), "after %v", s.now)
				displaced++
			}
		}
	}
	require.Equal(t, 50, displaced)
}

// Inside a pool the more urgent take the place of the less urgent, and of nobody else.
func TestUrgencyMakesRoomInsideAPool(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.pool("root/a", 4)
	low, mid := s.job("root/a", 2, 1, urgent(1)), s.job("root/a", 2, 1, urgent(5))
	s.settle()
	s.job("root/a", 3, 1, urgent(5))
	out := s.step()
	require.Equal(t, 2, out.Stats.Preemptions)
	require.Equal(t, 2, s.running(mid))
	require.Zero(t, s.running(low))
	s.leave()
	s.settle()
	require.Len(t, s.in(cluster.TaskRunning), 4)
	for _, k := range s.in(cluster.TaskPending) {
		task := s.state.Task(k)
		if k.Job() == low {
			require.True(t, task.Ahead)
			require.Equal(t, cluster.ReasonPreempted, task.Reason)
			require.Equal(t, cluster.PoolPath("root/a"), task.Preempted.ForPool)
		}
	}
}

// Who has left for others before is spared: what that lost is in the price of his leaving again.
func TestWhoHasLeftBeforeStays(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(1, 0))
	s.pool("root/a", 1)
	s.pool("root/b", 0)
	before := s.job("root/b", 1, 1, func(j *cluster.JobSpec) { j.MaxFailures = 1 })
	s.settle()
	s.now = s.now.Add(time.Minute)
	owner := s.job("root/a", 1, 1)
	require.Equal(t, 1, s.step().Stats.Preemptions)
	lost := s.state.Task(cluster.MakeTaskKey(before, 0)).Preempted.Price
	require.Equal(t, int64(62_001), lost, "a minute and two cycles")
	s.leave()
	s.settle()
	require.Equal(t, 1, s.running(owner))

	s.host(1, vector(1, 0))
	other := s.job("root/b", 1, 1)
	s.settle() // the one that left is ahead
	require.Equal(t, 1, s.running(before))
	s.report(cluster.MakeTaskKey(owner, 0), cluster.TaskSucceeded)
	s.settle()
	require.Equal(t, 1, s.running(other))
	s.report(cluster.MakeTaskKey(before, 0), cluster.TaskFailed) // its next run is the younger one
	s.settle()
	s.now = s.now.Add(2 * time.Minute)
	s.settle()
	require.Equal(t, 2, s.running(before, other))

	s.job("root/a", 1, 1)
	out := s.step()
	require.Equal(t, 1, out.Stats.Preemptions)
	require.Equal(t, 1, s.running(before))
	require.Equal(t, other, out.Displacements[0].Victims[0].Task.Job())
}

// What a gang leaves on a host counts once, in whatever order its tasks came.
func TestAGangGivesItsRoomOnce(t *testing.T) {
	s := newShared(t)
	big, small := s.host(0, vector(8, 0)), s.host(1, vector(1, 0))
	s.pool("root/a", 8)
	s.pool("root/b", 0)
	stays := func(j *cluster.JobSpec) { j.Preemptible = false }
	put := func(job cluster.JobUID, instance uint32, host cluster.HostID) {
		k := cluster.MakeTaskKey(job, instance)
		s.emit(&cluster.Placed{Task: k, Run: 1, Host: host})
	}
	put(s.job("root/b", 1, 6, stays), 0, big)
	gang := s.job("root/b", 3, 1, core(3))
	put(gang, 1, big)
	put(gang, 0, big)
	put(gang, 2, small)
	for _, i := range []uint32{1, 2, 0} {
		s.step()
		s.report(cluster.MakeTaskKey(gang, i), cluster.TaskRunning)
	}
	s.job("root/a", 1, 4)
	require.Empty(t, s.step().Displacements, "the gang has 2 on the host, and the rest stays")
	s.job("root/a", 1, 2)
	require.Equal(t, 3, s.step().Stats.Preemptions)
}

// A gang leaves whole, and is dearer than one who is enough.
func TestAGangLeavesWhole(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.host(1, vector(4, 0))
	s.pool("root/a", 2)
	s.pool("root/b", 2)
	s.job("root/b", 4, 2, core(4))
	s.settle()
	require.Len(t, s.in(cluster.TaskRunning), 4)
	s.job("root/a", 1, 2)
	out := s.step()
	require.Empty(t, out.Displacements, "without it the pool would have less than it is entitled to")

	s.job("root/a", 3, 2)
	out = s.step()
	require.Empty(t, out.Displacements, "nor with two that are entitled to come")
}

// A member that ends already, since its user wants it anew, is not asked to leave with the others: neither for want of room nor for
// a limit.
func TestAGangLeavesWithoutThoseWhoLeaveAlready(t *testing.T) {
	for _, limit := range []int64{cluster.NoLimit, 20} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: limit, Share: 1},
		}}})
		s.host(0, vector(20, 0))
		gang := s.job("root/a", 2, 10, core(2))
		s.settle()
		if limit != cluster.NoLimit {
			s.host(1, vector(20, 0))
		}
		s.emit(&cluster.TaskStopping{Task: cluster.MakeTaskKey(gang, 0), Reason: cluster.ReasonTaskRestarted, Restart: true})
		s.job("root/a", 1, 20, urgent(1))
		out := s.step()
		require.Equal(t, 1, out.Stats.Preemptions)
		require.Equal(t, cluster.MakeTaskKey(gang, 1), out.Displacements[0].Victims[0].Task)
		require.Len(t, s.in(cluster.TaskReserved), 1)
	}
}

func TestAGangLeavesWholeForMany(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.host(1, vector(4, 0))
	s.pool("root/a", 8)
	s.pool("root/b", 0)
	g := s.job("root/b", 4, 2, core(4))
	s.settle()
	s.job("root/a", 4, 2)
	out := s.step()
	require.Equal(t, 4, out.Stats.Preemptions)
	require.Zero(t, s.running(g))
}

// A gang comes in whole, over room that others make for all of it, or not at all.
func TestRoomIsMadeForAWholeGang(t *testing.T) {
	s := newShared(t)
	for i := range 3 {
		s.host(i, vector(4, 0))
	}
	s.pool("root/a", 8)
	s.pool("root/b", 0)
	s.job("root/b", 6, 2)
	s.settle()
	g := s.job("root/a", 4, 2, core(4))
	out := s.step()
	require.Equal(t, 4, out.Stats.Preemptions)
	require.Len(t, out.Displacements, 1, "all of it is one step")
	gone := s.in(cluster.TaskPreempting)
	for _, k := range gone[:3] {
		s.report(k, cluster.TaskKilled)
		require.Empty(t, s.step().Placements, "the room for all of it is not free yet")
	}
	s.report(gone[3], cluster.TaskKilled)
	require.Len(t, s.step().Placements, 4)
	require.Equal(t, 4, s.running(g))
}

// TestTheRestOfAGangWaitsWhileRoomIsMadeForItsCore: there is a host for it, and the core begins on others when those leave who are there.
func TestTheRestOfAGangWaitsWhileRoomIsMadeForItsCore(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(4, 0))
	s.host(1, vector(1, 0))
	s.job(cluster.RootPool, 2, 2)
	s.settle()
	g := s.job(cluster.RootPool, 3, 2, urgent(9), core(2), func(j *cluster.JobSpec) {
		j.Overrides = []cluster.InstanceOverride{{First: 2, Last: 2, Task: &cluster.TaskSpec{Resources: vector(1, 0)}}}
	})
	for range 2 {
		require.Empty(t, s.step().Placements)
		require.Len(t, s.in(cluster.TaskReserved), 2)
	}
	why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(g, 2))
	require.True(t, known)
	require.Equal(t, pool.RuleGang, why.Binding.Rule)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.CoreBegins}}, why.Unblockers)
	require.Equal(t, 2, s.leave())
	s.settle()
	require.Equal(t, 3, s.running(g))
}

// TestACoreStaysWhereOthersStartAfterIt: it is not taken back for others once the rest of the gang has been let in, in the same plan.
func TestACoreStaysWhereOthersStartAfterIt(t *testing.T) {
	s := newShared(t)
	for i := range 3 {
		s.host(i, vector(4, 0))
	}
	for i := range 6 {
		s.host(3+i, vector(1, 0))
	}
	s.pool("root/b", 0)
	s.pool("root/a", 10)
	s.job("root/a", 1, 8, urgent(9)) // for which there is no host
	s.job("root/a", 3, 2, urgent(5))
	g := s.job("root/a", 3, 4, core(2), urgent(7), func(j *cluster.JobSpec) {
		j.Overrides = []cluster.InstanceOverride{{First: 2, Last: 2, Task: &cluster.TaskSpec{Resources: vector(1, 0)}}}
	})
	s.step()
	require.Equal(t, 3, s.running(g))
}

// Who has a device held that the machine no longer has, or of which it has another model by now, takes another one.
func TestAHeldDeviceMayBecomeAnother(t *testing.T) {
	s := newShared(t)
	machine := func(models ...string) {
		m := cluster.Machine{Capacity: vector(4, 0)}
		m.Capacity.Fixed[cluster.GPU] = int64(len(models)) * cluster.WholeGPU
		for _, model := range models {
			m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: model})
		}
		s.machine(0, m)
	}
	gpu := func(j *cluster.JobSpec) {
		j.Task.GPU = cluster.GPURequest{Count: 1, Models: []string{"A"}}
		j.Task.Resources.Fixed[cluster.GPU] = cluster.WholeGPU
	}
	machine("B", "A")
	s.pool("root/a", 0)
	s.job("root/a", 1, 1, gpu)
	s.settle()
	first := cluster.MakeTaskKey(s.job("root/a", 1, 1, urgent(9), gpu), 0)
	s.step()
	require.Equal(t, []uint16{1}, s.state.Task(first).Hold.GPUs)
	machine("B", "B", "A")
	require.Equal(t, 1, s.leave())
	require.Len(t, s.step().Placements, 1)
	require.Equal(t, []uint16{2}, s.state.Task(first).GPUs)
}

// TestRoomIsHeldWhereATaskCanRun: the host's manager cannot do any more what the task needs when the room that is held for it comes free.
func TestRoomIsHeldWhereATaskCanRun(t *testing.T) {
	for _, able := range []cluster.Capabilities{cluster.CanPorts | cluster.CanGroups, cluster.CanPorts} {
		s := newShared(t)
		m := cluster.Machine{Capacity: vector(4, 0), Capabilities: cluster.CanPorts | cluster.CanGroups}
		s.machine(0, m)
		s.pool("root/a", 0)
		s.job("root/a", 1, 4)
		s.settle()
		first := cluster.MakeTaskKey(s.job("root/a", 1, 4, urgent(9), func(j *cluster.JobSpec) {
			j.Task.Processes = []cluster.Process{{Name: "one", Command: []string{"true"}}, {Name: "two", Command: []string{"true"}}}
		}), 0)
		s.step()
		require.NotNil(t, s.state.Task(first).Hold)
		m.Capabilities = able
		s.machine(0, m)
		require.Equal(t, 1, s.leave())
		out := s.step()
		require.Len(t, out.Placements, 1)
		if able&cluster.CanGroups != 0 {
			require.Equal(t, first, out.Placements[0].Task)
			continue
		}
		require.NotEqual(t, first, out.Placements[0].Task, "who left for it comes back")
		require.Equal(t, []cluster.TaskKey{first}, out.Ended)
	}
}

// A device that is held until another task on it ends keeps nobody from staying who has another one.
func TestADeviceThatIsWaitedForLetsOthersStay(t *testing.T) {
	s := newShared(t)
	m := cluster.Machine{Capacity: vector(4, 0), GPUs: make([]cluster.GPUDevice, 3)}
	m.Capacity.Fixed[cluster.GPU] = 3 * cluster.WholeGPU
	host := s.machine(0, m)
	s.pool("root/a", 4)
	gpu := func(j *cluster.JobSpec) {
		j.Task.GPU = cluster.GPURequest{Count: 1}
		j.Task.Resources.Fixed[cluster.GPU] = cluster.WholeGPU
	}
	put := func(job cluster.JobUID, gpus ...uint16) cluster.TaskKey {
		k := cluster.MakeTaskKey(job, 0)
		s.emit(&cluster.Placed{Task: k, Run: 1, Host: host, GPUs: gpus})
		s.report(k, cluster.TaskRunning)
		return k
	}
	put(s.job("root/a", 1, 1, gpu, urgent(9)), 0)
	small := put(s.job("root/a", 1, 1, gpu), 1)
	large := put(s.job("root/a", 1, 2, urgent(1)))
	s.emit(&cluster.TaskHeld{Task: cluster.MakeTaskKey(s.job("root/a", 1, 0, gpu, urgent(9)), 0), Hold: cluster.Hold{
		Host: host, GPUs: []uint16{0}, Until: s.now.Add(time.Hour),
	}})
	s.job("root/a", 2, 1, urgent(9))
	s.step()
	require.Equal(t, []cluster.TaskKey{large}, s.in(cluster.TaskPreempting), "it makes room for both, and %v stays", small)
}

// Each member of a gang that needs a port gets room on a host of its own, though one host could make room for all, and nobody
// else gets that port before it has come.
func TestRoomIsMadeWithItsPorts(t *testing.T) {
	s := newShared(t)
	for i := range 4 {
		s.machine(i, cluster.Machine{Capacity: vector(3, 0), Capabilities: cluster.CanPorts, Ports: []cluster.PortRange{{First: 100, Last: 101}}})
	}
	s.pool("root/a", 0)
	s.job("root/a", 12, 1)
	s.settle()
	listens := func(j *cluster.JobSpec) { j.Task.Ports.Numbers = []uint16{100} }
	gang := s.job("root/a", 3, 1, urgent(9), core(3), listens)
	out := s.step()
	require.Equal(t, 3, out.Stats.Preemptions)
	held := map[cluster.HostID]bool{}
	for _, k := range s.in(cluster.TaskReserved) {
		task := s.state.Task(k)
		require.Equal(t, []uint16{100}, task.Hold.Ports)
		require.False(t, held[task.Hold.Host], "twice on host %s", task.Hold.Host)
		held[task.Hold.Host] = true
	}
	require.Len(t, held, 3)

	other := s.job("root/a", 4, 1, urgent(5), listens)
	require.Equal(t, 1, s.step().Stats.Preemptions, "one host is left with the port")
	require.Equal(t, 4, s.leave())
	s.step()
	require.Equal(t, 3, s.running(gang))
	require.Equal(t, 1, s.running(other))
}

// Two small tasks in the way of a big gang move to where there is room, and nobody else does.
func TestAFragmentedFleetIsPutInOrder(t *testing.T) {
	s := newShared(t)
	for i := range 4 {
		s.host(i, vector(4, 0))
	}
	s.pool("root/a", 16)
	small := s.job("root/a", 4, 1) // one on each host
	s.settle()
	g := s.job("root/a", 2, 4, core(2))
	out := s.step()
	require.Equal(t, 2, out.Stats.Migrations)
	require.Zero(t, out.Stats.Preemptions)
	require.Equal(t, 2, s.leave())
	require.Len(t, s.step().Placements, 4, "the two where they go, and the gang")
	require.Equal(t, 2, s.running(g))
	require.Equal(t, 4, s.running(small))
	for range 50 {
		out := s.step()
		require.Empty(t, out.Placements)
		require.Empty(t, out.Displacements)
	}
}

// TestRoomIsMadeAfterAHostHasGone: the indices of hosts have gaps then.
func TestRoomIsMadeAfterAHostHasGone(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 2)
	s.pool("root/b", 0)
	gone := s.host(1, vector(1, 8))
	s.host(2, vector(2, 8))
	b := s.job("root/b", 2, 1)
	s.step()
	s.emit(&cluster.HostUnreached{ID: gone, Reason: "test"})
	for _, k := range s.in(cluster.TaskRunning) {
		if s.state.Task(k).Host == gone {
			s.end(k)
		}
	}
	s.emit(&cluster.HostRemoved{ID: gone})
	s.step()
	s.job("root/a", 2, 1)
	s.step()
	require.Less(t, s.running(b), 2)
}

// A pool that floods the cluster does not keep another one waiting for what it has reserved: ten tasks start in the next cycle
// where there is room, and where there is none the next cycle asks ten of the others to leave.
func TestAFloodKeepsNobodyOutOfHisReservation(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full: ", full), func(t *testing.T) {
			s := newShared(t)
			for i := range 20 {
				s.host(i, vector(10, 0))
			}
			s.pool("root/a", 10)
			s.pool("root/b", 0)
			s.job("root/b", cluster.MaxInstances, 1)
			if full {
				s.settle()
			}
			ten := s.job("root/a", 10, 1)
			out := s.step()
			if full {
				require.Equal(t, 10, out.Stats.Preemptions)
				require.Zero(t, s.running(ten))
				require.Equal(t, 10, s.leave())
				s.step()
			}
			require.Equal(t, 10, s.running(ten))
			require.Len(t, s.in(cluster.TaskRunning), 200)
		})
	}
}

// A limit on running jobs, of the pool or of one above, lets the other jobs wait until one has ended.
func TestLimitsOnRunningJobs(t *testing.T) {
	one := uint32(1)
	tests := []struct {
		name   string
		pool   cluster.PoolPath
		limits cluster.PoolLimits
		want   int // of four jobs of two owners
	}{
		{"none", "root/a", cluster.PoolLimits{}, 4},
		{"of the pool", "root/a", cluster.PoolLimits{RunningJobs: &one}, 1},
		{"of the pool above", cluster.RootPool, cluster.PoolLimits{RunningJobs: &one}, 1},
		{"per user", "root/a", cluster.PoolLimits{RunningJobsPerUser: &one}, 2},
		{"per group", "root/a", cluster.PoolLimits{RunningJobsPerGroup: &one}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(100, 0))
			s.pool("root/a", 0)
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: test.pool, Limits: test.limits}})
			for i := range 4 {
				s.job("root/a", 2, 1, func(j *cluster.JobSpec) {
					j.Owner = fmt.Sprint("user", i/2)
					j.Groups = []string{fmt.Sprint("group", i/2)}
				})
			}
			s.settle()
			require.Len(t, s.in(cluster.TaskRunning), 2*test.want)
			for _, k := range s.in(cluster.TaskRunning) {
				s.report(k, cluster.TaskSucceeded)
			}
			s.settle()
			require.Len(t, s.in(cluster.TaskRunning), min(2*test.want, 8-2*test.want))
		})
	}
}

// What waits behind a task that is too large for what its pool may have now goes first only if it ends in time: by the run-time
// limits, the large one can start in ten minutes.
func TestBackfillEndsBeforeTheHeadCanStart(t *testing.T) {
	within := func(d time.Duration) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) { s.Limits.MaxRunTime = d }
	}
	s := newShared(t)
	s.host(0, vector(100, 0))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 4, Share: 1}}}})
	s.job("root/a", 1, 3, within(10*time.Minute))
	s.settle()
	head := s.job("root/a", 1, 4)
	s.now = s.now.Add(time.Second)
	long, unbounded, short := s.job("root/a", 1, 1, within(20*time.Minute)), s.job("root/a", 1, 1), s.job("root/a", 1, 1, within(5*time.Minute))
	s.settle()
	require.Equal(t, []int{0, 0, 0, 1}, []int{s.running(head), s.running(long), s.running(unbounded), s.running(short)})
}

// Of two leaves that reserve CPU, each asks for all of the memory, of which nobody reserves anything, for work that may not be
// preempted: they have it by turns.
func TestWhatCannotBeSharedIsHadByTurns(t *testing.T) {
	s := newShared(t)
	s.host(0, vector(10, 8))
	var jobs []cluster.JobUID
	for _, p := range []cluster.PoolPath{"root/a", "root/b"} {
		s.pool(p, 5)
		jobs = append(jobs, s.job(p, 2, 1, func(j *cluster.JobSpec) {
			j.Preemptible, j.Task.Resources.Fixed[cluster.Memory] = false, 8
		}))
	}
	for range 4 {
		s.settle()
		running := s.in(cluster.TaskRunning)
		require.Len(t, running, 1)
		s.now = s.now.Add(time.Second)
		s.report(running[0], cluster.TaskSucceeded)
	}
	require.Len(t, s.in(cluster.TaskSucceeded), 2*len(jobs))
}

// How many of a job one cycle may ask to leave is a matter of the job, also while its tasks run by an older version of it.
func TestABoundOnPreemptionsHoldsForAllVersions(t *testing.T) {
	for _, test := range []struct{ was, is, asked int }{{0, 1, 1}, {1, 0, 2}} {
		s := newShared(t)
		s.host(0, vector(4, 0))
		s.pool("root/a", 0)
		var spec cluster.JobSpec
		low := s.job("root/a", 4, 1, func(j *cluster.JobSpec) {
			j.Type, j.Limits.MaxUnavailable, j.Limits.MaxPreempted = cluster.Stateless, 4, uint32(test.was)
			spec = *j
		})
		s.settle()
		spec.Limits.MaxPreempted = uint32(test.is)
		spec.Labels = []cluster.KeyValue{{Key: "color", Value: "blue"}} // or its tasks would follow at once
		s.emit(&cluster.JobUpdated{Job: low, Spec: &spec, Update: &cluster.Update{From: 1}})
		s.job("root/a", 2, 1, urgent(1))
		require.Equal(t, test.asked, s.step().Stats.Preemptions)
	}
}

// A service that bears the loss of two instances gives both for one task that needs the room of both.
func TestAServiceGivesAsManyAsItBears(t *testing.T) {
	for away, asked := range map[uint32]int{1: 0, 2: 2} {
		s := newShared(t)
		s.host(0, vector(2, 0))
		s.pool("root/a", 0)
		s.job("root/a", 2, 1, func(j *cluster.JobSpec) { j.Type, j.Limits.MaxUnavailable = cluster.Stateless, away })
		s.settle()
		s.job("root/a", 1, 2, urgent(1))
		require.Equal(t, asked, s.step().Stats.Preemptions)
	}
}

// Room that one pass of a plan holds by a rule is kept from those only who would break it, wherever they would, if they start in a
// later pass.
func TestRoomHeldByARuleIsClosedToThoseOnlyWhoWouldBreakIt(t *testing.T) {
	x := labeled("app", "x")
	for _, test := range []struct {
		name   string
		held   []func(*cluster.JobSpec)
		comes  func(*cluster.JobSpec)
		starts cluster.HostID
	}{
		{"no rule", nil, x, "s/h00001"},
		{"the host's own labels", []func(*cluster.JobSpec){must(host("big", "yes"))}, x, "s/h00001"},
		{"tasks that nobody is", []func(*cluster.JobSpec){must(tasks("nobody", cluster.Less, 1, "host"))}, x, "s/h00001"},
		{"others of the job", []func(*cluster.JobSpec){atMost(1, "host")}, x, "s/h00001"},
		{"as many as it likes", []func(*cluster.JobSpec){x, must(tasks("x", cluster.Greater, 0, "rack"))}, x, "s/h00001"},
		{"more than come", []func(*cluster.JobSpec){must(tasks("x", cluster.Less, 2, "host"))}, x, "s/h00001"},
		{"a preference", []func(*cluster.JobSpec){func(j *cluster.JobSpec) {
			j.Preferences = []cluster.SoftConstraint{{Constraint: tasks("x", cluster.Less, 1, "host"), Soft: cluster.Soft{Penalty: time.Second}}}
		}}, x, "s/h00001"},
		{"not on its host", []func(*cluster.JobSpec){must(tasks("x", cluster.Less, 1, "host"))}, x, "s/h00002"},
		{"not in its rack", []func(*cluster.JobSpec){must(tasks("x", cluster.Less, 1, "rack"))}, x, "s/h00003"},
		{"exactly as many", []func(*cluster.JobSpec){must(tasks("x", cluster.Equal, 0, "host"))}, x, "s/h00002"},
		{"not on its host, another", []func(*cluster.JobSpec){must(tasks("x", cluster.Less, 1, "host"))}, labeled("app", "y"), "s/h00001"},
	} {
		s := newShared(t)
		for path, limit := range map[cluster.PoolPath]int64{"root/b": 2000, "root/c": 1000} {
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{
				{Dimension: cluster.CPU.String(), Limit: limit, Share: 1},
			}}})
		}
		s.machine(0, cluster.Machine{Capacity: vector(2000, 0), Rack: "r0"})
		s.job("root/b", 2, 1000)
		s.settle()
		big := []cluster.KeyValue{{Key: "big", Value: "yes"}}
		s.machine(1, cluster.Machine{Capacity: vector(100_000, 0), Rack: "r1", Attributes: big})
		held := s.job("root/b", 1, 1500, append(test.held, urgent(5))...) // for which the other hosts are too small
		s.job("root/c", 1, 1000, urgent(3), must(host("disk", "tape")))   // its claim passes to the next
		k := cluster.MakeTaskKey(s.job("root/c", 1, 1000, test.comes), 0)
		fork := &shared{world: &world{t: t, state: s.state.Fork(), now: s.now, planner: newWorld(t).planner}, named: s.named}
		out := fork.step()
		require.Len(t, out.Displacements, 1, test.name)
		require.Equal(t, cluster.MakeTaskKey(held, 0), out.Displacements[0].Holds[0].Task, test.name)
		require.Equal(t, cluster.HostID("s/h00001"), out.Displacements[0].Holds[0].Hold.Host, test.name)
		if test.starts == "s/h00001" {
			require.Len(t, out.Placements, 1, test.name)
			require.Equal(t, test.starts, out.Placements[0].Host, test.name)
			continue
		}
		require.Empty(t, out.Placements, test.name)
		why, _ := fork.planner.WhyWaiting(k) // the next plan may begin with it
		require.Equal(t, []cycle.Unblocker{{Kind: cycle.Patience}}, why.Unblockers, test.name)
		require.Len(t, fork.step().Placements, 1, test.name)
		s.machine(2, cluster.Machine{Capacity: vector(1000, 0), Rack: "r1"})
		if test.starts == "s/h00003" {
			s.machine(3, cluster.Machine{Capacity: vector(1000, 0), Rack: "r2"})
		}
		placed := s.step().Placements
		require.Len(t, placed, 1, test.name)
		require.Equal(t, test.starts, placed[0].Host, test.name)
	}
}

// Who moves for somebody takes a place of his own: two have to leave the cheaper host and only one fits elsewhere, so one leaves the dearer.
func TestThoseWhoMoveFitElsewhereTogether(t *testing.T) {
	s := newShared(t)
	asks := func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Memory] = 1 }
	dear := s.host(0, vector(2, 1))
	old := s.job(cluster.RootPool, 1, 1, asks)
	s.settle()
	s.now = s.now.Add(time.Hour)
	s.host(1, vector(2, 2))
	s.job(cluster.RootPool, 2, 1, asks)
	s.settle()
	place := s.host(2, vector(1, 1))
	large := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 2), 0)
	out := s.step()
	require.Equal(t, 1, out.Stats.Migrations)
	require.Equal(t, place, s.state.Task(cluster.MakeTaskKey(old, 0)).Hold.Host)
	require.Equal(t, dear, s.state.Task(large).Hold.Host)
}

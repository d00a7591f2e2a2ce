package cycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// newFair is a cluster of 4 hosts with 5 CPUs each, and a leaf that is divided in an order below one with a policy.
func newFair(t *testing.T, order cluster.PoolOrder, policy string) *shared {
	s := newShared(t)
	for i := range 4 {
		s.host(i, vector(5, 0))
	}
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Version: 1, Preemption: policy}})
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Version: 1, Order: order}})
	return s
}

// exchange plans and carries out until nothing moves any more, however long it waits, and returns how many have left.
func (s *shared) exchange() (left int) {
	for calm, cycles := 0, 0; calm < 5; cycles++ {
		require.Less(s.t, cycles, 50, "it does not come to rest")
		out, gone := s.step(), s.leave()
		if calm++; len(out.Placements)+gone > 0 {
			calm = 0
		} else {
			s.now = s.now.Add(2 * cycle.DefaultOptions().Hysteresis)
		}
		left += gone
	}
	return left
}

func ownedBy(user string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Owner = user }
}

// One job holds everything when another one of the same priority and user comes, whose tasks never end either. In a leaf that is
// fair between jobs each ends with half, in one decision, and then nobody moves any more.
func TestJobsShareALeaf(t *testing.T) {
	tests := []struct {
		name          string
		order         cluster.PoolOrder
		policy        string
		first, second int // what they have in the end
	}{
		{"fair", cluster.FairJobs, "", 10, 10},
		{"in the order in which they came", cluster.PriorityFIFO, "", 20, 0},
		{"between users", cluster.FairUsers, "", 20, 0},
		{"reservations only", cluster.FairJobs, "conservative", 20, 0},
		{"never", cluster.FairJobs, "none", 20, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFair(t, tt.order, tt.policy)
			first := s.job("root/a", 30, 1)
			s.settle()
			require.Equal(t, 20, s.running(first))
			second := s.job("root/a", 30, 1)
			require.Equal(t, tt.second, s.step().Stats.Preemptions)
			require.Equal(t, tt.second, s.leave())
			require.Zero(t, s.exchange())
			require.Equal(t, []int{tt.first, tt.second}, []int{s.running(first), s.running(second)})
		})
	}
}

// The same in a leaf further down, where the policy is its parent's, in a root that is the only pool, and in a leaf that becomes fair.
func TestJobsShareWhereverTheLeafIs(t *testing.T) {
	put := func(s *shared, path cluster.PoolPath, version uint64, order cluster.PoolOrder, policy string) {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Version: version, Order: order, Preemption: policy}})
	}
	tests := []struct {
		name          string
		leaf          cluster.PoolPath
		before, after func(*shared)
		want          int
	}{
		{"below another", "root/a/x", func(s *shared) {
			put(s, "root", 1, 0, "none")
			put(s, "root/a", 1, 0, "")
			put(s, "root/a/x", 1, cluster.FairJobs, "")
		}, nil, 10},
		{"whose policy forbids it", "root/a/x", func(s *shared) {
			put(s, "root/a", 1, 0, "none")
			put(s, "root/a/x", 1, cluster.FairJobs, "")
		}, nil, 0},
		{"the root", "root", func(s *shared) { put(s, "root", 1, cluster.FairJobs, "") }, nil, 10},
		{"the root, never", "root", func(s *shared) { put(s, "root", 1, cluster.FairJobs, "none") }, nil, 0},
		{"a leaf that becomes fair", "root/a", func(s *shared) { put(s, "root/a", 1, 0, "") }, func(s *shared) {
			put(s, "root/a", 2, cluster.FairJobs, "")
		}, 10},
		{"a leaf that is fair no more", "root/a", func(s *shared) { put(s, "root/a", 1, cluster.FairJobs, "") }, func(s *shared) {
			put(s, "root/a", 2, 0, "")
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShared(t)
			for i := range 4 {
				s.host(i, vector(5, 0))
			}
			tt.before(s)
			s.job(tt.leaf, 30, 1)
			s.settle()
			if tt.after != nil {
				tt.after(s)
			}
			second := s.job(tt.leaf, 30, 1)
			require.Equal(t, tt.want, s.exchange())
			require.Equal(t, tt.want, s.running(second))
		})
	}
}

// What several jobs of a leaf end with when the last of them comes to what the others hold.
func TestWhoGivesAndTakesInAFairLeaf(t *testing.T) {
	fixed := func(s *cluster.JobSpec) { s.Preemptible = false }
	type submission struct {
		instances uint32
		cpu       int64
		change    []func(*cluster.JobSpec)
	}
	job := func(instances uint32, cpu int64, change ...func(*cluster.JobSpec)) submission {
		return submission{instances, cpu, change}
	}
	tests := []struct {
		name string
		jobs []submission
		want []int // running instances
	}{
		{"three jobs", []submission{job(30, 1), job(30, 1), job(30, 1)}, []int{7, 7, 6}},
		{"one that wants little", []submission{job(30, 1), job(3, 1)}, []int{17, 3}},
		{"tasks that do not divide the share", []submission{job(30, 1), job(30, 3)}, []int{11, 3}},
		{"more urgent work keeps what it has", []submission{job(30, 1, urgent(1)), job(30, 1)}, []int{20, 0}},
		{"what may not be preempted", []submission{job(20, 1, fixed), job(30, 1)}, []int{20, 0}},
		{"what may not be preempted takes no more than its share", []submission{job(30, 1), job(30, 1, fixed)}, []int{10, 10}},
		{"a gang comes in whole", []submission{job(30, 1), job(8, 1, core(8))}, []int{12, 8}},
		{"a gang beyond its share does not", []submission{job(30, 1), job(12, 1, core(12))}, []int{20, 0}},
		{"a gang that is more than the excess stays", []submission{job(15, 1, core(15)), job(30, 1)}, []int{15, 5}},
		{"the elastic part of a gang goes, and not its core", []submission{job(30, 1, core(4)), job(30, 1)}, []int{10, 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFair(t, cluster.FairJobs, "")
			var jobs []cluster.JobUID
			for _, j := range tt.jobs {
				jobs = append(jobs, s.job("root/a", j.instances, j.cpu, j.change...))
				s.settle()
			}
			s.exchange()
			var got []int
			for i, uid := range jobs {
				got = append(got, s.running(uid))
				if g := s.state.Job(uid).Spec.Gang; g != nil && tt.want[i] > 0 {
					for k := range g.Minimum {
						require.Equal(t, cluster.TaskRunning, s.state.Task(cluster.MakeTaskKey(uid, k)).State)
					}
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// Users share by the same law, whatever number of jobs they have.
func TestUsersShareALeaf(t *testing.T) {
	s := newFair(t, cluster.FairUsers, "")
	a, b := s.job("root/a", 15, 1, ownedBy("ann")), s.job("root/a", 15, 1, ownedBy("ann"))
	s.settle()
	c := s.job("root/a", 30, 1, ownedBy("bob"))
	require.Equal(t, 10, s.exchange())
	require.Equal(t, []int{10, 10}, []int{s.running(a, b), s.running(c)})
}

// What runs of a job is its present owner's, also what has yet to be updated.
func TestAJobIsItsPresentOwners(t *testing.T) {
	s := newFair(t, cluster.FairUsers, "")
	first := s.job("root/a", 20, 1, ownedBy("anna"))
	s.exchange()
	spec := *s.state.Job(first).Spec
	spec.Owner, spec.Task.Processes = "bob", []cluster.Process{{Command: []string{"another"}}}
	s.emit(&cluster.JobUpdated{Job: first, Spec: &spec, Update: &cluster.Update{From: 1, Policy: cluster.UpdatePolicy{StartPaused: true}}})
	second := s.job("root/a", 20, 1, ownedBy("anna"))
	s.exchange()
	require.Equal(t, []int{10, 10}, []int{s.running(first), s.running(second)})
}

// TestTheRestOfAGangStartsAfterItsCore, whatever the order of the queue: while the core has no room the others leave theirs to whoever comes
// next, so that two gangs do not keep out each other's cores. They start as soon as the core does.
func TestTheRestOfAGangStartsAfterItsCore(t *testing.T) {
	for order, want := range map[cluster.PoolOrder][]int{cluster.PriorityFIFO: {10, 8}, cluster.FairJobs: {9, 9}} {
		s := newFair(t, order, "")
		old := s.job("root/a", 4, 4, func(j *cluster.JobSpec) { j.Preemptible = false })
		s.settle()
		a, b := s.job("root/a", 10, 1, core(5)), s.job("root/a", 10, 1, core(5))
		s.settle()
		require.Zero(t, s.running(a, b))
		single := s.job("root/a", 2, 1)
		s.settle()
		require.Equal(t, 2, s.running(single))
		for i := range uint32(4) {
			s.report(cluster.MakeTaskKey(old, i), cluster.TaskSucceeded)
		}
		s.step()
		s.step()
		require.Equal(t, want, []int{s.running(a), s.running(b)})
	}
}

// TestAFullPoolGivesUpItsOwnToHaveOthersLeave: a pool that has all the CPUs that it is entitled to, or that its limit lets it have, and less of
// the memory, has some of its own leave beside those of another pool that has too much of that, for work of its own that is more urgent, or
// of a job that has nothing.
func TestAFullPoolGivesUpItsOwnToHaveOthersLeave(t *testing.T) {
	for _, world := range []struct {
		order  cluster.PoolOrder
		limit  int64
		memory int64 // of a task of the second job
		least  int   // that are to run
	}{
		{cluster.PriorityFIFO, 20, 16, 8},
		{cluster.PriorityFIFO, cluster.NoLimit, 16, 7},
		{cluster.PriorityFIFO, cluster.NoLimit, 4, 25},
		{cluster.FairJobs, 20, 16, 8},
		{cluster.FairJobs, cluster.NoLimit, 16, 6},
		{cluster.FairJobs, cluster.NoLimit, 4, 12},
	} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Order: world.order, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: world.limit, Share: 1},
		}}})
		s.pool("root/b", 0)
		for i := range 5 {
			s.host(i, vector(10, 60))
		}
		asks := func(memory int64) func(*cluster.JobSpec) {
			return func(j *cluster.JobSpec) { j.Task.Resources = vector(1, memory) }
		}
		s.job("root/a", 40, 1, asks(1))
		s.settle()
		s.job("root/b", 40, 1, asks(8))
		for range 5 {
			s.step()
			s.leave()
		}
		second := s.job("root/a", 40, 1, asks(world.memory), func(j *cluster.JobSpec) {
			if world.order == cluster.PriorityFIFO {
				j.Priority = 1
			}
		})
		for range 4 {
			s.step()
			s.leave()
		}
		require.GreaterOrEqual(t, s.running(second), world.least, "%+v", world)
		require.Empty(t, s.step().Displacements, "%+v", world)
	}
}

// TestWhatIsFreeIsNotAskedFor: a job that has nothing has its part of the memory of its pool, though another pool beside that has borrowed CPUs,
// and both together have more of these than they are entitled to: it asks for some, and they are free.
func TestWhatIsFreeIsNotAskedFor(t *testing.T) {
	s := newShared(t)
	for _, p := range []cluster.Pool{{Path: "root/a"}, {Path: "root/a/x"}, {Path: "root/a/y", Order: cluster.FairJobs}, {Path: "root/b"}} {
		s.emit(&cluster.PoolPut{Pool: p})
	}
	s.host(0, vector(40, 100))
	s.job("root/b", 30, 1, func(j *cluster.JobSpec) { // half of all is claimed for it, and it has no host
		j.Task.Resources, j.Task.GPU.Count = vector(1, 10), 1
	})
	s.job("root/a/x", 25, 1)
	s.job("root/a/y", 100, 0, func(j *cluster.JobSpec) { j.Task.Resources = vector(0, 1) })
	s.settle()
	second := s.job("root/a/y", 20, 1, func(j *cluster.JobSpec) { j.Task.Resources = vector(1, 5) })
	for range 3 {
		s.step()
		s.leave()
	}
	require.Equal(t, 5, s.running(second))
	require.Empty(t, s.step().Displacements)
}

// TestALimitIsDividedAtOnce: where each of those who leave for a limit makes room for two, one plan asks as many as have to leave in the end.
func TestALimitIsDividedAtOnce(t *testing.T) {
	s := newShared(t)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Order: cluster.FairJobs, Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Limit: 20, Share: 1},
	}}})
	s.host(0, vector(40, 0))
	s.job("root/a", 10, 2)
	s.settle()
	second := s.job("root/a", 20, 1)
	require.Equal(t, 5, s.step().Stats.Preemptions)
	s.leave()
	s.settle()
	require.Equal(t, 10, s.running(second))
	require.Empty(t, s.step().Displacements)
}

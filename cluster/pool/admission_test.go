package pool_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// tiers lists reserved, entitled and borrowed tasks.
type tiers = [cluster.NumTiers]int64

func batch(priority int32, queued cluster.Time, request cluster.Resources, running, waiting int64) pool.Group {
	return pool.Group{
		Priority: priority, Queued: queued, Request: request, Running: running, Waiting: waiting, Preemptible: true,
	}
}

func uintp(n uint32) *uint32 { return &n }

// admit runs an admission of one leaf below a root with the capacity.
func admit(t *testing.T, leaf *cluster.Pool, capacity cluster.Resources, now cluster.Time, groups ...pool.Group) []pool.Grant {
	t.Helper()
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, capacity)
	a.SetQueue(leaf.Path, groups)
	a.Run(now)
	return a.Grants(leaf.Path)
}

// One pool's demand returns: two others have to give up 35 tasks each, which are the borrowed ones, and it may claim 70.
func TestExactly70Borrow(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(),
		claims("root/a", cluster.CPU, 60, 300, 1), claims("root/b", cluster.CPU, 60, 300, 1), claims("root/c", cluster.CPU, 60, 300, 1),
	}, cpu(300))
	a.SetQueue("root/a", []pool.Group{batch(0, 3, cpu(1), 30, 0)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpu(1), 135, 0)})
	a.SetQueue("root/c", []pool.Group{batch(0, 1, cpu(1), 135, 0)})
	a.Run(10)
	require.Equal(t, tiers{60, 75, 0}, a.Grants("root/b")[0].Running)
	a.SetQueue("root/a", []pool.Group{batch(0, 3, cpu(1), 30, 120)})
	a.Run(11)
	require.Equal(t, pool.Grant{
		Running: tiers{30, 0, 0}, Waiting: tiers{30, 40, 50},
		Why: pool.Binding{Rule: pool.RuleEntitlement, Pool: "root", Dimension: "cpu_milli"},
	}, a.Grants("root/a")[0])
	for _, p := range []cluster.PoolPath{"root/b", "root/c"} {
		require.Equal(t, tiers{60, 40, 35}, a.Grants(p)[0].Running)
	}
}

func TestAdmission(t *testing.T) {
	const none = cluster.NoLimit
	leaf := func(reservation, limit int64) *cluster.Pool {
		return claims("root/a", cluster.CPU, reservation, limit, 1)
	}
	fixed := func(g pool.Group) pool.Group { g.Preemptible = false; return g }
	ends := func(g pool.Group, limit time.Duration, until cluster.Time) pool.Group {
		g.MaxRunTime, g.RunningUntil = limit, until
		return g
	}
	job := func(g pool.Group, uid cluster.JobUID, user string) pool.Group { g.Job, g.User = uid, user; return g }
	gang := func(g pool.Group, uid cluster.JobUID, core int64) pool.Group { g.Job, g.Core = uid, core; return g }
	passed := func(g pool.Group) pool.Group { g.Passed = true; return g }
	why := func(rule pool.Rule, p cluster.PoolPath) pool.Binding {
		return pool.Binding{Rule: rule, Pool: p, Dimension: "cpu_milli"}
	}
	tests := []struct {
		name     string
		leaf     *cluster.Pool
		capacity int64
		groups   []pool.Group
		running  []tiers
		waiting  []tiers
		refused  []int64
		why      []pool.Binding
	}{
		{
			name: "priority, then age", leaf: leaf(0, none), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpu(1), 0, 5), batch(5, 3, cpu(1), 0, 5), batch(5, 2, cpu(1), 0, 3)},
			running: []tiers{{}, {}, {}},
			waiting: []tiers{{0, 2, 3}, {0, 5, 0}, {0, 3, 0}},
			why:     []pool.Binding{why(pool.RuleEntitlement, "root"), {}, {}},
		},
		{
			name: "what was preempted goes ahead of its priority", leaf: leaf(0, none), capacity: 4,
			groups: []pool.Group{batch(5, 1, cpu(1), 0, 4), func() pool.Group {
				g := batch(5, 2, cpu(1), 0, 3)
				g.Ahead = true
				return g
			}()},
			waiting: []tiers{{0, 1, 3}, {0, 3, 0}},
			why:     []pool.Binding{why(pool.RuleEntitlement, "root"), {}},
		},
		{
			name: "running work first at equal priority", leaf: leaf(4, none), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpu(1), 0, 8), batch(0, 9, cpu(1), 6, 0)},
			running: []tiers{{}, {4, 2, 0}},
			waiting: []tiers{{0, 4, 4}, {}},
			why:     []pool.Binding{why(pool.RuleEntitlement, "root"), {}},
		},
		{
			name: "a higher priority takes the tier of what runs", leaf: leaf(4, none), capacity: 10,
			groups:  []pool.Group{batch(1, 9, cpu(1), 0, 8), batch(0, 1, cpu(1), 6, 0)},
			running: []tiers{{}, {0, 2, 4}},
			waiting: []tiers{{4, 4, 0}, {}},
			why:     []pool.Binding{{}, {}},
		},
		{
			name: "vectors are exact: a tier is had in all dimensions", leaf: leaf(4, none), capacity: 10,
			groups:  []pool.Group{batch(1, 1, cpuMemory(1, 3), 0, 8)},
			waiting: []tiers{{3, 0, 5}}, // nobody reserves memory, and 9 bytes of 10 are entitled
			why:     []pool.Binding{{Rule: pool.RuleEntitlement, Pool: "root", Dimension: "memory_bytes"}},
		},
		{
			name: "a limit refuses, and is named", leaf: leaf(2, 5), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpu(1), 1, 9)},
			running: []tiers{{1, 0, 0}},
			waiting: []tiers{{1, 3, 0}},
			refused: []int64{5},
			why:     []pool.Binding{why(pool.RuleLimit, "root/a")},
		},
		{
			name: "what may not be preempted stays inside the reservation", leaf: leaf(4, none), capacity: 10,
			groups:  []pool.Group{fixed(batch(0, 1, cpu(1), 1, 9)), batch(0, 2, cpu(1), 0, 9)},
			running: []tiers{{1, 0, 0}, {}},
			waiting: []tiers{{3, 0, 0}, {0, 6, 3}},
			refused: []int64{6, 0},
			why:     []pool.Binding{why(pool.RuleReservation, "root/a"), why(pool.RuleEntitlement, "root")},
		},
		{
			name: "what runs and may not be preempted is reserved whatever the reservation", leaf: leaf(4, none), capacity: 10,
			groups:  []pool.Group{fixed(batch(0, 1, cpu(1), 7, 2)), batch(9, 1, cpu(1), 0, 5)},
			running: []tiers{{7, 0, 0}, {}},
			waiting: []tiers{{}, {0, 3, 2}},
			refused: []int64{2, 0},
			why:     []pool.Binding{why(pool.RuleReservation, "root/a"), why(pool.RuleEntitlement, "root")},
		},
		{
			name: "a limit that was lowered does not stop what runs", leaf: leaf(0, 3), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpu(1), 5, 1)},
			running: []tiers{{0, 3, 2}},
			waiting: []tiers{{}},
			refused: []int64{1},
			why:     []pool.Binding{why(pool.RuleLimit, "root/a")},
		},
		{
			name: "room is kept for the head, and small work behind it waits", leaf: leaf(0, 10), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpu(6), 1, 0), batch(0, 2, cpu(6), 0, 1), batch(0, 3, cpu(1), 0, 3)},
			running: []tiers{{0, 1, 0}, {}, {}},
			waiting: []tiers{{}, {}, {}},
			refused: []int64{0, 1, 3},
			why:     []pool.Binding{{}, why(pool.RuleLimit, "root/a"), why(pool.RuleHead, "root/a")},
		},
		{
			name: "work that ends before the head can start passes it", leaf: leaf(0, 10), capacity: 10,
			groups: []pool.Group{
				ends(batch(0, 1, cpu(6), 1, 0), time.Hour, 1000), batch(0, 2, cpu(6), 0, 1),
				ends(batch(0, 3, cpu(1), 0, 1), 950, 0), ends(batch(0, 4, cpu(1), 0, 2), 900, 0),
			},
			running: []tiers{{0, 1, 0}, {}, {}, {}},
			waiting: []tiers{{}, {}, {}, {0, 2, 0}},
			refused: []int64{0, 1, 1, 0},
			why:     []pool.Binding{{}, why(pool.RuleLimit, "root/a"), why(pool.RuleHead, "root/a"), {}},
		},
		{
			name: "the head starts when the first who end leave enough, of those who have a limit", leaf: leaf(0, 10), capacity: 10,
			groups: []pool.Group{
				ends(batch(0, 1, cpu(3), 1, 0), time.Hour, 2000), ends(batch(0, 2, cpu(3), 1, 0), time.Hour, 1000), batch(0, 3, cpu(3), 1, 0),
				batch(0, 4, cpu(4), 0, 1), ends(batch(0, 5, cpu(1), 0, 1), 901, 0), ends(batch(0, 6, cpu(1), 0, 1), 900, 0),
			},
			running: []tiers{{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {}, {}, {}},
			waiting: []tiers{{}, {}, {}, {}, {}, {0, 1, 0}},
			refused: []int64{0, 0, 0, 1, 1, 0},
			why:     []pool.Binding{{}, {}, {}, why(pool.RuleLimit, "root/a"), why(pool.RuleHead, "root/a"), {}},
		},
		{
			name: "preemptible work of lower priority passes it", leaf: leaf(0, 10), capacity: 10,
			groups:  []pool.Group{batch(5, 1, cpu(6), 1, 0), batch(5, 2, cpu(6), 0, 1), batch(4, 3, cpu(1), 0, 9)},
			running: []tiers{{0, 1, 0}, {}, {}},
			waiting: []tiers{{}, {}, {0, 4, 0}},
			refused: []int64{0, 1, 5},
			why:     []pool.Binding{{}, why(pool.RuleLimit, "root/a"), why(pool.RuleLimit, "root/a")},
		},
		{
			name: "who fits beside the head is not held", leaf: leaf(0, 10), capacity: 10,
			groups:  []pool.Group{batch(0, 1, cpuMemory(6, 0), 1, 0), batch(0, 2, cpuMemory(6, 4), 0, 1), batch(0, 3, cpuMemory(0, 2), 0, 5)},
			running: []tiers{{0, 1, 0}, {}, {}},
			waiting: []tiers{{}, {}, {0, 3, 2}}, // 6 of 10 bytes beside the head's 4
			refused: []int64{0, 1, 0},
			why: []pool.Binding{
				{},
				why(pool.RuleLimit, "root/a"),
				{Rule: pool.RuleHead, Pool: "root/a", Dimension: "memory_bytes"},
			},
		},
		{
			name: "a unit too large for a bound does not hold it", leaf: leaf(0, 10), capacity: 10,
			groups:  []pool.Group{batch(0, 2, cpu(11), 0, 1), batch(0, 3, cpu(1), 0, 3)},
			waiting: []tiers{{}, {0, 3, 0}},
			refused: []int64{1, 0},
			why:     []pool.Binding{why(pool.RuleLimit, "root/a"), {}},
		},
		{
			name: "a gang gets one tier whole, the elastic rest what there is", leaf: leaf(2, none), capacity: 10,
			groups:  []pool.Group{gang(batch(0, 1, cpu(1), 0, 12), 1, 4)},
			waiting: []tiers{{2, 8, 2}}, // 4 entitled, then 2 reserved, 4 entitled and 2 borrowed
			why:     []pool.Binding{why(pool.RuleEntitlement, "root")},
		},
		{
			name: "a gang that is not whole gets nothing, and does not block what may pass", leaf: leaf(0, 10), capacity: 10,
			groups: []pool.Group{
				batch(5, 1, cpu(1), 6, 0), gang(batch(5, 2, cpu(1), 0, 6), 1, 5), gang(batch(5, 2, cpu(2), 0, 1), 1, 1),
				batch(0, 3, cpu(1), 0, 9),
			},
			running: []tiers{{0, 6, 0}, {}, {}, {}},
			waiting: []tiers{{}, {}, {}, {0, 4, 0}},
			refused: []int64{0, 6, 1, 5},
			why: []pool.Binding{
				{}, {Rule: pool.RuleGang, Pool: "root/a"}, why(pool.RuleLimit, "root/a"), why(pool.RuleLimit, "root/a"),
			},
		},
		{
			name: "there is no host for it", leaf: leaf(0, none), capacity: 10,
			groups:  []pool.Group{passed(batch(5, 1, cpu(1), 0, 5)), batch(0, 2, cpu(1), 0, 5)},
			waiting: []tiers{{}, {0, 5, 0}},
			refused: []int64{5, 0},
			why:     []pool.Binding{{}, {}},
		},
		{
			name: "there is no host for some of a gang", leaf: leaf(0, none), capacity: 10,
			groups:  []pool.Group{gang(batch(0, 1, cpu(1), 0, 3), 1, 2), passed(gang(batch(0, 1, cpu(2), 0, 1), 1, 1))},
			waiting: []tiers{{}, {}},
			refused: []int64{3, 1},
			why:     []pool.Binding{{Rule: pool.RuleGang, Pool: "root/a"}, {}},
		},
		{
			name: "a gang of which the job may run some", leaf: leaf(0, none), capacity: 10,
			groups: []pool.Group{func() pool.Group {
				g := gang(batch(0, 1, cpu(1), 0, 3), 1, 3)
				g.MaxRunning = 2
				return g
			}()},
			waiting: []tiers{{}},
			refused: []int64{3},
			why:     []pool.Binding{{Rule: pool.RuleMaxRunning, Pool: "root/a"}},
		},
		{
			name: "a gang over two groups", leaf: leaf(0, 10), capacity: 10,
			groups:  []pool.Group{gang(batch(5, 2, cpu(1), 0, 5), 1, 5), gang(batch(5, 2, cpu(2), 0, 3), 1, 2)},
			waiting: []tiers{{0, 5, 0}, {0, 2, 0}},
			refused: []int64{0, 1},
			why:     []pool.Binding{{}, why(pool.RuleLimit, "root/a")},
		},
		{
			name: "running instances of a job", leaf: leaf(0, none), capacity: 10,
			groups: func() []pool.Group {
				a, b := job(batch(0, 1, cpu(1), 2, 4), 7, "u"), job(batch(0, 1, cpu(1), 0, 4), 7, "u")
				a.MaxRunning, b.MaxRunning = 7, 7
				return []pool.Group{a, b}
			}(),
			running: []tiers{{0, 2, 0}, {}},
			waiting: []tiers{{0, 4, 0}, {0, 1, 0}},
			refused: []int64{0, 3},
			why:     []pool.Binding{{}, {Rule: pool.RuleMaxRunning, Pool: "root/a"}},
		},
		{
			name: "instances of a job that leave, and wait again, have their part before more urgent ones until they are gone",
			leaf: leaf(0, none), capacity: 10,
			groups: func() []pool.Group {
				runs, leaves, waits := job(batch(0, 1, cpu(1), 1, 0), 7, "u"), job(batch(0, 1, cpu(1), 0, 1), 7, "u"), job(batch(5, 1, cpu(1), 0, 4), 7, "u")
				leaves.Leaving, leaves.Ahead = 1, true
				runs.MaxRunning, leaves.MaxRunning, waits.MaxRunning = 3, 3, 3
				return []pool.Group{runs, leaves, waits}
			}(),
			running: []tiers{{0, 1, 0}, {}, {}},
			waiting: []tiers{{}, {0, 1, 0}, {0, 1, 0}},
			refused: []int64{0, 0, 3},
			why:     []pool.Binding{{}, {}, {Rule: pool.RuleMaxRunning, Pool: "root/a"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, grant := range admit(t, tt.leaf, cpuMemory(tt.capacity, 10), 100, tt.groups...) {
				if tt.running != nil {
					require.Equal(t, tt.running[i], grant.Running, "running of group %d", i)
				}
				require.Equal(t, tt.waiting[i], grant.Waiting, "waiting of group %d: %v", i, grant)
				if tt.refused != nil {
					require.Equal(t, tt.refused[i], grant.Refused, "refused of group %d: %v", i, grant)
				} else {
					require.Zero(t, grant.Refused, "refused of group %d", i)
				}
				require.Equal(t, tt.why[i], grant.Why, "reason of group %d", i)
			}
		})
	}
}

// The core of a gang may be larger than its job's part of a fair leaf: it has what the parts leave over, one after the other.
func TestACoreTakesWhatFairPartsLeave(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, 2, 1)
	leaf.Order = cluster.FairJobs
	gang := func(uid cluster.JobUID) pool.Group {
		g := batch(0, cluster.Time(uid), cpu(1), 0, 2)
		g.Job, g.Core = uid, 2
		return g
	}
	grants := admit(t, leaf, cpu(8), 10, gang(1), gang(2))
	require.Equal(t, tiers{0, 2, 0}, grants[0].Waiting, "it does not borrow what the leaf is entitled to")
	require.Zero(t, grants[1].Admitted())
}

// What runs and may not be preempted is a part of what its job has of a fair leaf: a job gets more only when the others that ask for it
// have come to as much, up to one task.
func TestFairPartsCountWhatMayNotBePreempted(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	leaf.Order = cluster.FairJobs
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		jobs := 2 + r.IntN(4)
		var groups []pool.Group
		fixed, asked := make([]int64, jobs), make([]int64, jobs)
		var running, all int64
		for i := range jobs {
			g, more := batch(0, 1, cpu(1), r.Int64N(9)*r.Int64N(2), 0), batch(0, 2, cpu(1), 0, r.Int64N(12))
			g.Preemptible, more.Preemptible = false, r.IntN(2) == 0
			g.Job, more.Job = cluster.JobUID(i+1), cluster.JobUID(i+1)
			groups = append(groups, g, more)
			fixed[i], asked[i] = g.Running, g.Running+more.Waiting
			running, all = running+g.Running, all+asked[i]
		}
		capacity := running + r.Int64N(20)
		grants := admit(t, leaf, cpu(capacity), 10, groups...)
		has, sum := make([]int64, jobs), int64(0)
		for i := range jobs {
			for tier := range cluster.TierBorrowed {
				has[i] += grants[2*i].Running[tier] + grants[2*i+1].Waiting[tier]
			}
			sum += has[i]
		}
		require.Equal(t, min(capacity, all), sum, "seed %d: %v of %v", seed, has, asked)
		for i := range jobs {
			for k := range jobs {
				if has[i] < asked[i] && has[k] > fixed[k] {
					require.LessOrEqual(t, has[k], has[i]+1, "seed %d: %v of %v, fixed %v", seed, has, asked, fixed)
				}
			}
		}
	}
}

// What may not be preempted holds nothing while it waits for a reservation that is too small for it: it would do so for ever.
func TestWhoNeverFitsHoldsNothing(t *testing.T) {
	leaf := &cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Limit: 4, Share: 1},
		{Dimension: cluster.Memory.String(), Reservation: 1, Limit: cluster.NoLimit, Share: 1},
	}}
	fixed := batch(0, 1, cpuMemory(1, 2), 0, 1)
	fixed.Preemptible = false
	grants := admit(t, leaf, cpuMemory(8, 8), 10, fixed, batch(0, 2, cpuMemory(4, 2), 0, 1))
	require.Zero(t, grants[0].Admitted())
	require.EqualValues(t, 1, grants[1].Admitted())
}

// TestWhoGoesFirst: of two groups the same one goes first in whatever order they are given: a scheduler that begins anew lists them in
// another one. Each rule goes before those that follow.
func TestWhoGoesFirst(t *testing.T) {
	type change = func(first, second *pool.Group)
	rules := []change{
		func(first, _ *pool.Group) { first.Priority = 1 },
		func(first, _ *pool.Group) { first.Ahead = true },
		func(_, second *pool.Group) { second.Queued = 2 },
		func(first, _ *pool.Group) { first.Worth = 1 },
		func(first, second *pool.Group) {
			first.Head, second.Head = cluster.MakeTaskKey(1, 0), cluster.MakeTaskKey(2, 0)
		},
	}
	leaf := &cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 1, Share: 1}}}
	for r, rule := range rules {
		for _, first := range []int{0, 1} {
			groups := []pool.Group{batch(0, 1, cpuMemory(1, 0), 0, 1), batch(0, 1, cpuMemory(1, 0), 0, 1)}
			rule(&groups[first], &groups[1-first])
			for _, weaker := range rules[r+1:] {
				weaker(&groups[1-first], &groups[first])
			}
			grants := admit(t, leaf, cpuMemory(8, 8), 3, groups...)
			require.EqualValues(t, 1, grants[first].Admitted(), "rule %d", r)
			require.Zero(t, grants[1-first].Admitted(), "rule %d", r)
		}
	}
}

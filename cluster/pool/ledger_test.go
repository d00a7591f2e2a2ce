package pool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

var cpuDim, memoryDim = []string{"cpu_milli"}, []string{"memory_bytes"}

func unit(p cluster.PoolPath, n int64) pool.Unit { return pool.Unit{Pool: p, Request: cpu(n)} }

// threePools is the example with 30, 135 and 135 running of 300 when a asks for 120 more: b and c are 35 above.
func threePools(policy string) *pool.Admission {
	top := root()
	top.Preemption = policy
	a := pool.NewAdmission([]*cluster.Pool{
		top,
		claims("root/a", cluster.CPU, 60, 300, 1), claims("root/b", cluster.CPU, 60, 300, 1), claims("root/c", cluster.CPU, 60, 300, 1),
	}, cpu(300))
	a.SetQueue("root/a", []pool.Group{batch(0, 3, cpu(1), 30, 120)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpu(1), 135, 0)})
	a.SetQueue("root/c", []pool.Group{batch(0, 1, cpu(1), 135, 0)})
	a.Run(1)
	return a
}

// One unit after the other is stopped for one that starts, until no law permits any more: 35 of each donor.
func TestExactly70Victims(t *testing.T) {
	l := threePools("").Ledger()
	victims := map[cluster.PoolPath]int{}
	for range 300 {
		for _, from := range []cluster.PoolPath{"root/b", "root/c"} {
			if l.Permits(unit("root/a", 1), unit(from, 1), cpuDim) {
				l.Remove(unit(from, 1))
				l.Add(unit("root/a", 1))
				victims[from]++
			}
		}
	}
	require.Equal(t, map[cluster.PoolPath]int{"root/b": 35, "root/c": 35}, victims)
}

func TestPolicies(t *testing.T) {
	require.Equal(t, []string{"conservative", "default", "none"}, pool.PolicyNames())
	tests := []struct {
		policy             string
		across, afterwards int
	}{
		{"default", 70, 70}, {"unheard of", 70, 70}, {"conservative", 30, 30}, {"none", 0, 0},
	}
	for _, tt := range tests {
		l := threePools(tt.policy).Ledger()
		n := 0
		for l.Permits(unit("root/a", 1), unit("root/b", 1), cpuDim) || l.Permits(unit("root/a", 1), unit("root/c", 1), cpuDim) {
			from := unit("root/b", 1)
			if !l.Permits(unit("root/a", 1), from, cpuDim) {
				from = unit("root/c", 1)
			}
			l.Remove(from)
			l.Add(unit("root/a", 1))
			n++
		}
		require.Equal(t, tt.across, n, tt.policy)
		high, low := unit("root/a", 1), unit("root/a", 1)
		high.Priority = 1
		require.Equal(t, tt.policy != "none", l.Permits(high, low, cpuDim), tt.policy)
		require.False(t, l.Permits(low, high, cpuDim), tt.policy)
		require.False(t, l.Permits(low, low, cpuDim), tt.policy)
	}
}

func TestPermits(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), {Path: "root/a"}, {Path: "root/a/x"}, {Path: "root/a/y"}, {Path: "root/b"},
	}, cpuMemory(100, 100))
	// a and b are entitled to 50 CPUs each; x has 45 of a's 50, of which 25 are y's by right; b has 50 and wants more.
	a.SetQueue("root/a/x", []pool.Group{batch(0, 1, cpuMemory(1, 1), 45, 10)})
	a.SetQueue("root/a/y", []pool.Group{batch(0, 1, cpuMemory(1, 0), 5, 30)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpuMemory(1, 0), 50, 50)})
	a.Run(1)
	require.Equal(t, cpuMemory(25, 55), a.Tree().Entitlement("root/a/x"))
	l := a.Ledger()
	vm := func(p cluster.PoolPath, c, m int64) pool.Unit {
		return pool.Unit{Pool: p, Request: cpuMemory(c, m)}
	}
	tests := []struct {
		name     string
		to, from pool.Unit
		dims     []string
		want     bool
	}{
		{"within its entitlement, from above it", vm("root/a/y", 20, 0), vm("root/a/x", 1, 1), cpuDim, true},
		{"a unit as large as the excess", vm("root/a/y", 20, 0), vm("root/a/x", 20, 20), cpuDim, true},
		{"a larger one", vm("root/a/y", 20, 0), vm("root/a/x", 21, 0), cpuDim, false},
		{"more than it is entitled to", vm("root/a/y", 21, 0), vm("root/a/x", 1, 1), cpuDim, false},
		{"what the donor exceeds does not bind", vm("root/a/y", 1, 0), vm("root/a/x", 1, 1), memoryDim, false},
		{"one of two that bind", vm("root/a/y", 1, 0), vm("root/a/x", 1, 1), []string{"memory_bytes", "cpu_milli"}, true},
		{"a unit that gives nothing of what binds", vm("root/a/y", 1, 0), vm("root/a/x", 0, 1), cpuDim, false},
		{"a leaf above its entitlement in a pool within its own", vm("root/b", 1, 0), vm("root/a/x", 1, 1), cpuDim, false},
		{"back", vm("root/a/x", 1, 1), vm("root/a/y", 1, 0), cpuDim, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, l.Permits(tt.to, tt.from, tt.dims), tt.name)
	}
	revocable := vm("root/b", 1, 0)
	revocable.Revocable = true
	require.True(t, l.Permits(vm("root/a/y", 1, 0), revocable, cpuDim), "revocable work gives way")
	require.False(t, l.Permits(revocable, vm("root/a/x", 1, 1), cpuDim))
	lent := vm("root/a/y", 1, 0)
	lent.Revocable = true
	require.False(t, l.Permits(lent, vm("root/a/x", 1, 1), cpuDim), "however little its pool has")
	require.False(t, l.Permits(revocable, revocable, cpuDim))
	l.Remove(revocable)
	require.EqualValues(t, 50, l.Holds("root/b", cluster.CPU.String()), "it was never booked")

	require.True(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim))
	l.Remove(vm("root/a/x", 1, 1))
	require.False(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim), "one was stopped already")
	l.Add(vm("root/a/x", 1, 1))
	require.True(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim), "it stays after all")
}

// In a leaf that is fair between jobs or users, who is below its share stops work of one above, at equal priority.
func TestPartiesBelowTheirShare(t *testing.T) {
	side := func(job cluster.JobUID, user string, n int64) pool.Unit {
		return pool.Unit{Pool: "root/a", Job: job, User: user, Request: cpu(n)}
	}
	ledger := func(order cluster.PoolOrder, policy string, queue ...pool.Group) *pool.Ledger {
		top, leaf := root(), claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
		top.Preemption, leaf.Order = policy, order
		a := pool.NewAdmission([]*cluster.Pool{top, leaf}, cpu(10))
		a.SetQueue("root/a", queue)
		a.Run(1)
		return a.Ledger()
	}
	urgent := func(u pool.Unit) pool.Unit {
		u.Priority = 1
		return u
	}
	// Jobs 1 and 2 are ann's, 3 is bob's: of three jobs two, and of two users one, have more than their share.
	queue := []pool.Group{
		owned(batch(0, 1, cpu(1), 6, 5), 1, "ann"),
		owned(batch(0, 1, cpu(1), 2, 5), 2, "ann"),
		owned(batch(0, 1, cpu(1), 2, 5), 3, "bob"),
		owned(batch(0, 1, cpu(1), 9, 0), 3, "bob"), // on slack
	}
	queue[3].Revocable = true
	tests := []struct {
		name     string
		order    cluster.PoolOrder
		policy   string
		to, from pool.Unit
		want     int // that may be stopped, one after the other
	}{
		{"not fair", cluster.PriorityFIFO, "", side(3, "bob", 1), side(1, "ann", 1), 0},
		{"one job to another of the same user", cluster.FairJobs, "", side(2, "ann", 1), side(1, "ann", 1), 1},
		{"one job to that of another user", cluster.FairJobs, "", side(3, "bob", 1), side(1, "ann", 1), 1},
		{"back", cluster.FairJobs, "", side(1, "ann", 1), side(3, "bob", 1), 0},
		{"between two below their share", cluster.FairJobs, "", side(2, "ann", 1), side(3, "bob", 1), 0},
		{"the same job", cluster.FairJobs, "", side(1, "ann", 1), side(1, "ann", 1), 0},
		{"a job that nobody knows", cluster.FairJobs, "", side(9, "eve", 1), side(1, "ann", 1), 0},
		{"more than the share of the job", cluster.FairJobs, "", side(3, "bob", 2), side(1, "ann", 1), 0},
		{"a gang as large as the excess", cluster.FairJobs, "", side(3, "bob", 1), side(1, "ann", 2), 1},
		{"a larger gang", cluster.FairJobs, "", side(3, "bob", 1), side(1, "ann", 4), 0},
		{"from higher priority", cluster.FairJobs, "", side(3, "bob", 1), urgent(side(1, "ann", 1)), 0},
		{"higher priority needs no share", cluster.FairJobs, "", urgent(side(1, "ann", 1)), side(3, "bob", 1), 5},
		{"jobs, reservations only", cluster.FairJobs, "conservative", side(3, "bob", 1), side(1, "ann", 1), 0},
		{"jobs, never", cluster.FairJobs, "none", side(3, "bob", 1), side(1, "ann", 1), 0},
		{"urgent jobs, never", cluster.FairJobs, "none", urgent(side(3, "bob", 1)), side(1, "ann", 1), 0},
		{"one user to another", cluster.FairUsers, "", side(3, "bob", 1), side(2, "ann", 1), 3},
		{"the same user", cluster.FairUsers, "", side(2, "ann", 1), side(1, "ann", 1), 0},
		{"users, reservations only", cluster.FairUsers, "conservative", side(3, "bob", 1), side(1, "ann", 1), 0},
		{"users, never", cluster.FairUsers, "none", side(3, "bob", 1), side(1, "ann", 1), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger(tt.order, tt.policy, queue...)
			n := 0
			if tt.to.Priority == tt.from.Priority {
				require.False(t, l.Permits(tt.to, tt.from, memoryDim), "it gives nothing of what is short")
			}
			for ; n < 5 && l.Permits(tt.to, tt.from, cpuDim); n++ {
				l.Remove(tt.from)
				l.Add(tt.to)
			}
			require.Equal(t, tt.want, n)
		})
	}
}

// What one gave up for another of equal priority does not come back to it beyond its share.
func TestMayReturn(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	leaf.Order = cluster.FairJobs
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf, claims("root/b", cluster.CPU, 0, cluster.NoLimit, 1)}, cpu(12))
	a.SetQueue("root/a", []pool.Group{
		owned(batch(0, 1, cpu(1), 3, 5), 1, "ann"),
		owned(batch(0, 1, cpu(1), 6, 5), 2, "bob"),
	})
	a.SetQueue("root/b", []pool.Group{owned(batch(0, 1, cpu(1), 3, 5), 3, "eve")})
	a.Run(1)
	l := a.Ledger() // the shares of a and b are 6, those of its jobs 3
	one, two := pool.Unit{Pool: "root/a", Job: 1, Request: cpu(1)}, pool.Unit{Pool: "root/a", Job: 2, Request: cpu(1)}
	eve := pool.Unit{Pool: "root/b", Job: 3, Request: cpu(1)}
	l.Remove(one)
	require.True(t, l.Permits(one, two, cpuDim))
	l.Remove(two)
	l.Add(one)
	require.False(t, l.MayReturn(one, one, two), "it would have 4")
	l.Remove(one)
	require.True(t, l.MayReturn(one, one, two), "it would have 3")
	l.Add(one)
	require.True(t, l.MayReturn(two, one, two), "it was not the one that had to stay within something")
	require.True(t, l.MayReturn(eve, one, two))
	urgent := one
	urgent.Priority = 1
	require.True(t, l.MayReturn(one, urgent, two), "higher priority needs no share")
	l.Add(eve)
	l.Add(eve)
	l.Add(eve)
	require.False(t, l.MayReturn(eve, eve, two), "its pool would have 7")
	require.True(t, l.MayReturn(two, eve, two))
	lent := one
	lent.Revocable = true
	require.True(t, l.MayReturn(lent, one, two))
	require.True(t, l.MayReturn(one, one, lent))
}

// A root that is the only pool has a policy for itself.
func TestOnlyPool(t *testing.T) {
	for policy, want := range map[string]bool{"": true, "conservative": false, "none": false} {
		only := root()
		only.Order, only.Preemption = cluster.FairJobs, policy
		a := pool.NewAdmission([]*cluster.Pool{only}, cpu(10))
		a.SetQueue("root", []pool.Group{owned(batch(0, 1, cpu(1), 10, 5), 1, "ann"), owned(batch(0, 1, cpu(1), 0, 5), 2, "ann")})
		a.Run(1)
		to, from := pool.Unit{Pool: "root", Job: 2, Request: cpu(1)}, pool.Unit{Pool: "root", Job: 1, Request: cpu(1)}
		require.Equal(t, want, a.Ledger().Permits(to, from, cpuDim), policy)
		to.Priority = 1
		require.Equal(t, policy != "none", a.Ledger().Permits(to, from, cpuDim), policy)
	}
}

func TestStatus(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), claims("root/a", cluster.CPU, 10, 60, 2),
		{Path: "root/a/x"},
		claims("root/a/y", cluster.CPU, 5, 20, 1),
		{Path: "root/b", Resources: []cluster.PoolResource{{Dimension: "license", Limit: 3, Share: 1}}},
	}, cpuMemory(100, 50))
	lent := batch(0, 1, cpu(1), 7, 7)
	lent.Revocable = true
	a.SetQueue("root/a/x", []pool.Group{batch(0, 1, cpuMemory(1, 1), 10, 90)})
	a.SetQueue("root/a/y", []pool.Group{batch(0, 1, cpu(1), 10, 90)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpu(1), 10, 20), lent})
	a.Run(1)
	all := map[cluster.PoolPath]map[string]pool.DimensionStatus{}
	for _, s := range a.Status() {
		all[s.Path] = map[string]pool.DimensionStatus{}
		for _, d := range s.Dimensions {
			all[s.Path][d.Dimension] = d
		}
	}
	// 100 are enough for a's limit of 60 and b's 30. y gets its limit of 20, x the other 40.
	require.Equal(t, pool.DimensionStatus{
		Dimension: "cpu_milli", Reservation: 10, Limit: 60, Demand: 180, Allocation: 20,
		Reserved: 10, Entitlement: 60, Claimed: 60, BoundBy: "root/a", Tiers: [3]int64{5, 55, 0}, Refused: 140,
	}, all["root/a"]["cpu_milli"])
	require.Equal(t, pool.DimensionStatus{
		Dimension: "cpu_milli", Reservation: 0, Limit: cluster.NoLimit, Demand: 90, Allocation: 10,
		Entitlement: 40, Claimed: 40, BoundBy: "root/a", Tiers: [3]int64{0, 40, 0}, Refused: 60,
	}, all["root/a/x"]["cpu_milli"])
	require.Equal(t, cluster.PoolPath("root/a/y"), all["root/a/y"]["cpu_milli"].BoundBy, "its own limit")
	require.Equal(t, cluster.RootPool, all["root/a/x"]["memory_bytes"].BoundBy)
	require.Empty(t, all["root/b"]["cpu_milli"].BoundBy)
	require.Equal(t, int64(30), all["root/b"]["cpu_milli"].Entitlement)
	require.Equal(t, tiers{0, 30, 0}, all["root/b"]["cpu_milli"].Tiers, "without what is revocable")
	require.Equal(t, int64(3), all["root/b"]["license"].Limit, "it is set, though there is none")
	require.NotContains(t, all["root/b"], "memory_bytes")
	require.Equal(t, int64(100), all["root"]["cpu_milli"].Entitlement)
}

// What a pool holds beyond what it is entitled to is lifted only by what stops in it, or below it.
func TestWhereAUnitDoesNotStay(t *testing.T) {
	top := root()
	l := pool.NewAdmission([]*cluster.Pool{
		top, claims("root/a", cluster.CPU, 60, 300, 1), claims("root/a/x", cluster.CPU, 0, 300, 1), claims("root/a/y", cluster.CPU, 0, 300, 1),
		claims("root/b", cluster.CPU, 60, 300, 1),
	}, cpu(300))
	l.SetQueue("root/a/x", []pool.Group{batch(0, 3, cpu(1), 30, 120)})
	l.SetQueue("root/a/y", []pool.Group{batch(0, 3, cpu(1), 120, 30)})
	l.SetQueue("root/b", []pool.Group{batch(0, 3, cpu(1), 150, 150)})
	l.Run(1)
	ledger := l.Ledger()
	at := func(p cluster.PoolPath, n int64) cluster.PoolPath {
		beyond := ledger.Beyond(unit(p, n))
		require.Equal(t, beyond == "", ledger.Stays(unit(p, n)))
		return beyond
	}
	require.Equal(t, cluster.PoolPath("root/a"), at("root/a/x", 1))
	require.Equal(t, cluster.PoolPath("root/a/x"), at("root/a/x", 121))
	require.Equal(t, cluster.PoolPath("root/b"), at("root/b", 1))
	ledger.Remove(unit("root/b", 1))
	require.Equal(t, cluster.PoolPath("root/a"), at("root/a/x", 1))
	ledger.Remove(unit("root/a/y", 1))
	require.Empty(t, at("root/a/x", 1))
	require.Equal(t, cluster.PoolPath("root/a"), at("root/a/x", 2))
}

// A pool that has all of one dimension, and less of another, keeps to that with a unit for which as much of its own leaves of the one: what that
// gives of the other does not matter. Only then does work of others leave for it.
func TestAFullPoolKeepsToWhatItHas(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{root(), {Path: "root/a"}, {Path: "root/b"}}, cpuMemory(100, 100))
	a.SetQueue("root/a", []pool.Group{batch(0, 1, cpuMemory(1, 0), 50, 0), batch(1, 2, cpuMemory(1, 1), 0, 50)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpuMemory(1, 2), 50, 50)})
	a.Run(1)
	l := a.Ledger()
	wants := pool.Unit{Pool: "root/a", Priority: 1, Request: cpuMemory(1, 1)}
	own, other := pool.Unit{Pool: "root/a", Request: cpuMemory(1, 0)}, pool.Unit{Pool: "root/b", Request: cpuMemory(1, 2)}

	to, from := l.Beneficiary(wants, []string{cluster.Memory.String()}), l.Donor(other)
	require.True(t, to.Gives(&from))
	require.False(t, to.Stays(&from))
	require.False(t, to.MayStop(&from))
	both := []string{cluster.CPU.String(), cluster.Memory.String()}
	require.False(t, l.Keeps(wants, nil, both))
	require.True(t, l.Keeps(wants, nil, nil), "nobody asks")
	require.Equal(t, cpu(1), l.Excess(wants, "root/a"))
	l.Remove(own)
	to = l.Beneficiary(wants, []string{cluster.Memory.String()})
	require.True(t, to.Stays(&from))
	require.True(t, to.MayStop(&from))
	require.False(t, l.Keeps(wants, []pool.Unit{own}, both), "there is no memory")
	require.True(t, l.Keeps(wants, []pool.Unit{own}, cpuDim), "which does not matter where there is some")
	l.Remove(other)
	require.True(t, l.Keeps(wants, []pool.Unit{own, other}, both))

	l.Add(own) // it has one more than it is entitled to
	require.True(t, l.Keeps(wants, []pool.Unit{own, other}, both), "no more than before")
	require.False(t, l.Keeps(wants, []pool.Unit{other}, both))
}

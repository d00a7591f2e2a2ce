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
	require.False(t, l.Permits(revocable, revocable, cpuDim))
	l.Remove(revocable)
	require.False(t, l.Permits(vm("root/b", 1, 0), vm("root/a/x", 1, 1), cpuDim), "it was never booked")

	require.True(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim))
	l.Remove(vm("root/a/x", 1, 1))
	require.False(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim), "one was stopped already")
	l.Add(vm("root/a/x", 1, 1))
	require.True(t, l.Permits(vm("root/a/y", 1, 0), vm("root/a/x", 20, 0), cpuDim), "it stays after all")
}

// In a pool that is fair between users, who is below his share stops work of one above his, at equal priority.
func TestUsersBelowTheirShare(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	queue := []pool.Group{
		owned(batch(0, 1, cpu(1), 8, 5), 1, "ann"),
		owned(batch(0, 1, cpu(1), 2, 5), 2, "bob"),
	}
	ledger := func(order cluster.PoolOrder) *pool.Ledger {
		leaf.Order = order
		a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpu(10))
		a.SetQueue("root/a", queue)
		a.Run(1)
		return a.Ledger()
	}
	ann := pool.Unit{Pool: "root/a", User: "ann", Request: cpu(1)}
	bob := pool.Unit{Pool: "root/a", User: "bob", Request: cpu(1)}
	require.False(t, ledger(cluster.PriorityFIFO).Permits(bob, ann, cpuDim))
	require.False(t, ledger(cluster.FairJobs).Permits(bob, ann, cpuDim))
	l := ledger(cluster.FairUsers)
	require.False(t, l.Permits(ann, bob, cpuDim))
	n := 0
	for ; l.Permits(bob, ann, cpuDim); n++ {
		l.Remove(ann)
		l.Add(bob)
	}
	require.Equal(t, 3, n, "5 each")
	urgent := ann
	urgent.Priority = 1
	l = ledger(cluster.FairUsers)
	require.False(t, l.Permits(bob, urgent, cpuDim), "not from higher priority")
	require.True(t, l.Permits(urgent, bob, cpuDim), "higher priority needs no share")
}

func TestStatus(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), claims("root/a", cluster.CPU, 10, 60, 2), {Path: "root/a/x"}, claims("root/a/y", cluster.CPU, 5, 20, 1), {Path: "root/b"},
	}, cpuMemory(100, 50))
	a.SetQueue("root/a/x", []pool.Group{batch(0, 1, cpuMemory(1, 1), 10, 90)})
	a.SetQueue("root/a/y", []pool.Group{batch(0, 1, cpu(1), 10, 90)})
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpu(1), 10, 20)})
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
		Dimension: "cpu_milli", Reservation: 10, Limit: 60, Share: 2, Demand: 180, Allocation: 20,
		Reserved: 10, Entitlement: 60, Ceiling: 60, Claimed: 60, BoundBy: "root/a", Tiers: [3]int64{5, 55, 0}, Refused: 140,
	}, all["root/a"]["cpu_milli"])
	require.Equal(t, pool.DimensionStatus{
		Dimension: "cpu_milli", Reservation: 0, Limit: cluster.NoLimit, Share: 1, Demand: 90, Allocation: 10,
		Entitlement: 40, Ceiling: 40, Claimed: 40, BoundBy: "root/a", Tiers: [3]int64{0, 40, 0}, Refused: 60,
	}, all["root/a/x"]["cpu_milli"])
	require.Equal(t, cluster.PoolPath("root/a/y"), all["root/a/y"]["cpu_milli"].BoundBy, "its own limit")
	require.Equal(t, cluster.RootPool, all["root/a/x"]["memory_bytes"].BoundBy)
	require.Empty(t, all["root/b"]["cpu_milli"].BoundBy)
	require.Equal(t, int64(30), all["root/b"]["cpu_milli"].Entitlement)
	require.NotContains(t, all["root/b"], "memory_bytes")
	require.Equal(t, int64(100), all["root"]["cpu_milli"].Entitlement)
}

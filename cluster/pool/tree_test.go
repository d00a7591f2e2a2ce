package pool_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// cpu and cpuMemory are vectors.
func cpu(n int64) cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: n}}
}

func cpuMemory(c, m int64) cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: c, cluster.Memory: m}}
}

// claims is a pool with settings for one dimension.
func claims(path cluster.PoolPath, d cluster.Dimension, reservation, limit int64, share uint32) *cluster.Pool {
	return &cluster.Pool{Path: path, Resources: []cluster.PoolResource{
		{Dimension: d.String(), Reservation: reservation, Limit: limit, Share: share},
	}}
}

func static(p *cluster.Pool) *cluster.Pool {
	for i := range p.Resources {
		p.Resources[i].Static = true
	}
	return p
}

func root() *cluster.Pool { return &cluster.Pool{Path: cluster.RootPool} }

// Three pools with equal claims share what the demand of one leaves, and a third each when all want more.
func Example() {
	pools := []*cluster.Pool{
		root(),
		claims("root/a", cluster.CPU, 60, 300, 1),
		claims("root/b", cluster.CPU, 60, 300, 1),
		claims("root/c", cluster.CPU, 60, 300, 1),
	}
	a := pool.NewAdmission(pools, cpu(300))
	ask := func(n int64, p cluster.PoolPath) {
		a.SetQueue(p, []pool.Group{batch(0, 1, cpu(1), 0, n)})
	}
	show := func() {
		a.Run(2)
		for _, s := range a.Status()[1:] {
			fmt.Printf("%s %d %q\n", s.Path, s.Dimensions[0].Entitlement, s.Dimensions[0].BoundBy)
		}
	}
	ask(30, "root/a")
	ask(135, "root/b")
	ask(135, "root/c")
	show()
	fmt.Println("--")
	ask(150, "root/a")
	show()
	// Output:
	// root/a 30 ""
	// root/b 135 ""
	// root/c 135 ""
	// --
	// root/a 100 "root"
	// root/b 100 "root"
	// root/c 100 "root"
}

// leaf is a row of a table: settings, demand and what must come out.
type leaf struct {
	pool     *cluster.Pool
	demand   int64
	entitled int64
	reserved int64
	ceiling  int64
}

func TestWorkedExamples(t *testing.T) {
	const none = cluster.NoLimit
	c := func(path cluster.PoolPath, reservation, limit int64, share uint32) *cluster.Pool {
		return claims(path, cluster.CPU, reservation, limit, share)
	}
	tests := []struct {
		name     string
		capacity int64
		inner    []*cluster.Pool
		leaves   []leaf
	}{
		{"two pools share what the third does not ask for", 100, nil, []leaf{
			{c("root/a", 20, 100, 1), 10, 10, 10, 10},
			{c("root/b", 20, 100, 1), 80, 45, 20, 80},
			{c("root/c", 20, 100, 1), 80, 45, 20, 80},
		}},
		{"a third each, the odd unit to the first", 100, nil, []leaf{
			{c("root/a", 20, 100, 1), 50, 34, 20, 50},
			{c("root/b", 20, 100, 1), 80, 33, 20, 80},
			{c("root/c", 20, 100, 1), 80, 33, 20, 80},
		}},
		{"a third each of thousandths", 100_000, nil, []leaf{
			{c("root/a", 20_000, 100_000, 1), 50_000, 33_334, 20_000, 50_000},
			{c("root/b", 20_000, 100_000, 1), 80_000, 33_333, 20_000, 80_000},
			{c("root/c", 20_000, 100_000, 1), 80_000, 33_333, 20_000, 80_000},
		}},
		// 100 − 10 − 20 = 70 beyond the reservations, by 1 : 2 : 4 = 10 : 20 : 40.
		{"shares weigh what the reservations leave", 100, nil, []leaf{
			{c("root/a", 10, none, 1), 100, 20, 10, 100},
			{c("root/b", 20, none, 2), 100, 40, 20, 100},
			{c("root/c", 0, none, 4), 100, 40, 0, 100},
		}},
		// By 1 : 2 : 4 the first asks for less than its 10; 65 is left for the others, by 2 : 4, and 65/3 = 21⅔, 43⅓.
		{"water passes who is full", 100, nil, []leaf{
			{c("root/a", 10, none, 1), 15, 15, 10, 15},
			{c("root/b", 20, none, 2), 100, 42, 20, 100},
			{c("root/c", 0, none, 4), 100, 43, 0, 100},
		}},
		{"very unequal shares", 1_000, nil, []leaf{
			{c("root/a", 0, none, 1), 1_000, 10, 0, 1_000},
			{c("root/b", 0, none, 99), 1_000, 980, 0, 1_000},
			{c("root/c", 0, none, 1), 1_000, 10, 0, 1_000},
		}},
		{"limits cap", 100, nil, []leaf{
			{c("root/a", 0, 30, 1), 100, 30, 0, 30},
			{c("root/b", 0, none, 1), 100, 70, 0, 100},
		}},
		{"a share of 0 gets its reservation, and borrows what others leave", 100, nil, []leaf{
			{c("root/a", 30, none, 0), 100, 30, 30, 100},
			{c("root/b", 0, none, 1), 50, 50, 0, 50},
		}},
		{"shares of 0 only", 100, nil, []leaf{
			{c("root/a", 0, none, 0), 100, 0, 0, 100},
			{c("root/b", 0, none, 0), 100, 0, 0, 100},
		}},
		{"nobody asks", 100, nil, []leaf{
			{c("root/a", 20, none, 1), 0, 0, 0, 0},
			{c("root/b", 20, none, 1), 0, 0, 0, 0},
		}},
		{"a static reservation is never lent", 100, nil, []leaf{
			{static(c("root/a", 40, none, 1)), 0, 40, 40, 40},
			{c("root/b", 0, none, 1), 100, 60, 0, 60},
		}},
		{"a static pool shares beyond its reservation like any other", 100, nil, []leaf{
			{static(c("root/a", 40, none, 1)), 60, 60, 40, 60},
			{c("root/b", 0, none, 1), 100, 40, 0, 40},
		}},
		// 60 for reservations of 20 + 40 + 60, the first of which asks for 5 only: 55 by 40 : 60.
		{"reservations scale when capacity is lost", 60, nil, []leaf{
			{c("root/a", 20, none, 1), 5, 5, 5, 5},
			{c("root/b", 40, none, 1), 100, 22, 22, 100},
			{c("root/c", 60, none, 9), 100, 33, 33, 100},
		}},
		{"no capacity at all", 0, nil, []leaf{
			{static(c("root/a", 20, none, 1)), 5, 0, 0, 0},
			{c("root/b", 40, none, 1), 100, 0, 0, 0},
		}},
		// 120 by 2 : 1 is 80 : 40 at the top. Below a, where 80 is to be divided, 30 is reserved and the rest by 1 : 4.
		{"nested", 120, []*cluster.Pool{c("root/a", 30, none, 2), c("root/b", 30, none, 1)}, []leaf{
			{c("root/a/x", 30, none, 1), 100, 38, 30, 100},
			{c("root/a/y", 0, none, 4), 100, 32, 0, 100},
			{c("root/b/z", 10, none, 1), 100, 50, 10, 100},
		}},
		// a is capped at 50, so b gets its whole demand; below a the limit is divided, not the demand.
		{"a parent's limit", 120, []*cluster.Pool{c("root/a", 0, 50, 1)}, []leaf{
			{c("root/a/x", 0, none, 1), 100, 25, 0, 25},
			{c("root/a/y", 0, none, 1), 100, 25, 0, 25},
			{c("root/b", 0, none, 1), 60, 60, 0, 60},
		}},
		{"a static child of an elastic parent", 100, []*cluster.Pool{c("root/a", 40, none, 1)}, []leaf{
			{static(c("root/a/x", 40, none, 1)), 0, 40, 40, 40},
			{c("root/b", 0, none, 1), 100, 60, 0, 60},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pools := append([]*cluster.Pool{root()}, tt.inner...)
			for _, l := range tt.leaves {
				pools = append(pools, l.pool)
			}
			tree := pool.NewTree(pools, cpu(tt.capacity))
			for i, l := range tt.leaves { // what is held counts as what is asked for
				tree.SetAllocation(l.pool.Path, cpu(l.demand/2*int64(i%2)))
				tree.SetDemand(l.pool.Path, cpu(l.demand-l.demand/2*int64(i%2)))
			}
			tree.Update()
			for _, l := range tt.leaves {
				p := l.pool.Path
				require.Equal(t, cpu(l.entitled), tree.Entitlement(p), "entitlement of %s", p)
				require.Equal(t, cpu(l.reserved), tree.Reserved(p), "reserved part of %s", p)
				require.Equal(t, cpu(l.ceiling), tree.Ceiling(p), "ceiling of %s", p)
			}
		})
	}
}

func TestDominantResource(t *testing.T) {
	const gib = 1 << 30
	tests := []struct {
		name     string
		capacity cluster.Resources
		a, b     *cluster.Pool
		demand   [2]cluster.Resources
		entitled [2]cluster.Resources
	}{
		// The example of the paper: tasks <1 CPU, 4 GB> and <3 CPU, 1 GB> on <9 CPU, 18 GB>: three and two of them.
		{
			"paper", cpuMemory(9, 18),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(100, 400), cpuMemory(300, 100)},
			[2]cluster.Resources{cpuMemory(3, 12), cpuMemory(6, 2)},
		},
		{
			"a dimension that there is nothing of", cpuMemory(10, 0),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(10, 5), cpuMemory(10, 0)},
			[2]cluster.Resources{cpuMemory(5, 0), cpuMemory(5, 0)},
		},
		{
			"no share of one dimension", cpuMemory(10, 10),
			&cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: "memory_bytes", Limit: cluster.NoLimit}}},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(10, 10), cpuMemory(10, 10)},
			[2]cluster.Resources{cpuMemory(5, 0), cpuMemory(5, 5)},
		},
		{
			"paper, in thousandths and bytes", cpuMemory(9_000, 18*gib),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(1_000*77, 4*gib*77), cpuMemory(3_000*31, gib*31)},
			[2]cluster.Resources{cpuMemory(3_000, 12*gib), cpuMemory(6_000, 2*gib)},
		},
		// With twice the share, a's dominant share (memory) is twice b's (CPU): x tasks of a and y of b with
		// 4x/18 = 2·3y/9 give x = 3y; 3y + 3y ≤ 9 and 12y + y ≤ 18 give y = 18/13, memory being used up first.
		{
			"weighted", cpuMemory(9_000, 18_000),
			&cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{
				{Dimension: "cpu_milli", Limit: cluster.NoLimit, Share: 2},
				{Dimension: "memory_bytes", Limit: cluster.NoLimit, Share: 2},
			}},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(100_000, 400_000), cpuMemory(300_000, 100_000)},
			[2]cluster.Resources{cpuMemory(4_154, 16_615), cpuMemory(4_155, 1_385)},
		},
		// b is satisfied with one task; a takes what is left until memory is used up: 17/4 of its tasks.
		{
			"one has all it wants", cpuMemory(9_000, 18_000),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(100_000, 400_000), cpuMemory(3_000, 1_000)},
			[2]cluster.Resources{cpuMemory(4_250, 17_000), cpuMemory(3_000, 1_000)},
		},
		// b grows twice as fast and stops when it has all memory, at half of a's share; a goes on alone.
		{
			"one dimension ends before the other", cpuMemory(10, 4),
			&cluster.Pool{Path: "root/a"},
			claims("root/b", cluster.Memory, 0, cluster.NoLimit, 2),
			[2]cluster.Resources{cpuMemory(20, 0), cpuMemory(0, 20)},
			[2]cluster.Resources{cpuMemory(10, 0), cpuMemory(0, 4)},
		},
		// CPU ends first, at the level 5/7: 7.1 and 2.9 of it; memory stays over.
		{
			"who asks for both stops with the first", cpuMemory(10, 4),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(20, 0), cpuMemory(20, 20)},
			[2]cluster.Resources{cpuMemory(7, 0), cpuMemory(3, 3)},
		},
		// The reservation comes first; then 6 CPUs by dominant share, which is the same for both.
		{
			"reservation first", cpuMemory(9, 18),
			claims("root/a", cluster.CPU, 3, cluster.NoLimit, 1),
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(12, 0), cpuMemory(9, 0)},
			[2]cluster.Resources{cpuMemory(6, 0), cpuMemory(3, 0)},
		},
		// CPU is split into 2 and 1; their 6.7 and 3.3 of memory are rounded up to 7 and 4, of which there is one too many.
		{
			"rounding spends no more than there is", cpuMemory(3, 10),
			&cluster.Pool{Path: "root/a"},
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(3, 10), cpuMemory(3, 10)},
			[2]cluster.Resources{cpuMemory(2, 6), cpuMemory(1, 4)},
		},
		{
			"a share of 0", cpuMemory(9, 18),
			claims("root/a", cluster.CPU, 3, cluster.NoLimit, 0),
			&cluster.Pool{Path: "root/b"},
			[2]cluster.Resources{cpuMemory(12, 0), cpuMemory(12, 1)},
			[2]cluster.Resources{cpuMemory(3, 0), cpuMemory(6, 1)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := &cluster.Pool{Path: cluster.RootPool, Division: cluster.DominantResource}
			tree := pool.NewTree([]*cluster.Pool{tt.b, top, tt.a}, tt.capacity)
			tree.SetDemand("root/a", tt.demand[0])
			tree.SetDemand("root/b", tt.demand[1])
			tree.Update()
			require.Equal(t, tt.entitled[0], tree.Entitlement("root/a"))
			require.Equal(t, tt.entitled[1], tree.Entitlement("root/b"))
		})
	}
}

func TestNamedResourcesAndChangingCapacity(t *testing.T) {
	licences := func(n int64) cluster.Resources {
		return cluster.NewResources([cluster.NumDimensions]int64{}, cluster.Amount{Name: "licence", Value: n})
	}
	tree := pool.NewTree([]*cluster.Pool{root(), {Path: "root/a"}, {Path: "root/b"}}, cpu(10))
	tree.SetDemand("root/a", licences(7).Add(cpu(1)))
	tree.SetDemand("root/b", licences(7))
	tree.Update()
	require.Equal(t, cpu(1), tree.Entitlement("root/a"), "there are no licences")
	require.Equal(t, cluster.RootPool, tree.BoundBy("root/a", "licence"))
	require.Empty(t, tree.BoundBy("root/a", "cpu_milli"))
	require.Empty(t, tree.BoundBy("root/a", "never heard of"))

	tree.SetCapacity(licences(10))
	tree.Update()
	require.Equal(t, licences(5), tree.Entitlement("root/a"))
	require.Equal(t, licences(5), tree.Entitlement("root/b"))
	require.Equal(t, licences(7).Add(cpu(1)), tree.Ceiling("root/a"))
}

// What binds is the pool's own limit, or the first pool above that gets all it claims and cannot divide it widely enough.
// What pools ask for may be more than a word holds, of something that the cluster has nothing of.
func TestDemandWithoutEnd(t *testing.T) {
	for _, division := range []cluster.Division{cluster.MaxMin, cluster.DominantResource} {
		for _, capacity := range []int64{0, 10, math.MaxInt64} {
			top := root()
			top.Division = division
			tree := pool.NewTree([]*cluster.Pool{
				top, claims("root/a", cluster.CPU, math.MaxInt64, cluster.NoLimit, 1), claims("root/b", cluster.CPU, math.MaxInt64, cluster.NoLimit, 1),
			}, cpu(capacity))
			tree.SetDemand("root/a", cpu(math.MaxInt64))
			tree.SetDemand("root/b", cpu(math.MaxInt64))
			tree.Update()
			for _, of := range []func(cluster.PoolPath) cluster.Resources{tree.Entitlement, tree.Ceiling} {
				a, b := of("root/a").Fixed[cluster.CPU], of("root/b").Fixed[cluster.CPU]
				require.Equal(t, of("root").Fixed[cluster.CPU], a+b, "%v of %d", division, capacity)
			}
		}
	}
}

func TestBoundBy(t *testing.T) {
	tree := pool.NewTree([]*cluster.Pool{
		root(),
		claims("root/a", cluster.CPU, 0, 50, 1),
		{Path: "root/a/x"},
		claims("root/a/y", cluster.CPU, 0, 20, 1),
		{Path: "root/b"},
		{Path: "root/c"},
	}, cpu(100))
	for leaf, demand := range map[cluster.PoolPath]int64{"root/a/x": 60, "root/a/y": 40, "root/b": 20, "root/c": 100} {
		tree.SetDemand(leaf, cpu(demand))
	}
	tree.Update()
	// 100 among a (claims 50), b (20) and c (100): 40, 20, 40. So a is bound by root and not by its own limit.
	require.Equal(t, cpu(40), tree.Entitlement("root/a"))
	require.Equal(t, cluster.RootPool, tree.BoundBy("root/a/x", "cpu_milli"))
	require.Equal(t, cluster.PoolPath("root/a/y"), tree.BoundBy("root/a/y", "cpu_milli"))
	require.Empty(t, tree.BoundBy("root/b", "cpu_milli"))
	tree.SetDemand("root/c", cpu(0))
	tree.Update()
	require.Equal(t, cluster.PoolPath("root/a"), tree.BoundBy("root/a/x", "cpu_milli"))
}

func TestTreePanicsForMisuse(t *testing.T) {
	tree := pool.NewTree([]*cluster.Pool{root(), {Path: "root/a"}}, cpu(1))
	require.Panics(t, func() { tree.SetDemand("root", cpu(1)) }, "not a leaf")
	require.Panics(t, func() { tree.Entitlement("root/b") }, "no such pool")
	require.Panics(t, func() { pool.NewTree([]*cluster.Pool{root(), {Path: "root/a/b"}}, cpu(1)) }, "no parent")
}

package pool_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// TestWhatALeafClaims: whole tasks below its limit and the one that waits at the head, and of what may not be preempted no more than the
// reservation.
func TestWhatALeafClaims(t *testing.T) {
	claim := func(leaf *cluster.Pool, groups ...pool.Group) cluster.Resources {
		a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpuMemory(100, 100))
		a.SetQueue(leaf.Path, groups)
		a.Run(10)
		return a.Tree().Claim(leaf.Path)
	}
	fixed := batch(0, 1, cpuMemory(1, 1), 1, 9)
	fixed.Preemptible = false
	require.Equal(t, cpuMemory(4+2+3, 4+2+3), claim(claims("root/a", cluster.CPU, 4, 50, 1), fixed, batch(0, 2, cpuMemory(1, 1), 2, 3)))
	// Two of four fit, and the third is the head; the other group has none of its own.
	require.Equal(t, cpuMemory(10, 1+2+1), claim(claims("root/a", cluster.CPU, 0, 10, 1), batch(0, 1, cpuMemory(3, 1), 1, 4), batch(0, 2, cpuMemory(3, 1), 0, 4)))
	require.Equal(t, cpuMemory(10, 1+1+1+1), claim(claims("root/a", cluster.CPU, 0, 10, 1), batch(0, 1, cpuMemory(3, 1), 1, 1), batch(0, 2, cpuMemory(3, 1), 0, 4)))

	// Who fills the limit and asks for no memory does not keep others from a claim to it: not who is more urgent,
	leaf := claims("root/a", cluster.CPU, 0, 10, 1)
	require.Equal(t, cpuMemory(10, 7), claim(leaf, batch(0, 1, cpu(1), 10, 9), batch(1, 2, cpuMemory(1, 1), 0, 7)))
	require.Equal(t, cpuMemory(10, 3+1), claim(leaf, batch(1, 1, cpu(1), 7, 0), batch(0, 2, cpuMemory(1, 1), 0, 7)), "and the head's")
	fixed = batch(0, 1, cpu(1), 8, 0)
	fixed.Preemptible = false
	require.Equal(t, cpuMemory(10, 2+1), claim(leaf, fixed, batch(1, 2, cpuMemory(1, 1), 0, 7)))
	// nor a job that is to have as much, whichever of them runs; and one unit is its head's. It is never less than what the leaf has.
	leaf.Order = cluster.FairJobs
	job := func(uid cluster.JobUID, request cluster.Resources, running, waiting int64) pool.Group {
		g := batch(0, cluster.Time(uid), request, running, waiting)
		g.Job = uid
		return g
	}
	require.Equal(t, cpuMemory(10, 5+1), claim(leaf, job(1, cpu(1), 10, 20), job(2, cpuMemory(1, 1), 0, 20)))
	require.Equal(t, cpuMemory(10, 5+1), claim(leaf, job(1, cpu(1), 6, 20), job(2, cpuMemory(1, 1), 4, 20)))
	require.Equal(t, cpuMemory(10, 7), claim(leaf, job(1, cpu(1), 3, 20), job(2, cpuMemory(1, 1), 7, 20)))
}

// TestNoPartIsForWhatIsNotClaimed: what a job may not have for want of a reservation makes its part of a limit no smaller.
func TestNoPartIsForWhatIsNotClaimed(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, 10, 1)
	leaf.Order = cluster.FairJobs
	capacity, request := cpuMemory(100, 100), cpu(1)
	capacity.Fixed[cluster.GPU], request.Fixed[cluster.GPU] = 100, 1
	fixed := owned(batch(0, 1, request, 0, 10), 1, "ann")
	fixed.Preemptible = false
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf, claims("root/b", cluster.CPU, 1, cluster.NoLimit, 1)}, capacity)
	a.SetQueue(leaf.Path, []pool.Group{fixed, owned(batch(0, 2, cpu(1), 0, 10), 1, "ann"), owned(batch(0, 3, cpuMemory(1, 1), 0, 20), 2, "ann")})
	a.Run(10)
	require.Equal(t, cpuMemory(10, 5+1), a.Tree().Claim(leaf.Path), "and the head's")
}

// TestWhoHasWhatRoundingLeavesChangesNoShare: below a limit of memory four jobs have their parts in whole tasks, and what these leave over is
// one more task of the first and the second, or of the second and the fourth. If the leaf claimed the CPUs of whoever has it, the parts
// would be others each time, and tasks be stopped for each other in turn for ever.
func TestWhoHasWhatRoundingLeavesChangesNoShare(t *testing.T) {
	capacity := cpuMemory(100_000, 100_000)
	capacity.Fixed[cluster.GPU] = 100_000
	leaf := claims("root/a", cluster.Memory, 0, 183, 1)
	leaf.Resources = append(leaf.Resources,
		cluster.PoolResource{Dimension: cluster.CPU.String(), Limit: 146, Share: 1}, cluster.PoolResource{Dimension: cluster.GPU.String(), Limit: 370, Share: 1})
	leaf.Order = cluster.FairJobs
	status := func(running ...int64) pool.Status {
		all, groups := []int64{26, 212, 7, 193}, make([]pool.Group, 4)
		for i, request := range []cluster.Resources{cpuMemory(1, 3), cpuMemory(0, 2), cpuMemory(2, 1), cpuMemory(3, 1)} {
			request.Fixed[cluster.GPU] = []int64{2, 1, 0, 0}[i]
			groups[i] = owned(batch(0, cluster.Time(i), request, running[i], all[i]-running[i]), cluster.JobUID(i+1), "ann")
		}
		a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, capacity)
		a.SetQueue(leaf.Path, groups)
		a.Run(10)
		return a.Status()[1]
	}
	require.Equal(t, status(26, 39, 7, 20).Shares, status(25, 40, 7, 21).Shares)
}

// TestWhoIsNextIsTheSameWhoeverRuns: of three CPUs ann has two and bob one. A job of his that has two leaves one to her, and waits then before
// his other job, which asks for GPUs. If he claimed these while it runs, and not while it waits, the parts would be others each time, and tasks
// be stopped for each other in turn for ever.
func TestWhoIsNextIsTheSameWhoeverRuns(t *testing.T) {
	capacity, gpu := cpuMemory(100, 100), cpu(1)
	capacity.Fixed[cluster.GPU], gpu.Fixed[cluster.GPU] = 8, 2
	leaf := claims("root/a", cluster.CPU, 0, 3, 1)
	leaf.Order = cluster.FairUsers
	claim := func(ann, bob int64) cluster.Resources {
		a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, capacity)
		others, first, ahead := batch(0, 3, cpu(1), ann, 5-ann), batch(0, 0, cpu(1), bob, 0), batch(0, 2, cpu(1), 0, 2-bob)
		ahead.Ahead = true
		a.SetQueue(leaf.Path, []pool.Group{owned(others, 1, "ann"), owned(first, 2, "bob"), owned(batch(0, 1, gpu, 0, 8), 3, "bob"), owned(ahead, 2, "bob")})
		a.Run(10)
		return a.Tree().Claim(leaf.Path)
	}
	require.Equal(t, claim(2, 1), claim(1, 2))
	require.Equal(t, cpu(3), claim(2, 1))
}

// TestWhoNeverFitsBelowALimitClaimsNothing: nor does it take from the part of its user, since it can have none of that.
func TestWhoNeverFitsBelowALimitClaimsNothing(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, 10, 1)
	leaf.Resources = append(leaf.Resources, cluster.PoolResource{Dimension: cluster.GPU.String(), Limit: 1, Share: 1})
	capacity, pair, single := cpuMemory(100, 100), cpu(1), cpu(1)
	capacity.Fixed[cluster.GPU], pair.Fixed[cluster.GPU], single.Fixed[cluster.GPU] = 8, 2, 1
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, capacity)
	never := owned(batch(0, 1, pair, 0, 10), 1, "ann")
	a.SetQueue(leaf.Path, []pool.Group{never, owned(batch(0, 2, cpu(1), 0, 20), 2, "ann")})
	a.Run(10)
	require.Equal(t, cpu(10), a.Tree().Claim(leaf.Path))

	leaf.Order = cluster.FairUsers
	a = pool.NewAdmission([]*cluster.Pool{root(), leaf}, capacity)
	a.SetQueue(leaf.Path, []pool.Group{
		never, owned(batch(0, 2, cpu(1), 0, 20), 2, "ann"), owned(batch(0, 3, single, 0, 1), 3, "bob"), owned(batch(0, 4, cpu(1), 0, 20), 4, "bob"),
	})
	a.Run(10)
	grants := a.Grants(leaf.Path)
	require.Equal(t, []int64{0, 5, 1, 4}, []int64{grants[0].Admitted(), grants[1].Admitted(), grants[2].Admitted(), grants[3].Admitted()})
}

// TestALimitBoundsWhatLeavesBelowItClaim: a pool with room for ten tasks does not claim the memory of a hundred, so that two others which
// want all of it are entitled to nearly half each.
func TestALimitBoundsWhatLeavesBelowItClaim(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), claims("root/p", cluster.CPU, 0, 10, 1), {Path: "root/p/a"}, {Path: "root/p/b"}, {Path: "root/q"}, {Path: "root/r"},
	}, cpuMemory(100, 91))
	for _, leaf := range []cluster.PoolPath{"root/p/a", "root/q", "root/r"} {
		a.SetQueue(leaf, []pool.Group{batch(0, 1, cpuMemory(1, 1), 0, 100)})
	}
	a.Run(10)
	require.Equal(t, cpuMemory(10, 10+1), a.Tree().Claim("root/p"), "and the head's")
	require.Equal(t, cpuMemory(45, 40), a.Tree().Entitlement("root/q"))
	require.Equal(t, cpuMemory(45, 40), a.Tree().Entitlement("root/r"))
	for _, d := range a.Status()[2].Dimensions {
		require.Equal(t, cluster.PoolPath("root/p"), d.BoundBy, d.Dimension)
	}
}

// TestALimitLeavesAsksInProportion: what a leaf is entitled to by dominant resources does not fall as more of its tasks wait for a limit above.
func TestALimitLeavesAsksInProportion(t *testing.T) {
	for _, waiting := range []int64{10, 11, 20, 1000} {
		above := claims("root/p", cluster.CPU, 0, 10, 1)
		above.Division = cluster.DominantResource
		a := pool.NewAdmission([]*cluster.Pool{root(), above, {Path: "root/p/a"}, {Path: "root/p/b"}}, cpuMemory(100, 20))
		a.SetQueue("root/p/a", []pool.Group{batch(0, 1, cpuMemory(1, 1), 0, waiting)})
		a.SetQueue("root/p/b", []pool.Group{batch(0, 1, cpuMemory(0, 1), 0, 1000)})
		a.Run(10)
		require.Equal(t, cpuMemory(7, 7), a.Tree().Entitlement("root/p/a"), "of %d", waiting)
		require.Equal(t, cpuMemory(0, 13), a.Tree().Entitlement("root/p/b"), "of %d", waiting)
		if waiting > 10 {
			require.Equal(t, pool.Binding{Rule: pool.RuleLimit, Pool: "root/p", Dimension: "cpu_milli"}, a.Grants("root/p/a")[0].Why)
		}
	}
}

// TestAFairLeafAtItsLimitComesToRest: whoever runs at first, every job ends with an equal part of the CPUs, up to what whole tasks leave over, and nobody goes on being stopped for another.
func TestAFairLeafAtItsLimitComesToRest(t *testing.T) {
	const largest = 2
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := 1 + r.Int64N(60)
		leaf := claims("root/a", cluster.CPU, 0, limit, 1)
		leaf.Order = cluster.FairJobs
		jobs := make([]pool.Group, 2+r.IntN(5))
		for i := range jobs {
			jobs[i] = batch(0, cluster.Time(i), cpuMemory(1+r.Int64N(largest), r.Int64N(4)), 0, 1+r.Int64N(40))
			jobs[i].Job = cluster.JobUID(i + 1)
		}
		for left, k := limit, 0; k < 2*len(jobs); k++ { // some jobs have all they can at first
			g := &jobs[r.IntN(len(jobs))]
			n := min(g.Waiting, left/g.Request.Fixed[cluster.CPU])
			g.Running, g.Waiting = g.Running+n, g.Waiting-n
			left -= n * g.Request.Fixed[cluster.CPU]
		}
		a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpuMemory(1000, 10_000))
		moved, rounds := true, 0
		for ; moved && rounds < 20; rounds++ {
			moved = false
			a.SetQueue(leaf.Path, jobs)
			a.Run(cluster.Time(100 + rounds))
			for i, grant := range a.Grants(leaf.Path) {
				g := &jobs[i]
				starts := grant.Waiting[cluster.TierReserved] + grant.Waiting[cluster.TierEntitled]
				moved = moved || starts > 0
				g.Running, g.Waiting = g.Running+starts, g.Waiting-starts
			}
			for i, grant := range a.Grants(leaf.Path) {
				if n := grant.Running[cluster.TierBorrowed]; moved {
					jobs[i].Running, jobs[i].Waiting = jobs[i].Running-n, jobs[i].Waiting+n
				}
			}
		}
		require.False(t, moved, "seed %d", seed)
		for i := range jobs {
			for k := range jobs {
				least, most := &jobs[i], &jobs[k]
				if least.Waiting > 0 { // what rounding to whole tasks leaves over may go to one of them
					require.LessOrEqual(t, most.Running*most.Request.Fixed[cluster.CPU],
						least.Running*least.Request.Fixed[cluster.CPU]+largest+int64(len(jobs)), "seed %d: %+v", seed, jobs)
				}
			}
		}
	}
}

package pool_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// Parts of a limit that are less than a task start nobody: who has waited longest has what they leave over, and nobody else
// while that is not enough for one more.
func TestLeavesShareWhatALimitLeavesOver(t *testing.T) {
	pools := func(limit int64) []*cluster.Pool {
		return []*cluster.Pool{root(), claims("root/p", cluster.CPU, 0, limit, 1), {Path: "root/p/a"}, {Path: "root/p/b"}}
	}
	admitted := func(a *pool.Admission, p cluster.PoolPath) (n int64) {
		for _, g := range a.Grants(p) {
			n += g.Admitted()
		}
		return n
	}
	a := pool.NewAdmission(pools(1000), cpu(8000))
	a.SetQueue("root/p/a", []pool.Group{batch(9, 20, cpu(1000), 0, 2)})
	a.SetQueue("root/p/b", []pool.Group{batch(0, 10, cpu(1000), 0, 2)})
	a.Run(30)
	require.Zero(t, admitted(a, "root/p/a"))
	require.EqualValues(t, 1, admitted(a, "root/p/b"))

	late := batch(0, 10, cpu(1000), 0, 2)
	late.Passed = true // there is no host for it
	a.SetQueue("root/p/b", []pool.Group{late})
	a.Regrant()
	require.EqualValues(t, 1, admitted(a, "root/p/a"))
	require.Zero(t, admitted(a, "root/p/b"))

	a.SetQueue("root/p/a", []pool.Group{batch(9, 20, cpu(1000), 1, 1)})
	a.SetQueue("root/p/b", []pool.Group{batch(0, 10, cpu(1000), 0, 2)})
	a.Run(40)
	require.Zero(t, admitted(a, "root/p/a")+admitted(a, "root/p/b"), "the limit is reached")

	a = pool.NewAdmission(pools(3000), cpu(8000))
	gang := batch(0, 10, cpu(1000), 0, 2)
	gang.Job, gang.Core = 7, 2
	a.SetQueue("root/p/a", []pool.Group{gang})
	a.SetQueue("root/p/b", []pool.Group{batch(0, 20, cpu(1000), 0, 5)})
	a.Run(30)
	require.EqualValues(t, 2, admitted(a, "root/p/a"))
	require.EqualValues(t, 1, admitted(a, "root/p/b"))
	require.Equal(t, pool.RuleEntitlement, a.Grants("root/p/a")[0].Why.Rule, "what kept it out lets it borrow only")
	require.Equal(t, pool.RuleLimit, a.Grants("root/p/b")[0].Why.Rule)
}

// What a static pool reserves stays free of what borrows, and what the parts of the others leave over of the rest does not.
func TestAStaticReservationIsNotBorrowed(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{root(), static(claims("root/a", cluster.CPU, 40, cluster.NoLimit, 1)), {Path: "root/b"}, {Path: "root/c"}}, cpu(100))
	a.SetQueue("root/b", []pool.Group{batch(0, 10, cpu(8), 0, 9)})
	a.SetQueue("root/c", []pool.Group{batch(0, 20, cpu(8), 0, 9)})
	a.Run(30)
	require.EqualValues(t, 4, a.Grants("root/b")[0].Admitted())
	require.EqualValues(t, 3, a.Grants("root/c")[0].Admitted())
	require.Equal(t, pool.Binding{Rule: pool.RuleStatic, Pool: "root", Dimension: cluster.CPU.String()}, a.Grants("root/c")[0].Why)

	a.SetQueue("root/a", []pool.Group{batch(0, 30, cpu(8), 0, 9)})
	a.Run(40)
	require.GreaterOrEqual(t, a.Grants("root/a")[0].Admitted(), int64(5))
}

// What others have beyond their part already is not lent once more beside a static reservation.
func TestAStaticReservationIsNotBorrowedBesideWhatRuns(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), static(claims("root/a", cluster.CPU, 40, cluster.NoLimit, 1)), claims("root/b", cluster.CPU, 0, cluster.NoLimit, 0), claims("root/c", cluster.CPU, 0, cluster.NoLimit, 0),
	}, cpu(100))
	a.SetQueue("root/b", []pool.Group{batch(0, 10, cpu(1), 60, 0)})
	a.SetQueue("root/c", []pool.Group{batch(0, 20, cpu(1), 0, 60)})
	a.Run(30)
	require.Zero(t, a.Grants("root/c")[0].Admitted())
	require.Equal(t, pool.Binding{Rule: pool.RuleStatic, Pool: "root", Dimension: cluster.CPU.String()}, a.Grants("root/c")[0].Why)

	a.SetQueue("root/b", []pool.Group{batch(0, 10, cpu(1), 50, 0), batch(1, 40, cpu(1), 0, 60)})
	a.Run(50)
	require.EqualValues(t, 10, a.Grants("root/b")[1].Admitted()+a.Grants("root/c")[0].Admitted(), "nobody leaves for what only borrows")
}

// Nor is what the others had left over to have, and what has begun by that is not lent again to whom its own part would do, when the one is passed
// over who was to have that.
func TestAStaticReservationIsNotBorrowedBesideWhatHasBegun(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{
		root(), static(claims("root/a", cluster.CPU, 11, cluster.NoLimit, 1)), claims("root/b", cluster.CPU, 0, cluster.NoLimit, 0), claims("root/c", cluster.CPU, 0, cluster.NoLimit, 0),
	}, cpu(18))
	first, second := batch(1, 10, cpu(1), 0, 1), batch(0, 20, cpu(4), 0, 1)
	a.SetQueue("root/b", []pool.Group{first, second})
	a.SetQueue("root/c", []pool.Group{batch(0, 15, cpu(1), 0, 6)})
	a.Run(40)
	require.EqualValues(t, 1, a.Grants("root/b")[0].Admitted())
	require.Zero(t, a.Grants("root/b")[1].Admitted())
	require.EqualValues(t, 6, a.Grants("root/c")[0].Admitted())

	first.Passed = true // there is no host for it
	a.SetQueue("root/b", []pool.Group{first, second})
	a.SetQueue("root/c", []pool.Group{batch(0, 15, cpu(1), 6, 0)})
	a.Regrant()
	require.Zero(t, a.Grants("root/b")[1].Admitted())
	require.Equal(t, pool.Binding{Rule: pool.RuleStatic, Pool: "root", Dimension: cluster.CPU.String()}, a.Grants("root/b")[1].Why)
}

// Nor is what one user of a pool has beyond his part: who may have nobody else leave, for what he borrows of the memory, has of the CPUs what is
// left of them.
func TestAStaticReservationIsNotBorrowedBesideOtherUsers(t *testing.T) {
	b := claims("root/b", cluster.Memory, 0, cluster.NoLimit, 0)
	b.Order = cluster.FairUsers
	a := pool.NewAdmission([]*cluster.Pool{root(), static(claims("root/a", cluster.CPU, 2, cluster.NoLimit, 1)), b}, cpuMemory(7, 9))
	one, other := batch(0, 10, cpuMemory(1, 1), 4, 0), batch(0, 20, cpuMemory(1, 1), 0, 3)
	one.User, other.User = "one", "other"
	a.SetQueue("root/b", []pool.Group{one, other})
	a.Run(30)
	require.EqualValues(t, 1, a.Grants("root/b")[1].Admitted())
	require.Equal(t, pool.Binding{Rule: pool.RuleStatic, Pool: "root", Dimension: cluster.CPU.String()}, a.Grants("root/b")[1].Why)
}

// What is left over beside what runs is so for those, too, who come when everybody had all before.
func TestNothingIsLeftOverOfWhatRuns(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{root(), claims("root/a", cluster.CPU, 10, cluster.NoLimit, 1), {Path: "root/b"}}, cpu(10))
	a.SetQueue("root/b", []pool.Group{batch(0, 1, cpu(1), 10, 0)})
	a.Run(10)
	fixed := batch(0, 2, cpu(1), 0, 3)
	fixed.Preemptible = false
	a.SetQueue("root/a", []pool.Group{fixed})
	a.Regrant()
	require.Zero(t, a.Grants("root/a")[0].Admitted())
}

// The same of what tasks do not use: half of a task's worth of slack each starts none.
func TestLeavesShareWhatSlackLeavesOver(t *testing.T) {
	a := pool.NewAdmission([]*cluster.Pool{root(), {Path: "root/a"}, {Path: "root/b"}}, cpu(10))
	g := batch(0, 1, cpu(2), 0, 1)
	g.Revocable = true
	a.SetQueue("root/a", []pool.Group{g})
	a.SetQueue("root/b", []pool.Group{g})
	a.SetSlack(cpu(2))
	a.Run(1)
	require.EqualValues(t, 1, a.Grants("root/a")[0].Admitted())
	require.Zero(t, a.Grants("root/b")[0].Admitted())
}

// The first in a leaf that has no tier does not fit below the limits of its leaf and of all above it, beside what runs and has
// been granted; or, if it may not be preempted, into the reservation or into what nobody claims of the capacity: otherwise it could wait for ever. What has been granted keeps to the limits, where nothing else ran before.
func TestNobodyWaitsForWhatNobodyUses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		slack := drawVector(t, 50, "slack")
		for _, p := range w.pools {
			p.Order = rapid.SampledFrom([]cluster.PoolOrder{cluster.PriorityFIFO, cluster.FairJobs, cluster.FairUsers}).Draw(t, "order")
		}
		idle := rapid.Bool().Draw(t, "idle")
		a := pool.NewAdmission(w.pools, w.capacity)
		a.SetSlack(slack)
		queues, jobs := map[cluster.PoolPath][]pool.Group{}, cluster.JobUID(0)
		for _, p := range w.leaves {
			groups := drawQueue(t, &jobs)
			for i := range groups {
				if idle {
					groups[i].Running = 0
				}
			}
			queues[p] = groups
			a.SetQueue(p, groups)
		}
		a.Run(60)
		limits := map[cluster.PoolPath][2]cluster.Resources{} // and of what is revocable
		used := map[cluster.PoolPath]*[2]cluster.Resources{}
		for _, p := range w.pools {
			var own, lent cluster.Resources
			for _, d := range dimensions {
				own.Fixed[d], lent.Fixed[d] = setting(p, d).Limit, cluster.NoLimit
			}
			if p.Path == cluster.RootPool {
				lent = slack
			}
			limits[p.Path], used[p.Path] = [2]cluster.Resources{own, lent}, &[2]cluster.Resources{}
		}
		reserves := func(d cluster.Dimension) bool {
			return slices.ContainsFunc(w.pools, func(p *cluster.Pool) bool { return setting(p, d).Reservation > 0 })
		}
		onlyReserved := func(g *pool.Group) bool {
			return !g.Preemptible && !g.Revocable && slices.ContainsFunc(dimensions, func(d cluster.Dimension) bool { return g.Request.Fixed[d] > 0 && reserves(d) })
		}
		kind := func(g *pool.Group) int {
			if g.Revocable {
				return 1
			}
			return 0
		}
		for leaf, groups := range queues {
			for i := range groups {
				g, n := &groups[i], groups[i].Running+a.Grants(leaf)[i].Admitted()
				for p := leaf; p != ""; p = p.Parent() {
					used[p][kind(g)] = used[p][kind(g)].Add(g.Request.Times(n))
				}
			}
		}
		static := func(p *cluster.Pool, d cluster.Dimension) bool {
			r := setting(p, d)
			return p.Path != cluster.RootPool && r.Static && r.Reservation > 0
		}
		// What may be used in all, without what static pools keep free for themselves.
		lendable := func(leaf cluster.PoolPath, d cluster.Dimension) int64 {
			if !slices.ContainsFunc(w.pools, func(p *cluster.Pool) bool { return static(p, d) }) {
				return cluster.NoLimit
			}
			var idle func(p *cluster.Pool) int64
			idle = func(p *cluster.Pool) (n int64) {
				for _, below := range w.pools {
					if below.Path.Parent() == p.Path {
						n += idle(below)
					}
				}
				if static(p, d) && !p.Path.Covers(leaf) {
					n = max(n, a.Tree().Reserved(p.Path).Fixed[d]-used[p.Path][0].Fixed[d])
				}
				return n
			}
			return a.Tree().Entitlement(cluster.RootPool).Fixed[d] - idle(w.pools[0])
		}
		for _, d := range dimensions {
			if most := lendable("", d); idle && most != cluster.NoLimit {
				require.LessOrEqual(t, used[cluster.RootPool][0].Fixed[d], most, d)
			}
		}
		fits := func(leaf cluster.PoolPath, g *pool.Group, more cluster.Resources) bool {
			for _, d := range dimensions {
				if most := lendable(leaf, d); !g.Revocable && most != cluster.NoLimit && more.Fixed[d] > 0 && used[cluster.RootPool][0].Fixed[d]+more.Fixed[d] > most {
					return false
				}
			}
			for p := leaf; p != ""; p = p.Parent() {
				for _, d := range dimensions {
					limit := limits[p][kind(g)].Fixed[d]
					if limit != cluster.NoLimit && more.Fixed[d] > 0 && used[p][kind(g)].Fixed[d]+more.Fixed[d] > limit {
						return false
					}
				}
			}
			return true
		}
		for p, u := range used {
			for _, d := range dimensions {
				if limit := limits[p][0].Fixed[d]; idle && limit != cluster.NoLimit {
					require.LessOrEqual(t, u[0].Fixed[d], limit, "%s of %s", d, p)
				}
			}
		}
		var claimed cluster.Resources // by what runs, may stop others, or is inside a reservation
		for leaf, groups := range queues {
			for i := range groups {
				g, n := &groups[i], a.Grants(leaf)[i].Waiting
				if onlyReserved(g) {
					n[cluster.TierEntitled] += n[cluster.TierBorrowed]
				}
				if !g.Revocable {
					claimed = claimed.Add(g.Request.Times(g.Running + n[cluster.TierReserved] + n[cluster.TierEntitled]))
				}
			}
		}
		unreserved := func(leaf cluster.PoolPath, first *pool.Group) (left cluster.Resources) {
			at := slices.IndexFunc(w.pools, func(p *cluster.Pool) bool { return p.Path == leaf })
			for _, d := range dimensions {
				if left.Fixed[d] = 1 << 60; reserves(d) {
					left.Fixed[d] = setting(w.pools[at], d).Reservation
				}
			}
			for i := range queues[leaf] {
				g, grant := &queues[leaf][i], &a.Grants(leaf)[i]
				n := grant.Waiting[cluster.TierReserved]
				if !g.Preemptible || g.Priority >= first.Priority {
					n += grant.Running[cluster.TierReserved]
				}
				if onlyReserved(g) {
					n += grant.Waiting[cluster.TierBorrowed]
				}
				if !g.Revocable {
					left = left.Sub(g.Request.Times(n))
				}
			}
			return left
		}
		for leaf, groups := range queues {
			for k := range 2 {
				var first *pool.Group
				var why pool.Binding
				for i := range groups {
					g, grant := &groups[i], &a.Grants(leaf)[i]
					before := first == nil || cmp.Or(cmp.Compare(first.Priority, g.Priority), cmp.Compare(g.Queued, first.Queued)) < 0
					if kind(g) == k && grant.Refused > 0 && before {
						first, why = g, grant.Why
					}
				}
				if first == nil {
					continue
				}
				n := int64(1)
				if i := slices.IndexFunc(groups, func(g pool.Group) bool { return g.Job == first.Job }); a.Grants(leaf)[i].Admitted() < first.Core {
					n = first.Core
				}
				more := first.Request.Times(n)
				free := fits(leaf, first, more)
				if onlyReserved(first) {
					free = free && more.Fits(w.capacity.Sub(claimed)) && more.Fits(unreserved(leaf, first))
				}
				require.False(t, free, "%+v in %s waits for %+v: %+v, %+v", *first, leaf, why, groups, a.Grants(leaf))
			}
		}
	})
}

// What may not be preempted has a reservation of CPU, and of memory, of which nobody reserves anything, or of what is left of a
// reservation that cannot be honoured, parts that are less than a task: who has waited longest has what they leave over.
func TestReservedLeavesShareWhatNobodyCanUse(t *testing.T) {
	fixed := func(queued cluster.Time, request cluster.Resources, running, waiting int64) pool.Group {
		g := batch(0, queued, request, running, waiting)
		g.Preemptible = false
		return g
	}
	for _, test := range []struct {
		name              string
		capacity, request cluster.Resources
		reservation       int64
	}{
		{"a dimension that nobody reserves", cpuMemory(20, 8), cpuMemory(1, 8), 10},
		{"a reservation after a loss", cpuMemory(1000, 0), cpuMemory(1000, 0), 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := pool.NewAdmission([]*cluster.Pool{
				root(), claims("root/a", cluster.CPU, test.reservation, cluster.NoLimit, 1), claims("root/b", cluster.CPU, test.reservation, cluster.NoLimit, 1),
			}, test.capacity)
			run := func(inA, inB pool.Group) (waitA, waitB tiers) {
				a.SetQueue("root/a", []pool.Group{inA})
				a.SetQueue("root/b", []pool.Group{inB})
				a.Run(50)
				return a.Grants("root/a")[0].Waiting, a.Grants("root/b")[0].Waiting
			}
			older, younger := run(fixed(20, test.request, 0, 2), fixed(10, test.request, 0, 2))
			require.Equal(t, tiers{}, older)
			require.Equal(t, tiers{0, 0, 1}, younger, "it may stop nobody for it")
			older, younger = run(fixed(20, test.request, 0, 2), fixed(10, test.request, 1, 1))
			require.Equal(t, []tiers{{}, {}}, []tiers{older, younger}, "it runs")
			older, younger = run(fixed(20, test.request, 0, 2), fixed(30, test.request, 0, 1))
			require.Equal(t, []tiers{{0, 0, 1}, {}}, []tiers{older, younger}, "turn by turn")

			claimed := batch(0, 1, test.request, 0, 1)
			claimed.Request.Fixed[cluster.CPU] = 0
			claimed.Request.Fixed[cluster.Memory] /= 2
			if !claimed.Request.IsZero() {
				older, younger = run(fixed(20, test.request, 0, 1), claimed)
				require.Equal(t, []tiers{{}, {0, 1, 0}}, []tiers{older, younger}, "what others claim is not left over")
			}
		})
	}

	a := pool.NewAdmission([]*cluster.Pool{root(), claims("root/a", cluster.CPU, 2, cluster.NoLimit, 1), {Path: "root/b"}}, cpuMemory(20, 8))
	a.SetQueue("root/a", []pool.Group{fixed(1, cpuMemory(1, 8), 0, 2), fixed(2, cpuMemory(3, 0), 0, 1)})
	a.SetQueue("root/b", []pool.Group{batch(0, 3, cpuMemory(1, 9), 0, 1)})
	a.Run(50)
	require.Equal(t, tiers{0, 0, 1}, a.Grants("root/a")[0].Waiting)
	require.Equal(t, tiers{}, a.Grants("root/a")[1].Waiting, "more than is reserved")

	// 8 of 10 each can be honoured, of which tasks use 6: what is left starts three more, each in another leaf.
	pools := []*cluster.Pool{root()}
	for i := range 5 {
		pools = append(pools, claims(cluster.PoolPath(fmt.Sprint("root/", i)), cluster.CPU, 10, cluster.NoLimit, 1))
	}
	a = pool.NewAdmission(pools, cpu(40))
	for _, p := range pools[1:] {
		a.SetQueue(p.Path, []pool.Group{fixed(1, cpu(3), 0, 3), fixed(2, cpu(3), 0, 3)})
	}
	a.Run(50)
	for i, p := range pools[1:] {
		want := int64(2)
		if i < 3 {
			want++
		}
		require.Equal(t, want, a.Grants(p.Path)[0].Admitted(), p.Path)
		require.Zero(t, a.Grants(p.Path)[1].Admitted(), "more than is reserved in %s", p.Path)
	}
}

package pool_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

func owned(g pool.Group, job cluster.JobUID, user string, groups ...string) pool.Group {
	g.Job, g.User, g.Groups = job, user, groups
	return g
}

// Ageing lets old work go before new work of higher priority, but not before what runs: that would stop it.
func TestAgeing(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, 10, 1)
	leaf.Ageing = 10 * time.Nanosecond
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpu(10))
	old, young := batch(0, 100, cpu(1), 0, 6), batch(3, 130, cpu(1), 0, 6)
	a.SetQueue(leaf.Path, []pool.Group{old, young})
	a.Run(159) // 5 steps and 2: 5 against 5, and the older one goes first
	require.Equal(t, tiers{0, 6, 0}, a.Grants(leaf.Path)[0].Waiting)
	require.Equal(t, tiers{0, 4, 0}, a.Grants(leaf.Path)[1].Waiting)
	a.Run(129) // 2 steps: 2 against 3
	require.Equal(t, tiers{0, 4, 0}, a.Grants(leaf.Path)[0].Waiting)
	a.Run(150)
	require.Equal(t, tiers{0, 6, 0}, a.Grants(leaf.Path)[0].Waiting)

	running := batch(1, 1, cpu(1), 8, 0)
	a.SetQueue(leaf.Path, []pool.Group{old, young, running})
	a.Run(1000)
	grants := a.Grants(leaf.Path)
	require.Equal(t, tiers{0, 2, 0}, grants[0].Waiting, "old work gets what is free")
	require.Equal(t, tiers{0, 6, 0}, grants[1].Waiting, "higher priority gets the tier of what runs")
	require.Equal(t, tiers{0, 2, 6}, grants[2].Running)

	leaf.Ageing = 0
	a = pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpu(10))
	a.SetQueue(leaf.Path, []pool.Group{old, young, running})
	a.Run(1000)
	require.Equal(t, tiers{0, 0, 0}, a.Grants(leaf.Path)[0].Waiting, "without ageing priority decides")
}

func TestRevocable(t *testing.T) {
	revocable := func(running, waiting int64) pool.Group {
		g := batch(0, 1, cpu(1), running, waiting)
		g.Revocable = true
		return g
	}
	half := uint32(50)
	limited := claims("root/b", cluster.CPU, 0, cluster.NoLimit, 3)
	limited.Limits.RevocablePercent = &half
	a := pool.NewAdmission([]*cluster.Pool{root(), claims("root/a", cluster.CPU, 10, 10, 1), limited}, cpu(10))
	a.SetQueue("root/a", []pool.Group{revocable(1, 9), batch(0, 1, cpu(1), 8, 2)})
	a.SetQueue("root/b", []pool.Group{revocable(0, 9)})
	a.Run(1)
	require.Equal(t, int64(9), a.Grants("root/a")[0].Refused, "no slack has been measured")
	require.Equal(t, tiers{0, 0, 1}, a.Grants("root/a")[0].Running)
	require.Equal(t, pool.Binding{Rule: pool.RuleSlack, Pool: "root/a", Dimension: "cpu_milli"}, a.Grants("root/a")[0].Why)
	require.Equal(t, tiers{2, 0, 0}, a.Grants("root/a")[1].Waiting, "slack takes nothing from others")

	a.SetSlack(cpu(8)) // by 1 : 3 is 2 : 6; b may have half of the capacity, which leaves 3 for a, one of which it has
	a.Run(2)
	require.Equal(t, tiers{0, 0, 2}, a.Grants("root/a")[0].Waiting)
	require.Equal(t, tiers{0, 0, 5}, a.Grants("root/b")[0].Waiting)
	a.SetSlack(cpu(0))
	a.Run(3)
	require.Equal(t, int64(9), a.Grants("root/b")[0].Refused)
	a.SetSlack(cpu(20))
	a.SetCapacity(cpu(4))
	a.Run(3)
	require.Equal(t, tiers{0, 0, 2}, a.Grants("root/b")[0].Waiting, "half of the new capacity")
}

// A part of the capacity bounds revocable work in every dimension, also those that its pool says nothing of.
func TestRevocableIsBoundedInEveryDimension(t *testing.T) {
	licenses := func(n int64) cluster.Resources {
		return cluster.Resources{Named: []cluster.Amount{{Name: "license", Value: n}}}
	}
	leaf := &cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RevocablePercent: uintp(50)}}
	g := batch(0, 1, licenses(1), 0, 9)
	g.Revocable = true
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, licenses(7))
	a.SetSlack(licenses(7))
	a.SetQueue("root/a", []pool.Group{g})
	a.Run(1)
	require.Equal(t, tiers{0, 0, 3}, a.Grants("root/a")[0].Waiting)
}

func TestFairUsers(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	leaf.Order = cluster.FairUsers
	grants := admit(t, leaf, cpu(9), 10,
		owned(batch(9, 1, cpu(1), 6, 20), 1, "ann"),
		owned(batch(0, 2, cpu(1), 0, 20), 2, "bob"),
		owned(batch(0, 3, cpu(1), 1, 20), 3, "bob"),
		owned(batch(0, 4, cpu(1), 0, 1), 4, "eve"),
	)
	// eve has all she wants; ann and bob get 4 each, though ann's jobs are older and of higher priority.
	require.Equal(t, tiers{0, 4, 2}, grants[0].Running, "ann is above her share")
	require.Equal(t, tiers{0, 0, 20}, grants[0].Waiting)
	require.Equal(t, tiers{0, 3, 17}, grants[1].Waiting)
	require.Equal(t, tiers{0, 1, 0}, grants[2].Running)
	require.Equal(t, tiers{0, 0, 20}, grants[2].Waiting)
	require.Equal(t, tiers{0, 1, 0}, grants[3].Waiting)

	leaf.Order = cluster.FairJobs
	grants = admit(t, leaf, cpu(9), 10,
		owned(batch(9, 1, cpu(1), 0, 20), 1, "ann"),
		owned(batch(0, 2, cpu(1), 0, 20), 2, "ann"),
		owned(batch(0, 3, cpu(1), 0, 20), 3, "bob"),
	)
	for i := range grants {
		require.Equal(t, tiers{0, 3, 17}, grants[i].Waiting, "job %d", i+1)
	}
}

// A user who asks for memory and one who asks for CPU each get most of what they want. What whole tasks leave over goes to
// the first in the queue.
func TestFairUsersByDominantShare(t *testing.T) {
	leaf := &cluster.Pool{Path: "root/a", Order: cluster.FairUsers}
	grants := admit(t, leaf, cpuMemory(9, 18), 10,
		owned(batch(0, 1, cpuMemory(1, 4), 0, 9), 1, "ann"),
		owned(batch(0, 2, cpuMemory(3, 1), 0, 9), 2, "bob"),
	)
	require.Equal(t, tiers{0, 3, 6}, grants[0].Waiting)
	require.Equal(t, tiers{0, 2, 7}, grants[1].Waiting)
	grants = admit(t, leaf, cpu(8), 10,
		owned(batch(0, 1, cpu(1), 0, 9), 1, "ann"),
		owned(batch(0, 1, cpuMemory(1, 1), 0, 9), 2, "ann"), // there is no memory
		owned(batch(0, 2, cpu(1), 0, 9), 3, "bob"),
	)
	require.Equal(t, tiers{0, 4, 5}, grants[0].Waiting)
	require.Zero(t, grants[1].Waiting[cluster.TierEntitled])
	require.Equal(t, tiers{0, 4, 5}, grants[2].Waiting)
	grants = admit(t, leaf, cpu(10), 10,
		owned(batch(0, 1, cpu(3), 0, 9), 1, "ann"),
		owned(batch(0, 2, cpu(3), 0, 9), 2, "bob"),
	)
	require.Equal(t, tiers{0, 2, 7}, grants[0].Waiting, "one of 5 each, and one more where the rest is enough")
	require.Equal(t, tiers{0, 1, 8}, grants[1].Waiting)
	grants = admit(t, leaf, cpu(10), 10,
		owned(batch(0, 1, cpu(3), 3, 0), 1, "ann"),
		owned(batch(0, 2, cpu(3), 0, 9), 2, "bob"),
	)
	require.Equal(t, tiers{0, 2, 1}, grants[0].Running, "what runs comes first there, too")
	require.Equal(t, tiers{0, 1, 8}, grants[1].Waiting)
	passed := owned(batch(0, 1, cpu(3), 0, 9), 1, "ann")
	passed.Passed = true
	grants = admit(t, leaf, cpu(10), 10, passed, owned(batch(0, 2, cpu(3), 0, 9), 2, "bob"))
	require.Zero(t, grants[0].Admitted())
	require.Equal(t, tiers{0, 3, 6}, grants[1].Waiting, "there is no host for ann's")
}

// TestWhatFewAskForIsNotScarce: ten GPUs that nobody else wants make nobody's part of the CPUs smaller.
func TestWhatFewAskForIsNotScarce(t *testing.T) {
	capacity := cpu(64)
	capacity.Fixed[cluster.GPU] = 100
	devices := cpu(4)
	devices.Fixed[cluster.GPU] = 1
	leaf := &cluster.Pool{Path: "root/a", Order: cluster.FairUsers}
	grants := admit(t, leaf, capacity, 10, owned(batch(0, 1, cpu(1), 0, 1000), 1, "ann"), owned(batch(0, 2, devices, 0, 8), 2, "bob"))
	require.Equal(t, tiers{0, 32, 968}, grants[0].Waiting)
	require.Equal(t, tiers{0, 8, 0}, grants[1].Waiting)

	inner := &cluster.Pool{Path: "root/a", Division: cluster.DominantResource}
	tree := pool.NewTree([]*cluster.Pool{root(), inner, {Path: "root/a/x"}, {Path: "root/a/y"}}, capacity)
	tree.SetDemand("root/a/x", cpu(1000))
	all := cpu(32)
	all.Fixed[cluster.GPU] = 8
	tree.SetDemand("root/a/y", all)
	tree.Update()
	require.Equal(t, all, tree.Entitlement("root/a/y"))

	capacity.Fixed[cluster.GPU] = 8
	tree.SetCapacity(capacity)
	one := cpu(8)
	one.Fixed[cluster.GPU] = 8
	tree.SetDemand("root/a/y", one)
	tree.Update()
	require.Equal(t, int64(7), tree.Entitlement("root/a/y").Fixed[cluster.GPU], "of all GPUs; the other has 57 of 64 CPUs")
	capacity.Fixed[cluster.GPU] = 100
	tree.SetCapacity(capacity)
	tree.Update()
	require.Equal(t, one, tree.Entitlement("root/a/y"), "when there are more, though its parent has no more of them")
}

// TestStatusTellsWhatPartiesMayClaim: the shares of a leaf that is fair are its entitlement, by user.
func TestStatusTellsWhatPartiesMayClaim(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	leaf.Order = cluster.FairUsers
	a := pool.NewAdmission([]*cluster.Pool{root(), leaf}, cpu(9))
	a.SetQueue(leaf.Path, []pool.Group{
		owned(batch(0, 1, cpu(1), 6, 20), 1, "bob"), owned(batch(0, 2, cpu(1), 0, 20), 2, "ann"), owned(batch(0, 4, cpu(1), 0, 1), 3, "eve"),
	})
	a.Run(10)
	require.Equal(t, []pool.Share{
		{Party: pool.Party{User: "ann"}, Amount: cpu(4)}, {Party: pool.Party{User: "bob"}, Amount: cpu(4)}, {Party: pool.Party{User: "eve"}, Amount: cpu(1)},
	}, a.Status()[1].Shares)
}

// A user's part has the proportions of all that the user asks for. What that leaves of a dimension is divided too, or else who
// asks for more of it than the others of the same user would wait until these have ended.
func TestFairUsersWithUnlikeTasks(t *testing.T) {
	leaf := &cluster.Pool{Path: "root/a", Order: cluster.FairUsers}
	gang := batch(0, 1, cpuMemory(3, 5), 0, 4)
	gang.Core = 4
	grants := admit(t, leaf, cpuMemory(16, 40), 10,
		owned(gang, 1, "ann"),
		owned(batch(0, 1, cpuMemory(1, 1), 0, 40), 2, "ann"),
	)
	require.Equal(t, tiers{0, 4, 0}, grants[0].Waiting)
	require.Equal(t, tiers{0, 4, 36}, grants[1].Waiting)
	grants = admit(t, leaf, cpuMemory(16, 40), 10,
		owned(batch(0, 1, cpuMemory(1, 2), 0, 9), 1, "ann"),
		owned(batch(0, 1, cpu(1), 0, 9), 2, "ann"),
		owned(batch(0, 2, cpuMemory(1, 1), 0, 9), 3, "bob"),
	)
	require.Equal(t, tiers{0, 8, 1}, grants[0].Waiting)
	require.Equal(t, tiers{0, 0, 9}, grants[1].Waiting)
	require.Equal(t, tiers{0, 8, 1}, grants[2].Waiting)
}

func TestRunningJobs(t *testing.T) {
	limited := func(l cluster.PoolLimits) []*cluster.Pool {
		return []*cluster.Pool{root(), {Path: "root/a", Limits: l}, {Path: "root/a/x"}, {Path: "root/a/y"}}
	}
	x := []pool.Group{
		owned(batch(0, 1, cpu(1), 1, 1), 1, "ann", "red"),
		owned(batch(0, 5, cpu(1), 0, 1), 2, "ann", "red"),
		owned(batch(0, 6, cpu(1), 0, 1), 3, "bob", "blue", "red"),
	}
	y := []pool.Group{
		owned(batch(0, 4, cpu(1), 0, 1), 4, "ann", "red"),
		owned(batch(1, 9, cpu(1), 0, 1), 5, "eve", "blue"),
		owned(batch(1, 9, cpu(2), 0, 1), 5, "eve", "blue"),
	}
	tests := []struct {
		name   string
		limits cluster.PoolLimits
		in     []cluster.JobUID
		rule   pool.Rule
	}{
		{"no limit", cluster.PoolLimits{}, []cluster.JobUID{1, 2, 3, 4, 5}, ""},
		{"jobs, by rank and across leaves", cluster.PoolLimits{RunningJobs: uintp(3)}, []cluster.JobUID{1, 4, 5}, pool.RuleRunningJobs},
		{"users", cluster.PoolLimits{RunningJobsPerUser: uintp(1)}, []cluster.JobUID{1, 3, 5}, pool.RuleRunningUser},
		{"groups", cluster.PoolLimits{RunningJobsPerGroup: uintp(2)}, []cluster.JobUID{1, 4, 5}, pool.RuleRunningGroup},
		{"none at all", cluster.PoolLimits{RunningJobs: uintp(0)}, []cluster.JobUID{1}, pool.RuleRunningJobs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := pool.NewAdmission(limited(tt.limits), cpu(100))
			a.SetQueue("root/a/x", x)
			a.SetQueue("root/a/y", y)
			a.Run(10)
			in := map[cluster.JobUID]bool{}
			for _, uid := range tt.in {
				in[uid] = true
			}
			for path, groups := range map[cluster.PoolPath][]pool.Group{"root/a/x": x, "root/a/y": y} {
				for i, grant := range a.Grants(path) {
					if in[groups[i].Job] {
						require.Equal(t, int64(1), grant.Admitted(), "job %d", groups[i].Job)
						continue
					}
					require.Equal(t, int64(1), grant.Refused, "job %d", groups[i].Job)
					require.Equal(t, pool.Binding{Rule: tt.rule, Pool: "root/a"}, grant.Why, "job %d", groups[i].Job)
				}
			}
			// When the running job has ended, the next one comes in, also in a leaf whose queue has not changed.
			if tt.name == "jobs, by rank and across leaves" {
				a.SetQueue("root/a/y", nil)
				a.Run(11)
				require.Equal(t, int64(1), a.Grants("root/a/x")[2].Admitted())
			}
		})
	}
}

// A job whose last task leaves, to wait again or for good, runs until that is gone: no other begins in its place before, however urgent.
func TestAJobRunsUntilItsLastTaskIsGone(t *testing.T) {
	leaf := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	leaf.Limits.RunningJobs = uintp(1)
	for _, waits := range []int64{0, 1} {
		leaves := owned(batch(0, 1, cpu(1), 0, waits), 1, "ann")
		leaves.Leaving, leaves.Ahead = 1, true
		grants := admit(t, leaf, cpu(9), 10, leaves, owned(batch(5, 2, cpu(1), 0, 1), 2, "bob"))
		require.Equal(t, waits, grants[0].Admitted())
		require.Equal(t, pool.Binding{Rule: pool.RuleRunningJobs, Pool: "root/a"}, grants[1].Why)
	}
}

// TestWhoCannotStartKeepsNobodyOut: where a limit counts what runs, those come last whom nobody who ends could let in.
func TestWhoCannotStartKeepsNobodyOut(t *testing.T) {
	fixed := func(g pool.Group) pool.Group { g.Preemptible = false; return g }
	first := func(change func(*pool.Group)) []pool.Group {
		g := owned(batch(0, 1, cpu(2), 0, 2), 1, "ann")
		change(&g)
		return []pool.Group{g}
	}
	tests := map[string][]pool.Group{
		"no host now":                        first(func(g *pool.Group) { g.Passed = true }),
		"no host":                            first(func(g *pool.Group) { g.NoHost = true }),
		"larger than a limit above":          first(func(g *pool.Group) { g.Request = cpu(9) }),
		"a core larger than that":            first(func(g *pool.Group) { g.Request, g.Core = cpu(5), 2 }),
		"larger than all slack":              first(func(g *pool.Group) { g.Request, g.Revocable = cpu(4), true }),
		"not preemptible, and not reserved":  {fixed(owned(batch(0, 1, cpu(5), 0, 2), 1, "ann"))},
		"a job of whose core some do so":     append(first(func(g *pool.Group) { g.Core, g.NoHost = 1, true }), owned(batch(0, 0, cpu(2), 0, 2), 1, "ann")),
		"":                                   first(func(*pool.Group) {}),
		"not preemptible, and just reserved": {fixed(owned(batch(0, 1, cpu(4), 0, 2), 1, "ann"))},
	}
	for name, groups := range tests {
		leaf := claims("root/p/a", cluster.CPU, 4, cluster.NoLimit, 1)
		leaf.Limits.RunningJobs = uintp(1)
		a := pool.NewAdmission([]*cluster.Pool{root(), claims("root/p", cluster.CPU, 4, 8, 1), leaf}, cpu(100))
		a.SetSlack(cpu(3))
		a.SetQueue("root/p/a", append(groups, owned(batch(0, 2, cpu(1), 0, 1), 2, "bob")))
		a.Run(10)
		grants := a.Grants("root/p/a")
		if name == "" || name == "not preemptible, and just reserved" {
			require.Equal(t, pool.Binding{Rule: pool.RuleRunningJobs, Pool: "root/p/a"}, grants[1].Why, name)
			continue
		}
		for i := range groups {
			require.Zero(t, grants[i].Admitted(), name)
		}
		require.EqualValues(t, 1, grants[len(groups)].Admitted(), name)
	}
}

// TestWhatAJobMayRun: of a limit on the running tasks of a job its core has its part, and those who could not start come last.
func TestWhatAJobMayRun(t *testing.T) {
	group := func(queued cluster.Time, waiting int64, change func(*pool.Group)) pool.Group {
		g := owned(batch(0, queued, cpu(1), 0, waiting), 1, "ann")
		g.MaxRunning = 3
		change(&g)
		return g
	}
	leaf, limited := claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1), claims("root/a", cluster.CPU, 0, cluster.NoLimit, 1)
	limited.Limits.RunningJobs = uintp(1)
	admitted := func(groups ...pool.Group) (n [2]int64) {
		for i, grant := range admit(t, leaf, cpu(9), 10, groups...) {
			n[i] = grant.Admitted()
			require.Equal(t, n[i], admit(t, limited, cpu(9), 10, groups...)[i].Admitted(), "a limit on jobs is another one")
		}
		return n
	}
	rest, core := group(1, 5, func(g *pool.Group) { g.ForCore = 2 }), group(2, 2, func(g *pool.Group) { g.Core = 2 })
	require.Equal(t, [2]int64{1, 2}, admitted(rest, core), "the core goes first, though the others are older")
	require.Equal(t, [2]int64{1, 0}, admitted(rest), "and its part is kept")
	rest.Running = 1
	require.Equal(t, [2]int64{0, 2}, admitted(rest, core))
	require.Equal(t, [2]int64{0, 3}, admitted(group(1, 5, func(g *pool.Group) { g.NoHost = true; g.Passed = true }), group(2, 5, func(*pool.Group) {})))
}

func TestControllers(t *testing.T) {
	controller := func(queued cluster.Time, running, waiting int64) pool.Group {
		g := batch(0, queued, cpu(2), running, waiting)
		g.Controller = true
		return g
	}
	leaf := claims("root/a", cluster.CPU, 20, cluster.NoLimit, 1)
	leaf.Limits.ControllerPercent = uintp(35) // 7 of 20
	grants := admit(t, leaf, cpu(100), 10, controller(5, 1, 1), controller(2, 0, 4), batch(0, 9, cpu(2), 0, 4))
	require.Equal(t, int64(0), grants[0].Admitted())
	require.Equal(t, int64(2), grants[1].Admitted(), "the older ones")
	require.Equal(t, int64(2), grants[1].Refused)
	require.Equal(t, pool.Binding{Rule: pool.RuleController, Pool: "root/a", Dimension: "cpu_milli"}, grants[1].Why)
	require.Equal(t, int64(4), grants[2].Admitted())

	g := controller(2, 0, 4)
	g.Request.Fixed[cluster.Memory] = 1
	capacity := cpu(100)
	capacity.Fixed[cluster.Memory] = 100
	grants = admit(t, leaf, capacity, 10, g)
	require.Equal(t, int64(3), grants[0].Admitted(), "nothing is said of the memory")
	leaf.Resources[0].Reservation = 0
	grants = admit(t, leaf, capacity, 10, g)
	require.Equal(t, int64(4), grants[0].Refused, "a part of nothing")
}

func drawQueue(t *rapid.T, jobs *cluster.JobUID) []pool.Group {
	var groups []pool.Group
	for range rapid.IntRange(0, 5).Draw(t, "groups") {
		*jobs++
		g := pool.Group{
			Job: *jobs, User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), Groups: []string{"all"},
			Priority:    rapid.Int32Range(0, 3).Draw(t, "priority"),
			Queued:      cluster.Time(rapid.IntRange(1, 50).Draw(t, "queued")),
			Request:     drawVector(t, 6, "request"),
			Running:     rapid.Int64Range(0, 10).Draw(t, "running"),
			Waiting:     rapid.Int64Range(0, 30).Draw(t, "waiting"),
			Preemptible: rapid.IntRange(0, 3).Draw(t, "preemptible") > 0,
			Revocable:   rapid.IntRange(0, 5).Draw(t, "revocable") == 0,
			Controller:  rapid.IntRange(0, 5).Draw(t, "controller") == 0,
			MaxRunTime:  time.Duration(rapid.IntRange(0, 20).Draw(t, "limit")),
		}
		g.RunningUntil = cluster.Time(rapid.IntRange(0, 100).Draw(t, "until"))
		if g.Waiting > 1 && rapid.IntRange(0, 3).Draw(t, "gang") == 0 {
			g.Core = rapid.Int64Range(2, g.Waiting).Draw(t, "core")
		}
		groups = append(groups, g)
	}
	return groups
}

// drawSettings draws in which order a pool lets in and how tasks age there, and of one in so many how many jobs may run.
func drawSettings(t *rapid.T, p *cluster.Pool, limited int) {
	p.Order = rapid.SampledFrom([]cluster.PoolOrder{cluster.PriorityFIFO, cluster.PriorityFIFO, cluster.FairJobs, cluster.FairUsers}).Draw(t, "order")
	p.Ageing = time.Duration(rapid.IntRange(0, 10).Draw(t, "ageing"))
	if rapid.IntRange(0, limited-1).Draw(t, "limited") == 0 {
		p.Limits.RunningJobs = uintp(uint32(rapid.IntRange(0, 4).Draw(t, "jobs")))
	}
}

// The laws of admission on random trees and queues: every task is counted once; no bound of a leaf is exceeded by what is
// granted, and by what runs only where that alone exceeds it; cores are whole; what may not be preempted is reserved,
// borrows within the reservation of its leaf, or is refused; a waiting task gets a stronger tier than a running one that it may not stop only where there is room for both;
// and deciding step by step comes to the same as deciding once.
func TestAdmissionLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		for _, p := range w.pools {
			if drawSettings(t, p, 5); p.Limits.RunningJobs != nil {
				p.Limits.ControllerPercent = uintp(20)
			}
		}
		slack := drawVector(t, 50, "slack")
		queues := map[cluster.PoolPath][]pool.Group{}
		var jobs cluster.JobUID
		a := pool.NewAdmission(w.pools, drawVector(t, 100, "old capacity"))
		b := pool.NewAdmission(w.pools, w.capacity)
		b.SetSlack(slack)
		for _, p := range w.leaves {
			a.SetQueue(p, drawQueue(t, &jobs))
			queues[p] = drawQueue(t, &jobs)
			b.SetQueue(p, queues[p])
		}
		a.Run(50)
		a.SetCapacity(w.capacity)
		a.Run(55)
		a.SetSlack(slack)
		for _, p := range w.leaves {
			a.SetQueue(p, queues[p])
		}
		a.Run(60)
		b.Run(60)
		for _, p := range w.leaves {
			require.Equal(t, append([]pool.Grant{}, b.Grants(p)...), append([]pool.Grant{}, a.Grants(p)...), "%s, step by step", p)
			require.Equal(t, b.Tree().Entitlement(p), a.Tree().Entitlement(p))
			checkLeaf(t, b.Tree(), w.pools, p, queues[p], b.Grants(p))
		}
	})
}

// To decide anew about some queues comes to the same as to decide anew about all.
func TestRegrantLeavesQueuesThatStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		for _, p := range w.pools {
			drawSettings(t, p, 10)
		}
		var jobs cluster.JobUID
		queues, slack := map[cluster.PoolPath][]pool.Group{}, drawVector(t, 50, "slack")
		some, all := pool.NewAdmission(w.pools, w.capacity), pool.NewAdmission(w.pools, w.capacity)
		for _, a := range []*pool.Admission{some, all} {
			a.SetSlack(slack)
		}
		for round := range 4 {
			for _, p := range w.leaves {
				changes := round == 0 || rapid.Bool().Draw(t, "changes")
				if changes {
					queues[p] = drawQueue(t, &jobs)
					if rapid.IntRange(0, 9).Draw(t, "named") == 0 && len(queues[p]) > 0 {
						queues[p][0].Request = queues[p][0].Request.Add(cluster.Resources{Named: []cluster.Amount{{Name: fmt.Sprintf("licence%d", round), Value: 1}}})
					}
					some.SetQueue(p, slices.Clone(queues[p]))
				}
				all.SetQueue(p, slices.Clone(queues[p]))
			}
			for _, a := range []*pool.Admission{some, all} {
				if round == 0 {
					a.Run(60)
				} else {
					a.Regrant()
				}
			}
			for _, p := range w.leaves {
				require.Equal(t, slices.Clone(all.Grants(p)), slices.Clone(some.Grants(p)), "%s, round %d", p, round)
			}
		}
	})
}

// Whatever may differ between groups, admission can tell them apart by it.
func TestGroupsThatDifferAreNotTheSame(t *testing.T) {
	g, of := pool.Group{}, reflect.TypeFor[pool.Group]()
	require.True(t, g.Same(&pool.Group{}))
	for i := range of.NumField() {
		h := pool.Group{}
		switch f := reflect.ValueOf(&h).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Struct:
			f.Set(reflect.ValueOf(cpu(1)))
		default:
			f.Set(reflect.ValueOf(1).Convert(f.Type()))
		}
		require.False(t, g.Same(&h), of.Field(i).Name)
	}
}

func checkLeaf(t *rapid.T, tree *pool.Tree, pools []*cluster.Pool, p cluster.PoolPath, groups []pool.Group, grants []pool.Grant) {
	bounds := [cluster.NumTiers]cluster.Resources{tree.Reserved(p), tree.Entitlement(p), tree.Ceiling(p)}
	kept := map[string]bool{} // dimensions of which somebody reserves something
	for _, q := range pools {
		for _, r := range q.Resources {
			kept[r.Dimension] = kept[r.Dimension] || r.Reservation > 0
		}
	}
	for d := range cluster.NumDimensions {
		if !kept[d.String()] {
			bounds[cluster.TierReserved].Fixed[d] = bounds[cluster.TierEntitled].Fixed[d]
		}
	}
	at := slices.IndexFunc(pools, func(q *cluster.Pool) bool { return q.Path == p })
	for d, ceiling := range bounds[cluster.TierBorrowed].Fixed { // beyond it there may be what others leave over
		if limit := setting(pools[at], cluster.Dimension(d)).Limit; limit == cluster.NoLimit {
			bounds[cluster.TierBorrowed].Fixed[d] = math.MaxInt64
		} else {
			bounds[cluster.TierBorrowed].Fixed[d] = max(ceiling, limit)
		}
	}
	keeps := func(request cluster.Resources) (yes bool) {
		for d, n := range request.Fixed {
			yes = yes || n > 0 && kept[cluster.Dimension(d).String()]
		}
		return yes
	}
	var granted, running, fixed, inside cluster.Resources // fixed runs and may not be preempted, inside waits
	for i, g := range groups {
		var n int64
		for _, c := range grants[i].Running {
			n += c
		}
		require.Equal(t, g.Running, n)
		require.Equal(t, g.Waiting, grants[i].Admitted()+grants[i].Refused)
		if g.Waiting > grants[i].Waiting[cluster.TierReserved]+grants[i].Waiting[cluster.TierEntitled] && !g.Revocable {
			require.NotEmpty(t, grants[i].Why.Rule, "group %d of %s: %+v %+v", i, p, g, grants[i])
		}
		if g.Core > 0 {
			require.True(t, grants[i].Admitted() == 0 || grants[i].Admitted() >= g.Core, "%+v %+v", g, grants[i])
		}
		if !keeps(g.Request) {
			require.Zero(t, grants[i].Waiting[cluster.TierReserved])
		} else if !g.Preemptible && !g.Revocable {
			require.Zero(t, grants[i].Waiting[cluster.TierEntitled])
			inside = inside.Add(g.Request.Times(grants[i].Admitted()))
		}
		if !g.Preemptible && !g.Revocable {
			fixed = fixed.Add(g.Request.Times(g.Running))
		}
	}
	for _, d := range dimensions {
		if most := setting(pools[at], d).Reservation; kept[d.String()] && p != cluster.RootPool {
			require.LessOrEqual(t, inside.Fixed[d], most)
		}
	}
	for tier := range bounds {
		for i, g := range groups {
			if g.Revocable {
				continue
			}
			granted = granted.Add(g.Request.Times(grants[i].Waiting[tier]))
			running = running.Add(g.Request.Times(grants[i].Running[tier]))
		}
		for _, d := range dimensions {
			require.LessOrEqual(t, granted.Fixed[d], bounds[tier].Fixed[d], fmt.Sprint(p, tier))
			if cluster.Tier(tier) < cluster.TierBorrowed {
				require.LessOrEqual(t, granted.Fixed[d]+running.Fixed[d], max(bounds[tier].Fixed[d], fixed.Fixed[d]), fmt.Sprint(p, tier))
			}
		}
	}
}

// BenchmarkRun5000Groups decides anew about 1,000,000 waiting tasks in 5,000 groups, all of which changed, of leaves whose
// limits keep most of them out.
func BenchmarkRun5000Groups(b *testing.B) {
	for _, of := range []struct {
		leaves      int
		preemptible bool
	}{{50, true}, {1, true}, {1, false}} {
		leaves := of.leaves
		b.Run(fmt.Sprintf("leaves=%d preemptible=%t", leaves, of.preemptible), func(b *testing.B) {
			pools := []*cluster.Pool{root()}
			queues := make([][]pool.Group, leaves)
			for i := range queues {
				pools = append(pools, claims(cluster.PoolPath(fmt.Sprintf("root/%02d", i)), cluster.CPU, 10_000, 20_000_000/int64(leaves), uint32(i%3+1)))
				for k := range 5000 / leaves {
					queues[i] = append(queues[i], owned(batch(int32(k%5), cluster.Time(k*37%100), cpuMemory(int64(100+k%100), 1<<30), 5, 200), cluster.JobUID(i*100+k+1), "ann"))
					queues[i][k].Preemptible = of.preemptible
				}
			}
			a := pool.NewAdmission(pools, cpuMemory(4_000_000, 1<<45))
			now := cluster.Time(0)
			for b.Loop() {
				for i, p := range pools[1:] {
					a.SetQueue(p.Path, queues[i])
				}
				now++
				a.Run(now)
			}
		})
	}
}

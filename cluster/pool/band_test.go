package pool_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// TestBands asks whole bands and each of their donors. It holds between pools what each gives against the law as it is told: in one of the
// dimensions its pools, on every level, keep what they are entitled to without it.
func TestBands(t *testing.T) {
	type trait struct {
		leaf      cluster.PoolPath
		priority  int32
		revocable bool
	}
	none, some, all := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		for _, p := range w.pools {
			p.Preemption = rapid.SampledFrom([]string{"", "default", "conservative", "none"}).Draw(t, "policy")
			p.Order = rapid.SampledFrom([]cluster.PoolOrder{cluster.PriorityFIFO, cluster.FairJobs, cluster.FairUsers}).Draw(t, "order")
		}
		a := pool.NewAdmission(w.pools, w.capacity)
		for _, leaf := range w.leaves {
			var queue []pool.Group
			for job := range rapid.IntRange(0, 4).Draw(t, "groups") {
				g := batch(rapid.Int32Range(0, 1).Draw(t, "priority"), cluster.Time(job+1), drawVector(t, 4, "request"),
					rapid.Int64Range(0, 9).Draw(t, "running"), rapid.Int64Range(0, 9).Draw(t, "waiting"))
				queue = append(queue, owned(g, cluster.JobUID(job+1), rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")))
			}
			a.SetQueue(leaf, queue)
		}
		a.Run(1)
		l, entitled := a.Ledger(), map[cluster.PoolPath]map[string]int64{}
		for _, s := range a.Status() {
			entitled[s.Path] = map[string]int64{}
			for _, d := range s.Dimensions {
				entitled[s.Path][d.Dimension] = d.Entitlement
			}
		}
		drawUnit := func(label string) pool.Unit {
			return pool.Unit{
				Pool: rapid.SampledFrom(w.leaves).Draw(t, label), Job: cluster.JobUID(rapid.IntRange(1, 4).Draw(t, "job")),
				User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), Priority: rapid.Int32Range(0, 1).Draw(t, "priority"),
				Revocable: rapid.IntRange(0, 5).Draw(t, "revocable") == 0, Request: drawVector(t, 4, "request"),
			}
		}
		bands, members := map[trait]*pool.Band{}, map[trait][]*pool.Donor{}
		for range rapid.IntRange(1, 20).Draw(t, "donors") {
			u := drawUnit("of")
			for _, dim := range dimensions { // some near the bound
				spare := l.Holds(u.Pool, dim.String()) - entitled[u.Pool][dim.String()]
				u.Request.Fixed[dim] = max(0, rapid.SampledFrom([]int64{0, 1, spare - 1, spare, spare + 1}).Draw(t, "amount"))
			}
			d := l.Donor(u)
			of := trait{d.Pool, d.Priority, d.Revocable}
			if bands[of] == nil {
				bands[of] = &pool.Band{}
			}
			bands[of].Add(&d)
			members[of] = append(members[of], &d)
		}
		wants, dims := drawUnit("for"), rapid.SampledFrom([][]string{nil, cpuDim, memoryDim, slices.Concat(cpuDim, memoryDim)}).Draw(t, "dims")
		to := l.Beneficiary(wants, dims)
		for of, b := range bands {
			any, every := to.FromBand(b)
			require.True(t, any || !every)
			none, some, all = none+int(one(!any)), some+int(one(any && !every)), all+int(one(every))
			for _, d := range members[of] {
				require.Equal(t, to.Stays(d), to.StaysFor(b))
				alone := l.Beneficiary(wants, dims)
				gives := alone.Gives(d)
				require.Equal(t, gives, to.Gives(d))
				require.True(t, any || !gives, "none of them")
				require.True(t, gives || !every, "all of them")
				if wants.Revocable || d.Revocable || wants.Pool == d.Pool {
					continue
				}
				common := wants.Pool.Parent()
				for !common.Covers(d.Pool) {
					common = common.Parent()
				}
				parent := w.pools[slices.IndexFunc(w.pools, func(p *cluster.Pool) bool { return p.Path == common })]
				amount := map[string]int64{"cpu_milli": d.Request.Fixed[cluster.CPU], "memory_bytes": d.Request.Fixed[cluster.Memory]}
				lawful := parent.Preemption != "none" && slices.ContainsFunc(dims, func(dim string) bool {
					for at := d.Pool; at != common; at = at.Parent() {
						if n := amount[dim]; n == 0 || l.Holds(at, dim)-n < entitled[at][dim] {
							return false
						}
					}
					return true
				})
				require.Equal(t, lawful, gives)
			}
		}
	})
	require.Positive(t, none)
	require.Positive(t, some)
	require.Positive(t, all)
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

package pool_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

var dimensions = []cluster.Dimension{cluster.CPU, cluster.Memory}

// world is a random tree with what its leaves have and ask for.
type world struct {
	pools              []*cluster.Pool
	leaves             []cluster.PoolPath
	allocation, demand map[cluster.PoolPath]cluster.Resources
	capacity           cluster.Resources
}

func drawWorld(t *rapid.T, dominant bool) *world {
	w := &world{
		allocation: map[cluster.PoolPath]cluster.Resources{}, demand: map[cluster.PoolPath]cluster.Resources{},
		capacity: drawVector(t, 400, "capacity"),
	}
	var grow func(p *cluster.Pool, depth int)
	grow = func(p *cluster.Pool, depth int) {
		w.pools = append(w.pools, p)
		n := 0
		if depth < 3 {
			n = rapid.IntRange(0, 4).Draw(t, "children")
		}
		if depth == 0 {
			n = max(1, n)
		}
		if n == 0 {
			w.leaves = append(w.leaves, p.Path)
			w.allocation[p.Path] = drawVector(t, 60, "allocation")
			w.demand[p.Path] = drawVector(t, 200, "demand")
			return
		}
		if dominant && rapid.Bool().Draw(t, "dominant") {
			p.Division = cluster.DominantResource
		}
		for i := range n {
			child := &cluster.Pool{Path: cluster.PoolPath(fmt.Sprintf("%s/%c", p.Path, 'a'+i))}
			for _, d := range dimensions {
				if rapid.Bool().Draw(t, "set") {
					child.Resources = append(child.Resources, drawSetting(t, d))
				}
			}
			grow(child, depth+1)
		}
	}
	grow(root(), 0)
	return w
}

func drawVector(t *rapid.T, most int64, label string) cluster.Resources {
	var r cluster.Resources
	for _, d := range dimensions {
		r.Fixed[d] = rapid.Int64Range(0, most).Draw(t, label)
	}
	return r
}

// drawSetting draws what one pool may be given: it is not compared with others, so that trees break every rule between
// parents and children.
func drawSetting(t *rapid.T, d cluster.Dimension) cluster.PoolResource {
	r := cluster.PoolResource{
		Dimension:   d.String(),
		Reservation: rapid.Int64Range(0, 80).Draw(t, "reservation"),
		Limit:       cluster.NoLimit,
		Share:       rapid.SampledFrom([]uint32{0, 1, 1, 1, 2, 5, 99, 1_000_000}).Draw(t, "share"),
		Static:      rapid.IntRange(0, 4).Draw(t, "static") == 0,
	}
	if rapid.Bool().Draw(t, "limited") {
		r.Limit = r.Reservation + rapid.Int64Range(0, 100).Draw(t, "limit")
	}
	return r
}

func (w *world) tree() *pool.Tree {
	t := pool.NewTree(w.pools, w.capacity)
	for _, p := range w.leaves {
		t.SetAllocation(p, w.allocation[p])
		t.SetDemand(p, w.demand[p])
	}
	t.Update()
	return t
}

func (w *world) children(p cluster.PoolPath) []*cluster.Pool {
	var out []*cluster.Pool
	for _, q := range w.pools {
		if q.Path.Parent() == p {
			out = append(out, q)
		}
	}
	return out
}

// setting returns what a pool is given in a dimension.
func setting(p *cluster.Pool, d cluster.Dimension) cluster.PoolResource {
	for _, r := range p.Resources {
		if r.Dimension == d.String() {
			return r
		}
	}
	return cluster.PoolResource{Dimension: d.String(), Limit: cluster.NoLimit, Share: 1}
}

// No pool has more than it claims, less than the part of its reservation that can be honoured, or more than its limit;
// and children never have more than their parent.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		tree := w.tree()
		for _, p := range w.pools {
			for _, d := range dimensions {
				reserved, entitled := tree.Reserved(p.Path).Fixed[d], tree.Entitlement(p.Path).Fixed[d]
				ceiling, claim := tree.Ceiling(p.Path).Fixed[d], tree.Claim(p.Path).Fixed[d]
				if p.Path != cluster.RootPool {
					s := setting(p, d)
					require.LessOrEqual(t, int64(0), reserved)
					require.LessOrEqual(t, reserved, entitled)
					require.LessOrEqual(t, reserved, s.Reservation)
					require.LessOrEqual(t, entitled, ceiling)
					require.LessOrEqual(t, ceiling, claim)
					if s.Limit >= 0 {
						require.LessOrEqual(t, claim, s.Limit)
					}
				}
				var reservedBelow, entitledBelow, ceilingBelow int64
				for _, c := range w.children(p.Path) {
					reservedBelow += tree.Reserved(c.Path).Fixed[d]
					entitledBelow += tree.Entitlement(c.Path).Fixed[d]
					ceilingBelow += tree.Ceiling(c.Path).Fixed[d]
				}
				require.LessOrEqual(t, reservedBelow, entitled)
				require.LessOrEqual(t, entitledBelow, entitled)
				require.LessOrEqual(t, ceilingBelow, ceiling)
			}
		}
	})
}

// In max-min, whatever a parent is entitled to reaches its children, as far as they claim it and have a share or a
// reservation for it.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		tree := w.tree()
		for _, p := range w.pools {
			for _, d := range dimensions {
				var given, wanted int64
				children := w.children(p.Path)
				for _, c := range children {
					given += tree.Entitlement(c.Path).Fixed[d]
					claim, s := tree.Claim(c.Path).Fixed[d], setting(c, d)
					if s.Share == 0 {
						claim = min(claim, s.Reservation)
					}
					wanted += claim
				}
				if len(children) > 0 {
					require.Equal(t, min(tree.Entitlement(p.Path).Fixed[d], wanted), given, "%s of %s", d, p.Path)
				}
			}
		}
	})
}

// raise is a plain reference, in fractions: it raises the water until the first is full, again and again.
func raise(amount int64, caps []int64, weights []uint64) []*big.Rat {
	out := make([]*big.Rat, len(caps))
	left, total := big.NewRat(amount, 1), new(big.Rat)
	for i, w := range weights {
		out[i] = new(big.Rat)
		if caps[i] > 0 {
			total.Add(total, new(big.Rat).SetUint64(w))
		}
	}
	for left.Sign() > 0 && total.Sign() > 0 {
		step := new(big.Rat).Quo(left, total) // water for each unit of weight
		for i, w := range weights {
			if room := new(big.Rat).Sub(big.NewRat(caps[i], 1), out[i]); w > 0 && room.Sign() > 0 {
				if s := room.Quo(room, new(big.Rat).SetUint64(w)); s.Cmp(step) < 0 {
					step = s
				}
			}
		}
		total = new(big.Rat)
		for i, w := range weights {
			weight := new(big.Rat).SetUint64(w)
			if w == 0 || out[i].Cmp(big.NewRat(caps[i], 1)) == 0 {
				continue
			}
			part := new(big.Rat).Mul(step, weight)
			out[i].Add(out[i], part)
			left.Sub(left, part)
			if out[i].Cmp(big.NewRat(caps[i], 1)) < 0 {
				total.Add(total, weight)
			}
		}
	}
	return out
}

func requireRounded(t *rapid.T, want *big.Rat, got int64, of string) {
	off := new(big.Rat).Sub(want, big.NewRat(got, 1))
	require.Negative(t, off.Abs(off).Cmp(big.NewRat(1, 1)), "%s: %d for %v", of, got, want)
}

func TestAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		tree := w.tree()
		for _, p := range w.pools {
			children := w.children(p.Path)
			for _, d := range dimensions {
				var reserve, more []int64
				var reservations, shares []uint64
				for _, c := range children {
					claim, s := tree.Claim(c.Path).Fixed[d], setting(c, d)
					reserve = append(reserve, min(claim, s.Reservation))
					reservations = append(reservations, uint64(s.Reservation))
					shares = append(shares, uint64(s.Share))
				}
				amount := tree.Entitlement(p.Path).Fixed[d]
				for i, part := range raise(amount, reserve, reservations) {
					reserved := tree.Reserved(children[i].Path).Fixed[d]
					requireRounded(t, part, reserved, "reserved part of "+string(children[i].Path))
					more = append(more, tree.Claim(children[i].Path).Fixed[d]-reserved)
				}
				for _, c := range children {
					amount -= tree.Reserved(c.Path).Fixed[d]
				}
				for i, part := range raise(amount, more, shares) {
					c := children[i].Path
					requireRounded(t, part, tree.Entitlement(c).Fixed[d]-tree.Reserved(c).Fixed[d], "entitlement of "+string(c))
				}
			}
		}
	})
}

// More demand, or a larger share, never lowers what a pool is entitled to.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		p := rapid.SampledFrom(w.leaves).Draw(t, "leaf")
		d := rapid.SampledFrom(dimensions).Draw(t, "dimension")
		before := w.tree().Entitlement(p).Fixed[d]
		if rapid.Bool().Draw(t, "raise the share") {
			for _, q := range w.pools {
				if q.Path == p && len(q.Resources) > 0 {
					q.Resources = slices.Clone(q.Resources)
					q.Resources[0].Share += uint32(rapid.IntRange(1, 10).Draw(t, "more"))
					before = min(before, w.tree().Entitlement(p).Fixed[d])
				}
			}
		} else {
			more := w.demand[p]
			more.Fixed[d] += rapid.Int64Range(1, 50).Draw(t, "more")
			w.demand[p] = more
		}
		require.LessOrEqual(t, before, w.tree().Entitlement(p).Fixed[d])
	})
}

// Of two siblings with the same settings, the one that has less has all that it claims, give or take the odd unit.
func TestNoEnvyBetweenEquals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		tree := w.tree()
		for _, a := range w.pools {
			for _, b := range w.children(a.Path.Parent()) {
				for _, d := range dimensions {
					if a.Path == b.Path || setting(a, d) != setting(b, d) {
						continue
					}
					has, other := tree.Entitlement(a.Path).Fixed[d], tree.Entitlement(b.Path).Fixed[d]
					if has < tree.Claim(a.Path).Fixed[d] {
						require.LessOrEqual(t, other, has+2, "%s envies %s its %s", a.Path, b.Path, d)
					}
				}
			}
		}
	})
}

// The order of the list of pools does not matter, and a tree that was changed step by step is the same as a new one.
func TestIndependentOfOrderAndHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		want := w.tree()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(w.pools), func(i, j int) { w.pools[i], w.pools[j] = w.pools[j], w.pools[i] })
		got := pool.NewTree(w.pools, drawVector(t, 400, "old capacity"))
		for _, p := range w.leaves {
			got.SetAllocation(p, drawVector(t, 60, "old allocation"))
			got.SetDemand(p, drawVector(t, 60, "old demand"))
		}
		got.Update()
		last := r.IntN(2) == 0 // what changes
		if !last {
			got.SetCapacity(w.capacity)
		}
		r.Shuffle(len(w.leaves), func(i, j int) { w.leaves[i], w.leaves[j] = w.leaves[j], w.leaves[i] })
		for _, p := range w.leaves {
			got.SetAllocation(p, w.allocation[p])
			if r.IntN(2) == 0 {
				got.Update()
			}
			got.SetDemand(p, w.demand[p])
		}
		if last {
			got.Update()
			got.SetCapacity(w.capacity)
		}
		got.Update()
		for _, p := range w.pools {
			require.Equal(t, want.Reserved(p.Path), got.Reserved(p.Path), "reserved part of %s", p.Path)
			require.Equal(t, want.Entitlement(p.Path), got.Entitlement(p.Path), "entitlement of %s", p.Path)
			require.Equal(t, want.Ceiling(p.Path), got.Ceiling(p.Path), "ceiling of %s", p.Path)
		}
	})
}

// Under dominant resource fairness everyone who claims more has run out of room in a dimension that it claims, and nobody
// who could trade has a larger dominant share than another of equal weight who stopped in the same dimension.
func TestDominantResourceLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := drawVector(t, 100_000, "capacity")
		pools := []*cluster.Pool{{Path: cluster.RootPool, Division: cluster.DominantResource}}
		n := rapid.IntRange(1, 6).Draw(t, "pools")
		demand := map[cluster.PoolPath]cluster.Resources{}
		for i := range n {
			p := cluster.PoolPath(fmt.Sprintf("root/%d", i))
			pools = append(pools, &cluster.Pool{Path: p})
			demand[p] = drawVector(t, 100_000, "demand")
		}
		tree := pool.NewTree(pools, capacity)
		for p, v := range demand {
			tree.SetDemand(p, v)
		}
		tree.Update()
		left := capacity
		for p := range demand {
			left = left.Sub(tree.Entitlement(p))
		}
		for p, want := range demand {
			has := tree.Entitlement(p)
			if has.Equal(want) {
				continue
			}
			stopped := false
			for _, d := range dimensions {
				require.GreaterOrEqual(t, left.Fixed[d], int64(0))
				// Each member may have been given up to one unit too much, and another one too little, in a dimension
				// that it was not stopped by.
				stopped = stopped || want.Fixed[d] > 0 && left.Fixed[d] <= int64(n)
			}
			require.True(t, stopped, "%s has %v of %v, and %v is left", p, has, want, left)
		}
	})
}

func benchmarkPools() ([]*cluster.Pool, []cluster.PoolPath) {
	pools := []*cluster.Pool{root()}
	var leaves []cluster.PoolPath
	for i := range 99 {
		inner := claims(cluster.PoolPath(fmt.Sprintf("root/%03d", i)), cluster.CPU, 100_000, cluster.NoLimit, uint32(i%5+1))
		pools = append(pools, inner)
		for k := range 100 {
			p := cluster.PoolPath(fmt.Sprintf("%s/%03d", inner.Path, k))
			pools = append(pools, claims(p, cluster.CPU, int64(k)*10, 50_000, uint32(k%7)))
			leaves = append(leaves, p)
		}
	}
	return pools, leaves
}

// BenchmarkUpdate10000Pools is a whole division after the demand of every one of 9,900 leaves has changed, in a tree of
// 10,000 pools.
func BenchmarkUpdate10000Pools(b *testing.B) {
	pools, leaves := benchmarkPools()
	tree := pool.NewTree(pools, cpuMemory(30_000_000, 1<<45))
	r := rand.New(rand.NewPCG(1, 2))
	demand := make([]cluster.Resources, len(leaves))
	for b.Loop() {
		b.StopTimer()
		for i := range demand {
			demand[i] = cpuMemory(r.Int64N(10_000), r.Int64N(1<<35))
		}
		b.StartTimer()
		for i, p := range leaves {
			tree.SetDemand(p, demand[i])
		}
		tree.Update()
	}
}

// BenchmarkUpdateFlatDominant is the same with all 10,000 below one parent, by dominant shares.
func BenchmarkUpdateFlatDominant(b *testing.B) {
	pools := []*cluster.Pool{{Path: cluster.RootPool, Division: cluster.DominantResource}}
	for i := range 10_000 {
		pools = append(pools, &cluster.Pool{Path: cluster.PoolPath(fmt.Sprintf("root/%05d", i))})
	}
	tree := pool.NewTree(pools, cpuMemory(30_000_000, 1<<45))
	r := rand.New(rand.NewPCG(1, 2))
	demand := make([]cluster.Resources, len(pools))
	for b.Loop() {
		b.StopTimer()
		for i := range demand {
			demand[i] = cpuMemory(r.Int64N(10_000), r.Int64N(1<<35))
		}
		b.StartTimer()
		for i, p := range pools[1:] {
			tree.SetDemand(p.Path, demand[i])
		}
		tree.Update()
	}
}

// BenchmarkUpdateOneLeaf changes one leaf of 9,900.
func BenchmarkUpdateOneLeaf(b *testing.B) {
	pools, leaves := benchmarkPools()
	tree := pool.NewTree(pools, cpuMemory(30_000_000, 1<<45))
	for _, p := range leaves {
		tree.SetDemand(p, cpuMemory(5_000, 1<<34))
	}
	tree.Update()
	var n int64
	for b.Loop() {
		n++
		tree.SetDemand(leaves[n%int64(len(leaves))], cpuMemory(5_000+n, 1<<34))
		tree.Update()
	}
}

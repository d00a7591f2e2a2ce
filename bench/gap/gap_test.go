package gap

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

func newSolver() solver.Solver { return netsimplex.New() }

// each calls do with the first instances of the benchmark.
func each(t *testing.T, instances int, do func(seed uint64, x *Instance)) {
	t.Helper()
	for i := range instances {
		do(uint64(i+1), Generate(Options{Load: Loads[i%len(Loads)], Gangs: i/len(Loads)%2 == 1}, uint64(i+1)))
	}
}

// TestNeverBelowGreedyByDensity: no instance has a greedy plan that is worth more than ours.
func TestNeverBelowGreedyByDensity(t *testing.T) {
	better := 0
	each(t, 60, func(seed uint64, x *Instance) {
		ours, err := Planned(x, newSolver)
		require.NoError(t, err)
		simple, err := Density(x)
		require.NoError(t, err)
		order := slices.Compare(ours[:], simple[:])
		require.GreaterOrEqual(t, order, 0, "seed %d: %v and %v", seed, ours, simple)
		if order > 0 {
			better++
		}
	})
	require.Greater(t, better, 20)
}

// On more hosts than refits look at together, no plan takes what a stronger tier could have had, and all are worth as much as
// greedy ones together; one by one they differ by what equal prices decide. Plans of hundreds of starts are not refitted, and
// stronger tiers may lose one per cent.
func TestLargerClustersAreNotBelowGreedyByDensity(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes with the race detector, and there is one goroutine")
	}
	for _, hosts := range []int64{8, 12, 20, 50, 200} {
		var sum, simple Value
		for seed := range uint64(24) {
			x := Generate(Options{Load: Loads[seed%3], Gangs: seed/3%2 == 1, Hosts: hosts}, seed+1)
			a, err := Planned(x, newSolver)
			require.NoError(t, err)
			b, err := Density(x)
			require.NoError(t, err)
			for tier := range sum {
				sum[tier] += a[tier]
				simple[tier] += b[tier]
			}
		}
		t.Logf("%d hosts: %v, by density %v", hosts, sum, simple)
		require.GreaterOrEqual(t, float64(sum[cluster.TierReserved]), 0.999*float64(simple[cluster.TierReserved]), "%d hosts", hosts)
		least := 1.0
		if hosts > 50 {
			least = 0.99
		}
		require.GreaterOrEqual(t, float64(sum[cluster.TierEntitled]), least*float64(simple[cluster.TierEntitled]), "%d hosts", hosts)
	}
}

// TestBestIsNeverBelow holds the judge, where there is one, to what both planners found.
func TestBestIsNeverBelow(t *testing.T) {
	each(t, 12, func(seed uint64, x *Instance) {
		best, err := Best(x)
		if errors.Is(err, ErrNoJudge) {
			t.Skip(err)
		}
		require.NoError(t, err)
		for _, with := range []func() solver.Solver{newSolver, nil} {
			ours, err := Planned(x, with)
			require.NoError(t, err)
			require.GreaterOrEqual(t, slices.Compare(best[:], ours[:]), 0, "seed %d: %v and %v", seed, best, ours)
		}
	})
}

func TestGenerate(t *testing.T) {
	require.Equal(t, Generate(Options{Load: 1}, 7), Generate(Options{Load: 1}, 7))
	gangs := 0
	for seed := range uint64(20) {
		x := Generate(Options{Load: 1.2, Gangs: true}, seed)
		for i := range x.Classes {
			c := &x.Classes[i]
			require.Len(t, c.Start, len(x.Hosts))
			for _, price := range c.Start {
				require.Less(t, price, c.Wait)
			}
			if c.Gang {
				require.Greater(t, c.Count, int64(1))
				gangs++
			}
		}
	}
	require.Positive(t, gangs)
}

func TestSum(t *testing.T) {
	all := []Outcome{
		{Best: Value{100, 0, 50}, Ours: Value{100, 0, 40}, Greedy: Value{90, 0, 50}, Density: Value{80, 0, 50}},
		{Best: Value{200, 10, 0}, Ours: Value{150, 10, 0}, Greedy: Value{150, 10, 0}, Density: Value{160, 10, 0}},
	}
	rows := Sum(all)
	require.Len(t, rows, int(cluster.NumTiers))
	require.Equal(t, Row{
		Tier: "reserved", Instances: 2, Median: 0, P95: 0.25, Max: 0.25, Optimal: 1,
		GreedyP50: 0.1, GreedyP95: 0.25, DensityP50: 0.2, DensityP95: 0.2, BelowSimple: 1,
	}, rows[0])
	require.Equal(t, 1, rows[1].Instances)
	require.InDelta(t, 0.2, rows[2].Max, 1e-9)
}

// TestQuantilesAreByNearestRank, as everywhere in the benchmarks.
func TestQuantilesAreByNearestRank(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for q, want := range map[float64]float64{0.5: 50, 0.95: 95, 1: 100} {
		require.Equal(t, want, quantile(hundred, q))
	}
	require.Equal(t, 7.0, quantile([]float64{7}, 0.5))
	require.Zero(t, quantile(nil, 0.5))
}

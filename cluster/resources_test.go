package cluster_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

func vector(cpu, memory int64, named ...cluster.Amount) cluster.Resources {
	return cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}, named...)
}

func TestDimensionsThatAreMeant(t *testing.T) {
	for word, want := range map[string]string{
		"cpu": "cpu_milli", "memory": "memory_bytes", "disk": "disk_bytes", "gpu": "gpu_milli",
		"network": "", "cpu_milli": "", "cpus": "", "licence": "", "": "",
	} {
		require.Equal(t, want, cluster.DimensionMeant(word), word)
	}
}

func TestFits(t *testing.T) {
	license := func(n int64) cluster.Amount { return cluster.Amount{Name: "license", Value: n} }
	for _, c := range []struct {
		name    string
		request cluster.Resources
		room    cluster.Resources
		fits    bool
		count   int64
		lacking []string
	}{
		{"nothing fits anywhere", vector(0, 0), vector(0, 0), true, 100, nil},
		{"exactly", vector(500, 10), vector(1000, 20), true, 2, nil},
		{"all of it", vector(1000, 20, license(5)), vector(1000, 20, license(5)), true, 1, nil},
		{"one dimension binds", vector(500, 10), vector(10_000, 25), true, 2, nil},
		{"too little", vector(500, 30), vector(10_000, 25), false, 0, []string{"memory_bytes"}},
		{"over-committed where nothing is asked", vector(500, 0), vector(1000, -5), true, 2, nil},
		{"over-committed where something is asked", vector(500, 1), vector(1000, -5), false, 0, []string{"memory_bytes"}},
		{"named", vector(1, 1, license(2)), vector(9, 9, license(5)), true, 2, nil},
		{"named and absent", vector(1, 1, license(2)), vector(9, 9), false, 0, []string{"license"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.fits, c.request.Fits(c.room))
			require.Equal(t, c.count, c.request.Count(c.room, 100))
			require.Equal(t, c.lacking, c.request.Lacking(c.room))
		})
	}
}

func TestSumsSaturate(t *testing.T) {
	big := vector(math.MaxInt64-1, 0)
	require.Equal(t, int64(math.MaxInt64), big.Add(big).Fixed[cluster.CPU])
	require.Equal(t, int64(math.MaxInt64), big.Times(3).Fixed[cluster.CPU])
	require.Equal(t, int64(math.MinInt64), vector(-math.MaxInt64, 0).Sub(big).Fixed[cluster.CPU])
}

func TestVectorLaws(t *testing.T) {
	draw := func(t *rapid.T, label string) cluster.Resources {
		v := rapid.Int64Range(0, 50)
		return vector(v.Draw(t, label), v.Draw(t, label),
			cluster.Amount{Name: "b", Value: v.Draw(t, label)}, cluster.Amount{Name: "a", Value: v.Draw(t, label)})
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		require.True(t, a.Add(b).Equal(b.Add(a)))
		require.True(t, a.Add(b).Sub(b).Equal(a))
		require.True(t, a.Add(a).Add(a).Equal(a.Times(3)))
		require.True(t, a.Times(0).IsZero())
		n := a.Count(b, 1000)
		require.True(t, n == 0 || a.Times(n).Fits(b))
		require.True(t, n == 1000 || !a.Times(n+1).Fits(b))
		require.Equal(t, a.Fits(b), len(a.Lacking(b)) == 0)
		require.Equal(t, a.Fits(b), a.Count(b, 1) == 1)
	})
}

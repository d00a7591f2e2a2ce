package costmodels_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestPriceRounds(t *testing.T) {
	for ms, want := range map[float64]flowgraph.Cost{
		0: 0, 0.49: 0, 0.5: 1, 1.5: 2, -0.4: 0, -0.6: costmodels.Invalid, 1e300: costmodels.MaxPrice,
		math.Inf(1): costmodels.MaxPrice, math.Inf(-1): costmodels.Invalid,
	} {
		require.Equal(t, want, costmodels.Price(ms), "%v", ms)
	}
	require.Equal(t, costmodels.Invalid, costmodels.Price(math.NaN()))
}

func TestScaleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64Range(-5, 5), rapid.Int64Range(0, math.MaxInt64))
		a, b, c := number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c")
		limit := rapid.Int64Range(0, math.MaxInt64).Draw(t, "limit")
		want := big.NewInt(0)
		switch {
		case a <= 0 || b <= 0:
		case c <= 0:
			want.SetInt64(limit)
		default:
			want.Mul(big.NewInt(a), big.NewInt(b)).Quo(want, big.NewInt(c))
			if want.Cmp(big.NewInt(limit)) > 0 {
				want.SetInt64(limit)
			}
		}
		require.Equal(t, want.Int64(), costmodels.Scale(a, b, c, limit))
	})
}

func TestSharesOfManyRequestsAreThoseOfEach(t *testing.T) {
	amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 20), rapid.Int64Range(0, cluster.MaxAmount), rapid.Int64Range(cluster.MaxAmount-20, cluster.MaxAmount))
	vector := func(t *rapid.T, label string) (r cluster.Resources) {
		for d := range r.Fixed {
			r.Fixed[d] = amount.Draw(t, label)
		}
		if rapid.IntRange(0, 7).Draw(t, label+" has licenses") == 0 {
			r = cluster.NewResources(r.Fixed, cluster.Amount{Name: "license", Value: amount.Draw(t, label)})
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		allocated, capacity, request := vector(t, "allocated"), vector(t, "capacity"), vector(t, "request")
		limit := rapid.SampledFrom([]int64{1, 2000, math.MaxInt64}).Draw(t, "limit") // seldom reached by most
		load := allocated.Add(request)
		want := costmodels.DominantShare(&load, &capacity, 1, limit)
		require.Equal(t, want, costmodels.ShareWith(&allocated, &request, &capacity, limit))
		shares := costmodels.SharesOn(&allocated, &capacity, limit)
		require.Equal(t, want, shares.With(&request))
	})
}

// The dominant share is that of the dimension of which least is left, named ones among them; where there is nothing of what is asked
// for, it is the limit.
func TestDominantShare(t *testing.T) {
	vector := func(cpu, memory, licenses int64) *cluster.Resources {
		r := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}, cluster.Amount{Name: "license", Value: licenses})
		return &r
	}
	host := vector(10, 3, 4)
	require.EqualValues(t, 333, costmodels.DominantShare(vector(1, 1, 0), host, 1, 5000))
	require.EqualValues(t, 1500, costmodels.DominantShare(vector(1, 1, 3), host, 2, 5000))
	require.EqualValues(t, 1400, costmodels.DominantShare(vector(1, 1, 3), host, 2, 1400))
	require.Zero(t, costmodels.DominantShare(vector(1, 1, 1), host, 0, 5000))
	require.EqualValues(t, 5000, costmodels.DominantShare(vector(1, 0, 1), vector(10, 0, 0), 1, 5000))
	require.EqualValues(t, 100, costmodels.DominantShare(vector(1, 0, 0), vector(10, 0, 0), 1, 5000))
}

// Time of waiting doubles from one stage to the next, beside the steps of priority.
func TestPatience(t *testing.T) {
	for stage, want := range []flowgraph.Cost{0, 1000, 2000, 4000} {
		require.Equal(t, 3*costmodels.Step+want, costmodels.Patience(&costmodels.Class{Priority: 2, Stage: stage}))
	}
}

func TestPriorityOutweighsWaiting(t *testing.T) {
	wait := func(priority int32, stage int) flowgraph.Cost {
		return costmodels.Patience(&costmodels.Class{Priority: priority, Stage: stage})
	}
	require.Greater(t, wait(1, 0), wait(0, 40))
	require.Greater(t, wait(0, 3), wait(0, 2))
	require.LessOrEqual(t, wait(cluster.MaxPriority, 60), costmodels.MaxPrice)
}

func TestSpendingEnds(t *testing.T) {
	left := int64(3)
	r := costmodels.Round{Work: &left}
	r.Spend(3)
	require.PanicsWithValue(t, costmodels.ErrSpent, func() { r.Spend(1) })
	require.NotPanics(t, func() { new(costmodels.Round).Spend(1 << 60) }, "without a limit")
}

func gpus(milli int32, count int32) *cluster.TaskSpec {
	task := &cluster.TaskSpec{GPU: cluster.GPURequest{Milli: milli, Count: count}}
	task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
	return task
}

func TestCensusShowsWhatIsFrequent(t *testing.T) {
	var c costmodels.Census
	c.Add(&cluster.TaskSpec{}, 1000)
	_, due := c.Mix()
	require.False(t, due, "nobody asked for a GPU")
	c.Add(gpus(300, 0), 1)
	c.Add(gpus(0, 1), 3)
	mix, due := c.Mix()
	require.True(t, due)
	require.Len(t, mix.Shares, 2)
	require.Equal(t, gpus(0, 1), mix.Shares[0].Task)
	require.EqualValues(t, 750_000, mix.Shares[0].Weight)
	require.EqualValues(t, 250_000, mix.Shares[1].Weight)

	c.Add(gpus(300, 0), 3)
	_, due = c.Mix()
	require.False(t, due, "half of it is known")
	c.Add(gpus(300, 0), 1)
	mix, due = c.Mix()
	require.True(t, due)
	require.Equal(t, gpus(300, 0), mix.Shares[0].Task, "the same shape is one shape")
	require.EqualValues(t, 625_000, mix.Shares[0].Weight)
}

func TestCensusForgets(t *testing.T) {
	var c costmodels.Census
	c.Add(gpus(0, 8), 1)
	c.Add(gpus(500, 0), 1<<16)
	c.Add(gpus(250, 0), 1<<16)
	mix, due := c.Mix()
	require.True(t, due)
	require.Len(t, mix.Shares, 2, "a shape seen once long ago is gone")
	require.Equal(t, gpus(250, 0), mix.Shares[0].Task, "the newer half counts more")
	pictures := 0
	for range 1 << 16 {
		c.Add(gpus(250, 0), 1)
		if _, due := c.Mix(); due {
			pictures++
		}
	}
	require.InDelta(t, 16, pictures, 1)
	c.Add(gpus(500, 0), 1<<12)
	mix, due = c.Mix()
	require.True(t, due)
	require.Len(t, mix.Shares, 2, "those that are left are known by what they ask for")
	require.InDelta(t, 1_000_000, mix.Shares[0].Weight+mix.Shares[1].Weight, 2)
}

// Tasks that ask for devices of another model, for parts of another size or for something beside are of another shape.
func TestCensusTellsShapesApart(t *testing.T) {
	model, licensed, halves, tenths := gpus(0, 1), gpus(0, 1), gpus(500, 0), gpus(500, 0)
	model.GPU.Models = []string{"A"}
	licensed.Resources.Named = []cluster.Amount{{Name: "license", Value: 1}}
	tenths.GPU.Milli = 100 // of the same amount
	var c costmodels.Census
	for _, task := range []*cluster.TaskSpec{gpus(0, 1), model, licensed, halves, tenths} {
		c.Add(task, 1)
		c.Add(task, 1)
	}
	mix, _ := c.Mix()
	require.Len(t, mix.Shares, 5)
	for i := range int32(100) {
		c.Add(gpus(0, 2+i), 1)
	}
	c.Add(gpus(0, 1), 1000)
	mix, due := c.Mix()
	require.True(t, due)
	require.Len(t, mix.Shares, 64, "the most frequent ones")
	require.Equal(t, gpus(0, 1), mix.Shares[0].Task)
}

package guard_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// watched is a guarded model for which a fault fails the test.
type watched struct {
	*guard.Guard
	t *testing.T
}

func (w watched) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	defer func() { require.NoError(w.t, w.Fault()) }()
	return w.Guard.Wait(r, c)
}

func TestGoodModelsPass(t *testing.T) {
	modeltest.Run(t, watched{guard.New(loadspread.Model{}), t})
	modeltest.Run(t, watched{guard.New(quincy.Model{}), t})
	modeltest.Run(t, watched{guard.New(quincy.Model{Theta: 1000}), t})
}

// broken is a model that breaks the contract as its functions say.
type broken struct {
	quincy.Model
	wait     func(*costmodels.Class) flowgraph.Cost
	start    func(*costmodels.Round) flowgraph.Cost
	crowd    func(k int64) flowgraph.Cost
	locality costmodels.Locality
	move     func(ran time.Duration) flowgraph.Cost
}

func (b broken) Moves() bool { return b.move != nil }

func (b broken) Move(r *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if b.move != nil {
		return b.move(ran)
	}
	return b.Model.Move(r, c, ran)
}

func (b broken) Name() string { return "broken" }

func (b broken) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	if b.wait != nil {
		return b.wait(c)
	}
	return b.Model.Wait(r, c)
}

func (b broken) Start(r *costmodels.Round, _ *costmodels.Request, _ *cluster.Host) flowgraph.Cost {
	if b.start != nil {
		return b.start(r)
	}
	return 0
}

func (b broken) Crowd(_ *costmodels.Round, _ *cluster.Host, k int64) flowgraph.Cost {
	if b.crowd != nil {
		return b.crowd(k)
	}
	return 0
}

func (b broken) Locality(*costmodels.Round, *costmodels.Class) costmodels.Locality { return b.locality }

func TestFaultsAreNamedAndHarmless(t *testing.T) {
	start := func(f func(*costmodels.Round) flowgraph.Cost) broken { return broken{start: f} }
	for _, c := range []struct {
		name, want string
		model      broken
	}{
		{"negative", "Start is -5", start(func(*costmodels.Round) flowgraph.Cost { return -5 })},
		{"overflow", "Start is 1073741825", start(func(*costmodels.Round) flowgraph.Cost { return costmodels.MaxPrice + 1 })},
		{"not a number", "Start is -1", start(func(*costmodels.Round) flowgraph.Cost { return costmodels.Price(math.NaN()) })},
		{"panic", "Start panics: runtime error: invalid memory address", start(func(*costmodels.Round) flowgraph.Cost {
			var h *cluster.Host
			return flowgraph.Cost(len(h.Tasks))
		})},
		{"endless", "Start panics: " + costmodels.ErrSpent.Error(), start(func(r *costmodels.Round) flowgraph.Cost {
			for {
				r.Spend(1)
			}
		})},
		{"falling margins", "Crowd falls from 9 to 8 at 2", broken{crowd: func(k int64) flowgraph.Cost { return flowgraph.Cost(10 - k) }}},
		{"a margin that falls later", "Crowd falls from 5 at 3 to 4 at 100", broken{crowd: func(k int64) flowgraph.Cost {
			if k < 50 {
				return min(5, flowgraph.Cost(k)*5)
			}
			return 4
		}}},
		{"waiting gets cheaper", "Wait falls from 100 to 99 at stage 1", broken{wait: func(c *costmodels.Class) flowgraph.Cost {
			return flowgraph.Cost(100 - c.Stage)
		}}},
		{"near is dearer than far", "Locality: s/h costs 2, which is not between 0 and 1", broken{locality: costmodels.Locality{
			Elsewhere: 1, Hosts: []costmodels.HostPrice{{Host: "s/h", Price: 2}},
		}}},
		{"moving gets cheaper", "Move falls from 7 after 30s to 3 after 1m0s", broken{move: func(ran time.Duration) flowgraph.Cost {
			if ran < time.Minute {
				return 7
			}
			return 3
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard.New(c.model)
			r, q, h := &costmodels.Round{}, &costmodels.Request{Task: &cluster.TaskSpec{}}, &cluster.Host{ID: "s/h", Machine: &cluster.Machine{}}
			prices := func() {
				for _, p := range []flowgraph.Cost{
					g.Wait(r, &costmodels.Class{Request: *q}), g.Start(r, q, h),
					g.Crowd(r, h, 0), g.Crowd(r, h, 2), g.Crowd(r, h, 3), g.Crowd(r, h, 100),
				} {
					require.GreaterOrEqual(t, p, flowgraph.Cost(0))
					require.LessOrEqual(t, p, costmodels.MaxPrice)
				}
				g.Locality(r, &costmodels.Class{})
				g.Move(r, &costmodels.Class{}, time.Minute)
			}
			prices()
			require.ErrorIs(t, g.Fault(), guard.ErrBroken)
			require.ErrorContains(t, g.Fault(), "broken: "+c.want)
			first := g.Fault()
			prices()
			require.Equal(t, first, g.Fault(), "a model that is out is not asked again")
			require.Equal(t, costmodels.MaxPrice, g.Wait(r, &costmodels.Class{Request: *q}))
			require.Zero(t, g.Start(r, q, h))
			require.False(t, g.Moves())
			require.Equal(t, costmodels.MaxPrice, g.Move(r, &costmodels.Class{}, time.Minute))
			require.Equal(t, costmodels.Locality{}, g.Locality(r, &costmodels.Class{}))
		})
	}
}

// A crowd of smaller tasks may cost less.
func TestMarginsFallWithTheUnit(t *testing.T) {
	g := guard.New(loadspread.Model{})
	h := &cluster.Host{Machine: &cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 4000}}}}
	crowd := func(cpu, k int64) flowgraph.Cost {
		return g.Crowd(&costmodels.Round{Unit: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: cpu}}}, h, k)
	}
	require.Greater(t, crowd(3000, 1), crowd(500, 2))
	require.NoError(t, g.Fault())
}

// Many prices asked for at once are those that are asked for one by one, and so is what is wrong with them.
func TestStartsAreThoseOfStart(t *testing.T) {
	prices := []flowgraph.Cost{3, 0, costmodels.MaxPrice, -1, 7}
	for _, panics := range []int{-1, 0, 2, 4} {
		for n := range len(prices) + 1 {
			model := func() *guard.Guard {
				calls := 0
				return guard.New(broken{start: func(*costmodels.Round) flowgraph.Cost {
					if calls++; calls-1 == panics {
						panic("no")
					}
					return prices[calls-1]
				}})
			}
			round, one, many := &costmodels.Round{}, model(), model()
			want := []flowgraph.Cost{}
			got := slices.Repeat([]flowgraph.Cost{42}, n)
			for range n {
				want = append(want, one.Start(round, nil, nil))
			}
			many.Starts(round, make([]*costmodels.Request, n), nil, got)
			require.Equal(t, want, got)
			require.Equal(t, one.Fault(), many.Fault())
			require.Nil(t, round.Work)
		}
	}
}

// batch is a model that prices many requests together.
type batch struct {
	broken
	prices []flowgraph.Cost
}

func (b batch) Starts(_ *costmodels.Round, _ []*costmodels.Request, _ *cluster.Host, prices []flowgraph.Cost) {
	if copy(prices, b.prices) == 0 {
		panic("no")
	}
}

func TestForksWatchBatches(t *testing.T) {
	require.Nil(t, guard.New(quincy.Model{}).Fork(), "it says nothing of other goroutines")
	for _, c := range []struct {
		name         string
		prices, want []flowgraph.Cost
		fault        string
	}{
		{"sound", []flowgraph.Cost{0, 2, costmodels.MaxPrice}, []flowgraph.Cost{0, 2, costmodels.MaxPrice}, ""},
		{"negative", []flowgraph.Cost{0, -2, 3}, []flowgraph.Cost{0, 0, 0}, "Start is -2"},
		{"not those of Start", []flowgraph.Cost{1, 2, 3}, []flowgraph.Cost{0, 0, 0}, "Starts is 1 where Start is 0"},
		{"panics", nil, []flowgraph.Cost{0, 0, 0}, "Start panics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard.New(batch{prices: c.prices})
			fork, round, prices := g.Fork(), &costmodels.Round{}, make([]flowgraph.Cost, 3)
			fork.Starts(round, make([]*costmodels.Request, 3), nil, prices)
			require.Equal(t, c.want, prices)
			require.Nil(t, round.Work)
			require.NoError(t, g.Fault(), "it is not told yet")
			if g.Join(fork); c.fault == "" {
				require.NoError(t, g.Fault())
			} else {
				require.ErrorContains(t, g.Fault(), c.fault)
			}
		})
	}
}

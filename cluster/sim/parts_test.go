package sim

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/solver"
)

// TestManyFaultSteps is the long version of TestNothingBreaksUnderFaults.
func TestManyFaultSteps(t *testing.T) {
	if os.Getenv("SLUICE_LONG") == "" {
		t.Skip("takes minutes: set SLUICE_LONG=1, or make long")
	}
	for seed, steps := uint64(1), int64(0); steps < 100_000; seed++ {
		c := config(mixed(seed, 20, 500, 20*time.Second)) // light enough to end in spite of all
		c.Seed, c.Faults = seed, faulty(4*time.Second)
		c.LostAfter, c.CheckpointEvery = 10*time.Second, 500
		r := run(t, c)
		require.Zero(t, r.ViolationCount, "seed %d: %v", seed, r.Violations)
		require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "seed %d", seed)
		steps += r.Faults.Injected + r.Faults.Known + r.Faults.Stale + r.Faults.Launches
		t.Logf("seed %d: %d steps", seed, steps)
	}
}

func TestFaultsFromText(t *testing.T) {
	f, err := ParseFaults("host=1h/5m, scheduler=10m/1s,launch-fails=0.25,status-delay=2s")
	require.NoError(t, err)
	require.Equal(t, Faults{
		Rates:       map[FaultKind]Rate{HostCrash: {time.Hour, 5 * time.Minute}, Crash: {10 * time.Minute, time.Second}},
		LaunchFails: 0.25, StatusDelay: 2 * time.Second,
	}, f)
	x, err := ParseFault("90s:rack:r1:30s")
	require.NoError(t, err)
	require.Equal(t, Fault{At: 90 * time.Second, Kind: RackCut, Target: "r1", For: 30 * time.Second}, x)
	x, err = ParseFault("90s:host:node:7:30s")
	require.NoError(t, err)
	require.Equal(t, Fault{At: 90 * time.Second, Kind: HostCrash, Target: "node:7", For: 30 * time.Second}, x)

	for text, want := range map[string]string{
		"hosts=1h/5m":                       "no such fault; there are host, rack, drain, link, scheduler, scheduling, killing, launch-refused",
		"host=1h":                           "as in host=1h/5m",
		"host=1h/0s":                        "must be above zero",
		"host=1ns/1h":                       "must be at least 1ms",
		"host=1h/1ns":                       "must be at least 1ms",
		"host=0s/5m":                        "must be above zero",
		"host=1h/5m,rack=1h/5m,host=2h/5m":  `"host=2h/5m": host is there twice`,
		"launch-fails=0.1,launch-fails=0.2": "launch-fails is there twice",
		"launch-refused=1.5":                "not a probability",
		"launch-fails=NaN":                  "not a probability",
		"status-delay=2":                    "missing unit",
		"status-delay=-2s":                  "cannot be below zero",
		"status-delay=8761h":                "nor above 8760h0m0s",
	} {
		_, err := ParseFaults(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err = ParseFaults("host=1h")
	require.NotContains(t, err.Error(), "invalid duration", "none was given")
	for _, text := range []string{"", "90s:rack:r1", "x:rack:r1:30s", "90s:rock:r1:30s", "-1s:rack:r1:30s", "1s:rack:r1:0s", "1s:scheduler::2562047h", "2562047h:link::1s"} {
		_, err := ParseFault(text)
		require.Error(t, err, text)
	}
}

func TestAScriptNamesWhatThereIs(t *testing.T) {
	c := config(mixed(1, 5, 5, time.Second))
	c.Faults.Script = []Fault{{At: time.Second, Kind: RackCut, Target: "nowhere", For: time.Second}}
	_, err := Run(t.Context(), c)
	require.ErrorContains(t, err, `fault 1 of the script: the workload has no rack "nowhere"`)
	for want, x := range map[string]Fault{
		`no host "r0"`:      {Kind: HostDrain, Target: "r0", For: time.Second},
		`leave out "there"`: {Kind: Crash, Target: "there", For: time.Second},
	} {
		c.Faults.Script = []Fault{x}
		require.ErrorContains(t, c.Validate(), want)
	}
}

// TestNoRackIsNoneToCutOff: hosts that are in no rack are not cut off together.
func TestNoRackIsNoneToCutOff(t *testing.T) {
	c := config(mixed(1, 5, 5, time.Second))
	for i := range c.Workload.Hosts {
		c.Workload.Hosts[i].Rack = ""
	}
	c.Faults.Script = []Fault{{Kind: RackCut, For: time.Second}}
	require.ErrorContains(t, c.Validate(), `the workload has no rack ""`)
	c.Faults = Faults{Rates: map[FaultKind]Rate{RackCut: {time.Second, time.Second}}}
	require.ErrorContains(t, c.Validate(), "fault rack: no host of the workload is in a rack")
	c.Workload.Hosts[0].Rack = "r1"
	require.NoError(t, c.Validate())
	require.Equal(t, []string{"r1"}, newInjector(&simulation{config: c}).racks)
}

func TestConfigIsChecked(t *testing.T) {
	c := config(mixed(1, 5, 5, time.Second))
	c.Model, c.Horizon = nil, -time.Second
	_, err := Run(t.Context(), c)
	require.ErrorContains(t, err, "a model")
	require.ErrorContains(t, err, "horizon")
	c = config(mixed(1, 0, 5, time.Second))
	_, err = Run(t.Context(), c)
	require.ErrorContains(t, err, "no hosts")
	for want, set := range map[string]func(*Config){
		"the batch window is 8760h0m1s: at most 8760h0m0s":                  func(c *Config) { c.BatchWindow = longest + time.Second },
		"the slack window is ":                                              func(c *Config) { c.Usage = Usage{Mean: 0.5, Window: 1 << 62} },
		"the interval between reports of usage is 1ns: want 10ms or more":   func(c *Config) { c.Usage = Usage{Mean: 0.5, Interval: 1} },
		"the margin of what tasks use is -1 percent":                        func(c *Config) { c.Usage = Usage{Mean: 0.5, Margin: -1} },
		"tasks use 2 of what they ask for: want a part above 0":             func(c *Config) { c.Usage = Usage{Mean: 2} },
		"3 of the hosts and 0 of the runs are slow: want parts from 0 to 1": func(c *Config) { c.Stragglers = Stragglers{Hosts: 3} },
		"slow runs take 0.5 times as long: want 1 to 1000":                  func(c *Config) { c.Stragglers = Stragglers{Hosts: 1, Slowdown: 0.5} },
	} {
		c = config(mixed(1, 5, 5, time.Second))
		set(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

// TestQuantilesAreNearAndNeverTooSmall holds the histogram to sorting.
func TestQuantilesAreNearAndNeverTooSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1e12), 1, 200).Draw(t, "values")
		var h histogram
		for _, v := range values {
			h.add(v)
		}
		slices.Sort(values)
		for _, p := range []float64{0.5, 0.9, 0.99, 1} {
			want := values[max(0, int(float64(len(values))*p+0.999999)-1)]
			got := h.quantile(p)
			require.GreaterOrEqual(t, got, want-1, "p%v", p) // a float may fall short of an integer
			require.LessOrEqual(t, float64(got), float64(want)*ratio+1, "p%v", p)
		}
		cdf := h.cdf(1, 50)
		require.InDelta(t, 1, cdf[len(cdf)-1][1], 1e-9)
		require.True(t, slices.IsSortedFunc(cdf, func(a, b [2]float64) int {
			if a[1] < b[1] {
				return -1
			}
			return 0
		}))
	})
}

// TestASeriesKeepsTheIntegral checks that no merging of intervals changes the mean.
func TestASeriesKeepsTheIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeries("x")
		now, integral, value := time.Duration(0), 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			d := time.Duration(rapid.Int64Range(1, int64(100*time.Hour)).Draw(t, "gap"))
			integral += value * d.Seconds()
			now += d
			value = float64(rapid.IntRange(0, 100).Draw(t, "value"))
			s.set(0, now, value)
			require.LessOrEqual(t, len(s.sums), maxPoints)
		}
		require.InEpsilon(t, 1+integral/now.Seconds(), 1+s.mean(0), 1e-9)
	})
}

func TestASeriesGoesOnToTheEndOfTime(t *testing.T) {
	s := newSeries("x")
	s.set(0, 1, 7)
	s.skip(math.MaxInt64)
	s.advance(math.MaxInt64)
	require.InEpsilon(t, 7, s.mean(0), 1e-9)
}

// ticking returns the benchmark with all that it needs, and a millisecond between any two looks at the time.
func ticking(b CycleBench) CycleBench {
	ticks := time.Duration(0)
	b.Model, b.NewSolver, b.Journal = loadspread.Model{}, config(nil).NewSolver, journal.NewMemory()
	b.Stopwatch = func() time.Duration { ticks += time.Millisecond; return ticks }
	return b
}

func TestCycleBenchMeasuresWhatItSays(t *testing.T) {
	b := ticking(CycleBench{
		Hosts: 20, Tasks: 400, Classes: 10, Utilisation: 1.2, Churn: 0.05, Cycles: 10, Seed: 1,
	})
	r, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.Placements)
	require.Positive(t, r.Waiting, "the cluster was not full")
	require.EqualValues(t, 10, r.Latency["total"].Count)
	require.GreaterOrEqual(t, r.Latency["idle"].Count, int64(10), "plans that nobody took in")
	require.Positive(t, r.PlacementsPerSecond)

	b.Churn = 2
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "churn")

	b.Churn, b.Apart = 1, 21
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "apart is 21, it must be 0 to the number of hosts, 20")
}

// TestCycleBenchOfAColdCluster: the planner that is measured makes the first plan, which solves, and is told apart from the cycles.
func TestCycleBenchOfAColdCluster(t *testing.T) {
	first := func(cold bool) float64 {
		solvers := 0
		b := ticking(CycleBench{Hosts: 20, Tasks: 300, Classes: 10, Utilisation: 0.8, Churn: 0.05, Cycles: 5, Cold: cold, Seed: 1})
		fresh := b.NewSolver
		b.NewSolver = func() solver.Solver { solvers++; return fresh() }
		r, err := b.Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 5, r.Latency["total"].Count)
		require.Equal(t, 1, solvers, "another planner than the one of the first plan")
		return r.FirstPlan
	}
	require.Positive(t, first(true))
	require.Zero(t, first(false))
}

// TestCycleBenchKeepsTasksApart: a cluster that takes jobs apart to its last place takes all of them in every cycle.
func TestCycleBenchKeepsTasksApart(t *testing.T) {
	b := ticking(CycleBench{
		Hosts: 20, Tasks: 120, Classes: 1, Apart: 6, Utilisation: 1, Churn: 1, Cycles: 3, Seed: 1,
	})
	r, err := b.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3*120, r.Placements)
	require.Zero(t, r.Waiting)
	b.Apart, b.Journal = 0, journal.NewMemory() // then all are one class, which is what the rule prevented
	together, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Less(t, together.ArcsTouched.P50, r.ArcsTouched.P50)
}

// TestCycleBenchHasPoolsPreempt: who is entitled to more than he has gets it from others, and no run ends twice.
func TestCycleBenchHasPoolsPreempt(t *testing.T) {
	b := ticking(CycleBench{
		Hosts: 20, Tasks: 400, Classes: 10, Pools: 4, Utilisation: 1.5, Churn: 0.01, Cycles: 60, Seed: 1,
	})
	r, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.Displaced)
	require.Positive(t, r.Placements)

	b.Pools = -1
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "pools is -1, it must be 0 to 10000")
}

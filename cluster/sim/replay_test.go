package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster/sim"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// traces returns the folder of recorded traces, or skips the test.
func traces(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes with the race detector, and there is one goroutine")
	}
	data := os.Getenv("SLUICE_DATA")
	if data == "" {
		t.Skip("set SLUICE_DATA to the folder with the recorded traces")
	}
	return filepath.Join(data, "traces")
}

// long skips a test that takes minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("SLUICE_LONG") == "" {
		t.Skip("takes minutes: set SLUICE_LONG=1, or make long")
	}
}

// replay runs a workload to its end with a cost model, and holds it to the checker.
func replay(t *testing.T, open trace.Options, model string, change func(*sim.Config)) *sim.Result {
	t.Helper()
	w, err := trace.Open(open)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	return simulate(t, w, model, change)
}

func simulate(t *testing.T, w *trace.Workload, model string, change func(*sim.Config)) *sim.Result {
	t.Helper()
	c := sim.Config{Workload: w, Seed: 1, Verify: true}
	var err error
	c.Model, err = models.New(model)
	require.NoError(t, err)
	c.NewSolver = newSolver
	if change != nil {
		change(&c)
	}
	r, err := sim.Run(t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, r.ViolationCount, "%v", r.Violations)
	require.Positive(t, r.QuietChecks)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Waiting+r.Tasks.Running+r.Tasks.Finished+r.Tasks.Failed)
	return r
}

func newSolver() solver.Solver {
	s, err := registry.New(registry.Default)
	if err != nil {
		panic(err) // it is in the registry's own table
	}
	return s
}

func openb(dir, list string, mode trace.Mode) trace.Options {
	dir = filepath.Join(dir, "alibaba-gpu-2023")
	return trace.Options{
		Format: "openb", Jobs: filepath.Join(dir, "openb_pod_list_"+list+".csv.gz"),
		Hosts: filepath.Join(dir, "openb_node_list_all_node.csv"), Seed: 1, Mode: mode,
	}
}

func TestOpenbAtHighLoad(t *testing.T) {
	dir := traces(t)
	for load, waiting := range map[float64]int64{0.9: 1, 1.1: 20} {
		t.Run(fmt.Sprint(load), func(t *testing.T) {
			t.Parallel()
			o := openb(dir, "default", trace.Mode{OfferedLoad: load})
			if os.Getenv("SLUICE_LONG") == "" { // a third of both keeps a host as busy
				o.Every, o.Hosts = 3, everyThird(t, o.Hosts)
			}
			r := replay(t, o, models.Default, nil)
			require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished)
			require.Greater(t, r.Utilisation["gpu_milli"].Peak, 0.8)
			require.GreaterOrEqual(t, r.Stress.PeakWaiting, waiting, "nothing waited")
			require.Greater(t, r.Stress.PeakFullHosts, 20)
		})
	}
}

// everyThird returns a machine list, of CSV with a header, with a third of the hosts of another.
func everyThird(t *testing.T, file string) string {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	kept := lines[:1:1]
	for i := 1; i < len(lines); i += 3 {
		kept = append(kept, lines[i])
	}
	third := filepath.Join(t.TempDir(), "third.csv")
	require.NoError(t, os.WriteFile(third, []byte(strings.Join(kept, "")), 0o600))
	return third
}

func TestOpenbUntilNothingFits(t *testing.T) {
	dir := traces(t)
	for _, list := range []string{"default", "gpuspec33", "gpushare100", "cpu250", "multigpu50"} {
		t.Run(list, func(t *testing.T) {
			r := replay(t, openb(dir, list, trace.Mode{Demand: 1.3, NoDepartures: true}), models.Default, nil)
			require.Positive(t, r.Tasks.Waiting, "all pods fitted")
			require.Zero(t, r.Tasks.Finished)
			require.Greater(t, r.Utilisation["gpu_milli"].Final, 0.6)
			require.Greater(t, r.Stress.PeakFullHosts, 100)
			require.Positive(t, r.Stress.VectorConflicts)
		})
	}
}

func TestOpenbArrivingOneByOne(t *testing.T) {
	long(t)
	dir := traces(t)
	r := replay(t, openb(dir, "default", trace.Mode{Demand: 1.3, NoDepartures: true, Gap: time.Second}), models.Default, nil)
	require.Positive(t, r.Tasks.Waiting)
	require.Greater(t, r.Cycles.Solved, int64(5000), "the pods came together")
}

func google(dir string) trace.Options {
	dir = filepath.Join(dir, "google-2011")
	return trace.Options{
		Format: "google-2011", Jobs: filepath.Join(dir, "GOOG_subtrace.tr.gz"), Hosts: filepath.Join(dir, "machines.csv.gz"), Seed: 1,
	}
}

func TestGooglePart(t *testing.T) {
	o := google(traces(t))
	o.Every = 20
	r := replay(t, o, models.Default, nil)
	require.Equal(t, 12_580, r.Hosts)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished)
	require.Greater(t, r.Stress.PeakRunning, int64(1000))
}

func TestGoogleSubtrace(t *testing.T) {
	long(t)
	r := replay(t, google(traces(t)), models.Default, nil)
	require.EqualValues(t, 10_000, r.Jobs)
	require.EqualValues(t, 312_558, r.Tasks.Finished)
}

func TestPhillyOnFewHosts(t *testing.T) {
	dir := traces(t)
	o := trace.Options{
		Format: "philly", Jobs: filepath.Join(dir, "philly-gpu", "philly_vcs_a.csv.gz"),
		Fleet: trace.Fleet{Hosts: 25, GPUs: 8}, Limit: 3000, Seed: 1,
	}
	if os.Getenv("SLUICE_LONG") != "" {
		o.Limit = 0
	}
	r := replay(t, o, models.Default, nil)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished)
	require.Greater(t, r.Stress.PeakWaiting, int64(100), "the hosts were too many")
	require.Equal(t, 25, r.Stress.PeakFullHosts)
	require.Equal(t, 1.0, r.Utilisation["gpu_milli"].Peak)
}

// TestQuincyReadsCloser replays jobs with inputs under both models, on hosts and racks with room to choose from.
func TestQuincyReadsCloser(t *testing.T) {
	dir := traces(t)
	o := trace.Options{
		Format: "swim", Jobs: filepath.Join(dir, "swim-facebook-2010", "FB-2010_samples_24_times_1hr_withInputPaths_0.tsv.gz"),
		Fleet: trace.Fleet{Hosts: 200}, BlockBytes: 16 << 30, Every: 20, Seed: 1, // one task for each block
	}
	if os.Getenv("SLUICE_LONG") != "" {
		o.Every = 1
	}
	local := func(model string) float64 {
		r := replay(t, o, model, nil)
		require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished)
		sum := r.Read.Local + r.Read.InRack + r.Read.Remote
		require.Positive(t, sum)
		return float64(r.Read.Local) / float64(sum)
	}
	spread, quincy := local("loadspread"), local("quincy")
	require.Greater(t, quincy, 0.5)
	require.Greater(t, quincy, 5*spread)
}

func TestBatchJobs(t *testing.T) {
	dir := traces(t)
	o := trace.Options{Format: "batch-jobs", Jobs: filepath.Join(dir, "batch-jobs-cloudsimpy", "jobs.csv.gz"), Limit: 500, Seed: 1}
	r := replay(t, o, models.Default, nil)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished)
}

func TestServices(t *testing.T) {
	dir := traces(t)
	o := trace.Options{Format: "bytedance-services", Jobs: filepath.Join(dir, "bytedance-services", "M3.json.gz"), Seed: 1}
	r := replay(t, o, models.Default, nil)
	require.EqualValues(t, 3485, r.Tasks.Submitted)
	require.Positive(t, r.Tasks.Running)
}

// TestEveryModelOnGeneratedWork runs every cost model, with faults, where there is no data.
func TestEveryModelOnGeneratedWork(t *testing.T) {
	horizon := 30 * time.Second
	if os.Getenv("SLUICE_LONG") != "" {
		horizon = 5 * time.Minute
	}
	for _, name := range models.Names() {
		w, err := trace.Generate(trace.Synthetic{
			Fleet: trace.Fleet{Hosts: 20, HostsPerRack: 5}, Load: 0.9, Horizon: horizon, Seed: 1,
		})
		require.NoError(t, err)
		r := simulate(t, w, name, func(c *sim.Config) {
			c.Faults, err = sim.ParseFaults("host=10s/5s,rack=30s/5s,scheduler=10s/1s,status-delay=500ms")
			require.NoError(t, err)
		})
		require.Positive(t, r.Faults.Restarts, name)
		require.Positive(t, r.Tasks.Finished, name)
		require.Zero(t, r.Tasks.Waiting+r.Tasks.Failed, name)
	}
}

package trace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// recorded returns the path of a trace, and skips the test where there are none.
func recorded(t *testing.T, name string) string {
	dir := os.Getenv("SLUICE_DATA")
	if dir == "" {
		t.Skip("SLUICE_DATA is not set: no recorded traces")
	}
	return filepath.Join(dir, "traces", name)
}

// totals is what a workload adds up to.
type totals struct {
	jobs, instances int
	gangs           map[uint32]int
	pools           map[cluster.PoolPath]int
	asked           cluster.Resources
	bytes           int64
	paths           map[string]bool
	runTime         time.Duration
	longest         time.Duration
	span            time.Duration // from 0 to the last submission
	models          int           // jobs that name models of GPUs
}

func total(t *testing.T, w *Workload) totals {
	sum := totals{gangs: make(map[uint32]int), pools: make(map[cluster.PoolPath]int), paths: make(map[string]bool)}
	for {
		j, err := w.Jobs.Next()
		if err == io.EOF {
			return sum
		}
		require.NoError(t, err)
		sum.jobs++
		sum.instances += int(j.Spec.Instances)
		sum.gangs[coreOf(j)]++
		sum.pools[j.Spec.Pool]++
		sum.asked = sum.asked.Add(j.Spec.Task.Resources.Times(int64(j.Spec.Instances)))
		for _, in := range j.Spec.Inputs {
			sum.bytes += in.Bytes
			sum.paths[in.Name] = true
		}
		for i := range j.Spec.Instances {
			sum.runTime += j.Duration(i)
			sum.longest = max(sum.longest, j.Duration(i))
		}
		require.GreaterOrEqual(t, j.Submit, sum.span)
		sum.span = j.Submit
		if len(j.Spec.Task.GPU.Models) > 0 {
			sum.models++
		}
	}
}

func openRecorded(t *testing.T, o Options) *Workload {
	for _, path := range []*string{&o.Jobs, &o.Hosts} {
		if *path != "" {
			*path = recorded(t, *path)
		}
	}
	w, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

const openbHosts = "alibaba-gpu-2023/openb_node_list_all_node.csv"

func openbList(name string) string {
	return fmt.Sprintf("alibaba-gpu-2023/openb_pod_list_%s.csv.gz", name)
}

func TestRecordedOpenb(t *testing.T) {
	for _, c := range []struct {
		list         string
		pods, models int
		timed        bool
	}{
		{"default", 8152, 0, true},
		{"gpuspec33", 8152, 2388, true},
		{"gpushare100", 8152, 0, true},
		{"cpu250", 9420, 0, true},
		{"multigpu50", 9061, 0, false},
	} {
		w := openRecorded(t, Options{Format: "openb", Jobs: openbList(c.list), Hosts: openbHosts})
		require.Len(t, w.Hosts, 1523)
		capacity := capacityOf(w.Hosts)
		require.EqualValues(t, 125_514_000, capacity.Fixed[cluster.CPU])
		require.EqualValues(t, 6_212_000, capacity.Fixed[cluster.GPU])
		require.Equal(t, c.timed, w.Arrivals)
		require.Equal(t, c.timed, w.Departures)
		got := total(t, w)
		require.Equal(t, c.pods, got.jobs, c.list)
		require.Equal(t, c.pods, got.instances, c.list)
		require.Equal(t, c.models, got.models, c.list)
		if c.timed {
			require.InDelta(t, 145, got.longest.Hours()/24, 1)
		}
	}
}

// TestRecordedOpenbPeaks: as recorded, at most 65.6 GPUs are in use at once.
func TestRecordedOpenbPeaks(t *testing.T) {
	w := openRecorded(t, Options{Format: "openb", Jobs: openbList("default"), Hosts: openbHosts})
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.InDelta(t, 65.6/6212, loadOf(w.Hosts, jobs, 1), 0.1/6212)
}

func TestRecordedOpenbModes(t *testing.T) {
	for _, load := range []float64{0.9, 1.1} {
		w := openRecorded(t, Options{Format: "openb", Jobs: openbList("default"), Hosts: openbHosts, Mode: Mode{OfferedLoad: load}})
		require.InDelta(t, load, w.Compression.Load, 0.001)
		require.Greater(t, w.Compression.Span, 10*time.Minute, "all come at once")
		require.Equal(t, 8152*w.Compression.Copies, total(t, w).jobs)
	}
	for _, list := range []string{"default", "gpuspec33", "gpushare100", "cpu250", "multigpu50"} {
		w := openRecorded(t, Options{
			Format: "openb", Jobs: openbList(list), Hosts: openbHosts, Mode: Mode{Demand: 1.3, Gap: time.Second, NoDepartures: true},
		})
		got := total(t, w)
		require.InDelta(t, 1.3, float64(got.asked.Fixed[cluster.GPU])/6_212_000, 0.002, list)
		require.Zero(t, got.longest, "somebody departs")
	}
}

func TestRecordedGoogle(t *testing.T) {
	const hosts = "google-2011/machines.csv.gz"
	w := openRecorded(t, Options{Format: "google-2011", Jobs: "google-2011/GOOG_subtrace.tr.gz", Hosts: hosts})
	require.Len(t, w.Hosts, 12_580)
	kinds := make(map[[cluster.NumDimensions]int64]int)
	for _, h := range w.Hosts {
		kinds[h.Capacity.Fixed]++
	}
	require.Len(t, kinds, 10)
	require.Equal(t, 795, kinds[[cluster.NumDimensions]int64{cluster.CPU: googleCPUMilli, cluster.Memory: googleMemory}])
	got := total(t, w)
	require.Equal(t, 10_000, got.jobs)
	require.Equal(t, 312_558, got.instances)
	require.InDelta(t, 326_131, got.longest.Seconds(), 1)
	require.InDelta(t, 1_499_997-1_406_471, got.span.Seconds(), 1)

	w = openRecorded(t, Options{Format: "google-2011-events", Jobs: "google-2011/job_events_parts_000-124.csv.gz", Hosts: hosts})
	got = total(t, w)
	require.Equal(t, 159_476, got.jobs)
	require.InDelta(t, 7.26, got.span.Hours()/24, 0.01)
}

func TestRecordedPhilly(t *testing.T) {
	o := Options{Format: "philly", Jobs: "philly-gpu/philly_vcs_a.csv.gz", Hosts: "philly-gpu/philly_machine_list.csv"}
	w := openRecorded(t, o)
	require.Len(t, w.Hosts, 552)
	require.EqualValues(t, 3_205_000, capacityOf(w.Hosts).Fixed[cluster.GPU])
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.InDelta(t, 538.0/3205, loadOf(w.Hosts, jobs, 1), 2.0/3205)
	got := total(t, &Workload{Jobs: fromSlice(jobs)})
	require.Equal(t, 30_522, got.jobs)
	require.Len(t, got.pools, 8)
	require.Equal(t, map[uint32]int{1: 26_747, 2: 1652, 4: 1378, 8: 686, 12: 7, 16: 45, 24: 4, 32: 3}, got.gangs)

	o.Hosts, o.Fleet = "", Fleet{Hosts: 25}
	require.EqualValues(t, 200_000, capacityOf(openRecorded(t, o).Hosts).Fixed[cluster.GPU])
}

func TestRecordedBatchJobs(t *testing.T) {
	w := openRecorded(t, Options{Format: "batch-jobs", Jobs: "batch-jobs-cloudsimpy/jobs.csv.gz"})
	got := total(t, w)
	require.Equal(t, 31_756, got.jobs)
	require.Equal(t, 2_551_075, got.instances)
	require.Equal(t, 59_829*time.Second, got.span)
}

func TestRecordedSWIM(t *testing.T) {
	w := openRecorded(t, Options{
		Format: "swim", Jobs: "swim-facebook-2010/FB-2010_samples_24_times_1hr_withInputPaths_0.tsv.gz",
		Fleet: Fleet{Hosts: 300}, BlockBytes: 1 << 40,
	})
	require.Len(t, rackNames(w.Hosts), 15)
	got := total(t, w)
	require.Equal(t, 25_428, got.jobs)
	require.EqualValues(t, 1_205_910_635_046_222, got.bytes) // 1.2 PB
	require.LessOrEqual(t, len(got.paths), 17_158)
	require.Greater(t, len(got.paths), 16_000) // the others have nothing in them
}

func TestRecordedServices(t *testing.T) {
	w := openRecorded(t, Options{Format: "bytedance-services", Jobs: "bytedance-services/M3.json.gz"})
	require.Len(t, w.Hosts, 96)
	require.False(t, w.Arrivals || w.Departures)
	got := total(t, w)
	require.Equal(t, 547, got.jobs)
	require.Equal(t, 3485, got.instances)
	require.InDelta(t, 96*serviceCPUMilli, capacityOf(w.Hosts).Fixed[cluster.CPU], 96)
}

func TestRecordedMachinesAndInstances(t *testing.T) {
	for _, c := range []struct {
		format, file string
		hosts        int
	}{
		{"alibaba-2018", "machine_meta_2018.csv.gz", 4034},
		{"pai-2020", "pai_machine_spec_2020.csv.gz", 1897},
		{"spot-2026", "spot_gpu_2026_node_info_df.csv.gz", 4278},
	} {
		w := openRecorded(t, Options{
			Format: "dlrm", Jobs: "alibaba-gpu-2025-dlrm/disaggregated_DLRM_trace.csv.gz",
			HostFormat: c.format, Hosts: "alibaba-machines/" + c.file,
		})
		require.Len(t, w.Hosts, c.hosts)
		if c.format == "alibaba-2018" {
			require.Len(t, rackNames(w.Hosts), 292)
		}
		got := total(t, w)
		require.Equal(t, 23_871, got.jobs)
		require.EqualValues(t, 7_386_000, got.asked.Fixed[cluster.GPU])
	}
}

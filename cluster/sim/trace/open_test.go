package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func ExampleOpen() {
	w, err := Open(Options{Format: "csv", Jobs: "testdata/jobs.csv", Hosts: "testdata/hosts.csv"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = w.Close() }()
	for {
		j, err := w.Jobs.Next()
		if err == io.EOF {
			break
		}
		fmt.Println(j.Submit, j.Spec.Name, "x", j.Spec.Instances)
	}
	// Output:
	// 0s web x 3
	// 1.5s train-1 x 4
	// 1.5s infer x 1
	// 2s crunch x 3
}

func testdata(name string) string { return filepath.Join("testdata", name) }

func TestHostsOfOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want int // hosts
	}{
		{"machine list", Options{Format: "openb", Jobs: testdata("openb-pods.csv"), Hosts: testdata("openb-nodes.csv")}, 3},
		{"of another format", Options{Format: "openb", Jobs: testdata("openb-pods.csv"), HostFormat: "csv", Hosts: testdata("hosts.csv")}, 3},
		{"made up", Options{Format: "openb", Jobs: testdata("openb-pods.csv"), Fleet: Fleet{Hosts: 7}}, 7},
		{"instead of the file's", Options{Format: "swf", Jobs: testdata("log.swf"), Fleet: Fleet{Hosts: 7}}, 7},
		{"in the file of jobs", Options{Format: "swf", Jobs: testdata("log.swf")}, 4},
		{"the usual ones", Options{Format: "swim", Jobs: testdata("swim.tsv")}, 3000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := Open(c.o)
			require.NoError(t, err)
			require.Len(t, w.Hosts, c.want)
			_, err = collect(w.Jobs)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		})
	}
}

// TestUsualHostsAsSaid: what is said of hosts holds also where the format says how many there are.
func TestUsualHostsAsSaid(t *testing.T) {
	w, err := Open(Options{Format: "swim", Jobs: testdata("swim.tsv"), Fleet: Fleet{CPUMilli: 2000, HostsPerRack: 1000}})
	require.NoError(t, err)
	require.Len(t, w.Hosts, 3000)
	require.EqualValues(t, 2000, w.Hosts[0].Capacity.Fixed[cluster.CPU])
	require.EqualValues(t, 64*gib, w.Hosts[0].Capacity.Fixed[cluster.Memory])
	require.Len(t, rackNames(w.Hosts), 3)
	require.NoError(t, w.Close())
}

// TestTimeBeginsWithTheFirstArrival: also where a part of a longer trace begins late; our own tables say when time begins.
func TestTimeBeginsWithTheFirstArrival(t *testing.T) {
	swfJob := func(number, submit int) string {
		return fmt.Sprintf("%d %d -1 60 2 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1\n", number, submit)
	}
	for format, c := range map[string]struct {
		text  string
		times []time.Duration
	}{
		"philly": {
			`[{"status":"Pass","vc":"a","jobid":"b","submitted_time":"2017-10-09 08:00:00","attempts":[{"start_time":"2017-10-09 09:00:00",` +
				`"detail":[{"gpus":[""]}]}]},{"status":"Pass","vc":"a","jobid":"a","submitted_time":"2017-10-09 07:00:00","attempts":` +
				`[{"start_time":"2017-10-09 09:00:00","detail":[{"gpus":[""]}]}]}]`,
			[]time.Duration{0, time.Hour},
		},
		"helios": {
			"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n" +
				"2,u,v,1,1,1,FAILED,2020-06-09 18:42:41,2020-06-09 18:42:42,,,\n1,u,v,1,1,1,FAILED,2020-06-09 18:41:41,2020-06-09 18:42:41,,,\n",
			[]time.Duration{0, time.Minute},
		},
		"swf":                {swfJob(7, 30_000_000) + swfJob(8, 30_000_090), []time.Duration{0, 90 * time.Second}},
		"swim":               {"job9\t82800\t1\t5\t0\t1\njob10\t82801\t1\t5\t0\t1\n", []time.Duration{0, time.Second}},
		"google-2011-events": {"600000000,,5,0,1\n600500000,,6,0,1\n", []time.Duration{0, 500 * time.Millisecond}},
		"openb": {
			strings.Join(openbPods, ",") + "\nb,1,1,0,0,,LS,Running,12000,12500,12000\na,1,1,0,0,,BE,Running,11000,12600,11000\n",
			[]time.Duration{0, 1000 * time.Second},
		},
		"csv": {"job,submit_s\na,10\nb,11\n", []time.Duration{10 * time.Second, 11 * time.Second}},
	} {
		t.Run(format, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			w, err := Open(Options{Format: format, Jobs: path, Fleet: Fleet{Hosts: 1}})
			require.NoError(t, err)
			jobs, err := collect(w.Jobs)
			require.NoError(t, err)
			var times []time.Duration
			for _, j := range jobs {
				times = append(times, j.Submit)
			}
			require.Equal(t, c.times, times)
			require.NoError(t, w.Close())
		})
	}
}

// TestATinyDurationIsNotForEver: what is more than nothing does not round to the 0 that stands for that.
func TestATinyDurationIsNotForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(path, []byte("job,instances,duration_s\na,2,1e-10;0\n"), 0o600))
	w, err := Open(Options{Format: "csv", Jobs: path})
	require.NoError(t, err)
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Nanosecond, 0}, jobs[0].Durations)
	require.NoError(t, w.Close())
}

// TestARecordedZeroIsASecond: in every format.
func TestARecordedZeroIsASecond(t *testing.T) {
	for format, text := range map[string]string{
		"google-2011": "5 2 0.2 0 0.4\n",
		"philly":      "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,0,1,0.0,ab\n",
		"batch-jobs":  ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n0,5,0,1,0.1,1,1,1,0\n",
	} {
		path := filepath.Join(t.TempDir(), "jobs")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		w, err := Open(Options{Format: format, Jobs: path, Fleet: Fleet{Hosts: 1}})
		require.NoError(t, err, format)
		jobs, err := collect(w.Jobs)
		require.NoError(t, err, format)
		require.Equal(t, time.Second, jobs[0].Durations[0], format)
		require.NoError(t, w.Close())
	}
}

func TestOpenErrors(t *testing.T) {
	pods := testdata("openb-pods.csv")
	for want, o := range map[string]Options{
		`format "excel" is not known: one of alibaba-2017, alibaba-2018, azure-vm`: {Format: "excel", Jobs: pods},
		`format "pai-2020" needs hosts`:                                            {Format: "pai-2020", Jobs: pods},
		"no file of jobs is given":                                                 {Format: "openb"},
		`format "openb" needs hosts`:                                               {Format: "openb", Jobs: pods},
		"hosts are given twice":                                                    {Format: "openb", Jobs: pods, Hosts: pods, Fleet: Fleet{Hosts: 1}},
		`format "swim" has no machine lists`:                                       {Format: "swim", Jobs: pods, Hosts: pods},
		`format "x" is not known`:                                                  {Format: "swim", Jobs: pods, Hosts: pods, HostFormat: "x"},
		"missing.csv: no such file":                                                {Format: "openb", Jobs: testdata("missing.csv"), Fleet: Fleet{Hosts: 1}},
		"nodes.csv: no such file":                                                  {Format: "openb", Jobs: pods, Hosts: "nodes.csv"},
		"hosts is -1: 1 to 1000000":                                                {Format: "swim", Jobs: pods, Fleet: Fleet{Hosts: -1}},
		"the list of machines says what hosts have":                                {Format: "openb", Jobs: pods, Hosts: pods, Fleet: Fleet{GPUs: 4}},
		`there is no machine list of format "csv"`:                                 {Format: "swim", Jobs: pods, HostFormat: "csv"},
		"limit is -1: want 0 or more":                                              {Format: "openb", Jobs: pods, Limit: -1},
		"blocks of 9223372036854775807 bytes: want 0 to 1125899906842624":          {Format: "swim", Jobs: testdata("swim.tsv"), BlockBytes: math.MaxInt64},
		"offered load and demand exclude each other":                               {Format: "openb", Jobs: pods, Mode: Mode{Demand: 1, OfferedLoad: 1}},
		"offered load needs recorded arrivals and durations":                       {Format: "openb", Jobs: testdata("openb-pods-untimed.csv"), Fleet: Fleet{Hosts: 1}, Mode: Mode{OfferedLoad: 1}},
		"openb-pods.csv:1:1: column 1 of the header is \"name\": want \"sn\"":      {Format: "openb", Jobs: pods, Hosts: pods},
	} {
		_, err := Open(o)
		require.ErrorContains(t, err, want)
	}
}

// longFile writes a gzipped file of n rows.
func longFile(t *testing.T, name string, n int, header string, row func(i int) string) string {
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	b := bufio.NewWriter(z)
	_, _ = fmt.Fprintln(b, header) // Flush tells
	for i := range n {
		_, _ = fmt.Fprintln(b, row(i))
	}
	require.NoError(t, b.Flush())
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	return path
}

// TestLongFiles: 300,000 jobs take a fraction of 1 GiB even where they have to be collected, and next to nothing where
// they are streamed.
func TestLongFiles(t *testing.T) {
	n := 300_000
	if testing.Short() {
		n = 30_000
	}
	for _, c := range []struct {
		format, header string
		row            func(i int) string
		mode           Mode
		limit          uint64
	}{
		{
			"csv", "submit_s,job,instances,duration_s,cpu_milli,memory_bytes",
			func(i int) string { return fmt.Sprintf("%d,job-%d,3,100,500,1073741824", i, i) },
			Mode{},
			100 * mib,
		},
		{
			"openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
			func(i int) string { return fmt.Sprintf("pod-%d,4000,8192,1,500,T4|G2,LS,Running,%d,%d,", i, n-i, n+i) },
			Mode{},
			400 * mib,
		},
		{
			"helios", "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
			func(i int) string {
				day := fmt.Sprintf("2020-06-%02d 18:41:27", 30-i%30)
				return fmt.Sprintf("%d,u%d,vc%d,4,16,1,COMPLETED,%s,%s,%s,0,0", i, i%900, i%20, day, day, day)
			},
			Mode{},
			100 * mib,
		},
		{
			"openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
			func(i int) string { return fmt.Sprintf("pod-%d,4000,8192,1,500,,LS,Running,%d,%d,", i, n-i, n+i) },
			Mode{OfferedLoad: 0.9},
			500 * mib,
		},
	} {
		path := longFile(t, c.format, n, c.header, c.row)
		before := heap()
		w, err := Open(Options{Format: c.format, Jobs: path, Fleet: Fleet{Hosts: n / 15, GPUs: 4}, Mode: c.mode})
		require.NoError(t, err)
		jobs, most := 0, heap()
		var last time.Duration
		for {
			j, err := w.Jobs.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, j.Submit, last)
			last = j.Submit
			if jobs++; jobs%(n/4) == 0 {
				most = max(most, heap())
			}
		}
		require.NoError(t, w.Close())
		require.Zero(t, jobs%n)
		require.Less(t, most-min(before, most), c.limit)
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestDocumented: docs/traces.md knows every format, every column of our own tables and every kind of generated jobs.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "traces.md"))
	require.NoError(t, err)
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	names = slices.Concat(names, slices.Collect(maps.Keys(csvJobColumns)), slices.Collect(maps.Keys(csvHostColumns)), Kinds())
	for _, n := range names {
		require.Contains(t, string(text), "`"+n+"`")
	}
	_, example, found := strings.Cut(string(text), "\n    submit_s")
	require.True(t, found)
	table, _, _ := strings.Cut("    submit_s"+example, "\n\n")
	read, err := sample{format: "csv", file: "docs"}.read(t, strings.NewReader(strings.ReplaceAll(table, "    ", "")))
	require.NoError(t, err)
	require.Contains(t, read, "train BATCH")
}

func TestReserveDividesByWhatJobsTake(t *testing.T) {
	w, err := Open(Options{Format: "csv", Jobs: testdata("jobs.csv"), Fleet: Fleet{Hosts: 10, CPUMilli: 1000, GPUs: 1}, Reserve: 0.5})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	sum := map[string]int64{}
	for _, p := range w.Pools {
		for _, r := range p.Resources {
			require.Equal(t, cluster.NoLimit, r.Limit)
			if p.Path != "root/prod" { // counted in the one below
				sum[r.Dimension] += r.Reservation
			}
		}
	}
	require.InDelta(t, 5000, sum[cluster.CPU.String()], 5)
	require.InDelta(t, 5000, sum[cluster.GPU.String()], 5)
	require.Equal(t, w.Pools[slices.IndexFunc(w.Pools, func(p cluster.Pool) bool { return p.Path == "root/prod" })].Resources,
		w.Pools[slices.IndexFunc(w.Pools, func(p cluster.Pool) bool { return p.Path == "root/prod/web" })].Resources)
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.Len(t, jobs, 4, "the jobs are still there")

	_, err = Open(Options{Format: "csv", Jobs: testdata("jobs.csv"), Reserve: 1.5})
	require.ErrorContains(t, err, "reserved part")
}

// TestReserveForJobsThatStay: jobs that all come at once, for ever, reserve in proportion to what they ask for.
func TestReserveForJobsThatStay(t *testing.T) {
	hosts := testFleet(t)
	small, large := newJob("small", 0, 1, task(1000, 0, 0, cluster.GPURequest{})), newJob("large", 0, 3, task(1000, 0, 0, cluster.GPURequest{}))
	small.Spec.Pool, large.Spec.Pool = "root/small", "root/large"
	w := &Workload{Hosts: hosts, Jobs: fromSlice([]*Job{small, large})}
	require.NoError(t, w.reserve(0.8))
	require.Len(t, w.Pools, 2)
	cpu := float64(capacityOf(hosts).Fixed[cluster.CPU])
	require.InDelta(t, 0.6*cpu, w.Pools[0].Resources[0].Reservation, 1)
	require.InDelta(t, 0.2*cpu, w.Pools[1].Resources[0].Reservation, 1)
}

// Rows that record no job to replay are counted.
func TestRowsThatAreLeftOut(t *testing.T) {
	late := filepath.Join(t.TempDir(), "late.csv") // begins after a job was submitted
	require.NoError(t, os.WriteFile(late, []byte("600000000,,1,1,0\n600000001,,2,0,0\n600000002,,1,4,0\n"), 0o600))
	for file, c := range map[string]struct {
		format        string
		jobs, leftOut int
	}{
		testdata("alibaba-2018-tasks.csv"):       {"alibaba-2018", 4, 5},
		testdata("alibaba-2017-tasks.csv"):       {"alibaba-2017", 4, 5},
		testdata("azure-vms.csv"):                {"azure-vm", 4, 1},
		testdata("google-2019-instances.json"):   {"google-2019", 4, 2},
		testdata("google-2019-collections.json"): {"google-2019", 2, 0},
		testdata("pai-tasks.csv"):                {"pai-2020", 4, 4},
		testdata("helios-jobs.csv"):              {"helios", 4, 3},
		testdata("philly-log.json"):              {"philly", 3, 4},
		testdata("philly-jobs.csv"):              {"philly", 3, 0},
		testdata("google-events.csv"):            {"google-2011-events", 5, 0},
		testdata("google-task-events.csv"):       {"google-2011-events", 4, 1},
		late:                                     {"google-2011-events", 1, 2},
		testdata("log.swf"):                      {"swf", 4, 4},
		testdata("openb-pods.csv"):               {"openb", 4, 0},
	} {
		w, err := Open(Options{Format: c.format, Jobs: file, Fleet: Fleet{Hosts: 7}})
		require.NoError(t, err)
		jobs, err := collect(w.Jobs)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Len(t, jobs, c.jobs, file)
		require.Equal(t, c.leftOut, w.LeftOut(), file)
	}
}

// TestFits: a file is told by how it begins.
func TestFits(t *testing.T) {
	for _, s := range samples {
		want := []string{s.format}
		if s.hosts && s.format == "google-2011" {
			want = append(want, "google-2011-events")
		}
		require.Equal(t, want, Fits(testdata(s.file), s.hosts), "%+v", s)
	}
	long := filepath.Join(t.TempDir(), "long.swf")
	require.NoError(t, os.WriteFile(long, pack(t, []byte(strings.Repeat("; Note\n", 9000)+"1"+strings.Repeat(" 1", 17)+strings.Repeat("\n; ever", 1000)+"\n1")), 0o600))
	require.Equal(t, []string{"swf"}, Fits(long, false), "what comes later does not count")
	require.Empty(t, Fits(testdata("no such file"), false))
}

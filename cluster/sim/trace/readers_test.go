package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestSamples reads every small file and compares all that is read with what was judged right once.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		name := s.file + ".jobs"
		if s.hosts {
			name = s.file + ".hosts"
		}
		t.Run(name, func(t *testing.T) {
			got, err := s.read(t, bytes.NewReader(s.text(t)))
			require.NoError(t, err)
			golden := filepath.Join("testdata", "golden", name)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// TestEveryFormatHasSamples keeps the table of samples complete.
func TestEveryFormatHasSamples(t *testing.T) {
	for _, f := range Formats {
		var jobs, hosts bool
		for _, s := range samples {
			jobs = jobs || s.format == f.Name && !s.hosts
			hosts = hosts || s.format == f.Name && s.hosts
		}
		if f.Name == "google-2011-events" {
			hosts = true // the list of google-2011
		}
		require.Equal(t, f.jobs != nil, jobs, f.Name)
		require.Equal(t, f.hosts != nil, hosts, f.Name)
	}
}

// TestPacking: gzip is recognised by content, and neither it nor a byte-order mark nor CRLF changes what is read.
func TestPacking(t *testing.T) {
	for _, s := range samples {
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		crlf := bytes.ReplaceAll(s.text(t), []byte("\n"), []byte("\r\n"))
		for name, text := range map[string][]byte{
			"gzip": pack(t, s.text(t)), "mark": append([]byte("\xef\xbb\xbf"), s.text(t)...), "crlf": crlf, "packed crlf": pack(t, crlf),
		} {
			got, err := s.read(t, bytes.NewReader(text))
			require.NoError(t, err, "%s %s", s.file, name)
			require.Equal(t, want, got, "%s %s", s.file, name)
		}
	}
}

func pack(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// TestJoinedParts: parts of a table with a header each, one after the other, are the table, also gzipped as they are.
func TestJoinedParts(t *testing.T) {
	for _, file := range []string{
		"batch-jobs.csv", "dlrm.csv", "google-machines.csv", "helios.csv", "helios-jobs.csv", "hosts.csv", "jobs.csv", "openb-nodes.csv",
		"openb-pods.csv", "openb-pods-untimed.csv", "philly-jobs.csv", "philly-machines.csv", "philly-machine-list.csv", "spot.csv", "spot-jobs.csv",
	} {
		s := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == file })]
		lines := bytes.SplitAfter(s.text(t), []byte("\n"))
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		first, second := bytes.Join(lines[:2], nil), append(slices.Clone(lines[0]), bytes.Join(lines[2:], nil)...)
		marked := slices.Concat([]byte("\ufeff"), first, []byte("\ufeff"), second)
		for _, joined := range [][]byte{slices.Concat(first, second), slices.Concat(pack(t, first), pack(t, second)), marked} {
			got, err := s.read(t, bytes.NewReader(joined))
			require.NoError(t, err, file)
			require.Equal(t, want, got, file)
		}
	}
	pods := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == "openb-pods.csv" })]
	_, err := pods.read(t, strings.NewReader(string(pods.text(t))+strings.Join(openbPods, ",")+"\n\npod-9,x,1,0,0,,LS,Running,1,2,\n"))
	require.ErrorContains(t, err, `:8:7: cpu_milli is "x"`, "lines count as they are in the file")
	_, err = pods.read(t, strings.NewReader(string(pods.text(t))+strings.Join(openbPodsUntimed, ",")+"\n"))
	require.ErrorContains(t, err, `:6:1: 5 fields: want 11`, "the header of another table")
}

// TestColumnsInAnyOrder: the header says which column is which, and a part may have them in the order of the first.
func TestColumnsInAnyOrder(t *testing.T) {
	for _, file := range []string{
		"batch-jobs.csv", "dlrm.csv", "google-machines.csv", "helios-jobs.csv", "openb-nodes.csv", "openb-pods.csv", "openb-pods-untimed.csv",
		"philly-jobs.csv", "philly-machines.csv", "spot.csv", "spot-jobs.csv",
	} {
		s := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == file })]
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(s.text(t))), "\n")
		for i := range lines {
			fields := strings.Split(lines[i], ",")
			slices.Reverse(fields)
			lines[i] = strings.Join(fields, ",")
		}
		got, err := s.read(t, strings.NewReader(strings.Join(append(lines[:2:2], append(lines[:1:1], lines[2:]...)...), "\n")))
		require.NoError(t, err, file)
		require.Equal(t, want, got, file)
	}
	nodes := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == "spot.csv" })]
	_, err := nodes.read(t, strings.NewReader("node_name,gpu_model,gpu_capacity_num,cpu_num\n0,A10,1,x\n"))
	require.ErrorContains(t, err, `:2:9: cpu_num is "x"`)
	_, err = nodes.read(t, strings.NewReader("gpu_model,gpu_model,gpu_capacity_num,cpu_num\n"))
	require.ErrorContains(t, err, `:1:11: column 2 of the header is "gpu_model": want "gpu_capacity_num"`)
}

// TestCopiesWithHeader: tables that are published without a header may have it.
func TestCopiesWithHeader(t *testing.T) {
	for file, header := range map[string]string{
		"alibaba-2017.csv":       "timestamp,machine_id,event_type,event_detail,cpu,memory,disk",
		"alibaba-2018-tasks.csv": "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem",
		"azure-vms.csv":          "vmid,subscriptionid,deploymentid,vmcreated,vmdeleted,maxcpu,avgcpu,p95maxcpu,vmcategory,vmcorecountbucket,vmmemorybucket",
		"google-events.csv":      "timestamp,missing_info,job_id,event_type,scheduling_class",
		"pai.csv":                "machine,gpu_type,cap_cpu,cap_mem,cap_gpu",
		"pai-tasks.csv":          "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
	} {
		s := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == file })]
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		first, rest, _ := strings.Cut(string(s.text(t)), "\n")
		for _, text := range []string{header + "\n" + first + "\n" + rest, header + "\n" + first + "\n\ufeff" + header + "\n" + rest} {
			got, err := s.read(t, strings.NewReader(text))
			require.NoError(t, err, file)
			require.Equal(t, want, got, file)
		}
	}
}

// TestCutOff: a gzipped file that ends too early is no shorter trace, and neither is one that is damaged.
func TestCutOff(t *testing.T) {
	for _, s := range samples {
		if s.hosts && s.format == "swf" {
			continue // reads the head of the file only
		}
		packed := pack(t, s.text(t))
		_, err := s.read(t, bytes.NewReader(packed[:len(packed)-9]))
		require.ErrorContains(t, err, "the gzipped file is cut off", s.file)
		require.ErrorContains(t, err, s.file)
		packed[len(packed)-8] ^= 1
		_, err = s.read(t, bytes.NewReader(packed))
		require.ErrorContains(t, err, "the gzipped file is damaged, get it again: gzip: invalid checksum", s.file)
		_, err = s.read(t, bytes.NewReader(packed[:5]))
		require.ErrorContains(t, err, s.file+": the gzipped file is cut off", s.file)
	}
}

// TestPadded: zeros after a gzipped file, as tar and copies of whole blocks leave them, are no member of it that is damaged; zeros
// after a plain one may stand for text that is lost.
func TestPadded(t *testing.T) {
	for _, s := range samples {
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		packed := pack(t, s.text(t))
		for _, zeros := range []int{1, 9, 512, 100_000} {
			padding := make([]byte, zeros)
			got, err := s.read(t, bytes.NewReader(slices.Concat(packed, padding)))
			require.NoError(t, err, "%s and %d zeros", s.file, zeros)
			require.Equal(t, want, got, s.file)
			got, err = s.read(t, bytes.NewReader(slices.Concat(packed, padding, pack(t, nil), padding)))
			require.NoError(t, err, "%s and %d zeros", s.file, zeros)
			require.Equal(t, want, got, s.file)
		}
		if s.hosts && s.format == "swf" {
			continue // reads the head of the file only
		}
		_, err = s.read(t, bytes.NewReader(slices.Concat(packed, make([]byte, 512), packed[:len(packed)-9])))
		require.ErrorContains(t, err, s.file)
		_, err = s.read(t, bytes.NewReader(slices.Concat(packed, []byte("1,2,3\n"))))
		require.ErrorContains(t, err, "what follows a gzipped part is not gzipped: gzip all of the parts, or none", s.file)
		_, err = s.read(t, bytes.NewReader(slices.Concat(s.text(t), make([]byte, 512))))
		require.ErrorContains(t, err, s.file+":", "zeros after plain text")
	}
}

// TestForeign: what is no text, or is packed otherwise, is named as what it is.
func TestForeign(t *testing.T) {
	for text, want := range map[string]string{
		string(pack(t, pack(t, []byte("1 2 3 4\n")))): "is gzipped twice: want text, plain or gzipped once",
		"\x28\xb5\x2f\xfd\x04\x58":                    "compressed by zstd",
		"\x1f\x9d\x90\x31":                            "compressed by compress",
		"\x04\x22\x4d\x18\x64\x40":                    "compressed by lz4",
		"7z\xbc\xaf\x27\x1c\x00\x04":                  "a 7z archive",
		string(pack(t, []byte("a.csv"+strings.Repeat("\x00", 252)+"ustar\x0000"))): "a tar archive",
		"\xff\xfe1\x00 \x002\x00": "encoded in UTF-16",
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n": "the pointer of Git LFS to a file that `git lfs pull` gets",
	} {
		for _, s := range samples {
			_, err := s.read(t, strings.NewReader(text))
			require.ErrorContains(t, err, want, s.file)
			require.ErrorContains(t, err, s.file)
		}
	}
}

// TestNothingInIt: empty files are refused where there must be something.
func TestNothingInIt(t *testing.T) {
	for _, s := range samples {
		_, err := s.read(t, strings.NewReader(""))
		switch s.file {
		case "alibaba-2017-tasks.csv", "alibaba-2018-tasks.csv", "azure-vms.csv", "google-2019-collections.json", "google-2019-instances.json", "pai-tasks.csv", "google-subtrace.tr", "google-events.csv", "google-task-events.csv", "swim.tsv": // have no header: no job is no mistake
			require.NoError(t, err, s.file)
		case "log.swf":
			require.Equal(t, s.hosts, err != nil)
		case "jobs.csv", "hosts.csv":
			require.ErrorContains(t, err, s.file+":1:1: the file is empty: want a header with the column")
		default:
			require.ErrorContains(t, err, s.file)
		}
	}
}

// TestAProductIsRounded: 0.1·3 is not 0.3 in binary, and that is no mistake of a list.
func TestAProductIsRounded(t *testing.T) {
	text := "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,0.1,3,0.3,ab\n"
	list, err := openPhilly("philly-jobs.csv", strings.NewReader(text), jobOptions{})
	require.NoError(t, err)
	j, err := list.Next()
	require.NoError(t, err)
	require.Equal(t, []time.Duration{100 * time.Millisecond}, j.Durations)
}

// TestPartsOfADevice: a part is 1 to 999 thousandths; what is nearly a device takes a whole one.
func TestPartsOfADevice(t *testing.T) {
	for devices, want := range map[float64]cluster.GPURequest{
		0: {}, 0.0001: {Milli: 1}, 0.55: {Milli: 550}, 0.999: {Milli: 999}, 0.9995: {Count: 1}, 1: {Count: 1}, 1.5: {Count: 2}, 8: {Count: 8},
	} {
		require.Equal(t, want, gpuParts(devices), "%v devices", devices)
	}
}

// TestWideJobs: a job of more processors than a job has tasks has several for each.
func TestWideJobs(t *testing.T) {
	for processors, want := range map[int][2]int64{ // instances, and cores of each
		100_000: {100_000, 1}, 100_001: {50_001, 2}, 163_840: {81_920, 2}, 10_000_000: {100_000, 100},
	} {
		log := fmt.Sprintf("1 0 0 60 %d -1 1024 -1 -1 -1 1 1 1 1 1 1 -1 -1\n", processors)
		list, err := openSWF("log.swf", strings.NewReader(log), jobOptions{})
		require.NoError(t, err)
		j, err := list.Next()
		require.NoError(t, err)
		asks := j.Spec.Task.Resources.Fixed
		require.Equal(t, want, [2]int64{int64(j.Spec.Instances), asks[cluster.CPU] / 1000})
		require.Equal(t, want[1]*mib, asks[cluster.Memory])
		require.Equal(t, j.Spec.Instances, j.Spec.Gang.Minimum)
	}
}

// TestOtherParts: the same data sets have files with more or fewer columns, and such that begin in the middle.
func TestOtherParts(t *testing.T) {
	for name, c := range map[string]struct {
		file       string
		text, want string
	}{
		"all columns of job_events": {
			"google-events.csv",
			"600000000,,32,0,u/=,1,n==,l=\n600500000,,33,0,u/=,2,n==,l=\n601000000,,32,1,u/=,1,n==,l=\n604000000,,32,4,u/=,1,n==,l=\n",
			"600000000,,32,0,1\n600500000,,33,0,2\n601000000,,32,1,1\n604000000,,32,4,1\n",
		},
		"job_events without what the schema leaves optional": {
			"google-events.csv",
			"600000000,,32,0,,,,\n601000000,,32,1,,,,\n604000000,1,32,4,,,,\n",
			"600000000,,32,0,0\n601000000,,32,1,0\n604000000,1,32,4,0\n",
		},
		"job_events in parts that are joined in another order": {
			"google-events.csv",
			"604000000,,32,4,0\n604000000,,33,0,1\n601000000,,32,1,0\n600000000,,32,0,0\n600500000,,31,0,1\n600500000,,31,1,1\n",
			"600000000,,32,0,0\n600500000,,31,0,1\n600500000,,31,1,1\n601000000,,32,1,0\n604000000,,32,4,0\n604000000,,33,0,1\n",
		},
		"a part of job_events in the middle": {
			"google-events.csv",
			"600000000,,30,1,1\n600000000,,32,0,1\n600100000,,31,4,0\n600200000,,31,0,0\n601000000,,32,1,1\n604000000,,32,4,1\n",
			"600000000,,32,0,1\n600200000,,31,0,0\n601000000,,32,1,1\n604000000,,32,4,1\n",
		},
		"a later part of the batch jobs": {
			"batch-jobs.csv",
			",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n70,20,3,1,0.25,9,23,2,0\n71,30,3,1,0.25,9,24,2,0\n",
			",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n0,20,3,1,0.25,9,23,2,0\n1,30,3,1,0.25,9,24,2,0\n",
		},
		"swim without input paths": {
			"swim.tsv",
			"job0\t1\t1\t536870912\t0\t19\njob1\t2\t1\t300000000\t1\t1\n",
			"job0\t1\t1\t536870912\t0\t19\tjob0\t\t\njob1\t2\t1\t300000000\t1\t1\tjob1\t\t\n",
		},
		"swim with output paths": {
			"swim.tsv",
			"job0\t1\t1\t536870912\t0\t19\ta\to\t\njob1\t2\t1\t300000000\t1\t1\t\to\t\n",
			"job0\t1\t1\t536870912\t0\t19\ta\t\t\njob1\t2\t1\t300000000\t1\t1\tjob1\t\t\n",
		},
		"swim as older versions of it wrote it": {
			"swim.tsv",
			"job0\t1\t1\t536870912\t0\t19\ta\to\njob1\t2\t1\t300000000\t1\t1\tb\to\n",
			"job0\t1\t1\t536870912\t0\t19\ta\t\t\njob1\t2\t1\t300000000\t1\t1\tb\t\t\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(samples, func(s sample) bool { return s.file == c.file && !s.hosts })
			got, err := samples[i].read(t, strings.NewReader(c.text))
			require.NoError(t, err)
			want, err := samples[i].read(t, strings.NewReader(c.want))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	i := slices.IndexFunc(samples, func(s sample) bool { return s.file == "swim.tsv" })
	got, err := samples[i].read(t, strings.NewReader("job17\t90\t4\t1\t0\t0\njob18\t95\t5\t1\t0\t0\n"))
	require.NoError(t, err)
	require.Contains(t, got, "1m30s swim-17 ")
	require.Contains(t, got, "1m35s swim-18 ")

	i = slices.IndexFunc(samples, func(s sample) bool { return s.file == "philly-machines.csv" })
	got, err = samples[i].read(t, strings.NewReader(",machineId,number of GPUs\n40,m40,8\n41,m41,2\n"))
	require.NoError(t, err)
	require.Contains(t, got, "m41")

	i = slices.IndexFunc(samples, func(s sample) bool { return s.file == "philly-log.json" })
	got, err = samples[i].read(t, strings.NewReader("\n \t[]"))
	require.NoError(t, err)
	require.Equal(t, "arrivals true, departures true\n", got)

	i = slices.IndexFunc(samples, func(s sample) bool { return s.file == "coflows.txt" })
	got, err = samples[i].read(t, strings.NewReader("3 3\n7 0 1 2 1 0:1\n0 5 1 2 1 0:1\n4 5 1 2 1 0:1\n")) // sorted by arrival
	require.NoError(t, err)
	for _, job := range []string{" coflow-7 ", " coflow-0 ", " coflow-4 "} {
		require.Contains(t, got, job)
	}
}

// TestPhillyLines: the log may be JSON lines, an object a line, also in parts that are joined.
func TestPhillyLines(t *testing.T) {
	log := samples[slices.IndexFunc(samples, func(s sample) bool { return s.file == "philly-log.json" })]
	want, err := log.read(t, bytes.NewReader(log.text(t)))
	require.NoError(t, err)
	var jobs []json.RawMessage
	require.NoError(t, json.Unmarshal(log.text(t), &jobs))
	var lines []string
	for _, j := range jobs {
		var line bytes.Buffer
		require.NoError(t, json.Compact(&line, j))
		lines = append(lines, line.String())
	}
	text := strings.Join(lines, "\n")
	for _, text := range []string{text, text + "\n", "\n" + strings.ReplaceAll(text, "\n", "\r\n\r\n") + "\n"} {
		got, err := log.read(t, strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := log.read(t, bytes.NewReader(slices.Concat(pack(t, []byte(lines[0]+"\n")), pack(t, []byte(strings.Join(lines[1:], "\n"))))))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for damaged, want := range map[string]string{
		text[:len(text)-2]:                        `:7:1: job: the file ends here, get the whole of it`,
		text + "\n]":                              `:8:1: text after the end`,
		text + "\n7":                              `:8:1: job: an element is of the kind number: want object`,
		strings.ReplaceAll(text, "\n", ",\n"):     `job: invalid character ','`,
		strings.Replace(text, "Failed", "", 1):    `:5:1: status is empty`,
		text + "\n" + lines[1]:                    `:8:1: job "application_1_1" is in line 2 already`,
		text + "\n{" + strings.Repeat(" ", 9<<20): `:8:1: a value is longer than 4194304 bytes`,
	} {
		_, err := log.read(t, strings.NewReader(damaged))
		require.ErrorContains(t, err, want)
	}
}

// TestRowsInAnyOrder: an export comes in no order, and in parts of which some may come twice.
func TestRowsInAnyOrder(t *testing.T) {
	for _, s := range samples {
		if s.format != "google-2019" && s.format != "google-2011-events" {
			continue
		}
		want, err := s.read(t, bytes.NewReader(s.text(t)))
		require.NoError(t, err)
		lines := strings.SplitAfter(strings.TrimSpace(string(s.text(t)))+"\n", "\n")
		for _, mixed := range [][]string{lines, slices.Concat(lines[3:], lines[:3])} {
			slices.Reverse(mixed)
			got, err := s.read(t, strings.NewReader(strings.Join(mixed, "")))
			require.NoError(t, err, s.file)
			require.Equal(t, want, got, s.file)
		}
		got, err := s.read(t, strings.NewReader(strings.Join(slices.Concat(lines, lines), "")))
		require.NoError(t, err, s.file)
		require.Equal(t, want, got, s.file)
	}
}

// TestRunsOfAnInstance: what counts is the run from the last schedule on, and whether the instance was there at the end.
func TestRunsOfAnInstance(t *testing.T) {
	const fail, kill = 5, 7
	for _, c := range []struct {
		events []borgEvent
		want   time.Duration
	}{
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 9, kind: fail}}, 7},
		{[]borgEvent{{at: 1}, {at: 4, kind: kill}}, 3},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}, {at: 7, kind: borgSchedule}, {at: 9, kind: kill}}, 2},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}, {at: 9, kind: kill}}, 3}, // killed while it waited
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5}, {at: 5, kind: fail}, {at: 9, kind: kill}}, 3},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}}, 0}, // waits
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}, {at: 6, kind: kill}}, 3},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5}, {at: 5, kind: fail}}, 0},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}, {at: 5}, {at: 5}, {at: 5, kind: fail}, {at: 5, kind: fail}}, 0},
		{[]borgEvent{{at: 1}, {at: 2, kind: borgSchedule}}, 0},
		{[]borgEvent{{at: 1, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}}, 0}, // submitted again, and waits
		{[]borgEvent{{at: 1, kind: borgSchedule}, {at: 5, kind: fail}, {at: 6}, {at: 9, kind: kill}}, 3},
	} {
		leftOut := 0
		jobs := borgJobs(c.events, &leftOut)
		require.Len(t, jobs, 1)
		require.Equal(t, []time.Duration{c.want * time.Microsecond}, jobs[0].durations, c.events)
	}
}

// TestInstancesBeyondTheMost: a job has so many instances, and not more.
func TestInstancesBeyondTheMost(t *testing.T) {
	var events []borgEvent
	for i := range cluster.MaxInstances + 2 {
		events = append(events, borgEvent{collection: 7, index: int32(i), at: 5, cpuMilli: 100})
	}
	leftOut := 0
	jobs := borgJobs(append(events, borgEvent{collection: 8, at: 4}), &leftOut)
	require.Len(t, jobs, 2)
	require.EqualValues(t, 8, jobs[0].collection)
	require.EqualValues(t, cluster.MaxInstances, jobs[1].instances)
	require.Equal(t, forEver, jobs[1].durations)
	require.Equal(t, 2, leftOut)
}

// TestStrictness changes one thing in a sample and expects one error that says where and what.
func TestStrictness(t *testing.T) {
	for _, c := range []struct {
		file     string
		old, new string
		want     string
	}{
		{"openb-pods.csv", "name,cpu_milli", "name,cpu", `:1:6: column 2 of the header is "cpu": want "cpu_milli"`},
		{"openb-pods.csv", ",scheduled_time", "", `:1:82: the header ends here: want column "scheduled_time" next`},
		{"openb-pods.csv", ",scheduled_time", ",scheduled_time,x", `:1:111: the header goes on with "x": want 11 columns`},
		{"openb-pods.csv", "pod-1,6000", "pod-1,6000.5", `:4:7: cpu_milli is "6000.5": want a whole number from 0 to 1125899906842624`},
		{"openb-pods.csv", "pod-1,", "pod-2,", `:4:1: job "pod-2" is in line 2 already`},
		{"openb-pods.csv", "pod-1,", "pod 1,", `:4:1: name is "pod 1": want at most 80 characters`},
		{"openb-pods.csv", "pod-1,", ",", `:4:1: name is empty`},
		{"openb-pods.csv", "1,460", "1,0", `:4:20: gpu_milli is 0 for 1 gpus`},
		{"openb-pods.csv", "1,460", "2,460", `:4:20: gpu_milli is 460 for 2 gpus: only one gpu can be shared`},
		{"openb-pods.csv", "P100|G2", "P100||G2", `:2:24: gpu_spec is "P100||G2|P100": want models`},
		{"openb-pods.csv", "500,1024,0,0,,", "500,1024,0,0,T4,", `:5:20: gpu_spec is "T4" for no gpus`},
		{"openb-pods.csv", ",BE,", ",Best,", `:4:27: qos is "Best": want BE, Burstable, LS or Guaranteed`},
		{"openb-pods.csv", "Running,10,10", "Running,10,9", `:4:41: deletion_time is "9": before creation_time`},
		{"openb-pods.csv", "20,90,25", "20,90,91", `:2:64: scheduled_time is "91": not between`},
		{"openb-pods.csv", "20,90,25", "20,90,-1", `:2:64: scheduled_time is "-1": want a number from 0 to 1e+09`},
		{"openb-pods.csv", "20,90,25", "20,1e99,25", `:2:61: deletion_time is "1e99"`},
		{"openb-pods.csv", "20,90,25", "20,NaN,25", `:2:61: deletion_time is "NaN"`},
		{"openb-pods.csv", "20,90,25", "20,9_0,25", `:2:61: deletion_time is "9_0": want a number from 0 to 1e+09`},
		{"openb-pods.csv", "20,90,25", "20,0x1p9,25", `:2:61: deletion_time is "0x1p9"`},
		{"openb-pods.csv", "20,90,25", "20,90", `:2:1: 10 fields: want 11`},
		{"openb-pods.csv", "pod-2,4000", "\"pod-2,4000", `extraneous or missing " in quoted-field`},
		{"openb-pods.csv", "pod-2,4000", "po\"d-2,4000", `:2:3: bare " in non-quoted-field`},
		{"openb-nodes.csv", "G2", "", `:2:23: model is "" for 8 gpus`},
		{"openb-nodes.csv", "node-c", "node-a", `:4:1: host "node-a" is in line 3 already`},
		{"openb-nodes.csv", "node-c", "node/c", `:4:1: sn is "node/c": want at most 80 characters`},
		{"google-machines.csv", "0.25,", "1.25,", `:4:5: cpu is "1.25": want a number from 0 to 1`},
		{"google-machines.csv", "910", "x910", `:4:1: machine_id is "x910": want a whole number`},
		{"google-machine-events.csv", "835000000,910,1", "835000000,910,3", `:4:15: event_type is "3": want a whole number from 0 to 2`},
		{"google-machine-events.csv", "0.5,0.25\n9", "1.5,0.25\n9", `:2:15: cpu is "1.5": want a number from 0 to 1`},
		{"google-machine-events.csv", "0,911,0", "0,x911,0", `:2:3: machine_id is "x911": want a whole number`},
		{"google-machine-events.csv", ",,\n", ",\n", `:7:1: 5 fields: want 6`},
		{"google-subtrace.tr", "1003.5 3", "1003.5 4", `:2:8: number of tasks is 4, but 3 durations follow`},
		{"google-subtrace.tr", "20.0 10.0", "20.1 10.0", `:2:10: mean duration is 20.1, but the durations' mean is 20`},
		{"google-subtrace.tr", "1003.5 2", "1003.4 2", `:3:1: job "google-3" is submitted at 16m43.4s, before the one above`},
		{"google-subtrace.tr", "12.5 12.5", "12.5", `:1:1: 3 fields: want arrival`},
		{"google-events.csv", "0,,31,0,3\n", "0,,31,0,u,3,n\n", `:1:1: 7 fields: want 8 or 5 or 13`},
		{"google-task-events.csv", "600500000,,32,1,,0", "600500000,,32,1,,9", `:5:18: event_type is "9": want a whole number from 0 to 8`},
		{"google-task-events.csv", "u2=,0,0,", "u2=,0,12,", `:5:26: priority is "12": want a whole number from 0 to 11`},
		{"google-task-events.csv", "600500000,,32,1,,0", "600500000,,32,,,0", `:5:15: task_index is "": want a whole number from 0`},
		{"google-task-events.csv", "0.0625,0.03125,,1", "-1,0.03125,,1", `:5:28: cpu_request is "-1": want a number from 0 to 1000`},
		{"google-task-events.csv", "0.0625,0.03125,,1", "0.0625,0.03125,,true", `:5:44: different_machines is "true": want a whole number from 0 to 1`},
		{"google-events.csv", "601000000,,", "601000000,3,", `:5:11: missing_info is "3": want a whole number from 0 to 2`},
		{"google-events.csv", "601000000,,32,1,0", "601000000,,32,1,4", `:5:17: scheduling_class is "4": want a whole number from 0 to 3`},
		{"google-2019-instances.json", `"time":"604000000"`, `"time":"60400000x"`, `:3:1: time is "60400000x": want a whole number from 0`},
		{"google-2019-instances.json", `"time":"604000000",`, ``, `:3:1: time is "": want a whole number from 0`},
		{"google-2019-instances.json", `"type":"10"`, `"type":"11"`, `:11:1: type is "11": want a whole number from 0 to 10`},
		{"google-2019-instances.json", `"collection_id":70,`, `"collection_id":-70,`, `:13:1: collection_id is "-70": want a whole number from 0`},
		{"google-2019-instances.json", `"collection_id":70,`, `"collection_id":[70],`, `:13:1: event: "[70]": want a number or a string`},
		{"google-2019-instances.json", `"priority":103`, `"priority":1001`, `:13:1: priority is "1001": want a whole number from 0 to 1000`},
		{"google-2019-instances.json", `"instance_index":"4",`, ``, `:16:1: instance_index is "": want events of instances or of collections, not both`},
		{"google-2019-instances.json", `{"cpus":0.001}`, `{"cpus":-0.001}`, `:17:1: cpus is "-0.001": want a number from 0 to 1000`},
		{"google-2019-instances.json", `{"cpus":0.001}`, `{"gpus":0.001}`, `:17:1: event: unknown field "gpus"`},
		{"google-2019-instances.json", `{"cpus":0.001}`, `0.001`, `:17:1: event: resource_request is of the kind number: want object`},
		{"google-2019-instances.json", `{"time":"0"`, `time,type`, `:1:1: no JSON: want an object a line`},
		{"google-2019-collections.json", "\n{", "\n[", `:2:1: event: `},
		{"google-2019-collections.json", `"scheduling_class"`, `"class"`, `:1:1: event: unknown field "class"`},
		{"google-2019-machines.json", `"type":"2"`, `"type":"0"`, `:4:1: type is "0": want a whole number from 1 to 3`},
		{"google-2019-machines.json", `{"cpus":1,`, `{"cpus":1.5,`, `:2:1: cpus is "1.5": want a number from 0 to 1`},
		{"google-2019-machines.json", `"machine_id":"912"`, `"machine_id":"m 912"`, `:6:1: machine_id is "m 912": want a whole number`},
		{"google-2019-machines.json", `"machine_id":"912"`, `"instance_index":"912"`, `:6:1: machine: unknown field "instance_index"`},
		{"philly-jobs.csv", "07:00:41", "25:00:41", `:3:1: timestamp is "2017-10-09 25:00:41": want year-month-day`},
		{"philly-jobs.csv", "122.0", "121.0", `:3:28: gpu_time is "121.0": want duration times num_gpus`},
		{"philly-jobs.csv", "vc2", "VC 2", `:3:34: cluster is "VC 2": want lower-case letters and digits`},
		{"philly-jobs.csv", "66.0,1,66.0", "66.0,0,0", `:2:26: num_gpus is "0": want a whole number from 1 to 100000`},
		{"philly-machines.csv", "1,m10", "2,m10", `:3:1: field 1 is "2": want 1, rows are numbered`},
		{"philly-jobs.csv", "2017-10-09 07:00:41", "", `:3:1: timestamp is empty`},
		{"philly-log.json", "Pass", "", `:2:5: status is empty`},
		{"philly-log.json", "1_1\"", "1_3\"", `:21:1: job "application_1_3" is in line 2 already`},
		{"philly-log.json", "cation_1_3", "cation 1", `:2:5: jobid is "application 1": want at most 80 characters`},
		{"philly-log.json", `"ab12"`, `"AB"`, `:2:5: vc is "AB": want lower-case letters and digits`},
		{"philly-log.json", "07:01:55", "25:01:55", `:2:5: submitted_time is "2017-10-09 25:01:55": want year-month-day`},
		{"philly-log.json", "2017-10-09 07:10:00", "1507531800", `:2:5: start_time is "1507531800": want year-month-day`},
		{"philly-log.json", "2017-10-09 07:04:00", "-", `:21:5: end_time is "-": want year-month-day`},
		{"philly-log.json", `"gpu7"`, strings.Repeat(`"",`, cluster.MaxInstances) + `"gpu7"`, `:2:5: attempts hold 100003 gpus: want at most 100000`},
		{"philly-log.json", `"user": "u1"`, `"uses": "u1"`, `:2:5: job: unknown field "uses"`},
		{"philly-log.json", `"user": null`, `"user": 7`, `:21:5: job: User is of the kind number: want string`},
		{"philly-log.json", `"user": "u1"`, `"user": ["u1"]`, `:2:5: job: User is of the kind array: want string`},
		{"philly-log.json", `"gpus": [`, `"gpus": [1, `, `:2:5: job: Attempts.Detail.GPUs is of the kind number: want string`},
		{"philly-log.json", "\n]\n", ", 7\n]\n", `job: an element is of the kind number: want object`},
		{"philly-log.json", "\n]\n", ", {\"status\"", `job: the file ends here, get the whole of it`},
		{"philly-log.json", "\n]\n", ",", `job: the file ends here, get the whole of it`},
		{"philly-log.json", `"gpu0"`, `"gpu0`, `:2:5: job: invalid character`},
		{"philly-log.json", "\n]\n", "\n", `:58:1: the file ends: want ]`},
		{"philly-log.json", "\n]\n", "\n]\n]", `:59:1: text after the end`},
		{"philly-machine-list.csv", "m10,2,", "m10,two,", `:3:5: number of GPUs is "two": want a whole number from 0 to 1024`},
		{"philly-machine-list.csv", "m10,", "m1,", `:3:1: host "m1" is in line 2 already`},
		{"philly-machine-list.csv", ", single GPU mem", ", mem", `:1:28: column 3 of the header is "mem": want "single GPU mem"`},
		{"philly-machines.csv", "number of GPUs", "gpus", `:1:12: column 3 of the header is "gpus": want "number of GPUs"`},
		{"helios.csv", "date,", "day,", `:1:1: field 1 is "day": want date`},
		{"helios.csv", ",total", ",all", `:1:18: field 4 is "all": want total, after the virtual clusters`},
		{"helios.csv", "2020-04-02", "2020-04-32", `:2:1: date is "2020-04-32": want year-month-day`},
		{"helios.csv", ",16,", ",,", `:3:15: vcX2y is "": want a whole number from 0`},
		{"helios.csv", "33", "0", `: no hosts`},
		{"helios-jobs.csv", "gpu_num,", "gpus,", `:1:16: column 4 of the header is "gpus": want "gpu_num"`},
		{"helios-jobs.csv", "1425511", "1425512", `:3:1: job_id is 1425512: that job was there already`},
		{"helios-jobs.csv", "1425511", "x", `:3:1: job_id is "x": want a whole number`},
		{"helios-jobs.csv", "vcX2y", "vc X", `:3:14: vc is "vc X": want lower-case letters and digits`},
		{"helios-jobs.csv", ",16,33,2,", ",16,33,2.5,", `:2:26: node_num is "2.5": want a whole number from 0 to 100000`},
		{"helios-jobs.csv", ",16,33,", ",-16,33,", `:2:20: gpu_num is "-16": want a whole number from 0`},
		{"helios-jobs.csv", "FAILED", "", `:2:28: state is empty`},
		{"helios-jobs.csv", "2020-06-09 18:41:27", "", `:2:35: submit_time is empty`},
		{"helios-jobs.csv", "2020-06-09 18:45:36", "18:45:36", `:2:75: end_time is "18:45:36": want year-month-day`},
		{"helios-jobs.csv", ",189,", ",long,", `:2:95: duration is "long": want a number`},
		{"batch-jobs.csv", "2,20,", "3,20,", `is "3": want 2, rows are numbered`},
		{"batch-jobs.csv", ",67,0", ",67,1", `:3:28: disk is "1": want a whole number from 0 to 0`},
		{"batch-jobs.csv", "9,24,1", "9,23,1", `:4:1: job "batch-23" is in line 3 already`},
		{"batch-jobs.csv", ",283,", ",100001,", `instances_num is "100001": want a whole number from 1 to 100000`},
		{"swim.tsv", "job1", "job2", `:2:1: job id is "job2": want job1, jobs are numbered`},
		{"swim.tsv", "job0\t", "jobs\t", `:1:1: job id is "jobs": want job0, jobs are numbered`},
		{"swim.tsv", "5\t3\t900", "5\t2\t900", `:4:8: gap is 2: want 3, the time since the row above`},
		{"swim.tsv", "/data/b\t\t", "/data/b\t\tx", `:2:39: column 9 is "x": want nothing`},
		{"swim.tsv", "300000000", "900000000000000", `choose larger blocks`},
		{"services.json", `"Front",`, `"Front"`, `:3:3: ServiceList: invalid character`},
		{"services.json", `"RequestCPU": 0.05`, `"RequestCPU": "0.05"`, `:10:3: ServiceList: RequestCPU is of the kind string: want number`},
		{"services.json", `"CompatibleMachines": "*"`, `"CompatibleMachines": [7]`, `:3:3: ServiceList: CompatibleMachines is of the kind number: want string`},
		{"services.json", `"MachineList"`, `"Machines"`, `:18:2: Machines: want MachineList`},
		{"services.json", `"CompatibleMachines": "*"`, `"Compatible": "*"`, `:3:3: ServiceList: unknown field "Compatible"`},
		{"services.json", `"CompatibleMachines": "*"`, `"CompatibleMachines": "all"`, `ServiceList: CompatibleMachines is "all"`},
		{"services.json", `"10.0.0.2", "10.0.0.1"]`, `"10.0.0.3"]`, `service "Store": compatible machine "10.0.0.3" is not in MachineList`},
		{"services.json", `["c3"]`, `["c1"]`, `:10:3: ServiceList: container "c1" is there twice`},
		{"services.json", `"c2", "c1"`, `"c2", "c3"`, `:20:3: MachineList: container "c3" is of no service, or on a machine already`},
		{"services.json", `"RequestCPU": 0.05`, `"RequestCPU": 0`, `:10:3: ServiceList: RequestCPU and RequestMem: want parts`},
		{"services.json", `"Service2": "Store"`, `"Service2": "Shop"`, `:23:3: TrafficList: service "Shop" is not in ServiceList`},
		{"services.json", "\n}\n", "\n}\n{}", `:26:1: text after the end`},
		{"log.swf", "1  10", "1", `:10:1: 17 fields: want 18`},
		{"log.swf", "    3     75", "    3     59", `is submitted at 59s, before the one above at 1m0s: sort the file`},
		{"log.swf", "    3     75", "    4     75", `:10:5: job number is 4: that job was there already`},
		{"log.swf", "    3     75", "    3     x5", `submit time is "x5"`},
		{"log.swf", "2048    8   7200", "2048    10000001   7200", `:6:50: requested processors is "10000001": want a whole number from -1 to 10000000`},
		{"log.swf", "MaxNodes: 4", "MaxNodes: many", `:3:1: MaxNodes is "many": want 1 to 1000000`},
		{"coflows.txt", "3 3\n", "3 4\n", `:5:1: the file ends after 3 coflows: the first line says 4`},
		{"coflows.txt", "3 3\n", "3 2\n", `:4:1: a line after 2 coflows`},
		{"coflows.txt", "3 3\n", "4 3\n", `:1:1: field 1 is 4: the hosts have only 3 racks`},
		{"coflows.txt", "3 0:3.0", "3 1 0:3.0", `:3:1: 10 fields: want 9 for 2 mappers and 3 reducers`},
		{"coflows.txt", "2:100", "3:100", `:3:27: port is "3": want a whole number from 0 to 2`},
		{"coflows.txt", "2:100", "2:-1", `:3:29: megabytes is "-1"`},
		{"coflows.txt", "2:100", "2", `:3:27: field 9 is "2": want port:megabytes`},
		{"coflows.txt", "3 250 3", "3 249 3", `is submitted at 249ms, before the one above at 250ms`},
		{"coflows.txt", "3 250 3", "-1 250 3", `:4:1: field 1 is "-1": want a whole number from 0 to`},
		{"coflows.txt", "3 250 3", "2 250 3", `:4:1: field 1 is 2: coflow 2 is in line 3 already`},
		{"coflows.txt", "1 0 1 2 1 0:1.0", "1 0", `:2:1: 2 fields: want the number of mappers in field 3`},
		{"coflows.txt", "1 0 1 2 1 0:1.0", "1 0 1 2", `:2:1: 4 fields: want the number of reducers in field 5`},
		{"coflows.txt", "1 0 1 2 1 0:1.0", "1 0 4 2 1 0:1.0", `:2:5: field 3 is "4": want a whole number from 1 to 3`},
		{"coflows.txt", "3 3\n", "3\n", `:1:1: 1 fields: want the number of ports and of coflows`},
		{"services.json", `"Store",`, `"FRONT",`, `:10:3: ServiceList: service "FRONT" is there twice`},
		{"services.json", `"Store",`, `"a b",`, `:10:3: ServiceList: Service is "a b": want letters and digits`},
		{"services.json", `["c3"]`, `[]`, `:10:3: ServiceList: ContainerList has 0 containers: 1 to 100000`},
		{"services.json", `{"MachineIP": "10.0.0.2"`, `{"MachineIP": "10.0.0.1"`, `:20:3: MachineList: machine "10.0.0.1" is there twice`},
		{"services.json", `{"MachineIP": "10.0.0.2"`, `{"MachineIP": "10/2"`, `:20:3: MachineList: MachineIP is "10/2": want letters`},
		{"services.json", `"TotalCPU": 0.75`, `"TotalCPU": 75`, `:20:3: MachineList: TotalCPU and TotalMem: want parts`},
		{"services.json", `"Traffic": 0.5`, `"Traffic": -0.5`, `:23:3: TrafficList: Traffic is -0.5: want 0 or more`},
		{"hosts.csv", "zone,", "zome,", `:1:11: field 3 "zome": no such column: want attributes, cpu_milli`},
		{"hosts.csv", "zone,", "rack,", `"rack": the column is there twice`},
		{"hosts.csv", "host,", "resource:h,", `:1:1: the header lacks the column "host"`},
		{"hosts.csv", "A10|A10|T4|T4", "A10|T4", `gpu_models has 2 models for 4 gpus: want one, or one for each`},
		{"hosts.csv", "disk=ssd;", "disk;", `attributes is "disk;kernel=6.1": want key=value, joined with ';'`},
		{"hosts.csv", "\nweb-2,", "\n,", `:2:1: host is empty`},
		{"jobs.csv", "1.5,infer", "1.4,infer", `:4:1: job "infer" is submitted at 1.4s, before the one above at 1.5s: sort the file by submission`},
		{"jobs.csv", "infer", "web", `:4:5: job is "web", which is in line 2 already`},
		{"jobs.csv", "infer", "Infer!", `:4:5: job is "Infer!": want at most 80 characters`},
		{"jobs.csv", "root/ml,,", "root/prod,,", `pool is "root/prod": a pool with jobs cannot be above another one with jobs`},
		{"jobs.csv", "root/ml,,", "root/ml/sub,,", `pool is "root/ml/sub": a pool with jobs cannot be above another one with jobs`},
		{"jobs.csv", "root/ml,,", "ml,,", `pool is "ml": want a path below root`},
		{"jobs.csv", "1;2.5;0", "1;2.5", `duration_s has 2 durations for 3 instances`},
		{"jobs.csv", "1;2.5;0", "1;x;0", `:5:23: duration_s is "x"`},
		{"jobs.csv", "resource:licence", "resource:gpu_milli", `"resource:gpu_milli": gpu_milli is no named resource: want one of the columns `},
		{"hosts.csv", "resource:licence", "resource:cpu_milli", `"resource:cpu_milli": cpu_milli is no named resource: want one of the columns `},
		{"jobs.csv", "team=shop;tier=1", "team=shop;team=web", `labels is "team=shop;team=web": team is there twice`},
		{"jobs.csv", "stateless", "service", `type is "service": want batch or stateless`},
		{"jobs.csv", "false", "no", `preemptible is "no": want true or false`},
		{"jobs.csv", "T4|A10,4", "T4|A10,5", `gang is 5: more than the 4 instances`},
		{"jobs.csv", ",,250,", ",2,250,", `gpu_milli is 250 besides 2 gpus`},
		{"jobs.csv", "3,1;2.5;0,250,1,,,,,", "3,1;2.5;0,250,1,,,,A10,", `gpu_models is set, but no gpus are asked for`},
		{"alibaba-2017-tasks.csv", "2003,Terminated,50", "2003,Terminated,0.5", `:1:35: plan_cpu is "0.5": want a whole number from 0 to 1000000`},
		{"alibaba-2017-tasks.csv", "Cancelled", "Interrupted", `:8:21: status is "Interrupted": want Ready, Waiting, Running, Terminated`},
		{"alibaba-2017-tasks.csv", "0.5", "1.5", `:4:31: plan_mem is "1.5": want a number from 0 to 1`},
		{"alibaba-2017-tasks.csv", ",15,64", ",,64", `:1:13: job_id is "": want a whole number`},
		{"alibaba-2017-tasks.csv", ",2003,", ",200000,", `:1:19: instance_num is "200000": want a whole number from 0 to 100000`},
		{"alibaba-2017.csv", "13,add", "13,join", `:3:6: event_type is "join": want add, softerror or harderror`},
		{"alibaba-2017.csv", "0.75,1", "1.75,1", `:1:14: memory is "1.75": want a number from 0 to 1`},
		{"alibaba-2017.csv", "0,11,", "0,m_11,", `:1:3: machine_id is "m_11": want a whole number`},
		{"alibaba-2018.csv", "96,100,USING", "96,101,USING", `:1:17: mem_size is "101"`},
		{"alibaba-2018-tasks.csv", "371.0", "371.5", `:1:6: instance_num is "371.5": want a whole number from 0 to 100000`},
		{"alibaba-2018-tasks.csv", "12846.0", "100001", `:2:4: instance_num is "100001": want a whole number from 0 to 100000`},
		{"alibaba-2018-tasks.csv", "157213", "157213.5", `:2:29: start_time is "157213.5": want a whole number`},
		{"alibaba-2018-tasks.csv", "0.49", "102", `:1:49: plan_mem is "102": want a number from -1 to 101`},
		{"alibaba-2018-tasks.csv", "j_9", "", `:3:27: job_name is empty`},
		{"alibaba-2018-tasks.csv", "R2_1,", "", `:1:1: 8 fields: want 9`},
		{"azure-vms.csv", "Interactive", "Idle", `:2:65: vmcategory is "Idle": want Delay-insensitive, Interactive or Unknown`},
		{"azure-vms.csv", ">24", ">16", `:3:66: vmcorecountbucket is ">16": want a number from 0 to 65536`},
		{"azure-vms.csv", ">64", "", `:3:70: vmmemorybucket is ""`},
		{"azure-vms.csv", ",300,", ",300.5,", `:1:37: vmcreated is "300.5": want a whole number from 0`},
		{"azure-vms.csv", "28.5", "-28.5", `:1:55: p95maxcpu is "-28.5": want a number from 0 to 1e+06`},
		{"azure-vms.csv", "R1sT/0pQaa==", "", `:2:1: vmid is empty`},
		{"azure-vms.csv", "8,32", "8", `:1:1: 10 fields: want 11`},
		{"pai.csv", "384,8", "384", `:2:1: 4 fields: want 5`},
		{"pai-tasks.csv", "tensorflow,1.0", "tensorflow,1.1", `:1:37: inst_num is "1.1": want a whole number from 0 to 100000`},
		{"pai-tasks.csv", "1739162.0", "yesterday", `:1:52: start_time is "yesterday": want a number from 0`},
		{"pai-tasks.csv", "600.0,8.0", "600.0,-8.0", `:2:70: plan_mem is "-8.0": want a number from 0`},
		{"spot-jobs.csv", "job_name,", "name,", `:1:1: column 1 of the header is "name": want "job_name"`},
		{"spot-jobs.csv", "16,9589663", "0,9589663", `:3:33: worker_num is "0": want a whole number from 1 to 100000`},
		{"spot-jobs.csv", "2764799,HP", "2764799,LP", `:2:32: job_type is "LP": want HP or Spot`},
		{"spot-jobs.csv", "437261,57", "437260,57", `:5:1: job "job-437260" is in line 3 already`},
		{"spot-jobs.csv", "239255,13", "239255,A b", `:2:8: organization is "A b": want lower-case letters and digits`},
		{"spot.csv", ",1,128,1", ",0,128,1", `:3:5: gpu_capacity_num is "0"`},
		{"dlrm.csv", "instance_0,HN", "instance_0,XN", `:2:12: role is "XN": want CN or HN`},
		{"dlrm.csv", ",100.5,101,", ",100.5,,", `:2:69: scheduled_time is "" and creation_time is "100.5"`},
		{"dlrm.csv", ",100.5,101,", ",100.5,99,", `:2:69: scheduled_time is "99": before creation_time`},
	} {
		t.Run(fmt.Sprintf("%s %s", c.file, c.want), func(t *testing.T) {
			var errs []string
			for _, s := range samples {
				if s.file != c.file {
					continue
				}
				text := s.text(t)
				require.Contains(t, string(text), c.old)
				_, err := s.read(t, strings.NewReader(strings.Replace(string(text), c.old, c.new, 1)))
				if err != nil {
					require.True(t, strings.HasPrefix(err.Error(), "trace: "+c.file), err.Error())
					errs = append(errs, strings.TrimPrefix(err.Error(), "trace: "+c.file))
				}
			}
			require.Contains(t, strings.Join(errs, "\n"), c.want)
		})
	}
}

// TestLongLines: a line without end is refused before it fills the memory.
func TestLongLines(t *testing.T) {
	for _, file := range []string{"google-subtrace.tr", "openb-pods.csv"} {
		for _, s := range samples {
			if s.file == file {
				_, err := s.read(t, strings.NewReader(string(s.text(t))+strings.Repeat("1 ", maxLineBytes)))
				require.ErrorContains(t, err, "a line is longer than 4194304 bytes")
			}
		}
	}
	long := "[\n {\"status\": \"" + strings.Repeat("1", 2*maxLineBytes) // the decoder reads ahead
	_, err := openPhilly("log", strings.NewReader(long), jobOptions{})
	require.EqualError(t, err, "trace: log:2:2: a value is longer than 4194304 bytes")
	_, err = readSWFHosts("log.swf", strings.NewReader("; MaxNodes: 3\n"+strings.Repeat("1 ", maxLineBytes)))
	require.EqualError(t, err, "trace: log.swf:2:1: a line is longer than 4194304 bytes")
}

// TestAsManyDurationsAsTasks: a job of as many tasks as a job may have, each with a run time of its own to the last digit, is in one line.
func TestAsManyDurationsAsTasks(t *testing.T) {
	durations := slices.Repeat([]string{"1027.2984420712345"}, cluster.MaxInstances)
	for name, text := range map[string]string{
		"csv":         fmt.Sprintf("job,instances,duration_s\nwide,%d,%s\n", cluster.MaxInstances, strings.Join(durations, ";")),
		"google-2011": fmt.Sprintf("0 %d 1027.2984420712345 %s\n", cluster.MaxInstances, strings.Join(durations, " ")),
	} {
		f, err := lookup(name)
		require.NoError(t, err)
		list, err := f.jobs(name, strings.NewReader(text), jobOptions{})
		require.NoError(t, err)
		j, err := list.Next()
		require.NoError(t, err, name)
		require.Len(t, j.Durations, cluster.MaxInstances)
	}
}

// TestRemarksInSWFHeaders: what follows a number, after a blank or a tab, is not a part of it.
func TestRemarksInSWFHeaders(t *testing.T) {
	for _, header := range []string{"; MaxNodes: 57 (32 dual)\n", ";MaxNodes:\t57\t(32 dual)\r\n"} {
		hosts, err := readSWFHosts("log.swf", strings.NewReader(header+"; MaxProcs: 178\n"))
		require.NoError(t, err)
		require.Len(t, hosts, 57)
		require.EqualValues(t, 178_000, capacityOf(hosts).Fixed[cluster.CPU], "more processors than the header says")
	}
	hosts, err := readSWFHosts("log.swf", strings.NewReader("; MaxNodes: 10\n; MaxProcs: 8\n"))
	require.NoError(t, err)
	require.Len(t, hosts, 8, "a host without a processor")
}

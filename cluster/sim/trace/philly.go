package trace

import (
	"bufio"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Microsoft's Philly trace (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
// USENIX ATC 2019). No list says anything of cores and memory: a GPU brings, and takes, its part of them.
const (
	phillyCPUMilli = 4000
	phillyMemory   = 32 * gib
)

var phillyFleet = Fleet{CPUMilli: 8 * phillyCPUMilli, MemoryBytes: 8 * phillyMemory, GPUs: 8}

// readPhillyMachines reads cluster_machine_list, or the list that has rows numbered instead of the memory of GPUs.
func readPhillyMachines(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',')
	if err != nil {
		return nil, err
	}
	t.r.TrimLeadingSpace = true // cluster_machine_list has some
	numbered := []string{"", "machineId", "number of GPUs"}
	if err := t.header([]string{"machineId", "number of GPUs", "single GPU mem"}, numbered); err != nil {
		return nil, err
	}
	at := slices.Index(t.row.names, "machineId")
	var n rowNumbers
	hosts, err := readHosts(t, func(r *row) Host {
		if at > 0 {
			n.check(r)
		}
		gpus := r.integer(at+1, 0, maxGPUs)
		return Host{
			Name:    r.hostName(at),
			Machine: machine(max(1, gpus)*phillyCPUMilli, max(1, gpus)*phillyMemory, 0, int(gpus), ""),
		}
	})
	return inRacks(hosts), err
}

// openPhilly reads jobs, each a gang of as many one-GPU instances as it held GPUs, in a pool for each virtual cluster: from
// cluster_job_log, which is a list in JSON or JSON lines, or from a table of them.
// Local times are read as if they were UTC: across the change to winter time, jobs are up to an hour out of order.
func openPhilly(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	text, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	var jobs Source
	var leftOut *int
	if first := firstByte(text); first == '[' || first == '{' {
		jobs, leftOut, err = readPhillyLog(name, text)
	} else {
		jobs, err = readPhillyTable(name, text)
	}
	if err != nil {
		return nil, err
	}
	return &jobList{Source: jobs, arrivals: true, departures: true, leftOut: leftOut}, nil
}

func phillyJob(name cluster.JobID, at time.Duration, run []time.Duration, gpus int64, pool cluster.PoolPath) *Job {
	j := newJob(name, at, uint32(gpus), task(phillyCPUMilli, phillyMemory, 0, cluster.GPURequest{Count: 1}))
	j.Spec.Pool, j.Durations, j.Spec.Gang = pool, run, gangOf(uint32(gpus))
	return j
}

func readPhillyTable(name string, r io.Reader) (Source, error) {
	t, err := openTable(name, r, ',', []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"})
	if err != nil {
		return nil, err
	}
	number := 0
	return readJobs(t, func(r *row) *Job {
		number++
		r.text(0)
		at, _ := r.localTime(0)
		d, gpus := r.number(1, 0, maxSeconds), r.integer(2, 1, cluster.MaxInstances)
		want := d * float64(gpus)
		if got := r.number(3, 0, maxSeconds*cluster.MaxInstances); math.Abs(got-want) > 1e-3*max(want, 1) { // both are rounded
			r.fail(3, "is %s: want duration times num_gpus", quote(r.fields[3]))
		}
		return phillyJob(numbered("philly", number), at, runTime(toDuration(d)), gpus, r.poolNamed(4, r.text(4)))
	})
}

// phillyLog reads cluster_job_log. A job is a row, which has a place for the times of one attempt.
type phillyLog struct{ *jsonRows[phillyLogged] }

type phillyLogged struct {
	Status, VC, JobID, User string
	Submitted               string `json:"submitted_time"`
	Attempts                []struct {
		Start  string `json:"start_time"`
		End    string `json:"end_time"`
		Detail []struct {
			IP   string
			GPUs []string
		}
	}
}

var phillyFields = []string{"status", "vc", "jobid", "user", "submitted_time", "attempts", "start_time", "end_time"}

func readPhillyLog(name string, text *bufio.Reader) (jobs Source, leftOut *int, err error) {
	l := phillyLog{newJSONRows[phillyLogged](name, text, "job", phillyFields...)}
	jobs, err = readJobs(l, l.parse)
	return jobs, &l.row.leftOut, err
}

func unlessNone(s string) string {
	if s == "None" {
		return ""
	}
	return s
}

// parse returns the job, or nil if it never ran on a GPU.
func (l phillyLog) parse(r *row) *Job {
	v := &l.value
	r.fields = []string{v.Status, v.VC, v.JobID, v.User, unlessNone(v.Submitted), "", "", ""}
	r.text(0)
	at, submitted := r.localTime(4)
	gpus, run := l.attempts(r)
	if gpus > cluster.MaxInstances {
		r.fail(5, "hold %d gpus: want at most %d", gpus, cluster.MaxInstances)
	}
	if !submitted || gpus == 0 || run == nil || r.err != nil {
		return nil
	}
	j := phillyJob(r.jobName("", 2), at, run, gpus, r.poolNamed(1, r.text(1)))
	j.Spec.Owner = r.fields[3]
	return j
}

// attempts returns how many GPUs the job held, and how long all its attempts took together: for ever where the last one has no
// end, and nil where there is none with a beginning and an end after it.
func (l phillyLog) attempts(r *row) (gpus int64, run []time.Duration) {
	var sum time.Duration
	for i, a := range l.value.Attempts {
		held := int64(0)
		for _, d := range a.Detail {
			held += int64(len(d.GPUs))
		}
		gpus = max(gpus, held)
		r.fields[6], r.fields[7] = unlessNone(a.Start), unlessNone(a.End)
		from, begun := r.localTime(6)
		to, ended := r.localTime(7)
		switch {
		case begun && ended && to >= from:
			sum += to - from
			run = runTime(sum)
		case begun && !ended && i == len(l.value.Attempts)-1:
			run = forEver
		}
	}
	return gpus, run
}

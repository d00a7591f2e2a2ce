package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/sluice-scheduler/sluice/cluster"
)

// SenseTime's Helios traces (Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
// Datacenters", SC 2021): a log of jobs and a table of GPUs for each of four clusters. All their nodes have 8 GPUs. Neither
// says how many cores and how much memory: a core brings, and takes, its part.
const (
	heliosGPUs          = 8
	heliosCores         = 64
	heliosMemoryPerCore = 4 * gib
)

var heliosFleet = Fleet{CPUMilli: heliosCores * 1000, MemoryBytes: heliosCores * heliosMemoryPerCore, GPUs: heliosGPUs}

// readHeliosHosts reads cluster_gpu_number: the GPUs of each virtual cluster and of all, day by day. The last day counts.
func readHeliosHosts(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',')
	if err != nil {
		return nil, err
	}
	header, err := t.next()
	if err == io.EOF {
		err = fmt.Errorf("trace: %s:1:1: the file is empty: want a header of date, virtual clusters and total", name)
	}
	if err != nil {
		return nil, err
	}
	end := len(header.fields) - 1
	if header.fields[0] != "date" {
		header.fail(0, "is %s: want date", quote(header.fields[0]))
	}
	if header.fields[end] != "total" {
		header.fail(end, "is %s: want total, after the virtual clusters", quote(header.fields[end]))
	}
	if header.err != nil {
		return nil, header.err
	}
	t.head = slices.Clone(header.fields)
	t.row.names = t.head
	var last time.Time
	fleet := heliosFleet
	err = each(t, func(r *row) error {
		day, err := time.Parse(time.DateOnly, r.fields[0])
		if err != nil {
			r.fail(0, "is %s: want year-month-day", quote(r.fields[0]))
		}
		var gpus int64
		for i := 1; i <= end; i++ {
			gpus = r.integer(i, 0, maxHosts*heliosGPUs)
		}
		if !day.Before(last) {
			last, fleet.Hosts = day, int(divUp(gpus, heliosGPUs))
		}
		return r.err
	})
	if err != nil || fleet.Hosts == 0 {
		return nil, err
	}
	return fleet.build()
}

// divUp returns n/d, rounded up.
func divUp(n, d int64) int64 { return (n + d - 1) / d }

// heliosJob is what is kept of a row of cluster_log until it is its turn: there are up to 1.8 million.
type heliosJob struct {
	id                 int64
	submit, run        time.Duration // run 0: for ever
	pool               unique.Handle[cluster.PoolPath]
	user               unique.Handle[string]
	nodes, gpus, cores int32
}

// openHelios reads cluster_log. A job is a gang with an instance for each of its nodes, which have equal parts of its GPUs and cores.
// One that never started, or that ended before it did, is left out; one that had not ended runs for ever.
func openHelios(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', []string{
		"job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time", "end_time", "duration", "queue",
	})
	if err != nil {
		return nil, err
	}
	var jobs []*heliosJob
	taken := make(map[int64]struct{})
	err = each(t, func(r *row) error {
		k := &heliosJob{
			id:   r.integer(0, 0, math.MaxInt64),
			pool: unique.Make(r.poolNamed(2, strings.ToLower(r.text(2)))), user: unique.Make(r.fields[1]),
			gpus: int32(r.whole(3, 0, heliosGPUs*cluster.MaxInstances)), cores: int32(r.whole(4, 0, 1<<18)),
			nodes: int32(r.whole(5, 0, cluster.MaxInstances)),
		}
		if _, again := taken[k.id]; again {
			r.fail(0, "is %d: that job was there already", k.id)
		}
		taken[k.id] = struct{}{}
		r.text(6)
		r.text(7)
		k.submit, _ = r.localTime(7)
		start, started := r.localTime(8)
		end, ended := r.localTime(9)
		r.stated(10, -maxSeconds, maxSeconds)
		r.stated(11, -maxSeconds, maxSeconds)
		if ended {
			k.run = runTime(end - start)[0]
		}
		if started && k.run >= 0 && k.nodes > 0 {
			jobs = append(jobs, k)
		} else {
			r.leftOut++
		}
		return r.err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *heliosJob) int { return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(a.id, b.id)) })
	source := inTurn(jobs, func(k *heliosJob) *Job {
		nodes, cores := int64(k.nodes), divUp(int64(k.cores), int64(k.nodes))
		j := newJob(numbered("helios", k.id), k.submit, uint32(k.nodes), task(
			cores*1000, cores*heliosMemoryPerCore, 0, cluster.GPURequest{Count: int32(divUp(int64(k.gpus), nodes))}))
		j.Spec.Pool, j.Spec.Owner, j.Spec.Gang = k.pool.Value(), k.user.Value(), gangOf(uint32(k.nodes))
		j.Durations = []time.Duration{k.run}
		return j
	})
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &t.row.leftOut}, nil
}

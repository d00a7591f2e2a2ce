package trace

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Microsoft's Philly trace (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
// USENIX ATC 2019). Neither list says anything of cores and memory: a GPU brings, and takes, its part of them.
const (
	phillyCPUMilli = 4000
	phillyMemory   = 32 * gib
)

var phillyFleet = Fleet{CPUMilli: 8 * phillyCPUMilli, MemoryBytes: 8 * phillyMemory, GPUs: 8}

func readPhillyMachines(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',', []string{"", "machineId", "number of GPUs"})
	if err != nil {
		return nil, err
	}
	var n rowNumbers
	hosts, err := readHosts(t, func(r *row) Host {
		n.check(r)
		gpus := r.integer(2, 0, maxGPUs)
		return Host{
			Name:    r.hostName(1),
			Machine: machine(max(1, gpus)*phillyCPUMilli, max(1, gpus)*phillyMemory, 0, int(gpus), ""),
		}
	})
	return inRacks(hosts), err
}

// openPhilly reads jobs, each a gang of as many one-GPU instances as it held GPUs, in a pool for each virtual cluster.
// Local times are read as if they were UTC: across the change to winter time, jobs are up to an hour out of order.
func openPhilly(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"})
	if err != nil {
		return nil, err
	}
	spec := task(phillyCPUMilli, phillyMemory, 0, cluster.GPURequest{Count: 1})
	var jobs []*Job
	err = each(t, func(r *row) error {
		at, err := time.Parse(time.DateTime, r.fields[0])
		if err != nil || at.Year() < 2000 || at.Year() > 2100 {
			r.fail(0, "is %s: want year-month-day hour:minute:second", quote(r.fields[0]))
		}
		d, gpus := r.number(1, 0, maxSeconds), r.integer(2, 1, cluster.MaxInstances)
		want := d * float64(gpus)
		if got := r.number(3, 0, maxSeconds*cluster.MaxInstances); math.Abs(got-want) > 1e-3*max(want, 1) { // both are rounded
			r.fail(3, "is %s: want duration times num_gpus", quote(r.fields[3]))
		}
		pool := r.text(4)
		if r.err == nil && !isPoolName(pool) {
			r.fail(4, "is %s: want lower-case letters and digits", quote(pool))
		}
		if r.err != nil {
			return r.err
		}
		j := newJob(numbered("philly", len(jobs)+1), time.Duration(at.Unix())*time.Second, uint32(gpus), spec)
		j.Spec.Pool = cluster.RootPool + cluster.PoolPath("/"+pool)
		j.Durations, j.Spec.Gang = runTime(toDuration(d)), gangOf(uint32(gpus))
		jobs = append(jobs, j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return &jobList{Source: fromSlice(jobs), arrivals: true, departures: true}, nil
}

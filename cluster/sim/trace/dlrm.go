package trace

import (
	"io"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// RDMA is the named resource of inference instances: thousandths of a network interface.
const RDMA = "rdma_milli"

var (
	dlrmColumns = []string{
		"instance_sn", "role", "app_name", "cpu_request", "cpu_limit", "gpu_request", "gpu_limit", "rdma_request", "rdma_limit",
		"memory_request", "memory_limit", "disk_request", "disk_limit", "max_instance_per_node", "creation_time", "scheduled_time",
		"deletion_time",
	}
	dlrmFleet = Fleet{
		Hosts: 6000, CPUMilli: 192_000, MemoryBytes: 1024 * gib, DiskBytes: 8192 * gib, GPUs: 4,
		Named: []cluster.Amount{{Name: RDMA, Value: 1000}},
	}
)

// openDLRM reads the instances of Alibaba's cluster-trace-gpu-v2025 (Yang et al., "GPU-Disaggregated Serving for Deep
// Learning Recommendation Models at Scale", NSDI 2025), each a stateless job of one instance. One without a creation time
// is there from the beginning; one without a deletion time stays for ever. The limit on instances of an application in a
// host is kept as the label max_instance_per_node, next to the label app.
func openDLRM(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', dlrmColumns)
	if err != nil {
		return nil, err
	}
	jobs, err := readJobs(t, func(r *row) *Job {
		spec := task(r.integer(3, 0, 1<<20)*1000, int64(r.number(9, 0, maxAmount/gib)*gib), int64(r.number(11, 0, maxAmount/gib)*gib),
			cluster.GPURequest{Count: int32(r.integer(5, 0, maxGPUs))})
		if rdma := r.integer(7, 0, 100); rdma > 0 {
			spec.Resources.Named = []cluster.Amount{{Name: RDMA, Value: rdma * 10}}
		}
		j := newJob(r.jobName("", 0), 0, 1, spec)
		j.Spec.Type, j.Spec.Preemptible = cluster.Stateless, false
		j.Spec.Labels = []cluster.KeyValue{{Key: "app", Value: r.text(2)}}
		if r.integer(13, -1, 1<<20) >= 0 {
			j.Spec.Labels = append(j.Spec.Labels, cluster.KeyValue{Key: "max_instance_per_node", Value: strings.Clone(r.fields[13])})
		}
		if role := r.fields[1]; role != "CN" && role != "HN" {
			r.fail(1, "is %s: want CN or HN", quote(role))
		}
		for _, i := range []int{4, 6, 8, 10, 12} {
			r.number(i, 0, maxAmount)
		}
		dlrmTimes(r, j)
		return j
	})
	if err != nil {
		return nil, err
	}
	return &jobList{Source: jobs, arrivals: true, departures: true}, nil
}

func dlrmTimes(r *row, j *Job) {
	if (r.fields[14] == "") != (r.fields[15] == "") {
		r.fail(15, "is %s and creation_time is %s: both are empty or neither is", quote(r.fields[15]), quote(r.fields[14]))
		return
	}
	if r.fields[14] != "" {
		j.Submit = r.seconds(14)
		if r.seconds(15) < j.Submit {
			r.fail(15, "is %s: before creation_time", quote(r.fields[15]))
		}
	}
	if r.fields[16] == "" {
		return
	}
	end := r.seconds(16)
	if end < j.Submit {
		r.fail(16, "is %s: before creation_time", quote(r.fields[16]))
	}
	j.Durations = runTime(end - j.Submit)
}

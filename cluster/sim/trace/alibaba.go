package trace

import (
	"io"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// alibaba2018Memory is the size given to machines of Alibaba's cluster-trace-v2018, whose memory is normalised to 100.
const alibaba2018Memory = 512 * gib

// readAlibaba2018 reads machine_meta: one row for each status report, of which the latest one of a machine counts. The
// first failure domain is its rack, the second its zone.
func readAlibaba2018(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',',
		[]string{"machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status"})
	if err != nil {
		return nil, err
	}
	var hosts []Host
	var reported []int64 // by host: when
	index := make(map[string]int)
	err = each(t, func(r *row) error {
		at := r.integer(1, 0, maxSeconds)
		h := Host{
			Name:    r.hostName(0),
			Machine: machine(r.integer(4, 0, 1<<20)*1000, int64(r.number(5, 0, 100)/100*alibaba2018Memory), 0, 0, ""),
		}
		h.Rack = "rack-" + r.text(2)
		if r.fields[3] != "" {
			h.Zone = "zone-" + r.text(3)
		}
		r.text(6)
		i, known := index[h.Name]
		switch {
		case r.err != nil:
		case known && at >= reported[i]:
			hosts[i], reported[i] = h, at
		case known:
		case len(hosts) == maxHosts:
			return r.errorf("more than %d hosts", maxHosts)
		default:
			index[h.Name], hosts, reported = len(hosts), append(hosts, h), append(reported, at)
		}
		return r.err
	})
	return hosts, err
}

// readPAIMachines reads pai_machine_spec: cores, GB of memory and devices of each machine.
func readPAIMachines(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',', []string{"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"})
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		gpus, model := int(r.integer(4, 0, maxGPUs)), r.text(1)
		if gpus == 0 {
			model = ""
		}
		return Host{
			Name:    r.hostName(0),
			Machine: machine(r.integer(2, 0, 1<<20)*1000, r.integer(3, 0, maxAmount/gib)*gib, 0, gpus, model),
		}
	})
	return inRacks(hosts), err
}

// spotMemoryPerCore is what a core of the spot-GPU trace's nodes brings: their list does not say.
const spotMemoryPerCore = 8 * gib

// readSpotNodes reads node_info_df of the spot-GPU trace.
func readSpotNodes(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',', []string{"gpu_model", "gpu_capacity_num", "cpu_num", "node_name"})
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		cores := r.integer(2, 0, 1<<16)
		return Host{
			Name:    "node-" + r.hostName(3),
			Machine: machine(cores*1000, cores*spotMemoryPerCore, 0, int(r.integer(1, 1, maxGPUs)), r.text(0)),
		}
	})
	return inRacks(hosts), err
}

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

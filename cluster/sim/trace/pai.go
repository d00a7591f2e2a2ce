package trace

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"
	"unique"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Alibaba's cluster-trace-gpu-v2020 (Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale
// Heterogeneous GPU Clusters", NSDI 2022).

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

// paiTask is what is kept of a row of pai_task_table until it is its turn.
type paiTask struct {
	start, end       time.Duration
	number           int32 // of the row, from 1
	instances        uint32
	job              string
	role, model      unique.Handle[string]
	cpuMilli, memory int64
	gpus             float64 // devices, or a part of one
}

// openPAI reads pai_task_table. Each row, the instances of one role of a job, is a gang that arrives when it was launched; the
// labels job and task name the job and the role. Rows without instances, a beginning or an end are left out.
func openPAI(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openColumns(name, r, ',', []string{
		"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
	})
	if err != nil {
		return nil, err
	}
	var tasks []*paiTask
	number := int32(0)
	err = each(t, func(r *row) error {
		number++
		if r.fields[2] == "" || r.fields[4] == "" || r.fields[5] == "" {
			r.leftOut++
			return nil
		}
		k := &paiTask{
			number: number, instances: uint32(r.whole(2, 0, cluster.MaxInstances)),
			start: r.seconds(4), end: r.seconds(5),
			cpuMilli: int64(math.Round(r.stated(6, 0, 1e9) * 10)),
			memory:   int64(math.Round(r.stated(7, 0, maxAmount/gib) * gib)),
			gpus:     r.stated(8, 0, 100*maxGPUs) / 100,
			job:      r.text(0), role: unique.Make(r.fields[1]), model: unique.Make(r.fields[9]),
		}
		if k.end >= k.start && k.instances > 0 {
			tasks = append(tasks, k)
		} else {
			r.leftOut++
		}
		return r.err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tasks, func(a, b *paiTask) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
	})
	source := inTurn(tasks, func(k *paiTask) *Job {
		gpu := gpuParts(k.gpus)
		if model := k.model.Value(); model != "" && gpu.Amount() > 0 {
			gpu.Models = []string{model}
		}
		j := newJob(numbered("task", int64(k.number)), k.start, k.instances, task(k.cpuMilli, k.memory, 0, gpu))
		j.Spec.Labels = []cluster.KeyValue{{Key: "job", Value: k.job}, {Key: "task", Value: k.role.Value()}}
		j.Durations, j.Spec.Gang = runTime(k.end-k.start), gangOf(k.instances)
		return j
	})
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &t.row.leftOut}, nil
}

// gpuParts asks for a number of devices: a part of one, or as many whole ones as have room for more than one.
func gpuParts(devices float64) cluster.GPURequest {
	if milli := math.Ceil(devices * cluster.WholeGPU); milli < cluster.WholeGPU {
		return cluster.GPURequest{Milli: int32(milli)}
	}
	return cluster.GPURequest{Count: int32(math.Ceil(devices))}
}

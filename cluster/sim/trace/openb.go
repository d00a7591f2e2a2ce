package trace

import (
	"io"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The tables of Alibaba's cluster-trace-gpu-v2023 ("openb"; Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
var (
	openbNodes = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	openbPods  = []string{
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
		"creation_time", "deletion_time", "scheduled_time",
	}
	openbPodsUntimed = openbPods[:5]
)

// openbPriorities ranks the classes of service. Pods of the two upper ones are not preempted.
var openbPriorities = map[string]int32{"BE": 0, "Burstable": 100, "LS": 200, "Guaranteed": 300}

func readOpenbNodes(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',', openbNodes)
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		gpus := int(r.integer(3, 0, maxGPUs))
		model := strings.Clone(r.fields[4])
		if (model == "") != (gpus == 0) {
			r.fail(4, "is %s for %d gpus: a model goes with one gpu or more", quote(model), gpus)
		}
		return Host{
			Name:    r.hostName(0),
			Machine: machine(r.integer(1, 0, maxAmount), r.integer(2, 0, maxAmount/mib)*mib, 0, gpus, model),
		}
	})
	return inRacks(hosts), err
}

// openOpenb reads a list of pods, with times or without. Each is a job of one instance that runs from its creation to
// its deletion: what it waited in the recorded cluster counts as run time.
func openOpenb(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', openbPods, openbPodsUntimed)
	if err != nil {
		return nil, err
	}
	timed := len(t.row.names) == len(openbPods)
	jobs, err := readJobs(t, func(r *row) *Job {
		spec := task(r.integer(1, 0, maxAmount), r.integer(2, 0, maxAmount/mib)*mib, 0, openbGPUs(r, timed))
		j := newJob(r.jobName("", 0), 0, 1, spec)
		if !timed {
			return j
		}
		priority, known := openbPriorities[r.fields[6]]
		if !known {
			r.fail(6, "is %s: want BE, Burstable, LS or Guaranteed", quote(r.fields[6]))
		}
		j.Spec.Priority, j.Spec.Preemptible = priority, priority < 200
		r.text(7)
		j.Submit = r.seconds(8)
		end := r.seconds(9)
		if end < j.Submit {
			r.fail(9, "is %s: before creation_time", quote(r.fields[9]))
		}
		if r.fields[10] != "" {
			if at := r.seconds(10); at < j.Submit || at > end {
				r.fail(10, "is %s: not between creation_time and deletion_time", quote(r.fields[10]))
			}
		}
		j.Durations = runTime(end - j.Submit)
		return j
	})
	if err != nil {
		return nil, err
	}
	return &jobList{Source: jobs, arrivals: timed, departures: timed}, nil
}

// models returns field i, models of GPUs joined with '|', sorted and each once.
func models(r *row, i int) []string {
	ms := slices.Sorted(strings.SplitSeq(r.text(i), "|"))
	if slices.Contains(ms, "") {
		r.fail(i, "is %s: want models joined with '|'", quote(r.fields[i]))
	}
	return slices.Compact(ms)
}

func openbGPUs(r *row, timed bool) cluster.GPURequest {
	count, milli := int32(r.integer(3, 0, maxGPUs)), int32(r.integer(4, 0, cluster.WholeGPU))
	var q cluster.GPURequest
	switch {
	case (count == 0) != (milli == 0):
		r.fail(4, "is %d for %d gpus: both are 0 or neither is", milli, count)
	case count > 1 && milli != cluster.WholeGPU:
		r.fail(4, "is %d for %d gpus: only one gpu can be shared", milli, count)
	case count == 1 && milli < cluster.WholeGPU:
		q.Milli = milli
	default:
		q.Count = count
	}
	if timed && r.fields[5] != "" {
		q.Models = models(r, 5)
		if count == 0 {
			r.fail(5, "is %s for no gpus", quote(r.fields[5]))
		}
	}
	return q
}

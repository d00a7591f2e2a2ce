package trace

import (
	"io"
	"math"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Alibaba's cluster-trace-v2026-spot-gpu (Duan et al., "GFS: A Preemptive Scheduling Framework for GPU Clusters with Predictive
// Spot Management", ASPLOS 2026).

// spotMemoryPerCore is what a core of the spot-GPU trace brings, and takes: neither table says.
const spotMemoryPerCore = 8 * gib

// spotPriority is that of jobs of high priority, which are not preempted; spot jobs have 0.
const spotPriority = 200

// readSpotNodes reads node_info_df.
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

// openSpot reads job_info_df: each job a gang of its workers, in a pool for each organization.
func openSpot(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', []string{
		"job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration", "job_type",
	})
	if err != nil {
		return nil, err
	}
	jobs, err := readJobs(t, func(r *row) *Job {
		cores, gpu := r.number(3, 0, 1<<16), gpuParts(r.number(4, 0, maxGPUs))
		if gpu.Amount() > 0 {
			gpu.Models = []string{r.text(2)}
		}
		workers := uint32(r.whole(5, 1, cluster.MaxInstances))
		j := newJob(r.jobName("job-", 0), r.seconds(6), workers,
			task(int64(math.Round(cores*1000)), int64(math.Round(cores*spotMemoryPerCore)), 0, gpu))
		j.Durations, j.Spec.Gang = runTime(r.seconds(7)), gangOf(workers)
		j.Spec.Pool = r.poolNamed(1, "org-"+r.text(1))
		switch r.fields[8] {
		case "HP":
			j.Spec.Priority, j.Spec.Preemptible = spotPriority, false
		case "Spot":
		default:
			r.fail(8, "is %s: want HP or Spot", quote(r.fields[8]))
		}
		return j
	})
	if err != nil {
		return nil, err
	}
	return &jobList{Source: jobs, arrivals: true, departures: true}, nil
}

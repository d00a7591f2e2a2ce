package trace

import (
	"io"
	"math"

	"github.com/sluice-scheduler/sluice/cluster"
)

// batchMemory is the size given to a machine of the batch-jobs trace, which states memory as a part of a machine.
const batchMemory = 256 * gib

// batchFleet are machines as the experiments with these jobs use them; 100 of them suffice for the recorded load.
var batchFleet = Fleet{Hosts: 100, CPUMilli: 64_000, MemoryBytes: batchMemory}

// openBatchJobs reads the jobs that CloudSimPy ships. Each row, a task there, is a job of as many instances as it had; the
// label job names the job that it belonged to.
func openBatchJobs(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openTable(name, r, ',', []string{
		"", "submit_time", "duration", "cpu", "memory", "job_id", "task_id", "instances_num", "disk",
	})
	if err != nil {
		return nil, err
	}
	var n rowNumbers
	jobs, err := readJobs(t, func(r *row) *Job {
		n.check(r)
		cpu := int64(math.Round(r.number(3, 0, 1<<20) * 1000))
		memory := int64(math.Round(r.number(4, 0, 1) * batchMemory))
		r.integer(8, 0, 0)
		r.integer(6, 0, math.MaxInt64)
		j := newJob(r.jobName("batch-", 6), r.seconds(1), uint32(r.integer(7, 1, cluster.MaxInstances)),
			task(cpu, memory, 0, cluster.GPURequest{}))
		j.Durations = runTime(r.seconds(2))
		r.integer(5, 0, math.MaxInt64)
		j.Spec.Labels = []cluster.KeyValue{{Key: "job", Value: r.text(5)}}
		return j
	})
	if err != nil {
		return nil, err
	}
	return &jobList{Source: jobs, arrivals: true, departures: true}, nil
}

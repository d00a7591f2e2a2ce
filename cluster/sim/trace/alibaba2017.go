package trace

import (
	"io"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The tables of Alibaba's cluster-trace-v2017 say of memory only which part it is of that of the largest machine; that machine is given
// this size.
const alibaba2017Memory = 256 * gib

// alibaba2017Fleet are as many machines of the usual kind as the trace has.
var alibaba2017Fleet = Fleet{Hosts: 1313, CPUMilli: 64_000, MemoryBytes: alibaba2017Memory * 69 / 100}

// readAlibaba2017 reads server_event. What machines have is in the rows that add them; errors of them are not replayed.
func readAlibaba2017(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',', []string{"timestamp", "machine_id", "event_type", "event_detail", "cpu", "memory", "disk"})
	if err != nil {
		return nil, err
	}
	var list reports
	err = each(t, func(r *row) error {
		at := r.integer(0, 0, maxSeconds)
		r.integer(1, 0, math.MaxInt64)
		cores, memory := r.ifStated(4, 1<<20), r.stated(5, 0, 1)
		r.stated(6, 0, 1)
		switch r.fields[2] {
		case "add":
			return list.add(r, Host{
				Name: r.hostName(1), Machine: machine(cores*1000, int64(math.Round(memory*alibaba2017Memory)), 0, 0, ""),
			}, at)
		case "softerror", "harderror":
		default:
			r.fail(2, "is %s: want add, softerror or harderror", quote(r.fields[2]))
		}
		return r.err
	})
	return inRacks(list.hosts), err
}

// alibaba2017Statuses are those of tasks that have run, and whether they have ended. Tasks of the others, Ready and Waiting, never did.
var alibaba2017Statuses = map[string]bool{"Running": false, "Terminated": true, "Failed": true, "Cancelled": true}

// openAlibaba2017 reads batch_task. Each row, a task there, is a job of as many instances as it had, which arrives when the task was
// created and runs until its state changed last: what it waited is part of that. The label job names the job that it belonged to. One
// that had not ended runs for ever; one that never ran, that was created before the trace, or that ended before it was created is left
// out.
func openAlibaba2017(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openColumns(name, r, ',', []string{
		"create_timestamp", "modify_timestamp", "job_id", "task_id", "instance_num", "status", "plan_cpu", "plan_mem",
	})
	if err != nil {
		return nil, err
	}
	var tasks alibabaTasks
	err = each(t, func(r *row) error {
		tasks.rows++
		r.integer(2, 0, math.MaxInt64)
		r.integer(3, 0, math.MaxInt64)
		k := alibabaTask{
			start: int32(r.integer(0, -maxSeconds, maxSeconds)), end: int32(r.integer(1, -maxSeconds, maxSeconds)),
			instances: int32(r.integer(4, 0, cluster.MaxInstances)),
			cpuMilli:  int32(r.ifStated(6, 1e6) * 10), // whole hundredths, for cores would be fractions
			memory:    int64(math.Round(r.stated(7, 0, 1) * alibaba2017Memory)),
		}
		ended, ran := alibaba2017Statuses[r.fields[5]]
		switch {
		case !ran && !slices.Contains([]string{"Ready", "Waiting"}, r.fields[5]):
			r.fail(5, "is %s: want Ready, Waiting, Running, Terminated, Failed or Cancelled", quote(r.fields[5]))
		case !ran || ended && k.end < k.start:
			r.leftOut++
			return r.err
		case !ended:
			k.end = 0
		}
		return tasks.add(r, k, 2)
	})
	if err != nil {
		return nil, err
	}
	return tasks.jobs(t), nil
}

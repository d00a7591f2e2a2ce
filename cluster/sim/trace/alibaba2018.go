package trace

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The tables of Alibaba's cluster-trace-v2018 say of memory only which part it is, in percent, of that of the largest machine;
// that machine is given this size.
const alibaba2018Memory = 512 * gib

// alibaba2018Fleet are as many machines of the usual kind as the trace has.
var alibaba2018Fleet = Fleet{Hosts: 4034, CPUMilli: 96_000, MemoryBytes: alibaba2018Memory}

// readAlibaba2018 reads machine_meta: one row for each status report, of which the latest one of a machine counts. The
// first failure domain is its rack, the second its zone.
func readAlibaba2018(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',',
		[]string{"machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status"})
	if err != nil {
		return nil, err
	}
	var list reports
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
		return list.add(r, h, at)
	})
	return list.hosts, err
}

// alibabaTask is what is kept of a row of batch_task until it is its turn: there are 14 million.
type alibabaTask struct {
	start, end int32 // in seconds; end 0: it did not end in the trace
	number     int32 // of the row, from 1
	job        int32 // an index
	instances  int32
	cpuMilli   int32
	memory     int64
}

// openAlibaba2018 reads batch_task. Each row, a task there, is a job of as many instances as it had, which arrives when the task
// started; all its instances run for as long as the task did, since only the table of instances says more. The label job names
// the job that it belonged to. A row without an end runs for ever; one without instances, without a start in the trace, or that ends
// before it is left out.
func openAlibaba2018(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, err := openColumns(name, r, ',',
		[]string{"task_name", "instance_num", "job_name", "task_type", "status", "start_time", "end_time", "plan_cpu", "plan_mem"})
	if err != nil {
		return nil, err
	}
	var tasks alibabaTasks
	err = each(t, func(r *row) error {
		tasks.rows++
		if r.fields[1] == "" || r.fields[5] == "" {
			r.leftOut++
			return nil
		}
		k := alibabaTask{
			instances: int32(r.whole(1, 0, cluster.MaxInstances)),
			start:     int32(r.whole(5, 0, maxSeconds)), end: int32(r.stated(6, 0, maxSeconds)),
			cpuMilli: int32(math.Round(r.stated(7, 0, 1e6) * 10)),
		}
		if percent := r.stated(8, -1, 101); percent <= 100 { // −1 and 101 stand for what is not known
			k.memory = int64(math.Round(max(0, percent) / 100 * alibaba2018Memory))
		}
		return tasks.add(r, k, 2)
	})
	if err != nil {
		return nil, err
	}
	return tasks.jobs(t), nil
}

// alibabaTasks are the tasks of a table.
type alibabaTasks struct {
	list  []*alibabaTask
	names []string // of jobs; tasks of one stand together
	rows  int32    // so far
}

// add takes over the task of a row, unless it is one to leave out; field job names its job.
func (a *alibabaTasks) add(r *row, k alibabaTask, job int) error {
	if k.start <= 0 || k.end > 0 && k.end < k.start || k.instances == 0 {
		r.leftOut++
		return r.err
	}
	if n := len(a.names); n == 0 || a.names[n-1] != r.fields[job] {
		a.names = append(a.names, r.text(job))
	}
	k.number, k.job = a.rows, int32(len(a.names)-1)
	a.list = append(a.list, &k)
	return r.err
}

// jobs makes a job of each task that was read from a table.
func (a *alibabaTasks) jobs(t *table) *jobList {
	slices.SortFunc(a.list, func(a, b *alibabaTask) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
	})
	source := inTurn(a.list, func(k *alibabaTask) *Job {
		j := newJob(numbered("task", int64(k.number)), time.Duration(k.start)*time.Second, uint32(k.instances),
			task(int64(k.cpuMilli), k.memory, 0, cluster.GPURequest{}))
		j.Spec.Labels = []cluster.KeyValue{{Key: "job", Value: a.names[k.job]}}
		if k.end > 0 {
			j.Durations = runTime(time.Duration(k.end-k.start) * time.Second)
		}
		return j
	})
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &t.row.leftOut}
}

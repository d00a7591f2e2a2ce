package trace

import (
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// maxAmount bounds every amount of a resource.
const maxAmount = cluster.MaxAmount

// processes is what all tasks of traces pretend to run.
var processes = []cluster.Process{{Command: []string{"true"}}}

// newJob returns a batch job of equal instances that has the usual settings: in the default pool, preemptible, retried
// as often as is allowed.
func newJob(name cluster.JobID, submit time.Duration, instances uint32, task cluster.TaskSpec) *Job {
	task.Processes = processes
	return &Job{
		Submit: submit,
		Spec: cluster.JobSpec{
			Name: name, Pool: cluster.DefaultPool, Preemptible: true, Instances: instances,
			MaxFailures: cluster.MaxMaxFailures, Task: task,
		},
		Durations: forEver,
	}
}

var forEver = []time.Duration{0}

// runTime returns the durations of a job whose instances all run for d. A recorded 0 counts as one second: traces round,
// and 0 means for ever here.
func runTime(d time.Duration) []time.Duration {
	return []time.Duration{cmp.Or(d, time.Second)}
}

// gangOf returns the gang of n instances that are of use only together, nil if each is of use alone.
func gangOf(n uint32) *cluster.Gang {
	if n < 2 {
		return nil
	}
	return &cluster.Gang{Minimum: n}
}

// task returns the spec of a task with these requests; gpu says how the GPUs must be cut.
func task(cpuMilli, memory, disk int64, gpu cluster.GPURequest) cluster.TaskSpec {
	return cluster.TaskSpec{
		Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{
			cluster.CPU: cpuMilli, cluster.Memory: memory, cluster.Disk: disk, cluster.GPU: gpu.Amount(),
		}},
		GPU: gpu,
	}
}

// sourceFunc is a Source made of its method.
type sourceFunc func() (*Job, error)

// Next implements Source.
func (f sourceFunc) Next() (*Job, error) { return f() }

// listed yields jobs that are all in memory.
type listed struct {
	jobs []*kept
	last time.Duration // when the last one arrives
}

func fromList(jobs []*kept) *listed {
	l := &listed{jobs: jobs}
	if len(jobs) > 0 {
		l.last = jobs[len(jobs)-1].submit
	}
	return l
}

// Next implements Source.
func (l *listed) Next() (*Job, error) {
	if len(l.jobs) == 0 {
		return nil, io.EOF
	}
	j := l.jobs[0].job()
	l.jobs[0], l.jobs = nil, l.jobs[1:]
	return j, nil
}

// keepAll reads a source to its end.
func keepAll(s Source) ([]*kept, error) {
	var jobs []*kept
	k := make(keeper)
	for {
		j, err := s.Next()
		if err != nil {
			return jobs, endOf(err)
		}
		jobs = append(jobs, k.keep(j))
	}
}

// endOf turns the end of a file into success.
func endOf(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// readJobs reads the jobs of a file that need not be in the order of their submission: it collects and sorts them,
// those of the same time as they stand there. parse returns nil for a row that is no job.
func readJobs(rs rows, parse func(*row) *Job) (Source, error) {
	lines := make(map[cluster.JobID]int)
	var jobs []*kept
	k := make(keeper)
	err := each(rs, func(r *row) error {
		j := parse(r)
		if j == nil && r.err == nil {
			r.leftOut++
		}
		if j == nil || r.err != nil {
			return r.err
		}
		if first, taken := lines[j.Spec.Name]; taken {
			return r.errorf("job %q is in line %d already", j.Spec.Name, first)
		}
		lines[j.Spec.Name] = r.line
		one := k.keep(j)
		one.row = uint32(len(jobs))
		jobs = append(jobs, one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b *kept) int { return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(a.row, b.row)) })
	return fromList(jobs), nil
}

// streamJobs reads the jobs of a file that is in the order of their submission, one row at a time. parse returns nil for
// a row that is no job.
func streamJobs(rs rows, parse func(*row) *Job) Source {
	var last time.Duration
	return sourceFunc(func() (*Job, error) {
		for {
			r, err := rs.next()
			if err != nil {
				return nil, err
			}
			j := parse(r)
			switch {
			case r.err != nil:
				return nil, r.err
			case j == nil:
				r.leftOut++
				continue
			case j.Submit < last:
				return nil, r.errorf("job %q is submitted at %v, before the one above at %v: sort the file by submission",
					j.Spec.Name, j.Submit, last)
			}
			last = j.Submit
			return j, nil
		}
	})
}

// inTurn yields a job for each row, the submission of which does not fall from one to the next. A job is made when it is its turn: rows
// take a tenth of the memory, and give it back then.
func inTurn[T any](rows []T, job func(T) *Job) Source {
	return sourceFunc(func() (*Job, error) {
		if len(rows) == 0 {
			return nil, io.EOF
		}
		next := rows[0]
		clear(rows[:1])
		rows = rows[1:]
		return job(next), nil
	})
}

// fromFirst has time begin with the first arrival: before it hosts would stand idle, or fail, for as long as a part of a longer
// trace begins late.
func fromFirst(s Source) Source {
	if l, all := s.(*listed); all {
		for i := len(l.jobs) - 1; i >= 0; i-- {
			l.jobs[i].submit -= l.jobs[0].submit
		}
		return fromList(l.jobs)
	}
	begin := time.Duration(-1)
	return sourceFunc(func() (*Job, error) {
		j, err := s.Next()
		if err != nil {
			return nil, err
		}
		if begin < 0 {
			begin = j.Submit
		}
		j.Submit -= begin
		return j, nil
	})
}

// thinned keeps every n-th job and at most limit of them; 0 stands for all.
type thinned struct {
	Source
	every, limit, seen, kept int
}

// Next implements [Source].
func (t *thinned) Next() (*Job, error) {
	for t.limit == 0 || t.kept < t.limit {
		j, err := t.Source.Next()
		if err != nil {
			return nil, err
		}
		if t.seen++; t.every <= 1 || (t.seen-1)%t.every == 0 {
			t.kept++
			return j, nil
		}
	}
	return nil, io.EOF
}

package trace

import (
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Google's clusterdata-2011-2 (Reiss, Wilkes, Hellerstein, "Google cluster-usage traces: format + schema"). Capacities are
// normalised to the largest machine; that machine is given this size.
const (
	googleCPUMilli = 64_000
	googleMemory   = 256 * gib
)

// googleSizes are the synthetic requests of the tasks of a job: the excerpts have lost the recorded ones. A job draws one
// of them with these weights; they are ours, not measured.
var googleSizes = []struct {
	weight        int
	cpuMilli, mib int64
}{
	{25, 800, 1024},
	{20, 400, 512},
	{20, 1600, 2048},
	{10, 1600, 4096},
	{10, 3200, 4096},
	{8, 4000, 8192},
	{5, 800, 8192},
	{2, 6400, 12288},
}

// googleSize draws the size of one job's tasks.
func googleSize(random *rand.Rand) cluster.TaskSpec {
	n := random.IntN(100)
	for _, s := range googleSizes {
		if n -= s.weight; n < 0 {
			return task(s.cpuMilli, s.mib*mib, 0, cluster.GPURequest{})
		}
	}
	panic("trace: the weights of googleSizes do not add up to 100")
}

// readGoogleMachines reads a list of machines with a header, or machine_events.
func readGoogleMachines(name string, r io.Reader) ([]Host, error) {
	text, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	if first := firstByte(text); '0' <= first && first <= '9' {
		return readGoogleMachineEvents(name, text)
	}
	t, err := openTable(name, text, ',', []string{"machine_id", "cpu", "memory"})
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		return googleMachine(r, 0, r.number(1, 0, 1), r.number(2, 0, 1))
	})
	return inRacks(hosts), err
}

// readGoogleMachineEvents reads machine_events. All machines count that were ever added, with the capacity that they had last.
func readGoogleMachineEvents(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',', []string{"timestamp", "machine_id", "event_type", "platform_id", "cpu", "memory"})
	if err != nil {
		return nil, err
	}
	const removed, updated = 1, 2
	var list reports
	err = each(t, func(r *row) error {
		at, h := r.integer(0, 0, math.MaxInt64), googleMachine(r, 1, r.stated(4, 0, 1), r.stated(5, 0, 1))
		if r.integer(2, 0, updated) == removed || r.fields[4] == "" && r.fields[5] == "" {
			return r.err
		}
		return list.add(r, h, at)
	})
	return inRacks(list.hosts), err
}

// googleMachine returns the machine whose number is in field id.
func googleMachine(r *row, id int, cpu, memory float64) Host {
	r.integer(id, 0, math.MaxInt64)
	return Host{Name: r.hostName(id), Machine: machine(
		int64(math.Round(cpu*googleCPUMilli)), int64(math.Round(memory*googleMemory)), 0, 0, "")}
}

// openGoogleSubtrace reads jobs in the form of the Hawk and Eagle simulators: arrival in seconds, number of tasks, mean
// duration, duration of each task. Sizes are synthetic.
func openGoogleSubtrace(name string, r io.Reader, o jobOptions) (*jobList, error) {
	rs, err := newBlanks(name, r, 0, "arrival", "number of tasks", "mean duration", "duration")
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.seed, 2011))
	number := 0
	jobs := streamJobs(rs, func(r *row) *Job {
		if len(r.fields) < 4 {
			r.err = r.errorf("%d fields: want arrival, number of tasks, mean duration and a duration for each task", len(r.fields))
			return nil
		}
		at := r.seconds(0)
		number++
		n := int(r.integer(1, 1, cluster.MaxInstances))
		if got := len(r.fields) - 3; got != n && r.err == nil {
			r.fail(1, "is %d, but %d durations follow", n, got)
		}
		if r.err != nil {
			return nil
		}
		j := newJob(numbered("google", number), at, uint32(n), googleSize(random))
		j.Durations = r.durations(2)
		return j
	})
	return &jobList{Source: jobs, arrivals: true, departures: true}, nil
}

// durations returns the fields after field mean, whose mean that field must be to a thousandth.
func (r *row) durations(mean int) []time.Duration {
	ds := make([]time.Duration, len(r.fields)-mean-1)
	sum := 0.0
	for i := range ds {
		d := r.seconds(mean + 1 + i)
		sum += d.Seconds()
		ds[i] = cmp.Or(d, time.Second) // as runTime has it
	}
	want := sum / float64(len(ds))
	if got := r.number(mean, 0, maxSeconds); math.Abs(got-want) > 1e-3*max(want, 1) {
		r.fail(mean, "is %v, but the durations' mean is %v", got, want)
	}
	return ds
}

func numbered[N int | int64](prefix string, n N) cluster.JobID {
	return cluster.JobID(prefix + "-" + strconv.FormatInt(int64(n), 10))
}

// Event types of job_events and task_events: the first, the next, and the last.
const (
	googleSubmit        = 0
	googleSchedule      = 1
	googleUpdateRunning = 8
)

// googleAfter is the timestamp of events after the end of the trace, whenever that was.
const googleAfter = math.MaxInt64

// googleTaskColumns are those of task_events.
var googleTaskColumns = []string{
	"timestamp", "missing_info", "job_id", "task_index", "machine_id", "event_type", "user", "scheduling_class", "priority",
	"cpu_request", "memory_request", "disk_space_request", "different_machines",
}

// What is not preempted: of task_events what has the lowest priority of production or a higher one, of job_events the class of services. The
// priority of a job whose events have none is its class, so many times.
const (
	googleProduction = 9
	googleService    = 3
	googleClass      = 100
)

// openGoogleEvents reads task_events or job_events. Jobs come of these as of the instance_events of 2019, see openBorg: an event of a job is
// one of its only task, because job_events do not say how many it had. There sizes are synthetic.
func openGoogleEvents(name string, r io.Reader, o jobOptions) (*jobList, error) {
	t, err := openColumns(name, r, ',',
		[]string{"timestamp", "missing_info", "job_id", "event_type", "user", "scheduling_class", "job_name", "logical_job_name"},
		[]string{"timestamp", "missing_info", "job_id", "event_type", "scheduling_class"}, googleTaskColumns)
	if err != nil {
		return nil, err
	}
	var events []borgEvent
	tasks := false
	err = each(t, func(r *row) error {
		if r.fields[0] == strconv.Itoa(googleAfter) {
			return nil
		}
		if tasks = len(r.fields) == len(googleTaskColumns); tasks {
			events = append(events, googleTask(r))
		} else {
			events = append(events, googleJob(r))
		}
		return r.err
	})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.seed, 2011))
	production, size := int16(googleProduction), (*borgJob).size
	if !tasks {
		production, size = googleService*googleClass, func(*borgJob) cluster.TaskSpec { return googleSize(random) }
	}
	source := borgSource(events, &t.row.leftOut, production, size)
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &t.row.leftOut}, nil
}

// googleJob returns a row of job_events. The schema leaves the scheduling class optional.
func googleJob(r *row) borgEvent {
	r.ifStated(1, 2)
	return borgEvent{
		at: r.integer(0, 0, maxSeconds*1e6), collection: r.integer(2, 0, math.MaxInt64), kind: googleKind(r, 3),
		priority: int16(r.ifStated(slices.Index(r.names, "scheduling_class"), 3)) * googleClass,
	}
}

// googleKind returns the event type in field i as one of 2019, which knows two more, of what goes on between submission and schedule.
func googleKind(r *row, i int) uint8 {
	kind := uint8(r.integer(i, 0, googleUpdateRunning))
	if kind > googleSubmit {
		kind += borgSchedule - googleSchedule
	}
	return kind
}

// googleTask returns a row of task_events.
func googleTask(r *row) borgEvent {
	e := borgEvent{
		at: r.integer(0, 0, maxSeconds*1e6), collection: r.integer(2, 0, math.MaxInt64), index: int32(r.integer(3, 0, math.MaxInt32)),
		kind: googleKind(r, 5), priority: int16(r.integer(8, 0, 11)),
		cpuMilli: int32(math.Round(r.stated(9, 0, 1000) * googleCPUMilli)), memory: int64(math.Round(r.stated(10, 0, 1000) * googleMemory)),
	}
	r.ifStated(1, 2)
	r.ifStated(4, math.MaxInt64)
	r.ifStated(7, 3)
	r.stated(11, 0, 1)
	r.ifStated(12, 1)
	return e
}

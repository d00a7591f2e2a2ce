package trace

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Google's clusterdata-2019 ("Google cluster-usage traces v3"; Tirmazi et al., "Borg: the Next Generation", EuroSys 2020): JSON lines, as
// BigQuery exports its tables. Requests and capacities are parts of the largest machine, which is given the size that it has for 2011.

// borgProduction is the lowest priority of the production tier. It and what is above are not preempted.
const borgProduction = 120

// Event types of instances and collections. From evict to lost they end a run, or a wait.
const (
	borgSubmit        = 0
	borgSchedule      = 3
	borgEvict         = 4
	borgLost          = 8
	borgUpdateRunning = 10
)

// borgRemove is the event type of a machine that leaves.
const borgRemove = 2

type borgResources struct{ CPUs, Memory scalar }

// borgMachine is a row of machine_events.
type borgMachine struct {
	Time     scalar
	Machine  scalar `json:"machine_id"`
	Type     scalar
	Switch   scalar `json:"switch_id"`
	Capacity borgResources
	Platform scalar `json:"platform_id"`
	Missing  scalar `json:"missing_data_reason"`
}

// readBorgMachines reads machine_events. All machines count that were ever added, with the capacity that they had last; what they hang on
// is their rack.
func readBorgMachines(name string, r io.Reader) ([]Host, error) {
	rows, err := openJSONRows[borgMachine](name, r, "machine", "time", "machine_id", "type", "switch_id", "cpus", "memory")
	if err != nil {
		return nil, err
	}
	var list reports
	err = each(rows, func(r *row) error {
		v := &rows.value
		r.fields = []string{
			string(v.Time), string(v.Machine), string(v.Type), string(v.Switch), string(v.Capacity.CPUs), string(v.Capacity.Memory),
		}
		at, h := r.integer(0, 0, math.MaxInt64), googleMachine(r, 1, r.stated(4, 0, 1), r.stated(5, 0, 1))
		if r.integer(2, 1, 3) == borgRemove || r.fields[4] == "" && r.fields[5] == "" {
			return r.err
		}
		h.Rack = r.fields[3]
		return list.add(r, h, at)
	})
	return list.hosts, err
}

// borgRow is a row of instance_events or collection_events. What is not used has to be what it is named, too.
type borgRow struct {
	Time            scalar
	Type            scalar
	Collection      scalar `json:"collection_id"`
	SchedulingClass scalar `json:"scheduling_class"`
	Missing         scalar `json:"missing_type"`
	CollectionType  scalar `json:"collection_type"`
	Priority        scalar
	AllocSet        scalar `json:"alloc_collection_id"`

	Index         scalar        `json:"instance_index"` // no collection has one
	Machine       scalar        `json:"machine_id"`
	AllocInstance scalar        `json:"alloc_instance_index"`
	Request       borgResources `json:"resource_request"`
	Constraint    json.RawMessage

	User            scalar
	Name            scalar          `json:"collection_name"`
	LogicalName     scalar          `json:"collection_logical_name"`
	Parent          scalar          `json:"parent_collection_id"`
	StartAfter      json.RawMessage `json:"start_after_collection_ids"`
	MaxPerMachine   scalar          `json:"max_per_machine"`
	MaxPerSwitch    scalar          `json:"max_per_switch"`
	VerticalScaling scalar          `json:"vertical_scaling"`
	Scheduler       scalar
}

// borgEvent is what is kept of a row.
type borgEvent struct {
	collection, at  int64 // at in microseconds
	memory          int64
	index, cpuMilli int32
	priority        int16
	kind            uint8
	allocSet        bool
}

// borgJob is a collection until it is its turn.
type borgJob struct {
	collection int64
	submitted  int64 // in microseconds
	memory     int64
	cpuMilli   int32
	priority   int16
	allocSet   bool
	instances  uint32
	durations  []time.Duration // by instance, or one for all
}

// openBorg reads instance_events, or collection_events, of which each makes a job of one instance that has one of the sizes of googleSizes.
// An alloc set is a job, and jobs that run inside of one are left out: they take nothing of a machine but what the set holds. An instance
// runs from when it was scheduled last to the end that followed; one that was never scheduled takes what it waited, and one that has not
// ended runs for ever. A job arrives with its first instance, and asks for the most that one of them asked for when it was submitted.
// Instances that were not submitted in the file are left out. Rows may be in any order.
func openBorg(name string, r io.Reader, o jobOptions) (*jobList, error) {
	rows, err := openJSONRows[borgRow](name, r, "event",
		"time", "type", "collection_id", "collection_type", "priority", "alloc_collection_id", "instance_index", "cpus", "memory")
	if err != nil {
		return nil, err
	}
	var events []borgEvent
	instances := false
	err = each(rows, func(r *row) error {
		v := &rows.value
		r.fields = append(r.fields[:0], string(v.Time), string(v.Type), string(v.Collection), string(v.CollectionType), string(v.Priority),
			string(v.AllocSet), string(v.Index), string(v.Request.CPUs), string(v.Request.Memory))
		if len(events) == 0 {
			instances = v.Index != ""
		}
		if instances != (v.Index != "") {
			r.fail(6, "is %s: want events of instances or of collections, not both", quote(r.fields[6]))
		}
		if r.fields[0] == strconv.Itoa(googleAfter) {
			return r.err
		}
		e := borgEvent{
			at: r.integer(0, 0, maxSeconds*1e6), kind: uint8(r.integer(1, 0, borgUpdateRunning)), collection: r.integer(2, 0, math.MaxInt64),
			allocSet: r.ifStated(3, 1) == 1, priority: int16(r.ifStated(4, cluster.MaxPriority)),
			cpuMilli: int32(math.Round(r.stated(7, 0, 1000) * googleCPUMilli)), memory: int64(math.Round(r.stated(8, 0, 1000) * googleMemory)),
		}
		if instances {
			e.index = int32(r.integer(6, 0, math.MaxInt32))
		}
		if r.ifStated(5, math.MaxInt64) > 0 {
			r.leftOut++
			return r.err
		}
		events = append(events, e)
		return r.err
	})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.seed, 2019))
	source := borgSource(events, &rows.row.leftOut, borgProduction, func(g *borgJob) cluster.TaskSpec {
		if instances {
			return g.size()
		}
		return googleSize(random)
	})
	return &jobList{Source: source, arrivals: true, departures: true, leftOut: &rows.row.leftOut}, nil
}

// size is what each instance asks for.
func (j *borgJob) size() cluster.TaskSpec {
	return task(int64(j.cpuMilli), j.memory, 0, cluster.GPURequest{})
}

// borgSource yields the jobs of events in any order. What has the priority production, or a higher one, is not preempted.
func borgSource(events []borgEvent, leftOut *int, production int16, size func(*borgJob) cluster.TaskSpec) Source {
	slices.SortFunc(events, func(a, b borgEvent) int {
		return cmp.Or(cmp.Compare(a.collection, b.collection), cmp.Compare(a.index, b.index), cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind))
	})
	return inTurn(borgJobs(events, leftOut), func(g *borgJob) *Job {
		j := newJob(numbered("google", g.collection), time.Duration(g.submitted)*time.Microsecond, g.instances, size(g))
		j.Spec.Priority, j.Spec.Preemptible, j.Durations = int32(g.priority), g.priority < production, g.durations
		if g.allocSet {
			j.Spec.Type = cluster.Stateless
		}
		return j
	})
}

// borgJobs makes jobs of events that are sorted by collection, instance, time and type. One that is there twice counts once.
func borgJobs(events []borgEvent, leftOut *int) []*borgJob {
	events = slices.Compact(events)
	var jobs []*borgJob
	var j *borgJob
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].collection == events[0].collection && events[n].index == events[0].index {
			n++
		}
		if j == nil || j.collection != events[0].collection {
			j = &borgJob{collection: events[0].collection, submitted: math.MaxInt64}
		}
		if j.instances == cluster.MaxInstances || !j.add(events[:n]) {
			*leftOut += n
		} else if j.instances == 1 {
			jobs = append(jobs, j)
		}
		events = events[n:]
	}
	for _, j := range jobs {
		if same := slices.Compact(slices.Clone(j.durations)); len(same) == 1 {
			j.durations = same
		}
	}
	slices.SortFunc(jobs, func(a, b *borgJob) int {
		return cmp.Or(cmp.Compare(a.submitted, b.submitted), cmp.Compare(a.collection, b.collection))
	})
	return jobs
}

// add takes over the events of an instance, in the order of time and, at the same time, of type: so the end of a run comes after the
// submission and the schedule of the next one, if these are of the same microsecond. It reports whether the instance was submitted.
func (j *borgJob) add(events []borgEvent) bool {
	submitted, waits, scheduled, ended := int64(-1), int64(-1), int64(-1), int64(-1) // waits: since when
	running, before := false, false                                                  // before: it also was when it was scheduled
	for _, e := range events {
		switch {
		case e.kind == borgSubmit:
			if submitted < 0 {
				submitted = e.at
			}
			waits = e.at
			j.cpuMilli, j.memory, j.priority = max(j.cpuMilli, e.cpuMilli), max(j.memory, e.memory), max(j.priority, e.priority)
			j.allocSet = e.allocSet
		case submitted < 0: // of a run that began before the file
		case e.kind == borgSchedule:
			before, running, scheduled, waits = running, true, e.at, -1
		case e.kind < borgEvict || e.kind > borgLost, before && e.at == scheduled:
		default:
			if running || scheduled < 0 { // else what ended was the wait after a run
				ended = e.at
			}
			if !running || waits < e.at { // else it was submitted again at once
				waits = -1
			}
			running = false
		}
	}
	if submitted < 0 {
		return false
	}
	run := time.Duration(0)
	if !running && waits < 0 {
		run = runTime(time.Duration(ended-max(scheduled, submitted)) * time.Microsecond)[0]
	}
	j.submitted, j.instances, j.durations = min(j.submitted, submitted), j.instances+1, append(j.durations, run)
	return true
}

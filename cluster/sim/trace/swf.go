package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The standard workload format, version 2.2 (Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job
// Schedulers", JSSPP 1999): 18 numbers a job, −1 where unknown.
var swfFields = []string{
	"job number", "submit time", "wait time", "run time", "allocated processors", "average cpu time", "used memory",
	"requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
	"partition", "preceding job", "think time",
}

// Statuses of jobs. From swfPartial to below swfCancelled a line is about a part of an execution that was interrupted.
const (
	swfPartial   = 2
	swfCancelled = 5
)

// A processor of which the log does not say more brings this memory, and a process takes that.
const (
	swfHostMemory = 4 * gib
	swfTaskMemory = 1 * gib
)

// swfProcessors bounds the processors of a job. A job has at most cluster.MaxInstances instances: beyond that each has several.
const swfProcessors = 100 * cluster.MaxInstances

var swfFleet = Fleet{MemoryBytes: 32 * swfHostMemory, HostsPerRack: defaultHostsPerRack}

// openSWF reads a log. A job is a gang of as many instances as it requested (else: was allocated) processors, one core
// each, as far as a job can have so many; the instances of a larger one have two cores or more, all alike, which may make a
// few cores too many. Jobs that never ran are left out, and so are the partial executions of a job, which has a line of its own
// besides. Queues are pools.
func openSWF(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	rs, err := newBlanks(name, r, ';', swfFields...)
	if err != nil {
		return nil, err
	}
	taken := make(map[int64]struct{})
	jobs := streamJobs(rs, func(r *row) *Job {
		if len(r.fields) != len(swfFields) {
			r.err = r.errorf("%d fields: want %d", len(r.fields), len(swfFields))
			return nil
		}
		for i := range r.fields {
			r.number(i, -1, 1e15)
		}
		status := r.number(10, -1, 1e15)
		if status >= swfPartial && status < swfCancelled {
			return nil
		}
		number, run := r.integer(0, 0, math.MaxInt64), r.number(3, -1, maxSeconds)
		allocated := r.integer(4, -1, swfProcessors)
		processors := r.integer(7, -1, swfProcessors)
		if processors <= 0 {
			processors = allocated
		}
		if _, again := taken[number]; again {
			r.fail(0, "is %d: that job was there already", number)
		}
		taken[number] = struct{}{}
		if run < 0 || processors <= 0 || run == 0 && allocated <= 0 && status == swfCancelled {
			return nil
		}
		memory := int64(swfTaskMemory)
		for _, i := range []int{6, 9} { // what was requested counts more than what was used
			if kb := r.number(i, -1, maxAmount/1024); kb > 0 {
				memory = int64(kb * 1024)
			}
		}
		cores := (processors + cluster.MaxInstances - 1) / cluster.MaxInstances
		instances := uint32((processors + cores - 1) / cores)
		j := newJob(numbered("swf", number), r.seconds(1), instances, task(1000*cores, min(memory*cores, maxAmount), 0, cluster.GPURequest{}))
		j.Durations, j.Spec.Gang = runTime(toDuration(run)), gangOf(instances)
		if queue := r.integer(14, -1, math.MaxInt32); queue >= 0 {
			j.Spec.Pool = cluster.PoolPath(fmt.Sprintf("%s/queue-%d", cluster.RootPool, queue))
		}
		if user := r.integer(11, -1, math.MaxInt32); user >= 0 {
			j.Spec.Owner = fmt.Sprintf("user-%d", user)
		}
		return j
	})
	return &jobList{Source: jobs, arrivals: true, departures: true, leftOut: &rs.row.leftOut}, nil
}

// readSWFHosts makes hosts of what the header comments MaxNodes and MaxProcs say: so many nodes that share the processors.
func readSWFHosts(name string, r io.Reader) ([]Host, error) {
	text, err := newBlanks(name, r, 0)
	if err != nil {
		return nil, err
	}
	nodes, processors, err := swfHeader(text)
	if err != nil {
		return nil, err
	}
	if nodes == 0 {
		nodes = processors
	}
	if nodes == 0 {
		return nil, fmt.Errorf("trace: %s: the header has neither MaxNodes nor MaxProcs: say how many hosts there are", name)
	}
	processors = cmp.Or(processors, nodes)
	nodes = min(nodes, processors)
	hosts, err := Fleet{Hosts: nodes}.build()
	for i := range hosts {
		cores := int64(processors / nodes)
		if i < processors%nodes { // who comes first has what is left over
			cores++
		}
		hosts[i].Capacity.Fixed[cluster.CPU], hosts[i].Capacity.Fixed[cluster.Memory] = cores*1000, cores*swfHostMemory
	}
	return hosts, err
}

func swfHeader(text *blanks) (nodes, processors int, err error) {
	for {
		line, err := text.readLine()
		if err != nil {
			return nodes, processors, endOf(err)
		}
		comment, ok := strings.CutPrefix(strings.TrimSpace(string(line)), ";")
		if !ok {
			if comment == "" {
				continue
			}
			return nodes, processors, nil
		}
		key, value, _ := strings.Cut(comment, ":")
		key = strings.TrimSpace(key)
		if key != "MaxNodes" && key != "MaxProcs" {
			continue
		}
		digits := ""
		if words := strings.Fields(value); len(words) > 0 {
			digits = words[0] // remarks may follow
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > maxHosts {
			return 0, 0, text.row.errorf("%s is %s: want 1 to %d", key, quote(digits), maxHosts)
		}
		if key == "MaxNodes" {
			nodes = n
		} else {
			processors = n
		}
	}
}

package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// csvFleet is what jobs of our own tables run on where there is no table of hosts.
var csvFleet = Fleet{Hosts: 100}

// resourcePrefix begins the names of columns of named resources.
const resourcePrefix = "resource:"

// columns says how to read each column of one of our own tables: a header may have any of them in any order.
type columns[T any] map[string]func(r *row, i int, out *T)

// readers returns the readers of the columns that a header has, by index.
func (c columns[T]) readers(header *row, required string, named func(name string) func(*row, int, *T)) ([]func(*row, int, *T), error) {
	readers := make([]func(*row, int, *T), len(header.fields))
	for i, f := range header.fields {
		name, isNamed := strings.CutPrefix(f, resourcePrefix)
		switch {
		case slices.Contains(header.fields[:i], f):
			header.fail(i, "%s: the column is there twice", quote(f))
		case isNamed && isDimension(name):
			header.fail(i, "%s: %s is no named resource: want one of the columns %s", quote(f), name, c.names())
		case isNamed && isResourceName(name):
			readers[i] = named(name)
		case c[f] == nil:
			header.fail(i, "%s: no such column: want %s, or %sNAME", quote(f), c.names(), resourcePrefix)
		default:
			readers[i] = c[f]
		}
	}
	if header.err == nil && !slices.Contains(header.fields, required) {
		header.err = header.errorf("the header lacks the column %q", required)
	}
	return readers, header.err
}

func (c columns[T]) names() string {
	var names []string
	for n := range c {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// isDimension reports whether a fixed dimension has the name, so that no named resource may.
func isDimension(s string) bool {
	for d := range cluster.NumDimensions {
		if d.String() == s {
			return true
		}
	}
	return false
}

func isResourceName(s string) bool { return s != "" && len(s) <= 63 && consists(s, "-_./") }

// openCSVTable opens a table and reads its header. An empty field of a row leaves the column's default.
func openCSVTable[T any](name string, r io.Reader, c columns[T], required string, named func(string) func(*row, int, *T)) (*table, func(*row, *T), error) {
	t, err := openTable(name, r, ',')
	if err != nil {
		return nil, nil, err
	}
	header, err := t.next()
	if err == io.EOF {
		err = fmt.Errorf("trace: %s:1:1: the file is empty: want a header with the column %q", name, required)
	}
	if err != nil {
		return nil, nil, err
	}
	readers, err := c.readers(header, required, named)
	if err != nil {
		return nil, nil, err
	}
	t.head = slices.Clone(header.fields)
	t.row.names = t.head
	t.r.FieldsPerRecord = len(readers)
	return t, func(r *row, out *T) {
		for i, read := range readers {
			if r.fields[i] != "" {
				read(r, i, out)
			}
		}
	}, nil
}

// csvHost is a host while its row is being read.
type csvHost struct {
	Host
	gpus   int
	models []string
}

func hostAmount(d cluster.Dimension) func(*row, int, *csvHost) {
	return func(r *row, i int, h *csvHost) { h.Capacity.Fixed[d] = r.integer(i, 0, maxAmount) }
}

var csvHostColumns = columns[csvHost]{
	"host":         func(r *row, i int, h *csvHost) { h.Name = r.hostName(i) },
	"rack":         func(r *row, i int, h *csvHost) { h.Rack = r.text(i) },
	"zone":         func(r *row, i int, h *csvHost) { h.Zone = r.text(i) },
	"cpu_milli":    hostAmount(cluster.CPU),
	"memory_bytes": hostAmount(cluster.Memory),
	"disk_bytes":   hostAmount(cluster.Disk),
	"gpus":         func(r *row, i int, h *csvHost) { h.gpus = int(r.integer(i, 0, maxGPUs)) },
	"gpu_models":   func(r *row, i int, h *csvHost) { h.models = strings.Split(r.text(i), "|") },
	"attributes":   func(r *row, i int, h *csvHost) { h.Attributes = r.keyValues(i) },
}

// readCSVHosts reads a table of hosts.
func readCSVHosts(name string, r io.Reader) ([]Host, error) {
	t, parse, err := openCSVTable(name, r, csvHostColumns, "host", func(name string) func(*row, int, *csvHost) {
		return func(r *row, i int, h *csvHost) {
			h.Capacity = h.Capacity.Add(cluster.Resources{Named: []cluster.Amount{{Name: name, Value: r.integer(i, 0, maxAmount)}}})
		}
	})
	if err != nil {
		return nil, err
	}
	return readHosts(t, func(r *row) Host {
		var h csvHost
		parse(r, &h)
		if h.Name == "" {
			r.fail(slices.Index(r.names, "host"), "is empty")
		}
		switch len(h.models) {
		case 0:
			h.models = slices.Repeat([]string{""}, h.gpus)
		case 1:
			h.models = slices.Repeat(h.models, h.gpus)
		}
		if len(h.models) != h.gpus {
			r.fail(slices.Index(r.names, "gpu_models"), "has %d models for %d gpus: want one, or one for each", len(h.models), h.gpus)
		}
		h.Capacity.Fixed[cluster.GPU] = int64(h.gpus) * cluster.WholeGPU
		for _, m := range h.models {
			h.GPUs = append(h.GPUs, cluster.GPUDevice{Model: m})
		}
		return h.Host
	})
}

func jobAmount(d cluster.Dimension) func(*row, int, *Job) {
	return func(r *row, i int, j *Job) { j.Spec.Task.Resources.Fixed[d] = r.integer(i, 0, maxAmount) }
}

var csvJobColumns = columns[Job]{
	"job":          func(r *row, i int, j *Job) { j.Spec.Name = r.jobName("", i) },
	"submit_s":     func(r *row, i int, j *Job) { j.Submit = r.seconds(i) },
	"duration_s":   func(r *row, i int, j *Job) { j.Durations = r.durationList(i) },
	"instances":    func(r *row, i int, j *Job) { j.Spec.Instances = uint32(r.integer(i, 1, cluster.MaxInstances)) },
	"gang":         func(r *row, i int, j *Job) { j.Spec.Gang = gangOf(uint32(r.integer(i, 0, cluster.MaxInstances))) },
	"pool":         func(r *row, i int, j *Job) { j.Spec.Pool = r.pool(i) },
	"type":         func(r *row, i int, j *Job) { j.Spec.Type = r.jobType(i) },
	"priority":     func(r *row, i int, j *Job) { j.Spec.Priority = int32(r.integer(i, 0, cluster.MaxPriority)) },
	"preemptible":  func(r *row, i int, j *Job) { j.Spec.Preemptible = r.boolean(i) },
	"owner":        func(r *row, i int, j *Job) { j.Spec.Owner = r.text(i) },
	"labels":       func(r *row, i int, j *Job) { j.Spec.Labels = r.labels(i) },
	"constraint":   func(r *row, i int, j *Job) { j.Spec.Constraint = allOf(r.keyValues(i)) },
	"cpu_milli":    jobAmount(cluster.CPU),
	"memory_bytes": jobAmount(cluster.Memory),
	"disk_bytes":   jobAmount(cluster.Disk),
	"gpus":         func(r *row, i int, j *Job) { j.Spec.Task.GPU.Count = int32(r.integer(i, 0, maxGPUs)) },
	"gpu_milli":    func(r *row, i int, j *Job) { j.Spec.Task.GPU.Milli = int32(r.integer(i, 0, cluster.WholeGPU-1)) },
	"gpu_models": func(r *row, i int, j *Job) {
		j.Spec.Task.GPU.Models = models(r, i)
	},
}

// openCSV reads a table of jobs, in the order of their submission.
func openCSV(name string, r io.Reader, _ jobOptions) (*jobList, error) {
	t, parse, err := openCSVTable(name, r, csvJobColumns, "job", func(name string) func(*row, int, *Job) {
		return func(r *row, i int, j *Job) {
			s := &j.Spec.Task
			s.Resources = s.Resources.Add(cluster.Resources{Named: []cluster.Amount{{Name: name, Value: r.integer(i, 0, maxAmount)}}})
		}
	})
	if err != nil {
		return nil, err
	}
	c := csvJobs{lines: make(map[cluster.JobID]int), inner: make(map[cluster.PoolPath]bool), leaves: make(map[cluster.PoolPath]bool)}
	jobs := streamJobs(t, func(r *row) *Job {
		j := newJob("", 0, 1, cluster.TaskSpec{})
		parse(r, j)
		c.check(r, j)
		return j
	})
	return &jobList{
		Source: jobs, arrivals: slices.Contains(t.row.names, "submit_s"), departures: slices.Contains(t.row.names, "duration_s"), begun: true,
	}, nil
}

// csvJobs holds what the rows of a table have to agree on.
type csvJobs struct {
	lines         map[cluster.JobID]int
	inner, leaves map[cluster.PoolPath]bool
}

// check completes a job and complains where its fields contradict each other or those of another job.
func (c *csvJobs) check(r *row, j *Job) {
	s := &j.Spec
	column := func(name string) int { return max(0, slices.Index(r.names, name)) }
	if s.Name == "" {
		r.fail(column("job"), "is empty")
	}
	if first, taken := c.lines[s.Name]; taken {
		r.fail(column("job"), "is %q, which is in line %d already", s.Name, first)
	}
	c.lines[s.Name] = r.line
	c.checkPool(r, column("pool"), s.Pool)
	if n := len(j.Durations); n != 1 && n != int(s.Instances) {
		r.fail(column("duration_s"), "has %d durations for %d instances: want one, or one for each", n, s.Instances)
	}
	if s.Gang != nil && s.Gang.Minimum > s.Instances {
		r.fail(column("gang"), "is %d: more than the %d instances", s.Gang.Minimum, s.Instances)
	}
	g := &s.Task.GPU
	s.Task.Resources.Fixed[cluster.GPU] = g.Amount()
	switch {
	case g.Count > 0 && g.Milli > 0:
		r.fail(column("gpu_milli"), "is %d besides %d gpus: whole devices or a part of one, not both", g.Milli, g.Count)
	case g.IsZero() && len(g.Models) > 0:
		r.fail(column("gpu_models"), "is set, but no gpus are asked for")
	}
}

func (c *csvJobs) checkPool(r *row, i int, p cluster.PoolPath) {
	if c.leaves[p] {
		return
	}
	clash := c.inner[p]
	for above := p.Parent(); above != ""; above = above.Parent() {
		clash = clash || c.leaves[above]
		c.inner[above] = true
	}
	if clash {
		r.fail(i, "is %s: a pool with jobs cannot be above another one with jobs", quote(string(p)))
	}
	c.leaves[p] = true
}

// keyValues returns field i, "key=value" joined with ';', sorted.
func (r *row) keyValues(i int) []cluster.KeyValue {
	var out []cluster.KeyValue
	for part := range strings.SplitSeq(r.text(i), ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" || value == "" {
			r.fail(i, "is %s: want key=value, joined with ';'", quote(r.fields[i]))
			return nil
		}
		out = append(out, cluster.KeyValue{Key: key, Value: value})
	}
	slices.SortFunc(out, cluster.KeyValue.Compare)
	return out
}

// labels returns field i, "key=value" joined with ';', each key once.
func (r *row) labels(i int) []cluster.KeyValue {
	out := r.keyValues(i)
	for k := range max(1, len(out)) - 1 {
		if out[k].Key == out[k+1].Key {
			r.fail(i, "is %s: %s is there twice", quote(r.fields[i]), out[k].Key)
		}
	}
	return out
}

// allOf allows hosts that have all the labels.
func allOf(labels []cluster.KeyValue) *cluster.Constraint {
	c := &cluster.Constraint{Op: cluster.And}
	for _, l := range labels {
		c.Terms = append(c.Terms, has(l.Key, l.Value))
	}
	return c
}

// durationList returns field i, seconds joined with ';'; 0 means for ever.
func (r *row) durationList(i int) []time.Duration {
	var out []time.Duration
	part := row{file: r.file, line: r.line, fields: []string{""}, cols: []int{r.cols[i]}, names: []string{r.names[i]}}
	for s := range strings.SplitSeq(r.fields[i], ";") {
		part.fields[0] = s
		out = append(out, part.seconds(0))
		part.cols[0] += len(s) + 1
	}
	if r.err == nil {
		r.err = part.err
	}
	return out
}

// pool returns field i, a path below the root.
func (r *row) pool(i int) cluster.PoolPath {
	parts := strings.Split(r.text(i), "/")
	ok := len(parts) > 1 && len(parts) <= 16 && parts[0] == string(cluster.RootPool)
	for _, p := range parts[1:] {
		ok = ok && isPoolName(p)
	}
	if !ok {
		r.fail(i, "is %s: want a path below %s of parts of lower-case letters, digits, '-' and '_'", quote(r.fields[i]), cluster.RootPool)
	}
	return cluster.PoolPath(strings.Join(parts, "/"))
}

func (r *row) jobType(i int) cluster.JobType {
	switch r.fields[i] {
	case "batch":
		return cluster.Batch
	case "stateless":
		return cluster.Stateless
	}
	r.fail(i, "is %s: want batch or stateless", quote(r.fields[i]))
	return cluster.Batch
}

func (r *row) boolean(i int) bool {
	if r.fields[i] != "true" && r.fields[i] != "false" {
		r.fail(i, "is %s: want true or false", quote(r.fields[i]))
	}
	return r.fields[i] == "true"
}

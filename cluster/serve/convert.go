package serve

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// The way in: what the API calls a thing to what the core calls it. Each function reports what is wrong under the path
// of its field and then still returns something, so that all violations of a request are found at once; the result is
// good only if there are none. Fields that the server does not support have been reported before (supported.go).

const (
	defaultKillGrace = 5 * time.Second
	maxKillGrace     = 24 * time.Hour
	// reservedEnvironment begins the names of the variables that every task is given.
	reservedEnvironment = "SLUICE_"
)

// jobSpecFrom converts a spec. An empty pool stays empty; see resolvePool.
func jobSpecFrom(p *sluicev1.JobSpec, path string, v *violations) *cluster.JobSpec {
	if p == nil {
		v.Invalid(path, "is required")
		return &cluster.JobSpec{}
	}
	if n := proto.Size(p); n > maxSpecBytes {
		v.Invalid(path, "is %d bytes long: at most %d", n, maxSpecBytes)
	}
	checkName(p.Name, child(path, "name"), v)
	checkText(p.Owner, child(path, "owner"), maxOwner, v)
	if p.Pool != "" {
		checkPoolPath(p.Pool, child(path, "pool"), v)
	}
	instances := int64(1)
	if p.Instances != nil {
		instances = int64(*p.Instances)
		checkRange(instances, 1, cluster.MaxInstances, "tasks", child(path, "instances"), v)
	}
	checkRange(int64(p.Priority), 0, cluster.MaxPriority, "higher goes first", child(path, "priority"), v)
	maxFailures := p.GetRestart().GetMaxFailures()
	checkRange(int64(maxFailures), 0, cluster.MaxMaxFailures, "", child(path, "restart.max_failures"), v)
	job := &cluster.JobSpec{
		Name:        cluster.JobID(p.Name),
		Type:        jobTypeFrom(p.Type, child(path, "type"), v),
		Pool:        cluster.PoolPath(p.Pool),
		Owner:       p.Owner,
		Labels:      labelsFrom(p.Labels, child(path, "labels"), v),
		Priority:    p.Priority,
		Preemptible: true, // as batch jobs are
		Instances:   uint32(instances),
		MaxFailures: maxFailures,
		Constraint:  constraintFrom(p.Constraints, child(path, "constraints"), v),
		Task:        taskSpecFrom(p.Task, child(path, "task"), v),
	}
	if p.Preemptible != nil {
		job.Preemptible = *p.Preemptible
	}
	job.Task.KillGrace = durationFrom(p.KillGrace, defaultKillGrace, maxKillGrace, child(path, "kill_grace"), v)
	return job
}

func jobTypeFrom(t sluicev1.JobType, path string, v *violations) cluster.JobType {
	switch t {
	case sluicev1.JobType_JOB_TYPE_UNSPECIFIED, sluicev1.JobType_JOB_TYPE_BATCH:
	default:
		v.Unsupported(path, "is %v: this server runs JOB_TYPE_BATCH only so far", t)
	}
	return cluster.Batch
}

// labelsFrom returns the labels sorted by key, nil if there are none.
func labelsFrom(m map[string]string, path string, v *violations) []cluster.KeyValue {
	if len(m) > maxLabels {
		v.Invalid(path, "has %d entries: at most %d", len(m), maxLabels)
		return nil
	}
	return pairsFrom(m, func(k, value string) {
		if !isKey(k) {
			v.Invalid(entry(path, k), "has a bad key: %s", keyRule)
		}
		checkText(value, entry(path, k), maxLabelValue, v)
	})
}

// pairsFrom sorts a map by key and shows each entry to check, in that order.
func pairsFrom(m map[string]string, check func(k, v string)) []cluster.KeyValue {
	if len(m) == 0 {
		return nil
	}
	pairs := make([]cluster.KeyValue, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		check(k, m[k])
		pairs = append(pairs, cluster.KeyValue{Key: k, Value: m[k]})
	}
	return pairs
}

func durationFrom(d *durationpb.Duration, unset, most time.Duration, path string, v *violations) time.Duration {
	if d == nil {
		return unset
	}
	// AsDuration saturates, so that a duration beyond the range of time.Duration is out of this range too.
	if n := d.AsDuration(); d.CheckValid() == nil && n >= 0 && n <= most {
		return n
	}
	v.Invalid(path, "is %d s and %d ns: 0 s to %v", d.GetSeconds(), d.GetNanos(), most)
	return unset
}

func taskSpecFrom(p *sluicev1.TaskSpec, path string, v *violations) cluster.TaskSpec {
	if p == nil {
		v.Invalid(path, "is required: what each instance runs")
		return cluster.TaskSpec{}
	}
	task := cluster.TaskSpec{
		Resources: resourcesFrom(p.Resources, child(path, "resources"), v),
		GPU:       gpuFrom(p.Resources.GetGpu(), child(path, "resources.gpu"), v),
	}
	task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
	if p.LogLimitBytes != nil {
		checkRange(*p.LogLimitBytes, minLogLimit, maxLogLimit, "bytes", child(path, "log_limit_bytes"), v)
		task.LogLimitBytes = *p.LogLimitBytes
	}
	at := child(path, "processes")
	if len(p.Processes) == 0 {
		v.Invalid(at, "is required: one process with argv or shell")
		return task
	}
	for i := range p.Processes[1:] {
		v.Unsupported(item(at, i+1), "this server runs one process per task so far")
	}
	process, at := p.Processes[0], item(at, 0)
	one := cluster.Process{
		Env:     environmentFrom(process.GetEnvironment(), child(at, "environment"), v),
		WorkDir: process.GetWorkingDirectory(),
	}
	one.Command, one.Shell = commandFrom(process, at, v)
	switch at := child(at, "working_directory"); {
	case strings.IndexByte(one.WorkDir, 0) >= 0 || len(one.WorkDir) > maxArgument:
		v.Invalid(at, "is not a path: %s", quote(one.WorkDir))
	case one.WorkDir != "" && !filepath.IsAbs(one.WorkDir) && !filepath.IsLocal(one.WorkDir):
		v.Invalid(at, "is %s: an absolute path, or one inside the task's own folder", quote(one.WorkDir))
	}
	task.Processes = []cluster.Process{one}
	return task
}

func commandFrom(p *sluicev1.ProcessSpec, path string, v *violations) (argv []string, shell string) {
	switch c := p.GetCommand().(type) {
	case *sluicev1.ProcessSpec_Argv:
		at := child(path, "argv.args")
		args := c.Argv.GetArgs()
		if len(args) == 0 || args[0] == "" {
			v.Invalid(at, "is required: the program and its arguments")
		}
		for i, a := range args {
			checkArgument(a, item(at, i), v)
		}
		return slices.Clone(args), ""
	case *sluicev1.ProcessSpec_Shell:
		at := child(path, "shell")
		if strings.TrimSpace(c.Shell) == "" {
			v.Invalid(at, "is empty: a line for /bin/sh -c")
		}
		checkArgument(c.Shell, at, v)
		return nil, c.Shell
	default:
		v.Invalid(path, "needs a command: argv or shell")
		return nil, ""
	}
}

func checkArgument(a, path string, v *violations) {
	switch {
	case len(a) > maxArgument:
		v.Invalid(path, "is %d bytes long: at most %d", len(a), maxArgument)
	case strings.IndexByte(a, 0) >= 0:
		v.Invalid(path, "contains a NUL character, which no argument can")
	}
}

func environmentFrom(m map[string]string, path string, v *violations) []cluster.KeyValue {
	return pairsFrom(m, func(k, value string) {
		at := entry(path, k)
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			v.Invalid(at, "is not a name: not empty, without '=' and NUL")
		case strings.HasPrefix(k, reservedEnvironment):
			v.Invalid(at, "is reserved: names that begin with %s are set for every task", reservedEnvironment)
		case strings.Contains(value, "${"+reservedEnvironment):
			v.Unsupported(at, "this server does not replace variables in values yet")
		}
		checkArgument(value, at, v)
	})
}

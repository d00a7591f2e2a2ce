package trace

import (
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// kept is a job that is in memory until it is its turn. It takes a fifth of a Job's room: what many jobs have in common they share.
type kept struct {
	submit    time.Duration
	durations []time.Duration
	name      cluster.JobID
	instances uint32
	row       uint32 // of those that are jobs, where a file has to be sorted
	gang      *cluster.Gang
	labels    []cluster.KeyValue
	resources cluster.Resources
	rest      *cluster.JobSpec // without what is above
}

// job returns the job.
func (k *kept) job() *Job {
	j := &Job{Submit: k.submit, Spec: *k.rest, Durations: k.durations}
	s := &j.Spec
	s.Name, s.Instances, s.Gang, s.Labels, s.Task.Resources = k.name, k.instances, k.gang, k.labels, k.resources
	return j
}

// keeper keeps jobs. It holds the rest of the first job of each kind.
type keeper map[restOf]*cluster.JobSpec

// restOf is all that the rests of jobs without a constraint and without inputs differ in.
type restOf struct {
	jobType     cluster.JobType
	pool        cluster.PoolPath
	owner       string
	priority    int32
	preemptible bool
	gpus, milli int32
	models      string
}

// keep takes over a job.
func (k keeper) keep(j *Job) *kept {
	s := &j.Spec
	out := &kept{
		submit: j.Submit, durations: j.Durations, name: s.Name, instances: s.Instances, gang: s.Gang, labels: s.Labels,
		resources: s.Task.Resources, rest: s,
	}
	s.Name, s.Instances, s.Gang, s.Labels, s.Task.Resources = "", 0, nil, nil, cluster.Resources{}
	if s.Constraint != nil || s.Inputs != nil {
		return out
	}
	g := &s.Task.GPU
	of := restOf{s.Type, s.Pool, s.Owner, s.Priority, s.Preemptible, g.Count, g.Milli, strings.Join(g.Models, "|")}
	if first := k[of]; first != nil {
		out.rest = first
	} else {
		k[of] = s
	}
	return out
}

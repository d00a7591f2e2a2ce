package serve

import (
	"fmt"
	"maps"
	"slices"
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
	checkSize(p, path, v)
	checkName(p.Name, child(path, "name"), v)
	checkText(p.Owner, child(path, "owner"), maxOwner, v)
	if p.Pool != "" {
		checkPoolPath(p.Pool, child(path, "pool"), v)
	}
	instances := int64(1)
	switch {
	case p.Type == sluicev1.JobType_JOB_TYPE_DAEMON:
		if instances = 0; p.Instances != nil {
			v.Invalid(child(path, "instances"), "is %d: a daemon has one on every host that matches; leave it out", *p.Instances)
		}
	case p.Instances != nil:
		instances = int64(*p.Instances)
		checkRange(instances, 1, cluster.MaxInstances, "tasks", child(path, "instances"), v)
	}
	checkRange(int64(p.Priority), 0, cluster.MaxPriority, "higher goes first", child(path, "priority"), v)
	job := &cluster.JobSpec{
		Name:      cluster.JobID(p.Name),
		Type:      jobTypes.from(p.Type),
		Pool:      cluster.PoolPath(p.Pool),
		Owner:     p.Owner,
		Labels:    labelsFrom(p.Labels, child(path, "labels"), v),
		Priority:  p.Priority,
		Instances: uint32(instances),
		Task:      taskSpecFrom(p.Task, p.Gang != nil, child(path, "task"), v),
	}
	job.Secrets = secretsFrom(p.Secrets, child(path, "secrets"), v)
	job.Task.Secrets = len(job.Secrets) > 0
	if job.Preemptible = !job.Type.Service(); p.Preemptible != nil {
		job.Preemptible = *p.Preemptible
	}
	placesFrom(p, job, path, v)
	lifeFrom(p, job, path, v)
	boundsFrom(p, job, path, v)
	job.Overrides = overridesFrom(p, job, child(path, "overrides"), v)
	inputsFrom(p.Locality, job, child(path, "locality"), v)
	checkCoreLabels(job, child(path, "overrides"), v)
	checkRevocable(p, job, path, v)
	servesFrom(p, job, path, v)
	job.Task.KillGrace = durationFrom(p.KillGrace, defaultKillGrace, maxKillGrace, child(path, "kill_grace"), v)
	return job
}

// checkSize refuses a spec that would be too long for an answer.
func checkSize(spec proto.Message, path string, v *violations) {
	if n := proto.Size(spec); n > maxSpecBytes {
		v.Invalid(path, "is %d bytes long: at most %d", n, maxSpecBytes)
	}
}

// choice pairs the values of a domain type with those of an enum. The first pair is the default, where the enum says nothing.
type choice[D, P comparable] []struct {
	domain D
	api    P
}

func (c choice[D, P]) from(p P) D {
	for _, pair := range c {
		if pair.api == p {
			return pair.domain
		}
	}
	return c[0].domain // UNSPECIFIED; numbers without a name have been refused
}

func (c choice[D, P]) to(d D) P {
	for _, pair := range c {
		if pair.domain == d {
			return pair.api
		}
	}
	return c[0].api
}

// labelsFrom returns the labels sorted by key, nil if there are none.
func labelsFrom(m map[string]string, path string, v *violations) []cluster.KeyValue {
	if len(m) > maxLabels {
		v.Invalid(path, "has %d entries: at most %d", len(m), maxLabels)
		return nil
	}
	return pairsFrom(m, func(k, value string) {
		if !cluster.IsKey(k) {
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
	return durationOr(d, unset, 0, most, path, v)
}

// durationOr converts a duration from least to most; where there is none it is unset.
func durationOr(d *durationpb.Duration, unset, least, most time.Duration, path string, v *violations) time.Duration {
	if d == nil {
		return unset
	}
	n := d.AsDuration()
	is := n.String()
	if d.CheckValid() != nil {
		is = fmt.Sprintf("%d s and %d ns", d.GetSeconds(), d.GetNanos())
	} else if n >= least && n <= most {
		return n
	}
	v.Invalid(path, "is %s: %v to %v", is, least, most)
	return unset
}

package serve

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What holds where a job does not say how its instances wait after failures.
const (
	defaultBackoff    = time.Second
	defaultBackoffMax = 5 * time.Minute
	maxDependencies   = 1000
	defaultProgress   = 5 * time.Second // how often it is read
)

// lifeFrom adds to a job of a known type when it begins, what becomes of instances that end, and when it ends and goes.
func lifeFrom(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	restartFrom(p.Restart, job, child(path, "restart"), v)
	if len(p.DependsOn) > maxDependencies {
		v.Invalid(child(path, "depends_on"), "has %d entries: at most %d", len(p.DependsOn), maxDependencies)
	} else {
		for _, d := range p.DependsOn { // that the jobs exist is checked with all jobs of the request
			job.DependsOn = append(job.DependsOn, cluster.Dependency{Job: cluster.JobID(d.GetJob()), On: conditions.from(d.GetCondition())})
		}
	}
	if c := p.Controller; c != nil {
		job.Controller = true
		if job.Type.Service() {
			v.Invalid(child(path, "controller"), "is for batch jobs: a job of another type does not end by itself")
		}
		if job.APIAccess = c.ApiAccess; job.APIAccess {
			job.Task.Secrets = true // in which form the credential comes
		}
	}
	speculationFrom(p, job, child(path, "speculation"), v)
	if p.Progress != nil {
		at, every := child(path, "progress.interval"), p.Progress.Interval
		if isZero(every) {
			v.Invalid(at, "is 0: leave progress out where tasks report none")
		} else {
			job.Progress = durationOr(every, defaultProgress, 1, maxTime, at, v)
		}
	}
	switch job.Type {
	case cluster.Daemon:
		checkDaemon(p, job, path, v)
	case cluster.Stateful:
		checkBound(p, path, "its data is on its host", v)
	}
	job.TTL = positiveFrom(p.TtlAfterFinish, child(path, "ttl_after_finish"), v)
}

// speculationFrom adds whether tasks may have copies.
func speculationFrom(spec *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	p := spec.Speculation
	if p == nil {
		return
	}
	at := child(path, "max_copies_percent")
	if p.MaxCopiesPercent != nil {
		checkRange(int64(*p.MaxCopiesPercent), 1, 100, "percent of the instances", at, v)
	}
	if !p.Idempotent {
		if p.MaxCopiesPercent != nil {
			v.Invalid(at, "is set, and no copies are started: set idempotent too, if tasks may run twice")
		}
		return
	}
	at = child(path, "idempotent")
	switch {
	case job.Type != cluster.Batch:
		v.Invalid(at, "is for batch jobs: the instances of others do not end by themselves")
	case spec.Gang != nil:
		v.Invalid(at, "is not for gangs, whose tasks know each other: leave it or the gang out")
	case spec.Controller != nil:
		v.Invalid(at, "is not for jobs with a controller, which there is one of: leave one out")
	}
	job.Speculation = &cluster.Speculation{MaxPercent: p.GetMaxCopiesPercent()}
}

// checkDaemon refuses what makes no sense where every host that matches has one instance.
func checkDaemon(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	const one = "a daemon has one instance on every host that matches"
	checkBound(p, path, one, v)
	if len(p.Overrides) > 0 {
		v.Invalid(child(path, "overrides"), "are for instances of a number: %s", one)
	}
	if len(p.Spread) > 0 {
		v.Invalid(child(path, "spread"), "is for a number of instances: %s", one)
	}
	if len(job.Preferences) > 0 || job.Constraint.CountsTasks() {
		v.Invalid(child(path, "constraints"), "prefer hosts or count tasks: %s, whatever runs there", one)
	}
	if p.Limits != nil && p.Limits.MaxRunningInstances != nil {
		v.Invalid(child(path, "limits.max_running_instances"), "is set: %s", one)
	}
}

// checkBound refuses what instances that are bound to their hosts cannot do.
func checkBound(p *sluicev1.JobSpec, path, why string, v *violations) {
	if p.Gang != nil {
		v.Invalid(child(path, "gang"), "is for tasks that may run anywhere: %s", why)
	}
	if p.Revocable {
		v.Invalid(child(path, "revocable"), "is for tasks that may run anywhere: %s", why)
	}
	if p.GetPreemptible() {
		v.Invalid(child(path, "preemptible"), "is true: %s; leave it out", why)
	}
}

var conditions = choice[cluster.Condition, sluicev1.Dependency_Condition]{
	{cluster.OnSuccess, sluicev1.Dependency_SUCCEEDED},
	{cluster.OnFailure, sluicev1.Dependency_FAILED},
	{cluster.OnEnd, sluicev1.Dependency_ENDED},
}

func restartFrom(p *sluicev1.RestartPolicy, job *cluster.JobSpec, path string, v *violations) {
	if p.GetMaxFailures() > 0 && job.Type.Service() {
		v.Invalid(child(path, "max_failures"), "is %d: a job of this type runs again however often it fails; leave it out", p.GetMaxFailures())
	}
	job.MaxFailures = p.GetMaxFailures()
	checkRange(int64(job.MaxFailures), 0, cluster.MaxMaxFailures, "", child(path, "max_failures"), v)
	b := &job.Backoff
	b.Initial = durationFrom(p.GetBackoffInitial(), defaultBackoff, maxTime, child(path, "backoff_initial"), v)
	b.Max = durationFrom(p.GetBackoffMax(), max(b.Initial, defaultBackoffMax), maxTime, child(path, "backoff_max"), v)
	if b.Max < b.Initial {
		v.Invalid(child(path, "backoff_max"), "is %v: at least backoff_initial, which is %v", b.Max, b.Initial)
	}
}

// lifeTo is the reverse of lifeFrom.
func lifeTo(s *cluster.JobSpec, p *sluicev1.JobSpec) {
	if s.Progress != 0 {
		p.Progress = &sluicev1.ProgressPolicy{Interval: durationpb.New(s.Progress)}
	}
	if e := s.Speculation; e != nil {
		p.Speculation = &sluicev1.SpeculationPolicy{Idempotent: true}
		if e.MaxPercent > 0 {
			p.Speculation.MaxCopiesPercent = &e.MaxPercent
		}
	}
	p.Restart = &sluicev1.RestartPolicy{BackoffInitial: durationpb.New(s.Backoff.Initial), BackoffMax: durationpb.New(s.Backoff.Max)}
	if !s.Type.Service() {
		p.Restart.MaxFailures = proto.Uint32(s.MaxFailures)
	}
	for _, d := range s.DependsOn {
		p.DependsOn = append(p.DependsOn, &sluicev1.Dependency{Job: string(d.Job), Condition: conditions.to(d.On)})
	}
	p.TtlAfterFinish = durationTo(s.TTL)
	if s.Controller {
		p.Controller = &sluicev1.ControllerPolicy{ApiAccess: s.APIAccess}
	}
}

package serve

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// maxTime bounds durations that have no natural end.
const maxTime = 10 * 365 * 24 * time.Hour

// minLaunchTimeout is how long a gang has for its launch at least: one that had no time would be placed and given back without end.
const minLaunchTimeout = 100 * time.Millisecond

// boundsFrom adds to a job how it may be bounded, started and stopped: its gang, limits, preemption and estimate.
func boundsFrom(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	job.Groups = principalsFrom(p.Groups, child(path, "groups"), v)
	job.Estimate = positiveFrom(p.EstimatedRunTime, child(path, "estimated_run_time"), v)
	if g := p.Gang; g != nil {
		at := child(path, "gang")
		if job.Instances < 2 {
			v.Invalid(at, "needs at least 2 instances: there is 1")
		} else {
			checkRange(int64(g.Minimum), 2, int64(job.Instances), "tasks that start together", child(at, "minimum"), v)
		}
		job.Gang = &cluster.Gang{Minimum: g.Minimum, LaunchTimeout: durationOr(g.LaunchTimeout, 0, minLaunchTimeout, maxTime, child(at, "launch_timeout"), v)}
	}
	job.Revocable = p.Revocable
	limitsFrom(p.Limits, job, child(path, "limits"), v)
	if e := p.Preemption; e != nil {
		job.Preemption.Kill = e.Action == sluicev1.PreemptionPolicy_KILL
		job.Preemption.Grace = positiveFrom(e.Grace, child(path, "preemption.grace"), v)
		if e.OnPreempt != nil {
			job.Preemption.Command = argvFrom(e.OnPreempt, child(path, "preemption.on_preempt.args"), v)
		}
	}
}

func limitsFrom(p *sluicev1.JobLimits, job *cluster.JobSpec, path string, v *violations) {
	if p == nil {
		return
	}
	if n := p.MaxRunningInstances; n != nil {
		at := child(path, "max_running_instances")
		checkRange(int64(*n), 1, cluster.MaxInstances, "tasks", at, v)
		if job.Gang != nil && *n < job.Gang.Minimum {
			v.Invalid(at, "is %d: the %d tasks of the gang could never start", *n, job.Gang.Minimum)
		}
		job.Limits.MaxRunning = *n
	}
	if n := p.MaxPreemptedPerCycle; n != nil {
		checkRange(int64(*n), 1, cluster.MaxInstances, "tasks; preemptible: false spares all", child(path, "max_preempted_per_cycle"), v)
		job.Limits.MaxPreempted = *n
	}
	if n := p.MaxUnavailableInstances; n != nil {
		at := child(path, "max_unavailable_instances")
		checkRange(int64(*n), 1, cluster.MaxInstances, "instances", at, v)
		if !job.Type.Service() {
			v.Invalid(at, "is given for a batch job: only the instances of services are kept available")
		}
		job.Limits.MaxUnavailable = *n
	}
	job.Limits.MaxRunTime = positiveFrom(p.MaxRunTime, child(path, "max_run_time"), v)
	if t := p.Deadline; t != nil {
		if at := t.AsTime(); !t.IsValid() || at.Year() < 1970 || at.Year() > 2261 || at.Unix() <= 0 {
			v.Invalid(child(path, "deadline"), "is not a time after 1970 and before 2262")
		} else {
			job.Limits.Deadline = cluster.Time(at.UnixNano())
		}
	}
}

// positiveFrom converts a duration that is 0 where it is unset, and only there.
func positiveFrom(d *durationpb.Duration, path string, v *violations) time.Duration {
	if isZero(d) {
		v.Invalid(path, "is 0 s: more than that, or leave it out")
		return 0
	}
	return durationOr(d, 0, 1, maxTime, path, v)
}

// isZero reports whether a duration is given, and is 0.
func isZero(d *durationpb.Duration) bool { return d != nil && d.GetSeconds() == 0 && d.GetNanos() == 0 }

// boundsTo is the reverse of boundsFrom.
func boundsTo(s *cluster.JobSpec, p *sluicev1.JobSpec) {
	p.Groups, p.Revocable = s.Groups, s.Revocable
	p.EstimatedRunTime = durationTo(s.Estimate)
	if g := s.Gang; g != nil {
		p.Gang = &sluicev1.GangPolicy{Minimum: g.Minimum, LaunchTimeout: durationTo(g.LaunchTimeout)}
	}
	if l := s.Limits; l.MaxRunning > 0 || l.MaxPreempted > 0 || l.MaxUnavailable > 0 || l.MaxRunTime > 0 || l.Deadline != 0 {
		p.Limits = &sluicev1.JobLimits{MaxRunTime: durationTo(l.MaxRunTime)}
		if l.MaxRunning > 0 {
			p.Limits.MaxRunningInstances = &l.MaxRunning
		}
		if l.MaxPreempted > 0 {
			p.Limits.MaxPreemptedPerCycle = &l.MaxPreempted
		}
		if l.MaxUnavailable > 0 {
			p.Limits.MaxUnavailableInstances = &l.MaxUnavailable
		}
		if l.Deadline != 0 {
			p.Limits.Deadline = timestamppb.New(l.Deadline.Go())
		}
	}
	if e := s.Preemption; e.Kill || e.Grace > 0 || len(e.Command) > 0 {
		p.Preemption = &sluicev1.PreemptionPolicy{Action: sluicev1.PreemptionPolicy_REQUEUE, Grace: durationTo(e.Grace)}
		if e.Kill {
			p.Preemption.Action = sluicev1.PreemptionPolicy_KILL
		}
		if len(e.Command) > 0 {
			p.Preemption.OnPreempt = &sluicev1.Argv{Args: e.Command}
		}
	}
}

// durationTo returns nil for 0, which means unset.
func durationTo(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// checkRevocable refuses what revocable tasks cannot be: only of CPU and memory it is measured what others leave unused.
func checkRevocable(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	if !job.Revocable {
		return
	}
	at := child(path, "revocable")
	if job.Type != cluster.Batch && job.Type != cluster.Stateless {
		v.Invalid(at, "is set: %v tasks may not be stopped at any time", job.Type)
	}
	if p.Preemptible != nil && !*p.Preemptible {
		v.Invalid(at, "is set, and preemptible is false: revocable tasks go as soon as others use what is theirs")
	}
	check := func(task *cluster.TaskSpec, at string) {
		rest := task.Resources
		rest.Fixed[cluster.CPU], rest.Fixed[cluster.Memory] = 0, 0
		if !rest.IsZero() {
			v.Invalid(at, "asks for %v: a revocable task may ask for CPU, memory and ports only, since of nothing else is measured what others leave unused", rest)
		}
	}
	check(&job.Task, child(path, "task.resources"))
	for i := range job.Overrides {
		if o := &job.Overrides[i]; o.Task != nil && !o.Task.Resources.IsZero() {
			check(o.Task, child(item(child(path, "overrides"), i), "task.resources"))
		}
	}
}

package serve

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Bounds of update policies and of what a job offers to others.
const (
	maxUpdateTime = 24 * time.Hour
	maxAttempts   = 100
	maxEndpoints  = 32
)

// servesFrom adds to a job how it changes and how others find it.
func servesFrom(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	job.Update = updatePolicyFrom(p.Update, job, child(path, "update"), v)
	job.Discovery = discoveryFrom(p.Discovery, job, child(path, "discovery"), v)
}

func updatePolicyFrom(p *sluicev1.UpdatePolicy, job *cluster.JobSpec, path string, v *violations) *cluster.UpdatePolicy {
	if p == nil {
		return nil
	}
	u := &cluster.UpdatePolicy{
		StartFirst: p.Order == sluicev1.UpdatePolicy_START_FIRST, InPlace: p.InPlace, Canaries: p.Canaries, MaxFailed: p.MaxFailedInstances,
		Rollback: p.RollbackOnFailure, StartPaused: p.StartPaused,
		MinHealthy: durationFrom(p.MinHealthyTime, 0, maxUpdateTime, child(path, "min_healthy_time"), v),
		Deadline:   positiveFrom(p.HealthyDeadline, child(path, "healthy_deadline"), v),
		Unplaced:   positiveFrom(p.PlacementDeadline, child(path, "placement_deadline"), v),
	}
	switch b := p.Batch.(type) {
	case *sluicev1.UpdatePolicy_BatchSize:
		checkRange(int64(b.BatchSize), 1, cluster.MaxInstances, "instances", child(path, "batch_size"), v)
		u.BatchSize = b.BatchSize
	case *sluicev1.UpdatePolicy_BatchPercent:
		checkRange(int64(b.BatchPercent), 1, 100, "of the instances", child(path, "batch_percent"), v)
		u.BatchPercent = b.BatchPercent
	}
	if p.MaxAttempts != nil {
		checkRange(int64(*p.MaxAttempts), 1, maxAttempts, "runs of an instance", child(path, "max_attempts"), v)
		u.MaxAttempts = *p.MaxAttempts
	}
	checkRange(int64(p.Canaries), 0, cluster.MaxInstances, "instances", child(path, "canaries"), v)
	checkRange(int64(p.MaxFailedInstances), 0, cluster.MaxInstances, "instances", child(path, "max_failed_instances"), v)
	if u.StartFirst && job.Type != cluster.Stateless {
		v.Invalid(child(path, "order"), "is START_FIRST: only stateless jobs can run more instances for a while")
	}
	if most := job.Limits.MaxRunning; u.StartFirst && most > 0 && most <= job.Instances {
		v.Invalid(child(path, "order"), "is START_FIRST: limits.max_running_instances, which is %d, has to be above instances, which is %d", most, job.Instances)
	}
	if u.MinHealthy >= u.HealthyDeadline() {
		v.Invalid(child(path, "min_healthy_time"), "is %v: less than healthy_deadline, which is %v", u.MinHealthy, u.HealthyDeadline())
	}
	return u
}

func discoveryFrom(p *sluicev1.DiscoveryPolicy, job *cluster.JobSpec, path string, v *violations) *cluster.Discovery {
	if p == nil {
		return nil
	}
	d := &cluster.Discovery{Delay: durationFrom(p.DrainDelay, 0, maxKillGrace, child(path, "drain_delay"), v)}
	at := child(path, "endpoints")
	if n := len(p.Endpoints); n == 0 || n > maxEndpoints {
		v.Invalid(at, "has %d entries: 1 to %d", n, maxEndpoints)
		return d
	}
	seen := map[string]bool{}
	for i, e := range p.Endpoints {
		at := item(at, i)
		switch name := e.GetName(); {
		case !isName(name):
			v.Invalid(child(at, "name"), "is %s: %s", quote(name), nameRule)
		case seen[name]:
			v.Invalid(child(at, "name"), "is %s, as that of another endpoint: names are unique", quote(name))
		}
		seen[e.GetName()] = true
		checkText(e.GetProtocol(), child(at, "protocol"), maxKeyLength, v)
		port := portRefFrom(e.GetPort(), child(at, "port"), v)
		if !job.Task.Ports.Refers(port) {
			v.Invalid(child(at, "port"), "is not among the ports that the task asks for")
		}
		d.Endpoints = append(d.Endpoints, cluster.Endpoint{Name: e.GetName(), Port: port, Protocol: e.GetProtocol()})
	}
	return d
}

// servesTo is the reverse of servesFrom.
func servesTo(s *cluster.JobSpec, p *sluicev1.JobSpec) {
	if u := s.Update; u != nil {
		p.Update = &sluicev1.UpdatePolicy{
			Order: sluicev1.UpdatePolicy_STOP_FIRST, InPlace: u.InPlace, Canaries: u.Canaries, MaxFailedInstances: u.MaxFailed,
			RollbackOnFailure: u.Rollback, StartPaused: u.StartPaused,
			MinHealthyTime: durationTo(u.MinHealthy), HealthyDeadline: durationTo(u.Deadline), PlacementDeadline: durationTo(u.Unplaced),
		}
		if u.StartFirst {
			p.Update.Order = sluicev1.UpdatePolicy_START_FIRST
		}
		switch {
		case u.BatchSize > 0:
			p.Update.Batch = &sluicev1.UpdatePolicy_BatchSize{BatchSize: u.BatchSize}
		case u.BatchPercent > 0:
			p.Update.Batch = &sluicev1.UpdatePolicy_BatchPercent{BatchPercent: u.BatchPercent}
		}
		if u.MaxAttempts > 0 {
			p.Update.MaxAttempts = &u.MaxAttempts
		}
	}
	if d := s.Discovery; d != nil {
		p.Discovery = &sluicev1.DiscoveryPolicy{}
		if d.Delay > 0 {
			p.Discovery.DrainDelay = durationpb.New(d.Delay)
		}
		for _, e := range d.Endpoints {
			p.Discovery.Endpoints = append(p.Discovery.Endpoints, &sluicev1.DiscoveryEndpoint{Name: e.Name, Port: portRefTo(e.Port), Protocol: e.Protocol})
		}
	}
}

var updateStates = map[cluster.UpdateState]sluicev1.UpdateState{
	cluster.UpdateInitialized: sluicev1.UpdateState_UPDATE_STATE_INITIALIZED,
	cluster.RollingForward:    sluicev1.UpdateState_UPDATE_STATE_ROLLING_FORWARD,
	cluster.RollingBackward:   sluicev1.UpdateState_UPDATE_STATE_ROLLING_BACKWARD,
	cluster.UpdatePaused:      sluicev1.UpdateState_UPDATE_STATE_PAUSED,
	cluster.UpdateSucceeded:   sluicev1.UpdateState_UPDATE_STATE_SUCCEEDED,
	cluster.UpdateFailed:      sluicev1.UpdateState_UPDATE_STATE_FAILED,
	cluster.RolledBack:        sluicev1.UpdateState_UPDATE_STATE_ROLLED_BACK,
	cluster.UpdateAborted:     sluicev1.UpdateState_UPDATE_STATE_ABORTED,
}

func updateTo(u *cluster.Update) *sluicev1.JobUpdate {
	if u == nil {
		return nil
	}
	return &sluicev1.JobUpdate{
		FromVersion: u.From, ToVersion: u.To, State: updateStates[u.State],
		InstancesTotal: u.Total, InstancesDone: min(u.Good, u.Total), InstancesFailed: uint32(len(u.Failed)),
		AwaitsPromotion: rules.AwaitsPromotion(u), Reason: string(u.Reason), Message: u.Message,
		CreateTime: timeTo(u.Created), EndTime: timeTo(u.Ended),
	}
}

package serve

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// The way out: what the core calls a thing to what the API calls it. What comes out of a spec goes in again as the
// same spec.

func timeTo(t cluster.Time) *timestamppb.Timestamp {
	if t == 0 {
		return nil
	}
	return timestamppb.New(t.Go())
}

// pairsTo makes a map of pairs with different keys.
func pairsTo(pairs []cluster.KeyValue) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.Key] = p.Value
	}
	return m
}

func attributesTo(pairs []cluster.KeyValue) []*sluicev1.Attribute {
	attributes := make([]*sluicev1.Attribute, len(pairs))
	for i, p := range pairs {
		attributes[i] = &sluicev1.Attribute{Key: p.Key, Value: p.Value}
	}
	return attributes
}

var jobTypes = choice[cluster.JobType, sluicev1.JobType]{
	{cluster.Batch, sluicev1.JobType_JOB_TYPE_BATCH},
	{cluster.Stateless, sluicev1.JobType_JOB_TYPE_STATELESS},
	{cluster.Stateful, sluicev1.JobType_JOB_TYPE_STATEFUL},
	{cluster.Daemon, sluicev1.JobType_JOB_TYPE_DAEMON},
}

var jobStates = map[cluster.JobState]sluicev1.JobState{
	cluster.JobInitialized: sluicev1.JobState_JOB_STATE_INITIALIZED,
	cluster.JobPending:     sluicev1.JobState_JOB_STATE_PENDING,
	cluster.JobRunning:     sluicev1.JobState_JOB_STATE_RUNNING,
	cluster.JobKilling:     sluicev1.JobState_JOB_STATE_KILLING,
	cluster.JobSucceeded:   sluicev1.JobState_JOB_STATE_SUCCEEDED,
	cluster.JobFailed:      sluicev1.JobState_JOB_STATE_FAILED,
	cluster.JobKilled:      sluicev1.JobState_JOB_STATE_KILLED,
}

var taskStates = [cluster.NumTaskStates]sluicev1.TaskState{
	cluster.TaskInitialized: sluicev1.TaskState_TASK_STATE_INITIALIZED,
	cluster.TaskPending:     sluicev1.TaskState_TASK_STATE_PENDING,
	cluster.TaskReserved:    sluicev1.TaskState_TASK_STATE_RESERVED,
	cluster.TaskPlaced:      sluicev1.TaskState_TASK_STATE_PLACED,
	cluster.TaskLaunching:   sluicev1.TaskState_TASK_STATE_LAUNCHING,
	cluster.TaskStarting:    sluicev1.TaskState_TASK_STATE_STARTING,
	cluster.TaskRunning:     sluicev1.TaskState_TASK_STATE_RUNNING,
	cluster.TaskPreempting:  sluicev1.TaskState_TASK_STATE_PREEMPTING,
	cluster.TaskKilling:     sluicev1.TaskState_TASK_STATE_KILLING,
	cluster.TaskSucceeded:   sluicev1.TaskState_TASK_STATE_SUCCEEDED,
	cluster.TaskFailed:      sluicev1.TaskState_TASK_STATE_FAILED,
	cluster.TaskLost:        sluicev1.TaskState_TASK_STATE_LOST,
	cluster.TaskKilled:      sluicev1.TaskState_TASK_STATE_KILLED,
}

func jobTo(j *cluster.Job) *sluicev1.Job {
	p := &sluicev1.Job{
		Name:       string(j.Spec.Name),
		Uid:        uint32(j.UID),
		Spec:       jobSpecTo(j.Spec),
		State:      jobStates[j.State()],
		Version:    j.Version,
		Revision:   j.Revision,
		CreateTime: timeTo(j.Submitted),
		StartTime:  timeTo(j.Started),
		EndTime:    timeTo(j.Finished),
		Reason:     string(j.StopReason),
		Message:    j.StopMessage,
		ReadyCount: j.Ready,
	}
	if j.State() == cluster.JobInitialized {
		p.Reason = waitingForJobs
	}
	p.Update = updateTo(j.Update)
	for state, n := range j.Counts {
		if n > 0 {
			p.TaskCounts = append(p.TaskCounts, &sluicev1.TaskStateCount{State: taskStates[state], Count: n})
		}
	}
	return p
}

func jobSpecTo(s *cluster.JobSpec) *sluicev1.JobSpec {
	p := &sluicev1.JobSpec{
		Name:        string(s.Name),
		Type:        jobTypes.to(s.Type),
		Pool:        string(s.Pool),
		Owner:       s.Owner,
		Labels:      pairsTo(s.Labels),
		Instances:   &s.Instances,
		Task:        taskSpecTo(&s.Task),
		Overrides:   overridesTo(s.Overrides),
		Priority:    s.Priority,
		Preemptible: &s.Preemptible,
		Constraints: constraintsTo(s),
		Spread:      spreadTo(s.Spread),
		KillGrace:   durationpb.New(s.Task.KillGrace),
		Secrets:     secretsTo(s.Secrets),
	}
	if s.Type == cluster.Daemon {
		p.Instances = nil
	}
	boundsTo(s, p)
	lifeTo(s, p)
	inputsTo(s, p)
	servesTo(s, p)
	return p
}

func taskTo(t *cluster.Task, j *cluster.Job) *sluicev1.Task {
	p := &sluicev1.Task{
		Job:       string(j.Spec.Name),
		JobUid:    uint32(j.UID),
		Instance:  t.Key.Instance(),
		Run:       t.Run,
		State:     taskStates[t.State],
		Reason:    string(t.Reason),
		Message:   t.Message,
		Host:      string(t.Host),
		Failures:  t.Failures,
		QueueTime: timeTo(t.Queued),
		StateTime: timeTo(t.Since),
		StartTime: timeTo(t.Started),
		EndTime:   timeTo(t.Finished),
		Ports:     numbersTo(t.Ports),
		NotBefore: timeTo(t.NotBefore),
		HomeHost:  string(t.Home),
	}
	if t.State.Bound() {
		p.Allocated = vectorTo(j.TaskFor(t).Resources)
		p.Allocated.Ports = int64(len(t.Ports))
		p.Health = healths[t.Health]
		p.JobVersion = t.Version
	}
	if t.Run > 0 && t.Finished != 0 {
		p.Result = &sluicev1.RunResult{Signal: t.Signal}
		if t.ExitCode >= 0 {
			p.Result.ExitCode = &t.ExitCode
		}
	}
	return p
}

func copyTo(t *cluster.Task) *sluicev1.TaskCopy {
	return &sluicev1.TaskCopy{
		Run: t.Run, State: taskStates[t.State], Host: string(t.Host), QueueTime: timeTo(t.Queued), StartTime: timeTo(t.Started),
	}
}

func poolTo(p *cluster.Pool, leaf bool) *sluicev1.Pool {
	return &sluicev1.Pool{
		Spec:       poolSpecTo(p),
		State:      sluicev1.PoolState_POOL_STATE_OPEN,
		Version:    p.Version,
		Leaf:       leaf,
		CreateTime: timeTo(p.Created),
	}
}

func hostTo(h *cluster.Host) *sluicev1.Host {
	p := &sluicev1.Host{
		Name:       string(h.ID),
		Shard:      string(h.ID.Shard()),
		Rack:       h.Rack,
		Zone:       h.Zone,
		Attributes: attributesTo(h.Attributes),
		Capacity:   capacityTo(h.Machine),
		Allocated:  vectorTo(h.Allocated),
		Slack:      lentTo(h.Slack),
		Lent:       lentTo(h.Lent),
		State:      hostStateTo(h),
		Notes:      h.Notes,
		Tasks:      uint32(len(h.Tasks)),
		StateTime:  timeTo(h.Since),
		Reason:     h.Reason,
	}
	if h.Misfires > 0 {
		note := fmt.Sprintf("of its last launches in a row %d came to nothing, or failed at once; other hosts are preferred from the second on", h.Misfires)
		p.Notes = append(slices.Clone(p.Notes), note)
	}
	p.Allocated.Ports = int64(len(h.PortsTaken))
	if h.Draining {
		p.Drain = &sluicev1.Drain{Reason: h.DrainReason, Move: h.Clearing, Deadline: timeTo(h.ClearBy)}
		if !h.Unreachable {
			p.Reason = h.DrainReason
		}
	}
	return p
}

// lentTo returns nil where nothing is lent.
func lentTo(r cluster.Resources) *sluicev1.ResourceVector {
	if r.IsZero() {
		return nil
	}
	return vectorTo(r)
}

func capacityTo(m *cluster.Machine) *sluicev1.Capacity {
	p := &sluicev1.Capacity{Total: vectorTo(m.Capacity.Add(m.Revocable))}
	if !m.Revocable.IsZero() {
		p.Revocable = vectorTo(m.Revocable)
	}
	for _, g := range m.GPUs {
		p.Gpus = append(p.Gpus, &sluicev1.GpuDevice{Model: g.Model})
	}
	for _, r := range m.Ports {
		p.PortRanges = append(p.PortRanges, &sluicev1.PortRange{First: uint32(r.First), Last: uint32(r.Last)})
	}
	p.Total.Ports = int64(cluster.CountPorts(m.Ports))
	return p
}

func hostStateTo(h *cluster.Host) sluicev1.HostState {
	switch h.State() {
	case cluster.HostUnreachable:
		return sluicev1.HostState_HOST_STATE_UNREACHABLE
	case cluster.HostDraining:
		if len(h.Tasks) == 0 {
			return sluicev1.HostState_HOST_STATE_DRAINED
		}
		return sluicev1.HostState_HOST_STATE_DRAINING
	default:
		return sluicev1.HostState_HOST_STATE_UP
	}
}

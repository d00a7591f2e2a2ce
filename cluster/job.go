package cluster

import (
	"time"
)

// JobType says what a job's desired state is.
type JobType uint8

// The types of jobs.
const (
	// Batch: every instance runs until it succeeds.
	Batch JobType = iota
	// Stateless: instances run for ever and are interchangeable.
	Stateless
	// Stateful: instances run for ever, each bound to its host and volume.
	Stateful
	// Daemon: one instance on every matching host.
	Daemon
)

var jobTypeNames = [...]string{"BATCH", "STATELESS", "STATEFUL", "DAEMON"}

// Service reports whether jobs of the type run until they are stopped: an instance that ends runs again.
func (t JobType) Service() bool { return t != Batch }

// String returns the type's name.
func (t JobType) String() string { return jobTypeNames[t] }

// Limits of a job that hold everywhere.
const (
	MaxInstances   = 100_000
	MaxPriority    = 1000
	MaxMaxFailures = 100
)

// JobSpec is what a user asked for. Immutable once submitted; an update replaces it whole.
type JobSpec struct {
	Name        JobID
	Type        JobType
	Pool        PoolPath
	Owner       string
	Groups      []string   `cbor:",omitempty"` // of the owner, sorted
	Labels      []KeyValue `cbor:",omitempty"`
	Priority    int32      // 0..MaxPriority, higher goes first
	Preemptible bool       // running tasks may be stopped for others; the others only ever use the pool's reservation
	Revocable   bool       `cbor:",omitempty"` // runs on what is allocated and not used, and goes first when usage rises
	Gang        *Gang      `cbor:",omitempty"` // nil: every task is started on its own
	Limits      JobLimits
	Preemption  PreemptionPolicy
	Controller  bool             `cbor:",omitempty"` // instance 0 is the controller: the job ends as it ends
	APIAccess   bool             `cbor:",omitempty"` // the controller gets a credential for its own job
	Estimate    time.Duration    `cbor:",omitempty"` // of one task's run time, 0 where the user does not know
	Instances   uint32           // 1..MaxInstances; 0 for a daemon, which has one for each host
	MaxFailures uint32           // failed runs of one instance that are retried, 0..MaxMaxFailures; 0 for services, which always are
	Backoff     Backoff          `cbor:",omitzero"`  // before they are
	DependsOn   []Dependency     `cbor:",omitempty"` // all have to be true before any task may run
	Speculation *Speculation     `cbor:",omitempty"` // nil: no task runs twice at once
	Progress    time.Duration    `cbor:",omitempty"` // how often is read how far a task says it is; 0: it does not say
	TTL         time.Duration    `cbor:",omitempty"` // how long the job is kept after its end; 0: the server's setting
	Update      *UpdatePolicy    `cbor:",omitempty"` // nil: one instance at a time
	Discovery   *Discovery       `cbor:",omitempty"` // nil: others are not told where the instances are
	Constraint  *Constraint      `cbor:",omitempty"` // that a place has to meet
	Preferences []SoftConstraint `cbor:",omitempty"` // that it should
	Spread      []Spread         `cbor:",omitempty"` // how the tasks are to be kept apart; at most 32
	Inputs      []Input          `cbor:",omitempty"` // data that the tasks read, where it matters where they run
	HostWait    *time.Duration   `cbor:",omitempty"` // how long only hosts with the data will do; nil: as the cost model has it
	RackWait    *time.Duration   `cbor:",omitempty"` // how long after that only racks with it will do; the same
	Secrets     []Secret         `cbor:",omitempty"` // names and paths are unique
	Task        TaskSpec
	Overrides   []InstanceOverride `cbor:",omitempty"` // of Task; where several cover an instance, later ones win
}

// Gang is a core of tasks that start together or not at all.
type Gang struct {
	Minimum       uint32        // the core is the instances below it; 2..Instances
	LaunchTimeout time.Duration // from the first launch until all of the core run, else all is given back; 0: rules.DefaultGangTimeout
}

// JobLimits bounds a job. Zero values are no limit.
type JobLimits struct {
	MaxRunning     uint32        `cbor:",omitempty"` // tasks bound at once
	MaxPreempted   uint32        `cbor:",omitempty"` // tasks that one cycle may ask to leave for others
	MaxUnavailable uint32        `cbor:",omitempty"` // instances of a service that anything voluntary may make unavailable at once
	MaxRunTime     time.Duration `cbor:",omitempty"` // a run that takes longer is ended and has failed
	Deadline       Time          `cbor:",omitempty"` // the job has failed if it has not finished by then
}

// PreemptionPolicy says how a task leaves for another.
type PreemptionPolicy struct {
	Kill    bool          `cbor:",omitempty"` // it ends as killed; else it waits again at the head of its priority
	Grace   time.Duration `cbor:",omitempty"` // between asking and forcing; 0: Task.KillGrace
	Command []string      `cbor:",omitempty"` // argv, run beside the task when the grace begins
}

// PreemptionGrace returns how long a task that is asked to leave has until it is forced.
func (s *JobSpec) PreemptionGrace() time.Duration {
	if s.Preemption.Grace > 0 {
		return s.Preemption.Grace
	}
	return s.Task.KillGrace
}

// Backoff is how long an instance waits after a failure before it runs again: Initial after the first, twice as long after
// each further one, at most Max. The zero value is no wait.
type Backoff struct{ Initial, Max time.Duration }

// After returns the wait after so many failures in succession.
func (b Backoff) After(failures uint32) time.Duration {
	wait := b.Initial
	for range min(failures, 64) - min(failures, 1) {
		if wait >= b.Max/2 {
			return b.Max
		}
		wait *= 2
	}
	return min(wait, b.Max)
}

// Wants reports whether the job is to have an instance of that number. A daemon has any that some host needs.
func (s *JobSpec) Wants(instance uint32) bool { return s.Type == Daemon || instance < s.Instances }

// Core reports whether the instance is one of those that start together.
func (s *JobSpec) Core(instance uint32) bool { return s.Gang != nil && instance < s.Gang.Minimum }

// Input is data that some instances of a job read, with the places that hold it.
type Input struct {
	Name        string
	Bytes       int64
	Hosts       []HostID `cbor:",omitempty"` // hosts with a replica
	Racks       []string `cbor:",omitempty"` // racks with a replica on some host
	Zones       []string `cbor:",omitempty"` // zones with a replica that all their hosts are alike near to
	First, Last uint32   // the instances that read it, both included
}

// JobState is derived from the states of a job's tasks and from its goal.
type JobState uint8

// The states of a job.
const (
	JobInitialized JobState = iota // waits for other jobs
	JobPending                     // no task has started
	JobRunning
	JobKilling // stop was asked for, and some task has not ended
	JobSucceeded
	JobFailed
	JobKilled
)

var jobStateNames = [...]string{"INITIALIZED", "PENDING", "RUNNING", "KILLING", "SUCCEEDED", "FAILED", "KILLED"}

// String returns the state's name.
func (s JobState) String() string { return jobStateNames[s] }

// Terminal reports whether nothing more will happen to the job by itself.
func (s JobState) Terminal() bool { return s >= JobSucceeded }

// Job is a submitted job. Immutable; State replaces it.
type Job struct {
	UID            JobUID
	Spec           *JobSpec
	Version        uint64 // 1 when submitted, one more with every update
	IdempotencyKey string // only in checkpoints from before there were receipts
	Submitted      Time
	Started        Time   // when the first task was placed
	Finished       Time   // when the state became terminal; 0 before
	Stopping       bool   // the goal is KILLED
	StopReason     Reason `cbor:",omitempty"` // why
	StopMessage    string `cbor:",omitempty"` // the same for people, where there is more to say
	Waiting        bool   `cbor:",omitempty"` // for other jobs: no task may run yet
	// Head is the state of instance 0, where that is the controller.
	Head TaskState `cbor:",omitempty"`

	// LastRun is the highest number of a run of an instance that is gone. Instances that are added count on from it, so that
	// no id of a run is used twice.
	LastRun uint32 `cbor:",omitempty"`
	// Forgotten is up to what number runs may have been given out that nobody remembers, since the cluster was restored from a
	// snapshot, or goes on from an earlier copy of its store; 0: none. See Restored.Forget.
	Forgotten   uint32    `cbor:",omitempty"`
	Changed     Time      `cbor:",omitempty"` // when Spec became the job's; 0: when it was submitted
	Description string    `cbor:",omitempty"` // of the update that brought Spec
	UpdateKey   string    `cbor:",omitempty"` // no longer used: there are receipts
	Past        []Version `cbor:",omitempty"` // earlier specs, oldest first; see KeptVersions
	Update      *Update   `cbor:",omitempty"` // the current or last one, nil if there was none
	Surge       uint32    `cbor:",omitempty"` // instances that an update runs beyond Spec.Instances
	Ready       uint32    `cbor:",omitempty"` // tasks that are ready
	Misfires    uint32    `cbor:",omitempty"` // how many launches of the present spec counted against hosts since one began

	// Revision grows with every change of the job or of one of its tasks, so that watchers can tell old from new.
	Revision uint64
	// Counts holds the number of tasks by TaskState.
	Counts [NumTaskStates]uint32
}

// tasks returns how many tasks the job has, those that are gone as soon as their runs have ended included.
func (j *Job) tasks() (n uint32) {
	for _, count := range j.Counts {
		n += count
	}
	return n
}

// OnHosts returns how many tasks of the job are bound to hosts, those that leave included.
func (j *Job) OnHosts() (n int64) {
	for s, count := range j.Counts {
		if TaskState(s).Bound() {
			n += int64(count)
		}
	}
	return n
}

// MayRun reports whether n more tasks of the job may be bound beside those on hosts: its present spec bounds how many.
func (j *Job) MayRun(n int64) bool {
	most := int64(j.Spec.Limits.MaxRunning)
	return most == 0 || j.OnHosts()+n <= most
}

// NextRun returns the number of the next run of a task of the job.
func (j *Job) NextRun(t *Task) uint32 { return max(t.Run, j.Forgotten) + 1 }

// State derives the job's state, in the order: all ended and it has a controller, whose state it is; all succeeded, of a job
// that is no service; all ended and one was killed, or a stop was asked for; all ended; a stop in progress; waiting for other
// jobs; something has started; pending.
func (j *Job) State() JobState {
	var ended, n uint32 // n includes instances that are gone as soon as their runs have ended
	for s := range NumTaskStates {
		n += j.Counts[s]
		if s.Terminal() {
			ended += j.Counts[s]
		}
	}
	// A service may have no instance for a while, and a daemon none but such as were stopped: hosts may join.
	all := ended == n && (j.Stopping || n > 0 && j.Spec.Type != Daemon)
	switch {
	case all && j.Spec.Controller && j.Head == TaskSucceeded:
		return JobSucceeded
	case all && j.StopReason == ReasonController && j.Head != TaskKilled:
		return JobFailed
	case all && j.Counts[TaskSucceeded] == n && !j.Spec.Type.Service():
		return JobSucceeded
	case all && j.StopReason != ReasonDeadline && (j.Counts[TaskKilled] > 0 || j.Stopping):
		return JobKilled
	case all:
		return JobFailed
	case j.Stopping:
		return JobKilling
	case j.Waiting:
		return JobInitialized
	case j.Started != 0:
		return JobRunning
	default:
		return JobPending
	}
}

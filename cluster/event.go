package cluster

// Event is a fact that changes the State. The concrete types below are the only ones; EventKinds numbers them for
// storage. Events and everything they point to are immutable once made.
type Event interface{ isEvent() }

// Record is an event with its place in history.
type Record struct {
	Seq   uint64 // 1, 2, 3, …
	At    Time   // when it was decided
	Event Event
}

// The events, by what they are about.
type (
	// ClusterCreated starts a history. ID is random, so that host managers can tell one cluster's tasks from another's.
	ClusterCreated struct{ ID string }

	// PoolPut creates a pool or replaces its settings; State fills in Version and Created.
	PoolPut struct{ Pool Pool }
	// PoolDeleted removes a pool without children and jobs.
	PoolDeleted struct{ Path PoolPath }
	// QueueMappingSet replaces the rules that find the pools of jobs that name none.
	QueueMappingSet struct{ Rules []QueueRule }
	// CostModelSet binds a cost model at run time. A binding of the whole cluster sets the shadow as well.
	CostModelSet struct {
		Binding     CostBinding
		Shadow      string `cbor:",omitempty"`
		ShadowEvery uint32 `cbor:",omitempty"`
	}

	// JobsSubmitted adds jobs, all or none, with all their tasks PENDING, or INITIALIZED where they wait for other jobs.
	JobsSubmitted struct{ Jobs []NewJob }
	// JobUpdated replaces the spec of a job. Instances that it adds become PENDING tasks. Those that it takes away, which
	// are the highest, end, and their records go.
	//
	// Tasks that run the same under both specs follow at once, the others by Update, in which State fills in To, Created and
	// Total. Without one, they stay with the spec that they have, or an update that is under way brings them on.
	JobUpdated struct {
		Job         JobUID
		Spec        *JobSpec
		Update      *Update `cbor:",omitempty"`
		Description string  `cbor:",omitempty"`
		Key         string  `cbor:",omitempty"` // no longer used: there are receipts
	}
	// UpdateAdvanced replaces the record of a job's update. With Begins, it begins a restart of instances: From and To are
	// the present version, and State fills in Created and Total.
	UpdateAdvanced struct {
		Job    JobUID
		Update Update
		Surge  uint32 // instances to run beyond those wanted
		Begins bool   `cbor:",omitempty"`
	}
	// TaskUpdated brings a task to a version of its job's spec: at once where nothing runs, or InPlace; else its run ends,
	// and the next one has it. With Later the run that there is goes on, or to the end that it was told of; room that it was to move to
	// is held no more.
	TaskUpdated struct {
		Task    TaskKey
		Version uint64
		InPlace bool `cbor:",omitempty"`
		Revive  bool `cbor:",omitempty"` // a task that has ended waits again
		Again   bool `cbor:",omitempty"` // since its run of this version failed, which counts
		Later   bool `cbor:",omitempty"`
		Reason  Reason
	}
	// JobStopping sets the goal of a job to KILLED. Waiting tasks become KILLED at once and bound ones KILLING.
	JobStopping struct {
		Job    JobUID
		Reason Reason `cbor:",omitempty"` // of its tasks' ends; none: JOB_STOPPED
		// Message says more, for people.
		Message string `cbor:",omitempty"`
	}
	// JobReleased lets the tasks of a job run that waited for other jobs: they become PENDING.
	JobReleased struct{ Job JobUID }
	// JobDeleted forgets a job whose tasks have all ended.
	JobDeleted struct{ Job JobUID }

	// Placed decides where the next run of a PENDING task runs. It is durable before anything is launched.
	Placed struct {
		Task TaskKey
		Run  uint32 // the previous run number plus one
		Host HostID
		GPUs []uint16 `cbor:",omitempty"` // devices of the host, as the task's request needs them
		// Ports of the host, in the order of the request.
		Ports []uint16 `cbor:",omitempty"`
	}
	// TaskStatus is what a host manager reported of a run, or what was concluded from its silence.
	TaskStatus struct {
		Task     TaskKey
		Run      uint32
		State    TaskState
		ExitCode int32
		Signal   int32
		Reason   Reason
		Message  string
		Peak     *Resources `cbor:",omitempty"` // of what the run used, where it ended and was measured
	}
	// TaskHealth is what a host manager said of the health of a run.
	TaskHealth struct {
		Task   TaskKey
		Run    uint32
		Health Health
		// Message is what the check said that changed it.
		Message string `cbor:",omitempty"`
	}
	// TaskStopping ends a task: at once where it waits, through KILLING where it is bound. With Restart set, it waits
	// again when its run has ended; where it has ended or waits already, it waits anew at once.
	TaskStopping struct {
		Task    TaskKey
		Reason  Reason
		Restart bool
	}
	// TaskRequeued makes a task PENDING again after its run ended, or after its launch was given back. Where NotBefore is
	// set it backs off: it is not placed before it is released.
	TaskRequeued struct {
		Task      TaskKey
		Reason    Reason
		NotBefore Time `cbor:",omitempty"`
		// Message is what the host manager said of a launch that it gave back.
		Message string `cbor:",omitempty"`
	}
	// InstanceAdded gives a daemon an instance on a host, by the present version or, where it says so, an earlier one.
	InstanceAdded struct {
		Task    TaskKey
		Host    HostID
		Version uint64 `cbor:",omitempty"`
	}
	// InstanceRemoved takes an instance of a daemon away: its run ends, and then its record goes.
	InstanceRemoved struct{ Task TaskKey }
	// CopyAdded starts a copy of a task that is in that run, on another host that is not slower than the pace.
	CopyAdded struct {
		Task TaskKey
		Run  uint32
		Pace int32 `cbor:",omitempty"` // see Copy
	}
	// CopyWon lets the success of a copy, whose key is given, be that of its task. The copy is no more.
	CopyWon struct{ Task TaskKey }
	// HomeForgotten says that the data of a stateful task that does not run is gone: it may run anywhere.
	HomeForgotten struct{ Task TaskKey }
	// TaskReleased ends a back-off when its time has come.
	TaskReleased struct{ Task TaskKey }

	// TaskHeld keeps room on a host for a PENDING task, or for a RESERVED one elsewhere than before.
	TaskHeld struct {
		Task TaskKey
		Hold Hold
	}
	// TaskPreempted asks a bound task to leave. With a Hold it moves: the room is kept for its next run.
	TaskPreempted struct {
		Task       TaskKey
		Run        uint32
		Preemption Preemption // State fills in At
		Hold       *Hold      `cbor:",omitempty"`
	}

	// HostReported adds a host or replaces the facts about it, and makes it reachable.
	HostReported struct {
		ID      HostID
		Machine Machine
	}
	// HostDrain sets or clears the operator's wish that the host takes no new work.
	HostDrain struct {
		ID     HostID
		Drain  bool
		Reason string
		Move   bool `cbor:",omitempty"` // what may be moved leaves, as far as its jobs bear it
		// Deadline is when all that is still there leaves, whatever it is; 0: never.
		Deadline Time `cbor:",omitempty"`
	}
	// HostUnreached says that nobody vouches for the host any more.
	HostUnreached struct {
		ID     HostID
		Reason string
		Gone   bool `cbor:",omitempty"` // its shard does not see it any more
	}
	// HostRemoved forgets a host on which nothing is bound.
	HostRemoved struct{ ID HostID }
	// ShardServed says which state folder serves a shard that has hosts from now on; see FolderOf.
	ShardServed struct{ By ShardFolder }
	// SlackMeasured says what the tasks of a host that are not revocable leave unused of what they were allocated.
	SlackMeasured struct {
		Host  HostID
		Slack Resources // with the margin taken off, in steps, so that it seldom changes; never negative
	}

	// RoleGranted binds a role.
	RoleGranted struct{ Binding RoleBinding }
	// RoleRevoked ends a binding.
	RoleRevoked struct{ Binding RoleBinding }
	// TokenCreated makes a token valid until it expires.
	TokenCreated struct{ Token Token }
	// TokenRevoked ends a token before that.
	TokenRevoked struct{ ID string }
	// SecretsResealed replaces how the secrets of a job are sealed, not what they are.
	SecretsResealed struct {
		Job     JobUID
		Secrets []Secret
	}
	// RequestAnswered says that a request was carried out, by the events before it that became durable with it. State fills in
	// At.
	RequestAnswered struct{ Receipt Receipt }
	// ModeSet switches parts of the cluster off, or on again, or says that a scheduler begins in the mode that there was.
	ModeSet struct{ Mode Mode }

	// NumbersForgotten says that host managers know of jobs or runs that this history has not given out, as when it goes on from an
	// earlier copy of the store: new ones are numbered from beyond them. See Restored.Forget.
	NumbersForgotten struct{}

	// Restored loads a part of a checkpoint into an empty State. Parts come in the order in which Snapshot.Parts gives
	// them.
	Restored struct {
		Header   *RestoredHeader `cbor:",omitempty"`
		Pools    []*Pool         `cbor:",omitempty"`
		Hosts    []*Host         `cbor:",omitempty"`
		Jobs     []*Job          `cbor:",omitempty"`
		Tasks    []*Task         `cbor:",omitempty"`
		Works    []*Work         `cbor:",omitempty"`
		Tokens   []*Token        `cbor:",omitempty"`
		Images   []*ImageHosts   `cbor:",omitempty"`
		Receipts []*Receipt      `cbor:",omitempty"`
		Accounts []*Account      `cbor:",omitempty"`
		Folders  []*ShardFolder  `cbor:",omitempty"`
	}
)

// NewJob is one job of a JobsSubmitted.
type NewJob struct {
	UID            JobUID
	Spec           *JobSpec
	IdempotencyKey string // only where it was submitted before there were receipts
}

// RestoredHeader holds the scalars of a checkpointed State.
type RestoredHeader struct {
	Seq       uint64
	ClusterID string
	NextJob   JobUID
	Revision  uint64
	Mapping   *QueueMapping `cbor:",omitempty"`
	Costs     *CostPolicy   `cbor:",omitempty"`
	Roles     []RoleBinding `cbor:",omitempty"`
	Access    uint64        `cbor:",omitempty"` // see AccessRevision
	Mode      Mode          `cbor:",omitempty"`
	ModeSince Time          `cbor:",omitempty"`
	Turnover  Turnover
	KeptFrom  Day `cbor:",omitempty"` // see Snapshot.KeptFrom
}

// Forgettable is how many jobs a cluster may have been given, and how often a task of it may have been started, between a snapshot
// and the end of the history that the snapshot replaces.
const Forgettable = 10_000_000

// Forget makes of a part of a snapshot one from which another history can go on than the one that did, which gave out revisions,
// numbers of jobs and numbers of runs that nobody remembers: host managers know them, and watchers. None of them is given out
// again: all jobs have the revision, which is later than any that was given out, and new jobs and runs are numbered from beyond
// what may have been forgotten. What was started under those numbers may go on, so that nothing is placed at first. How far beyond follows
// from the revision: with another one the same snapshot leads to other numbers.
func (r *Restored) Forget(revision uint64) {
	further := Forgettable + uint32(revision/1000%Forgettable)
	if h := r.Header; h != nil {
		h.Revision, h.NextJob, h.Mode.Restored = revision, h.NextJob+JobUID(further), true
	}
	for _, j := range r.Jobs {
		j.Revision, j.Forgotten = revision, j.Forgotten+further
	}
}

func (*ClusterCreated) isEvent()   {}
func (*PoolPut) isEvent()          {}
func (*PoolDeleted) isEvent()      {}
func (*QueueMappingSet) isEvent()  {}
func (*CostModelSet) isEvent()     {}
func (*JobsSubmitted) isEvent()    {}
func (*JobUpdated) isEvent()       {}
func (*UpdateAdvanced) isEvent()   {}
func (*TaskUpdated) isEvent()      {}
func (*JobStopping) isEvent()      {}
func (*JobDeleted) isEvent()       {}
func (*JobReleased) isEvent()      {}
func (*TaskReleased) isEvent()     {}
func (*InstanceAdded) isEvent()    {}
func (*InstanceRemoved) isEvent()  {}
func (*HomeForgotten) isEvent()    {}
func (*Placed) isEvent()           {}
func (*TaskStatus) isEvent()       {}
func (*TaskHealth) isEvent()       {}
func (*TaskStopping) isEvent()     {}
func (*TaskRequeued) isEvent()     {}
func (*TaskHeld) isEvent()         {}
func (*TaskPreempted) isEvent()    {}
func (*HostReported) isEvent()     {}
func (*HostDrain) isEvent()        {}
func (*HostUnreached) isEvent()    {}
func (*HostRemoved) isEvent()      {}
func (*RoleGranted) isEvent()      {}
func (*RoleRevoked) isEvent()      {}
func (*TokenCreated) isEvent()     {}
func (*TokenRevoked) isEvent()     {}
func (*SecretsResealed) isEvent()  {}
func (*RequestAnswered) isEvent()  {}
func (*ModeSet) isEvent()          {}
func (*SlackMeasured) isEvent()    {}
func (*CopyAdded) isEvent()        {}
func (*CopyWon) isEvent()          {}
func (*NumbersForgotten) isEvent() {}
func (*ShardServed) isEvent()      {}
func (*Restored) isEvent()         {}

// EventKinds returns a new empty event for each stored kind. The index is the kind's number in the journal: entries
// are only ever appended, and one that is retired stays as nil.
func EventKinds() []Event {
	return []Event{
		0:  nil,
		1:  new(ClusterCreated),
		2:  new(PoolPut),
		3:  new(PoolDeleted),
		4:  new(JobsSubmitted),
		5:  new(JobUpdated),
		6:  new(JobStopping),
		7:  new(JobDeleted),
		8:  new(Placed),
		9:  new(TaskStatus),
		10: new(TaskStopping),
		11: new(TaskRequeued),
		12: new(HostReported),
		13: new(HostDrain),
		14: new(HostUnreached),
		15: new(HostRemoved),
		16: new(Restored),
		17: new(TaskHeld),
		18: new(TaskPreempted),
		19: new(TaskHealth),
		20: new(QueueMappingSet),
		21: new(CostModelSet),
		22: new(RoleGranted),
		23: new(RoleRevoked),
		24: new(TokenCreated),
		25: new(TokenRevoked),
		26: new(ModeSet),
		27: new(JobReleased),
		28: new(TaskReleased),
		29: new(SlackMeasured),
		30: new(SecretsResealed),
		31: new(InstanceAdded),
		32: new(InstanceRemoved),
		33: new(HomeForgotten),
		34: new(UpdateAdvanced),
		35: new(TaskUpdated),
		36: new(CopyAdded),
		37: new(CopyWon),
		38: new(RequestAnswered),
		39: new(NumbersForgotten),
		40: new(ShardServed),
	}
}

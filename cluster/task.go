package cluster

import "slices"

// TaskState is where a task is in its life. See docs/states.md for the table as a picture.
type TaskState uint8

// The states of a task.
//
// The predecessor's table had four more. READY and PLACING are positions inside a cycle, which is a pure function here
// and has no durable middle; LAUNCHED duplicated LAUNCHING; DELETED is the absence of the record.
const (
	// TaskInitialized: exists, but its job may not run yet.
	TaskInitialized TaskState = iota
	// TaskPending: waits to be placed.
	TaskPending
	// TaskReserved: waits for room that a nomination holds for it.
	TaskReserved
	// TaskPlaced: the decision for a host is durable; the launch may or may not have been sent.
	TaskPlaced
	// TaskLaunching: the host manager has recorded the launch; a process may start at any moment.
	TaskLaunching
	// TaskStarting: the host prepares it (image, init steps).
	TaskStarting
	TaskRunning
	// TaskPreempting: asked to leave for another; its room is not free yet.
	TaskPreempting
	// TaskKilling: asked to stop.
	TaskKilling
	TaskSucceeded
	TaskFailed
	// TaskLost: it is not known to run any more, and how it ended is not known.
	TaskLost
	TaskKilled
	NumTaskStates
)

var taskStateNames = [NumTaskStates]string{
	"INITIALIZED", "PENDING", "RESERVED", "PLACED", "LAUNCHING", "STARTING", "RUNNING",
	"PREEMPTING", "KILLING", "SUCCEEDED", "FAILED", "LOST", "KILLED",
}

// String returns the state's name.
func (s TaskState) String() string { return taskStateNames[s] }

// Terminal reports whether the task's last run has ended.
func (s TaskState) Terminal() bool { return s >= TaskSucceeded }

// Bound reports whether a task in this state holds room on its host.
func (s TaskState) Bound() bool { return s >= TaskPlaced && s <= TaskKilling }

// Waits reports whether a task in this state waits for a place, with room held for it or not.
func (s TaskState) Waits() bool { return s == TaskPending || s == TaskReserved }

// transitions lists, for each state, the states that may follow. It completes the predecessor's table:
//
//   - STARTING, RUNNING and LAUNCHING can end in every way, because a status may be the first one that arrives
//     (a short task is over before its start was reported);
//   - PREEMPTING and KILLING can end in every way too: the task may finish, fail or get lost before the signal
//     takes effect. PREEMPTING goes to KILLING when the user stops it, and never back: a word that the task runs, said
//     before it heard that it has to go, takes nothing back;
//   - LOST is left by a retry only. A copy that turns up again is killed, never resumed;
//   - PLACED and LAUNCHING go back to PENDING when the host manager gives the launch back;
//   - PENDING and RESERVED go to SUCCEEDED where a copy of the task has;
//   - every terminal state can go to PENDING: a retry by policy, or a restart that the user asked for. A task that moves
//     goes to RESERVED: room is kept for it where it goes.
var transitions = [NumTaskStates][]TaskState{
	TaskInitialized: {TaskPending, TaskKilled}, // released, or stopped before
	TaskPending:     {TaskReserved, TaskPlaced, TaskSucceeded, TaskKilled},
	TaskReserved:    {TaskPending, TaskPlaced, TaskSucceeded, TaskKilled},
	TaskPlaced:      {TaskPending, TaskLaunching, TaskStarting, TaskRunning, TaskPreempting, TaskKilling, TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskLaunching:   {TaskPending, TaskStarting, TaskRunning, TaskPreempting, TaskKilling, TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskStarting:    {TaskRunning, TaskPreempting, TaskKilling, TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskRunning:     {TaskPreempting, TaskKilling, TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskPreempting:  {TaskKilling, TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskKilling:     {TaskSucceeded, TaskFailed, TaskLost, TaskKilled},
	TaskSucceeded:   {TaskPending},
	TaskFailed:      {TaskPending},
	TaskLost:        {TaskPending, TaskReserved},
	TaskKilled:      {TaskPending, TaskReserved},
}

// CanBecome reports whether the table allows a task in state s to go to state next.
func (s TaskState) CanBecome(next TaskState) bool {
	return slices.Contains(transitions[s], next)
}

// Reason says in one constant why a task is in its state.
type Reason string

// The reasons for the states of tasks.
const (
	ReasonNone           Reason = ""
	ReasonExited         Reason = "EXITED"          // the process ended by itself
	ReasonSignaled       Reason = "SIGNALED"        // a signal that nobody here sent ended it
	ReasonLaunchFailed   Reason = "LAUNCH_FAILED"   // it could not be started
	ReasonLaunchRefused  Reason = "LAUNCH_REFUSED"  // the host manager gave the launch back
	ReasonJobStopped     Reason = "JOB_STOPPED"     // the user stopped the job
	ReasonTaskStopped    Reason = "TASK_STOPPED"    // the user stopped the task
	ReasonTaskRestarted  Reason = "TASK_RESTARTED"  // the user restarted the task
	ReasonRemoved        Reason = "REMOVED"         // its job has no such instance any more
	ReasonRetry          Reason = "RETRY"           // the restart policy starts it again
	ReasonHostLost       Reason = "HOST_LOST"       // its host was unreachable for too long or was removed
	ReasonSupervisorLost Reason = "SUPERVISOR_LOST" // what watched the process died, so its end is not known
	ReasonUnknownToHost  Reason = "UNKNOWN_TO_HOST" // the host manager does not know the run
	ReasonPreempted      Reason = "PREEMPTED"       // it left for another
	ReasonHoldEnded      Reason = "HOLD_ENDED"      // the room that was kept for it could not be had in time
	ReasonRunTime        Reason = "RUN_TIME"        // its run took longer than the job allows
	ReasonDeadline       Reason = "DEADLINE"        // the job had not finished by its deadline
	ReasonGangBroken     Reason = "GANG_BROKEN"     // the core of its gang does not run as a whole
	ReasonUnhealthy      Reason = "UNHEALTHY"       // its checks said that it was not alive
	ReasonScratchFull    Reason = "SCRATCH_FULL"    // a scratch folder held more than the task asked for
	ReasonSuperseded     Reason = "SUPERSEDED"      // a run that is none of the task's any more
	ReasonOutrun         Reason = "OUTRUN"          // a copy of it has finished first
	ReasonNeverReleased  Reason = "NEVER_RELEASED"  // another job ended otherwise than its own waits for
	ReasonController     Reason = "CONTROLLER"      // the controller of its job has ended
	ReasonUpdated        Reason = "UPDATED"         // it gets a new spec, or a new run in a rolling restart
	ReasonNotHealthy     Reason = "NOT_HEALTHY"     // it was not healthy in time after an update
	ReasonDrained        Reason = "DRAINED"         // its host is being drained

	// Of updates.
	ReasonTooManyFailed Reason = "TOO_MANY_FAILED" // as many instances failed as the policy allows
	ReasonCanaryFailed  Reason = "CANARY_FAILED"   // an instance failed that was to show whether the spec is good
	ReasonNoneToSpare   Reason = "NONE_TO_SPARE"   // the failed instances are all that may be unavailable
	ReasonRequested     Reason = "REQUESTED"       // the user said so
)

// Task is one instance of a job. Immutable; State replaces it. Its fields are ordered so that it fills four cache lines.
type Task struct {
	Key      TaskKey
	State    TaskState
	Health   Health // of the current run, as its checks say
	Restart  bool   // when the current run has ended, run again whatever the policy says
	Removed  bool   `cbor:",omitempty"` // its job has no such instance any more: the record goes when the run has ended
	Ahead    bool   `cbor:",omitempty"` // waits before others of its priority, since it was preempted
	Outrun   bool   `cbor:",omitempty"` // its copy has succeeded: so has it, however its run ends
	Bare     bool   `cbor:",omitempty"` // Home has no data of it: of a stateful one, no run has begun there yet
	Run      uint32 // number of the current or last run, 0 before the first placement; see Job.LastRun
	Failures uint32 // failed runs since the submission or the last restart by the user; of a service, in short succession
	Refusals uint32 `cbor:",omitempty"` // launches that were given back since it last ran
	ExitCode int32  // of the last run, −1 if there is none
	Signal   int32  // that ended the last run, 0 if none
	WonBy    uint32 `cbor:",omitempty"` // run of the copy that has succeeded, where Outrun is set; 0: not known
	Reason   Reason
	Message  string
	Host     HostID   // where the current or last run was placed
	GPUs     []uint16 `cbor:",omitempty"` // devices of that host that the run has
	Ports    []uint16 `cbor:",omitempty"` // of that host that the run has, in the order of the request
	Since    Time     // when State was entered; if it waits, when that began, with room held for it or not, or an update gave it another spec
	// NotBefore is when a PENDING task that backs off may be placed; 0: as soon as there is room.
	NotBefore Time `cbor:",omitempty"`
	// Home is the only host on which it may run: of an instance of a daemon, and of a stateful one that has been placed.
	Home     HostID `cbor:",omitempty"`
	Hold     *Hold  `cbor:",omitempty"` // room kept for its next run
	Queued   Time   // when it was submitted, or restarted by the user after its end while not of a core that waits as one; the queue is in this order
	Placed   Time   `cbor:",omitempty"` // when the current or last run was placed
	Started  Time   // when the last run was first seen running; 0 if never
	Finished Time   // when the last run ended; 0 before
	Copy     *Copy  `cbor:",omitempty"` // of a copy of another task; nil for all others
	Version  uint64 `cbor:",omitempty"` // of the spec that it runs by, or will run by where it waits
	Next     uint64 `cbor:",omitempty"` // of the spec that it will run by when it waits again; 0: the same
	Ready    Time   `cbor:",omitempty"` // since when it is ready, see State.serves; 0: it is not
	Unready  Time   `cbor:",omitempty"` // when it last ceased to be ready; 0: never
	// Preempted is about the last time it was asked to leave for another; nil if it never was.
	Preempted *Preemption `cbor:",omitempty"`
}

// Rests reports whether the task backs off. One that began to at a time to come did so before the clock was set back, and has done so
// for long enough.
func (t *Task) Rests(now Time) bool { return t.NotBefore > now && t.Since <= now }

// RunID returns the id of the task's current or last run.
func (t *Task) RunID() RunID { return RunID{t.Key, t.Run} }

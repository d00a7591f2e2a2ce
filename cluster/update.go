package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// UpdateState is how far an update is.
type UpdateState uint8

// The states of an update. See docs/states.md for the table as a picture.
const (
	UpdateInitialized UpdateState = iota // accepted; nothing has been touched
	RollingForward
	RollingBackward // towards an earlier spec
	UpdatePaused    // begins with no further instance until it is resumed
	UpdateSucceeded
	UpdateFailed // instances failed; those that were updated stay so
	RolledBack
	UpdateAborted // by the user, or by a newer update or the end of the job
	numUpdateStates
)

var updateStateNames = [numUpdateStates]string{
	"INITIALIZED", "ROLLING_FORWARD", "ROLLING_BACKWARD", "PAUSED", "SUCCEEDED", "FAILED", "ROLLED_BACK", "ABORTED",
}

// String returns the state's name.
func (s UpdateState) String() string { return updateStateNames[s] }

// Terminal reports whether the update is over.
func (s UpdateState) Terminal() bool { return s >= UpdateSucceeded }

// updateTransitions lists, for each state, the states that may follow. What an update that fails or is taken back becomes
// in the same job is a new one, which begins as ROLLING_BACKWARD.
var updateTransitions = [numUpdateStates][]UpdateState{
	UpdateInitialized: {RollingForward, RollingBackward, UpdatePaused, UpdateAborted},
	RollingForward:    {RollingBackward, UpdatePaused, UpdateSucceeded, UpdateFailed, UpdateAborted},
	RollingBackward:   {UpdatePaused, RolledBack, UpdateFailed, UpdateAborted},
	UpdatePaused:      {RollingForward, RollingBackward, UpdateAborted},
}

// CanBecome reports whether the table allows an update in state s to go to state next.
func (s UpdateState) CanBecome(next UpdateState) bool {
	return slices.Contains(updateTransitions[s], next)
}

// UpdatePolicy says how a new spec reaches the instances.
type UpdatePolicy struct {
	BatchSize    uint32 `cbor:",omitempty"` // instances replaced at a time
	BatchPercent uint32 `cbor:",omitempty"` // the same in percent of the instances, rounded up; where both are 0 it is one
	StartFirst   bool   `cbor:",omitempty"` // run that many instances more while it lasts, so that none is ever missing
	InPlace      bool   `cbor:",omitempty"` // make small changes without a new run; see ChangeOf
	Canaries     uint32 `cbor:",omitempty"` // updated first; the rest waits for a promotion
	// MaxFailed is the number of failed instances at which the update fails; 0: it does not for their number.
	MaxFailed   uint32        `cbor:",omitempty"`
	MaxAttempts uint32        `cbor:",omitempty"` // failed runs after which an instance has failed; 0: DefaultAttempts
	Rollback    bool          `cbor:",omitempty"` // return to the spec before when it fails
	StartPaused bool          `cbor:",omitempty"`
	MinHealthy  time.Duration `cbor:",omitempty"` // how long an updated instance has to be ready to count as good
	Deadline    time.Duration `cbor:",omitempty"` // how long a run has to come to that; 0: DefaultHealthyDeadline
	Unplaced    time.Duration `cbor:",omitempty"` // how long an instance may wait for a place; see PlacementDeadline
}

// The settings that hold where a policy leaves them at zero.
const (
	DefaultAttempts          = 3
	DefaultHealthyDeadline   = 5 * time.Minute
	DefaultPlacementDeadline = 10 * time.Minute // of services
)

// Batch returns how many of n instances are replaced at a time, at least 1.
func (p *UpdatePolicy) Batch(n uint32) uint32 {
	return max(1, p.BatchSize, uint32((uint64(p.BatchPercent)*uint64(n)+99)/100))
}

// Attempts returns after how many failed runs an instance has failed.
func (p *UpdatePolicy) Attempts() uint32 {
	if p.MaxAttempts == 0 {
		return DefaultAttempts
	}
	return p.MaxAttempts
}

// HealthyDeadline returns how long after it was placed a run has to be good.
func (p *UpdatePolicy) HealthyDeadline() time.Duration {
	if p.Deadline == 0 {
		return DefaultHealthyDeadline
	}
	return p.Deadline
}

// PlacementDeadline returns how long an instance may wait for a place until it has failed, 0 for as long as it takes: work that
// queues waits for its turn.
func (p *UpdatePolicy) PlacementDeadline(of JobType) time.Duration {
	if p.Unplaced == 0 && of.Service() {
		return DefaultPlacementDeadline
	}
	return p.Unplaced
}

// Update is the way of a job from one version to another, or, where both are the same, through new runs of its instances.
// Immutable; State replaces it.
type Update struct {
	From, To uint64
	Safe     uint64 `cbor:",omitempty"` // of a way back or a restart: Job.LastGood when it began
	State    UpdateState
	Resume   UpdateState `cbor:",omitempty"` // what a paused one goes back to; of one that is over, RollingBackward if it led back
	Policy   UpdatePolicy
	Only     []InstanceRange `cbor:",omitempty"` // of a restart: these instances; none: all
	Promoted bool            `cbor:",omitempty"`
	Created  Time
	Resumed  Time   `cbor:",omitempty"` // when it last went on after a pause
	Ended    Time   `cbor:",omitempty"`
	Reason   Reason `cbor:",omitempty"` // why it is in its state
	Message  string `cbor:",omitempty"`

	// Those that are not ready are looked for first (Second is false), then the others; all before Next have been looked at.
	Second bool     `cbor:",omitempty"`
	Next   uint32   `cbor:",omitempty"`
	Active []uint32 `cbor:",omitempty"` // instances that were touched and are not good yet, sorted
	Failed []uint32 `cbor:",omitempty"` // instances that failed, sorted
	Total  uint32   `cbor:",omitempty"` // instances to change when it began, no more than there are; once it has succeeded, those that there were
	Begun  uint32   `cbor:",omitempty"` // of them, those that were touched and run for it
	Good   uint32   `cbor:",omitempty"` // of them, those that became good
}

// InstanceRange is the instances First..Last, both included.
type InstanceRange struct{ First, Last uint32 }

// Live reports whether an update is under way.
func (u *Update) Live() bool { return u != nil && !u.State.Terminal() }

// Restarts reports whether the update brings new runs of the same spec.
func (u *Update) Restarts() bool { return u.From == u.To }

// Back reports whether the update leads, or led, to an earlier spec.
func (u *Update) Back() bool {
	return u.State == RollingBackward || u.State == RolledBack || u.Resume == RollingBackward
}

// End ends the update in a state, and keeps whether it led back.
func (u *Update) End(at Time, state UpdateState, why Reason) {
	if u.Back() {
		u.Resume = RollingBackward
	}
	u.State, u.Reason, u.Ended, u.Active = state, why, at, nil
}

// Covers reports whether the update is about the instance.
func (u *Update) Covers(instance uint32) bool {
	return len(u.Only) == 0 || slices.ContainsFunc(u.Only, func(r InstanceRange) bool { return r.First <= instance && instance <= r.Last })
}

// LastGood returns the version that the job came to last, as far as anybody knows: a new update returns to it if it fails.
func (j *Job) LastGood() uint64 {
	switch u := j.Update; {
	case u == nil, (u.State == UpdateSucceeded || u.State == RolledBack) && len(u.Only) == 0:
		return j.Version
	case u.Safe != 0:
		return u.Safe
	case u.Back() || u.Restarts() || j.SpecOf(u.From) == nil: // as records from before there was Safe
		return j.Version
	default:
		return u.From
	}
}

// HoldsCanaries reports whether only canaries may be touched, as nobody has promoted them yet.
func (u *Update) HoldsCanaries() bool {
	return u.Live() && u.Policy.Canaries > 0 && !u.Promoted
}

// Pauses reports whether the update, on its way forward, begins with no further instance before it is resumed.
func (u *Update) Pauses() bool {
	return u.Live() && !u.Back() && (u.State == UpdatePaused || u.State == UpdateInitialized && u.Policy.StartPaused)
}

// hold takes in instances that came by the version before.
func (u *Update) hold(more uint32) {
	if more > 0 {
		u.Total += more
		u.Second, u.Next = false, 0 // they may have numbers that were looked at
	}
}

// Reached reports whether the instance runs, or will run next, what the update brings.
func (u *Update) Reached(t *Task) bool {
	switch {
	case t.Removed:
		return true
	case u.Restarts(): // time may stand still
		return t.State != TaskFailed && (!t.State.Bound() || t.State.Vacating() || t.Placed >= u.Created)
	default:
		return t.Version == u.To || t.Next == u.To
	}
}

// advanceUpdate replaces the record of a job's update, or begins one that restarts instances.
func (s *State) advanceUpdate(at Time, e *UpdateAdvanced) error {
	old := s.Job(e.Job)
	if old == nil {
		return fmt.Errorf("no job %d", e.Job)
	}
	was, next := old.Update, e.Update
	switch {
	case e.Begins && (next.From != old.Version || !next.Restarts() || next.State != UpdateInitialized):
		return errors.New("an update begins with a new spec or as a restart")
	case !e.Begins && (was == nil || was.State != next.State && !was.State.CanBecome(next.State)):
		return fmt.Errorf("there is no update that can become %v", next.State)
	case e.Surge > MaxInstances:
		return fmt.Errorf("%d instances beyond those wanted", e.Surge)
	}
	if was.Live() && was.State == UpdatePaused && next.State != UpdatePaused {
		next.Resumed = at
	}
	j := *old
	if e.Begins {
		next.Created, next.Safe = at, old.LastGood()
		for t := range s.TasksOf(j.UID, 0) {
			if t.Placed > at { // before the clock was set back
				next.Created = max(next.Created, t.Placed+1)
			}
		}
		for t := range s.TasksOf(j.UID, 0) {
			if i := t.Key.Instance(); next.Covers(i) && j.Spec.Wants(i) && t.Copy == nil && !next.Reached(t) {
				next.Total++
			}
		}
	}
	j.Update = &next
	if j.Surge != e.Surge {
		j.Surge = e.Surge
		s.jobs.Set(uint64(j.UID), &j)
		s.fitTasks(at, &j)
		s.lending += lends(&j) - lends(old)
	}
	s.setJob(at, &j)
	return nil
}

// updateTask gives a task another spec of its job, or the same anew: at once where nothing runs or InPlace says so, else
// with its next run, which begins after the end of this one. With Later nobody ends this one for it.
func (s *State) updateTask(at Time, e *TaskUpdated) error {
	return s.changeTask(at, e.Task, func(t *Task, j *Job) error {
		switch {
		case j.Stopping || t.Removed:
			return errors.New("the job is being stopped, or the instance is being removed")
		case j.SpecOf(e.Version) == nil:
			return fmt.Errorf("version %d is not kept", e.Version)
		case e.InPlace:
			t.Version, t.Next = e.Version, 0
			return s.CanChange(s.Task(t.Key), j)
		case e.Later && !t.State.Bound():
			return errors.New("it does not run")
		case e.Later:
			if t.Next = e.Version; t.State == TaskPreempting { // it cannot fail any more, and what it moves to is for the spec before
				t.Failures, t.Hold = 0, nil
			}
			return nil
		case e.Again:
			t.Failures++
		default:
			t.Failures = 0
		}
		switch {
		case t.State.Bound():
			*t = *stopped(at, t, e.Reason)
			t.Next, t.Restart = e.Version, true
		case t.State.Terminal() && !e.Revive:
			t.Version, t.Next = e.Version, 0
		default:
			t.Version, t.Next = e.Version, 0
			t.Ahead = t.Ahead && !t.State.Terminal() // who had to leave for others keeps its place
			t.Hold, t.Restart, t.NotBefore, t.Refusals, t.Since = nil, false, 0, 0, at
			if t.State != TaskInitialized {
				t.State, t.Reason = TaskPending, e.Reason
			}
		}
		return nil
	})
}

// Growth returns what the task asks for by the job's present spec, beyond what it has by its own.
func (j *Job) Growth(t *Task) Resources {
	return j.Spec.TaskOf(t.Key.Instance()).Resources.Sub(j.TaskFor(t).Resources).Positive()
}

// CanChange says why a task cannot have the job's present spec without a new run, nil if it can.
func (s *State) CanChange(t *Task, j *Job) error {
	i := t.Key.Instance()
	if t.State.Terminal() || t.State.Vacating() || j.SpecFor(t).ChangeOf(j.Spec, i) == NewRun {
		return errors.New("the change needs a new run")
	}
	if !t.State.Bound() {
		return nil
	}
	h := s.Host(t.Host)
	if h == nil || !j.Growth(t).Fits(roomFor(t, j, h)) {
		return fmt.Errorf("what task %v asks for now does not fit on host %q", t.Key, t.Host)
	}
	return nil
}

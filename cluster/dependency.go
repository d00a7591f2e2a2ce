package cluster

import (
	"errors"
	"fmt"
)

// Condition says how a job has to end so that those that wait for it may run.
type Condition uint8

// The conditions.
const (
	OnSuccess Condition = iota
	OnFailure
	OnEnd // in whatever way
)

var conditionNames = [...]string{"SUCCEEDED", "FAILED", "ENDED"}

// String returns the condition's name.
func (c Condition) String() string { return conditionNames[c] }

// Dependency is what a job waits for: another one, which exists for as long as anybody waits for it.
type Dependency struct {
	Job JobID
	On  Condition
}

// Judge reports whether the dependency has come true, and whether it never will, by the job that it names. Both are false
// while that job has not ended.
func (d Dependency) Judge(j *Job) (holds, never bool) {
	if j == nil {
		return false, true
	}
	switch state := j.State(); {
	case !state.Terminal():
		return false, false
	case d.On == OnEnd, d.On == OnSuccess && state == JobSucceeded, d.On == OnFailure && state == JobFailed:
		return true, false
	default:
		return false, true
	}
}

// WaitingFor returns the jobs that wait for the job of that name, in the order of submission. The caller must not modify it.
func (t *tables) WaitingFor(name JobID) []JobUID { return find(t.waits, name) }

// setWaiting keeps the index of who waits for whom in step with a job that waits, or does so no more.
func (s *State) setWaiting(j *Job, waits bool) {
	for _, d := range j.Spec.DependsOn {
		old := find(s.waits, d.Job)
		if list := withMember(old, j.UID, waits); len(list) > 0 {
			s.waits.Set(d.Job, list)
		} else if len(old) > 0 {
			s.waits.Delete(d.Job)
			if on := s.JobByName(d.Job); on != nil { // it may go now
				s.changes.Jobs = append(s.changes.Jobs, on.UID)
			}
		}
	}
}

func (s *State) releaseJob(at Time, uid JobUID) error {
	old := s.Job(uid)
	if old == nil || !old.Waiting {
		return fmt.Errorf("job %d does not wait for others", uid)
	}
	j := *old
	j.Waiting = false
	s.setWaiting(&j, false)
	var held []*Task
	for t := range s.TasksOf(uid, 0) {
		if t.State == TaskInitialized {
			held = append(held, t)
		}
	}
	for _, t := range held {
		next := *t
		next.State, next.Queued = TaskPending, at
		s.setTask(at, t, &next, &j)
	}
	s.setJob(at, &j)
	return nil
}

func (s *State) releaseTask(at Time, k TaskKey) error {
	return s.changeTask(at, k, func(t *Task, _ *Job) error {
		if t.NotBefore == 0 || t.Rests(at) {
			return errors.New("it does not back off, or has to for longer")
		}
		t.NotBefore = 0
		return nil
	})
}

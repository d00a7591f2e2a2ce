package cluster

import (
	"errors"
	"fmt"
	"time"
)

// Speculation lets tasks of a job that lag behind have copies: the job promises that a task may run twice at once. It is for
// batch jobs without a gang and without a controller.
type Speculation struct {
	MaxPercent uint32 // most copies at once, in percent of the job's instances, rounded up; 0: the server's setting
}

// Copy is about a second copy of a task that lags behind. The copy is a task of its own, with the key that [TaskKey.Copy]
// returns: it waits, runs, and counts against quotas like every other. The first of the two that succeeds ends both. A copy
// that ends otherwise is gone, and no failure of anybody.
type Copy struct {
	Off  HostID // where the task ran when the copy was wanted: the copy runs elsewhere
	Pace int32  // most that Host.Pace may be where it runs; 0: any
}

// speculates reports whether tasks of the job may have copies.
func (s *JobSpec) speculates() bool {
	return s.Speculation != nil && s.Type == Batch && s.Gang == nil && !s.Controller
}

func (s *State) addCopy(at Time, e *CopyAdded) error {
	if err := s.MayCopy(e); err != nil {
		return err
	}
	t, j := s.Task(e.Task), *s.Job(e.Task.Job())
	c := &Task{
		Key: e.Task.Copy(), Run: j.LastRun, State: TaskPending, Queued: at, ExitCode: -1, Version: t.Version,
		Copy: &Copy{Off: t.Host, Pace: e.Pace},
	}
	s.setTask(at, nil, c, &j)
	s.setJob(at, &j)
	return nil
}

// MayCopy returns why the task gets no copy, nil if it may have one.
func (s *State) MayCopy(e *CopyAdded) error {
	t, j := s.Task(e.Task), s.Job(e.Task.Job())
	switch {
	case t == nil || e.Task.IsCopy() || t.State != TaskRunning || t.Run != e.Run:
		return fmt.Errorf("run %d of task %v does not run", e.Run, e.Task)
	case !j.Spec.speculates() || j.Stopping:
		return fmt.Errorf("job %d lets no task run twice", j.UID)
	case s.Task(e.Task.Copy()) != nil:
		return fmt.Errorf("task %v has a copy", e.Task)
	}
	return nil
}

// winCopy lets a copy that has succeeded stand for its task, and forgets it. What still runs of the task is ended.
func (s *State) winCopy(at Time, k TaskKey) error {
	c, t, old := s.Task(k), s.Task(k.Original()), s.Job(k.Job())
	switch {
	case c == nil || c.Copy == nil || c.State != TaskSucceeded || c.Removed:
		return fmt.Errorf("%v is no copy that has succeeded", k)
	case t == nil || t.State.Terminal():
		return errors.New("its task has ended, or is gone")
	}
	j := *old
	next := stopped(at, t, ReasonOutrun)
	next.Message, next.Outrun, next.WonBy = fmt.Sprintf("its copy on host %s has finished", c.Host), true, c.Run
	if !t.State.Bound() {
		next.State = TaskSucceeded
	} else if took := c.Finished.Sub(c.Started); t.Started != 0 && c.Started != 0 && took > 0 {
		s.keepPace(t.Host, at.Sub(t.Started), took)
	}
	s.setTask(at, t, next, &j)
	s.dropTask(c, &j)
	s.setJob(at, &j)
	return nil
}

// Paces are learned as run times in thousandths of what was expected.
const (
	usualPace = 1000
	maxPace   = 100_000
)

// keepPace takes into account that a run on the host took so long, or longer, where so long was expected: a quarter of what
// the belief was wrong by.
func (s *State) keepPace(id HostID, took, expected time.Duration) {
	old := s.Host(id)
	if old == nil || expected <= 0 {
		return
	}
	h := *old
	seen := int32(min(took/max(1, expected/usualPace), maxPace))
	if h.Pace == 0 {
		h.Pace = usualPace
	}
	h.Pace = max(1, h.Pace+(seen-h.Pace)/4)
	s.setHost(&h)
}

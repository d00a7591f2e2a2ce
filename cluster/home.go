package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// HomeTo returns the tasks that may run on the host of that id only, sorted, whether there is such a host or not. The caller
// must not modify it.
func (t *tables) HomeTo(id HostID) []TaskKey { return find(t.homes, id) }

// Daemons returns the daemon jobs that have not ended, in the order of submission.
func (t *tables) Daemons() []JobUID { return t.daemons.Keys() }

// setHome keeps the index of homes in step with a task, which may have no home before or after.
func (s *State) setHome(k TaskKey, from, to HostID) {
	if from == to {
		return
	}
	change := func(id HostID, in bool) {
		if id == "" {
			return
		}
		if list := withMember(find(s.homes, id), k, in); len(list) > 0 {
			s.homes.Set(id, list)
		} else {
			s.homes.Delete(id)
		}
	}
	change(from, false)
	change(to, true)
}

// Later returns the instances of the job that are bound to hosts and have another spec with their next run, sorted. Complexity: these.
func (t *tables) Later(uid JobUID) (all []TaskKey) {
	t.later.Ascend(MakeTaskKey(uid, 0), func(k TaskKey, _ struct{}) bool {
		if k.Job() == uid {
			all = append(all, k)
		}
		return k.Job() == uid
	})
	return all
}

// setLater keeps the index of those in step with a task.
func (s *State) setLater(t *Task) {
	if t.Next != 0 && t.Home != "" {
		s.later.Set(t.Key, struct{}{})
	} else {
		s.later.Delete(t.Key)
	}
}

// setDaemon keeps the index of daemons in step with a job.
func (s *State) setDaemon(j *Job) {
	switch {
	case j.Spec.Type != Daemon:
	case j.State().Terminal():
		s.daemons.Delete(j.UID)
	default:
		s.daemons.Set(j.UID, struct{}{})
	}
}

func errHome(t *Task) error { return fmt.Errorf("task %v runs on host %q only", t.Key, t.Home) }

func (s *State) addInstance(at Time, e *InstanceAdded) error {
	old := s.Job(e.Task.Job())
	switch {
	case old == nil || old.Spec.Type != Daemon || old.Stopping:
		return fmt.Errorf("job %d is no daemon or is being stopped", e.Task.Job())
	case s.Task(e.Task) != nil || e.Task.Instance() >= MaxInstances:
		return fmt.Errorf("task %v exists or has too high a number", e.Task)
	case s.Host(e.Host) == nil:
		return fmt.Errorf("no host %q", e.Host)
	case e.Version != 0 && (!old.Update.Live() || old.SpecOf(e.Version) == nil):
		return fmt.Errorf("nothing holds version %d back, or %d is not kept", old.Version, e.Version)
	}
	j := *old
	t := &Task{Key: e.Task, Run: j.LastRun, State: j.begins(), Home: e.Host, Queued: at, ExitCode: -1, Version: cmp.Or(e.Version, j.Version)}
	s.setTask(at, nil, t, &j)
	if t.Version != j.Version {
		u := *j.Update
		u.hold(1)
		u.Total = min(u.Total, j.tasks()) // others may have gone
		j.Update = &u
	}
	s.setJob(at, &j)
	return nil
}

func (s *State) removeInstance(at Time, k TaskKey) error {
	t, old := s.Task(k), s.Job(k.Job())
	if t == nil || old.Spec.Type != Daemon && t.Copy == nil || t.Removed {
		return fmt.Errorf("task %v does not exist, is being removed, or is neither of a daemon nor a copy", k)
	}
	j := *old
	s.removeTask(at, t, &j)
	s.setJob(at, &j)
	return nil
}

func (s *State) forgetHome(at Time, k TaskKey) error {
	return s.changeTask(at, k, func(t *Task, j *Job) error {
		switch {
		case j.Spec.Type != Stateful || t.Home == "":
			return errors.New("it has no data on a host")
		case t.State.Bound():
			return fmt.Errorf("it is %v on host %q", t.State, t.Host)
		}
		t.Home, t.Bare, t.Hold = "", false, nil
		if t.State == TaskReserved {
			t.State = TaskPending
		}
		return nil
	})
}

// removeHomes takes the instances of daemons away from a host that is gone. Data of others may still be on it, and it may
// come back.
func (s *State) removeHomes(at Time, id HostID) {
	for _, k := range slices.Clone(s.HomeTo(id)) {
		if j := *s.Job(k.Job()); j.Spec.Type == Daemon {
			s.removeTask(at, s.Task(k), &j)
			s.setJob(at, &j)
		}
	}
}

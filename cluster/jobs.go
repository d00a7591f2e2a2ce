package cluster

import (
	"errors"
	"fmt"
	"time"
)

func (s *State) submitJobs(at Time, jobs []NewJob) error {
	names := make(map[JobID]bool, len(jobs))
	for i, n := range jobs {
		switch {
		case n.UID != s.nextJob+JobUID(i):
			return fmt.Errorf("job uid %d is not the next one", n.UID)
		case s.JobByName(n.Spec.Name) != nil || names[n.Spec.Name]:
			return fmt.Errorf("job %q exists", n.Spec.Name)
		case !sealed(n.Spec.Secrets):
			return fmt.Errorf("job %q has a secret that is not sealed", n.Spec.Name)
		case !s.IsLeaf(n.Spec.Pool):
			return fmt.Errorf("pool %q does not exist or has children", n.Spec.Pool)
		}
		names[n.Spec.Name] = true
	}
	for _, n := range jobs {
		j := &Job{UID: n.UID, Spec: n.Spec, Version: 1, Submitted: at}
		s.nextJob++
		s.names.Set(j.Spec.Name, j.UID)
		j.Waiting = len(n.Spec.DependsOn) > 0
		s.setWaiting(j, j.Waiting)
		s.jobs.Set(uint64(j.UID), j) // before its tasks, which look it up
		s.fitTasks(at, j)
		s.lending += lends(j)
		s.setJob(at, j)
		s.adoptKey(j, n.IdempotencyKey)
	}
	return nil
}

// begins returns the state in which the job's tasks begin.
func (j *Job) begins() TaskState {
	if j.Waiting {
		return TaskInitialized
	}
	return TaskPending
}

// VersionOf returns the version by which an instance that comes begins: the one before while an update holds the present one back, if that
// changes anything of the instance.
func (j *Job) VersionOf(instance uint32) uint64 {
	if u := j.Update; (u.HoldsCanaries() || u.Pauses()) && j.Spec.Wants(instance) {
		if from := j.SpecOf(u.From); from != nil && from.ChangeOf(j.Spec, instance) != NoChange {
			return u.From
		}
	}
	return j.Version
}

// fitTasks creates the waiting tasks that the job lacks and takes those away that it has beyond its number of instances
// and what its update runs more. One whose last run has yet to end since it was removed runs again afterwards. It returns how
// many do not begin by the present version.
func (s *State) fitTasks(at Time, j *Job) (held uint32) {
	if j.Spec.Type == Daemon {
		return 0 // it has one for each host
	}
	end := j.Spec.Instances + j.Surge
	var back, surplus []*Task
	kept := uint32(0)
	have := make([]bool, end)
	for t := range s.TasksOf(j.UID, 0) {
		switch i := t.Key.Instance(); {
		case t.Copy != nil && i < end: // it goes with its task
		case i >= end:
			surplus = append(surplus, t)
		case t.Removed:
			back = append(back, t)
			fallthrough
		default:
			have[i] = true
			kept++
		}
	}
	for _, t := range surplus {
		s.removeTask(at, t, j)
	}
	version := func(instance uint32) uint64 {
		v := j.VersionOf(instance)
		if v != j.Version {
			held++
		}
		return v
	}
	for _, t := range back {
		next := *t
		next.Removed, next.Restart, next.Reason, next.Next = false, true, ReasonTaskRestarted, version(t.Key.Instance())
		s.setTask(at, t, &next, j)
	}
	fresh := make([]Task, 0, end-kept)
	for i, there := range have {
		if !there {
			k := MakeTaskKey(j.UID, uint32(i))
			fresh = append(fresh, Task{Key: k, Run: j.LastRun, State: j.begins(), Queued: at, ExitCode: -1, Version: version(uint32(i))})
			s.setTask(at, nil, &fresh[len(fresh)-1], j)
		}
	}
	return held
}

// removeTask takes an instance away: at once where nothing runs, else when its run has ended.
func (s *State) removeTask(at Time, t *Task, j *Job) {
	if !t.State.Bound() {
		s.dropTask(t, j)
		return
	}
	next := stopped(at, t, ReasonRemoved)
	next.Removed = true
	s.setTask(at, t, next, j)
}

// dropTask forgets a task that is not bound.
func (s *State) dropTask(t *Task, j *Job) {
	j.Counts[t.State]--
	j.LastRun = max(j.LastRun, t.Run)
	s.setHold(t.Key, t.Hold, nil)
	s.forgetTask(t)
}

// forgetTask takes a task that is not bound and has no hold out of all tables.
func (s *State) forgetTask(t *Task) {
	s.setHome(t.Key, t.Home, "")
	s.later.Delete(t.Key)
	s.tasks.Delete(uint64(t.Key))
	s.changes.Tasks = append(s.changes.Tasks, t.Key)
}

func (s *State) updateJob(at Time, e *JobUpdated) error {
	old := s.Job(e.Job)
	switch {
	case old == nil:
		return fmt.Errorf("no job %d", e.Job)
	case !sealed(e.Spec.Secrets):
		return errors.New("a secret is not sealed")
	case e.Spec.Name != old.Spec.Name || e.Spec.Pool != old.Spec.Pool || e.Spec.Type != old.Spec.Type || e.Spec.Revocable != old.Spec.Revocable:
		return errors.New("an update changes the name, the pool, the type or what the job runs on")
	}
	j := *old
	switch {
	case e.Update != nil:
		u := *e.Update
		u.To, u.Created = old.Version+1, at
		if u.Back() {
			u.Safe = old.LastGood()
		}
		j.Update, j.Misfires = &u, 0
	case old.Update.Live():
		u := *old.Update
		if u.To = old.Version + 1; old.Update.Restarts() {
			u.From = u.To
		}
		j.Update = &u
	}
	s.retire(&j)
	j.Spec, j.Version, j.Changed, j.Description, j.UpdateKey = e.Spec, old.Version+1, at, e.Description, ""
	s.jobs.Set(uint64(j.UID), &j)
	held := s.fitTasks(at, &j)
	left := s.follow(at, &j, e.Update != nil)
	switch {
	case e.Update != nil:
		j.Update.Total = left
	case j.Update.Live():
		if j.Spec.Type != Daemon {
			j.Update.Total = min(j.Update.Total, j.Spec.Instances)
		}
		for _, i := range j.Update.Active {
			if !old.Spec.Wants(i) && j.Spec.Wants(i) { // it was to stand in, and is an instance like others now
				j.Update.Total++
			}
		}
		j.Update.hold(held)
	}
	s.lending += lends(&j) - lends(old)
	s.setJob(at, &j)
	return nil
}

// follow brings the tasks that run the same under the present spec as under theirs to it, and returns how many others
// there are among the instances that are wanted. What is to come next is brought to it too where no update begins: one that is under
// way has seen to it, and goes by the number.
func (s *State) follow(at Time, j *Job, begins bool) (left uint32) {
	var others []*Task
	for t := range s.TasksOf(j.UID, 0) {
		if t.Version != j.Version {
			others = append(others, t)
		}
	}
	alike := map[uint64]bool{} // by version, where all instances are told the same
	same := func(version uint64, instance uint32) bool {
		from := j.SpecOf(version)
		if from == nil {
			return false
		}
		is, known := alike[version]
		if !known || len(from.Overrides)+len(j.Spec.Overrides) > 0 {
			is = from.ChangeOf(j.Spec, instance) == NoChange
			alike[version] = is
		}
		return is
	}
	for _, t := range others {
		i := t.Key.Instance()
		if runs := same(t.Version, i); runs || !begins && t.Next != 0 && same(t.Next, i) {
			next := *t
			if next.Next = j.Version; runs {
				next.Version, next.Next = j.Version, 0
			}
			s.setTask(at, t, &next, j)
		} else if j.Spec.Wants(i) && t.Copy == nil && !t.Removed {
			left++
		}
	}
	return left
}

func (s *State) stopJob(at Time, e *JobStopping) error {
	uid, why := e.Job, e.Reason
	old := s.Job(uid)
	if old == nil {
		return fmt.Errorf("no job %d", uid)
	}
	if why == ReasonNone {
		why = ReasonJobStopped
	}
	j := *old
	j.Stopping, j.StopReason, j.StopMessage = true, why, e.Message
	j.Waiting = false
	s.setWaiting(&j, false)
	var live []*Task
	for t := range s.TasksOf(uid, 0) {
		if !t.State.Terminal() {
			live = append(live, t)
		}
	}
	for _, t := range live {
		if t.State != TaskKilling {
			s.setTask(at, t, stopped(at, t, why), &j)
		}
	}
	s.setJob(at, &j)
	return nil
}

// stopped returns t on its way out: KILLED where nothing runs, KILLING where something may.
func stopped(at Time, t *Task, why Reason) *Task {
	next := *t
	next.Reason, next.Restart, next.Hold, next.NotBefore = why, false, nil, 0
	if t.State.Bound() {
		next.State = TaskKilling
	} else {
		next.State, next.Finished = TaskKilled, at
	}
	return &next
}

func (s *State) deleteJob(uid JobUID) error {
	j := s.Job(uid)
	if j == nil || !j.State().Terminal() {
		return fmt.Errorf("job %d does not exist or has not ended", uid)
	}
	if len(s.WaitingFor(j.Spec.Name)) > 0 {
		return fmt.Errorf("job %d is waited for", uid)
	}
	var tasks []*Task
	for t := range s.TasksOf(uid, 0) {
		tasks = append(tasks, t)
	}
	for _, t := range tasks {
		s.forgetTask(t)
	}
	s.setWaiting(j, false) // it does where each of its tasks was stopped by itself
	s.jobs.Delete(uint64(uid))
	s.names.Delete(j.Spec.Name)
	s.revokeTokensOf(uid)
	s.changes.Jobs = append(s.changes.Jobs, uid)
	s.revision++
	return nil
}

// changeTask replaces a task and its job. change gets copies of both to modify, or refuses.
func (s *State) changeTask(at Time, k TaskKey, change func(t *Task, j *Job) error) error {
	old := s.Task(k)
	if old == nil {
		return fmt.Errorf("no task %v", k)
	}
	t, j := *old, *s.Job(k.Job())
	if err := change(&t, &j); err != nil {
		return err
	}
	if t.State != old.State && !old.State.CanBecome(t.State) {
		return fmt.Errorf("task %v cannot go from %v to %v", k, old.State, t.State)
	}
	s.setTask(at, old, &t, &j)
	if t.Removed && t.State.Terminal() {
		s.dropTask(&t, &j)
	}
	s.setJob(at, &j)
	return nil
}

func (s *State) placeTask(at Time, e *Placed) error {
	return s.changeTask(at, e.Task, func(t *Task, j *Job) error {
		h := s.Host(e.Host)
		switch {
		case t.NotBefore != 0:
			return fmt.Errorf("task %v backs off", t.Key)
		case t.Home != "" && t.Home != e.Host:
			return errHome(t)
		case t.Copy != nil && t.Copy.Off == e.Host:
			return fmt.Errorf("a copy of a task of host %q runs elsewhere", e.Host)
		case !t.State.CanBecome(TaskPlaced):
			return fmt.Errorf("task %v is %v and cannot be placed", t.Key, t.State)
		case e.Run != j.NextRun(t):
			return fmt.Errorf("run %d of task %v follows run %d", e.Run, t.Key, t.Run)
		case h == nil || h.State() != HostUp:
			return fmt.Errorf("host %q takes no work", e.Host)
		}
		if err := checkRoom(t, j, h, Devices{e.GPUs, e.Ports}); err != nil {
			return err
		}
		t.State, t.Run, t.Host, t.GPUs, t.Ports, t.Health = TaskPlaced, e.Run, e.Host, e.GPUs, e.Ports, HealthUnknown
		t.Placed, t.Started, t.Finished, t.ExitCode, t.Signal = j.placedAt(at), 0, 0, -1, 0
		t.Reason, t.Message, t.Restart = ReasonNone, "", false
		t.Hold, t.Ahead, t.Outrun, t.WonBy = nil, false, false, 0
		if j.Spec.Type == Stateful && t.Home == "" {
			t.Home, t.Bare = e.Host, true
		}
		if j.Started == 0 {
			j.Started = at
		}
		return nil
	})
}

// placedAt returns when a task of the job counts as placed that is placed now: not before the restart under way, when the clock may have
// been ahead.
func (j *Job) placedAt(now Time) Time {
	if j.Update.Live() && j.Update.Restarts() {
		return max(now, j.Update.Created)
	}
	return now
}

// checkRoom refuses a place that lacks what the task asks for.
func checkRoom(t *Task, j *Job, h *Host, on Devices) error {
	spec := j.TaskFor(t)
	own, devices := h, h.GPURoom()
	if t.Hold != nil && t.Hold.Host == h.ID {
		held := *h
		held.PortsWithheld = allocatePorts(h.PortsWithheld, t.Hold.Ports, true)
		own, devices = &held, h.roomWith(t.Hold.GPUs)
	}
	switch {
	case !spec.Resources.Fits(roomFor(t, j, h)):
		return fmt.Errorf("task %v does not fit on host %q", t.Key, h.ID)
	case !spec.GPU.valid(h.GPUs, devices, on.GPUs):
		return fmt.Errorf("task %v cannot have the devices %v of host %q", t.Key, on.GPUs, h.ID)
	case !spec.Ports.valid(own, on.Ports):
		return fmt.Errorf("task %v cannot have the ports %v of host %q", t.Key, on.Ports, h.ID)
	}
	return checkNeeds(t, j, h)
}

// checkNeeds refuses a host whose manager cannot do what the task needs.
func checkNeeds(t *Task, j *Job, h *Host) error {
	if missing := j.SpecFor(t).NeedsFor(j.TaskFor(t)) &^ h.Capabilities; missing != 0 {
		return fmt.Errorf("host %q cannot do what task %v needs: %v", h.ID, t.Key, missing)
	}
	return nil
}

// roomFor returns the room that the task may take on the host: what is kept for it counts.
func roomFor(t *Task, j *Job, h *Host) Resources {
	if j.Spec.Revocable {
		return h.Spare()
	}
	if t.Hold != nil && t.Hold.Host == h.ID {
		return h.Free()
	}
	return h.Room()
}

func errRun(t *Task, run uint32) error {
	return fmt.Errorf("task %v is in run %d, not %d", t.Key, t.Run, run)
}

func (s *State) reportTask(at Time, e *TaskStatus) error {
	return s.changeTask(at, e.Task, func(t *Task, j *Job) error {
		switch {
		case e.Run != t.Run:
			return errRun(t, e.Run)
		case e.State < TaskLaunching || e.State == TaskPreempting || e.State == TaskKilling:
			return fmt.Errorf("nobody reports the state %v", e.State)
		case !t.State.Bound() || !t.State.CanBecome(e.State):
			return fmt.Errorf("task %v cannot go from %v to %v", t.Key, t.State, e.State)
		}
		// A task that was told to stop and fell to the signal was killed: how it died is in the exit code.
		stopping, leaving := t.State == TaskKilling, t.State == TaskPreempting
		if e.State == TaskSucceeded && !j.Spec.Type.Service() &&
			(t.Reason == ReasonHostLost || t.Reason == ReasonDrained || t.Reason == ReasonGangBroken) {
			t.Restart = false // it was to run elsewhere, or with the others of its gang, and is done
		}
		t.State, t.Bare = e.State, t.Bare && e.State == TaskLaunching
		switch {
		case leaving && (e.State == TaskFailed || e.State == TaskSucceeded && j.Spec.Type.Service()): // whatever it said when it was told to go
			t.State = TaskKilled
		case stopping && t.Reason == ReasonRunTime && e.State == TaskKilled:
			t.State = TaskFailed
		case t.Outrun && e.State.Terminal():
			t.State = TaskSucceeded
		}
		if leaving && t.State == TaskKilled {
			t.Reason = ReasonPreempted
		} else if !stopping || e.State != TaskKilled && !t.Outrun {
			t.Reason = e.Reason
		}
		if !t.Outrun {
			t.Message = e.Message
		}
		switch {
		case e.State == TaskRunning:
			s.noteLaunch(at, t, true)
		case e.State == TaskFailed && e.Reason == ReasonLaunchFailed && t.Started == 0:
			s.noteFailedLaunch(at, t, j)
		case e.State.Terminal() && (e.State == TaskSucceeded || !stopping && !leaving):
			s.noteEnd(at, t, j)
		}
		if t.Version == j.Version && (e.State == TaskRunning || e.Reason == ReasonExited || e.Reason == ReasonSignaled) {
			j.Misfires = 0
		}
		if e.State == TaskRunning {
			t.Refusals = 0
			if t.Started == 0 {
				t.Started = at
				s.noteImages(at, j.TaskFor(t), t.Host)
			}
		}
		if e.State.Terminal() {
			t.Finished, t.ExitCode, t.Signal = at, e.ExitCode, e.Signal
		}
		if j.Spec.Type.Service() && t.Ready != 0 && at.Sub(t.Ready) >= max(steady, j.Spec.Backoff.Max) {
			t.Failures = 0
		}
		failed := t.State == TaskFailed || t.State == TaskSucceeded && j.Spec.Type.Service()
		if failed && !(stopping && t.Restart) { // however a run ends that was to make way for the next one, it is no failure
			t.Failures++
		}
		if e.State == TaskSucceeded {
			s.learn(at, t, j, e.Peak.orNone())
		}
		if t.State.Terminal() {
			s.charge(at, t, j)
		}
		if _, again := t.ShouldRequeue(j); t.State.Terminal() && !again {
			t.Hold = nil // it was to move, and has ended
			if !stopping && !leaving && e.State != TaskLost && !j.Spec.Revocable {
				s.turnover = s.turnover.freed(at, j.TaskFor(t).Resources)
			}
		}
		return nil
	})
}

// steady is how long an instance of a service has to be ready at least so that what failed before counts no more, and a run to go on so
// that its host is sound.
const steady = time.Minute

func (s *State) stopTask(at Time, e *TaskStopping) error {
	return s.changeTask(at, e.Task, func(t *Task, j *Job) error {
		switch {
		case e.Restart && j.Stopping:
			return errors.New("the job is being stopped")
		case t.Removed:
			return fmt.Errorf("task %v is being removed", t.Key)
		case e.Restart && j.Waiting:
			return errors.New("the job waits for others")
		case e.Restart && !t.State.Bound():
			if t.State.Terminal() { // who waits already keeps its place
				t.Ahead = false
				if !j.SpecFor(t).Core(t.Key.Instance()) { // a core waits as one, in one class of the planner
					t.Queued = at
				}
			}
			t.State, t.Failures, t.Reason, t.Message = TaskPending, 0, e.Reason, ""
			t.Hold, t.NotBefore, t.Refusals = nil, 0, 0
			if t.Next != 0 {
				t.Version, t.Next = t.Next, 0
			}
			return nil
		case t.State.Terminal():
			return fmt.Errorf("task %v has ended", t.Key)
		}
		*t = *stopped(at, t, e.Reason)
		if t.Restart = e.Restart; e.Restart && e.Reason == ReasonTaskRestarted {
			t.Failures = 0
		}
		return nil
	})
}

func (s *State) requeueTask(at Time, e *TaskRequeued) error {
	return s.changeTask(at, e.Task, func(t *Task, j *Job) error {
		switch {
		case j.Stopping:
			return errors.New("the job is being stopped")
		case !t.State.CanBecome(TaskPending), e.Reason == ReasonHoldEnded && t.State != TaskReserved:
			return fmt.Errorf("task %v is %v and cannot wait again", t.Key, t.State)
		}
		old := t.State
		if t.Next != 0 {
			t.Version, t.Next = t.Next, 0
		}
		t.Ahead = t.Reason == ReasonPreempted || t.Ahead && old == TaskReserved
		t.State, t.Reason, t.Restart, t.NotBefore = TaskPending, e.Reason, false, e.NotBefore
		if e.Reason == ReasonLaunchRefused {
			t.Refusals++
			t.Message = e.Message
			s.noteLaunch(at, t, false)
		}
		if t.Hold != nil && old.Terminal() {
			t.State = TaskReserved
			return nil
		}
		t.Hold = nil
		return nil
	})
}

// ShouldRequeue reports whether the policy of the task's job, or the user, wants a task that has just ended to wait
// again. A lost run is nobody's fault and does not count against the job's failures.
func (t *Task) ShouldRequeue(j *Job) (Reason, bool) {
	switch {
	case j.Stopping || t.Copy != nil: // a copy is for once
		return "", false
	case t.Restart && t.State.Terminal():
		switch t.Reason {
		case ReasonHostLost, ReasonDrained, ReasonGangBroken, ReasonUpdated, ReasonNotHealthy: // not the user
			return t.Reason, true
		}
		return ReasonTaskRestarted, true
	case t.State == TaskKilled && t.Reason == ReasonPreempted && !j.SpecFor(t).Preemption.Kill:
		return ReasonPreempted, true
	case t.State == TaskLost:
		return ReasonRetry, true
	case t.State == TaskFailed && t.Failures <= j.Spec.MaxFailures:
		return ReasonRetry, true
	case j.Spec.Type.Service() && t.State.Terminal() && t.Reason != ReasonTaskStopped && t.Reason != ReasonPreempted:
		return ReasonRetry, true // also if somebody killed it who was not asked to
	default:
		return "", false
	}
}

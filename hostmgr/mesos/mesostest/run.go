package mesostest

import (
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Forever is a run time without end.
const Forever time.Duration = -1

// Behaviour is what a task does.
type Behaviour struct {
	Startup     time.Duration // from the launch to STARTING and RUNNING
	Runs        time.Duration // from then to its end; Forever: until it is killed
	ExitCode    int
	Signal      int           // that ends it, instead of an exit code; 0 = none
	IgnoresTerm bool          // only SIGKILL ends it
	TermTakes   time.Duration // from SIGTERM to its end
	LaunchFails bool          // its container cannot be started
	Checks      []CheckResult
}

// CheckResult is an update that a check or a health check causes.
type CheckResult struct {
	After   time.Duration // RUNNING
	Healthy *bool
	Status  *mesos.CheckStatusInfo
	Kill    bool // the executor kills the task after it
}

// Run is what became of a launch, for tests.
type Run struct {
	Framework, TaskID, AgentID, Hostname string
	Started                              time.Time       // of the process
	Ended                                time.Time       // zero while it runs
	State                                mesos.TaskState // RUNNING, how it ended, or LOST where nobody was left to tell
	Volumes                              []Volume        // that it or its executor has
}

// History is the runs of a Cluster, in the order of their starts.
type History []*Run

// Runs returns a copy of the history.
func (c *Cluster) Runs() []Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Run, len(c.history))
	for i, r := range c.history {
		out[i] = *r
	}
	return out
}

// run is a task on its agent.
type run struct {
	a             *agent
	framework, id string
	frameworkInfo mesos.FrameworkInfo
	info          mesos.TaskInfo
	role          string
	has           bag
	executor      *executor // of its group, nil for a command
	container     string
	does          Behaviour

	state   mesos.TaskState // the latest
	pending []mesos.TaskStatus
	last    *mesos.TaskStatus // that was acknowledged
	tries   int               // of the oldest pending one
	retry   timer
	healthy *bool
	check   *mesos.CheckStatusInfo
	killing bool
	grace   time.Duration
	reason  *mesos.TaskStatus_Reason // of its killing
	ended   bool
	step    timer // the next thing that happens by itself
	force   timer // SIGKILL
	checks  []*timer
	record  *Run
}

// executor runs a task group.
type executor struct {
	framework, id, container string
	has                      bag
	left                     int  // tasks whose end is not acknowledged
	unhealthy                bool // one of its tasks is: it says so of each from then on
}

func (r *run) executorID() string {
	if r.executor != nil {
		return r.executor.id
	}
	return r.id
}

// impossible tells why an agent cannot make the container of a task that a master takes, or its executor would abort.
func (r *run) impossible() string {
	if r.info.Check != nil && r.info.Container != nil && r.info.Container.GetType() == mesos.ContainerInfo_DOCKER {
		return ": Docker executor does not support checks yet"
	}
	for _, v := range r.info.Container.GetVolumes() {
		from := v.GetSource().GetSandboxPath()
		switch {
		case from == nil:
		case from.Type == mesos.Volume_Source_SandboxPath_PARENT && r.executor == nil:
			return ": SANDBOX_PATH volume PARENT type only works for nested container"
		case from.Type == mesos.Volume_Source_SandboxPath_SELF && !strings.HasPrefix(v.ContainerPath, "/"):
			return ": 'container_path' is relative for SANDBOX_PATH volume SELF type"
		}
	}
	return ""
}

// start is called when the launch has reached the agent.
func (r *run) start() {
	c := r.a.c
	r.state = mesos.TASK_STAGING
	if r.info.Check != nil {
		r.check = &mesos.CheckStatusInfo{Type: &r.info.Check.Type, Command: new(mesos.CheckStatusInfo_Command)}
	}
	c.after(&r.step, r.does.Startup, func() {
		if why := r.impossible(); why != "" || r.does.LaunchFails {
			r.launchFailed(why)
			return
		}
		r.record = &Run{
			Framework: r.framework, TaskID: r.id, AgentID: r.a.id, Hostname: r.a.spec.Hostname, Started: c.clock.Now(),
			State: mesos.TASK_RUNNING, Volumes: r.a.volumesIn(r.has),
		}
		if r.executor != nil {
			r.record.Volumes = append(r.record.Volumes, r.a.volumesIn(r.executor.has)...)
		}
		c.history = append(c.history, r.record)
		r.update(mesos.TASK_STARTING, nil)
		r.update(mesos.TASK_RUNNING, nil)
		if r.does.Runs >= 0 {
			c.after(&r.step, r.does.Runs, func() { r.end(r.does.ExitCode, r.does.Signal) })
		}
		for i := range r.does.Checks {
			t := new(timer)
			r.checks = append(r.checks, t)
			c.after(t, r.does.Checks[i].After, func() { r.checked(&r.does.Checks[i]) })
		}
		if limit := r.info.MaxCompletionTime; limit != nil {
			t := new(timer)
			r.checks = append(r.checks, t)
			c.after(t, time.Duration(limit.Nanoseconds), func() { r.killWithin(0, mesos.REASON_MAX_COMPLETION_TIME_REACHED.Enum()) })
		}
	})
}

// launchFailed is called when there will be no container. The agent of a command says so. The executor of a group says that each of its
// tasks is starting, before it asks the agent for a container, and gives no reason when it has got none.
func (r *run) launchFailed(why string) {
	message := text("Failed to launch container" + why)
	if r.executor != nil {
		r.update(mesos.TASK_STARTING, nil)
	}
	r.ended = true
	r.update(mesos.TASK_FAILED, func(s *mesos.TaskStatus) {
		s.Message = message
		if r.executor == nil {
			s.Source, s.Reason, s.ContainerStatus = mesos.SOURCE_AGENT.Enum(), mesos.REASON_CONTAINER_LAUNCH_FAILED.Enum(), nil
		}
	})
	r.endGroup()
}

// end is called when the process has ended.
func (r *run) end(code, signal int) {
	state := mesos.TASK_FINISHED
	switch {
	case r.reason != nil && *r.reason == mesos.REASON_MAX_COMPLETION_TIME_REACHED:
		state = mesos.TASK_FAILED
	case r.killing:
		state = mesos.TASK_KILLED
	case code != 0 || signal != 0:
		state = mesos.TASK_FAILED
	}
	r.ended = true
	r.stopProcess(state)
	r.update(state, func(s *mesos.TaskStatus) {
		s.Message = text(exit(code, signal))
		if r.executor != nil && r.executor.unhealthy {
			s.Healthy = new(bool)
		}
	})
	if state != mesos.TASK_FINISHED {
		r.endGroup()
	}
}

// endGroup ends the other tasks of a group, which lives and dies together. The executor gives them the default grace, whatever theirs is.
func (r *run) endGroup() {
	if r.executor == nil {
		return
	}
	for _, other := range r.a.sortedRuns() {
		if other.executor == r.executor && !other.ended {
			other.killWithin(defaultGrace, nil)
		}
	}
}

// stopProcess ends what happens by itself and closes the record.
func (r *run) stopProcess(state mesos.TaskState) {
	r.step.cancel()
	r.force.cancel()
	for _, t := range r.checks {
		t.cancel()
	}
	if r.record != nil && r.record.Ended.IsZero() {
		r.record.Ended, r.record.State = r.a.c.clock.Now(), state
	}
}

func (r *run) stopTimers() {
	r.step.cancel()
	r.force.cancel()
	r.retry.cancel()
	for _, t := range r.checks {
		t.cancel()
	}
}

// vanish ends a run of which nobody will hear.
func (r *run) vanish() {
	r.stopProcess(mesos.TASK_LOST)
	r.retry.cancel()
	r.ended = true
}

// defaultGrace is the grace period of tasks that have no kill policy.
const defaultGrace = 3 * time.Second

// kill ends the process: SIGTERM, and SIGKILL after the grace period. The task's own kill policy holds, or that of the
// call if the Cluster lets it.
func (r *run) kill(policy *mesos.KillPolicy) {
	grace := defaultGrace
	if p := r.info.KillPolicy; p != nil && p.GracePeriod != nil {
		grace = time.Duration(p.GracePeriod.Nanoseconds)
	}
	if policy.GracePeriod != nil && r.a.c.config.KillPolicyOverrides {
		grace = time.Duration(policy.GracePeriod.Nanoseconds)
	}
	r.killWithin(grace, nil)
}

func (r *run) killWithin(grace time.Duration, reason *mesos.TaskStatus_Reason) {
	c := r.a.c
	switch {
	case r.ended:
		return
	case r.record == nil:
		for _, other := range r.a.sortedRuns() { // none of a group is started
			if other == r || r.executor != nil && other.executor == r.executor && other.record == nil && !other.ended {
				other.neverDelivered()
			}
		}
		return
	case r.killing:
		if c.config.KillPolicyOverrides && grace < r.grace && r.does.IgnoresTerm {
			r.grace = grace
			c.after(&r.force, grace, func() { r.end(0, 9) })
		}
		return
	}
	r.killing, r.grace, r.reason = true, grace, reason
	if r.check != nil { // the checker stops, its last result is not kept
		r.check = &mesos.CheckStatusInfo{Type: r.check.Type, Command: new(mesos.CheckStatusInfo_Command)}
	}
	f := r.frameworkInfo
	for _, capability := range f.Capabilities {
		if capability.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE && reason == nil {
			r.update(mesos.TASK_KILLING, func(s *mesos.TaskStatus) { s.Healthy = nil })
			break
		}
	}
	if r.does.IgnoresTerm || r.does.TermTakes > grace {
		c.after(&r.force, grace, func() { r.end(0, 9) })
		return
	}
	c.after(&r.force, r.does.TermTakes, func() { r.end(0, 15) })
}

// neverDelivered ends a task that its executor has not got yet.
func (r *run) neverDelivered() {
	r.killing, r.ended = true, true
	r.stopProcess(mesos.TASK_KILLED)
	r.update(mesos.TASK_KILLED, func(s *mesos.TaskStatus) {
		s.Source, s.ExecutorID, s.ContainerStatus = mesos.SOURCE_AGENT.Enum(), nil, nil
		s.Message = text("Killed before delivery to the executor")
		if s.Reason == nil {
			s.Reason = mesos.REASON_TASK_KILLED_DURING_LAUNCH.Enum()
		}
	})
}

// checked reports the result of a check.
func (r *run) checked(result *CheckResult) {
	reason := mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED
	if result.Status != nil {
		reason, r.check = mesos.REASON_TASK_CHECK_STATUS_UPDATED, result.Status
	} else {
		r.healthy = result.Healthy
	}
	r.update(mesos.TASK_RUNNING, func(s *mesos.TaskStatus) { s.Reason = &reason })
	if result.Kill {
		if r.executor != nil {
			r.executor.unhealthy = true
		}
		r.kill(new(mesos.KillPolicy))
	}
}

// containerStatus describes the container; that of a task in a group has an address only while it runs.
func (r *run) containerStatus() *mesos.ContainerStatus {
	id := &mesos.ContainerID{Value: r.container}
	if r.executor != nil {
		id.Parent = &mesos.ContainerID{Value: r.executor.container}
		if r.state != mesos.TASK_RUNNING && r.state != mesos.TASK_KILLING {
			return &mesos.ContainerStatus{ContainerID: id}
		}
	}
	pid := uint32(1000)
	return &mesos.ContainerStatus{
		ContainerID: id,
		NetworkInfos: []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{
			{Protocol: mesos.IPv4.Enum(), IPAddress: text("127.0.0.1")},
		}}},
		ExecutorPID: &pid,
	}
}

// update records a status for delivery, changed by edit.
func (r *run) update(state mesos.TaskState, edit func(*mesos.TaskStatus)) {
	r.state = state
	s := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: r.id}, State: &state, Source: mesos.SOURCE_EXECUTOR.Enum(), Reason: r.reason,
		AgentID: &mesos.AgentID{Value: r.a.id}, ExecutorID: &mesos.ExecutorID{Value: r.executorID()},
		Timestamp: r.a.c.timestamp(), UUID: r.a.c.uuid(),
		Healthy: r.healthy, CheckStatus: r.check, ContainerStatus: r.containerStatus(),
	}
	if d := r.a.draining; d != nil && (state == mesos.TASK_KILLING || state == mesos.TASK_KILLED) {
		s.Reason = mesos.REASON_AGENT_DRAINING.Enum() // whoever has killed it, and however far it was
		if d.markGone && state == mesos.TASK_KILLED {
			r.state, s.State = mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_GONE_BY_OPERATOR.Enum()
		}
	}
	if edit != nil {
		edit(&s)
	}
	r.pending = append(r.pending, s)
	if len(r.pending) == 1 {
		r.deliver()
	}
}

// Times between attempts to deliver an update.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// deliver sends the oldest update that is not acknowledged, now and then again, each time after twice as long.
func (r *run) deliver() {
	if len(r.pending) == 0 {
		return
	}
	wait := min(lastRetry, firstRetry<<min(r.tries, 10))
	r.tries++
	r.a.c.after(&r.retry, wait, r.deliver)
	if r.a.heard() {
		r.a.c.m.statusUpdate(r, r.pending[0])
	}
}

// executorDone is called when the end of a task is acknowledged: with the last one its group's executor ends.
func (r *run) executorDone() {
	e := r.executor
	if e == nil {
		return
	}
	e.left--
	if e.left == 0 {
		r.a.endExecutor(e, 0)
	}
}

func (a *agent) endExecutor(e *executor, status int32) {
	key := runKey{e.framework, e.id}
	if a.executors[key] != e {
		return
	}
	delete(a.executors, key)
	a.give(e.has)
	if m := a.c.m; a.heard() && m.frameworks[e.framework] != nil {
		m.frameworks[e.framework].send(&scheduler.Event{
			Type: scheduler.Event_FAILURE,
			Failure: &scheduler.Event_Failure{
				AgentID: &mesos.AgentID{Value: a.id}, ExecutorID: &mesos.ExecutorID{Value: e.id}, Status: &status,
			},
		})
	}
}

// executorTerminated is called when the agent has ended the executor, and with it the process.
func (r *run) executorTerminated() {
	r.ended = true
	r.stopProcess(mesos.TASK_FAILED)
	r.update(mesos.TASK_FAILED, func(s *mesos.TaskStatus) {
		s.Source, s.Reason = mesos.SOURCE_AGENT.Enum(), mesos.REASON_EXECUTOR_TERMINATED.Enum()
		s.Message, s.ContainerStatus = text("Executor terminated"), nil
	})
}

// KillExecutor kills the executor of a task with SIGKILL; false if the task does not run.
func (c *Cluster) KillExecutor(taskID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		for _, r := range a.sortedRuns() {
			if r.id != taskID || r.ended {
				continue
			}
			e := r.executor
			if e == nil {
				r.executorTerminated()
				return true
			}
			a.endExecutor(e, 9)
			for _, other := range a.sortedRuns() {
				if other.executor == e && !other.ended {
					other.end(0, 9)
				}
			}
			return true
		}
	}
	return false
}

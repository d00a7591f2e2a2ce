package mesostest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// task is a task as the master knows it.
type task struct {
	a           *agent
	info        mesos.TaskInfo
	role        string
	has         bag
	released    bool            // its resources are free again
	state       mesos.TaskState // the latest that the agent told
	shown       *mesos.TaskStatus
	unreachable *time.Time
	killWanted  *mesos.KillPolicy // asked for while the agent was disconnected
}

func terminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_STAGING, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING, mesos.TASK_UNREACHABLE, mesos.TASK_UNKNOWN:
		return false
	}
	return true
}

func (t *task) done() bool { return terminal(t.state) }

func (t *task) release() {
	if !t.released {
		t.released = true
		t.a.give(t.has)
	}
}

func (f *framework) tasksOn(a *agent) []*task {
	var out []*task
	for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
		if t := f.tasks[id]; t.a == a {
			out = append(out, t)
		}
	}
	return out
}

// status is a status that the master makes up, without uuid.
func (m *master) status(id, agentID string, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) mesos.TaskStatus {
	s := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: id}, State: &state, Source: mesos.SOURCE_MASTER.Enum(), Reason: &reason,
		Message: text(message), Timestamp: m.c.timestamp(),
	}
	if agentID != "" {
		s.AgentID = &mesos.AgentID{Value: agentID}
	}
	return s
}

func (c *Cluster) timestamp() *float64 {
	seconds := float64(c.clock.Now().UnixMicro()) / 1e6
	return &seconds
}

// update sends a status to a framework.
func (m *master) update(f *framework, s mesos.TaskStatus) {
	m.c.faults.pass(f, &scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: s}})
}

// meet is called for each run of an agent that registers.
func (m *master) meet(a *agent, r *run) {
	if m.completed[r.framework] != nil {
		r.vanish()
		delete(a.runs, runKey{r.framework, r.id})
		return
	}
	f := m.frameworks[r.framework]
	if f == nil {
		f = m.recoverFramework(r)
	}
	t := f.tasks[r.id]
	if t == nil {
		t = &task{a: a, info: r.info, role: r.role, has: r.has, state: r.state}
		f.tasks[r.id] = t
		if len(r.pending) == 0 && r.last != nil { // what the framework has seen
			t.shown = r.last
		}
	}
	t.state = r.state
	t.released = r.ended
	if t.unreachable != nil { // also what has ended meanwhile, of which the agent tells more
		s := m.status(r.id, a.id, r.state, mesos.REASON_AGENT_REREGISTERED, "Unreachable agent re-reregistered")
		s.ContainerStatus = r.containerStatus()
		m.update(f, s)
	}
	t.unreachable = nil
	if t.killWanted != nil {
		r.kill(t.killWanted)
		t.killWanted = nil
	}
}

// recoverFramework makes a framework of what an agent knows of it. It is torn down unless it subscribes in time.
func (m *master) recoverFramework(r *run) *framework {
	f := &framework{
		m: m, id: r.framework, recovered: true, suppressed: make(map[string]bool),
		filters: make(map[filterKey][]filter), tasks: make(map[string]*task), operations: make(map[string]*operation),
	}
	f.setInfo(r.frameworkInfo)
	m.frameworks[f.id] = f
	wait := time.Duration(max(0, f.info.GetFailoverTimeout()) * float64(time.Second))
	m.c.after(&f.failover, wait, func() { m.remove(f) })
	return f
}

// statusUpdate takes a status from an agent: the oldest one of a task that is not acknowledged, and the latest state.
func (m *master) statusUpdate(r *run, s mesos.TaskStatus) {
	f := m.frameworks[r.framework]
	if f == nil || f.recovered {
		return
	}
	if t := f.tasks[r.id]; t != nil {
		t.state = r.state
		if t.done() {
			t.release()
		}
		if f.stream != nil {
			t.shown = &s
		}
	}
	m.update(f, s)
}

// acknowledge is the call of this name. What does not fit is ignored.
func (m *master) acknowledge(f *framework, call *scheduler.Call_Acknowledge) {
	a := m.c.byID[call.AgentID.Value]
	if a == nil || !a.heard() {
		return
	}
	key := runKey{f.id, call.TaskID.Value}
	r := a.runs[key]
	if r == nil || len(r.pending) == 0 || string(r.pending[0].UUID) != string(call.UUID) {
		return
	}
	r.last = &r.pending[0]
	r.pending = r.pending[1:]
	r.retry.cancel()
	r.tries = 0
	if terminal(r.last.GetState()) {
		delete(a.runs, key)
		delete(f.tasks, r.id)
		r.stopTimers()
		r.executorDone()
		m.drained(a)
		return
	}
	r.deliver()
}

// kill is the call of this name.
func (m *master) kill(f *framework, call *scheduler.Call_Kill) {
	t := f.tasks[call.TaskID.Value]
	if t == nil || t.unreachable != nil {
		m.answerReconcile(f, call.TaskID.Value, call.AgentID.GetValue())
		return
	}
	if on := call.AgentID; on != nil && on.Value != t.a.id {
		return // of which nobody is told
	}
	policy := call.KillPolicy
	if policy == nil {
		policy = new(mesos.KillPolicy)
	}
	if !t.a.connected {
		t.killWanted = policy
		return
	}
	if !t.a.heard() {
		return // cut off, which the master does not know yet
	}
	if r := t.a.runs[runKey{f.id, call.TaskID.Value}]; r != nil {
		r.kill(policy)
	}
}

// executorGrace is how long an executor that is shut down has before its agent ends it.
const executorGrace = 5 * time.Second

// shutdown is the call of this name: it ends an executor and its tasks. That of a command gives the command less than it has itself, whatever
// grace that had before; that of a group leaves to its agent whom it ends already.
func (m *master) shutdown(f *framework, call *scheduler.Call_Shutdown) {
	a := m.c.byID[call.AgentID.Value]
	if a == nil || !a.heard() {
		return
	}
	for _, r := range a.sortedRuns() {
		if r.framework != f.id || r.executorID() != call.ExecutorID.Value {
			continue
		}
		r.kill(new(mesos.KillPolicy))
		switch {
		case r.ended || !r.does.IgnoresTerm && r.does.TermTakes < executorGrace:
		case r.executor == nil:
			a.c.after(&r.force, executorGrace-2*time.Second, func() { r.end(0, 9) })
		default:
			a.c.after(&r.force, executorGrace, r.executorTerminated)
		}
	}
}

// reconcile is the call of this name: for the tasks named, or else for all.
func (m *master) reconcile(f *framework, call *scheduler.Call_Reconcile) {
	if len(call.Tasks) == 0 {
		for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
			if f.tasks[id].unreachable == nil {
				m.answerReconcile(f, id, "")
			}
		}
		return
	}
	for _, t := range call.Tasks {
		m.answerReconcile(f, t.TaskID.Value, t.AgentID.GetValue())
	}
}

// answerReconcile tells a framework how one of its tasks is. There is no answer while the task's agent may still come
// back to a new leader.
func (m *master) answerReconcile(f *framework, id, agentID string) {
	const reason = mesos.REASON_RECONCILIATION
	old := !f.can[mesos.FrameworkInfo_Capability_PARTITION_AWARE]
	say := func(state mesos.TaskState, message string) *mesos.TaskStatus {
		if old && state != mesos.TASK_RUNNING {
			state = mesos.TASK_LOST
		}
		s := m.status(id, agentID, state, reason, "Reconciliation: "+message)
		return &s
	}
	a := m.c.byID[agentID]
	t := f.tasks[id]
	if t != nil && agentID == "" {
		agentID = t.a.id
	}
	lost, unreachable := m.c.reg.unreachable[agentID]
	var s *mesos.TaskStatus
	switch {
	case t != nil && t.unreachable != nil:
		s = say(mesos.TASK_UNREACHABLE, "Task is unreachable")
		s.UnreachableTime = &mesos.TimeInfo{Nanoseconds: t.unreachable.UnixNano()}
	case t != nil:
		state := t.state
		if t.shown != nil {
			state = t.shown.GetState()
		}
		x := m.status(id, t.a.id, state, reason, "Reconciliation: Latest task state")
		s = &x
		if r := t.a.runs[runKey{f.id, id}]; r != nil && t.shown != nil {
			s.ContainerStatus = r.containerStatus()
			s.Healthy, s.CheckStatus = t.shown.Healthy, t.shown.CheckStatus
		}
	case agentID == "" && len(m.waiting) > 0, m.waiting[agentID]:
		return
	case a != nil && a.registered:
		s = say(mesos.TASK_GONE, "Task is unknown to the agent")
	case unreachable:
		s = say(mesos.TASK_UNREACHABLE, "Task is unreachable")
		s.UnreachableTime = &mesos.TimeInfo{Nanoseconds: lost.UnixNano()}
	case m.c.reg.gone[agentID]:
		s = say(mesos.TASK_GONE_BY_OPERATOR, "Task is gone")
	default:
		s = say(mesos.TASK_UNKNOWN, "Task is unknown")
	}
	m.update(f, *s)
}

// exit is what the message of a status says about how a process ended.
func exit(code, signal int) string {
	switch signal {
	case 0:
		return fmt.Sprintf("Command exited with status %d", code)
	case 9:
		return "Command terminated with signal Killed"
	case 15:
		return "Command terminated with signal Terminated"
	}
	return fmt.Sprintf("Command terminated with signal %d", signal)
}

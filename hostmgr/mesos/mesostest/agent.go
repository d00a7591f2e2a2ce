package mesostest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// AgentSpec says what an agent is.
type AgentSpec struct {
	Hostname   string // unique among those that are there
	Port       int32  // default 5051
	Attributes map[string]string
	Resources  []mesos.Resource
}

func (s *AgentSpec) attributes() []mesos.Attribute {
	out := make([]mesos.Attribute, 0, len(s.Attributes))
	for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
		out = append(out, mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: s.Attributes[name]}})
	}
	return out
}

// agent is an agent: what it is and runs, and what the leading master thinks of it.
type agent struct {
	c     *Cluster
	id    string
	spec  AgentSpec
	total bag            // as RESERVE and CREATE have left it
	made  map[string]int // which volume of all that were made each one is, by its kind's key

	stopped   bool // its process is dead; what it runs goes on
	cut       bool // nothing comes through, and nobody notices
	left      bool // for good: it unregistered, is gone, or came back as another
	runs      map[runKey]*run
	executors map[runKey]*executor // of task groups
	returning timer

	// The leading master's view.
	registered  bool // it may be disconnected, but it is not given up
	connected   bool
	registeredT time.Time
	free        bag
	silence     timer // until it is unreachable
	deactivated bool
	draining    *drain
}

// runKey names a task or an executor of a framework.
type runKey struct{ framework, id string }

func (k runKey) compare(other runKey) int {
	return cmp.Or(cmp.Compare(k.framework, other.framework), cmp.Compare(k.id, other.id))
}

// AddAgent adds an agent, which registers at once, and returns its id.
func (c *Cluster) AddAgent(spec AgentSpec) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.newAgent(spec)
	a.register()
	return a.id
}

// AddAgents adds many; offers are made after the last one.
func (c *Cluster) AddAgents(specs []AgentSpec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, spec := range specs {
		a := c.newAgent(spec)
		if c.m != nil {
			a.enter()
		}
	}
	if c.m != nil {
		c.m.allocate()
	}
}

func (c *Cluster) newAgent(spec AgentSpec) *agent {
	spec.Port = cmp.Or(spec.Port, 5051)
	spec.Attributes = maps.Clone(spec.Attributes)
	a := &agent{
		c: c, id: fmt.Sprintf("%s-S%d", c.firstID, c.serial), spec: spec, total: bagOf(spec.Resources),
		runs: make(map[runKey]*run), executors: make(map[runKey]*executor), made: make(map[string]int),
	}
	c.serial++
	c.agents = append(c.agents, a)
	c.byID[a.id] = a
	return a
}

// at returns the agent of a hostname that came last.
func (c *Cluster) at(hostname string) *agent {
	for _, a := range slices.Backward(c.agents) {
		if a.spec.Hostname == hostname {
			return a
		}
	}
	panic("mesostest: no agent on " + hostname)
}

// AgentID returns the id of the agent that came last on a host.
func (c *Cluster) AgentID(hostname string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(hostname).id
}

// StopAgent kills the agent's process: the master sees the connection break, and gives the agent up after AgentTimeout.
// What runs there runs on.
func (c *Cluster) StopAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	a.stopped = true
	a.returning.cancel()
	if c.m != nil {
		c.m.agentDisconnected(a)
	}
}

// CutAgent cuts the agent off: nothing comes through in either direction, and the master notices after AgentTimeout.
func (c *Cluster) CutAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	a.cut = true
	a.returning.cancel()
	if c.m != nil && a.registered {
		c.after(&a.silence, c.config.AgentTimeout, func() { c.m.agentUnreachable(a) })
	}
}

// ReturnAgent ends what StopAgent or CutAgent did: the agent comes back after ReregisterAfter.
func (c *Cluster) ReturnAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	a.stopped, a.cut = false, false
	a.comeBack(c.config.ReregisterAfter)
}

// CrashHost ends all that runs on a host, the agent too, without a word. RebootHost brings a new agent.
func (c *Cluster) CrashHost(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	for _, r := range a.sortedRuns() {
		r.vanish()
	}
	a.runs, a.executors = make(map[runKey]*run), make(map[runKey]*executor)
	a.stopped, a.left = true, true
	a.returning.cancel()
	if c.m != nil {
		c.m.agentDisconnected(a)
	}
}

// RebootHost adds an agent with a new id on a host that has crashed.
func (c *Cluster) RebootHost(hostname string) {
	c.mu.Lock()
	spec := c.at(hostname).spec
	c.mu.Unlock()
	c.AddAgent(spec)
}

// RenewAgent is RebootHost where the disk is kept: what the old agent had reserved and its volumes are the new one's.
func (c *Cluster) RenewAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.at(hostname)
	a := c.newAgent(old.spec)
	a.total, a.made = old.total, old.made
	a.register()
}

// Volume is a persistent volume of an agent.
type Volume struct {
	Role, ID string
	Made     int // counts the volumes of the cluster as they are made: one that is made again is another
}

// Volumes lists those of the agent that came last on a host.
func (c *Cluster) Volumes(hostname string) []Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	return a.volumesIn(a.total)
}

func (a *agent) volumesIn(b bag) (all []Volume) {
	for _, p := range b {
		if id := p.kind.Disk.GetPersistence().GetID(); id != "" {
			all = append(all, Volume{Role: p.reservedFor(), ID: id, Made: a.made[p.key]})
		}
	}
	return all
}

// UnregisterAgent makes the agent leave for good, as an operator does with SIGUSR1: what it runs is killed.
func (c *Cluster) UnregisterAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.at(hostname)
	if c.m != nil {
		c.m.agentRemoved(a, fmt.Sprintf("Agent %s removed: the agent unregistered", hostname))
	}
	a.leave()
}

// leave ends the agent and all it runs.
func (a *agent) leave() {
	for _, r := range a.sortedRuns() {
		r.vanish()
	}
	a.left = true
	a.runs, a.executors = make(map[runKey]*run), make(map[runKey]*executor)
	a.returning.cancel()
}

func (a *agent) reaches() bool { return !a.stopped && !a.cut && !a.left }

// heard tells whether a message between the agent and the leading master arrives.
func (a *agent) heard() bool { return a.reaches() && a.registered && a.connected && a.c.m != nil }

func (a *agent) offerable() bool { return a.registered && a.connected && !a.deactivated }

func (a *agent) stop() {
	a.returning.cancel()
	a.silence.cancel()
	for _, r := range a.runs {
		r.stopTimers()
	}
}

// forgetMaster clears the view of a master that does not lead any more.
func (a *agent) forgetMaster() {
	a.registered, a.connected = false, false
	a.silence.cancel()
	a.returning.cancel()
}

func (a *agent) comeBack(after time.Duration) {
	a.c.after(&a.returning, after, a.register)
}

// register makes the agent known to the leading master, again or for the first time. A disconnected agent at the same
// address is removed.
func (a *agent) register() {
	m := a.c.m
	if m == nil || !a.reaches() {
		return
	}
	if a.c.reg.gone[a.id] {
		a.leave()
		return
	}
	for _, other := range a.c.agents {
		if other != a && other.registered && !other.connected && other.spec.Hostname == a.spec.Hostname && other.spec.Port == a.spec.Port {
			m.agentRemoved(other, fmt.Sprintf("Agent %s removed: a new agent registered at the same address", a.spec.Hostname))
		}
	}
	a.enter()
	m.allocate()
}

// enter is register without the offers.
func (a *agent) enter() {
	m := a.c.m
	first := !a.registered // with this master
	if first {
		a.registeredT = a.c.clock.Now()
	}
	_, wasLost := a.c.reg.unreachable[a.id]
	delete(a.c.reg.unreachable, a.id)
	delete(m.waiting, a.id)
	a.silence.cancel()
	a.registered, a.connected = true, true
	for _, r := range a.sortedRuns() {
		m.meet(a, r)
	}
	for _, f := range m.sortedFrameworks() {
		for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
			t := f.tasks[id]
			if t.a != a || a.runs[runKey{f.id, id}] != nil {
				continue
			}
			if wasLost {
				delete(f.tasks, id)
				continue
			}
			a.deny(f, t)
		}
	}
	a.recount()
	for _, r := range a.sortedRuns() {
		r.deliver()
	}
}

// recount works out what is free from what the master knows to be used.
func (a *agent) recount() {
	m := a.c.m
	a.free = a.total
	for _, f := range m.frameworks {
		for _, t := range f.tasks {
			if t.a == a && !t.released {
				a.free = a.free.sub(t.has)
			}
		}
	}
	for _, e := range a.executors {
		a.free = a.free.sub(e.has)
	}
	for _, o := range m.offers {
		if o.a == a {
			a.free = a.free.sub(o.has)
		}
	}
}

// give makes resources free again, of the kinds that the agent has: a task may have had its volume mounted in another way.
func (a *agent) give(b bag) {
	b = slices.Clone(b)
	for i := range b {
		if k := a.total.index(b[i].key); k >= 0 {
			b[i].kind = a.total[k].kind
		}
	}
	a.free = a.free.add(b)
}
func (a *agent) take(b bag) { a.free = a.free.sub(b) }

func (a *agent) sortedRuns() []*run {
	keys := slices.SortedFunc(maps.Keys(a.runs), runKey.compare)
	out := make([]*run, len(keys))
	for i, key := range keys {
		out[i] = a.runs[key]
	}
	return out
}

// frameworkIsBack sends what a framework has not acknowledged again.
func (a *agent) frameworkIsBack(framework string) {
	if len(a.runs) == 0 {
		return
	}
	for _, r := range a.sortedRuns() {
		if r.framework == framework {
			r.deliver()
		}
	}
}

// shutdownFramework ends what a framework runs here, if the agent hears of it.
func (a *agent) shutdownFramework(framework string) {
	if !a.heard() {
		return
	}
	for _, r := range a.sortedRuns() {
		if r.framework == framework {
			r.vanish()
			delete(a.runs, runKey{framework, r.id})
		}
	}
	for key, e := range a.executors {
		if key.framework == framework {
			a.give(e.has)
			delete(a.executors, key)
		}
	}
}

// deny is what an agent says about a task of which only the master knows: its launch was lost.
func (a *agent) deny(f *framework, t *task) {
	state := mesos.TASK_LOST
	if f.can[mesos.FrameworkInfo_Capability_PARTITION_AWARE] {
		state = mesos.TASK_DROPPED
	}
	r := &run{a: a, framework: f.id, id: t.info.TaskID.Value, frameworkInfo: f.info, info: t.info, ended: true}
	a.runs[runKey{f.id, r.id}] = r
	r.update(state, func(s *mesos.TaskStatus) {
		s.Source = mesos.SOURCE_AGENT.Enum()
		s.Reason = mesos.REASON_RECONCILIATION.Enum()
		s.Message = text("Reconciliation: task unknown to the agent")
		s.ExecutorID, s.ContainerStatus = nil, nil
	})
}

// agentDisconnected is called when the master sees the agent's connection break.
func (m *master) agentDisconnected(a *agent) {
	if !a.registered || !a.connected {
		return
	}
	a.connected = false
	m.takeOffersBack(func(o *offer) bool { return o.a == a }, true)
	m.takeInverseBack(func(o *inverseOffer) bool { return o.a == a }, true)
	m.c.after(&a.silence, m.c.config.AgentTimeout, func() { m.agentUnreachable(a) })
}

// agentUnreachable is called when an agent has not answered for long.
func (m *master) agentUnreachable(a *agent) {
	since := m.c.clock.Now()
	m.c.reg.unreachable[a.id] = since
	delete(m.waiting, a.id)
	for _, f := range m.sortedFrameworks() {
		for _, t := range f.tasksOn(a) {
			state := mesos.TASK_LOST
			if f.can[mesos.FrameworkInfo_Capability_PARTITION_AWARE] {
				state = mesos.TASK_UNREACHABLE
			}
			t.release()
			t.unreachable = &since
			s := m.status(t.info.TaskID.Value, a.id, state, mesos.REASON_AGENT_REMOVED, "health check timed out")
			s.UnreachableTime = &mesos.TimeInfo{Nanoseconds: since.UnixNano()}
			m.update(f, s)
		}
	}
	m.forgetAgent(a)
}

// agentRemoved is called when an agent goes for good.
func (m *master) agentRemoved(a *agent, message string) {
	m.endTasks(a, mesos.TASK_LOST, mesos.REASON_AGENT_REMOVED, message)
	m.forgetAgent(a)
}

// endTasks tells that the tasks of an agent are no more.
func (m *master) endTasks(a *agent, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	for _, f := range m.sortedFrameworks() {
		for _, t := range f.tasksOn(a) {
			if !t.done() {
				m.update(f, m.status(t.info.TaskID.Value, a.id, state, reason, message))
			}
			t.release()
			delete(f.tasks, t.info.TaskID.Value)
		}
	}
}

// forgetAgent takes an agent's offers back and tells the frameworks that it is gone.
func (m *master) forgetAgent(a *agent) {
	m.takeOffersBack(func(o *offer) bool { return o.a == a }, true)
	m.takeInverseBack(func(o *inverseOffer) bool { return o.a == a }, true)
	a.registered, a.connected = false, false
	a.silence.cancel()
	for _, f := range m.sortedFrameworks() {
		f.send(&scheduler.Event{
			Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: a.id}},
		})
	}
}

// giveUpWaiting makes agents unreachable that did not find the new leader.
func (m *master) giveUpWaiting() {
	for _, a := range m.c.agents {
		if m.waiting[a.id] {
			m.agentUnreachable(a)
		}
	}
}

func (a *agent) url() *mesos.URL {
	return &mesos.URL{
		Scheme:  "http",
		Address: mesos.Address{Hostname: text(a.spec.Hostname), IP: text("127.0.0.1"), Port: a.spec.Port},
		Path:    text("/slave(1)"),
	}
}

func text(s string) *string { return &s }

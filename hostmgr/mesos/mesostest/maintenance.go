package mesostest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// window is a part of the maintenance schedule.
type window struct {
	hosts []string
	when  mesos.Unavailability
}

// inverseOffer asks a framework to leave an agent.
type inverseOffer struct {
	id     string
	serial int
	f      *framework
	a      *agent
	when   mesos.Unavailability

	timeout timer
}

// inverseAnswer is what a framework said to the last inverse offer for an agent.
type inverseAnswer struct {
	status string // ACCEPT or DECLINE
	at     time.Time
	until  time.Time // when it is asked again
}

// unavailability returns when an agent's machine is due for maintenance, nil if it is not.
func (a *agent) unavailability() *mesos.Unavailability {
	for _, w := range a.c.reg.windows {
		if slices.Contains(w.hosts, a.spec.Hostname) {
			when := w.when
			return &when
		}
	}
	return nil
}

// Maintain puts hosts on the maintenance schedule, in place of what was there. All offers are rescinded and made again;
// frameworks with tasks on the hosts, or offers of them, get inverse offers.
func (c *Cluster) Maintain(start time.Time, duration time.Duration, hostnames ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var windows []window
	if len(hostnames) > 0 {
		windows = []window{{hostnames, mesos.Unavailability{
			Start:    mesos.TimeInfo{Nanoseconds: start.UnixNano()},
			Duration: &mesos.DurationInfo{Nanoseconds: int64(duration)},
		}}}
	}
	c.schedule(windows)
}

func (c *Cluster) schedule(windows []window) {
	c.reg.windows = windows
	for host, mode := range c.reg.machines {
		if mode == "DRAINING" {
			delete(c.reg.machines, host)
		}
	}
	for _, w := range windows {
		for _, host := range w.hosts {
			if c.reg.machines[host] == "" {
				c.reg.machines[host] = "DRAINING"
			}
		}
	}
	m := c.m
	if m == nil {
		return
	}
	m.takeOffersBack(func(*offer) bool { return true }, true)
	m.takeInverseBack(func(*inverseOffer) bool { return true }, true)
	for _, f := range m.frameworks {
		f.answers = nil
	}
	m.allocate()
}

// offerInverse sends inverse offers to frameworks with tasks or offers of agents that are due for maintenance, one at a time.
func (m *master) offerInverse() {
	if len(m.c.reg.windows) == 0 {
		return
	}
	made := make(map[*framework][]mesos.InverseOffer)
	for _, a := range m.c.agents {
		when := a.unavailability()
		if when == nil || !a.offerable() {
			continue
		}
		for _, f := range m.sortedFrameworks() {
			if f.stream == nil || !m.concerned(f, a) || m.asked(f, a) {
				continue
			}
			o := &inverseOffer{id: m.nextOfferID(), serial: m.offerSerial, f: f, a: a, when: *when}
			m.inverse[o.id] = o
			if limit := m.c.config.OfferTimeout; limit > 0 {
				m.c.after(&o.timeout, limit, func() { m.takeInverseBack(func(x *inverseOffer) bool { return x == o }, true) })
			}
			made[f] = append(made[f], mesos.InverseOffer{
				OfferID: mesos.OfferID{Value: o.id}, URL: a.url(), FrameworkID: mesos.FrameworkID{Value: f.id},
				AgentID: &mesos.AgentID{Value: a.id}, Unavailability: o.when,
			})
		}
	}
	for _, f := range m.sortedFrameworks() {
		if offers := made[f]; len(offers) > 0 {
			f.send(&scheduler.Event{
				Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: offers},
			})
		}
	}
}

// concerned tells whether a framework has anything of an agent.
func (m *master) concerned(f *framework, a *agent) bool {
	if slices.ContainsFunc(f.tasksOn(a), func(t *task) bool { return !t.released }) {
		return true
	}
	for _, o := range m.offers {
		if o.f == f && o.a == a {
			return true
		}
	}
	return false
}

// asked tells whether a framework need not be asked now to leave an agent.
func (m *master) asked(f *framework, a *agent) bool {
	if said, ok := f.answers[a.id]; ok && m.c.clock.Now().Before(said.until) {
		return true
	}
	for _, o := range m.inverse {
		if o.f == f && o.a == a {
			return true
		}
	}
	return false
}

// answerInverse is ACCEPT_INVERSE_OFFERS or DECLINE_INVERSE_OFFERS.
func (m *master) answerInverse(f *framework, ids []mesos.OfferID, filters *mesos.Filters, status string) {
	for _, id := range ids {
		o := m.inverse[id.Value]
		if o == nil || o.f != f {
			continue
		}
		o.timeout.cancel()
		delete(m.inverse, o.id)
		if f.answers == nil {
			f.answers = make(map[string]inverseAnswer)
		}
		now := m.c.clock.Now()
		f.answers[o.a.id] = inverseAnswer{status, now, now.Add(refuseFor(filters))}
	}
}

// takeInverseBack makes inverse offers invalid.
func (m *master) takeInverseBack(which func(*inverseOffer) bool, rescind bool) {
	var out []*inverseOffer
	for _, o := range m.inverse {
		if which(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(x, y *inverseOffer) int { return x.serial - y.serial })
	for _, o := range out {
		o.timeout.cancel()
		delete(m.inverse, o.id)
		if rescind {
			o.f.send(&scheduler.Event{
				Type:                scheduler.Event_RESCIND_INVERSE_OFFER,
				RescindInverseOffer: &scheduler.Event_RescindInverseOffer{InverseOfferID: mesos.OfferID{Value: o.id}},
			})
		}
	}
}

// MachineDown takes a host that is on the maintenance schedule down: its agent is removed.
func (c *Cluster) MachineDown(hostname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reg.machines[hostname] != "DRAINING" {
		return answer(http.StatusBadRequest, "Machine '%s' is not in DRAINING mode and cannot be brought down", hostname)
	}
	c.reg.machines[hostname] = "DOWN"
	for _, a := range c.agents {
		if a.spec.Hostname != hostname || a.left {
			continue
		}
		if c.m != nil {
			c.m.agentRemoved(a, fmt.Sprintf("Agent %s removed: Operator initiated 'Machine DOWN'", hostname))
		}
		a.leave()
	}
	return nil
}

// MachineUp ends a host's maintenance. Its agent starts as a new one with AddAgent.
func (c *Cluster) MachineUp(hostname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reg.machines[hostname] != "DOWN" {
		return answer(http.StatusBadRequest, "Machine '%s' is not in DOWN mode and cannot be brought up", hostname)
	}
	delete(c.reg.machines, hostname)
	for i := range c.reg.windows {
		c.reg.windows[i].hosts = slices.DeleteFunc(slices.Clone(c.reg.windows[i].hosts), func(h string) bool { return h == hostname })
	}
	return nil
}

// drain is what an operator's DRAIN_AGENT has begun.
type drain struct {
	grace    time.Duration
	started  time.Time
	markGone bool
}

// DrainAgent stops offers of an agent and kills its tasks within a grace period, as an operator may ask.
func (c *Cluster) DrainAgent(hostname string, grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainAgent(c.at(hostname), grace, false)
}

// DrainAgentForGood is DrainAgent, and marks the agent as gone when nothing is left there.
func (c *Cluster) DrainAgentForGood(hostname string, grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainAgent(c.at(hostname), grace, true)
}

func (c *Cluster) drainAgent(a *agent, grace time.Duration, markGone bool) {
	a.draining = &drain{grace, c.clock.Now(), markGone}
	a.deactivated = true
	if c.m == nil {
		return
	}
	c.m.takeOffersBack(func(o *offer) bool { return o.a == a }, true)
	if !a.heard() {
		return
	}
	for _, r := range a.sortedRuns() {
		r.killWithin(grace, nil)
	}
	c.m.drained(a)
}

// drained marks an agent as gone that is drained for good, when the end of the last task there has been acknowledged.
func (m *master) drained(a *agent) {
	left := slices.ContainsFunc(m.sortedFrameworks(), func(f *framework) bool { return len(f.tasksOn(a)) > 0 })
	if d := a.draining; d != nil && d.markGone && !left && !m.c.reg.gone[a.id] {
		m.c.markGone(a)
	}
}

// ReactivateAgent ends a drain.
func (c *Cluster) ReactivateAgent(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reactivate(c.at(hostname))
}

func (c *Cluster) reactivate(a *agent) {
	a.draining, a.deactivated = nil, false
}

// MarkAgentGone tells that an agent will never come back, as an operator may.
func (c *Cluster) MarkAgentGone(hostname string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.markGone(c.at(hostname))
}

func (c *Cluster) markGone(a *agent) {
	c.reg.gone[a.id] = true
	delete(c.reg.unreachable, a.id)
	if c.m != nil {
		delete(c.m.waiting, a.id)
		c.m.endTasks(a, mesos.TASK_GONE_BY_OPERATOR, mesos.REASON_AGENT_REMOVED_BY_OPERATOR, "Agent has been marked gone")
		c.m.forgetAgent(a)
	}
	if a.reaches() {
		a.leave()
	}
}

// statuses lists what frameworks said about a host's maintenance.
func (m *master) statuses(hostname string) []any {
	out := []any{}
	for _, f := range m.sortedFrameworks() {
		for _, id := range slices.Sorted(maps.Keys(f.answers)) {
			if a := m.c.byID[id]; a.spec.Hostname == hostname {
				out = append(out, map[string]any{
					"framework_id": map[string]any{"value": f.id}, "status": f.answers[id].status,
					"timestamp": map[string]any{"nanoseconds": f.answers[id].at.UnixNano()},
				})
			}
		}
	}
	return out
}

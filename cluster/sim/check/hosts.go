package check

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// whole is one device, in thousandths.
const whole = 1000

// host is a machine with what is bound to it.
type host struct {
	id                    cluster.HostID
	machine               cluster.Machine
	draining, unreachable bool

	used    [cluster.NumDimensions]int64
	named   map[string]int64
	devices []int64                    // thousandths used, by index
	ports   map[uint16]cluster.TaskKey // taken, by whom
	tasks   int
	holds   map[cluster.TaskKey]*reserved // room that is kept, by the task that it is kept for
	going   goods                         // of what is used: by tasks that were told to end

	lent     [cluster.NumDimensions]int64 // by revocable tasks; not in used
	recalled [cluster.NumDimensions]int64 // of lent: by tasks that were told to end
	slack    [cluster.NumDimensions]int64 // that the others leave unused, as measured
}

func (c *Checker) reportHost(e *cluster.HostReported) {
	machine := e.Machine
	if c.truth != nil {
		real, ok := c.truth[e.ID]
		if !ok {
			c.report(Life, "host %q is reported and there is no such machine", e.ID)
			return
		}
		machine = real
	}
	h := c.hosts[e.ID]
	if h == nil {
		h = &host{
			id: e.ID, named: map[string]int64{}, ports: map[uint16]cluster.TaskKey{}, holds: map[cluster.TaskKey]*reserved{},
		}
		c.hosts[e.ID] = h
	}
	h.machine, h.unreachable = machine, false
	for len(h.devices) < len(machine.GPUs) {
		h.devices = append(h.devices, 0)
	}
}

func (c *Checker) withHost(id cluster.HostID, change func(*host)) {
	if h := c.hosts[id]; h != nil {
		change(h)
		return
	}
	c.report(Life, "an event about host %q, which does not exist", id)
}

func (c *Checker) removeHost(id cluster.HostID) {
	c.withHost(id, func(h *host) {
		if h.tasks > 0 {
			c.report(Life, "host %q is removed with %d tasks on it", id, h.tasks)
		}
		for k := range h.holds { // each for itself: the order does not matter
			t := c.task(k)
			if t.hold = nil; t.state == held {
				c.waitsOn(k, t)
			}
		}
		delete(c.hosts, id)
		for _, j := range c.jobs { // each for itself
			for k, t := range j.all {
				if t.home == id && !t.gone {
					c.leave(k)
				}
			}
		}
	})
}

// take adds a task to what is bound to the host, with sign −1 the reverse.
func (h *host) take(job *cluster.JobSpec, k cluster.TaskKey, t *task, sign int64) {
	s := job.TaskOf(k.Instance())
	h.tasks += int(sign)
	for d, v := range s.Resources.Fixed {
		if job.Revocable {
			h.lent[d] += sign * v
			continue
		}
		h.used[d] += sign * v
		if sign < 0 { // what it left unused is no more
			h.slack[d] = max(0, h.slack[d]-v)
		}
	}
	for _, a := range s.Resources.Named {
		h.named[a.Name] += sign * a.Value
	}
	for _, p := range t.ports {
		if sign > 0 {
			h.ports[p] = k
		} else if h.ports[p] == k {
			delete(h.ports, p)
		}
	}
	for _, i := range t.devices {
		if int(i) < len(h.devices) {
			h.devices[i] += sign * each(&s.GPU)
		}
	}
}

// judge holds a placement to everything that it must respect. The task is not bound yet.
func (c *Checker) judge(s *cluster.JobSpec, h *host, e *cluster.Placed) {
	if h.unreachable || h.draining {
		c.report(TakesWork, "task %v is placed on %q, which is unreachable (%t) or draining (%t)", e.Task, h.id, h.unreachable, h.draining)
	}
	c.judgePlace(s, h, e)
	task := s.TaskOf(e.Task.Instance())
	if !s.Revocable {
		c.keepsAway(task, h, e)
	}
	if s.Revocable {
		c.judgeLoan(task, h, e)
	} else if what, lacks := h.lacks(task, &goods{}); lacks {
		c.report(Capacity, "task %v is placed on %q, which has too little %s left: the machine has %s, others use %s, the task wants %s",
			e.Task, h.id, what, h.amounts(what, "has"), h.amounts(what, "used"), wants(task, what))
	}
	if missing := s.NeedsFor(task) &^ h.machine.Capabilities; missing != 0 {
		c.report(Capability, "task %v is placed on %q, which cannot do %v", e.Task, h.id, missing)
	}
	c.judgeDevices(&task.GPU, h, e)
	c.judgePorts(&task.Ports, h, e)
}

func (c *Checker) judgePorts(want *cluster.PortRequest, h *host, e *cluster.Placed) {
	if asked := len(want.Numbers) + int(want.Dynamic); len(e.Ports) != asked {
		c.report(Ports, "task %v has %d ports and asked for %d", e.Task, len(e.Ports), asked)
		return
	}
	seen := map[uint16]bool{}
	for i, p := range e.Ports {
		other, taken := h.ports[p]
		switch {
		case i < len(want.Numbers) && p != want.Numbers[i]:
			c.report(Ports, "task %v has port %d of %q and asked for %d", e.Task, p, h.id, want.Numbers[i])
		case seen[p]:
			c.report(Ports, "task %v has port %d of %q twice", e.Task, p, h.id)
		case taken:
			c.report(Ports, "task %v has port %d of %q, which task %v has", e.Task, p, h.id, other)
		case !h.offers(p):
			c.report(Ports, "task %v has port %d of %q, which gives no such port", e.Task, p, h.id)
		}
		seen[p] = true
	}
}

func (h *host) offers(port uint16) bool {
	return slices.ContainsFunc(h.machine.Ports, func(r cluster.PortRange) bool { return r.First <= port && port <= r.Last })
}

func (c *Checker) judgeDevices(want *cluster.GPURequest, h *host, e *cluster.Placed) {
	number, part := int(want.Count), each(want)
	if want.Milli > 0 {
		number = 1
	}
	if len(e.GPUs) != number {
		c.report(Devices, "task %v has %d devices and asked for %d", e.Task, len(e.GPUs), number)
	}
	seen := map[uint16]bool{}
	for _, i := range e.GPUs {
		switch {
		case int(i) >= len(h.machine.GPUs):
			c.report(Devices, "task %v has device %d of %q, which has %d", e.Task, i, h.id, len(h.machine.GPUs))
			continue
		case seen[i]:
			c.report(Devices, "task %v has device %d of %q twice", e.Task, i, h.id)
		case !accepts(want.Models, h.machine.GPUs[i].Model):
			c.report(Devices, "task %v has device %d of %q, a %q, and asked for %q", e.Task, i, h.id, h.machine.GPUs[i].Model, want.Models)
		case h.devices[i]+part > whole:
			c.report(Devices, "task %v has %d thousandths of device %d of %q, of which others use %d", e.Task, part, i, h.id, h.devices[i])
		}
		seen[i] = true
	}
}

// each returns the thousandths that a run takes of each of its devices.
func each(want *cluster.GPURequest) int64 {
	if want.Milli > 0 {
		return int64(want.Milli)
	}
	return whole
}

func accepts(models []string, model string) bool {
	return len(models) == 0 || slices.Contains(models, model)
}

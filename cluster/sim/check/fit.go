package check

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lacks names a dimension in which the machine has too little left for one more such task.
func (h *host) lacks(s *cluster.TaskSpec) (string, bool) {
	for d, v := range s.Resources.Fixed {
		if v > 0 && h.used[d]+v > h.machine.Capacity.Fixed[d] {
			return cluster.Dimension(d).String(), true
		}
	}
	for _, a := range s.Resources.Named {
		if a.Value > 0 && h.named[a.Name]+a.Value > amount(h.machine.Capacity.Named, a.Name) {
			return a.Name, true
		}
	}
	return "", false
}

func amount(list []cluster.Amount, name string) int64 {
	sum := int64(0)
	for _, a := range list {
		if a.Name == name {
			sum += a.Value
		}
	}
	return sum
}

// amounts renders how much of a dimension the machine has, or how much of it is used.
func (h *host) amounts(what, of string) string {
	has, used := amount(h.machine.Capacity.Named, what), h.named[what]
	for d, v := range h.machine.Capacity.Fixed {
		if cluster.Dimension(d).String() == what {
			has, used = v, h.used[d]
		}
	}
	if of == "has" {
		return strconv.FormatInt(has, 10)
	}
	return strconv.FormatInt(used, 10)
}

func wants(s *cluster.TaskSpec, what string) string {
	v := amount(s.Resources.Named, what)
	for d, f := range s.Resources.Fixed {
		if cluster.Dimension(d).String() == what {
			v = f
		}
	}
	return strconv.FormatInt(v, 10)
}

// hasDevices reports whether the host has devices left for one such request.
func (h *host) hasDevices(want *cluster.GPURequest) bool {
	found := 0
	for i, g := range h.machine.GPUs {
		if !accepts(want.Models, g.Model) {
			continue
		}
		if want.Milli > 0 && h.devices[i]+int64(want.Milli) <= whole {
			return true
		}
		if h.devices[i] == 0 {
			found++
		}
	}
	return want.Milli == 0 && found >= int(want.Count)
}

// hasPorts reports whether the host has ports left for one such request.
func (h *host) hasPorts(want *cluster.PortRequest) bool {
	free := 0
	for _, r := range h.machine.Ports {
		for p := int(r.First); p <= int(r.Last); p++ {
			if _, taken := h.ports[uint16(p)]; !taken {
				free++
			}
		}
	}
	for _, p := range want.Numbers {
		if _, taken := h.ports[p]; taken || !h.offers(p) {
			return false
		}
	}
	return free >= len(want.Numbers)+int(want.Dynamic)
}

// fits reports whether one more such task of the job could run on the host now. A host on which room is held for
// somebody is not asked.
func (h *host) fits(s *cluster.JobSpec, task *cluster.TaskSpec) bool {
	if h.unreachable || h.draining || len(h.holds) > 0 || s.Constraint != nil && !holds(s.Constraint, h) {
		return false
	}
	_, lacks := h.lacks(task)
	return !lacks && task.Needs()&^h.machine.Capabilities == 0 && h.hasDevices(&task.GPU) && h.hasPorts(&task.Ports)
}

// holds evaluates a constraint on the host.
func holds(k *cluster.Constraint, h *host) bool {
	switch k.Op {
	case cluster.And:
		for i := range k.Terms {
			if !holds(&k.Terms[i], h) {
				return false
			}
		}
		return true
	case cluster.Or:
		for i := range k.Terms {
			if holds(&k.Terms[i], h) {
				return true
			}
		}
		return false
	}
	has := uint32(0)
	for _, label := range labels(h) {
		if label == k.Label {
			has++
		}
	}
	if k.Label.Key == "hostname" && k.Label.Value == string(h.id) { // the full name counts too
		has++
	}
	return k.Comparison == cluster.Less && has < k.Count ||
		k.Comparison == cluster.Equal && has == k.Count ||
		k.Comparison == cluster.Greater && has > k.Count
}

// labels lists everything that a constraint can count on a host.
func labels(h *host) []cluster.KeyValue {
	return append([]cluster.KeyValue{
		{Key: "hostname", Value: h.id.Name()},
		{Key: "rack", Value: h.machine.Rack},
		{Key: "zone", Value: h.machine.Zone},
	}, h.machine.Attributes...)
}

// Quiet asks whether a task waits that fits somewhere. It is meant for moments at which the scheduler has planned with
// everything that the records say, and nothing has happened since. It returns how many different requests wait.
// Complexity: different requests × hosts.
func (c *Checker) Quiet() (requests int) {
	if c.waiting == 0 {
		return 0
	}
	where := map[string]*host{} // nil: nowhere
	for _, uid := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[uid]
		if j.waiting == 0 {
			continue
		}
		ask := func(task *cluster.TaskSpec, signature string, tasks int) {
			h, asked := where[signature]
			if !asked {
				h = c.anyFor(j.spec, task)
				where[signature] = h
			}
			if h != nil {
				c.report(Idle, "%d tasks of job %d (%q) wait, though one fits on host %q", tasks, uid, j.spec.Name, h.id)
			}
		}
		if len(j.spec.Overrides) == 0 {
			ask(&j.spec.Task, j.signature, j.waiting)
			continue
		}
		for i := range j.tasks {
			if task := j.spec.TaskOf(uint32(i)); j.tasks[i].state == waiting {
				ask(task, signature(j.spec, task), 1)
			}
		}
	}
	return len(where)
}

// anyFor returns the first host by id that has room for such a task of the job, nil if there is none.
func (c *Checker) anyFor(s *cluster.JobSpec, task *cluster.TaskSpec) *host {
	var first *host
	for _, h := range c.hosts { // the least id, so the order does not matter
		if (first == nil || h.id < first.id) && h.fits(s, task) {
			first = h
		}
	}
	return first
}

// Settled asks whether a task is between two states. It is meant for moments at which no command and no status is on its
// way. Complexity: tasks.
func (c *Checker) Settled() {
	for _, uid := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[uid]
		for i := range j.tasks {
			t := &j.tasks[i]
			if t.state.bound() && t.state != running {
				c.report(Stuck, "task %v is bound to %q in run %d and neither runs nor ends", cluster.MakeTaskKey(uid, uint32(i)), t.host.id, t.run)
			}
		}
	}
}

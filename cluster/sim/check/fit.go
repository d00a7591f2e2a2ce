package check

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lacks names a dimension in which the machine has too little left, beside what is kept, for one more such task.
func (h *host) lacks(s *cluster.TaskSpec, kept *goods) (string, bool) {
	for d, v := range s.Resources.Fixed {
		if v > 0 && h.used[d]+h.excess(d)+kept.fixed[d]+v > h.machine.Capacity.Fixed[d] {
			return cluster.Dimension(d).String(), true
		}
	}
	for _, a := range s.Resources.Named {
		if a.Value > 0 && h.named[a.Name]+kept.named[a.Name]+a.Value > amount(h.machine.Capacity.Named, a.Name) {
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

// roomOn returns how many tasks like this one of the job could run on the host now, beside what is kept for others, at most
// limit.
func (c *Checker) roomOn(h *host, s *cluster.JobSpec, task *cluster.TaskSpec, limit int64) int64 {
	if h.unreachable || h.draining || !c.takes(s, h) || s.NeedsFor(task)&^h.machine.Capabilities != 0 {
		return 0
	}
	kept := &goods{}
	if len(h.holds) > 0 {
		kept = h.kept()
	}
	for d, v := range task.Resources.Fixed {
		if v > 0 {
			limit = min(limit, (h.machine.Capacity.Fixed[d]-h.used[d]-h.excess(d)-kept.fixed[d])/v)
		}
	}
	for _, a := range task.Resources.Named {
		if a.Value > 0 {
			limit = min(limit, (amount(h.machine.Capacity.Named, a.Name)-h.named[a.Name]-kept.named[a.Name])/a.Value)
		}
	}
	if limit <= 0 {
		return 0
	}
	return min(limit, h.devicesFor(&task.GPU, kept, limit), h.portsFor(&task.Ports, kept, limit))
}

// devicesFor returns how many such requests the devices serve, at most limit.
func (h *host) devicesFor(want *cluster.GPURequest, kept *goods, limit int64) int64 {
	if want.Count == 0 && want.Milli == 0 {
		return limit
	}
	free, parts := int64(0), int64(0)
	for i, g := range h.machine.GPUs {
		if !accepts(want.Models, g.Model) {
			continue
		}
		used := h.devices[i] + kept.devices[uint16(i)]
		if used == 0 {
			free++
		}
		if want.Milli > 0 {
			parts += max(0, whole-used) / int64(want.Milli)
		}
	}
	if want.Milli > 0 {
		return parts
	}
	return free / int64(want.Count)
}

// portsFor returns how many such requests the ports serve, at most limit.
func (h *host) portsFor(want *cluster.PortRequest, kept *goods, limit int64) int64 {
	if len(want.Numbers) == 0 && want.Dynamic == 0 {
		return limit
	}
	gone := func(p uint16) bool {
		_, taken := h.ports[p]
		return taken || kept.ports[p] > 0
	}
	free := 0
	for _, r := range h.machine.Ports {
		for p := int(r.First); p <= int(r.Last); p++ {
			if !gone(uint16(p)) {
				free++
			}
		}
	}
	if len(want.Numbers) == 0 {
		return int64(free / int(want.Dynamic))
	}
	for _, p := range want.Numbers {
		if gone(p) || !h.offers(p) {
			return 0
		}
	}
	if free < len(want.Numbers)+int(want.Dynamic) {
		return 0
	}
	return 1
}

// holds evaluates a constraint on the host, asking count about the tasks there; with nil it does not hold where it
// depends on them.
func holds(k *cluster.Constraint, h *host, count func(*cluster.Constraint) bool) bool {
	switch k.Op {
	case cluster.And:
		for i := range k.Terms {
			if !holds(&k.Terms[i], h, count) {
				return false
			}
		}
		return true
	case cluster.Or:
		for i := range k.Terms {
			if holds(&k.Terms[i], h, count) {
				return true
			}
		}
		return false
	case cluster.TaskLabel:
		return count != nil && count(k)
	}
	has := uint32(0)
	for _, label := range labels(h) {
		if label.Key == k.Label.Key && label.Value != "" && (k.AnyValue || label.Value == k.Label.Value) {
			has = 1
		}
	}
	if k.Label.Key == "hostname" && k.Label.Value == string(h.id) { // the full name counts too
		has = 1
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

// Settled asks whether a task is between two states. It is meant for moments at which no command and no status is on its
// way. Complexity: tasks.
func (c *Checker) Settled() {
	for _, uid := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[uid]
		for k, t := range j.all {
			if t.state.bound() && t.state != running {
				c.report(Stuck, "task %v is bound to %q in run %d and neither runs nor ends", k, t.host.id, t.run)
			}
		}
	}
}

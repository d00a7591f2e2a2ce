package check

import (
	"github.com/sluice-scheduler/sluice/cluster"
)

// takes reports whether the host, whoever is on it, may run tasks of the job: it meets the constraint and has what the pool
// asks for, and is not kept for others. Where that depends on other tasks, it may not.
func (c *Checker) takes(s *cluster.JobSpec, h *host) bool {
	return c.admits(s, h) && c.inPool(s, h) && (s.Constraint == nil || holds(s.Constraint, h, nil))
}

// admits reports whether the host is not kept for others.
func (c *Checker) admits(s *cluster.JobSpec, h *host) bool {
	for _, a := range h.machine.Attributes {
		if a.Key != "sluice/exclusive" || s.Constraint != nil && asksFor(s.Constraint, a.Value) {
			continue
		}
		named := false
		for p := s.Pool; p != ""; p = p.Parent() {
			for _, l := range c.account(p).hosts {
				named = named || l == a
			}
		}
		if !named {
			return false
		}
	}
	return true
}

// inPool reports whether the host has the labels that the job's pool and those above it ask for.
func (c *Checker) inPool(s *cluster.JobSpec, h *host) bool {
	for p := s.Pool; p != ""; p = p.Parent() {
		for _, l := range c.account(p).hosts {
			if !holds(&cluster.Constraint{Op: cluster.HostLabel, Label: l, Comparison: cluster.Greater}, h, nil) {
				return false
			}
		}
	}
	return true
}

func asksFor(k *cluster.Constraint, value string) bool {
	for i := range k.Terms {
		if asksFor(&k.Terms[i], value) {
			return true
		}
	}
	const one = uint32(1)
	wanted := k.Comparison == cluster.Less && one < k.Count || k.Comparison == cluster.Equal && one == k.Count || k.Comparison == cluster.Greater && one > k.Count
	return k.Op == cluster.HostLabel && k.Label.Key == "sluice/exclusive" && (k.AnyValue || k.Label.Value == value) && wanted
}

// countsTasks reports whether it depends on other tasks where the job's may run, or on how long they have waited.
func countsTasks(s *cluster.JobSpec) bool {
	if len(s.Spread) > 0 || len(s.Preferences) > 0 {
		return true
	}
	var counts func(k *cluster.Constraint) bool
	counts = func(k *cluster.Constraint) bool {
		for i := range k.Terms {
			if counts(&k.Terms[i]) {
				return true
			}
		}
		return k.Op == cluster.TaskLabel
	}
	return s.Constraint != nil && counts(s.Constraint)
}

// judgePlace holds a placement to the rules of its job about places. The task is not bound yet.
func (c *Checker) judgePlace(s *cluster.JobSpec, h *host, e *cluster.Placed) {
	if !c.admits(s, h) {
		c.report(Exclusive, "task %v is placed on %q, which is kept for jobs that name it", e.Task, h.id)
	}
	if !c.inPool(s, h) {
		c.report(HostPool, "task %v is placed on %q, which is not among the hosts of pool %s", e.Task, h.id, s.Pool)
	}
	count := func(k *cluster.Constraint) bool { return c.meets(k, h, e.Task) }
	if s.Constraint != nil && !holds(s.Constraint, h, count) {
		c.report(Constraint, "task %v is placed on %q, which its constraint does not allow", e.Task, h.id)
	}
	waited := c.at - c.task(e.Task).since
	for i := range s.Preferences {
		p := &s.Preferences[i]
		if waited < cluster.Time(p.Timeout) && !holds(&p.Constraint, h, count) {
			c.report(Preference, "task %v is placed on %q against a preference, after %d ns of %d", e.Task, h.id, waited, p.Timeout)
		}
	}
	for i := range s.Spread {
		r := &s.Spread[i]
		if r.Soft != nil && waited >= cluster.Time(r.Soft.Timeout) {
			continue
		}
		match := func(k cluster.TaskKey) bool { return k.Job() == e.Task.Job() }
		if len(r.Selector) > 0 {
			match = func(k cluster.TaskKey) bool { return c.labeled(k, r.Selector, false) }
		}
		n, ok := c.around(h, r.Domain, match)
		if r.MaxSkew > 0 {
			if most := c.leastAround(s, r.Domain, match) + r.MaxSkew; !ok || match(e.Task) && n >= most || n > most {
				c.report(Spread, "task %v is placed on %q, in whose %s there are %d already: %d are %d more than in another", e.Task, h.id, r.Domain, n, most, r.MaxSkew)
			}
			continue
		}
		if !ok || n >= r.Max {
			c.report(Spread, "task %v is placed on %q, in whose %s there are %d of at most %d already", e.Task, h.id, r.Domain, n, r.Max)
		}
	}
}

// meets reports whether as many tasks as asked for are around the host. Tasks that want company of their own kind may be
// the first in all domains.
func (c *Checker) meets(k *cluster.Constraint, h *host, own cluster.TaskKey) bool {
	wanted := []cluster.KeyValue{k.Label}
	match := func(other cluster.TaskKey) bool { return c.labeled(other, wanted, k.AnyValue) }
	n, ok := c.around(h, k.Domain, match)
	switch {
	case !ok:
		return false
	case k.Comparison == cluster.Less:
		return n < k.Count
	case k.Comparison == cluster.Equal:
		return n == k.Count
	case n == 0 && k.Count == 0 && match(own):
		return c.countBound(match, func(other *host) bool { return other.in(k.Domain) != "" }) == 0
	}
	return n > k.Count
}

// around counts the bound tasks that match in the host's domain; false where it is in none.
func (c *Checker) around(h *host, domain string, match func(cluster.TaskKey) bool) (uint32, bool) {
	own := h.in(domain)
	if own == "" {
		return 0, false
	}
	return c.countBound(match, func(other *host) bool { return other.in(domain) == own }), true
}

// leastAround counts the bound tasks that match in the domain that has least of them, of those where tasks of the job might be.
func (c *Checker) leastAround(s *cluster.JobSpec, domain string, match func(cluster.TaskKey) bool) uint32 {
	least, some := uint32(0), false
	seen := map[string]bool{}
	for _, h := range c.hosts { // the least: the order does not matter
		in := h.in(domain)
		if in == "" || seen[in] || h.draining || h.unreachable || !c.admits(s, h) || !c.inPool(s, h) || !mayHold(s.Constraint, h) {
			continue
		}
		seen[in] = true
		if n, _ := c.around(h, domain, match); !some || n < least {
			least, some = n, true
		}
	}
	return least
}

// mayHold reports whether the constraint holds on the host if other tasks are around as it asks.
func mayHold(k *cluster.Constraint, h *host) bool {
	return k == nil || holds(k, h, func(*cluster.Constraint) bool { return true })
}

func (c *Checker) countBound(match func(cluster.TaskKey) bool, on func(*host) bool) (n uint32) {
	for _, j := range c.jobs { // a sum: the order does not matter
		for k, t := range j.all {
			if t.state.bound() && on(t.host) && match(k) {
				n++
			}
		}
	}
	return n
}

// in returns the host's domain of that name, "" for none.
func (h *host) in(domain string) string {
	switch domain {
	case "", "host":
		return string(h.id)
	case "rack":
		return h.machine.Rack
	case "zone":
		return h.machine.Zone
	}
	for _, a := range h.machine.Attributes {
		if a.Key == domain {
			return a.Value
		}
	}
	return ""
}

// labeled reports whether the task has all the labels, the task's own before those of its job.
func (c *Checker) labeled(k cluster.TaskKey, wanted []cluster.KeyValue, anyValue bool) bool {
	spec := c.task(k).spec
	for _, w := range wanted {
		found := false
		for _, list := range [][]cluster.KeyValue{spec.TaskOf(k.Instance()).Labels, spec.Labels} {
			at := -1
			for i, l := range list {
				if l.Key == w.Key {
					at = i
				}
			}
			if at >= 0 {
				found = anyValue || list[at].Value == w.Value
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

package verify

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// crowd is who is where, as a plan unfolds: for each task its host, twice where it moves.
type crowd map[cluster.TaskKey][]cluster.HostID

// rules checks the rules about places of everything that the plan puts somewhere, in the order of the plan. Those who
// leave count until they are gone, and those who had room held before count where it is held. The holds of one plan do not
// count for each other, but for those of a gang, whose tasks come one after the other: in which order others end in placements is open, and
// each of these is held to the rules again. A hold may be older than some of the placements, or younger.
func (c *checker) rules() {
	here := c.crowd()
	for _, k := range c.plan.Ended { // before anything else
		delete(here, k)
	}
	before := maps.Clone(here)
	for i := range c.plan.Placements {
		p := &c.plan.Placements[i]
		c.abide(here, p.Task, p.Host)
		here[p.Task] = []cluster.HostID{p.Host}
	}
	for i := range c.plan.Displacements {
		d := &c.plan.Displacements[i]
		for _, v := range d.Victims {
			if v.Hold != nil {
				c.abideOnce(before, here, v.Task, v.Hold.Host)
			}
		}
		for k, h := range d.Holds {
			earlier := d.Holds[:k]
			c.abideOnce(c.joined(before, earlier, h.Task), c.joined(here, earlier, h.Task), h.Task, h.Hold.Host)
		}
	}
}

// joined returns who is where with those of the task's gang for which room is held before it.
func (c *checker) joined(here crowd, earlier []cycle.Held, k cluster.TaskKey) crowd {
	spec := c.runsBy(k)
	if !spec.Core(k.Instance()) {
		return here
	}
	here = maps.Clone(here)
	for _, h := range earlier {
		if h.Task.Job() == k.Job() && spec.Core(h.Task.Instance()) {
			here[h.Task] = []cluster.HostID{h.Hold.Host}
		}
	}
	return here
}

// crowd returns who is where before the plan; nobody where no job of the plan has a rule that could count them.
func (c *checker) crowd() crowd {
	ruled := func(k cluster.TaskKey) bool {
		if c.snap.Task(k) == nil {
			return false
		}
		spec := c.runsBy(k)
		return spec.Constraint != nil || len(spec.Preferences)+len(spec.Spread) > 0
	}
	any := slices.ContainsFunc(c.plan.Placements, func(p cycle.Placement) bool { return ruled(p.Task) })
	for i := range c.plan.Displacements {
		d := &c.plan.Displacements[i]
		any = any || slices.ContainsFunc(d.Holds, func(h cycle.Held) bool { return ruled(h.Task) }) ||
			slices.ContainsFunc(d.Victims, func(v cycle.Victim) bool { return ruled(v.Task) })
	}
	here := crowd{}
	if !any {
		return here
	}
	for h := range c.snap.Hosts("") {
		for _, k := range h.Tasks {
			here[k] = append(here[k], h.ID)
		}
		for _, k := range h.Held {
			here[k] = append(here[k], h.ID)
		}
	}
	return here
}

// abideOnce checks the rules of one task for which room is held, before the plan's placements or after them.
func (c *checker) abideOnce(before, after crowd, k cluster.TaskKey, to cluster.HostID) {
	n := len(c.wrong)
	if c.abide(before, k, to); len(c.wrong) > n {
		c.wrong = c.wrong[:n]
		c.abide(after, k, to)
	}
}

// abide checks the rules of one task that goes to a host.
func (c *checker) abide(here crowd, k cluster.TaskKey, to cluster.HostID) {
	host, job := c.snap.Host(to), c.snap.Job(k.Job())
	if host == nil || job == nil {
		return // reported elsewhere
	}
	spec := c.runsBy(k)
	others := here
	if spec.Constraint != nil || len(spec.Preferences) > 0 || len(spec.Spread) > 0 {
		others = maps.Clone(here)
		delete(others, k)
		if t := c.snap.Task(k); t.State.Bound() { // it counts where it is, and not where it is to go
			others[k] = []cluster.HostID{t.Host}
		}
	}
	if rule := spec.Constraint; rule != nil && !c.meets(others, rule, k, host) {
		c.fail("task %v is to go to host %s against its constraint", k, to)
	}
	if t := c.snap.Task(k); t.Copy != nil && (to == t.Copy.Off || t.Copy.Pace > 0 && host.Pace > t.Copy.Pace) {
		c.fail("task %v, a copy, is to go to host %s, which is slow or that of its task", k, to)
	}
	asked := c.askedByPool(spec.Pool)
	for _, l := range asked {
		if !hostHas(host, l) {
			c.fail("task %v is to go to host %s, which has not the label %s=%s that its pool asks for", k, to, l.Key, l.Value)
		}
	}
	for _, a := range host.Attributes {
		if a.Key == cluster.AttributeExclusive && !slices.Contains(asked, a) && (spec.Constraint == nil || !named(spec.Constraint, a)) {
			c.fail("task %v is to go to host %s, which is kept for those that name %s", k, to, a.Value)
		}
	}
	queued := c.snap.Task(k).Queued
	for i := range spec.Preferences {
		if p := &spec.Preferences[i]; p.Timeout > 0 && c.now < queued.Add(p.Timeout) && !c.meets(others, &p.Constraint, k, host) {
			c.fail("task %v is to go to host %s against a preference that holds yet", k, to)
		}
	}
	for i := range spec.Spread {
		s := &spec.Spread[i]
		if s.Soft != nil && (s.Soft.Timeout == 0 || c.now >= queued.Add(s.Soft.Timeout)) {
			continue
		}
		match := func(other cluster.TaskKey) bool {
			return len(s.Selector) == 0 && other.Job() == k.Job() || len(s.Selector) > 0 && c.carries(other, s.Selector, false)
		}
		n, ok := c.counted(others, host, s.Domain, match)
		if s.MaxSkew > 0 {
			least := c.fewest(others, spec, s.Domain, match)
			if !ok || n+count(match(k))-least > int(s.MaxSkew) {
				c.fail("task %v is to go to host %s, in whose %s there are %d, and %d in another: at most %d more", k, to, s.Domain, n, least, s.MaxSkew)
			}
			continue
		}
		if !ok || n >= int(s.Max) {
			c.fail("task %v is to go to host %s, in whose %s there are %d of at most %d", k, to, s.Domain, n, s.Max)
		}
	}
}

// askedByPool returns the labels that the pool and those above it ask of the hosts of their tasks.
func (c *checker) askedByPool(path cluster.PoolPath) (labels []cluster.KeyValue) {
	for ; path != ""; path = path.Parent() {
		if p := c.snap.Pool(path); p != nil {
			labels = append(labels, p.Hosts...)
		}
	}
	return labels
}

// hostHas reports whether the host has the label.
func hostHas(h *cluster.Host, l cluster.KeyValue) bool {
	if v, ok := value(h, l.Key); ok && v == l.Value {
		return true
	}
	return slices.Contains(h.Attributes, l) || l.Key == cluster.LabelHostname && (l.Value == h.ID.Name() || l.Value == string(h.ID))
}

// named reports whether the expression asks for the label, and does not rule it out.
func named(k *cluster.Constraint, a cluster.KeyValue) bool {
	if k.Op == cluster.HostLabel {
		asked := k.Comparison == cluster.Greater && k.Count == 0 || k.Comparison == cluster.Equal && k.Count == 1 || k.Comparison == cluster.Less && k.Count > 1
		return asked && k.Label.Key == a.Key && (k.AnyValue || k.Label.Value == a.Value)
	}
	return slices.ContainsFunc(k.Terms, func(t cluster.Constraint) bool { return named(&t, a) })
}

// carries reports whether the task has all the labels, of each of which any value will do if anyValue is set.
func (c *checker) carries(k cluster.TaskKey, labels []cluster.KeyValue, anyValue bool) bool {
	has := map[string]string{}
	spec := c.runsBy(k)
	for _, l := range spec.Labels {
		has[l.Key] = l.Value
	}
	for _, l := range spec.TaskOf(k.Instance()).Labels {
		has[l.Key] = l.Value
	}
	for _, l := range labels {
		if value, ok := has[l.Key]; !ok || !anyValue && value != l.Value {
			return false
		}
	}
	return true
}

// counted returns how many of the tasks that match are in the host's domain, false if it is in none.
func (c *checker) counted(here crowd, h *cluster.Host, domain string, match func(cluster.TaskKey) bool) (n int, ok bool) {
	own, ok := value(h, domain)
	if !ok {
		return 0, false
	}
	for k, at := range here { // a sum: the order does not matter
		if !match(k) {
			continue
		}
		for _, id := range at {
			if v, ok := value(c.snap.Host(id), domain); ok && v == own {
				n++
			}
		}
	}
	return n, true
}

// fewest returns how many tasks that match are in the domain that has least of them, of those with a host that takes work and
// that may take tasks of the job, whatever tasks are around.
func (c *checker) fewest(here crowd, spec *cluster.JobSpec, domain string, match func(cluster.TaskKey) bool) int {
	asked := c.askedByPool(spec.Pool)
	fewest := map[string]int{}
	for h := range c.snap.Hosts("") {
		own, ok := value(h, domain)
		if _, known := fewest[own]; known || !ok || h.Draining || h.Unreachable || !perhaps(spec.Constraint, h) {
			continue
		}
		if slices.ContainsFunc(asked, func(l cluster.KeyValue) bool { return !hostHas(h, l) }) ||
			slices.ContainsFunc(h.Attributes, func(a cluster.KeyValue) bool {
				return a.Key == cluster.AttributeExclusive && !slices.Contains(asked, a) && (spec.Constraint == nil || !named(spec.Constraint, a))
			}) {
			continue
		}
		fewest[own], _ = c.counted(here, h, domain, match)
	}
	if len(fewest) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(fewest)))
}

// perhaps reports whether the expression may hold on the host, if tasks are around as it asks.
func perhaps(e *cluster.Constraint, h *cluster.Host) bool {
	switch {
	case e == nil || e.Op == cluster.TaskLabel:
		return true
	case e.Op == cluster.And:
		return !slices.ContainsFunc(e.Terms, func(t cluster.Constraint) bool { return !perhaps(&t, h) })
	case e.Op == cluster.Or:
		return slices.ContainsFunc(e.Terms, func(t cluster.Constraint) bool { return perhaps(&t, h) })
	}
	return compares(e, labels(e, h))
}

func value(h *cluster.Host, domain string) (string, bool) {
	switch domain {
	case "", "host":
		return string(h.ID), true
	case "rack":
		return h.Rack, h.Rack != ""
	case "zone":
		return h.Zone, h.Zone != ""
	}
	for _, a := range h.Attributes {
		if a.Key == domain {
			return a.Value, a.Value != ""
		}
	}
	return "", false
}

// meets evaluates an expression for the task on the host. Tasks that ask for company of their own kind may begin where
// there is none anywhere.
func (c *checker) meets(here crowd, e *cluster.Constraint, k cluster.TaskKey, h *cluster.Host) bool {
	each := func(t cluster.Constraint) bool { return c.meets(here, &t, k, h) }
	n := 0
	switch e.Op {
	case cluster.And:
		return !slices.ContainsFunc(e.Terms, func(t cluster.Constraint) bool { return !each(t) })
	case cluster.Or:
		return slices.ContainsFunc(e.Terms, each)
	case cluster.TaskLabel:
		label := []cluster.KeyValue{e.Label}
		match := func(other cluster.TaskKey) bool { return c.carries(other, label, e.AnyValue) }
		var ok bool
		if n, ok = c.counted(here, h, e.Domain, match); !ok {
			return false
		}
		if n == 0 && e.Comparison == cluster.Greater && e.Count == 0 && match(k) {
			within := func(id cluster.HostID) bool {
				_, ok := value(c.snap.Host(id), e.Domain)
				return ok
			}
			for other, at := range here { // all or none: the order does not matter
				begun := c.snap.Task(other).State.Bound() || len(at) == 1 && c.placed(other)
				if begun && match(other) && slices.ContainsFunc(at, within) {
					return false
				}
			}
			return true
		}
	default:
		n = labels(e, h)
	}
	return compares(e, n)
}

// labels returns 1 if the host has the label of the expression, else 0.
func labels(e *cluster.Constraint, h *cluster.Host) (n int) {
	switch value := e.Label.Value; e.Label.Key {
	case "hostname":
		n = count(e.AnyValue || value == h.ID.Name() || value == string(h.ID))
	case "rack":
		n = count(h.Rack != "" && (e.AnyValue || value == h.Rack))
	case "zone":
		n = count(h.Zone != "" && (e.AnyValue || value == h.Zone))
	}
	for _, a := range h.Attributes {
		n = max(n, count(a.Key == e.Label.Key && (e.AnyValue || a.Value == e.Label.Value)))
	}
	return n
}

func compares(e *cluster.Constraint, n int) bool {
	return e.Comparison == cluster.Less && n < int(e.Count) || e.Comparison == cluster.Equal && n == int(e.Count) ||
		e.Comparison == cluster.Greater && n > int(e.Count)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// placed reports whether the plan starts the task.
func (c *checker) placed(k cluster.TaskKey) bool {
	return slices.ContainsFunc(c.plan.Placements, func(p cycle.Placement) bool { return p.Task == k })
}

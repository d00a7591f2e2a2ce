package rules

import (
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// places holds the placements of one plan to the rules about places, as of the moment when they are carried out: since the
// snapshot tasks may have come or gone that rules count, and hosts, pools and jobs may have changed. What rules count is
// summed up when the first placement asks for it, and then followed event by event.
type places struct {
	pools   map[cluster.PoolPath]*cluster.Constraint // see HostsOf
	byJob   map[cluster.JobUID][]*tally
	byLabel map[cluster.KeyValue][]*tally // by the first label; where any value will do, with none
	coming  map[cluster.TaskKey]bool      // whose holds do not count: they come in this step, one after the other
	cores   map[cluster.JobUID]bool       // see unbegun
}

// tally counts the tasks of a selection by domain. As in the plan, tasks that are asked to leave, and those that have room held, keep
// others away and are no company.
type tally struct {
	job      cluster.JobUID     // whose tasks count if there are no labels
	labels   []cluster.KeyValue // that tasks have which count; with anyValue any value of the first will do
	anyValue bool
	domain   string
	most     map[string]int
	least    map[string]int
	total    int // of most
	stay     int // of least
	floors   map[*cluster.JobSpec]*floor
}

// floor knows the least that a tally has in the domains that may take tasks of a job.
type floor struct {
	in     map[string]bool
	levels []int // how many of them have so many tasks
}

// allows returns why the task may not be placed on the host now, if so. Complexity: the rules of its job, and for the first of
// a plan that counts such tasks also the jobs and those of their tasks that count; with MaxSkew also the hosts.
func (p *places) allows(state *cluster.State, at cluster.Time, e *cluster.Placed) error {
	t, h := p.bare(state.Task(e.Task)), state.Host(e.Host)
	if t == nil || h == nil {
		return nil // refused for that
	}
	spec := state.Job(e.Task.Job()).SpecFor(t)
	hosts, known := p.pools[spec.Pool]
	if !known {
		if p.pools == nil {
			p.pools = map[cluster.PoolPath]*cluster.Constraint{}
		}
		hosts = state.HostsOf(spec.Pool)
		p.pools[spec.Pool] = hosts
	}
	if len(h.Attributes) > 0 && !h.Admits(spec.Constraint, hosts) || !h.Meets(hosts) {
		return fmt.Errorf("rules: host %q is not for task %v", h.ID, t.Key)
	}
	if spec.Constraint == nil && len(spec.Preferences)+len(spec.Spread) == 0 {
		return nil
	}
	holds := func(c *cluster.Constraint) bool {
		return c.Evaluate(h, func(leaf *cluster.Constraint) bool { return p.compare(state, leaf, h, t, spec) }) == cluster.True
	}
	if spec.Constraint != nil && !holds(spec.Constraint) {
		return fmt.Errorf("rules: the constraint of task %v does not hold on host %q any more", t.Key, h.ID)
	}
	yielded, _ := spec.Yielded(t.Queued, at)
	for i := range spec.Preferences {
		if yielded>>i&1 == 0 && !holds(&spec.Preferences[i].Constraint) {
			return fmt.Errorf("rules: preference %d of task %v does not hold on host %q any more", i, t.Key, h.ID)
		}
	}
	for i := range spec.Spread {
		if yielded>>(len(spec.Preferences)+i)&1 == 0 && !p.apart(state, &spec.Spread[i], hosts, h, t, spec) {
			return fmt.Errorf("rules: spread %d of task %v leaves no room on host %q any more", i, t.Key, h.ID)
		}
	}
	return nil
}

// compare reports whether as many tasks are around the host as a leaf of a constraint asks for. Tasks that want company of their
// own kind may be the first of all.
func (p *places) compare(state *cluster.State, leaf *cluster.Constraint, h *cluster.Host, t *cluster.Task, spec *cluster.JobSpec) bool {
	domain, ok := h.Domain(leaf.Domain)
	if !ok {
		return false
	}
	all := p.tally(state, tally{labels: []cluster.KeyValue{leaf.Label}, anyValue: leaf.AnyValue, domain: leaf.Domain})
	self := all.takes(t.Key, spec)
	most, least, number := all.most[domain], all.least[domain], int(leaf.Count)
	if self {
		most -= all.held(state, domain, t)
	}
	switch leaf.Comparison {
	case cluster.Less:
		return most < number
	case cluster.Equal:
		return most == number && least == number
	}
	if number == 0 && all.stay == 0 && self { // others that have room held, or leave, are to be there, too
		own := 0
		if t.Hold != nil {
			if _, ok := all.domainOf(state, t.Hold.Host); ok {
				own = 1
			}
		}
		return all.total-own == most
	}
	return least > number
}

// apart reports whether a rule of spread has room for the task on the host.
func (p *places) apart(state *cluster.State, s *cluster.Spread, hosts *cluster.Constraint, h *cluster.Host, t *cluster.Task, spec *cluster.JobSpec) bool {
	domain, ok := h.Domain(s.Domain)
	if !ok {
		return false
	}
	one := tally{labels: s.Selector, domain: s.Domain}
	if len(s.Selector) == 0 {
		one.job = t.Key.Job()
	}
	all := p.tally(state, one)
	most, self := all.most[domain], 0
	if all.takes(t.Key, spec) {
		most, self = most-all.held(state, domain, t), 1
	}
	if s.MaxSkew > 0 {
		return most+self-all.floor(state, spec, hosts).least() <= int(s.MaxSkew)
	}
	return most < int(s.Max)
}

// tally returns the counts of a selection, which the argument names.
func (p *places) tally(state *cluster.State, of tally) *tally {
	if p.byJob == nil {
		p.byJob, p.byLabel = map[cluster.JobUID][]*tally{}, map[cluster.KeyValue][]*tally{}
	}
	some := p.byJob[of.job]
	if of.job == 0 {
		some = p.byLabel[of.first()]
	}
	for _, a := range some {
		if a.domain == of.domain && a.anyValue == of.anyValue && slices.Equal(a.labels, of.labels) {
			return a
		}
	}
	of.most, of.least, of.floors = map[string]int{}, map[string]int{}, map[*cluster.JobSpec]*floor{}
	sum := func(j *cluster.Job) {
		for t := range state.TasksOf(j.UID, 0) {
			of.count(state, p.bare(t), 1)
		}
	}
	if of.job != 0 {
		sum(state.Job(of.job))
	} else {
		for j := range state.Jobs(0) {
			if of.may(j) {
				sum(j)
			}
		}
	}
	if of.job != 0 {
		p.byJob[of.job] = append(p.byJob[of.job], &of)
	} else {
		p.byLabel[of.first()] = append(p.byLabel[of.first()], &of)
	}
	return &of
}

// first is what tallies of labels are found by.
func (a *tally) first() cluster.KeyValue {
	if a.anyValue {
		return cluster.KeyValue{Key: a.labels[0].Key}
	}
	return a.labels[0]
}

// count counts a task, which may be nil, where it is and where it has room held; with n −1 no more.
func (p *places) count(state *cluster.State, t *cluster.Task, n int) {
	if t = p.bare(t); t == nil || !t.State.Bound() && t.Hold == nil {
		return
	}
	for _, a := range p.byJob[t.Key.Job()] {
		a.count(state, t, n)
	}
	if len(p.byLabel) == 0 {
		return
	}
	for _, l := range state.Job(t.Key.Job()).SpecFor(t).LabelsOf(t.Key.Instance()) {
		for _, a := range p.byLabel[l] {
			a.count(state, t, n)
		}
		if l.Value != "" {
			for _, a := range p.byLabel[cluster.KeyValue{Key: l.Key}] {
				a.count(state, t, n)
			}
		}
	}
}

// begin begins a step of several. Those who have room held and come in it come one after the other, and count when they do.
func (p *places) begin(state *cluster.State, step []cluster.Event) {
	p.coming = map[cluster.TaskKey]bool{}
	for _, e := range step {
		placed, ok := e.(*cluster.Placed)
		if !ok {
			continue
		}
		if t := state.Task(placed.Task); t != nil && t.Hold != nil {
			p.count(state, t, -1)
			p.coming[t.Key] = true
			p.count(state, t, 1)
		}
	}
}

// bare returns the task without what is held for it if that does not count.
func (p *places) bare(t *cluster.Task) *cluster.Task {
	if t == nil || t.Hold == nil || !p.coming[t.Key] {
		return t
	}
	comes := *t
	comes.Hold = nil
	return &comes
}

// may reports whether tasks of the job may count.
func (a *tally) may(j *cluster.Job) bool {
	key := a.labels[0].Key
	labeled := func(labels []cluster.KeyValue) bool {
		return slices.ContainsFunc(labels, func(l cluster.KeyValue) bool { return l.Key == key })
	}
	may := func(s *cluster.JobSpec) bool {
		return labeled(s.Labels) || labeled(s.Task.Labels) ||
			slices.ContainsFunc(s.Overrides, func(o cluster.InstanceOverride) bool { return o.Task != nil && labeled(o.Task.Labels) })
	}
	return may(j.Spec) || slices.ContainsFunc(j.Past, func(v cluster.Version) bool { return may(v.Spec) })
}

// takes reports whether a task that runs by the spec counts.
func (a *tally) takes(k cluster.TaskKey, spec *cluster.JobSpec) bool {
	if a.job != 0 {
		return k.Job() == a.job
	}
	own := spec.LabelsOf(k.Instance())
	if a.anyValue {
		return slices.ContainsFunc(own, func(l cluster.KeyValue) bool { return l.Key == a.labels[0].Key })
	}
	return cluster.HasPairs(own, a.labels)
}

// held returns 1 if the task has room held in the domain.
func (a *tally) held(state *cluster.State, domain string, t *cluster.Task) int {
	if t.Hold != nil {
		if in, ok := a.domainOf(state, t.Hold.Host); ok && in == domain {
			return 1
		}
	}
	return 0
}

func (a *tally) domainOf(state *cluster.State, id cluster.HostID) (string, bool) {
	h := state.Host(id)
	if h == nil {
		return "", false
	}
	return h.Domain(a.domain)
}

// count counts a task if it is one of the selection.
func (a *tally) count(state *cluster.State, t *cluster.Task, n int) {
	if !a.takes(t.Key, state.Job(t.Key.Job()).SpecFor(t)) {
		return
	}
	if t.State.Bound() {
		if in, ok := a.domainOf(state, t.Host); ok {
			a.most[in] += n
			a.total += n
			if !t.State.Vacating() {
				a.grow(in, n)
			}
		}
	}
	if t.Hold != nil {
		if in, ok := a.domainOf(state, t.Hold.Host); ok {
			a.most[in] += n
			a.total += n
		}
	}
}

// grow changes the least that there is in a domain.
func (a *tally) grow(domain string, n int) {
	was := a.least[domain]
	a.least[domain] = was + n
	a.stay += n
	for _, f := range a.floors { // each for itself: the order does not matter
		if f.in[domain] {
			f.at(was, -1)
			f.at(was+n, 1)
		}
	}
}

// floor returns that of the domains in which a host takes work that the job's constraint, by labels of hosts, and its pool allow.
func (a *tally) floor(state *cluster.State, spec *cluster.JobSpec, hosts *cluster.Constraint) *floor {
	f := a.floors[spec]
	if f != nil {
		return f
	}
	f = &floor{in: map[string]bool{}}
	for h := range state.Hosts("") {
		in, ok := h.Domain(a.domain)
		if !ok || f.in[in] || h.State() != cluster.HostUp || !h.Admits(spec.Constraint, hosts) || !h.Meets(hosts) {
			continue
		}
		if spec.Constraint == nil || spec.Constraint.Evaluate(h, nil) != cluster.False {
			f.in[in] = true
			f.at(a.least[in], 1)
		}
	}
	a.floors[spec] = f
	return f
}

func (f *floor) at(level, n int) {
	if more := level + 1 - len(f.levels); more > 0 {
		f.levels = append(f.levels, make([]int, more)...)
	}
	f.levels[level] += n
}

// least returns the lowest level, 0 if there is none.
func (f *floor) least() int {
	return max(0, slices.IndexFunc(f.levels, func(n int) bool { return n > 0 }))
}

// emit emits an event of a plan that does not break a rule now, and follows what it changes.
func (p *places) emit(tx *Tx, e cluster.Event) error {
	var k cluster.TaskKey
	switch e := e.(type) {
	case *cluster.Placed:
		if err := p.allows(tx.state, tx.at, e); err != nil {
			return err
		}
		if err := withinLimits(tx.state, e.Task); err != nil {
			return err
		}
		k = e.Task
	case *cluster.TaskPreempted:
		if err := bears(tx, e); err != nil {
			return err
		}
		k = e.Task
	case *cluster.TaskHeld:
		k = e.Task
	case *cluster.TaskRequeued:
		k = e.Task
	}
	if len(p.byJob)+len(p.byLabel) == 0 {
		return tx.Emit(e)
	}
	before := tx.state.Task(k)
	if err := tx.Emit(e); err != nil {
		return err
	}
	p.count(tx.state, before, -1)
	p.count(tx.state, tx.state.Task(k), 1)
	return nil
}

package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// entry is where a waiting task stands.
type entry struct {
	class *class
	as    waiter
}

// jobKey caches what the classes of a job have in common, as long as these ask for the same.
type jobKey struct {
	job     *cluster.JobSpec
	hosts   *cluster.Constraint
	task    *cluster.TaskSpec
	key     ClassKey
	inputs  cluster.InputIndex // none where the model does not ask for them
	set     *labelSet
	yielded uint64
	present *cluster.JobSpec // of the job, whatever versions its tasks are of

	// Of its ordinary tasks, nil where there was none yet:
	kind  *kind
	class *class
}

// ordinary reports whether the key holds all that could tell the task apart from others of its job, but for
// what is said of one that was preempted.
func (k *jobKey) ordinary(job *cluster.JobSpec, t *cluster.Task, spec *cluster.TaskSpec) bool {
	i := t.Key.Instance()
	return k != nil && k.job == job && k.task == spec && t.Copy == nil && !job.Core(i) && !(job.Controller && i == 0) &&
		k.inputs.None() && len(job.Preferences)+len(job.Spread) == 0
}

func (k *jobKey) wishes() wishes {
	return wishes{spec: k.job, hosts: k.hosts, set: k.set, yielded: k.yielded}
}

// ingest brings classes and hosts in line with the snapshot. It also compares what the last plan touched: if
// a placement was not carried out, its task waits again and its host has its room back.
func (p *Planner) ingest(in Input) {
	changes := p.planned
	p.planned = cluster.Changes{}
	if p.labels != nil {
		p.labels.begin()
	}
	p.forgetPlan()
	p.learn(in.Knowledge)
	p.now, p.snap, p.lost = in.Now, in.Snapshot, map[cluster.JobUID]int64{}
	if in.Rescan {
		p.primed = true
		p.reset()
		p.seePools(in.Snapshot)
		changes = everything(in.Snapshot)
	} else {
		changes.Merge(in.Changes)
	}
	p.takeIn(in.Snapshot, &changes)
	p.ripen(in.Snapshot)
	for _, uid := range p.looked.gone {
		delete(p.keys, uid)
		p.labels.forget(uid)
	}
	for _, j := range p.looked.updated {
		if known := p.keys[j.UID]; known != nil && known.present != j.Spec {
			known.present, p.dirty = j.Spec, true // more of its tasks may start, or be asked to leave
		}
	}
	p.looked.clear()
}

// regroup has all tasks of a job looked at if it got another owner, or a bound on how many of them run. Those
// of other versions count, too.
func (p *Planner) regroup(snap *cluster.Snapshot, j *cluster.Job, changes *cluster.Changes) {
	known := p.keys[j.UID]
	if known == nil {
		return
	}
	if was := known.present; was.Owner == j.Spec.Owner && (was.Limits.MaxRunning > 0 || j.Spec.Limits.MaxRunning == 0) {
		return
	}
	known.task = nil
	for t := range snap.TasksOf(j.UID, 0) {
		changes.Tasks = append(changes.Tasks, t.Key)
	}
}

// altered reports whether the job has been given another spec since its tasks were looked at. They may then
// count against something else.
func (p *Planner) altered(j *cluster.Job) bool {
	if j.Update == nil {
		return false
	}
	known := p.keys[j.UID]
	return known == nil || known.present != j.Spec
}

func everything(snap *cluster.Snapshot) cluster.Changes {
	var all cluster.Changes
	for h := range snap.Hosts("") {
		all.Hosts = append(all.Hosts, h.ID)
	}
	for t := range snap.Tasks(0) {
		if !t.State.Terminal() {
			all.Tasks = append(all.Tasks, t.Key)
		}
	}
	return all
}

// sorted returns the distinct keys in order; keys may be reordered.
func sorted[T interface{ ~string | ~uint64 }](keys []T) []T {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ingestTask brings what is known of a task in line with the snapshot. It waits or has a unit, not both.
func (p *Planner) ingestTask(snap *cluster.Snapshot, x *lookedTask) {
	var was entry
	waits := false
	if x.unit == nil {
		was, waits = p.waiting[x.key]
	}
	if x.unit == nil && !waits && x.task != nil && !x.task.State.Terminal() {
		p.census.Add(x.job.TaskFor(x.task), 1) // one that begins to wait, or runs already when everything is read anew
	}
	p.ingestUnit(snap, x)
	p.ingestWaiting(snap, x.job, x.key, x.task, was, waits)
}

// ingestWaiting brings the place of a task among those that wait in line with the snapshot. was is the place
// that it had, if waits.
func (p *Planner) ingestWaiting(snap *cluster.Snapshot, j *cluster.Job, k cluster.TaskKey, t *cluster.Task, was entry, waits bool) {
	if t == nil || t.State != cluster.TaskPending || t.NotBefore != 0 || t.Home != "" { // who has a home gets room held there
		if waits {
			was.class.queue.Delete(was.as)
			delete(p.waiting, k)
			p.moved = true
			p.dirty = p.dirty || t == nil || t.State.Terminal() // others may have what it claimed
		}
		return
	}
	c, set := p.classFor(snap, j, t)
	now := entry{c, waiter{queued: t.Queued, task: k, run: j.NextRun(t), ahead: t.Ahead, set: set}}
	if waits && now == was {
		return
	}
	if waits {
		was.class.queue.Delete(was.as)
	}
	now.class.queue.Set(now.as)
	p.waiting[k] = now
	p.dirty = true
}

// ripen has waiting tasks change class if a preference of theirs gives way by now. It lets tasks that have
// room held start by what they wish now.
func (p *Planner) ripen(snap *cluster.Snapshot) {
	for k := p.ripening.Pop(p.now); k != 0; k = p.ripening.Pop(p.now) {
		if was, waits := p.waiting[k]; waits {
			p.ingestWaiting(snap, snap.Job(k.Job()), k, snap.Task(k), was, true)
		} else if u := p.held[k]; u != nil && u.state == cluster.TaskReserved {
			u.kind = p.kindFor(snap, snap.Job(k.Job()), snap.Task(k), u.spec)
		}
	}
	p.sift(snap)
}

// sift forgets the alarms of tasks that wait no more, once these may be the most. No alarm may be due.
// Complexity: what waits, amortized constant.
func (p *Planner) sift(snap *cluster.Snapshot) {
	if p.ripening.Len() <= p.ripest {
		return
	}
	p.ripening = cluster.NewAlarms()
	set := func(k cluster.TaskKey) {
		t := snap.Task(k)
		if _, next := snap.Job(k.Job()).SpecFor(t).Yielded(t.Queued, p.now); next != 0 {
			p.ripening.Set(next, k)
		}
	}
	for k := range p.waiting { // alarms have an order of their own
		set(k)
	}
	for k := range p.held {
		set(k)
	}
	p.ripest = 2*p.ripening.Len() + 1000
}

// keyOf returns the class key of a task of the job, and what it wishes at this stage of its waiting.
func (p *Planner) keyOf(snap *cluster.Snapshot, j *cluster.Job, t *cluster.Task, spec *cluster.TaskSpec) (ClassKey, wishes) {
	job := j.SpecFor(t)
	yielded, next := job.Yielded(t.Queued, p.now)
	if next != 0 {
		p.ripening.Set(next, t.Key)
	}
	cached := p.keys[j.UID]
	if cached == nil {
		cached = &jobKey{present: j.Spec}
		p.keys[j.UID] = cached
	}
	known := cached.job == job
	if !known {
		cached.job, cached.hosts = job, snap.HostsOf(job.Pool)
		if p.model.Localizes() {
			cached.inputs = cluster.IndexInputs(job.Inputs)
		}
	}
	if !known || cached.task != spec || cached.yielded != yielded {
		cached.task, cached.key, cached.yielded, cached.kind, cached.class = spec, classKeyOf(snap, j.UID, job, spec), yielded, nil, nil
		cached.set = p.labels.set(j.UID, cluster.MergePairs(job.Labels, spec.Labels))
		cached.key.row.rules, cached.key.row.self = rulesKey(cached.wishes(), cached.set.key)
	}
	key, w := cached.key.of(job, t, cached.inputs, p.model.Localizes()), cached.wishes()
	if t.Copy != nil {
		w.copy = t.Copy
		key.row.rules, key.row.self = rulesKey(w, cached.set.key)
	}
	return key, w
}

// kindFor returns the kind of a bound or held task.
func (p *Planner) kindFor(snap *cluster.Snapshot, j *cluster.Job, t *cluster.Task, spec *cluster.TaskSpec) *kind {
	job := j.SpecFor(t)
	cached := p.keys[j.UID]
	if cached.ordinary(job, t, spec) && cached.kind != nil && !cached.kind.group.gone {
		return cached.kind
	}
	key, w := p.keyOf(snap, j, t, spec)
	k := &kind{group: p.groupFor(key.group, spec), job: job, spec: spec, row: key.row, wishes: w}
	if cached = p.keys[j.UID]; cached.ordinary(job, t, spec) {
		cached.kind = k
	}
	return k
}

// classFor returns the class of a waiting task, a new one if there was none, and the labels of the task.
func (p *Planner) classFor(snap *cluster.Snapshot, j *cluster.Job, t *cluster.Task) (*class, *labelSet) {
	job := j.SpecFor(t)
	spec := job.TaskOf(t.Key.Instance())
	cached := p.keys[j.UID]
	if !t.Ahead && cached.ordinary(job, t, spec) && cached.class != nil && !cached.class.gone {
		return cached.class, cached.set
	}
	key, w := p.keyOf(snap, j, t, spec)
	cached = p.keys[j.UID]
	c := p.classes[key]
	if c == nil {
		g := p.groupFor(key.group, spec)
		g.classes++
		instance := t.Key.Instance()
		if key.group.gang {
			instance = 0
		}
		var images []cluster.Image
		if p.model.Localizes() {
			images = cluster.ImagesOf(job.TaskOf(instance))
		}
		c = newClass(key, g, job, spec, cached.inputs.Of(instance), images, p.rows.get(key.row, spec, w))
		p.classes[key] = c
		p.order = append(p.order, c)
	}
	if !t.Ahead && cached.ordinary(job, t, spec) {
		cached.class = c
	}
	return c, w.set
}

func (p *Planner) ingestHost(x *lookedHost) {
	h, rec := x.host, x.rec
	if rec == nil && h == nil {
		return
	}
	if h == nil {
		h = p.hosts.add(x.id)
	}
	if h.rec != nil && rec != nil && sameToPlace(h.rec, rec) {
		h.rec = rec
		p.overdraw(h)
		return
	}
	differs := h.rec != nil && (rec == nil || h.rec.State() != rec.State() || !sameMachine(h.rec, rec))
	p.dirty = p.dirty || differs || gained(h.rec, rec) // pools may have less then, and others may have what somebody cannot have any more
	p.moved = true                                     // there may be less slack
	if differs {
		p.labels.enter(h, -1)
		if rec != nil {
			defer p.labels.enter(h, 1)
		}
	} else if h.rec == nil {
		defer p.labels.enter(h, 1)
	}
	if rec == nil {
		if h.node != flowgraph.NoNode {
			p.graph.retired = append(p.graph.retired, retiree{host: h})
		}
		p.uproot(h)
		p.hosts.remove(h)
		return
	}
	if moves := h.rec != nil && !sameMachine(h.rec, rec); moves {
		p.uproot(h)
		defer p.plant(h)
	}
	p.hosts.set(h, rec)
	p.overdraw(h)
}

// overdraw has a changed host looked at if it has revocable tasks.
func (p *Planner) overdraw(h *host) {
	if !h.rec.Lent.IsZero() {
		p.overdrawn = append(p.overdrawn, h)
	}
}

// uproot takes the tasks of a host out of the counts, since the host goes or its domains may change.
func (p *Planner) uproot(h *host) {
	for _, u := range h.units {
		p.labels.count(u.set, h, u.presence().times(-1))
	}
	for _, u := range p.held { // a sum: the order does not matter
		if u.counts == h {
			p.labels.count(u.set, h, gone)
			u.counts = nil
		}
	}
}

// plant counts the tasks of a host again.
func (p *Planner) plant(h *host) {
	for _, u := range h.units {
		p.labels.count(u.set, h, u.presence())
	}
	for _, u := range p.held { // a sum: the order does not matter
		if u.hold.Host == h.id {
			p.labels.count(u.set, h, waits)
			u.counts = h
		}
	}
}

// gained reports whether the host may take something now that it could not take before. It is the same
// machine.
func gained(old, rec *cluster.Host) bool {
	switch {
	case rec == nil || rec.State() != cluster.HostUp:
		return false
	case old == nil || old.State() != cluster.HostUp:
		return true
	case rec.GainedPorts(old), rec.Pace < old.Pace: // as one that went and came back: copies go to the fast ones
		return true
	}
	before := old.GPURoom()
	for i, free := range rec.GPURoom() {
		if free > before[i] {
			return true
		}
	}
	return !rec.Room().Fits(old.Room()) || !rec.Spare().Fits(old.Spare()) // more of something, or of something new
}

// dropEmpty forgets the classes without waiting tasks.
func (p *Planner) dropEmpty() {
	p.order = slices.DeleteFunc(p.order, func(c *class) bool {
		if c.queue.Len() > 0 {
			return false
		}
		p.graph.retired = append(p.graph.retired, retiree{class: c})
		p.rows.release(c.row)
		c.group.classes--
		delete(p.classes, c.key)
		c.gone = true
		return true
	})
}

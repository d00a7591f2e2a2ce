package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// entry is where a waiting task stands.
type entry struct {
	class *class
	as    waiter
}

// jobKey caches the class of a job's first task for as long as the spec is the same.
type jobKey struct {
	spec *cluster.JobSpec
	key  ClassKey
}

// ingest brings classes and hosts in line with the snapshot. What the last plan touched is compared too: if a placement
// was not carried out, its task waits again and its host has its room back.
func (p *Planner) ingest(in Input) {
	changes := p.planned
	p.planned = cluster.Changes{}
	if in.Rescan || !p.primed {
		p.primed = true
		p.reset()
		changes = everything(in.Snapshot)
	} else {
		changes.Merge(in.Changes)
	}
	for _, id := range sorted(changes.Hosts) {
		p.ingestHost(id, in.Snapshot.Host(id))
	}
	for _, k := range sorted(changes.Tasks) {
		p.ingestTask(in.Snapshot, k)
	}
	for _, uid := range changes.Jobs {
		if in.Snapshot.Job(uid) == nil {
			delete(p.keys, uid)
		}
	}
}

func everything(snap *cluster.Snapshot) cluster.Changes {
	var all cluster.Changes
	for h := range snap.Hosts("") {
		all.Hosts = append(all.Hosts, h.ID)
	}
	for t := range snap.Tasks(0) {
		if t.State == cluster.TaskPending {
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

func (p *Planner) ingestTask(snap *cluster.Snapshot, k cluster.TaskKey) {
	was, waits := p.waiting[k]
	t := snap.Task(k)
	if t == nil || t.State != cluster.TaskPending {
		if waits {
			was.class.queue.Delete(was.as)
			delete(p.waiting, k)
		}
		return
	}
	now := entry{p.classFor(snap.Job(k.Job()), k.Instance()), waiter{queued: t.Queued, task: k, run: t.Run + 1}}
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

// classFor returns the class of a waiting instance of the job, a new one if there was none.
func (p *Planner) classFor(j *cluster.Job, instance uint32) *class {
	cached, ok := p.keys[j.UID]
	if !ok || cached.spec != j.Spec {
		cached = jobKey{j.Spec, KeyOf(j.Spec, 0)}
		p.keys[j.UID] = cached
	}
	key := cached.key
	if len(j.Spec.Inputs) > 0 || len(j.Spec.Overrides) > 0 { // instances may differ
		key = KeyOf(j.Spec, instance)
	}
	c := p.classes[key]
	if c == nil {
		c = newClass(key, j.Spec, inputsOf(j.Spec, instance), p.rows.get(key.row, j.Spec.TaskOf(instance), j.Spec.Constraint))
		p.classes[key] = c
		p.order = append(p.order, c)
	}
	return c
}

func (p *Planner) ingestHost(id cluster.HostID, rec *cluster.Host) {
	h := p.hosts.byID[id]
	if rec == nil && h == nil {
		return
	}
	if h == nil {
		h = p.hosts.add(id)
	}
	if gained(h.rec, rec) {
		p.dirty = true
	}
	if rec == nil {
		p.graph.dropHost(h)
		p.hosts.remove(h)
		return
	}
	p.hosts.set(h, rec)
}

// gained reports whether the host may take something now that it could not take before.
func gained(old, rec *cluster.Host) bool {
	switch {
	case rec == nil || rec.State() != cluster.HostUp:
		return false
	case old == nil || old.State() != cluster.HostUp:
		return true
	case !slices.Equal(old.Attributes, rec.Attributes) || old.Rack != rec.Rack || old.Zone != rec.Zone || !slices.Equal(old.GPUs, rec.GPUs):
		return true
	case rec.Capabilities&^old.Capabilities != 0 || rec.GainedPorts(old):
		return true
	}
	before := old.GPURoom()
	for i, free := range rec.GPURoom() {
		if free > before[i] {
			return true
		}
	}
	return !rec.Room().Fits(old.Room()) // more of something, or of something new
}

// dropEmpty forgets the classes without waiting tasks.
func (p *Planner) dropEmpty() {
	p.order = slices.DeleteFunc(p.order, func(c *class) bool {
		if c.queue.Len() > 0 {
			return false
		}
		p.graph.dropClass(c)
		p.rows.release(c.row)
		delete(p.classes, c.key)
		return true
	})
}

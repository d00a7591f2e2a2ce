package check

import (
	"reflect"

	"github.com/sluice-scheduler/sluice/cluster"
)

// alike reports whether an instance runs the same by both specs.
func alike(a, b *cluster.JobSpec, instance uint32) bool {
	run := func(s *cluster.JobSpec) any {
		task := *s.TaskOf(instance)
		task.KillGrace = 0 // counts from the next stop on, whatever runs
		return []any{task, s.Labels, s.Constraint, s.Preferences, s.Spread}
	}
	return reflect.DeepEqual(run(a), run(b))
}

// goesOn has the task, whose run has ended, run by what it is to run by next.
func (t *task) goesOn() {
	if t.next != nil {
		t.spec, t.next = t.next, nil
	}
}

// advance takes in how far an update is: it may run more instances than are wanted.
func (c *Checker) advance(e *cluster.UpdateAdvanced) {
	j := c.jobs[e.Job]
	if j == nil {
		c.report(Life, "an update of job %d advances, which does not exist", e.Job)
		return
	}
	j.update, j.surge = &e.Update, e.Surge
	c.grow(j)
}

// follow takes in that the job has another spec, by that update or by none.
func (j *job) follow(by *cluster.Update) {
	to := uint64(len(j.specs))
	switch {
	case by != nil:
		u := *by
		u.To = to
		j.update = &u
	case j.update.Live(): // it leads there now
		u := *j.update
		if u.To = to; j.update.Restarts() {
			u.From = to
		}
		j.update = &u
	}
}

// comesBy returns the spec that an instance which comes runs by: the one before while nobody has promoted the canaries, or resumed what
// is paused.
func (j *job) comesBy(instance uint32) *cluster.JobSpec {
	if u := j.update; (u.HoldsCanaries() || u.Pauses()) && j.spec.Wants(instance) && u.From-1 < uint64(len(j.specs)) {
		return j.specs[u.From-1]
	}
	return j.spec
}

// updateTask brings a task to a version of its job.
func (c *Checker) updateTask(e *cluster.TaskUpdated) {
	k, t := e.Task, c.task(e.Task)
	if t == nil || t.gone || c.jobs[k.Job()].stopping {
		c.report(Life, "task %v is updated and does not exist, or its job is being stopped", k)
		return
	}
	j := c.jobs[k.Job()]
	if e.Version == 0 || e.Version > uint64(len(j.specs)) {
		c.report(Life, "task %v is brought to version %d of %d", k, e.Version, len(j.specs))
		return
	}
	to := j.specs[e.Version-1]
	switch {
	case e.InPlace:
		c.changeInPlace(k, t, to)
	case e.Later:
		c.release(k, t)
		t.next = to
	case t.state.bound():
		c.volunteers(k, t)
		c.release(k, t)
		c.enter(k, t, stopping)
		t.next, t.anew = to, true
	case t.state == ended && !e.Revive:
		t.spec = to
	default:
		c.release(k, t)
		t.spec, t.next = to, nil
		if !j.waits {
			c.enter(k, t, waiting)
		}
	}
}

// changeInPlace gives a task another spec, wherever it is.
func (c *Checker) changeInPlace(k cluster.TaskKey, t *task, to *cluster.JobSpec) {
	if t.hold != nil {
		t.hold.holds[k].spec = to.TaskOf(k.Instance())
	}
	if !t.state.bound() {
		t.spec = to
		return
	}
	j, h := c.jobs[k.Job()], t.host
	more := &cluster.TaskSpec{Resources: to.TaskOf(k.Instance()).Resources.Sub(t.spec.TaskOf(k.Instance()).Resources).Positive()}
	if what, lacks := h.lacks(more, &goods{}); lacks && !to.Revocable {
		c.report(Capacity, "task %v grows on %q, which has too little %s left", k, h.id, what)
	}
	h.take(t.spec, k, t, -1)
	c.book(j, t.spec.TaskOf(k.Instance()), -1)
	t.spec = to
	h.take(t.spec, k, t, 1)
	c.book(j, t.spec.TaskOf(k.Instance()), 1)
	c.withinLimits(j, more)
}

// volunteers checks that the job of a task that is asked to leave, though nobody stopped it, bears that: of a service, no more
// instances may lack than it allows. Those that are not ready lack already.
func (c *Checker) volunteers(k cluster.TaskKey, t *task) {
	j := c.jobs[k.Job()]
	if !j.spec.Type.Service() || j.spec.Type == cluster.Daemon || !t.ready(k.Instance()) {
		return
	}
	ready := 0
	for i := range j.tasks {
		if j.tasks[i].ready(uint32(i)) {
			ready++
		}
	}
	if away := int(j.spec.Instances) - (ready - 1); away > max(1, int(j.spec.Limits.MaxUnavailable)) {
		c.report(Availability, "task %v is asked to leave, and %d of %d instances of its job are away then", k, away, j.spec.Instances)
	}
}

// ready reports whether the task of an instance serves: it runs on a host that is vouched for, and its checks do not deny it.
func (t *task) ready(instance uint32) bool {
	if t.state != running || t.host.unreachable {
		return false
	}
	return t.health == cluster.HealthReady || t.health == cluster.HealthUnknown && !t.spec.TaskOf(instance).ChecksReadiness()
}

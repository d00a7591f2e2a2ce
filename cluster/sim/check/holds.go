package check

import "github.com/sluice-scheduler/sluice/cluster"

func (c *Checker) hold(e *cluster.TaskHeld) {
	t := c.task(e.Task)
	switch {
	case t == nil:
		c.report(Life, "room is held for task %v, which does not exist", e.Task)
	case t.state != waiting:
		c.report(Life, "room is held for task %v, which does not wait", e.Task)
	default:
		c.enter(e.Task, t, held)
		c.keep(e.Task, t, e.Hold.Host)
	}
}

// keep notes that a host keeps room for the task.
func (c *Checker) keep(k cluster.TaskKey, t *task, id cluster.HostID) {
	h := c.hosts[id]
	if h == nil {
		c.report(TakesWork, "room is held for task %v on host %q, which does not exist", k, id)
		return
	}
	t.hold = h
	h.holds[k] = &c.jobs[k.Job()].spec.Task
}

// release ends what is kept for the task.
func (c *Checker) release(k cluster.TaskKey, t *task) {
	if t.hold != nil {
		delete(t.hold.holds, k)
		t.hold = nil
	}
}

func (c *Checker) preempt(e *cluster.TaskPreempted) {
	t := c.task(e.Task)
	switch {
	case t == nil || !t.state.bound() || t.state == stopping || t.run != e.Run:
		c.report(Life, "task %v is asked to leave and does not run, or leaves already", e.Task)
		return
	case !c.jobs[e.Task.Job()].spec.Preemptible:
		c.report(Reservation, "task %v is asked to leave and may not be preempted", e.Task)
	}
	c.enter(e.Task, t, stopping)
	if e.Hold != nil {
		c.keep(e.Task, t, e.Hold.Host)
	}
}

// vacate counts room as being vacated, with sign −1 no more.
func (h *host) vacate(s *cluster.TaskSpec, sign int64) {
	for d, v := range s.Resources.Fixed {
		h.going[d] += sign * v
	}
}

// keepsAway checks that the placement leaves to others what is held for them: what their holds ask for beyond what is
// being vacated.
func (c *Checker) keepsAway(s *cluster.JobSpec, h *host, e *cluster.Placed) {
	if _, own := h.holds[e.Task]; own {
		return
	}
	var kept [cluster.NumDimensions]int64
	for _, spec := range h.holds { // a sum: the order does not matter
		for d, v := range spec.Resources.Fixed {
			kept[d] += v
		}
	}
	for d, v := range s.Task.Resources.Fixed {
		away := max(0, kept[d]-h.going[d])
		if v > 0 && away > 0 && h.used[d]+v > h.machine.Capacity.Fixed[d]-away {
			c.report(Reservation, "task %v is placed on %q into %s that is held for others", e.Task, h.id, cluster.Dimension(d))
		}
	}
}

// whole checks, once the records about a gang are over, that none of its core was left out: of those that wait when some
// are placed, and of those that run when some are asked to leave.
func (c *Checker) whole(next cluster.Event) {
	var forming, leaving *job
	switch e := next.(type) {
	case *cluster.Placed:
		forming = c.coreOf(e.Task)
	case *cluster.TaskPreempted:
		leaving = c.coreOf(e.Task)
	}
	if j := c.forming; j != nil && j != forming {
		c.none(j, "is placed in part", func(t *task) bool { return t.state == waiting || t.state == held })
	}
	if j := c.leaving; j != nil && j != leaving {
		c.none(j, "is asked to leave in part", func(t *task) bool { return t.state.bound() && t.state != stopping })
	}
	c.forming, c.leaving = forming, leaving
}

// coreOf returns the job of a core member, nil for any other task.
func (c *Checker) coreOf(k cluster.TaskKey) *job {
	j := c.jobs[k.Job()]
	if j == nil || !j.spec.Core(k.Instance()) {
		return nil
	}
	return j
}

func (c *Checker) none(j *job, what string, out func(*task) bool) {
	for i := range min(int(j.spec.Gang.Minimum), len(j.tasks)) {
		if out(&j.tasks[i]) {
			c.report(Gang, "the gang of job %d %s: task %d is left out", j.uid, what, i)
			return
		}
	}
}

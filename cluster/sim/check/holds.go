package check

import "github.com/sluice-scheduler/sluice/cluster"

func (c *Checker) hold(e *cluster.TaskHeld) {
	t := c.task(e.Task)
	switch {
	case t == nil:
		c.report(Life, "room is held for task %v, which does not exist", e.Task)
	case t.state != waiting && t.state != resting:
		c.report(Life, "room is held for task %v, which does not wait", e.Task)
	default:
		c.enter(e.Task, t, held)
		c.keep(e.Task, t, &e.Hold)
	}
}

// reserved is what is kept for a task.
type reserved struct {
	spec           *cluster.TaskSpec
	devices, ports []uint16
}

// keep notes that a host keeps room for the task.
func (c *Checker) keep(k cluster.TaskKey, t *task, hold *cluster.Hold) {
	h := c.hosts[hold.Host]
	if h == nil {
		c.report(TakesWork, "room is held for task %v on host %q, which does not exist", k, hold.Host)
		return
	}
	t.hold = h
	h.holds[k] = &reserved{t.spec.TaskOf(k.Instance()), hold.GPUs, hold.Ports}
}

// release ends what is kept for the task.
func (c *Checker) release(k cluster.TaskKey, t *task) {
	if t.hold != nil {
		delete(t.hold.holds, k)
		t.hold = nil
	}
}

// waitsOn has a task wait whose hold has ended, or back off where it did.
func (c *Checker) waitsOn(k cluster.TaskKey, t *task) {
	next := waiting
	if t.until != 0 {
		next = resting
	}
	c.enter(k, t, next)
}

// goesOn ends what is kept for a task that was to move, if the record after its end is not that it waits again.
func (c *Checker) goesOn(next cluster.Event) {
	k := c.moving
	if k == 0 {
		return
	}
	c.moving = 0
	if e, again := next.(*cluster.TaskRequeued); again && e.Task == k {
		return
	}
	if t := c.task(k); t != nil {
		c.release(k, t)
	}
}

func (c *Checker) preempt(e *cluster.TaskPreempted) {
	t := c.task(e.Task)
	switch {
	case t == nil || !t.state.bound() || t.state == stopping || t.run != e.Run:
		c.report(Life, "task %v is asked to leave and does not run, or leaves already", e.Task)
		return
	case !t.spec.Preemptible && !t.spec.Revocable:
		c.report(Reservation, "task %v is asked to leave and may not be preempted", e.Task)
	}
	if c.mode.KillingStopped {
		c.report(Mode, "task %v is asked to leave while killing is switched off", e.Task)
	}
	c.volunteers(e.Task, t)
	c.enter(e.Task, t, stopping)
	if e.Hold != nil {
		c.keep(e.Task, t, e.Hold)
	}
}

// goods is an amount of everything that a host can have too little of.
type goods struct {
	fixed   [cluster.NumDimensions]int64
	named   map[string]int64
	devices map[uint16]int64 // thousandths, by index
	ports   map[uint16]int64 // 1 where it is in
}

// add adds what a task takes, with sign −1 the reverse.
func (g *goods) add(s *cluster.TaskSpec, devices, ports []uint16, sign int64) {
	if g.named == nil {
		g.named, g.devices, g.ports = map[string]int64{}, map[uint16]int64{}, map[uint16]int64{}
	}
	for d, v := range s.Resources.Fixed {
		g.fixed[d] += sign * v
	}
	for _, a := range s.Resources.Named {
		g.named[a.Name] += sign * a.Value
	}
	for _, i := range devices {
		g.devices[i] += sign * each(&s.GPU)
	}
	for _, p := range ports {
		g.ports[p] += sign
	}
}

// kept sums up what the host keeps for tasks: what their holds ask for beyond what is being vacated.
func (h *host) kept() *goods {
	var sum goods
	for _, r := range h.holds { // a sum: the order does not matter
		sum.add(r.spec, r.devices, r.ports, 1)
	}
	for d := range sum.fixed {
		sum.fixed[d] = max(0, sum.fixed[d]-h.going.fixed[d]-h.freed(d))
	}
	for name, v := range sum.named {
		sum.named[name] = max(0, v-h.going.named[name])
	}
	for i, v := range sum.devices {
		sum.devices[i] = max(0, v-h.going.devices[i])
	}
	return &sum
}

// keepsAway checks that the placement leaves to others what is held for them.
func (c *Checker) keepsAway(task *cluster.TaskSpec, h *host, e *cluster.Placed) {
	if _, own := h.holds[e.Task]; own || len(h.holds) == 0 {
		return
	}
	kept := h.kept()
	if what, lacks := h.lacks(task, kept); lacks {
		c.report(Reservation, "task %v is placed on %q into %s that is held for others", e.Task, h.id, what)
	}
	for _, i := range e.GPUs {
		if away := kept.devices[i]; away > 0 && int(i) < len(h.devices) && h.devices[i]+each(&task.GPU) > whole-away {
			c.report(Reservation, "task %v is placed on device %d of %q, which is held for others", e.Task, i, h.id)
		}
	}
	for _, p := range e.Ports {
		if kept.ports[p] > 0 {
			c.report(Reservation, "task %v gets port %d of %q, which is held for others", e.Task, p, h.id)
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

package check

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/cluster"
)

// state is as much of a task's state as rules depend on.
type state uint8

const (
	waiting  state = iota
	held           // waits, and room is kept for it
	placed         // bound, and nothing was heard of the run yet
	begun          // bound, and on its way
	running        // bound, and seen running
	stopping       // bound, and told to end
	ended
	resting // may not be placed: it backs off, or its job waits for others
)

func (s state) bound() bool { return s >= placed && s <= stopping }

// task is one instance of a job.
type task struct {
	state    state
	until    cluster.Time // before which it may not be placed, of one that backs off
	presumed bool         // its last run was given up without word from the host
	gone     bool         // the job has no such instance any more
	again    bool         // it was gone before, and counts its runs on from a higher number
	run      uint32
	health   cluster.Health // of that run
	host     *host
	devices  []uint16
	ports    []uint16
	hold     *host        // that keeps room for its next run
	since    cluster.Time // when it was submitted

	succeeded bool           // its last run has
	anew      bool           // it waits again when its run has ended, whatever comes of that
	won       bool           // a copy of it has
	off       *host          // of a copy: where it does not run
	home      cluster.HostID // of an instance of a daemon: with it it goes

	spec *cluster.JobSpec // that it runs by, or will run by where it waits
	next *cluster.JobSpec // that it will run by when it waits again; nil: the same
}

type job struct {
	uid       cluster.JobUID
	spec      *cluster.JobSpec
	specs     []*cluster.JobSpec // all versions, from the first
	update    *cluster.Update    // the last one, as far as it is
	surge     uint32             // instances that it runs beyond those of spec
	signature string             // of what decides where its tasks fit, where all are alike
	stopping  bool
	waits     bool // for other jobs
	tasks     []task
	copies    map[uint32]*task // by instance
	waiting   int              // but for copies
}

func (c *Checker) submit(n *cluster.NewJob) {
	if c.jobs[n.UID] != nil {
		c.report(Life, "job %d is submitted twice", n.UID)
		return
	}
	j := &job{uid: n.UID, spec: n.Spec, specs: []*cluster.JobSpec{n.Spec}, signature: signature(n.Spec, &n.Spec.Task)}
	c.jobs[n.UID] = j
	j.waits = len(n.Spec.DependsOn) > 0
	c.grow(j)
}

// grow adds waiting tasks up to the number of instances, and has those beyond it go.
func (c *Checker) grow(j *job) {
	if j.spec.Type == cluster.Daemon {
		return // it has one for each host
	}
	wanted := int(j.spec.Instances + j.surge)
	for k, t := range j.all {
		if i := int(k.Instance()); i >= wanted && !t.gone {
			t.gone = true
			c.end(k, t)
		} else if i < wanted && t.gone && !k.IsCopy() {
			t.gone, t.again, t.anew = false, true, true
			if t.next = j.comesBy(k.Instance()); t.state == ended {
				t.since, t.spec, t.next = c.at, t.next, nil
				c.enter(k, t, waiting)
			}
		}
	}
	added, later := max(0, wanted-len(j.tasks)), len(j.tasks) > 0
	for range added {
		j.tasks = append(j.tasks, task{since: c.at, spec: j.comesBy(uint32(len(j.tasks))), again: later})
	}
	j.waiting += added
	c.waiting += added
	for i := range j.tasks {
		if t := &j.tasks[i]; j.waits && t.state == waiting {
			c.enter(cluster.MakeTaskKey(j.uid, uint32(i)), t, resting)
		}
	}
}

func (c *Checker) update(e *cluster.JobUpdated) {
	j := c.jobs[e.Job]
	if j == nil {
		c.report(Life, "job %d is updated and does not exist", e.Job)
		return
	}
	j.spec, j.signature = e.Spec, signature(e.Spec, &e.Spec.Task)
	j.specs = append(j.specs, e.Spec)
	j.follow(e.Update)
	c.grow(j)
	for k, t := range j.all {
		if !t.gone && alike(t.spec, e.Spec, k.Instance()) {
			t.spec, t.next = e.Spec, nil
		}
	}
}

// signature renders everything about a task of a job that decides where it fits.
func signature(s *cluster.JobSpec, task *cluster.TaskSpec) string {
	constraint := ""
	if s.Constraint != nil {
		constraint = fmt.Sprintf("%+v", describe(s.Constraint))
	}
	return fmt.Sprintf("%v %v %v %v %d %d %s", task.Resources.Fixed, task.Resources.Named, task.GPU, task.Ports.Numbers, task.Ports.Dynamic, s.NeedsFor(task), constraint)
}

func describe(k *cluster.Constraint) string {
	text := fmt.Sprintf("%d %q %t %d %d [", k.Op, k.Label, k.AnyValue, k.Comparison, k.Count)
	for i := range k.Terms {
		text += describe(&k.Terms[i])
	}
	return text + "]"
}

// task returns the task of a key, nil if there is none.
func (c *Checker) task(k cluster.TaskKey) *task {
	j := c.jobs[k.Job()]
	switch {
	case j == nil:
		return nil
	case k.IsCopy():
		return j.copies[k.Instance()]
	case int(k.Instance()) >= len(j.tasks):
		return nil
	}
	return &j.tasks[k.Instance()]
}

// enter moves a task to a state, and keeps the counts and its host in step.
func (c *Checker) enter(k cluster.TaskKey, t *task, next state) {
	j := c.jobs[k.Job()]
	was := t.state
	count := func(by int) {
		if c.waiting += by; !k.IsCopy() {
			j.waiting += by
		}
	}
	if was == waiting {
		count(-1)
	}
	if next == waiting {
		count(1)
	}
	switch {
	case !was.bound() && next.bound():
		c.bound++
		c.borrowers += borrows(j.spec)
		t.host.take(t.spec, k, t, 1)
		c.book(j, t.spec.TaskOf(k.Instance()), 1)
	case was.bound() && !next.bound():
		c.bound--
		c.borrowers -= borrows(j.spec)
		c.book(j, t.spec.TaskOf(k.Instance()), -1)
		t.host.take(t.spec, k, t, -1)
		if was == stopping {
			t.host.leaves(t.spec, k, t, -1)
		}
		t.host, t.devices, t.ports = nil, nil, nil
	}
	if next == stopping && was != stopping {
		t.host.leaves(t.spec, k, t, 1)
	}
	if t.state = next; next != resting && next != held {
		t.until = 0
	}
}

func (c *Checker) place(e *cluster.Placed) {
	t, h := c.task(e.Task), c.hosts[e.Host]
	switch {
	case t == nil:
		c.report(Life, "task %v is placed and does not exist", e.Task)
		return
	case h == nil:
		c.report(TakesWork, "task %v is placed on host %q, which does not exist", e.Task, e.Host)
		return
	case t.state.bound():
		c.report(Once, "task %v is placed on %q while run %d of it is on %q", e.Task, e.Host, t.run, t.host.id)
		return
	case t.state != waiting && t.state != held:
		c.report(Life, "task %v is placed and does not wait", e.Task)
		return
	case e.Run != t.run+1 && (!t.again || e.Run <= t.run):
		c.report(Once, "run %d of task %v follows run %d", e.Run, e.Task, t.run)
	}
	if c.at < t.until {
		c.report(Life, "task %v is placed while it backs off", e.Task)
	}
	if c.mode.SchedulingStopped {
		c.report(Mode, "task %v is placed while scheduling is switched off", e.Task)
	}
	if t.off == h {
		c.report(Once, "the copy %v is placed on %q, where its task ran", e.Task, h.id)
	}
	c.judge(t.spec, h, e)
	c.release(e.Task, t)
	t.run, t.host, t.devices, t.ports, t.presumed, t.succeeded, t.anew = e.Run, h, e.GPUs, e.Ports, false, false, false
	t.health = cluster.HealthUnknown
	c.enter(e.Task, t, placed)
	c.withinLimits(c.jobs[e.Task.Job()], t.spec.TaskOf(e.Task.Instance()))
}

// forgetNumbers has all tasks count their runs on from higher numbers.
func (c *Checker) forgetNumbers() {
	for _, j := range c.jobs { // each by itself
		for _, t := range j.all {
			t.again = true
		}
	}
}

func (c *Checker) status(e *cluster.TaskStatus) {
	t := c.task(e.Task)
	switch {
	case t == nil:
		c.report(Life, "a status of task %v, which does not exist", e.Task)
		return
	case t.run != e.Run || !t.state.bound():
		c.report(Life, "a status of run %d of task %v, which is not bound in that run", e.Run, e.Task)
		return
	}
	switch e.State {
	case cluster.TaskLaunching, cluster.TaskStarting:
		if t.state == placed {
			c.enter(e.Task, t, begun)
		}
	case cluster.TaskRunning:
		if t.state != stopping {
			c.enter(e.Task, t, running)
		}
	case cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled:
		t.presumed = e.Reason == cluster.ReasonHostLost
		t.succeeded = e.State == cluster.TaskSucceeded
		c.enter(e.Task, t, ended)
		if t.hold != nil {
			c.moving = e.Task
		}
	default:
		c.report(Life, "a status %v of task %v, which nobody may report", e.State, e.Task)
	}
}

func (c *Checker) stop(e *cluster.TaskStopping) {
	t := c.task(e.Task)
	switch {
	case t == nil:
		c.report(Life, "task %v is stopped and does not exist", e.Task)
		return
	case t.state.bound():
		if e.Reason == cluster.ReasonDrained {
			c.volunteers(e.Task, t)
		}
		c.release(e.Task, t)
		c.enter(e.Task, t, stopping)
		t.anew = e.Restart && e.Reason != cluster.ReasonHostLost && e.Reason != cluster.ReasonDrained && e.Reason != cluster.ReasonGangBroken
	case e.Restart:
		c.release(e.Task, t)
		if t.state == ended && !t.spec.Core(e.Task.Instance()) { // who waits already keeps its place; a core waits as one
			t.since = c.at
		}
		t.goesOn()
		c.enter(e.Task, t, waiting)
	case t.state == waiting || t.state == held || t.state == resting:
		c.release(e.Task, t)
		c.enter(e.Task, t, ended)
	default:
		c.report(Life, "task %v is stopped after its end", e.Task)
	}
	t.won = t.won && !e.Restart
}

func (c *Checker) requeue(e *cluster.TaskRequeued) {
	k, t := e.Task, c.task(e.Task)
	switch {
	case t == nil || t.gone:
		c.report(Life, "task %v waits again and does not exist", k)
		return
	case c.jobs[k.Job()].stopping:
		c.report(Life, "task %v waits again, of a job that is being stopped", k)
		return
	case t.won:
		c.report(Once, "task %v waits again, and a copy of it has succeeded", k)
		return
	case t.state == ended && t.succeeded && !t.anew && !t.spec.Type.Service():
		c.report(Once, "task %v waits again, and run %d of it has succeeded", k, t.run)
		return
	case t.state == waiting || t.state == resting || t.state == running || t.state == stopping:
		c.report(Once, "task %v waits again while it waits or run %d of it is under way", k, t.run)
		return
	}
	t.goesOn()
	t.succeeded, t.anew = false, false
	switch {
	case t.state == ended && t.hold != nil: // it moves
		c.enter(k, t, held)
	case e.NotBefore != 0:
		c.release(k, t)
		c.enter(k, t, resting)
		t.until = e.NotBefore
	default:
		c.release(k, t)
		c.enter(k, t, waiting)
	}
}

// addInstance takes in a new instance of a daemon.
func (c *Checker) addInstance(e *cluster.InstanceAdded) {
	k := e.Task
	j := c.jobs[k.Job()]
	if t := c.task(k); j == nil || t != nil && (!t.gone || t.state != ended) {
		c.report(Life, "task %v is added and exists, or has no job", k)
		return
	}
	for len(j.tasks) <= int(k.Instance()) {
		j.tasks = append(j.tasks, task{state: ended, gone: true})
	}
	t := &j.tasks[k.Instance()]
	t.gone, t.again, t.since, t.spec, t.home = false, true, c.at, j.spec, e.Host
	if e.Version != 0 {
		if t.spec = j.comesBy(k.Instance()); j.specs[e.Version-1] != t.spec {
			c.report(Life, "task %v begins by version %d, which is not the one before what is held back", k, e.Version)
		}
	}
	if c.enter(k, t, waiting); j.waits {
		c.enter(k, t, resting)
	}
}

// leave takes in that an instance of a daemon goes.
func (c *Checker) leave(k cluster.TaskKey) {
	t := c.task(k)
	if t == nil || t.gone {
		c.report(Life, "task %v goes and does not exist", k)
		return
	}
	t.gone = true
	c.end(k, t)
}

// wake lets a task wait that backed off.
func (c *Checker) wake(k cluster.TaskKey) {
	t := c.task(k)
	switch {
	case t == nil || t.until == 0 || c.at < t.until:
		c.report(Life, "task %v is let go and does not back off, or has to for longer", k)
		return
	case t.state == resting:
		c.enter(k, t, waiting)
	}
	t.until = 0
}

// releaseJob lets the tasks of a job wait that waited for other jobs.
func (c *Checker) releaseJob(uid cluster.JobUID) {
	j := c.jobs[uid]
	if j == nil || !j.waits {
		c.report(Life, "job %d is let go and does not wait for others", uid)
		return
	}
	j.waits = false
	for i := range j.tasks {
		if t := &j.tasks[i]; t.state == resting {
			c.enter(cluster.MakeTaskKey(uid, uint32(i)), t, waiting)
		}
	}
}

func (c *Checker) stopJob(uid cluster.JobUID) {
	j := c.jobs[uid]
	if j == nil {
		c.report(Life, "job %d is stopped and does not exist", uid)
		return
	}
	j.stopping = true
	for k, t := range j.all {
		c.end(k, t)
	}
}

// end has a task end: at once where it waits, else when its run has ended.
func (c *Checker) end(k cluster.TaskKey, t *task) {
	switch {
	case t.state == waiting || t.state == held || t.state == resting:
		c.release(k, t)
		c.enter(k, t, ended)
	case t.state.bound():
		c.release(k, t)
		c.enter(k, t, stopping)
	}
}

func (c *Checker) deleteJob(uid cluster.JobUID) {
	j := c.jobs[uid]
	if j == nil {
		c.report(Life, "job %d is deleted and does not exist", uid)
		return
	}
	for k, t := range j.all {
		c.release(k, t)
		if t.state != ended {
			c.report(Life, "job %d is deleted while task %v has not ended", uid, k)
			c.enter(k, t, ended)
		}
		for run := range t.run {
			delete(c.starts, cluster.RunID{Task: k, Run: run + 1})
		}
	}
	delete(c.jobs, uid)
}

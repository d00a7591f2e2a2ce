package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Quiet asks whether something waits that fits: a task somewhere, the core of a gang as a whole. It is meant for moments
// at which the scheduler has planned with everything that the records say, and nothing has happened since. It returns at
// how many jobs and hosts it looked. Complexity: jobs + different requests × hosts.
func (c *Checker) Quiet() (looks int) {
	c.loans()
	if c.waiting == 0 {
		return 0
	}
	c.waits = c.lines()
	if c.reserves {
		c.there = c.capacity()
		c.short = c.shortages()
	}
	asked := map[string]int64{} // room for a request, as far as it was counted
	for _, uid := range slices.Sorted(maps.Keys(c.jobs)) {
		if j := c.jobs[uid]; j.waiting > 0 && !j.spec.Revocable && !countsTasks(j.spec) && !hasHome(j.spec) { // what counts tasks may wait for others
			c.quietJob(j, asked)
		}
	}
	return len(c.jobs) + len(asked)*len(c.hosts)
}

// quietJob asks about the waiting tasks of a job.
func (c *Checker) quietJob(j *job, asked map[string]int64) {
	core := uint32(0)
	if j.spec.Gang != nil {
		core = j.spec.Gang.Minimum
		waits := c.waitingIn(j, 0, core)
		if len(waits) > 0 {
			if n := int64(len(waits)); !c.gangMayWait(j) && !c.keptBack(j, &j.spec.Task, n) && c.room(j.spec, &j.spec.Task, j.signature, n, asked) >= n {
				c.report(Idle, "the %d waiting tasks of the gang of job %d (%q) wait, though all of them fit", len(waits), j.uid, j.spec.Name)
			}
			return // those beyond the core start after it
		}
		begun := func(t task) bool { return t.state.bound() }
		if members := j.tasks[:core]; slices.ContainsFunc(members, func(t task) bool { return t.state == held }) && !slices.ContainsFunc(members, begun) {
			return // too
		}
	}
	if len(j.spec.Overrides) == 0 && len(j.specs) == 1 {
		if n := j.waiting; n > 0 && !c.keptBack(j, &j.spec.Task, 1) && c.room(j.spec, &j.spec.Task, j.signature, 1, asked) > 0 {
			c.report(Idle, "%d tasks of job %d (%q) wait, though one fits on host %q", n, j.uid, j.spec.Name, c.firstFor(j.spec, &j.spec.Task))
		}
		return
	}
	for _, i := range c.waitingIn(j, core, uint32(len(j.tasks))) {
		spec := j.tasks[i].spec
		task := spec.TaskOf(i)
		if !countsTasks(spec) && !c.keptBack(j, task, 1) && c.room(spec, task, signature(spec, task), 1, asked) > 0 {
			c.report(Idle, "task %d of job %d (%q) waits, though it fits on host %q", i, j.uid, j.spec.Name, c.firstFor(spec, task))
		}
	}
}

// gangMayWait reports whether a member of the core has room kept for it, or is leaving or backs off: then the others wait for it.
func (c *Checker) gangMayWait(j *job) bool {
	return slices.ContainsFunc(j.tasks[:j.spec.Gang.Minimum], func(t task) bool { return t.state == held || t.state == stopping || t.state == resting })
}

// waitingIn lists the waiting instances from first to before the last.
func (c *Checker) waitingIn(j *job, first, last uint32) (instances []uint32) {
	for i := first; i < last; i++ {
		if j.tasks[i].state == waiting {
			instances = append(instances, i)
		}
	}
	return instances
}

// room counts for how many such tasks of the job there is room on all hosts, at most limit or a little more.
func (c *Checker) room(s *cluster.JobSpec, task *cluster.TaskSpec, signature string, limit int64, asked map[string]int64) int64 {
	for p := s.Pool; p != ""; p = p.Parent() {
		for _, l := range c.account(p).hosts {
			signature += fmt.Sprintf("%q", l)
		}
	}
	if sum, known := asked[signature]; known && (sum == 0 || sum >= limit) {
		return sum
	}
	sum := int64(0)
	for _, h := range c.hosts { // a sum up to a limit, of which only whether it is reached counts
		if sum += c.roomOn(h, s, task, limit); sum >= limit {
			break
		}
	}
	asked[signature] = sum
	return sum
}

// firstFor returns the first host by id that has room for such a task of the job.
func (c *Checker) firstFor(s *cluster.JobSpec, task *cluster.TaskSpec) (first cluster.HostID) {
	for id, h := range c.hosts { // the least id, so the order does not matter
		if (first == "" || id < first) && c.roomOn(h, s, task, 1) > 0 {
			first = id
		}
	}
	return first
}

// hasHome reports whether tasks of the job may be bound to a host: they wait for it, whatever fits elsewhere.
func hasHome(s *cluster.JobSpec) bool { return s.Type == cluster.Daemon || s.Type == cluster.Stateful }

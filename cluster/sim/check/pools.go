package check

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// account is what a pool sets, and what is bound in it and below it.
type account struct {
	settings map[string]cluster.PoolResource // by dimension
	hosts    []cluster.KeyValue              // labels that hosts of its tasks have to have
	counted  bool                            // it limits how many jobs may run, or what controllers may have
	shared   bool                            // its order is not that of priority and age alone
	used     map[string]int64
}

func (c *Checker) account(path cluster.PoolPath) *account {
	a := c.pools[path]
	if a == nil {
		a = &account{used: map[string]int64{}}
		c.pools[path] = a
	}
	return a
}

func (c *Checker) putPool(p *cluster.Pool) {
	a := c.account(p.Path)
	a.settings, a.hosts = map[string]cluster.PoolResource{}, p.Hosts
	l := &p.Limits
	a.shared = p.Order != cluster.PriorityFIFO || p.Ageing > 0
	a.counted = l.BoundsRunning() || l.ControllerPercent != nil
	for _, r := range p.Resources {
		a.settings[r.Dimension] = r
	}
	c.reserves = false
	for _, other := range c.pools { // in any order: some or none
		for _, r := range other.settings {
			c.reserves = c.reserves || r.Reservation > 0
		}
	}
}

// book counts what a task takes in its pool and all above, with sign −1 no more.
func (c *Checker) book(j *job, task *cluster.TaskSpec, sign int64) {
	if j.spec.Revocable {
		return // it has what others have not given up
	}
	for p := j.spec.Pool; p != ""; p = p.Parent() {
		used := c.account(p).used
		for name, v := range asks(task) {
			used[name] += sign * v
		}
	}
}

// heldBelow reports whether room is kept for tasks of the pool or of those below it.
func (c *Checker) heldBelow(p cluster.PoolPath) bool {
	for _, h := range c.hosts { // in any order: one or none
		for k := range h.holds {
			if p.Covers(c.jobs[k.Job()].spec.Pool) {
				return true
			}
		}
	}
	return false
}

// pledged sums up the room that is held for tasks of the pool that wait for it.
func (c *Checker) pledged(p cluster.PoolPath, dimension string) (sum int64) {
	for _, h := range c.hosts { // a sum: the order does not matter
		for k, r := range h.holds {
			if t := c.task(k); t != nil && t.state == held && c.jobs[k.Job()].spec.Pool == p {
				sum += asks(r.spec)[dimension]
			}
		}
	}
	return sum
}

// capacity returns what there is: what hosts have that take work, and what is used of the others.
func (c *Checker) capacity() map[string]int64 {
	left := map[string]int64{}
	for _, h := range c.hosts { // a sum, as below: the order does not matter
		has := h.machine.Capacity
		if h.unreachable || h.draining {
			has = cluster.Resources{Fixed: h.used}
			for name, v := range h.named {
				left[name] += v
			}
		}
		for name, v := range asks(&cluster.TaskSpec{Resources: has}) {
			left[name] += v
		}
	}
	return left
}

// shortages returns the dimensions of which pools reserve more together than there is.
func (c *Checker) shortages() map[string]bool {
	left, short := maps.Clone(c.there), map[string]bool{}
	for path, a := range c.pools {
		for name, set := range a.settings {
			if path.Parent() == cluster.RootPool {
				left[name] -= set.Reservation
				short[name] = left[name] < 0
			}
		}
	}
	return short
}

// line is the jobs of a leaf of which tasks wait, or copies of tasks.
type line struct {
	jobs  int
	first *job // the most urgent of them, and of these the oldest
}

// lines returns that of each leaf where somebody waits. Complexity: jobs.
func (c *Checker) lines() map[cluster.PoolPath]*line {
	all := map[cluster.PoolPath]*line{}
	for _, j := range c.jobs { // in any order: the first is the same
		if j.waiting == 0 && !j.copyWaits() {
			continue
		}
		l := all[j.spec.Pool]
		if l == nil {
			l = &line{first: j}
			all[j.spec.Pool] = l
		}
		if l.jobs++; j.before(l.first) {
			l.first = j
		}
	}
	return all
}

// before reports whether the job is more urgent than the other, or as urgent and older.
func (j *job) before(k *job) bool {
	return j.spec.Priority > k.spec.Priority || j.spec.Priority == k.spec.Priority && j.uid < k.uid
}

// othersFirst reports whether others wait in the pool or below it that may go before the job, some of whose tasks wait: as urgent and
// older, or more urgent; of another leaf, or of one that is fair or counts for how long tasks wait, any that have a share of their own.
// So do copies of its own tasks. Complexity: the leaves.
func (c *Checker) othersFirst(j *job, p cluster.PoolPath) bool {
	for leaf, l := range c.waits { // in any order: one or none
		switch {
		case !p.Covers(leaf):
		case leaf != j.spec.Pool, c.account(leaf).shared && l.jobs > 1, l.first.before(j):
			return true
		}
	}
	return j.copyWaits()
}

// copyWaits reports whether a copy of one of the job's tasks waits, as those do.
func (j *job) copyWaits() bool {
	for _, t := range j.copies { // in any order: one or none
		if t.state == waiting {
			return true
		}
	}
	return false
}

// withinLimits checks that the pool of a task that has just started, or grown by so much, and all above have no more than their
// limits of that.
func (c *Checker) withinLimits(j *job, task *cluster.TaskSpec) {
	if j.spec.Revocable {
		return
	}
	names := slices.Sorted(maps.Keys(asks(task)))
	for p := j.spec.Pool; p != ""; p = p.Parent() {
		a := c.account(p)
		for _, name := range names {
			if set, known := a.settings[name]; known && set.Limit != cluster.NoLimit && a.used[name] > set.Limit {
				c.report(Limit, "a task of job %d (%q) starts or grows: pool %s has %d of %s then, and a limit of %d", j.uid, j.spec.Name, p, a.used[name], name, set.Limit)
			}
		}
	}
}

// asks lists the amounts that are more than nothing, by dimension.
func asks(task *cluster.TaskSpec) map[string]int64 {
	list := map[string]int64{}
	for d, v := range task.Resources.Fixed {
		if v > 0 {
			list[cluster.Dimension(d).String()] = v
		}
	}
	for _, n := range task.Resources.Named {
		if n.Value > 0 {
			list[n.Name] += n.Value
		}
	}
	return list
}

// keptFree reports whether n such tasks of the job may have to wait because static pools keep free what they reserve.
func (c *Checker) keptFree(j *job, task *cluster.TaskSpec, n int64) bool {
	paths := slices.Sorted(maps.Keys(c.pools))
	for name, v := range asks(task) { // in any order: one or none
		static, idle := false, map[cluster.PoolPath]int64{}
		for _, p := range slices.Backward(paths) { // those below come first
			if set := c.pools[p].settings[name]; set.Static && set.Reservation > 0 && p != cluster.RootPool {
				static = true
				if !p.Covers(j.spec.Pool) {
					idle[p] = max(idle[p], set.Reservation-c.pools[p].used[name])
				}
			}
			idle[p.Parent()] += idle[p]
		}
		if root := cluster.RootPool; static && (c.account(root).used[name]+n*v+idle[root] > c.there[name] || c.heldBelow(root) || c.othersFirst(j, root)) {
			return true
		}
	}
	return false
}

// keptBack reports whether the settings of the job or of a pool let n such tasks of the job wait although there is room: a limit
// is reached, or may be, where jobs are counted or others have room kept; what may not be preempted would use more than is reserved,
// where anything is, beside those who have room kept, or more is reserved than there is, since then nobody has all of it; static pools
// keep room free; or, in each case, others wait that go before, and that it might pass.
func (c *Checker) keptBack(j *job, task *cluster.TaskSpec, n int64) bool {
	if most := int64(j.spec.Limits.MaxRunning); most > 0 {
		bound := int64(0)
		for k, t := range j.all {
			if t.state.bound() || t.state == held || t.state == resting && j.spec.Core(k.Instance()) { // the core goes before the others
				bound++
			}
		}
		if bound+n > most {
			return true
		}
	}
	if c.reserves && (c.othersFirst(j, j.spec.Pool) || c.keptFree(j, task, n)) {
		return true
	}
	for p := j.spec.Pool; p != ""; p = p.Parent() {
		a := c.account(p)
		if a.counted {
			return true
		}
		for name, v := range asks(task) {
			set, known := a.settings[name]
			if known && set.Limit != cluster.NoLimit && (a.used[name]+n*v > set.Limit || c.heldBelow(p) || c.othersFirst(j, p)) {
				return true
			}
			if c.reserves && !j.spec.Preemptible && p == j.spec.Pool && (c.short[name] || a.used[name]+c.pledged(p, name)+n*v > set.Reservation) {
				return true
			}
		}
	}
	return false
}

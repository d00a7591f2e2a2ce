package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// lifts are the limits of pools on running work that keep a task out, or would once the others do not.
type lifts struct {
	p     *Planner
	class *class
	as    waiter
	rank  int
	job   *cluster.Job
	runs  map[cluster.JobUID]bool // of which something runs, or was let in

	all   []Unblocker // the lowest pool first
	those []contender // the task with those who may be let in before it
}

// lift says how the limits of pools on running work let the task in, and which tasks go before it then.
// Complexity: depth, times groups and classes with waiting tasks.
func (p *Planner) lift(c *class, as waiter, rank int) *lifts {
	l := &lifts{p: p, class: c, as: as, rank: rank, job: p.snap.Job(as.task.Job()), runs: map[cluster.JobUID]bool{}}
	for _, g := range p.groupOrder {
		if g.running+g.placed+g.pledged+g.leaving+g.ending > 0 {
			l.runs[g.key.job] = true
		}
	}
	for _, x := range p.order {
		if x.open() > 0 {
			l.runs[x.key.group.job] = true
		}
	}
	top := c.key.group.pool // of those with a limit on revocable tasks
	for path := top; path != ""; path = path.Parent() {
		if p.snap.Pool(path).Limits.RevocablePercent != nil {
			top = path
		}
	}
	l.those = l.before(func(x *class, _ *cluster.Job) bool {
		return c.why.Rule == pool.RuleRevocable && x.row.key.revocable && top.Covers(x.key.group.pool) && !x.goesAfter(c, p.snap)
	})
	if c.why.Rule == pool.RuleRevocable { // the others have let it in; see lendMore
		return l
	}
	for path := c.key.group.pool; path != ""; path = path.Parent() {
		limits := &p.snap.Pool(path).Limits
		l.bound(pool.RuleRunningJobs, path, limits.RunningJobs, func(*cluster.Job) bool { return true })
		l.bound(pool.RuleRunningUser, path, limits.RunningJobsPerUser, func(j *cluster.Job) bool { return j.Spec.Owner == l.job.Spec.Owner })
		for _, name := range l.job.Spec.Groups {
			l.bound(pool.RuleRunningGroup, path, limits.RunningJobsPerGroup, func(j *cluster.Job) bool { return slices.Contains(j.Spec.Groups, name) })
		}
		if c.key.group.controller && limits.ControllerPercent != nil {
			l.controllers(path, *limits.ControllerPercent)
		}
	}
	return l
}

// before lists the task with those of its class and job that go before it, and those of other jobs that
// count.
func (l *lifts) before(counts func(*class, *cluster.Job) bool) []contender {
	c, p := l.class, l.p
	all := []contender{{c, int64(l.rank) + 1}}
	if c.together() {
		all[0].n = c.waiting()
	}
	for _, x := range p.order {
		head, waits := x.queue.Min()
		if !waits || x == c {
			continue
		}
		if head.task.Job() == l.job.UID {
			if n := int64(p.before(x, c, l.as)); n > 0 {
				all = append(all, contender{x, n})
			}
			continue
		}
		if j := p.snap.Job(head.task.Job()); j != nil && counts(x, j) {
			all = append(all, contender{x, x.waiting()})
		}
	}
	return all
}

// mayPrecede reports whether tasks of the class may be let in before the task: all but those that go after it
// in its own pool.
func (l *lifts) mayPrecede(x *class) bool {
	head, _ := x.queue.Min()
	return x.key.group.pool != l.class.key.group.pool || l.p.goesBefore(x, head, l.class, l.as)
}

// bound adds what has to happen below a limit on the jobs that run in a pool.
func (l *lifts) bound(rule pool.Rule, path cluster.PoolPath, limit *uint32, counts func(*cluster.Job) bool) {
	if limit == nil || l.runs[l.job.UID] {
		return
	}
	jobs := map[cluster.JobUID]bool{l.job.UID: true}
	for uid := range l.runs { // in any order
		if j := l.p.snap.Job(uid); j != nil && path.Covers(j.Spec.Pool) && counts(j) {
			jobs[uid] = true
		}
	}
	first := l.before(func(c *class, j *cluster.Job) bool {
		switch {
		case !path.Covers(c.key.group.pool) || l.runs[j.UID]:
			return false
		case rule != pool.RuleRunningJobs && !counts(j): // a higher limit lets in more of these others, too
			return !c.goesAfter(l.class, l.p.snap)
		case !l.mayPrecede(c):
			return false
		}
		jobs[j.UID] = true
		return true
	})
	more := int64(len(jobs)) - int64(*limit)
	l.add(Unblocker{Kind: LiftLimit, Rule: string(rule), Pool: path, Count: more * min(1, int64(*limit)), Amount: more}, first)
}

// controllers adds what has to happen below the limit on the controllers of a pool, in each dimension in
// which the pool reserves something; in all if it reserves nothing.
func (l *lifts) controllers(path cluster.PoolPath, percent uint32) {
	first := l.before(func(c *class, j *cluster.Job) bool {
		return c.key.group.controller && path.Covers(c.key.group.pool) && l.mayPrecede(c)
	})
	status := pool.Find(l.p.status, path)
	if status == nil {
		return
	}
	reserves := slices.ContainsFunc(status.Dimensions, func(d pool.DimensionStatus) bool { return d.Reservation > 0 })
	for _, d := range status.Dimensions {
		own := l.class.row.task.Resources.In(d.Dimension)
		if own == 0 || reserves && d.Reservation == 0 {
			continue
		}
		var each []int64 // of others
		more := own - pool.PercentOf(d.Reservation, percent)
		count := func(c groupKey, request *cluster.Resources, n int64) {
			if c.controller && path.Covers(c.pool) {
				each = append(each, slices.Repeat([]int64{request.In(d.Dimension)}, int(n))...)
			}
		}
		for _, g := range l.p.groupOrder {
			count(g.key, &g.request, g.running+g.placed+g.pledged-g.stopped)
		}
		for _, x := range l.p.order {
			count(x.key.group, &x.group.request, x.open())
		}
		for i, x := range first {
			if i == 0 { // the task itself is none of the others
				x.n--
			}
			count(x.class.key.group, &x.class.group.request, max(0, x.n-x.class.open()))
		}
		for _, n := range each {
			more += n
		}
		u := Unblocker{Kind: LiftLimit, Rule: string(pool.RuleController), Pool: path, Dimension: d.Dimension, Amount: more}
		slices.Sort(each)
		ended := int64(0)
		for i, n := range each { // whichever end
			if ended += n; ended >= more {
				u.Count = int64(i) + 1
				break
			}
		}
		l.add(u, first)
	}
}

// add notes a limit, if it binds, and the tasks that go before the task there.
func (l *lifts) add(u Unblocker, first []contender) {
	if u.Amount <= 0 && l.class.why == (pool.Binding{Rule: pool.Rule(u.Rule), Pool: u.Pool, Dimension: u.Dimension}) {
		u.Amount, u.Count = 1, 1
	}
	if u.Amount <= 0 {
		return
	}
	if i := slices.IndexFunc(l.all, func(o Unblocker) bool { return o.Rule == u.Rule && o.Pool == u.Pool && o.Dimension == u.Dimension }); i >= 0 {
		if u.Amount > l.all[i].Amount { // another group of the owner
			l.all[i] = u
		}
	} else {
		l.all = append(l.all, u)
	}
	for _, x := range first {
		if !slices.ContainsFunc(l.those, func(o contender) bool { return o.class == x.class }) {
			l.those = append(l.those, x)
		}
	}
}

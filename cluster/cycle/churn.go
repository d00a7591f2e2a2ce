package cycle

import "github.com/sluice-scheduler/sluice/cluster"

// churn counts who is asked to leave by the plan for the sake of others, moves included.
type churn struct {
	all   int
	jobs  map[cluster.JobUID]*jobChurn
	pools map[cluster.PoolPath]uint32 // those of a pool and of all below it, where the pool bounds them
}

// jobChurn counts those of a job, and says how many of it one cycle may ask to leave, 0 for any number.
type jobChurn struct{ n, most uint32 }

// churnOf returns the count of a job. Its bound is that of the present spec. Tasks are counted together
// whichever version they run by.
func (p *Planner) churnOf(uid cluster.JobUID) *jobChurn {
	c := &p.churn
	j := c.jobs[uid]
	if j == nil {
		if c.jobs == nil {
			c.jobs = map[cluster.JobUID]*jobChurn{}
		}
		j = &jobChurn{most: p.snap.Job(uid).Spec.Limits.MaxPreempted}
		c.jobs[uid] = j
	}
	return j
}

// count adds a unit; with n −1 it takes it out.
func (p *Planner) count(u *unit, n int) {
	c := &p.churn
	c.all += n
	p.churnOf(u.task.Job()).n += uint32(n)
	if len(p.calm) == 0 {
		return
	}
	for path := u.group.key.pool; path != ""; path = path.Parent() {
		if _, bounded := p.calm[path]; bounded {
			if c.pools == nil {
				c.pools = map[cluster.PoolPath]uint32{}
			}
			c.pools[path] += uint32(n)
		}
	}
}

// bears reports whether one cycle may ask all of these to leave, too. They belong to one job.
func (p *Planner) bears(units []*unit) bool {
	u, n := units[0], uint32(len(units))
	if j := p.churnOf(u.task.Job()); j.most > 0 && j.n+n > j.most {
		return false
	}
	if len(p.calm) > 0 {
		for path := u.group.key.pool; path != ""; path = path.Parent() {
			if most, bounded := p.calm[path]; bounded && p.churn.pools[path]+n > most {
				return false
			}
		}
	}
	return p.churn.all+len(units) <= p.options.MaxDisplaced
}

// leavesFreely reports whether the unit's job does not bound how many of its tasks are asked to leave.
func (p *Planner) leavesFreely(u *unit) bool {
	return !u.job.Type.Service() && p.churnOf(u.task.Job()).most == 0
}

package cycle

import "github.com/sluice-scheduler/sluice/cluster"

// churn counts who is asked to leave by the plan for the sake of others, moves included.
type churn struct {
	all   int
	jobs  map[cluster.JobUID]uint32
	pools map[cluster.PoolPath]uint32 // those of a pool and of all below it, where the pool bounds them
}

// count adds a unit, with n −1 the reverse.
func (p *Planner) count(u *unit, n int) {
	c := &p.churn
	c.all += n
	if u.job.Limits.MaxPreempted > 0 {
		if c.jobs == nil {
			c.jobs = map[cluster.JobUID]uint32{}
		}
		c.jobs[u.task.Job()] += uint32(n)
	}
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

// bears reports whether one cycle may ask all of these to leave too, which belong to one job.
func (p *Planner) bears(units []*unit) bool {
	u, n := units[0], uint32(len(units))
	if most := u.job.Limits.MaxPreempted; most > 0 && p.churn.jobs[u.task.Job()]+n > most {
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

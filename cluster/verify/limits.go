package verify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// bounded is a pool with limits, with what it and all below it have.
type bounded struct {
	most   amounts // only of dimensions with a limit
	on     amounts // what is on hosts before the plan, whoever leaves
	keeps  amounts // without who leaves for good, and with what is held
	starts amounts // in this plan, also of those that had room held
	comes  amounts // that have neither run nor had room held before: they start or have room held now
	goes   amounts // victims that go nowhere else, and holds that end
}

// openLimits sums up what pools with limits have. Complexity: all tasks, if there are any.
func (c *checker) openLimits() map[cluster.PoolPath]*bounded {
	all := map[cluster.PoolPath]*bounded{}
	for p := range c.snap.Pools() {
		for _, r := range p.Resources {
			if r.Limit == cluster.NoLimit {
				continue
			}
			if all[p.Path] == nil {
				all[p.Path] = &bounded{amounts{}, amounts{}, amounts{}, amounts{}, amounts{}, amounts{}}
			}
			all[p.Path].most[r.Dimension] = r.Limit
		}
	}
	if len(all) == 0 {
		return nil
	}
	add := func(k cluster.TaskKey, to func(*bounded) amounts) {
		if c.snap.Task(k) == nil || c.revocable(k) {
			return
		}
		for p := c.runsBy(k).Pool; p != ""; p = p.Parent() {
			if b := all[p]; b != nil {
				to(b).add(vector(c.spec(k).Resources), 1)
			}
		}
	}
	for t := range c.snap.Tasks(0) {
		if t.State.Bound() {
			add(t.Key, func(b *bounded) amounts { return b.on })
		}
		if keepsRoom(t) {
			add(t.Key, func(b *bounded) amounts { return b.keeps })
		}
	}
	for i := range c.plan.Placements {
		add(c.plan.Placements[i].Task, func(b *bounded) amounts { return b.starts })
	}
	c.gains(true, func(k cluster.TaskKey) { add(k, func(b *bounded) amounts { return b.comes }) })
	for _, k := range append(slices.Collect(maps.Keys(c.victims)), c.plan.Ended...) { // a sum: the order does not matter
		if v := c.victims[k]; v == nil || v.Hold == nil {
			add(k, func(b *bounded) amounts { return b.goes })
		}
	}
	return all
}

// over is by how much the pool has more than its limit of a dimension when the plan has been carried out, if it gains any of it.
func (b *bounded) over(d string) int64 {
	if most, limited := b.most[d]; limited && b.comes[d] > 0 {
		return b.keeps[d] + b.comes[d] - b.goes[d] - most
	}
	return -unlimited
}

// unlimited is more than anybody has.
const unlimited = 1 << 62

// running checks that of no job more run at once than it says.
func (c *checker) running() {
	starts := map[cluster.JobUID]int64{}
	for i := range c.plan.Placements {
		starts[c.plan.Placements[i].Task.Job()]++
	}
	for _, uid := range slices.Sorted(maps.Keys(starts)) {
		j := c.snap.Job(uid)
		if j == nil || j.Spec.Limits.MaxRunning == 0 {
			continue
		}
		on := int64(0)
		for t := range c.snap.TasksOf(uid, 0) {
			if t.State.Bound() {
				on++
			}
		}
		if most := int64(j.Spec.Limits.MaxRunning); on+starts[uid] > most {
			c.fail("%d tasks of job %d start, which runs %d and has a limit of %d", starts[uid], uid, on, most)
		}
	}
}

// counted names what a limit on running jobs counts: those of a pool and all below it, or of these those of a user or of a group.
type counted struct {
	pool     cluster.PoolPath
	of, name string // "user" or "group", and its name
}

// jobs checks that no job begins to run where as many run as may. A job runs while any of it is on a host or has room held. Complexity:
// pools, and jobs where they are limited.
func (c *checker) jobs() {
	limited := false
	for p := range c.snap.Pools() {
		limited = limited || p.Limits.BoundsRunning()
	}
	if !limited {
		return
	}
	runs, begins := map[cluster.JobUID]bool{}, map[cluster.JobUID]bool{}
	for j := range c.snap.Jobs(0) {
		if j.OnHosts() > 0 || j.Counts[cluster.TaskReserved] > 0 {
			runs[j.UID] = true
		}
	}
	note := func(k cluster.TaskKey) {
		if uid := k.Job(); !runs[uid] && c.snap.Job(uid) != nil {
			begins[uid] = true
		}
	}
	for i := range c.plan.Placements {
		note(c.plan.Placements[i].Task)
	}
	for i := range c.plan.Displacements {
		for _, h := range c.plan.Displacements[i].Holds {
			note(h.Task)
		}
	}
	count := func(uids map[cluster.JobUID]bool) map[counted]int {
		all := map[counted]int{}
		for uid := range uids { // sums: the order does not matter
			spec := c.snap.Job(uid).Spec
			for p := spec.Pool; p != ""; p = p.Parent() {
				all[counted{p, "", ""}]++
				all[counted{p, "user", spec.Owner}]++
				for _, g := range spec.Groups {
					all[counted{p, "group", g}]++
				}
			}
		}
		return all
	}
	on, more := count(runs), count(begins)
	for _, k := range slices.SortedFunc(maps.Keys(more), func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.of, b.of), cmp.Compare(a.name, b.name))
	}) {
		limits := &c.snap.Pool(k.pool).Limits
		most := map[string]*uint32{"": limits.RunningJobs, "user": limits.RunningJobsPerUser, "group": limits.RunningJobsPerGroup}[k.of]
		if most != nil && on[k]+more[k] > int(*most) {
			c.fail("%d jobs begin to run in pool %s%s, where %d do and %d may", more[k], k.pool, strings.TrimRight(" "+k.of+" "+k.name, " "), on[k], *most)
		}
	}
}

// limits checks that no pool goes beyond its limit by what starts, nor by what room is held for.
func (c *checker) limits() {
	c.bounded = c.openLimits()
	for _, p := range slices.Sorted(maps.Keys(c.bounded)) {
		b := c.bounded[p]
		for _, d := range slices.Sorted(maps.Keys(b.most)) {
			if most := b.most[d]; b.starts[d] > 0 && b.on[d]+b.starts[d] > most {
				c.fail("%d of %s start in pool %s, which has %d and a limit of %d", b.starts[d], d, p, b.on[d], most)
			}
			if n := b.over(d); n > 0 {
				c.fail("pool %s is promised %d of %s, %d more than its limit", p, b.most[d]+n, d, n)
			}
		}
	}
}

// atLimit reports whether, if somebody of the pool stayed who has so much, it or one above would be promised more than its limit.
func (c *checker) atLimit(pool cluster.PoolPath, takes amounts) bool {
	for p := pool; p != ""; p = p.Parent() {
		if b := c.bounded[p]; b != nil {
			for d, n := range takes {
				if n > 0 && b.over(d)+n > 0 {
					return true
				}
			}
		}
	}
	return false
}

// tight lists the dimensions in which a pool that covers both would be promised more than its limit if all its victims stayed.
func (c *checker) tight(from, to cluster.PoolPath) (dims []string) {
	for p := from; p != ""; p = p.Parent() {
		b := c.bounded[p]
		if b == nil || !p.Covers(to) {
			continue
		}
		for d := range b.most {
			if b.over(d)+b.goes[d] > 0 {
				dims = append(dims, d)
			}
		}
	}
	return dims
}

package verify

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

func (c *checker) revocable(k cluster.TaskKey) bool { return c.snap.Job(k.Job()).Spec.Revocable }

// borrows books what a revocable task takes, and returns the rest: ports, which nobody lends.
func (l *ledger) borrows(takes amounts, leaves bool) amounts {
	rest := amounts{}
	for d, n := range takes {
		switch {
		case strings.HasPrefix(d, "port/"):
			rest[d] = n
		case leaves:
			l.going[d] += n
		default:
			l.lent[d] += n
		}
	}
	return rest
}

// excess is what revocable tasks hold beyond the slack: now, or after all who were asked to leave are gone.
func (l *ledger) excess(d string, after bool) int64 {
	if after {
		return max(0, l.lent[d]-l.recalled[d]-l.slack[d])
	}
	return max(0, l.lent[d]+l.going[d]-l.slack[d])
}

// gives is what others gain when revocable tasks leave that hold n, and the other victims of the plan have left.
func (l *ledger) gives(d string, n int64) int64 {
	return max(0, l.lent[d]-l.recalled[d]+n-l.slack[d]) - l.excess(d, true)
}

// lending checks that revocable tasks stay within what was measured to be left unused: none starts beyond it, and where those
// that are there have more than that and what is free, they are asked to leave, unless nobody is.
func (c *checker) lending() {
	if c.snap.Lending() > 0 {
		for h := range c.snap.Hosts("") {
			if !h.Lent.IsZero() {
				c.ledger(h.ID)
			}
		}
	}
	for _, id := range c.ids() {
		l := c.hosts[id]
		for _, d := range slices.Sorted(maps.Keys(l.lends)) {
			if n := l.lent[d] + l.going[d] + l.lends[d]; l.lends[d] > 0 && n > l.slack[d] {
				c.fail("host %s: revocable tasks have %d of %s and %d was measured to be left unused", id, n, d, l.slack[d])
			}
		}
		for _, d := range slices.Sorted(maps.Keys(l.lent)) {
			if n := l.overdraft(d, 0); n > 0 && !c.snap.Mode().KillingStopped {
				c.fail("host %s: revocable tasks keep %d of %s that others use, and stay", id, n, d)
			}
		}
	}
}

// overdraft is by how much revocable tasks, without those that leave and with some that hold more, exceed what is left unused
// and what is free.
func (l *ledger) overdraft(d string, more int64) int64 {
	held := max(0, l.lent[d]-l.recalled[d]+more-l.slack[d])
	return min(held, held+l.bound[d]-l.capacity(d))
}

// recall checks that a revocable task that leaves for nobody could not have stayed, nor the gang that leaves with it.
func (c *checker) recall(v *cycle.Victim) {
	takes := map[cluster.HostID]amounts{}
	for _, k := range c.together(v.Task) {
		id := c.snap.Task(k).Host
		if takes[id] == nil {
			takes[id] = amounts{}
		}
		takes[id].add(vector(c.spec(k).Resources), 1)
	}
	for id, all := range takes { // one is enough: the order does not matter
		for d, n := range all {
			if n > 0 && c.hosts[id].overdraft(d, n) > 0 {
				return
			}
		}
	}
	c.fail("task %v is asked to leave for nobody, and others do not use what it has", v.Task)
}

// rates checks that no more of a job or a pool are asked to leave than they allow in one cycle.
func (c *checker) rates() {
	jobs, pools := map[cluster.JobUID]uint32{}, map[cluster.PoolPath]uint32{}
	for k, v := range c.victims { // counts: the order does not matter
		if v.Hold == nil && v.Preemption.For == 0 {
			continue
		}
		jobs[k.Job()]++
		for p := c.snap.Job(k.Job()).Spec.Pool; p != ""; p = p.Parent() {
			pools[p]++
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(jobs)) {
		if most := c.snap.Job(uid).Spec.Limits.MaxPreempted; most > 0 && jobs[uid] > most {
			c.fail("%d tasks of job %d are asked to leave, and it allows %d", jobs[uid], uid, most)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(pools)) {
		if most := c.snap.Pool(p).Limits.PreemptedPerCycle; most != nil && pools[p] > *most {
			c.fail("%d tasks of pool %s are asked to leave, and it allows %d", pools[p], p, *most)
		}
	}
}

package verify

import (
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// books are the sums of the pools, each with those below it.
type books struct {
	tree    *pool.Tree
	has     map[cluster.PoolPath]amounts // before the plan, without who is leaving
	lost    map[cluster.PoolPath]amounts // to other pools
	gained  map[cluster.PoolPath]amounts // from other pools
	bounded map[cluster.PoolPath]amounts // entitlements
}

func (c *checker) capacity() cluster.Resources {
	var sum cluster.Resources
	for h := range c.snap.Hosts("") {
		if h.State() == cluster.HostUp {
			sum = sum.Add(h.Capacity)
		} else {
			sum = sum.Add(h.Allocated)
		}
	}
	return sum
}

func (c *checker) openBooks() *books {
	var all []*cluster.Pool
	for p := range c.snap.Pools() {
		all = append(all, p)
	}
	b := &books{
		tree: pool.NewTree(all, c.capacity()), has: map[cluster.PoolPath]amounts{}, lost: map[cluster.PoolPath]amounts{},
		gained: map[cluster.PoolPath]amounts{}, bounded: map[cluster.PoolPath]amounts{},
	}
	has, wants := map[cluster.PoolPath]cluster.Resources{}, map[cluster.PoolPath]cluster.Resources{}
	for t := range c.snap.Tasks(0) {
		leaf, request := c.snap.Job(t.Key.Job()).Spec.Pool, c.spec(t.Key).Resources
		switch {
		case t.State == cluster.TaskReserved, t.State.Bound() && t.State != cluster.TaskPreempting && t.State != cluster.TaskKilling:
			has[leaf] = has[leaf].Add(request)
			b.book(b.has, leaf, request)
		case t.State == cluster.TaskPending, t.State == cluster.TaskPreempting:
			wants[leaf] = wants[leaf].Add(request)
		}
	}
	for leaf, r := range has {
		b.tree.SetAllocation(leaf, r)
	}
	for leaf, r := range wants {
		b.tree.SetDemand(leaf, r)
	}
	b.tree.Update()
	for _, p := range all {
		b.bounded[p.Path] = vector(b.tree.Entitlement(p.Path))
	}
	return b
}

func vector(r cluster.Resources) amounts { return ask(&cluster.TaskSpec{Resources: r}, nil, nil) }

// book adds a request to a pool and all above it.
func (b *books) book(in map[cluster.PoolPath]amounts, leaf cluster.PoolPath, r cluster.Resources) {
	for p := leaf; p != ""; p = p.Parent() {
		if in[p] == nil {
			in[p] = amounts{}
		}
		in[p].add(vector(r), 1)
	}
}

// pools checks the laws between and inside pools.
func (c *checker) pools() {
	if len(c.victims) == 0 {
		return
	}
	b := c.openBooks()
	stopped := func(visit func(v *cycle.Victim, from, to *cluster.JobSpec)) {
		for i := range c.plan.Displacements {
			for j := range c.plan.Displacements[i].Victims {
				v := &c.plan.Displacements[i].Victims[j]
				if v.Hold == nil && c.victims[v.Task] == v {
					visit(v, c.snap.Job(v.Task.Job()).Spec, c.snap.Job(v.Preemption.For.Job()).Spec)
				}
			}
		}
	}
	gains := map[cluster.TaskKey]bool{}
	stopped(func(v *cycle.Victim, from, to *cluster.JobSpec) {
		if from.Pool == to.Pool {
			return
		}
		b.book(b.lost, from.Pool, c.spec(v.Task).Resources)
		if k := v.Preemption.For; !gains[k] {
			gains[k] = true
			b.book(b.gained, to.Pool, c.spec(k).Resources)
		}
	})
	stopped(func(v *cycle.Victim, from, to *cluster.JobSpec) {
		if from.Pool == to.Pool {
			users := c.snap.Pool(from.Pool).Order == cluster.FairUsers
			if from.Priority >= to.Priority && (!users || from.Owner == to.Owner || from.Priority > to.Priority) {
				c.fail("task %v is stopped for task %v of the same pool, which is no more urgent", v.Task, v.Preemption.For)
			}
			return
		}
		short := c.short(v)
		for p := from.Pool; !covers(p, to.Pool); p = p.Parent() {
			if !b.gives(p, short) {
				c.fail("pool %s loses task %v and has no more than it is entitled to of what is short: %v", p, v.Task, short)
			}
		}
		for p := to.Pool; !covers(p, from.Pool); p = p.Parent() {
			for _, d := range short {
				if b.gained[p][d] > 0 && b.has[p][d]-b.lost[p][d]+b.gained[p][d] > b.bounded[p][d] {
					c.fail("pool %s gains %d of %s, has %d and is entitled to %d", p, b.gained[p][d], d, b.has[p][d], b.bounded[p][d])
				}
			}
		}
	})
}

// gives reports whether the pool has more than it is entitled to in one of the dimensions, and keeps its entitlement.
func (b *books) gives(p cluster.PoolPath, short []string) bool {
	over := false
	for _, d := range short {
		over = over || b.has[p][d] > b.bounded[p][d]
	}
	for d, lost := range b.lost[p] {
		if lost > 0 && b.has[p][d] > b.bounded[p][d] && b.has[p][d]-lost < b.bounded[p][d] {
			return false
		}
	}
	return over
}

// short lists the dimensions that the host of a victim would lack if the victims there had stayed.
func (c *checker) short(v *cycle.Victim) []string {
	var dims []string
	l := c.hosts[c.snap.Task(v.Task).Host]
	devices := false
	for d, promised := range l.promised {
		if promised <= 0 || promised <= l.promise(d)-l.vacated[d] {
			continue
		}
		if strings.HasPrefix(d, "gpu/") {
			devices = true
			continue
		}
		dims = append(dims, d)
	}
	if gpu := cluster.GPU.String(); devices && !slices.Contains(dims, gpu) {
		dims = append(dims, gpu)
	}
	return dims
}

// covers reports whether q is p or below it.
func covers(p, q cluster.PoolPath) bool { return q == p || strings.HasPrefix(string(q), string(p)+"/") }

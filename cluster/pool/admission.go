package pool

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Admission decides which tasks of the leaves may be placed, and in which tier. The package says by which
// rules, and how it is used. Methods that name a pool panic if there is none of that path.
type Admission struct {
	pools    []*cluster.Pool
	capacity cluster.Resources
	slack    cluster.Resources

	tree    *tree // of the capacity
	lending *tree // of the slack
	queues  []*queue
	gates   gates
	walk    walk
	now     cluster.Time

	leftovers leftovers
}

// queue is what waits and runs in a leaf.
type queue struct {
	node   int32 // the leaf, in both trees
	groups []Group
	grants []Grant
	own    []Grant   // grants without leftovers
	anew   bool      // is to be admitted again
	open   []int64   // by group: the waiting tasks that no limit on jobs keeps back
	shut   []Binding // by group: what keeps the other tasks back
	asked  []int64   // by dimension: what all waiting tasks but revocable ones ask for, open or not
	shares []share   // by party, if the leaf is fair; made anew by each admission
	brim   []int64   // by dimension: up to where the leaf may borrow, see Admission.confine

	heads [2]head // of the leaf's ceiling: for what is not revocable, and for what is

	claims []int64 // by dimension: what ran, and what the last Run granted that others may be stopped for

	reading
}

// NewAdmission returns an Admission with empty queues. It panics unless the parents of all pools are among
// them.
func NewAdmission(pools []*cluster.Pool, capacity cluster.Resources) *Admission {
	a := &Admission{pools: pools, capacity: capacity, tree: newTree(nil, pools, capacity)}
	for i := range a.tree.nodes {
		if len(a.tree.nodes[i].children) == 0 {
			a.queues = append(a.queues, &queue{node: int32(i)})
		}
	}
	a.lend()
	a.gates.init(a.tree)
	return a
}

// SetCapacity sets what all hosts together offer.
func (a *Admission) SetCapacity(capacity cluster.Resources) {
	if a.capacity.Equal(capacity) {
		return
	}
	a.capacity = capacity
	a.tree.setCapacity(capacity)
	a.lend() // revocable work is bounded in parts of the capacity
}

// SetSlack sets the room of revocable tasks: what is allocated but, as measured, not used.
func (a *Admission) SetSlack(slack cluster.Resources) {
	a.slack = slack
	a.know(slack)
	a.lending.setCapacity(slack)
}

// SetQueue replaces the groups of a leaf. Ties of rank are broken by the heads of the groups, then by their
// order. The Admission keeps the slice. The caller must not modify it, unless he replaces it before the next
// Run or Regrant.
func (a *Admission) SetQueue(leaf cluster.PoolPath, groups []Group) {
	q := a.queue(leaf)
	q.groups, q.anew = groups, true
	known := len(a.tree.dims)
	for i := range groups {
		a.know(groups[i].Request)
	}
	if len(a.tree.dims) > known {
		a.anew()
	}
}

// anew marks all queues to be admitted again.
func (a *Admission) anew() {
	for _, q := range a.queues {
		q.anew = true
	}
}

// Grants returns what the last Run or Regrant decided, one for each group of the leaf's queue then. It is
// valid until the next of these.
func (a *Admission) Grants(leaf cluster.PoolPath) []Grant { return a.queue(leaf).grants }

// Static reports whether some pool keeps the unused part of its reservation from others.
func (a *Admission) Static() bool { return slices.Contains(a.tree.static, true) }

func (a *Admission) queue(leaf cluster.PoolPath) *queue {
	node := a.tree.at(leaf)
	i, ok := slices.BinarySearchFunc(a.queues, node, func(q *queue, n int32) int { return cmp.Compare(q.node, n) })
	if !ok {
		panic(fmt.Sprintf("pool: pool %q has children", leaf))
	}
	return a.queues[i]
}

// know adds the named dimensions of r to both trees, so that the vectors of both always have the same
// dimensions.
func (a *Admission) know(r cluster.Resources) {
	for _, named := range r.Named {
		a.tree.dimension(named.Name)
		a.lending.dimension(named.Name)
	}
}

// lend builds the tree that divides the slack. It has the same shares, nothing reserved, and limits in parts
// of the capacity.
func (a *Admission) lend() {
	lending := make([]*cluster.Pool, len(a.pools))
	for i, p := range a.pools {
		copied := &cluster.Pool{Path: p.Path, Division: p.Division}
		share := map[string]uint32{}
		for _, r := range p.Resources {
			share[r.Dimension] = r.Share
			copied.Resources = append(copied.Resources, cluster.PoolResource{
				Dimension: r.Dimension, Share: r.Share, Limit: a.revocable(p, r.Dimension),
			})
		}
		for _, name := range a.tree.dims {
			if _, ok := share[name]; !ok && p.Limits.RevocablePercent != nil {
				copied.Resources = append(copied.Resources, cluster.PoolResource{Dimension: name, Share: 1, Limit: a.revocable(p, name)})
			}
		}
		lending[i] = copied
	}
	a.lending = newTree(a.tree.dims, lending, a.slack)
}

// revocable returns the most that revocable tasks of a pool may use of a dimension.
func (a *Admission) revocable(p *cluster.Pool, dimension string) int64 {
	if p.Limits.RevocablePercent == nil {
		return cluster.NoLimit
	}
	return PercentOf(a.capacity.In(dimension), *p.Limits.RevocablePercent)
}

// PercentOf returns a part of an amount, rounded down.
func PercentOf(amount int64, percent uint32) int64 {
	return int64(wide(uint64(max(0, amount)), uint64(percent)).over(100))
}

// Run decides who may have what.
func (a *Admission) Run(now cluster.Time) {
	a.now = now
	a.anew()
	a.openQueues()
	for _, q := range a.queues {
		a.claim(q)
	}
	a.tree.update()
	a.lending.update()
	a.confine()
	a.admitQueues(true)
}

// confine sets how far the leaves may borrow: up to their ceilings. An exception is a dimension with a static
// reservation in which some leaf has more than its ceiling, also by leftovers: that and the ceilings of the
// others are more than there is. There leaves borrow nothing by their ceilings, also before less urgent work,
// and what is left is dealt with the leftovers. Complexity: leaves times dimensions, and the groups of all
// queues.
func (a *Admission) confine() {
	over, has, w, some := make([]bool, len(a.tree.dims)), make([]int64, len(a.tree.dims)), &a.walk, a.Static()
	for _, q := range a.queues {
		q.brim = append(q.brim[:0], a.tree.nodes[q.node].ceiling...)
		if !some {
			continue
		}
		w.load(a, q)
		w.held(w.all, has)
		for d, static := range a.tree.static {
			over[d] = over[d] || static && has[d] > q.brim[d]
		}
	}
	for _, q := range a.queues {
		n := &a.tree.nodes[q.node]
		for d := range over {
			if over[d] {
				q.brim[d] = n.entitled[d]
			}
		}
	}
}

// Regrant decides again about queues that have changed since the last Run. What pools claim and are entitled
// to stays as that Run found it. Complexity: the groups of the queues that have changed since the last Run or
// Regrant, with a logarithmic factor, and all groups. Where limits count across leaves, or a pool has a
// static reservation, all queues count as changed.
func (a *Admission) Regrant() {
	if a.Static() || len(a.gates.limited) > 0 {
		a.anew()
	}
	a.openQueues()
	if a.Static() { // who has begun since may have more than its part
		a.confine()
	}
	a.admitQueues(false)
}

// admitQueues grants tiers in all queues, then what the queues leave over.
func (a *Admission) admitQueues(fresh bool) {
	for _, q := range a.queues {
		if !q.anew {
			copy(q.grants, q.own)
			continue
		}
		a.admit(q)
		q.own, q.anew = append(q.own[:0], q.grants...), false
	}
	a.dealLeftovers(fresh)
}

// rank is the place of a group among those that wait.
type rank struct {
	priority int64 // raised by ageing
	ahead    bool
	queued   cluster.Time
	worth    int64
	head     cluster.TaskKey
	leaf     int32
	index    int32 // in the leaf's queue
}

func (a *Admission) rank(q *queue, i int) rank {
	g := &q.groups[i]
	leaf := a.tree.nodes[q.node].pool
	return rank{
		priority: leaf.Raised(g.Priority, g.Queued, a.now), ahead: g.Ahead, queued: g.Queued, worth: g.Worth, head: g.Head,
		leaf: q.node, index: int32(i),
	}
}

func (r *rank) compare(s *rank) int {
	switch {
	case r.priority != s.priority:
		return cmp.Compare(s.priority, r.priority)
	case r.ahead != s.ahead:
		if r.ahead {
			return -1
		}
		return 1
	case r.queued != s.queued:
		return cmp.Compare(r.queued, s.queued)
	case r.worth != s.worth:
		return cmp.Compare(s.worth, r.worth)
	case r.head != s.head:
		return cmp.Compare(r.head, s.head)
	case r.leaf != s.leaf:
		return cmp.Compare(r.leaf, s.leaf)
	}
	return cmp.Compare(r.index, s.index)
}

// admit grants tiers to the groups of a queue.
func (a *Admission) admit(q *queue) {
	w := &a.walk
	w.load(a, q)
	q.grants = slices.Grow(q.grants[:0], len(q.groups))[:len(q.groups)]
	clear(q.grants)
	leaf := &a.tree.nodes[q.node]
	q.shares, q.heads = nil, [2]head{}
	bounds := bands{a.tree.guaranteed(q.node), leaf.entitled, w.vector(q.brim)}
	if leaf.pool.Order == cluster.PriorityFIFO {
		w.admit(w.all, bounds)
	} else {
		w.admitFairly(leaf.pool.Order, bounds)
	}
	w.admit(w.revocable, bands{w.vector(nil), w.vector(nil), a.lending.nodes[q.node].entitled})
	for i := range q.groups {
		g, grant := &q.groups[i], &q.grants[i]
		grant.Refused = g.Waiting - grant.Admitted()
		if grant.Why.Rule == RuleNone && (!g.Passed || q.open[i] == 0) { // else it lets some in, and there is no host for them
			grant.Why = q.shut[i]
		}
	}
}

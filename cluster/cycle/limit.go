package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// limit is the most that a pool and all below it may have. Two sums have to stay within it: what is on hosts,
// those that leave included, and what is promised. Nothing starts that would take one of them beyond.
// Admission lets more urgent work of a pool in as if less urgent work were gone. Where that is not so yet, it
// waits for some to leave (see displacer).
type limit struct {
	path  cluster.PoolPath
	most  []cluster.PoolResource // those with a limit
	has   cluster.Resources      // of tasks on hosts, those that leave included, and of those that this plan starts
	ended cluster.Resources      // of those whose hold ends in this plan
	taken cluster.Resources      // see bind
	gains bool                   // this plan starts somebody, or makes room for somebody
}

// seeLimits reads which pools have limits.
func (p *Planner) seeLimits(pools []*cluster.Pool) {
	p.limits, p.limitsOf = nil, map[cluster.PoolPath][]*limit{}
	for _, q := range pools {
		if !q.Limited() {
			continue
		}
		l := &limit{path: q.Path}
		for _, r := range q.Resources {
			if r.Limit != cluster.NoLimit {
				l.most = append(l.most, r)
			}
		}
		p.limits = append(p.limits, l)
		for _, leaf := range p.leaves {
			if q.Path.Covers(leaf) {
				p.limitsOf[leaf] = append(p.limitsOf[leaf], l)
			}
		}
	}
}

// readLimits reads what pools with limits have before the plan.
func (p *Planner) readLimits(snap *cluster.Snapshot) {
	for _, l := range p.limits {
		l.has, l.ended, l.gains = snap.Used(l.path), cluster.Resources{}, false
	}
}

// limitsOn returns the limits that tasks of the group count against, from the root downwards.
func (p *Planner) limitsOn(g *group) []*limit {
	if len(p.limits) == 0 || g.key.revocable {
		return nil
	}
	return p.limitsOf[g.key.pool]
}

// use counts n tasks that this plan starts; a negative n are fewer.
func (p *Planner) use(g *group, n int64) {
	for _, l := range p.limitsOn(g) {
		l.has = l.has.Add(g.request.Times(n))
	}
}

// gain notes that some of the group that waited start, or have room held.
func (p *Planner) gain(g *group) {
	for _, l := range p.limitsOn(g) {
		l.gains = true
	}
}

// mayArrive reports whether tasks of one job that have room held may start together. Its pools must have no
// more than their limits then, and no more of the job may run than its present spec says.
func (p *Planner) mayArrive(units []*unit) bool {
	job := p.snap.Job(units[0].task.Job())
	if !job.MayRun(p.arrived[job.UID] + int64(len(units))) {
		return false
	}
	var sum cluster.Resources
	limits := p.limitsOn(units[0].group)
	for i := 0; len(limits) > 0 && i < len(units); i++ {
		sum = sum.Add(units[i].spec.Resources)
	}
	return !slices.ContainsFunc(limits, func(l *limit) bool {
		return slices.ContainsFunc(l.most, func(r cluster.PoolResource) bool {
			n := sum.In(r.Dimension)
			return n > 0 && l.has.In(r.Dimension)+n > r.Limit
		})
	})
}

// admits returns how many of n tasks may start now below the limit, beside those that bind has let start. It
// also returns the dimension that keeps out the others.
func (l *limit) admits(request *cluster.Resources, n int64, ledger *pool.Ledger) (most int64, dimension string) {
	for _, r := range l.most {
		if each := request.In(r.Dimension); each > 0 {
			has := max(l.has.In(r.Dimension), l.promised(r.Dimension, ledger)) + l.taken.In(r.Dimension)
			if may := max(0, r.Limit-has) / each; may < n {
				n, dimension = may, r.Dimension
			}
		}
	}
	return n, dimension
}

// promised returns what the pool has when all who were asked to leave are gone and all who have room held have come.
func (l *limit) promised(dimension string, ledger *pool.Ledger) int64 {
	return ledger.Holds(l.path, dimension) - l.ended.In(dimension)
}

// exceeded lists the dimensions in which the pool would be promised more than its limit if it got so much
// more.
func (l *limit) exceeded(more *cluster.Resources, ledger *pool.Ledger) (dims []string) {
	for _, r := range l.most {
		if n := more.In(r.Dimension); n > 0 && l.promised(r.Dimension, ledger)+n > r.Limit {
			dims = append(dims, r.Dimension)
		}
	}
	return dims
}

// mayHave reports whether room may be promised to n more tasks of the group.
func (p *Planner) mayHave(g *group, n int64) bool {
	request := g.request.Times(n)
	return !slices.ContainsFunc(p.limitsOn(g), func(l *limit) bool { return len(l.exceeded(&request, p.ledger)) > 0 })
}

// bind cuts what was admitted down to what may start now below the limits of the pools. The strongest claims
// go first, then what is more urgent, then what is older. Complexity: classes in pools with limits, with a
// logarithmic factor.
func (p *Planner) bind() {
	if len(p.limits) == 0 {
		return
	}
	p.unbind()
	for _, l := range p.limits {
		l.taken = cluster.Resources{}
	}
	var order []*class
	for _, c := range p.order {
		c.limited = pool.Binding{}
		if c.open() > 0 && len(p.limitsOn(c.group)) > 0 {
			order = append(order, c)
		}
	}
	head := func(c *class) cluster.Time {
		w, _ := c.queue.Min()
		return w.queued
	}
	slices.SortStableFunc(order, func(a, b *class) int {
		return cmp.Or(cmp.Compare(b.key.group.priority, a.key.group.priority), cmp.Compare(head(a), head(b)))
	})
	for tier := range cluster.NumTiers {
		for _, c := range order {
			if c.left[tier] > 0 {
				p.bindTier(c, tier)
			}
		}
	}
}

func (p *Planner) bindTier(c *class, tier cluster.Tier) {
	may := c.left[tier]
	for _, l := range p.limitsOn(c.group) {
		n, dimension := l.admits(&c.group.request, may, p.ledger)
		if n < may {
			may, c.limited = n, pool.Binding{Rule: pool.RuleLimit, Pool: l.path, Dimension: dimension}
		}
	}
	if c.group.key.gang && may < c.left[tier] {
		may = 0
	}
	for _, l := range p.limitsOn(c.group) {
		l.taken = l.taken.Add(c.group.request.Times(may))
	}
	c.over[tier] = c.left[tier] - may
	c.left[tier] = may
}

// unbind is the reverse of bind: room may be made for what has a claim.
func (p *Planner) unbind() {
	if len(p.limits) == 0 {
		return
	}
	for _, c := range p.order {
		for tier, n := range c.over {
			c.left[tier] += n
		}
		c.over = [cluster.NumTiers]int64{}
	}
}

// insiders are the units of one group below a pool with a limit that may be asked to leave. The core of a
// gang counts once, by its first unit.
type insiders struct {
	group  *group
	units  []*unit
	sorted bool
}

// sort puts those first that lose least, and returns all.
func (in *insiders) sort(d *displacer) []*unit {
	if !in.sorted {
		in.sorted = true
		slices.SortStableFunc(in.units, func(a, b *unit) int { return cmp.Compare(d.loss(a), d.loss(b)) })
	}
	return in.units
}

// inside lists the units below the pool by group. Complexity: all units, once in a pass.
func (d *displacer) inside(l *limit) []*insiders {
	all, known := d.within[l]
	if known {
		return all
	}
	byGroup := map[*group]*insiders{}
	for _, u := range d.p.units.From(0) {
		if u.host == nil || !u.group.displaceable() || u.state.Vacating() || u.job.Revocable || d.p.together(u)[0] != u {
			continue
		}
		in := byGroup[u.group]
		if in == nil {
			if !l.path.Covers(u.group.key.pool) {
				continue
			}
			in = &insiders{group: u.group}
			byGroup[u.group], all = in, append(all, in)
		}
		in.units = append(in.units, u)
	}
	if d.within == nil {
		d.within, d.barren = map[*limit][]*insiders{}, map[barren]int{}
	}
	d.within[l] = all
	return all
}

// barren is a limit, and a class's group and rule for which nobody inside may leave.
type barren struct {
	limit *limit
	group *group
	rule  *rule
}

// relieveLimits adds to those who leave the host those who have to leave elsewhere: in pools that would be
// promised more than their limits, wherever they run. It reports whether that is enough. If the class has
// room here and waits for a limit only, somebody must leave for it, or a victim of this pass below the pool
// may free more than was needed.
func (s *search) relieveLimits() bool {
	c := s.class
	limits := s.d.p.limitsOn(c.group)
	if len(limits) == 0 {
		return true
	}
	here := s.found
	kept := s.relieve(limits, false)
	if !kept && len(s.found) > len(here) { // the first may stand in the way of one that would have been enough
		s.found = here
		kept = s.relieve(limits, true)
	}
	waits := c.limited.Rule != pool.RuleNone && !c.key.group.gang && c.row.judge(s.host) == open
	return kept && (len(s.found) > 0 || !waits || slices.ContainsFunc(s.d.hit, func(u *unit) bool { return limits[0].path.Covers(u.group.key.pool) }))
}

// hopeless reports whether a limit is in the way for which nobody may leave, on the host or elsewhere.
func (s *search) hopeless() bool {
	return slices.ContainsFunc(s.d.p.limitsOn(s.class.group), func(l *limit) bool {
		dims := l.exceeded(&s.class.group.request, s.d.p.ledger)
		if len(dims) == 0 || slices.ContainsFunc(s.bundles, func(b bundle) bool { return l.path.Covers(b.units[0].group.key.pool) }) {
			return false
		}
		_, some := s.cheapestInside(l, dims, false)
		return !some
	})
}

// relieve adds to those who leave as many as the limits ask for. With alone, it adds only bundles that are
// enough for one limit by themselves. It reports whether the limits hold then.
func (s *search) relieve(limits []*limit, alone bool) (kept bool) {
	for _, b := range s.found {
		s.count(b, -1)
	}
	for again := !s.d.borrows; again; {
		again = false
		for _, l := range limits {
			again = s.takeInside(l, alone) || again
		}
	}
	kept = s.d.p.mayHave(s.class.group, 1)
	for _, b := range s.found {
		s.count(b, 1)
	}
	return kept
}

// takeInside has units leave until the class would not take the pool beyond its limit. It reports whether it
// added any.
func (s *search) takeInside(l *limit, alone bool) (some bool) {
	for {
		dims := l.exceeded(&s.class.group.request, s.d.p.ledger)
		if len(dims) == 0 {
			return some
		}
		b, ok := s.cheapestInside(l, dims, alone)
		if !ok {
			return some
		}
		s.found, some = append(s.found, b), true
		s.count(b, -1)
	}
}

// cheapestInside returns the bundle that loses least, of those below the pool that may leave for the class.
// With alone, it must be enough by itself. Complexity: the groups there, and for each its units that may not
// leave now.
func (s *search) cheapestInside(l *limit, dims []string, alone bool) (best bundle, ok bool) {
	d, who := s.d, barren{l, s.class.group, s.class.row.rule}
	if at, known := d.barren[who]; known && at == d.p.hosts.clock && len(s.found) == 0 {
		return best, false
	}
	to := d.p.ledger.Beneficiary(s.class.group.unit(1), dims)
	for _, in := range d.inside(l) {
		if !in.group.key.gang && !to.MayStop(d.p.donor(in.group)) || in.group == s.class.group {
			continue
		}
		if b, may := s.first(in, &to); may && (!ok || b.price < best.price) && (!alone || s.enoughInside(l, b)) {
			best, ok = b, true
		}
	}
	if !ok && !alone && len(s.found) == 0 {
		d.barren[who] = d.p.hosts.clock
	}
	return best, ok
}

// enoughInside reports whether the class would not take the pool beyond its limit if the bundle left as well.
func (s *search) enoughInside(l *limit, b bundle) (enough bool) {
	s.without([]bundle{b}, func() { enough = len(l.exceeded(&s.class.group.request, s.d.p.ledger)) == 0 })
	return enough
}

// first returns the bundle of a group that loses least, of those that may leave for the class. Whether the
// pools allow it was asked before for the whole group; for gangs it is asked here, core by core.
func (s *search) first(in *insiders, to *pool.Beneficiary) (bundle, bool) {
	c, d := s.class, s.d
	for _, u := range in.sort(d) {
		if !d.mayLeave(c, u) || slices.ContainsFunc(s.found, func(b bundle) bool { return slices.Contains(b.units, u) }) {
			continue
		}
		b := d.bundle(u)
		if !d.p.bears(b.units) || !d.p.available(b) {
			continue
		}
		if in.group.key.gang {
			if core := d.p.ledger.Donor(b.sum); !to.MayStop(&core) {
				continue
			}
		}
		return b.on(s.host), true
	}
	return bundle{}, false
}

// withinLimits reports whether the units may stay beside all that is promised in their pool and those above it.
func (d *displacer) withinLimits(units []*unit) bool {
	limits := d.p.limitsOn(units[0].group)
	if len(limits) == 0 || units[0].move != nil {
		return true
	}
	all := sumOf(units)
	return !slices.ContainsFunc(limits, func(l *limit) bool {
		return l.gains && len(l.exceeded(&all.Request, d.p.ledger)) > 0
	})
}

// openTo returns a few of the open hosts of the class, among them the cheapest.
func (p *Planner) openTo(c *class) (hosts []*host) {
	further := 0
	for h := range p.cheapest(c) {
		if hosts = append(hosts, h); !c.local.isNear(h.index) {
			further++
		}
		if further > alternatives {
			break
		}
	}
	return hosts
}

package verify

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// books are the sums of the accounts, each with those below it. An account is a pool, or one of the jobs or users that a leaf is
// fair between, as if they were pools below it; its entitlement then is its share.
type books struct {
	entitled map[cluster.PoolPath]amounts // as the plan says
	has      map[cluster.PoolPath]amounts // before the plan, without who leaves and has no room elsewhere
	after    map[cluster.PoolPath]amounts // when all that is planned has been carried out, save for starts in free room
	ends     map[cluster.PoolPath]amounts // with these
}

// account returns the lowest account that a job counts against.
func (c *checker) account(uid cluster.JobUID) cluster.PoolPath {
	spec := c.snap.Job(uid).Spec
	return party(c.snap.Pool(spec.Pool), uid, spec.Owner)
}

func party(leaf *cluster.Pool, job cluster.JobUID, user string) cluster.PoolPath {
	switch leaf.Order {
	case cluster.FairJobs:
		return leaf.Path + cluster.PoolPath(fmt.Sprint("/job ", job))
	case cluster.FairUsers:
		return leaf.Path + cluster.PoolPath("/user "+url.PathEscape(user))
	default:
		return leaf.Path
	}
}

// openBooks sums up what the pools hold, and holds what the plan says about them to that and to each other. What a pool
// claims is the business of admission; that its entitlements are a division of the capacity is checked here.
func (c *checker) openBooks() *books {
	b := &books{
		entitled: map[cluster.PoolPath]amounts{}, has: map[cluster.PoolPath]amounts{}, after: map[cluster.PoolPath]amounts{}, ends: map[cluster.PoolPath]amounts{},
	}
	holds := map[cluster.PoolPath]cluster.Resources{} // by the account alone
	fixed := map[cluster.PoolPath]cluster.Resources{} // of holds: what may not be preempted
	for t := range c.snap.Tasks(0) {
		if !keepsRoom(t) {
			continue
		}
		spec := c.snap.Job(t.Key.Job()).SpecFor(t)
		if spec.Revocable {
			continue
		}
		takes, account := spec.TaskOf(t.Key.Instance()).Resources, c.account(t.Key.Job())
		holds[account] = holds[account].Add(takes)
		if !spec.Preemptible {
			fixed[spec.Pool] = fixed[spec.Pool].Add(takes)
		}
	}
	for account, sum := range holds {
		book(b.has, account, sum)
	}
	for p, has := range b.has {
		b.after[p], b.ends[p] = maps.Clone(has), maps.Clone(has)
	}
	divided := map[cluster.PoolPath]amounts{} // what the children of a pool are entitled to together
	for i := range c.plan.Pools {
		p := &c.plan.Pools[i]
		b.entitled[p.Path] = amounts{}
		for _, d := range p.Dimensions {
			b.entitled[p.Path][d.Dimension] = d.Entitlement
			if d.Limit != cluster.NoLimit && d.Entitlement > d.Limit {
				c.fail("pool %s is entitled to %d of %s and limited to %d", p.Path, d.Entitlement, d.Dimension, d.Limit)
			}
			if has := b.has[p.Path][d.Dimension]; d.Allocation != has {
				c.fail("pool %s has %d of %s and is said to have %d", p.Path, has, d.Dimension, d.Allocation)
			}
		}
		shared := amounts{}
		for _, s := range p.Shares {
			a := party(c.snap.Pool(p.Path), s.Job, s.User)
			b.entitled[a] = vector(s.Amount)
			shared.add(b.entitled[a], 1)
		}
		stays := vector(fixed[p.Path])
		for _, d := range slices.Sorted(maps.Keys(shared)) {
			if most := max(b.entitled[p.Path][d], stays[d]); shared[d] > most {
				c.fail("the shares in pool %s are %d of %s, and there are %d", p.Path, shared[d], d, most)
			}
		}
		if above := p.Path.Parent(); above != "" {
			if divided[above] == nil {
				divided[above] = amounts{}
			}
			divided[above].add(b.entitled[p.Path], 1)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(divided)) {
		for _, d := range slices.Sorted(maps.Keys(divided[p])) {
			if divided[p][d] > b.entitled[p][d] {
				c.fail("the pools below %s are entitled to %d of %s, and it to %d", p, divided[p][d], d, b.entitled[p][d])
			}
		}
	}
	if root, all := b.entitled[cluster.RootPool], vector(c.capacity()); root != nil {
		for _, d := range slices.Sorted(maps.Keys(root)) {
			if root[d] > all[d] {
				c.fail("%d of %s are divided and there are %d", root[d], d, all[d])
			}
		}
	}
	return b
}

// keepsRoom reports whether the task has room for good: where it is, or held elsewhere if it leaves or waits.
func keepsRoom(t *cluster.Task) bool { return t.State.Bound() && !t.State.Vacating() || t.Hold != nil }

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

func vector(r cluster.Resources) amounts { return ask(&cluster.TaskSpec{Resources: r}, nil, nil) }

// book adds what tasks take to an account and all above it.
func book(in map[cluster.PoolPath]amounts, account cluster.PoolPath, r cluster.Resources) {
	takes := vector(r)
	for p := account; p != ""; p = p.Parent() {
		if in[p] == nil {
			in[p] = amounts{}
		}
		in[p].add(takes, 1)
	}
}

// stop is a task, or the core of a gang, that is stopped for another task.
type stop struct {
	victim   *cycle.Victim
	from, to *cluster.JobSpec
	gives    amounts
	short    []string // dimensions that the hosts would lack if all victims there had stayed
	// loses and gains are the accounts between which it has to be fair, each with those above it up to the common one. Inside a
	// leaf they are the same where one side is more urgent.
	loses, gains cluster.PoolPath
	accountFor   bool // it is not shown yet that loses can do without it
}

func (c *checker) stop(v *cycle.Victim) *stop {
	s := &stop{victim: v, from: c.runsBy(v.Task), to: c.runsBy(v.Preemption.For), gives: amounts{}}
	s.loses, s.gains = s.from.Pool, s.to.Pool
	if s.loses == s.gains && s.from.Priority >= s.to.Priority {
		s.loses, s.gains = c.account(v.Task.Job()), c.account(v.Preemption.For.Job())
	}
	for _, k := range c.together(v.Task) {
		s.gives.add(vector(c.spec(k).Resources), 1)
		s.short = append(s.short, c.short(c.snap.Task(k).Host)...)
	}
	s.short = append(s.short, c.tight(s.from.Pool, s.to.Pool)...)
	slices.Sort(s.short)
	s.short = slices.Compact(s.short)
	s.accountFor = s.loses != s.gains && !s.from.Revocable
	return s
}

// pools checks the laws between and inside pools.
func (c *checker) pools() {
	sake := false // somebody leaves for somebody: then the plan says what pools may have
	for _, v := range c.victims {
		sake = sake || v.Hold != nil || v.Preemption.For != 0
	}
	if !sake {
		return
	}
	b := c.openBooks()
	c.books = b
	var stops []*stop
	for i := range c.plan.Displacements {
		for j := range c.plan.Displacements[i].Victims {
			v := &c.plan.Displacements[i].Victims[j]
			switch {
			case v.Hold != nil || v.Preemption.For == 0 || c.victims[v.Task] != v || !c.first(v.Task):
				continue
			case c.snap.Task(v.Preemption.For) == nil:
				c.fail("task %v is stopped for task %v, which does not exist", v.Task, v.Preemption.For)
				continue
			}
			s := c.stop(v)
			stops = append(stops, s)
			c.policy(s)
		}
	}
	c.stops = stops
	c.settleBooks(b, stops)
	c.donors(b, stops)
	for _, s := range stops {
		if s.loses != s.gains && !s.from.Revocable {
			c.beneficiary(b, s)
		}
	}
	c.minimums(stops)
}

// settleBooks carries the plan out in the books. What starts in free room takes nothing from anybody, nor does that for which only
// revocable tasks leave; what others in the leaf leave for because it is more urgent takes nothing from their shares.
func (c *checker) settleBooks(b *books, stops []*stop) {
	fairly := map[cluster.TaskKey]bool{}
	for _, s := range stops {
		if s.gains != s.to.Pool && !s.from.Revocable {
			fairly[s.victim.Preemption.For] = true
		}
	}
	receded := c.receded()
	c.gains(false, func(k cluster.TaskKey) {
		if receded[k] {
			return
		}
		account := c.snap.Job(k.Job()).Spec.Pool
		if fairly[k] {
			account = c.account(k.Job())
		}
		book(b.after, account, c.spec(k).Resources)
	})
	c.gains(true, func(k cluster.TaskKey) { book(b.ends, c.account(k.Job()), c.spec(k).Resources) })
	for _, s := range stops {
		for p := c.account(s.victim.Task.Job()); p != "" && !s.from.Revocable; p = p.Parent() {
			b.after[p].add(s.gives, -1)
			b.ends[p].add(s.gives, -1)
		}
	}
}

// receded returns the tasks for which nobody leaves but revocable tasks.
func (c *checker) receded() map[cluster.TaskKey]bool {
	all := map[cluster.TaskKey]bool{}
	for _, d := range c.plan.Displacements {
		if len(d.Victims) > 0 && !slices.ContainsFunc(d.Victims, func(v cycle.Victim) bool { return c.victims[v.Task] == nil || !c.revocable(v.Task) }) {
			for _, h := range d.Holds {
				all[h.Task] = true
			}
		}
	}
	return all
}

// gains visits the tasks that the plan makes room for, with starts also those that it starts.
func (c *checker) gains(starts bool, visit func(cluster.TaskKey)) {
	count := func(k cluster.TaskKey) {
		if t := c.snap.Task(k); t != nil && t.State == cluster.TaskPending && !c.snap.Job(k.Job()).Spec.Revocable {
			visit(k)
		}
	}
	for i := range c.plan.Placements {
		if starts {
			count(c.plan.Placements[i].Task)
		}
	}
	for i := range c.plan.Displacements {
		for _, h := range c.plan.Displacements[i].Holds {
			count(h.Task)
		}
	}
}

// policy checks what the policy of the lowest pool above both allows whatever they hold.
func (c *checker) policy(s *stop) {
	v := s.victim
	switch {
	case s.to.Revocable:
		c.fail("task %v is stopped for task %v, which is revocable", v.Task, v.Preemption.For)
		return
	case s.from.Revocable:
		return
	}
	common := s.from.Pool
	for common != cluster.RootPool && (common == s.from.Pool || !common.Covers(s.to.Pool)) {
		common = common.Parent()
	}
	var name string
	if p := c.snap.Pool(common); p != nil {
		name = p.Preemption
	}
	if name == "none" {
		c.fail("task %v is stopped for task %v, and pool %s never stops anything", v.Task, v.Preemption.For, common)
	}
	if s.from.Pool != s.to.Pool {
		return
	}
	fair := s.loses != s.gains && s.from.Priority == s.to.Priority && name != "conservative"
	if s.from.Priority >= s.to.Priority && !fair {
		c.fail("task %v is stopped for task %v of the same pool, which is no more urgent", v.Task, v.Preemption.For)
	}
}

// donors checks that accounts keep what they are entitled to. There has to be an order in which their tasks can be taken one by
// one, each for a dimension that is short on its host and of which every account up to the common one keeps its entitlement.
// Taking those back that can be taken last never makes it worse for the others, so the order is found if there is one.
// What a pool does to its own is its own business.
func (c *checker) donors(b *books, stops []*stop) {
	left := map[cluster.PoolPath]amounts{}
	for p, has := range b.has {
		left[p] = maps.Clone(has)
	}
	given := map[cluster.TaskKey]map[cluster.PoolPath]amounts{} // what an account gives for it of its own
	for _, s := range stops {
		if s.from.Revocable {
			continue // what it had was nobody's to give
		}
		k := s.victim.Preemption.For
		if given[k] == nil {
			given[k] = map[cluster.PoolPath]amounts{}
		}
		for p := c.account(s.victim.Task.Job()); p != ""; p = p.Parent() {
			if given[k][p] == nil {
				given[k][p] = amounts{}
			}
			given[k][p].add(s.gives, 1)
		}
		for p := s.loses; !p.Covers(s.gains); p = p.Parent() {
			left[p].add(s.gives, -1)
		}
	}
	c.gains(true, func(k cluster.TaskKey) {
		takes := vector(c.spec(k).Resources)
		for p := c.account(k.Job()); p != ""; p = p.Parent() {
			if left[p] == nil {
				left[p] = amounts{}
			}
			for d, n := range takes { // it has at least what it takes beyond what it gives for that
				left[p][d] += max(0, n-given[k][p][d])
			}
		}
	})
	for again := true; again; {
		again = false
		for _, s := range stops {
			if !s.accountFor || !b.keeps(left, s) {
				continue
			}
			s.accountFor, again = false, true
			for p := s.loses; !p.Covers(s.gains); p = p.Parent() {
				left[p].add(s.gives, 1)
			}
		}
	}
	for _, s := range stops {
		if s.accountFor {
			c.fail("%s loses task %v and has no more than it is entitled to of what is short: %v", s.loses, s.victim.Task, s.short)
		}
	}
}

// keeps reports whether in some dimension that is short every account that loses the task keeps what it is entitled to.
func (b *books) keeps(left map[cluster.PoolPath]amounts, s *stop) bool {
	return slices.ContainsFunc(s.short, func(d string) bool {
		for p := s.loses; !p.Covers(s.gains); p = p.Parent() {
			if s.gives[d] == 0 || left[p][d] < b.entitled[p][d] {
				return false
			}
		}
		return true
	})
}

// beneficiary checks that an account for which others stop work ends within what it is entitled to.
func (c *checker) beneficiary(b *books, s *stop) {
	asks := vector(c.spec(s.victim.Preemption.For).Resources)
	for p := s.gains; !p.Covers(s.loses); p = p.Parent() {
		for _, d := range slices.Sorted(maps.Keys(asks)) {
			if asks[d] > 0 && b.after[p][d] > b.entitled[p][d] {
				c.fail("%s gets task %v stopped, ends with %d of %s and is entitled to %d", p, s.victim.Task, b.after[p][d], d, b.entitled[p][d])
			}
		}
	}
}

// pays reports whether a victim leaves so that an account of its own can take something from others without ending beyond what
// it is entitled to.
func (c *checker) pays(v *cycle.Victim) bool {
	from := c.account(v.Task.Job())
	for _, s := range c.stops {
		for p := s.gains; v.Hold == nil && !p.Covers(s.loses); p = p.Parent() {
			for d, n := range c.stop(v).gives {
				if p.Covers(from) && n > 0 && c.books.ends[p][d]+n > c.books.entitled[p][d] {
					return true
				}
			}
		}
	}
	return false
}

// minimums checks that services bear the loss: no more of their instances are away than they allow, ready ones counted anew.
func (c *checker) minimums(stops []*stop) {
	checked := map[cluster.JobUID]bool{}
	for _, s := range stops {
		uid := s.victim.Task.Job()
		if s.from.Type != cluster.Stateless || checked[uid] {
			continue
		}
		checked[uid] = true
		ready, j := int64(0), c.snap.Job(uid)
		for t := range c.snap.TasksOf(uid, 0) {
			if _, victim := c.victims[t.Key]; !victim && t.Ready != 0 {
				ready++
			}
		}
		if away := int64(j.Spec.Instances) - ready; away > j.Spec.MaxAway() {
			c.fail("service %d has %d instances away and allows %d", uid, away, j.Spec.MaxAway())
		}
	}
}

// short lists the dimensions that the host would lack if the victims there had stayed.
func (c *checker) short(id cluster.HostID) []string {
	var dims []string
	l := c.hosts[id]
	devices := false
	for d, promised := range l.promised {
		if promised <= 0 || promised <= l.promise(d)-l.vacated[d]-l.gives(d, l.recalled[d]) {
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

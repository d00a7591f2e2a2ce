package cycle

import (
	"cmp"
	"slices"
	"sort"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// unblockers returns what would get the task placed in the next cycle. rank tasks of its class go before it.
// The changes are enough whatever the order is in which others take what they open.
func (p *Planner) unblockers(c *class, as waiter, rank int, refused bool, w *Waiting) []Unblocker {
	var all []Unblocker
	every := p.contenders(c, rank)
	gated := refused && ownLimit(c.why.Rule)
	crowded := refused && !gated // by the capacity of the cluster, of which all pools have a part
	switch {
	case gated:
		lift := p.lift(c, as, rank)
		those := lift.those
		all = append(all, lift.all...)
		room := p.suffices(c, those)
		for _, x := range every[1:] { // only as many as no such limit keeps out; where there is room, only those who wait for more for their pools
			if ownLimit(x.class.why.Rule) {
				x.n = min(x.n, x.class.open())
			}
			if x.n > 0 && (!room || x.class.bounded()) && !slices.ContainsFunc(those, func(o contender) bool { return o.class == x.class }) {
				those = append(those, x)
			}
		}
		if room {
			return append(append(all, p.ownBound(c, as)...), p.raise(c, those)...)
		}
		every = those
	case refused && c.row.key.revocable:
		all = p.lendMore(c, every)
	case refused:
		all = p.raise(c, nil)
	}
	room := slices.ContainsFunc(w.Tally, func(t Tally) bool { return t.Reason == HostOpen })
	if c.together() {
		room = w.Fit == w.Together
	}
	if room && !refused {
		return []Unblocker{{Kind: Patience}}
	}
	if int64(rank) >= c.open() {
		all = append(all, p.ownBound(c, as)...)
	}
	if len(all) > 0 && len(every) == 1 && p.placesAtOnce(c, nil) >= every[0].n {
		return all // there is room
	}
	var h *host
	if w.Blocked != nil {
		h = p.hosts.byID[w.Blocked.Host]
	}
	if c.together() && len(c.row.task.Ports.Numbers) == 0 { // no host takes two with the same port
		if open := p.cheapestOpen(c); open != nil {
			h = open
		}
	}
	if gated {
		if i := slices.IndexFunc(p.hosts.byIndex, func(h *host) bool { return c.row.judge(h) == open }); i >= 0 {
			h = p.hosts.byIndex[i]
		}
	}
	before := rank // of its class, and of those that the same rules count as its own
	for _, x := range every[1:] {
		if x.class.row == c.row && len(c.row.task.Ports.Numbers) == 0 { // else all of them are counted
			before += p.before(x.class, c, as)
		}
	}
	if n := hostsToCome(c, h, before, w, every[1:]); h == nil || n > 1 || c.together() && c.apart() || c.row.rule.anywhere() {
		if !crowded {
			all = append(all, p.raise(c, every)...)
		}
		p.withKept(c, nil, func(kept []contender) { all = append(all, otherHosts(c, n, append(every, kept...), crowded)) })
		return all
	}
	if !crowded { // it was let in, perhaps only because those that go before it have no host
		all = append(all, p.raise(c, rivals(c, h, every))...)
	}
	switch {
	case h.rec.Unreachable:
		all = append(all, Unblocker{Kind: ReconnectHost, Host: h.id})
		fallthrough
	case h.rec.Draining:
		if h.rec.Draining {
			all = append(all, Unblocker{Kind: ResumeHost, Host: h.id})
		}
	}
	all = append(all, c.row.rule.unblockers(h)...)
	p.withKept(c, h, func(kept []contender) { all = append(all, p.moreOn(c, h, every, kept, crowded)...) })
	return all
}

// cheapestOpen returns the open host where a start costs least; nil if there is none that the class would
// rather take than wait. Complexity: hosts.
func (p *Planner) cheapestOpen(c *class) (best *host) {
	var least flowgraph.Cost
	for _, h := range p.hosts.byIndex {
		if h == nil {
			continue
		}
		if price, ok := c.accepts(h.index); ok && (best == nil || price < least) {
			best, least = h, price
		}
	}
	return best
}

// hostsToCome returns how many hosts have to come if none of those that are there gets more room; save h, if
// it is not nil. That is one for each task that may not be beside another on its host, and before such tasks
// go before it.
func hostsToCome(c *class, h *host, before int, w *Waiting, others []contender) int {
	ports := &c.row.task.Ports
	if !c.oneEach() {
		return 1
	}
	n := 1
	switch {
	case c.together() && len(others) == 0:
		n = w.Together - w.Fit
	case c.together():
		n = w.Together
	case len(ports.Numbers) > 0 || !c.maySettle(h, int64(before)+1):
		n += before
	}
	if len(ports.Numbers) > 0 {
		for _, x := range others {
			if mayTake(&x.class.row.task.Ports, ports) {
				n += int(x.n)
			}
		}
	}
	return max(1, n)
}

// otherHosts says what each of n hosts that come needs: as much as all ask for that may go there first.
func otherHosts(c *class, n int, all []contender, crowded bool) Unblocker {
	if n > 1 || c.together() && c.oneEach() {
		all[0].n = 1
	}
	if !crowded {
		all = comers(c, all, cluster.Resources{})
	}
	u, same := Unblocker{Kind: OtherHost, Hosts: n, Ahead: beside(c, all), Ports: c.row.task.Ports.Numbers, Slack: c.row.key.revocable}, takers(c, all)
	if u.Room = request(c, same, crowded); c.row.task.Ports.IsZero() {
		u.Ahead = beside(c, same)
	}
	if c.together() {
		u.Together = int(all[0].n)
	}
	if !c.row.task.GPU.IsZero() {
		u.Room.Fixed[cluster.GPU] = lacking(c, all, nil).whole * cluster.WholeGPU
	}
	if c.row.task.Ports.Dynamic > 0 {
		u.FreePorts = portsOf(all) - len(u.Ports)
	}
	return u
}

// moreOn says what the host, which may take the task, needs beyond what it has free. That includes what those
// take who have other hosts kept.
func (p *Planner) moreOn(c *class, h *host, all, kept []contender, crowded bool) []Unblocker {
	if c.together() && len(all) == 1 { // nobody else takes what is free elsewhere
		all[0].n -= p.placesAtOnce(c, h)
	}
	all = append(all, kept...)
	if !crowded {
		all = rivals(c, h, all)
		if !c.row.key.revocable {
			all = comers(c, all, h.rec.Capacity)
		}
	}
	with := Unblocker{Host: h.id, Ahead: beside(c, all)}
	if c.together() {
		with.Together = int(all[0].n)
	}
	var more []Unblocker
	lack, has := MoreRoom, h.room
	if c.row.key.revocable {
		lack, has = MoreSlack, h.rec.Lendable().Sub(h.rec.Lent) // less than nothing where they hold more
	}
	same := takers(c, all)
	room := shortage(request(c, same, crowded), has)
	if !c.row.task.GPU.IsZero() {
		u := with.gpus(c, all, h.rec)
		if u.GPUs > 0 {
			more = append(more, u)
		}
		if u.GPUs > 0 || h.room.Fixed[cluster.GPU] >= c.row.task.Resources.Fixed[cluster.GPU] {
			room.Fixed[cluster.GPU] = 0 // devices say it; else something has one that the host reports no more
		}
	}
	if !c.row.task.Ports.IsZero() {
		if u := with.ports(c, all, h.rec); len(u.Ports) > 0 || u.FreePorts > 0 {
			more = append(more, u)
		}
	}
	if away := h.rec.Unreachable || h.rec.Draining; !room.IsZero() || crowded && len(more) == 0 && !away {
		with.Kind, with.Room, with.Ahead = lack, room, beside(c, same)
		more = append([]Unblocker{with}, more...)
	}
	return more
}

// ownBound says how the limit of the task's job lets it run, beside those of the job that are on hosts or go
// before it. It says nothing if that limit neither keeps the task out, nor would once others do not.
func (p *Planner) ownBound(c *class, as waiter) []Unblocker {
	job := p.snap.Job(as.task.Job())
	most := int64(job.Spec.Limits.MaxRunning)
	if most == 0 {
		return nil
	}
	n := job.OnHosts() + 1 - most
	if c.together() {
		n += c.waiting() - 1
	}
	for _, x := range p.order {
		if x.key.group.job == job.UID && (x != c || !c.together()) {
			n += int64(p.before(x, c, as))
		}
	}
	if c.why.Rule == pool.RuleMaxRunning {
		n = max(1, n)
	}
	if n <= 0 {
		return nil
	}
	return []Unblocker{{Kind: LiftLimit, Rule: string(pool.RuleMaxRunning), Pool: c.key.group.pool, Count: n, Amount: n}}
}

// before counts the tasks of class x that go before the task w of class c. Both are of the same pool.
func (p *Planner) before(x, c *class, w waiter) int {
	return sort.Search(x.queue.Len(), func(i int) bool {
		at, _ := x.queue.GetAt(i)
		return !p.goesBefore(x, at, c, w)
	})
}

// ownLimit reports whether more room or slack on hosts would not lift the rule.
func ownLimit(r pool.Rule) bool {
	switch r {
	case pool.RuleMaxRunning, pool.RuleController, pool.RuleRunningJobs, pool.RuleRunningUser, pool.RuleRunningGroup, pool.RuleRevocable:
		return true
	default:
		return false
	}
}

// bounded reports whether some of the class wait for their pools to have more.
func (c *class) bounded() bool {
	switch c.why.Rule {
	case pool.RuleLimit, pool.RuleReservation, pool.RuleHead:
		return true
	default:
		return c.overall() > 0
	}
}

// suffices reports whether some host has room for all of those as it is. If all are of class c, several hosts
// will do. Complexity: hosts.
func (p *Planner) suffices(c *class, those []contender) bool {
	if len(those) == 1 && p.placesAtOnce(c, nil) >= those[0].n {
		return true
	}
	needs := request(c, those, false)
	for _, h := range p.hosts.byIndex {
		if c.row.judge(h) != open {
			continue
		}
		room := h.room
		if c.row.key.revocable {
			room = h.rec.Spare()
		}
		if needs.Fits(room) && len(p.moreOn(c, h, slices.Clone(those), nil, false)) == 0 {
			return true
		}
	}
	return false
}

// raise returns by how much the limits of the pools have to be raised to let in those given; if these are
// nil, all that wait there. What may not be preempted needs reservations, too. A reservation is within the
// limit, and those of pools are within that of the one above.
func (p *Planner) raise(c *class, those []contender) []Unblocker {
	if c.row.key.revocable { // limits are not for those
		return p.lendMore(c, those)
	}
	var all []Unblocker
	reserved := map[string]int64{} // by how much more the pools below have to reserve, by dimension
	for path := c.key.group.pool; path != ""; path = path.Parent() {
		status := pool.Find(p.status, path)
		if status == nil {
			continue
		}
		for _, d := range status.Dimensions {
			if c.row.task.Resources.In(d.Dimension) == 0 {
				continue
			}
			used := p.snap.Used(path)
			d.Allocation = max(d.Allocation, used.In(d.Dimension))
			if those != nil {
				d.Demand = asking(those, path, d.Dimension)
				d.Allocation = max(d.Allocation, p.ledger.Holds(path, d.Dimension)) // with what is promised
			}
			raise := func(rule pool.Rule, more int64) {
				if more > 0 {
					all = append(all, Unblocker{Kind: RaisePool, Rule: string(rule), Pool: path, Dimension: d.Dimension, Amount: more})
				}
			}
			wanted := d.Wanted()
			needs := those != nil || c.why.Rule == pool.RuleNone // its claim went to others for want of a host
			if (needs && !c.key.group.preemptible || c.why.Rule == pool.RuleReservation) && p.reserves(d.Dimension) {
				more := wanted - d.Reservation
				if needs {
					more -= p.stoppable(c, d.Dimension)
				}
				if path != c.key.group.pool {
					more = p.reservedBelow(path, d.Dimension) + reserved[d.Dimension] - d.Reservation
				}
				if more = max(0, more); path == cluster.RootPool { // it gives what there is
					more = 0
				}
				raise(pool.RuleReservation, more)
				reserved[d.Dimension] = more
				wanted = max(wanted, d.Reservation+more)
			}
			if d.Limit != cluster.NoLimit {
				raise(pool.RuleLimit, wanted-d.Limit)
			}
		}
	}
	return all
}

// lendMore says up to which part of the capacity pools have to allow revocable tasks, to let in those given.
func (p *Planner) lendMore(c *class, those []contender) (all []Unblocker) {
	request, capacity := &c.row.task.Resources, p.hosts.capacity()
	for path := c.key.group.pool; path != ""; path = path.Parent() {
		percent := p.snap.Pool(path).Limits.RevocablePercent
		if percent == nil {
			continue
		}
		var wanted cluster.Resources
		for _, g := range p.groupOrder {
			if g.key.revocable && path.Covers(g.key.pool) {
				wanted = wanted.Add(g.request.Times(g.running + g.placed + g.pledged + g.leaving))
			}
		}
		for _, x := range those {
			if x.class.row.key.revocable && path.Covers(x.class.key.group.pool) {
				wanted = wanted.Add(x.class.group.request.Times(x.n))
			}
		}
		bound := *percent
		if c.why.Rule == pool.RuleRevocable && c.why.Pool == path {
			bound++
		}
		allows := func(n int) bool { // as much of the capacity
			for d := range wanted.Fixed { // revocable tasks ask for nothing named
				if request.Fixed[d] > 0 && wanted.Fixed[d] > pool.PercentOf(capacity.Fixed[d], uint32(n)) {
					return false
				}
			}
			return true
		}
		if n := sort.Search(100, func(n int) bool { return n >= int(bound) && allows(n) }); n > int(*percent) {
			all = append(all, Unblocker{
				Kind: LiftLimit, Rule: string(pool.RuleRevocable), Pool: path, Count: int64(n), Amount: int64(n) - int64(*percent),
			})
		}
	}
	return all
}

// stoppable returns how much of a dimension is held by those in the pool of the class that may be stopped for it.
func (p *Planner) stoppable(c *class, dimension string) (sum int64) {
	for _, g := range p.groupOrder {
		if g.key.pool == c.key.group.pool && g.key.priority < c.key.group.priority && g.key.preemptible && !g.key.revocable {
			sum += g.running * g.request.In(dimension)
		}
	}
	return sum
}

// reserves reports whether some pool reserves any of the dimension. Then what may not be preempted needs a
// reservation of it.
func (p *Planner) reserves(dimension string) bool {
	return slices.ContainsFunc(p.status, func(s pool.Status) bool { return reservation(&s, dimension) > 0 })
}

func reservation(s *pool.Status, dimension string) int64 {
	for i := range s.Dimensions {
		if s.Dimensions[i].Dimension == dimension {
			return s.Dimensions[i].Reservation
		}
	}
	return 0
}

// reservedBelow returns what the children of the pool reserve together.
func (p *Planner) reservedBelow(path cluster.PoolPath, dimension string) (sum int64) {
	for i := range p.status {
		if s := &p.status[i]; s.Path != path && s.Path.Parent() == path {
			sum += reservation(s, dimension)
		}
	}
	return sum
}

// asking returns what those of the contenders ask for that count against the limits of the pool.
func asking(all []contender, path cluster.PoolPath, dimension string) int64 {
	var sum cluster.Resources
	for _, x := range all {
		if path.Covers(x.class.key.group.pool) && !x.class.row.key.revocable {
			sum = sum.Add(x.class.group.request.Times(x.n))
		}
	}
	return sum.In(dimension)
}

// contender is tasks of a class that may take what opens. All that wait have a claim on what comes to the
// cluster.
type contender struct {
	class *class
	n     int64
}

// contenders returns the task first, with those of its class that go before it, or together with it. Then
// come all others, but those that go after it in its own pool. Who goes first between pools depends on what
// these are entitled to then; so it does between jobs or users of a fair leaf.
func (p *Planner) contenders(own *class, rank int) []contender {
	all := []contender{{own, int64(rank) + 1}}
	if own.together() {
		all[0].n = own.waiting()
	}
	for _, c := range p.order {
		if c == own || c.queue.Len() == 0 || c.goesAfter(own, p.snap) {
			continue
		}
		all = append(all, contender{c, c.waiting()})
	}
	return all
}

// withKept calls do with those as contenders for whom other hosts than h are kept until somebody ends there.
// They have what they may claim. They start on a host that has room, but leave that to a task that is more
// urgent.
func (p *Planner) withKept(own *class, h *host, do func(kept []contender)) {
	units := slices.DeleteFunc(p.keptFor(), func(u *unit) bool {
		return h != nil && u.hold.Host == h.id || u.group.key.priority < own.key.group.priority
	})
	var kept []contender
	var next func()
	next = func() {
		if len(kept) == len(units) {
			do(kept)
			return
		}
		u := units[len(kept)]
		p.rows.peek(u.row, u.spec, u.wishes, func(r *row) {
			kept = append(kept, contender{&class{key: ClassKey{group: u.group.key}, group: u.group, row: r}, 1})
			next()
		})
	}
	next()
}

// goesAfter reports whether both classes are of the same pool and all tasks of c go after those of own,
// whenever they came.
func (c *class) goesAfter(own *class, snap *cluster.Snapshot) bool {
	k, o := &c.key.group, &own.key.group
	leaf := snap.Pool(k.pool)
	switch {
	case k.pool != o.pool || leaf.Ageing > 0:
		return false
	case leaf.Order == cluster.FairJobs && k.job != o.job, leaf.Order == cluster.FairUsers && k.owner != o.owner:
		return false
	default:
		return cmp.Or(cmp.Compare(k.priority, o.priority), cmp.Compare(one(c.key.ahead), one(own.key.ahead))) < 0
	}
}

// rivals leaves out those who could not be on the host: they have no claim on it.
func rivals(own *class, h *host, all []contender) []contender {
	return slices.DeleteFunc(slices.Clone(all), func(x contender) bool { return x.class != own && !x.class.row.mayEver(h) })
}

// takers leaves out those who take nothing of what the class takes. Revocable tasks take what others leave
// unused; other tasks take what is free.
func takers(own *class, all []contender) []contender {
	return slices.DeleteFunc(slices.Clone(all), func(x contender) bool { return x.class.row.key.revocable != own.row.key.revocable })
}

// comers leaves out those who find no room on a host that has so much more than it has as the others ask for
// together, even if it is empty. Where the class asks for devices or ports, others may find what it does not
// name.
func comers(own *class, all []contender, has cluster.Resources) []contender {
	if task := own.row.task; !task.GPU.IsZero() || !task.Ports.IsZero() {
		return all
	}
	come, left := slices.Clone(all[:1]), all[1:]
	for found := true; found; {
		found = false
		room := request(own, come, false).Add(has)
		var not []contender
		for _, x := range left {
			if request(own, []contender{{x.class, 1}}, false).Fits(room) {
				come, found = append(come, x), true
			} else {
				not = append(not, x)
			}
		}
		left = not
	}
	return come
}

// beside returns how many contenders there are besides the task and those that go together with it.
func beside(own *class, all []contender) int {
	n := -1
	if own.together() {
		n = -int(all[0].n)
	}
	for _, x := range all {
		n += int(x.n)
	}
	return n
}

// request returns what the contenders ask for together, in the dimensions that the task asks for. If the
// cluster has too little, it returns all dimensions.
func request(own *class, all []contender, crowded bool) (sum cluster.Resources) {
	for _, x := range all {
		sum = sum.Add(x.class.row.task.Resources.Times(x.n))
	}
	if crowded {
		return sum
	}
	r := &own.row.task.Resources
	for d := range sum.Fixed {
		if r.Fixed[d] == 0 {
			sum.Fixed[d] = 0
		}
	}
	sum.Named = slices.DeleteFunc(slices.Clone(sum.Named), func(a cluster.Amount) bool { return r.Amount(a.Name) == 0 })
	return sum
}

// shortage returns what is asked for beyond what there is, which may be less than nothing. It is zero for
// what is not asked for.
func shortage(asked, has cluster.Resources) cluster.Resources {
	short := asked.Sub(has).Positive()
	for d, v := range asked.Fixed {
		if v == 0 {
			short.Fixed[d] = 0
		}
	}
	short.Named = slices.DeleteFunc(slices.Clone(short.Named), func(a cluster.Amount) bool { return asked.Amount(a.Name) == 0 })
	return short
}

// mayEver reports whether tasks of the row could be on the host if it were larger.
func (r *row) mayEver(h *host) bool {
	switch v := r.judgeOpen(h); v % kinds {
	case mismatch, exclusive, outside, incapable, noDomain:
		return false
	default:
		return true
	}
}

// unblockers returns what would let those rules hold on the host that do not.
func (r *rule) unblockers(h *host) []Unblocker {
	if r == nil || r.holds(h.rec, 0) {
		return nil
	}
	var all []Unblocker
	for _, x := range r.order {
		n, ok := x.tally.at(h.rec)
		if !ok || x.holds(h.rec, 0) || !r.needs(x) {
			continue
		}
		u := Unblocker{Kind: FewerTasks, Host: h.id, Rule: x.name, Count: n.most - x.number}
		switch {
		case x.balance != nil:
			u.Count += 1 - x.balance.least
		case x.compare == cluster.Less:
			u.Count++
		case x.compare == cluster.Greater:
			u.Kind, u.Count = MoreTasks, x.number+1-n.least
		case n.most < x.number || n.least < n.most:
			u.Kind, u.Count = MoreTasks, x.number-n.least
		}
		all = append(all, u)
	}
	return all
}

// needs reports whether the leaf is a part of a rule that does not hold on the host that was evaluated last.
func (r *rule) needs(x *leaf) bool {
	for _, c := range r.hard {
		if x.of(c, r) && c.Evaluate(r.rec, r.ask) != cluster.True {
			return true
		}
	}
	return false
}

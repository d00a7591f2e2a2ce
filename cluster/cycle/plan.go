package cycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// maxRounds bounds how often what did not fit is solved again. What is left then is inserted task by task.
const maxRounds = 5

// maxPasses bounds how often claims that cannot be met are passed on to those next in their pools. One more
// pass is for those who have a host and were not reached.
const maxPasses = 6

// secondLook is how long after a cycle that starts something tasks with a claim that found no room are looked
// at again. By then those who started may be asked to leave for them.
const secondLook = time.Second

// plan places what can be placed, and makes room for claims. It reports whether others may start in the next
// plan: because this one starts what lets them, or because it kept them from a host.
func (p *Planner) plan(in Input, out *Output, lap *laps) (again bool) {
	p.wakeAt, p.patient, p.made, p.cut, p.barred, p.unfinished = 0, false, p.made[:0], false, false, false
	if p.due != 0 && in.Now >= p.due { // time may have done for those that were to be passed over
		for _, c := range p.order {
			c.vain = false
		}
	}
	vain := slices.ContainsFunc(p.order, func(c *class) bool { return c.vain })
	p.changed = p.changed && vain
	p.moves, p.stuck, p.scarce = p.model.Moves() && !in.KeepAll, nil, map[cluster.JobUID]int64{}
	p.rows.cycle++
	p.price(in.Now)
	again = p.rehouse(out)
	lap.end(&out.Stats, Price)
	p.admit(in.Now)
	p.keepCompany()
	lap.end(&out.Stats, Pools)
	for pass := range maxPasses + 1 {
		p.trade()
		if pass == 0 || p.moves || p.anyRoom() {
			p.solveRounds(in, out, lap)
			p.insert(out)
		}
		p.refit(out)
		p.displace(in, out)
		lap.end(&out.Stats, Fit)
		passed := p.passOn(&in, out, pass)
		lap.end(&out.Stats, Pools)
		if !passed {
			break
		}
	}
	p.recede(in, out)
	clear(p.labels.lids)
	p.unfinished = p.unfinished && !in.KeepAll && p.churn.all == 0 // otherwise they may have lacked no more than leave to ask others
	for _, c := range p.order {
		c.vain = c.vain && p.unfinished
	}
	if vain {
		p.alarm(p.due)
	}
	p.due = 0
	switch {
	case p.unfinished:
		p.due = p.wakeAt
		fallthrough
	case p.changed: // there may be room by now for those that were passed over
		p.alarm(in.Now.Add(secondLook))
	}
	if again = again || p.barred; again || len(out.Placements) == 0 {
		return again
	}
	unbegun := p.unbegun()
	return slices.ContainsFunc(p.order, func(c *class) bool { return c.behind && !unbegun[c.group.key.job] || p.fitsBeside(c) })
}

// noteStart notes that tasks of the group start in this cycle.
func (p *Planner) noteStart(g *group) {
	if !g.displaceable() {
		return
	}
	k := &g.key
	priority := k.priority
	if k.revocable {
		priority = math.MinInt32
	}
	if lowest, some := p.started[k.pool]; !some || priority < lowest {
		p.started[k.pool] = priority
	}
}

// mayStop reports whether a claim of the class has no room, and tasks that start in this cycle might leave
// for it. Claims that wait for a limit, or were passed on in the pool, count too.
func (p *Planner) mayStop(c *class) bool {
	if !c.passed && c.allClaims() == 0 {
		return false
	}
	k := &c.key.group
	lowest, inside := p.started[k.pool]
	switch {
	case len(p.started) > int(one(inside)): // in another pool
		return true
	case p.snap.Pool(k.pool).Order == cluster.PriorityFIFO:
		return inside && lowest < k.priority
	default:
		return inside && lowest <= k.priority
	}
}

// fitsBeside reports whether a task of the class has room now, if the class depends on where others are.
func (p *Planner) fitsBeside(c *class) bool {
	if c.open() == 0 || c.skipped || c.row.rule == nil {
		return false
	}
	h, _ := p.best(c)
	return h != nil
}

// anyRoom reports whether some host has room, in each dimension by itself, for the smallest of what waits.
// Complexity: classes and hosts.
func (p *Planner) anyRoom() bool {
	s := smallestOf(p.order)
	for i, h := range p.hosts.byIndex {
		if h != nil && s.takes(h, &p.hosts.rooms[i]) > 0 {
			return true
		}
	}
	return false
}

// solveRounds solves, commits what fits exactly, and solves again for the rest until nothing is gained.
func (p *Planner) solveRounds(in Input, out *Output, lap *laps) {
	if p.newSolver == nil {
		out.Stats.Rounds++
		return
	}
	for round := range maxRounds {
		out.Stats.Rounds++
		res, ok := p.optimize(round == 0, in.Budget, &out.Stats, lap)
		if !ok {
			return
		}
		moves := p.transfers(res)
		cut := p.commit(out, res, round+1 < maxRounds)
		if p.exchange(out, moves) {
			p.cut, cut = true, cut || p.someFits()
		}
		lap.end(&out.Stats, Fit)
		if !cut {
			return
		}
	}
}

// price sets the waiting prices and the mean request of what waits.
func (p *Planner) price(now cluster.Time) {
	var sum cluster.Resources
	var n int64
	for _, c := range p.order {
		sum = sum.Add(c.seen.Task.Resources.Times(c.waiting()))
		n += c.waiting()
	}
	p.round.Unit = divide(sum, n)
	if mix, due := p.census.Mix(); due {
		p.round.Mix = mix
		p.reprice()
	}
	for _, c := range p.order {
		c.placed = nil
		c.age(now)
		p.localize(c)
		c.price = clamp(p.model.Wait(&p.round, &c.seen))
		c.large = p.hosts.isLarge(c.row.task.Resources)
	}
}

func divide(r cluster.Resources, n int64) cluster.Resources {
	if n == 0 {
		return r
	}
	out := cluster.Resources{}
	for d, v := range r.Fixed {
		out.Fixed[d] = v / n
	}
	for _, a := range r.Named {
		out = out.Add(cluster.Resources{Named: []cluster.Amount{{Name: a.Name, Value: a.Value / n}}})
	}
	return out
}

// fit returns how many tasks of the class the host takes as it is planned, at most limit.
func (p *Planner) fit(c *class, h *host, limit int64) int64 {
	return p.below(c, h, 0, c.row.fit(h, limit))
}

// commit places what the flow sends to hosts, as far as it fits there exactly, the class first that gains
// most. It reports whether something was cut that fits elsewhere. A gang is placed whole or not at all.
// Weaker tiers wait until what was cut is placed: else they would take the room that it is to have. If the
// flow is solved again, hosts may keep room for what was cut. No more tasks start on a host than the model
// answers for (ration).
func (p *Planner) commit(out *Output, res solver.Result, again bool) (cut bool) {
	order := p.byWorth(func(c *class) bool { return c.node != flowgraph.NoNode })
	flows := make([][]share, len(order))
	for i, c := range order {
		left := c.open() + c.moving
		for _, a := range c.wait {
			if a != flowgraph.NoArc {
				left -= res.Flow(a)
			}
		}
		for l := range c.links.all() {
			if left <= 0 { // the others wait
				break
			}
			flow := res.Flow(l.arc)
			left -= flow
			if n := flow - p.sent[l]; n > 0 {
				flows[i] = append(flows[i], share{l.host, n, n, p.graph.net.Cost(l.arc)})
			}
		}
	}
	var kept map[*host]*keep
	if again {
		kept = p.keep(order, flows)
	}
	ration(order, flows)
	tier := cluster.TierReserved
	for i, c := range order {
		if c.tier() > tier {
			if cut && p.someFits() {
				break
			}
			tier = c.tier()
		}
		switch flow := flows[i]; {
		case len(flow) == 0:
			if c.group.key.gang { // the flow prefers others; it may still fit beside them
				c.skipped, cut = true, true
			}
		case c.group.key.gang:
			whole := p.whole(c, flow)
			p.placeShares(out, c, whole)
			if whole == nil {
				c.skipped, cut = true, true
			}
		default:
			n := p.commitShares(out, c, flow, kept)
			cut = cut || n > 0
			if n > 0 && again && c.large { // who comes after it would leave no such room
				p.insertPart(out, c, c.tier(), n)
			}
		}
	}
	p.cut = p.cut || cut
	return cut && p.someFits()
}

// ration lets as many tasks start on a host as the model answers for. Those that gain most come first, among
// equals large ones, then those that cost least.
func ration(order []*class, flows [][]share) {
	type bid struct {
		class *class
		share *share
	}
	bids := map[*host][]bid{} // in any order: each host by itself
	for i, c := range order {
		for k := range flows[i] {
			if s := &flows[i][k]; s.host.answers < cluster.MaxInstances {
				bids[s.host] = append(bids[s.host], bid{c, s})
			}
		}
	}
	for h, all := range bids {
		slices.SortStableFunc(all, func(a, b bid) int {
			return cmp.Or(goesFirst(a.class, b.class), cmp.Compare(a.share.price, b.share.price))
		})
		left := h.answers
		for _, b := range all {
			b.share.may = min(b.share.n, left)
			left -= b.share.may
		}
	}
}

// commitShares places as many of the shares as fit beside what hosts keep, and returns how many tasks were
// cut. Where places open as others fill, it repeats that as long as it helps.
func (p *Planner) commitShares(out *Output, c *class, shares []share, kept map[*host]*keep) (cut int64) {
	for some := range slices.Chunk(shares, ahead) {
		p.reading = p.reading[:0]
		for i := range some {
			p.reading = append(p.reading, some[i].host)
		}
		p.fetched = readAhead(p.reading)
	}
	for again := true; again; {
		again, cut = false, 0
		for i := range shares {
			s := &shares[i]
			n := p.fit(c, s.host, kept[s.host].leaves(c, s.host, min(s.n, s.may, c.open())))
			p.place(out, c, s.host, n, s.price)
			s.n, s.may = s.n-n, s.may-n
			cut += s.n
			again = again || n > 0
		}
		again = again && cut > 0 && c.row.rule.balances()
	}
	return cut
}

// goesFirst compares classes by who is placed first: the one that gains most, and among equals a large one,
// which finds no room beside others later.
func goesFirst(a, b *class) int {
	return cmp.Or(cmp.Compare(b.worth(), a.worth()), int(one(b.large)-one(a.large)))
}

// byWorth returns those of the classes that have something to place, in the order of goesFirst.
func (p *Planner) byWorth(of func(*class) bool) []*class {
	var order []*class
	for _, c := range p.order {
		if c.open() > 0 && of(c) {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, goesFirst)
	return order
}

// someFits reports whether some waiting task has room somewhere.
func (p *Planner) someFits() bool {
	for some := range slices.Chunk(p.order, block) {
		for _, c := range p.refreshed(some, func(i int) bool { return some[i].open() > 0 && !some[i].skipped }) {
			if h, _ := p.best(c); h != nil {
				return true
			}
		}
	}
	return false
}

// refreshed returns those of the classes that are asked next, at most a block, with their rows in line.
// Together that takes a fraction of the time of one after the other. The list is good until the next call.
func (p *Planner) refreshed(classes []*class, asked func(i int) bool) []*class {
	p.asking = p.asking[:0]
	for i, c := range classes {
		if asked(i) {
			p.asking = append(p.asking, c)
		}
	}
	p.rows.refreshSome(p.asking)
	return p.asking
}

// place takes n tasks from the class and puts them on the host, which has room for them.
func (p *Planner) place(out *Output, c *class, h *host, n int64, price flowgraph.Cost) {
	if n == 0 {
		return
	}
	task := c.row.task
	rec := h.rec
	var gang cluster.JobUID
	if c.group.key.gang {
		gang = c.group.key.job
	}
	for range n {
		w, _ := c.queue.PopMin()
		delete(p.waiting, w.task)
		devices, _ := task.Pick(rec)
		rec = c.row.bind(rec, devices)
		out.Placements = append(out.Placements, Placement{
			Task: w.task, Run: w.run, Host: h.id, Devices: devices, Price: price, Tier: c.tier(), Gang: gang,
		})
		p.planned.Tasks = append(p.planned.Tasks, w.task)
		c.placed = append(c.placed, w.task)
		p.made = append(p.made, made{c, w, h, len(out.Placements) - 1})
		p.note(h, w.task, c.group)
		p.labels.planned(w.set, h, comes)
		c.take(1)
	}
	c.group.placed += n
	p.noteStart(c.group)
	p.ledger.Add(c.group.unit(n))
	p.use(c.group, n)
	p.gain(c.group)
	p.welcome(h, c.key.row.work, n)
	p.alter(h, rec)
}

const (
	// turns is into how many parts classes that gain alike are inserted at most, so that they go beside each
	// other.
	turns = 64
	// turnPrices is how many prices the turns may take: in each, every class may have to look at every host
	// again.
	turnPrices = 1 << 25
)

// insert places waiting tasks where they fit, without a flow. It goes tier by tier, so that nobody borrows
// what a claim could have had. In each tier the classes that gain most come first, those that gain alike by
// turns.
func (p *Planner) insert(out *Output) {
	for tier := range cluster.NumTiers {
		order := p.byWorth(func(c *class) bool { return c.tier() == tier })
		for len(order) > 0 {
			n := 1
			for n < len(order) && goesFirst(order[0], order[n]) == 0 {
				n++
			}
			p.takeTurns(out, order[:n])
			order = order[n:]
		}
	}
}

// takeTurns inserts what is left of the classes in their strongest tier, which all have in common.
func (p *Planner) takeTurns(out *Output, classes []*class) {
	tier := classes[0].tier()
	parts := make([]int64, len(classes))
	several := int64(1)
	if len(classes) > 1 {
		several = min(turns, 1+turnPrices/int64(len(classes)*(1+len(p.hosts.byIndex))))
	}
	for i, c := range classes {
		parts[i] = max(1, c.left[tier]/several)
	}
	for some := true; some; {
		some = false
		for i, c := range classes {
			if i%block == 0 {
				p.refreshed(classes[i:min(i+block, len(classes))], func(k int) bool { return parts[i+k] > 0 })
			}
			if parts[i] > 0 && p.insertPart(out, c, tier, parts[i]) {
				some = true
			} else {
				parts[i] = 0
			}
		}
	}
}

// insertPart places at most part tasks of the class, in its strongest tier and on its cheapest hosts. It
// reports whether more may be placed. A class that rather waits than pays for the cheapest host is left, and
// notes when that may change.
func (p *Planner) insertPart(out *Output, c *class, tier cluster.Tier, part int64) bool {
	switch {
	case c.row.rule.unbegun():
		p.placeTogether(out, c, p.begin)
		return false
	case c.group.key.gang:
		p.placeTogether(out, c, func(c *class) []share { return p.whole(c, nil) })
		return false
	}
	for part > 0 && c.left[tier] > 0 {
		h, price := p.best(c)
		if h == nil {
			if c.row.anyOpen() {
				p.wake(c)
			}
			return false
		}
		share := max(1, c.open()/int64(4*c.row.breadth()))
		n := p.fit(c, h, min(share, part, c.left[tier]))
		if n == 0 { // never while rows are true; but to go on for ever would be the worst answer
			return false
		}
		p.place(out, c, h, n, price)
		out.Stats.Inserted += int(n)
		part -= n
	}
	return c.left[tier] > 0
}

// best returns the cheapest host that the class would rather take than wait, or nil.
func (p *Planner) best(c *class) (best *host, price flowgraph.Cost) {
	p.rows.refresh(c.row)
	for h, start := range p.cheapest(c) {
		if best == nil || start < price {
			best, price = h, start
		}
		if !c.local.isNear(h.index) {
			break // the rest of the row is no cheaper
		}
	}
	return best, price
}

// wake remembers when the waiting price of the class rises next.
func (p *Planner) wake(c *class) {
	p.patient = true
	head, _ := c.queue.Min()
	p.alarm(head.queued.Add(time.Second << min(c.seen.Stage, 32)))
}

// alarm remembers that there is something to do at that time.
func (p *Planner) alarm(at cluster.Time) {
	if at != 0 && (p.wakeAt == 0 || at < p.wakeAt) {
		p.wakeAt = at
	}
}

package cycle

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// A refit looks for a better set of starts where something was left waiting. The flow counts units, and the
// exact commit takes one class after the other. So a large task may take the place of several that are worth
// more together. A refit takes starts of this plan back and makes others, host by host, until no such change
// is worth anything: the steps "refit" and "kept only if better" of a local search over exact knapsacks.
// Stronger tiers and higher priorities count lexicographically: a refit never gives up one of them for any
// number of weaker ones.
//
// Also, all starts are made anew by density, and parts of them by lot on other hosts. The search goes on from
// there: an iterated local search (Lourenço, Martin and Stützle, 2003).
const (
	refitSweeps    = 3
	refitNodes     = 1 << 14 // steps that a refit may take from each beginning
	refitHostNodes = 1 << 11 // of those, for the same hosts
	refitLooks     = 16      // classes that are considered for the same hosts
	refitSmall     = 64      // starts of a plan that is refitted in full
	refitLarge     = 256     // and of one that is refitted at all; as many classes may wait. Of more, a single one is worth too little
	refitPairs     = 16      // hosts of a cluster whose plans are refitted in full, any two of them together
	refitTriples   = 6       // hosts of which any three are considered together
	refitLots      = 64      // times that half of the starts are made anew by lot, at most four for each
	refitGang      = 32      // units of a gang for which room is looked for on several hosts
)

// made is a start of this plan, at an index of the output.
type made struct {
	class  *class
	waiter waiter
	host   *host
	at     int
}

// refitter is the state of the refits of one plan.
type refitter struct {
	p      *Planner
	out    *Output
	nodes  int
	few    bool                 // few hosts and starts: several hosts are looked at together, and lots are drawn
	order  func(*class) float64 // who goes first within a level
	first  map[*class][]*host   // where a class is settled before it looks for what is cheapest
	levels []level
	worth  worths // of all starts of the plan that may be taken back
	log    []change
}

// level is a rank of claims: those of a stronger one count first.
type level struct {
	tier     cluster.Tier
	priority int32
}

func (l level) compare(m level) int {
	return cmp.Or(cmp.Compare(l.tier, m.tier), cmp.Compare(m.priority, l.priority))
}

// worths is what a set of starts saves against waiting, by level.
type worths []flowgraph.Cost

// change is a start that was made, or taken back.
type change struct {
	class   *class
	host    *host
	price   flowgraph.Cost
	start   bool
	devices cluster.Devices // of what was taken back
}

// refit improves the plan as long as something waits that was admitted. Complexity: 6 · refitNodes looks at a
// class on a host, and the square of the starts of the plan, which are few.
func (p *Planner) refit(out *Output) {
	if len(out.Displacements) > 0 || len(p.made) > refitLarge || len(p.order) > refitLarge { // the former were decided beside these starts
		return
	}
	r := refitter{p: p, out: out, nodes: refitNodes, few: len(p.made) <= refitSmall && len(p.hosts.byID) <= refitPairs}
	r.order = r.density
	if !r.few && p.loose() || !r.begin() {
		return
	}
	r.sweeps()
	r.again(r.density, func(*class) bool { return true }, refitNodes)
	if r.few {
		r.byLot()
	}
	if len(r.log) > 0 {
		p.insert(out) // what rules keep out of this may fit now
	}
}

// loose reports whether somebody leaves a host or might be asked to. Then those who find no room may have
// that of others. If small tasks went first, more would have to leave. Complexity: hosts.
func (p *Planner) loose() bool {
	return slices.ContainsFunc(p.hosts.byIndex, func(h *host) bool { return h != nil && h.inMotion() })
}

// byLot makes the starts of half of the classes anew. Each goes first to hosts that chance gives it: what is
// cheapest for one may stand in the way of many. The same plan has the same lots.
func (r *refitter) byLot() {
	lot := rand.New(rand.NewPCG(uint64(len(r.p.made)), uint64(len(r.p.order))))
	hosts := slices.DeleteFunc(slices.Clone(r.p.hosts.byIndex), func(h *host) bool { return h == nil || h.reserved() })
	if len(hosts) == 0 {
		return
	}
	for range min(refitLots, 4*len(r.p.made)) {
		rank := make(map[*class]float64, len(r.p.order))
		r.first = map[*class][]*host{}
		for _, c := range r.p.order {
			rank[c] = lot.Float64()
			for range lot.IntN(3) {
				r.first[c] = append(r.first[c], hosts[lot.IntN(len(hosts))])
			}
		}
		r.again(func(c *class) float64 { return rank[c] }, func(c *class) bool { return rank[c] < 0.5 }, refitNodes/16)
	}
	r.first = nil
}

// again takes the starts of those classes back, makes starts in the order, and looks on from there. It keeps
// that only if it is better.
func (r *refitter) again(order func(*class) float64, of func(*class) bool, nodes int) {
	r.order, r.nodes = order, nodes
	r.attempt(func() bool {
		r.restart(of)
		r.sweeps()
		return true
	})
}

// density returns what a start of the class saves at best for the part of the cluster that it takes.
func (r *refitter) density(c *class) float64 {
	start := flowgraph.Cost(0)
	if _, price := r.p.best(c); price > 0 {
		start = price
	}
	return float64(c.price-start) / (1 + r.size(c))
}

// size returns the largest part of any dimension of the cluster that a task of the class takes.
func (r *refitter) size(c *class) float64 {
	return float64(dominant(c.row.task.Resources, r.p.hosts.capacity()))
}

func (r *refitter) sweeps() {
	for range refitSweeps {
		better := false
		for _, h := range r.touched() {
			better = r.fit(h) || better
		}
		better = r.few && r.acrossHosts() || better
		for _, c := range r.waiting() {
			if c.group.key.gang {
				better = r.gang(c) || better
			}
		}
		for _, c := range r.dropped() {
			better = r.drop(c) || better
		}
		r.settleAll()
		if !better || r.nodes <= 0 {
			return
		}
	}
}

// acrossHosts tries other starts on two hosts at a time, and on three where they are few.
func (r *refitter) acrossHosts() (better bool) {
	hosts := r.touched()
	for i, f := range hosts {
		for k, g := range hosts[i+1:] {
			better = r.fit(f, g) || better
			if len(hosts) > refitTriples {
				continue
			}
			for _, h := range hosts[i+k+2:] {
				better = r.fit(f, g, h) || better
			}
		}
	}
	return better
}

// begin finds the levels and what the plan is worth, and reports whether there is anything to do.
func (r *refitter) begin() bool {
	waits := r.p.cut
	add := func(c *class, t cluster.Tier) {
		l := level{t, c.key.group.priority}
		if i, there := slices.BinarySearchFunc(r.levels, l, level.compare); !there {
			r.levels = slices.Insert(r.levels, i, l)
		}
	}
	for _, c := range r.p.order {
		if r.free(c) {
			for t, left := range c.left {
				if left > 0 {
					add(c, cluster.Tier(t))
					waits = true
				}
			}
		}
	}
	if !waits {
		return false
	}
	for i := range r.p.made {
		if m := &r.p.made[i]; r.free(m.class) {
			add(m.class, r.out.Placements[m.at].Tier)
		}
	}
	r.worth = make(worths, len(r.levels))
	for i := range r.p.made {
		r.count(&r.p.made[i], 1)
	}
	return len(r.p.made) > 0
}

// free reports whether starts of the class may be made and taken back one by one. No rule may count tasks for
// it. It must not be revocable, so that it competes for room with the others.
func (r *refitter) free(c *class) bool {
	return !c.row.key.revocable && (c.row.rule == nil || len(c.row.rule.order) == 0)
}

// movable reports whether the start may be taken back. It must be free, and no rule may count starts of its
// class, as another one may have to change places with it; see takeBack.
func (r *refitter) movable(m *made) bool {
	return r.free(m.class) && !m.host.reserved() &&
		!slices.ContainsFunc(r.p.made, func(o made) bool { return o.class == m.class && len(o.waiter.set.tallies) > 0 })
}

// reserved reports whether room on the host is promised to somebody, or somebody is asked to leave it.
func (h *host) reserved() bool { return h.decided || len(h.holds)+len(h.nominated) > 0 }

func (r *refitter) level(c *class, t cluster.Tier) int {
	i, _ := slices.BinarySearchFunc(r.levels, level{t, c.key.group.priority}, level.compare)
	return i
}

func (r *refitter) count(m *made, sign flowgraph.Cost) {
	if r.free(m.class) {
		p := &r.out.Placements[m.at]
		r.worth[r.level(m.class, p.Tier)] += sign * (m.class.price - p.Price)
	}
}

// touched returns the hosts on which starts may be taken back, in order of index.
func (r *refitter) touched() []*host {
	var all []*host
	for i := range r.p.made {
		if m := &r.p.made[i]; !m.class.group.key.gang && r.movable(m) {
			all = append(all, m.host)
		}
	}
	slices.SortFunc(all, func(a, b *host) int { return cmp.Compare(a.index, b.index) })
	return slices.Compact(all)
}

// waiting returns the classes with something left to place, the densest first within a level.
func (r *refitter) waiting() []*class {
	type ranked struct {
		class *class
		level int
		order float64
	}
	var all []ranked
	for _, c := range r.p.order {
		if c.open() > 0 && r.free(c) {
			all = append(all, ranked{c, r.level(c, c.tier()), r.order(c)})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(b.order, a.order))
	})
	classes := make([]*class, len(all))
	for i := range all {
		classes[i] = all[i].class
	}
	return classes
}

// dropped returns the classes whose starts may all be taken back together, by first start.
func (r *refitter) dropped() []*class {
	var all []*class
	for i := range r.p.made {
		c := r.p.made[i].class
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return slices.DeleteFunc(all, func(c *class) bool {
		return r.followed(c) || slices.ContainsFunc(r.p.made, func(m made) bool { return m.class == c && !r.movable(&m) })
	})
}

// followed reports whether the class is the core of a gang that starts in this plan, and others of the gang
// have been let in since.
func (r *refitter) followed(c *class) bool {
	k := &c.group.key
	return k.gang && r.p.cores[k.job] == nil && slices.ContainsFunc(r.p.order, func(o *class) bool {
		return o.group.key.job == k.job && !o.group.key.gang && !o.behind
	})
}

// attempt carries out a change of the plan. It takes it back if it fails or does not make the plan better.
func (r *refitter) attempt(do func() bool) bool {
	before, mark := slices.Clone(r.worth), len(r.log)
	if do() && slices.Compare(r.worth, before) > 0 {
		return true
	}
	for len(r.log) > mark {
		last := r.log[len(r.log)-1]
		if last.start {
			r.takeBack(last.class, last.host)
		} else {
			r.putBack(last)
		}
		r.log = r.log[:len(r.log)-2] // itself, and its reversal
	}
	return false
}

func (r *refitter) place(c *class, h *host, price flowgraph.Cost) {
	r.p.place(r.out, c, h, 1, price)
	r.count(&r.p.made[len(r.p.made)-1], 1)
	r.log = append(r.log, change{class: c, host: h, price: price, start: true})
}

// putBack makes a start again that was taken back. It has the same devices: on others, those that follow
// might not fit.
func (r *refitter) putBack(was change) {
	r.place(was.class, was.host, was.price)
	h, task, pl := was.host, was.class.row.task, &r.out.Placements[len(r.out.Placements)-1]
	r.p.alter(h, task.Bind(task.Unbind(h.rec, pl.Devices), was.devices))
	pl.Devices = was.devices
}

// takeBack takes back one start of the class on the host. Tasks of a class start in the order in which they
// wait. So the last one that was placed goes back, and the one on the host takes its place.
func (r *refitter) takeBack(c *class, h *host) {
	p, all := r.p, r.p.made
	on, last := -1, -1
	for i := range all {
		if all[i].class == c {
			last = i
			if all[i].host == h {
				on = i
			}
		}
	}
	r.count(&all[on], -1)
	if on != last {
		r.count(&all[last], -1)
		a, b := &r.out.Placements[all[on].at], &r.out.Placements[all[last].at]
		a.Task, b.Task, a.Run, b.Run, a.Tier, b.Tier = b.Task, a.Task, b.Run, a.Run, b.Tier, a.Tier
		all[on].waiter, all[last].waiter = all[last].waiter, all[on].waiter
		r.count(&all[last], 1)
	}
	m := all[on]
	pl := r.out.Placements[m.at]
	p.unplace(&m, &pl)
	r.out.Placements = slices.Delete(r.out.Placements, m.at, m.at+1)
	p.made = slices.Delete(all, on, on+1)
	for i := range p.made {
		if p.made[i].at > m.at {
			p.made[i].at--
		}
	}
	r.log = append(r.log, change{class: c, host: h, price: pl.Price, devices: pl.Devices})
}

// unplace is the reverse of place, for one task.
func (p *Planner) unplace(m *made, pl *Placement) {
	c, h, w := m.class, m.host, m.waiter
	c.queue.Set(w)
	p.waiting[w.task] = entry{c, w}
	c.giveBack(pl.Tier)
	c.group.placed--
	p.ledger.Remove(c.group.unit(1))
	p.use(c.group, -1)
	c.placed = without(c.placed, w.task)
	p.labels.planned(w.set, h, comes.times(-1))
	h.arrivals = without(h.arrivals, arrival{w.task.Job(), c.group})
	at := slices.IndexFunc(h.joined, func(j costmodels.Resident) bool { return j.Work == c.key.row.work })
	if h.joined[at].Tasks--; h.joined[at].Tasks == 0 {
		h.joined = slices.Delete(h.joined, at, at+1)
	}
	p.alter(h, c.row.task.Unbind(h.rec, pl.Devices))
}

// settle puts what was taken back of the class where it is cheapest now. The hosts on which it is to be put
// first come before.
func (r *refitter) settle(c *class) {
	if c.group.key.gang {
		for _, s := range r.p.whole(c, r.shares(c)) {
			for range s.n {
				r.place(c, s.host, s.price)
			}
		}
		return
	}
	for _, s := range r.shares(c) {
		for range min(s.n, c.open()) {
			r.startOn(c, s.host)
		}
	}
	for c.open() > 0 {
		h, price := r.p.best(c)
		if h == nil || r.p.fit(c, h, 1) == 0 {
			return
		}
		r.place(c, h, price)
	}
}

// shares returns what fits of the class on the hosts that it is to be put on first.
func (r *refitter) shares(c *class) (first []share) {
	if len(r.first[c]) > 0 {
		r.p.rows.refresh(c.row)
	}
	for _, h := range r.first[c] {
		if price, ok := c.accepts(h.index); ok {
			first = append(first, share{host: h, n: r.p.fit(c, h, c.open()), price: price})
		}
	}
	return first
}

// settleAll settles all classes that wait.
func (r *refitter) settleAll() {
	for _, c := range r.waiting() {
		r.settle(c)
	}
}

// restart takes the starts of those classes back, and makes starts anew in the order. A gang is taken back
// whole or not at all.
func (r *refitter) restart(of func(*class) bool) {
	whole := r.dropped()
	for i := len(r.p.made) - 1; i >= 0; i-- {
		if m := r.p.made[i]; of(m.class) && r.movable(&m) && (!m.class.group.key.gang || slices.Contains(whole, m.class)) {
			r.takeBack(m.class, m.host)
		}
	}
	r.settleAll()
}

// drop takes a class back for others, and puts it where it still fits.
func (r *refitter) drop(c *class) bool {
	if r.nodes -= 4 * refitLooks; r.nodes < 0 {
		return false
	}
	return r.attempt(func() bool {
		for i := len(r.p.made) - 1; i >= 0; i-- {
			if m := r.p.made[i]; m.class == c {
				r.takeBack(c, m.host)
			}
		}
		for _, d := range r.waiting() {
			if d != c {
				r.settle(d)
			}
		}
		r.settle(c)
		return true
	})
}

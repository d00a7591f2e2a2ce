package cycle

import (
	"cmp"
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

const (
	// leastCandidates is the least number of hosts that price-out adds for a class at a time.
	leastCandidates = 8
	// spareCandidates is how many hosts a class begins with beyond those where its tasks would go.
	spareCandidates = 4
	// sampledHosts is how many hosts are sampled to count those that a class may choose from.
	sampledHosts = 512
	// moreBidders: in one pass a host is offered to so many tasks more than it takes. The next ones have to be
	// offered others: all who have no place want the same ones first.
	moreBidders = 16
)

// optimize brings the network up to date, solves it, and adds candidates until the flow is optimal, within
// the tolerance, for the complete network: the one in which every class has an arc to every host with room
// for it. anew says that most earlier candidates may be full.
func (p *Planner) optimize(anew bool, budget solver.Budget, s *Stats, lap *laps) (solver.Result, bool) {
	p.solves++
	p.graph.dropSlots()
	p.graph.clear()
	for _, c := range p.order {
		p.graph.setClass(c)
	}
	p.graph.bound(p.order, p.hosts.byIndex)
	p.rows.refreshAll(p.order)
	p.graph.sync()
	p.beginOffers()
	short := p.short()
	for _, x := range p.lacking(anew, short) {
		p.seed(x.class, x.units, short)
	}
	for first := true; ; first = false {
		p.graph.sync()
		lap.end(s, Graph)
		res, ok := p.graph.solve(budget, s)
		lap.end(s, Solve)
		if !ok {
			return res, false
		}
		if first {
			p.beginOffers()
		} else {
			p.nextPass()
		}
		optimal := p.priceOut(res)
		lap.end(s, Graph)
		if optimal {
			return res, true
		}
	}
}

// short reports whether the hosts have places, as the flow counts them, for less than twice the tasks that
// want one. Complexity: the classes, and the hosts where there are many tasks.
func (p *Planner) short() bool {
	var wanted, places int64
	for _, c := range p.order {
		if c.node != flowgraph.NoNode {
			wanted += c.open()
		}
	}
	for i, h := range p.hosts.byIndex {
		if h == nil {
			continue
		}
		if places += p.graph.smallest.takes(h, &p.hosts.rooms[i]); places >= 2*wanted {
			return false
		}
	}
	return true
}

// seekers is units of a class that look for their first candidates.
type seekers struct {
	class *class
	tier  cluster.Tier
	units int64
}

// lacking lists the classes that have a node and no candidates. With anew it also lists those with fewer than
// tasks that wait: what is left of their candidates is too little to begin with. Classes that often have no
// place left to gain come late. The order is by tier (a class may have units of several), then, where places
// are short, by how few hosts the class can choose from, since that places most tasks, then by what it may
// gain. The rows must be fresh.
func (p *Planner) lacking(anew, short bool) (all []seekers) {
	var sample []int32
	if short {
		sample = p.sample()
	}
	for _, c := range p.order {
		n := int64(c.links.len())
		if c.node == flowgraph.NoNode || n > 0 && (!anew || n >= c.open()) || !c.row.anyOpen() {
			continue
		}
		if c.hopes = c.price; c.local.nowhere() {
			c.hopes -= c.row.at(0).price() + c.local.elsewhere
		}
		if c.choice = 0; short {
			c.choice = c.row.openOf(sample)
		}
		for t, left := range c.left {
			if left > 0 {
				all = append(all, seekers{c, cluster.Tier(t), left})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b seekers) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.class.choice, b.class.choice), cmp.Compare(b.class.hopes, a.class.hopes))
	})
	return all
}

// sample returns about sampledHosts hosts, less those without room for the smallest of what waits. All calls
// take the same ones.
func (p *Planner) sample() (hosts []int32) {
	all := p.hosts.byIndex
	for i := 0; i < len(all); i += 1 + len(all)/sampledHosts {
		if h := all[i]; h != nil && p.graph.smallest.takes(h, &p.hosts.rooms[i]) > 0 {
			hosts = append(hosts, int32(i))
		}
	}
	return hosts
}

// offers is what one pass over the classes remembers of the hosts. All classes of a pass see the same
// potentials and would ask for the same few hosts. So each asks at the price that those before it have left.
type offers struct {
	pass   int
	res    solver.Result    // whose potentials the pass goes by; its Solution is nil before there are any
	byHost []offer          // by index
	bases  []flowgraph.Cost // by index: what one more task pays there beyond its start price; −1 where nobody has asked
	asked  []int32          // indices of hosts asked about that are not full
	// fell is the last pass before which a base fell, fellIn the same for the hosts of a rack, by number; at
	// least the first pass. What has been found too dear since then still is.
	fell   int
	fellIn []int

	given  hostSet        // hosts that were offered in the pass, and on which others may still start
	filled hostSet        // hosts that were found full in the pass
	least  flowgraph.Cost // the least that one of the given hosts asks for its next unit
	seeder seeder
	vacant vacant // of a row with one class

	order     []*class   // of the last price-out
	proposals []proposal // of the last price-out
	swaps     []swap     // of the last price-out
}

type offer struct {
	pass  int            // the pass that the rest belongs to
	units int64          // units that classes were offered in it
	base  flowgraph.Cost // the initial price of the host
	after int64          // tasks that start there already
	takes int64          // tasks that can start there together at most
	ask   flowgraph.Cost // what the next unit is to pay for the place
}

// full reports whether nobody can start there without taking somebody's place.
func (o *offer) full() bool { return o.after+o.units >= o.takes }

// overbid reports whether the host was offered in the pass to as many as it may be.
func (o *offer) overbid() bool { return o.units > 0 && o.after+o.units >= o.takes+moreBidders }

// beginOffers begins a pass in which every host asks as if nobody started there.
func (p *Planner) beginOffers() {
	o, n := &p.offers, len(p.hosts.byIndex)
	if grow := n - len(o.byHost); grow > 0 {
		o.byHost = append(o.byHost, make([]offer, grow)...)
	}
	o.bases = o.bases[:0]
	for range o.byHost {
		o.bases = append(o.bases, -1)
	}
	o.res, o.asked = solver.Result{}, o.asked[:0]
	p.nextPass()
	o.fell, o.fellIn = o.pass, o.fellIn[:0]
	for range p.hosts.byRack {
		o.fellIn = append(o.fellIn, o.pass)
	}
}

// nextPass begins a pass in which the bases known so far still hold.
func (p *Planner) nextPass() {
	o, n := &p.offers, len(p.hosts.byIndex)
	o.pass++
	o.given, o.filled, o.least = o.given.empty(n), o.filled.empty(n), costmodels.MaxPrice
}

// ask has the pass go by the potentials of a solve, and notes what they made cheaper.
func (p *Planner) ask(res solver.Result) {
	o := &p.offers
	o.res = res
	for _, i := range o.asked {
		base := p.graph.marginal(p.hosts.byIndex[i], res)
		if base < o.bases[i] {
			o.fell, o.fellIn[p.hosts.rackOf[i]] = o.pass, o.pass
		}
		o.bases[i] = base
	}
}

// offer returns what the pass remembers of a host.
func (p *Planner) offer(i int32) *offer {
	o := &p.offers.byHost[i]
	if o.pass != p.offers.pass {
		h, base, after := p.hosts.byIndex[i], p.base(i), int64(0)
		if p.offers.res.Solution != nil {
			after = p.graph.starts(h, p.offers.res)
		}
		takes := p.graph.smallest.takes(h, &p.hosts.rooms[i])
		*o = offer{pass: p.offers.pass, base: base, after: after, takes: takes, ask: base}
	}
	return o
}

// base returns the initial price of a host. It does not read the rest of the offer, which lies elsewhere in
// memory.
func (p *Planner) base(i int32) flowgraph.Cost {
	if base := p.offers.bases[i]; base >= 0 {
		return base
	}
	return p.askFor(i)
}

// askFor is base for a host that nobody has asked about yet.
func (p *Planner) askFor(i int32) (base flowgraph.Cost) {
	o, h := &p.offers, p.hosts.byIndex[i]
	switch {
	case p.graph.smallest.takes(h, &p.hosts.rooms[i]) == 0:
		base = costmodels.MaxPrice // whatever it costs
	case o.res.Solution == nil:
		base = 0
	default:
		base = p.graph.marginal(h, o.res)
		o.asked = append(o.asked, i)
	}
	o.bases[i] = base
	return base
}

// give counts one more unit that a class was offered on the host. The price rises as the crowd's does from
// there on. Where that is level, many who want the host may have it in the same pass.
func (p *Planner) give(i int32, o *offer) {
	o.units++
	o.ask = p.risen(i, o)
	if p.offers.least = min(p.offers.least, o.ask); o.full() {
		p.offers.given.remove(i)
	} else {
		p.offers.given.add(i)
	}
}

func (p *Planner) risen(i int32, o *offer) flowgraph.Cost {
	h := p.hosts.byIndex[i]
	crowd := p.graph.crowd(h, p.round.Unit, o.after+o.units)
	if crowd == costmodels.MaxPrice && o.after+o.units < p.round.Unit.Count(h.room, cluster.MaxInstances) {
		return max(o.ask, o.base+later)
	}
	ask := o.base + crowd
	if o.after > 0 {
		ask -= p.graph.crowd(h, p.round.Unit, o.after)
	}
	return ask
}

// cheapest yields the hosts that are open to the class by the price of starting there. Near ones come first,
// if the place of the data makes a difference, then all by the price that they have for anybody. A host may
// come twice. A host that costs more than waiting for a better one is left out: the step of a tier says how
// much a pool claims, not how much a task hurries. The row must be fresh, and must not change meanwhile.
func (p *Planner) cheapest(c *class) iter.Seq2[*host, flowgraph.Cost] {
	return func(yield func(*host, flowgraph.Cost) bool) {
		if !c.row.anyOpen() {
			return
		}
		if all := yield; len(p.labels.lids)+len(p.victims) > 0 {
			yield = func(h *host, price flowgraph.Cost) bool { return p.below(c, h, 0, 1) == 0 || all(h, price) }
		}
		for _, near := range c.local.hosts.order {
			if price, ok := c.acceptsAt(near.index(), near.price()); ok && !yield(p.hosts.byIndex[near.index()], price) {
				return
			}
		}
		for _, near := range c.local.racks.order {
			for _, s := range c.row.inRack(near.index()).slots {
				price := clamp(s.price() + near.price())
				if price >= c.price {
					break
				}
				if _, own := c.local.hosts.price(s.index()); !own && !yield(p.hosts.byIndex[s.index()], price) {
					return
				}
			}
		}
		for _, s := range c.row.from(0) {
			if s.price()+c.local.elsewhere >= c.price || !yield(p.hosts.byIndex[s.index()], c.total(s)) {
				return
			}
		}
	}
}

// floor returns what a start on one of the row's open hosts in the rack pays at least, with the place, by the
// potentials of the pass.
func (p *Planner) floor(r *row, rack int32) flowgraph.Cost {
	o := r.inRack(rack)
	if o.pass < p.offers.fellIn[rack] {
		o.pass, o.least = p.offers.pass, nowhere
		for _, s := range o.slots {
			if s.price() >= o.least {
				break
			}
			o.least = min(o.least, s.price()+p.base(s.index()))
		}
	}
	return o.least
}

// rowFloor returns what a start cheaper than end on one of the row's open hosts pays at least, with the
// place, by the potentials of the pass. A class that gains nothing by it need not look at the hosts.
func (p *Planner) rowFloor(r *row, end flowgraph.Cost) flowgraph.Cost {
	f := &r.floor
	if f.pass < p.offers.fell {
		*f = floor{least: nowhere, pass: p.offers.pass}
	}
	for k, s := range r.from(f.read) {
		if s.price() >= end {
			break
		}
		f.least, f.read = min(f.least, s.price()+p.base(s.index())), k+1
	}
	return f.least
}

// proposal is a host that price-out would add for a class, and the price of starting there.
type proposal struct {
	class *class
	host  *host
	start flowgraph.Cost
}

// priceOut looks for arcs that were left out and have a negative reduced cost, and adds hosts by them unless
// the flow is as good as optimal. Let v be the most that a missing arc would save a unit of a class supplied
// with n. If each such unit paid v less, the potentials would be feasible for the complete network. So its
// optimum is at most the sum of n·v below the flow. Allowed is the tolerance for each task by single arcs,
// and a quarter more by their sum. What is left then is many tasks that would each gain a little by the same
// host, and a solve for each that does.
func (p *Planner) priceOut(res solver.Result) (optimal bool) {
	p.graph.askWaiting(p.order, res)
	p.graph.askRunning(res)
	p.ask(res)
	p.offers.proposals, p.offers.swaps = p.offers.proposals[:0], p.offers.swaps[:0]
	var missed, allowed flowgraph.Cost
	for _, c := range p.byValue() {
		n := flowgraph.Cost(c.open() + c.moving)
		allowed += n * p.options.Tolerance / 4
		if !p.moves && !c.row.anyOpen() {
			continue
		}
		worth := c.bid()
		missed += n * max(0, max(p.propose(c, worth), p.proposeSwaps(c, worth))-p.options.Tolerance)
	}
	if missed <= allowed {
		return true
	}
	for _, x := range p.offers.proposals {
		p.graph.link(x.class, x.host, p.round.Unit, x.start)
	}
	for i := range p.offers.swaps {
		p.linkSwap(&p.offers.swaps[i])
	}
	return false
}

// byValue returns the classes of the network, those first whose dearest unit pays most: a host is offered to so
// many in a pass, and others would only bid in vain.
func (p *Planner) byValue() []*class {
	all := p.offers.order[:0]
	for _, c := range p.order {
		if c.node != flowgraph.NoNode {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *class) int { return cmp.Compare(b.bid(), a.bid()) })
	p.offers.order = all
	return all
}

// bid is what the dearest unit of the class pays, by the potentials of the pass.
func (c *class) bid() flowgraph.Cost { return max(c.pays, c.dearest) }

// propose lists hosts whose missing arc has a negative reduced cost, at most a few times as many as tasks
// wait, and returns the largest saving. No task pays less than nothing for the crowd, and no host further
// down the row is cheaper than its price with the data elsewhere. So the look ends where that reaches what
// the class pays; only the near hosts are all looked at.
//
// What a class was offered before in the same pass is left to a later one only if that gains more by it. The
// first one to look at a host sees it as it is, hence a pass without proposals means that there is nothing to
// add.
func (p *Planner) propose(c *class, worth flowgraph.Cost) (most flowgraph.Cost) {
	if !c.row.anyOpen() {
		return 0
	}
	limit := len(p.offers.proposals) + max(leastCandidates, c.links.len(), 2*int(c.open()+c.moving))
	end := min(worth-p.options.Tolerance, c.price)
	saves := func(i int32, start flowgraph.Cost) bool { return worth-start-p.base(i) > p.options.Tolerance }
	consider := func(i int32, start flowgraph.Cost) {
		if !saves(i, start) || c.links.has(i) {
			return
		}
		o := p.offer(i)
		most = max(most, worth-start-o.base)
		gain := worth - start - o.ask
		if gain <= p.options.Tolerance || o.overbid() {
			return
		}
		p.offers.proposals = append(p.offers.proposals, proposal{c, p.hosts.byIndex[i], start})
		was := o.ask
		p.give(i, o)
		o.ask = min(o.ask, was+gain)
	}
	for _, near := range c.local.hosts.order {
		if near.price() >= end { // the rest is no cheaper, whatever the host costs
			break
		}
		if saves(near.index(), near.price()) { // as it may if the start costs nothing
			if start, ok := c.acceptsAt(near.index(), near.price()); ok {
				consider(near.index(), start)
			}
		}
	}
	first := c.row.at(0)
	for _, near := range c.local.racks.order {
		if near.price()+first.price() >= end {
			break
		}
		if near.price()+p.floor(c.row, near.index()) >= worth-p.options.Tolerance {
			continue
		}
		for _, s := range c.row.inRack(near.index()).slots {
			start := clamp(s.price() + near.price())
			if start >= end {
				break
			}
			if _, own := c.local.hosts.price(s.index()); !own {
				consider(s.index(), start)
			}
		}
	}
	if p.rowFloor(c.row, end-c.local.elsewhere)+c.local.elsewhere >= worth-p.options.Tolerance {
		return most
	}
	for _, s := range c.row.from(0) {
		if s.price()+c.local.elsewhere >= end {
			break
		}
		i := s.index()
		if len(p.offers.proposals) >= limit { // what comes saves less than if nobody were there
			return max(most, worth-s.price()-c.local.elsewhere)
		}
		if start := clamp(s.price() + c.local.elsewhere); saves(i, start) && !c.local.isNear(i) {
			consider(i, start)
		}
	}
	return most
}

package cycle

import (
	"cmp"
	"iter"
	"math"
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
	// sampledHosts is among how many hosts those are counted that a class may choose from.
	sampledHosts = 512
	// moreBidders is how many tasks beyond those that a host takes may be offered it in one pass.
	moreBidders = 16
)

// optimize brings the network up to date, solves it, and adds candidates until the flow is optimal for the complete
// network, within the tolerance: the one in which every class has an arc to every host that has room for it.
func (p *Planner) optimize(budget solver.Budget, s *Stats, lap *laps) (solver.Result, bool) {
	p.graph.clear()
	for _, c := range p.order {
		p.graph.setClass(c)
	}
	p.graph.bound(p.order, p.hosts.byIndex)
	p.rows.refreshAll(p.order)
	p.graph.sync()
	p.beginOffers(func(h *host) (flowgraph.Cost, int64) { return p.graph.crowd(h, p.round.Unit, 0), 0 })
	short := p.short()
	for _, c := range p.unlinked(short) {
		p.seed(c, short)
	}
	for {
		p.graph.sync()
		lap.end(s, Graph)
		res, ok := p.graph.solve(budget, s)
		lap.end(s, Solve)
		if !ok {
			return res, false
		}
		optimal := p.priceOut(res)
		lap.end(s, Graph)
		if optimal {
			return res, true
		}
	}
}

// short reports whether the hosts have places, as the flow counts them, for less than twice the tasks that want one. Complexity:
// the classes, and the hosts where there are many tasks.
func (p *Planner) short() bool {
	var wanted, places int64
	for _, c := range p.order {
		if c.node != flowgraph.NoNode {
			wanted += c.open()
		}
	}
	for _, h := range p.hosts.byIndex {
		if h == nil {
			continue
		}
		if places += p.graph.smallest.takes(h); places >= 2*wanted {
			return false
		}
	}
	return true
}

// unlinked returns the classes that have a node and no candidates, those behind of which often have no place left to gain: by
// what they may gain; where places are short, by tier, and then the one first that has the fewest hosts to choose from, since
// most tasks are placed that way. The rows must be fresh.
func (p *Planner) unlinked(short bool) (classes []*class) {
	for _, c := range p.order {
		if c.node == flowgraph.NoNode || c.links.len() > 0 {
			continue
		}
		if c.hopes = c.worth(); len(c.local.order) == 0 {
			s, ok := c.row.at(0)
			if !ok {
				continue
			}
			c.hopes -= s.price() + c.local.elsewhere
		}
		if short {
			c.choice = c.row.openOf(sampledHosts)
		}
		classes = append(classes, c)
	}
	slices.SortStableFunc(classes, func(a, b *class) int {
		gain := cmp.Compare(b.hopes, a.hopes)
		if !short {
			return gain
		}
		return cmp.Or(cmp.Compare(a.tier(), b.tier()), cmp.Compare(a.choice, b.choice), gain)
	})
	return classes
}

// offers is what one pass over the classes remembers of the hosts. All classes of a pass see the same potentials and would
// ask for the same few hosts, so each asks at the price that those before it have left.
type offers struct {
	pass   int
	byHost []offer // by index
	// initial says what one more task pays on the host beyond its start price, and after how many that start there.
	initial func(h *host) (flowgraph.Cost, int64)
	queue   prospects  // of the class that is seeded
	taken   []prospect // hosts that others fill, of the same class

	proposals []proposal // of the last price-out
}

type offer struct {
	pass  int            // the pass that the rest belongs to
	units int64          // that classes were offered in it
	base  flowgraph.Cost // the initial price of the host
	after int64          // tasks that start there already
	takes int64          // tasks that can start there together at most
	ask   flowgraph.Cost // what the next unit is asked
}

// full reports whether nobody can start there without taking somebody's place.
func (o *offer) full() bool { return o.after+o.units >= o.takes }

func (p *Planner) beginOffers(initial func(h *host) (flowgraph.Cost, int64)) {
	o := &p.offers
	if grow := len(p.hosts.byIndex) - len(o.byHost); grow > 0 {
		o.byHost = append(o.byHost, make([]offer, grow)...)
	}
	o.pass++
	o.initial = initial
}

// offer returns what the pass remembers of a host.
func (p *Planner) offer(i int32) *offer {
	o := &p.offers.byHost[i]
	if o.pass != p.offers.pass {
		h := p.hosts.byIndex[i]
		base, after := p.offers.initial(h)
		*o = offer{pass: p.offers.pass, base: base, after: after, takes: p.graph.smallest.takes(h), ask: base}
	}
	return o
}

// give counts one more unit that a class was offered on the host. The price rises as the crowd's does from there on: where
// that is level, many who want the host may have it in the same pass.
func (p *Planner) give(i int32, o *offer) {
	if o.units++; o.after+o.units >= o.takes+moreBidders {
		o.ask = costmodels.MaxPrice
		return
	}
	h := p.hosts.byIndex[i]
	o.ask = o.base + p.graph.crowd(h, p.round.Unit, o.after+o.units)
	if o.after > 0 {
		o.ask -= p.graph.crowd(h, p.round.Unit, o.after)
	}
}

// cheapest yields the hosts that are open to the class by the price of starting there: near ones first where the data
// makes a difference, then all by the price they have for anybody. A host may come twice. One that costs more than to wait
// for a better one is left out: the step of a tier says how much a pool claims, not how much a task hurries. The row must
// be fresh, and stay as it is meanwhile.
func (p *Planner) cheapest(c *class) iter.Seq2[*host, flowgraph.Cost] {
	return func(yield func(*host, flowgraph.Cost) bool) {
		for _, near := range c.local.order {
			if price, ok := c.acceptsAt(near.index(), near.price()); ok && !yield(p.hosts.byIndex[near.index()], price) {
				return
			}
		}
		for k := 0; ; k++ {
			s, ok := c.row.at(k)
			if !ok || s.price()+c.local.elsewhere >= c.price || !yield(p.hosts.byIndex[s.index()], c.total(s)) {
				return
			}
		}
	}
}

// prospect is a host that a class may be given as a candidate.
type prospect struct {
	price flowgraph.Cost // that its next unit would pay
	start flowgraph.Cost // of it, the price of the start
	host  int32
	fit   int64 // units that it takes yet, −1 as long as nobody has looked
}

// prospects is a heap, the cheapest first.
type prospects []prospect

func (a prospect) before(b prospect) bool {
	return a.price < b.price || a.price == b.price && a.host < b.host
}

func (q *prospects) push(x prospect) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 && x.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
}

func (q *prospects) pop() {
	h := *q
	last := len(h) - 1
	h[0] = h[last]
	*q = h[:last]
	q.sink()
}

// sink puts the first in its place after it became dearer.
func (q prospects) sink() {
	if len(q) == 0 {
		return
	}
	x, i := q[0], 0
	for {
		next := 2*i + 1
		if next+1 < len(q) && q[next+1].before(q[next]) {
			next++
		}
		if next >= len(q) || !q[next].before(x) {
			break
		}
		q[i] = q[next]
		i = next
	}
	q[i] = x
}

// seed gives a class its first candidates: the hosts where its tasks would go if they chose one after the other, after
// those of the classes before it, and a few more. A class that does not get as many places that way contends for a few of
// those that others were offered: the flow decides who has them. That is close to the optimum, so the potentials of the first
// solve are worth something.
func (p *Planner) seed(c *class, short bool) {
	p.offers.queue, p.offers.taken = p.offers.queue[:0], p.offers.taken[:0]
	q, taken := &p.offers.queue, &p.offers.taken
	contend := func(x prospect) {
		if len(*taken) < spareCandidates {
			*taken = append(*taken, x)
		}
	}
	consider := func(i int32, start flowgraph.Cost) {
		o := p.offer(i)
		if x := (prospect{price: start + o.ask, start: start, host: i, fit: -1}); o.full() {
			contend(x)
		} else {
			q.push(x)
		}
	}
	near, next := 0, 0 // in the order of the class, and in the row
	for left, spare := c.open(), spareCandidates; left > 0 || spare > 0; {
		if near < len(c.local.order) {
			if s := c.local.order[near]; len(*q) == 0 || s.price() <= (*q)[0].price { // no start costs less than nothing
				if near++; s.price() < c.price {
					if start, ok := c.acceptsAt(s.index(), s.price()); ok {
						consider(s.index(), start)
					}
				}
				continue
			}
		}
		s, ok := c.row.at(next)
		if elsewhere := s.price() + c.local.elsewhere; ok && elsewhere < c.price && (len(*q) == 0 || elsewhere <= (*q)[0].price) {
			if next++; !c.local.isNear(s.index()) {
				consider(s.index(), c.total(s))
			}
			continue
		}
		if len(*q) == 0 {
			break
		}
		first := &(*q)[0]
		i := first.host
		o := p.offer(i)
		if first.fit < 0 {
			if first.fit = p.fit(c, p.hosts.byIndex[i], cluster.MaxInstances); !short {
				first.fit -= o.units // in the flow it may be none the less: that counts tasks, whatever their size
			}
			if first.fit <= 0 {
				contend(*first)
			}
		}
		if first.fit <= 0 {
			q.pop()
			continue
		}
		if !c.links.has(i) {
			p.graph.link(c, p.hosts.byIndex[i], p.round.Unit, first.start)
			if left == 0 {
				spare--
			}
		}
		if left > 0 {
			left--
			p.give(i, o)
			first.fit--
		}
		if left == 0 || first.fit == 0 {
			q.pop()
			continue
		}
		first.price = first.start + o.ask
		q.sink()
	}
	for _, x := range *taken {
		if len(*q) == 0 && !c.links.has(x.host) {
			p.graph.link(c, p.hosts.byIndex[x.host], p.round.Unit, x.start)
		}
	}
}

// proposal is a host that price-out would add for a class, and the price of starting there.
type proposal struct {
	class *class
	host  *host
	start flowgraph.Cost
}

// priceOut looks for the arcs that were left out and have a negative reduced cost, and adds hosts by them unless the flow is
// as good as optimal. If every unit of a class that is supplied with n of them paid v less, v being the most that a missing
// arc would save one, the potentials were feasible for the complete network. So its optimum is at most the sum of n·v below
// the flow: that is allowed to be the tolerance for each task by single arcs, and a quarter more by their sum. What is left
// then is many tasks that would all gain a little by the same host, and a solve for each that does.
func (p *Planner) priceOut(res solver.Result) (optimal bool) {
	p.beginOffers(func(h *host) (flowgraph.Cost, int64) { return p.graph.marginal(h, p.round.Unit, res) })
	p.offers.proposals = p.offers.proposals[:0]
	var missed, allowed flowgraph.Cost
	for _, c := range p.order {
		if c.node == flowgraph.NoNode {
			continue
		}
		n := flowgraph.Cost(c.open())
		missed += n * max(0, p.propose(c, p.graph.worth(c, res))-p.options.Tolerance)
		allowed += n * p.options.Tolerance / 4
	}
	if missed <= allowed {
		return true
	}
	for _, x := range p.offers.proposals {
		p.graph.link(x.class, x.host, p.round.Unit, x.start)
	}
	return false
}

// propose lists hosts whose missing arc has a negative reduced cost, a few times as many as tasks wait at most, and returns
// the largest saving. No task pays less than nothing for the crowd, and no host further down the row is cheaper than
// its price with the data elsewhere, so the look ends where that reaches what the class pays; only the near hosts are all
// looked at.
//
// What a class was offered before in the same pass is left to a later one only if that gains more by it. The first one to
// look at a host sees it as it is, hence a pass without proposals means that there is nothing to add.
func (p *Planner) propose(c *class, worth flowgraph.Cost) (most flowgraph.Cost) {
	limit := len(p.offers.proposals) + max(leastCandidates, c.links.len(), 2*int(c.open()))
	end := min(worth-p.options.Tolerance, c.price)
	saves := func(i int32, start flowgraph.Cost) bool { return worth-start-p.offer(i).base > p.options.Tolerance }
	consider := func(i int32, start flowgraph.Cost) {
		if !saves(i, start) || c.links.has(i) {
			return
		}
		o := p.offer(i)
		most = max(most, worth-start-o.base)
		gain := worth - start - o.ask
		if gain <= p.options.Tolerance {
			return
		}
		p.offers.proposals = append(p.offers.proposals, proposal{c, p.hosts.byIndex[i], start})
		was := o.ask
		p.give(i, o)
		o.ask = min(o.ask, was+gain)
	}
	for _, near := range c.local.order {
		if near.price() >= end { // the rest is no cheaper, whatever the host costs
			break
		}
		if saves(near.index(), near.price()) { // as it may if the start costs nothing
			if start, ok := c.acceptsAt(near.index(), near.price()); ok {
				consider(near.index(), start)
			}
		}
	}
	if c.row.floor(p.offers.pass)+c.local.elsewhere >= worth-p.options.Tolerance {
		return most
	}
	least := clamp(math.MaxInt64) // that a start in the row pays with what it pays for the place
	for k := 0; ; k++ {
		s, ok := c.row.at(k)
		if !ok || s.price()+c.local.elsewhere >= end {
			if ok {
				least = min(least, s.price())
			}
			c.row.least, c.row.pass = least, p.offers.pass
			return most
		}
		least = min(least, s.price()+p.offer(s.index()).base)
		if len(p.offers.proposals) >= limit { // what comes saves less than if nobody were there
			return max(most, worth-s.price()-c.local.elsewhere)
		}
		if i, start := s.index(), clamp(s.price()+c.local.elsewhere); saves(i, start) && !c.local.isNear(i) {
			consider(i, start)
		}
	}
}

package cycle

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// slotNode stands for what running tasks on a host have, if all of these tasks ask for the same. A task that
// asks for no more may start in the place of one of them. That one is then a task of its own class that needs a
// place elsewhere. To the network, what waits in that class and what moves there are the same, so both find the
// places that are best for both.
//
//	class ──(start price)──► slot node ══(what moving on loses, one each)══► class of the running task ──► …
//
// Quincy's network has running tasks as supply, with arcs to where they are. This is that network with the flow
// on these arcs turned around: who stays is not in it, and who moves goes back along his arc. It is smaller,
// since it has only those whose place somebody wants. By this no running task goes to wait. Who has to wait, for
// whose sake, is a matter of pools (see displace).
type slotNode struct {
	host *host
	asks slotKey
	node flowgraph.NodeID
	in   []arrow // from classes that may start here
	out  []arrow // to the classes of the running tasks
}

// arrow is an arc between a class and a slot node.
type arrow struct {
	class *class
	unit  *unit // that moves; nil for one that leads to the slot node
	arc   flowgraph.ArcID
}

// slotKey is what tasks ask for that share a slot node.
type slotKey struct {
	fixed      [cluster.NumDimensions]int64
	named, gpu string
}

func (k *rowKey) slot() slotKey { return slotKey{k.fixed, k.named, k.gpu} }

// swap is a task that may start in the place of a running one that moves.
type swap struct {
	class *class
	start flowgraph.Cost // of the class there
	moves *movable
}

// dropSlots takes the slot nodes out of the network. The next solve makes those that it needs, at the prices
// of its time.
func (g *graph) dropSlots() {
	for _, s := range g.slots {
		for _, a := range s.out {
			a.class.moving, a.class.pays = 0, 0
		}
		g.dropped, s.host.slots = append(g.dropped, s.node), s.host.slots[:0]
	}
	clear(g.slots)
	g.slots = g.slots[:0]
	g.flush()
}

// askRunning works out by the potentials what running tasks would pay for another place. That is what those
// who would have their place pay beyond the start and what the move loses.
func (g *graph) askRunning(res solver.Result) {
	for _, s := range g.slots {
		for _, a := range s.out {
			a.class.pays = 0
		}
	}
	for _, s := range g.slots {
		pays := flowgraph.Cost(0) // by the dearest class, for a place here
		for _, a := range s.in {
			pays = max(pays, g.worth(a.class, res)-g.net.Cost(a.arc))
		}
		for _, a := range s.out {
			a.class.pays = max(a.class.pays, pays-g.net.Cost(a.arc))
		}
	}
}

// proposeSwaps lists running tasks in whose place a task of the class may start, on the full hosts where its
// data is, if that saves more than the tolerance. It returns the largest saving. Only claims are met that
// way, as wherever others have to leave. Complexity: the hosts near the data that cost less than the class
// pays, and those on them that may save something.
func (p *Planner) proposeSwaps(c *class, worth flowgraph.Cost) (most flowgraph.Cost) {
	if !p.moves || c.claims() == 0 || c.group.key.gang || c.row.key.revocable || !c.row.task.Ports.IsZero() {
		return 0
	}
	end := min(worth-p.options.Tolerance, c.price)
	for i := range c.local.near(end) {
		h := p.hosts.byIndex[i]
		if h.loose == 0 || h.decided || c.row.judge(h)%kinds != full {
			continue
		}
		if start := p.startAt(c, h); start < end {
			most = max(most, p.proposeOn(h, swap{class: c, start: start}, worth, end))
		}
	}
	return most
}

// proposeOn proposes swaps on one host. Those come first that lose least, at most as many as wait. A task
// that would rather wait than pay for all of the exchange has nobody move, however much its pool may claim.
func (p *Planner) proposeOn(h *host, x swap, worth, end flowgraph.Cost) (most flowgraph.Cost) {
	c, left := x.class, x.class.claims()
	all := p.movable(h)
	for i := range all {
		m := &all[i]
		pays := x.start + m.loses
		if left == 0 || pays >= end {
			break
		}
		if !c.replaces(m.unit) || worth-pays-p.elsewhere(m) <= p.options.Tolerance || pays+m.as.least >= c.price || m.as == c || m.slot.takes(c) {
			continue
		}
		x.moves = m
		most = max(most, worth-pays-m.as.finds)
		p.offers.swaps = append(p.offers.swaps, x)
		left--
	}
	return most
}

// movable is a running task that may move for others.
type movable struct {
	unit  *unit
	loses flowgraph.Cost // by moving, less what it pays where it is, at least 0
	as    *class         // that it would wait in; nil: nobody has asked yet
	slot  *slotNode      // that has it; nil for none yet
}

// nowhere is more than anybody gains by any place.
const nowhere flowgraph.Cost = math.MaxInt64 / 4

// elsewhere returns what a task that may move pays for the best place that there is, by the potentials of the
// pass. It notes that in the class of the task, with the least start.
func (p *Planner) elsewhere(m *movable) flowgraph.Cost {
	if m.as == nil {
		m.as = p.asWaiting(m.unit)
		p.rows.refresh(m.as.row)
	}
	c := m.as
	if c.sought != p.offers.pass {
		c.sought, c.finds, c.least = p.offers.pass, nowhere, nowhere
		for h, start := range p.cheapest(c) {
			if !c.local.isNear(h.index) && start >= c.finds {
				break
			}
			c.finds, c.least = min(c.finds, start+p.base(h.index)), min(c.least, start)
		}
	}
	return c.finds
}

// movable returns the running tasks on a host that may move for others. Who loses least comes first.
// Complexity: the tasks on the host, once in a solve.
func (p *Planner) movable(h *host) []movable {
	if h.counted == p.solves {
		return h.movable
	}
	h.counted, h.movable = p.solves, h.movable[:0]
	for _, u := range h.units {
		job := u.job
		if u.leaves() || u.group.key.gang || job.Revocable || job.Preemption.Kill || len(job.Preferences)+len(job.Spread) > 0 ||
			p.stuck[u] || !u.group.displaceable() || p.now < u.rested(p.options.Hysteresis) || h.makesWay(u) {
			continue
		}
		loses := p.model.Move(&p.round, &costmodels.Class{
			Request: costmodels.Request{Task: u.spec, Work: u.row.work, Route: p.model.Route(job.Pool, job.Type)},
			Pool:    job.Pool, Type: job.Type, Priority: job.Priority,
		}, p.now.Sub(u.began()))
		if loses < costmodels.MaxPrice {
			h.movable = append(h.movable, movable{unit: u, loses: clamp(loses + u.owed - p.here(u))})
		}
	}
	slices.SortStableFunc(h.movable, func(a, b movable) int { return cmp.Compare(a.loses, b.loses) })
	return h.movable
}

// here returns what a running task pays for reading its inputs where it is. Its images are there by now.
func (p *Planner) here(u *unit) flowgraph.Cost {
	if len(u.job.Inputs) == 0 {
		return 0
	}
	if version := int32(p.hosts.version); u.readAt != version {
		c := p.asWaiting(u)
		local := c.local
		if len(c.seen.Images) > 0 {
			seen := c.seen
			seen.Images = nil
			local = p.resolve(&seen)
		}
		u.readAt, u.reads = version, int32(local.extra(u.host.index))
	}
	return flowgraph.Cost(u.reads)
}

// replaces reports whether a task of the class fits in the place of the unit once that is gone, even if no
// other room is there.
func (c *class) replaces(u *unit) bool {
	return c.row.task.Resources.Fits(u.spec.Resources) && (c.row.task.GPU.IsZero() || c.row.key.gpu == u.row.gpu) &&
		!c.row.rule.hinges(u.set)
}

// began is when the run of the unit began; in the future if it has not.
func (u *unit) began() cluster.Time {
	if u.started == 0 {
		return cluster.Forever
	}
	return u.started
}

// asWaiting returns the class of a running task as if it waited. If nobody waits in it, the class is of this
// plan only, and its tasks take any place rather than wait.
func (p *Planner) asWaiting(u *unit) *class {
	n := len(p.order)
	c, _ := p.classFor(p.snap, p.snap.Job(u.task.Job()), p.snap.Task(u.task))
	if len(p.order) > n {
		p.localize(c)
		c.price = costmodels.MaxPrice
	}
	return c
}

// takes reports whether the node exists and tasks of the class may start in it.
func (s *slotNode) takes(c *class) bool {
	return s != nil && slices.ContainsFunc(s.in, func(a arrow) bool { return a.class == c })
}

// linkSwap brings a swap into the network.
func (p *Planner) linkSwap(x *swap) {
	g, m := p.graph, x.moves
	if m.slot == nil {
		asks := m.unit.row.slot()
		i := slices.IndexFunc(m.unit.host.slots, func(s *slotNode) bool { return s.asks == asks })
		if i < 0 {
			i = len(m.unit.host.slots)
			m.unit.host.slots = append(m.unit.host.slots, &slotNode{host: m.unit.host, asks: asks, node: g.net.AddNode(0)})
			g.slots = append(g.slots, m.unit.host.slots[i])
		}
		m.slot = m.unit.host.slots[i]
		if m.as.node == flowgraph.NoNode {
			m.as.node = g.net.AddNode(0)
			p.seed(m.as, m.as.open(), false)
		}
		m.slot.out = append(m.slot.out, arrow{class: m.as, unit: m.unit, arc: g.net.AddArc(m.slot.node, m.as.node, 0, 1, m.loses)})
		m.as.moving++
	}
	if s := m.slot; !s.takes(x.class) {
		s.in = append(s.in, arrow{class: x.class, arc: g.net.AddArc(x.class.node, s.node, 0, x.class.claims(), x.start)})
	}
}

// transfer is an exchange that the flow asks for.
type transfer struct {
	on    *host
	comes *class
	moves arrow
	to    *link // where the unit goes that moves; nil where there is no place left
}

// transfers pairs those who come with those who move, and these with the places that the flow has for their
// classes. The cheapest places come first; the others are for those who wait. A unit whose place in the flow
// is a slot node, too, finds none and stays.
func (p *Planner) transfers(res solver.Result) (all []transfer) {
	p.sent = nil
	if len(p.graph.slots) == 0 {
		return nil
	}
	p.sent = map[*link]int64{}
	for _, s := range p.graph.slots {
		var comes []*class
		for _, a := range s.in {
			comes = append(comes, slices.Repeat([]*class{a.class}, int(res.Flow(a.arc)))...)
		}
		slices.SortStableFunc(comes, func(a, b *class) int { return cmp.Compare(b.worth(), a.worth()) })
		for _, a := range s.out {
			if res.Flow(a.arc) == 0 {
				continue
			}
			x := transfer{on: s.host, comes: comes[0], moves: a}
			comes = comes[1:]
			for l := range a.class.links.all() {
				if res.Flow(l.arc) > p.sent[l] && l.host != s.host && (x.to == nil || p.graph.net.Cost(l.arc) < p.graph.net.Cost(x.to.arc)) {
					x.to = l
				}
			}
			if x.to != nil {
				p.sent[x.to]++
			}
			all = append(all, x)
		}
	}
	return all
}

// exchange carries out the transfers that are possible exactly. It reports whether some are not: these are
// not asked for again in this plan.
func (p *Planner) exchange(out *Output, all []transfer) (cut bool) {
	d := displacer{p: p, out: out, now: p.now}
	for i := range all {
		if x := &all[i]; x.to == nil || !d.exchange(x) {
			if cut = true; p.stuck == nil {
				p.stuck = map[*unit]bool{}
			}
			p.stuck[x.moves.unit] = true
		}
	}
	d.reprieve()
	d.emit()
	for _, n := range d.done {
		n.class.nominees = 0
	}
	return cut
}

// exchange has the unit move and a task of the class take its place. It reports whether that is possible.
func (d *displacer) exchange(x *transfer) bool {
	c, h, u := x.comes, x.on, x.moves.unit
	w, ok := c.queue.GetAt(c.nominees)
	if !ok || c.claims() == 0 || u.leaves() || h.makesWay(u) || !couldTake(c.row.judge(h)) || x.moves.class.row.fit(x.to.host, 1) == 0 || d.p.labels.below(u.set, x.to.host) == 0 {
		return false
	}
	devices, ok := u.spec.Pick(x.to.host.rec)
	if !ok {
		return false
	}
	u.move = u.moveTo(x.to.host, devices, x.moves.class.row.rule)
	u.price = d.p.graph.net.Cost(x.moves.arc) + d.p.graph.net.Cost(x.to.arc)
	n := d.instead(c, h, u, w)
	if n == nil || n.price >= c.price {
		u.move = nil
		return false
	}
	d.step++
	n.step = d.step
	d.strike(u)
	d.pledge(n)
	return true
}

// instead returns the displacement of the unit alone by the waiter. It returns nil if there is room without
// it, or not even with it.
func (d *displacer) instead(c *class, h *host, u *unit, w waiter) *displacement {
	wants := c.group.unit(1)
	s := search{
		d: d, class: c, quest: &quest{beyond: d.p.ledger.Beyond(wants)}, host: h, room: h.promise(), short: wants.Request.Lacking(cluster.Resources{}),
	}
	if s.room.takes(h, c.row.task) || !s.enter(alone(u)) {
		return nil
	}
	fits := s.room.takes(h, c.row.task)
	s.found = slices.Clone(s.taken)
	s.exit()
	if !fits {
		return nil
	}
	n := s.displacement(w)
	if n != nil {
		n.victims = []*unit{u}
	}
	return n
}

package cycle

import (
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// graph is the flow network between cycles:
//
//	class ──(fit, start price)──► host ══(crowd segments)══► sink
//	  ├══(waiting price, by tier)══► unscheduled aggregator of the pool ──► sink
//	  └──(start price)──► slot node ══(what moving on loses)══► class of a running task
//
// A class has slot nodes only where the model moves running tasks; see slotNode.
//
// Its verbs change only what differs, so that the solver sees only what differs.
type graph struct {
	net    *flowgraph.Network
	solver solver.Solver
	model  costmodels.Model
	round  *costmodels.Round

	crowding costmodels.Round // the round of a call of crowd
	sink     flowgraph.NodeID
	pools    map[cluster.PoolPath]flowgraph.NodeID // unscheduled aggregators
	slots    []*slotNode                           // of this solve, in the order in which they were made
	stale    []*host                               // with links that may be out of date
	retired  []retiree                             // what the next solve has no more, first to go first
	demand   int64                                 // sum of all supplies
	smallest smallest                              // of the classes that have a node
	last     solver.Result                         // of the last solve; its Solution is nil if there was no optimum
	held     []flowgraph.Cost                      // by node: the least that a class pays for its places there, beyond the arc to it
	dropped  []flowgraph.NodeID                    // classes whose nodes go with the next flush
	deserted []flowgraph.NodeID                    // hosts whose nodes do
	reading  []*host                               // see readAhead
	fetched  int64
	renewing []*link // of one host
	unused   []*link // for the next ones
}

// retiree is a class or a host that is gone. Until the next solve the network stays as the last one left it.
type retiree struct {
	class *class
	host  *host
}

func newGraph(model costmodels.Model, round *costmodels.Round, s solver.Solver) *graph {
	g := &graph{net: flowgraph.New(), solver: s, model: model, round: round, pools: map[cluster.PoolPath]flowgraph.NodeID{}}
	g.sink = g.net.AddNode(0)
	return g
}

// setClass brings the class's node in line with what is admitted of it, and its price. A class with nothing
// to place has no node.
func (g *graph) setClass(c *class) {
	if !c.flows() {
		g.dropClass(c)
		g.flush()
		return
	}
	pool := g.unscheduled(c.key.group.pool)
	if c.node == flowgraph.NoNode {
		c.node = g.net.AddNode(0)
	}
	for t, left := range c.left {
		price := c.price + tierSteps[t]
		switch a := c.wait[t]; {
		case a == flowgraph.NoArc && left > 0:
			c.wait[t] = g.net.AddArc(c.node, pool, 0, left, price)
		case a != flowgraph.NoArc && left == 0:
			g.net.RemoveArc(a)
			c.wait[t] = flowgraph.NoArc
		case a != flowgraph.NoArc:
			g.net.SetCost(a, price)
			g.net.SetBounds(a, 0, left)
		}
	}
	g.supply(c, c.open())
}

func (g *graph) supply(c *class, n int64) {
	g.demand += n - g.net.Supply(c.node)
	g.net.SetSupply(c.node, n)
	g.net.SetSupply(g.sink, -g.demand)
}

func (g *graph) unscheduled(pool cluster.PoolPath) flowgraph.NodeID {
	v, ok := g.pools[pool]
	if !ok {
		v = g.net.AddNode(0)
		g.net.AddArc(v, g.sink, 0, flowgraph.Infinite, 0)
		g.pools[pool] = v
	}
	return v
}

// dropClass takes a class out of the network. Its node and arcs go with the next flush.
func (g *graph) dropClass(c *class) {
	if c.node == flowgraph.NoNode {
		return
	}
	g.supply(c, 0)
	for l := range c.links.all() { // see readAhead
		g.fetched += int64(len(l.host.links))
	}
	for l := range c.links.all() {
		g.fetched += int64(l.host.links[0].at)
	}
	for l := range c.links.all() {
		g.leave(l)
	}
	c.links.clear()
	g.dropped = append(g.dropped, c.node)
	c.node = flowgraph.NoNode
	for t := range c.wait {
		c.wait[t] = flowgraph.NoArc
	}
}

// flush removes the nodes of dropped classes, then those of hosts that have no links any more.
func (g *graph) flush() {
	g.net.RemoveNodes(g.dropped)
	g.net.RemoveNodes(g.deserted)
	g.dropped, g.deserted = g.dropped[:0], g.deserted[:0]
}

// clear removes what is gone.
func (g *graph) clear() {
	for _, r := range g.retired {
		if r.class != nil {
			g.dropClass(r.class)
		} else {
			g.dropHost(r.host)
		}
	}
	g.flush()
	clear(g.retired)
	g.retired = g.retired[:0]
}

// link makes the host a candidate of the class at the price. The host has room for one task at least.
func (g *graph) link(c *class, h *host, unit cluster.Resources, price flowgraph.Cost) {
	if h.node == flowgraph.NoNode {
		h.node, h.unit, h.answers = g.net.AddNode(0), unit, cluster.MaxInstances
	}
	room := c.row.fit(h, cluster.MaxInstances)
	l := g.newLink()
	*l = link{class: c, host: h, arc: g.net.AddArc(c.node, h.node, 0, room, price), at: len(h.links)}
	c.links.add(l)
	h.links = append(h.links, l)
	g.mark(h)
}

// unlink takes a link out of the network. If it was the last one of its host, the node of that goes with the
// next flush.
func (g *graph) unlink(l *link) {
	g.net.RemoveArc(l.arc)
	l.class.links.remove(l)
	g.leave(l)
}

// leave takes the link from its host and gives it up for reuse. Nothing else of it may be left.
func (g *graph) leave(l *link) {
	h := l.host
	last := len(h.links) - 1
	h.links[l.at], h.links[last].at = h.links[last], l.at
	h.links[last], h.links = nil, h.links[:last]
	if last == 0 {
		g.deserted = append(g.deserted, h.node)
		h.node, h.crowd = flowgraph.NoNode, h.crowd[:0]
	}
	*l = link{}
	g.unused = append(g.unused, l)
}

// newLink returns a link to be filled in. It takes one that was given up if there is any.
func (g *graph) newLink() *link {
	last := len(g.unused) - 1
	if last < 0 {
		return new(link)
	}
	l := g.unused[last]
	g.unused = g.unused[:last]
	return l
}

// without returns the list without x, which it holds at most once.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (g *graph) dropHost(h *host) {
	for len(h.links) > 0 {
		g.unlink(h.links[len(h.links)-1])
	}
}

// touch remembers that the host changed.
func (g *graph) touch(h *host) {
	if h.node != flowgraph.NoNode {
		h.changed = true
		g.mark(h)
	}
}

// mark remembers that the arcs of the host, which has a node, are out of date.
func (g *graph) mark(h *host) {
	if !h.stale {
		h.stale = true
		g.stale = append(g.stale, h)
	}
}

// sync brings the arcs of all hosts that changed or were linked in line with the rows, which must be fresh.
func (g *graph) sync() {
	for some := range slices.Chunk(g.stale, ahead) {
		g.readAhead(some)
		for _, h := range some {
			if h.changed {
				g.renew(h)
			}
			h.stale, h.changed = false, false
			if h.node != flowgraph.NoNode {
				g.setCrowd(h)
			}
		}
	}
	g.stale = g.stale[:0]
	g.flush()
}

// readAhead reads what the arcs of the hosts come from; see the function readAhead.
func (g *graph) readAhead(hosts []*host) {
	g.reading = g.reading[:0]
	for _, h := range hosts {
		if h.node != flowgraph.NoNode {
			g.reading = append(g.reading, h)
		}
	}
	g.fetched = readAhead(g.reading)
	for _, h := range g.reading {
		g.fetched += int64(h.links[0].at)
	}
}

// renew brings the links of the host in line with the rows.
func (g *graph) renew(h *host) {
	g.renewing = append(g.renewing[:0], h.links...)
	for _, l := range g.renewing {
		price, ok := l.class.accepts(h.index)
		if !ok {
			g.unlink(l)
			continue
		}
		g.net.SetCost(l.arc, price)
		g.net.SetBounds(l.arc, 0, l.class.row.fit(h, cluster.MaxInstances))
	}
}

// smallest bounds how many tasks can start on a host together. It counts tasks that ask, in each dimension,
// for the least that any class asks for. Tasks that run on slack have room of their own.
type smallest struct {
	task, revocable [cluster.NumDimensions]int64
	tasks, revoked  bool // there are such classes
}

// smallestOf returns the bound for the classes that the flow places.
func smallestOf(classes []*class) (s smallest) {
	for _, c := range classes {
		if !c.flows() {
			continue
		}
		least, some := &s.task, &s.tasks
		if c.row.key.revocable {
			least, some = &s.revocable, &s.revoked
		}
		request := &c.row.task.Resources.Fixed
		for d := range least {
			if !*some || request[d] < least[d] {
				least[d] = request[d]
			}
		}
		*some = true
	}
	return s
}

// takes returns how many tasks can start together on the host at most. room is what the host has free.
func (s *smallest) takes(h *host, room *[cluster.NumDimensions]int64) (n int64) {
	if s.tasks {
		n = cluster.Resources{Fixed: s.task}.Count(cluster.Resources{Fixed: *room}, cluster.MaxInstances)
	}
	if s.revoked {
		n += cluster.Resources{Fixed: s.revocable}.Count(h.lend().Free(), cluster.MaxInstances)
	}
	return n
}

// bound marks the hosts whose bounds depend on the smallest requests, if those changed. Only classes that the
// flow places count. Complexity: the classes, and the hosts if the bound changed.
func (g *graph) bound(classes []*class, hosts []*host) {
	s := smallestOf(classes)
	if s == g.smallest {
		return
	}
	g.smallest = s
	for _, h := range hosts {
		if h != nil && h.node != flowgraph.NoNode {
			g.mark(h)
		}
	}
}

// setCrowd gives the host as many crowd segments as its links can fill, and room for one more task. The
// potentials then tell what a task without a link would pay. But there are no more than fit together. The
// potential of a full host then is what those who have it pay, and not all who wait ask for the few hosts
// that have room.
func (g *graph) setCrowd(h *host) {
	most := int64(1)
	for _, l := range h.links {
		most += g.net.Upper(l.arc)
	}
	most = min(most, g.smallest.takes(h, &h.room.Fixed), g.places(h))
	n := 0
	for from := int64(0); from < most; n++ {
		width := segment(from)
		if n == len(h.crowd) {
			price := g.crowd(h, h.unit, from)
			if from > 0 && price == costmodels.MaxPrice { // the model answers for no more
				h.answers = min(h.answers, from)
				if most = min(most, g.places(h)); from >= most {
					break
				}
				price = max(later, g.net.Cost(h.crowd[n-1]))
			}
			h.crowd = append(h.crowd, g.net.AddArc(h.node, g.sink, 0, width, price))
		}
		g.net.SetBounds(h.crowd[n], 0, min(width, most-from))
		from += width
	}
	for _, a := range h.crowd[n:] {
		g.net.RemoveArc(a)
	}
	h.crowd = h.crowd[:n]
}

// later is the least that tasks pay in the network for a place beyond the starts that the model answers for:
// a second of waiting. They start in a later round, at the price that they have then.
const later flowgraph.Cost = costmodels.Second

// places bounds how many tasks the network sends to the host. Where the model answers for a few starts only,
// the others have places all the same: up to as many as fit of the mean of the tasks that wait. Else all but
// a few would seem to have to wait, and those that may go anywhere would take hosts from those that may not.
func (g *graph) places(h *host) int64 {
	if h.answers == cluster.MaxInstances {
		return cluster.MaxInstances
	}
	return max(h.answers, g.round.Unit.Count(h.room, cluster.MaxInstances))
}

// crowd returns what the k-th start on the host pays for those before it, by the model.
func (g *graph) crowd(h *host, unit cluster.Resources, k int64) flowgraph.Cost {
	if k == 0 { // as for every model
		return 0
	}
	g.crowding = *g.round
	g.crowding.Unit = unit
	return clamp(g.model.Crowd(&g.crowding, h.rec, k))
}

// segment returns the width of the crowd segment that begins after that many tasks. The first are single
// ones, then each is a fifth of what lies before it. So the number of arcs grows with the logarithm of the
// room.
func segment(from int64) int64 { return max(1, from/5) }

// solve finds the optimum over the candidates.
func (g *graph) solve(budget solver.Budget, s *Stats) (solver.Result, bool) {
	res, err := g.solver.Solve(g.net, budget)
	g.last = res
	s.Solves++
	s.SolverWork += res.Work.Units
	switch {
	case err != nil:
		s.LimitedBy = err.Error()
	case res.Status != solver.Optimal:
		s.LimitedBy = res.Status.String()
	default:
		s.Objective = res.Objective
		return res, true
	}
	return res, false
}

// marginal returns what one more task at the host would pay beyond its start price, by the largest price at
// which the flow is still optimal. It is what the next place there costs, or the least that somebody pays for
// a place there. The potential of a full host may lie far below that, where nobody else has an arc to it. It
// would ask for arcs that gain nothing.
func (g *graph) marginal(h *host, res solver.Result) flowgraph.Cost {
	if len(h.crowd) == 0 { // not in the network, or linked just now
		return 0
	}
	for _, a := range h.crowd {
		if res.Flow(a) < g.net.Upper(a) {
			return min(g.net.Cost(a), g.held[h.node])
		}
	}
	return g.held[h.node]
}

// starts returns how many tasks start on the host by the flow.
func (g *graph) starts(h *host, res solver.Result) (flow int64) {
	for _, a := range h.crowd {
		flow += res.Flow(a)
	}
	return flow
}

// worth returns what the dearest placed or waiting unit of the class pays by the potentials; 0 if it has
// none. The potential of the class itself may lie higher, at what one more unit would pay. It would ask for
// hosts that gain nothing.
func (g *graph) worth(c *class, res solver.Result) flowgraph.Cost {
	var most flowgraph.Cost
	for a := range g.used(c, res) {
		most = max(most, a.Cost+res.Potential(g.sink)-res.Potential(a.Node))
	}
	return most
}

// askWaiting works out by the potentials what the dearest unit of each class pays. From that comes the least
// that those with a place on a host pay for it: a full arc alone says only that the place is worth its price.
func (g *graph) askWaiting(classes []*class, res solver.Result) {
	g.held = slices.Grow(g.held[:0], g.net.NodeBound())[:g.net.NodeBound()]
	for v := range g.held {
		g.held[v] = nowhere
	}
	for _, c := range classes {
		if c.node == flowgraph.NoNode {
			continue
		}
		c.dearest = g.worth(c, res)
		for a := range g.used(c, res) {
			g.held[a.Node] = min(g.held[a.Node], c.dearest-a.Cost)
		}
	}
}

// used yields the arcs on which units of the class leave its node.
func (g *graph) used(c *class, res solver.Result) iter.Seq[flowgraph.Ref] {
	return func(yield func(flowgraph.Ref) bool) {
		left := c.open() + c.moving
		for _, a := range g.net.Out(c.node) {
			if flow := res.Flow(a.Arc); flow > 0 {
				if left -= flow; !yield(a) || left <= 0 { // that is all it has
					return
				}
			}
		}
	}
}

package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/prefetch"
	"github.com/sluice-scheduler/sluice/solver"
)

// Stamina is how many nodes a search settles before it leaves the rest to the forest. Of 64 to 2,048 it was
// best on merged classes that wait. With a shorter one there are too many collectors; with a longer one the
// first searches take longer than the forest.
const Stamina = 512

// few is for how many units no forest is planted. With its unit a root loses all that hangs on it, thousands
// of nodes. That costs more than to search on to the end.
const few = 8

// step is what balance is at.
type step uint8

const (
	searchForward step = iota
	searchBackward
	growForward
	growBackward
	balanced
)

// balance sends every excess forward and fetches every lack, path by path, then from the collectors, where
// excess and lack have met. If the budget is spent and nothing changes, the next call goes on from there.
func (s *Solver) balance(budget solver.Budget) solver.Status {
	if !s.underWay {
		s.underWay = true
		s.step = searchForward
		s.wide = 0
		s.collectors.clear()
		s.placeAll()
	}
	for ; s.step < balanced; s.step++ {
		if status := s.take(s.step, budget); status != solver.Optimal {
			s.underWay = status == solver.BudgetSpent
			return status
		}
	}
	s.pending.clear()
	s.tell(1) // bounds hold when the next changes are taken in
	s.underWay = false
	return solver.Optimal
}

// take does one step of balance, or the rest of it.
func (s *Solver) take(step step, budget solver.Budget) solver.Status {
	switch step {
	case searchForward:
		return s.searchAlong(1, s.late, budget)
	case searchBackward:
		return s.searchAlong(-1, s.pending.list, budget)
	case growForward:
		return s.growAlong(1, budget)
	default:
		return s.growAlong(-1, budget)
	}
}

// interrupt ends what was under way, at the prices that there are.
func (s *Solver) interrupt() {
	s.fell()
	s.underWay = false
}

// searchAlong sends what nodes have too much (dir 1) or fetches what they lack
// (dir -1), path by path.
func (s *Solver) searchAlong(dir int64, nodes []int32, budget solver.Budget) solver.Status {
	s.tell(dir)
	s.needy = s.needy[:0]
	for _, v := range nodes {
		if s.excess[v]*dir > 0 && v != s.ground && !s.collectors.has(v) {
			s.needy = append(s.needy, v)
		}
	}
	for next := range blocks(s.needy) {
		s.askForNodes(next)
		if dir > 0 {
			s.askForSteps(next)
		}
		for _, v := range next {
			for s.excess[v]*dir > 0 && !s.collectors.has(v) {
				if dir > 0 {
					s.courts.forget()
				}
				if dir > 0 && !s.forward(v) || dir < 0 && !s.backward(v) {
					return solver.Infeasible
				}
				if budget.Spent(s.work.Units) {
					return solver.BudgetSpent
				}
			}
		}
	}
	return solver.Optimal
}

// askForNodes asks for what searches need of the nodes where they begin.
func (s *Solver) askForNodes(nodes []int32) {
	prefetch.Each(s.nodes, nodes, &nodes[0])
	flowgraph.AskForNodes(s.net, nodes, &nodes[0])
	for _, v := range nodes {
		if s.kinds[v] < isCore {
			continue
		}
		x := &s.nodes[v]
		if x.entryArc != none {
			prefetch.Line(&s.arcs[x.entryArc])
		}
		if len(x.in) > 0 {
			prefetch.Line(&x.in[0])
		}
	}
}

// growAlong sends what collectors have too much, or fetches what they lack. It does so by a forest, or path
// by path if that is little.
func (s *Solver) growAlong(dir int64, budget solver.Budget) solver.Status {
	if !s.forest.growing {
		var units int64
		for _, v := range s.pending.list {
			if v != s.ground {
				units += max(0, s.excess[v]*dir)
			}
		}
		if units == 0 {
			return solver.Optimal
		}
		if units <= s.few {
			s.collectors.clear()
			return s.searchAlong(dir, s.pending.list, budget)
		}
		s.tell(dir)
		s.plantForest(dir)
	}
	return s.growOn(budget)
}

// Wide returns how many searches went through more than a quarter of the nodes that are no sources, and
// through thousands. It counts those of the last call of Solve, and of calls before it that spent their
// budgets on the same changes. Many tell that a whole price level moves.
func (s *Solver) Wide() int { return s.wide }

// ended notes how far a search went.
func (s *Solver) ended() {
	if k := len(s.settled); 4*k > s.cores && k > 2048 {
		s.wide++
	}
}

// tires tells whether a search has gone far enough. With hubs it must go on: the forest knows no short cut
// through them, and bounds leave them out. A search made in place of a forest must go on, too.
func (s *Solver) tires() bool {
	return len(s.settled) > s.stamina && len(s.hubs) == 0 && s.step <= searchBackward
}

// Tire sets another stamina than [Stamina]: a short one where nearly all units have to pass the same nodes.
func (s *Solver) Tire(stamina int) { s.stamina = stamina }

// collect ends a search at the settled node with most arcs in, which from then on
// keeps what comes by.
func (s *Solver) collect(dir int64) target {
	best, degree := none, -1
	for _, u := range s.settled {
		if d := len(s.net.In(flowgraph.NodeID(u))); d > degree {
			best, degree = u, d
		}
	}
	s.collectors.add(best)
	s.pending.add(best)
	return target{cost: s.nodes[best].label + dir*s.price[best], node: best, over: none, through: none, found: true}
}

// takes is how much a path may bring to v, where searches end.
func (s *Solver) takes(v int32, dir int64) int64 {
	if s.collectors.has(v) {
		return far
	}
	return -s.excess[v] * dir
}

// mostMovers bounds for how many sources in the way askForSteps asks ahead. Where places hold hundreds of
// sources, hardly one of them is looked at.
const mostMovers = 1024

// askForSteps asks for what the first steps of searches forward from sources need: the cheapest place of
// each, who is there, and where those of them could go that are near enough to the price.
func (s *Solver) askForSteps(nodes []int32) {
	prefetch.Each(s.payers, nodes, &nodes[0])
	for _, v := range nodes {
		if s.kinds[v] == isSource {
			s.askForOut(v)
		}
	}
	heads, reach := s.tails[:0], s.reaches[:0]
	for _, v := range nodes {
		if s.kinds[v] != isSource {
			continue
		}
		best, least, wait := flowgraph.Ref{Node: flowgraph.NoNode}, far, far
		for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
			value := int64(ref.Cost) + s.price[ref.Node]
			if s.passable.has(int32(ref.Node)) {
				wait = min(wait, value)
			} else if value < least {
				best, least = ref, value
			}
		}
		if least < wait {
			heads = append(heads, int32(best.Node))
			reach = append(reach, wait+foresight*s.rise-int64(best.Cost))
		}
	}
	s.tails, s.reaches = heads, reach
	if len(heads) == 0 {
		return
	}
	prefetch.Each(s.nodes, heads, &heads[0])
	asked := 0
	for _, w := range heads {
		x := &s.nodes[w]
		for i := 0; i < len(x.held) && asked < mostMovers; i += 2 {
			prefetch.Line(&x.held[i])
			asked++
		}
		if len(x.in) > 0 {
			prefetch.Line(&x.in[0])
		}
	}
	movers := s.others[:0]
	for i, w := range heads {
		held := s.nodes[w].held
		if len(movers) >= mostMovers {
			break
		}
		for _, b := range s.hubs {
			if len(held) > 0 && b.moves[w].stale {
				prefetch.Each(b.ways, held, &held[0].from)
			}
		}
		for k := range held {
			if held[k].rest-held[k].cost < reach[i] {
				movers = append(movers, held[k].from)
			}
		}
	}
	s.others = movers
	if len(movers) == 0 {
		return
	}
	prefetch.Each(s.payers, movers, &movers[0])
	flowgraph.AskForNodes(s.net, movers, &movers[0])
	for _, v := range movers {
		s.askForOut(v)
	}
}

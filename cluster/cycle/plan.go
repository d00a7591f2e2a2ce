package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// maxRounds bounds how often what did not fit is solved again; what is left then is inserted one by one.
const maxRounds = 5

// plan places what can be placed.
func (p *Planner) plan(in Input, out *Output, lap *laps) {
	p.price(in.Now)
	lap.end(&out.Stats, Price)
	for range maxRounds {
		out.Stats.Rounds++
		res, ok := p.optimize(in.Budget, &out.Stats, lap)
		if !ok {
			break
		}
		cut := p.commit(out, res)
		lap.end(&out.Stats, Fit)
		if !cut {
			break
		}
	}
	p.insert(out)
	lap.end(&out.Stats, Fit)
}

// price sets the waiting prices and the mean request of what waits.
func (p *Planner) price(now cluster.Time) {
	var sum cluster.Resources
	var n int64
	for _, c := range p.order {
		sum = sum.Add(c.seen.Request.Times(c.waiting()))
		n += c.waiting()
	}
	p.round.Unit = divide(sum, n)
	for _, c := range p.order {
		c.age(now)
		c.price = clamp(p.model.Wait(&p.round, &c.seen))
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

// optimize brings the network up to date, solves it, and adds candidates until the flow is optimal for the complete
// network: the one in which every class has an arc to every host that has room for it.
func (p *Planner) optimize(budget solver.Budget, s *Stats, lap *laps) (solver.Result, bool) {
	for _, c := range p.order {
		p.rows.refresh(c.row)
		p.graph.setClass(c)
	}
	p.graph.sync()
	for _, c := range p.order {
		if len(c.links) == 0 {
			p.seed(c)
		}
	}
	for {
		p.graph.sync()
		lap.end(s, Graph)
		res, ok := p.graph.solve(budget, s)
		lap.end(s, Solve)
		if !ok {
			return res, false
		}
		added := false
		for _, c := range p.order {
			added = p.priceOut(c, res) || added
		}
		if !added {
			lap.end(s, Graph)
			return res, true
		}
	}
}

// seed gives a class its first candidates: the cheapest hosts, at least as many as have room for all that waits.
func (p *Planner) seed(c *class) {
	room := int64(0)
	for i, s := range c.row.open {
		if i >= candidates && room >= c.waiting() {
			return
		}
		h := p.hosts.byIndex[s.index()]
		room += c.row.request.Count(h.rec.Free(), c.waiting())
		p.graph.link(c, h, p.round.Unit)
	}
}

// priceOut adds hosts whose missing arc has a negative reduced cost, cheapest first, at most as many as the class has
// already, and reports whether there were any. Since no task pays less than nothing for the crowd, hosts that start at
// the class's marginal price or above need no look.
func (p *Planner) priceOut(c *class, res solver.Result) bool {
	limit := max(candidates, len(c.links))
	worth := res.Potential(p.graph.sink) - res.Potential(c.node) // what the dearest placed or waiting unit pays
	added := 0
	for _, s := range c.row.open {
		if s.price() >= worth || added == limit {
			break
		}
		if c.to[s.index()] != nil {
			continue
		}
		h := p.hosts.byIndex[s.index()]
		if s.price()+p.graph.marginal(h, p.round.Unit, res) < worth {
			p.graph.link(c, h, p.round.Unit)
			added++
		}
	}
	return added > 0
}

// start is a number of tasks of one class that the flow sends to a host.
type start struct {
	link *link
	n    int64
}

// commit places what the flow sends to each host as far as it fits there exactly, dearest waiting first, and reports
// whether something had to be cut that fits elsewhere.
func (p *Planner) commit(out *Output, res solver.Result) (cut bool) {
	var touched []*host
	starts := map[*host][]start{}
	for _, c := range p.order {
		for _, l := range c.links {
			if n := res.Flow(l.arc); n > 0 {
				if starts[l.host] == nil {
					touched = append(touched, l.host)
				}
				starts[l.host] = append(starts[l.host], start{l, n})
			}
		}
	}
	for _, h := range touched {
		group := starts[h]
		slices.SortStableFunc(group, func(a, b start) int { return cmp.Compare(b.link.class.price, a.link.class.price) })
		for _, s := range group {
			c := s.link.class
			n := c.row.request.Count(h.rec.Free(), s.n)
			p.place(out, c, h, n, p.graph.net.Cost(s.link.arc))
			cut = cut || n < s.n
		}
	}
	return cut && p.someFits()
}

// someFits reports whether a task waits that has room somewhere.
func (p *Planner) someFits() bool {
	for _, c := range p.order {
		if c.queue.Len() == 0 {
			continue
		}
		if p.rows.refresh(c.row); len(c.row.open) > 0 {
			return true
		}
	}
	return false
}

// place takes n tasks from the class and puts them on the host.
func (p *Planner) place(out *Output, c *class, h *host, n int64, price flowgraph.Cost) {
	if n == 0 {
		return
	}
	for range n {
		w, _ := c.queue.PopMin()
		delete(p.waiting, w.task)
		out.Placements = append(out.Placements, Placement{Task: w.task, Run: w.run, Host: h.id, Price: price})
		p.planned.Tasks = append(p.planned.Tasks, w.task)
	}
	p.planned.Hosts = append(p.planned.Hosts, h.id)
	rec := *h.rec
	rec.Allocated = rec.Allocated.Add(c.row.request.Times(n))
	p.hosts.set(h, &rec)
}

// insert places waiting tasks where they fit, without a flow: the class that pays most for waiting first, on its
// cheapest host, a fair part of what waits at a time.
func (p *Planner) insert(out *Output) {
	order := slices.Clone(p.order)
	slices.SortStableFunc(order, func(a, b *class) int { return cmp.Compare(b.price, a.price) })
	for _, c := range order {
		for c.queue.Len() > 0 {
			p.rows.refresh(c.row)
			if len(c.row.open) == 0 {
				break
			}
			best := c.row.open[0]
			h := p.hosts.byIndex[best.index()]
			share := max(1, c.waiting()/int64(4*len(c.row.open)))
			n := c.row.request.Count(h.rec.Free(), min(share, c.waiting()))
			p.place(out, c, h, n, best.price())
			out.Stats.Inserted += int(n)
		}
	}
}

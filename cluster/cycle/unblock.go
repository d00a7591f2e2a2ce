package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// unblockers returns what would get the task placed in the next cycle that has so many of its class before it. They are
// enough whatever the order is in which others take what they open.
func (p *Planner) unblockers(c *class, rank int, refused bool, blocked *Blocked) []Unblocker {
	var all []Unblocker
	gated := refused && ownLimit(c.why.Rule)
	crowded := refused && !gated // by the capacity of the cluster, of which all pools have a part
	switch {
	case gated:
		all = append(all, Unblocker{Kind: LiftLimit, Rule: string(c.why.Rule), Pool: c.why.Pool, Dimension: c.why.Dimension})
	case refused:
		all = p.raise(c)
	}
	if p.rows.refresh(c.row); c.row.anyOpen() && !crowded {
		if !refused {
			all = append(all, Unblocker{Kind: Patience})
		}
		return all
	}
	if blocked == nil {
		other := Unblocker{Kind: OtherHost, Room: c.row.task.Resources}
		if crowded { // hosts are open now, but have too little for all who would be let in
			other.Room, other.Ahead = p.contenders(c, rank, nil, true)
		}
		return append(all, other)
	}
	h := p.hosts.byID[blocked.Host]
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
	if c.row.key.revocable {
		return append(all, Unblocker{Kind: MoreSlack, Host: h.id, Room: c.row.task.Resources.Sub(h.rec.Spare()).Positive()})
	}
	need, ahead := p.contenders(c, rank, h, crowded)
	if more := need.Sub(h.room).Positive(); !more.IsZero() || crowded {
		all = append(all, Unblocker{Kind: MoreRoom, Host: h.id, Room: more, Ahead: ahead})
	}
	return all
}

// ownLimit reports whether the rule is one that no more capacity lifts.
func ownLimit(r pool.Rule) bool {
	switch r {
	case pool.RuleMaxRunning, pool.RuleController, pool.RuleRunningJobs, pool.RuleRunningUser, pool.RuleRunningGroup:
		return true
	default:
		return false
	}
}

// raise returns by how much the limits of the pools have to be raised, or the reservation, to let in all that wait there.
func (p *Planner) raise(c *class) []Unblocker {
	var all []Unblocker
	for path := c.key.group.pool; path != ""; path = path.Parent() {
		at := slices.IndexFunc(p.status, func(s pool.Status) bool { return s.Path == path })
		if at < 0 {
			continue
		}
		for _, d := range p.status[at].Dimensions {
			binds, bound := "", int64(cluster.NoLimit)
			switch {
			case c.why.Rule == pool.RuleReservation && c.why.Pool == path && c.why.Dimension == d.Dimension:
				binds, bound = string(pool.RuleReservation), d.Reservation
			case d.Limit != cluster.NoLimit && amountOf(c.row.task.Resources, d.Dimension) > 0:
				binds, bound = string(pool.RuleLimit), d.Limit
			}
			if more := d.Allocation + d.Demand - bound; binds != "" && more > 0 {
				all = append(all, Unblocker{Kind: RaisePool, Rule: binds, Pool: path, Dimension: d.Dimension, Amount: more})
			}
		}
	}
	return all
}

func amountOf(r cluster.Resources, dimension string) int64 {
	for d := range cluster.NumDimensions {
		if d.String() == dimension {
			return r.Fixed[d]
		}
	}
	return r.Amount(dimension)
}

// contenders returns what the task, those of its class before it and all others that could go to the host ask for together,
// and how many the others are; with all, those too that could not, since they have a claim on what comes to the cluster.
func (p *Planner) contenders(own *class, rank int, h *host, all bool) (need cluster.Resources, ahead int) {
	for _, c := range p.order {
		n := int64(c.queue.Len())
		switch {
		case c == own && !own.key.group.gang:
			n = int64(rank) + 1
		case c == own:
		case !all && !c.row.mayEver(h):
			continue
		}
		need = need.Add(c.row.task.Resources.Times(n))
		ahead += int(n)
	}
	return need, ahead - 1
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

// unblockers returns what would let the rules hold on the host that do not.
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

// needs reports whether the leaf is a part of a rule that does not hold where it was last evaluated.
func (r *rule) needs(x *leaf) bool {
	for _, c := range r.hard {
		if x.of(c, r) && c.Evaluate(r.rec, r.ask) != cluster.True {
			return true
		}
	}
	return false
}

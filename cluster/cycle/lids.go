package cycle

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lid bounds how many more of the tasks that a leaf counts may come to a domain, or how many may be asked to
// leave it. This plan holds room there for a task whose rule has to hold when it comes. The next plan counts
// that task as one that has room held.
type lid struct {
	place place
	leaf  *leaf
}

// cover puts lids on the domains of the host for a task with the rule that gets room held there. There is one
// for each leaf that holds, and may not hold any more when others come or leave.
func (l *labels) cover(r *rule, h *host) (lids []lid) {
	if r == nil {
		return nil
	}
	for _, x := range r.order {
		if x.hard && x.holds(h.rec, 0) {
			domain, _ := h.rec.Domain(x.tally.domain)
			lids = append(lids, lid{place{x.tally, domain}, x})
		}
	}
	for _, at := range lids {
		l.lids[at.place] = append(l.lids[at.place], at.leaf)
	}
	return lids
}

// uncover takes lids off again.
func (l *labels) uncover(lids []lid) {
	for _, at := range lids {
		if left := without(l.lids[at.place], at.leaf); len(left) > 0 {
			l.lids[at.place] = left
		} else {
			delete(l.lids, at.place)
		}
	}
}

// below returns how many more tasks of the set may come to the host below the lids on its domains.
// Complexity: the tallies of the set.
func (l *labels) below(s *labelSet, h *host) int64 {
	most := int64(math.MaxInt64)
	for _, t := range s.tallies {
		domain, ok := h.rec.Domain(t.domain)
		if !ok {
			continue
		}
		for _, x := range l.lids[place{t, domain}] {
			if x.breaks() {
				most = min(most, x.bears(domain))
			}
		}
	}
	return max(0, most)
}

// needed lists the leaves of lids that ask for the units to be where they are, each with one of these units.
// Complexity: the tallies of the units.
func (l *labels) needed(units []*unit) iter.Seq2[*leaf, *unit] {
	return func(yield func(*leaf, *unit) bool) {
		if len(l.lids) == 0 {
			return
		}
		seen := map[place]bool{}
		for _, u := range units {
			for _, t := range u.set.tallies {
				domain, _ := u.host.rec.Domain(t.domain)
				at := place{t, domain}
				for _, x := range l.lids[at] {
					if !seen[at] && x.compare == cluster.Greater && !yield(x, u) {
						return
					}
				}
				seen[at] = true
			}
		}
	}
}

// keepCompany puts lids for tasks that have to be near others that are there. These tasks have room held on
// hosts that others have been asked to leave for them. The lids are on the domains of these hosts.
func (p *Planner) keepCompany() {
	var held []*unit
	for _, u := range p.held { // sorted below
		if h := p.hosts.byID[u.hold.Host]; u.expires() && !u.wishes.none() && h != nil && slices.ContainsFunc(h.units, (*unit).leaves) {
			held = append(held, u)
		}
	}
	slices.SortFunc(held, func(a, b *unit) int { return cmp.Compare(a.task, b.task) })
	for _, u := range held {
		h, r := p.hosts.byID[u.hold.Host], p.rows.get(u.row, u.spec, u.wishes)
		for _, x := range r.leaves() {
			if domain, ok := h.rec.Domain(x.tally.domain); ok && x.hard && x.compare == cluster.Greater {
				at := place{x.tally, domain}
				p.labels.lids[at] = append(p.labels.lids[at], x)
			}
		}
		p.rows.release(r)
	}
}

// breaks reports whether the leaf may not hold any more when tasks come.
func (x *leaf) breaks() bool { return x.compare != cluster.Greater || x.balance != nil }

// bears returns how many more may come to the domain before the leaf does not hold any more, for a task of
// the row that has room held there. The leaf breaks.
func (x *leaf) bears(domain string) int64 {
	n := x.tally.in[domain].most
	if x.self {
		n--
	}
	switch {
	case x.balance != nil:
		return x.number - 1 - n + x.balance.least
	case x.compare == cluster.Less:
		return x.number - 1 - n
	default:
		return x.number - n
	}
}

// below returns how many of n tasks of the class may start on the host, after before others of it. Lids may
// keep them out, and so may tasks of their own that an earlier pass of the plan asks to leave the host.
func (p *Planner) below(c *class, h *host, before, n int64) int64 {
	if len(p.labels.lids) == 0 && !h.decided || n <= 0 {
		return n
	}
	at, end := int64(0), before+n
	c.queue.Scan(func(w waiter) bool {
		if at >= before && (p.labels.below(w.set, h) <= at || h.losesTo(w.task.Job(), c.group)) {
			end, p.barred = at, true
		}
		at++
		return at < end
	})
	return end - before
}

package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Of a host, revocable tasks see what its other tasks were measured to leave unused. Others may still be
// placed on what revocable tasks hold of it. It may shrink below what they hold while nothing is free either.
// Then some of them leave at once. Nobody is placed for it, and neither hysteresis nor the bound on
// displacements saves them.

// lend returns the host as the tasks of the row see it.
func (r *row) lend(h *host) *cluster.Host {
	if r.key.revocable {
		return h.lend()
	}
	return h.rec
}

// lend returns the host as revocable tasks see it.
func (h *host) lend() *cluster.Host {
	if h.lending == nil {
		h.lending = h.rec.Lending()
		if h.recalls {
			h.lending.Allocated = h.lending.Capacity
		}
	}
	return h.lending
}

// bind returns the host with one more task of the row on it.
func (r *row) bind(rec *cluster.Host, on cluster.Devices) *cluster.Host {
	if r.key.revocable {
		return r.task.Lend(rec, on)
	}
	return r.task.Bind(rec, on)
}

// slack returns what all hosts have for revocable tasks together, as capacity does. Some may be lent beyond
// the slack of a host, or on one that takes no work. That takes nothing from the slack of others. Complexity:
// hosts, when one of them changed.
func (t *hosts) slack() cluster.Resources {
	t.sum()
	return t.lendable
}

// lendsTooMuch reports whether revocable tasks hold more than the slack of a host that takes work.
// Complexity: as slack.
func (t *hosts) lendsTooMuch() bool {
	t.sum()
	return t.overlent
}

// revoke asks revocable tasks to leave hosts that they and the others exceed, by what these used at the last
// measurement. It asks those that lose least, and none that could stay. A gang leaves as a whole. While all
// are kept this waits.
func (p *Planner) revoke(keepAll bool, out *Output) {
	slices.SortFunc(p.overdrawn, func(a, b *host) int { return cmp.Compare(a.index, b.index) })
	p.overdrawn = slices.Compact(p.overdrawn)
	if keepAll {
		return
	}
	d := displacer{p: p, now: p.now}
	for _, h := range p.overdrawn {
		if h.rec != nil {
			d.revokeOn(h)
		}
	}
	p.overdrawn = p.overdrawn[:0]
	order := slices.Clone(d.hit)
	slices.SortStableFunc(order, func(a, b *unit) int { return cmp.Compare(b.price, a.price) })
	for _, u := range order {
		if units := p.together(u); u.victim && !p.fills(units) {
			for _, v := range units {
				d.spare(v)
			}
		}
	}
	for _, u := range d.hit {
		if !u.written {
			out.Displacements = append(out.Displacements, p.recall(p.together(u), out))
		}
	}
}

func (d *displacer) revokeOn(h *host) {
	candidates := slices.DeleteFunc(slices.Clone(h.units), func(u *unit) bool { return !u.job.Revocable || u.leaves() })
	for _, u := range candidates {
		u.price = d.loss(u)
	}
	slices.SortStableFunc(candidates, func(a, b *unit) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.task, b.task)) })
	for _, u := range candidates {
		if !h.overdrawn() {
			return
		}
		for _, v := range d.p.together(u) {
			if !v.leaves() {
				v.price = d.loss(v)
				d.strike(v)
			}
		}
	}
}

// fills reports whether one of the hosts would be overdrawn if the units stayed.
func (p *Planner) fills(units []*unit) bool {
	stay := func(yes bool) {
		for _, v := range units {
			v.victim = !yes
		}
	}
	stay(true)
	defer stay(false)
	return slices.ContainsFunc(units, func(v *unit) bool { return v.host.overdrawn() })
}

// recall has the units leave for nobody. Room is made for somebody on their hosts in the next cycle only:
// else those who leave for him might have let one of these units stay.
func (p *Planner) recall(units []*unit, out *Output) Displacement {
	step := Displacement{}
	for _, v := range units {
		h := v.host
		v.written, h.decided = true, true
		p.hosts.recall(h, true)
		step.Victims = append(step.Victims, Victim{Task: v.task, Run: v.run, Preemption: cluster.Preemption{Price: int64(v.price)}})
		p.planned.Tasks = append(p.planned.Tasks, v.task)
	}
	out.Stats.Preemptions += len(units)
	out.Stats.Revoked += len(units)
	return step
}

// overdrawn reports whether the host has less than nothing left in a dimension in which revocable tasks hold
// more than the slack. Those of them that were asked to leave count as gone. Others who leave still use what
// is theirs.
func (h *host) overdrawn() bool {
	s := space{amounts: h.rec.Capacity.Sub(h.rec.Allocated), over: h.rec.Lent.Sub(h.rec.Lendable())}
	for _, u := range h.units {
		if u.job.Revocable && u.leaves() {
			s.add(u, 1)
		}
	}
	left := s.left()
	for d, v := range s.over.Fixed {
		if v > 0 && left.Fixed[d] < 0 {
			return true
		}
	}
	return slices.ContainsFunc(s.over.Named, func(a cluster.Amount) bool { return a.Value > 0 && left.Amount(a.Name) < 0 })
}

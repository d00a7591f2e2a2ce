package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// core is the bound members of a gang's core, in the order in which they were bound. Gangs have up to a
// hundred thousand members.
type core struct {
	units []*unit // nil where one was
	gone  int     // so many are nil
	stays []*unit // who does not vacate a host; nil if not asked for since a member came or went, as one does to change its state
	// All that stay, as what might be stopped, to that ledger; ledger is nil as stays is.
	donor  pool.Donor
	ledger *pool.Ledger
}

func (c *core) add(u *unit) {
	u.seat, c.stays, c.ledger = int32(len(c.units)), nil, nil
	c.units = append(c.units, u)
}

func (c *core) drop(u *unit) {
	c.units[u.seat], c.stays, c.ledger = nil, nil, nil
	c.gone++
}

// all returns the members. Complexity: constant, if none has gone since.
func (c *core) all() []*unit {
	if c == nil {
		return nil
	}
	if c.gone > 0 {
		c.units, c.gone = slices.DeleteFunc(c.units, func(u *unit) bool { return u == nil }), 0
		for i, u := range c.units {
			u.seat = int32(i)
		}
	}
	return c.units
}

// staying returns those that do not vacate a host.
func (c *core) staying() []*unit {
	if c == nil {
		return nil
	}
	if c.stays == nil {
		c.stays = c.all()
		if vacates := func(u *unit) bool { return u.state.Vacating() }; slices.ContainsFunc(c.stays, vacates) {
			c.stays = slices.DeleteFunc(slices.Clone(c.stays), vacates)
		}
	}
	return c.stays
}

// asDonor returns those that stay as what might be stopped. Complexity: constant, after the first time in a
// plan.
func (c *core) asDonor(l *pool.Ledger) *pool.Donor {
	if c.ledger != l {
		c.donor, c.ledger = l.Donor(sumOf(c.staying())), l
	}
	return &c.donor
}

// seatIn counts the unit as a bound member of its gang's core.
func (p *Planner) seatIn(u *unit) {
	c := p.cores[u.group.key.job]
	if c == nil {
		c = &core{}
		p.cores[u.group.key.job] = c
	}
	c.add(u)
}

// unseat is the reverse of seatIn.
func (p *Planner) unseat(u *unit) {
	c := p.cores[u.group.key.job]
	if c.drop(u); c.gone == len(c.units) {
		delete(p.cores, u.group.key.job)
	}
}

// together returns the units that leave only with this one: itself, or the core of its gang, without those
// that leave already. The unit does not leave already. Complexity: constant, save for the first of a core
// that has changed.
func (p *Planner) together(u *unit) []*unit {
	if !u.group.key.gang {
		return []*unit{u}
	}
	return p.cores[u.group.key.job].staying()
}

// bundle is units that leave together: one, or the core of a gang, of which a part is on the host that is
// looked at.
type bundle struct {
	units []*unit
	here  []*unit   // those of units that are on the host that is looked at
	sum   pool.Unit // all of them, as the pools' accounts see them
	alike bool      // they are of one group
	price flowgraph.Cost
}

// bundleOf returns what leaves with the unit. None of it moves.
func (d *displacer) bundleOf(u *unit) bundle {
	b := bundle{units: d.p.together(u), alike: true}
	b.sum = sumOf(b.units)
	for _, v := range b.units {
		v.move, v.price = nil, d.loss(v)
		b.price += v.price
		b.alike = b.alike && v.group == u.group
	}
	return b
}

// alone returns the bundle of one unit that is to leave its host for another one.
func alone(u *unit) bundle {
	here := []*unit{u}
	return bundle{units: here, here: here, sum: u.group.unit(1), alike: true, price: u.price}
}

// on returns the bundle as the host sees it.
func (b bundle) on(h *host) bundle {
	u := b.units[0]
	switch {
	case len(b.units) > 1:
		b.here = nil
		for _, v := range h.units {
			if u.staysWith(v) {
				b.here = append(b.here, v)
			}
		}
	case u.host == h:
		b.here = b.units
	}
	return b
}

// staysWith reports whether the other unit is of the core of this one's gang and does not vacate its host.
func (u *unit) staysWith(other *unit) bool {
	return other.group.key.gang && other.task.Job() == u.task.Job() && !other.state.Vacating()
}

// gangBundle is the bundle of a gang of several. It is the same from wherever it is seen, and in a whole pass
// of displacements.
type gangBundle struct {
	bundle
	may   bool // all of them may be asked to leave now
	rests bool // one may not yet
}

// gangOf returns the bundle of the unit's gang, nil where that would be the unit alone. Complexity: constant,
// once it is known.
func (d *displacer) gangOf(u *unit) *gangBundle {
	if !u.group.key.gang || len(d.p.together(u)) == 1 {
		return nil
	}
	g := d.gangs[u.task.Job()]
	if g != nil {
		return g
	}
	if d.gangs == nil {
		d.gangs = map[cluster.JobUID]*gangBundle{}
	}
	g = &gangBundle{bundle: d.bundleOf(u), may: true}
	before := d.rests
	d.rests = false
	for _, v := range g.units {
		g.may = g.may && d.mayGo(v) && (d.later || !v.host.decided) && !v.host.makesWay(v)
	}
	g.rests, d.rests = d.rests, before
	d.gangs[u.task.Job()] = g
	return g
}

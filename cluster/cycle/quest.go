package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// quest is whom a class might have leave, on whatever host and for whatever it lacks there, as long as nothing else is planned.
// Few classes find anybody, and those who look in vain look at every host.
type quest struct {
	class   *class
	moves   bool
	touched int // as of the displacer
	number  int // of the planner's, one for each
	patient bool
	to      pool.Beneficiary // which lacks all that it asks for
}

// seek returns the quest of the class, anew if something has been planned since.
func (d *displacer) seek(c *class, moves bool) *quest {
	if q := &d.quest; q.class == c && q.moves == moves && q.touched == d.touched {
		return q
	}
	d.p.quests++
	unit := c.group.unit(1)
	d.quest = quest{
		class: c, moves: moves, touched: d.touched, number: d.p.quests, patient: d.patient(c),
		to: d.p.ledger.Beneficiary(unit, unit.Request.Lacking(cluster.Resources{})),
	}
	return &d.quest
}

// stirs reports whether anybody leaves the host, or might for the quest: otherwise what is full stays full.
func (d *displacer) stirs(q *quest, h *host) bool {
	return slices.ContainsFunc(h.units, func(u *unit) bool { return u.leaves() || d.mightGo(q, u.group) })
}

// mightGo reports whether a unit of the group might be asked to leave: what lacks in fewer dimensions may not have anybody leave
// whom it may not have leave if it lacks in all. Complexity: constant, save for the first time in a quest.
func (d *displacer) mightGo(q *quest, g *group) bool {
	if g.quest != q.number {
		g.quest, g.mightGo = q.number, d.mayGive(q, g)
	}
	return g.mightGo
}

func (d *displacer) mayGive(q *quest, g *group) bool {
	switch {
	case g == q.class.group || !g.displaceable() || q.patient && g.key.pool != q.to.Pool:
		return false
	case g.key.gang:
		return true // it gives more than one of it
	}
	from := d.p.ledger.Donor(g.unit(1))
	return q.to.MayStop(&from) || q.moves && !g.key.revocable && d.someRoom(g)
}

// someRoom reports whether a host has the room in the fixed dimensions that one of the group takes. Complexity: the hosts, once for
// a group as long as nothing else is planned.
func (d *displacer) someRoom(g *group) bool {
	if d.measured != d.touched || d.measure == 0 {
		d.p.quests++
		d.measured, d.measure = d.touched, d.p.quests
	}
	if g.measure != d.measure {
		needs := needOf(&g.key.fixed)
		g.measure = d.measure
		g.someRoom = slices.ContainsFunc(d.p.hosts.rooms, func(room [cluster.NumDimensions]int64) bool { return needs.fits(&room) })
	}
	return g.someRoom
}

// displaceable reports whether those of the group that are on hosts may be asked to leave at all.
func (g *group) displaceable() bool {
	return (g.key.preemptible || g.key.revocable) && g.key.jobType != cluster.Stateful && g.key.jobType != cluster.Daemon
}

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
	patient bool
	to      pool.Beneficiary // which lacks all that it asks for
	outlook *outlook
	number  int // of the outlook, which has another one once it is somebody else's
}

// seek returns the quest of the class, anew if something has been planned since. Complexity: the groups then.
func (d *displacer) seek(c *class, moves bool) *quest {
	if q := &d.quest; q.class == c && q.moves == moves && q.touched == d.touched && q.number == q.outlook.number {
		return q
	}
	unit := c.group.unit(1)
	d.quest = quest{
		class: c, moves: moves, touched: d.touched, patient: d.patient(c),
		to: d.p.ledger.Beneficiary(unit, unit.Request.Lacking(cluster.Resources{})),
	}
	d.quest.outlook = d.outlook(&d.quest)
	d.quest.number = d.quest.outlook.number
	return &d.quest
}

// giving is how units of a group might leave.
type giving uint8

const (
	staysOn giving = iota // not at all
	goesOn                // for another host, if one has room for them
	givesUp               // also if none has
)

// givings returns how the units of each group might leave for the quest: what lacks in fewer dimensions may not have anybody leave whom
// it may not have leave if it lacks in all. The class's own group is no exception here.
func (d *displacer) givings(q *quest) []giving {
	d.giving = d.giving[:0]
	for i, g := range d.p.groupOrder {
		g.index = i
		d.giving = append(d.giving, d.mayGive(q, g))
	}
	return d.giving
}

func (d *displacer) mayGive(q *quest, g *group) giving {
	switch {
	case g.running == 0 || !g.displaceable() || q.patient && g.key.pool != q.to.Pool:
		return staysOn
	case g.key.gang:
		return givesUp // it gives more than one of it
	}
	switch from := d.p.ledger.Donor(g.unit(1)); {
	case q.to.MayStop(&from):
		return givesUp
	case q.moves && !g.key.revocable && d.someRoom(g):
		return goesOn
	}
	return staysOn
}

// someRoom reports whether a host has the room in the fixed dimensions that one of the group takes. Complexity: the hosts, once for
// a group as long as nothing else is planned, where the one that had room before has not, and no dimension by itself rules all out.
func (d *displacer) someRoom(g *group) bool {
	now := d.p.instant()
	if g.measured == now {
		return g.someRoom
	}
	rooms, needs := d.p.hosts.rooms, needOf(&g.key.fixed)
	if d.p.widest.at != now {
		d.p.widest = widest{at: now}
		for i := range rooms {
			for dim, v := range rooms[i] {
				d.p.widest.each[dim] = max(d.p.widest.each[dim], v)
			}
		}
	}
	g.measured, g.someRoom = now, needs.fits(&d.p.widest.each)
	if g.someRoom && (g.roomy >= len(rooms) || !needs.fits(&rooms[g.roomy])) {
		i := slices.IndexFunc(rooms, func(room [cluster.NumDimensions]int64) bool { return needs.fits(&room) })
		g.roomy, g.someRoom = max(0, i), i >= 0
	}
	return g.someRoom
}

// widest is the most room in each dimension that any host has.
type widest struct {
	at   instant
	each [cluster.NumDimensions]int64
}

// displaceable reports whether those of the group that are on hosts may be asked to leave at all.
func (g *group) displaceable() bool {
	return (g.key.preemptible || g.key.revocable) && g.key.jobType != cluster.Stateful && g.key.jobType != cluster.Daemon
}

// outlooks is how many a planner keeps.
const outlooks = 8

// outlook is the most that hosts could have left for those on whose quests the same might leave, which most classes of a pool with the
// same priority are: what does not fit there is not looked at any further.
type outlook struct {
	giving []giving // by index of the group
	some   bool     // some group gives
	number int      // of the planner's, another one whenever who gives changes
	views  []view   // by index of the host
}

// view is what one host could have left, as of when somebody asked.
type view struct {
	at     instant
	number int     // of the outlook then
	left   bool    // somebody leaves it
	gives  *group  // might leave it
	others bool    // not only of that group
	most   space   // if all left who might
	sure   instant // when what follows was asked
	least  space   // if those did, save who only might for another host, and has none
}

// instant is a state of a plan: as long as it is the same nothing else is planned, on one host or on any.
type instant struct{ cycle, at int }

func (p *Planner) instant() instant { return instant{p.rows.cycle, p.hosts.position()} }

func (p *Planner) instantOf(h *host) instant { return instant{p.rows.cycle, p.hosts.last[h.index]} }

// outlook returns the one of the quest. Complexity: the groups.
func (d *displacer) outlook(q *quest) *outlook {
	gives := d.givings(q)
	all := d.p.outlooks
	i := slices.IndexFunc(all, func(o *outlook) bool { return slices.Equal(o.giving, gives) })
	if i < 0 {
		if len(all) < outlooks {
			all = append(all, &outlook{})
		}
		i = len(all) - 1 // nobody has asked for it for longest
		d.p.looks++
		all[i].giving, all[i].number = append(all[i].giving[:0], gives...), d.p.looks
		all[i].some = slices.ContainsFunc(gives, func(g giving) bool { return g != staysOn })
	}
	o := all[i]
	copy(all[1:i+1], all[:i])
	all[0], d.p.outlooks = o, all
	if n := len(d.p.hosts.byIndex); len(o.views) < n {
		o.views = append(o.views, make([]view, n-len(o.views))...)
	}
	return o
}

// of returns what the host could have left, known as long as nothing else is planned there. Complexity: its units, the first time.
func (o *outlook) of(d *displacer, h *host) *view {
	v := &o.views[h.index]
	if now := d.p.instantOf(h); v.at != now || v.number != o.number {
		*v = view{at: now, number: o.number, most: v.most, least: v.least}
		v.most.become(d.promised(h))
		for _, u := range h.units {
			switch g := u.group; {
			case u.leaves():
				v.left = true
			case o.giving[g.index] != staysOn:
				v.most.add(u, 1)
				v.others = v.others || v.gives != nil && v.gives != g
				v.gives = g
			}
		}
	}
	return v
}

// stirs reports whether anybody leaves the host, or might for one of that group: otherwise what is full stays full.
func (v *view) stirs(g *group) bool { return v.left || v.others || v.gives != nil && v.gives != g }

// couldTake reports whether the host could have room for the task. Complexity: constant, save for what nobody has asked before.
func (o *outlook) couldTake(d *displacer, h *host, task *cluster.TaskSpec, moves bool) bool {
	v := o.of(d, h)
	if fits := v.most.takes(h, task); !fits || !moves {
		return fits
	}
	if now := d.p.instant(); v.sure != now {
		v.sure = now
		v.least.become(d.promised(h))
		for _, u := range h.units {
			if g := o.giving[u.group.index]; !u.leaves() && (g == givesUp || g == goesOn && d.refuge(u) != nil) {
				v.least.add(u, 1)
			}
		}
	}
	return v.least.takes(h, task)
}

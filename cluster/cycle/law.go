package cycle

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// comesSoon reports whether enough comes free by itself within Patience for all that the claims want beyond
// reservations. A claim that waits that long costs little. Those who would leave for it would lose all they
// have done.
func (p *Planner) comesSoon(claims []*class) bool {
	var wanted cluster.Resources
	for _, c := range claims {
		wanted = wanted.Add(c.group.request.Times(c.left[cluster.TierEntitled]))
	}
	return wanted.Fits(p.snap.Turnover().Within(p.options.Patience, p.now))
}

// patient reports whether the next unit of the class without room waits for what comes free by itself. It may
// take over the claim of another one that does so. Then it waits as well, however long it has waited already:
// it is to have what is free, and not to take from others what the first would then lack.
func (d *displacer) patient(c *class) bool {
	until := d.patience(c)
	if d.now < until {
		d.p.alarm(until)
	}
	return d.now < until
}

// patience returns until when the unit is patient, 0 for not at all.
func (d *displacer) patience(c *class) (until cluster.Time) {
	w, ok := c.queue.GetAt(c.nominees)
	if !ok || c.tier() != cluster.TierEntitled {
		return 0
	}
	if until = d.bide[c.key.group.pool]; until == 0 && d.soon {
		until = w.queued.Add(d.p.options.Patience)
	}
	return until
}

// sumOf returns the sum of units that leave as one, as the pools' accounts see it.
func sumOf(units []*unit) pool.Unit {
	all := units[0].group.unit(1)
	for _, u := range units[1:] {
		all.Request = all.Request.Add(u.spec.Resources)
	}
	return all
}

// donor returns one task of the group as what might be stopped.
func (p *Planner) donor(g *group) *pool.Donor {
	if g.ledger != p.ledger {
		g.donor, g.ledger = p.ledger.Donor(g.unit(1)), p.ledger
	}
	return &g.donor
}

// donorOf returns one task of the group as what might be stopped, with those of its gang that leave together
// with it.
func (p *Planner) donorOf(g *group) *pool.Donor {
	if core := p.cores[g.key.job]; g.key.gang && len(core.staying()) > 1 {
		return core.asDonor(p.ledger)
	}
	return p.donor(g)
}

// unit returns n tasks of the group as the pools' accounts see them.
func (g *group) unit(n int64) pool.Unit {
	return pool.Unit{
		Pool: g.key.pool, Job: g.key.job, User: g.key.owner, Priority: g.key.priority, Revocable: g.key.revocable,
		Request: g.request.Times(n),
	}
}

// available reports whether the bundle may leave although its job is a service. The job has to bear that
// besides what the plan stops already, or tries to. Of other jobs any may leave.
func (p *Planner) available(b bundle) bool {
	if !b.units[0].job.Type.Service() {
		return true
	}
	uid := b.units[0].task.Job()
	lost := p.lost[uid]
	for _, u := range b.units {
		lost += one(u.ready)
	}
	job := p.snap.Job(uid)
	if !job.Bears(lost) {
		p.scarce[uid] = job.Spare()
		return false
	}
	return true
}

// recovers reports whether some service bears more losses now than at some time since it bore no more, when
// somebody was to be asked to leave.
func (p *Planner) recovers(snap *cluster.Snapshot) (some bool) {
	for uid, least := range p.scarce { // in any order: each by itself
		job := snap.Job(uid)
		if job == nil {
			delete(p.scarce, uid)
			continue // its tasks have left
		}
		bears := job.Spare()
		p.scarce[uid], some = min(least, bears), some || bears > least
	}
	return some
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// account counts units of one group that leave or move together as leaving (−1) or staying (+1). sum is what
// they hold. Complexity: that of one, but for services.
func (d *displacer) account(sum pool.Unit, sign int64, units ...*unit) {
	u, n := units[0], sign*int64(len(units))
	d.p.count(u, int(-n))
	if u.job.Type.Service() {
		for _, v := range units {
			d.p.lost[u.task.Job()] -= sign * one(v.ready)
		}
	}
	if u.move != nil {
		return
	}
	u.group.stopped -= n
	if sign < 0 {
		d.p.ledger.Remove(sum)
	} else {
		d.p.ledger.Add(sum)
	}
}

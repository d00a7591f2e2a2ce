package pool

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Party is one of the jobs or users among whom a fair leaf divides itself. It is zero in other leaves.
type Party struct {
	Job  cluster.JobUID
	User string
}

func partyOf(order cluster.PoolOrder, job cluster.JobUID, user string) Party {
	switch order {
	case cluster.FairJobs:
		return Party{Job: job}
	case cluster.FairUsers:
		return Party{User: user}
	default:
		return Party{}
	}
}

func (p Party) compare(q Party) int {
	return cmp.Or(cmp.Compare(p.Job, q.Job), cmp.Compare(p.User, q.User))
}

// share is what a party may claim of its leaf's entitlement, by dimension.
type share struct {
	Party
	amounts []int64
}

// partyLine is the part of a queue that belongs to a party.
type partyLine struct {
	Party
	line line
}

// admitFairly divides the bounds of a leaf among the jobs or users with tasks in it, by dominant resource
// fairness with equal weights, and walks the queue of each below its part. What a party runs that may not be
// preempted is a part of its part: the party gets more of the rest only when the others have come to as much.
// What rounding to whole tasks leaves over is granted last, in the order of the whole queue.
func (w *walk) admitFairly(order cluster.PoolOrder, bounds bands) {
	parties, most := w.parties(order), w.a.tree.most(w.q.node)
	all := w.gather(parties, w.q.open, most)
	parts := make([]bands, len(parties))
	for tier, bound := range bounds {
		for i, part := range w.split(bound, w.a.tree.measure(w.q.node, bound, most), all) {
			parts[i][tier] = part
		}
	}
	w.q.shares = make([]share, len(parties))
	w.confine(parties, parts)
	for i, p := range parties {
		w.admit(p.line, parts[i])
		w.q.shares[i] = share{p.Party, parts[i][cluster.TierEntitled]}
	}
	w.tight = nil
	w.topUp(bounds)
}

// confine finds the dimensions with a static reservation in which some party has more than its part, as
// [Admission.confine] does for leaves. That and the parts of the others are more than their leaf may have.
// Nobody borrows by his part then, but only what is left. Complexity: the groups that run.
func (w *walk) confine(parties []*partyLine, parts []bands) {
	if !w.a.Static() {
		return
	}
	has := w.vector(nil)
	w.tight = make([]bool, len(has))
	for i, p := range parties {
		w.held(p.line, has)
		for d, static := range w.a.tree.static {
			w.tight[d] = w.tight[d] || static && has[d] > parts[i][cluster.TierBorrowed][d]
		}
	}
}

// tightest returns the first dimension that v asks for in which nobody borrows by his part, or −1.
func (w *walk) tightest(v []int64) int {
	for d, tight := range w.tight {
		if tight && v[d] > 0 {
			return d
		}
	}
	return -1
}

// gather finds out what parties ask for: waiting says how many tasks of each group wait. It also finds what
// each party has that may not be preempted, and returns the sum of that. most is what the leaf may have.
func (w *walk) gather(parties []*partyLine, waiting, most []int64) (all []int64) {
	equal := slices.Repeat([]uint64{1}, len(w.a.tree.dims))
	all = w.vector(nil)
	w.dominant.members = make([]member, len(parties))
	for i, p := range parties {
		m := &w.dominant.members[i]
		*m = member{ask: w.vector(nil), has: w.vector(nil), out: w.vector(nil), weight: equal}
		for _, r := range p.line.running {
			if w.standing(r) == math.MaxInt32 {
				addTimes(m.has, w.request[r], w.q.groups[r].Running)
			} else {
				addTimes(m.ask, w.request[r], w.q.groups[r].Running)
			}
		}
		for _, r := range p.line.waiting {
			if w.q.groups[r].Passed || lacking(w.request[r], most) >= 0 { // or they never fit
				continue
			}
			addTimes(m.ask, w.request[r], waiting[r])
		}
		addTimes(all, m.has, 1)
	}
	return all
}

// split divides a bound among the parties that were gathered, by shares of the total. all, what they have
// that may not be preempted, is part of the bound, and what each has of it is part of its part.
func (w *walk) split(bound, total, all []int64) [][]int64 {
	left := w.vector(bound)
	for d := range left {
		left[d] = max(0, sub(left[d], all[d]))
	}
	w.dominant.divide(left, total)
	w.dominant.spread(left) // the first in the line of a party may ask for more of it than the party does in the mean
	parts := make([][]int64, len(w.dominant.members))
	for i := range parts {
		m := &w.dominant.members[i]
		parts[i] = w.vector(m.has)
		addTimes(parts[i], m.out, 1)
	}
	return parts
}

// parties splits the line of all groups, in the order of jobs or users. It does so once for a reading.
func (w *walk) parties(order cluster.PoolOrder) []*partyLine {
	if w.parts != nil {
		return w.parts
	}
	byParty := map[Party]*partyLine{}
	var all []*partyLine
	find := func(i int32) *line {
		who := partyOf(order, w.q.groups[i].Job, w.q.groups[i].User)
		p := byParty[who]
		if p == nil {
			p = &partyLine{Party: who}
			byParty[who] = p
			all = append(all, p)
		}
		return &p.line
	}
	for _, i := range w.all.running {
		l := find(i)
		l.running = append(l.running, i)
	}
	for _, i := range w.all.waiting {
		l := find(i)
		l.waiting = append(l.waiting, i)
	}
	slices.SortFunc(all, func(a, b *partyLine) int { return a.compare(b.Party) })
	w.parts = all
	return all
}

// topUp moves tasks up into what the parts of the parties leave of the leaf's bounds, running tasks first.
func (w *walk) topUp(bounds bands) {
	room := w.bands(bounds)
	for i := range w.q.groups {
		if g := &w.q.grants[i]; !w.q.groups[i].Revocable {
			for tier := range room {
				room.take(w.request[i], cluster.Tier(tier), g.Running[tier]+g.Waiting[tier])
			}
		}
	}
	for _, i := range w.all.running {
		w.raise(i, &w.q.grants[i].Running, room)
	}
	for _, i := range w.all.waiting {
		g, grant := &w.q.groups[i], &w.q.grants[i]
		if g.Core > 0 {
			w.topUpCore(i, room)
		}
		if g.Passed || w.cores[g.Job] != nil && !w.whole[g.Job] {
			continue // the core goes before the rest
		}
		if g.Core == 0 { // it stays in one tier
			w.raise(i, &grant.Waiting, room)
		}
		left := w.q.open[i] - grant.Admitted()
		for tier := w.strongest(i); tier <= w.weakest(i) && left > 0; tier++ {
			n := room.fit(w.request[i], tier, left)
			room.take(w.request[i], tier, n)
			grant.Waiting[tier] += n
			left -= n
		}
	}
}

// topUpCore grants one tier to the core of a job that the part of its party is too small for.
func (w *walk) topUpCore(i int32, room bands) {
	job := w.q.groups[i].Job
	unit, open := w.coreUnit(job)
	if w.whole[job] || !open {
		return
	}
	for tier := w.strongest(i); tier <= w.weakest(i); tier++ {
		if room.fit(unit, tier, 1) > 0 {
			room.take(unit, tier, 1)
			w.grantCore(job, tier)
			return
		}
	}
}

// raise moves borrowed tasks of a group into stronger tiers, as far as there is room.
func (w *walk) raise(i int32, tiers *[cluster.NumTiers]int64, room bands) {
	v := w.request[i]
	for tier := w.strongest(i); tier < cluster.TierBorrowed; tier++ {
		n := tiers[cluster.TierBorrowed]
		for t := tier; t < cluster.TierBorrowed; t++ { // the weakest bound counts them already
			n = count(v, room[t], n)
		}
		for t := tier; t < cluster.TierBorrowed; t++ {
			subTimes(room[t], v, n)
		}
		tiers[cluster.TierBorrowed] -= n
		tiers[tier] += n
	}
}

package pool

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// party is a job or a user in a pool that is fair between them.
type party struct {
	job  cluster.JobUID
	user string
	line line
}

// admitFairly divides the bounds of a leaf among the jobs or users with tasks in it, by dominant resource fairness with
// equal weights, and walks the queue of each below its part. What runs and may not be preempted comes first; the rest is
// divided. What rounding to whole tasks leaves over is granted last, in the order of the whole queue.
func (w *walk) admitFairly(order cluster.PoolOrder, bounds bands) {
	parties := w.parties(order)
	equal := slices.Repeat([]uint64{1}, len(w.a.tree.dims))
	fixed, all := make([][]int64, len(parties)), w.vector(nil)
	w.dominant.members = make([]member, len(parties))
	for i, p := range parties {
		m := &w.dominant.members[i]
		*m = member{ask: w.vector(nil), out: w.vector(nil), weight: equal}
		fixed[i] = w.vector(nil)
		for _, r := range p.line.running {
			if w.standing(r) == math.MaxInt32 {
				addTimes(fixed[i], w.request[r], w.q.groups[r].Running)
			} else {
				addTimes(m.ask, w.request[r], w.q.groups[r].Running)
			}
		}
		for _, r := range p.line.waiting {
			if w.q.groups[r].Passed {
				continue
			}
			addTimes(m.ask, w.request[r], w.q.open[r])
		}
		addTimes(all, fixed[i], 1)
	}
	parts := make([]bands, len(parties))
	for tier, bound := range bounds {
		left := w.vector(bound)
		for d := range left {
			left[d] = max(0, sub(left[d], all[d]))
		}
		w.dominant.divide(left, bound)
		for i := range parties {
			parts[i][tier] = w.vector(fixed[i])
			addTimes(parts[i][tier], w.dominant.members[i].out, 1)
		}
	}
	if order == cluster.FairUsers {
		w.q.shares = map[string][]int64{}
	}
	for i, p := range parties {
		w.admit(p.line, parts[i])
		if order == cluster.FairUsers {
			w.q.shares[p.user] = parts[i][cluster.TierEntitled]
		}
	}
	w.topUp(bounds)
}

// parties splits the line of all groups, in the order of jobs or users.
func (w *walk) parties(order cluster.PoolOrder) []*party {
	type key struct {
		job  cluster.JobUID
		user string
	}
	byKey := map[key]*party{}
	var all []*party
	find := func(i int32) *line {
		g := &w.q.groups[i]
		k := key{job: g.Job}
		if order == cluster.FairUsers {
			k = key{user: g.User}
		}
		p := byKey[k]
		if p == nil {
			p = &party{job: k.job, user: k.user}
			byKey[k] = p
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
	slices.SortFunc(all, func(a, b *party) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.user, b.user)) })
	return all
}

// topUp moves tasks up into what the parts of the parties leave of the leaf's bounds, those that run first.
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
		if g.Passed || g.Core > 0 || w.cores[g.Job] != nil && !w.whole[g.Job] {
			continue // the core stays in one tier, and goes before the rest
		}
		w.raise(i, &grant.Waiting, room)
		left := w.q.open[i] - grant.Admitted()
		for tier := w.strongest(i); tier <= w.weakest(i) && left > 0; tier++ {
			n := room.fit(w.request[i], tier, left)
			room.take(w.request[i], tier, n)
			grant.Waiting[tier] += n
			left -= n
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

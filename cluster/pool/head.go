package pool

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// hold explains why a unit is refused, or short of the tiers reserved and entitled. It also makes it the head
// of the bounds that keep it out, unless such a bound has a head already. The unit becomes no head if it
// would not fit below the bounds, or into the weakest tier that it may have, even alone. look has been called
// for it.
//
// A bound in which it lacks room is held for all that it asks for. Where it has room, what it waits for frees
// room too. So it is enough to hold there what it has in the dimensions where it lacks some.
func (w *walk) hold(l line, i int32, unit []int64, short, refused bool) {
	if !short {
		return
	}
	w.q.grants[i].Why = w.why(i, unit, refused)
	if lacking(unit, w.bounds[w.weakest(i)]) >= 0 {
		return
	}
	first, last := cluster.TierEntitled, cluster.TierEntitled
	if refused {
		last = cluster.TierBorrowed
	}
	if w.weakest(i) == cluster.TierReserved {
		first = cluster.TierReserved
	}
	if !slices.ContainsFunc(w.heads[first:last+1], func(h head) bool { return h.held == nil }) {
		return
	}
	var has []int64 // of what it needs, in the strongest bound that keeps it out
	for tier := first; tier <= last; tier++ {
		if has == nil && lacking(unit, w.free[tier]) >= 0 {
			has = slices.Clone(unit)
			for d := range has {
				has[d] = min(has[d], max(0, w.free[tier][d]))
			}
		}
	}
	for tier := first; tier <= last; tier++ {
		if w.heads[tier].held != nil || has == nil || lacking(unit, w.bounds[tier]) >= 0 {
			continue
		}
		h := head{group: i, held: has, priority: w.q.groups[i].Priority, start: w.start(l, i, unit, tier)}
		if lacking(unit, w.free[tier]) >= 0 {
			h.held = slices.Clone(unit)
		}
		w.heads[tier] = h
		if tier == cluster.TierBorrowed && w.fifo(i) {
			w.q.heads[one(w.q.groups[i].Revocable)] = h
		}
	}
}

// fifo reports whether the line of a group is not divided among jobs or users; each of those would have a
// head.
func (w *walk) fifo(i int32) bool {
	return w.leaf().pool.Order == cluster.PriorityFIFO || w.q.groups[i].Revocable
}

// start returns by when a unit fits below a bound: when enough of what runs before it has reached the end of
// its run-time limit. It is 0 if those ends are not enough or not known. All that runs is taken to be below
// the bound, since what borrows moves up when others end.
func (w *walk) start(l line, i int32, unit []int64, tier cluster.Tier) cluster.Time {
	room := w.vector(w.bounds[tier])
	subTimes(room, w.used[tier], 1)
	var ends []int32
	for _, r := range l.running {
		if w.standing(r) >= w.q.groups[i].Priority {
			subTimes(room, w.request[r], w.q.groups[r].Running)
			if w.q.groups[r].RunningUntil > 0 {
				ends = append(ends, r)
			}
		}
	}
	slices.SortFunc(ends, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.q.groups[a].RunningUntil, w.q.groups[b].RunningUntil), cmp.Compare(a, b))
	})
	for _, r := range ends {
		addSigned(room, w.request[r], w.q.groups[r].Running)
		if lacking(unit, room) < 0 {
			return w.q.groups[r].RunningUntil
		}
	}
	return 0
}

// addSigned adds n·v to a room that may be below 0.
func addSigned(room, v []int64, n int64) {
	for d := range room {
		if back := times(v[d], n); room[d] > 0 {
			room[d] = sum(room[d], back)
		} else {
			room[d] += back
		}
	}
}

// why names what keeps a unit out: a bound that it does not fit below, or else a head that it may not pass.
func (w *walk) why(i int32, unit []int64, refused bool) Binding {
	leaf := w.leaf()
	tier, rule := cluster.TierEntitled, RuleEntitlement
	bound := func(n *node) []int64 { return n.entitled }
	switch {
	case w.q.groups[i].Revocable:
		tier, rule = cluster.TierBorrowed, RuleSlack
	case w.weakest(i) == cluster.TierReserved:
		tier, rule = cluster.TierReserved, RuleReservation
	case refused:
		tier, rule = cluster.TierBorrowed, RuleLimit
		bound = func(n *node) []int64 { return n.ceiling }
	}
	if d := w.tightest(unit); refused && d >= 0 && tier == cluster.TierBorrowed {
		return Binding{Rule: RuleStatic, Pool: w.a.tree.nodes[0].pool.Path, Dimension: w.a.tree.dims[d]}
	}
	for ; tier < cluster.NumTiers; tier++ {
		if d := lacking(unit, w.free[tier]); d >= 0 {
			b := Binding{Rule: rule, Pool: leaf.pool.Path, Dimension: w.a.tree.dims[d]}
			if rule == RuleSlack {
				if above := w.a.lending.binds(w.q.node, d, bound); above != "" {
					if n := &w.a.lending.nodes[w.a.lending.at(above)]; n.limit[d] <= n.entitled[d] {
						b.Rule, b.Pool = RuleRevocable, above
					}
				}
			}
			if rule == RuleEntitlement || rule == RuleLimit {
				if above := w.a.tree.binds(w.q.node, d, bound); above != "" {
					b.Pool = above
				}
				root, brim := &w.a.tree.nodes[0], w.q.brim
				if confined := d < len(brim) && brim[d] < leaf.ceiling[d]; rule == RuleLimit && (confined || b.Pool == root.pool.Path && root.ceiling[d] < root.limit[d]) {
					b.Pool, b.Rule = root.pool.Path, RuleStatic
				}
			}
			return b
		}
		if d := lacking(unit, w.room[tier]); d >= 0 {
			return Binding{Rule: RuleHead, Pool: leaf.pool.Path, Dimension: w.a.tree.dims[d]}
		}
	}
	return Binding{Rule: rule, Pool: leaf.pool.Path}
}

package pool

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Status is what the last Run found out about a pool and all below it. Revocable work is not in it.
type Status struct {
	Path cluster.PoolPath
	// Dimensions has an entry for each dimension that is set, held or asked for in the pool, the fixed ones first.
	Dimensions []DimensionStatus
	// Shares has an entry for each job or user with tasks, by Party, in a leaf that is fair between them.
	Shares []Share
}

// Share is what a party may claim of its leaf's entitlement. All shares together are no more than that, or
// than what work of the leaf has that may not be preempted.
type Share struct {
	Party
	Amount cluster.Resources
}

// DimensionStatus is a Status in one dimension, in its unit.
type DimensionStatus struct {
	Dimension   string
	Reservation int64
	Limit       int64 // cluster.NoLimit if there is none
	Demand      int64 // of all waiting tasks
	Allocation  int64
	Reserved    int64 // the part of the reservation that the pool claims and that can be honoured
	Entitlement int64
	// Claimed is what the running and waiting tasks ask for that are reserved or entitled: the part of the
	// entitlement that whole tasks and whole gangs can have.
	Claimed int64
	// BoundBy is the pool that keeps the entitlement below allocation and demand, "" if none does.
	BoundBy cluster.PoolPath
	// Tiers counts the running and waiting tasks that ask for the dimension, by tier. Refused counts those
	// without one.
	Tiers   [cluster.NumTiers]int64
	Refused int64
}

// Wanted returns what the tasks ask for, running and waiting, saturating.
func (s *DimensionStatus) Wanted() int64 { return sum(s.Allocation, s.Demand) }

// Find returns the status of the pool of that path, or nil. all is as [Admission.Status] returns it.
func Find(all []Status, path cluster.PoolPath) *Status {
	i, found := slices.BinarySearchFunc(all, path, func(s Status, p cluster.PoolPath) int { return cmp.Compare(s.Path, p) })
	if !found {
		return nil
	}
	return &all[i]
}

// Status describes all pools, by path. The caller owns it. Complexity: groups · depth of their leaves, and pools, times
// dimensions.
func (a *Admission) Status() []Status {
	t := a.tree
	counts := make([][]DimensionStatus, len(t.nodes)) // Demand, Claimed, Tiers and Refused only
	at := func(i int32) []DimensionStatus {
		if counts[i] == nil {
			counts[i] = make([]DimensionStatus, len(t.dims))
		}
		return counts[i]
	}
	for _, q := range a.queues {
		into := at(q.node)
		for d := range q.asked {
			into[d].Demand = q.asked[d]
		}
		for k := range q.grants {
			if g := &q.groups[k]; !g.Revocable {
				countGrant(into, t.vector(g.Request, nil), &q.grants[k])
			}
		}
	}
	for i := len(t.nodes) - 1; i > 0; i-- {
		above := at(t.nodes[i].parent)
		for d, c := range at(int32(i)) {
			above[d].add(&c)
		}
	}
	out := make([]Status, len(t.nodes))
	for i := range t.nodes {
		out[i] = Status{Path: t.nodes[i].pool.Path, Dimensions: t.describe(int32(i), at(int32(i)))}
	}
	for _, q := range a.queues {
		shares := make([]Share, len(q.shares))
		for i, s := range q.shares {
			shares[i] = Share{s.Party, t.resources(s.amounts)}
		}
		out[q.node].Shares = shares
	}
	return out
}

func countGrant(into []DimensionStatus, request []int64, g *Grant) {
	for d, n := range request {
		if n == 0 {
			continue
		}
		for tier := range g.Running {
			into[d].Tiers[tier] += g.Running[tier] + g.Waiting[tier]
			if cluster.Tier(tier) <= cluster.TierEntitled {
				into[d].Claimed = sum(into[d].Claimed, times(n, g.Running[tier]+g.Waiting[tier]))
			}
		}
		into[d].Refused += g.Refused
	}
}

func (s *DimensionStatus) add(o *DimensionStatus) {
	s.Demand, s.Claimed = sum(s.Demand, o.Demand), sum(s.Claimed, o.Claimed)
	for tier := range s.Tiers {
		s.Tiers[tier] += o.Tiers[tier]
	}
	s.Refused += o.Refused
}

// limiting returns the lowest pool with a limit, from node i upwards, or the pool itself if there is none.
func (t *tree) limiting(i int32) cluster.PoolPath {
	for at := i; at >= 0; at = t.nodes[at].parent {
		if n := &t.nodes[at]; slices.ContainsFunc(n.limit, func(limit int64) bool { return limit < unlimited }) {
			return n.pool.Path
		}
	}
	return t.nodes[i].pool.Path
}

func (t *tree) describe(i int32, counts []DimensionStatus) []DimensionStatus {
	n := &t.nodes[i]
	set := map[string]bool{}
	for _, r := range n.pool.Resources {
		set[r.Dimension] = true
	}
	var out []DimensionStatus
	for d, name := range t.dims {
		s := counts[d]
		s.Dimension, s.Reservation, s.Limit = name, n.reservation[d], n.limit[d]
		s.Allocation, s.Reserved, s.Entitlement = n.allocation[d], n.reserved[d], n.entitled[d]
		if !set[name] && s.Allocation == 0 && s.Demand == 0 && s.Entitlement == 0 {
			continue
		}
		if s.Limit == unlimited {
			s.Limit = cluster.NoLimit
		}
		s.BoundBy = t.binds(i, d, func(n *node) []int64 { return n.entitled })
		if s.BoundBy == "" && len(n.children) == 0 && s.Entitlement < s.Wanted() {
			s.BoundBy = t.limiting(i) // in another dimension, or by what it reserves
		}
		out = append(out, s)
	}
	return out
}

package verify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// leafWork is what a leaf has once the plan has been carried out. Who begins there is let in as if those were gone whom he may have stopped,
// also if they begin in this plan: so what is less urgent than the most urgent that begin is left out, and what is of other jobs or users
// where the leaf is fair between them.
type leafWork struct {
	begins amounts        // what waited, and starts or has room held now: the most urgent of that
	who    map[claim]bool // whose that is
	urgent int32          // its priority
	has    amounts
}

// claim says that something of an account needs some of a dimension.
type claim struct {
	account   cluster.PoolPath
	dimension string
}

// statics checks that what begins beyond what its pool is entitled to leaves free what static pools do not use of their reservations.
// Complexity: all tasks, and pools times leaves where something begins, if there are such reservations.
func (c *checker) statics() {
	kept, there := c.kept()
	if len(kept) == 0 {
		return
	}
	leaves := c.leafWork()
	var pools []cluster.PoolPath // those further down first
	for p := range c.snap.Pools() {
		pools = append(pools, p.Path)
	}
	slices.SortFunc(pools, func(a, b cluster.PoolPath) int { return cmp.Compare(b, a) })
	entitled := map[cluster.PoolPath]amounts{}
	for i := range c.plan.Pools {
		p := &c.plan.Pools[i]
		entitled[p.Path] = amounts{}
		for _, d := range p.Dimensions {
			entitled[p.Path][d.Dimension] = d.Entitlement
		}
	}
	used := map[cluster.PoolPath]amounts{} // before those begin that are entitled to it, and may do so after who borrows
	for path, l := range leaves {          // sums: the order does not matter
		for p := path; p != ""; p = p.Parent() {
			if used[p] == nil {
				used[p] = amounts{}
			}
			for d, has := range l.has {
				if has <= entitled[path][d] {
					has -= l.begins[d]
				}
				used[p][d] += has
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(leaves)) {
		l := leaves[path]
		for _, d := range slices.Sorted(maps.Keys(kept)) {
			if l.begins[d] == 0 || l.has[d] <= entitled[path][d] {
				continue
			}
			idle := map[cluster.PoolPath]int64{} // of the reservations in a pool and below it
			for _, p := range pools {
				if n := kept[d][p]; n > 0 && !p.Covers(path) {
					idle[p] = max(idle[p], n-used[p][d])
				}
				idle[p.Parent()] += idle[p]
			}
			if free := there[d] - used[cluster.RootPool][d]; free < idle[""] {
				c.fail("%d of %s begin in pool %s, which has %d then and is entitled to %d: %d are free and %d kept for static reservations",
					l.begins[d], d, path, l.has[d], entitled[path][d], free, idle[""])
			}
		}
	}
}

// kept returns the static reservations by dimension and pool: as the plan says where there is less than all
// reservations; and what the root divides.
func (c *checker) kept() (all map[string]map[cluster.PoolPath]int64, there amounts) {
	all, sums := map[string]map[cluster.PoolPath]int64{}, amounts{}
	for p := range c.snap.Pools() {
		for _, r := range p.Resources {
			if p.Path.Parent() == cluster.RootPool {
				sums[r.Dimension] = min(unlimited, sums[r.Dimension]+r.Reservation)
			}
			if p.Path == cluster.RootPool || !r.Static || r.Reservation == 0 {
				continue
			}
			if all[r.Dimension] == nil {
				all[r.Dimension] = map[cluster.PoolPath]int64{}
			}
			all[r.Dimension][p.Path] = r.Reservation
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	there = c.divided()
	for i := range c.plan.Pools {
		p := &c.plan.Pools[i]
		for _, d := range p.Dimensions {
			if kept := all[d.Dimension]; kept[p.Path] > 0 && sums[d.Dimension] > there[d.Dimension] {
				kept[p.Path] = d.Reserved
			}
		}
	}
	return all, there
}

// divided returns what the root divides.
func (c *checker) divided() amounts {
	all := vector(c.capacity())
	for _, r := range c.snap.Pool(cluster.RootPool).Resources {
		if r.Limit != cluster.NoLimit {
			all[r.Dimension] = min(all[r.Dimension], r.Limit)
		}
	}
	return all
}

// leafWork sums up the leaves, without those who leave for good.
func (c *checker) leafWork() map[cluster.PoolPath]*leafWork {
	leaves := map[cluster.PoolPath]*leafWork{}
	at := func(k cluster.TaskKey) *leafWork {
		p := c.runsBy(k).Pool
		if leaves[p] == nil {
			leaves[p] = &leafWork{begins: amounts{}, who: map[claim]bool{}, has: amounts{}}
		}
		return leaves[p]
	}
	c.gains(true, func(k cluster.TaskKey) {
		l := at(k)
		l.urgent = max(l.urgent, c.runsBy(k).Priority)
	})
	c.gains(true, func(k cluster.TaskKey) {
		if l := at(k); c.runsBy(k).Priority == l.urgent {
			needs := vector(c.spec(k).Resources)
			l.begins.add(needs, 1)
			for d, n := range needs { // a set: the order does not matter
				if n > 0 {
					l.who[claim{c.account(k.Job()), d}] = true
				}
			}
		}
	})
	for _, l := range leaves {
		l.has.add(l.begins, 1)
	}
	for t := range c.snap.Tasks(0) {
		if !keepsRoom(t) || c.seen[t.Key] == "the end of a hold" {
			continue
		}
		if v := c.victims[t.Key]; v != nil && v.Hold == nil {
			continue
		}
		spec := c.runsBy(t.Key)
		if l := at(t.Key); !spec.Revocable && (!spec.Preemptible || spec.Priority >= l.urgent) {
			for d, n := range vector(c.spec(t.Key).Resources) {
				if l.begins[d] == 0 || l.who[claim{c.account(t.Key.Job()), d}] {
					l.has[d] += n
				}
			}
		}
	}
	return leaves
}

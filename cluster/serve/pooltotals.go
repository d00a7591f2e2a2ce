package serve

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// poolTotal counts what is in a pool and below it.
type poolTotal struct {
	activeJobs, waiting, running uint64
	allocated, demand            cluster.Resources // as pools claim: without revocable tasks, and without those whose job waits for others
}

// boundChain lists the pools from the given one up to the one that binds in the dimension, as the last cycle found them; none
// where nothing binds. Those whose numbers are not for the caller are left out.
func (s *Scheduler) boundChain(in access.View, who *access.Caller, p cluster.PoolPath, d *sluicev1.PoolDimensionStatus) (chain []*sluicev1.PoolBound) {
	for binds := cluster.PoolPath(d.BoundBy); binds.Covers(p) && p != ""; p = p.Parent() {
		if !who.MayKnow(in, p) {
			continue
		}
		for _, of := range s.poolStatus(p).Dimensions {
			if of.Dimension == d.Dimension {
				chain = append(chain, &sluicev1.PoolBound{Pool: string(p), Entitlement: of.Entitlement, Wanted: of.Wanted()})
			}
		}
	}
	return chain
}

type poolTotalTable map[cluster.PoolPath]*poolTotal

// poolTotals counts all jobs, each for its pool and those above it. Complexity: jobs × depth of the tree, and the tasks of the jobs
// whose tasks are not all alike.
func poolTotals(s *cluster.Snapshot) poolTotalTable {
	table := poolTotalTable{}
	for j := range s.Jobs(0) {
		if j.State().Terminal() {
			continue
		}
		var waiting, bound uint64
		for state := range cluster.NumTaskStates {
			n := uint64(j.Counts[state])
			switch {
			case state.Bound():
				bound += n
			case !state.Terminal():
				waiting += n
			}
		}
		held, wanted := claims(s, j, int64(bound), int64(waiting))
		for p := j.Spec.Pool; p != ""; p = p.Parent() {
			t := table[p]
			if t == nil {
				t = &poolTotal{}
				table[p] = t
			}
			t.activeJobs++
			t.waiting += waiting
			t.running += bound
			t.allocated, t.demand = t.allocated.Add(held), t.demand.Add(wanted)
		}
	}
	return table
}

// alike reports whether all tasks of a job ask for the same: no override, nor an earlier version that some may still run, says
// otherwise.
func alike(j *cluster.Job) bool {
	same := func(spec *cluster.JobSpec) bool {
		return spec.Task.Resources.Equal(j.Spec.Task.Resources) && !slices.ContainsFunc(spec.Overrides, func(o cluster.InstanceOverride) bool {
			return o.Task != nil && !o.Task.Resources.IsZero()
		})
	}
	return same(j.Spec) && !slices.ContainsFunc(j.Past, func(v cluster.Version) bool { return !same(v.Spec) })
}

// claims sums up what the tasks of a job hold, of which so many are bound, and what those ask for that wait for a place. Complexity: the
// tasks, if they are not all alike.
func claims(s *cluster.Snapshot, j *cluster.Job, bound, waiting int64) (held, wanted cluster.Resources) {
	switch {
	case j.Spec.Revocable: // on what others leave unused
		return held, wanted
	case alike(j):
		return j.Spec.Task.Resources.Times(bound), j.Spec.Task.Resources.Times(waiting - int64(j.Counts[cluster.TaskInitialized]))
	}
	for t := range s.TasksOf(j.UID, 0) {
		switch r := j.TaskFor(t).Resources; {
		case t.State.Bound():
			held = held.Add(r)
		case t.State.Waits():
			wanted = wanted.Add(r)
		}
	}
	return held, wanted
}

// describe shows a pool with what is in it now, by the totals, and what the last cycle found out.
func (table poolTotalTable) describe(s *cluster.Snapshot, p *cluster.Pool, last pool.Status) *sluicev1.Pool {
	out := poolTo(p, s.IsLeaf(p.Path))
	t := table[p.Path]
	out.State = poolStateTo(s, p.Path, t != nil)
	if t == nil {
		t = &poolTotal{}
	}
	out.ActiveJobs, out.WaitingTasks, out.RunningTasks = t.activeJobs, t.waiting, t.running
	byName := map[string]*sluicev1.PoolDimensionStatus{}
	at := func(name string) *sluicev1.PoolDimensionStatus {
		if byName[name] == nil {
			set := resourceOf(p, name)
			byName[name] = &sluicev1.PoolDimensionStatus{
				Dimension: name, Reservation: set.Reservation, Limit: set.Limit, Share: set.Share,
			}
		}
		return byName[name]
	}
	for _, r := range p.Resources {
		at(r.Dimension)
	}
	for _, d := range last.Dimensions {
		status := at(d.Dimension)
		status.Entitlement, status.BoundBy = d.Entitlement, string(d.BoundBy)
		status.ReservedTasks = uint64(d.Tiers[cluster.TierReserved])
		status.EntitledTasks = uint64(d.Tiers[cluster.TierEntitled])
		status.BorrowedTasks = uint64(d.Tiers[cluster.TierBorrowed])
		status.RefusedTasks = uint64(d.Refused)
	}
	eachAmount(t.demand, func(name string, amount int64) { at(name).Demand = amount })
	eachAmount(t.allocated, func(name string, amount int64) { at(name).Allocation = amount })
	for d := range cluster.NumDimensions {
		if status := byName[d.String()]; status != nil {
			out.Dimensions = append(out.Dimensions, status)
			delete(byName, d.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out.Dimensions = append(out.Dimensions, byName[name])
	}
	return out
}

// eachAmount shows the amounts of r that are not 0.
func eachAmount(r cluster.Resources, show func(name string, amount int64)) {
	for d, amount := range r.Fixed {
		if amount != 0 {
			show(cluster.Dimension(d).String(), amount)
		}
	}
	for _, a := range r.Named {
		show(a.Name, a.Value)
	}
}

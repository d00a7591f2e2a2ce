package serve

import (
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
)

// checkTree reports every rule between parents and children that the pool, as it is to be, would break:
//
//   - no limit and no reservation is above the limit of a pool above it;
//   - the reservations of the children of a pool sum to no more than the pool's own. The root reserves nothing and gives
//     what there is, so its children are not bound.
//
// Complexity: all pools, times the dimensions of the pool.
func checkTree(in *cluster.State, p *cluster.Pool, v *violations) {
	for i, r := range p.Resources {
		at := entry("spec.resources", r.Dimension)
		if above := limitAbove(in, p.Path, r.Dimension); above.Limit != cluster.NoLimit {
			if r.Limit > above.Limit {
				v.Invalid(child(at, "limit"), "is %d: the limit of %s above it is %d", r.Limit, quote(string(above.pool)), above.Limit)
			}
			if r.Reservation > above.Limit {
				v.Invalid(child(at, "reservation"), "is %d: the limit of %s above it is %d", r.Reservation, quote(string(above.pool)), above.Limit)
			}
		}
		checkChildrensLimits(in, p, i, at, v)
	}
	for _, d := range reservedDimensions(in, p) {
		at := entry("spec.resources", d)
		own := resourceOf(p, d).Reservation
		if below := childrensReservations(in, p.Path, "", d); p.Path != cluster.RootPool && below > own {
			v.Invalid(child(at, "reservation"), "is %d: the pools below it reserve %d together", own, below)
		}
		parent := p.Path.Parent()
		if parent == "" || parent == cluster.RootPool {
			continue
		}
		siblings := childrensReservations(in, parent, p.Path, d)
		if all := resourceOf(in.Pool(parent), d).Reservation; own > 0 && siblings+own > all {
			v.Invalid(child(at, "reservation"), "is %d: %s reserves %d, of which its other children have %d", own, quote(string(parent)), all, siblings)
		}
	}
}

// bound is a limit and the pool that sets it.
type bound struct {
	cluster.PoolResource
	pool cluster.PoolPath
}

// limitAbove returns the limit of the nearest pool above that has one in the dimension.
func limitAbove(in *cluster.State, p cluster.PoolPath, dimension string) bound {
	for q := p.Parent(); q != ""; q = q.Parent() {
		if r := resourceOf(in.Pool(q), dimension); r.Limit != cluster.NoLimit {
			return bound{r, q}
		}
	}
	return bound{cluster.PoolResource{Limit: cluster.NoLimit}, ""}
}

// resourceOf returns what a pool sets for a dimension.
func resourceOf(p *cluster.Pool, dimension string) cluster.PoolResource {
	for _, r := range p.Resources {
		if r.Dimension == dimension {
			return r
		}
	}
	return cluster.PoolResource{Dimension: dimension, Limit: cluster.NoLimit, Share: 1}
}

// checkChildrensLimits reports the first pool below whose limit would be above that of p in its i-th entry.
func checkChildrensLimits(in *cluster.State, p *cluster.Pool, i int, at string, v *violations) {
	r := p.Resources[i]
	if r.Limit == cluster.NoLimit {
		return
	}
	for q := range in.Pools() {
		if q.Path == p.Path || !p.Path.Covers(q.Path) {
			continue
		}
		below := resourceOf(q, r.Dimension)
		if below.Limit > r.Limit {
			v.Invalid(child(at, "limit"), "is %d: the limit of %s below it is %d", r.Limit, quote(string(q.Path)), below.Limit)
			return
		}
		if below.Reservation > r.Limit {
			v.Invalid(child(at, "limit"), "is %d: %s below it reserves %d", r.Limit, quote(string(q.Path)), below.Reservation)
			return
		}
	}
}

// maxReserved is where sums of reservations stop, far above any of them.
const maxReserved = maxPoolAmount << 1

// childrensReservations sums what the children of a pool reserve, but for one of them.
func childrensReservations(in *cluster.State, parent, except cluster.PoolPath, dimension string) (sum int64) {
	for q := range in.Pools() {
		if q.Path.Parent() == parent && q.Path != except {
			sum = min(maxReserved, sum+resourceOf(q, dimension).Reservation)
		}
	}
	return sum
}

// reservedDimensions returns the dimensions that the pool or one of its children sets, in the order in which they turn up.
func reservedDimensions(in *cluster.State, p *cluster.Pool) []string {
	var out []string
	seen := map[string]bool{}
	add := func(q *cluster.Pool) {
		for _, r := range q.Resources {
			if !seen[r.Dimension] {
				seen[r.Dimension] = true
				out = append(out, r.Dimension)
			}
		}
	}
	add(p)
	for q := range in.Pools() {
		if q.Path.Parent() == p.Path {
			add(q)
		}
	}
	return out
}

// draining returns the pool, itself or one above, that takes no new jobs; nil if there is none.
func draining(in poolTable, p cluster.PoolPath) *cluster.Pool {
	for ; p != ""; p = p.Parent() {
		if q := in.Pool(p); q != nil && q.Draining {
			return q
		}
	}
	return nil
}

// waitWord counts jobs that wait in a pool.
func waitWord(n uint32, of string) string {
	if n == 1 {
		return "1 job" + of + " waits in it"
	}
	return fmt.Sprintf("%d jobs%s wait in it", n, of)
}

// checkPending refuses jobs that would exceed what may wait in their pools. A job waits until its first task is placed.
// Complexity: the jobs that wait, once, if one of the pools has such a limit, and the fresh ones; times the depth of the tree.
func checkPending(in *cluster.State, fresh []cluster.NewJob) error {
	waiting := countWaiting(in, fresh)
	for _, n := range fresh {
		for p := n.Spec.Pool; p != ""; p = p.Parent() {
			w := waiting[p]
			if w == nil {
				continue
			}
			refuse := func(limit *uint32, waiting uint32, of string) error {
				if limit == nil || waiting < *limit {
					return nil
				}
				return resourceError(codes.ResourceExhausted, "pool", string(p), "%s, and no more may: submit job %s later",
					waitWord(waiting, of), quote(string(n.Spec.Name)))
			}
			l := &in.Pool(p).Limits
			if err := refuse(l.PendingJobs, w.all, ""); err != nil {
				return err
			}
			if err := refuse(l.PendingJobsPerUser, w.users[n.Spec.Owner], " of "+quote(n.Spec.Owner)); err != nil {
				return err
			}
			for _, g := range n.Spec.Groups {
				if err := refuse(l.PendingJobsPerGroup, w.groups[g], " of group "+quote(g)); err != nil {
					return err
				}
			}
		}
		waiting.add(n.Spec)
	}
	return nil
}

// waitingJobs counts jobs without a placed task, of a pool and those below it.
type waitingJobs struct {
	all           uint32
	users, groups map[string]uint32
}

// waitingTable has the pools that limit what waits.
type waitingTable map[cluster.PoolPath]*waitingJobs

// countWaiting counts what waits in the pools, of those that the fresh jobs are to go to and those above, that limit it.
func countWaiting(in *cluster.State, fresh []cluster.NewJob) waitingTable {
	table := waitingTable{}
	for _, n := range fresh {
		for p := n.Spec.Pool; p != ""; p = p.Parent() {
			if table[p] == nil && in.Pool(p).Limits.BoundsPending() {
				table[p] = &waitingJobs{users: map[string]uint32{}, groups: map[string]uint32{}}
			}
		}
	}
	if len(table) == 0 {
		return table
	}
	for j := range in.Unstarted() {
		table.add(j.Spec)
	}
	return table
}

// add counts a job that waits.
func (table waitingTable) add(spec *cluster.JobSpec) {
	for p := spec.Pool; p != ""; p = p.Parent() {
		w := table[p]
		if w == nil {
			continue
		}
		w.all++
		w.users[spec.Owner]++
		for _, g := range spec.Groups {
			w.groups[g]++
		}
	}
}

package serve

import (
	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
)

// checkTree reports every rule between parents and children that the pool, as it is to be, would break:
//
//   - no limit is above that of a pool above it;
//   - a reservation is within the pool's limit, or the nearest one above;
//   - the reservations of the children of a pool sum to no more than the pool's own. The root reserves nothing and gives
//     what there is, so its children are not bound.
//
// Complexity: all pools, times the dimensions of the pool.
func checkTree(in *cluster.State, p *cluster.Pool, v *violations) {
	for i, r := range p.Resources {
		at := entry("spec.resources", r.Dimension)
		limit, above := r.Limit, limitAbove(in, p.Path, r.Dimension)
		switch {
		case above.Limit != cluster.NoLimit && limit > above.Limit:
			v.Invalid(child(at, "limit"), "is %d: the limit of %s above it is %d", limit, quote(string(above.pool)), above.Limit)
		case limit == cluster.NoLimit:
			limit = above.Limit
		}
		if limit != cluster.NoLimit && r.Reservation > limit {
			v.Invalid(child(at, "reservation"), "is %d: the limit is %d", r.Reservation, limit)
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
		if q.Path == p.Path || !within(q.Path, p.Path) {
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

// checkPending refuses jobs that would exceed what may wait in their pools. A job waits until its first task is placed.
// Complexity: all jobs, if one of the pools has such a limit.
func checkPending(in *cluster.State, fresh []cluster.NewJob) error {
	for i, n := range fresh {
		for p := n.Spec.Pool; p != ""; p = p.Parent() {
			q := in.Pool(p)
			l := &q.Limits
			if l.PendingJobs == nil && l.PendingJobsPerUser == nil && l.PendingJobsPerGroup == nil {
				continue
			}
			w := countWaiting(in, fresh[:i], q.Path, n.Spec)
			refuse := func(limit *uint32, waiting uint32, of string) error {
				if limit == nil || waiting < *limit {
					return nil
				}
				return resourceError(codes.ResourceExhausted, "pool", string(p), "%d jobs%s wait in it, and no more may: submit job %s later",
					waiting, of, quote(string(n.Spec.Name)))
			}
			if err := refuse(l.PendingJobs, w.all, ""); err != nil {
				return err
			}
			if err := refuse(l.PendingJobsPerUser, w.user, " of "+quote(n.Spec.Owner)); err != nil {
				return err
			}
			for _, g := range n.Spec.Groups {
				if err := refuse(l.PendingJobsPerGroup, w.groups[g], " of group "+quote(g)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// waitingJobs counts jobs without a placed task.
type waitingJobs struct {
	all, user uint32 // user: of the same owner
	groups    map[string]uint32
}

func countWaiting(in *cluster.State, fresh []cluster.NewJob, p cluster.PoolPath, spec *cluster.JobSpec) waitingJobs {
	w := waitingJobs{groups: map[string]uint32{}}
	add := func(s *cluster.JobSpec) {
		if !within(s.Pool, p) {
			return
		}
		w.all++
		if s.Owner == spec.Owner {
			w.user++
		}
		for _, g := range s.Groups {
			w.groups[g]++
		}
	}
	for j := range in.Jobs(0) {
		if s := j.State(); s == cluster.JobPending || s == cluster.JobInitialized {
			add(j.Spec)
		}
	}
	for _, n := range fresh {
		add(n.Spec)
	}
	return w
}

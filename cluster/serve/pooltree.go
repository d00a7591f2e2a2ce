package serve

import (
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

package pool

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// scratch holds the columns of one division, indexed by child.
type scratch struct {
	reserved, entitled, ceiling   []int64
	caps, parts                   []int64
	shares, reservations, orphans []uint64
	asks                          []int64 // of dominant.members
	weights                       []uint64
}

func (s *scratch) resize(n int) {
	for _, v := range []*[]int64{&s.reserved, &s.entitled, &s.ceiling, &s.caps, &s.parts} {
		*v = slices.Grow((*v)[:0], n)[:n]
	}
	for _, v := range []*[]uint64{&s.shares, &s.reservations, &s.orphans} {
		*v = slices.Grow((*v)[:0], n)[:n]
	}
}

// divide gives the children of a pool their bounds. Children whose bounds change have to divide them again.
func (t *tree) divide(i int32) {
	n := &t.nodes[i]
	if len(n.children) == 0 {
		return
	}
	t.scratch.resize(len(n.children))
	if n.pool.Division == cluster.DominantResource {
		t.divideDominant(i)
	}
	for d := range t.dims {
		t.divideDimension(n, d)
	}
}

// divideDimension gives the children their bounds in one dimension.
func (t *tree) divideDimension(n *node, d int) {
	s := &t.scratch
	left := t.reserve(n, d)
	if n.pool.Division == cluster.DominantResource {
		for i, c := range n.children { // divideDominant has been here
			s.entitled[i] = t.nodes[c].entitled[d]
		}
	} else {
		for i, c := range n.children {
			s.caps[i], s.shares[i] = t.nodes[c].claim[d]-s.reserved[i], t.nodes[c].share[d]
		}
		t.filler.fill(left, s.caps, s.shares, s.parts)
		for i, part := range s.parts {
			s.entitled[i] = s.reserved[i] + part
		}
	}
	t.lend(n, d)
	for i, c := range n.children {
		child := &t.nodes[c]
		if child.reserved[d] == s.reserved[i] && child.entitled[d] == s.entitled[i] && child.ceiling[d] == s.ceiling[i] {
			continue
		}
		child.reserved[d], child.entitled[d], child.ceiling[d] = s.reserved[i], s.entitled[i], s.ceiling[i]
		child.divided = false
	}
}

// reserve sets scratch.reserved to what each child gets of its reservation and returns what is left.
func (t *tree) reserve(n *node, d int) (left int64) {
	s := &t.scratch
	for i, c := range n.children {
		child := &t.nodes[c]
		s.caps[i] = min(child.claim[d], child.reservation[d])
		s.reservations[i] = uint64(child.reservation[d])
	}
	left = n.entitled[d]
	t.filler.fill(left, s.caps, s.reservations, s.reserved)
	for _, part := range s.reserved {
		left -= part
	}
	return left
}

// lend sets scratch.ceiling: what the parent may use beyond the entitlements goes by share to those who claim it, and
// last, in equal parts, to those without a share.
func (t *tree) lend(n *node, d int) {
	s := &t.scratch
	left := n.ceiling[d]
	for i, c := range n.children {
		left -= s.entitled[i] // never more than the parent's entitlement, which is within its ceiling
		s.caps[i], s.shares[i], s.orphans[i] = t.nodes[c].claim[d]-s.entitled[i], t.nodes[c].share[d], 0
		if s.shares[i] == 0 {
			s.orphans[i] = 1
		}
	}
	t.filler.fill(left, s.caps, s.shares, s.parts)
	for i, part := range s.parts {
		s.ceiling[i] = s.entitled[i] + part
		left -= part
	}
	t.filler.fill(left, s.caps, s.orphans, s.parts)
	for i, part := range s.parts {
		s.ceiling[i] += part
	}
}

// divideDominant sets the entitlements of the children by dominant shares of what is left over the reservations.
func (t *tree) divideDominant(at int32) {
	n := &t.nodes[at]
	s, dims := &t.scratch, len(t.dims)
	count := len(n.children)
	s.asks = slices.Grow(s.asks[:0], 2*count*dims)[:2*count*dims]
	s.weights = slices.Grow(s.weights[:0], count*dims)[:count*dims]
	t.dominant.members = slices.Grow(t.dominant.members[:0], count)[:count]
	amounts := make([]int64, dims)
	for d := range t.dims {
		amounts[d] = t.reserve(n, d)
		for i, c := range n.children {
			s.asks[i*dims+d] = t.nodes[c].claim[d] - s.reserved[i]
			s.weights[i*dims+d] = t.nodes[c].share[d]
		}
	}
	for i := range n.children {
		t.dominant.members[i] = member{
			ask:    s.asks[i*dims : (i+1)*dims],
			weight: s.weights[i*dims : (i+1)*dims],
			out:    s.asks[(count+i)*dims : (count+i+1)*dims],
		}
	}
	t.dominant.divide(amounts, t.measure(at, n.entitled, t.most(at)))
	for i, c := range n.children {
		child := &t.nodes[c]
		for d, part := range t.dominant.members[i].out {
			reserved := child.claim[d] - s.asks[i*dims+d]
			if child.entitled[d] != reserved+part {
				child.entitled[d] = reserved + part
				child.divided = false
			}
		}
	}
}

// limits returns the lowest limits of a pool and those above it.
func (t *tree) limits(i int32) []int64 {
	limits := slices.Clone(t.nodes[i].limit)
	for i = t.nodes[i].parent; i >= 0; i = t.nodes[i].parent {
		for d, limit := range t.nodes[i].limit {
			limits[d] = min(limits[d], limit)
		}
	}
	return limits
}

// most returns what a pool may have at most: by the limits, and of all there is.
func (t *tree) most(i int32) []int64 {
	most := t.limits(i)
	for d, all := range t.nodes[0].entitled {
		most[d] = min(most[d], all)
	}
	return most
}

// measure returns against what shares of a bound of a pool are measured: most, which it may have, where it gets all that it claims, else as
// much less. What hardly anybody in it asks for is not scarce for that.
func (t *tree) measure(i int32, bound, most []int64) []int64 {
	total := slices.Clone(bound)
	for d, claim := range t.nodes[i].claim {
		if claim > 0 && claim < most[d] {
			scaled := wide(uint64(max(0, bound[d])), uint64(most[d])).over(uint64(claim))
			total[d] = max(bound[d], min(most[d], int64(scaled)))
		}
	}
	return total
}

package pool

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// tree divides a capacity among pools. See the package for the rules.
//
// What pools have and ask for is set at the leaves; Update then works out again what that changes, and only that. The
// methods that name a pool panic if the tree has none of that path.
type tree struct {
	dims  []string // the fixed ones, then the named ones in the order in which they turned up
	named map[string]int
	kept  []bool // by dimension: some pool reserves something of it
	nodes []node // by path, so that parents come before their children
	index map[cluster.PoolPath]int32

	static []bool // by dimension: some pool below the root never lends its reservation

	filler   filler
	dominant dominant
	scratch  scratch
}

// node is a pool with its vectors, all indexed by dimension.
type node struct {
	pool     *cluster.Pool
	parent   int32 // −1 for the root
	children []int32

	reservation, limit []int64
	share              []uint64
	static             []bool

	allocation, demand []int64 // those of an inner pool are the sums of its children
	claim              []int64
	reserved           []int64 // the part of the reservation that the pool claims and that can be honoured
	entitled           []int64
	ceiling            []int64 // the most that it may use, with what it borrows of what nobody claims

	summed  bool // allocation, demand and claim are up to date
	divided bool // so are the bounds of the children
}

// newTree returns the tree of pools for a capacity, in which nobody has or asks for anything. The pools come
// in any order and without duplicates. newTree panics unless the parent of each is among them. dims are
// dimensions that come right after the fixed ones. Complexity: O(pools · (log pools + dimensions)).
func newTree(dims []string, pools []*cluster.Pool, capacity cluster.Resources) *tree {
	t := &tree{named: map[string]int{}, index: make(map[cluster.PoolPath]int32, len(pools))}
	for d := range cluster.NumDimensions {
		t.dimension(d.String())
	}
	for _, name := range dims {
		t.dimension(name)
	}
	pools = slices.SortedFunc(slices.Values(pools), func(a, b *cluster.Pool) int { return cmp.Compare(a.Path, b.Path) })
	for _, p := range pools {
		for _, r := range p.Resources {
			t.dimension(r.Dimension)
		}
	}
	t.nodes = make([]node, len(pools))
	for i, p := range pools {
		t.index[p.Path] = int32(i)
		n := &t.nodes[i]
		n.pool, n.parent = p, -1
		if above := p.Path.Parent(); above != "" {
			n.parent = t.at(above)
			parent := &t.nodes[n.parent]
			parent.children = append(parent.children, int32(i))
		}
		n.init(len(t.dims))
		for _, r := range p.Resources {
			d := t.dimension(r.Dimension)
			n.set(d, r)
			t.kept[d] = t.kept[d] || r.Reservation > 0
			t.static[d] = t.static[d] || r.Static && r.Reservation > 0 && n.parent >= 0
		}
	}
	t.setCapacity(capacity)
	return t
}

// init makes the vectors of a pool without settings.
func (n *node) init(dimensions int) {
	all := make([]int64, 8*dimensions)
	for _, v := range []*[]int64{
		&n.reservation, &n.limit, &n.allocation, &n.demand, &n.claim, &n.reserved, &n.entitled, &n.ceiling,
	} {
		*v, all = all[:dimensions:dimensions], all[dimensions:]
	}
	n.share, n.static = make([]uint64, dimensions), make([]bool, dimensions)
	for d := range dimensions {
		n.limit[d], n.share[d] = unlimited, 1
	}
}

func (n *node) set(d int, r cluster.PoolResource) {
	n.reservation[d], n.share[d], n.static[d] = max(0, r.Reservation), uint64(r.Share), r.Static
	if r.Limit != cluster.NoLimit {
		n.limit[d] = max(0, r.Limit)
	}
}

func (t *tree) at(p cluster.PoolPath) int32 {
	i, ok := t.index[p]
	if !ok {
		panic(fmt.Sprintf("pool: no pool %q", p))
	}
	return i
}

// dimension returns the index of a dimension, a new one if it has not been seen.
func (t *tree) dimension(name string) int {
	if d, ok := t.named[name]; ok {
		return d
	}
	return t.addDimension(name)
}

// addDimension adds a dimension. There is nothing of it, and nobody has or asks for any, so what has been
// divided is right for it.
func (t *tree) addDimension(name string) int {
	t.dims = append(t.dims, name)
	t.named[name] = len(t.dims) - 1
	t.kept, t.static = append(t.kept, false), append(t.static, false)
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, v := range []*[]int64{&n.reservation, &n.allocation, &n.demand, &n.claim, &n.reserved, &n.entitled, &n.ceiling} {
			*v = append(*v, 0)
		}
		n.limit, n.share, n.static = append(n.limit, unlimited), append(n.share, 1), append(n.static, false)
		if n.parent < 0 {
			n.ceiling[len(n.ceiling)-1] = unlimited
		}
	}
	return len(t.dims) - 1
}

// vector writes r by the dimensions of the tree into v, which may be nil, and returns it.
func (t *tree) vector(r cluster.Resources, v []int64) []int64 {
	for _, a := range r.Named {
		t.dimension(a.Name)
	}
	v = slices.Grow(v[:0], len(t.dims))[:len(t.dims)]
	clear(v)
	copy(v, r.Fixed[:])
	for _, a := range r.Named {
		v[t.named[a.Name]] = a.Value
	}
	return v
}

// resources is the reverse of vector.
func (t *tree) resources(v []int64) cluster.Resources {
	var r cluster.Resources
	copy(r.Fixed[:], v)
	for d := int(cluster.NumDimensions); d < len(v); d++ {
		if v[d] != 0 {
			r.Named = append(r.Named, cluster.Amount{Name: t.dims[d], Value: v[d]})
		}
	}
	slices.SortFunc(r.Named, func(a, b cluster.Amount) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// guaranteed returns what bounds the tier reserved of a pool: its reservation, and in dimensions of which no
// pool reserves anything its entitlement. In these, nothing more can be promised to anybody.
func (t *tree) guaranteed(i int32) []int64 {
	bound := slices.Clone(t.nodes[i].entitled)
	for d, kept := range t.kept {
		if kept {
			bound[d] = t.nodes[i].reserved[d]
		}
	}
	return bound
}

// keeps reports whether the vector asks for something that some pool reserves.
func (t *tree) keeps(v []int64) bool {
	for d, n := range v {
		if n > 0 && t.kept[d] {
			return true
		}
	}
	return false
}

// setCapacity sets what the root divides, at most its own limit.
func (t *tree) setCapacity(capacity cluster.Resources) {
	v := t.vector(capacity, nil)
	root := &t.nodes[0]
	for d := range t.dims {
		v[d] = min(max(0, v[d]), root.limit[d])
	}
	if !slices.Equal(v, root.entitled) || !root.divided {
		copy(root.entitled, v)
		copy(root.reserved, v)
		for d, limit := range root.limit {
			if root.ceiling[d] = limit; t.static[d] {
				root.ceiling[d] = v[d]
			}
		}
		root.divided = false
		for i := range t.nodes { // shares are measured against it
			n := &t.nodes[i]
			n.divided = n.divided && n.pool.Division != cluster.DominantResource
		}
	}
}

// setVectors sets what a leaf has and asks for, by the dimensions of the tree. The vectors are copied.
func (t *tree) setVectors(leaf int32, has, asks []int64) {
	n := &t.nodes[leaf]
	if slices.Equal(n.allocation, has) && slices.Equal(n.demand, asks) {
		return
	}
	copy(n.allocation, has)
	copy(n.demand, asks)
	n.summed = false
}

// update brings claims and bounds in line with what was set. Complexity: for each pool whose claim or bound has changed,
// O(n log n) for its parent's n children, per dimension; besides that one look at each pool.
func (t *tree) update() {
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		if n.summed {
			continue
		}
		claimed := t.sum(n)
		n.summed = true
		if n.parent >= 0 {
			parent := &t.nodes[n.parent]
			parent.summed = false
			parent.divided = parent.divided && !claimed
		}
	}
	for i := range t.nodes {
		if n := &t.nodes[i]; !n.divided {
			t.divide(int32(i))
			n.divided = true
		}
	}
}

// sum works out what a pool has, asks for and claims, and reports whether its claim has changed.
func (t *tree) sum(n *node) (changed bool) {
	for d := range t.dims {
		var claim int64
		if len(n.children) == 0 {
			claim = sum(n.allocation[d], n.demand[d])
		} else {
			n.allocation[d], n.demand[d] = 0, 0
			for _, c := range n.children {
				child := &t.nodes[c]
				n.allocation[d] = sum(n.allocation[d], child.allocation[d])
				n.demand[d] = sum(n.demand[d], child.demand[d])
				claim = sum(claim, child.claim[d])
			}
		}
		claim = min(claim, n.limit[d])
		if n.static[d] {
			claim = max(claim, n.reservation[d])
		}
		changed = changed || claim != n.claim[d]
		n.claim[d] = claim
	}
	return changed
}

// binds finds the pool that keeps the bound of node i in dimension d below what the pool wants.
func (t *tree) binds(i int32, d int, bound func(*node) []int64) cluster.PoolPath {
	n := &t.nodes[i]
	if bound(n)[d] >= sum(n.allocation[d], n.demand[d]) {
		return ""
	}
	for n.parent >= 0 && bound(n)[d] < n.claim[d] { // it gets less than it claims: that comes from above
		n = &t.nodes[n.parent]
	}
	return n.pool.Path
}

package pool

import (
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Tree is how the capacity is divided, for tests of that alone.
type Tree = tree

// NewTree returns a tree in which nobody has or asks for anything.
func NewTree(pools []*cluster.Pool, capacity cluster.Resources) *Tree {
	return newTree(nil, pools, capacity)
}

// SetCapacity sets what the root divides.
func (t *Tree) SetCapacity(capacity cluster.Resources) { t.setCapacity(capacity) }

// Update divides anew what has changed.
func (t *Tree) Update() { t.update() }

// SetAllocation sets what the tasks of a leaf hold. Negative amounts count as 0.
func (t *Tree) SetAllocation(leaf cluster.PoolPath, r cluster.Resources) {
	t.setLeaf(leaf, func(n *node) *[]int64 { return &n.allocation }, r)
}

// SetDemand sets what the waiting tasks of a leaf ask for beside what the leaf holds. Negative amounts count as 0.
func (t *Tree) SetDemand(leaf cluster.PoolPath, r cluster.Resources) {
	t.setLeaf(leaf, func(n *node) *[]int64 { return &n.demand }, r)
}

func (t *Tree) setLeaf(leaf cluster.PoolPath, which func(*node) *[]int64, r cluster.Resources) {
	i := t.at(leaf)
	v := t.vector(r, nil) // may add dimensions
	n := &t.nodes[i]
	if len(n.children) > 0 {
		panic(fmt.Sprintf("pool: pool %q has children", leaf))
	}
	for d := range v {
		v[d] = max(0, v[d])
	}
	if into := which(n); !slices.Equal(v, *into) {
		copy(*into, v)
		n.summed = false
	}
}

// Claim returns what a pool has and asks for, at most its limit, and at least its reservation where it is static.
func (t *Tree) Claim(p cluster.PoolPath) cluster.Resources {
	return t.resources(t.nodes[t.at(p)].claim)
}

// Reserved returns the part of a pool's reservation that it claims and that can be honoured.
func (t *Tree) Reserved(p cluster.PoolPath) cluster.Resources {
	return t.resources(t.nodes[t.at(p)].reserved)
}

// Entitlement returns what a pool may claim against others. Of the root it is the capacity.
func (t *Tree) Entitlement(p cluster.PoolPath) cluster.Resources {
	return t.resources(t.nodes[t.at(p)].entitled)
}

// Ceiling returns a pool's part of what it may use, by borrowing what nobody claims. It is never more than the pool claims,
// save for the root, whose ceiling is the capacity where a pool has a static reservation, else its limit, math.MaxInt64 if it has none.
func (t *Tree) Ceiling(p cluster.PoolPath) cluster.Resources {
	return t.resources(t.nodes[t.at(p)].ceiling)
}

// BoundBy returns the pool, itself or one above, that keeps the pool's entitlement in the dimension below what it has and
// asks for: the one whose own limit is reached, or the one that is to divide less than its children claim. It is "" if
// nothing does. Complexity: the depth of the pool.
func (t *Tree) BoundBy(p cluster.PoolPath, dimension string) cluster.PoolPath {
	d, ok := t.named[dimension]
	if !ok {
		return ""
	}
	return t.binds(t.at(p), d, func(n *node) []int64 { return n.entitled })
}

// Tree returns the division of the capacity, as of the last Run. The caller must not modify it.
func (a *Admission) Tree() *Tree { return a.tree }

// Package flowgraph holds a directed flow network that persists and changes.
//
// The network is the input of a minimum-cost-flow problem:
//
//	minimize   Σ cost(a)·x(a)
//	subject to Σ x(a) over arcs out of v  −  Σ x(a) over arcs into v = supply(v)
//	           lower(a) ≤ x(a) ≤ upper(a)
//
// Terms are those of Ahuja, Magnanti and Orlin, Network Flows (1993).
//
// # Conventions
//
// supply > 0 is a source, supply < 0 a sink. Reduced cost of an arc is
//
//	c(a) + π(tail) − π(head)
//
// and a flow is optimal exactly when no residual arc has a negative one. Bounds
// satisfy 0 ≤ lower ≤ upper; upper may be [Infinite]. Any digraph is allowed:
// parallel arcs (a convex price is a bundle of them), loops, negative costs,
// several components.
//
// # Identity
//
// [NodeID] and [ArcID] are small dense indices, meant to index a caller's own
// parallel slices of length [Network.NodeBound] and [Network.ArcBound]. An id
// is stable while its node or arc lives and is reused, last freed first, after
// removal. Using an id that is not alive is a programming error and panics, as
// does a bound that breaks 0 ≤ lower ≤ upper.
//
// # Changes
//
// The network remembers which nodes and arcs were touched, not how: a reader
// keeps the [Seq] up to which it has read and its own copy of what it knew, and
// [Network.Changes] tells it what to compare again. Any number of readers may
// follow one network, each at its own pace; none needs to register.
//
// # Determinism and concurrency
//
// The same calls in the same order give the same ids, the same iteration order
// and the same log. Verbs that change the network need exclusive access; any
// number of goroutines may read while none changes it.
package flowgraph

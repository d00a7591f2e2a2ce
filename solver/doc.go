// Package solver is the contract of minimum-cost-flow solvers on a
// [flowgraph.Network] that changes, and the certificate that checks them.
//
// # Problem
//
// As stated in package flowgraph: supply > 0 is a source, and the reduced cost
// of an arc is c(a) + π(tail) − π(head). A result is [Optimal] when its flow
// keeps every bound and every node's balance, and its potentials leave no arc
// with flow below its upper bound at a negative reduced cost and none above its
// lower bound at a positive one (complementary slackness). [Verify] checks just
// that.
//
// # Statuses
//
// Everything that can be wrong with a problem is a [Status], not an error; an
// error from Solve means that the solver itself could not run. Only an Optimal
// result has a flow: one that is merely close is never handed out.
//
// # Warm solves
//
// A solver called again with the same network continues from its last state and
// looks only at what was touched since ([flowgraph.Network.Changes]); called
// with another network it starts cold. Called again after [BudgetSpent] it goes
// on, with any changes made in between. When no new maximum of size is reached,
// a warm solve does not allocate.
//
// # Determinism
//
// The same history of the network and of budgets gives the same flow. Two
// solvers agree on status and objective; where optima tie their flows may
// differ. No solver reads a clock: effort is counted in work units, of which
// one is an arc examined, so that two solvers can be advanced side by side in
// equal quanta.
//
// # Concurrency and ownership
//
// A solver is used by one goroutine at a time. Several may solve one network
// concurrently while nobody changes it. A solver owns everything it returns.
package solver

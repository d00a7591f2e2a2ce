// Package pool decides what each pool of the tree may have and which of its tasks may claim it.
//
//	settings, capacity ─► tree ──────► reserved ≤ entitled ≤ ceiling, per pool and dimension
//	                       ▲  claims         │ bounds of the leaves
//	groups of equal tasks ─┴► Admission ◄────┘ ─► Grants: how many run and wait in which tier, what binds the rest
//	                                              Policy, Ledger: who may be stopped for whom
//
// # Entitlement
//
// The tree of pools divides the capacity from the root down, each dimension by itself. A leaf claims what it has and asks
// for, at most its limit. If it is at a limit, it claims what its tasks would hold if the limit alone decided, whoever of
// them runs. A static pool claims its reservation in any case. An inner pool claims the sum of its children, at most its
// limit. What the parent is entitled to goes to the children in two steps:
//
//  1. Each gets the smaller of its claim and its reservation. If the parent cannot give as much (a host was lost, say),
//     the reservations are scaled: weighted max-min with the reservations as weights.
//  2. The rest goes to those who claim more: weighted max-min with the shares as weights. A share of 0 gets nothing here.
//
// Nothing is given to a pool that does not claim it, so an entitlement never exceeds the claim. Under the division
// DominantResource step 2 equalizes dominant shares instead. They are measured against the most that the parent may have,
// less what its entitlement falls short of its claim.
//
// How much a pool may use beyond its entitlement is its ceiling: a second division by the same rule, of the parents' limits
// instead of the capacity. In a dimension with a static reservation the root's ceiling is the capacity, so that nobody
// borrows the reservation. While a leaf has more there than its ceiling, no other borrows up to its own, but only what is
// left. What whole tasks and cores cannot use of the ceilings is granted last, across leaves, to those who have waited
// longest.
//
// Amounts are integers in the unit of their dimension. Max-min fairness is computed exactly, by sorting. Remainders go one
// unit each to the largest fractions, then in the order of the paths. More demand or a larger share never lowers a pool's
// own entitlement in its parent.
//
// # Admission
//
// An [Admission] holds the queue of every leaf as groups of tasks that are alike, and walks each in its order with exact
// vectors. Every task gets the strongest tier whose bound it fits into in all dimensions:
//
//	reserved   within the pool's reservation, as far as it can be honoured now
//	entitled   within its entitlement
//	borrowed   within its ceiling: on what nobody claims
//	refused    the pool or dimension that binds is named
//
// The tier reserved looks at a dimension only if some pool reserves something of it; in the others the entitlement stands
// for the reservation. Work that asks for no such dimension at all is entitled at best.
//
// Tasks that may not be preempted are admitted in the tier reserved only, or like all others if they ask for nothing that
// any pool reserves. They may fit into a reservation, but not into what of it can be honoured, or not into their leaf's part
// of what nobody reserves. Then they borrow what others leave over of the capacity. Revocable tasks are admitted against
// measured slack only.
//
// Waiting work is ordered by priority, raised one step in each ageing interval, then by age. It goes before running work
// only if its own priority, without ageing, is higher. So a tier never tells the cycle to stop what it may not stop.
//
// The first unit of a queue that fits into a bound as a whole but not now keeps that bound for itself. Others pass it if
// they fit beside it, if it may preempt them (preemptible and of lower priority), or if their run-time limit ends before
// the limits of what runs say that it can start.
//
// # How a cycle uses it
//
//	a := pool.NewAdmission(pools, capacity)     // SetCapacity, SetSlack when they change; another one for other pools
//	a.SetQueue(path, groups)                    // for every leaf whose groups changed
//	a.Run(now)
//	for i, g := range a.Grants(path) { … }      // parallel to groups: tiers of groups[i]
//	a.Status()                                  // what each pool has, claims and is entitled to, for those who ask
//	ledger := a.Ledger()                        // allocations, for planning preemption one unit after the other
//	to := ledger.Beneficiary(unit, dims)        // to.MayStop(donor): the laws, by the policy of their lowest common parent
//
// Complexity: Run costs the groups of all queues and the part of the tree whose claims changed, with a logarithmic factor for
// sorting; it never depends on the number of tasks. Everything is deterministic. Nothing here is
// safe for concurrent use.
//
// Sources: weighted max-min fairness by progressive filling is Bertsekas and Gallager, Data Networks (2nd ed., 1992,
// section 6.5.2); dominant resource fairness is Ghodsi et al., NSDI 2011; backfilling with a reservation for the head of
// the queue is EASY, Lifka, JSSPP 1995.
package pool

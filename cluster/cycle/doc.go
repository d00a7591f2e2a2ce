// Package cycle is the pure core of the scheduler: from a snapshot of the cluster to a plan.
//
//	changes ─► ingest ─► classes, rows ─► network ─► solve ─► commit what fits ─► insert ─► placements, reasons
//	                                        ▲                      │
//	                                        └── rounds, price-out ─┘
//
// A [Planner] keeps the flow network between cycles and changes it only where the cluster changed. Its pieces:
//
//   - A class is the set of waiting tasks that placement cannot tell apart: one node whose supply is their number.
//   - A row is the list of all hosts that can take one more task of a given request and constraint, by price. Classes
//     that ask for the same thing share a row. Rows are not part of the network.
//   - Only hosts that are candidates of some class have nodes. A class begins with its cheapest few; after a solve the
//     potentials tell whether any host left out would lower the cost, and those are added until none would (price-out),
//     or none by more than a tolerance. The flow is then as good as that of the complete network, up to the tolerance, at
//     the size of what is placed and not of the cluster.
//
// A [Supervisor] has a planner for the cost model in use, and another one for another model when that turns out to be broken.
//
// One unit of flow is one task, but tasks are vectors. So the flow is turned into placements by exact arithmetic, host
// by host; what does not fit is taken out, and the rest is solved again with the room that is left, a few rounds. What
// still waits then and fits somewhere is inserted one by one, and starts that stand in the way of what is worth more are made
// elsewhere or not at all. No plan over-commits a host, and nothing waits that fits.
//
// Everything here is deterministic: the same history of calls gives the same plans. Time is an input.
package cycle

// Package cycle is the pure core of the scheduler: from a snapshot of the cluster to a plan.
//
//	changes ─► ingest ─► classes, rows ─► network ─► solve ─► commit what fits ─► insert ─► placements, reasons
//	                                        ▲                      │
//	                                        └── rounds, price-out ─┘
//
// [Planner.Run] is one cycle. A Planner keeps the flow network between cycles and changes it only where the cluster
// changed. Its pieces:
//
//   - A class is the set of waiting tasks that placement cannot tell apart: one node whose supply is their number.
//   - A row is the list of all hosts that can take one more task of a given request and constraint, by price. Classes
//     that ask for the same thing share a row. Rows are not part of the network.
//   - Only hosts that are candidates of some class have nodes. A class begins with its cheapest few. After a solve the
//     potentials tell whether a host that was left out would lower the cost. Such hosts are added until none would by more
//     than a tolerance (price-out). The flow is then as good as that of the complete network, up to the tolerance, but the
//     network has the size of what is placed and not of the cluster.
//
// One unit of flow is one task, but tasks are vectors. So the flow is turned into placements by exact arithmetic, host by
// host. What does not fit is taken out, and the rest is solved again with the room that is left, a few rounds. What still
// waits then and fits somewhere is inserted one by one. Starts that stand in the way of what is worth more are made
// elsewhere or not at all. No plan over-commits a host, and nothing waits that fits.
//
// A [Supervisor] has a planner for the cost model in use. When that model turns out to be broken, it has one for another
// model.
//
// Everything here is deterministic: the same history of calls gives the same plans. Time is an input. docs/cycle.md tells it
// step by step.
package cycle

// Package cluster is the vocabulary that everything else depends on: ids, resource vectors, constraints, pools, jobs,
// tasks, hosts, the events that change them, and the State that those events add up to.
//
// The way of the data is one: an [Event] is decided, made durable by the journal, and then applied to the [State] by
// [State.Apply], which is the only way to change it. Everything that reads (the cycle, the API, checkpoints) reads a
// [Snapshot], an immutable view that costs O(1) to take because the tables underneath are copied on write.
//
// Nothing here reads a clock, draws a random number or iterates a Go map: the same events give the same State. Records
// reachable from a Snapshot are shared and must not be modified; State replaces them.
//
// The package imports the standard library, cluster/radix, in which the large tables lie, and tidwall/btree for the others: an ordered
// map with O(1) copies is exactly what deterministic, immutable snapshots need, and it is well kept.
package cluster

// Package cluster is the vocabulary that everything else depends on: ids, resource vectors, constraints, pools, jobs,
// tasks, hosts, the events that change them, and the State that those events add up to.
//
// Data takes one way only. An [Event] is decided, made durable by the journal, and then applied to the [State].
// [State.Apply] is the only way to change a State. Everything that reads (the cycle, the API, checkpoints) reads a
// [Snapshot]: an immutable view that costs O(1) to take, because the tables underneath are copied on write.
//
// Nothing here reads a clock, draws a random number or iterates a Go map: the same events give the same State. Records
// reachable from a Snapshot are shared and must not be modified; State replaces them.
//
// Beside the standard library the package imports cluster/radix for the large tables and tidwall/btree for the others. An
// ordered map with O(1) copies is exactly what deterministic, immutable snapshots need, and that library is well kept.
package cluster

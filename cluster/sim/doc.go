// Package sim runs the production scheduler against a cluster that exists in memory, on a virtual clock: from a trace to
// what would have become of it.
//
//	trace ─► arrivals ─► scheduler: writer ─► journal ─► State ─► snapshot ─► cycle.Planner ─► placements
//	                         ▲  rules.Report                          │ durable states
//	                         │  rules.Reconcile                       ▼ launches, kills
//	                        link ◄────── statuses, hosts ────── fleet driver ◄── faults
//
// What decides is the production code: cluster.State, cluster/rules, cluster/cycle, cluster/journal in memory and
// hostmgr/fleet. What is new here is only what cluster/serve does with goroutines and the wall clock, and what a shard
// does with a network: [scheduler] and [link] do the same, step by step, as functions of one event loop, the fleet's
// VirtualClock. Batches, the sync of the journal, the batch window and the planning itself take virtual time, so that
// what may happen in between in production happens in between here.
//
// The same configuration and seed give the same history: [Result.Hash] is the digest of all records in the journal's
// encoding. Wall time enters through Config.Stopwatch only, and ends up in latencies only.
//
// Every record is judged by package check, which shares no code with what it judges.
package sim

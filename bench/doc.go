// Package bench measures solvers on scheduling networks that change from cycle
// to cycle.
//
// A [Workload] declares a cluster and what happens to it; a [Cluster] plays it
// from a seed on one [flowgraph.Network], through the verbs of that package
// alone; [Run] lets any number of solvers follow that one network, each cycle
// one after the other, and times them. The first solver leads: where its flow
// puts tasks decides which arcs become running arcs. The same workload, seed
// and leader give the same history, and the others solve just those networks.
//
// # The network
//
// It is the one of Quincy (Isard et al., SOSP 2009, §4). Waiting is dearest,
// then come any host, any host of a rack, a preferred host:
//
//	task ──► unscheduled aggregator of its job ──► sink
//	task ──► preferred hosts ──► sink
//	task ──► racks of some of them ──► their hosts
//	task ──► cluster aggregator ──► racks
//
// Merged, the tasks of a job that share a pattern of preferences are one class
// with supply; arcs of a class may be bounded, and the prices of waiting and of
// load on a host convex, as parallel arcs. What runs has a cheaper arc to where
// it runs: a task's own arc re-priced, or an arc of a class that holds just its
// running tasks.
//
// # What is timed
//
// Apply is the time of the verbs, solve that of [solver.Solver.Solve], read
// that of comparing the flow of every arc in Changed with the flow known
// before. Drawing random numbers, deciding what happens next and pairing
// aggregated flow with hosts is the workload's own and not timed.
package bench

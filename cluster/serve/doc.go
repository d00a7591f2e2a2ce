// Package serve is the shell around the pure core: it owns the clock, the one goroutine that writes, the loop that
// runs cycles, the sessions with host-manager shards, and the gRPC services.
//
//	gRPC services ─┐                                ┌─► watchers (API streams)
//	shard sessions ┼─► Do(tx) ─► writer ─► journal ─┼─► planner loop ─► Do(placements)
//	deadlines ─────┘             (State) (durable)  └─► shard sessions ─► launch, kill
//
// Every change is a function that runs in the writer, checks its preconditions against the State and emits events. The
// writer makes a batch of them durable with one sync, and only then publishes the new Snapshot, wakes the watchers and
// lets the callers go on: nothing is acknowledged or acted on before it is durable. What is to be done in the world
// (launch, kill, release) is never a message that could be lost on the way; a session derives it from the durable
// state of the tasks on its hosts, after a restart as well as after a change.
package serve

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// tuneRuntime suits Go's runtime to a process that plans, as far as the environment does not say otherwise.
//
// The heap may grow to three times what is alive: at 12,500 hosts and 150,000 tasks 190 MB are alive and a cycle leaves some 15 MB
// behind; the cycles during which garbage is collected are the slowest, and there are half as many of them as at Go's own setting.
//
// Three times what is alive may be more than the machine has, as where a replay of millions of tasks also keeps its measurements: as
// the heap comes near to most of the memory of the machine, or of the control group, garbage is collected more often.
//
// One goroutine more may run than there are processors: one that syncs the journal keeps its turn until the runtime notices that
// it waits for the disk, in a quiet moment 10 ms later. On two processors that was the other one, on which rows are priced.
var tuneRuntime = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	// It leaves GOMEMLIMIT alone. Without a limit that it can find, there is none.
	_, _ = memlimit.Set(memlimit.WithRatio(memoryPart), memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)))
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

// memoryPart is what part of the memory the heap may take before garbage is collected more often: the journal maps files beside it.
const memoryPart = 0.7

// restCollector collects garbage in the pauses between cycles, long before the heap is so large that a cycle would have to
// help. Go collects all the same where there are no pauses. Its methods are safe for concurrent use.
type restCollector struct{ busy atomic.Bool }

// due reports whether the heap has grown by half since the last collection, and nothing collects.
func (c *restCollector) due() bool {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	alive, now := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	return now > alive+alive/2 && now-alive > leastGarbage && c.busy.CompareAndSwap(false, true)
}

// leastGarbage is what a collection has to be worth.
const leastGarbage = 8 << 20

// collect collects garbage if it is due, and returns how long that took; 0 if it was not.
func (c *restCollector) collect() time.Duration {
	if !c.due() {
		return 0
	}
	defer c.busy.Store(false)
	begun := time.Now()
	collectGarbage()
	return time.Since(begun)
}

// begin lets garbage be collected if that is due, and returns at once.
func (c *restCollector) begin() {
	if c.due() {
		go func() {
			defer c.busy.Store(false)
			collectGarbage()
		}()
	}
}

// collectGarbage collects garbage, and before that gets memory from the system for as much as the heap may grow until the next time.
// A page that a cycle is the first to touch costs it microseconds: where the state grows, some cycles took twice as long for
// thousands of them. The collection frees what was got, and the runtime keeps a tenth of the heap in reserve.
func collectGarbage() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(heap)
	if used, free := heap[0].Value.Uint64(), heap[1].Value.Uint64(); free < used/32 {
		touch(make([]byte, used/12))
	}
	runtime.GC()
}

// touch has the system back all of it with memory.
func touch(room []byte) {
	const page = 4096 // none is smaller
	for ; len(room) > 0; room = room[min(page, len(room)):] {
		room[0] = 1
	}
}

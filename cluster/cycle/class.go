package cycle

import (
	"math/bits"
	"time"

	"github.com/tidwall/btree"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ClassKey names a class by everything about a waiting task that prices or bounds depend on. Keys are comparable.
type ClassKey struct {
	pool     cluster.PoolPath
	jobType  cluster.JobType
	priority int32
	row      rowKey
}

// rowKey holds what decides which hosts can take a task, and at which price.
type rowKey struct {
	fixed      [cluster.NumDimensions]int64
	named      string
	constraint string
}

// KeyOf returns the class that waiting tasks of a job with this spec belong to.
func KeyOf(spec *cluster.JobSpec) ClassKey {
	request := spec.Task.Resources
	k := ClassKey{pool: spec.Pool, jobType: spec.Type, priority: spec.Priority, row: rowKey{fixed: request.Fixed}}
	if len(request.Named) > 0 {
		k.row.named = cluster.Resources{Named: request.Named}.String()
	}
	if spec.Constraint != nil {
		k.row.constraint = spec.Constraint.String()
	}
	return k
}

// waiter is a task in the queue of its class.
type waiter struct {
	queued cluster.Time
	task   cluster.TaskKey
	run    uint32 // the number that its next run gets
}

func earlier(a, b waiter) bool {
	if a.queued != b.queued {
		return a.queued < b.queued
	}
	return a.task < b.task
}

// class is the waiting tasks that placement cannot tell apart: one node of the network.
type class struct {
	key   ClassKey
	seen  costmodels.Class // as the cost model sees it
	queue *btree.BTreeG[waiter]
	row   *row
	price flowgraph.Cost // of waiting

	node  flowgraph.NodeID
	wait  flowgraph.ArcID
	links []*link         // arcs to candidate hosts, in the order they were added
	to    map[int32]*link // the same by host index
}

func newClass(key ClassKey, spec *cluster.JobSpec, row *row) *class {
	return &class{
		key: key, row: row,
		seen:  costmodels.Class{Pool: spec.Pool, Type: spec.Type, Priority: spec.Priority, Request: spec.Task.Resources},
		queue: btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true}),
		node:  flowgraph.NoNode,
		wait:  flowgraph.NoArc,
		to:    map[int32]*link{},
	}
}

// age sets how long the head of the class has waited, in stages.
func (c *class) age(now cluster.Time) {
	if head, ok := c.queue.Min(); ok {
		c.seen.Stage = bits.Len64(uint64(max(0, now.Sub(head.queued)) / time.Second))
	}
}

func (c *class) waiting() int64 { return int64(c.queue.Len()) }

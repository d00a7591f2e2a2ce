package cycle

import (
	"fmt"
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
	inputs   string
	row      rowKey
}

// rowKey holds what decides which hosts can take a task, and at which price.
type rowKey struct {
	fixed      [cluster.NumDimensions]int64
	named      string
	devices    string
	needs      cluster.Capabilities
	constraint string
}

// KeyOf returns the class that an instance of a job with this spec belongs to while it waits.
func KeyOf(spec *cluster.JobSpec, instance uint32) ClassKey {
	task := spec.TaskOf(instance)
	request := task.Resources
	k := ClassKey{pool: spec.Pool, jobType: spec.Type, priority: spec.Priority, row: rowKey{fixed: request.Fixed, needs: task.Needs()}}
	if len(request.Named) > 0 {
		k.row.named = cluster.Resources{Named: request.Named}.String()
	}
	if gpu := &task.GPU; len(gpu.Models) > 0 || gpu.Milli > 0 { // otherwise the amount says it all
		k.row.devices = fmt.Sprintf("%d %q", gpu.Milli, gpu.Models)
	}
	if ports := &task.Ports; !ports.IsZero() {
		k.row.devices += fmt.Sprintf(" %d %d", ports.Numbers, ports.Dynamic)
	}
	if spec.Constraint != nil {
		k.row.constraint = spec.Constraint.String()
	}
	for _, in := range inputsOf(spec, instance) {
		k.inputs += fmt.Sprintf("%d %q %q;", in.Bytes, in.Hosts, in.Racks)
	}
	return k
}

// inputsOf returns the inputs that the instance reads.
func inputsOf(spec *cluster.JobSpec, instance uint32) []cluster.Input {
	var read []cluster.Input
	for _, in := range spec.Inputs {
		if in.First <= instance && instance <= in.Last {
			read = append(read, in)
		}
	}
	return read
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
	local locality

	node  flowgraph.NodeID
	wait  flowgraph.ArcID
	links []*link         // arcs to candidate hosts, in the order they were added
	to    map[int32]*link // the same by host index
}

func newClass(key ClassKey, spec *cluster.JobSpec, inputs []cluster.Input, row *row) *class {
	return &class{
		key: key, row: row,
		seen:  costmodels.Class{Pool: spec.Pool, Type: spec.Type, Priority: spec.Priority, Request: costmodels.Request{Task: row.task}, Inputs: inputs},
		queue: btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true}),
		node:  flowgraph.NoNode,
		wait:  flowgraph.NoArc,
		to:    map[int32]*link{},
	}
}

// start returns the price of starting a task of the class on a host that is open to it.
func (c *class) start(i int32) flowgraph.Cost {
	return clamp(c.row.entry[i].price() + c.local.extra(i))
}

// age sets how long the head of the class has waited, in stages.
func (c *class) age(now cluster.Time) {
	if head, ok := c.queue.Min(); ok {
		c.seen.Stage = bits.Len64(uint64(max(0, now.Sub(head.queued)) / time.Second))
	}
}

func (c *class) waiting() int64 { return int64(c.queue.Len()) }

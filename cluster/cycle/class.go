package cycle

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/tidwall/btree"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ClassKey names a class by everything about a waiting task that prices or bounds depend on. Keys are comparable.
type ClassKey struct {
	group  groupKey
	ahead  bool   // was preempted, and goes first; of the core of a gang see waiter
	inputs string // and images
	stage  int    // of the user's estimate of the run time; see costmodels.Class.Estimate
	row    rowKey
}

// rowKey holds what decides which hosts can take a task, and at which price.
type rowKey struct {
	fixed [cluster.NumDimensions]int64
	named string
	gpu   string
	ports string
	needs cluster.Capabilities
	// revocable: on slack, and not on what is free.
	revocable bool

	rules string // of the job, as they hold at this stage of waiting
	self  setKey // the tasks that the rules count as their own, if any do
	work  string // see cluster.WorkOf
}

// KeyOf returns the class that a task belongs to at that time while it waits, for a model to which data matters.
func KeyOf(snap *cluster.Snapshot, j *cluster.Job, t *cluster.Task, now cluster.Time) ClassKey {
	spec := j.SpecFor(t)
	task := spec.TaskOf(t.Key.Instance())
	k := classKeyOf(snap, j.UID, spec, task)
	yielded, _ := spec.Yielded(t.Queued, now)
	k.row.rules, k.row.self = rulesKey(wishes{spec: spec, hosts: snap.HostsOf(spec.Pool), copy: t.Copy, yielded: yielded}, keyOfSet(j.UID, cluster.MergePairs(spec.Labels, task.Labels)))
	return k.of(spec, t, cluster.IndexInputs(spec.Inputs), true)
}

// classKeyOf returns what the tasks of a job that ask for the same have in common.
func classKeyOf(snap *cluster.Snapshot, job cluster.JobUID, spec *cluster.JobSpec, task *cluster.TaskSpec) ClassKey {
	request := task.Resources
	k := ClassKey{row: rowKey{fixed: request.Fixed, needs: spec.NeedsFor(task), revocable: spec.Revocable, work: cluster.WorkOf(spec)}}
	if spec.Estimate > 0 {
		k.stage = max(1, stageOf(spec.Estimate))
	}
	if len(request.Named) > 0 {
		k.row.named = cluster.Resources{Named: request.Named}.String()
	}
	if gpu := &task.GPU; len(gpu.Models) > 0 || gpu.Milli > 0 { // otherwise the amount says it all
		k.row.gpu = fmt.Sprintf("%d %q", gpu.Milli, gpu.Models)
	}
	if ports := &task.Ports; !ports.IsZero() {
		k.row.ports = fmt.Sprintf("%v %d", ports.Numbers, ports.Dynamic)
	}
	k.group = groupKeyOf(snap, job, spec)
	k.group.fixed, k.group.named = k.row.fixed, k.row.named
	return k
}

// of completes the key for one of the job's tasks; localizes: data and images matter.
func (k ClassKey) of(spec *cluster.JobSpec, t *cluster.Task, inputs cluster.InputIndex, localizes bool) ClassKey {
	instance := t.Key.Instance()
	if spec.Core(instance) { // all of them are one class, whatever tells them apart
		k.group.gang, k.group.job = true, t.Key.Job()
		instance = 0
	} else {
		k.ahead = t.Ahead
		k.group.controller = spec.Controller && instance == 0
	}
	if !localizes {
		return k
	}
	for _, in := range inputs.Of(instance) {
		k.inputs += fmt.Sprintf("%d %q %q %q;", in.Bytes, in.Hosts, in.Racks, in.Zones)
	}
	for _, image := range cluster.ImagesOf(spec.TaskOf(instance)) {
		k.inputs += fmt.Sprintf("%q %d;", image.Name, image.Bytes)
	}
	if k.inputs != "" {
		k.inputs += fmt.Sprintf("%v %v", said(spec.HostWait), said(spec.RackWait))
	}
	return k
}

// said renders what may not be said.
func said(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return d.String()
}

// waiter is a task in the queue of its class.
type waiter struct {
	queued cluster.Time
	task   cluster.TaskKey
	run    uint32 // the number that its next run gets
	ahead  bool   // was preempted
	set    *labelSet
}

func earlier(a, b waiter) bool {
	if a.queued != b.queued {
		return a.queued < b.queued
	}
	return a.task < b.task
}

// waiters is those who wait in a class. It keeps the first of them, which is asked for most.
type waiters struct {
	*btree.BTreeG[waiter]
	first waiter
	some  bool
}

// Min returns the first.
func (q *waiters) Min() (waiter, bool) { return q.first, q.some }

// Set adds one.
func (q *waiters) Set(w waiter) {
	q.BTreeG.Set(w)
	q.see()
}

// Delete takes one out.
func (q *waiters) Delete(w waiter) {
	q.BTreeG.Delete(w)
	q.see()
}

// PopMin takes the first out.
func (q *waiters) PopMin() (waiter, bool) {
	w, ok := q.BTreeG.PopMin()
	q.see()
	return w, ok
}

func (q *waiters) see() { q.first, q.some = q.BTreeG.Min() }

// class is the waiting tasks that placement cannot tell apart: one node of the network.
type class struct {
	key   ClassKey
	group *group
	job   cluster.JobID    // the first whose task was in it
	seen  costmodels.Class // as the cost model sees it
	queue waiters
	row   *row
	price flowgraph.Cost // of waiting, before the tier's step
	local locality

	left    [cluster.NumTiers]int64 // admitted and not placed, by tier
	over    [cluster.NumTiers]int64 // the same of those that a limit keeps from starting now; see bind
	limited pool.Binding            // which one
	refused int64                   // not admitted
	why     pool.Binding            // what keeps some of them from claiming room
	vain    bool                    // no room could be made for its claims, and the plan got no further; see passOn
	gone    bool                    // forgotten

	// In this cycle:
	nominees int               // of this displacement pass: so many of the first of the queue
	large    bool              // no host has room for two, even if it is empty
	skipped  bool              // a gang that cannot be whole
	passed   bool              // its claims went to those next in the pool
	behind   bool              // it starts after the core of its gang, of which nobody has begun
	hostless bool              // see isHostless; where limits count or bound what runs
	bides    cluster.Time      // until when its claims wait for what comes free by itself, 0 for not
	placed   []cluster.TaskKey // by the last plan that solved, or given room
	moving   int64             // running tasks that the flow may send here from slot nodes
	pays     flowgraph.Cost    // what the dearest of these would pay for another place
	dearest  flowgraph.Cost    // what the dearest of those that the last solve placed or left waiting pays
	finds    flowgraph.Cost    // see elsewhere, as least; as of that pass of offers
	least    flowgraph.Cost
	sought   int
	choice   int            // see lacking
	hopes    flowgraph.Cost // see lacking

	node  flowgraph.NodeID
	wait  [cluster.NumTiers]flowgraph.ArcID
	links links // to candidate hosts
}

func newClass(key ClassKey, g *group, spec *cluster.JobSpec, task *cluster.TaskSpec, inputs []cluster.Input, images []cluster.Image, row *row) *class {
	c := &class{
		key: key, group: g, row: row, job: spec.Name,
		seen: costmodels.Class{
			Request: costmodels.Request{Task: task, Work: key.row.work, Route: row.request.Route},
			Pool:    spec.Pool, Type: spec.Type, Priority: spec.Priority, Inputs: inputs, Images: images, Estimate: key.stage,
			HostWait: spec.HostWait, RackWait: spec.RackWait,
		},
		queue: waiters{BTreeG: btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true})},
		node:  flowgraph.NoNode,
	}
	for t := range c.wait {
		c.wait[t] = flowgraph.NoArc
	}
	return c
}

// tierSteps is what a unit of each tier costs to leave waiting, on top of the price of waiting. No sum of
// prices of a weaker tier reaches the step of a stronger one.
var tierSteps = [cluster.NumTiers]flowgraph.Cost{
	cluster.TierReserved: 1 << 36,
	cluster.TierEntitled: 1 << 33,
	cluster.TierBorrowed: 0,
}

// open returns how many units are admitted and not placed.
func (c *class) open() int64 {
	var n int64
	for _, left := range c.left {
		n += left
	}
	return n
}

// overall returns how many units are admitted and may not start now because of a limit.
func (c *class) overall() (n int64) {
	for _, over := range c.over {
		n += over
	}
	return n
}

// flows reports whether the flow has units of the class to place.
func (c *class) flows() bool { return c.open() > 0 && !c.skipped }

// claims returns how many of the units that wait their pool may claim room for.
func (c *class) claims() int64 { return c.left[cluster.TierReserved] + c.left[cluster.TierEntitled] }

// allClaims returns claims, with those that may not start now because of a limit.
func (c *class) allClaims() int64 {
	return c.claims() + c.over[cluster.TierReserved] + c.over[cluster.TierEntitled]
}

// tier returns the strongest tier in which a unit is left.
func (c *class) tier() cluster.Tier {
	for t, left := range c.left {
		if left > 0 {
			return cluster.Tier(t)
		}
	}
	return cluster.TierBorrowed
}

// worth returns what placing the next unit saves: its price of waiting and the step of its tier.
func (c *class) worth() flowgraph.Cost { return c.price + tierSteps[c.tier()] }

// giveBack counts one unit as not placed, in the tier it had.
func (c *class) giveBack(t cluster.Tier) { c.left[t]++ }

// take counts n units as placed, strongest tier first.
func (c *class) take(n int64) {
	for t := range c.left {
		taken := min(n, c.left[t])
		c.left[t] -= taken
		n -= taken
	}
}

// total returns what a task of the class pays for starting on an open host of its row.
func (c *class) total(s slot) flowgraph.Cost { return clamp(s.price() + c.local.extra(s.index())) }

// accepts returns the price of starting a task of the class on the host, and whether it would start there
// rather than wait. For that the host must be open to it, and not so dear that the class waits for a better
// one.
func (c *class) accepts(i int32) (flowgraph.Cost, bool) { return c.acceptsAt(i, c.local.extra(i)) }

// acceptsAt is accepts where the price of reading the inputs is known.
func (c *class) acceptsAt(i int32, reading flowgraph.Cost) (flowgraph.Cost, bool) {
	s, ok := c.row.price(i)
	if !ok {
		return 0, false
	}
	price := clamp(s.price() + reading)
	return price, price < c.price
}

// age sets how long the head of the class has waited, in stages.
func (c *class) age(now cluster.Time) {
	if head, ok := c.queue.Min(); ok {
		c.seen.Stage = stageOf(now.Sub(head.queued))
	}
}

// stageOf returns 0 below a second, and s from 2^(s−1) seconds on.
func stageOf(d time.Duration) int { return bits.Len64(uint64(max(0, d) / time.Second)) }

func (c *class) waiting() int64 { return int64(c.queue.Len()) }

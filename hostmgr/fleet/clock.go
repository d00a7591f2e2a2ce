package fleet

import (
	"container/heap"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Clock is where a fleet's time comes from.
type Clock interface {
	// Now returns the present, which is after 0.
	Now() cluster.Time
	// AfterFunc runs fn when d has passed, never before it returns itself. Functions run one after the other, in the
	// order of their times, those of the same time in the order in which they were given. stop takes fn back if it has
	// not begun.
	AfterFunc(d time.Duration, fn func()) (stop func())
}

// VirtualClock is a Clock that moves only when it is told to. It is safe for concurrent use.
type VirtualClock struct {
	moving sync.Mutex // held while functions run

	mu    sync.Mutex
	now   cluster.Time
	made  uint64
	queue timers
}

var _ Clock = (*VirtualClock)(nil)

// NewVirtualClock returns a clock that shows the given time, which must be after 0.
func NewVirtualClock(now cluster.Time) *VirtualClock { return &VirtualClock{now: now} }

// Now implements Clock.
func (c *VirtualClock) Now() cluster.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements Clock. Complexity: O(log timers).
func (c *VirtualClock) AfterFunc(d time.Duration, fn func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	t := &timer{at: c.now.Add(max(0, d)), order: c.made, fn: fn}
	if t.at == cluster.Forever {
		return func() {}
	}
	heap.Push(&c.queue, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.index >= 0 {
			heap.Remove(&c.queue, t.index)
		}
	}
}

// Next returns when the next function is due; false if there is none.
func (c *VirtualClock) Next() (cluster.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return 0, false
	}
	return c.queue[0].at, true
}

// Advance moves the clock by d and runs what becomes due on the way, each at its own time. It must not be called by a
// function that the clock runs.
func (c *VirtualClock) Advance(d time.Duration) {
	c.moving.Lock()
	defer c.moving.Unlock()
	end := c.Now().Add(d)
	for fn := c.pop(end); fn != nil; fn = c.pop(end) {
		fn()
	}
}

// pop moves to the next function that is due until end, or else to end.
func (c *VirtualClock) pop(end cluster.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || c.queue[0].at > end {
		c.now = end
		return nil
	}
	t := heap.Pop(&c.queue).(*timer)
	c.now = t.at
	return t.fn
}

// timer is a function that waits for its time.
type timer struct {
	at    cluster.Time
	order uint64
	fn    func()
	index int // in the heap, −1 when it has left it
}

// timers is a heap by time, then order.
type timers []*timer

func (q timers) Len() int { return len(q) }

func (q timers) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}

func (q timers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(*q)
	*q = append(*q, t)
}

func (q *timers) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}

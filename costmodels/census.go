package costmodels

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// The constants of a Census.
const (
	mixShares  = 64      // shares of a Mix at most; what is rarer is left out
	mixPatient = 4096    // tasks that are counted at most between two pictures
	mixMemory  = 1 << 16 // tasks after which all counts are halved
)

// Census counts what tasks with GPUs ask for, for Round.Mix. Old tasks count less: whenever mixMemory are counted, all counts are
// halved. It gives a new picture when as many tasks have been counted as stood behind the last one, so that prices which
// depend on it are worked out anew a logarithmic number of times at first and seldom afterwards. The zero value is empty.
type Census struct {
	shapes  []*shape // in the order in which they were first seen
	byKey   map[shapeKey]*shape
	total   int64
	pending int64 // counted since the last picture
	due     int64 // how many bring the next
}

type shapeKey struct {
	fixed [cluster.NumDimensions]int64
	rest  string
}

func keyOf(task *cluster.TaskSpec) shapeKey {
	k := shapeKey{fixed: task.Resources.Fixed}
	if g := &task.GPU; g.Milli > 0 || len(g.Models) > 0 || len(task.Resources.Named) > 0 {
		k.rest = fmt.Sprintf("%d %q %v", g.Milli, g.Models, task.Resources.Named)
	}
	return k
}

type shape struct {
	task  *cluster.TaskSpec
	count int64
	order int
}

// Add counts n tasks; those without GPUs are not counted.
func (c *Census) Add(task *cluster.TaskSpec, n int64) {
	if task.GPU.IsZero() || n <= 0 {
		return
	}
	key := keyOf(task)
	s := c.byKey[key]
	if s == nil {
		if c.byKey == nil {
			c.byKey = map[shapeKey]*shape{}
		}
		s = &shape{task: task, order: len(c.shapes)}
		c.byKey[key] = s
		c.shapes = append(c.shapes, s)
	}
	s.count += n
	c.total += n
	c.pending += n
	if c.total > mixMemory {
		c.fade()
	}
}

// fade halves all counts and forgets what was seen once.
func (c *Census) fade() {
	c.total = 0
	c.shapes = slices.DeleteFunc(c.shapes, func(s *shape) bool {
		s.count /= 2
		c.total += s.count
		return s.count == 0
	})
	clear(c.byKey)
	for i, s := range c.shapes {
		s.order = i
		c.byKey[keyOf(s.task)] = s
	}
}

// Mix returns the mix, and true if it is time for a new picture. Complexity: shapes · log shapes
// if it is.
func (c *Census) Mix() (Mix, bool) {
	if c.pending == 0 || c.pending < c.due {
		return Mix{}, false
	}
	c.pending, c.due = 0, min(c.total, mixPatient)
	top := slices.Clone(c.shapes)
	slices.SortFunc(top, func(a, b *shape) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.order, b.order)) })
	top = top[:min(len(top), mixShares)]
	shares := make([]Share, len(top))
	for i, s := range top {
		shares[i] = Share{Task: s.task, Weight: max(1, s.count*1_000_000/c.total)}
	}
	return NewMix(shares), true
}

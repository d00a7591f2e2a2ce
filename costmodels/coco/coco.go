// Package coco keeps apart what disturbs each other, and fills all dimensions of a host evenly.
//
// Intent: tasks that fight for the same thing should not share a host. Work is of one of four classes: turtles neither
// disturb nor mind, sheep are gentle and mind a little, rabbits run fast and mind a lot, devils disturb everybody.
//
//	load(c, h)     = Σ over dimensions d of (allocated(h)[d] + request(c)[d]) / capacity(h)[d]
//	fight(c, h)    = Σ over residents x of pressure(x) · care(c) + pressure(c) · care(x)
//	spoiled(h)     = Σ over the classes of work t of min(fight(t, h), Worst)
//	more(c, h)     = spoiled(h with c) − spoiled(h) + spoiled(devil alone) − spoiled(c alone)
//	start(c, h)    = FullDelay · load / dimensions + Disturbance · (fight + more / 2)
//	crowd(h, k)    = 0 below Starts, then MaxPrice                          wait(c) = costmodels.Patience(c)
//
//	           pressure  care
//	  turtle       0       0        class ── fights: dear ──► host (devil, rabbit)
//	  sheep        1       1            └─── quiet: cheap ──► host (turtle, sheep)
//	  rabbit       2       4
//	  devil        8       1
//
// Unit: milliseconds of expected delay. The class of work is its name, if that is one of the four; else the settings may
// say, else what nobody knows is a sheep. Who starts spoils the host for those who come later, counted as two of any class, but
// nobody goes where it is worst: so devils go where devils are, and quiet hosts stay quiet. On an empty host all pay the same. Company changes with every start, so only Starts tasks start on a host before
// the price is asked for again.
//
// Source: M. Schwarzkopf, "Operating System Support for Warehouse-Scale Computing", PhD thesis, University of Cambridge
// 2015, section 7.3 (the CoCo cost model); the animals from Y. Xie and G. Loh, "Dynamic Classification of Program Memory
// Behaviors in CMPs", CMP-MSI 2008. We differ in the scores, which are products, so that the matrix is made of two columns.
//
// Configuration: cost_model: coco(devils=sort scan, rabbits=web, disturbance=50)
package coco

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula, in milliseconds.
const (
	FullDelay   = 1000
	Grain       = 10
	Disturbance = 50
	Worst       = 32 // that a host can be to one who may come
	Starts      = 1
)

// temper is what work of a class does to others, and what it suffers from them.
type temper struct{ pressure, care int64 }

var (
	turtle = temper{0, 0}
	sheep  = temper{1, 1}
	rabbit = temper{2, 4}
	devil  = temper{8, 1}
)

// fight returns what two kinds of work, or all the tasks of two sets, suffer from each other.
func (t temper) fight(u temper) int64 { return t.pressure*u.care + u.pressure*t.care }

// spoiled returns how much company all together are to those who may come.
func (t temper) spoiled() (sum int64) {
	for _, u := range [...]temper{turtle, sheep, rabbit, devil} {
		sum += min(t.fight(u), Worst)
	}
	return sum
}

// Model is the policy. The zero value is ready for use: a number that is zero has the value of the constant.
type Model struct {
	Turtles, Rabbits, Devils []string // kinds of work of these classes
	Disturbance              flowgraph.Cost
	Starts                   int64 // tasks that start on a host before its price is asked for again
}

var _ costmodels.Model = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.Disturbance < 0 || m.Disturbance > FullDelay || m.Starts < 0 {
		return errors.New("disturbance must be 1 to 1000, and starts positive")
	}
	natures := map[string]string{"turtle": "turtles", "rabbit": "rabbits", "devil": "devils"}
	for _, list := range []struct {
		nature string
		kinds  []string
	}{{"turtles", m.Turtles}, {"rabbits", m.Rabbits}, {"devils", m.Devils}} {
		for _, kind := range list.kinds {
			if other := cmp.Or(natures[kind], list.nature); other != list.nature {
				return fmt.Errorf("%s: %q is one of the %s", list.nature, kind, other)
			}
			natures[kind] = list.nature
		}
	}
	return nil
}

// Name returns "coco".
func (Model) Name() string { return "coco" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns the delay by load and by company. Complexity: the residents of the host.
func (m Model) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	mine, all := m.temper(q.Work), temper{}
	for _, x := range r.Residents(h) {
		other := m.temper(x.Work)
		all.pressure += int64(x.Tasks) * other.pressure
		all.care += int64(x.Tasks) * other.care
	}
	with := temper{all.pressure + mine.pressure, all.care + mine.care}
	fights := 2*all.fight(mine) + with.spoiled() - all.spoiled() + devil.spoiled() - mine.spoiled() // twice
	load := meanShare(h.Allocated.Add(q.Task.Resources), h.Capacity)
	price := flowgraph.Cost(load-load%Grain) + cmp.Or(m.Disturbance, Disturbance)*flowgraph.Cost(fights)/2
	return min(price, costmodels.Step/2)
}

// Crowd lets Starts tasks start on a host before its price is asked for again.
func (m Model) Crowd(_ *costmodels.Round, _ *cluster.Host, k int64) flowgraph.Cost {
	if k >= cmp.Or(m.Starts, Starts) {
		return costmodels.MaxPrice
	}
	return 0
}

func (m Model) temper(work string) temper {
	switch {
	case work == "turtle" || slices.Contains(m.Turtles, work):
		return turtle
	case work == "rabbit" || slices.Contains(m.Rabbits, work):
		return rabbit
	case work == "devil" || slices.Contains(m.Devils, work):
		return devil
	default:
		return sheep
	}
}

// meanShare returns the mean part of the capacity, over the dimensions that there are, in thousandths.
func meanShare(load, capacity cluster.Resources) int64 {
	sum, n := int64(0), int64(0)
	for d, c := range capacity.Fixed {
		if c > 0 {
			sum += costmodels.Scale(load.Fixed[d], FullDelay, c, 2*FullDelay)
			n++
		}
	}
	return sum / max(1, n)
}

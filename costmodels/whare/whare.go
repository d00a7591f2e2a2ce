// Package whare places work on the hosts, and beside the company, on which it runs fastest.
//
// Intent: hosts differ in kind, and co-runners share caches and memory: the same work takes longer on one host than on
// another. So a task goes where it, and those that are there already, lose the least time.
//
//	pace(w, κ, x) = seconds per unit of work of w on hosts of kind κ beside one task of x, in thousandths of its best
//	own(c, h)     = pace(c, κ, –) − 1000 + Σ over residents x of tasks(x) · max(0, pace(c, κ, x) − pace(c, κ, –))
//	harm(c, h)    = Σ over residents x of tasks(x) · time(x) · max(0, pace(x, κ, c) − pace(x, κ, –))
//	start(c, h)   = (time(c) · own(c, h) + harm(c, h)) / 1000
//	crowd(h, k)   = 0 below Starts, then MaxPrice                          wait(c) = costmodels.Patience(c)
//
//	class ── slow kind: dear ──────► host of kind κ₁ (x, x, y)
//	   └──── fast, good company ───► host of kind κ₂ (z)
//
// Unit: milliseconds of expected delay. time(w) is the observed run time of the work, Unknown where none is. Paces come
// from earlier runs (Round.Known); work of which nothing is known is the same everywhere. The kind of a host is the value
// of its attribute "platform". Company changes with every start, so only Starts tasks start on a host before the price is
// asked for again.
//
// Source: J. Mars and L. Tang, "Whare-Map: Heterogeneity in 'Homogeneous' Warehouse-Scale Computers", ISCA 2013,
// doi:10.1145/2485922.2485975: scores by application, machine type and co-runners. We differ in that the effects of
// several co-runners add up, so that pairs suffice, and in that those who are there already count.
//
// Configuration: cost_model: whare(unknown=1m, starts=1)
package whare

import (
	"cmp"
	"errors"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula.
const (
	Unknown = time.Minute
	Starts  = 1
)

// Model is the policy. The zero value is ready for use: a field that is zero has the value of the constant.
type Model struct {
	Unknown time.Duration // the run time of work of which none is known
	Starts  int64         // tasks that start on a host before its price is asked for again
}

var _ costmodels.Model = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.Unknown < 0 || m.Starts < 0 {
		return errors.New("unknown and starts must be positive")
	}
	return nil
}

// Name returns "whare".
func (Model) Name() string { return "whare" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns the time that the task and the residents of the host are expected to lose. Complexity: the residents.
func (m Model) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	kind := h.Kind()
	alone := pace(r, q.Work, kind, "", 1000)
	mine, loss := m.seconds(r, q.Work), 0.0
	loss += float64(mine * float64(max(0, alone-1000))) // the conversions keep every machine to the same rounding
	for _, x := range r.Residents(h) {
		n := float64(x.Tasks)
		loss += float64(n * mine * float64(max(0, pace(r, q.Work, kind, x.Work, alone)-alone)))
		undisturbed := pace(r, x.Work, kind, "", 1000)
		loss += float64(n * m.seconds(r, x.Work) * float64(max(0, pace(r, x.Work, kind, q.Work, undisturbed)-undisturbed)))
	}
	return min(costmodels.Price(loss), costmodels.Step/2) // seconds · thousandths = milliseconds
}

// Crowd lets Starts tasks start on a host before its price is asked for again.
func (m Model) Crowd(_ *costmodels.Round, _ *cluster.Host, k int64) flowgraph.Cost {
	if k >= cmp.Or(m.Starts, Starts) {
		return costmodels.MaxPrice
	}
	return 0
}

// pace returns what is known, or unknown.
func pace(r *costmodels.Round, work, kind, company string, unknown int64) int64 {
	if p, ok := r.Pace(work, kind, company); ok {
		return p
	}
	return unknown
}

func (m Model) seconds(r *costmodels.Round, work string) float64 {
	if r.Known != nil && work != "" {
		if d, ok := r.Known.RunTime(work); ok {
			return d.Seconds()
		}
	}
	return cmp.Or(m.Unknown, Unknown).Seconds()
}

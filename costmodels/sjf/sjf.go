// Package sjf places short tasks first.
//
// Intent: when not everything fits, the mean time to completion is least if the work that is over soonest goes first. A
// slot given to a task of run time T cannot be given to others for T, so what leaving the task out costs is measured per
// second of slot that it asks for.
//
//	T(c)    = observed run time of the work, else the user's estimate, else Unknown
//	left(c) = max(1 s, T(c) − waited(c)/Ageing)
//	wait(c) = Scale · (priority + 1) / left(c) in seconds      start = crowd = 0
//
//	short  ══ dear to leave ══╗
//	                          ╠═► hosts ──► sink        what does not fit are the longest
//	long   ── cheap to leave ─╝
//
// Unit: milliseconds of expected delay, per second of slot. Priority is a weight, as in Smith's rule, not a rank: a long
// task of high priority may go behind a short one of low priority. The ageing keeps long tasks from starving: every
// Ageing seconds of waiting count as one second less to run. Where a task goes is all the same to this model; add
// another one for that, as in sjf + loadspread.
//
// Source: W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 3, 1956,
// doi:10.1002/nav.3800030106; estimates from earlier runs of the same work as in Firmament's SJF model.
//
// Configuration: cost_model: sjf(unknown=10m, ageing=10)
package sjf

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
	Scale   = 1 << 20 // the price of a task of one second without priority
	Unknown = 10 * time.Minute
	Ageing  = 10
)

// Model is the policy. The zero value is ready for use: a field that is zero has the value of the constant.
type Model struct {
	Unknown time.Duration // the run time of work of which nothing is known
	Ageing  int64         // seconds of waiting that count as one second less to run
}

var _ costmodels.Model = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.Unknown < 0 || m.Ageing < 0 {
		return errors.New("unknown and ageing must be positive")
	}
	return nil
}

// Name returns "sjf".
func (Model) Name() string { return "sjf" }

// Wait returns what the slot is worth to the class, per second that the class would hold it.
func (m Model) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	run, known := r.RunTime(c)
	if !known {
		run = cmp.Or(m.Unknown, Unknown)
	}
	left := int64(run / time.Millisecond)
	if c.Stage > 0 {
		left -= 1000 << min(c.Stage-1, 40) / cmp.Or(m.Ageing, Ageing)
	}
	left = max(left, 1000)
	return max(1, flowgraph.Cost(Scale*1000*int64(c.Priority+1)/left))
}

// Start returns 0.
func (Model) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost { return 0 }

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

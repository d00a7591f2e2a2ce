// Package trivial prices every place alike.
//
// Intent: the least that a model can say: a place is better than none. Tasks go anywhere that they fit, as fast as the
// solver finds it; a baseline for cost and for quality.
//
//	start(c, h) = 0     crowd(h, k) = 0     wait(c) = costmodels.Patience(c)
//
//	class ── 0 ──► any host with room ── 0 ──► sink
//	   └───────────── wait ─────────────────────┘
//
// Unit: milliseconds of expected delay. Who waits longest, or has more priority, still goes first.
//
// Configuration: cost_model: trivial
package trivial

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Model is the policy. The zero value is ready for use.
type Model struct{}

var _ costmodels.Model = Model{}

// Name returns "trivial".
func (Model) Name() string { return "trivial" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns 0.
func (Model) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost { return 0 }

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// Package random prices places by lot.
//
// Intent: a baseline. Whoever claims that a policy places well must place better than a throw of dice does.
//
//	start(c, h) = hash(seed, request(c), h) mod Spread      crowd(h, k) = 0      wait(c) = costmodels.Patience(c)
//
//	class ── by lot ──► any host with room ── 0 ──► sink
//	   └───────────── wait ──────────────────────────┘
//
// Unit: milliseconds of expected delay, all of it made up. The lot is drawn anew as the host's allocation changes, and
// depends on nothing but the seed and the arguments: the same history gives the same places.
//
// Configuration: cost_model: random(seed=7)
package random

import (
	"cmp"
	"math/bits"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Spread is the number of different prices.
const Spread = 1000

// Model is the policy. The zero value is ready for use.
type Model struct {
	Seed uint64 // default 1
}

var _ costmodels.Model = Model{}

// Name returns "random".
func (Model) Name() string { return "random" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns a number below Spread.
func (m Model) Start(_ *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	x := stir(0, cmp.Or(m.Seed, 1))
	for _, b := range []byte(h.ID) {
		x = stir(x, uint64(b))
	}
	for d, v := range q.Task.Resources.Fixed {
		x = stir(stir(x, uint64(v)), uint64(h.Allocated.Fixed[d]))
	}
	return flowgraph.Cost(x % Spread)
}

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// stir mixes v into x: a product with an odd constant carries low bits up, the rotation brings them down again.
func stir(x, v uint64) uint64 {
	x = (x ^ v) * 0x9e3779b97f4a7c15
	return x ^ bits.RotateLeft64(x, 29)
}

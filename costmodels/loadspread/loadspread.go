// Package loadspread keeps the load even over the hosts.
//
// Intent: tasks that share a host slow each other down, so the next task goes where the busiest resource is least busy.
//
//	share(v, h) = max over dimensions d of v[d] / capacity(h)[d]
//	start(c, h) = FullDelay · share(allocated(h) + request(c), h)
//	crowd(h, k) = FullDelay · k · share(unit, h)
//	wait(c)     = Step · (priority + 1) + Second · 2^(stage−1)            costmodels.Patience
//
//	    start: what the host will carry      crowd: each further start of the same solve
//	class ───────────────────────────► host ══════════════════════════════► sink
//	   └────────────── wait ─────────────────────────────────────────────────┘
//
// Unit: milliseconds of expected delay. A task on a host whose busiest resource is fully allocated is expected to lose
// FullDelay; waiting costs more than that at any priority, so nothing waits that fits. A step of priority outweighs any
// time of waiting, and time of waiting decides among equals. Delays are multiples of Grain: a hundredth of a host is no
// difference worth an arc, and hosts that are alike leave the solver free.
//
// Configuration: cost_model: loadspread
//
// Source: the spreading rule of worst-fit by dominant share; the crowd term makes it hold inside one solve too, where a
// flat price would let a batch pile up on one machine (the fault of Firmament's Octopus model).
package loadspread

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula, in milliseconds.
const (
	FullDelay = 1000
	Grain     = 10
)

// Model is the policy. The zero value is ready for use.
type Model struct{}

var _ costmodels.Batcher = Model{}

// Name returns "loadspread".
func (Model) Name() string { return "loadspread" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns the delay expected on the host once the task is there.
func (Model) Start(_ *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	return grain(costmodels.ShareWith(&h.Allocated, &q.Task.Resources, &h.Capacity, most))
}

// Starts returns Start of each request.
func (Model) Starts(_ *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	shares := costmodels.SharesOn(&h.Allocated, &h.Capacity, most)
	for i, q := range requests {
		prices[i] = grain(shares.With(&q.Task.Resources))
	}
}

// Crowd returns the delay that k starts before this one add, each of the size of the mean waiting request.
func (Model) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	return grain(costmodels.DominantShare(&r.Unit, &h.Capacity, k, most))
}

// most is the largest price: beyond "twice as much as there is" one host is as bad as another.
const most = 2 * FullDelay

// grain turns a share in thousandths into a price, rounded down to a Grain.
func grain(share int64) flowgraph.Cost { return flowgraph.Cost(share - share%Grain) }

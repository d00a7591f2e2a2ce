// Package binpack fills hosts one after the other.
//
// Intent: hosts that stay empty can take large tasks and gangs, or be switched off; so a task goes where it leaves the
// least room behind.
//
//	spare(h, v) = mean over the dimensions d that h has of (free(h)[d] − v[d]) / capacity(h)[d]
//	start(c, h) = FullDelay · spare(h, request(c)) + a place in a fixed order of hosts below Grain
//	crowd(h, k) = 0      wait(c) = costmodels.Patience(c)
//
//	class ── little room left behind: cheap ──► fullest host  ── 0 ──► sink
//	   └──── an empty host: dear ─────────────► empty host    ── 0 ──► sink
//
// Unit: milliseconds of expected delay: those that wait for a large task's sake because no host is empty. Of hosts that
// are equally full the one that comes first by a hash of its name is filled, so that a batch does not open all of them at
// once. Every further start makes the host fuller and the next cheaper still; the network is convex and cannot say so, but
// the flat price fills a host up before it opens the next.
//
// Source: best fit over the sum of what is left, as in R. Grandl et al., "Multi-Resource Packing for Cluster Schedulers",
// SIGCOMM 2014, section 3 (its baselines), doi:10.1145/2619239.2626334.
//
// Configuration: cost_model: binpack
package binpack

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

var _ costmodels.Model = Model{}

// Name returns "binpack".
func (Model) Name() string { return "binpack" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns the room that the task leaves behind.
func (Model) Start(_ *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	spare := Spare(q.Task.Resources, h)
	return flowgraph.Cost(spare-spare%Grain) + order(h.ID)
}

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// Spare returns the mean part of the host's capacity, in thousandths, that is free once the request is on it. Dimensions
// that the host does not have do not count, nor does what it is over-committed by.
func Spare(request cluster.Resources, h *cluster.Host) int64 {
	free := h.Free().Sub(request)
	sum, n := int64(0), int64(0)
	for d, capacity := range h.Capacity.Fixed {
		if capacity > 0 {
			sum += costmodels.Scale(free.Fixed[d], 1000, capacity, 1000)
			n++
		}
	}
	for _, a := range h.Capacity.Named {
		sum += costmodels.Scale(free.Amount(a.Name), 1000, a.Value, 1000)
		n++
	}
	return sum / max(1, n)
}

// order returns a number below Grain.
func order(id cluster.HostID) flowgraph.Cost {
	x := uint32(2166136261) // FNV-1a
	for _, b := range []byte(id) {
		x = (x ^ uint32(b)) * 16777619
	}
	return flowgraph.Cost(x>>8) % Grain
}

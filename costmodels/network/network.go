// Package network keeps the hosts' network interfaces from being the bottleneck.
//
// Intent: tasks that move data are as slow as the busiest link on their way; so a task goes where the bandwidth that is
// reserved or already used, whichever is more, leaves the most for it.
//
//	busy(h)     = max(reserved on h, observed on h)
//	start(c, h) = FullDelay · (busy(h) + request(c)) / bandwidth(h)        and what is observed of the work, if that is more
//	crowd(h, k) = FullDelay · k · unit / bandwidth(h)                      wait(c) = costmodels.Patience(c)
//
//	class ──► host with idle link: cheap ══ each further start ══► sink
//	   └────► host with busy link: dear  ══ each further start ══► sink
//
// Unit: milliseconds of expected delay; a task on a host whose link is full is expected to lose FullDelay. Reservations
// alone do not see traffic that nobody announced, and observation alone does not see what started a moment ago. A host that
// states no bandwidth has an idle link.
//
// Source: the network-aware policy of I. Gog et al., "Firmament: Fast, Centralized Cluster Scheduling at Scale", OSDI 2016,
// section 7.5 (request and observed use of bandwidth on the arcs). We differ in that a full link is dear and not forbidden:
// what is reserved is bounded by the request itself.
//
// Configuration: cost_model: network + loadspread
package network

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

// Name returns "network".
func (Model) Name() string { return "network" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Patience(c)
}

// Start returns the delay expected on the host's link once the task is there.
func (Model) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	busy := h.Allocated.Fixed[cluster.Network]
	if used, ok := r.Used(h); ok {
		busy = max(busy, used.Fixed[cluster.Network])
	}
	request := max(q.Task.Resources.Fixed[cluster.Network], r.Usage(q).Fixed[cluster.Network])
	return delay(busy+request, h)
}

// Crowd returns the delay that k starts before this one add, each with the bandwidth of the mean waiting request.
func (Model) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	return delay(costmodels.Scale(r.Unit.Fixed[cluster.Network], k, 1, cluster.MaxAmount), h)
}

// delay returns FullDelay · load / bandwidth of the host in multiples of Grain, at most twice FullDelay.
func delay(load int64, h *cluster.Host) flowgraph.Cost {
	bandwidth := h.Capacity.Fixed[cluster.Network]
	if bandwidth <= 0 {
		return 0
	}
	ms := costmodels.Scale(load, FullDelay, bandwidth, 2*FullDelay)
	return flowgraph.Cost(ms - ms%Grain)
}

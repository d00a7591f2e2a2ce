// Package sluice is the default: the even load, whole GPUs and near data that most clusters want, without a setting.
//
// Intent: a task goes where its data and its image are, where it leaves the GPUs usable, and where it has the least
// company, in this order of what a mistake costs. Nothing waits that fits.
//
//	load(c, h) = the delay of loadspread                       up to 2 s
//	gpus(c, h) = what fragmentation charges                    up to minutes: a GPU that nobody can use stays so for long
//	scarce(c, h) = Scarce if c needs no GPU and h has some     more than any load
//	read(c, h) = Quincy's transfer cost of inputs and images   up to Reach
//	start(c, h) = load + gpus + scarce      crowd(h, k) = loadspread's, and fragmentation's      wait(c) = fragmentation's
//
//	         ┌── read ──► preferred host ─┐ load, GPUs
//	class ───┼── read ──► hosts of a rack ─┼═══ each further start ═══► sink
//	         ├── Reach ─► any other host ─┘
//	         └── wait ──────────────────────────────────────────────► sink
//
// Hosts with GPUs are kept for work that needs them, by price: other work goes there when the rest is full, or its data is there.
//
// Unit: milliseconds of expected delay, and the terms are simply added. On a cluster without GPUs, inputs and images of known size
// this is loadspread. An image counts where some host is known to have it. Reach bounds what distance may cost, so that not even
// the largest input keeps a task waiting that could run: whoever wants tasks to wait for data binds quincy or delay to their pool.
//
// Staying needs no term: what runs stays where it is unless a model with Move lets it move, and this one has none.
//
// Source: the three models that it adds up; see there.
//
// Configuration: cost_model: sluice
package sluice

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Reach is the most that reading from afar may cost, in milliseconds.
const Reach = costmodels.Step / 4

// Scarce is what work that needs no GPU pays on a host that has some, in milliseconds: more than the load of any other host.
const Scarce flowgraph.Cost = 4000

// Model is the policy. The zero value is ready for use.
type Model struct{}

var (
	_ costmodels.Localizer = Model{}
	_ costmodels.Itemizer  = Model{}
	_ costmodels.Batcher   = Model{}
)

// The terms.
var (
	load = loadspread.Model{}
	gpus = fragmentation.Model{}
	read = quincy.Model{}
)

// Name returns "sluice".
func (Model) Name() string { return "sluice" }

// Wait returns the price of one more cycle without a place.
func (Model) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost { return gpus.Wait(r, c) }

// Start returns the price of load, of what happens to the GPUs, and of a host that is kept for others.
func (Model) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	return load.Start(r, q, h) + gpus.Start(r, q, h) + scarce(q, h)
}

// Starts returns Start of each request.
func (m Model) Starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	load.Starts(r, requests, h, prices)
	if len(h.GPUs) == 0 {
		return
	}
	lost := make([]flowgraph.Cost, len(requests))
	gpus.Starts(r, requests, h, lost)
	for i, q := range requests {
		prices[i] += lost[i] + scarce(q, h)
	}
}

func scarce(q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	if len(h.GPUs) > 0 && q.Task.GPU.IsZero() {
		return Scarce
	}
	return 0
}

// Items returns the terms of Start.
func (Model) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) []costmodels.Term {
	terms := append(costmodels.Items(load, r, q, h), costmodels.Items(gpus, r, q, h)...)
	return append(terms, costmodels.Term{Name: "scarce", Price: scarce(q, h)})
}

// Crowd returns the larger of both terms.
func (Model) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	return max(load.Crowd(r, h, k), gpus.Crowd(r, h, k))
}

// Locality returns the price of reading inputs and images.
func (Model) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	l := read.Locality(r, c)
	l.Elsewhere = min(l.Elsewhere, Reach)
	for i := range l.Hosts {
		l.Hosts[i].Price = min(l.Hosts[i].Price, Reach)
	}
	for i := range l.Racks {
		l.Racks[i].Price = min(l.Racks[i].Price, Reach)
	}
	return l
}

// Package costmodels holds the contract of a cost model: the policy that turns "better" and "worse" into prices on the
// arcs of the scheduling network. Each subfolder is one policy; models/ is the table of them; modeltest holds every
// model to this contract.
//
// There is one currency: a price is the expected delay in milliseconds that a choice causes, so that terms from
// different policies add up and a number in an explanation means something. A price lies in [0, MaxPrice].
package costmodels

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// MaxPrice is the largest price of one arc. The steps between tiers lie above it.
const MaxPrice flowgraph.Cost = 1 << 30

// Class is what a model sees of tasks that placement cannot tell apart.
type Class struct {
	Pool     cluster.PoolPath
	Type     cluster.JobType
	Priority int32 // 0..cluster.MaxPriority
	Task     *cluster.TaskSpec
	Inputs   []cluster.Input // that every task of the class reads; only where the model is a Localizer
	Stage    int             // how long the head of the class has waited: 0 below a second, s from 2^(s−1) seconds on
}

// Round is what the prices of one solve may depend on besides their arguments.
type Round struct {
	// Unit is the mean request of the tasks that wait. A host keeps the Unit at which it was first priced while it stays
	// in the network.
	Unit cluster.Resources
	// Host looks a host up, for its rack; it returns nil for one that is not known. It may be nil itself.
	Host func(cluster.HostID) *cluster.Host
}

// Model prices the arcs of the network. Methods are pure: equal arguments give equal prices, and what they are given
// must not be modified. The cycle calls them from one goroutine, and as rarely as it can: a price is asked for again
// only when one of its arguments changed.
type Model interface {
	// Name is the model's key in the configuration.
	Name() string
	// Wait is the price of leaving one task of the class unplaced in this cycle. It must exceed any Start plus Crowd
	// that the model prefers to waiting, and must not fall as Stage or Priority grows.
	Wait(r *Round, c *Class) flowgraph.Cost
	// Start is the price of starting one task on the host as it is now. The host has room for it. Of the task it may use
	// what is asked for, Resources and GPU, and nothing else: classes that ask for the same share these prices.
	Start(r *Round, task *cluster.TaskSpec, h *cluster.Host) flowgraph.Cost
	// Crowd is what the k-th (from 0) task that this solve starts on the host pays for those before it. It must not
	// fall as k grows: the network is convex.
	Crowd(r *Round, h *cluster.Host, k int64) flowgraph.Cost
}

// Localizer is implemented by models for which it matters where a task's data is.
type Localizer interface {
	Model
	// Locality is the price of reading the class's inputs, on top of Start.
	Locality(r *Round, c *Class) Locality
}

// Locality is what reading a class's inputs costs, by where the task runs: Hosts where it names the host, else Racks where
// it names the host's rack, else Elsewhere. No place is dearer than Elsewhere.
type Locality struct {
	Elsewhere flowgraph.Cost
	Hosts     []HostPrice
	Racks     []RackPrice
}

// HostPrice is the price of one host.
type HostPrice struct {
	Host  cluster.HostID
	Price flowgraph.Cost
}

// RackPrice is the price of the hosts of one rack.
type RackPrice struct {
	Rack  string
	Price flowgraph.Cost
}

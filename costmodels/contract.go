// Package costmodels holds the contract of a cost model: the policy that turns "better" and "worse" into prices on the
// arcs of the scheduling network.
//
// [Model] is what every policy implements. It says what it costs to start a task on a host, what the next one there costs on
// top, and what it costs to leave a task waiting. A policy may implement more: [Localizer] looks at data, [Mover] lets
// running tasks be moved, [Router] chooses among other policies, [Batcher] prices many requests together, and [Itemizer]
// explains its prices.
//
// There is one currency: a price is the expected delay in milliseconds that a choice causes. So terms from different
// policies add up, and a number in an explanation means something. A price lies in [0, MaxPrice].
//
// Each subfolder is one policy. models/ is the table of them and reads configurations; modeltest holds every model to this
// contract. docs/cost-models.md has a checklist for a new one.
package costmodels

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// MaxPrice is the largest price of one arc. The steps between tiers lie above it.
const MaxPrice flowgraph.Cost = 1 << 30

// Request is what tasks have in common that start at the same price: classes with equal requests share it.
type Request struct {
	Task *cluster.TaskSpec // only Resources and GPU: other fields may differ between the classes
	// Work names the kind of work, "" where the job does not say; see cluster.WorkOf.
	Work string
	// Route is what Router.Route said of the classes, 0 for a model that is no Router.
	Route int
}

// Class is what a model sees of tasks that placement cannot tell apart.
type Class struct {
	Request
	Pool     cluster.PoolPath
	Type     cluster.JobType
	Priority int32           // 0..cluster.MaxPriority
	Inputs   []cluster.Input // that every task of the class reads; only where the model is a Localizer
	Images   []cluster.Image // that it runs in, of known size; the same
	// What the job says of how long to wait for a place with its data, then for its rack, nil for nothing; see cluster.JobSpec.
	HostWait, RackWait *time.Duration
	Stage              int // how long the head of the class has waited: 0 below a second, s from 2^(s−1) seconds on
	Estimate           int // the user's estimate of the run time in the same stages, 0 where there is none
}

// Model prices the arcs of the network. Methods are pure: equal arguments and an equal round give equal prices, and what
// they are given must not be modified. The cycle calls them from one goroutine (see Batcher), and as rarely as it can: a price is asked
// for again only when one of its arguments changed. A loop over more than a host's devices, tasks or the round's Mix
// must pay for its steps with Round.Spend.
type Model interface {
	// Name is the model's key in the configuration.
	Name() string
	// Wait is the price of leaving one task of the class unplaced in this cycle. It must exceed any Start plus Crowd
	// that the model prefers to waiting, and must not fall as Stage or Priority grows.
	Wait(r *Round, c *Class) flowgraph.Cost
	// Start is the price of starting one task on the host as it is now. The host has room for it.
	Start(r *Round, q *Request, h *cluster.Host) flowgraph.Cost
	// Crowd is what the k-th (from 0) task that this solve starts on the host pays for those before it: 0 for the first, of
	// which the cycle does not ask. It must not fall as k grows: the network is convex. A model whose Start is the margin at the host as it is now, and may be
	// another one after the next start, lets only as many start as it can answer for: it returns MaxPrice from there on,
	// and the cycle asks for Start again before it starts more.
	Crowd(r *Round, h *cluster.Host, k int64) flowgraph.Cost
}

// Batcher is implemented by models that price many requests on one host faster together than one by one: on a large cluster
// that is half of what prices cost. To them hosts are what they have and what of it is taken: the cycle prices those once of which
// that is the same, as it is of all that are empty.
type Batcher interface {
	Model
	// Starts sets each price to Start of the request with its index. Unlike any other method these two may be called from
	// several goroutines at once, and ask nothing of the round but its Mix and Spend, and nothing of the host but Capacity,
	// Revocable, GPUs, Allocated, Lent, Slack, GPUFree, Withheld and GPUWithheld. A model that embeds a Batcher and has
	// another Start needs another Starts, too.
	Starts(r *Round, requests []*Request, h *cluster.Host, prices []flowgraph.Cost)
}

// Localizer is implemented by models for which it matters where a task's data is, and its images, if they ask for Round.Reads.
type Localizer interface {
	Model
	// Locality is the price of reading the class's inputs, on top of Start.
	Locality(r *Round, c *Class) Locality
}

// Localizes reports whether the model is a Localizer, or, if it is made of others and says so itself, one of those is. Where none
// is, tasks that differ only by their data and images are of one class.
func Localizes(m Model) bool {
	if made, ok := m.(interface{ Localizes() bool }); ok {
		return made.Localizes()
	}
	_, ok := m.(Localizer)
	return ok
}

// Mover is implemented by models under which running tasks may be moved, so that others can start where they run. Who would
// come, who would go where and who stays is then decided in the flow; see docs/network.md.
type Mover interface {
	Localizer
	// Moves reports whether Move is below MaxPrice for any class.
	Moves() bool
	// Move is what a running task of the class loses that is moved after having run that long; what its new place costs comes
	// on top, and what its old one did is taken off. MaxPrice: it stays where it is. It must not fall as ran grows.
	Move(r *Round, c *Class, ran time.Duration) flowgraph.Cost
}

// Router is implemented by a model that is made of others and chooses among them by class.
type Router interface {
	Model
	// Route returns the number that stands in the Request of the pool's classes of that type of job.
	Route(pool cluster.PoolPath, kind cluster.JobType) int
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

// Package modeltest holds cost models to their contract.
package modeltest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Run checks on random rounds that the model's prices lie in range, are reproducible and leave their arguments alone,
// that the first start on a host pays for no other and marginal prices never fall, that waiting never gets cheaper with time or priority, and that the model would
// rather start a task on an empty host that has room than let it wait; and that prices asked for together are those asked for
// one by one, and the same on hosts that have the same.
func Run(t *testing.T, m costmodels.Model) {
	t.Run("name", func(t *testing.T) { require.NotEmpty(t, m.Name()) })
	t.Run("laws", rapid.MakeCheck(func(t *rapid.T) { laws(t, m) }))
}

func laws(t *rapid.T, m costmodels.Model) {
	round, host, class := drawRound(t), drawHost(t), drawClass(t)
	if r, ok := m.(costmodels.Router); ok {
		class.Route = r.Route(class.Pool, class.Type)
		require.Equal(t, class.Route, r.Route(class.Pool, class.Type), "the route differs when asked again")
	}
	price := func(what string, ask func() flowgraph.Cost) flowgraph.Cost {
		p := ask()
		require.GreaterOrEqual(t, p, flowgraph.Cost(0), "%s is negative", what)
		require.LessOrEqual(t, p, costmodels.MaxPrice, "%s is out of range", what)
		require.Equal(t, p, ask(), "%s differs when asked again", what)
		return p
	}
	before := *host

	wait := price("wait", func() flowgraph.Cost { return m.Wait(round, class) })
	price("start", func() flowgraph.Cost { return m.Start(round, &class.Request, host) })
	last := m.Crowd(round, host, 0)
	require.Zero(t, last, "the first start pays for nobody")
	for _, k := range []int64{0, 1, 2, 3, 5, 10, 100, 10_000, 1 << 30} {
		crowd := price("crowd", func() flowgraph.Cost { return m.Crowd(round, host, k) })
		require.GreaterOrEqual(t, crowd, last, "the marginal price falls at %d", k)
		last = crowd
	}

	older, dearer := *class, *class
	older.Stage++
	dearer.Priority = min(dearer.Priority+1, cluster.MaxPriority)
	require.GreaterOrEqual(t, m.Wait(round, &older), wait, "waiting got cheaper with time")
	require.GreaterOrEqual(t, m.Wait(round, &dearer), wait, "waiting got cheaper with priority")

	empty := &cluster.Host{ID: "shard/empty", Machine: host.Machine, GPUFree: slices.Repeat([]int32{cluster.WholeGPU}, len(host.GPUs))}
	if class.Task.CountOn(empty, 1) > 0 {
		require.Less(t, m.Start(round, &class.Request, empty)+m.Crowd(round, empty, 0), wait,
			"the model lets a task wait beside an empty host with room")
	}
	require.Equal(t, before, *host, "the model modified the host")
	if b, ok := m.(costmodels.Batcher); ok {
		other := drawClass(t)
		prices := make([]flowgraph.Cost, 2)
		b.Starts(round, []*costmodels.Request{&class.Request, &other.Request}, host, prices)
		for i, q := range []*costmodels.Request{&class.Request, &other.Request} {
			require.Equal(t, m.Start(round, q, host), prices[i], "start %d of two together", i)
			require.Equal(t, prices[i], m.Start(round, q, alike(host)), "start %d on a host that has the same", i)
		}
	}
	if l, ok := m.(costmodels.Localizer); ok {
		locality(t, l, round, class, price)
	}
	if mover, ok := m.(costmodels.Mover); ok {
		ran := time.Duration(rapid.Int64().Draw(t, "ran"))
		sooner := price("move", func() flowgraph.Cost { return mover.Move(round, class, ran/2) })
		if later := mover.Move(round, class, ran); ran > 0 {
			require.GreaterOrEqual(t, later, sooner, "moving got cheaper with time")
		}
		require.True(t, mover.Moves() || sooner == costmodels.MaxPrice, "it moves whom it says it does not")
	}
}

// alike returns another host that has as much as this one, of which as much is taken.
func alike(h *cluster.Host) *cluster.Host {
	return &cluster.Host{
		ID: "shard/other", Machine: &cluster.Machine{Capacity: h.Capacity, GPUs: h.GPUs, Rack: "s", Zone: "y", Revocable: h.Revocable},
		Allocated: h.Allocated, Lent: h.Lent, Slack: h.Slack, GPUFree: h.GPUFree, Withheld: h.Withheld, GPUWithheld: h.GPUWithheld,
		Tasks: []cluster.TaskKey{2, 3}, Pace: 2000, Since: 1,
	}
}

// works are the kinds of work that classes and residents are drawn from.
var works = []string{"", "devil", "rabbit", "sheep", "sort", "train", "turtle"}

func drawClass(t *rapid.T) *costmodels.Class {
	return &costmodels.Class{
		Request:  costmodels.Request{Task: drawTask(t, "request"), Work: rapid.SampledFrom(works).Draw(t, "work")},
		Pool:     cluster.PoolPath(rapid.SampledFrom([]string{"root", "root/a", "root/a/b"}).Draw(t, "pool")),
		Type:     rapid.SampledFrom([]cluster.JobType{cluster.Batch, cluster.Stateless, cluster.Stateful}).Draw(t, "type"),
		Priority: rapid.Int32Range(0, cluster.MaxPriority).Draw(t, "priority"),
		Stage:    rapid.IntRange(0, 40).Draw(t, "stage"),
		Estimate: rapid.IntRange(0, 40).Draw(t, "estimate"),
	}
}

// drawTask returns a task that may ask for whole devices, a part of one, or none.
func drawTask(t *rapid.T, label string) *cluster.TaskSpec {
	task := &cluster.TaskSpec{Resources: drawResources(t, label)}
	switch rapid.IntRange(0, 2).Draw(t, label+" devices") {
	case 1:
		task.GPU.Count = rapid.Int32Range(1, 4).Draw(t, label+" count")
	case 2:
		task.GPU.Milli = rapid.Int32Range(1, cluster.WholeGPU-1).Draw(t, label+" milli")
	}
	if !task.GPU.IsZero() && rapid.Bool().Draw(t, label+" particular") {
		task.GPU.Models = []string{"A"}
	}
	task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
	return task
}

// drawHost returns a host that may be over-committed.
func drawHost(t *rapid.T) *cluster.Host {
	h := &cluster.Host{
		ID: "shard/host",
		Machine: &cluster.Machine{
			Capacity: drawResources(t, "capacity"), Rack: "r", Zone: "z",
			Attributes: []cluster.KeyValue{{Key: "platform", Value: rapid.SampledFrom([]string{"new", "old"}).Draw(t, "platform")}},
		},
		Allocated: drawResources(t, "allocated"),
		Tasks:     []cluster.TaskKey{1},
	}
	h.Capacity.Fixed[cluster.GPU], h.Allocated.Fixed[cluster.GPU] = 0, 0
	for range rapid.IntRange(0, 8).Draw(t, "devices") {
		free := rapid.OneOf(rapid.Just(int32(cluster.WholeGPU)), rapid.Int32Range(0, cluster.WholeGPU)).Draw(t, "free")
		h.GPUs = append(h.GPUs, cluster.GPUDevice{Model: rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "model")})
		h.GPUFree = append(h.GPUFree, free)
		h.Capacity.Fixed[cluster.GPU] += cluster.WholeGPU
		h.Allocated.Fixed[cluster.GPU] += int64(cluster.WholeGPU - free)
	}
	return h
}

// drawRound returns a round in which everything that a model may ask for is known, or nothing.
func drawRound(t *rapid.T) *costmodels.Round {
	r := &costmodels.Round{Unit: drawResources(t, "unit")}
	if !rapid.Bool().Draw(t, "knows") {
		return r
	}
	weight, shares := int64(1_000_000), []costmodels.Share(nil)
	for range rapid.IntRange(0, 4).Draw(t, "shares") {
		weight /= 2
		shares = append(shares, costmodels.Share{Task: drawTask(t, "typical"), Weight: weight})
	}
	r.Mix = costmodels.NewMix(shares)
	known := Known{UsedOn: map[cluster.HostID]cluster.Resources{"shard/host": drawResources(t, "used")}}
	for _, w := range works[1:] {
		known.Work = append(known.Work, Learned{
			Work: w, RunTime: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "run time")), Usage: drawResources(t, "usage"),
		})
	}
	known.Paces = func(work, kind, company string) int64 {
		return 1000 + 250*int64((len(work)+len(kind)*3+len(company)*5)%9)
	}
	r.Known = &known
	var guests []costmodels.Resident
	for _, w := range works {
		if n := rapid.IntRange(0, 3).Draw(t, "residents"); n > 0 {
			guests = append(guests, costmodels.Resident{Work: w, Tasks: n})
		}
	}
	r.Zones = func(zone string) ([]string, []cluster.HostID) {
		if zone == "z1" {
			return []string{"r2", "r3"}, []cluster.HostID{"s/a", "s/d"}
		}
		return nil, []cluster.HostID{"s/b"}
	}
	r.Guests = func(h *cluster.Host) []costmodels.Resident {
		if len(h.Tasks) == 0 {
			return nil
		}
		return guests
	}
	return r
}

// locality checks that the prices of places are in range, that no place is dearer than elsewhere, that a host with all
// of the data and the images reads them for nothing, and that without any every place is the same.
func locality(t *rapid.T, m costmodels.Localizer, r *costmodels.Round, c *costmodels.Class, price func(string, func() flowgraph.Cost) flowgraph.Cost) {
	require.Equal(t, costmodels.Locality{}, m.Locality(r, c), "without data")
	const everything = cluster.HostID("s/everything")
	c.Images = []cluster.Image{{Name: "image", Bytes: rapid.Int64Range(1, cluster.MaxAmount).Draw(t, "image bytes")}}
	require.Equal(t, costmodels.Locality{}, m.Locality(r, c), "with an image that no host has")
	if known, ok := r.Known.(*Known); ok {
		known.Images = map[string][]cluster.HostID{"image": {everything, "s/c"}}
	}
	for range rapid.IntRange(1, 5).Draw(t, "inputs") {
		c.Inputs = append(c.Inputs, cluster.Input{
			Bytes: rapid.Int64Range(1, cluster.MaxAmount).Draw(t, "bytes"),
			Hosts: []cluster.HostID{everything, rapid.SampledFrom([]cluster.HostID{"s/a", "s/b", "s/c"}).Draw(t, "replica")},
			Racks: []string{rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rack")},
			Zones: rapid.SampledFrom([][]string{nil, {"z1"}, {"z1", "z2"}}).Draw(t, "zones"),
		})
	}
	got := m.Locality(r, c)
	require.Equal(t, got, m.Locality(r, c), "differs when asked again")
	price("elsewhere", func() flowgraph.Cost { return got.Elsewhere })
	for _, rack := range got.Racks {
		price("rack", func() flowgraph.Cost { return rack.Price })
		require.LessOrEqual(t, rack.Price, got.Elsewhere)
	}
	for _, host := range got.Hosts {
		price("host", func() flowgraph.Cost { return host.Price })
		require.LessOrEqual(t, host.Price, got.Elsewhere)
		if host.Host == everything {
			require.Zero(t, host.Price, "all of the data is there")
		}
	}
}

func drawResources(t *rapid.T, label string) cluster.Resources {
	amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 100), rapid.Int64Range(0, cluster.MaxAmount))
	var fixed [cluster.NumDimensions]int64
	for d := range fixed {
		fixed[d] = amount.Draw(t, label)
	}
	return cluster.NewResources(fixed, cluster.Amount{Name: "license", Value: amount.Draw(t, label)})
}

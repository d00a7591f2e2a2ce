package fragmentation_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, fragmentation.Model{}) }

// A start costs what it is defined to, though the host without the task is looked at once for all requests.
func TestAStartCostsWhatItMakesUseless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t)
		var kinds []costmodels.Share
		for range rapid.IntRange(0, 70).Draw(t, "kinds") {
			kinds = append(kinds, costmodels.Share{Task: drawTask(t), Weight: rapid.Int64Range(1, 1_000_000).Draw(t, "weight")})
		}
		round := &costmodels.Round{Mix: costmodels.NewMix(kinds)}
		var requests []*costmodels.Request
		var want []flowgraph.Cost
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			task := drawTask(t)
			if task.CountOn(h, 1) > 0 {
				requests = append(requests, &costmodels.Request{Task: task})
				want = append(want, defined(round, task, h))
			}
		}
		prices := make([]flowgraph.Cost, len(requests))
		fragmentation.Model{}.Starts(round, requests, h, prices)
		require.Equal(t, want, append([]flowgraph.Cost(nil), prices...))
	})
}

func drawTask(t *rapid.T) *cluster.TaskSpec {
	var amounts []cluster.Amount
	if rapid.IntRange(0, 9).Draw(t, "licensed") == 0 {
		amounts = append(amounts, cluster.Amount{Name: "licence", Value: 1})
	}
	task := &cluster.TaskSpec{}
	switch rapid.IntRange(0, 2).Draw(t, "devices") {
	case 1:
		task.GPU.Count = rapid.Int32Range(1, 4).Draw(t, "count")
	case 2:
		task.GPU.Milli = rapid.Int32Range(1, cluster.WholeGPU-1).Draw(t, "milli")
	}
	if rapid.Bool().Draw(t, "particular") {
		task.GPU.Models = []string{"A"}
	}
	task.Resources = cluster.NewResources([cluster.NumDimensions]int64{
		cluster.CPU: rapid.Int64Range(0, 20).Draw(t, "cpu"), cluster.Memory: rapid.Int64Range(0, 10).Draw(t, "memory"), cluster.GPU: task.GPU.Amount(),
	}, amounts...)
	return task
}

// drawHost returns a host of which some devices are taken in parts, and some kept for others.
func drawHost(t *rapid.T) *cluster.Host {
	h := &cluster.Host{Machine: &cluster.Machine{}}
	thousandths := rapid.OneOf(rapid.Just(int32(0)), rapid.Int32Range(0, cluster.WholeGPU))
	capacity := [cluster.NumDimensions]int64{cluster.CPU: 40, cluster.Memory: 20}
	taken := [cluster.NumDimensions]int64{cluster.CPU: rapid.Int64Range(0, 40).Draw(t, "taken")}
	var held [cluster.NumDimensions]int64
	withheld := rapid.Bool().Draw(t, "withheld")
	for range rapid.IntRange(0, 8).Draw(t, "devices of the host") {
		used, kept := thousandths.Draw(t, "used"), int32(0)
		if withheld {
			kept = min(cluster.WholeGPU-used, thousandths.Draw(t, "kept"))
			h.GPUWithheld = append(h.GPUWithheld, kept)
		}
		h.GPUs = append(h.GPUs, cluster.GPUDevice{Model: rapid.SampledFrom([]string{"A", "A", "B"}).Draw(t, "model")})
		h.GPUFree = append(h.GPUFree, cluster.WholeGPU-used)
		capacity[cluster.GPU] += cluster.WholeGPU
		taken[cluster.GPU] += int64(used)
		held[cluster.GPU] += int64(kept)
	}
	var licences []cluster.Amount
	if n := rapid.Int64Range(0, 2).Draw(t, "licences"); n > 0 {
		licences = append(licences, cluster.Amount{Name: "licence", Value: n})
	}
	h.Capacity = cluster.NewResources(capacity, licences...)
	h.Allocated, h.Withheld = cluster.NewResources(taken), cluster.NewResources(held)
	return h
}

// defined is the price by its definition, from the host without the task and with it.
func defined(r *costmodels.Round, task *cluster.TaskSpec, h *cluster.Host) flowgraph.Cost {
	if len(h.GPUs) == 0 {
		return 0
	}
	devices, _ := task.Pick(h)
	with := task.Bind(h, devices)
	before, after, lost := h.Room(), with.Room(), int64(0)
	var typical cluster.Resources
	for _, m := range r.Mix.Shares {
		lost += m.Weight * (useless(m.Task, h, with.GPURoom(), after) - useless(m.Task, h, h.GPURoom(), before))
		for d, v := range m.Task.Resources.Fixed {
			typical.Fixed[d] += m.Weight * v / 1000
		}
	}
	stranded := served(typical, before, h.GPURoom()) - served(typical, after, with.GPURoom())
	return min(fragmentation.Rate*flowgraph.Cost(max(0, lost/1_000_000+task.GPU.Amount())+max(0, stranded)/2), costmodels.Step/2)
}

func useless(kind *cluster.TaskSpec, h *cluster.Host, free []int32, room cluster.Resources) (small int64) {
	total, usable := int64(0), int32(0)
	for i, f := range free {
		total += int64(f)
		if (len(kind.GPU.Models) == 0 || slices.Contains(kind.GPU.Models, h.GPUs[i].Model)) && f >= kind.GPU.Takes() {
			usable++
		} else {
			small += int64(f)
		}
	}
	if usable < max(1, kind.GPU.Count) || !kind.Resources.Fits(room) {
		return total
	}
	return small
}

func served(typical, room cluster.Resources, free []int32) int64 {
	n := int64(0)
	for _, f := range free {
		n += int64(f)
	}
	for d, v := range typical.Fixed {
		if cluster.Dimension(d) != cluster.GPU && v > 0 {
			n = costmodels.Scale(room.Fixed[d], typical.Fixed[cluster.GPU], v, n)
		}
	}
	return n
}

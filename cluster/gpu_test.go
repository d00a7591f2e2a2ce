package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestGPURequests(t *testing.T) {
	devices := []cluster.GPUDevice{{Model: "A"}, {Model: "A"}, {Model: "B"}, {Model: "B"}}
	for _, c := range []struct {
		name    string
		request cluster.GPURequest
		free    []int32
		fit     int64
		picked  []uint16
	}{
		{"none", cluster.GPURequest{}, []int32{0, 0, 0, 0}, 9, nil},
		{"a part goes where least is left", cluster.GPURequest{Milli: 300}, []int32{1000, 700, 400, 200}, 6, []uint16{2}},
		{"all that is left of a device", cluster.GPURequest{Milli: 700}, []int32{0, 700, 699, 0}, 1, []uint16{1}},
		{"600 of two free devices is two, not three", cluster.GPURequest{Milli: 600}, []int32{1000, 1000, 0, 0}, 2, []uint16{0}},
		{"whole devices are whole", cluster.GPURequest{Count: 2}, []int32{1000, 999, 1000, 1000}, 1, []uint16{0, 2}},
		{"of one model", cluster.GPURequest{Count: 2, Models: []string{"B"}}, []int32{1000, 1000, 1000, 1000}, 1, []uint16{2, 3}},
		{"of no such model", cluster.GPURequest{Milli: 1, Models: []string{"C"}}, []int32{1000, 1000, 1000, 1000}, 0, nil},
		{"too many", cluster.GPURequest{Count: 5}, []int32{1000, 1000, 1000, 1000}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.fit, c.request.Fit(devices, c.free, 9))
			picked, ok := c.request.Pick(devices, c.free)
			require.Equal(t, c.fit > 0, ok)
			if ok {
				require.Equal(t, c.picked, picked)
			}
		})
	}
}

// As many as are said to fit can be picked one after the other, and then no more; what the State accepts and gives back
// leaves the devices as they were.
func TestGPUsAreAllocatedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		machine := cluster.Machine{Capacity: vector(1<<20, 1<<20)}
		for range rapid.IntRange(0, 8).Draw(t, "devices") {
			machine.GPUs = append(machine.GPUs, cluster.GPUDevice{Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model")})
		}
		machine.Capacity.Fixed[cluster.GPU] = cluster.WholeGPU * int64(len(machine.GPUs))
		h.emit(&cluster.HostReported{ID: host, Machine: machine})
		var placed []cluster.TaskKey
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			task := cluster.TaskSpec{Resources: vector(1, 1)}
			if rapid.Bool().Draw(t, "whole") {
				task.GPU.Count = rapid.Int32Range(1, 3).Draw(t, "count")
			} else {
				task.GPU.Milli = rapid.Int32Range(1, 999).Draw(t, "milli")
			}
			if rapid.Bool().Draw(t, "choosy") {
				task.GPU.Models = []string{"A"}
			}
			task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
			uid := h.state.NextJob()
			h.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
				Name: cluster.JobID(uid.String()), Pool: cluster.RootPool, Instances: 10, Task: task,
			}}}})
			fit := task.CountOn(h.state.Host(host), 10)
			for i := range uint32(fit) {
				on := h.state.Host(host)
				picked, ok := task.GPU.Pick(on.GPUs, on.GPUFree)
				require.True(t, ok)
				k := cluster.MakeTaskKey(uid, i)
				require.Equal(t, task.Bind(on, cluster.Devices{GPUs: picked}).GPUFree, bound(h, k, picked).GPUFree)
				placed = append(placed, k)
			}
			if fit < 10 {
				on := h.state.Host(host)
				picked, ok := task.GPU.Pick(on.GPUs, on.GPUFree)
				require.False(t, ok)
				require.Error(t, h.try(&cluster.Placed{Task: cluster.MakeTaskKey(uid, 9), Run: 1, Host: host, GPUs: picked}))
			}
		}
		before := h.state.Host(host).GPUFree
		h.emit(&cluster.HostReported{ID: host, Machine: machine})
		require.Equal(t, before, h.state.Host(host).GPUFree, "a new report does not change what is taken")
		for _, k := range placed {
			h.emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
		}
		for _, free := range h.state.Host(host).GPUFree {
			require.Equal(t, int32(cluster.WholeGPU), free)
		}
	})
}

func bound(h *history, k cluster.TaskKey, devices []uint16) *cluster.Host {
	h.emit(&cluster.Placed{Task: k, Run: 1, Host: host, GPUs: devices})
	return h.state.Host(host)
}

// TestDevicesOfAHold: what is kept for a task is nobody else's, and another hold elsewhere on the host does not open it.
func TestDevicesOfAHold(t *testing.T) {
	h := newHistory(t)
	machine := cluster.Machine{Capacity: vector(100, 100), GPUs: make([]cluster.GPUDevice, 3)}
	machine.Capacity.Fixed[cluster.GPU] = 3 * cluster.WholeGPU
	spec := func(request cluster.GPURequest) *cluster.JobSpec {
		task := cluster.TaskSpec{Resources: vector(1, 1), GPU: request}
		task.Resources.Fixed[cluster.GPU] = request.Amount()
		return &cluster.JobSpec{Name: cluster.JobID(fmt.Sprint(request)), Pool: cluster.RootPool, Instances: 3, Task: task}
	}
	h.emit(&cluster.HostReported{ID: host, Machine: machine}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{
		{UID: 1, Spec: spec(cluster.GPURequest{Count: 1})}, {UID: 2, Spec: spec(cluster.GPURequest{Milli: 400})},
	}})
	place := func(uid cluster.JobUID, instance uint32, device uint16) error {
		return h.try(&cluster.Placed{Task: cluster.MakeTaskKey(uid, instance), Run: 1, Host: host, GPUs: []uint16{device}})
	}
	hold := func(uid cluster.JobUID, instance uint32, device uint16) {
		h.emit(&cluster.TaskHeld{Task: cluster.MakeTaskKey(uid, instance), Hold: cluster.Hold{Host: host, GPUs: []uint16{device}, Until: 1 << 40}})
	}
	hold(1, 0, 0)
	hold(2, 0, 1)
	require.ErrorIs(t, place(1, 1, 0), cluster.ErrIllegal, "device 0 is kept for another")
	require.ErrorIs(t, place(2, 1, 0), cluster.ErrIllegal, "all of it")
	require.ErrorIs(t, place(1, 1, 1), cluster.ErrIllegal, "a part of device 1 is kept for another")
	require.ErrorIs(t, place(2, 0, 0), cluster.ErrIllegal, "a hold on device 1 is none on device 0")
	require.NoError(t, place(2, 1, 1), "the rest of device 1 is free")
	require.ErrorIs(t, place(2, 2, 1), cluster.ErrIllegal, "now it is not")
	require.NoError(t, place(1, 1, 2))
	require.NoError(t, place(1, 0, 0))
	require.NoError(t, place(2, 0, 1))
	require.Empty(t, h.state.Host(host).GPUWithheld)
}

func TestWrongDevicesAreRefused(t *testing.T) {
	h := newHistory(t)
	machine := cluster.Machine{Capacity: vector(100, 100), GPUs: []cluster.GPUDevice{{Model: "A"}, {Model: "A"}, {Model: "B"}}}
	machine.Capacity.Fixed[cluster.GPU] = 3 * cluster.WholeGPU
	task := cluster.TaskSpec{Resources: vector(1, 1), GPU: cluster.GPURequest{Count: 2, Models: []string{"A"}}}
	task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
	h.emit(&cluster.HostReported{ID: host, Machine: machine}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
		Name: "job", Pool: cluster.RootPool, Instances: 1, Task: task,
	}}}})
	for _, devices := range [][]uint16{nil, {0}, {0, 0}, {0, 2}, {0, 9}, {0, 1, 2}} {
		require.ErrorIs(t, h.try(&cluster.Placed{Task: cluster.MakeTaskKey(1, 0), Run: 1, Host: host, GPUs: devices}), cluster.ErrIllegal)
	}
	h.emit(&cluster.Placed{Task: cluster.MakeTaskKey(1, 0), Run: 1, Host: host, GPUs: []uint16{1, 0}})
}

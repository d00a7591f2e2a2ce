package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, sluice.Model{}) }

// However large an image is, to fetch it costs no more than Reach.
func TestAnImageCostsNoMoreThanReach(t *testing.T) {
	round := &costmodels.Round{Known: &modeltest.Known{Images: map[string][]cluster.HostID{"web": {"s/h"}}}}
	class := &costmodels.Class{Images: []cluster.Image{{Name: "web", Bytes: cluster.MaxAmount}}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: sluice.Reach, Hosts: []costmodels.HostPrice{{Host: "s/h"}},
	}, sluice.Model{}.Locality(round, class))
}

// Work that needs no device pays for a host that has some, beside the load; what needs one does not.
func TestHostsWithDevicesAreKept(t *testing.T) {
	host := func(devices ...cluster.GPUDevice) *cluster.Host {
		h := &cluster.Host{Machine: &cluster.Machine{GPUs: devices}, GPUFree: []int32{cluster.WholeGPU}[:len(devices)]}
		h.Capacity.Fixed[cluster.CPU], h.Capacity.Fixed[cluster.GPU] = 10, cluster.WholeGPU*int64(len(devices))
		return h
	}
	plain, trains := &costmodels.Request{Task: &cluster.TaskSpec{}}, &costmodels.Request{Task: &cluster.TaskSpec{GPU: cluster.GPURequest{Count: 1}}}
	plain.Task.Resources.Fixed[cluster.CPU], trains.Task.Resources.Fixed[cluster.CPU] = 5, 5
	for _, c := range []struct {
		request *costmodels.Request
		host    *cluster.Host
		want    flowgraph.Cost
	}{{plain, host(), 500}, {plain, host(cluster.GPUDevice{}), 500 + sluice.Scarce}, {trains, host(cluster.GPUDevice{}), 500}} {
		round, prices := &costmodels.Round{}, make([]flowgraph.Cost, 1)
		require.Equal(t, c.want+fragmentation.Model{}.Start(round, c.request, c.host), sluice.Model{}.Start(round, c.request, c.host))
		sluice.Model{}.Starts(round, []*costmodels.Request{c.request}, c.host, prices)
		require.Equal(t, sluice.Model{}.Start(round, c.request, c.host), prices[0])
	}
}

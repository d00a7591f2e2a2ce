package quincy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) {
	modeltest.Run(t, quincy.Model{})
	modeltest.Run(t, quincy.Model{Theta: 1000})
}

// A second that a task ran is worth Theta, times what its priority weighs.
func TestWhatAMoveLoses(t *testing.T) {
	urgent := &costmodels.Class{Priority: 2}
	require.EqualValues(t, 1000*30*3, quincy.Model{Theta: 1000}.Move(nil, urgent, 30*time.Second+time.Millisecond))
	require.Zero(t, quincy.Model{Theta: 1000}.Move(nil, urgent, -time.Hour), "it has not begun")
	require.Equal(t, costmodels.MaxPrice, quincy.Model{Theta: 1000}.Move(nil, urgent, 10_000*time.Hour))
	require.Equal(t, costmodels.MaxPrice, quincy.Model{}.Move(nil, urgent, 0), "nobody moves")
}

const gb = 1_000_000_000

// Two inputs: 3 GB on h1 (rack r1) and h2 (rack r2), 1 GB on h3 (rack r1). In the paper's units: everything from the core
// costs 4·ξ = 8, so 16,000 ms.
func TestWorkedExample(t *testing.T) {
	racks := map[cluster.HostID]string{"s/h1": "r1", "s/h2": "r2", "s/h3": "r1"}
	round := &costmodels.Round{Hosts: func(id cluster.HostID) *cluster.Host {
		return &cluster.Host{ID: id, Machine: &cluster.Machine{Rack: racks[id]}}
	}}
	class := &costmodels.Class{Inputs: []cluster.Input{
		{Name: "a", Bytes: 3 * gb, Hosts: []cluster.HostID{"s/h1", "s/h2"}},
		{Name: "b", Bytes: gb, Hosts: []cluster.HostID{"s/h3"}},
	}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: 16_000,
		Hosts: []costmodels.HostPrice{
			{Host: "s/h1", Price: 2000}, // 1 GB through the rack switch
			{Host: "s/h2", Price: 4000}, // 1 GB through the core
			{Host: "s/h3", Price: 6000}, // 3 GB through the rack switch
		},
		Racks: []costmodels.RackPrice{
			{Rack: "r1", Price: 8000},            // all of it through the rack switch
			{Rack: "r2", Price: 3*2000 + 1*4000}, // 3 GB in the rack, 1 GB from the core
		},
	}, quincy.Model{}.Locality(round, class))
}

// What is in a zone is read at a price between, and less dearly on a host, or in a rack, that has a part of it.
func TestZones(t *testing.T) {
	round := &costmodels.Round{
		Hosts: func(id cluster.HostID) *cluster.Host {
			return &cluster.Host{ID: id, Machine: &cluster.Machine{Rack: map[cluster.HostID]string{"s/h1": "r1"}[id], Zone: "z"}}
		},
		Zones: func(string) ([]string, []cluster.HostID) { return []string{"r1", "r2"}, []cluster.HostID{"s/bare"} },
	}
	class := &costmodels.Class{Inputs: []cluster.Input{
		{Name: "a", Bytes: 3 * gb, Zones: []string{"z"}},
		{Name: "b", Bytes: gb, Hosts: []cluster.HostID{"s/h1"}},
	}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: 16_000,
		Hosts:     []costmodels.HostPrice{{Host: "s/bare", Price: 9000 + 4000}, {Host: "s/h1", Price: 9000}},
		Racks:     []costmodels.RackPrice{{Rack: "r1", Price: 9000 + 2000}, {Rack: "r2", Price: 9000 + 4000}},
	}, quincy.Model{}.Locality(round, class))
	require.Equal(t, flowgraph.Cost(9000), quincy.Model{Psi: 3000, Xi: 3000}.Locality(round, class).Racks[0].Price-3000, "never beyond the others")
}

// An image is one more input, which lies on the hosts that are known to have it.
func TestAnImageIsAnInput(t *testing.T) {
	round := &costmodels.Round{Known: &modeltest.Known{Images: map[string][]cluster.HostID{"web": {"s/h2", "s/h1"}}}}
	class := &costmodels.Class{Images: []cluster.Image{{Name: "web", Bytes: 3 * gb}, {Name: "new", Bytes: gb}}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: 12_000, Hosts: []costmodels.HostPrice{{Host: "s/h1"}, {Host: "s/h2"}},
	}, quincy.Model{}.Locality(round, class), "nobody has the other one")
	class.Inputs = []cluster.Input{{Bytes: gb, Hosts: []cluster.HostID{"s/h2"}}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: 16_000, Hosts: []costmodels.HostPrice{{Host: "s/h1", Price: 4000}, {Host: "s/h2"}},
	}, quincy.Model{}.Locality(round, class))
	require.Len(t, class.Inputs, 1)
}

// A place with less than a tenth of the input is like any other.
func TestSmallPartsAreNotPreferred(t *testing.T) {
	racks := map[cluster.HostID]string{"s/much": "r1", "s/little": "r2"}
	round := &costmodels.Round{Hosts: func(id cluster.HostID) *cluster.Host {
		return &cluster.Host{Machine: &cluster.Machine{Rack: racks[id]}}
	}}
	l := quincy.Model{}.Locality(round, &costmodels.Class{Inputs: []cluster.Input{
		{Bytes: 10 * gb, Hosts: []cluster.HostID{"s/much"}},
		{Bytes: gb / 2, Hosts: []cluster.HostID{"s/little"}},
	}})
	require.Equal(t, []costmodels.HostPrice{{Host: "s/much", Price: flowgraph.Cost(quincy.Xi / 2)}}, l.Hosts)
	require.Equal(t, []costmodels.RackPrice{{Rack: "r1", Price: 10*quincy.Psi + quincy.Xi/2}}, l.Racks)
	require.Equal(t, costmodels.Locality{}, quincy.Model{}.Locality(round, &costmodels.Class{Inputs: []cluster.Input{{Hosts: []cluster.HostID{"s/much"}}}}), "there is nothing to read")
}

// A second of waiting is worth half a GB through a rack switch.
func TestWaitingOvertakesDistance(t *testing.T) {
	wait := func(stage int) flowgraph.Cost {
		return quincy.Model{}.Wait(&costmodels.Round{}, &costmodels.Class{Stage: stage})
	}
	require.Less(t, wait(1), flowgraph.Cost(quincy.Psi))    // 1 s
	require.Greater(t, wait(2), flowgraph.Cost(quincy.Psi)) // 2 s
}

package delay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

func TestConformance(t *testing.T) { modeltest.Run(t, delay.Model{}) }

// The stages of waiting in which a class takes only hosts with its data, and up to which only racks.
func TestThresholds(t *testing.T) {
	none, minute := time.Duration(0), time.Minute
	for _, c := range []struct {
		name       string
		model      delay.Model
		job        costmodels.Class
		host, rack int
	}{
		{"as the model has them", delay.Model{}, costmodels.Class{}, 3, 5},
		{"of the model", delay.Model{HostWait: time.Second, RackWait: time.Second}, costmodels.Class{}, 1, 2},
		{"of the job", delay.Model{}, costmodels.Class{HostWait: &minute, RackWait: &minute}, 7, 8},
		{"no patience", delay.Model{}, costmodels.Class{HostWait: &none, RackWait: &none}, 0, 0},
		{"none for hosts", delay.Model{}, costmodels.Class{HostWait: &none}, 0, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			for stage := range 10 {
				c.job.Stage = stage
				wait := c.model.Wait(&costmodels.Round{}, &c.job)
				require.Equal(t, stage < c.host, wait <= delay.Near, "stage %d", stage)
				require.Equal(t, stage < c.rack, wait <= delay.Zone, "stage %d", stage)
			}
		})
	}
}

// Hosts with a fifth of the data cost nothing, their racks what is near, and all others what is far.
func TestWhereTheDataIs(t *testing.T) {
	racks := map[cluster.HostID]string{"s/most": "r1", "s/fifth": "r2", "s/less": "r3"}
	round := &costmodels.Round{Hosts: func(id cluster.HostID) *cluster.Host {
		return &cluster.Host{ID: id, Machine: &cluster.Machine{Rack: racks[id]}}
	}}
	class := &costmodels.Class{Inputs: []cluster.Input{
		{Bytes: 61, Hosts: []cluster.HostID{"s/most"}}, {Bytes: 20, Hosts: []cluster.HostID{"s/fifth"}}, {Bytes: 19, Hosts: []cluster.HostID{"s/less"}},
	}}
	model := delay.Model{Share: 5}
	require.Equal(t, costmodels.Locality{
		Elsewhere: delay.Far,
		Hosts:     []costmodels.HostPrice{{Host: "s/fifth"}, {Host: "s/most"}},
		Racks:     []costmodels.RackPrice{{Rack: "r1", Price: delay.Near}, {Rack: "r2", Price: delay.Near}},
	}, model.Locality(round, class))
	require.Equal(t, costmodels.Locality{}, model.Locality(round, &costmodels.Class{}), "there is none")
}

// A zone with the data is better than none, and is not waited for.
func TestZones(t *testing.T) {
	round := &costmodels.Round{Zones: func(string) ([]string, []cluster.HostID) { return []string{"r"}, []cluster.HostID{"s/bare"} }}
	got := delay.Model{}.Locality(round, &costmodels.Class{Inputs: []cluster.Input{{Bytes: 1, Zones: []string{"z"}}}})
	require.Equal(t, costmodels.Locality{
		Elsewhere: delay.Far,
		Hosts:     []costmodels.HostPrice{{Host: "s/bare", Price: delay.Zone}},
		Racks:     []costmodels.RackPrice{{Rack: "r", Price: delay.Zone}},
	}, got)
}

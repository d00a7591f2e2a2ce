package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/network"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, network.Model{}) }

// The delay is that of what is reserved on the link or observed, whichever is more, and of what the task asks for or its work was seen to
// use.
func TestDelayOnALink(t *testing.T) {
	rate := func(n int64) (r cluster.Resources) {
		r.Fixed[cluster.Network] = n
		return r
	}
	for _, c := range []struct {
		name                                         string
		bandwidth, reserved, observed, asks, usually int64
		want                                         flowgraph.Cost
	}{
		{"reserved", 1000, 300, 0, 200, 0, 500},
		{"observed", 1000, 300, 500, 200, 0, 700},
		{"observed less", 1000, 300, 100, 200, 0, 500},
		{"seen to use more", 1000, 300, 0, 200, 400, 700},
		{"seen to use less", 1000, 300, 0, 200, 100, 500},
		{"in steps", 3000, 0, 0, 1000, 0, 330},
		{"twice a full link at most", 1000, 1000, 0, 5000, 0, 2000},
		{"says nothing of its link", 0, 1000, 0, 5000, 0, 0},
	} {
		known := &modeltest.Known{Work: []modeltest.Learned{{Work: "w", Usage: rate(c.usually)}}, UsedOn: map[cluster.HostID]cluster.Resources{}}
		if c.observed > 0 {
			known.UsedOn["s/h"] = rate(c.observed)
		}
		round := &costmodels.Round{Known: known, Unit: rate(100)}
		h := &cluster.Host{ID: "s/h", Machine: &cluster.Machine{Capacity: rate(c.bandwidth)}, Allocated: rate(c.reserved)}
		require.Equal(t, c.want, network.Model{}.Start(round, &costmodels.Request{Work: "w", Task: &cluster.TaskSpec{Resources: rate(c.asks)}}, h), c.name)
		if c.bandwidth == 1000 {
			require.EqualValues(t, 300, network.Model{}.Crowd(round, h, 3), "each further one adds the mean")
		}
	}
}

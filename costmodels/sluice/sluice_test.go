package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
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

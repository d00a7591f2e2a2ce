package network_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/network"
)

func TestConformance(t *testing.T) { modeltest.Run(t, network.Model{}) }

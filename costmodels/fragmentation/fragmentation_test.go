package fragmentation_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

func TestConformance(t *testing.T) { modeltest.Run(t, fragmentation.Model{}) }

package binpack_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

func TestConformance(t *testing.T) { modeltest.Run(t, binpack.Model{}) }

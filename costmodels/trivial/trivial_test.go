package trivial_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
)

func TestConformance(t *testing.T) { modeltest.Run(t, trivial.Model{}) }

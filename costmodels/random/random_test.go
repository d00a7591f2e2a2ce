package random_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/random"
)

func TestConformance(t *testing.T) { modeltest.Run(t, random.Model{}) }

package delay_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

func TestConformance(t *testing.T) { modeltest.Run(t, delay.Model{}) }

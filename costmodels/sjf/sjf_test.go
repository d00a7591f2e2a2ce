package sjf_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
)

func TestConformance(t *testing.T) { modeltest.Run(t, sjf.Model{}) }

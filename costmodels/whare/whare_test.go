package whare_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/whare"
)

func TestConformance(t *testing.T) { modeltest.Run(t, whare.Model{}) }

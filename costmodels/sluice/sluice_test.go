package sluice_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
)

func TestConformance(t *testing.T) { modeltest.Run(t, sluice.Model{}) }

package ssp_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return ssp.New() })
}

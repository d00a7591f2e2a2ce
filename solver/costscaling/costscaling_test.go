package costscaling_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return costscaling.New() })
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, costscaling.New())
}

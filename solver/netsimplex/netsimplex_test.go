package netsimplex_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return netsimplex.New() })
}

func TestWarmSolveDoesNotAllocate(t *testing.T) {
	solvertest.WarmAllocatesNothing(t, netsimplex.New())
}

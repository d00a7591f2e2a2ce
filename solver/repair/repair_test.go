package repair

import (
	"testing"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestConformance(t *testing.T) {
	solvertest.Run(t, func() solver.Solver { return New() })
}

// TestConformanceWithHubs treats nearly every node as a hub.
func TestConformanceWithHubs(t *testing.T) {
	solvertest.Run(t, func() solver.Solver {
		s := New()
		s.hubDegree = 3
		return s
	})
}

// TestConformanceWithForest lets nearly every search leave its units to the
// forest, or if they are few, to searches that go on to the end.
func TestConformanceWithForest(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		for _, units := range []int64{0, 4} {
			solvertest.Run(t, func() solver.Solver {
				s := New()
				s.stamina, s.few = nodes, units
				return s
			})
		}
	}
}

// TestConformanceWithAdviser asks the simplex nearly every time.
func TestConformanceWithAdviser(t *testing.T) {
	for _, patience := range []int64{0, 1, 4} {
		solvertest.Run(t, func() solver.Solver {
			s := New()
			s.patience = patience
			return s
		})
	}
}

// Package peer runs other minimum-cost-flow programs on the networks that our
// solvers solve, for comparison. Nothing of the scheduler needs it.
package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// Answer is what one algorithm of a peer said of one network. Times are those of
// the algorithm alone, without reading or building.
type Answer struct {
	Algorithm     string
	Optimal       bool
	Objective     int64
	WallMS, CPUMS float64
}

// Highs is the linear-programming solver HiGHS (Huangfu and Hall, 2018), for
// builds that have it.
type Highs struct{}

const highsName = "highs"

// NewHighs tells how to build with HiGHS if this build has none.
func NewHighs() (Highs, error) {
	if _, err := registry.New(highsName); err != nil {
		return Highs{}, fmt.Errorf("%w: this program was built without HiGHS: install libhighs-dev and build with -tags highs", ErrMissing)
	}
	return Highs{}, nil
}

// Name returns "highs".
func (Highs) Name() string { return highsName }

// Solve solves n; the file is not needed.
func (Highs) Solve(_ context.Context, n *flowgraph.Network, _ string) ([]Answer, error) {
	s, err := registry.New(highsName)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	begin := time.Now()
	r, err := s.Solve(n, solver.Budget{})
	if err != nil {
		return nil, fmt.Errorf("peer: highs: %w", err)
	}
	ms := float64(time.Since(begin).Nanoseconds()) / 1e6
	return []Answer{{Algorithm: "lp", Optimal: r.Status == solver.Optimal, Objective: r.Objective, WallMS: ms, CPUMS: ms}}, nil
}

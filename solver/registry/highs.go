//go:build highs

package registry

import (
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/highs"
)

// tagged lists the solvers that need a build tag.
var tagged = []entry{{"highs", func() solver.Solver { return highs.New() }}}

// Package registry names every solver that configuration may ask for.
package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/auto"
	"github.com/sluice-scheduler/sluice/solver/costscaling"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/repair"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// Default is the solver to use when nothing else is asked for.
const Default = "auto"

// ErrUnknown is wrapped by the errors of [New] and [Maker].
var ErrUnknown = errors.New("registry: unknown solver")

type entry struct {
	name string
	make func() solver.Solver
}

var table = append([]entry{
	{"auto", func() solver.Solver { return auto.New() }},
	{"repair", func() solver.Solver { return repair.New() }},
	{"netsimplex", func() solver.Solver { return netsimplex.New() }},
	{"costscaling", func() solver.Solver { return costscaling.New() }},
	{"relax", func() solver.Solver { return relax.New() }},
	{"ssp", func() solver.Solver { return ssp.New() }},
}, tagged...)

// Names lists the solvers of this build.
func Names() []string {
	names := make([]string, len(table))
	for i, e := range table {
		names[i] = e.name
	}
	return names
}

// New returns a fresh solver of the given name.
func New(name string) (solver.Solver, error) {
	fresh, err := Maker(name)
	if err != nil {
		return nil, err
	}
	return fresh(), nil
}

// Maker returns what makes fresh solvers of the given name.
func Maker(name string) (func() solver.Solver, error) {
	for _, e := range table {
		if e.name == name {
			return e.make, nil
		}
	}
	return nil, fmt.Errorf("%w %q: choose one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
}

// Package models is the table of the cost models that a configuration can name.
package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
)

// Default is the model in use where the configuration names none.
const Default = "loadspread"

// table lists every model. Add a line here when you add a model.
var table = []costmodels.Model{
	loadspread.Model{},
	quincy.Model{},
}

// Names returns the names of all models, sorted.
func Names() []string {
	names := make([]string, len(table))
	for i, m := range table {
		names[i] = m.Name()
	}
	slices.Sort(names)
	return names
}

// New returns the model of that name.
func New(name string) (costmodels.Model, error) {
	for _, m := range table {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("models: no cost model %q; there are: %s", name, strings.Join(Names(), ", "))
}

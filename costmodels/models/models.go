// Package models is the table of the cost models that a configuration can name, and reads what it says of them:
//
//	policy  = sum { ";" target "=" sum }             the cluster's model, then those of pools and types of jobs
//	target  = pool | type | pool ":" type            root/batch, stateless, root/batch:stateless
//	sum     = part { "+" part }                      prices are added
//	part    = [ weight ] name [ "(" settings ")" ]   a decimal number, at most three digits after the point
//	setting = key "=" value                          separated by commas; lists of words by blanks
//
// As in: sluice; root/batch = sjf + 0.5 quincy(xi=40000); stateless = coco(devils=sort scan)
package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/network"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/costmodels/random"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
	"github.com/sluice-scheduler/sluice/costmodels/whare"
)

// Default is the model in use where the configuration names none.
const Default = "sluice"

// table lists every model with its default settings. Add a line here when you add a model.
var table = []costmodels.Model{
	binpack.Model{},
	coco.Model{},
	delay.Model{},
	fragmentation.Model{},
	loadspread.Model{},
	network.Model{},
	quincy.Model{},
	random.Model{},
	sjf.Model{},
	sluice.Model{},
	trivial.Model{},
	whare.Model{},
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

// named returns the model of that name with its default settings.
func named(name string) (costmodels.Model, error) {
	for _, m := range table {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no cost model %q; there are: %s", name, strings.Join(Names(), ", "))
}

// New returns the model that a policy describes; see the package comment.
func New(policy string) (costmodels.Model, error) {
	m, err := parsePolicy(policy)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return m, nil
}

// Cut cuts policies at a separator that is in no parentheses.
func Cut(policies string, separator byte) ([]string, error) {
	pieces, err := costmodels.Cut(policies, separator)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return pieces, nil
}

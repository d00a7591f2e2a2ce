//go:build highs

package gap

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/lanl/highs"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Best returns the value of a best plan, by a mixed integer program for each tier: how many of each class start on each host,
// and for each gang whether it does. The value of the stronger tiers is held.
func Best(x *Instance) (Value, error) {
	var best Value
	for t := range cluster.NumTiers {
		v, err := program(x, t, best)
		if err != nil {
			return best, fmt.Errorf("gap: the best plan of tier %v: %w", t, err)
		}
		best[t] = v
	}
	return best, nil
}

// program states and solves the problem of one tier. Column c·hosts+h is how many of class c start on host h; then come the
// gangs.
func program(x *Instance, tier cluster.Tier, held Value) (int64, error) {
	hosts, columns := len(x.Hosts), len(x.Classes)*len(x.Hosts)
	gangs := make([]int, len(x.Classes))
	for i := range x.Classes {
		if x.Classes[i].Gang {
			gangs[i] = columns
			columns++
		}
	}
	lower, upper, kind := make([]float64, columns), make([]float64, columns), make([]highs.VariableType, columns)
	var objective [cluster.NumTiers][]float64
	for t := range objective {
		objective[t] = make([]float64, columns)
	}
	for i := range upper {
		upper[i], kind[i] = 1, highs.IntegerType
	}
	m := highs.NewRawModel()
	defer runtime.KeepAlive(m) // a model that is collected frees what its solution is read from
	err := m.SetBoolOption("output_flag", false)
	row := func(low float64, coefficients []float64, high float64) {
		err = errors.Join(err, m.AddDenseRow(low, coefficients, high))
	}
	for i := range x.Classes {
		for h := range hosts {
			upper[i*hosts+h] = float64(x.Classes[i].Count)
			objective[x.Classes[i].Tier][i*hosts+h] = float64(x.Classes[i].Wait - x.Classes[i].Start[h])
		}
	}
	err = errors.Join(err, m.SetFloat64Option("mip_rel_gap", 0), m.SetFloat64Option("mip_abs_gap", 0.5), m.SetMaximization(true),
		m.AddColumnBounds(lower, upper), m.SetColumnCosts(objective[tier]), m.SetIntegrality(kind))
	for i := range x.Classes {
		c, sum := &x.Classes[i], make([]float64, columns)
		for h := range hosts {
			sum[i*hosts+h] = 1
		}
		if c.Gang {
			sum[gangs[i]] = -float64(c.Count)
			row(0, sum, 0)
		} else {
			row(0, sum, float64(c.Count))
		}
	}
	for h, capacity := range x.Hosts {
		for d := range capacity {
			sum := make([]float64, columns)
			for i := range x.Classes {
				sum[i*hosts+h] = float64(x.Classes[i].Request[d])
			}
			row(0, sum, float64(capacity[d]))
		}
	}
	for t := range tier {
		if held[t] == 0 {
			continue // also where no class has the tier: HiGHS takes no empty row
		}
		row(float64(held[t])-0.5, objective[t], math.Inf(1))
	}
	if err != nil {
		return 0, err
	}
	solution, err := m.Solve()
	if err != nil {
		return 0, err
	}
	if solution.Status != highs.Optimal {
		return 0, fmt.Errorf("HiGHS ended with %v", solution.Status)
	}
	return int64(math.Round(solution.Objective)), nil
}

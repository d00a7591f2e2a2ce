package gap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/solver"
)

// ErrNoJudge says that this build has no HiGHS.
var ErrNoJudge = errors.New("gap: built without HiGHS: install it with scripts/install-highs.sh and build with -tags highs")

// Loads are those that instances have in turn; every second instance of a load has gangs.
var Loads = []float64{0.8, 1.0, 1.2}

// Outcome is what became of one instance.
type Outcome struct {
	Seed    uint64
	Options Options
	// Values of the best plan, of ours, of the planner without a flow, and of greedy by density.
	Best, Ours, Greedy, Density Value
}

// Row sums a tier up. Gaps are parts of the best value, in instances where the tier has any.
type Row struct {
	Tier        string  `json:"tier"`
	Instances   int     `json:"instances"`
	Median      float64 `json:"median"`
	P95         float64 `json:"p95"`
	Max         float64 `json:"max"`
	Optimal     int     `json:"optimal"`        // instances without a gap
	GreedyP50   float64 `json:"greedy_median"`  // of the planner without a flow
	GreedyP95   float64 `json:"greedy_p95"`     // of the same
	DensityP50  float64 `json:"density_median"` // of greedy by density
	DensityP95  float64 `json:"density_p95"`    // of the same
	BelowSimple int     `json:"below_density"`  // instances in which ours is worth less than greedy by density, by this tier first
}

// Run measures instances with the seeds from 1, of so many hosts; with 0 of four to six.
func Run(ctx context.Context, instances int, hosts int64, newSolver func() solver.Solver, progress func(done int)) ([]Outcome, error) {
	all := make([]Outcome, 0, instances)
	for i := range instances {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := Outcome{Seed: uint64(i + 1), Options: Options{Load: Loads[i%len(Loads)], Gangs: i/len(Loads)%2 == 1, Hosts: hosts}}
		if err := o.measure(newSolver); err != nil {
			return nil, fmt.Errorf("instance %d: %w", o.Seed, err)
		}
		all = append(all, o)
		progress(i + 1)
	}
	return all, nil
}

func (o *Outcome) measure(newSolver func() solver.Solver) (err error) {
	x := Generate(o.Options, o.Seed)
	if o.Best, err = Best(x); err != nil {
		return err
	}
	if o.Ours, err = Planned(x, newSolver); err != nil {
		return err
	}
	if o.Greedy, err = Planned(x, nil); err != nil {
		return err
	}
	o.Density, err = Density(x)
	return err
}

// Sum returns a row for each tier.
func Sum(all []Outcome) []Row {
	var rows []Row
	for t := range cluster.NumTiers {
		row := Row{Tier: t.String()}
		var ours, greedy, density []float64
		for i := range all {
			o := &all[i]
			if o.Best[t] == 0 {
				continue
			}
			part := func(v Value) float64 { return float64(o.Best[t]-v[t]) / float64(o.Best[t]) }
			ours, greedy, density = append(ours, part(o.Ours)), append(greedy, part(o.Greedy)), append(density, part(o.Density))
			if part(o.Ours) <= 0 {
				row.Optimal++
			}
			if firstDifference(o.Ours, o.Density) == t && o.Ours[t] < o.Density[t] {
				row.BelowSimple++
			}
		}
		row.Instances = len(ours)
		row.Median, row.P95, row.Max = quantile(ours, 0.5), quantile(ours, 0.95), quantile(ours, 1)
		row.GreedyP50, row.GreedyP95 = quantile(greedy, 0.5), quantile(greedy, 0.95)
		row.DensityP50, row.DensityP95 = quantile(density, 0.5), quantile(density, 0.95)
		rows = append(rows, row)
	}
	return rows
}

// firstDifference returns the strongest tier in which the values differ, NumTiers for none.
func firstDifference(v, w Value) cluster.Tier {
	for t := range v {
		if v[t] != w[t] {
			return cluster.Tier(t)
		}
	}
	return cluster.NumTiers
}

// quantile sorts the numbers and returns one by nearest rank; it is 0 of none.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(math.Ceil(q*float64(len(all))))-1]
}

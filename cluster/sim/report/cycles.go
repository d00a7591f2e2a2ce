package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluice-scheduler/sluice/cluster/sim"
)

// WriteCycles writes what a benchmark of cycles measured by the clock of that name.
func WriteCycles(w io.Writer, r *sim.CycleReport, clock string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, clock+" milliseconds\tp50\tp90\tp99\tmax")
	for _, p := range append([]string{"events"}, phases...) {
		if q, measured := r.Latency[p]; measured {
			fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.3f\n", p, q.P50, q.P90, q.P99, q.Max)
		}
	}
	for _, x := range []struct {
		name string
		q    sim.Quantiles
	}{{"allocations", r.Allocations}, {"arcs touched", r.ArcsTouched}, {"solves", r.Solves}} {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\n", x.name, x.q.P50, x.q.P90, x.q.P99, x.q.Max)
	}
	if r.Cold {
		fmt.Fprintf(t, "\nfirst plan, of %d tasks\t%.0f ms", r.Tasks, r.FirstPlan)
	}
	fmt.Fprintf(t, "\ngarbage collected\t%d times during cycles, %d between them for %.0f ms, at most %.0f\n",
		r.Collections, r.Rests.Count, r.Rests.P50, r.Rests.Max)
	fmt.Fprintf(t, "arcs touched for each changed task\t%.1f\n", r.ArcsPerChange)
	if r.Preferences > 0 {
		fmt.Fprintf(t, "placed where the input is\t%.2f%%\n", 100*r.Preferred)
	}
	if r.Pools > 0 {
		fmt.Fprintf(t, "asked to leave\t%d\n", r.Displaced)
	}
	fmt.Fprintf(t, "price of a placement\t%.1f ms\ncost of a task, placed or waiting\t%.1f ms\n", r.MeanPrice, r.CostPerTask)
	fmt.Fprintf(t, "placements\t%d, %.0f a second\nwaiting at the end\t%d\n", r.Placements, r.PlacementsPerSecond, r.Waiting)
	return t.Flush()
}

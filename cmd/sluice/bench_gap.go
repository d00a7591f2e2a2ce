package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/bench/gap"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

const benchGapHelp = `Measure what the planner loses against the best plan there is.

Small random clusters of four to six hosts, or --hosts, are filled to 0.8, 1.0 and 1.2 times what they have, with
tasks of opposed dimensions in all tiers; in half of them some are gangs. HiGHS finds the best plan of each
as a mixed integer program, tier after tier. The gap is the part of the best plan's value that ours lacks;
value is what a plan saves against leaving everything waiting.

It needs a build with -tags highs (scripts/install-highs.sh).`

func newBenchGapCommand(a *app) *cobra.Command {
	instances, hosts, algorithm := 200, int64(0), registry.Default
	cmd := &cobra.Command{
		Use:   "gap",
		Short: "Measure what plans lose against the best ones",
		Long:  benchGapHelp,
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if instances < 1 {
				return usageError(cmd, errors.New("--instances must be at least 1"))
			}
			if hosts < 0 || hosts > 1000 {
				return usageError(cmd, errors.New("--hosts must be between 1 and 1000, or 0 for four to six"))
			}
			newSolver, err := registry.Maker(algorithm)
			if err != nil {
				return usageError(cmd, fmt.Errorf("--solver: %w", err))
			}
			bar := newProgress(a.err)
			all, err := gap.Run(cmd.Context(), instances, hosts, newSolver,
				func(done int) { bar.show(fmt.Sprintf("%d of %d instances", done, instances), time.Now()) })
			bar.end()
			if err != nil {
				return err
			}
			rows := gap.Sum(all)
			return a.showValue(rows, func(w io.Writer) error { return writeGaps(w, rows) })
		},
	}
	cmd.Flags().IntVar(&instances, "instances", instances, "random clusters, seeds from 1")
	cmd.Flags().Int64Var(&hosts, "hosts", hosts, "hosts of each cluster, 0 for four to six; the best plan takes long to find for more than a dozen")
	cmd.Flags().StringVar(&algorithm, "solver", algorithm, "solver of the planner")
	return cmd
}

func writeGaps(w io.Writer, rows []gap.Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIER\tINSTANCES\tBEST\tGAP % MEDIAN\tP95\tMAX\tWITHOUT FLOW P95\tBY DENSITY MEDIAN\tP95\tBELOW DENSITY")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\n", r.Tier, r.Instances, r.Optimal,
			100*r.Median, 100*r.P95, 100*r.Max, 100*r.GreedyP95, 100*r.DensityP50, 100*r.DensityP95, r.BelowSimple)
	}
	return t.Flush()
}

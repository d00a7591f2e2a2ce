package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/bench/quality"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

const benchQualityHelp = `Measure how well policies pack GPUs.

Pods of a list (form of Alibaba's cluster-trace-gpu-v2023) are shuffled and drawn until
together they ask for --demand times the GPUs of the machines. They come one by one, and
none leaves; what does not fit is turned away. The measure is the part of the GPUs that
is allocated in the end, in per cent.

The baselines random, best-fit, dot-product, packing and fgd are greedy rules. The cost
models run in the production planner, a cycle for each pod; with --batch they also plan
all pods in one cycle.`

func newBenchQualityCommand(a *app) *cobra.Command {
	o := quality.Options{Demand: 1.3, Seeds: 10}
	var pods, machines, algorithm string
	var names []string
	var batch bool
	cmd := &cobra.Command{
		Use:   "quality",
		Short: "Measure how well policies pack GPUs",
		Long:  benchQualityHelp,
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case pods == "" || machines == "":
				return usageError(cmd, errors.New("give --pods and --machines"))
			case !(o.Demand > 0 && o.Demand <= 100) || o.Seeds < 1:
				return usageError(cmd, errors.New("--demand must be above 0 and at most 100, --seeds at least 1"))
			}
			newSolver, err := registry.Maker(algorithm)
			if err != nil {
				return usageError(cmd, fmt.Errorf("--solver: %w", err))
			}
			var policies []quality.Policy
			for _, r := range quality.Rules() {
				policies = append(policies, r)
			}
			for i, name := range names {
				if slices.Contains(names[:i], name) {
					return usageError(cmd, fmt.Errorf("--model: %s is there twice: give it once", name))
				}
				m, err := models.New(name)
				if err != nil {
					return usageError(cmd, fmt.Errorf("--model: %w", err))
				}
				policies = append(policies, quality.Planned{Model: m, NewSolver: newSolver, Policy: name})
				if batch {
					policies = append(policies, quality.Planned{Model: m, NewSolver: newSolver, Policy: name, Batch: true})
				}
			}
			w, err := quality.Read(pods, machines)
			if err != nil {
				return exitError{exitUsage, err}
			}
			return a.runBenchQuality(cmd, w, policies, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&pods, "pods", "", "list of pods, plain or gzip")
	fs.StringVar(&machines, "machines", "", "list of machines, plain or gzip")
	fs.Float64Var(&o.Demand, "demand", o.Demand, "part of the GPUs that the pods ask for together")
	fs.IntVar(&o.Seeds, "seeds", o.Seeds, "draws that every policy packs")
	fs.StringArrayVar(&names, "model", []string{models.Default}, "cost model; may be given again")
	fs.BoolVar(&batch, "batch", false, "plan all pods in one cycle, too")
	fs.StringVar(&algorithm, "solver", registry.Default, "solver of the planner")
	return cmd
}

func (a *app) runBenchQuality(cmd *cobra.Command, w *quality.Workload, policies []quality.Policy, o quality.Options) error {
	bar := newProgress(a.err)
	o.Progress = func(what string, done, total int) {
		bar.show(fmt.Sprintf("%s: %d of %d pods", what, done, total), time.Now())
	}
	scores, err := quality.Run(cmd.Context(), w, policies, o)
	bar.end()
	if err != nil {
		return err
	}
	return a.showValue(scores, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "POLICY\tGPUS ALLOCATED %\tSPREAD")
		for _, s := range scores {
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\n", s.Policy, s.Mean, s.Spread)
		}
		return t.Flush()
	})
}

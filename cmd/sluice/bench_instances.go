package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/bench"
)

const benchInstancesHelp = `Measure cold solves of minimum-cost-flow problems in DIMACS files, plain or gzip.
Of folders, every file that ends in .min or .min.gz is taken.

Times are medians in milliseconds; the ratio is the median of the first peer
over ours, with the geometric mean at the end.`

func newBenchInstancesCommand() *cobra.Command {
	var f benchFlags
	var minArcs, repeats int
	cmd := &cobra.Command{
		Use:   "instances FILE|FOLDER...",
		Short: "Measure solvers on DIMACS problems",
		Long:  benchInstancesHelp,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBenchInstances(cmd, args, minArcs, repeats, f)
		},
	}
	addRunFlags(cmd.Flags(), &f)
	cmd.Flags().IntVar(&minArcs, "min-arcs", 1000, "leave out problems of fewer arcs")
	cmd.Flags().IntVar(&repeats, "repeats", 5, "solves of each problem")
	return cmd
}

// instance is a file with the name to show.
type instance struct{ name, file string }

func runBenchInstances(cmd *cobra.Command, args []string, minArcs, repeats int, f benchFlags) error {
	if repeats < 1 {
		return usageError(cmd, fmt.Errorf("--repeats: %d is below 1", repeats))
	}
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	instances, err := findInstances(args)
	if err != nil {
		return exitError{exitFailure, err}
	}
	report := bench.NewReport(f.clock, time.Now())
	bar := progressBar{w: cmd.ErrOrStderr()}
	for i, x := range instances {
		bar.label = x.name
		bar.show(i, len(instances))
		r, err := bench.RunInstance(cmd.Context(), x.name, x.file, minArcs, repeats, options)
		if errors.Is(err, bench.ErrSmall) {
			continue
		}
		if err != nil {
			bar.clear()
			return exitError{exitFailure, err}
		}
		report.Runs = append(report.Runs, r)
	}
	bar.clear()
	return f.write(cmd.OutOrStdout(), report)
}

func findInstances(args []string) ([]instance, error) {
	var found []instance
	for _, root := range args {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".min")
			if d.IsDir() || path != root && name == strings.TrimSuffix(path, ".gz") {
				return nil
			}
			if short, err := filepath.Rel(root, name); err == nil && path != root {
				name = short
			} else {
				name = filepath.Base(name)
			}
			found = append(found, instance{filepath.ToSlash(name), path})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b instance) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

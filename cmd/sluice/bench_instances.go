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
	"github.com/sluice-scheduler/sluice/bench/families"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

const benchInstancesHelp = `Measure cold solves of minimum-cost-flow problems in DIMACS files, plain or gzip.
Of folders, every file that ends in .min or .min.gz is taken. With --families,
arguments are families of networks to draw instead, or none for all of them.

Times are medians in milliseconds; the ratio is the median of the first peer
over ours, with the geometric mean at the end. --export keeps what was solved.
A problem that is malformed or has no optimum is named, and the others go on; the
exit code is 1 then.

Families: `

func newBenchInstancesCommand() *cobra.Command {
	var f benchFlags
	var minArcs, repeats int
	var drawn bool
	var seed uint64
	cmd := &cobra.Command{
		Use:   "instances FILE|FOLDER...|--families [FAMILY...]",
		Short: "Measure solvers on DIMACS problems, or on families of networks",
		Long:  benchInstancesHelp + strings.Join(familyNames(), ", ") + ".",
		RunE: func(cmd *cobra.Command, args []string) error {
			if repeats < 1 {
				return usageError(cmd, fmt.Errorf("--repeats: %d is below 1", repeats))
			}
			if drawn {
				instances, err := drawFamilies(args, seed)
				if err != nil {
					return usageError(cmd, err)
				}
				return runBenchInstances(cmd, instances, minArcs, repeats, f)
			}
			if cmd.Flags().Changed("seed") {
				return usageError(cmd, errors.New("--seed goes with --families"))
			}
			if len(args) == 0 {
				return usageError(cmd, errors.New("name files or folders, or give --families"))
			}
			instances, err := findInstances(args)
			if err != nil {
				return exitError{exitUsage, err}
			}
			return runBenchInstances(cmd, instances, minArcs, repeats, f)
		},
	}
	addRunFlags(cmd.Flags(), &f)
	cmd.Flags().IntVar(&minArcs, "min-arcs", 1000, "leave out problems of fewer arcs")
	cmd.Flags().IntVar(&repeats, "repeats", 5, "solves of each problem")
	cmd.Flags().BoolVar(&drawn, "families", false, "draw networks of families")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of what is drawn")
	return cmd
}

// instance is a problem with the name to show, and the file that it is in, if any.
type instance struct {
	name, file string
	load       func() (*flowgraph.Network, error)
}

// keepsSources refuses to export over a problem that is yet to be read.
func keepsSources(instances []instance, folder string) error {
	for _, x := range instances {
		base := filepath.Base(x.file)
		if folder == "" || !sameFile(x.file, filepath.Join(folder, base)) {
			continue
		}
		if slices.ContainsFunc(instances, func(y instance) bool { return y.name+"-0.min" == base }) {
			return fmt.Errorf("--export: %s, which is read, would be written over: give another folder", x.file)
		}
	}
	return nil
}

func runBenchInstances(cmd *cobra.Command, instances []instance, minArcs, repeats int, f benchFlags) error {
	if err := keepsSources(instances, f.export); err != nil {
		return usageError(cmd, err)
	}
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	report := bench.NewReport(f.clock, time.Now())
	bar := progressBar{w: cmd.ErrOrStderr()}
	small, failed := 0, 0
	for i, x := range instances {
		bar.label = x.name
		bar.show(i, len(instances))
		n, err := x.load()
		if err == nil {
			var r *bench.Result
			if r, err = bench.RunInstance(cmd.Context(), x.name, n, minArcs, repeats, options); r != nil {
				report.Runs = append(report.Runs, r)
			}
		}
		if errors.Is(err, bench.ErrSmall) {
			small++
			continue
		}
		if cmd.Context().Err() != nil {
			break
		}
		if err != nil {
			bar.clear()
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "sluice: "+err.Error())
			failed++
		}
	}
	bar.clear()
	if small > 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "left out %d of %d problems: they have fewer than %d arcs (--min-arcs)\n", small, len(instances), minArcs)
	}
	if err := f.write(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	switch {
	case cmd.Context().Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted: what is shown is what was measured by then")}
	case failed == 0:
		return nil
	}
	return exitError{exitFailure, fmt.Errorf("%d of %d problems could not be measured", failed, len(instances))}
}

func familyNames() (names []string) {
	for _, f := range families.All {
		names = append(names, f.Name)
	}
	return names
}

// drawFamilies returns those of the given names, or all.
func drawFamilies(names []string, seed uint64) (drawn []instance, err error) {
	for _, f := range families.All {
		if len(names) == 0 || slices.Contains(names, f.Name) {
			drawn = append(drawn, instance{f.Name, "", func() (*flowgraph.Network, error) { return f.Draw(seed, f.Nodes), nil }})
		}
	}
	for _, name := range names {
		if !slices.Contains(familyNames(), name) {
			return nil, fmt.Errorf("no family %q: choose some of %s", name, strings.Join(familyNames(), ", "))
		}
	}
	return drawn, nil
}

func findInstances(args []string) ([]instance, error) {
	var found []instance
	for _, root := range args {
		before := len(found)
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
			found = append(found, instance{filepath.ToSlash(name), path, func() (*flowgraph.Network, error) { return bench.ReadInstance(path) }})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(found) == before {
			return nil, fmt.Errorf("%s: no file in it ends in .min or .min.gz: name those with problems", root)
		}
	}
	// Their order is that of the arguments where names are equal.
	slices.SortStableFunc(found, func(a, b instance) int { return strings.Compare(a.name, b.name) })
	names := make([]*string, len(found))
	for i := range found {
		found[i].name = bench.InstanceName(found[i].name)
		names[i] = &found[i].name
	}
	tellApart(names)
	return found, nil
}

// tellApart numbers what would be shown and kept under one name.
func tellApart(names []*string) {
	taken := map[string]bool{}
	for _, x := range names {
		name := *x
		for k := 2; taken[*x]; k++ {
			*x = fmt.Sprintf("%s-%d", name, k)
		}
		taken[*x] = true
	}
}

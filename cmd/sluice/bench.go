package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-scheduler/sluice/bench"
	"github.com/sluice-scheduler/sluice/bench/peer"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

func newBenchCommand(a *app) *cobra.Command {
	return group("bench", "Measure solvers and cycles", newBenchSolverCommand(), newBenchInstancesCommand(), newBenchCycleCommand(a), newBenchQualityCommand(a), newBenchGapCommand(a))
}

const benchSolverHelp = `Measure solvers on scheduling networks that change from cycle to cycle.

Arguments are declared workloads or files (.yaml) of the same form; without any,
those of --suite run. Flags that describe a workload replace what it says; but
for --warm-up, --cycles, --samples and --seed the ratio that it wants is then
left out. All algorithms follow one network, cycle by cycle, and must agree; the
first one leads: its placements become running tasks.

The table gives, in milliseconds, the median cold solve; apply + solve + read
of warm cycles (min, median, p99, max) with the medians of its parts; arcs
examined, steps (pivots, expansions), allocations of the median cycle; and the
memory of the solver. Ratio is the cold median of the first peer over our p99.

Peers solve the very same networks, cold, a sample of cycles in the same run:
  --peer lemon   compiles a small program against the LEMON library
                 (Debian: apt-get install g++ liblemon-dev)
  --peer highs   needs a build with -tags highs

Declared workloads: `

type benchFlags struct {
	suite, output, clock     string
	algorithms, peers, lemon []string
	verify                   bool
	limit                    time.Duration
	export, html, svg        string
	reports                  []string
	w                        bench.Workload
}

func newBenchSolverCommand() *cobra.Command {
	f := benchFlags{w: bench.Default()}
	cmd := &cobra.Command{
		Use:   "solver [WORKLOAD...]",
		Short: "Measure solvers on networks that change",
		Long:  benchSolverHelp + strings.Join(bench.Names(""), ", ") + ".",
		RunE:  func(cmd *cobra.Command, args []string) error { return runBenchSolver(cmd, args, f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.suite, "suite", "short", "workloads to run if none is named")
	addRunFlags(fs, &f)
	addWorkloadFlags(fs, &f.w)
	return cmd
}

// addRunFlags offers what all benchmarks share.
func addRunFlags(fs *pflag.FlagSet, f *benchFlags) {
	fs.StringSliceVar(&f.algorithms, "algorithms", []string{registry.Default}, "some of "+strings.Join(registry.Names(), ", "))
	fs.StringVarP(&f.output, "output", "o", "table", "table, json (summaries), csv (every cycle) or md (the table of the documentation)")
	fs.StringVar(&f.clock, "clock", bench.Wall, "wall, or cpu: processor time of the process, steadier on a busy machine")
	fs.BoolVar(&f.verify, "verify", false, "check every answer against the definition of optimality")
	fs.StringSliceVar(&f.peers, "peer", nil, "lemon, highs")
	fs.StringSliceVar(&f.lemon, "lemon", peer.LemonAlgorithms, "algorithms of lemon")
	fs.StringVar(&f.export, "export", "", "folder for the networks of the sampled cycles, in DIMACS format")
	fs.StringVar(&f.html, "html", "", "file for a page with plots")
	fs.StringArrayVar(&f.reports, "report", nil, "file for the report besides the output, in the format of its ending: .json, .csv or .md; may be given again")
	fs.DurationVar(&f.limit, "limit", 0, "end each run after this time, once a peer has answered; 0 does not")
	fs.StringVar(&f.svg, "svg", "", "folder for the plots as single files")
}

// options checks what the flags say of a run.
func (f *benchFlags) options(cmd *cobra.Command) (bench.Options, error) {
	o := bench.Options{Algorithms: f.algorithms, Verify: f.verify, Clock: f.clock, Export: f.export, Limit: f.limit}
	if !slices.Contains([]string{"table", "json", "csv", "md"}, f.output) {
		return o, usageError(cmd, fmt.Errorf("--output %q: choose table, json, csv or md", f.output))
	}
	if f.clock != bench.Wall && f.clock != bench.CPU {
		return o, usageError(cmd, fmt.Errorf("--clock %q: choose %s or %s", f.clock, bench.Wall, bench.CPU))
	}
	if f.limit < 0 {
		return o, usageError(cmd, fmt.Errorf("--limit: %s is below 0", f.limit))
	}
	for _, list := range []struct {
		flag          string
		given, choice []string
	}{
		{"algorithms", f.algorithms, registry.Names()},
		{"peer", f.peers, []string{"lemon", "highs"}},
		{"lemon", f.lemon, peer.LemonAlgorithms},
	} {
		for i, name := range list.given {
			if !slices.Contains(list.choice, name) {
				return o, usageError(cmd, fmt.Errorf("--%s %q: choose some of %s", list.flag, name, strings.Join(list.choice, ", ")))
			}
			if slices.Contains(list.given[:i], name) {
				return o, usageError(cmd, fmt.Errorf("--%s: %s is there twice: give it once", list.flag, name))
			}
		}
	}
	if cmd.Flags().Changed("lemon") && !slices.Contains(f.peers, "lemon") {
		return o, usageError(cmd, errors.New("--lemon goes with --peer lemon"))
	}
	if len(f.algorithms) == 0 {
		return o, usageError(cmd, errors.New("--algorithms: give at least one"))
	}
	for i, file := range f.reports {
		if !slices.Contains([]string{".json", ".csv", ".md"}, filepath.Ext(file)) {
			return o, usageError(cmd, fmt.Errorf("--report %q: the name must end in .json, .csv or .md", file))
		}
		same := func(other string) bool { return sameFile(file, other) }
		if slices.ContainsFunc(f.reports[:i], same) || f.html != "" && same(f.html) {
			return o, usageError(cmd, fmt.Errorf("--report %q: another one goes to that file", file))
		}
	}
	if err := f.writable(); err != nil {
		return o, err
	}
	var err error
	if o.Peers, err = choosePeers(cmd.Context(), *f); err != nil {
		return o, exitError{exitFailure, err}
	}
	return o, nil
}

// addWorkloadFlags offers every setting of a workload under the name that it has
// in files.
func addWorkloadFlags(fs *pflag.FlagSet, w *bench.Workload) {
	fs.IntVar(&w.Hosts, "hosts", w.Hosts, "hosts")
	fs.IntVar(&w.Slots, "slots", w.Slots, "slots of a host")
	fs.IntVar(&w.HostsPerRack, "hosts-per-rack", w.HostsPerRack, "hosts of a rack")
	fs.Float64Var(&w.Utilisation, "utilisation", w.Utilisation, "tasks per slot")
	fs.IntVar(&w.TasksPerJob, "tasks-per-job", w.TasksPerJob, "tasks of a job")
	fs.StringVar(&w.Shape, "shape", w.Shape, "preferences: random (of each task) or patterns (shared in a job)")
	fs.IntVar(&w.Preferences, "preferences", w.Preferences, "preferred hosts of a task")
	fs.IntVar(&w.PatternsPerJob, "patterns-per-job", w.PatternsPerJob, "patterns of a job")
	fs.BoolVar(&w.Merge, "merge", w.Merge, "make tasks of one pattern one class")
	fs.IntVar(&w.Convex, "convex", w.Convex, "parallel arcs of convex prices")
	fs.IntVar(&w.Fit, "fit", w.Fit, "most tasks of a class on a preferred host; 0 is no bound")
	fs.BoolVar(&w.Placed, "placed", w.Placed, "begin with running tasks")
	fs.Float64Var(&w.Churn, "churn", w.Churn, "part of the tasks that finishes and arrives each cycle")
	fs.IntVar(&w.Hysteresis, "hysteresis", w.Hysteresis, "what a running task pays less for its place")
	fs.IntVar(&w.Growth, "growth", w.Growth, "of the price of waiting, each cycle")
	fs.Float64Var(&w.Failures, "failures", w.Failures, "part of the hosts that fails or returns each cycle")
	fs.IntVar(&w.Huge.Tasks, "huge-tasks", w.Huge.Tasks, "tasks of a job that comes at once")
	fs.IntVar(&w.Huge.Every, "huge-every", w.Huge.Every, "cycles from one such job to the next")
	fs.StringVar(&w.Mode, "mode", w.Mode, "warm (cycles) or cold (one solve of each of several networks)")
	fs.IntVar(&w.WarmUp, "warm-up", w.WarmUp, "cycles before the first that counts")
	fs.IntVar(&w.Cycles, "cycles", w.Cycles, "warm cycles")
	fs.IntVar(&w.Samples, "samples", w.Samples, "cycles given to peers and to export; networks of a cold workload")
	fs.Uint64Var(&w.Seed, "seed", w.Seed, "of everything that is drawn")
}

func runBenchSolver(cmd *cobra.Command, args []string, f benchFlags) error {
	if len(args) > 0 && cmd.Flags().Changed("suite") {
		return usageError(cmd, errors.New("--suite runs a list of workloads: leave it out, or name none"))
	}
	workloads, err := chooseWorkloads(cmd, args, f)
	if err != nil {
		return usageError(cmd, err)
	}
	for _, w := range workloads {
		if (len(f.peers) > 0 || f.export != "") && min(w.Samples, w.Cycles) == 0 && w.Mode == bench.Warm {
			return usageError(cmd, fmt.Errorf("--peer and --export get sampled cycles: %s has none with --samples %d and --cycles %d", w.Name, w.Samples, w.Cycles))
		}
	}
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	report := bench.NewReport(f.clock, time.Now())
	for i, w := range workloads {
		bar := progressBar{w: cmd.ErrOrStderr(), label: fmt.Sprintf("%d/%d %s", i+1, len(workloads), w.Name)}
		options.Progress = bar.show
		r, err := bench.Run(cmd.Context(), w, options)
		bar.clear()
		if r != nil {
			report.Runs = append(report.Runs, r)
		}
		if err != nil {
			// What has been measured so far is not lost.
			return errors.Join(err, f.write(cmd.OutOrStdout(), report))
		}
	}
	return f.write(cmd.OutOrStdout(), report)
}

func chooseWorkloads(cmd *cobra.Command, names []string, f benchFlags) ([]bench.Workload, error) {
	if len(names) == 0 {
		names = bench.Names(f.suite)
		if !slices.Contains(bench.Suites(), f.suite) {
			return nil, fmt.Errorf("--suite %q: choose one of %s", f.suite, strings.Join(bench.Suites(), ", "))
		}
	}
	var chosen []bench.Workload
	for _, name := range names {
		w, err := bench.Find(name)
		if err != nil {
			return nil, err
		}
		replaceSettings(cmd.Flags(), &w)
		for _, x := range w.Expand() {
			if err := x.Validate(); err != nil {
				return nil, err
			}
			chosen = append(chosen, x)
		}
	}
	shown := make([]*string, len(chosen))
	for i := range chosen {
		shown[i] = &chosen[i].Name
	}
	tellApart(shown)
	return chosen, nil
}

// replaceSettings gives w the values of the flags that were set. What makes another workload of it is said, and the ratio that was wanted
// of the one declared is wanted of no other.
func replaceSettings(given *pflag.FlagSet, w *bench.Workload) {
	own := pflag.NewFlagSet("workload", pflag.ContinueOnError)
	addWorkloadFlags(own, w)
	var others []string
	given.Visit(func(flag *pflag.Flag) {
		if target := own.Lookup(flag.Name); target != nil && target.Value.String() != flag.Value.String() {
			if !slices.Contains([]string{"warm-up", "cycles", "samples", "seed"}, flag.Name) {
				others = append(others, fmt.Sprintf("--%s=%s", flag.Name, flag.Value))
			}
			// The value has been parsed once by a flag of the same type.
			_ = target.Value.Set(flag.Value.String())
		}
		switch flag.Name { // one value replaces those of a sweep
		case "hosts":
			w.Sweep.Hosts = nil
		case "utilisation":
			w.Sweep.Utilisation = nil
		case "churn":
			w.Sweep.Churn = nil
		case "tasks-per-job":
			w.Sweep.TasksPerJob = nil
		}
	})
	if len(others) > 0 {
		w.About = strings.TrimPrefix(w.About+", but "+strings.Join(others, " "), ", but ")
		w.Floor, w.Target = 0, 0
	}
}

func choosePeers(ctx context.Context, f benchFlags) ([]bench.Peer, error) {
	var peers []bench.Peer
	for _, name := range f.peers {
		switch name {
		case "lemon":
			p, err := peer.NewLemon(ctx, f.lemon...)
			if err != nil {
				return nil, err
			}
			peers = append(peers, p)
		case "highs":
			p, err := peer.NewHighs()
			if err != nil {
				return nil, err
			}
			peers = append(peers, p)
		}
	}
	return peers, nil
}

// write writes the report to out and to the files that were asked for.
func (f *benchFlags) write(out io.Writer, report *bench.Report) error {
	formats := map[string]func(io.Writer) error{
		"table": report.WriteTable, "json": report.WriteJSON, "csv": report.WriteCSV, "md": report.WriteMarkdown,
	}
	err := formats[f.output](out)
	for _, file := range f.reports {
		if err == nil {
			err = writeFile(file, formats[strings.TrimPrefix(filepath.Ext(file), ".")])
		}
	}
	if err == nil && f.html != "" {
		err = writeFile(f.html, report.WriteHTML)
	}
	if err == nil && f.svg != "" {
		for _, p := range report.Plots() {
			if err == nil {
				err = writeFile(filepath.Join(f.svg, p.Name+".svg"), p.WriteSVG)
			}
		}
	}
	if err != nil {
		return exitError{exitFailure, err}
	}
	return nil
}

// writable makes sure that all can be written that is written at the end.
func (f *benchFlags) writable() error {
	for _, file := range f.reports {
		if err := writable("report", file); err != nil {
			return err
		}
	}
	if f.html != "" {
		if err := writable("html", f.html); err != nil {
			return err
		}
	}
	for _, x := range []struct{ flag, folder string }{{"svg", f.svg}, {"export", f.export}} {
		if x.folder == "" {
			continue
		}
		if err := os.MkdirAll(x.folder, 0o755); err != nil {
			return exitError{exitUsage, fmt.Errorf("--%s: %w", x.flag, err)}
		}
	}
	return nil
}

// writable makes sure that the file that a flag names can be written when the work is done, which may be in hours. What is in it stays
// until then. A pipe is left alone: whoever reads it would take it for ended.
func writable(flag, path string) error {
	if path == "-" {
		return noStream(flag)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// noStream refuses "-", which other commands take for a standard stream, as the name of a file: what is written would be in a file of that
// name.
func noStream(flag string) error {
	return exitError{exitUsage, fmt.Errorf("--%s: \"-\" is for standard input in other commands: give the name of a file", flag)}
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// progressBar rewrites one line of a terminal, and shows nothing elsewhere.
type progressBar struct {
	w     io.Writer
	label string
	shown string
}

func (b *progressBar) show(done, total int) {
	if !isTerminal(b.w) || total == 0 {
		return
	}
	line := fmt.Sprintf("\r%s %s %d/%d", b.label, barOf(done, total), done, total)
	if line != b.shown {
		b.shown = line
		_, _ = fmt.Fprint(b.w, line)
	}
}

// barOf draws which part of the total is done.
func barOf(done, total int) string {
	const width = 30
	full := width * done / total
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func (b *progressBar) clear() {
	if b.shown != "" {
		_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", len(b.shown)))
	}
}

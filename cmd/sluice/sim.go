package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cluster/sim"
	"github.com/sluice-scheduler/sluice/cluster/sim/report"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

const simHelp = `Replay a workload through the production scheduler on a virtual clock, with every
decision judged by an independent checker. The same flags and seed give the same
history, which the printed hash names. Any broken rule fails the run with exit
code 1.

The workload is a trace (--format, --jobs, --machines) or made up (--generate).
docs/traces.md describes the formats, docs/simulator.md what is simulated.

Faults by rate: --faults host=1h/5m breaks a host about every hour for about five
minutes; so do rack, drain, link (to the shard), scheduler (crash and replay), and
scheduling and killing (an operator switches them off).
launch-refused, launch-fails, status-duplicated and status-reordered are
probabilities, status-delay is a time. By script: --fault 90s:rack:rack-0002:30s.

Examples:
  sluice sim --generate --hosts 200 --load 0.9 --html page.html
  sluice sim --format openb --jobs pods.csv.gz --machines nodes.csv --offered-load 0.9
  sluice sim --format openb --jobs pods.csv.gz --machines nodes.csv \
      --arrivals order --no-departures --demand 1.3
  sluice sim --format swim --jobs day.tsv.gz --hosts 600 --compare loadspread,quincy

Formats: `

// simFlags is what the flags of `sluice sim` say.
type simFlags struct {
	generate  bool
	open      trace.Options
	arrivals  string
	synthetic trace.Synthetic
	mix       string
	fleet     trace.Fleet

	model, solver string
	comparison    []string
	compare       []string // what it lists, or the model alone
	planners      []string
	budget        int64
	faults        string
	script        []string
	interference  string
	config        sim.Config

	placements, html, pools string
	speculate               bool
}

func newSimCommand(a *app) *cobra.Command {
	var f simFlags
	var formats []string
	for _, x := range trace.Formats {
		formats = append(formats, fmt.Sprintf("\n  %-20s%s", x.Name, x.Doc))
	}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Replay a workload through the scheduler on a virtual clock",
		Long:  simHelp + strings.Join(formats, ""),
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.finish(cmd.Flags()); err != nil {
				return usageError(cmd, err)
			}
			return a.runSim(cmd, &f)
		},
	}
	fs := cmd.Flags()
	addWorkloadSourceFlags(fs, &f)
	addSimulationFlags(fs, &f)
	return cmd
}

// addWorkloadSourceFlags offers what says where the workload comes from.
func addWorkloadSourceFlags(fs *pflag.FlagSet, f *simFlags) {
	fs.StringVar(&f.open.Format, "format", "", "format of --jobs")
	fs.StringVar(&f.open.Jobs, "jobs", "", "file of jobs, plain or gzip")
	fs.StringVar(&f.open.Hosts, "machines", "", "machine list, plain or gzip")
	fs.StringVar(&f.open.HostFormat, "machines-format", "", "format of --machines, if it is another one than --format")
	fs.Int64Var(&f.open.BlockBytes, "block-size", 0, "bytes of a block of input data, for formats that name data; 0: the format's default")
	fs.IntVar(&f.open.Every, "every", 0, "take only every n-th job")
	fs.IntVar(&f.open.Limit, "limit", 0, "take at most so many jobs")

	fs.IntVar(&f.fleet.Hosts, "hosts", 0, "make up so many equal hosts; 0: the format's default, 100 with --generate")
	fs.IntVar(&f.fleet.HostsPerRack, "hosts-per-rack", 0, "hosts of a rack; 0: the format's default here and below")
	fs.Int64Var(&f.fleet.CPUMilli, "host-cpu-milli", 0, "thousandths of a core of a host that is made up")
	fs.Int64Var(&f.fleet.MemoryBytes, "host-memory-bytes", 0, "its memory")
	fs.Int64Var(&f.fleet.DiskBytes, "host-disk-bytes", 0, "its disk")
	fs.Int64Var(&f.fleet.Bandwidth, "host-bandwidth", 0, "bytes per second of its interface; 0: not stated")
	fs.IntVar(&f.fleet.GPUs, "host-gpus", 0, "its devices; -1: none")
	fs.StringVar(&f.fleet.GPUModel, "host-gpu-model", "", "their model")

	fs.StringVar(&f.arrivals, "arrivals", "recorded", "recorded, or order: one job after the other until --demand is reached")
	fs.Float64Var(&f.open.Mode.OfferedLoad, "offered-load", 0, "compress arrivals until the offered load is this part of the capacity")
	fs.Float64Var(&f.open.Mode.Demand, "demand", 0, "part of the capacity that jobs ask for in all, with --arrivals order")
	fs.DurationVar(&f.open.Mode.Gap, "gap", 0, "time between two jobs, with --arrivals order")
	fs.BoolVar(&f.open.Mode.NoDepartures, "no-departures", false, "all jobs run for ever")

	fs.Float64Var(&f.open.Reserve, "reserve", 0, "part of the capacity that pools reserve, in proportion to what their jobs take in the long run")

	fs.BoolVar(&f.generate, "generate", false, "make up a workload")
	fs.Float64Var(&f.synthetic.Load, "load", 0, "part of the capacity that it uses in the long run, with --generate (default 0.8)")
	fs.DurationVar(&f.synthetic.Horizon, "span", 0, "how long jobs arrive, with --generate (default 1h)")
	fs.StringVar(&f.mix, "mix", trace.DefaultMix, "kinds of jobs with their parts of the load, with --generate: "+strings.Join(trace.Kinds(), ", "))
}

// addSimulationFlags offers what says how the workload is simulated and what is written.
func addSimulationFlags(fs *pflag.FlagSet, f *simFlags) {
	fs.StringVar(&f.model, "model", models.Default, "cost model: "+strings.Join(models.Names(), ", "))
	fs.StringArrayVar(&f.comparison, "compare", nil, "run the workload once with each of these cost models, and show them side by side")
	fs.StringSliceVar(&f.planners, "planner", []string{sim.Flow}, "flow, or greedy: the tasks in order take the cheapest start; with both, run each")
	fs.StringVar(&f.solver, "solver", registry.Default, "one of "+strings.Join(registry.Names(), ", "))
	fs.Int64Var(&f.budget, "solve-budget", 0, "work units of each solve; 0 is no limit")
	fs.Uint64Var(&f.config.Seed, "seed", 1, "of everything that is left to chance")
	fs.StringVar(&f.faults, "faults", "", "faults by rate, as in host=1h/5m,launch-fails=0.01")
	fs.StringArrayVar(&f.script, "fault", nil, "a fault by script, TIME:KIND:TARGET:DURATION; may be repeated")
	fs.DurationVar(&f.config.Horizon, "horizon", 0, "stop at the first quiet moment after this time; 0 runs to the end of all that ends")
	fs.DurationVar(&f.config.BatchWindow, "batch-window", 0, "virtual time between the first change and the plan (default 2ms; below 0: none)")
	fs.DurationVar(&f.config.SyncTime, "sync-time", 0, "virtual time that the journal takes for a batch (default 1ms; below 0: none)")
	fs.DurationVar(&f.config.PlanTime, "plan-time", 0, "virtual time that a plan takes (default 5ms; below 0: none)")
	fs.DurationVar(&f.config.LostAfter, "lost-after", 0, "how long a host may be unreachable before its tasks run elsewhere (default 5m; below 0: none)")
	fs.Float64Var(&f.config.Usage.Mean, "usage", 0, "part of its request that a task uses on average, so that revocable ones find slack; 0 measures nothing")
	fs.Float64Var(&f.config.Stragglers.Hosts, "slow-hosts", 0, "part of the hosts that are slow")
	fs.Float64Var(&f.config.Stragglers.Runs, "slow-runs", 0, "part of the runs that are slow, wherever they are")
	fs.Float64Var(&f.config.Stragglers.Slowdown, "slowdown", 0, "how many times as long slow runs take (default 5)")
	fs.StringVar(&f.interference, "interference", "", "what work takes longer beside which, WORK+BESIDE=FACTOR,...: that many times as long beside one task of it")
	fs.BoolVar(&f.speculate, "speculate", false, "let tasks of batch jobs that lag behind have copies")
	fs.DurationVar(&f.config.Usage.Interval, "usage-interval", 0, "virtual time between two measurements, with --usage, 10ms or more (default 10s)")
	fs.DurationVar(&f.config.Usage.Window, "slack-window", 0, "how long a peak counts, as scheduler.slack_window; below 0 lends nothing (default 5m)")
	fs.IntVar(&f.config.Usage.Margin, "slack-margin", 0, "in percent, as scheduler.slack_margin (default 20)")
	fs.StringVar(&f.pools, "pools", "", "file of pools with their settings, as for sluice pool create")
	fs.BoolVar(&f.config.Verify, "verify", false, "check every plan against what it was made from, too")
	fs.IntVar(&f.config.StopAfter, "stop-after", 0, "stop when so many rules were broken; 0 runs on")
	fs.StringVar(&f.placements, "placements", "", "file for all runs: job, instance, run, host, devices, start, end")
	fs.StringVar(&f.html, "html", "", "file for a page with plots")
}

// finish checks what can be checked before anything is read, and makes the configuration of it.
func (f *simFlags) finish(fs *pflag.FlagSet) error {
	if err := inRange(fs); err != nil {
		return err
	}
	if err := f.contradiction(); err != nil {
		return err
	}
	if err := f.holdToSource(fs); err != nil {
		return err
	}
	if err := validPlanners(f.planners); err != nil {
		return err
	}
	if err := f.listModels(fs); err != nil {
		return err
	}
	return f.configure()
}

// inRange refuses numbers that cannot be what they are given for.
func inRange(fs *pflag.FlagSet) error {
	for _, name := range []string{
		"hosts", "hosts-per-rack", "host-cpu-milli", "host-memory-bytes", "host-disk-bytes", "host-bandwidth", "block-size", "every", "limit", "load", "span",
		"horizon", "offered-load", "demand", "gap", "reserve", "usage", "slow-hosts", "slow-runs", "slowdown",
	} {
		if given := fs.Lookup(name).Value.String(); strings.HasPrefix(given, "-") {
			return fmt.Errorf("--%s is %s: it cannot be negative", name, given)
		}
	}
	for _, name := range []string{"reserve", "usage", "slow-hosts", "slow-runs"} {
		if part, err := fs.GetFloat64(name); err != nil || !(part <= 1) { // NaN too
			return fmt.Errorf("--%s is %v: it is a part, at most 1", name, part)
		}
	}
	return nil
}

// contradiction refuses flags that exclude each other, or one of which is nothing without the other.
func (f *simFlags) contradiction() error {
	switch {
	case f.generate && (f.open.Jobs != "" || f.open.Format != "" || f.open.Hosts != ""):
		return errors.New("--generate makes up what --format, --jobs and --machines would read: give one or the other")
	case !f.generate && f.open.Jobs == "":
		return errors.New("give a workload: --generate, or --format with --jobs")
	case f.arrivals != "recorded" && f.arrivals != "order":
		return fmt.Errorf("--arrivals %q: choose recorded or order", f.arrivals)
	case (f.arrivals == "order") != (f.open.Mode.Demand > 0):
		return errors.New("--arrivals order and --demand go together")
	case f.open.Mode.Gap != 0 && f.arrivals != "order":
		return errors.New("--gap goes with --arrivals order")
	case f.budget < 0 || f.config.StopAfter < 0:
		return errors.New("--solve-budget and --stop-after cannot be negative: 0 is no limit")
	case f.generate && f.open.Reserve != 0:
		return errors.New("--reserve is for traces: with --generate give --pools")
	case f.pools != "" && f.open.Reserve != 0:
		return errors.New("--pools and --reserve both say what pools reserve: give one of them")
	case f.generate && f.open.Mode != (trace.Mode{}):
		return errors.New("--offered-load, --demand and --no-departures are for traces: with --generate give --load")
	}
	return nil
}

// listModels finds out which cost models run.
func (f *simFlags) listModels(fs *pflag.FlagSet) error {
	if len(f.comparison) > 0 && fs.Changed("model") {
		return errors.New("--model and --compare exclude each other")
	}
	for _, list := range f.comparison {
		names, err := models.Cut(list, ',')
		if err != nil {
			return fmt.Errorf("--compare: %w", err)
		}
		f.compare = append(f.compare, names...)
	}
	of := "compare"
	if len(f.compare) == 0 {
		f.compare, of = []string{f.model}, "model"
	}
	if err := f.keepFilesApart(); err != nil {
		return err
	}
	if f.placements != "" && f.runs() > 1 {
		return errors.New("--placements holds one run: give it without --compare, and with one --planner")
	}
	for i, name := range f.compare {
		if slices.Contains(f.compare[:i], name) {
			return fmt.Errorf("--compare: %s is there twice: give it once", name)
		}
		if _, err := models.New(name); err != nil {
			return fmt.Errorf("--%s: %w", of, err)
		}
	}
	return nil
}

// configure makes what runs are given of the texts of flags, and of the files that they name.
func (f *simFlags) configure() (err error) {
	if f.config.NewSolver, err = registry.Maker(f.solver); err != nil {
		return fmt.Errorf("--solver: %w", err)
	}
	if f.speculate {
		f.config.Idempotent, f.config.Speculation = true, knowledge.DefaultSpeculation()
	}
	f.config.SolveBudget = solver.Budget{Work: f.budget}
	if f.config.Faults, err = sim.ParseFaults(f.faults); err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	for _, text := range f.script {
		x, err := sim.ParseFault(text)
		if err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
		f.config.Faults.Script = append(f.config.Faults.Script, x)
	}
	if f.config.Pools, err = readPools(f.pools); err != nil {
		return fmt.Errorf("--pools: %w", err)
	}
	f.open.Seed, f.open.Fleet = f.config.Seed, f.fleet
	f.synthetic.Seed, f.synthetic.Fleet = f.config.Seed, f.fleet
	if f.synthetic.Mix, err = trace.ParseMix(f.mix); err != nil {
		return fmt.Errorf("--mix: %w", err)
	}
	if f.config.Interference, err = sim.ParseInterference(f.interference); err != nil {
		return fmt.Errorf("--interference: %w", err)
	}
	if f.synthetic.Labels = f.config.Interference != nil; f.generate {
		var kinds []string
		for _, m := range f.synthetic.Mix {
			kinds = append(kinds, m.Kind)
		}
		return f.checkInterference(kinds, "kinds of --mix")
	}
	if f.open.Format == "" {
		return errors.New("--format is missing: what the file of --jobs is")
	}
	return nil
}

// holdToSource refuses flags that say nothing of where the workload comes from, or of what others switch on, or nothing at all.
func (f *simFlags) holdToSource(fs *pflag.FlagSet) error {
	others, source := []string{"load", "span", "mix"}, "for --generate: a trace has --offered-load, --every and --limit"
	if f.generate {
		others, source = []string{"machines-format", "block-size", "every", "limit"}, "for traces: with --generate give --load, --span and --mix"
	}
	for _, name := range others {
		if fs.Changed(name) {
			return fmt.Errorf("--%s is %s", name, source)
		}
	}
	for _, name := range []string{
		"load", "span", "batch-window", "sync-time", "plan-time", "lost-after", "slowdown", "usage-interval", "slack-window", "slack-margin",
	} {
		if given := fs.Lookup(name); given.Changed && given.Value.String() == given.DefValue {
			return fmt.Errorf("--%s is %s, which stands for its default: leave it out, or give another value", name, given.Value)
		}
	}
	for _, name := range []string{"usage-interval", "slack-window", "slack-margin"} {
		if fs.Changed(name) && f.config.Usage.Mean == 0 {
			return fmt.Errorf("--%s goes with --usage", name)
		}
	}
	for _, name := range []string{"solver", "solve-budget"} {
		if fs.Changed(name) && !slices.Contains(f.planners, sim.Flow) {
			return fmt.Errorf("--%s goes with --planner flow", name)
		}
	}
	if f.fleet.GPUModel != "" && (f.fleet.GPUs < 0 || f.generate && f.fleet.GPUs == 0) {
		return errors.New("--host-gpu-model goes with --host-gpus")
	}
	if slow := f.config.Stragglers; fs.Changed("slowdown") && slow.Hosts == 0 && slow.Runs == 0 {
		return errors.New("--slowdown goes with --slow-hosts or --slow-runs")
	}
	return nil
}

// keepFilesApart refuses outputs that would be written over what is read, or over each other.
func (f *simFlags) keepFilesApart() error {
	files := []struct{ flag, path string }{
		{"jobs", f.open.Jobs}, {"machines", f.open.Hosts}, {"pools", f.pools}, {"placements", f.placements}, {"html", f.html},
	}
	for i, out := range files {
		if out.flag != "placements" && out.flag != "html" {
			continue
		}
		for _, other := range files[:i] {
			if out.path != "" && other.path != "" && sameFile(out.path, other.path) {
				return fmt.Errorf("--%s %s would be written over the file of --%s: give another one", out.flag, out.path, other.flag)
			}
		}
	}
	return nil
}

// sameFile tells whether two paths are of one file, there or not yet. What is no regular file, such as /dev/null, can be written twice.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return x.Mode().IsRegular() && os.SameFile(x, y)
	}
	a, errA = filepath.Abs(a)
	b, errB = filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

// checkInterference holds the kinds of work to those that there are, which are called what.
func (f *simFlags) checkInterference(kinds []string, what string) error {
	var strangers []string
	for p := range f.config.Interference { // into a list that is sorted
		for _, w := range []string{p.Work, p.Beside} {
			if !slices.Contains(kinds, w) && !slices.Contains(strangers, w) {
				strangers = append(strangers, w)
			}
		}
	}
	if len(strangers) == 0 {
		return nil
	}
	slices.Sort(strangers)
	if len(kinds) == 0 {
		kinds = []string{"there are none"}
	}
	return fmt.Errorf("--interference %q: no job does %s; name %s: %s", f.interference, strings.Join(strangers, ", "), what, strings.Join(kinds, ", "))
}

// readPools reads a file of pools, none if there is no file.
func readPools(path string) ([]cluster.Pool, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	specs, err := jobfile.Pools(path, data)
	if err != nil {
		return nil, err
	}
	pools, err := serve.ParsePools(specs)
	for i := range pools {
		if pools[i].Limits.BoundsPending() {
			return nil, fmt.Errorf("%s: pool %s: limits on pending jobs refuse submissions, and here every job is submitted: leave them out",
				path, pools[i].Path)
		}
	}
	return pools, err
}

func validPlanners(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("--planner: choose %s, %s, or both", sim.Flow, sim.Greedy)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("--planner: %s is there twice: give it once", name)
		}
		if name != sim.Flow && name != sim.Greedy {
			return fmt.Errorf("--planner %q: choose %s or %s", name, sim.Flow, sim.Greedy)
		}
	}
	return nil
}

// workload opens or makes up the workload anew. Where that takes longer than a second, as to compress the arrivals of millions of tasks,
// it says so, and an interrupt does not wait for it.
func (a *app) workload(ctx context.Context, f *simFlags) (*trace.Workload, error) {
	type result struct {
		w   *trace.Workload
		err error
	}
	opened := make(chan result, 1)
	go func() {
		var r result
		if f.generate {
			r.w, r.err = trace.Generate(f.synthetic)
		} else {
			r.w, r.err = trace.Open(f.open)
		}
		opened <- r
	}()
	select {
	case r := <-opened:
		return r.w, r.err
	case <-time.After(time.Second):
		fmt.Fprintln(a.err, "sluice: reading the workload")
	}
	select {
	case r := <-opened:
		return r.w, r.err
	case <-ctx.Done():
		return nil, errors.New("interrupted before the simulation began")
	}
}

// pipe returns a file of the workload that can be read once only, "" if there is none.
func (f *simFlags) pipe() string {
	for _, path := range []string{f.open.Jobs, f.open.Hosts} {
		if trace.IsPipe(path) {
			return path
		}
	}
	return ""
}

// runs is how many times the workload is run.
func (f *simFlags) runs() int { return len(f.compare) * len(f.planners) }

func (f *simFlags) noJobs(w *trace.Workload) error {
	if n := w.LeftOut(); n > 0 {
		return fmt.Errorf("--jobs: %s has no jobs, or none that the other flags leave: left out are %s, which record no job to replay",
			f.open.Jobs, words.Number(n, "row"))
	}
	return fmt.Errorf("--jobs: %s has no jobs, or none that the other flags leave", f.open.Jobs)
}

// readThrough reads the file of jobs to its end, or to the horizon, so that what is wrong with it is told at once, and not after hours.
// What can be read once only is read by the run alone.
func (a *app) readThrough(ctx context.Context, f *simFlags) (err error) {
	pipe := f.pipe()
	switch {
	case pipe != "" && f.runs() > 1:
		return fmt.Errorf("%s is a pipe, which can be read once only, and there are %d runs: write it to a file, and give that", pipe, f.runs())
	case pipe != "" || f.generate:
		return nil
	}
	w, err := a.workload(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	works := map[string]bool{}
	for jobs := 0; ctx.Err() == nil; jobs++ {
		j, err := w.Jobs.Next()
		switch {
		case errors.Is(err, io.EOF) && jobs == 0:
			return f.noJobs(w)
		case errors.Is(err, io.EOF), err == nil && f.config.Horizon > 0 && j.Submit > f.config.Horizon:
			delete(works, "")
			return f.checkInterference(slices.Sorted(maps.Keys(works)), "values of the label work of its jobs")
		case err != nil:
			return err
		}
		works[cluster.WorkOf(&j.Spec)] = true
	}
	return nil
}

// suggest adds to what is wrong with the workload that a file looks like one of another format.
func (f *simFlags) suggest(err error) error {
	for _, x := range []struct {
		path, flag, format string
		hosts              bool
	}{
		{f.open.Hosts, "machines-format", cmp.Or(f.open.HostFormat, f.open.Format), true},
		{f.open.Jobs, "format", f.open.Format, false},
	} {
		if x.path == "" || trace.IsPipe(x.path) {
			continue
		}
		if fits := trace.Fits(x.path, x.hosts); len(fits) > 0 && !slices.Contains(fits, x.format) {
			return fmt.Errorf("%w; %s looks like --%s %s", err, x.path, x.flag, strings.Join(fits, " or "))
		}
	}
	return err
}

func (a *app) runSim(cmd *cobra.Command, f *simFlags) error {
	tuneRuntime()
	if err := a.readThrough(cmd.Context(), f); err != nil {
		return exitError{exitUsage, f.suggest(err)}
	}
	for _, out := range []struct{ flag, path string }{{"placements", f.placements}, {"html", f.html}} {
		if out.path == "" {
			continue
		}
		if err := writable(out.flag, out.path); err != nil {
			return err
		}
	}
	results, failed := a.simulations(cmd.Context(), f)
	if len(results) == 0 {
		return failed
	}
	if err := a.showResults(results, f.runs() > 1); err != nil {
		return err
	}
	if f.html != "" {
		if err := writeFile(f.html, func(w io.Writer) error { return report.WriteHTML(w, replay(cmd), results) }); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	violations := 0
	for _, r := range results {
		violations += r.ViolationCount
		if r.Fault != "" {
			return fmt.Errorf("%s was not simulated, since another model planned in its place: %s", r.Model, r.Fault)
		}
	}
	if violations > 0 {
		return fmt.Errorf("rules were broken %s; the same again: %s", words.Number(violations, "time"), replay(cmd))
	}
	return nil
}

// simulations runs the workload with each cost model and planner. What there is when one of them fails, or is interrupted, is
// not lost.
func (a *app) simulations(ctx context.Context, f *simFlags) (results []*sim.Result, err error) {
	for _, name := range f.compare {
		for _, planner := range f.planners {
			r, err := a.simulate(ctx, f, name, planner)
			if r != nil {
				results = append(results, r)
			}
			if err != nil {
				return results, err
			}
		}
	}
	return results, nil
}

// simulate runs the workload once with a cost model and a planner. If it is interrupted the result is of the time until then.
func (a *app) simulate(ctx context.Context, f *simFlags, model, planner string) (r *sim.Result, err error) {
	c := f.config
	if c.Model, err = models.New(model); err != nil {
		return nil, err
	}
	if planner == sim.Greedy {
		c.NewSolver = nil
	}
	began := time.Now()
	if c.Workload, err = a.workload(ctx, f); err != nil {
		return nil, exitError{exitUsage, err}
	}
	defer func() { err = errors.Join(err, c.Workload.Close()) }()
	if err := c.Validate(); err != nil {
		return nil, exitError{exitUsage, err}
	}
	jobs := &sourceOf{Source: c.Workload.Jobs}
	if !f.generate {
		jobs.none = func() error { return f.noJobs(c.Workload) }
	}
	c.Workload.Jobs = jobs
	bar := newProgress(a.err)
	c.Watch = serve.Beats(serve.DefaultModelTimeout)
	c.Stopwatch = func() time.Duration { return time.Since(began) }
	c.Progress = func(p sim.Progress) { bar.show(simProgress(model, p, &c), time.Now()) }
	run := func(w io.Writer) error {
		c.Placements = w
		r, err = sim.Run(ctx, c)
		if r != nil {
			r.Model = model // with its settings
		}
		switch {
		case jobs.err != nil:
			err = exitError{exitUsage, err}
		case ctx.Err() != nil && r != nil:
			now := time.Duration(r.VirtualSeconds * float64(time.Second)).Round(time.Second)
			err = exitError{exitInterrupted, fmt.Errorf("interrupted: what is shown of %s ends %v after the beginning of the workload", model, now)}
		}
		return err
	}
	if f.placements != "" {
		err = writeFile(f.placements, run)
	} else {
		err = run(nil)
	}
	bar.end()
	if n := c.Workload.LeftOut(); n > 0 && jobs.err == nil && model == f.compare[0] && planner == f.planners[0] { // once for all runs
		fmt.Fprintf(a.err, "sluice: left out of %s: %s, which record no job to replay\n", f.open.Jobs, words.Number(n, "row"))
	}
	return r, err
}

// sourceOf keeps the error of a source, which is read while the simulation goes on.
type sourceOf struct {
	trace.Source
	none func() error // what it is if there is not even one job; nil: none
	err  error
}

// Next implements trace.Source.
func (s *sourceOf) Next() (*trace.Job, error) {
	j, err := s.Source.Next()
	if errors.Is(err, io.EOF) && s.none != nil {
		err = s.none()
	}
	if s.none = nil; err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return j, err
}

func simProgress(model string, p sim.Progress, c *sim.Config) string {
	part := p.Arrived
	if c.Horizon > 0 {
		part = min(1, float64(p.Now)/float64(c.Horizon))
	}
	bar := ""
	if part >= 0 {
		bar = barOf(int(1000*part), 1000) + " "
	}
	return fmt.Sprintf("%s %s%v: %d jobs, %d tasks waiting, %d running, %d ended; %d cycles",
		model, bar, p.Now.Round(time.Second), p.Jobs, p.Waiting, p.Running, p.Finished, p.Cycles)
}

func (a *app) showResults(results []*sim.Result, list bool) error {
	var shown any = results
	if !list {
		shown = results[0]
	}
	return a.showValue(shown, func(w io.Writer) error { return report.WriteTable(w, results) })
}

// special reports whether a shell may take the character for something else.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+./:,=@%", r)
}

// replay is the command line that does the same again.
func replay(cmd *cobra.Command) string {
	line := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			if f.Value.Type() == "stringSlice" {
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, v := range values {
			if strings.ContainsFunc(v, special) {
				v = "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
			}
			line = append(line, "--"+f.Name+"="+v)
		}
	})
	return strings.Join(line, " ")
}

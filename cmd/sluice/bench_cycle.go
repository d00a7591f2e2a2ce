package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/bench"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cluster/sim"
	"github.com/sluice-scheduler/sluice/cluster/sim/report"
	"github.com/sluice-scheduler/sluice/cluster/store"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

const benchCycleHelp = `Measure whole cycles, from events to durable placements.

A cluster is filled with tasks of so many different requests; then, in each cycle,
a part of the running tasks ends and as many new ones are submitted, the events go
through the journal, a plan is made, and its placements go through the journal.
With --disk the journal is on disk and syncs, in a folder that is removed.

Between cycles, in time that is not measured, garbage is collected where the
scheduler would, which has nothing else to do then.`

func newBenchCycleCommand(a *app) *cobra.Command {
	b := sim.CycleBench{Hosts: 1000, Tasks: 10_000, Classes: 100, Utilisation: 0.9, Churn: 0.01, Cycles: 100, Seed: 1}
	var model, algorithm, clock, planner string
	var disk bool
	cmd := &cobra.Command{
		Use:   "cycle",
		Short: "Measure whole cycles, from events to durable placements",
		Long:  benchCycleHelp,
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if b.Stopwatch, err = bench.NewClock(clock); err != nil {
				return usageError(cmd, fmt.Errorf("--clock: %w", err))
			}
			if b.Model, err = models.New(model); err != nil {
				return usageError(cmd, fmt.Errorf("--model: %w", err))
			}
			newSolver, err := registry.Maker(algorithm)
			if err != nil {
				return usageError(cmd, fmt.Errorf("--solver: %w", err))
			}
			if err := validPlanners([]string{planner}); err != nil {
				return usageError(cmd, err)
			}
			if cmd.Flags().Changed("solver") && planner != sim.Flow {
				return usageError(cmd, errors.New("--solver goes with --planner flow"))
			}
			if err := b.Validate(); err != nil {
				return usageError(cmd, err)
			}
			b.Watch = serve.Beats(serve.DefaultModelTimeout)
			if planner == sim.Flow {
				b.NewSolver = newSolver
			}
			return a.runBenchCycle(cmd, &b, model, clock, disk)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&b.Hosts, "hosts", b.Hosts, "hosts of 16 cores and 64 GiB")
	fs.IntVar(&b.Tasks, "tasks", b.Tasks, "tasks, running and waiting")
	fs.IntVar(&b.Classes, "classes", b.Classes, "different requests among them")
	fs.Float64Var(&b.Utilisation, "utilisation", b.Utilisation, "part of the cores that all tasks ask for; above 1 some wait")
	fs.Float64Var(&b.Churn, "churn", b.Churn, "part of the tasks that ends and is submitted in each cycle")
	fs.IntVar(&b.Cycles, "cycles", b.Cycles, "cycles to measure")
	fs.BoolVar(&b.Cold, "cold", b.Cold, "the planner that is measured fills the cluster, too: how long its first plan takes, and what comes after it")
	fs.Uint64Var(&b.Seed, "seed", b.Seed, "of everything that is drawn")
	fs.StringVar(&model, "model", models.Default, "cost model")
	fs.IntVar(&b.Preferences, "preferences", b.Preferences, "hosts that hold the input of a task, drawn for each; 0: it reads nothing")
	fs.IntVar(&b.Pools, "pools", b.Pools, "pools that divide the cluster, any task of which may be preempted; each cycle's jobs are in one of them; 0: all are in the root")
	fs.IntVar(&b.Apart, "apart", b.Apart, "tasks of a job, of which no two may share a host; 0: jobs of up to 100 that may")
	fs.StringVar(&planner, "planner", sim.Flow, "flow, or greedy: the tasks in order take the cheapest start")
	fs.StringVar(&algorithm, "solver", registry.Default, "solver")
	fs.StringVar(&clock, "clock", bench.Wall, "wall, or cpu: processor time of the whole process, steadier where other programs are running")
	fs.BoolVar(&disk, "disk", false, "keep the journal on disk, with a sync for every batch")
	return cmd
}

// cycleAnswer is what `sluice bench cycle -o json` prints.
type cycleAnswer struct {
	*sim.CycleReport
	Model   string  `json:"model"` // with its settings
	Planner string  `json:"planner"`
	Solver  string  `json:"solver,omitempty"`
	Disk    bool    `json:"disk"`
	Clock   string  `json:"clock"`
	HeapMB  float64 `json:"heap_mb"` // alive after the last cycle
	Cores   int     `json:"cores"`
	Go      string  `json:"go"`
	Seconds float64 `json:"seconds"` // of the whole run, filling included
}

func (a *app) runBenchCycle(cmd *cobra.Command, b *sim.CycleBench, model, clock string, disk bool) (err error) {
	tuneRuntime()
	b.Journal = journal.NewMemory()
	if disk {
		dir, err := os.MkdirTemp("", "sluice-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if b.Journal, err = journal.Open(filepath.Join(dir, "journal"), store.Options{}); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, b.Journal.Close()) }()
	began := time.Now()
	b.Memory = func() sim.MemoryCounts {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return sim.MemoryCounts{Allocations: m.Mallocs, Collections: uint64(m.NumGC)}
	}
	b.Rest = new(restCollector).collect
	bar := newProgress(a.err)
	var m runtime.MemStats
	b.Progress = func(done int) {
		bar.show(fmt.Sprintf("%d of %d cycles", done, b.Cycles), time.Now())
		if done == b.Cycles { // when Run is back, the cluster is gone
			runtime.GC()
			runtime.ReadMemStats(&m)
		}
	}
	r, err := b.Run(cmd.Context())
	bar.end()
	if err != nil {
		return err
	}
	answer := cycleAnswer{
		CycleReport: r, Model: model, Planner: sim.PlannerName(b.NewSolver), Disk: disk, Clock: clock,
		HeapMB: float64(m.HeapAlloc) / (1 << 20), Cores: runtime.NumCPU(), Go: runtime.Version(), Seconds: time.Since(began).Seconds(),
	}
	if b.NewSolver != nil {
		answer.Solver = b.NewSolver().Name()
	}
	return a.showValue(answer, func(w io.Writer) error {
		fmt.Fprintf(w, "%d hosts, %d tasks, %d classes, utilisation %v, churn %v, %d preferences, %d apart, %d pools; %s, %s; heap %.0f MB\n\n",
			b.Hosts, b.Tasks, b.Classes, b.Utilisation, b.Churn, b.Preferences, b.Apart, b.Pools, answer.Model, answer.Planner, answer.HeapMB)
		return report.WriteCycles(w, r, clock)
	})
}

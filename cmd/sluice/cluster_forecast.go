package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cluster/sim"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

const forecastHelp = `Say when the tasks that wait will start: take a snapshot of the cluster, or that of
--snapshot, and go on from it in the simulator, on a virtual clock, with the planner
of the scheduler. Nothing is changed. Times count from now, or from the last change
in the file's snapshot. Where the scheduler asks who calls, taking a snapshot needs the
role operator, since it has the jobs of everybody; reading one from a file needs none.

With --submit it is said, too, of jobs that are submitted at that moment. Those that
are there already are updated, as by job update, and a line says so.

Tasks of batch jobs run as long as others of the same work did (the label "work" of
their jobs), at the median; those that run already as long as the median of those
that took longer than they have run so far. Where nothing is known they run as long as
estimated_run_time of their jobs says, or else --run-time. No job is submitted
meanwhile, and no host fails or comes back, so this is not a promise. With --model it
is said of another cost model.`

// forecastFlags is what the flags of `sluice cluster forecast` say.
type forecastFlags struct {
	snapshot, submit string
	model            string
	runTime, horizon time.Duration
}

func newClusterForecastCommand(a *app) *cobra.Command {
	var f forecastFlags
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Say when the tasks that wait will start, by a simulation that begins with the cluster as it is",
		Long:  forecastHelp,
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usageError(cmd, err)
			}
			var specs []*sluicev1.JobSpec
			var err error
			if f.submit != "" {
				if specs, err = readSpecs(a, f.submit, jobfile.Jobs); err != nil {
					return err
				}
			}
			state, err := a.forecastState(cmd.Context(), f.snapshot)
			if err != nil {
				return err
			}
			before, _ := state.Snapshot()
			now := sim.LastChange(before)
			if f.snapshot == "" {
				now = max(now, cluster.Time(time.Now().UnixNano())) // the scheduler's clock may be ahead of this one
			}
			if len(specs) > 0 {
				if err := serve.SubmitTo(state, now, specs); err != nil {
					return exitError{exitRefused, errors.New(strings.Join(words.Problems(err), "\nsluice: "))}
				}
				a.noteKnown(specs, before, state)
			}
			return a.runForecast(cmd.Context(), &f, state, now)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.snapshot, "snapshot", "", "begin with this file of sluice cluster snapshot, and ask no scheduler")
	fs.StringVar(&f.submit, "submit", "", "file of jobs, as of sluice job submit, that are submitted first; \"-\" reads standard input")
	fs.StringVar(&f.model, "model", "", "cost model; \"\": what was set with cluster cost-model set, else scheduler.cost_model of these settings")
	fs.DurationVar(&f.runTime, "run-time", time.Hour, "how long a task of a batch job runs where nothing is known; 0: for ever")
	fs.DurationVar(&f.horizon, "horizon", 24*time.Hour, "how far to look")
	return cmd
}

func (f *forecastFlags) check() error {
	if f.runTime < 0 {
		return fmt.Errorf("--run-time is %v: at least 0, which is for ever", f.runTime)
	}
	if f.horizon <= 0 {
		return fmt.Errorf("--horizon is %v: more than 0", f.horizon)
	}
	if f.model != "" {
		if _, err := models.New(f.model); err != nil {
			return fmt.Errorf("--model: %w", err)
		}
	}
	return nil
}

// forecastState reads a snapshot, or has the scheduler make one.
func (a *app) forecastState(ctx context.Context, path string) (*cluster.State, error) {
	if path != "" {
		return readSnapshot(path)
	}
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var snapshot bytes.Buffer
	if _, err := c.export(ctx, &snapshot); err != nil {
		return nil, err
	}
	return serve.ReadSnapshot(&snapshot, cluster.Time(time.Now().UnixNano()))
}

// noteKnown says what was done with those jobs of a file that were there before.
func (a *app) noteKnown(specs []*sluicev1.JobSpec, before *cluster.Snapshot, state *cluster.State) {
	for _, spec := range specs {
		old := before.JobByName(cluster.JobID(spec.GetName()))
		if old == nil {
			continue
		}
		now := state.JobByName(old.Spec.Name)
		what := "with the same contents: nothing is changed"
		switch {
		case now.Version != old.Version:
			what = fmt.Sprintf("and is taken to be updated to version %d, as by `sluice job update`; shown is what waits now, and not what the update replaces later", now.Version)
		case old.Stopping || old.State().Terminal():
			what = fmt.Sprintf("with the same contents, and has ended or is being stopped: nothing is started; once it is deleted (`sluice job delete %s`) it can be submitted again", old.Spec.Name)
		}
		fmt.Fprintf(a.err, "sluice: job %s is there already, %s\n", old.Spec.Name, what)
	}
}

// runForecast says what becomes of a state from a moment on.
func (a *app) runForecast(ctx context.Context, f *forecastFlags, state *cluster.State, now cluster.Time) error {
	tuneRuntime()
	snapshot, _ := state.Snapshot()
	model := f.model
	if model == "" {
		model = a.config.Scheduler.CostModel
		if set := snapshot.CostPolicy(); set != nil {
			model = (&serve.CostModels{Configured: model}).Merge(set)
		}
	}
	c := sim.Config{Horizon: f.horizon, Watch: serve.Beats(serve.DefaultModelTimeout)}
	var err error
	if c.Model, err = models.New(model); err != nil {
		return exitError{exitUsage, fmt.Errorf("cost model %q: %w; choose one with --model", model, err)}
	}
	if c.NewSolver, err = registry.Maker(registry.Default); err != nil {
		return err
	}
	bar := newProgress(a.err)
	c.Progress = func(p sim.Progress) { bar.show(simProgress(model, p, &c), time.Now()) }
	out, err := sim.Forecast(ctx, snapshot, now, f.runTime, c)
	bar.end()
	if out == nil {
		return err
	}
	answer := forecastAnswerOf(out, f, now, model)
	shown := a.showValue(answer, func(w io.Writer) error {
		answer.table(w)
		return nil
	})
	if err != nil && ctx.Err() != nil {
		err = exitError{exitInterrupted, errors.New("interrupted: what is shown is as far as the forecast came")}
	}
	return errors.Join(shown, err)
}

// forecastAnswer is what `sluice cluster forecast -o json` prints.
type forecastAnswer struct {
	AsOf           time.Time     `json:"as_of"` // what all times count from
	Model          string        `json:"model"`
	HorizonSeconds float64       `json:"horizon_seconds"`
	RunTimeSeconds float64       `json:"run_time_seconds"` // where nothing is known
	UnknownJobs    int           `json:"unknown_jobs"`     // batch jobs of which nothing is known or estimated
	HostsAway      int           `json:"hosts_away"`       // that are unreachable
	Jobs           []forecastJob `json:"jobs"`
}

// forecastJob has seconds from then on, null for what does not happen within the horizon.
type forecastJob struct {
	Job        string   `json:"job"`
	Pool       string   `json:"pool"`
	Waiting    int      `json:"waiting"`
	FirstStart *float64 `json:"first_start_seconds"`
	AllStarted *float64 `json:"all_started_seconds"`
	Ended      *float64 `json:"ended_seconds"`
}

func forecastAnswerOf(out *sim.Outlook, f *forecastFlags, now cluster.Time, model string) *forecastAnswer {
	answer := &forecastAnswer{
		AsOf: time.Unix(0, int64(now)).UTC(), Model: model, HorizonSeconds: f.horizon.Seconds(), RunTimeSeconds: f.runTime.Seconds(),
		UnknownJobs: out.Unknown, HostsAway: out.Away, Jobs: []forecastJob{},
	}
	seconds := func(d time.Duration) *float64 {
		if d < 0 {
			return nil
		}
		s := d.Round(time.Millisecond).Seconds()
		return &s
	}
	for _, j := range out.Jobs {
		answer.Jobs = append(answer.Jobs, forecastJob{string(j.Job), string(j.Pool), j.Waiting, seconds(j.First), seconds(j.Last), seconds(j.End)})
	}
	return answer
}

func (f *forecastAnswer) table(w io.Writer) {
	after := func(seconds *float64) string {
		if seconds == nil {
			return ""
		}
		return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
	}
	var rows [][]string
	for _, j := range f.Jobs {
		rows = append(rows, []string{j.Job, j.Pool, fmt.Sprint(j.Waiting), after(j.FirstStart), after(j.AllStarted), after(j.Ended)})
	}
	if len(rows) == 0 {
		fmt.Fprintln(w, "nothing waits")
	} else {
		columns(w, "JOB POOL WAITING FIRST-START ALL-STARTED ENDED", rows)
	}
	fmt.Fprintf(w, "\nfrom %s on, for %v; \"-\" is later, or never\n",
		f.AsOf.Local().Format(time.DateTime), time.Duration(f.HorizonSeconds*float64(time.Second)))
	if f.UnknownJobs > 0 {
		runTime := "for ever"
		if f.RunTimeSeconds > 0 {
			runTime = time.Duration(f.RunTimeSeconds * float64(time.Second)).String()
		}
		fmt.Fprintf(w, "jobs of whose work no run times are known, nor estimated_run_time is given: %d; their tasks are taken to run %s (--run-time)\n", f.UnknownJobs, runTime)
	}
	if f.HostsAway > 0 {
		fmt.Fprintf(w, "hosts that cannot be reached, and count as gone: %d\n", f.HostsAway)
	}
}

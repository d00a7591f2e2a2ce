package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobCommand(a *app) *cobra.Command {
	return group("job", "Submit, show and end jobs",
		newJobSubmitCommand(a), newJobRunCommand(a), newJobGetCommand(a), newJobListCommand(a), newJobStopCommand(a), newJobDeleteCommand(a),
		newJobFileCommand(a), newJobUpdateCommand(a), newJobDiffCommand(a),
		newJobHistoryCommand(a), newJobRestartCommand(a), newJobRollbackCommand(a),
		newControlCommand(a, "pause", "Let the update of a job begin with no further instance", sluicev1.ControlUpdateRequest_PAUSE),
		newControlCommand(a, "resume", "Go on with the update of a job", sluicev1.ControlUpdateRequest_RESUME),
		newControlCommand(a, "abort", "End the update of a job where it is", sluicev1.ControlUpdateRequest_ABORT),
		newControlCommand(a, "promote", "Let the rest of a job follow the canaries of its update", sluicev1.ControlUpdateRequest_PROMOTE),
		newJobEndpointsCommand(a), newJobScaleCommand(a), newJobPlanCommand(a), newJobGraphCommand(a),
		newJobWatchCommand(a), newJobWaitCommand(a), newJobLogsCommand(a))
}

func newJobGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a job",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			res, err := call(cmd.Context(), c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return a.show(res.GetJob(), func(w io.Writer) { properties(w, words.JobProperties(res.GetJob())...) })
		}),
	}
}

func newJobListCommand(a *app) *cobra.Command {
	var selector jobSelector
	req := &sluicev1.ListJobsRequest{Filter: &selector.filter}
	var order string
	var limit uint32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(filled(cmd, selectFlags...), selector.read()); err != nil {
				return err
			}
			orders, err := parseStates[sluicev1.JobOrder]("order", []string{order}, "JOB_ORDER_", sluicev1.JobOrder_value)
			if err != nil {
				return err
			}
			req.Order = orders[0]
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			all := &sluicev1.ListJobsResponse{}
			more, err := pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = &size, token
				res, err := call(cmd.Context(), c, c.jobs.ListJobs, req)
				all.Jobs = append(all.Jobs, res.GetJobs()...)
				return len(res.GetJobs()), res.GetNextPageToken(), err
			})
			if err != nil {
				return flagged(err)
			}
			return a.showFirst(all, func(w io.Writer) { table(w, words.JobTable(all.GetJobs())) }, more, limit)
		},
	}
	selector.add(cmd)
	f := cmd.Flags()
	f.StringVar(&order, "order", "name", "name, create_time or priority")
	f.BoolVar(&req.Descending, "descending", false, "the other way round")
	f.Uint32Var(&limit, "limit", 1000, "at most so many; 0 is all")
	return cmd
}

// pageSize is the largest page that the API gives.
const pageSize = 1000

// pages asks for pages until the last one, or until there are limit items where limit is not 0; more says that the
// list was cut.
func pages(limit uint32, next func(size uint32, token string) (int, string, error)) (more bool, err error) {
	var got uint32
	token := ""
	for {
		size := uint32(pageSize)
		if limit > 0 {
			size = min(size, limit-got)
		}
		n, after, err := next(size, token)
		if err != nil {
			return false, err
		}
		got += uint32(n)
		if after == "" || limit > 0 && got >= limit {
			return after != "", nil
		}
		token = after
	}
}

// showFirst prints a list, and says if there is more than it shows: in every form, or a script takes a part for the whole.
func (a *app) showFirst(list proto.Message, table func(w io.Writer), more bool, limit uint32) error {
	err := a.show(list, table)
	switch {
	case more && limit == 1:
		fmt.Fprintln(a.err, "sluice: the first one is shown; see --limit")
	case more:
		fmt.Fprintf(a.err, "sluice: the first %d are shown; see --limit\n", limit)
	}
	return err
}

func newJobStopCommand(a *app) *cobra.Command {
	var version uint64
	var cascade, wait bool
	var which selection
	cmd := &cobra.Command{
		Use:   "stop NAME... | --label KEY=VALUE ...",
		Short: "End all tasks of jobs; they stay listed",
		Long: `End all tasks of jobs; they stay listed. Jobs are named, or selected by flags that
all have to hold: then it is those that have not ended, and services that rest since
all of their tasks were stopped, and --dry-run lists them.`,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			args, of, err := which.named(cmd, a, c, args, func(j *sluicev1.Job) bool { return !hasEnded(j) || rests(j) }, "have ended already")
			if err != nil || len(args) == 0 {
				return err
			}
			expected, err := versionOfOne(cmd, version, args)
			if err != nil {
				return err
			}
			var jobs []*sluicev1.Job
			wrong := each(cmd.Context(), args, func(name string) error {
				stop := call[sluicev1.StopJobRequest, sluicev1.StopJobResponse]
				if wait { // also for a scheduler that goes away
					stop = callAgain[sluicev1.StopJobRequest, sluicev1.StopJobResponse]
				}
				res, err := stop(cmd.Context(), c, c.jobs.StopJob, &sluicev1.StopJobRequest{Name: name, ExpectedVersion: expected, Cascade: cascade})
				if err == nil {
					jobs = append(jobs, res.GetJob())
				}
				return err
			})
			if wait && len(jobs) > 0 {
				var names []string
				for _, j := range jobs {
					names = append(names, j.GetName())
				}
				ended, err := a.waitForJobs(cmd.Context(), c, names)
				if err == nil {
					jobs = ended
				}
				wrong = together(wrong, err)
			}
			for _, j := range jobs {
				err := a.showOne(of, j, func(w io.Writer) { fmt.Fprintf(w, "job %s is %s\n", j.GetName(), words.JobState(j.GetState())) })
				if err != nil {
					return err
				}
			}
			return wrong
		}),
	}
	which.add(cmd)
	f := cmd.Flags()
	f.Uint64Var(&version, "expected-version", 0, "refuse if the job has another version")
	f.BoolVar(&cascade, "cascade", false, "stop the jobs that depend on them as well")
	f.BoolVar(&wait, "wait", false, "wait until all tasks have ended")
	return cmd
}

func newJobDeleteCommand(a *app) *cobra.Command {
	var version uint64
	var stop bool
	var which selection
	cmd := &cobra.Command{
		Use:   "delete NAME... | --label KEY=VALUE ...",
		Short: "Remove jobs that have ended",
		Long: `Remove jobs that have ended. Jobs are named, or selected by flags that all have to
hold: then it is those that have ended, with --stop all, and --dry-run lists them.`,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			selected := len(args) == 0
			args, of, err := which.named(cmd, a, c, args, func(j *sluicev1.Job) bool { return stop || hasEnded(j) }, "have not ended: --stop ends them first")
			if err != nil || len(args) == 0 {
				return err
			}
			expected, err := versionOfOne(cmd, version, args)
			if err != nil {
				return err
			}
			stopped := map[string]bool{}
			if stop && len(args) > 1 { // all at once: what is wrong with one is told below
				_ = each(cmd.Context(), args, func(name string) error {
					_, err := call(cmd.Context(), c, c.jobs.StopJob, &sluicev1.StopJobRequest{Name: name})
					stopped[name] = err == nil
					return err
				})
			}
			return each(cmd.Context(), args, func(name string) error {
				res, err := c.remove(cmd.Context(), a, name, stop, expected)
				// What was there may go by itself before its turn comes, when its time to be listed is over.
				if err != nil && codeOf(err) == exitNotFound && (selected || stopped[name]) {
					res, err = &sluicev1.DeleteJobResponse{Name: name}, nil
				}
				if err != nil {
					return err
				}
				return a.showOne(of, res, func(w io.Writer) { fmt.Fprintf(w, "job %s deleted\n", name) })
			})
		}),
	}
	which.add(cmd)
	cmd.Flags().BoolVar(&stop, "stop", false, "end them first if they have not ended, and wait for that")
	cmd.Flags().Uint64Var(&version, "expected-version", 0, "refuse if the job has another version")
	return cmd
}

// remove deletes a job; one that has not ended it ends first where stop says so, and then waits for a scheduler that goes away to the
// end: a job that was there, and is not any more, it may have deleted without an answer.
func (c *client) remove(ctx context.Context, a *app, name string, stop bool, version *uint64) (*sluicev1.DeleteJobResponse, error) {
	req := &sluicev1.DeleteJobRequest{Name: name, ExpectedVersion: version}
	if !stop {
		return call(ctx, c, c.jobs.DeleteJob, req)
	}
	if err := c.stopAndWait(ctx, a, name, version); err != nil {
		return nil, err
	}
	res, err := callAgain(ctx, c, c.jobs.DeleteJob, req)
	if err != nil && codeOf(err) == exitNotFound {
		return &sluicev1.DeleteJobResponse{Name: name}, nil
	}
	return res, err
}

// stopAndWait ends a job if it has not ended.
func (c *client) stopAndWait(ctx context.Context, a *app, name string, version *uint64) error {
	if _, err := callAgain(ctx, c, c.jobs.StopJob, &sluicev1.StopJobRequest{Name: name, ExpectedVersion: version}); err != nil {
		return err
	}
	_, err := a.waitForJobs(ctx, c, []string{name})
	return err
}

func uintFlag[N uint32 | uint64](cmd *cobra.Command, name string, n N) *N {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	return &n
}

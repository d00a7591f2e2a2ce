package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// selectFlags are those that say which jobs are meant.
var selectFlags = []string{"pool", "state", "type", "owner", "prefix", "label"}

// jobSelector says which jobs are meant by what they are, in place of their names.
type jobSelector struct {
	filter        sluicev1.JobFilter
	states, types []string
}

func (s *jobSelector) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.filter.Pool, "pool", "", "only in this pool or below it")
	f.StringSliceVar(&s.states, "state", nil, "only in these states, such as running,pending")
	f.StringSliceVar(&s.types, "type", nil, "only of these types, such as batch,daemon")
	f.StringVar(&s.filter.Owner, "owner", "", "only of this owner")
	f.StringVar(&s.filter.NamePrefix, "prefix", "", "only names that begin so")
	addPairs(f, &s.filter.Labels, "label", "only with these labels, as key=value")
}

// given reports whether a flag says which jobs are meant.
func (s *jobSelector) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc(selectFlags, func(name string) bool { return cmd.Flags().Changed(name) })
}

// read completes the filter.
func (s *jobSelector) read() (err error) {
	if s.filter.States, err = parseStates[sluicev1.JobState]("state", s.states, "JOB_STATE_", sluicev1.JobState_value); err != nil {
		return err
	}
	s.filter.Types, err = parseStates[sluicev1.JobType]("type", s.types, "JOB_TYPE_", sluicev1.JobType_value)
	return err
}

// selection is a selector for a command that changes what it selects: it selects nothing where no flag says what.
type selection struct {
	jobSelector
	dryRun bool
}

func (s *selection) add(cmd *cobra.Command) {
	s.jobSelector.add(cmd)
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "list the jobs that these flags select, and do nothing")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && s.dryRun && !s.given(cmd):
			return usageError(cmd, errors.New("--dry-run lists what flags select: give some in place of NAME"))
		case len(args) > 0 && s.given(cmd):
			return usageError(cmd, errors.New("give names of jobs, or flags that select jobs, not both"))
		case len(args) > 0:
			return wantsNames(cmd, args)
		case !s.given(cmd):
			return usageError(cmd, errors.New("NAME is missing, or a flag that selects jobs, such as --label or --pool"))
		case cmd.Flags().Changed("expected-version"):
			return usageError(cmd, errors.New("--expected-version is about one job, by its name"))
		}
		return errors.Join(filled(cmd, selectFlags...), s.read())
	}
}

// named returns the names that a command is about, and how many answers of its own it prints, for showOne. Jobs that are
// selected and not taken are noted with the reason. It has shown what would be done where that is all that is wanted, and returns no names then.
func (s *selection) named(cmd *cobra.Command, a *app, c *client, args []string, takes func(*sluicev1.Job) bool, why string) (names []string, of int, err error) {
	if len(args) > 0 {
		return args, len(args), nil
	}
	all, err := c.listJobs(cmd.Context(), &s.filter)
	if err != nil {
		return nil, 0, flagged(err)
	}
	taken := &sluicev1.ListJobsResponse{}
	for _, j := range all {
		if takes(j) {
			taken.Jobs = append(taken.Jobs, j)
			names = append(names, j.GetName())
		}
	}
	if left := len(all) - len(names); left > 0 {
		fmt.Fprintf(a.err, "sluice: %d of the %d jobs that are selected %s\n", left, len(all), why)
	}
	switch {
	case s.dryRun:
		return nil, 0, a.show(taken, func(w io.Writer) { table(w, words.JobTable(taken.GetJobs())) })
	case len(all) == 0:
		fmt.Fprintln(a.err, "sluice: no job is selected")
	}
	return names, max(2, len(names)), nil // an answer has the same form however many there are
}

// listJobs returns all jobs that a filter lets through.
func (c *client) listJobs(ctx context.Context, filter *sluicev1.JobFilter) (all []*sluicev1.Job, err error) {
	req := &sluicev1.ListJobsRequest{Filter: proto.CloneOf(filter)}
	_, err = pages(0, func(size uint32, token string) (int, string, error) {
		req.PageSize, req.PageToken = &size, token
		res, err := call(ctx, c, c.jobs.ListJobs, req)
		all = append(all, res.GetJobs()...)
		return len(res.GetJobs()), res.GetNextPageToken(), err
	})
	return all, err
}

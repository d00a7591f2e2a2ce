package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobSubmitCommand(a *app) *cobra.Command {
	var key string
	var wait bool
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit the jobs of a YAML file; \"-\" reads standard input",
		Long: `Submit the jobs of a YAML file; "-" reads standard input.

Several documents in one file, separated by "---", are a graph of jobs: all are
accepted or none is. The keys of a file are described in docs/cli.md, and the
folder examples holds files to begin with.

Submitting is safe to repeat. Every invocation makes an idempotency key and
repeats the request under it when the scheduler goes away in the middle; a script
that may itself be run again gives its own with --idempotency-key, which holds
for a day.`,
		Args: wants("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filled(cmd, "idempotency-key"); err != nil {
				return err
			}
			specs, err := readSpecs(a, args[0], jobfile.Jobs)
			if err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			if key == "" {
				key = rand.Text()
			}
			var then func(context.Context, []string) error
			if wait {
				then = func(ctx context.Context, names []string) error { return a.finishWait(ctx, c, names) }
			}
			return a.submit(cmd.Context(), c, specs, key, then)
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key does not submit twice within a day")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the jobs have ended; exit code 4 if one did not succeed")
	return cmd
}

// submit submits jobs and shows that, or, where something is to be done with them then, notes it and does that.
func (a *app) submit(ctx context.Context, c *client, specs []*sluicev1.JobSpec, key string, then func(ctx context.Context, names []string) error) error {
	res, err := c.submit(ctx, specs, key)
	if err != nil {
		return err
	}
	lines := c.submitted(ctx, res)
	if then == nil {
		return a.show(res, func(w io.Writer) { fmt.Fprint(w, lines) })
	}
	fmt.Fprint(a.err, lines)
	var names []string
	for _, j := range res.GetJobs() {
		names = append(names, j.GetName())
	}
	if err = then(ctx, names); err != nil && ctx.Err() != nil {
		return exitError{exitInterrupted, fmt.Errorf("interrupted: what was submitted goes on; `sluice job stop %s` ends it", strings.Join(names, " "))}
	}
	return err
}

// readSpecs reads a file, or standard input for "-", and parses it.
func readSpecs[S any](a *app, path string, parse func(name string, data []byte) ([]S, error)) ([]S, error) {
	name, in := path, a.in
	if path == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, exitError{exitUsage, err}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, jobfile.MaxBytes+1))
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	specs, err := parse(name, data)
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	return specs, nil
}

// submit hands specs over, one by itself and several as a graph, and repeats it under the same key while the scheduler
// is away.
func (c *client) submit(ctx context.Context, specs []*sluicev1.JobSpec, key string) (*sluicev1.SubmitJobsResponse, error) {
	var res *sluicev1.SubmitJobsResponse
	err := c.persist(ctx, func(func()) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if len(specs) > 1 {
			var err error
			res, err = c.jobs.SubmitJobs(ctx, &sluicev1.SubmitJobsRequest{Specs: specs, IdempotencyKey: key})
			return err
		}
		one, err := c.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: specs[0], IdempotencyKey: key})
		res = &sluicev1.SubmitJobsResponse{Jobs: []*sluicev1.SubmitJobResponse{one}}
		return err
	})
	return res, err
}

// submitted says of each job that it was taken, or what has become of it where it was there already.
func (c *client) submitted(ctx context.Context, res *sluicev1.SubmitJobsResponse) string {
	var b strings.Builder
	for _, j := range res.GetJobs() {
		if j.GetCreated() {
			fmt.Fprintf(&b, "job %s submitted\n", j.GetName())
			continue
		}
		fmt.Fprintf(&b, "job %s was there already, with the same contents", j.GetName())
		// That it is there has been said; what became of it is only help.
		if res, err := call(ctx, c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: j.GetName()}); err == nil {
			state := res.GetJob().GetState()
			fmt.Fprintf(&b, ", and is %s", words.JobState(state))
			if hasEnded(res.GetJob()) || state == sluicev1.JobState_JOB_STATE_KILLING {
				fmt.Fprintf(&b, ": nothing is started; once it is deleted (`sluice job delete %s`) it can be submitted again", j.GetName())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobUpdateCommand(a *app) *cobra.Command {
	req, version := &sluicev1.UpdateJobRequest{}, uint64(0)
	cmd := &cobra.Command{
		Use:   "update FILE",
		Short: "Replace the contents of a job by those of a YAML file; \"-\" reads standard input",
		Long: `Replace the contents of a job by those of a YAML file; "-" reads standard input.

Instances that would run the same change at once. The others follow as the key
update of the file says: see docs/updates.md. An update that is under way is
superseded.`,
		Args: wants("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.Spec, err = readJob(a, args[0]); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			req.IdempotencyKey = rand.Text()
			job, before, err := c.update(cmd.Context(), req, uintFlag(cmd, "expected-version", version))
			if err != nil {
				return err
			}
			if gone := leftOut(before.GetSpec().GetSecrets(), job.GetSpec().GetSecrets()); len(gone) > 0 {
				fmt.Fprintf(a.err, "sluice: the file leaves out secrets, whose values are kept for a rollback of this update and gone after the next one: %s\n", strings.Join(gone, ", "))
			}
			return a.seeUpdate(cmd, c, job, func(job *sluicev1.Job) error {
				return a.show(job, func(w io.Writer) {
					fmt.Fprintf(w, "job %s has version %d%s\n", job.GetName(), job.GetVersion(), words.After(", update ", words.Update(job.GetUpdate())))
				})
			})
		},
	}
	waitFlag(cmd)
	cmd.Flags().Uint64Var(&version, "expected-version", 0, "the version that the file was made from; without it, the present one")
	cmd.Flags().StringVar(&req.Description, "description", "", "kept in the job's history")
	return cmd
}

// leftOut names the secrets of one spec that another has not.
func leftOut(was, is []*sluicev1.Secret) (names []string) {
	for _, s := range was {
		if !slices.ContainsFunc(is, func(o *sluicev1.Secret) bool { return o.GetName() == s.GetName() }) {
			names = append(names, s.GetName())
		}
	}
	return names
}

// readJob reads the one job of a file.
func readJob(a *app, file string) (*sluicev1.JobSpec, error) {
	specs, err := readSpecs(a, file, jobfile.Jobs)
	if err != nil {
		return nil, err
	}
	if len(specs) != 1 {
		return nil, exitError{exitUsage, errors.New("an update takes a file with one job")}
	}
	return specs[0], nil
}

// update sends a spec, for the present version where none is expected, and returns the answer and the job as it was
// before.
func (c *client) update(ctx context.Context, req *sluicev1.UpdateJobRequest, expected *uint64) (now, before *sluicev1.Job, err error) {
	was, err := call(ctx, c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: req.Spec.GetName()})
	if err != nil {
		return nil, nil, err
	}
	if req.ExpectedVersion = was.GetJob().GetVersion(); expected != nil {
		req.ExpectedVersion = *expected
	}
	res, err := call(ctx, c, c.jobs.UpdateJob, req)
	return res.GetJob(), was.GetJob(), err
}

func newJobDiffCommand(a *app) *cobra.Command {
	req := &sluicev1.UpdateJobRequest{DryRun: true}
	return &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what an update by a YAML file would change in a job; \"-\" reads standard input",
		Long: `Show what an update by a YAML file would change in a job; "-" reads standard input.

Where that is only its version, nothing in the spec would change: the last update,
which did not come to its end, would begin again.`,
		Args: wants("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.Spec, err = readJob(a, args[0]); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			would, now, err := c.update(cmd.Context(), req, nil)
			if err != nil {
				return err
			}
			all := words.SpecDiff(now.GetSpec(), would.GetSpec())
			if would.GetVersion() != now.GetVersion() {
				secrets, err := c.changedSecrets(cmd.Context(), now, req.Spec)
				if err != nil {
					return err
				}
				all = append(all, secrets...)
				if len(all) == 0 {
					all = append(all, words.Difference{Field: "version", From: fmt.Sprint(now.GetVersion()), To: fmt.Sprint(would.GetVersion())})
				}
			}
			return a.showValue(all, func(w io.Writer) error { return writeDiff(w, all) })
		},
	}
}

func newJobHistoryCommand(a *app) *cobra.Command {
	var limit uint32
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the versions of a job that are kept, newest first",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			all, more, err := c.versions(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			return a.showFirst(&sluicev1.ListJobVersionsResponse{Versions: all}, func(w io.Writer) { table(w, words.HistoryTable(all)) }, more, limit)
		}),
	}
	cmd.Flags().Uint32Var(&limit, "limit", 1000, "at most so many; 0 is all")
	return cmd
}

// versions returns those of a job that are kept, newest first, at most limit where that is not 0, and whether there are more.
func (c *client) versions(ctx context.Context, job string, limit uint32) (all []*sluicev1.JobVersion, more bool, err error) {
	more, err = pages(limit, func(size uint32, token string) (int, string, error) {
		res, err := call(ctx, c, c.jobs.ListJobVersions, &sluicev1.ListJobVersionsRequest{Name: job, PageSize: &size, PageToken: token})
		all = append(all, res.GetVersions()...)
		return len(res.GetVersions()), res.GetNextPageToken(), err
	})
	return all, more, err
}

func newJobRestartCommand(a *app) *cobra.Command {
	req := &sluicev1.RestartJobRequest{}
	var rolling bool
	var version uint64
	var instances []string
	cmd := &cobra.Command{
		Use:   "restart NAME --rolling",
		Short: "Start the instances of a job anew, in batches as its update policy says",
		Args:  wants("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !rolling {
				return exitError{exitUsage, errors.New("say --rolling: instances are restarted in batches, as the job's update policy says; `sluice task restart` restarts one")}
			}
			if err := filled(cmd, "instances"); err != nil {
				return err
			}
			req.Name, req.ExpectedVersion = args[0], uintFlag(cmd, "expected-version", version)
			var err error
			if req.Instances, err = parseRanges(instances); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			res, err := call(cmd.Context(), c, c.jobs.RestartJob, req)
			if err != nil {
				return err
			}
			return a.seeUpdate(cmd, c, res.GetJob(), a.showUpdate)
		},
	}
	waitFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&rolling, "rolling", false, "one batch after the other")
	f.Uint64Var(&version, "expected-version", 0, "refuse if the job has another version")
	f.StringSliceVar(&instances, "instances", nil, "only these, such as 0,3-5")
	return cmd
}

// parseRanges reads the values of --instances.
func parseRanges(values []string) (all []*sluicev1.InstanceRange, err error) {
	for _, text := range values {
		r, err := parseRange(text)
		if err != nil {
			return nil, exitError{exitUsage, err}
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRange reads "3" or "3-5".
func parseRange(text string) (*sluicev1.InstanceRange, error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	if err := errors.Join(errA, errB); err != nil || b < a {
		return nil, fmt.Errorf("--instances: %q is not a number, nor two of them such as 3-5", text)
	}
	return &sluicev1.InstanceRange{First: uint32(a), Last: uint32(b)}, nil
}

// showUpdate shows a job's update after something was done to it.
func (a *app) showUpdate(j *sluicev1.Job) error {
	return a.show(j, func(w io.Writer) { fmt.Fprintf(w, "job %s: %s\n", j.GetName(), words.Update(j.GetUpdate())) })
}

func newJobRollbackCommand(a *app) *cobra.Command {
	var version uint64
	cmd := newControlCommand(a, "rollback", "Return to an earlier version of a job: without --to-version, the one before its update",
		sluicev1.ControlUpdateRequest_ROLLBACK)
	cmd.Flags().Uint64Var(&version, toVersion, 0, "the version to return to; see job history")
	return cmd
}

// toVersion is the flag of a rollback.
const toVersion = "to-version"

func newControlCommand(a *app, name, short string, action sluicev1.ControlUpdateRequest_Action) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " NAME",
		Short: short,
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			req := &sluicev1.ControlUpdateRequest{Name: args[0], Action: action}
			if f := cmd.Flags().Lookup(toVersion); f != nil && f.Changed {
				version, err := cmd.Flags().GetUint64(toVersion)
				if err != nil {
					return err
				}
				req.ToVersion = &version
			}
			res, err := call(cmd.Context(), c, c.jobs.ControlUpdate, req)
			if err != nil {
				return err
			}
			return a.seeUpdate(cmd, c, res.GetJob(), a.showUpdate)
		}),
	}
	switch action {
	case sluicev1.ControlUpdateRequest_RESUME, sluicev1.ControlUpdateRequest_PROMOTE, sluicev1.ControlUpdateRequest_ROLLBACK:
		waitFlag(cmd)
	}
	return cmd
}

func newJobEndpointsCommand(a *app) *cobra.Command {
	req := &sluicev1.ListEndpointsRequest{}
	var watch bool
	cmd := &cobra.Command{
		Use:   "endpoints NAME",
		Short: "Show where the ready instances of a job are reached",
		Args:  wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			req.Job = args[0]
			if !watch {
				all := &sluicev1.ListEndpointsResponse{}
				_, err := pages(0, func(_ uint32, token string) (int, string, error) {
					req.PageToken = token
					res, err := call(cmd.Context(), c, c.places.ListEndpoints, req)
					all.Endpoints, all.Revision = append(all.Endpoints, res.GetEndpoints()...), res.GetRevision()
					return len(res.GetEndpoints()), res.GetNextPageToken(), err
				})
				if err != nil {
					return err
				}
				return a.show(all, func(w io.Writer) { table(w, words.EndpointTable(all.GetEndpoints())) })
			}
			return c.watchEndpoints(cmd.Context(), req, func(all *sluicev1.ListEndpointsResponse) error {
				return a.showEach(all, func(w io.Writer) { fmt.Fprintln(w); table(w, words.EndpointTable(all.GetEndpoints())) })
			})
		}),
	}
	cmd.Flags().StringVar(&req.Endpoint, "endpoint", "", "only the one of this name")
	cmd.Flags().BoolVar(&watch, "watch", false, "show them again whenever they change")
	return cmd
}

// watchEndpoints calls show with all endpoints whenever they have changed, also where the scheduler goes away meanwhile.
func (c *client) watchEndpoints(ctx context.Context, req *sluicev1.ListEndpointsRequest, show func(*sluicev1.ListEndpointsResponse) error) error {
	var shown *sluicev1.ListEndpointsResponse
	return c.persist(ctx, func(alive func()) error {
		stream, err := c.places.WatchEndpoints(ctx, req)
		if err != nil {
			return err
		}
		all := &sluicev1.ListEndpointsResponse{}
		for {
			res, err := stream.Recv()
			if err != nil {
				return err
			}
			alive()
			all.Endpoints, all.Revision = append(all.Endpoints, res.GetEndpoints()...), res.GetRevision()
			if res.GetMore() {
				continue
			}
			if shown == nil || !slices.EqualFunc(all.Endpoints, shown.Endpoints, func(a, b *sluicev1.Endpoint) bool { return proto.Equal(a, b) }) {
				if err := show(all); err != nil {
					return err
				}
			}
			shown, all = all, &sluicev1.ListEndpointsResponse{}
		}
	})
}

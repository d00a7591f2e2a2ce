package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobScaleCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "scale NAME INSTANCES",
		Short: "Change the number of instances of a job",
		Long: `Change the number of instances of a job that has not ended.

Instances that are added wait for a place. Those that are taken away are the
highest ones: they are asked to end, and are forgotten when they have.`,
		Args: wants("NAME", "INSTANCES"),
		RunE: func(cmd *cobra.Command, args []string) error {
			instances, err := strconv.ParseUint(args[1], 10, 32)
			if err != nil || instances < 1 || instances > cluster.MaxInstances {
				return usageError(cmd, fmt.Errorf("INSTANCES: %q has to be a whole number from 1 to %d", args[1], cluster.MaxInstances))
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			job, err := c.scale(cmd.Context(), args[0], uint32(instances))
			if err != nil {
				return renamed(err, func(line string) string { return strings.Replace(line, "spec.instances: ", "INSTANCES: ", 1) })
			}
			return a.show(job, func(w io.Writer) {
				fmt.Fprintf(w, "job %s has %s, version %d\n", job.GetName(), words.Number(job.GetSpec().GetInstances(), "instance"), job.GetVersion())
			})
		},
	}
}

// scale changes the instances of a job and nothing else, also if somebody changes the rest at the same time.
func (c *client) scale(ctx context.Context, name string, instances uint32) (*sluicev1.Job, error) {
	for {
		now, err := call(ctx, c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: name})
		if err != nil {
			return nil, err
		}
		req := &sluicev1.UpdateJobRequest{Spec: now.GetJob().GetSpec(), ExpectedVersion: now.GetJob().GetVersion()}
		req.DryRun = req.Spec.GetInstances() == instances // the same spec would begin an update again that has left instances
		req.Spec.Instances = &instances
		res, err := call(ctx, c, c.jobs.UpdateJob, req)
		switch {
		case err == nil && req.DryRun:
			return now.GetJob(), nil
		case status.Code(err) != codes.Aborted:
			return res.GetJob(), err
		}
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobFileCommand(a *app) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "file NAME",
		Short: "Print a job as a job file",
		Long: `Print a job as a job file, with defaults filled in, to keep it or to change it:

  sluice job file web > web.yaml
  sluice job diff web.yaml
  sluice job update web.yaml

Values of secrets are not told; an update that leaves them out keeps them.`,
		Args: wants("NAME"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			if err := noOutput(cmd, "a job file is YAML"); err != nil {
				return err
			}
			res, err := call(cmd.Context(), c, c.jobs.GetJob, &sluicev1.GetJobRequest{Name: args[0]})
			if err != nil {
				return err
			}
			job := res.GetJob()
			if given := uintFlag(cmd, "version", version); given == nil || version == job.GetVersion() {
				return a.showFile(fmt.Sprintf("job %s, version %d", job.GetName(), job.GetVersion()), job.GetSpec())
			}
			versions, _, err := c.versions(cmd.Context(), args[0], 0)
			if err != nil {
				return err
			}
			for _, v := range versions {
				if v.GetVersion() == version {
					return a.showFile(fmt.Sprintf("job %s, version %d of %d", job.GetName(), version, job.GetVersion()), v.GetSpec())
				}
			}
			return exitError{exitNotFound, fmt.Errorf("version %d of job %s is not kept: `sluice job history %[2]s` lists those that are", version, args[0])}
		}),
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "an earlier version; see job history")
	return cmd
}

func newPoolFileCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "file PATH",
		Short: "Print a pool as a pool file, for pool create and update",
		Args:  wants("PATH"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			if err := noOutput(cmd, "a pool file is YAML"); err != nil {
				return err
			}
			res, err := call(cmd.Context(), c, c.pools.GetPool, &sluicev1.GetPoolRequest{Path: args[0]})
			if err != nil {
				return err
			}
			p := res.GetPool()
			return a.showFile(fmt.Sprintf("pool %s, version %d", p.GetSpec().GetPath(), p.GetVersion()), p.GetSpec())
		}),
	}
}

// showFile prints a spec as a file, under a line that says what it is.
func (a *app) showFile(what string, spec proto.Message) error {
	data, err := jobfile.Format(spec)
	if err != nil {
		return fmt.Errorf("%s: no file can say what it is: %w", what, err)
	}
	_, err = fmt.Fprintf(a.out, "# %s\n%s", what, data)
	return err
}

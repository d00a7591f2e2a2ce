package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
)

// schedulerKeys are the settings of commands with a scheduler that have flags.
var schedulerKeys = []string{"scheduler.listen", "scheduler.http_listen", "scheduler.cost_model", "scheduler.solver"}

func newSchedulerCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler; host managers connect to it",
		Long: `Run the scheduler until it is interrupted. Host managers, such as
"sluice hostmgr local", connect to its address. Tasks run on while the scheduler is
away, and it finds them again when it starts with the same state folder.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.config
			s, err := openServer(c.Scheduler, c.Scheduler.StateDir, newLogger(a.err, c.Log.Level))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "scheduler: API on %s, metrics on http://%s/metrics, state in %s\n", s.api.Addr(), s.web.Addr(), c.Scheduler.StateDir)
			return runUntil(cmd.Context(), s.parts(), s.stopServing, s.close)
		},
	}
	config.AddFlags(cmd.Flags(), append(schedulerKeys, "scheduler.state_dir")...)
	return cmd
}

// runUntil runs parts side by side until ctx ends or one of them fails. Then stop is called while they still work, and
// when all have ended, release.
func runUntil(ctx context.Context, parts []func(context.Context) error, stop func(), release func() error) error {
	working, finish := context.WithCancel(context.WithoutCancel(ctx))
	defer finish()
	group, working := errgroup.WithContext(working)
	for _, part := range parts {
		group.Go(func() error { return part(working) })
	}
	select {
	case <-ctx.Done():
	case <-working.Done():
	}
	stop()
	finish()
	err := group.Wait()
	if rerr := release(); err == nil {
		err = rerr
	}
	return err
}

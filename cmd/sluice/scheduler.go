package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
)

// schedulerKeys are the settings of commands with a scheduler that have flags.
var schedulerKeys = []string{
	"scheduler.listen", "scheduler.http_listen", "scheduler.traces", "scheduler.cost_model", "scheduler.solver",
}

func newSchedulerCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler; host managers connect to it",
		Long: `Run the scheduler until it is interrupted. Host managers, such as
"sluice hostmgr local", connect to its address. Tasks run on while the scheduler is
away, and it finds them again when it starts with the same state folder.

It asks who calls, and encrypts: scheduler.tls.cert, scheduler.tls.key and
scheduler.tls.client_ca are needed, and "sluice tls init" makes the files and a
configuration. With --insecure everybody on this machine may do everything.

With scheduler.member and scheduler.peers it is one of three or five on several
machines: one leads and schedules, the others have a copy of all that it knows and
stand by to go on in its place.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			outliveReader()
			c := a.config
			if c.Scheduler.TLS.Cert == "" && !c.Scheduler.Insecure {
				return exitError{exitUsage, errors.New("the scheduler needs TLS, to know who calls: `sluice tls init` makes certificates and a configuration; --insecure does without, on this machine only")}
			}
			if c.Scheduler.Insecure {
				fmt.Fprintln(a.err, "sluice: warning: --insecure: everybody on this machine may do everything, and run commands as this user")
			}
			log := newLogger(a.err, c.Log)
			if c.Scheduler.Member != "" {
				return a.runMember(cmd.Context(), c.Scheduler, log)
			}
			s, err := openServer(c.Scheduler, c.Scheduler.StateDir, alone(c.Scheduler.StateDir, log), log)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "scheduler: API on %s, console on %s, metrics on %[2]smetrics, state in %[3]s\n", s.api.Addr(), s.address(), c.Scheduler.StateDir)
			return runUntil(cmd.Context(), s.parts(), s.stopServing, s.close)
		},
	}
	config.AddFlags(cmd.Flags(), append(schedulerKeys, "scheduler.state_dir", "scheduler.insecure")...)
	cmd.Flags().Lookup("insecure").NoOptDefVal = "true"
	return cmd
}

// outliveReader lets a command that serves go on when who reads its output has ended, as head at once, or tee after a Ctrl-C.
func outliveReader() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // caught and dropped
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

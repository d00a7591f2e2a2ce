package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
)

// evacuation bounds how long a stopping dev waits for its tasks to end.
const evacuation = 30 * time.Second

func newDevCommand(a *app) *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process on this machine",
		Long: `Run the scheduler and a host manager in one process: this machine is divided into
virtual hosts, and tasks are processes on it. With --driver mesos they run on the
Mesos cluster at --master.

Ctrl-C, SIGTERM and the end of the terminal end the tasks, then the scheduler; the
tasks wait and run again at the next start. A second Ctrl-C ends the scheduler at
once. Only a crash leaves tasks running, and the next start finds them again.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runDev(cmd.Context(), &d)
		},
	}
	cmd.Flags().BoolVar(&d.wanted, "demo", false, "submit a job that hashes and counts the files of Go's library, and check its result")
	cmd.Flags().StringVar(&d.dir, "demo-dir", "", "folder whose files the demo counts instead")
	keys := append(append([]string{"dev.state_dir", "dev.driver"}, schedulerKeys...), localKeys...)
	config.AddFlags(cmd.Flags(), append(keys, mesosKeys...)...)
	return cmd
}

func (a *app) runDev(ctx context.Context, d *demo) error {
	outliveReader()
	c := a.config
	log := newLogger(a.err, c.DevLog())
	if c.Scheduler.TLS.Cert != "" {
		return exitError{exitUsage, errors.New("dev serves this machine without TLS: leave scheduler.tls out, or run `sluice scheduler` and `sluice hostmgr local`")}
	}
	if c.Scheduler.Member != "" {
		return exitError{exitUsage, errors.New("dev is alone: leave scheduler.member and scheduler.peers out, or run `sluice scheduler` and `sluice hostmgr local`")}
	}
	if window, every := c.Scheduler.SlackWindow, c.Local.UsageInterval; c.Dev.Driver == "local" && 0 < window && window < every {
		return exitError{exitUsage, fmt.Errorf("scheduler.slack_window is %v: at least local.usage_interval, which is %v, or 0 to lend nothing", window, every)}
	}
	s, err := openServer(c.Scheduler, c.Dev.StateDir, alone(c.Dev.StateDir, log), log)
	if err != nil {
		return err
	}
	pipe := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient("passthrough:///dev", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		return errors.Join(err, s.close())
	}
	m, hosts, err := openDevManager(c, conn, log)
	if err != nil {
		return errors.Join(err, conn.Close(), s.close())
	}
	managing, stopManaging := context.WithCancel(context.WithoutCancel(ctx))
	defer stopManaging()
	managed := make(chan struct{})
	parts := append(s.parts(),
		func(context.Context) error { defer close(managed); return m.run(managing) },
		func(context.Context) error { return s.grpc.Serve(pipe) },
		func(working context.Context) error {
			if err := awaitHosts(ctx, working, s.scheduler, hosts); err != nil {
				return nil // somebody else ends it and says why
			}
			a.greet(s)
			return d.run(ctx, a, s.api.Addr().String())
		})
	stop := func() {
		a.evacuate(ctx, s.scheduler)
		stopManaging() // before the server, or it would try to reach it again
		<-managed
		s.stopServing()
	}
	return runUntil(ctx, parts, stop, func() error {
		return errors.Join(m.driver.Close(), conn.Close(), s.close())
	})
}

// openDevManager prepares the host manager that the settings choose, and returns how many hosts there are to be at least.
func openDevManager(c *config.Loaded, conn *grpc.ClientConn, log *slog.Logger) (*manager, int, error) {
	if c.Dev.Driver == "mesos" {
		m, err := openMesos(c.Mesos, filepath.Join(c.Dev.StateDir, "mesos"), "", conn, log)
		return m, 1, err
	}
	if err := openToUsers(c.Dev.StateDir); err != nil {
		return nil, 0, err
	}
	m, err := openManager(c.Local, filepath.Join(c.Dev.StateDir, "local"), conn, log)
	return m, c.Local.Hosts, err
}

// openToUsers lets tasks of other users, which only root can start, pass through a folder to their own.
func openToUsers(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o011)
}

func devHosts(c *config.Loaded) string {
	if c.Dev.Driver == "mesos" {
		return fmt.Sprintf("%s/...: the agents of the Mesos cluster at %s", c.Mesos.Shard, c.Mesos.Master)
	}
	return fmt.Sprintf("%d: %s", c.Local.Hosts, hostNames(c.Local))
}

// awaitHosts waits until so many hosts take tasks, or until one of the contexts ends.
func awaitHosts(ctx, working context.Context, s *serve.Scheduler, want int) error {
	w := s.Watch()
	defer w.Close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-working.Done():
			return working.Err()
		case <-w.C:
		}
		snapshot, _, _ := w.Take()
		up := 0
		for h := range snapshot.Hosts("") {
			if h.State() != cluster.HostUnreachable {
				up++
			}
		}
		if up >= want {
			return nil
		}
	}
}

// greet says what there is and how to go on.
func (a *app) greet(s *server) {
	c := a.config
	found := 0
	for h := range s.scheduler.Snapshot().Hosts("") {
		found += len(h.Tasks)
	}
	adopted := ""
	if found > 0 {
		adopted = fmt.Sprintf("%d were left running and are found again", found)
	}
	properties(a.out,
		[2]string{"API", s.api.Addr().String()},
		[2]string{"console", s.address()},
		[2]string{"metrics", s.address() + "metrics, profiles under /debug/pprof/"},
		[2]string{"state", c.Dev.StateDir},
		[2]string{"hosts", devHosts(c)},
		[2]string{"tasks", adopted},
	)
	server := ""
	if s.api.Addr().String() != defaultServer() {
		server = " --server " + s.api.Addr().String()
	}
	fmt.Fprintf(a.out, "In a second terminal: sluice%s job submit examples/hello.yaml --wait\nCtrl-C ends the tasks and the scheduler.\n", server)
}

// defaultServer is the address that commands use where nothing else is said.
func defaultServer() string {
	for _, s := range config.Settings() {
		if s.Key == "server" {
			return s.Default.(string)
		}
	}
	return ""
}

// evacuate ends all tasks, if the stop was asked for and not caused by a failure.
func (a *app) evacuate(ctx context.Context, s *serve.Scheduler) {
	if ctx.Err() == nil {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), evacuation)
	defer cancel()
	err := s.Evacuate(bounded, func(runs int) {
		if runs > 0 {
			fmt.Fprintf(a.out, "tasks that end now and run again at the next start: %d; press Ctrl-C again to leave them\n", runs)
		}
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded): // as those of a machine that is gone
		fmt.Fprintf(a.err, "sluice: some tasks have not ended within %v: they do once their host manager is there again\n", evacuation)
	case err != nil:
		fmt.Fprintf(a.err, "sluice: some tasks have not ended: %v\n", err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/local"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
)

// localKeys are the settings of commands with a local host manager that have flags.
var localKeys = []string{
	"local.shard", "local.hosts", "local.racks", "local.rack", "local.zone", "local.address", "local.ports", "local.cpu", "local.memory", "local.disk",
	"local.resources", "local.attributes", "local.cgroup",
}

func newHostmgrCommand(a *app) *cobra.Command {
	return group("hostmgr", "Run a host manager, which starts tasks for a scheduler", newHostmgrLocalCommand(a), newHostmgrMesosCommand(a))
}

func newHostmgrLocalCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run tasks as processes of this machine, divided into virtual hosts",
		Long: `Run tasks as processes of this machine, divided into virtual hosts, for the
scheduler at --server. Tasks run on while the host manager is away, and it finds
them again when it starts with the same state folder.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			outliveReader()
			c := a.config
			conn, err := a.dialScheduler()
			if err != nil {
				return err
			}
			m, err := openManager(c.Local, c.Local.StateDir, conn, newLogger(a.err, c.Log))
			if err != nil {
				return errors.Join(err, conn.Close())
			}
			fmt.Fprintf(a.out, "host manager: %s as %s for the scheduler at %s, state in %s\n", words.Number(c.Local.Hosts, "host"), hostNames(c.Local), c.Server, c.Local.StateDir)
			return runUntil(cmd.Context(), []func(context.Context) error{m.run}, func() {}, func() error {
				return errors.Join(m.driver.Close(), conn.Close())
			})
		},
	}
	config.AddFlags(cmd.Flags(), append(localKeys, "local.state_dir")...)
	return cmd
}

// dialScheduler prepares the connection of a host manager to its scheduler.
func (a *app) dialScheduler() (*grpc.ClientConn, error) {
	secure, options, err := a.credentials()
	if err != nil {
		return nil, err
	}
	target, found := a.target()
	r := &renewing{TransportCredentials: secure}
	conn, err := grpc.NewClient(target, append(slices.Concat(options, found), grpc.WithTransportCredentials(r),
		grpc.WithChainStreamInterceptor(explainDial(a.config.Server, a.config.TLS), r.intercept))...)
	if err != nil {
		return nil, exitError{exitUsage, fmt.Errorf("--server: %w", err)}
	}
	return conn, nil
}

// explainDial has a stream that did not come about for the settings say so: a host manager goes on trying, and logs it.
func explainDial(server string, shown config.TLS) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, options...)
		if status.Code(err) == codes.Unavailable {
			if wrong := misdialed(ctx, server, shown, status.Convert(err).Message()); wrong != "" {
				err = status.Error(codes.Unavailable, wrong)
			}
		}
		return stream, err
	}
}

// hostNames says which hosts there are.
func hostNames(c config.Local) string {
	if c.Hosts == 1 {
		return c.Shard + "/h0"
	}
	return fmt.Sprintf("%s/h0 to %s/h%d", c.Shard, c.Shard, c.Hosts-1)
}

// manager is a driver with the shard that connects it.
type manager struct {
	driver hostmgr.Driver
	shard  *hostmgr.Shard
	dir    string
}

// openManager prepares the driver and the shard; nothing runs yet.
func openManager(c config.Local, dir string, conn *grpc.ClientConn, log *slog.Logger) (*manager, error) {
	if err := ownFolder(dir, localMark); err != nil {
		return nil, err
	}
	amount := func(s string, parse func(string) (int64, error)) int64 {
		n, _ := parse(s) // was checked with the settings
		return n
	}
	var capacity cluster.Resources
	capacity.Fixed[cluster.CPU] = amount(c.CPU, jobfile.ParseMilli)
	capacity.Fixed[cluster.Memory] = amount(c.Memory, jobfile.ParseBytes)
	capacity.Fixed[cluster.Disk] = amount(c.Disk, jobfile.ParseBytes)
	first, last, _ := config.ParsePorts(c.Ports) // was checked too, as what follows
	named, _ := config.ParseResources(c.Resources)
	for _, a := range named {
		capacity = capacity.Add(cluster.Resources{Named: []cluster.Amount{a}})
	}
	attributes, _ := config.ParseAttributes(c.Attributes)
	driver, err := local.New(local.Config{
		Dir:           dir,
		Hosts:         c.Hosts,
		Racks:         min(c.Racks, c.Hosts),
		Rack:          c.Rack,
		Zone:          c.Zone,
		Capacity:      capacity,
		Attributes:    attributes,
		Address:       c.Address,
		Ports:         cluster.PortRange{First: first, Last: last},
		Cgroup:        c.Cgroup,
		LogLimitBytes: amount(c.LogLimit, jobfile.ParseBytes),
		UsageInterval: c.UsageInterval,
		SecretsDir:    c.SecretsDir,
		Retention: local.Retention{
			Runs: c.Retention.Runs, Bytes: amount(c.Retention.Size, jobfile.ParseBytes), Age: c.Retention.Age,
		},
		Log: log,
	})
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	return newManager(driver, "local", c.Shard, dir, conn, log)
}

// newManager returns the manager of a driver, which it closes if it fails.
func newManager(driver hostmgr.Driver, kind, name, dir string, conn *grpc.ClientConn, log *slog.Logger) (*manager, error) {
	shard, err := hostmgr.NewShard(hostmgr.ShardConfig{
		Name: cluster.ShardID(name), Kind: kind, Version: version,
		Driver: driver, Conn: conn,
		Cluster: hostmgr.ClusterFile{Path: filepath.Join(dir, "cluster"), Shard: cluster.ShardID(name)},
		Log:     log,
	})
	if err != nil {
		return nil, errors.Join(exitError{exitUsage, err}, driver.Close())
	}
	return &manager{driver: driver, shard: shard, dir: dir}, nil
}

// run serves the scheduler until ctx ends.
func (m *manager) run(ctx context.Context) error {
	err := m.shard.Run(ctx)
	switch {
	case err == nil || errors.Is(err, mesos.ErrSuperseded): // which says what to do
		return err
	case errors.Is(err, mesos.ErrRemoved):
		return fmt.Errorf("%w; sluice hostmgr mesos --state-dir %s --new-framework does so, with that id", err, m.dir)
	case errors.Is(err, mesos.ErrRejected):
		return fmt.Errorf("%w; what it says of itself is in --roles, --framework-user, --principal and --secret-file", err)
	default:
		return fmt.Errorf("%w; the folder is --state-dir, the name --shard", err)
	}
}

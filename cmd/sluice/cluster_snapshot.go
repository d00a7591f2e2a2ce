package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterSnapshotCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write the whole durable state, as of one moment, to a new file",
		Long: `Write the whole durable state, as of one moment, to a new file, from which "cluster
restore" makes the store of a scheduler. Secrets stay sealed: their keys are needed too.`,
		Args: wantsSnapshot,
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return exitError{exitUsage, err}
			}
			size, err := c.export(cmd.Context(), f)
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return errors.Join(err, os.Remove(args[0]))
			}
			return a.showValue(map[string]any{"file": args[0], "bytes": size}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d bytes in %s\n", size, args[0])
				return err
			})
		}),
	}
}

// wantsSnapshot is wants for a file, and refuses "-", which other commands take for a standard stream.
func wantsSnapshot(cmd *cobra.Command, args []string) error {
	if err := wants("FILE")(cmd, args); err != nil || args[0] != "-" {
		return err
	}
	return usageError(cmd, errors.New("FILE: \"-\" is for standard input and output in other commands: a snapshot is a file, give its name"))
}

// export copies a snapshot to w.
func (c *client) export(ctx context.Context, w io.Writer) (size int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.cluster.ExportSnapshot(ctx, &sluicev1.ExportSnapshotRequest{})
	for err == nil {
		var part *sluicev1.ExportSnapshotResponse
		if part, err = stream.Recv(); err == nil {
			size += len(part.GetData())
			_, err = w.Write(part.GetData())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return size, c.describe(err)
}

func newClusterRestoreCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the store of a scheduler, in an empty folder, from a snapshot",
		Long: `Make the store of a scheduler from a file that "cluster snapshot" wrote, in a state
folder without one. The scheduler that starts there is the same cluster: host managers
tell it what has happened to their tasks since, and until all of them have, or are given
up (scheduler.lost_after), it places nothing. The one that the snapshot is of must not
run any more.`,
		Args: wantsSnapshot,
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := readSnapshot(args[0])
			if err != nil {
				return err
			}
			stateDir := a.config.Scheduler.StateDir
			dir := filepath.Join(stateDir, "journal")
			j, err := openJournal(stateDir, newLogger(a.err, a.config.Log))
			if err != nil {
				return err
			}
			snapshot, _ := state.Snapshot()
			err = errors.Join(j.Restore(cmd.Context(), snapshot), j.Close())
			if errors.Is(err, journal.ErrSequence) {
				return exitError{exitConflict, fmt.Errorf("%s holds the store of a scheduler: move that folder away, or choose another state folder with --state-dir", dir)}
			}
			if err != nil {
				return err
			}
			id, jobs, hosts := snapshot.ClusterID(), snapshot.NumJobs(), snapshot.NumHosts()
			return a.showValue(map[string]any{"cluster_id": id, "jobs": jobs, "hosts": hosts, "journal": dir}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "cluster %s, %s, %s: restored in %s\n", id, words.Number(jobs, "job"), words.Number(hosts, "host"), dir)
				return err
			})
		},
	}
	config.AddFlags(cmd.Flags(), "scheduler.state_dir")
	return cmd
}

// readSnapshot reads a file that "cluster snapshot" wrote.
func readSnapshot(path string) (*cluster.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	defer func() { _ = f.Close() }()
	state, err := serve.ReadSnapshot(f, cluster.Time(time.Now().UnixNano()))
	if err != nil {
		return nil, exitError{exitUsage, fmt.Errorf("%s: %w", path, err)}
	}
	return state, nil
}

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterCommand(a *app) *cobra.Command {
	return group("cluster", "Show the scheduler as a whole", newClusterStatusCommand(a), newClusterWatchCommand(a), newClusterMembersCommand(a),
		newClusterVerifyCommand(a), newCostModelCommand(a), newClusterModeCommand(a),
		newClusterRotateCommand(a), newClusterSnapshotCommand(a), newClusterRestoreCommand(a), newClusterForecastCommand(a))
}

func newClusterStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show jobs, tasks, hosts, shards and the last cycle in numbers",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.GetStatus, &sluicev1.GetStatusRequest{})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { statusProperties(w, res) })
		}),
	}
}

func statusProperties(w io.Writer, s *sluicev1.GetStatusResponse) {
	properties(w, words.StatusProperties(s)...)
	fmt.Fprintln(w)
	table(w, words.ShardTable(s.GetShards()))
}

func newClusterMembersCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "List the schedulers that stand by for each other",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.ListMembers, &sluicev1.ListMembersRequest{})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) {
				if len(res.GetMembers()) == 0 {
					fmt.Fprintln(w, "this scheduler is alone: no other one stands by")
					return
				}
				table(w, words.MemberTable(res.GetMembers()))
			})
		}),
	}
}

func newClusterWatchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Print every scheduling cycle, until interrupted",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			return c.persist(cmd.Context(), func(alive func()) error {
				ctx, cancel := context.WithCancel(cmd.Context())
				defer cancel()
				stream, err := c.cluster.WatchCycles(ctx, &sluicev1.WatchCyclesRequest{})
				if err != nil {
					return err
				}
				for {
					res, err := stream.Recv()
					if err != nil {
						return err
					}
					alive()
					if err := a.showEach(res, func(w io.Writer) { fmt.Fprintln(w, words.Cycle(res.GetCycle())) }); err != nil {
						return err
					}
				}
			})
		}),
	}
}

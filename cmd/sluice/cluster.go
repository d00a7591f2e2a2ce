package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterCommand(a *app) *cobra.Command {
	return group("cluster", "Show the scheduler as a whole", newClusterStatusCommand(a), newClusterWatchCommand(a),
		newClusterVerifyCommand(a), newCostModelCommand(a), newClusterModeCommand(a),
		newClusterRotateCommand(a), newClusterSnapshotCommand(a), newClusterRestoreCommand(a))
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
	last := ""
	if s.GetLastCycle() != nil {
		last = cycleLine(s.GetLastCycle())
	}
	properties(w,
		[2]string{"cluster", s.GetClusterId()},
		[2]string{"version", s.GetVersion()},
		[2]string{"running for", spanWord(s.GetStartTime(), nil)},
		[2]string{"mode", modeWord(s.GetMode())},
		[2]string{"cost model", s.GetCostModel()},
		[2]string{"solver", s.GetSolver()},
		[2]string{"jobs", fmt.Sprintf("%d, %d not ended", s.GetJobs(), s.GetActiveJobs())},
		[2]string{"tasks", fmt.Sprintf("%d waiting, %d running", s.GetWaitingTasks(), s.GetRunningTasks())},
		[2]string{"hosts", fmt.Sprintf("%d, %d up", s.GetHosts(), s.GetHostsUp())},
		[2]string{"capacity", resourcesWord(s.GetCapacity())},
		[2]string{"allocated", resourcesWord(s.GetAllocated())},
		[2]string{"used", resourcesWord(s.GetUsed())},
		[2]string{"last cycle", last},
	)
	var rows [][]string
	for _, x := range s.GetShards() {
		state := "cut off"
		if x.GetConnected() {
			state = "connected"
		}
		rows = append(rows, []string{
			x.GetName(), x.GetDriver(), state, spanWord(x.GetSince(), nil), fmt.Sprint(x.GetHosts()), fmt.Sprint(x.GetTasks()),
			fmt.Sprint(x.GetCommandsPending()),
		})
	}
	fmt.Fprintln(w)
	columns(w, "SHARD DRIVER STATE FOR HOSTS TASKS PENDING", rows)
}

func modeWord(m *sluicev1.ClusterMode) string {
	var parts []string
	for _, x := range []struct {
		on   bool
		word string
	}{
		{m.GetReadOnly(), "read-only"},
		{m.GetSchedulingStopped(), "scheduling stopped"},
		{m.GetKillingStopped(), "killing stopped"},
	} {
		if x.on {
			parts = append(parts, x.word)
		}
	}
	return strings.Join(parts, ", ")
}

// cycleLine sums a cycle up.
func cycleLine(c *sluicev1.CycleSummary) string {
	line := fmt.Sprintf("%d: %d placed, %d waiting in %d classes, %d arcs (%d touched), solver work %d, %d us",
		c.GetNumber(), c.GetPlacements(), c.GetWaiting(), c.GetClasses(), c.GetArcs(), c.GetArcsTouched(), c.GetSolverWork(), c.GetTotalUs())
	if n := c.GetPreemptions(); n > 0 {
		line += fmt.Sprintf(", %d preempted", n)
	}
	if n := c.GetMigrations(); n > 0 {
		line += fmt.Sprintf(", %d moved", n)
	}
	if c.GetLimitedBy() != "" {
		line += ", limited by " + c.GetLimitedBy()
	}
	return line
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
					if err := a.showEach(res, func(w io.Writer) { fmt.Fprintln(w, cycleLine(res.GetCycle())) }); err != nil {
						return err
					}
				}
			})
		}),
	}
}

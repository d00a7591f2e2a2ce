package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newGraphCommand(a *app) *cobra.Command {
	return group("graph", "Look at the scheduler's flow network", newGraphExportCommand(a))
}

const graphExportHelp = `Write the flow network as the scheduler's last solve left it, with its flow.

Tasks that the last solve placed are still in it; with --task it is the part around one task: its class, and
where that may go. What the nodes, the arcs and the prices are is told in docs/network.md.

  sluice graph export --format dot | dot -Tsvg > network.svg
  sluice graph export --format dimacs | sluice solve -`

func newGraphExportCommand(a *app) *cobra.Command {
	formats := []string{"dot", "mermaid", "dimacs", "json"}
	format, task := "dot", ""
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the flow network of the last solve",
		Long:  graphExportHelp,
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(formats, format) {
				return usageError(cmd, fmt.Errorf("--format: %q is none of %s", format, strings.Join(formats, ", ")))
			}
			if err := noOutput(cmd, "--format says in which form the network is written"); err != nil {
				return err
			}
			r := &sluicev1.ExportGraphRequest{Format: sluicev1.ExportGraphRequest_Format(sluicev1.ExportGraphRequest_Format_value[strings.ToUpper(format)])}
			if task != "" {
				var err error
				if r.Job, r.Instance, err = parseTask(cmd, task); err != nil {
					return err
				}
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			stream, err := c.cluster.ExportGraph(cmd.Context(), r)
			if err != nil {
				return c.describe(err)
			}
			for {
				res, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return c.describe(err)
				}
				if _, err := a.out.Write(res.GetData()); err != nil {
					return err
				}
			}
		},
	}
	cmd.Flags().StringVar(&format, "format", format, strings.Join(formats, ", "))
	cmd.Flags().StringVar(&task, "task", task, "only around this task, JOB/INSTANCE")
	return cmd
}

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newTaskExplainCommand(a *app) *cobra.Command {
	req := &sluicev1.ExplainTaskRequest{}
	return &cobra.Command{
		Use:   "explain JOB/INSTANCE",
		Short: "Say why a task waits, is where it is, or was stopped",
		Args:  wants("JOB/INSTANCE"),
		RunE: a.onTask(&req.Job, &req.Instance, func(cmd *cobra.Command, c *client) error {
			res, err := call(cmd.Context(), c, c.tasks.ExplainTask, req)
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { words.Explanation(w, res) })
		}),
	}
}

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newClusterVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Check the scheduler's last plan that changed something, apart from the code that made it",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.VerifyPlan, &sluicev1.VerifyPlanRequest{})
			if err != nil {
				return err
			}
			if err := a.show(res, func(w io.Writer) { verdict(w, res) }); err != nil {
				return err
			}
			if res.GetViolationsTotal() > 0 {
				return exitError{exitFailure, nil}
			}
			return nil
		}),
	}
}

// verdict prints whether the plan holds, or what is wrong with it.
func verdict(w io.Writer, res *sluicev1.VerifyPlanResponse) {
	plan := words.Number(res.GetPlacements(), "placement") + ", " + words.Number(res.GetPreemptions(), "preemption") +
		", " + words.Number(res.GetMigrations(), "migration")
	if res.GetViolationsTotal() == 0 {
		fmt.Fprintf(w, "plan of cycle %d holds: %s\n", res.GetCycle(), plan)
		return
	}
	fmt.Fprintf(w, "plan of cycle %d is wrong: %s, %s\n", res.GetCycle(), plan, words.Number(res.GetViolationsTotal(), "violation"))
	for _, v := range res.GetViolations() {
		fmt.Fprintf(w, "  %s\n", v)
	}
	if more := res.GetViolationsTotal() - uint64(len(res.GetViolations())); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

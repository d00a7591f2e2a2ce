package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newJobPlanCommand(a *app) *cobra.Command {
	req := &sluicev1.PlanJobsRequest{}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what would be placed where if the jobs of a YAML file were submitted now; \"-\" reads standard input",
		Long: `Show what the next cycle would do if the jobs of a YAML file were submitted now, or
if those of them that exist had these contents: which of their instances would be
asked to end at once, what would be placed where, what would be preempted or moved
for it, and what would wait. The tasks of a gang beside its core are shown as the
cycle after that finds them. Nothing is changed.`,
		Args: wants("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.Specs, err = readSpecs(a, args[0], jobfile.Jobs); err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			res, err := callFor(cmd.Context(), longestCall, c, c.jobs.PlanJobs, req)
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { planTable(w, res) })
		},
	}
	cmd.Flags().StringVar(&req.CostModel, "cost-model", "", "plan with this cost model instead of the one in use")
	return cmd
}

func planTable(w io.Writer, res *sluicev1.PlanJobsResponse) {
	var rows [][]string
	var waiting *sluicev1.WaitingExplanation
	add := func(what string, tasks []*sluicev1.PlannedTask) {
		for _, t := range tasks {
			if t.GetJob() == "" { // one that the caller may not see
				rows = append(rows, []string{"-", what, "-", "-", t.GetReason()})
				continue
			}
			host := t.GetHost()
			if from := t.GetFromHost(); from != "" {
				host = from + " to " + host
			}
			reason := t.GetReason()
			if t.GetWaiting() != nil {
				waiting = t.GetWaiting() // and of those after it
			}
			if what == "waits" && waiting != nil { // an older server says the reason only
				reason = words.Waiting(&sluicev1.Task{HomeHost: t.GetHost(), Waiting: waiting})
			}
			rows = append(rows, []string{fmt.Sprintf("%s/%d", t.GetJob(), t.GetInstance()), what, host, fmt.Sprint(t.GetCostMs()), reason})
		}
	}
	add("stops", res.GetStops())
	add("starts", res.GetPlacements())
	add("is preempted", res.GetPreemptions())
	add("moves", res.GetMigrations())
	add("waits", res.GetWaiting())
	if len(rows) == 0 {
		fmt.Fprintln(w, "the next cycle would start, stop and move nothing; what an update does once runs have ended is not planned: `sluice job diff` shows what it changes")
		return
	}
	columns(w, "TASK PLAN HOST COST_MS REASON", rows)
}

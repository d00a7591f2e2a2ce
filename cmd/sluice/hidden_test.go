package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What the server does not tell has no name that would mislead.
func TestTasksThatAreNotNamed(t *testing.T) {
	var out strings.Builder
	planTable(&out, &sluicev1.PlanJobsResponse{Preemptions: []*sluicev1.PlannedTask{{Reason: "PREEMPTED"}}})
	require.Equal(t, []string{"-", "is", "preempted", "-", "-", "PREEMPTED"}, strings.Fields(out.String())[5:])
	out.Reset()
	preempted(&out, &sluicev1.PreemptionExplanation{BeneficiaryPool: "root/a", CostMs: 3})
	require.Equal(t, "\nasked to leave for a task of pool root/a, which costs 3 ms\n", out.String())
}

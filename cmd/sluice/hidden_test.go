package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What the server does not tell has no name that would mislead.
func TestTasksThatAreNotNamed(t *testing.T) {
	var out strings.Builder
	planTable(&out, &sluicev1.PlanJobsResponse{Preemptions: []*sluicev1.PlannedTask{{Reason: "PREEMPTED"}}})
	require.Equal(t, []string{"-", "is", "preempted", "-", "-", "PREEMPTED"}, strings.Fields(out.String())[5:])
	out.Reset()
	planTable(&out, &sluicev1.PlanJobsResponse{})
	require.Contains(t, out.String(), "the next cycle would start, stop and move nothing", "an empty table would say so of all that follows")
	out.Reset()
	words.Explanation(&out, &sluicev1.ExplainTaskResponse{Preempted: &sluicev1.PreemptionExplanation{BeneficiaryPool: "root/a", CostMs: 3}})
	require.Contains(t, out.String(), "\nasked to leave for a task of pool root/a, which costs 3 ms\n")
}

// A plan says why tasks would wait in the words of lists. Those that wait for the same are told of with the first of them.
func TestAPlanSaysWhyTasksWait(t *testing.T) {
	var out strings.Builder
	small := &sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 2, Tally: []*sluicev1.HostTally{{Reason: "TOO_SMALL", Hosts: 2, Detail: "cpu_milli"}}}
	planTable(&out, &sluicev1.PlanJobsResponse{Waiting: []*sluicev1.PlannedTask{
		{Job: "a", Reason: "NO_HOST_FITS", Waiting: small},
		{Job: "a", Instance: 1, Reason: "NO_HOST_FITS"},
		{Job: "b", Reason: "HOST_AWAY", Host: "s/h", Waiting: &sluicev1.WaitingExplanation{Reason: "HOST_AWAY"}},
	}})
	require.Equal(t, `TASK  PLAN   HOST  COST_MS  REASON
a/0   waits  -     0        no host fits: cpu_milli (2 of 2 hosts)
a/1   waits  -     0        no host fits: cpu_milli (2 of 2 hosts)
b/0   waits  s/h   0        its host s/h
`, out.String())
	out.Reset()
	planTable(&out, &sluicev1.PlanJobsResponse{Stops: []*sluicev1.PlannedTask{{Job: "a", Instance: 2, Host: "s/h", Reason: "UPDATED"}}})
	require.Equal(t, []string{"a/2", "stops", "s/h", "0", "UPDATED"}, strings.Fields(out.String())[5:])
	out.Reset()
	planTable(&out, &sluicev1.PlanJobsResponse{Waiting: []*sluicev1.PlannedTask{{Job: "a", Reason: "NO_HOST_FITS"}}})
	require.Contains(t, out.String(), "NO_HOST_FITS", "an older server says no more")
}

// What others have written stays on the line that it belongs to.
func TestNothingLooksLikeAnotherLine(t *testing.T) {
	var out strings.Builder
	hostProperties(&out, &sluicev1.Host{Notes: []string{"a\nstate: up"}})
	jobGraph{"j": {Name: "j", Message: "b\nj  succeeded", Spec: &sluicev1.JobSpec{}}}.tree(&out)
	require.NoError(t, writeDiff(&out, []words.Difference{{Field: "task.processes[0].shell", From: "c\n- pool: root/a", To: "d\n+ pool: root/b"}}))
	for _, text := range []string{`note: a\nstate: up`, `: b\nj  succeeded`, "\n~ task.processes[0].shell:\n    - c\n    - - pool: root/a\n    + d\n    + + pool: root/b\n"} {
		require.Contains(t, out.String(), text)
	}
}

// Of texts of several lines the lines that differ are shown, each on a line of its own.
func TestDifferencesOfTexts(t *testing.T) {
	var out strings.Builder
	require.NoError(t, writeDiff(&out, []words.Difference{
		{Field: "task.processes[0].shell", From: "cd x\nserve --port 1\nrm y\x1b\n", To: "cd x\nserve --port 2\nwait\nrm y\x1b\n"},
		{Field: "task.processes[1].shell", From: "", To: "a\nb"},
		{Field: "task.processes[2].shell", From: "", To: "a\nb\n"},
		{Field: "task.processes[3].shell", From: "a\n\nb", To: ""},
		{Field: "task.processes[4].shell", From: "a\nb\n", To: ""},
		{Field: "priority", From: "1", To: "2"},
		{Field: "owner", From: "", To: "ann"},
		{Field: "pool", From: "root/a", To: ""},
	}))
	require.Equal(t, `~ task.processes[0].shell:
    - serve --port 1
    + serve --port 2
    + wait
+ task.processes[1].shell:
    + a
    + b
+ task.processes[2].shell:
    + a
    + b
- task.processes[3].shell:
    - a
    - `+`
    - b
- task.processes[4].shell:
    - a
    - b
~ priority: 1 -> 2
+ owner: ann
- pool: root/a
`, out.String())
}

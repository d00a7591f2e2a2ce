package verify_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// What is wrong with what revocable tasks get and lose is found. On a full host of 4 three of the 4 are not used; two revocable
// tasks run there and one waits.
func TestBrokenLoansAreFound(t *testing.T) {
	start := func(host cluster.HostID) *cycle.Output {
		return &cycle.Output{Placements: []cycle.Placement{{Task: cluster.MakeTaskKey(3, 2), Run: 1, Host: host}}}
	}
	recall := func(tasks ...uint32) *cycle.Output {
		out := &cycle.Output{}
		for _, i := range tasks {
			out.Displacements = append(out.Displacements, cycle.Displacement{Victims: []cycle.Victim{{Task: cluster.MakeTaskKey(3, i), Run: 1}}})
		}
		return out
	}
	tests := []struct {
		name  string
		slack int64
		plan  *cycle.Output
		want  string
	}{
		{"one more fits", 3, start("s/h0"), ""},
		{"nobody has to leave", 2, &cycle.Output{}, ""},
		{"one has to leave", 1, recall(0), ""},
		{"one too many starts", 2, start("s/h0"), "revocable tasks have 3 of cpu_milli and 2"},
		{"one starts where nothing is measured", 3, start("s/h1"), "0 was measured"},
		{"nobody leaves", 1, &cycle.Output{}, "and stay"},
		{"too few leave", 0, recall(1), "and stay"},
		{"one leaves who could stay", 2, recall(0), "others do not use"},
		{"two leave and one could stay", 1, recall(0, 1), "others do not use"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: &cluster.JobSpec{
				Name: "r", Pool: "root/b", Instances: 3, Revocable: true, Task: cluster.TaskSpec{Resources: cpu(1)},
			}}}})
			s.emit(&cluster.SlackMeasured{Host: "s/h0", Slack: cpu(3)})
			for i := range uint32(2) {
				s.emit(&cluster.Placed{Task: cluster.MakeTaskKey(3, i), Run: 1, Host: "s/h0"})
				s.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(3, i), Run: 1, State: cluster.TaskRunning})
			}
			s.emit(&cluster.SlackMeasured{Host: "s/h0", Slack: cpu(test.slack)})
			wrong := s.verify(test.plan)
			if test.want == "" {
				require.Empty(t, wrong)
			} else {
				require.Contains(t, fmt.Sprint(wrong), test.want)
			}
		})
	}
}

// While nothing is killed revocable tasks stay, whatever others use, and that is no fault of the plan.
func TestRevocableTasksStayWhileKillingIsStopped(t *testing.T) {
	s := newStage(t)
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: &cluster.JobSpec{
		Name: "r", Pool: "root/b", Instances: 1, Revocable: true, Task: cluster.TaskSpec{Resources: cpu(1)},
	}}}})
	s.emit(&cluster.SlackMeasured{Host: "s/h0", Slack: cpu(1)})
	s.emit(&cluster.Placed{Task: cluster.MakeTaskKey(3, 0), Run: 1, Host: "s/h0"})
	s.emit(&cluster.SlackMeasured{Host: "s/h0"})
	require.Contains(t, fmt.Sprint(s.verify(&cycle.Output{})), "and stay")
	s.emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
	require.Empty(t, s.verify(&cycle.Output{}))
}

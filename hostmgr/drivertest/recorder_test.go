package drivertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// TestRecorder: the recorder accepts a life as it should be, and notes each way in which it should not.
func TestRecorder(t *testing.T) {
	at := func(s cluster.TaskState, time cluster.Time, change func(*hostmgr.Status)) hostmgr.Status {
		status := hostmgr.Status{Host: "h0", State: s, ExitCode: -1, At: time}
		if change != nil {
			change(&status)
		}
		return status
	}
	failed := func(s *hostmgr.Status) { s.ExitCode, s.Reason = 3, cluster.ReasonExited }
	cases := []struct {
		name     string
		statuses []hostmgr.Status
		says     string // "" = nothing is wrong
	}{
		{"a life", []hostmgr.Status{at(cluster.TaskLaunching, 1, nil), at(cluster.TaskRunning, 2, nil), at(cluster.TaskFailed, 2, failed)}, ""},
		{"backwards", []hostmgr.Status{at(cluster.TaskRunning, 1, nil), at(cluster.TaskLaunching, 2, nil)}, "came"},
		{"earlier", []hostmgr.Status{at(cluster.TaskLaunching, 2, nil), at(cluster.TaskRunning, 1, nil)}, "came"},
		{"after the end", []hostmgr.Status{at(cluster.TaskFailed, 1, failed), at(cluster.TaskRunning, 2, nil)}, "came"},
		{"twice", []hostmgr.Status{at(cluster.TaskFailed, 1, failed), at(cluster.TaskFailed, 1, failed)}, "came"},
		{"moved", []hostmgr.Status{at(cluster.TaskLaunching, 1, nil), at(cluster.TaskRunning, 2, func(s *hostmgr.Status) { s.Host = "h1" })}, "came"},
		{"not for drivers", []hostmgr.Status{at(cluster.TaskKilling, 1, nil)}, "does not report this state"},
		{"no time", []hostmgr.Status{at(cluster.TaskRunning, 0, nil)}, "no time"},
		{"no host", []hostmgr.Status{at(cluster.TaskRunning, 1, func(s *hostmgr.Status) { s.Host = "" })}, "no host"},
		{"code and signal", []hostmgr.Status{at(cluster.TaskFailed, 1, func(s *hostmgr.Status) { s.ExitCode, s.Signal = 3, 9 })}, "make no sense"},
		{"early code", []hostmgr.Status{at(cluster.TaskRunning, 1, func(s *hostmgr.Status) { s.ExitCode = 0 })}, "before the end"},
		{"success with code", []hostmgr.Status{at(cluster.TaskSucceeded, 1, func(s *hostmgr.Status) { s.ExitCode = 3 })}, "success without"},
		{"failure without reason", []hostmgr.Status{at(cluster.TaskFailed, 1, nil)}, "failure without"},
		{"loss without reason", []hostmgr.Status{at(cluster.TaskLost, 1, nil)}, "a loss"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := drivertest.NewRecorder()
			for _, s := range c.statuses {
				r.ReportStatus(s)
			}
			require.Equal(t, c.statuses, r.Statuses(cluster.RunID{}))
			if c.says == "" {
				require.Empty(t, r.Violations())
			} else {
				require.Len(t, r.Violations(), 1)
				require.Contains(t, r.Violations()[0], c.says)
			}
		})
	}
}

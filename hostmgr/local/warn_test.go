//go:build linux

package local

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

var _ hostmgr.Warner = (*driver)(nil)

// heeds is a task that ends when it is asked to, and says so.
const heeds = `trap 'echo asked >> log; exit 3' TERM; echo ready; while :; do sleep 0.01; done`

func TestACommandRunsBeforeATaskIsAskedToEnd(t *testing.T) {
	tests := []struct {
		name, task string
		grace      time.Duration
		command    []string
		log        []string
		signal     int32
	}{
		{"it ends by itself", heeds, time.Minute, []string{"sh", "-c", `echo "save $SLUICE_STOP_REASON $SLUICE_INSTANCE" >> log`}, []string{"save PREEMPTED 0", "asked"}, 0},
		{"it fails", heeds, time.Minute, []string{"sh", "-c", "echo tried >> log; exit 1"}, []string{"tried", "asked"}, 0},
		{"there is no such program", heeds, time.Minute, []string{"no-such-program"}, []string{"asked"}, 0},
		{"it takes too long", heeds, 300 * time.Millisecond, []string{"sh", "-c", "echo began >> log; sleep 1000"}, []string{"began"}, 9},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil)
			id := f.shell(0, test.task, nil)
			f.says(id, "ready\n")
			require.NoError(t, f.KillAfter(t.Context(), id, test.grace, test.command, "PREEMPTED"))
			s := f.ended(id)
			require.Equal(t, cluster.TaskKilled, s.State)
			require.Equal(t, test.signal, s.Signal)
			log := filepath.Join(f.known(id).dir, workFolder, "log")
			for _, line := range test.log {
				require.Equal(t, 1, countLines(t, log, line), line)
			}
			if test.signal != 0 {
				require.Zero(t, countLines(t, log, "asked"))
			}
		})
	}
}

// Who asks for the end later without a command does not wait for the first one, whatever the grace.
func TestAKillDoesNotWaitForTheCommand(t *testing.T) {
	for _, grace := range []time.Duration{time.Minute, time.Hour, 2 * time.Hour} {
		f := newFixture(t, nil)
		id := f.shell(0, heeds, nil)
		f.says(id, "ready\n")
		require.NoError(t, f.KillAfter(t.Context(), id, time.Hour, []string{"sleep", "1000"}, "PREEMPTED"))
		require.NoError(t, f.Kill(t.Context(), id, grace))
		s := f.ended(id)
		require.Equal(t, cluster.TaskKilled, s.State)
		require.EqualValues(t, 3, s.ExitCode)
	}
}

//go:build linux

package local

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// commands are the suite's behaviors as shell scripts. Each appends its run to the file $STARTS first.
var commands = map[drivertest.Behavior]string{
	drivertest.Succeed:  `exit 0`,
	drivertest.Fail:     `exit 3`,
	drivertest.Crash:    `kill -KILL $$`,
	drivertest.Serve:    `echo ready; exec sleep 1000`,
	drivertest.Stubborn: `trap '' TERM; echo ready; while :; do sleep 1000; done`,
	drivertest.Print:    `printf '0123456789\nabcdef\n'; echo an error >&2`,
}

// script returns the argv of a shell script that first notes its start in a file.
func script(starts, text string) []string {
	return []string{"sh", "-c", `echo "$SLUICE_RUN_ID" >> '` + starts + `'; ` + text}
}

func TestConformance(t *testing.T) {
	drivertest.Test(t, func(t *testing.T) drivertest.Harness {
		dir := t.TempDir()
		t.Cleanup(func() { nothingRuns(t, filepath.Join(dir, "state")) })
		starts := filepath.Join(dir, "starts")
		return drivertest.Harness{
			Open: func(t *testing.T) hostmgr.Driver {
				return newDriver(t, Config{Dir: filepath.Join(dir, "state"), Hosts: 3, Racks: 2})
			},
			Command: func(b drivertest.Behavior) []string {
				if b == drivertest.Missing {
					return []string{"no-such-program"}
				}
				return script(starts, commands[b])
			},
			Starts:  func(run cluster.RunID) int { return countLines(t, starts, run.String()) },
			Logs:    true,
			Durable: true,
		}
	})
}

func newDriver(t *testing.T, c Config) *driver {
	t.Helper()
	d, err := New(c)
	require.NoError(t, err)
	return d.(*driver)
}

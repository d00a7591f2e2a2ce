package mesos

import (
	"testing"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

var commands = map[drivertest.Behavior]string{
	drivertest.Succeed: "succeed", drivertest.Fail: "fail", drivertest.Crash: "crash", drivertest.Missing: "missing",
	drivertest.Serve: "serve", drivertest.Stubborn: "stubborn", drivertest.Print: "succeed",
}

// TestConformance holds the driver to the contract, on agents that honour the kill policy of a call; others do not, and
// there a run gets the grace that its task asked for.
func TestConformance(t *testing.T) {
	drivertest.Test(t, func(t *testing.T) drivertest.Harness {
		w := newWorld(t, mesostest.Config{KillPolicyOverrides: true}, 3)
		return drivertest.Harness{
			Open:    func(t *testing.T) hostmgr.Driver { return newSettled(newDriver(t, w.config())) },
			Command: func(b drivertest.Behavior) []string { return []string{commands[b]} },
			Starts:  func(run cluster.RunID) int { return w.starts(run) },
			Durable: true,
		}
	})
}

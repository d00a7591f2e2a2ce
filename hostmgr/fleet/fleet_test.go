package fleet_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

const start = cluster.Time(1_000_000_000)

// hosts returns n hosts, four to a rack.
func hosts(n int) []hostmgr.Host {
	out := make([]hostmgr.Host, n)
	for i := range out {
		out[i] = hostmgr.Host{Name: fmt.Sprint("h", i), Machine: cluster.Machine{
			Rack: fmt.Sprint("r", i/4), Zone: "z",
			Capacity: cluster.NewResources([cluster.NumDimensions]int64{8000, 16 << 30, 0, 0}),
		}}
	}
	return out
}

// pump lets the clock tick on until the test ends.
func pump(t *testing.T, clock *fleet.VirtualClock) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
				clock.Advance(time.Millisecond)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func TestConformance(t *testing.T) {
	plans := map[string]fleet.Plan{
		fmt.Sprint(drivertest.Succeed):  {},
		fmt.Sprint(drivertest.Fail):     {ExitCode: 3},
		fmt.Sprint(drivertest.Crash):    {Signal: 9},
		fmt.Sprint(drivertest.Missing):  {Fails: "no such program"},
		fmt.Sprint(drivertest.Serve):    {Duration: fleet.Forever, Stdout: drivertest.Ready},
		fmt.Sprint(drivertest.Stubborn): {Duration: fleet.Forever, Stop: fleet.Forever, Stdout: drivertest.Ready},
		fmt.Sprint(drivertest.Print):    {Stdout: drivertest.Output, Stderr: drivertest.Errors},
	}
	for name, delay := range map[string]time.Duration{"at once": 0, "slow": 3 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			drivertest.Test(t, func(t *testing.T) drivertest.Harness {
				clock := fleet.NewVirtualClock(start)
				pump(t, clock) // the suite reads logs to their end without waiting in between
				var mu sync.Mutex
				starts := map[cluster.RunID]int{}
				world, err := fleet.New(fleet.Config{
					Hosts: hosts(5), Clock: clock,
					Plan: func(l hostmgr.Launch) fleet.Plan {
						p := plans[l.Task.Processes[0].Command[0]]
						p.Launch, p.Startup = delay, delay
						return p
					},
					OnStart: func(l hostmgr.Launch) {
						mu.Lock()
						defer mu.Unlock()
						starts[l.Run]++
					},
					UsageInterval: 5 * time.Millisecond,
					Faults:        fleet.Faults{Seed: 1, StatusDelay: delay},
				})
				require.NoError(t, err)
				return drivertest.Harness{
					Open:    func(*testing.T) hostmgr.Driver { return world.Open() },
					Command: func(b drivertest.Behavior) []string { return []string{fmt.Sprint(b)} },
					Starts: func(run cluster.RunID) int {
						mu.Lock()
						defer mu.Unlock()
						return starts[run]
					},
					Logs:    true,
					Durable: true,
				}
			})
		})
	}
}

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// transcript is a sink that writes down what it is told and when.
type transcript struct {
	clock fleet.Clock
	lines []string
	hosts []string
}

func (w *transcript) note(format string, args ...any) {
	at := w.clock.Now().Sub(start)
	w.lines = append(w.lines, fmt.Sprintf("%v ", at)+fmt.Sprintf(format, args...))
}

func (w *transcript) ReportHosts(hosts []hostmgr.Host) {
	w.hosts = nil
	for _, h := range hosts {
		w.hosts = append(w.hosts, h.Name)
	}
	w.note("hosts %s", strings.Join(w.hosts, " "))
}

func (w *transcript) ReportStatus(s hostmgr.Status) {
	line := fmt.Sprintf("%v on %s %v", s.Run, s.Host, s.State)
	if s.State.Terminal() {
		line += fmt.Sprintf(" %d/%d %s", s.ExitCode, s.Signal, s.Reason)
	}
	w.note("%s", line)
}

func (w *transcript) ReportHealth(h hostmgr.Health) { w.note("health %v %v", h.Run, h.Health) }

func (w *transcript) ReportUsage(usage []hostmgr.Usage) {
	for _, u := range usage {
		w.note("%v uses %d %d", u.Run, u.Used.Fixed[cluster.CPU], u.Used.Fixed[cluster.Memory])
	}
}

// world is a fleet with a driver and what was told of it.
type world struct {
	*testing.T
	*fleet.Fleet
	*transcript
	clock  *fleet.VirtualClock
	driver hostmgr.Driver
	starts map[cluster.RunID]int
}

// newWorld makes eight hosts in two racks. Runs last as many seconds as their command says.
func newWorld(t *testing.T, faults fleet.Faults, options ...func(*fleet.Config)) *world {
	clock := fleet.NewVirtualClock(start)
	w := &world{T: t, clock: clock, starts: map[cluster.RunID]int{}}
	config := fleet.Config{
		Hosts: hosts(8), Clock: clock, Faults: faults,
		Plan: func(l hostmgr.Launch) fleet.Plan {
			seconds, err := time.ParseDuration(l.Task.Processes[0].Command[0])
			require.NoError(t, err)
			return fleet.Plan{Launch: time.Second, Startup: time.Second, Duration: seconds, Stop: 2 * time.Second}
		},
		OnStart: func(l hostmgr.Launch) { w.starts[l.Run]++ },
	}
	for _, o := range options {
		o(&config)
	}
	f, err := fleet.New(config)
	require.NoError(t, err)
	w.Fleet = f
	w.open()
	return w
}

func (w *world) open() {
	w.driver, w.transcript = w.Open(), &transcript{clock: w.clock}
	require.NoError(w, w.driver.Start(w.Context(), w.transcript))
}

func run(n int) cluster.RunID { return cluster.RunID{Task: cluster.MakeTaskKey(1, uint32(n)), Run: 1} }

func (w *world) launch(n int, host, lasts string) error {
	return w.driver.Launch(w.Context(), hostmgr.Launch{
		Run: run(n), Host: host, Task: cluster.TaskSpec{
			Processes: []cluster.Process{{Command: []string{lasts}}},
			Resources: cluster.NewResources([cluster.NumDimensions]int64{500, 1 << 20, 0, 0}),
		},
	})
}

func (w *world) lives(want ...string) {
	w.Helper()
	require.Equal(w, want, w.lines)
}

func TestLife(t *testing.T) {
	w := newWorld(t, fleet.Faults{}, func(c *fleet.Config) { c.UsageInterval = 4 * time.Second })
	require.NoError(t, w.launch(0, "h1", "5s"))
	w.clock.Advance(10 * time.Second)
	w.lives(
		"0s hosts h0 h1 h2 h3 h4 h5 h6 h7",
		"0s 1.0.1 on h1 LAUNCHING",
		"1s 1.0.1 on h1 STARTING",
		"2s 1.0.1 on h1 RUNNING",
		"4s 1.0.1 uses 500 1048576",
		"7s 1.0.1 on h1 SUCCEEDED 0/0 EXITED",
	)
	require.Equal(t, 1, w.starts[run(0)])
}

// TestHealth: what checks find is told while the host is seen, or when it is seen again, and one that is not alive ends.
func TestHealth(t *testing.T) {
	w := newWorld(t, fleet.Faults{}, func(c *fleet.Config) {
		plan := c.Plan
		c.Plan = func(l hostmgr.Launch) fleet.Plan {
			p := plan(l)
			p.Findings = []fleet.Finding{{2 * time.Second, cluster.HealthReady}, {4 * time.Second, cluster.HealthUnready}, {8 * time.Second, cluster.Unhealthy}}
			return p
		}
	})
	require.NoError(t, w.launch(0, "h1", "1h"))
	w.clock.Advance(5 * time.Second)
	require.NoError(t, w.CutOff("h1"))
	w.clock.Advance(2 * time.Second)
	w.lines = nil
	require.NoError(t, w.Heal("h1"))
	w.clock.Advance(10 * time.Second)
	w.lives(
		"7s health 1.0.1 UNREADY",
		"7s hosts h0 h1 h2 h3 h4 h5 h6 h7",
		"10s health 1.0.1 UNHEALTHY",
		"10s 1.0.1 on h1 FAILED -1/9 UNHEALTHY",
	)
}

func TestKill(t *testing.T) {
	w := newWorld(t, fleet.Faults{})
	for n := range 5 {
		require.NoError(t, w.launch(n, "h0", "1h"))
	}
	kill := func(n int, grace time.Duration) { require.NoError(t, w.driver.Kill(t.Context(), run(n), grace)) }
	kill(0, time.Minute) // before it starts
	w.clock.Advance(10 * time.Second)
	w.lines = nil
	kill(1, time.Minute)     // falls to SIGTERM after 2 s
	kill(2, time.Second)     // which is too slow for this grace
	kill(3, 0)               // which is none
	kill(4, math.MaxInt64)   // falls to SIGTERM too
	kill(4, -1*time.Second)  // no grace after all
	kill(4, 100*time.Second) // which nothing lengthens
	w.clock.Advance(time.Hour)
	w.lives(
		"10s 1.3.1 on h0 KILLED -1/9 ",
		"10s 1.4.1 on h0 KILLED -1/9 ",
		"11s 1.2.1 on h0 KILLED -1/9 ",
		"12s 1.1.1 on h0 KILLED -1/15 ",
	)
	require.Zero(t, w.starts[run(0)])
}

// begun is a clock whose functions cannot be taken back: all have begun, and wait for the fleet's lock.
type begun struct{ *fleet.VirtualClock }

func (c begun) AfterFunc(d time.Duration, fn func()) (stop func()) {
	c.VirtualClock.AfterFunc(d, fn)
	return func() {}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	w := newWorld(t, fleet.Faults{}, func(c *fleet.Config) { c.Clock = begun{c.Clock.(*fleet.VirtualClock)} })
	for n, after := range []time.Duration{0, time.Second, 5 * time.Second} {
		require.NoError(t, w.launch(n, "h0", "1m"))
		w.clock.Advance(after)
		require.NoError(t, w.driver.Kill(t.Context(), run(n), 0))
		w.clock.Advance(0)
		w.lines = nil
		w.clock.Advance(time.Hour)
		w.lives()
		require.Equal(t, n/2, w.starts[run(n)])
	}
}

func TestCrash(t *testing.T) {
	w := newWorld(t, fleet.Faults{})
	require.NoError(t, w.launch(0, "h1", "1h"))
	require.NoError(t, w.launch(1, "h2", "1h"))
	require.NoError(t, w.launch(2, "h1", "1s"))
	w.clock.Advance(time.Minute)
	w.lines = nil
	require.NoError(t, w.Crash("h1"))
	require.ErrorIs(t, w.launch(3, "h1", "1s"), hostmgr.ErrUnknownHost)
	w.clock.Advance(time.Minute)
	require.NoError(t, w.Return("h1"))
	w.clock.Advance(time.Second)
	require.NoError(t, w.launch(3, "h1", "1s"))
	w.lives(
		"1m0s 1.0.1 on h1 LOST -1/0 HOST_LOST",
		"1m0s hosts h0 h2 h3 h4 h5 h6 h7",
		"2m0s hosts h0 h1 h2 h3 h4 h5 h6 h7",
	)
	require.ErrorIs(t, w.Crash("h99"), hostmgr.ErrUnknownHost)
	require.ErrorIs(t, w.CutOffRack("r99"), hostmgr.ErrUnknownHost)
}

func TestCutOffRack(t *testing.T) {
	w := newWorld(t, fleet.Faults{}, func(c *fleet.Config) { c.UsageInterval = time.Hour })
	for n, lasts := range []string{"30s", "2h", "2h", "2h"} {
		require.NoError(t, w.launch(n, "h5", lasts))
	}
	w.clock.Advance(10 * time.Second)
	w.lines = nil
	require.NoError(t, w.CutOffRack("r1"))
	require.NoError(t, w.driver.Kill(t.Context(), run(1), time.Minute))
	require.NoError(t, w.driver.Kill(t.Context(), run(2), time.Minute))
	require.NoError(t, w.driver.Kill(t.Context(), run(2), time.Second)) // two orders: the shorter grace holds
	require.ErrorIs(t, w.launch(9, "h5", "1s"), hostmgr.ErrUnknownHost)
	w.clock.Advance(time.Hour)
	require.Equal(t, cluster.TaskRunning, w.driver.Inventory()[0].State, "nobody knows yet")
	w.lives("10s hosts h0 h1 h2 h3")
	w.lines = nil
	require.NoError(t, w.HealRack("r1"))
	require.NoError(t, w.Heal("h5")) // which it is already
	w.clock.Advance(time.Minute)
	w.lives(
		"1h0m10s 1.0.1 on h5 SUCCEEDED 0/0 EXITED",
		"1h0m10s hosts h0 h1 h2 h3 h4 h5 h6 h7",
		"1h0m10s hosts h0 h1 h2 h3 h4 h5 h6 h7",
		"1h0m11s 1.2.1 on h5 KILLED -1/9 ",
		"1h0m12s 1.1.1 on h5 KILLED -1/15 ",
	)
	require.Equal(t, start.Add(32*time.Second), w.driver.Inventory()[0].At, "when it happened, not when it became known")

	require.NoError(t, w.CutOff("h5"))
	require.NoError(t, w.Crash("h5"))
	w.lines = nil
	require.NoError(t, w.Heal("h5"))
	w.clock.Advance(time.Second)
	require.Contains(t, w.lines[len(w.lines)-1], "hosts h0 h1 h2 h3 h4 h6 h7", "found, but dead")
	require.Contains(t, strings.Join(w.lines, "\n"), "1.3.1 on h5 LOST")
}

func TestDriverIsReplaced(t *testing.T) {
	w := newWorld(t, fleet.Faults{})
	require.NoError(t, w.launch(0, "h0", "10s"))
	require.NoError(t, w.launch(1, "h0", "1h"))
	w.clock.Advance(5 * time.Second)
	require.Error(t, w.Open().Start(t.Context(), w.transcript), "one at a time")
	old := w.driver
	require.NoError(t, old.Close())
	w.clock.Advance(time.Minute) // the world goes on
	for _, err := range []error{
		w.launch(2, "h0", "1s"), old.Kill(t.Context(), run(0), 0),
		func() error { _, err := old.OpenLog(t.Context(), hostmgr.LogRequest{Run: run(0)}); return err }(),
	} {
		require.ErrorContains(t, err, "closed")
	}
	w.open()
	inventory := w.driver.Inventory()
	require.Equal(t, cluster.TaskSucceeded, inventory[0].State)
	require.Equal(t, cluster.TaskRunning, inventory[1].State)
	require.NoError(t, w.launch(1, "h0", "1h"), "is known")
	w.clock.Advance(time.Minute)
	require.Equal(t, 1, w.starts[run(1)])
}

func TestFailedLaunches(t *testing.T) {
	refusing := newWorld(t, fleet.Faults{LaunchRefused: 0.5})
	failing := newWorld(t, fleet.Faults{LaunchFails: 0.5})
	refused, failed := 0, 0
	for n := range 200 {
		err := refusing.launch(n, "h0", "1s")
		if err != nil {
			refused++
			require.Equal(t, err, refusing.launch(n, "h0", "1s"), "not now and not later")
		}
		require.NoError(t, failing.launch(n, "h0", "1s"))
	}
	refusing.clock.Advance(time.Minute)
	failing.clock.Advance(time.Minute)
	for _, s := range failing.driver.Inventory() {
		if s.State == cluster.TaskFailed {
			require.Equal(t, cluster.ReasonLaunchFailed, s.Reason)
			require.Zero(t, failing.starts[s.Run])
			failed++
		}
	}
	require.InDelta(t, 100, refused, 30)
	require.InDelta(t, 100, failed, 30)
	require.Len(t, refusing.starts, 200-refused)
}

// play lets a world with all faults go on for an hour and returns the transcript.
func play(t *testing.T, seed uint64, order func([]int)) []string {
	w := newWorld(t, fleet.Faults{
		Seed: seed, LaunchRefused: 0.05, LaunchFails: 0.05,
		StatusDelay: 20 * time.Second, StatusDuplicated: 0.1, StatusReordered: 0.1,
		HostUptime: time.Hour, HostDowntime: 5 * time.Minute, RackUptime: 2 * time.Hour, RackDowntime: time.Minute,
	})
	for minute := range 60 {
		batch := []int{10 * minute, 10*minute + 1, 10*minute + 2}
		order(batch)
		for _, n := range batch {
			_ = w.launch(n, fmt.Sprint("h", n%8), "90s") // may be refused
		}
		w.clock.Advance(time.Minute)
	}
	for _, n := range w.starts {
		require.Equal(t, 1, n)
	}
	return w.lines
}

// TestSameInputsSameWorld: the fate of a run does not depend on the order in which others are launched.
func TestSameInputsSameWorld(t *testing.T) {
	first := play(t, 1, func([]int) {})
	require.Equal(t, first, play(t, 1, func([]int) {}))
	require.NotEqual(t, first, play(t, 2, func([]int) {}))
	require.ElementsMatch(t, first, play(t, 1, slices.Reverse[[]int]))
	whole := strings.Join(first, "\n")
	for _, sign := range []string{"HOST_LOST", "LAUNCH_FAILED", "hosts h4 h5 h6 h7\n", "SUCCEEDED"} {
		require.True(t, strings.Contains(whole, sign), "nowhere in the transcript: %s", sign)
	}
	times := map[string]int{}
	for _, line := range first {
		_, what, _ := strings.Cut(line, " ")
		times[what]++
	}
	twice := 0
	for what, n := range times {
		if strings.Contains(what, "SUCCEEDED") && n == 2 {
			twice++
		}
	}
	require.Positive(t, twice, "some reports are duplicated")
}

// TestOrderOfReports: delays do not change the order of one run's reports, unless that is the fault asked for.
func TestOrderOfReports(t *testing.T) {
	for reordered, want := range map[float64]bool{0: true, 1: false} {
		w := newWorld(t, fleet.Faults{StatusDelay: time.Minute, StatusReordered: reordered})
		for n := range 50 {
			require.NoError(t, w.launch(n, "h0", "1s"))
		}
		w.clock.Advance(time.Hour)
		require.Len(t, w.lines, 1+50*4)
		inOrder := true
		last := map[string]int{}
		for _, line := range w.lines[1:] {
			words := strings.Fields(line)
			state := slices.Index([]string{"LAUNCHING", "STARTING", "RUNNING", "SUCCEEDED"}, words[4])
			inOrder = inOrder && state >= last[words[1]]
			last[words[1]] = state
		}
		require.Equal(t, want, inOrder)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := fleet.New(fleet.Config{
		Hosts: append(hosts(2), hosts(1)...),
		Faults: fleet.Faults{
			LaunchRefused: 1.5, LaunchFails: -1, StatusDuplicated: math.NaN(), StatusDelay: -1, HostUptime: time.Hour,
		},
		Interference: fleet.Interference{{Work: "sort", Beside: "scan"}: -1},
	})
	for _, text := range []string{
		"a clock and a plan", `host name "h0"`, "LaunchRefused is 1.5", "LaunchFails is -1", "StatusDuplicated is NaN",
		"a time below zero", "a time after which it is back", `"sort" beside "scan" takes -1`,
	} {
		require.ErrorContains(t, err, text)
	}
}

func TestVirtualClock(t *testing.T) {
	c := fleet.NewVirtualClock(start)
	_, any := c.Next()
	require.False(t, any)
	var got []string
	note := func(s string) func() {
		return func() { got = append(got, fmt.Sprint(c.Now().Sub(start), " ", s)) }
	}
	c.AfterFunc(2*time.Second, note("second"))
	c.AfterFunc(time.Second, func() {
		note("first")()
		c.AfterFunc(-time.Second, note("at once"))
		c.AfterFunc(time.Second, note("third, made later than the second"))
	})
	stop := c.AfterFunc(2*time.Second, note("never"))
	c.AfterFunc(10*time.Second, note("not yet"))
	far := c.AfterFunc(math.MaxInt64, note("beyond all time"))
	far()
	next, any := c.Next()
	require.True(t, any)
	require.Equal(t, start.Add(time.Second), next)
	stop()
	c.Advance(5 * time.Second)
	stop()
	require.Equal(t, []string{"1s first", "1s at once", "2s second", "2s third, made later than the second"}, got)
	require.Equal(t, start.Add(5*time.Second), c.Now())
}

// Example lets one run live and prints what the driver tells of it.
func Example() {
	clock := fleet.NewVirtualClock(start)
	world, err := fleet.New(fleet.Config{
		Hosts: hosts(1), Clock: clock,
		Plan: func(l hostmgr.Launch) fleet.Plan {
			return fleet.Plan{Launch: time.Second, Duration: time.Minute, ExitCode: 7, Stdout: "what " + l.Task.Processes[0].Command[0] + " says\n"}
		},
	})
	told := &transcript{clock: clock}
	driver := world.Open()
	err = errors.Join(err, driver.Start(context.Background(), told))
	err = errors.Join(err, driver.Launch(context.Background(), hostmgr.Launch{Run: run(0), Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"work"}}}}}))
	clock.Advance(time.Hour)
	log, _ := driver.OpenLog(context.Background(), hostmgr.LogRequest{Run: run(0)})
	output, _ := io.ReadAll(log)
	fmt.Println(strings.Join(told.lines, "\n"))
	fmt.Print(string(output))
	fmt.Println(err, log.Close(), driver.Close())
	// Output:
	// 0s hosts h0
	// 0s 1.0.1 on h0 LAUNCHING
	// 1s 1.0.1 on h0 RUNNING
	// 1m1s 1.0.1 on h0 FAILED 7/0 EXITED
	// what work says
	// <nil> <nil> <nil>
}

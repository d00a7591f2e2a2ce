// Package drivertest holds every [hostmgr.Driver] to the contract: the same cases run against real processes, against
// a simulated fleet, and against whatever comes later.
//
// A driver's own test calls [Test] with a function that makes a fresh [Harness] for each case:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Test(t, func(t *testing.T) drivertest.Harness { ... })
//	}
//
// The suite waits for reports, never for a span of time, so it holds under any load and on a virtual clock.
package drivertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Behavior is what a test run does. The harness turns it into the command that its driver understands.
type Behavior int

// The behaviors.
const (
	// Succeed exits with code 0 at once.
	Succeed Behavior = iota
	// Fail exits with code 3 at once.
	Fail
	// Crash ends at once by SIGKILL, which nobody but the run itself has sent.
	Crash
	// Missing names a program that does not exist.
	Missing
	// Serve writes Ready and then runs until SIGTERM, which ends it.
	Serve
	// Stubborn ignores SIGTERM, writes Ready, and then runs until SIGKILL.
	Stubborn
	// Print writes Output to stdout and Errors to stderr and exits with code 0.
	Print
)

// What the behaviors write.
const (
	Ready  = "ready\n"
	Output = "0123456789\nabcdef\n"
	Errors = "an error\n"
)

// Harness gives the suite one driver over one durable state.
type Harness struct {
	// Open returns a driver that is not started. Drivers opened by one harness share its durable state; the suite
	// closes one before it opens the next.
	Open func(t *testing.T) hostmgr.Driver
	// Command returns the argv of a behavior.
	Command func(b Behavior) []string
	// Starts returns how many times the run's process has truly been started, by all drivers of the harness together.
	Starts func(run cluster.RunID) int
	// Wait lets a little time pass; the suite calls it between two looks. Nil sleeps for a few milliseconds.
	Wait func()
	// Logs says that the driver keeps the output of runs. Without it OpenLog is tested for its refusals only.
	Logs bool
	// Durable says that runs and what is known of them survive the driver: a driver opened later adopts them.
	Durable bool
}

// Test runs the whole suite. Each case gets a harness of its own.
func Test(t *testing.T, newHarness func(t *testing.T) Harness) {
	cases := []struct {
		name string
		run  func(s *suite)
	}{
		{"hosts", (*suite).hosts},
		{"outcomes", (*suite).outcomes},
		{"launch again", (*suite).launchAgain},
		{"launch refused", (*suite).launchRefused},
		{"launch many", (*suite).launchMany},
		{"unknown run", (*suite).unknownRun},
		{"kill", (*suite).kill},
		{"kill escalates", (*suite).killEscalates},
		{"kill sooner", (*suite).killSooner},
		{"kill at once", (*suite).killAtOnce},
		{"kill after the end", (*suite).killAfterTheEnd},
		{"inventory and release", (*suite).inventoryAndRelease},
		{"logs", (*suite).logs},
		{"logs followed", (*suite).logsFollowed},
		{"closed", (*suite).closed},
		{"restart", (*suite).restart},
		{"random", (*suite).random},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, Harness: newHarness(t), sink: NewRecorder()}
			s.open()
			c.run(s)
			s.finish()
		})
	}
}

// patience bounds every wait. It only ever passes in a test that fails.
const patience = time.Minute

// suite is one case in progress.
type suite struct {
	*testing.T
	Harness
	driver   hostmgr.Driver
	sink     *Recorder
	launched []cluster.RunID // that were accepted
}

// open opens the next driver, starts it, and acknowledges what it knows, as a scheduler does.
func (s *suite) open() {
	s.Helper()
	s.driver = s.Open(s.T)
	require.NoError(s, s.driver.Start(s.Context(), s.sink))
	require.NotEmpty(s, s.sink.Hosts(), "Start returned before the first ReportHosts")
	if d, ok := s.driver.(hostmgr.Acknowledger); ok {
		for _, st := range s.driver.Inventory() {
			d.Durable(st)
		}
	}
}

// reopen closes the driver and opens the next one over the same state.
func (s *suite) reopen() {
	s.Helper()
	require.NoError(s, s.driver.Close())
	s.sink.Forget()
	s.open()
}

// finish ends what still runs and checks what must hold after every case.
func (s *suite) finish() {
	s.Helper()
	for _, st := range s.driver.Inventory() {
		require.NoError(s, s.driver.Kill(s.Context(), st.Run, 0))
		s.ended(st.Run)
	}
	require.NoError(s, s.driver.Close())
	require.Empty(s, s.sink.Violations())
	for _, run := range s.launched {
		require.LessOrEqual(s, s.Starts(run), 1, "run %v started more than once", run)
	}
}

// wait looks at cond until it holds.
func (s *suite) wait(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !cond(); {
		require.True(s, time.Now().Before(end), "waited in vain: %s", what)
		if s.Wait != nil {
			s.Wait()
		} else {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// run returns the id of the n-th test run.
func run(n int) cluster.RunID {
	return cluster.RunID{Task: cluster.MakeTaskKey(1, uint32(n)), Run: 1}
}

// payload returns a launch of a behavior on one of the driver's hosts, chosen by the run's instance.
func (s *suite) payload(r cluster.RunID, b Behavior) hostmgr.Launch {
	hosts := s.sink.Hosts()
	return hostmgr.Launch{
		Run:  r,
		Job:  "conformance",
		Host: hosts[int(r.Task.Instance())%len(hosts)].Name,
		Task: cluster.TaskSpec{
			Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 10, cluster.Memory: 16 << 20}},
			Processes: []cluster.Process{{Command: s.Command(b)}},
		},
		Env: []cluster.KeyValue{{Key: "CONFORMANCE", Value: "1"}},
	}
}

// launch launches the n-th run with a behavior.
func (s *suite) launch(n int, b Behavior) cluster.RunID {
	s.Helper()
	r := run(n)
	require.NoError(s, s.driver.Launch(s.Context(), s.payload(r, b)))
	s.launched = append(s.launched, r)
	return r
}

// status returns what the inventory says of a run.
func (s *suite) status(r cluster.RunID) (hostmgr.Status, bool) {
	for _, st := range s.driver.Inventory() {
		if st.Run == r {
			return st, true
		}
	}
	return hostmgr.Status{}, false
}

// runs waits until the inventory shows that the run runs.
func (s *suite) runs(r cluster.RunID) {
	s.Helper()
	s.wait(r.String()+" runs", func() bool {
		st, ok := s.status(r)
		require.True(s, ok, "run %v is not in the inventory", r)
		require.False(s, st.State.Terminal(), "run %v: %+v", r, st)
		return st.State == cluster.TaskRunning
	})
}

// ended waits for the end of a run and returns its status.
func (s *suite) ended(r cluster.RunID) (final hostmgr.Status) {
	s.Helper()
	s.wait(r.String()+" ends", func() bool {
		st, ok := s.status(r)
		require.True(s, ok, "run %v is not in the inventory", r)
		final = st
		return st.State.Terminal()
	})
	return final
}

// ready waits until a Serve or Stubborn run has its signal handlers in place, as far as that can be seen.
func (s *suite) ready(r cluster.RunID) {
	s.Helper()
	s.runs(r)
	if s.Logs {
		s.wait(r.String()+" is ready", func() bool { return s.read(r, hostmgr.Stdout, 0) == Ready })
	}
}

var _ require.TestingT = (*suite)(nil)

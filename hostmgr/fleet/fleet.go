// Package fleet is a host-manager driver for hosts that exist in memory only: for the simulator, for tests, and to see
// a scheduler handle a cluster that one does not have.
//
// A [Fleet] is the world: hosts and the runs on them, whose lives a callback scripts. Drivers are opened on it, one at a
// time; when one is closed the world goes on, as it does when a host manager crashes. Time comes from a [Clock], and
// nothing happens but on its ticks. Chances are drawn from the seed, the run and what they are about, not from a
// stream, so a world meets the same fate in whatever order it is asked: the same inputs give the same world.
//
// Faults come scripted, by calls such as [Fleet.Crash] from functions that the clock runs, and seeded, by [Faults].
package fleet

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Forever is the duration of a run that ends only when it is killed.
const Forever time.Duration = math.MaxInt64

// Plan is what becomes of a run.
type Plan struct {
	// Fails is why the run cannot be started; "" if it can.
	Fails string
	// Launch and Startup are how long the run is LAUNCHING and then STARTING. A Startup of 0 leaves that state out.
	Launch, Startup time.Duration
	// Duration is how long it runs alone if nobody ends it; Forever is possible.
	Duration time.Duration
	// Work names what it does, for Config.Interference.
	Work string
	// ExitCode and Signal are how it ends by itself. A Signal other than 0 goes before ExitCode.
	ExitCode, Signal int32
	// Stop is how long it takes to end after SIGTERM; Forever ignores it.
	Stop time.Duration
	// Findings are what its checks find out, in order, as far as it runs so long. One that is not alive ends.
	Findings []Finding
	// Usage tells what it uses when it has run for so long, and works at that part of the pace that it has alone; nil is all that
	// it asked for.
	Usage func(elapsed time.Duration, pace float64) cluster.Resources
	// Stdout and Stderr are written when it starts to run.
	Stdout, Stderr string
}

// Finding is what the checks of a run say when it has run for so long.
type Finding struct {
	After  time.Duration
	Health cluster.Health
}

// Config describes a world.
type Config struct {
	Hosts []hostmgr.Host // in the order in which they are reported
	Clock Clock
	// Plan scripts a run when it is launched. It is called with the fleet's lock held and must not call the fleet.
	Plan func(hostmgr.Launch) Plan
	// OnStart is called whenever a run's process starts, in the same way; nil for nothing.
	OnStart func(hostmgr.Launch)
	// UsageInterval is the time between two reports of usage; 0 makes none.
	UsageInterval time.Duration
	Interference  Interference
	Faults        Faults
}

// Fleet is a world. Its methods may be called from any goroutine, also by a sink or a function that the clock runs.
type Fleet struct {
	config Config
	clock  Clock

	mu     sync.Mutex
	hosts  []*host // as configured
	byName map[string]*host
	runs   map[cluster.RunID]*run
	driver *driver // that is open, nil if none is
}

// New checks the configuration and makes the world. Seeded faults of hosts begin at once.
func New(c Config) (*Fleet, error) {
	var problems []error
	if c.Clock == nil || c.Plan == nil {
		problems = append(problems, errors.New("fleet: a clock and a plan are needed"))
	}
	f := &Fleet{config: c, clock: c.Clock, byName: map[string]*host{}, runs: map[cluster.RunID]*run{}}
	for _, h := range c.Hosts {
		if h.Name == "" || f.byName[h.Name] != nil {
			problems = append(problems, fmt.Errorf("fleet: host name %q is empty or not unique", h.Name))
		}
		added := &host{Host: h}
		f.hosts, f.byName[h.Name] = append(f.hosts, added), added
	}
	problems = append(problems, c.Faults.validate(), c.Interference.validate())
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	f.beginFaults()
	return f, nil
}

// Open returns a driver on the world. The one opened before must have been closed.
func (f *Fleet) Open() hostmgr.Driver { return &driver{f: f} }

// after has the clock run fn with the lock held.
func (f *Fleet) after(d time.Duration, fn func()) (stop func()) {
	return f.clock.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		fn()
	})
}

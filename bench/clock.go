package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Clocks by which a run is timed.
const (
	// Wall is the time that a scheduler would wait.
	Wall = "wall"
	// CPU is the processor time of the whole process, garbage collection and
	// every thread included: steadier where other programs are running, and the
	// same as wall time for a solver of one thread on a quiet machine.
	CPU = "cpu"
)

// clock returns a time since some beginning.
type clock func() time.Duration

// NewClock returns the clock of that name, Wall or CPU, which tells the time since some beginning.
func NewClock(name string) (func() time.Duration, error) { return newClock(name) }

func newClock(name string) (clock, error) {
	switch name {
	case Wall:
		begin := time.Now()
		return func() time.Duration { return time.Since(begin) }, nil
	case CPU:
		return cpuTime, nil
	}
	return nil, fmt.Errorf("bench: clock: %q is neither %s nor %s", name, Wall, CPU)
}

func cpuTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func usage() unix.Rusage {
	var u unix.Rusage
	// It fails only for a bad argument.
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u
}

// timed returns how long f takes.
func (c clock) timed(f func()) time.Duration {
	begin := c()
	f()
	return c() - begin
}

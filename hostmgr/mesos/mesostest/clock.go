package mesostest

import "time"

// Clock is where a Cluster's time comes from.
type Clock interface {
	Now() time.Time
	// AfterFunc runs fn, in a goroutine of its own, when d has passed. stop takes it back if it has not begun.
	AfterFunc(d time.Duration, fn func()) (stop func() bool)
}

// wallClock is the time package's, virtual in a synctest bubble.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) AfterFunc(d time.Duration, fn func()) func() bool {
	return time.AfterFunc(d, fn).Stop
}

// timer is a function that the Cluster runs later, under its lock, unless it is stopped. The zero value is stopped.
type timer struct{ stop func() bool }

// cancel takes the function back. Under the lock that is final, even if the clock has already fired.
func (t *timer) cancel() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// after sets t to run fn under the lock when d has passed, in place of what it was set to.
func (c *Cluster) after(t *timer, d time.Duration, fn func()) {
	t.cancel()
	taken := false // guarded by the lock: a timer that fires while it is being stopped must not run
	stop := c.clock.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if taken || c.closed {
			return
		}
		t.stop = nil
		fn()
	})
	t.stop = func() bool {
		taken = true
		return stop()
	}
}

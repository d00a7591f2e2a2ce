package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Errors of drivers.
var (
	errNotOpen = errors.New("fleet: the driver is not started, or is closed")
	errTwo     = errors.New("fleet: another driver is open")
)

// driver is a window on a world.
type driver struct {
	f *Fleet

	delivering sync.Mutex // held while the sink is called, so that nothing comes after Close
	sink       hostmgr.Sink
	closed     bool
}

var _ hostmgr.Driver = (*driver)(nil)

// Start implements [hostmgr.Driver].
func (d *driver) Start(_ context.Context, sink hostmgr.Sink) error {
	d.f.mu.Lock()
	other := d.f.driver
	if other == nil {
		d.f.driver = d
	}
	d.f.mu.Unlock()
	if other != nil {
		return errTwo
	}
	d.delivering.Lock()
	d.sink = sink
	d.delivering.Unlock()
	d.deliver(func(sink hostmgr.Sink) { sink.ReportHosts(d.f.visible()) })
	d.measure()
	return nil
}

// deliver calls fn with the sink unless the driver is closed.
func (d *driver) deliver(fn func(hostmgr.Sink)) {
	d.delivering.Lock()
	defer d.delivering.Unlock()
	if !d.closed {
		fn(d.sink)
	}
}

// open locks the world; the error says that the driver may not touch it.
func (d *driver) open() (unlock func(), err error) {
	d.f.mu.Lock()
	if d.f.driver != d {
		d.f.mu.Unlock()
		return nil, errNotOpen
	}
	return d.f.mu.Unlock, nil
}

// Launch implements [hostmgr.Driver].
func (d *driver) Launch(_ context.Context, l hostmgr.Launch) error {
	unlock, err := d.open()
	if err != nil {
		return err
	}
	defer unlock()
	f := d.f
	if known := f.runs[l.Run]; known != nil {
		if known.launch.Fingerprint() != l.Fingerprint() {
			return fmt.Errorf("%w: %v", hostmgr.ErrConflict, l.Run)
		}
		return nil
	}
	r := &run{launch: l, host: f.byName[l.Host], cancel: func() {}}
	switch {
	case len(l.Task.Processes) == 0 || len(l.Task.Processes[0].Argv()) == 0:
		return fmt.Errorf("fleet: run %v has no command", l.Run)
	case r.host == nil || r.host.dead || r.host.cutOff:
		return fmt.Errorf("%w: %q", hostmgr.ErrUnknownHost, l.Host)
	case f.happens(f.config.Faults.LaunchRefused, "refuse", r, 0):
		return fmt.Errorf("%w: host %q refuses run %v", hostmgr.ErrRefused, l.Host, l.Run)
	}
	r.plan = f.config.Plan(l)
	f.runs[l.Run] = r
	f.begin(r)
	return nil
}

// Kill implements [hostmgr.Driver].
func (d *driver) Kill(_ context.Context, run cluster.RunID, grace time.Duration) error {
	unlock, err := d.open()
	if err != nil {
		return err
	}
	defer unlock()
	r := d.f.runs[run]
	if r == nil {
		return fmt.Errorf("%w: %v", hostmgr.ErrUnknownRun, run)
	}
	d.f.kill(r, grace)
	return nil
}

// Inventory implements [hostmgr.Driver].
func (d *driver) Inventory() []hostmgr.Status {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	var out []hostmgr.Status
	for _, r := range d.f.sortedRuns() {
		out = append(out, r.known)
	}
	return out
}

// Release implements [hostmgr.Driver].
func (d *driver) Release(run cluster.RunID) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if r := d.f.runs[run]; r != nil && r.known.State.Terminal() {
		delete(d.f.runs, run)
	}
}

// Close implements [hostmgr.Driver]. The world goes on. A sink must not call it.
func (d *driver) Close() error {
	d.f.mu.Lock()
	if d.f.driver == d {
		d.f.driver = nil
	}
	d.f.mu.Unlock()
	d.delivering.Lock()
	defer d.delivering.Unlock()
	d.closed = true
	return nil
}

// measure reports usage now and then until the driver is closed.
func (d *driver) measure() {
	interval := d.f.config.UsageInterval
	if interval == 0 {
		return
	}
	d.f.clock.AfterFunc(interval, func() {
		unlock, err := d.open()
		if err != nil {
			return
		}
		now := d.f.clock.Now()
		var usage []hostmgr.Usage
		for _, r := range d.f.sortedRuns() {
			if r.known.State == cluster.TaskRunning && !r.host.cutOff {
				usage = append(usage, r.usage(now))
			}
		}
		unlock()
		d.deliver(func(sink hostmgr.Sink) { sink.ReportUsage(usage) })
		d.measure()
	})
}

// OpenLog implements [hostmgr.Driver].
func (d *driver) OpenLog(ctx context.Context, req hostmgr.LogRequest) (io.ReadCloser, error) {
	unlock, err := d.open()
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := d.f.runs[req.Run]
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: %v", hostmgr.ErrUnknownRun, req.Run)
	case req.Offset < 0:
		return nil, fmt.Errorf("fleet: log offset %d is negative", req.Offset)
	}
	if _, err := r.launch.ProcessName(req.Process); err != nil {
		return nil, err
	}
	log := &logReader{f: d.f, r: r, ctx: ctx, text: r.plan.Stdout, offset: req.Offset, follow: req.Follow}
	if req.Stream == hostmgr.Stderr {
		log.text = r.plan.Stderr
	}
	return log, nil
}

// logReader reads the output that a plan gives to a run.
type logReader struct {
	f      *Fleet
	r      *run
	ctx    context.Context
	text   string
	offset int64
	follow bool
}

// Read implements [io.Reader].
func (l *logReader) Read(p []byte) (int, error) {
	for {
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		l.f.mu.Lock()
		started, over, changed := l.r.started != 0, l.r.truth.State.Terminal(), l.r.changed
		l.f.mu.Unlock()
		switch {
		case started && l.offset < int64(len(l.text)):
			n := copy(p, l.text[l.offset:])
			l.offset += int64(n)
			return n, nil
		case over || !l.follow:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		}
	}
}

// Close implements [io.Closer].
func (l *logReader) Close() error { return nil }

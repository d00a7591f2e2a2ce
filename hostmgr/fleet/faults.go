package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Faults are what goes wrong by chance. The zero value makes none. A driver may not duplicate a status or let a run's
// statuses overtake each other; those two are for testing what must stand even that.
type Faults struct {
	Seed uint64

	LaunchRefused float64 // probability that a launch is given back
	LaunchFails   float64 // probability that a run that was recorded cannot be started

	StatusDelay      time.Duration // each status is late by a time between 0 and this
	StatusDuplicated float64       // probability that a status is reported a second time, late again
	StatusReordered  float64       // probability that a status does not wait for those before it

	// A host crashes after a random time with this mean and is back, empty, after another. An uptime of 0 means never.
	HostUptime, HostDowntime time.Duration
	// In the same way a rack is cut off, its runs going on, and found again.
	RackUptime, RackDowntime time.Duration
}

func (f *Faults) validate() error {
	var problems []error
	for _, p := range []struct {
		name string
		p    float64
	}{
		{"LaunchRefused", f.LaunchRefused},
		{"LaunchFails", f.LaunchFails},
		{"StatusDuplicated", f.StatusDuplicated},
		{"StatusReordered", f.StatusReordered},
	} {
		if !(p.p >= 0 && p.p <= 1) {
			problems = append(problems, fmt.Errorf("fleet: fault %s is %v, it must be a probability", p.name, p.p))
		}
	}
	if f.StatusDelay < 0 || f.HostUptime < 0 || f.RackUptime < 0 {
		problems = append(problems, errors.New("fleet: a fault has a time below zero"))
	}
	if f.HostUptime > 0 && f.HostDowntime <= 0 || f.RackUptime > 0 && f.RackDowntime <= 0 {
		problems = append(problems, errors.New("fleet: what fails needs a time after which it is back"))
	}
	return errors.Join(problems...)
}

// random returns the source for the n-th question about something that happens to someone.
func (f *Fleet) random(what, who string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what + "\x00" + who + "\x00")) // never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, n))
	return rand.New(rand.NewPCG(f.config.Faults.Seed, h.Sum64()))
}

// happens draws whether something with that probability happens to a run.
func (f *Fleet) happens(probability float64, what string, r *run, n uint64) bool {
	return probability > 0 && f.random(what, r.launch.Run.String(), n).Float64() < probability
}

// late draws how late a report is.
func (f *Fleet) late(what string, r *run, n uint64) time.Duration {
	if f.config.Faults.StatusDelay == 0 {
		return 0
	}
	return time.Duration(f.random(what, r.launch.Run.String(), n).Int64N(int64(f.config.Faults.StatusDelay) + 1))
}

// report has the clock hand a status to the open driver's sink, with the faults of reports.
func (f *Fleet) report(r *run, s hostmgr.Status) {
	d, n, now := f.driver, r.reports, f.clock.Now()
	r.reports++
	at := now.Add(f.late("report", r, n))
	if !f.happens(f.config.Faults.StatusReordered, "reorder", r, n) {
		at = max(at, r.delivered)
		r.delivered = at
	}
	deliver := func() { d.deliver(func(sink hostmgr.Sink) { sink.ReportStatus(s) }) }
	f.clock.AfterFunc(at.Sub(now), deliver)
	if f.happens(f.config.Faults.StatusDuplicated, "duplicate", r, n) {
		f.clock.AfterFunc(at.Sub(now)+f.late("report again", r, n), deliver)
	}
}

// reportHealth has the clock hand the health of a run to the open driver's sink, after the statuses before it.
func (f *Fleet) reportHealth(r *run) {
	d, now := f.driver, f.clock.Now()
	h := hostmgr.Health{Run: r.launch.Run, Health: r.health, At: now}
	f.clock.AfterFunc(max(0, r.delivered.Sub(now)), func() {
		d.deliver(func(sink hostmgr.Sink) { sink.ReportHealth(h) })
	})
}

// beginFaults schedules the first faults of hosts and racks.
func (f *Fleet) beginFaults() {
	faults := &f.config.Faults
	racks := map[string]bool{}
	for _, h := range f.hosts {
		f.alternate("host", h.Name, 0, faults.HostUptime, faults.HostDowntime, f.Crash, f.Return)
		if !racks[h.Rack] {
			racks[h.Rack] = true
			f.alternate("rack", h.Rack, 0, faults.RackUptime, faults.RackDowntime, f.CutOffRack, f.HealRack)
		}
	}
}

// alternate breaks and mends someone in turn for ever, after random times with the means up and down.
func (f *Fleet) alternate(what, who string, n uint64, up, down time.Duration, fail, mend func(string) error) {
	if up == 0 {
		return
	}
	f.clock.AfterFunc(f.exponential(what+" fails", who, n, up), func() {
		_ = fail(who) // it exists
		f.clock.AfterFunc(f.exponential(what+" is back", who, n, down), func() {
			_ = mend(who)
			f.alternate(what, who, n+1, up, down, fail, mend)
		})
	})
}

func (f *Fleet) exponential(what, who string, n uint64, mean time.Duration) time.Duration {
	return time.Duration(min(f.random(what, who, n).ExpFloat64()*float64(mean), math.MaxInt64/2))
}

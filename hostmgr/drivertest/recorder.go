package drivertest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Recorder is a sink that keeps all reports and notes what the contract forbids. It may be used from any goroutine.
type Recorder struct {
	mu         sync.Mutex
	hosts      []hostmgr.Host
	statuses   map[cluster.RunID][]hostmgr.Status
	usage      map[cluster.RunID][]hostmgr.Usage
	health     map[cluster.RunID][]hostmgr.Health
	reports    int
	violations []string
}

var _ hostmgr.Sink = (*Recorder)(nil)

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	r := &Recorder{}
	r.Forget()
	return r
}

// Forget drops the reports, but not the violations: what comes next is from another driver.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts, r.reports = nil, 0
	r.statuses = map[cluster.RunID][]hostmgr.Status{}
	r.usage = map[cluster.RunID][]hostmgr.Usage{}
	r.health = map[cluster.RunID][]hostmgr.Health{}
}

// ReportHosts keeps the list of hosts.
func (r *Recorder) ReportHosts(hosts []hostmgr.Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	r.hosts = slices.Clone(hosts)
}

// ReportStatus appends the status and checks that it may follow the one before.
func (r *Recorder) ReportStatus(s hostmgr.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if problem := checkStatus(s); problem != "" {
		r.violations = append(r.violations, fmt.Sprintf("%s: %+v", problem, s))
	}
	if before := r.statuses[s.Run]; len(before) > 0 {
		last := before[len(before)-1]
		if last.State.Terminal() || !last.State.CanBecome(s.State) || last.At > s.At || last.Host != s.Host {
			r.violations = append(r.violations, fmt.Sprintf("after %+v came %+v", last, s))
		}
	}
	r.statuses[s.Run] = append(r.statuses[s.Run], s)
}

// checkStatus returns what is wrong with a status by itself, "" if nothing is.
func checkStatus(s hostmgr.Status) string {
	ended := s.ExitCode >= 0 || s.Signal > 0
	switch {
	case s.State < cluster.TaskLaunching || s.State == cluster.TaskPreempting || s.State == cluster.TaskKilling:
		return "a driver does not report this state"
	case s.At <= 0:
		return "no time"
	case s.Host == "":
		return "no host"
	case s.ExitCode < -1 || s.Signal < 0 || s.ExitCode >= 0 && s.Signal > 0:
		return "exit code and signal make no sense"
	case ended && !s.State.Terminal():
		return "an exit code or signal before the end"
	case s.State == cluster.TaskSucceeded && s.ExitCode != 0:
		return "success without exit code 0"
	case s.State == cluster.TaskFailed && s.Reason == cluster.ReasonNone:
		return "a failure without a reason"
	case s.State == cluster.TaskLost && (s.Reason == cluster.ReasonNone || ended):
		return "a loss without a reason, or with an end that is known"
	}
	return ""
}

// ReportHealth keeps the health and checks that it is one.
func (r *Recorder) ReportHealth(h hostmgr.Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if h.Health == cluster.HealthUnknown || h.At <= 0 {
		r.violations = append(r.violations, fmt.Sprintf("health that says nothing %+v", h))
	}
	r.health[h.Run] = append(r.health[h.Run], h)
}

// Health returns all that was reported of a run's health, in order.
func (r *Recorder) Health(run cluster.RunID) []hostmgr.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.health[run])
}

// ReportUsage keeps the usage and checks that it makes sense.
func (r *Recorder) ReportUsage(usage []hostmgr.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	for _, u := range usage {
		if !u.Used.Equal(u.Used.Positive()) {
			r.violations = append(r.violations, fmt.Sprintf("negative usage %+v", u))
		}
		r.usage[u.Run] = append(r.usage[u.Run], u)
	}
}

// Hosts returns the hosts last reported.
func (r *Recorder) Hosts() []hostmgr.Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hosts)
}

// Statuses returns all statuses reported of a run, in order.
func (r *Recorder) Statuses(run cluster.RunID) []hostmgr.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.statuses[run])
}

// Usage returns all usage reported of a run, in order.
func (r *Recorder) Usage(run cluster.RunID) []hostmgr.Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.usage[run])
}

// Reports returns how many reports of any kind came.
func (r *Recorder) Reports() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}

// Violations returns what was wrong with the reports so far, in words.
func (r *Recorder) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

package bench

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/solver"
)

// Report is the outcome of several runs on one machine.
type Report struct {
	Machine Machine   `json:"machine"`
	Commit  string    `json:"commit"` // of this program; "+changes" if it was built with any
	Time    time.Time `json:"time"`
	Clock   string    `json:"clock"`
	Runs    []*Result `json:"runs"`
}

// Machine is where a report was made.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

// Result is the outcome of one workload. The first algorithm led.
type Result struct {
	Workload   Workload     `json:"workload"`
	Counts     Counts       `json:"counts"` // after the last cycle
	Algorithms []*Algorithm `json:"algorithms"`
	Peers      []*PeerTimes `json:"peers,omitempty"`
	NetworkMB  float64      `json:"network_mb"`        // of the network with its history of changes
	PeakMB     float64      `json:"peak_rss_mb"`       // of the whole process so far
	Seconds    float64      `json:"seconds"`           // wall time of the run
	Limited    bool         `json:"limited,omitempty"` // ended early, by the limit of time or an interrupt
}

// Algorithm is what one solver did in a run.
type Algorithm struct {
	Name string `json:"name"`
	// Cold is of fresh solvers: on the first network and on those given to peers.
	Cold Summary `json:"cold_ms"`
	// The rest is of warm cycles. Total is apply + solve + read.
	Apply  Summary `json:"apply_ms"`
	Solve  Summary `json:"solve_ms"`
	Read   Summary `json:"read_ms"`
	Total  Summary `json:"total_ms"`
	Units  Summary `json:"units"`  // arcs examined
	Steps  Summary `json:"steps"`  // pivots, expansions or pushes
	Allocs Summary `json:"allocs"` // allocations of a solve

	MemoryMB float64 `json:"memory_mb"` // held by the solver after its first solve
	Verified int     `json:"verified,omitempty"`
	// Ratio is a peer's cold median over our p99 of Total, or over our cold
	// median in a cold workload; zero without a peer.
	Ratio  float64 `json:"ratio,omitempty"`
	Cycles []Cycle `json:"-"`
}

// Cycle is one solve. Times are in milliseconds.
type Cycle struct {
	Index              int
	Cold, Counted      bool
	Apply, Solve, Read float64
	Work               solver.Work
	Allocs             uint64
	Moves              int
	Objective          int64
}

// Total returns apply + solve + read.
func (c Cycle) Total() float64 { return c.Apply + c.Solve + c.Read }

// PeerTimes is what another program needed for the same networks, cold.
type PeerTimes struct {
	Name  string  `json:"name"` // program and algorithm
	Times Summary `json:"cold_ms"`
	// Agreed counts the networks on which its objective was ours; a run fails
	// where it is not.
	Agreed int `json:"agreed"`

	samples []float64
	cycles  []int
}

// NewReport returns a report without runs.
func NewReport(clock string, now time.Time) *Report {
	r := &Report{
		Machine: Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()},
		Commit:  "unknown", Time: now.UTC().Truncate(time.Second), Clock: clock, Runs: []*Result{}, // a list in JSON, too
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			r.Commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			r.Commit += "+changes"
		}
	}
	return r
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// summarize fills in what follows from the cycles.
func (a *Algorithm) summarize() {
	var cold, apply, solve, read, total, units, steps, allocs []float64
	for _, c := range a.Cycles {
		switch {
		case c.Cold:
			cold = append(cold, c.Solve)
		case c.Counted:
			apply, solve = append(apply, c.Apply), append(solve, c.Solve)
			read, total = append(read, c.Read), append(total, c.Total())
			units, steps = append(units, float64(c.Work.Units)), append(steps, float64(c.Work.Steps))
			allocs = append(allocs, float64(c.Allocs))
		}
	}
	a.Cold, a.Apply, a.Solve = Summarize(cold), Summarize(apply), Summarize(solve)
	a.Read, a.Total = Summarize(read), Summarize(total)
	a.Units, a.Steps, a.Allocs = Summarize(units), Summarize(steps), Summarize(allocs)
}

// compare sets the ratio of each algorithm to the first peer.
func (r *Result) compare() {
	if len(r.Peers) == 0 {
		return
	}
	for _, a := range r.Algorithms {
		ours := a.Total.P99
		if r.Workload.Mode == Cold {
			ours = a.Cold.Median
		}
		if ours > 0 {
			a.Ratio = r.Peers[0].Times.Median / ours
		}
	}
}

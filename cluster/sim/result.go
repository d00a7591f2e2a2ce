package sim

import (
	"encoding/hex"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

// Result is what became of a workload. Times are virtual save where the name says wall, amounts are in the units of
// cluster.Dimension.
type Result struct {
	Model          string  `json:"model"`
	Fault          string  `json:"fault,omitempty"` // why another model made some of the plans, "" for none
	Planner        string  `json:"planner"`         // flow or greedy
	Seed           uint64  `json:"seed"`
	VirtualSeconds float64 `json:"virtual_seconds"` // from the beginning of the trace to the end of the run
	WallSeconds    float64 `json:"wall_seconds"`    // of the whole run; 0 without a stopwatch
	// Hash is the digest of all records in the journal's encoding, and names the history.
	Hash    string `json:"hash"`
	Records uint64 `json:"records"`

	Hosts    int              `json:"hosts"`
	Capacity map[string]int64 `json:"capacity"` // of all machines of the workload, by dimension

	// Compression says what arrivals were multiplied by, and how often the trace is there, for an offered load; nil if they are
	// as recorded.
	Compression *trace.Compression `json:"compression,omitempty"`

	Jobs       int64 `json:"jobs"` // submitted
	Tasks      Tasks `json:"tasks"`
	Placements int64 `json:"placements"` // runs begun
	// RunEnds counts how runs ended, as "STATE/REASON": of a run that was killed, why it was told to stop.
	RunEnds map[string]int64 `json:"run_ends"`
	// Preemptions counts the runs that were asked to leave for another task.
	Preemptions int64 `json:"preemptions"`
	// Migrations counts the runs that were asked to go on elsewhere.
	Migrations int64 `json:"migrations"`

	Utilisation map[string]Utilisation `json:"utilisation"` // by dimension, of those that the machines have
	Waiting     []WaitingTime          `json:"waiting"`     // by pool, then type of job
	Work        map[string]Work        `json:"work"`        // by dimension, of those that the machines have
	Fairness    Fairness               `json:"fairness"`
	// Oversubscription is about revocable tasks; nil where there were none and nothing was measured.
	Oversubscription *Oversubscription `json:"oversubscription,omitempty"`
	// Turnaround is how long batch jobs took that have ended, from arrival to end, in seconds.
	Turnaround Quantiles   `json:"turnaround"`
	Copies     Copies      `json:"copies"`
	Read       BytesRead   `json:"bytes_read"`
	Cycles     Cycles      `json:"cycles"`
	Faults     FaultCounts `json:"faults"`
	Stress     Stress      `json:"stress"`
	Series     Series      `json:"series"`

	QuietChecks    int64             `json:"quiet_checks"` // moments at which it was asked whether something waits that fits
	ViolationCount int               `json:"violation_count"`
	Violations     []check.Violation `json:"violations"` // the first 100
}

// Copies counts second copies of tasks that lag behind.
type Copies struct {
	Started int64 `json:"started"`
	Won     int64 `json:"won"` // they finished before their tasks
}

// Tasks counts tasks by what has become of them at the end of the run.
type Tasks struct {
	Submitted int64 `json:"submitted"`
	Placed    int64 `json:"placed"` // at least once
	Waiting   int64 `json:"waiting"`
	Running   int64 `json:"running"`
	Finished  int64 `json:"finished"` // succeeded
	Failed    int64 `json:"failed"`   // ended in any other way, for good
}

// Utilisation is the part of the capacity that is allocated, from 0 to 1.
type Utilisation struct {
	Mean  float64 `json:"mean"` // over time
	Peak  float64 `json:"peak"` // at one moment
	Final float64 `json:"final"`
}

// Work is what the runs that have ended took, in the dimension's unit times seconds.
type Work struct {
	Useful    float64 `json:"useful"`    // by runs that succeeded
	Preempted float64 `json:"preempted"` // by runs that left for another task, or to go on elsewhere
	Lost      float64 `json:"lost"`      // by runs that ended in any other way, as those whose host was lost
}

// WaitingTime is how long tasks waited for each of their placements, from the arrival of their job, though no scheduler
// may have been there to accept it, or from being queued again, until their run took room. What waits at the end is not in it.
type WaitingTime struct {
	Pool    string       `json:"pool"`
	Type    string       `json:"type"`
	Seconds Quantiles    `json:"seconds"`
	CDF     [][2]float64 `json:"cdf"` // seconds, part of the placements that waited no longer
}

// BytesRead splits the inputs of all runs by where the data was.
type BytesRead struct {
	Local  int64 `json:"local"`   // on the host
	InRack int64 `json:"in_rack"` // on another host of the rack
	Remote int64 `json:"remote"`
}

// Cycles sums up what the cycles did.
type Cycles struct {
	Count      int64 `json:"count"`
	Solved     int64 `json:"solved"` // in which something was planned
	Solves     int64 `json:"solves"`
	SolverWork int64 `json:"solver_work"`
	Inserted   int64 `json:"inserted"`   // placements that the flow did not make
	Refused    int64 `json:"refused"`    // placements that the state no longer allowed
	Limited    int64 `json:"limited"`    // cycles with a solve that was not optimal
	Preempting int64 `json:"preempting"` // cycles that asked somebody to leave for others

	MeanPrice   float64 `json:"mean_price"`    // of a placement, in milliseconds of expected delay
	CostPerTask float64 `json:"cost_per_task"` // of a plan, for each task placed or waiting; see cycle.Stats

	// Latency is in wall milliseconds, of the cycles in which something was planned, by phase: those of cycle.Phase,
	// "commit", which makes the placements durable, and "total". "idle" is the total of the other cycles.
	Latency map[string]Quantiles `json:"latency_ms"`
	// Of the cycles in which something was planned.
	ArcsTouched  Quantiles `json:"arcs_touched"`
	NodesTouched Quantiles `json:"nodes_touched"`
	Placements   Quantiles `json:"placements"`
}

// FaultCounts says what went wrong.
type FaultCounts struct {
	Injected int64 `json:"injected"`      // hosts, racks, links, drains and schedulers that broke
	Restarts int64 `json:"restarts"`      // of the scheduler, with a replay of the journal
	Known    int64 `json:"known_status"`  // statuses that told nothing new
	Stale    int64 `json:"stale_status"`  // statuses of runs that nobody waits for
	Launches int64 `json:"failed_starts"` // runs that were refused or could not be started
}

// Stress says whether what a workload is meant to test has happened.
type Stress struct {
	PeakWaiting   int64 `json:"peak_waiting"`    // tasks at one moment
	PeakRunning   int64 `json:"peak_running"`    // tasks at one moment
	PeakFullHosts int   `json:"peak_full_hosts"` // with less than a hundredth left of some dimension
	// VectorConflicts counts the rounds in which the flow had more for a host than its vector could take.
	VectorConflicts int64 `json:"vector_conflicts"`
}

func (s *simulation) result() (*Result, error) {
	m := s.measure
	m.series.advance(s.now())
	r := &Result{
		Model: s.config.Model.Name(), Fault: m.cycle.fault, Planner: PlannerName(s.config.NewSolver), Seed: s.config.Seed, VirtualSeconds: s.now().Seconds(),
		Hash: hex.EncodeToString(s.digest.Sum(nil)), Records: s.scheduler.state.Seq(),
		Hosts: len(s.config.Workload.Hosts), Capacity: map[string]int64{}, Compression: s.config.Workload.Compression,
		Jobs: m.jobs, Tasks: m.tasks, Placements: m.placements, Copies: m.copies, Turnaround: m.turnaround.quantiles(seconds), RunEnds: m.ends,
		Preemptions: m.preemptions, Migrations: m.migrations,
		Utilisation: map[string]Utilisation{}, Work: map[string]Work{}, Waiting: m.waitingTimes(), Read: m.read,
		Fairness: m.pools.fairness(s.now()),
		Cycles:   m.cycles(), Stress: m.stress, Series: m.series.export(),
		Faults: FaultCounts{
			Injected: s.faults.steps, Restarts: m.restarts,
			Known: m.verdicts[1], Stale: m.verdicts[2],
			Launches: m.ends["FAILED/LAUNCH_FAILED"] + m.ends["PENDING/LAUNCH_REFUSED"],
		},
		QuietChecks: m.quiet, ViolationCount: s.checker.Count(), Violations: s.checker.Violations(),
	}
	r.WallSeconds = (s.stopwatch() - m.began).Seconds()
	for d := range cluster.NumDimensions {
		for _, h := range s.config.Workload.Hosts {
			r.Capacity[d.String()] += h.Capacity.Fixed[d]
		}
		if r.Capacity[d.String()] == 0 {
			delete(r.Capacity, d.String())
			continue
		}
		r.Work[d.String()] = Work{m.work[useful][d], m.work[preempted][d], m.work[lost][d]}
		r.Utilisation[d.String()] = Utilisation{Mean: m.series.mean(int(d)), Peak: m.peak[d], Final: m.part(d)}
	}
	r.Oversubscription = m.loans.result(s.now(), r.Capacity)
	return r, m.flushPlacements()
}

package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
	"github.com/sluice-scheduler/sluice/solver"
)

// Config is all that a run depends on.
type Config struct {
	// Workload is read once, to its end. The caller closes it.
	Workload *trace.Workload
	Model    costmodels.Model
	// NewSolver makes the solver of a network; nil: plan without a flow. See cycle.New.
	NewSolver func() solver.Solver
	// Watch is over the model, so that one that does not return does not keep the run for ever; nil: nobody watches.
	Watch cycle.Watch
	// SolveBudget limits each solve; zero is no limit.
	SolveBudget solver.Budget
	// Seed decides what is left to chance: faults.
	Seed   uint64
	Faults Faults
	// Horizon ends the run: after it no job arrives and no fault happens, and the run ends at the first quiet moment, or a quarter of
	// an hour later. 0 runs until everything that can end has ended.
	Horizon time.Duration

	// What takes virtual time. A field that is zero gets its default; NoTime means none.
	BatchWindow time.Duration // between the first change and the plan; default 2ms, as in production
	SyncTime    time.Duration // of the journal for one batch; default 1ms
	PlanTime    time.Duration // of a plan; default 5ms

	LearnEvery       time.Duration // how often the model is told what was learned; default 1min, as in production
	UnreachableAfter time.Duration // default 10s, as in production
	LostAfter        time.Duration // default 5min, as in production
	CheckpointEvery  uint64        // records; default 500,000

	Usage Usage // what tasks use of what they ask for

	Stragglers Stragglers
	// Interference says how much longer work takes beside other work, both as the label cluster.WorkLabel of jobs names them.
	Interference fleet.Interference
	// Speculation starts copies of tasks that lag behind, of jobs that allow it; the zero value starts none.
	Speculation knowledge.Speculation
	// Idempotent lets the tasks of all batch jobs without a gang and without a controller have copies.
	Idempotent bool

	// Pools are made before anything arrives, each after the one above it. A pool that a job names and that is not here
	// comes with its first job and has no settings; so do the Pools of the workload.
	Pools []cluster.Pool
	// Verify has every plan checked against its snapshot before it is carried out; see package verify.
	Verify bool
	// StopAfter ends the run when so many rules were broken; 0 runs on.
	StopAfter int

	// Stopwatch measures latencies in wall time. It has no influence on the history; nil measures none.
	Stopwatch func() time.Duration
	// Placements, if set, gets a line for every run as it ends; see placements.go for the columns.
	Placements io.Writer
	// Progress, if set, is called now and then from the loop.
	Progress func(Progress)

	present *present // what the run goes on from; nil: it begins with nothing

	// With these a test plants bugs: around the planner, in what the scheduler is told of hosts, and in what the checker
	// sees of its decisions.
	wrap    func(Planner) Planner
	report  func(hostmgr.Host) hostmgr.Host
	rewrite func(*cluster.Record)
	// With these it does what no workload says: how runs go, and what people ask for, of a scheduler that lives then.
	life   func(hostmgr.Launch, *fleet.Plan)
	byHand []byHand
}

// byHand is what somebody asks for at a time of the trace. What is refused is an answer.
type byHand struct {
	at time.Duration
	do func(*rules.Tx) error
}

// NoTime is a duration that is set and takes no time.
const NoTime time.Duration = -1

// Progress tells how far a run is.
type Progress struct {
	Now                        time.Duration // virtual, since the beginning of the trace
	Arrived                    float64       // part of the jobs, 0 to 1; −1 where the workload cannot tell
	Jobs                       int64         // submitted
	Waiting, Running, Finished int64         // tasks
	Cycles                     int64
}

// Validate reports what Run would refuse before it begins.
func (c Config) Validate() error { return c.fill() }

// longest is more than anybody waits for; many times as much would not be a time any more.
const longest = 365 * 24 * time.Hour

func (c *Config) fill() error {
	set := func(d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 0
		}
	}
	set(&c.BatchWindow, 2*time.Millisecond)
	set(&c.SyncTime, time.Millisecond)
	set(&c.PlanTime, 5*time.Millisecond)
	set(&c.LearnEvery, time.Minute)
	set(&c.UnreachableAfter, 10*time.Second)
	set(&c.LostAfter, 5*time.Minute)
	if c.CheckpointEvery == 0 {
		c.CheckpointEvery = 500_000
	}
	var problems []error
	if c.Workload == nil || c.Model == nil {
		problems = append(problems, errors.New("sim: a workload and a model are needed"))
	} else if len(c.Workload.Hosts) == 0 {
		problems = append(problems, errors.New("sim: the workload has no hosts; give a list of machines"))
	}
	if c.Horizon < 0 {
		problems = append(problems, fmt.Errorf("sim: the horizon %v is negative", c.Horizon))
	}
	problems = append(problems, c.Faults.validate(), c.checkTargets(), c.Usage.fill(), c.Stragglers.fill())
	for _, d := range []struct {
		what string
		time.Duration
	}{
		{"batch window", c.BatchWindow},
		{"time of the journal", c.SyncTime},
		{"time of a plan", c.PlanTime},
		{"time until a host is unreachable", c.UnreachableAfter},
		{"time until tasks are lost", c.LostAfter},
		{"interval between reports of usage", c.Usage.Interval},
		{"slack window", c.Usage.Window},
	} {
		if d.Duration > longest {
			problems = append(problems, fmt.Errorf("sim: the %s is %v: at most %v", d.what, d.Duration, longest))
		}
	}
	return errors.Join(problems...)
}

// checkTargets holds the faults to the hosts and racks of the workload.
func (c *Config) checkTargets() error {
	if c.Workload == nil {
		return nil
	}
	if c.Faults.Rates[RackCut].Every > 0 && !slices.ContainsFunc(c.Workload.Hosts, func(h trace.Host) bool { return h.Rack != "" }) {
		return fmt.Errorf("sim: fault %s: no host of the workload is in a rack", RackCut)
	}
	for i, x := range c.Faults.Script {
		what := "host"
		if x.Kind == RackCut {
			what = "rack"
		}
		there := slices.ContainsFunc(c.Workload.Hosts, func(h trace.Host) bool {
			return x.Kind == RackCut && h.Rack == x.Target && h.Rack != "" || (x.Kind == HostCrash || x.Kind == HostDrain) && h.Name == x.Target
		})
		switch {
		case !slices.Contains([]FaultKind{HostCrash, RackCut, HostDrain}, x.Kind):
			if x.Target != "" {
				return fmt.Errorf("sim: fault %d of the script: %s has no target: leave out %q", i+1, x.Kind, x.Target)
			}
		case !there:
			return fmt.Errorf("sim: fault %d of the script: the workload has no %s %q", i+1, what, x.Target)
		}
	}
	return nil
}

// The planners, see cycle.New.
const (
	Flow   = "flow"
	Greedy = "greedy"
)

// PlannerName names the planner that cycle.New makes of this.
func PlannerName(newSolver func() solver.Solver) string {
	if newSolver == nil {
		return Greedy
	}
	return Flow
}

func (c *Config) newPlanner() Planner {
	s := cycle.New(c.Model, c.NewSolver)
	s.Watch(c.Watch)
	var p Planner = s
	if c.wrap != nil {
		p = c.wrap(p)
	}
	return p
}

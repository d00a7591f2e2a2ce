package cycle

import (
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/cluster/radix"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// Input is what a cycle depends on besides the planner's own history.
type Input struct {
	Snapshot *cluster.Snapshot
	// Changes since the snapshot of the previous call.
	Changes cluster.Changes
	// Rescan says that Changes is not complete: everything is read anew, as in the first call.
	Rescan bool
	Now    cluster.Time
	// KeepAll: nobody is asked to leave, whoever waits.
	KeepAll bool
	// Budget limits each solve; zero is no limit. When it is spent, waiting tasks are placed without a flow.
	Budget solver.Budget
	// Stopwatch measures the phases for Stats. It has no influence on the plan and may be nil.
	Stopwatch func() time.Duration
	// Policy is what to plan by from now on. Nil, or the one in use, changes nothing. Another one begins a
	// new network.
	Policy *Policy
	// Knowledge is what was learned from runs, nil for nothing. What it points to must not change. Another
	// pointer makes the planner work out prices anew.
	Knowledge costmodels.Knowledge
}

// Placement starts the next run of a task on a host.
type Placement struct {
	Task cluster.TaskKey
	Run  uint32
	Host cluster.HostID
	cluster.Devices
	Price flowgraph.Cost // what the arc to the host cost, in milliseconds of expected delay
	Tier  cluster.Tier
	Gang  cluster.JobUID // of the core that starts whole or not at all; 0 for a task on its own
}

// Output is the plan of a cycle. The caller owns it.
type Output struct {
	// Placements in the order in which they were decided. A task is in it once at most.
	Placements []Placement
	// Displacements make room for waiting tasks. Each is carried out whole or not at all.
	Displacements []Displacement
	// Ended lists the tasks whose holds end without a start: they wait again.
	Ended []cluster.TaskKey
	// Pools describes all pools, by path, as they were admitted before anything was placed. The caller must
	// not modify it.
	Pools []pool.Status
	// WakeAt is when time alone may change the plan; 0 for never. The caller then runs another cycle.
	WakeAt cluster.Time
	// Patient reports that some task rather waits than goes where there is room. At WakeAt that may change.
	Patient bool
	Stats   Stats
	// Shadow compares the plan with that of the policy's shadow. It is nil without one, or if it did not plan
	// in this cycle.
	Shadow *Comparison
}

// Phase indexes the parts of a cycle.
type Phase int

// The phases.
const (
	Ingest Phase = iota // changes into classes and hosts
	Pools               // entitlement and admission
	Price               // rows and waiting prices
	Graph               // deltas of the network, price-out
	Solve
	Fit // exact commit and insertion
	NumPhases
)

var phaseNames = [NumPhases]string{"ingest", "pools", "price", "graph", "solve", "fit"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// Stats says what a cycle did.
type Stats struct {
	Durations    [NumPhases]time.Duration
	Classes      int   // classes with waiting tasks, after the cycle
	Waiting      int   // waiting tasks, after the cycle
	Nodes, Arcs  int   // of the network, after the cycle
	NodesTouched int64 // added, removed or given another supply
	ArcsTouched  int64 // added, removed, re-priced or re-bounded
	Rounds       int
	Solves       int
	SolverWork   int64 // units, see solver.Work
	Objective    int64 // of the last solve
	Inserted     int   // placements that the flow did not make
	Preemptions  int   // tasks asked to leave, to wait again or to end
	Revoked      int   // of these, for no other task: what they ran on is used
	Migrations   int   // tasks asked to move
	// LimitedBy names the outcome of a solve that was not optimal; the plan was then made without a flow.
	LimitedBy string
	// Cost is what the tasks placed in this cycle pay for starting, each as it was decided, and what the
	// waiting ones pay for waiting. It is in milliseconds, without the steps of tiers.
	Cost  int64
	Model string // name of the model that gave the prices
	Fault string // why it is not the policy's own model, "" if it is
}

// Options bounds what a plan may do to running work.
type Options struct {
	// MaxDisplaced is how many tasks one cycle may ask to leave for others. Jobs and pools may bound it further.
	MaxDisplaced int
	// Hysteresis is how long a task that was asked to leave is left alone afterwards.
	Hysteresis time.Duration
	// Patience is how long a task waits before it has tasks of other pools leave, if its claim goes beyond
	// its pool's reservation. It waits only while as much as all such claims want comes free by itself in
	// that time.
	Patience time.Duration
	// HoldFor is how long room is held beyond the time that those who leave have for it.
	HoldFor time.Duration
	// ReserveAfter is how long a task with a claim waits before a host is kept for it.
	ReserveAfter time.Duration
	// Tolerance is how much of its price a task may lose: a host that would save it no more is not looked
	// for. As the search ends, tasks may lose a quarter of it more on average. So a flow costs at most
	// 1¼·Tolerance for each task more than that of the complete network; with 0 it costs no more.
	Tolerance flowgraph.Cost
}

// DefaultOptions are those of a planner that is not told otherwise.
func DefaultOptions() Options {
	return Options{
		MaxDisplaced: 1000, Hysteresis: time.Minute, Patience: 15 * time.Second, HoldFor: time.Minute, ReserveAfter: time.Minute, Tolerance: 20,
	}
}

// Planner holds the network and what it was built from. It is not safe for concurrent use.
type Planner struct {
	model     *guard.Guard
	newSolver func() solver.Solver
	lengths   lengths // of rows

	graph       *graph
	hosts       *hosts
	rows        *rows
	classes     map[ClassKey]*class
	order       []*class // by creation: maps are for look-up, never for iteration
	groups      map[groupKey]*group
	groupOrder  []*group // by creation
	freeIndices []int    // of groups that are gone
	needs       needs    // of the groups
	waiting     map[cluster.TaskKey]entry
	units       radix.Map[unit]           // bound and held tasks, by key
	held        map[cluster.TaskKey]*unit // held tasks, by key
	keys        map[cluster.JobUID]*jobKey

	cores     map[cluster.JobUID]*core // of gangs, by job
	scattered map[cluster.JobUID]bool  // jobs with holds that end in this plan
	arrived   map[cluster.JobUID]int64 // number of tasks that start in this plan where room was held for them, by job

	looked   looked
	labels   *labels
	ripening cluster.Alarms // when a preference of a waiting task gives way; some may wait no more
	ripest   int            // with more alarms than this, most may be of tasks that wait no more
	now      cluster.Time   // of the cycle
	snap     *cluster.Snapshot
	lost     map[cluster.JobUID]int64   // by service: ready instances that the plan stops or moves
	scarce   map[cluster.JobUID]int64   // services that could spare no more in the last plan, with the least that they could spare since
	kept     bool                       // the last cycle had KeepAll
	started  map[cluster.PoolPath]int32 // by pool: the lowest priority of tasks that start and may be asked to leave

	admission *pool.Admission
	status    []pool.Status // of the last admission
	ledger    *pool.Ledger
	leaves    []cluster.PoolPath // by path
	queues    map[cluster.PoolPath]*queue
	markets   markets
	options   Options
	listings  int                           // counts what shelter has listed
	churn     churn                         // of this plan
	calm      map[cluster.PoolPath]uint32   // by pool: how many at most one cycle may ask to leave, where the pool bounds it
	limits    []*limit                      // by path
	limitsOf  map[cluster.PoolPath][]*limit // by leaf
	crowded   []*host                       // with nominations or arrivals of the last plan
	victims   []*unit                       // of the last plan
	hit       []*unit                       // victims of earlier passes that leave for others
	done      []*displacement               // displacements of earlier passes
	outlooks  []*outlook                    // the last one asked for comes first
	fruitless fruitless                     // of the last pass of displacements
	overdrawn []*host                       // hosts that changed and have revocable tasks

	round      costmodels.Round
	known      consulted // round.Known, if anything is known
	census     costmodels.Census
	made       []made          // starts of the plan in progress
	cut        bool            // something did not fit where the flow sent it
	unfinished bool            // the last plan made all the passes that it may, and claims were left to pass on
	changed    bool            // something happened since the last plan that passed over nobody at its beginning
	due        cluster.Time    // when time alone may help those that the next plan passes over, 0 for never
	barred     bool            // a lid kept a task from a host on which the next plan may start it
	counts     []int64         // see keep
	solves     int             // networks brought up to date so far
	moves      bool            // running tasks may be moved by the flow
	stuck      map[*unit]bool  // running tasks that could not go where the flow sent them; for look-up
	sent       map[*link]int64 // how much of a link's flow is running tasks that moved; for look-up
	joined     []*host         // with guests that this plan placed
	planned    cluster.Changes // what the last plan touched, to be compared with what became of it
	wakeAt     cluster.Time    // see Output.WakeAt
	patient    bool            // see Output.Patient
	offers     offers
	asking     []*class // see refreshed
	reading    []*host  // see readAhead
	fetched    int64
	yielded    bool // in the last plan a task with room held elsewhere left a host to others
	moved      bool // a task was bound, left or went to wait since the last admission
	dirty      bool // something happened since the last solve that may let a task be placed
	primed     bool // the first call is done
}

// reset forgets everything that came from snapshots.
func (p *Planner) reset() {
	var s solver.Solver
	if p.newSolver != nil {
		s = p.newSolver()
	}
	p.graph = newGraph(p.model, &p.round, s)
	p.hosts = newHosts(p.graph.touch)
	p.units, p.held = radix.Map[unit]{}, map[cluster.TaskKey]*unit{}
	p.labels, p.ripening = newLabels(p.hosts, p.held), cluster.NewAlarms()
	p.rows = newRows(p.model, &p.round, p.hosts, p.labels, p.lengths)
	p.classes, p.order = map[ClassKey]*class{}, nil
	p.groups, p.groupOrder, p.freeIndices, p.needs = map[groupKey]*group{}, nil, nil, needs{}
	p.waiting = map[cluster.TaskKey]entry{}
	p.cores, p.scattered = map[cluster.JobUID]*core{}, map[cluster.JobUID]bool{}
	p.arrived = map[cluster.JobUID]int64{}
	p.crowded, p.victims, p.hit, p.done, p.overdrawn = nil, nil, nil, nil, nil
	p.outlooks = nil // hosts are counted anew
	p.keys = map[cluster.JobUID]*jobKey{}
	p.round.Hosts, p.round.Zones, p.round.Guests, p.round.Mix = p.hosts.lookup, p.hosts.zone, p.residents, costmodels.Mix{}
	p.census, p.joined = costmodels.Census{}, nil
}

// Run plans one cycle. If the model has a fault then, the plan is worth nothing.
func (p *Planner) Run(in Input) Output {
	out := Output{Stats: Stats{Model: p.model.Name()}}
	lap := newLaps(in.Stopwatch)
	before := flowgraph.Stats{}
	in.Rescan = in.Rescan || !p.primed || len(in.Changes.Pools) > 0 // pools say what belongs together
	if !in.Rescan {
		before = p.graph.net.Stats()
	}
	p.ingest(in)
	p.dropEmpty()
	lap.end(&out.Stats, Ingest)
	p.dirty = p.recovers(in.Snapshot) || p.kept && !in.KeepAll || p.dirty
	p.kept, p.changed = in.KeepAll, p.changed || p.dirty
	if p.wakeAt != 0 && in.Now >= p.wakeAt {
		p.dirty, p.wakeAt = true, 0 // a plan may set it again
	}
	p.readLimits(in.Snapshot)
	p.started = map[cluster.PoolPath]int32{}
	p.settle(in.Now, &out)
	p.revoke(in.KeepAll, &out)
	p.dirty = p.labels.changes() || p.dirty // who has room held may start, and others beside him
	again := false
	if p.dirty && len(p.order)+len(p.held) > 0 || p.moved && (p.yielded || p.letsIn(&in)) {
		again = p.plan(in, &out, lap)
	}
	if !in.KeepAll && len(p.started) > 0 && slices.ContainsFunc(p.order, p.mayStop) {
		p.changed = true
		p.alarm(in.Now.Add(secondLook))
	}
	out.Pools = p.status
	p.dirty = again
	p.dropEmpty()
	p.dropGroups()
	p.alarm(p.ripening.Next())
	p.expire()
	out.WakeAt, out.Patient = p.wakeAt, p.patient || p.ripening.Len() > 0
	p.describe(&out, before)
	lap.end(&out.Stats, Graph)
	return out
}

func (p *Planner) describe(out *Output, before flowgraph.Stats) {
	s := &out.Stats
	for _, c := range p.order {
		s.Classes++
		s.Waiting += c.queue.Len()
		s.Cost += int64(c.queue.Len()) * int64(c.price)
	}
	for i := range out.Placements {
		s.Cost += int64(out.Placements[i].Price)
	}
	after := p.graph.net.Stats()
	s.Nodes, s.Arcs = p.graph.net.NumNodes(), p.graph.net.NumArcs()
	s.NodesTouched = after.NodesAdded + after.NodesRemoved + after.SuppliesChanged -
		before.NodesAdded - before.NodesRemoved - before.SuppliesChanged
	s.ArcsTouched = after.ArcsAdded + after.ArcsRemoved + after.CostsChanged + after.BoundsChanged -
		before.ArcsAdded - before.ArcsRemoved - before.CostsChanged - before.BoundsChanged
}

// laps adds the time since the last call to a phase.
type laps struct {
	clock func() time.Duration
	last  time.Duration
}

func newLaps(clock func() time.Duration) *laps {
	if clock == nil {
		clock = func() time.Duration { return 0 }
	}
	return &laps{clock, clock()}
}

func (l *laps) end(s *Stats, p Phase) {
	now := l.clock()
	s.Durations[p] += now - l.last
	l.last = now
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/solver"
)

// CycleBench measures whole cycles, from events to durable placements: in each, a part of the running tasks ends and as
// many new ones are submitted, both through the journal, and a plan is made of it and becomes durable.
type CycleBench struct {
	Hosts       int     `json:"hosts"`       // of 16 cores and 64 GiB, 40 to a rack
	Tasks       int     `json:"tasks"`       // running and waiting
	Classes     int     `json:"classes"`     // different requests among them
	Utilisation float64 `json:"utilisation"` // part of the cores that all tasks ask for; above 1 some wait
	Churn       float64 `json:"churn"`       // part of the tasks that ends and is submitted in each cycle
	Cycles      int     `json:"cycles"`      // measured; the ones that fill the cluster come before
	Cold        bool    `json:"cold"`        // the planner that is measured fills the cluster, too, in one plan; else one without a flow does, which is faster
	Apart       int     `json:"apart"`       // tasks of a job, of which no two may share a host; 0: jobs of up to 100 tasks that may
	Pools       int     `json:"pools"`       // that divide the cluster, each cycle's jobs in one of them, and any task may be preempted; 0: all in the root
	Preferences int     `json:"preferences"` // hosts, drawn for each task after the filling, that hold a GB it reads; 0: it reads nothing
	Seed        uint64  `json:"seed"`

	Model     costmodels.Model     `json:"-"`
	NewSolver func() solver.Solver `json:"-"` // nil plans without a flow, see cycle.New
	Watch     cycle.Watch          `json:"-"` // over the model, as in the server; may be nil
	Journal   journal.Journal      `json:"-"` // empty; the caller closes it
	Stopwatch func() time.Duration `json:"-"`
	Memory    func() MemoryCounts  `json:"-"` // so far; nil counts nothing
	Rest      func() time.Duration `json:"-"` // called between cycles, in time that is not measured; returns for how long it has collected garbage; may be nil
	Progress  func(done int)       `json:"-"` // called after every cycle; may be nil
}

// MemoryCounts say what the process has done about memory since it began.
type MemoryCounts struct{ Allocations, Collections uint64 }

// CycleReport is what a CycleBench measured. Latencies are in wall milliseconds, by phase: "events" is taking in what
// happened, then those of cycle.Phase, meanwhile it becomes durable, "commit" makes the placements durable, "total" is all; "idle" is
// the cycle after it, which takes in that the plan was carried out.
type CycleReport struct {
	CycleBench
	Latency             map[string]Quantiles `json:"latency_ms"`
	FirstPlan           float64              `json:"first_plan_ms,omitempty"` // of a cold cluster, with all that happened before it
	Allocations         Quantiles            `json:"allocations"`             // in a cycle
	Collections         uint64               `json:"collections"`             // of garbage, that ended during cycles
	Rests               Quantiles            `json:"collections_ms"`          // wall time of those between cycles
	ArcsTouched         Quantiles            `json:"arcs_touched"`
	ArcsPerChange       float64              `json:"arcs_per_change"` // touched, for each task that was submitted or ended
	Solves              Quantiles            `json:"solves"`
	Placements          int64                `json:"placements"`
	Displaced           int64                `json:"displaced"`     // tasks that were asked to leave
	Preferred           float64              `json:"preferred"`     // part of them on a host with the input
	MeanPrice           float64              `json:"mean_price"`    // of a placement, in milliseconds of expected delay
	CostPerTask         float64              `json:"cost_per_task"` // of the plans, for each task placed or waiting; see cycle.Stats
	Waiting             int                  `json:"waiting"`       // tasks, after the last cycle
	PlacementsPerSecond float64              `json:"placements_per_second"`
}

const (
	benchCPU    = 16_000
	benchMemory = 64 << 30

	maxBenchPools = 10_000
)

// Validate reports what Run would refuse before it begins.
func (b *CycleBench) Validate() error {
	for _, n := range []struct {
		name    string
		n, most int
	}{{"hosts", b.Hosts, 1_000_000}, {"tasks", b.Tasks, 100_000_000}, {"classes", b.Classes, math.MaxInt}, {"cycles", b.Cycles, math.MaxInt}} {
		if n.n <= 0 {
			return fmt.Errorf("sim: %s is %d, it must be above 0", n.name, n.n)
		}
		if n.n > n.most {
			return fmt.Errorf("sim: %s is %d, it must be at most %d", n.name, n.n, n.most)
		}
	}
	switch {
	case b.Preferences < 0 || b.Preferences > b.Hosts:
		return fmt.Errorf("sim: preferences is %d, it must be 0 to the number of hosts, %d", b.Preferences, b.Hosts)
	case b.Apart < 0 || b.Apart > b.Hosts:
		return fmt.Errorf("sim: apart is %d, it must be 0 to the number of hosts, %d", b.Apart, b.Hosts)
	case b.Pools < 0 || b.Pools > maxBenchPools:
		return fmt.Errorf("sim: pools is %d, it must be 0 to %d", b.Pools, maxBenchPools)
	case b.Classes > b.Tasks:
		return fmt.Errorf("sim: classes is %d, it must not be above the number of tasks, %d", b.Classes, b.Tasks)
	case !(b.Utilisation > 0 && b.Utilisation <= 10):
		return fmt.Errorf("sim: utilisation is %v, it must be above 0 and up to 10", b.Utilisation)
	case !(b.Churn > 0 && b.Churn <= 1):
		return fmt.Errorf("sim: churn is %v, it must be above 0 and up to 1", b.Churn)
	case int64(b.Hosts)*benchCPU*int64(100*b.Utilisation)/100 < int64(b.Tasks):
		return errors.New("sim: more tasks than thousandths of cores: take more hosts or fewer tasks")
	}
	return nil
}

// cycleRun is a CycleBench in progress.
type cycleRun struct {
	*CycleBench
	state   *cluster.State
	planner *cycle.Supervisor
	random  *rand.Rand
	now     cluster.Time
	filled  bool
	jobs    int
	pool    int             // of the jobs that are submitted next, if there are pools
	running []cluster.RunID // that have begun and not ended

	phases               map[string]*histogram
	allocs, arcs, solves histogram
	rests                histogram // that were used to collect garbage
	collected            uint64
	touched, changed     int64 // arcs, tasks
	placed, preferred    int64
	displaced            int64
	price, cost, asked   int64 // of placements, of plans; tasks placed or waiting
	waiting              int
	spent                time.Duration
}

// Run fills the cluster, then measures. Complexity: it is what is measured.
func (b *CycleBench) Run(ctx context.Context) (*CycleReport, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	if b.Memory == nil {
		b.Memory = func() MemoryCounts { return MemoryCounts{} }
	}
	r := &cycleRun{
		CycleBench: b, state: cluster.NewState(), planner: cycle.New(b.Model, nil), // fills fast
		random: rand.New(rand.NewPCG(b.Seed, 1)), now: begin, phases: map[string]*histogram{},
	}
	measured := cycle.New(b.Model, b.NewSolver)
	measured.Watch(b.Watch)
	if b.Cold {
		r.planner = measured
	}
	if err := r.fill(); err != nil {
		return nil, err
	}
	first := r.phases["total"].quantiles(milliseconds).Max
	churn := max(1, int(b.Churn*float64(b.Tasks)))
	r.planner, r.filled = measured, true
	for range 2 { // the first one reads everything
		if err := r.cycle(min(churn, len(r.running)), churn); err != nil {
			return nil, err
		}
	}
	r.phases, r.allocs, r.arcs, r.solves = map[string]*histogram{}, histogram{}, histogram{}, histogram{}
	r.rests, r.collected = histogram{}, 0
	r.touched, r.changed, r.placed, r.spent = 0, 0, 0, 0
	r.preferred, r.displaced, r.price, r.cost, r.asked = 0, 0, 0, 0, 0
	for done := range b.Cycles {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.cycle(min(churn, len(r.running)), churn); err != nil {
			return nil, err
		}
		if b.Progress != nil {
			b.Progress(done + 1)
		}
	}
	report := r.report()
	if b.Cold {
		report.FirstPlan = first
	}
	return report, nil
}

// fill submits the hosts, the pools and the tasks, and plans until everything is placed that fits.
func (r *cycleRun) fill() error {
	err := r.commit(func(tx *rules.Tx) error {
		err := tx.Emit(&cluster.ClusterCreated{ID: "bench"})
		for i := 0; i < r.Hosts && err == nil; i++ {
			err = tx.Emit(&cluster.HostReported{ID: benchHost(i), Machine: cluster.Machine{
				Rack:     fmt.Sprintf("r%04d", i/40),
				Capacity: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: benchCPU, cluster.Memory: benchMemory}),
			}})
		}
		for i := 0; i < r.Pools && err == nil; i++ {
			err = tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: benchPool(i), Resources: []cluster.PoolResource{
				{Dimension: cluster.CPU.String(), Limit: cluster.NoLimit, Share: uint32(1 + i%3)},
				{Dimension: cluster.Memory.String(), Limit: cluster.NoLimit, Share: uint32(1 + i/3%3)},
			}}})
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.cycle(0, r.Tasks)
}

// cycle ends that many runs and submits that many tasks, plans, and makes the plan durable.
func (r *cycleRun) cycle(ends, starts int) error {
	r.now = r.now.Add(time.Second)
	memory, begun := r.Memory(), r.Stopwatch()
	records, err := r.apply(func(tx *rules.Tx) error { return r.happen(tx, ends, starts) })
	if err != nil {
		return err
	}
	snapshot, changes := r.state.Snapshot()
	durable := make(chan error, 1) // as in the server, a plan may be made meanwhile, and becomes durable after
	go func() { durable <- r.Journal.Append(records) }()
	taken := r.Stopwatch()
	out := r.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: r.now, Stopwatch: r.Stopwatch})
	planned := r.Stopwatch()
	if err := <-durable; err != nil {
		return err
	}
	if err := r.carryOut(&out); err != nil {
		return err
	}
	end := r.Stopwatch()
	r.add("events", taken-begun)
	for p := range cycle.NumPhases {
		r.add(p.String(), out.Stats.Durations[p])
	}
	r.add("commit", end-planned)
	r.add("total", end-begun)
	r.spent += end - begun
	after := r.Memory()
	r.allocs.add(int64(after.Allocations - memory.Allocations))
	r.collected += after.Collections - memory.Collections
	r.arcs.add(out.Stats.ArcsTouched)
	r.solves.add(int64(out.Stats.Solves))
	r.touched += out.Stats.ArcsTouched
	r.changed += int64(ends + starts)
	r.count(&out)
	if err := r.follow(&out); err != nil {
		return err
	}
	if r.Rest != nil {
		if d := r.Rest(); d > 0 {
			r.rests.add(int64(d))
		}
	}
	return nil
}

// carryOut makes a plan durable that nothing came between.
func (r *cycleRun) carryOut(out *cycle.Output) error {
	refused, steps := 0, out.Steps()
	if len(steps) == 0 {
		return nil
	}
	if err := r.commit(func(tx *rules.Tx) error {
		refused = rules.Commit(tx, steps, func([]cluster.Event, error) {})
		return nil
	}); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("sim: the state refused %d placements of a plan that nothing came between", refused)
	}
	return nil
}

// count adds up what a plan is worth.
func (r *cycleRun) count(out *cycle.Output) {
	r.placed += int64(len(out.Placements))
	r.displaced += int64(out.Stats.Preemptions + out.Stats.Migrations)
	r.cost += out.Stats.Cost
	r.asked += int64(len(out.Placements) + out.Stats.Waiting)
	for i := range out.Placements {
		p := &out.Placements[i]
		r.price += int64(p.Price)
		if r.reads(p.Task, p.Host) {
			r.preferred++
		}
	}
	r.waiting = out.Stats.Waiting
}

// follow has what was placed run, those leave who were asked to, and the planner take in what became of its plan, as the server does: a
// cycle of its own, for which nobody waits. If it places something in turn, that follows too.
func (r *cycleRun) follow(out *cycle.Output) error {
	for {
		if err := r.leave(out); err != nil || len(out.Placements) == 0 {
			return err
		}
		if err := r.launched(out.Placements); err != nil {
			return err
		}
		begun := r.Stopwatch()
		snapshot, changes := r.state.Snapshot()
		next := r.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: r.now})
		if err := r.carryOut(&next); err != nil {
			return err
		}
		took := r.Stopwatch() - begun
		r.add("idle", took)
		r.spent += took
		if out = &next; len(out.Placements)+len(out.Displacements) > 0 {
			r.count(out)
		}
	}
}

// leave ends the runs that the plan asks to leave, which is not measured.
func (r *cycleRun) leave(out *cycle.Output) error {
	leaves := map[cluster.RunID]bool{}
	var runs []cluster.RunID
	for i := range out.Displacements {
		for _, v := range out.Displacements[i].Victims {
			run := cluster.RunID{Task: v.Task, Run: v.Run}
			leaves[run], runs = true, append(runs, run)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	r.running = slices.DeleteFunc(r.running, func(run cluster.RunID) bool { return leaves[run] })
	return r.commit(func(tx *rules.Tx) error { return reportAll(tx, runs, cluster.TaskKilled) })
}

func (r *cycleRun) add(phase string, d time.Duration) {
	if r.phases[phase] == nil {
		r.phases[phase] = &histogram{}
	}
	r.phases[phase].add(int64(d))
}

// happen ends random runs, and submits jobs of the classes in turn.
func (r *cycleRun) happen(tx *rules.Tx, ends, starts int) error {
	ended := make([]cluster.RunID, 0, ends)
	for range ends {
		i := r.random.IntN(len(r.running))
		ended = append(ended, r.running[i])
		r.running[i] = r.running[len(r.running)-1]
		r.running = r.running[:len(r.running)-1]
	}
	if err := reportAll(tx, ended, cluster.TaskSucceeded); err != nil {
		return err
	}
	if r.Pools > 0 {
		r.pool = r.random.IntN(r.Pools)
	}
	var jobs []cluster.NewJob
	perJob := max(1, min(100, starts/r.Classes))
	if r.Apart > 0 {
		perJob = r.Apart
	}
	for starts > 0 {
		n := min(perJob, starts)
		starts -= n
		jobs = append(jobs, cluster.NewJob{UID: tx.State().NextJob() + cluster.JobUID(len(jobs)), Spec: r.spec(n)})
		r.jobs++
	}
	return tx.Emit(&cluster.JobsSubmitted{Jobs: jobs})
}

// reportAll reports the same of many runs. It reads ahead, as the server does for commands that wait together.
func reportAll(tx *rules.Tx, runs []cluster.RunID, state cluster.TaskState) error {
	for _, run := range rules.ReadingAhead(tx, runs, func(r *cluster.RunID) cluster.TaskKey { return r.Task }) {
		if _, err := rules.Report(tx, benchShard, &cluster.TaskStatus{Task: run.Task, Run: run.Run, State: state}); err != nil {
			return err
		}
	}
	return nil
}

// reads reports whether the host has what the task reads.
func (r *cycleRun) reads(k cluster.TaskKey, host cluster.HostID) bool {
	for _, in := range r.state.Job(k.Job()).Spec.Inputs {
		if in.First == k.Instance() {
			return slices.Contains(in.Hosts, host)
		}
	}
	return false
}

// prefer gives every instance a GB to read that so many hosts hold.
func (r *cycleRun) prefer(instances int) []cluster.Input {
	if r.Preferences == 0 || !r.filled {
		return nil
	}
	inputs := make([]cluster.Input, instances)
	for i := range inputs {
		in := &inputs[i]
		*in = cluster.Input{Name: fmt.Sprint("part-", i), Bytes: 1_000_000_000, First: uint32(i), Last: uint32(i)}
		for len(in.Hosts) < r.Preferences {
			if h := benchHost(r.random.IntN(r.Hosts)); !slices.Contains(in.Hosts, h) {
				in.Hosts = append(in.Hosts, h)
			}
		}
	}
	return inputs
}

const benchShard = cluster.ShardID("bench")

func benchPool(i int) cluster.PoolPath {
	return cluster.RootPool + cluster.PoolPath(fmt.Sprintf("/p%04d", i))
}

func benchHost(i int) cluster.HostID { return cluster.MakeHostID(benchShard, fmt.Sprintf("h%05d", i)) }

// spec makes a job of the next class. Requests lie around the mean that fills the cluster to the utilisation.
func (r *cycleRun) spec(instances int) *cluster.JobSpec {
	mean := int64(float64(r.Hosts) * benchCPU * r.Utilisation / float64(r.Tasks))
	class := int64(r.jobs % r.Classes)
	cpu := max(1, mean)
	if r.Classes > 1 {
		cpu = max(1, mean/2+mean*class/int64(r.Classes-1))
	}
	spec := &cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprintf("bench-%d", r.jobs)), Pool: cluster.RootPool, Instances: uint32(instances),
		Inputs: r.prefer(instances),
		Task: cluster.TaskSpec{
			Resources: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: min(benchMemory, cpu*(1+class%4)<<20)}),
			Processes: []cluster.Process{{Command: []string{"true"}}},
		},
	}
	if r.Pools > 0 {
		if spec.Preemptible = true; !r.filled {
			r.pool = r.jobs % r.Pools
		}
		spec.Pool = benchPool(r.pool)
	}
	if r.Apart > 0 {
		spec.Spread = []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}}
	}
	return spec
}

// launched reports the placed runs as running, which is not measured.
func (r *cycleRun) launched(placements []cycle.Placement) error {
	before := len(r.running)
	for _, p := range placements {
		r.running = append(r.running, cluster.RunID{Task: p.Task, Run: p.Run})
	}
	return r.commit(func(tx *rules.Tx) error { return reportAll(tx, r.running[before:], cluster.TaskRunning) })
}

// apply applies what fn emits, and returns the records, which are not durable yet.
func (r *cycleRun) apply(fn func(*rules.Tx) error) ([]cluster.Record, error) {
	tx := rules.Begin(r.state, r.now)
	err := fn(tx)
	return tx.Records(), err
}

// commit makes durable what fn emits.
func (r *cycleRun) commit(fn func(*rules.Tx) error) error {
	records, err := r.apply(fn)
	if err != nil {
		return err
	}
	return r.Journal.Append(records)
}

func (r *cycleRun) report() *CycleReport {
	out := &CycleReport{
		CycleBench: *r.CycleBench, Latency: map[string]Quantiles{},
		Allocations: r.allocs.quantiles(1), ArcsTouched: r.arcs.quantiles(1), Solves: r.solves.quantiles(1), Placements: r.placed, Displaced: r.displaced, Waiting: r.waiting,
		Collections: r.collected, Rests: r.rests.quantiles(milliseconds),
	}
	out.ArcsPerChange = per(r.touched, r.changed)
	for name, h := range r.phases {
		out.Latency[name] = h.quantiles(milliseconds)
	}
	out.Preferred, out.MeanPrice = per(r.preferred, r.placed), per(r.price, r.placed)
	out.CostPerTask = per(r.cost, r.asked)
	if r.spent > 0 {
		out.PlacementsPerSecond = float64(r.placed) / r.spent.Seconds()
	}
	return out
}

// per returns a / b, 0 where there is nothing to divide by.
func per(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/verify"
	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/compose"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// Whatever tasks ask for besides, no plan breaks a rule, and the state takes all of it: ports, models of GPUs, rules about places, gangs,
// services, revocable tasks and preemption, while machines come back with other devices.
func TestMixedClustersBreakNoRule(t *testing.T) {
	first, last := seeds(40, 200, 20_000)
	all := []uint64{first}
	if first < last {
		all = []uint64{423} // the core of a gang is asked to leave, of which others wait that were not let in before
		for seed := first; seed <= last; seed++ {
			all = append(all, seed)
		}
	}
	var seen tally
	for _, seed := range all {
		l := newLife(t, seed, true)
		l.planner.Shorten()
		for range 40 {
			l.live()
			l.planner.CheckRowsOfClasses(t)
		}
		seen.add(l.seen)
	}
	t.Logf("%+v", seen)
	require.True(t, first == last || seen.victims > 0 && seen.moves > 0 && seen.gangs > 0 && seen.revoked > 0)
}

// Random clusters live under random trees of pools, and every plan is held to the laws. A run goes on until it has seen
// enough cycles that stop somebody, and enough of those with gangs; SLUICE_SEED replays one cluster.
func TestLawsOfPreemption(t *testing.T) {
	preempting, gangs := 400, 40
	switch {
	case os.Getenv("SLUICE_LONG") != "":
		preempting, gangs = 20_000, 2_000
	case testing.Short():
		preempting, gangs = 150, 15
	}
	first, last := seeds(1<<40, 1<<40, 1<<40)
	var seen tally
	try := func(seed uint64) {
		l := newLife(t, seed, false)
		for range 60 {
			l.live()
			seen.counted += l.planner.CheckTallies(t)
			seen.kept += l.planner.CheckOutlooks(t)
			seen.asked += l.planner.CheckGivings(t)
		}
		l.calm()
		seen.add(l.seen)
	}
	if first < last {
		try(8454)           // who leaves for a limit lets those stay whom an earlier pass of the plan asked to leave
		try(14184833086771) // which GPUs a user claims next is the same whoever of his runs, or two tasks leave for each other for ever
	}
	for seed := first; seed <= last && (seen.preempting < preempting || seen.gangs < gangs); seed++ {
		try(seed)
	}
	t.Logf("%+v", seen)
	if first == last {
		return // one cluster need not see everything
	}
	require.NotZero(t, seen.counted)
	require.NotZero(t, seen.kept)
	require.NotZero(t, seen.asked)
	require.NotZero(t, seen.victims)
	require.NotZero(t, seen.swaps)
	require.NotZero(t, seen.lent)
	require.NotZero(t, seen.revoked)
	require.NotZero(t, seen.jobs)
	require.NotZero(t, seen.users)
}

// TestRoomCostsItsFloorAtLeast: on no host those leave for less than what it was said to cost there at least, by which hosts are looked at.
func TestRoomCostsItsFloorAtLeast(t *testing.T) {
	first, last := seeds(12, 12, 2_000)
	leave, gangs, moves := 0, 0, 0
	for seed := first; seed <= last; seed++ {
		l := newLife(t, seed, false)
		for range 60 {
			l.live()
			l.demand()
			snapshot, _ := l.state.Fork().Snapshot()
			planner := l.planner.Twin()
			planner.Run(cycle.Input{Snapshot: snapshot, Rescan: true, Now: l.now, KeepAll: true})
			some, whole, move := planner.CheckFloors(t)
			leave, gangs, moves = leave+some, gangs+whole, moves+move
		}
	}
	t.Logf("%d leave, of %d gangs; %d move to one of few hosts", leave, gangs, moves)
	require.True(t, first == last || leave > 0 && gangs > 0 && moves > 0)
}

// seeds returns the first and the last seed of a test: up to short in a short run, long with SLUICE_LONG, and usual in others; or that of
// SLUICE_SEED alone.
func seeds(short, usual, long uint64) (first, last uint64) {
	if seed, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		return seed, seed
	}
	switch {
	case os.Getenv("SLUICE_LONG") != "":
		return 1, long
	case testing.Short():
		return 1, short
	}
	return 1, usual
}

// tally counts what a run has seen.
type tally struct {
	clusters, cycles, preempting, gangs, victims, moves, holds, inside, between, lent, revoked, counted, kept, asked int

	swaps       int // of moves: by the flow, for others with data there
	jobs, users int // of inside: stopped for a job or user below its share
}

func (a *tally) add(b tally) {
	a.clusters++
	a.cycles += b.cycles
	a.preempting += b.preempting
	a.gangs += b.gangs
	a.victims += b.victims
	a.moves += b.moves
	a.swaps += b.swaps
	a.holds += b.holds
	a.inside += b.inside
	a.between += b.between
	a.lent += b.lent
	a.revoked += b.revoked
	a.jobs += b.jobs
	a.users += b.users
}

// life is a random cluster that lives on. What happens to it is drawn from its seed.
type life struct {
	*shared
	r        *rand.Rand
	seed     uint64
	seen     tally
	leaves   []cluster.PoolPath
	hosts    int
	machines []cluster.Machine // as they were at first, by number
	fair     bool              // few leaves, all of which divide among jobs or users, and small tasks, most of them equally urgent
	moving   bool              // by a model that moves running tasks for others
	mix      *rand.Rand        // of ports, models of GPUs, and rules about places; nil: none
	harsh    *rand.Rand        // of what goes wrong with plans, hosts and jobs; nil: nothing
	twin     *cycle.Supervisor // plans the same, and forgets before each plan what another one need not find out again; nil: none
}

func newLife(t *testing.T, seed uint64, mixed bool) *life {
	l := &life{r: rand.New(rand.NewPCG(seed, 6)), seed: seed}
	if mixed {
		l.mix = rand.New(rand.NewPCG(seed, 7))
	}
	l.fair = l.chance(3)
	if l.moving = l.chance(2); l.moving {
		l.shared = newMoving(t, compose.Sum{{Model: quincy.Model{Theta: flowgraph.Cost(1 + l.r.IntN(1000))}, Weight: compose.One}, {Model: loadspread.Model{}, Weight: compose.One}})
	} else {
		l.shared = newShared(t)
	}
	total := cluster.Resources{}
	l.hosts = 1 + l.r.IntN(8)
	for i := range l.hosts {
		m := cluster.Machine{Capacity: vector(int64(2+l.r.IntN(9)), int64(4+l.r.IntN(12)))}
		if l.chance(3) {
			for range 1 + l.r.IntN(4) {
				m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: "A"})
			}
			m.Capacity.Fixed[cluster.GPU] = int64(len(m.GPUs)) * cluster.WholeGPU
		}
		total = total.Add(m.Capacity)
		l.machines = append(l.machines, m)
		l.machine(i, l.mixed(m))
	}
	l.grow(cluster.RootPool, total, 0)
	return l
}

// mixed gives a machine a rack, ports, and GPUs of two models.
func (l *life) mixed(m cluster.Machine) cluster.Machine {
	if l.mix == nil {
		return m
	}
	m.Rack = fmt.Sprint("r", l.mix.IntN(3))
	m.Capabilities, m.Ports = cluster.CanPorts, []cluster.PortRange{{First: 100, Last: uint16(100 + l.mix.IntN(4))}}
	m.GPUs = slices.Clone(m.GPUs)
	for i := range m.GPUs {
		m.GPUs[i].Model = []string{"A", "B"}[l.mix.IntN(2)]
	}
	return m
}

// rule gives a job something of what the other worlds lack.
func (l *life) rule(s *cluster.JobSpec) {
	if l.mix == nil {
		return
	}
	labeled("app", []string{"x", "y"}[l.mix.IntN(2)])(s)
	app, domain := []string{"x", "y"}[l.mix.IntN(2)], []string{"host", "rack"}[l.mix.IntN(2)]
	switch l.mix.IntN(8) {
	case 7:
		s.Spread = append(s.Spread, cluster.Spread{Domain: domain, MaxSkew: 1 + uint32(l.mix.IntN(2))})
	case 0:
		ports(0, uint16(100+l.mix.IntN(3)))(s)
	case 1:
		ports(1 + uint16(l.mix.IntN(2)))(s)
	case 2:
		must(host("rack", fmt.Sprint("r", l.mix.IntN(3))))(s)
	case 3:
		atMost(uint32(1+l.mix.IntN(2)), domain)(s)
	case 4:
		must(tasks(app, cluster.Comparison(l.mix.IntN(3)), uint32(l.mix.IntN(3)), domain))(s)
	case 5:
		s.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r1"), Soft: cluster.Soft{Penalty: time.Second, Timeout: 3 * time.Second}}}
	}
	if !s.Task.GPU.IsZero() && l.mix.IntN(2) == 0 {
		s.Task.GPU.Models = []string{[]string{"A", "B"}[l.mix.IntN(2)]}
	}
}

func (l *life) chance(n int) bool { return l.r.IntN(n) == 0 }

// grow adds random children to a pool, which divide what it reserves.
func (l *life) grow(above cluster.PoolPath, reserved cluster.Resources, depth int) {
	children := 2 + l.r.IntN(3)
	if l.fair {
		children, depth = 1+l.r.IntN(2), 2
	}
	for i := range children {
		p := cluster.Pool{
			Path: above + cluster.PoolPath(fmt.Sprintf("/p%d", i)), Order: cluster.PoolOrder(l.r.IntN(3)), Division: cluster.Division(l.r.IntN(2)),
			Preemption: []string{"", "", "default", "conservative", "none"}[l.r.IntN(5)],
		}
		if l.fair {
			p.Order, p.Preemption = cluster.FairJobs+cluster.PoolOrder(l.r.IntN(2)), ""
		}
		part := cluster.Resources{}
		for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory, cluster.GPU} {
			if l.chance(4) {
				continue // nothing set
			}
			own := cluster.PoolResource{Dimension: d.String(), Limit: cluster.NoLimit, Share: uint32(l.r.IntN(4)), Static: l.chance(8)}
			if own.Reservation = l.r.Int64N(reserved.Fixed[d]/2 + 1); l.chance(2) {
				own.Reservation = 0
			}
			if l.chance(5) {
				own.Limit = own.Reservation + l.r.Int64N(reserved.Fixed[d]+1)
			}
			part.Fixed[d] = own.Reservation
			reserved.Fixed[d] -= own.Reservation
			p.Resources = append(p.Resources, own)
		}
		if l.chance(6) {
			n := uint32(1 + l.r.IntN(3))
			p.Limits.RunningJobs = &n
		}
		slices.SortFunc(p.Resources, func(a, b cluster.PoolResource) int { return slices.Compare([]byte(a.Dimension), []byte(b.Dimension)) })
		if l.chance(6) {
			n := uint32(l.r.IntN(3))
			p.Limits.PreemptedPerCycle = &n
		}
		l.emit(&cluster.PoolPut{Pool: p})
		if depth < 2 && l.chance(3) {
			l.grow(p.Path, part, depth+1)
		} else {
			l.leaves = append(l.leaves, p.Path)
		}
	}
}

// live lets something happen, and plans.
func (l *life) live() {
	for range l.r.IntN(4) {
		switch l.r.IntN(11) {
		case 0, 1, 2, 3:
			l.demand()
		case 4, 5:
			l.finish()
		case 6, 7:
			l.depart()
		case 8:
			l.trouble()
			l.measure()
		case 9:
			l.now = l.now.Add(time.Duration(l.r.IntN(90)) * time.Second)
		case 10:
			l.interrupt()
		}
	}
	l.cycle()
}

func (l *life) demand() {
	leaf := l.leaves[l.r.IntN(len(l.leaves))]
	n := uint32(1 + l.r.IntN(8))
	l.job(leaf, n, int64(1+l.r.IntN(4)), func(s *cluster.JobSpec) {
		s.Owner = fmt.Sprint("user", l.r.IntN(3))
		s.Priority = int32(l.r.IntN(4))
		s.Preemptible = !l.chance(5)
		s.Task.Resources.Fixed[cluster.Memory] = l.r.Int64N(5)
		if l.fair {
			s.Priority /= 3
			s.Task.Resources = vector(1, l.r.Int64N(2))
		}
		switch {
		case l.chance(6):
			s.Task.GPU = cluster.GPURequest{Count: int32(1 + l.r.IntN(2))}
		case l.chance(8):
			s.Task.GPU = cluster.GPURequest{Milli: 400}
		}
		s.Task.Resources.Fixed[cluster.GPU] = s.Task.GPU.Amount()
		s.Preemption.Kill = l.chance(6)
		if l.moving && l.chance(2) {
			for i := range n {
				s.Inputs = append(s.Inputs, cluster.Input{
					Bytes: 1 + l.r.Int64N(1<<34), First: i, Last: i,
					Hosts: []cluster.HostID{cluster.MakeHostID("s", fmt.Sprintf("h%05d", l.r.IntN(l.hosts)))},
				})
			}
		}
		switch {
		case l.chance(8):
			s.Type, s.Limits.MaxUnavailable = cluster.Stateless, uint32(1+l.r.IntN(2))
		case l.chance(12):
			s.Type = cluster.Stateful
		case n > 1 && l.chance(3):
			s.Gang = &cluster.Gang{Minimum: 2 + uint32(l.r.IntN(int(n-1)))}
		}
		if l.chance(8) {
			s.Limits.MaxRunning = 1 + uint32(l.r.IntN(int(n)))
			s.Gang = nil
		}
		if l.chance(6) {
			s.Limits.MaxPreempted = 1 + uint32(l.r.IntN(3))
		}
		if s.Revocable = l.chance(4); s.Revocable {
			s.Type, s.Task.GPU, s.Task.Resources.Fixed[cluster.GPU] = cluster.Batch, cluster.GPURequest{}, 0
		}
		if l.harsh != nil && s.Type == cluster.Batch && s.Gang == nil {
			s.Speculation = &cluster.Speculation{}
		}
		l.rule(s)
		if l.harsh != nil {
			s.Labels = append(s.Labels, cluster.KeyValue{Key: cluster.WorkLabel, Value: l.work()})
		}
	})
}

// work draws a kind of work.
func (l *life) work() string { return []string{"turtle", "sheep", "devil"}[l.harsh.IntN(3)] }

// measure has the tasks of some hosts use more or less than before of what they hold.
func (l *life) measure() {
	for i := range l.hosts {
		id := cluster.MakeHostID("s", fmt.Sprintf("h%05d", i))
		if l.chance(2) || l.state.Host(id) == nil {
			continue
		}
		slack := cluster.Resources{}
		for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} {
			slack.Fixed[d] = l.r.Int64N(max(0, l.state.Host(id).Allocated.Fixed[d]) + 1)
		}
		l.emit(&cluster.SlackMeasured{Host: id, Slack: slack})
	}
}

// TestWhatIsKeptChangesNoPlan: a planner that has forgotten what hosts could have left plans the same as one that has not, also where plans
// are not carried out in full, hosts go and come back, jobs are updated, tasks have copies, and somebody asks why tasks wait.
func TestWhatIsKeptChangesNoPlan(t *testing.T) {
	first, last := seeds(16, 30, 5_000)
	var seen tally
	for seed := first; seed <= last; seed++ {
		l := newLife(t, seed, seed%2 == 0)
		l.harsh = rand.New(rand.NewPCG(seed, 8))
		if l.harsh.IntN(3) == 0 { // by a model to which company matters
			l.planner = cycle.New(coco.Model{}, func() solver.Solver { return netsimplex.New() })
		}
		l.twin = l.planner.Twin()
		for range 60 {
			l.disrupt()
			l.live()
			seen.kept += l.planner.CheckOutlooks(t)
			seen.asked += l.planner.CheckGivings(t)
			l.planner.CheckRowsOfClasses(t)
			for _, k := range l.in(cluster.TaskPending) {
				if l.harsh.IntN(8) == 0 {
					l.planner.WhyWaiting(k)
				}
			}
		}
		seen.add(l.seen)
	}
	t.Logf("%+v", seen)
	require.True(t, first == last || seen.kept > 0 && seen.victims > 0 && seen.gangs > 0 && seen.revoked > 0)
}

// disrupt has hosts go and come back, jobs get other specs, and tasks copies. What the state does not allow does not happen.
func (l *life) disrupt() {
	try := func(e cluster.Event) { _ = l.state.Apply(cluster.Record{Seq: l.state.Seq() + 1, At: l.now, Event: e}) }
	var jobs []*cluster.Job
	for j := range l.state.Jobs(0) {
		jobs = append(jobs, j)
	}
	for range l.harsh.IntN(3) {
		i := l.harsh.IntN(l.hosts)
		id := cluster.MakeHostID("s", fmt.Sprintf("h%05d", i))
		switch h, n := l.state.Host(id), l.harsh.IntN(8); {
		case h == nil:
			try(&cluster.HostReported{ID: id, Machine: l.mixed(l.machines[i])})
		case n < 1:
			for _, k := range h.Tasks {
				l.report(k, cluster.TaskKilled)
			}
			try(&cluster.HostRemoved{ID: id})
		case len(jobs) == 0:
		case n < 3:
			j := jobs[l.harsh.IntN(len(jobs))]
			spec := *j.Spec
			switch l.harsh.IntN(6) {
			case 0:
				spec.Priority = int32(l.harsh.IntN(4))
			case 1:
				spec.Preemptible = !spec.Preemptible
			case 2:
				if spec.Gang == nil {
					spec.Limits.MaxRunning = uint32(l.harsh.IntN(3))
				}
			case 3:
				if spec.Gang == nil {
					spec.Task.Resources.Fixed[cluster.CPU] = 1 + l.harsh.Int64N(4)
				}
			case 4:
				spec.Owner = fmt.Sprint("user", l.harsh.IntN(3))
			case 5:
				if spec.Gang == nil {
					spec.Labels = slices.Clone(spec.Labels)
					spec.Labels[len(spec.Labels)-1].Value = l.work()
				}
			}
			try(&cluster.JobUpdated{Job: j.UID, Spec: &spec, Update: &cluster.Update{From: j.Version}})
			for n := range j.Spec.Instances {
				if k := cluster.MakeTaskKey(j.UID, n); l.harsh.IntN(2) == 0 {
					try(&cluster.TaskUpdated{Task: k, Version: l.state.Job(j.UID).Version, InPlace: l.harsh.IntN(2) == 0})
				}
			}
		case n < 4:
			if running := l.in(cluster.TaskRunning); len(running) > 0 {
				k := running[l.harsh.IntN(len(running))]
				try(&cluster.CopyAdded{Task: k, Run: l.state.Task(k).Run})
			}
		case n < 5:
			if bound := l.in(cluster.TaskPlaced, cluster.TaskRunning, cluster.TaskPreempting); len(bound) > 0 {
				l.report(bound[l.harsh.IntN(len(bound))], []cluster.TaskState{cluster.TaskFailed, cluster.TaskLost}[l.harsh.IntN(2)])
			}
		case n < 6:
			try(&cluster.JobStopping{Job: jobs[l.harsh.IntN(len(jobs))].UID})
		case n < 7:
			try(l.redivide())
		}
	}
}

// redivide changes a pool.
func (l *life) redivide() *cluster.PoolPut {
	var paths []cluster.PoolPath
	for p := range l.state.Pools() {
		paths = append(paths, p.Path)
	}
	p := *l.state.Pool(paths[l.harsh.IntN(len(paths))])
	p.Resources = slices.Clone(p.Resources)
	for i := range p.Resources {
		r, below := &p.Resources[i], int64(0) // what its children reserve stays within it
		for _, path := range paths {
			for _, q := range l.state.Pool(path).Resources {
				if path.Parent() == p.Path && q.Dimension == r.Dimension {
					below += q.Reservation
				}
			}
		}
		switch l.harsh.IntN(4) {
		case 0:
			r.Share = uint32(l.harsh.IntN(4))
		case 1:
			r.Reservation -= l.harsh.Int64N(max(0, r.Reservation-below) + 1)
		case 2:
			r.Static = !r.Static && p.Path != cluster.RootPool
		case 3:
			if r.Limit = cluster.NoLimit; l.harsh.IntN(3) == 0 {
				r.Limit = max(r.Reservation, below) + l.harsh.Int64N(8)
			}
		}
	}
	p.Order, p.Division = cluster.PoolOrder(l.harsh.IntN(3)), cluster.Division(l.harsh.IntN(2))
	p.Preemption = []string{"", "default", "conservative", "none"}[l.harsh.IntN(4)]
	return &cluster.PoolPut{Pool: p}
}

// finish ends some running tasks.
func (l *life) finish() {
	for _, k := range l.in(cluster.TaskRunning) {
		if l.chance(4) {
			l.report(k, cluster.TaskSucceeded)
		}
	}
}

// interrupt has a running task, often of the core of a gang, end or begin again by its user's wish.
func (l *life) interrupt() {
	running := l.in(cluster.TaskRunning)
	if cores := slices.DeleteFunc(slices.Clone(running), func(k cluster.TaskKey) bool {
		return !l.state.Job(k.Job()).Spec.Core(k.Instance())
	}); len(cores) > 0 && l.chance(2) {
		running = cores
	}
	if len(running) == 0 {
		return
	}
	e := &cluster.TaskStopping{Task: running[l.r.IntN(len(running))], Reason: cluster.ReasonTaskStopped}
	if !l.chance(3) {
		e.Reason, e.Restart = cluster.ReasonTaskRestarted, true
	}
	l.emit(e)
}

// depart ends some of those who were asked to leave.
func (l *life) depart() {
	for _, k := range l.in(cluster.TaskPreempting, cluster.TaskKilling) {
		if !l.chance(3) {
			l.report(k, cluster.TaskKilled)
		}
	}
}

// trouble happens to a host.
func (l *life) trouble() {
	id := cluster.MakeHostID("s", fmt.Sprintf("h%05d", l.r.IntN(l.hosts)))
	h := l.state.Host(id)
	switch {
	case h == nil:
	case h.Unreachable:
		l.emit(&cluster.HostReported{ID: id, Machine: l.mixed(*h.Machine)})
	case h.Draining:
		l.emit(&cluster.HostDrain{ID: id})
	case l.chance(2):
		l.emit(&cluster.HostDrain{ID: id, Drain: true})
	default:
		l.emit(&cluster.HostUnreached{ID: id})
	}
}

// cycle plans, holds the plan to the laws, and carries it out.
func (l *life) cycle() cycle.Output {
	snapshot, changes := l.state.Snapshot()
	l.now = l.now.Add(time.Second)
	in := cycle.Input{Snapshot: snapshot, Changes: changes, Now: l.now}
	if l.harsh != nil {
		in.Rescan, in.KeepAll = l.harsh.IntN(40) == 0, l.harsh.IntN(20) == 0
		l.planner.CheckIngest(l.t, in)
	}
	out := l.planner.Run(in)
	options := cycle.DefaultOptions()
	replay := fmt.Sprintf("replay with SLUICE_SEED=%d, cycle %d", l.seed, l.seen.cycles)
	if !in.KeepAll { // or what is overdrawn stays so
		require.Empty(l.t, verify.Plan(snapshot, &out, l.now, options.Hysteresis), replay)
	}
	if l.twin != nil {
		l.twin.ForgetOutlooks()
		same, got := l.twin.Run(in), out
		same.Stats, got.Stats = cycle.Stats{}, cycle.Stats{} // whoever was asked why tasks wait has looked at more
		require.Equal(l.t, same, got, replay)
	}
	if l.harsh == nil && l.chance(6) { // nothing comes of it
		return out
	}
	l.count(&out)
	steps := out.Steps()
	if l.harsh != nil && l.harsh.IntN(3) == 0 {
		steps = slices.DeleteFunc(steps, func([]cluster.Event) bool { return l.harsh.IntN(2) == 0 })
	}
	tx := rules.Begin(l.state, l.now)
	refused := rules.Commit(tx, steps, func(step []cluster.Event, err error) {
		if l.harsh == nil {
			require.NoError(l.t, err, "%T: %s", step[0], replay)
		}
	})
	require.True(l.t, refused == 0 || l.harsh != nil)
	for _, p := range out.Placements {
		if (!l.chance(5) || p.Gang != 0) && l.state.Task(p.Task).State == cluster.TaskPlaced {
			l.report(p.Task, cluster.TaskRunning)
		}
	}
	return out
}

func (l *life) count(out *cycle.Output) {
	l.seen.cycles++
	for i := range out.Placements {
		if l.state.Job(out.Placements[i].Task.Job()).Spec.Revocable {
			l.seen.lent++
		}
	}
	stopped, gang := 0, false
	for i := range out.Displacements {
		l.seen.holds += len(out.Displacements[i].Holds)
		for _, v := range out.Displacements[i].Victims {
			if v.Hold != nil {
				l.seen.moves++
				if in := l.state.Job(v.Preemption.For.Job()).Spec.Inputs; l.moving && len(in) > 0 &&
					in[v.Preemption.For.Instance()].Hosts[0] == l.state.Task(v.Task).Host {
					l.seen.swaps++
				}
				continue
			}
			if v.Preemption.For == 0 {
				l.seen.revoked++
				continue
			}
			stopped++
			from, to := l.state.Job(v.Task.Job()).Spec, l.state.Job(v.Preemption.For.Job()).Spec
			gang = gang || from.Core(v.Task.Instance()) || to.Core(v.Preemption.For.Instance())
			switch order := l.state.Pool(from.Pool).Order; {
			case from.Pool != to.Pool:
				l.seen.between++
				continue
			case from.Priority < to.Priority || from.Revocable:
			case order == cluster.FairJobs:
				l.seen.jobs++
			case order == cluster.FairUsers:
				l.seen.users++
			}
			l.seen.inside++
		}
	}
	l.seen.victims += stopped
	if stopped > 0 {
		l.seen.preempting++
		if gang {
			l.seen.gangs++
		}
	}
}

// calm lets everything that is under way come to its end, with nothing new; after that nothing may move any more.
func (l *life) calm() {
	for id := range l.hosts {
		if h := l.state.Host(cluster.MakeHostID("s", fmt.Sprintf("h%05d", id))); h.Draining || h.Unreachable {
			l.emit(&cluster.HostDrain{ID: h.ID})
			l.emit(&cluster.HostReported{ID: h.ID, Machine: *h.Machine})
		}
	}
	moved := 0
	for range 200 {
		for _, k := range l.in(cluster.TaskPreempting, cluster.TaskKilling) {
			l.report(k, cluster.TaskKilled)
		}
		l.now = l.now.Add(40 * time.Second)
		out := l.cycle()
		if moved = len(out.Placements) + len(out.Ended) + out.Stats.Preemptions + out.Stats.Migrations; moved == 0 && len(l.in(cluster.TaskPreempting)) == 0 {
			break
		}
	}
	require.Zero(l.t, moved, "seed %d: the cluster does not come to rest", l.seed)
}

package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/verify"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// world is a State that a test drives, with a planner beside it.
type world struct {
	t       require.TestingT
	state   *cluster.State
	planner *cycle.Supervisor
	now     cluster.Time
	known   costmodels.Knowledge
}

func newWorld(t require.TestingT) *world { return newWorldWith(t, loadspread.Model{}) }

func newWorldWith(t require.TestingT, m costmodels.Model) *world {
	w := &world{t: t, state: cluster.NewState(), now: cluster.Time(time.Hour)}
	w.planner = cycle.New(m, func() solver.Solver { return netsimplex.New() })
	return w
}

func (w *world) emit(e cluster.Event) {
	require.NoError(w.t, w.state.Apply(cluster.Record{Seq: w.state.Seq() + 1, At: w.now, Event: e}))
}

func vector(cpu, memory int64) cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}}
}

func (w *world) host(i int, capacity cluster.Resources, attributes ...cluster.KeyValue) cluster.HostID {
	return w.machine(i, cluster.Machine{Capacity: capacity, Attributes: attributes})
}

func (w *world) machine(i int, m cluster.Machine) cluster.HostID {
	id := cluster.MakeHostID("s", fmt.Sprintf("h%05d", i))
	w.emit(&cluster.HostReported{ID: id, Machine: m})
	return id
}

func (w *world) submit(spec cluster.JobSpec) cluster.JobUID {
	uid := w.state.NextJob()
	spec.Name, spec.Pool = cluster.JobID(fmt.Sprintf("job-%d", uid)), cluster.RootPool
	w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &spec}}})
	return uid
}

// plan plans, and verifies the plan.
func (w *world) plan() cycle.Output {
	snapshot, changes := w.state.Snapshot()
	w.now = w.now.Add(time.Second)
	out := w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now, Knowledge: w.known})
	require.Empty(w.t, verify.Plan(snapshot, &out, w.now, cycle.DefaultOptions().Hysteresis))
	return out
}

// cycle plans and carries the plan out.
func (w *world) cycle() cycle.Output {
	out := w.plan()
	for _, step := range out.Steps() {
		for _, e := range step {
			w.emit(e) // refuses what over-commits
		}
	}
	return out
}

func (w *world) end(k cluster.TaskKey) {
	w.emit(&cluster.TaskStatus{Task: k, Run: w.state.Task(k).Run, State: cluster.TaskSucceeded})
}

// TestLargeTasksGoBeforeWhatFitsBesideOthers: of tasks that gain alike and come together those that need most of a host go first, since
// the others, which even load would send to all hosts, would leave no room for them anywhere.
func TestLargeTasksGoBeforeWhatFitsBesideOthers(t *testing.T) {
	for _, m := range []costmodels.Model{loadspread.Model{}, sluice.Model{}} {
		for name, newSolver := range map[string]func() solver.Solver{
			"flow": func() solver.Solver { return netsimplex.New() }, "greedy": nil,
		} {
			t.Run(m.Name()+"/"+name, func(t *testing.T) {
				w := newWorldWith(t, m)
				w.planner = cycle.New(m, newSolver)
				nic := func(n int64) cluster.Resources {
					r := vector(1000, 1<<30)
					r.Named = []cluster.Amount{{Name: "nic", Value: n}}
					return r
				}
				for i := range 600 {
					machine := cluster.Machine{Capacity: nic(1000), GPUs: slices.Repeat([]cluster.GPUDevice{{Model: "A"}}, 4)}
					machine.Capacity.Fixed = [cluster.NumDimensions]int64{cluster.CPU: 64000, cluster.Memory: 256 << 30, cluster.GPU: 4 * cluster.WholeGPU}
					w.machine(i, machine)
				}
				submit := func(classes int, instances uint32, r cluster.Resources, gpus int64) {
					for i := range classes {
						task := cluster.TaskSpec{Resources: r}
						task.Resources.Fixed[cluster.CPU] += int64(i)
						task.Resources.Fixed[cluster.GPU] = gpus * cluster.WholeGPU
						w.submit(cluster.JobSpec{Instances: instances, Task: task})
					}
				}
				submit(30, 10, nic(250), 1)
				submit(40, 10, nic(10), 0)
				submit(20, 2, nic(1000), 0)
				require.Len(t, w.cycle().Placements, 300+400+40)
			})
		}
	}
}

func TestSpreadsABatchEvenly(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.host(i, vector(16000, 64<<30))
	}
	w.submit(cluster.JobSpec{Instances: 50, Task: cluster.TaskSpec{Resources: vector(500, 1<<30)}})
	out := w.cycle()
	require.Len(t, out.Placements, 50)
	for h := range w.state.Hosts("") {
		require.Len(t, h.Tasks, 5, "host %s", h.ID)
	}
	require.Zero(t, out.Stats.Inserted, "the flow places everything")
}

func TestPriorityThenAgeDecideWhoWaits(t *testing.T) {
	w := newWorld(t)
	w.host(0, vector(2000, 1<<30))
	low := w.submit(cluster.JobSpec{Instances: 2, Task: cluster.TaskSpec{Resources: vector(1000, 1)}})
	w.now = w.now.Add(time.Minute)
	w.submit(cluster.JobSpec{Instances: 2, Task: cluster.TaskSpec{Resources: vector(1000, 1)}})
	high := w.submit(cluster.JobSpec{Instances: 1, Priority: 7, Task: cluster.TaskSpec{Resources: vector(1000, 1)}})
	var placed []cluster.TaskKey
	for _, p := range w.cycle().Placements {
		placed = append(placed, p.Task)
	}
	require.ElementsMatch(t, []cluster.TaskKey{cluster.MakeTaskKey(high, 0), cluster.MakeTaskKey(low, 0)}, placed)
}

func TestExplainsWhatWaits(t *testing.T) {
	w := newWorld(t)
	gpu := cluster.KeyValue{Key: "disk", Value: "ssd"}
	w.host(0, vector(1000, 100), gpu)
	w.host(1, vector(4000, 100), gpu)
	w.host(2, vector(4000, 100))
	drained := w.host(3, vector(4000, 100), gpu)
	w.emit(&cluster.HostDrain{ID: drained, Drain: true})
	w.emit(&cluster.HostUnreached{ID: w.host(4, vector(4000, 100), gpu)})
	constraint := &cluster.Constraint{Label: gpu, Comparison: cluster.Greater}
	w.submit(cluster.JobSpec{Instances: 3, Constraint: constraint, Task: cluster.TaskSpec{Resources: vector(2000, 60)}})
	out := w.cycle()
	require.Len(t, out.Placements, 1)
	why, waits := w.planner.WhyWaiting(cluster.MakeTaskKey(1, 2))
	require.True(t, waits)
	require.Equal(t, 2, why.Tasks)
	require.Equal(t, 5, why.Hosts)
	require.Equal(t, []cycle.Tally{
		{Reason: cycle.HostMismatch, Detail: "disk=ssd", Hosts: 1},
		{Reason: cycle.HostDraining, Hosts: 1},
		{Reason: cycle.HostFull, Detail: "memory_bytes", Hosts: 1},
		{Reason: cycle.HostTooSmall, Detail: "cpu_milli", Hosts: 1},
		{Reason: cycle.HostUnreachable, Hosts: 1},
	}, why.Tally)
	require.Equal(t, []int{2, 2}, []int{why.Position, why.Queue})
	require.Equal(t, drained, why.Blocked.Host, "that is empty")
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.ResumeHost, Host: drained}, {
		Kind: cycle.MoreRoom, Host: drained, Room: vector(0, 20), Ahead: 1,
	}}, why.Unblockers, "it has room for one of two")
}

// Of several constraints those are named that rule hosts out, soft ones as long as they hold as if they were hard.
func TestExplainsWhichConstraints(t *testing.T) {
	w := newWorld(t)
	ssd := cluster.KeyValue{Key: "disk", Value: "ssd"}
	has := func(l cluster.KeyValue) cluster.Constraint {
		return cluster.Constraint{Label: l, Comparison: cluster.Greater}
	}
	w.host(0, vector(1000, 100), cluster.KeyValue{Key: "os", Value: "linux"})
	w.host(1, vector(1000, 100), ssd, cluster.KeyValue{Key: "os", Value: "linux"})
	w.submit(cluster.JobSpec{
		Instances: 1, Task: cluster.TaskSpec{Resources: vector(1, 1)},
		Constraint: &cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{has(ssd), has(cluster.KeyValue{Key: "os", Value: "linux"})}},
		Preferences: []cluster.SoftConstraint{{
			Constraint: has(cluster.KeyValue{Key: "near", Value: "data"}), Soft: cluster.Soft{Timeout: time.Hour, Penalty: time.Minute},
		}},
	})
	w.cycle()
	why, waits := w.planner.WhyWaiting(cluster.MakeTaskKey(1, 0))
	require.True(t, waits)
	require.Equal(t, []cycle.Tally{{Reason: cycle.HostMismatch, Detail: "near=data (2), disk=ssd (1)", Hosts: 2}}, why.Tally)
}

func TestNothingChangedMeansNoSolve(t *testing.T) {
	w := newWorld(t)
	w.host(0, vector(1000, 100))
	w.submit(cluster.JobSpec{Instances: 3, Task: cluster.TaskSpec{Resources: vector(1000, 1)}})
	require.Len(t, w.cycle().Placements, 1)
	for range 5 {
		w.now = w.now.Add(time.Hour)
		out := w.cycle()
		require.Zero(t, out.Stats.Solves)
		require.Zero(t, out.Stats.ArcsTouched+out.Stats.NodesTouched)
		require.Equal(t, 2, out.Stats.Waiting)
	}
	w.end(cluster.MakeTaskKey(1, 0))
	require.Len(t, w.cycle().Placements, 1)
}

func TestARefusedPlacementWaitsAgain(t *testing.T) {
	w := newWorld(t)
	first := w.host(0, vector(1000, 100))
	w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(1000, 1)}})
	require.Len(t, w.plan().Placements, 1) // and nobody carries it out
	out := w.plan()
	require.Len(t, out.Placements, 1)
	require.Equal(t, first, out.Placements[0].Host)
}

// One submission touches the same part of the network however many hosts there are.
func TestTouchesDoNotGrowWithTheCluster(t *testing.T) {
	touched := func(n int) int64 {
		w := newWorld(t)
		for i := range n {
			w.host(i, vector(16000, 64<<30))
		}
		w.submit(cluster.JobSpec{Instances: uint32(n), Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}})
		w.cycle()
		w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(900, 1<<30)}})
		w.cycle() // which removes what the one before placed
		w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(700, 1<<30)}})
		out := w.cycle()
		require.Len(t, out.Placements, 1)
		return out.Stats.ArcsTouched + out.Stats.NodesTouched
	}
	small := touched(100)
	for _, n := range []int{1000, 10_000} {
		if n == 10_000 && testing.Short() {
			return
		}
		require.LessOrEqual(t, touched(n), 2*small, "%d hosts", n)
	}
}

// TestAllWithoutAPlaceAreOfferedOthers: small tasks take the first places of all hosts, and hundreds of kinds of large ones want the same few
// hosts next. Each host is offered to some of them, so not each of them comes to have an arc to each host.
func TestAllWithoutAPlaceAreOfferedOthers(t *testing.T) {
	const hosts, kinds = 400, 800
	w := newWorld(t)
	for i := range hosts {
		w.host(i, vector(16000, 64<<30))
	}
	w.submit(cluster.JobSpec{Instances: 8 * hosts, Priority: 1, Task: cluster.TaskSpec{Resources: vector(250, 1<<28)}})
	for i := range int64(kinds) {
		w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(6000+i, 8<<30)}})
	}
	out := w.cycle()
	require.Greater(t, len(out.Placements), 8*hosts+kinds*9/10)
	require.Less(t, out.Stats.ArcsTouched, int64(80*kinds))
}

func TestGPUsAreCutExactly(t *testing.T) {
	w := newWorld(t)
	devices := func(models ...string) cluster.Machine {
		m := cluster.Machine{Capacity: vector(64_000, 1<<40)}
		for _, model := range models {
			m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: model})
		}
		m.Capacity.Fixed[cluster.GPU] = int64(len(models)) * cluster.WholeGPU
		return m
	}
	w.machine(0, devices("A", "A"))
	w.machine(1, devices("B", "B"))
	ask := func(n uint32, gpu cluster.GPURequest) cluster.JobSpec {
		r := vector(100, 1)
		r.Fixed[cluster.GPU] = gpu.Amount()
		return cluster.JobSpec{Instances: n, Task: cluster.TaskSpec{Resources: r, GPU: gpu}}
	}
	w.submit(ask(5, cluster.GPURequest{Milli: 600}))
	require.Len(t, w.cycle().Placements, 4, "two on each host, though the sums have room for three")

	w.submit(ask(3, cluster.GPURequest{Milli: 400, Models: []string{"B"}}))
	w.submit(ask(1, cluster.GPURequest{Count: 1}))
	w.submit(ask(1, cluster.GPURequest{Count: 1, Models: []string{"C"}}))
	out := w.cycle()
	require.Len(t, out.Placements, 2)
	for _, p := range out.Placements {
		require.Equal(t, cluster.HostID("s/h00001"), p.Host)
	}
	for _, k := range []cluster.TaskKey{cluster.MakeTaskKey(1, 4), cluster.MakeTaskKey(3, 0)} {
		why, waits := w.planner.WhyWaiting(k)
		require.True(t, waits)
		require.Equal(t, []cycle.Tally{{Reason: cycle.HostFull, Detail: "gpu_milli", Hosts: 2}}, why.Tally)
	}
}

// Data decides where a task goes; where its places are taken it waits a while, and then goes elsewhere.
func TestLocalityWaitsAndGivesWay(t *testing.T) {
	w := newWorldWith(t, quincy.Model{})
	for i := range 6 {
		w.machine(i, cluster.Machine{Rack: fmt.Sprintf("r%d", i/2), Capacity: vector(1000, 10)})
	}
	spec := cluster.JobSpec{
		Instances: 4, Task: cluster.TaskSpec{Resources: vector(1000, 1)},
		Inputs: []cluster.Input{{Bytes: 3_000_000_000, Hosts: []cluster.HostID{"s/h00002"}, Last: 3}},
	}
	w.submit(spec)
	placed := func(out cycle.Output) (hosts []cluster.HostID) {
		for _, p := range out.Placements {
			hosts = append(hosts, p.Host)
		}
		return hosts
	}
	quiet := func() { // nothing happened, and no step of a price is due
		t.Helper()
		out := w.cycle()
		require.Empty(t, out.Placements)
		require.Zero(t, out.Stats.Solves+out.Stats.Rounds)
		require.Zero(t, out.Stats.ArcsTouched+out.Stats.NodesTouched)
	}
	out := w.cycle() // a second after the submission: waiting is worth 1,001 ms, the rack 6,000 and elsewhere 12,000
	require.Equal(t, []cluster.HostID{"s/h00002"}, placed(out))
	require.Equal(t, w.now.Add(time.Second), out.WakeAt)
	w.now = out.WakeAt.Add(-2 * time.Second)
	quiet()
	w.now = w.now.Add(6 * time.Second) // 8 seconds waited
	require.Equal(t, []cluster.HostID{"s/h00003"}, placed(w.cycle()))
	w.now = w.now.Add(7 * time.Second)
	out = w.cycle()
	require.Len(t, out.Placements, 2)
	require.NotSubset(t, []cluster.HostID{"s/h00002", "s/h00003"}, placed(out))
	require.Zero(t, out.WakeAt)
}

// Two tasks for two hosts: the first to come likes both, the second only the one that the first would take.
func TestTheFlowShares(t *testing.T) {
	for _, c := range []struct {
		name      string
		newSolver func() solver.Solver
		remote    int
		solves    bool
	}{
		{"flow", func() solver.Solver { return netsimplex.New() }, 0, true},
		{"greedy", nil, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.planner = cycle.New(sluice.Model{}, c.newSolver)
			first, second := w.host(0, vector(1000, 10)), w.host(1, vector(1000, 10))
			likes := func(hosts ...cluster.HostID) cluster.JobSpec {
				return cluster.JobSpec{
					Instances: 1, Task: cluster.TaskSpec{Resources: vector(1000, 1)},
					Inputs: []cluster.Input{{Bytes: 3_000_000_000, Hosts: hosts}},
				}
			}
			w.submit(likes(first, second))
			w.submit(likes(first))
			out := w.cycle()
			require.Len(t, out.Placements, 2, "what fits is placed")
			remote := 0
			for _, p := range out.Placements {
				if p.Task.Job() == 2 && p.Host != first {
					remote++
				}
			}
			require.Equal(t, c.remote, remote)
			require.Equal(t, c.solves, out.Stats.Solves > 0)
			require.Equal(t, int64(out.Placements[0].Price+out.Placements[1].Price), out.Stats.Cost)
		})
	}
}

// A task that rather waited and is gone leaves no alarm behind that rings for ever.
func TestNothingWakesForWhatIsGone(t *testing.T) {
	w := newWorldWith(t, quincy.Model{})
	w.machine(0, cluster.Machine{Rack: "a", Capacity: vector(1000, 10)})
	uid := w.submit(cluster.JobSpec{
		Instances: 1, Task: cluster.TaskSpec{Resources: vector(1000, 1)},
		Inputs: []cluster.Input{{Bytes: 3_000_000_000, Hosts: []cluster.HostID{"s/away"}}},
	})
	out := w.cycle()
	require.Empty(t, out.Placements)
	require.NotZero(t, out.WakeAt)
	w.emit(&cluster.JobStopping{Job: uid})
	w.now = out.WakeAt
	require.Zero(t, w.cycle().WakeAt)
}

func init() { cycle.VerifyPlan = verify.Plan }

// A gang that rather waits for the data of its tasks says when it may think otherwise, and then begins as a whole elsewhere.
func TestAGangThatRatherWaitsWakesThePlanner(t *testing.T) {
	for _, free := range []int{2, 1} { // hosts for two tasks
		w := newWorldWith(t, quincy.Model{})
		for i := range free {
			w.machine(i, cluster.Machine{Rack: "a", Capacity: vector(1000, 10)})
		}
		w.submit(cluster.JobSpec{
			Instances: 2, Task: cluster.TaskSpec{Resources: vector(1000, 1)}, Gang: &cluster.Gang{Minimum: 2},
			Inputs: []cluster.Input{{Bytes: 3_000_000_000, Hosts: []cluster.HostID{"s/away"}, Last: 1}},
		})
		out := w.cycle()
		require.Empty(t, out.Placements)
		if free == 1 {
			require.Zero(t, out.WakeAt, "time alone makes no room")
			require.False(t, out.Patient)
			continue
		}
		for n := 0; len(out.Placements) == 0; n++ {
			require.Less(t, n, 6)
			require.True(t, out.Patient)
			require.Greater(t, out.WakeAt, w.now)
			w.now = out.WakeAt
			out = w.cycle()
		}
		require.Len(t, out.Placements, 2)
	}
}

// Over random histories no plan is wrong by verify.Plan or over-commits a host (carrying it out would fail), nothing waits that
// fits, everything is the same when it is done again, and the counts add up.
func TestRandomHistories(t *testing.T) {
	cycle.Checks(t, 1000)
	rapid.Check(t, func(t *rapid.T) {
		script := drawScript(t)
		first, second := script.run(t), script.run(t)
		require.Equal(t, first, second)
	})
}

type step struct {
	kind             int
	cpu, memory      int64
	instances, which int
	priority         int32
}

type script []step

func drawScript(t *rapid.T) script {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:      rapid.IntRange(0, 6).Draw(t, "kind"),
			cpu:       rapid.Int64Range(0, 8).Draw(t, "cpu") * 250,
			memory:    rapid.Int64Range(0, 8).Draw(t, "memory"),
			instances: rapid.IntRange(1, 20).Draw(t, "instances"),
			which:     rapid.IntRange(0, 1000).Draw(t, "which"),
			priority:  rapid.Int32Range(0, 2).Draw(t, "priority"),
		}
	}), 1, 40).Draw(t, "script")
}

func (s script) run(t *rapid.T) (history []cycle.Output) {
	w := newWorld(t)
	hosts := 0
	for _, st := range s {
		switch st.kind {
		case 0, 1:
			w.host(hosts, vector(4*st.cpu, 4*st.memory), cluster.KeyValue{Key: "odd", Value: fmt.Sprint(hosts % 2)})
			hosts++
		case 2, 3, 4:
			spec := cluster.JobSpec{Instances: uint32(st.instances), Priority: st.priority, Task: cluster.TaskSpec{Resources: vector(st.cpu, st.memory)}}
			if st.kind == 4 {
				spec.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: "odd", Value: "1"}, Comparison: cluster.Equal, Count: 1}
			}
			w.submit(spec)
		case 5:
			var bound []cluster.TaskKey
			for h := range w.state.Hosts("") {
				bound = append(bound, h.Tasks...)
			}
			for i, k := range bound {
				if i%3 == st.which%3 {
					w.end(k)
				}
			}
		case 6:
			if hosts > 0 {
				w.emit(&cluster.HostDrain{ID: cluster.MakeHostID("s", fmt.Sprintf("h%05d", st.which%hosts)), Drain: st.which%2 == 0})
			}
		}
		out := w.cycle()
		w.checkNothingFits()
		history = append(history, out)
	}
	return history
}

func (w *world) checkNothingFits() {
	for task := range w.state.Tasks(0) {
		if task.State != cluster.TaskPending {
			continue
		}
		spec := w.state.Job(task.Key.Job()).Spec
		for h := range w.state.Hosts("") {
			if h.State() == cluster.HostUp && (spec.Constraint == nil || spec.Constraint.Evaluate(h, nil) == cluster.True) {
				require.False(w.t, spec.Task.Resources.Fits(h.Free()), "task %v waits and fits on %s", task.Key, h.ID)
			}
		}
	}
}

// Hosts and racks that come and go leave nothing behind, though nothing waits that would be solved.
func TestNothingIsKeptOfHostsThatAreGone(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		id := w.machine(i, cluster.Machine{Rack: fmt.Sprint("r", i), Capacity: vector(1000, 10)})
		w.cycle()
		w.emit(&cluster.HostRemoved{ID: id})
		w.cycle()
		require.Zero(t, w.planner.Gone())
		require.Equal(t, 1, w.planner.Racks())
	}
}

// A task that would rather be elsewhere for a month, and has begun, does not have it remembered for a month.
func TestAlarmsOfPreferencesGoWithTheTasks(t *testing.T) {
	w := newWorld(t)
	w.host(0, vector(1000, 10), cluster.KeyValue{Key: "ssd"})
	rather := func(key string, by time.Duration) cluster.JobSpec {
		return cluster.JobSpec{
			Instances: 1, Task: cluster.TaskSpec{Resources: vector(100, 1)},
			Preferences: []cluster.SoftConstraint{{
				Constraint: cluster.Constraint{Op: cluster.HostLabel, Label: cluster.KeyValue{Key: key}, AnyValue: true, Comparison: cluster.Greater},
				Soft:       cluster.Soft{Timeout: by, Penalty: time.Second},
			}},
		}
	}
	waits := w.submit(rather("tape", 2*time.Hour))
	for range 3000 {
		uid := w.submit(rather("ssd", 30*24*time.Hour))
		require.Len(t, w.cycle().Placements, 1)
		w.end(cluster.MakeTaskKey(uid, 0))
		w.emit(&cluster.JobDeleted{Job: uid})
		require.LessOrEqual(t, w.planner.Alarms(), 1010)
	}
	require.Equal(t, cluster.TaskPending, w.state.Task(cluster.MakeTaskKey(waits, 0)).State)
	w.now = w.now.Add(2 * time.Hour)
	require.Len(t, w.cycle().Placements, 1, "its own goes off")
}

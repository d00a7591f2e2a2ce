package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/verify"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/compose"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// planBy plans by a policy and carries the plan out.
func (w *world) planBy(policy *cycle.Policy) cycle.Output {
	snapshot, changes := w.state.Snapshot()
	w.now = w.now.Add(time.Second)
	out := w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now, Policy: policy})
	require.Empty(w.t, verify.Plan(snapshot, &out, w.now, cycle.DefaultOptions().Hysteresis))
	for _, p := range out.Placements {
		w.emit(&cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs, Ports: p.Ports})
	}
	return out
}

func (w *world) some(hosts int) {
	for i := range hosts {
		w.host(i, vector(8000, 64<<30))
	}
}

func small(instances uint32) cluster.JobSpec {
	return cluster.JobSpec{Instances: instances, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}}
}

// used returns how many hosts have tasks.
func (w *world) used() int {
	n := 0
	for h := range w.state.Hosts("") {
		if len(h.Tasks) > 0 {
			n++
		}
	}
	return n
}

// broken is loadspread until it is asked to break.
type broken struct {
	loadspread.Model
	start func(*costmodels.Round) flowgraph.Cost
	crowd func(k int64) flowgraph.Cost
}

func (broken) Name() string { return "broken" }

func (b broken) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	if b.start != nil {
		return b.start(r)
	}
	return b.Model.Start(r, q, h)
}

func (b broken) Starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	for i, q := range requests {
		prices[i] = b.Start(r, q, h)
	}
}

func (b broken) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	if b.crowd != nil {
		return b.crowd(k)
	}
	return b.Model.Crowd(r, h, k)
}

func TestABrokenModelIsReplacedByTheLastGoodOne(t *testing.T) {
	for name, model := range map[string]broken{
		"negative": {start: func(*costmodels.Round) flowgraph.Cost { return -1 }},
		"overflow": {start: func(*costmodels.Round) flowgraph.Cost { return 1 << 62 }},
		"panic":    {start: func(*costmodels.Round) flowgraph.Cost { panic("out of ideas") }},
		"falling":  {crowd: func(k int64) flowgraph.Cost { return flowgraph.Cost(max(0, 100-k)) }},
		"endless": {start: func(r *costmodels.Round) flowgraph.Cost {
			for {
				r.Spend(1)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, twin := newWorldWith(t, binpack.Model{}), newWorldWith(t, binpack.Model{})
			for _, x := range []*world{w, twin} {
				x.some(8)
				x.submit(small(4))
				require.Len(t, x.planBy(nil).Placements, 4)
				x.submit(small(16))
			}
			bad := &cycle.Policy{Model: model}
			out := w.planBy(bad)
			snapshot, changes := twin.state.Snapshot()
			want := twin.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Rescan: true, Now: w.now})
			require.Equal(t, want.Placements, out.Placements, "it plans as if the other model had never been")
			require.Equal(t, "binpack", out.Stats.Model)
			require.Contains(t, out.Stats.Fault, "broken")

			w.submit(small(4))
			out = w.planBy(bad)
			require.Len(t, out.Placements, 4)
			require.Equal(t, "binpack", out.Stats.Model, "it stays out")

			w.submit(small(4))
			out = w.planBy(&cycle.Policy{Model: loadspread.Model{}})
			require.Equal(t, "loadspread", out.Stats.Model, "another policy gets its chance")
			require.Empty(t, out.Stats.Fault)
		})
	}
}

// A model that was good for a while is not the last good one once it breaks, and what stands in for it may break as well.
func TestModelsThatBreakLater(t *testing.T) {
	broke := map[string]bool{}
	fragile := func(name string) *cycle.Policy {
		return &cycle.Policy{Model: broken{start: func(*costmodels.Round) flowgraph.Cost {
			if broke[name] {
				panic(name + " breaks")
			}
			return 0
		}}}
	}
	w := newWorldWith(t, binpack.Model{})
	w.some(8)
	first, second := fragile("first"), fragile("second")
	plan := func(p *cycle.Policy, model string) string {
		w.submit(small(2))
		out := w.planBy(p)
		require.Len(t, out.Placements, 2)
		require.Equal(t, model, out.Stats.Model)
		return out.Stats.Fault
	}
	require.Empty(t, plan(nil, "binpack"))
	require.Empty(t, plan(first, "broken"))
	broke["first"] = true
	require.Contains(t, plan(first, "binpack"), "first breaks")
	require.Empty(t, plan(second, "broken"))
	broke["second"] = true
	require.Contains(t, plan(second, "binpack"), "second breaks", "who stood in was good, too")

	broke["first"], broke["second"] = false, false
	first, second = fragile("first"), fragile("second")
	require.Empty(t, plan(first, "broken"))
	require.Empty(t, plan(second, "broken"))
	broke["first"], broke["second"] = true, true
	fault := plan(second, "trivial")
	require.Contains(t, fault, "second breaks")
	require.Contains(t, fault, "first breaks")
}

func TestABrokenFirstModelLeavesAPlan(t *testing.T) {
	w := newWorldWith(t, broken{start: func(*costmodels.Round) flowgraph.Cost { return -1 }})
	w.some(2)
	w.submit(small(4))
	out := w.planBy(nil)
	require.Len(t, out.Placements, 4)
	require.Equal(t, "trivial", out.Stats.Model)
}

func TestModelsSwapInEveryCycle(t *testing.T) {
	w := newWorld(t)
	w.some(8)
	spread, pack := &cycle.Policy{Model: loadspread.Model{}}, &cycle.Policy{Model: binpack.Model{}}
	for i := range 6 {
		w.submit(small(4))
		policy := []*cycle.Policy{spread, pack}[i%2]
		before := w.used()
		out := w.planBy(policy)
		require.Len(t, out.Placements, 4)
		require.Equal(t, policy.Model.Name(), out.Stats.Model)
		if i == 1 {
			require.Equal(t, before, w.used(), "packing opens no host")
		}
	}
}

func TestTheShadowOnlyReports(t *testing.T) {
	w, alone := newWorld(t), newWorld(t)
	policy := &cycle.Policy{Model: loadspread.Model{}, Shadow: binpack.Model{}, ShadowEvery: 2}
	reports := 0
	for _, x := range []*world{w, alone} {
		x.some(8)
	}
	for i := range 6 {
		w.submit(small(8))
		alone.submit(small(8))
		out, want := w.planBy(policy), alone.planBy(nil)
		require.Equal(t, want.Placements, out.Placements, "the shadow changes nothing")
		if i%2 == 0 {
			require.Nil(t, out.Shadow)
			continue
		}
		reports++
		require.Equal(t, "binpack", out.Shadow.Model)
		require.Equal(t, 8, out.Shadow.Same+out.Shadow.Elsewhere)
		require.Zero(t, out.Shadow.Later+out.Shadow.Earlier)
		require.Positive(t, out.Shadow.Elsewhere, "packing differs from spreading")
		require.Len(t, out.Shadow.Differences, out.Shadow.Elsewhere)
		for _, d := range out.Shadow.Differences {
			require.NotEqual(t, d.Host, d.Shadow)
			require.Equal(t, d.Host, w.state.Task(d.Task).Host)
		}
	}
	require.Equal(t, 3, reports)
}

func work(name string, spec cluster.JobSpec) cluster.JobSpec {
	spec.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: name}}
	return spec
}

// Those that start in the same plan are company as well as those that run.
func TestCompanyCounts(t *testing.T) {
	w := newWorldWith(t, coco.Model{Disturbance: 1000})
	w.some(4)
	w.submit(work("devil", small(2)))
	w.submit(work("sheep", small(6)))
	require.Len(t, w.cycle().Placements, 8)
	w.submit(work("sheep", small(2)))
	require.Len(t, w.cycle().Placements, 2)
	for h := range w.state.Hosts("") {
		kinds := map[string]bool{}
		for _, k := range h.Tasks {
			kinds[cluster.WorkOf(w.state.Job(k.Job()).Spec)] = true
		}
		require.Len(t, kinds, 1, "host %s: %v", h.ID, kinds)
	}
}

// So are those that start where room was held for them.
func TestWhoHadRoomHeldIsCompany(t *testing.T) {
	w := newWorldWith(t, coco.Model{Disturbance: 1000})
	held := w.host(0, vector(8000, 64<<30))
	devil := cluster.MakeTaskKey(w.submit(work("devil", small(1))), 0)
	w.emit(&cluster.TaskHeld{Task: devil, Hold: cluster.Hold{Host: held, Until: cluster.Forever}})
	busy := w.host(1, vector(8000, 64<<30))
	sheep := w.submit(work("sheep", small(4)))
	for i := range uint32(4) {
		w.emit(&cluster.Placed{Task: cluster.MakeTaskKey(sheep, i), Run: 1, Host: busy})
	}
	late := cluster.MakeTaskKey(w.submit(work("sheep", small(1))), 0)
	require.Len(t, w.cycle().Placements, 2)
	require.Equal(t, held, w.state.Task(devil).Host)
	require.Equal(t, busy, w.state.Task(late).Host)
}

// A host is priced anew for those whom its company disturbs as soon as that is asked to leave, or does other work than before: neither
// changes what the host has room for.
func TestCompanyMayChangeWhereItIs(t *testing.T) {
	for name, change := range map[string]func(*world, cluster.TaskKey){
		"it leaves": func(w *world, devil cluster.TaskKey) {
			w.emit(&cluster.TaskStopping{Task: devil, Reason: cluster.ReasonTaskStopped})
		},
		"it does other work": func(w *world, devil cluster.TaskKey) {
			spec := work("sheep", *w.state.Job(devil.Job()).Spec)
			w.emit(&cluster.JobUpdated{Job: devil.Job(), Spec: &spec, Update: &cluster.Update{From: 1}})
			w.emit(&cluster.TaskUpdated{Task: devil, Version: 2, InPlace: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, coco.Model{Disturbance: 1000})
			w.host(0, vector(8000, 64<<30))
			devil := cluster.MakeTaskKey(w.submit(work("devil", small(1))), 0)
			w.cycle()
			w.host(1, vector(8000, 64<<30))
			sheep := work("sheep", small(2))
			sheep.Limits.MaxRunning = 1 // one waits, and could go to both hosts
			w.submit(sheep)
			require.Len(t, w.cycle().Placements, 1)
			require.Equal(t, 1, w.planner.CheckRowsOfClasses(t))
			change(w, devil)
			w.cycle()
			require.Equal(t, 1, w.planner.CheckRowsOfClasses(t))
		})
	}
}

// Equal requests of two pools have prices of their own in one solve.
func TestPoolsHaveModelsOfTheirOwn(t *testing.T) {
	model := compose.NewChoice(loadspread.Model{}, []compose.Binding{{Pool: "root/packed", Model: binpack.Model{}}})
	w := newWorldWith(t, model)
	for _, path := range []cluster.PoolPath{"root/packed", "root/spread"} {
		w.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}})
	}
	w.some(8)
	in := func(pool cluster.PoolPath) map[cluster.HostID]bool {
		uid := w.state.NextJob()
		spec := small(4)
		spec.Name, spec.Pool = cluster.JobID(pool.Parent())+cluster.JobID(uid.String()), pool
		w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &spec}}})
		hosts := map[cluster.HostID]bool{}
		for _, p := range w.cycle().Placements {
			hosts[p.Host] = true
		}
		return hosts
	}
	require.Len(t, in("root/spread"), 4)
	for range 4 { // crowding is the cluster's: a batch spreads, one after the other does not
		uid := w.state.NextJob()
		spec := small(1)
		spec.Name, spec.Pool = cluster.JobID("p"+uid.String()), "root/packed"
		w.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &spec}}})
		w.cycle()
	}
	require.Equal(t, 4, w.used(), "the packed pool opens no host")
	require.Len(t, in("root/spread"), 4)
	require.Greater(t, w.used(), 6)
}

func TestEstimatesTellClassesApart(t *testing.T) {
	w := newWorldWith(t, sjf.Model{})
	w.host(0, vector(2000, 64<<30))
	long, short := small(2), small(2)
	long.Estimate, short.Estimate = time.Hour, time.Minute
	w.submit(long)
	uid := w.submit(short)
	out := w.cycle()
	require.Len(t, out.Placements, 2)
	for _, p := range out.Placements {
		require.Equal(t, uid, p.Task.Job(), "the short ones go first")
	}
}

// A part of a device goes where what is left of it suits those who typically come.
func TestTheMixReachesTheModel(t *testing.T) {
	w := newWorldWith(t, fragmentation.Model{})
	for i := range 2 {
		m := cluster.Machine{Capacity: vector(64_000, 64<<30), GPUs: []cluster.GPUDevice{{}, {}}}
		m.Capacity.Fixed[cluster.GPU] = 2000
		w.machine(i, m)
	}
	ask := func(gpu cluster.GPURequest, n uint32) cycle.Output {
		spec := small(n)
		spec.Task.GPU = gpu
		spec.Task.Resources.Fixed[cluster.GPU] = gpu.Amount()
		w.submit(spec)
		return w.cycle()
	}
	w.end(ask(cluster.GPURequest{Count: 2}, 1).Placements[0].Task)
	first := ask(cluster.GPURequest{Milli: 300}, 1).Placements[0]
	for range 2 {
		next := ask(cluster.GPURequest{Milli: 300}, 1).Placements[0]
		require.Equal(t, first.Host, next.Host, "the device that is broken already is filled up")
		require.Equal(t, first.GPUs, next.GPUs)
	}
	require.Len(t, ask(cluster.GPURequest{Count: 2}, 1).Placements, 1, "the other host stayed whole")
}

package cycle_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// stuck is loadspread, until a call of the method that it is armed with does not return before it is released.
type stuck struct {
	loadspread.Model
	armed   atomic.Pointer[string]
	release chan struct{}
	near    cluster.HostID // where all data is
	calls   atomic.Int64
}

func newStuck(method string) *stuck {
	s := &stuck{release: make(chan struct{})}
	s.armed.Store(&method)
	return s
}

func (s *stuck) at(method string) {
	s.calls.Add(1)
	if *s.armed.Load() == method {
		<-s.release
	}
}

func (s *stuck) Name() string { s.at("Name"); return "stuck" }

func (s *stuck) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	s.at("Wait")
	return s.Model.Wait(r, c)
}

func (s *stuck) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	s.at("Start")
	return s.Model.Start(r, q, h)
}

func (s *stuck) Starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	s.at("Start")
	s.Model.Starts(r, requests, h, prices)
}

func (s *stuck) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	s.at("Crowd")
	return s.Model.Crowd(r, h, k)
}

func (s *stuck) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) []costmodels.Term {
	s.at("Items")
	return nil
}

func (s *stuck) Locality(*costmodels.Round, *costmodels.Class) costmodels.Locality {
	s.at("Locality")
	return costmodels.Locality{Elsewhere: 5000, Hosts: []costmodels.HostPrice{{Host: s.near}}}
}

func (s *stuck) Moves() bool { s.at("Moves"); return true }

func (s *stuck) Move(*costmodels.Round, *costmodels.Class, time.Duration) flowgraph.Cost {
	s.at("Move")
	return 1
}

func (s *stuck) Route(cluster.PoolPath, cluster.JobType) int { s.at("Route"); return 0 }

var (
	_ costmodels.Mover    = (*stuck)(nil)
	_ costmodels.Router   = (*stuck)(nil)
	_ costmodels.Batcher  = (*stuck)(nil)
	_ costmodels.Itemizer = (*stuck)(nil)
)

// patience is the time between two beats of the watch.
const patience = 10 * time.Second

func beats() (<-chan time.Time, func()) {
	t := time.NewTicker(patience)
	return t.C, t.Stop
}

// watched is a world with a watch. Its time, and that of the test, is the bubble's: it goes on when all are blocked.
func watched(t *testing.T, m costmodels.Model) *world {
	w := newWorldWith(t, m)
	w.planner.Watch(beats)
	return w
}

func reading(instances uint32) cluster.JobSpec {
	spec := small(instances)
	spec.Preemptible = true
	spec.Inputs = []cluster.Input{{Bytes: 1 << 30, Last: instances - 1, Hosts: []cluster.HostID{"s/h00000"}}}
	return spec
}

// A model that does not return from a call, whatever it was asked, is replaced by the last good one, which plans as if the other
// had never been. What the call finds when it returns after all is nobody's any more, and its goroutine ends.
func TestAModelThatDoesNotReturnIsReplaced(t *testing.T) {
	for _, method := range []string{"Name", "Wait", "Start", "Crowd", "Locality", "Moves", "Move", "Route"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, twin := watched(t, binpack.Model{}), newWorldWith(t, binpack.Model{})
				for _, x := range []*world{w, twin} {
					x.some(4)
					x.submit(reading(12))
					require.Len(t, x.planBy(nil).Placements, 12)
					x.submit(reading(12))
				}
				model := newStuck(method)
				for h := range w.state.Hosts("") {
					if len(h.Tasks) == 8 {
						model.near = h.ID // it is full: others want to start in the place of those that run there
					}
				}
				bad := &cycle.Policy{Model: model}
				began := time.Now()
				out := w.planBy(bad)
				require.LessOrEqual(t, time.Since(began), 2*patience)
				snapshot, changes := twin.state.Snapshot()
				want := twin.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Rescan: true, Now: w.now})
				require.Len(t, want.Placements, 12)
				require.Equal(t, want.Placements, out.Placements)
				require.Equal(t, "binpack", out.Stats.Model)
				name := "stuck"
				if method == "Name" {
					name = "*cycle_test.stuck"
				}
				require.Equal(t, "guard: the cost model is broken: "+name+": "+method+" does not return", out.Stats.Fault)

				calls := model.calls.Load()
				close(model.release)
				synctest.Wait()
				require.LessOrEqual(t, model.calls.Load(), calls+1, "a Crowd is two calls; it is asked nothing more")

				w.submit(small(4))
				out = w.planBy(bad)
				require.Len(t, out.Placements, 4)
				require.Equal(t, "binpack", out.Stats.Model, "it stays out")

				w.submit(small(2))
				out = w.planBy(&cycle.Policy{Model: loadspread.Model{}})
				require.Len(t, out.Placements, 2)
				require.Equal(t, "loadspread", out.Stats.Model, "another policy gets its chance")
				require.Empty(t, out.Stats.Fault)
			})
		})
	}
}

// Goroutines that price together may all be stuck.
func TestModelsStuckInSeveralGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
		const hosts, classes = 600, 32
		w := watched(t, binpack.Model{})
		for i := range hosts {
			w.host(i, vector(12_000, 48_000))
		}
		submit := func() {
			for i := range int64(classes) {
				w.submit(cluster.JobSpec{Instances: 30, Task: cluster.TaskSpec{Resources: vector(2000+100*i, 2000+i)}})
			}
		}
		submit()
		require.Len(t, w.planBy(nil).Placements, classes*30)
		model := newStuck("")
		policy := &cycle.Policy{Model: model}
		submit()
		w.planBy(policy)
		submit()
		require.Equal(t, "stuck", w.planBy(policy).Stats.Model)
		for h := range w.state.Hosts("") {
			for _, k := range h.Tasks[:1] {
				w.end(k)
			}
		}
		model.armed.Store(new("Start"))
		submit()
		out := w.planBy(policy)
		require.NotEmpty(t, out.Placements)
		require.Equal(t, "binpack", out.Stats.Model, "the last one that was good is the one before")
		require.Contains(t, out.Stats.Fault, "stuck: Start does not return")
		close(model.release)
	})
}

// A call may take its time, a cycle all the more.
func TestSlowIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.planner = cycle.New(slow{}, func() solver.Solver { return sleeper{netsimplex.New()} })
		w.planner.Watch(beats)
		w.some(4)
		w.submit(small(8))
		began := time.Now()
		out := w.planBy(nil)
		require.Len(t, out.Placements, 8)
		require.Empty(t, out.Stats.Fault)
		require.Greater(t, time.Since(began), time.Hour+3*patience)
	})
}

type slow struct{ binpack.Model }

func (s slow) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	time.Sleep(patience - time.Millisecond)
	return s.Model.Start(r, q, h)
}

type sleeper struct{ solver.Solver }

func (s sleeper) Solve(n *flowgraph.Network, b solver.Budget) (solver.Result, error) {
	time.Sleep(time.Hour)
	return s.Solver.Solve(n, b)
}

func TestAStuckShadowDoesNotStopThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alone := watched(t, loadspread.Model{}), newWorld(t)
		shadow := newStuck("Start")
		policy := &cycle.Policy{Model: loadspread.Model{}, Shadow: shadow, ShadowEvery: 1}
		for _, x := range []*world{w, alone} {
			x.some(8)
		}
		for i := range 3 {
			w.submit(small(8))
			alone.submit(small(8))
			began := time.Now()
			out, want := w.planBy(policy), alone.planBy(nil)
			require.Equal(t, want.Placements, out.Placements)
			require.Empty(t, out.Stats.Fault)
			require.Equal(t, "trivial", out.Shadow.Model)
			require.Contains(t, out.Shadow.Fault, "stuck: Start does not return")
			if i > 0 {
				require.Zero(t, time.Since(began))
			}
		}
		close(shadow.release)
	})
}

// An explanation asks the model, too.
func TestAModelThatIsStuckInAnExplanationIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newStuck("Items")
		w := watched(t, model)
		w.some(1)
		w.submit(small(8))
		uid := w.submit(small(1))
		require.Len(t, w.planBy(nil).Placements, 8)
		require.False(t, w.planner.Cold())
		_, known := w.planner.WhyWaiting(cluster.MakeTaskKey(uid, 0))
		require.False(t, known)
		require.True(t, w.planner.Cold())
		_, known = w.planner.WhyPlaced(cluster.MakeTaskKey(uid, 0))
		require.False(t, known)
		out := w.planBy(nil)
		require.Equal(t, "trivial", out.Stats.Model)
		require.Contains(t, out.Stats.Fault, "stuck: Items does not return")
		why, known := w.planner.WhyWaiting(cluster.MakeTaskKey(uid, 0))
		require.True(t, known)
		require.Equal(t, cluster.HostID("s/h00000"), why.Blocked.Host)
		close(model.release)
	})
}

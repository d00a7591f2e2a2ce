package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/flowgraph"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

func binding(pool, kind string, names ...string) *sluicev1.CostModelBinding {
	b := &sluicev1.CostModelBinding{Pool: pool, JobType: kind}
	for _, n := range names {
		b.Models = append(b.Models, &sluicev1.WeightedCostModel{Name: n, WeightMilli: 1000})
	}
	return b
}

func (a *apiTest) costModel(t *testing.T) string {
	t.Helper()
	s, err := a.cluster.GetStatus(t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
	return s.CostModel
}

// A model that is set at run time plans from the next cycle on: binpack fills one host where loadspread takes two.
func TestTheCostModelIsSwapped(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h1", 4)
	a.addHost(t, "s/h2", 4)
	hosts := func(name string) map[cluster.HostID]int {
		spec := sleepJob(name)
		spec.Instances = new(uint32)
		*spec.Instances = 2
		a.submit(t, spec)
		var on map[cluster.HostID]int
		require.Eventually(t, func() bool {
			on = map[cluster.HostID]int{}
			for task := range a.Snapshot().TasksOf(a.Snapshot().JobByName(cluster.JobID(name)).UID, 0) {
				if task.State.Bound() {
					on[task.Host]++
				}
			}
			return on["s/h1"]+on["s/h2"] == 2
		}, 10*time.Second, time.Millisecond)
		return on
	}
	require.Equal(t, map[cluster.HostID]int{"s/h1": 1, "s/h2": 1}, hosts("spread"))
	set, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: binding("", "", "binpack")})
	require.NoError(t, err)
	require.Len(t, set.Bindings, 1)
	require.Equal(t, "binpack", set.Bindings[0].Models[0].Name)
	require.Equal(t, "binpack", a.costModel(t))
	require.Len(t, hosts("packed"), 1)

	set, err = a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: binding("", "", "coco(devils=c++)")})
	require.NoError(t, err)
	require.Equal(t, "coco(devils=c++)", set.Bindings[0].Models[0].Name)
}

func TestBindingsAreMergedAndTakenBack(t *testing.T) {
	a := newAPITest(t)
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	set := func(b *sluicev1.CostModelBinding) []*sluicev1.CostModelBinding {
		t.Helper()
		r, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: b})
		require.NoError(t, err)
		return r.Bindings
	}
	half := binding("root/a", "batch", "sjf(ageing=5)", "quincy")
	half.Models[1].WeightMilli = 500
	require.Len(t, set(half), 2)
	all := set(binding("", "stateless", "coco"))
	require.Len(t, all, 3)
	require.Equal(t, "stateless", all[1].JobType)
	require.Equal(t, half.Models[1].WeightMilli, all[2].Models[1].WeightMilli)
	require.Equal(t, "sjf(ageing=5)", all[2].Models[0].Name)
	got, err := a.cluster.GetCostModels(t.Context(), &sluicev1.GetCostModelsRequest{})
	require.NoError(t, err)
	require.Len(t, got.Bindings, 3)
	require.Contains(t, got.Available, "whare")

	require.Len(t, set(binding("root/a", "batch")), 2, "a binding without models is taken back")
	shadowed := binding("", "", "loadspread")
	shadowed.Shadow, shadowed.ShadowEvery = "random", 3
	require.Equal(t, "random", set(shadowed)[0].Shadow)
	require.Equal(t, "loadspread; stateless = coco (shadow: random, every 3 cycles)", a.costModel(t))
}

// The configuration may put blanks where it likes.
func TestConfiguredBindingsAreShown(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) {
		c.Costs.Configured = "sluice+0.5  quincy ;root/batch=coco(devils=c++ d)+sjf; root/b:batch =2 whare;stateless= trivial"
	})
	got, err := a.cluster.GetCostModels(t.Context(), &sluicev1.GetCostModelsRequest{})
	require.NoError(t, err)
	sum := binding("", "", "sluice", "quincy")
	sum.Models[1].WeightMilli = 500
	typed := binding("root/b", "batch", "whare")
	typed.Models[0].WeightMilli = 2000
	want := []*sluicev1.CostModelBinding{sum, binding("root/batch", "", "coco(devils=c++ d)", "sjf"), typed, binding("", "stateless", "trivial")}
	require.Equal(t, len(want), len(got.Bindings))
	for i := range want {
		require.True(t, proto.Equal(want[i], got.Bindings[i]), got.Bindings[i])
	}
}

// What is bound to a pool does not outlive it: it would hold in another pool of that name.
func TestBindingsGoWithTheirPool(t *testing.T) {
	a := newAPITest(t)
	for _, path := range []string{"root/a", "root/b"} {
		a.createPool(t, &sluicev1.PoolSpec{Path: path})
		for _, kind := range []string{"", "batch"} {
			_, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: binding(path, kind, "sjf")})
			require.NoError(t, err)
		}
	}
	_, err := a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: "root/a"})
	require.NoError(t, err)
	require.Equal(t, "loadspread; root/b = sjf; root/b:batch = sjf", a.costModel(t))
	set, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: binding("root/a", "")})
	require.NoError(t, err, "there is nothing to take back")
	require.Len(t, set.Bindings, 3)
}

func TestBadCostModelsAreRefused(t *testing.T) {
	a := newAPITest(t)
	shadow := binding("", "", "sluice")
	shadow.Shadow = "random"
	unknown := binding("", "", "sluice")
	unknown.Shadow, unknown.ShadowEvery = "slice", 3
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	for want, b := range map[string]*sluicev1.CostModelBinding{
		"binding: is required":                       nil,
		"no such pool":                               binding("root/none", "", "sjf"),
		`binding.job_type: is "Batch"`:               binding("", "Batch", "sjf"),
		`binding.job_type: is "batches"`:             binding("", "batches", "sjf"),
		`binding.job_type: is "root/a"`:              binding("", "root/a", "sjf"),
		"binding.shadow_every: is missing":           shadow,
		`binding.models[0].name: is "a; b"`:          binding("", "", "a; b"),
		"binding.models: has 65 entries: at most 64": binding("", "", slices.Repeat([]string{"sjf"}, 65)...),
		`binding.models[0].name: is "sjf("`:          binding("", "", "sjf(", ")"),
		`[0].name: is "0.5 sjf"`:                     binding("", "", "0.5 sjf"),
		`[0].name: is "batch=sjf"`:                   binding("", "", "batch=sjf"),

		`binding.models[1].name: cannot be used: models: no cost model "slice"`: binding("", "", "sjf", "slice"),
		`binding.shadow: cannot be used: models: no cost model "slice"`:         unknown,
	} {
		_, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: b})
		require.Contains(t, []codes.Code{codes.InvalidArgument, codes.NotFound}, status.Code(err), want)
		require.ErrorContains(t, err, want)
		require.Nil(t, a.Snapshot().CostPolicy())
	}
}

// spinning is a model that computes for ever, or as long as the test runs.
type spinning struct {
	loadspread.Model
	stop *atomic.Bool
}

func (spinning) Name() string { return "spinning" }

func (s spinning) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	for !s.stop.Load() {
	}
	return s.Model.Wait(r, c)
}

// A model that never returns is named, and planning goes on with the one before.
func TestAnEndlessCostModelIsReplaced(t *testing.T) {
	var stop atomic.Bool
	a := newAPITestWith(t, func(c *Config) {
		c.ModelTimeout = 300 * time.Millisecond
		c.Costs.New = func(policy string) (costmodels.Model, error) {
			if policy == "spinning" {
				return spinning{stop: &stop}, nil
			}
			return models.New(policy)
		}
	})
	t.Cleanup(func() { stop.Store(true) })
	a.addHost(t, "s/h1", 4)
	runs := func(name string) {
		t.Helper()
		a.submit(t, sleepJob(name))
		require.Eventually(t, func() bool {
			return a.Snapshot().JobByName(cluster.JobID(name)).Counts[cluster.TaskPlaced] == 1
		}, time.Minute, time.Millisecond)
	}
	set := func(model string) {
		t.Helper()
		_, err := a.cluster.SetCostModel(t.Context(), &sluicev1.SetCostModelRequest{Binding: binding("", "", model)})
		require.NoError(t, err)
	}
	// What is wrong with the model in use, when a cycle has said so.
	inUse := func(broken bool) *sluicev1.GetCostModelsResponse {
		t.Helper()
		var got *sluicev1.GetCostModelsResponse
		require.Eventually(t, func() (done bool) {
			var err error
			got, err = a.cluster.GetCostModels(t.Context(), &sluicev1.GetCostModelsRequest{})
			return err == nil && (got.Fault != "") == broken
		}, time.Minute, time.Millisecond)
		return got
	}
	metric := func() string {
		w := httptest.NewRecorder()
		a.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	runs("before")
	set("spinning")
	runs("meanwhile")
	got := inUse(true)
	require.Equal(t, "guard: the cost model is broken: spinning: Wait does not return", got.Fault)
	require.Equal(t, "loadspread", got.Planning)
	require.Equal(t, "spinning", got.Bindings[0].Models[0].Name)
	require.Contains(t, metric(), "sluice_cost_model_broken 1")
	s, err := a.cluster.GetStatus(t.Context(), &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
	require.Equal(t, got.Fault, s.LastCycle.Fault)

	_, err = a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("plan")}, CostModel: "spinning"})
	require.ErrorContains(t, err, "cost_model: cannot be used: "+got.Fault)
	_, err = a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("plan")}})
	require.ErrorContains(t, err, "cost_model: is needed, since what is in use cannot be used: "+got.Fault)
	plan, err := a.jobs.PlanJobs(t.Context(), &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("plan")}, CostModel: "binpack"})
	require.NoError(t, err)
	require.Len(t, plan.Placements, 1)

	set("binpack")
	runs("after")
	require.Empty(t, inUse(false).Planning)
	require.Contains(t, metric(), "sluice_cost_model_broken 0")
}

// What was set is in the journal; what a later release cannot read does not keep it from planning.
func TestTheCostModelStaysSet(t *testing.T) {
	log := journal.NewMemory()
	state := cluster.NewState()
	tx := func(e cluster.Event) {
		r := cluster.Record{Seq: state.Seq() + 1, Event: e}
		require.NoError(t, state.Apply(r))
		require.NoError(t, log.Append([]cluster.Record{r}))
	}
	tx(&cluster.CostModelSet{Binding: cluster.CostBinding{Model: "binpack"}})
	again, err := journal.Load(log)
	require.NoError(t, err)
	s := &Scheduler{config: Config{Costs: CostModels{Configured: "loadspread", New: models.New}, State: again}}
	s.config.Planner = cycle.New(loadspread.Model{}, func() solver.Solver { return ssp.New() })
	s.config.fill()
	s.log = s.config.Logger
	costs := costPolicy{s: s}
	snapshot, _ := again.Snapshot()
	policy := costs.of(snapshot)
	require.Equal(t, "binpack", policy.Model.Name())
	require.Same(t, policy, costs.of(snapshot))
	tx(&cluster.CostModelSet{Binding: cluster.CostBinding{Model: "of-the-future"}})
	snapshot, _ = state.Snapshot()
	require.Same(t, policy, costs.of(snapshot))
}

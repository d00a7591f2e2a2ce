package cycle

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// A planner that lives through a random history knows, after every cycle, what one knows that has just read everything:
// the same tasks wait in the same classes, for the same reasons. What it keeps is consistent, and nothing waits that
// fits, whether or not its plans are carried out.
func TestAPlannerThatLivesKnowsWhatAFreshOneKnows(t *testing.T) {
	Checks(t, 1000)
	rapid.Check(t, func(t *rapid.T) {
		h := history{t: t, state: cluster.NewState(), planner: newPlanner()}
		t.Repeat(map[string]func(*rapid.T){
			"report a host":   h.reportHost,
			"change a host":   h.changeHost,
			"submit":          h.submit,
			"update":          h.update,
			"end or stop one": h.end,
			"stop a job":      h.stop,
			"forget a job":    h.forget,
			"cycle":           h.cycle,
		})
		h.cycle(t)
	})
}

// VerifyPlan is verify.Plan, which imports this package.
var VerifyPlan func(*cluster.Snapshot, *Output, cluster.Time, time.Duration) []string

// Checks has rapid make at least so many checks in the test, or a tenth of it in short: with the race detector, which has
// little to find where there is one goroutine, they take minutes.
func Checks(t *testing.T, n int) {
	if testing.Short() {
		n /= 10
	}
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	if set, err := strconv.Atoi(before); err == nil && set < n {
		require.NoError(t, f.Value.Set(strconv.Itoa(n)))
		t.Cleanup(func() { require.NoError(t, f.Value.Set(before)) })
	}
}

func newPlanner() *Planner {
	return New(both{}, func() solver.Solver { return netsimplex.New() }).planner
}

type history struct {
	t       *rapid.T
	state   *cluster.State
	planner *Planner
	now     cluster.Time
}

func (h *history) try(e cluster.Event) error {
	return h.state.Apply(cluster.Record{Seq: h.state.Seq() + 1, At: h.now, Event: e})
}

func (h *history) emit(e cluster.Event) { require.NoError(h.t, h.try(e)) }

func hostNumber(t *rapid.T) cluster.HostID {
	return cluster.MakeHostID("s", fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "host")))
}

func (h *history) reportHost(t *rapid.T) {
	m := cluster.Machine{Rack: fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "rack"))}
	if rapid.Bool().Draw(t, "ssd") {
		m.Attributes = []cluster.KeyValue{{Key: "disk", Value: "ssd"}}
	}
	for range rapid.IntRange(0, 3).Draw(t, "gpus") {
		m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model")})
	}
	m.Capacity = cluster.NewResources([cluster.NumDimensions]int64{
		cluster.CPU: rapid.Int64Range(0, 8).Draw(t, "cpu"), cluster.GPU: int64(len(m.GPUs)) * cluster.WholeGPU,
	}, cluster.Amount{Name: "x", Value: rapid.Int64Range(0, 2).Draw(t, "x")})
	h.emit(&cluster.HostReported{ID: hostNumber(t), Machine: m})
}

func (h *history) changeHost(t *rapid.T) {
	id := hostNumber(t)
	_ = h.try(rapid.SampledFrom([]cluster.Event{ // refused where there is no such host, or where tasks are on it
		&cluster.HostDrain{ID: id, Drain: true},
		&cluster.HostDrain{ID: id},
		&cluster.HostUnreached{ID: id},
		&cluster.HostRemoved{ID: id},
	}).Draw(t, "change"))
}

func (h *history) submit(t *rapid.T) {
	gpu := rapid.SampledFrom([]cluster.GPURequest{
		{}, {}, {Count: 1}, {Count: 2, Models: []string{"B"}}, {Milli: 400}, {Milli: 600, Models: []string{"A"}},
	}).Draw(t, "gpu")
	spec := &cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprint("j", h.state.NextJob())), Pool: cluster.RootPool,
		Priority:  rapid.Int32Range(0, 1).Draw(t, "priority"),
		Instances: rapid.Uint32Range(1, 12).Draw(t, "instances"),
		Task: cluster.TaskSpec{GPU: gpu, Resources: cluster.NewResources([cluster.NumDimensions]int64{
			cluster.CPU: rapid.Int64Range(0, 4).Draw(t, "cpu"), cluster.GPU: gpu.Amount(),
		}, cluster.Amount{Name: "x", Value: rapid.Int64Range(0, 1).Draw(t, "x")})},
	}
	if rapid.Bool().Draw(t, "constrained") {
		spec.Constraint = &cluster.Constraint{Label: cluster.KeyValue{Key: "disk", Value: "ssd"}, Comparison: cluster.Greater}
	}
	if rapid.IntRange(0, 2).Draw(t, "spread") == 0 {
		even := cluster.Spread{Domain: rapid.SampledFrom([]string{"host", "rack"}).Draw(t, "domain"), MaxSkew: rapid.Uint32Range(1, 2).Draw(t, "skew")}
		spec.Spread = []cluster.Spread{even}
	}
	if rapid.Bool().Draw(t, "local") {
		spec.Inputs = []cluster.Input{{
			Name: "in", Bytes: 1_000_000, Hosts: []cluster.HostID{hostNumber(t)}, Racks: []string{"1"},
			Last: rapid.Uint32Range(0, spec.Instances-1).Draw(t, "last"),
		}}
	}
	h.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: h.state.NextJob(), Spec: spec}}})
}

// job draws a job, nil if there is none.
func (h *history) job(t *rapid.T) *cluster.Job {
	if h.state.NumJobs() == 0 {
		return nil
	}
	return rapid.SampledFrom(slices.Collect(h.state.Jobs(0))).Draw(t, "job")
}

func (h *history) update(t *rapid.T) {
	if j := h.job(t); j != nil && !j.Stopping {
		spec := *j.Spec
		spec.Priority = rapid.Int32Range(0, 1).Draw(t, "priority")
		spec.Instances += rapid.Uint32Range(0, 2).Draw(t, "more")
		h.emit(&cluster.JobUpdated{Job: j.UID, Spec: &spec})
	}
}

func (h *history) end(t *rapid.T) {
	j := h.job(t)
	if j == nil {
		return
	}
	k := cluster.MakeTaskKey(j.UID, rapid.Uint32Range(0, j.Spec.Instances-1).Draw(t, "instance"))
	task := h.state.Task(k)
	_ = h.try(rapid.SampledFrom([]cluster.Event{ // refused where the task's state does not allow it
		&cluster.TaskStatus{Task: k, Run: task.Run, State: cluster.TaskRunning},
		&cluster.TaskStatus{Task: k, Run: task.Run, State: cluster.TaskSucceeded},
		&cluster.TaskRequeued{Task: k},
		&cluster.TaskStopping{Task: k},
		&cluster.TaskStopping{Task: k, Restart: true},
	}).Draw(t, "event"))
}

func (h *history) stop(t *rapid.T) {
	if j := h.job(t); j != nil {
		h.emit(&cluster.JobStopping{Job: j.UID})
	}
}

func (h *history) forget(t *rapid.T) {
	if j := h.job(t); j != nil {
		_ = h.try(&cluster.JobDeleted{Job: j.UID}) // refused where it has not ended
	}
}

// cycle plans, checks, and carries out all of the plan, some of it, or nothing.
func (h *history) cycle(t *rapid.T) {
	h.now += 1e9
	snapshot, changes := h.state.Snapshot()
	lived := h.run(snapshot, changes)
	h.check()

	every := rapid.IntRange(0, 2).Draw(t, "carried out")
	steps := lived.Steps()
	for i, step := range steps {
		if every == 0 || i%every != 0 {
			continue
		}
		for k, e := range step {
			err := h.try(e)
			if every > 1 && k == 0 && err != nil {
				break // it needs the room that a step makes which is left out, as the end of a hold
			}
			require.NoError(t, err)
		}
	}
	if every != 1 && len(steps) > 0 {
		return // the planner finds out in its next cycle
	}
	for n := 0; ; n++ { // a plan takes a few looks at what claims cannot be met; the next ones see the rest
		snapshot, changes = h.state.Snapshot()
		lived = h.run(snapshot, changes)
		if len(lived.Steps()) == 0 {
			break
		}
		require.Less(t, n, 3, "plans follow each other though nothing changed")
		for _, step := range lived.Steps() {
			for _, e := range step {
				h.emit(e)
			}
		}
	}
	other := newPlanner()
	fresh := other.Run(Input{Snapshot: snapshot, Rescan: true, Now: h.now})
	require.Empty(t, fresh.Placements, "something waits that fits")
	require.Equal(t, other.units.Len(), h.planner.units.Len())
	for k, u := range h.planner.units.From(0) {
		is := other.units.Get(k)
		require.Equal(t, is.group.key, u.group.key)
		require.Equal(t, []any{is.job, is.spec, is.row.fixed, is.set.key}, []any{u.job, u.spec, u.row.fixed, u.set.key})
	}
	for _, d := range fresh.Displacements {
		require.Empty(t, d.Victims, "something waits that can be made to fit: %+v", fresh.Displacements)
	}
	if len(fresh.Displacements) > 0 {
		return // room that others leave anyway is held on a host only once in a plan, and a plan is followed by one when they end
	}
	require.ElementsMatch(t, reasons(other), reasons(h.planner))
}

// run plans, and verifies the plan.
func (h *history) run(snapshot *cluster.Snapshot, changes cluster.Changes) Output {
	out := h.planner.Run(Input{Snapshot: snapshot, Changes: changes, Now: h.now})
	require.Empty(h.t, VerifyPlan(snapshot, &out, h.now, DefaultOptions().Hysteresis))
	return out
}

// reasons is what waits and why; prices depend on when they were last looked at.
func reasons(p *Planner) []Waiting {
	var all []Waiting
	for _, c := range p.order {
		w := p.describeClass(c)
		w.Price = 0
		all = append(all, w)
	}
	return all
}

// check holds what the planner keeps together.
func (h *history) check() {
	t, p := h.t, h.planner
	for _, b := range p.labels.balances {
		fresh := (&labels{hosts: p.hosts}).balance(&tally{domain: b.tally.domain, in: b.tally.in}, b.rule, b.number)
		require.Equal(t, []any{fresh.hosts, fresh.least, fresh.next}, []any{b.hosts, b.least, b.next})
	}
	require.NoError(t, p.graph.net.Check())
	known := 0
	for i, host := range p.hosts.byIndex {
		if host == nil {
			require.Contains(t, p.hosts.free, int32(i))
			continue
		}
		known++
		require.Equal(t, int32(i), host.index)
		require.Same(t, host, p.hosts.byID[host.id])
		require.Contains(t, p.hosts.byRack[p.hosts.racks[host.rec.Rack]].hosts, host.index)
		require.Equal(t, len(host.links) > 0, host.node != flowgraph.NoNode)
	}
	require.Len(t, p.hosts.byID, known)
	require.Len(t, p.classes, len(p.order))
	waiting := 0
	for _, c := range p.order {
		waiting += c.queue.Len()
		require.Same(t, c, p.classes[c.key])
		h.checkRow(c.row)
		var to []int32
		for l := range c.links.all() {
			require.Contains(t, l.host.links, l)
			to = append(to, l.host.index)
		}
		require.Len(t, to, c.links.len())
		for i := range int32(len(p.hosts.byIndex)) {
			require.Equal(t, slices.Contains(to, i), c.links.has(i))
		}
	}
	require.Len(t, p.waiting, waiting)
	for _, u := range p.units.From(0) {
		if u.counted != nil {
			require.Same(t, p.groups[u.group.key], u.group)
		}
		if u.host != nil {
			require.Same(t, p.hosts.byID[u.host.id], u.host)
			require.Contains(t, u.host.units, u)
		}
	}
}

// checkRow holds the row against one that has just looked at all hosts.
func (h *history) checkRow(r *row) {
	p := h.planner
	p.rows.refresh(r)
	fresh := *r
	fresh.fixed, fresh.head, fresh.deep = nil, nil, len(p.hosts.byIndex)
	p.rows.rebuild([]*row{&fresh})
	within, _ := slices.BinarySearch(fresh.head, r.end)
	require.Equal(h.t, append([]slot{}, fresh.head[:within]...), append([]slot{}, r.head...))
	for k := range p.hosts.byRack {
		var open []slot
		for _, s := range fresh.head {
			if p.hosts.rackOf[s.index()] == int32(k) {
				open = append(open, s)
			}
		}
		require.Equal(h.t, append([]slot{}, open...), append([]slot{}, r.inRack(int32(k)).slots...))
	}
}

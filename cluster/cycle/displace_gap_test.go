package cycle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// Displacement takes one claim after the other. Where all tasks are equal, the best for all of them together is a flow: a class
// of claims has an arc to every host, at what starting there costs, and on from there one for each task that might be stopped,
// at what that loses. A full cluster of borrowers, a tenth of which is claimed by others who have data on eight hosts each.
func TestWhatDisplacingOneByOneLoses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute with the race detector, and there is one goroutine")
	}
	for _, c := range []struct {
		name string
		ran  time.Duration // that those who borrow have run, at most
		hot  int           // on so many hosts lies all data
		most float64       // that they may pay beyond the best, as a part of that
	}{
		{"they have run for up to a minute", time.Minute, 200, 0.01},
		{"up to ten minutes", 10 * time.Minute, 200, 0.08},
		{"all as long", 0, 200, 0.001},
		{"all as long, the data on few hosts", 0, 40, 0.001},
		{"up to a minute, the data on few hosts", time.Minute, 40, 0.02},
		{"up to ten minutes, the data on few hosts", 10 * time.Minute, 40, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			paid, best := 0.0, 0.0
			for seed := range uint64(10) {
				a, b := displaceAndFlow(t, seed, c.ran, c.hot)
				require.GreaterOrEqual(t, a, b)
				paid, best = paid+float64(a), best+float64(b)
			}
			t.Logf("%.0f against %.0f: %.2f %%", paid, best, 100*(paid/best-1))
			require.LessOrEqual(t, paid/best, 1+c.most)
		})
	}
}

// displaceAndFlow returns what the displacements of one plan cost, and what the cheapest for all of them would.
func displaceAndFlow(t *testing.T, seed uint64, ran time.Duration, hot int) (paid, best flowgraph.Cost) {
	const hosts, slots, jobs, each = 200, 5, 20, 5
	r := rand.New(rand.NewPCG(seed, 0))
	state, at := cluster.NewState(), cluster.Time(time.Hour)
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: at, Event: e}))
	}
	one := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 1}}
	pool := func(path cluster.PoolPath, reserved int64) {
		emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: reserved, Limit: cluster.NoLimit, Share: 1},
		}}})
	}
	pool("root/borrows", 0)
	pool("root/claims", hosts*slots/2)
	id := func(i int) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprintf("h%03d", i)) }
	for i := range hosts {
		emit(&cluster.HostReported{ID: id(i), Machine: cluster.Machine{Rack: fmt.Sprint(i / 20), Capacity: one.Times(slots)}})
	}
	submit := func(pool cluster.PoolPath, n uint32, in ...cluster.Input) {
		spec := &cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprint("j", state.NextJob())), Pool: pool, Instances: n, Preemptible: true, Task: cluster.TaskSpec{Resources: one}, Inputs: in,
		}
		emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: state.NextJob(), Spec: spec}}})
	}
	p := New(quincy.Model{}, func() solver.Solver { return netsimplex.New() }).planner
	submit("root/borrows", hosts*slots)
	snapshot, changes := state.Snapshot()
	out := p.Run(Input{Snapshot: snapshot, Changes: changes, Now: at})
	require.Len(t, out.Placements, hosts*slots)
	began := at
	for _, x := range out.Placements {
		emit(&cluster.Placed{Task: x.Task, Run: x.Run, Host: x.Host})
		at = began.Add(time.Duration(r.Int64N(int64(ran) + 1)))
		emit(&cluster.TaskStatus{Task: x.Task, Run: x.Run, State: cluster.TaskRunning})
	}
	at = began.Add(10*time.Minute + time.Second)
	for range jobs {
		in := cluster.Input{Bytes: int64(1+r.IntN(8)) * 1_000_000_000, Last: each - 1}
		for _, i := range r.Perm(hot)[:8] {
			in.Hosts = append(in.Hosts, id(i))
		}
		submit("root/claims", each, in)
	}
	snapshot, changes = state.Snapshot()
	at = at.Add(time.Minute)
	in := Input{Snapshot: snapshot, Changes: changes, Now: at}
	p.ingest(in)
	p.plan(Input{Snapshot: snapshot, Now: at, KeepAll: true}, &out, newLaps(nil)) // all claims wait

	n := flowgraph.New()
	sink := n.AddNode(-jobs * each)
	d := displacer{p: p, now: at, fruitless: newFruitless()}
	nodes := make([]flowgraph.NodeID, hosts)
	for i, h := range p.hosts.byIndex {
		nodes[i] = n.AddNode(0)
		for _, u := range h.units {
			n.AddArc(nodes[i], sink, 0, 1, d.loss(u))
		}
	}
	for _, c := range p.order {
		require.EqualValues(t, each, c.claims())
		v := n.AddNode(each)
		for i, h := range p.hosts.byIndex {
			n.AddArc(v, nodes[i], 0, each, p.startAt(c, h))
		}
	}
	res, err := netsimplex.New().Solve(n, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, solver.Optimal, res.Status)

	start := map[cluster.TaskKey]*class{}
	for k, at := range p.waiting {
		start[k] = at.class
	}
	plan := Output{}
	p.displace(in, &plan)
	held := 0
	for i := range plan.Displacements {
		for _, x := range plan.Displacements[i].Holds {
			paid += p.startAt(start[x.Task], p.hosts.byID[x.Hold.Host])
			held++
		}
		for _, v := range plan.Displacements[i].Victims {
			paid += flowgraph.Cost(v.Preemption.Price)
		}
	}
	require.Equal(t, jobs*each, held)
	return paid, flowgraph.Cost(res.Objective)
}

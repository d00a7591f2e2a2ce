package cycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// The optimum over the candidates that price-out found is the optimum of the complete network, in which every class has
// an arc to every host that has room for it, and may start in the place of every running task that may move from near its data;
// with a tolerance it is at most so much for each task above it.
func TestPriceOutIsExact(t *testing.T) {
	t.Run("candidates", func(t *testing.T) { priceOutIsExact(t, false) })
	t.Run("slot nodes", func(t *testing.T) {
		exchanges := 0
		for n := 0; exchanges == 0; n++ { // a hundred random clusters may have none
			require.Less(t, n, 10, "nobody moved")
			exchanges = priceOutIsExact(t, true)
		}
	})
}

// priceOutIsExact returns how many running tasks moved.
func priceOutIsExact(t *testing.T, moves bool) (exchanges int) {
	rapid.Check(t, func(t *rapid.T) {
		state := cluster.NewState()
		at := cluster.Time(1)
		emit := func(e cluster.Event) {
			require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: at, Event: e}))
		}
		draw := func(label string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, label) }
		some := func(label string, values ...int64) int64 { return rapid.SampledFrom(values).Draw(t, label) }
		vector := func(scale int64) cluster.Resources {
			return cluster.Resources{Fixed: [cluster.NumDimensions]int64{draw("cpu", 1, 9) * scale, draw("memory", 1, 9) * scale}}
		}
		hosts := draw("hosts", 1, 40)
		hostID := func(i int64) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprint(i)) }
		report := func(from, to int64) {
			for i := from; i < to; i++ {
				emit(&cluster.HostReported{
					ID: hostID(i), Machine: cluster.Machine{Capacity: vector(draw("size", 1, 6)), Rack: fmt.Sprint(i % 5)},
				})
			}
		}
		data := hosts // so many have some
		job := func(inputs int64) {
			uid := state.NextJob()
			spec := &cluster.JobSpec{
				Name: cluster.JobID(fmt.Sprint("j", uid)), Pool: cluster.RootPool, Preemptible: true,
				Priority: int32(draw("priority", 0, 3)), Instances: uint32(some("instances", 1, 5, 20, 60)),
				Task: cluster.TaskSpec{Resources: vector(1)},
			}
			for range inputs {
				spec.Inputs = append(spec.Inputs, cluster.Input{
					Bytes: some("bytes", 1, 1_000_000, 2_000_000_000), Last: spec.Instances,
					Hosts: []cluster.HostID{hostID(draw("replica", 0, data-1)), hostID(draw("replica", 0, data-1))},
				})
			}
			emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
		}
		costs := both{answers: some("answers", 0, 0, 1, 3)}
		p := New(costs, func() solver.Solver { return ssp.New() }).planner
		came := int64(0) // hosts that are there when the first jobs come, and get full
		if moves {
			came = draw("first hosts", 1, max(1, hosts/2))
			report(0, came)
			data = came
			p = New(moving{both: costs, theta: flowgraph.Cost(draw("theta", 1, 300))}, func() solver.Solver { return ssp.New() }).planner
			for range draw("jobs that run", 1, 4) {
				job(draw("inputs", 0, 1))
			}
			snapshot, changes := state.Snapshot()
			out := p.Run(Input{Snapshot: snapshot, Changes: changes, Now: 1})
			for i := range out.Placements {
				x := &out.Placements[i]
				emit(&cluster.Placed{Task: x.Task, Run: x.Run, Host: x.Host})
				if at += cluster.Time(draw("passes", 0, 3) * int64(time.Second)); draw("begins", 0, 3) > 0 {
					emit(&cluster.TaskStatus{Task: x.Task, Run: x.Run, State: cluster.TaskRunning})
				}
			}
		}
		report(came, hosts)
		for range draw("jobs", 1, 6) {
			job(draw("inputs", 0, 3))
		}
		snapshot, changes := state.Snapshot()
		in := Input{Snapshot: snapshot, Changes: changes, Now: at + cluster.Time(draw("waits", 0, 30)*int64(time.Second)), Rescan: !moves}
		p.ingest(in)
		p.dropEmpty()
		p.admit(in.Now)
		p.price(in.Now)
		p.moves = p.model.Moves()
		p.options.Tolerance = rapid.SampledFrom([]flowgraph.Cost{0, 0, 1, 20, 200}).Draw(t, "tolerance")
		var stats Stats
		flow, ok := p.optimize(true, in.Budget, &stats, newLaps(nil))
		require.True(t, ok, stats.LimitedBy)
		exchanges += len(p.transfers(flow))

		res, err := ssp.New().Solve(complete(p), solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, res.Status)
		require.GreaterOrEqual(t, stats.Objective, res.Objective)
		tasks := int64(0)
		for _, c := range p.order {
			tasks += c.open() + c.moving
		}
		require.LessOrEqual(t, stats.Objective, res.Objective+tasks*int64(p.options.Tolerance)+tasks*int64(p.options.Tolerance)/4)
	})
	return exchanges
}

// both spreads load, and prefers hosts with data. It answers for so many starts on a host, 0 for any number.
type both struct {
	loadspread.Model
	answers int64
}

func (b both) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	if 0 < b.answers && b.answers <= k {
		return costmodels.MaxPrice
	}
	return b.Model.Crowd(r, h, k)
}

func (both) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	return quincy.Model{}.Locality(r, c)
}

// moving also has running tasks make way.
type moving struct {
	both
	theta flowgraph.Cost
}

func (moving) Moves() bool { return true }

func (m moving) Move(r *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	return quincy.Model{Theta: m.theta}.Move(r, c, ran)
}

func complete(p *Planner) *flowgraph.Network {
	n := flowgraph.New()
	sink := n.AddNode(0)
	nodes := make([]flowgraph.NodeID, len(p.hosts.byIndex))
	demand := int64(0)
	for i, h := range p.hosts.byIndex {
		nodes[i] = n.AddNode(0)
		takes := p.graph.smallest.takes(h, &h.room.Fixed)
		crowd := flowgraph.Cost(0)
		for from := int64(0); from < takes; from += segment(from) {
			if price := p.model.Crowd(&costmodels.Round{Unit: p.round.Unit}, h.rec, from); price < costmodels.MaxPrice {
				crowd = price
			} else if takes = min(takes, p.round.Unit.Count(h.room, takes)); from < takes {
				crowd = max(crowd, later)
			} else {
				break
			}
			n.AddArc(nodes[i], sink, 0, min(segment(from), takes-from), crowd)
		}
	}
	classes := map[*class]flowgraph.NodeID{}
	type place struct {
		host *host
		asks slotKey
	}
	slots, swaps := map[place]flowgraph.NodeID{}, map[[2]flowgraph.NodeID]bool{}
	for _, h := range p.hosts.byIndex {
		for _, m := range p.movable(h) {
			p.elsewhere(&m)
		}
	}
	for _, c := range p.order {
		classes[c] = n.AddNode(c.open())
	}
	for _, h := range p.hosts.byIndex {
		for _, m := range p.movable(h) {
			at := place{h, m.unit.row.slot()}
			if _, ok := slots[at]; !ok {
				slots[at] = n.AddNode(0)
			}
			n.AddArc(slots[at], classes[p.asWaiting(m.unit)], 0, 1, m.loses)
			for _, c := range p.order {
				if start := p.startAt(c, h); p.moves && c.local.isNear(h.index) && start < c.price && c.row.judge(h)%kinds == full &&
					c.claims() > 0 && c.replaces(m.unit) && !swaps[[2]flowgraph.NodeID{classes[c], slots[at]}] {
					swaps[[2]flowgraph.NodeID{classes[c], slots[at]}] = true
					n.AddArc(classes[c], slots[at], 0, c.claims(), start)
				}
			}
		}
	}
	for _, c := range p.order {
		v := classes[c]
		demand += c.open()
		for tier, left := range c.left {
			n.AddArc(v, sink, 0, left, c.price+tierSteps[tier])
		}
		for _, h := range p.hosts.byIndex {
			if price, ok := c.accepts(h.index); ok {
				n.AddArc(v, nodes[h.index], 0, c.row.task.CountOn(h.rec, 1000), price)
			}
		}
	}
	n.SetSupply(sink, -demand)
	return n
}

// No mixture of waiting tasks that fits on a host is larger than what the network lets start there.
func TestNoHostTakesMoreThanItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vector := func(label string, most int64) (r cluster.Resources) {
			for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} {
				r.Fixed[d] = rapid.Int64Range(1, most).Draw(t, label)
			}
			return r
		}
		rec := &cluster.Host{Machine: &cluster.Machine{Capacity: vector("capacity", 60)}}
		rec.Slack = vector("slack", 60)
		h := &host{rec: rec, room: rec.Room()}
		var classes []*class
		for range rapid.IntRange(1, 5).Draw(t, "classes") {
			r := &row{task: &cluster.TaskSpec{Resources: vector("request", 9)}}
			r.key.revocable = rapid.Bool().Draw(t, "revocable")
			classes = append(classes, &class{row: r, left: [cluster.NumTiers]int64{1}})
		}
		bound := smallestOf(classes)
		takes, starts := bound.takes(h, &h.room.Fixed), int64(0)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(classes)-1), 1, 120).Draw(t, "order") {
			if r := classes[i].row; r.fit(h, 1) > 0 {
				h.rec, h.lending = r.bind(h.rec, cluster.Devices{}), nil
				starts++
			}
		}
		require.LessOrEqual(t, starts, takes)
	})
}

package cycle

import (
	"fmt"
	"testing"

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
// an arc to every host that has room for it; with a tolerance it is at most so much for each task above it.
func TestPriceOutIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := cluster.NewState()
		emit := func(e cluster.Event) {
			require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: 1, Event: e}))
		}
		draw := func(label string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, label) }
		vector := func(scale int64) cluster.Resources {
			return cluster.Resources{Fixed: [cluster.NumDimensions]int64{draw("cpu", 1, 9) * scale, draw("memory", 1, 9) * scale}}
		}
		hosts := draw("hosts", 1, 40)
		hostID := func(i int64) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprint(i)) }
		for i := range hosts {
			emit(&cluster.HostReported{
				ID: hostID(i), Machine: cluster.Machine{Capacity: vector(draw("size", 1, 6)), Rack: fmt.Sprint(i % 5)},
			})
		}
		for i := range draw("jobs", 1, 6) {
			uid := cluster.JobUID(i + 1)
			spec := &cluster.JobSpec{
				Name: cluster.JobID(fmt.Sprint("j", i)), Pool: cluster.RootPool,
				Priority: int32(draw("priority", 0, 3)), Instances: uint32(draw("instances", 1, 60)),
				Task: cluster.TaskSpec{Resources: vector(1)},
			}
			for range draw("inputs", 0, 3) {
				spec.Inputs = append(spec.Inputs, cluster.Input{
					Bytes: draw("bytes", 1, 2_000_000_000), Last: spec.Instances,
					Hosts: []cluster.HostID{hostID(draw("replica", 0, hosts-1)), hostID(draw("replica", 0, hosts-1))},
				})
			}
			emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
		}
		snapshot, changes := state.Snapshot()
		p := New(both{}, func() solver.Solver { return ssp.New() })
		in := Input{Snapshot: snapshot, Changes: changes, Rescan: true, Now: 1}
		p.ingest(in)
		p.admit(in.Now)
		p.price(in.Now)
		p.options.Tolerance = rapid.SampledFrom([]flowgraph.Cost{0, 0, 1, 20, 200}).Draw(t, "tolerance")
		var stats Stats
		_, ok := p.optimize(in.Budget, &stats, newLaps(nil))
		require.True(t, ok, stats.LimitedBy)

		res, err := ssp.New().Solve(complete(p), solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, solver.Optimal, res.Status)
		require.GreaterOrEqual(t, stats.Objective, res.Objective)
		tasks := int64(0)
		for _, c := range p.order {
			tasks += c.open()
		}
		require.LessOrEqual(t, stats.Objective, res.Objective+tasks*int64(p.options.Tolerance)+tasks*int64(p.options.Tolerance)/4)
	})
}

// both spreads load, and prefers hosts with data.
type both struct{ loadspread.Model }

func (both) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	return quincy.Model{}.Locality(r, c)
}

func complete(p *Planner) *flowgraph.Network {
	n := flowgraph.New()
	sink := n.AddNode(0)
	nodes := make([]flowgraph.NodeID, len(p.hosts.byIndex))
	demand := int64(0)
	for i, h := range p.hosts.byIndex {
		nodes[i] = n.AddNode(0)
		takes := p.graph.smallest.takes(h, &h.room.Fixed)
		for from := int64(0); from < takes; from += segment(from) {
			crowd := loadspread.Model{}.Crowd(&costmodels.Round{Unit: p.round.Unit}, h.rec, from)
			n.AddArc(nodes[i], sink, 0, min(segment(from), takes-from), crowd)
		}
	}
	for _, c := range p.order {
		v := n.AddNode(c.open())
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
		for i := range rapid.IntRange(1, 5).Draw(t, "classes") {
			r := &row{task: &cluster.TaskSpec{Resources: vector("request", 9)}}
			r.key.revocable = rapid.Bool().Draw(t, "revocable")
			classes = append(classes, &class{row: r, node: flowgraph.NodeID(i)})
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

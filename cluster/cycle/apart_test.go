package cycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// full is a cluster of n hosts with 18 places each, and as many services of 18 replicas, of which no two may share a host:
// it takes all of them, to the last place.
func full(t require.TestingT, n int) *world {
	w := newWorld(t)
	for i := range n {
		w.host(i, vector(18_000, 18<<30))
	}
	for range n {
		w.submit(cluster.JobSpec{
			Type: cluster.Stateless, Instances: 18, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)},
			Spread: []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}},
		})
	}
	return w
}

// Replicas that must not share a host stay in the flow, which sees what choosing one by one does not: that the last
// service needs its places on hosts that the others leave to it.
func TestReplicasApartFillTheClusterToTheLastPlace(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 100
	}
	w := full(t, n)
	out := w.cycle()
	require.Len(t, out.Placements, n*18)
	seen := map[string]bool{}
	for _, p := range out.Placements {
		key := fmt.Sprint(p.Task.Job(), p.Host)
		require.False(t, seen[key], "two of a service on one host")
		seen[key] = true
	}
	require.Zero(t, out.Stats.Inserted, "the flow places everything")
	require.LessOrEqual(t, out.Stats.Rounds, 2, "what the first round cuts goes elsewhere in the second")
}

// The same of racks, of which the network knows nothing: what the flow sends twice to one is cut and finds another in later rounds.
func TestReplicasApartByRackFillTheClusterToTheLastPlace(t *testing.T) {
	const each, slots = 10, 10
	racks := 40
	if testing.Short() {
		racks = 10
	}
	w := newWorld(t)
	for i := range racks * each {
		w.machine(i, cluster.Machine{Rack: fmt.Sprint("r", i%racks), Capacity: vector(slots*1000, slots<<30)})
	}
	for range each * slots {
		w.submit(cluster.JobSpec{
			Type: cluster.Stateless, Instances: uint32(racks), Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)},
			Spread: []cluster.Spread{{Domain: "rack", Max: 1}},
		})
	}
	out := w.cycle()
	require.Len(t, out.Placements, racks*each*slots)
	require.LessOrEqual(t, out.Stats.Rounds, 4)
}

func BenchmarkReplicasApart(b *testing.B) {
	const n = 400
	snapshot, changes := full(b, n).state.Snapshot()
	for b.Loop() {
		p := cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() })
		out := p.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Rescan: true, Now: 1})
		require.Len(b, out.Placements, n*18)
		b.ReportMetric(float64(out.Stats.Solves), "solves")
	}
}

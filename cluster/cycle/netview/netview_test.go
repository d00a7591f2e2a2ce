package netview_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/cycle/netview"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

var update = flag.Bool("update", false, "write the pictures of docs/network.md anew")

const cores, gib = 1000, 1 << 30

func vector(cpu, memory int64) cluster.Resources {
	return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: cpu, cluster.Memory: memory}}
}

// solve plans for the jobs on the hosts and returns the network.
func solve(t *testing.T, m costmodels.Model, pools []cluster.Pool, hosts []cluster.Machine, jobs ...cluster.JobSpec) *cycle.Network {
	t.Helper()
	state, now := cluster.NewState(), cluster.Time(time.Hour)
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: now, Event: e}))
	}
	for i := range pools {
		emit(&cluster.PoolPut{Pool: pools[i]})
	}
	for i := range hosts {
		emit(&cluster.HostReported{ID: cluster.MakeHostID("rack", string(rune('a'+i))), Machine: hosts[i]})
	}
	for i := range jobs {
		if jobs[i].Pool == "" {
			jobs[i].Pool = cluster.RootPool
		}
		emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: state.NextJob(), Spec: &jobs[i]}}})
	}
	p := cycle.New(m, func() solver.Solver { return netsimplex.New() })
	snapshot, changes := state.Snapshot()
	p.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: now.Add(time.Second)})
	n, err := p.Network(nil)
	require.NoError(t, err)
	return n
}

func write(t *testing.T, n *cycle.Network, f netview.Format) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, netview.Write(&out, n, f))
	return out.String()
}

// plain is two jobs on two hosts with room for three of the four tasks.
func plain(t *testing.T) *cycle.Network {
	return solve(t, sluice.Model{}, nil, []cluster.Machine{{Capacity: vector(2*cores, 4*gib)}, {Capacity: vector(cores, 4*gib)}},
		cluster.JobSpec{Name: "sort", Instances: 3, Task: cluster.TaskSpec{Resources: vector(cores, gib)}},
		cluster.JobSpec{Name: "urgent", Instances: 1, Priority: 3, Task: cluster.TaskSpec{Resources: vector(cores, gib)}},
	)
}

// near is a job whose input one of two racks holds.
func near(t *testing.T) *cycle.Network {
	return solve(t, sluice.Model{}, nil,
		[]cluster.Machine{{Capacity: vector(cores, gib), Rack: "r1"}, {Capacity: vector(cores, gib), Rack: "r1"}, {Capacity: vector(2*cores, gib), Rack: "r2"}},
		cluster.JobSpec{
			Name: "scan", Instances: 3, Task: cluster.TaskSpec{Resources: vector(cores, 0)},
			Inputs: []cluster.Input{{Bytes: gib, Hosts: []cluster.HostID{"rack/a"}, Last: 2, Racks: []string{"r1"}}},
		},
	)
}

// tiers is a pool that may claim a core, and runs behind what it asks for.
func tiers(t *testing.T) *cycle.Network {
	reserve := func(path cluster.PoolPath, n int64) cluster.Pool {
		return cluster.Pool{Path: path, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: n, Limit: cluster.NoLimit, Share: 1},
		}}
	}
	return solve(t, sluice.Model{}, []cluster.Pool{reserve("root/ads", cores), reserve("root/lab", 0)},
		[]cluster.Machine{{Capacity: vector(4*cores, 4*gib)}},
		cluster.JobSpec{Name: "rank", Pool: "root/ads", Preemptible: true, Instances: 2, Task: cluster.TaskSpec{Resources: vector(cores, gib)}},
		cluster.JobSpec{Name: "try", Pool: "root/lab", Preemptible: true, Instances: 3, Task: cluster.TaskSpec{Resources: vector(cores, gib)}},
	)
}

// swap is a job whose input a host holds on which another runs that could run anywhere, and may move.
func swap(t *testing.T) *cycle.Network {
	state, now := cluster.NewState(), cluster.Time(time.Hour)
	emit := func(e cluster.Event) {
		require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: now, Event: e}))
	}
	p := cycle.New(quincy.Model{Theta: 100}, func() solver.Solver { return netsimplex.New() })
	plan := func() (out cycle.Output) {
		snapshot, changes := state.Snapshot()
		now = now.Add(4 * time.Second)
		return p.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: now})
	}
	submit := func(spec cluster.JobSpec) {
		spec.Pool, spec.Instances, spec.Preemptible, spec.Task.Resources = cluster.RootPool, 1, true, vector(cores, 0)
		emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: state.NextJob(), Spec: &spec}}})
	}
	emit(&cluster.HostReported{ID: "rack/a", Machine: cluster.Machine{Capacity: vector(cores, 0)}})
	submit(cluster.JobSpec{Name: "crunch"})
	for _, x := range plan().Placements {
		emit(&cluster.Placed{Task: x.Task, Run: x.Run, Host: x.Host})
		emit(&cluster.TaskStatus{Task: x.Task, Run: x.Run, State: cluster.TaskRunning})
	}
	emit(&cluster.HostReported{ID: "rack/b", Machine: cluster.Machine{Capacity: vector(cores, 0)}})
	submit(cluster.JobSpec{Name: "scan", Inputs: []cluster.Input{{Bytes: gib, Hosts: []cluster.HostID{"rack/a"}}}})
	require.Len(t, plan().Displacements, 1)
	n, err := p.Network(nil)
	require.NoError(t, err)
	return n
}

// TestPicturesOfTheDocs: the pictures of the page are the networks of the examples above. Each follows a comment with its
// name.
func TestPicturesOfTheDocs(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "network.md")
	for _, c := range []struct {
		name string
		make func(*testing.T) *cycle.Network
	}{{"plain", plain}, {"near", near}, {"tiers", tiers}, {"swap", swap}} {
		t.Run(c.name, func(t *testing.T) {
			page, err := os.ReadFile(path)
			require.NoError(t, err)
			before, rest, found := strings.Cut(string(page), "<!-- "+c.name+" -->\n```mermaid\n")
			require.True(t, found)
			picture, after, _ := strings.Cut(rest, "```\n")
			want := write(t, c.make(t), netview.Mermaid)
			if *update {
				begin := strings.TrimSuffix(string(page), rest)
				require.True(t, strings.HasPrefix(begin, before))
				require.NoError(t, os.WriteFile(path, []byte(begin+want+"```\n"+after), 0o644))
				return
			}
			require.Equal(t, want, picture, "run this test with -update")
		})
	}
}

func TestDIMACSIsTheProblem(t *testing.T) {
	n := near(t)
	text := write(t, n, netview.DIMACS)
	require.Contains(t, text, "c 1 CLASS scan\n")
	read, err := dimacs.Read(bytes.NewBufferString(text))
	require.NoError(t, err)
	res, err := ssp.New().Solve(read, solver.Budget{})
	require.NoError(t, err)
	require.Equal(t, n.Objective, res.Objective)
}

func TestJSONTellsEverything(t *testing.T) {
	n := tiers(t)
	var d netview.Document
	require.NoError(t, json.Unmarshal([]byte(write(t, n, netview.JSON)), &d))
	require.True(t, d.Solved)
	var cost, supply int64
	waits := map[string]int64{}
	for i := range d.Arcs {
		a := &d.Arcs[i]
		cost += a.Flow * int64(a.Price+a.Step)
		require.Equal(t, a.Kind == cycle.DrainArc, a.Capacity == nil, "arc %d", i)
		if a.Kind == cycle.WaitArc {
			waits[a.Tier] += *a.Capacity
		}
	}
	for i := range d.Nodes {
		supply += d.Nodes[i].Supply
	}
	require.Equal(t, n.Objective, d.Objective)
	require.Equal(t, n.Objective, cost)
	require.Zero(t, supply)
	require.Positive(t, waits["reserved"])
	require.Equal(t, map[string]int64{"cpu_milli": cores, "memory_bytes": gib}, d.Nodes[0].Request)
}

func TestDOTNamesEverything(t *testing.T) {
	text := write(t, plain(t), netview.DOT)
	for _, want := range []string{"digraph", "like sort", "priority 3", "host rack/a", "waiting in root", "penwidth", " ms, "} {
		require.Contains(t, text, want)
	}
}

func TestUnknownFormat(t *testing.T) {
	require.ErrorIs(t, netview.Write(&bytes.Buffer{}, plain(t), "svg"), netview.ErrFormat)
}

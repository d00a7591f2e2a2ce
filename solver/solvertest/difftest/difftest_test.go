package difftest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/registry"
	"github.com/sluice-scheduler/sluice/solver/relax"
	"github.com/sluice-scheduler/sluice/solver/repair"
	"github.com/sluice-scheduler/sluice/solver/solvertest/difftest"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

var (
	seed   = flag.Uint64("seed", 1, "of the first script")
	count  = flag.Int("scripts", 0, "how many scripts; 0 is 1,000, or 10,000 when SLUICE_LONG is set")
	replay = flag.String("replay", "", "file with a script to play instead")
	export = flag.String("export", "", "folder for large networks of all shapes, in DIMACS format")
)

// limits are sizes up to which the slow are asked.
var limits = map[string]int{"ssp": 400, "highs": 400}

// ranges are the cost ranges that solvers promise.
var ranges = map[string]int{
	"ssp": ssp.MaxBits, "netsimplex": netsimplex.MaxBits, "repair": repair.MaxBits, "auto": repair.MaxBits, "costscaling": 36, "relax": relax.MaxBits, "highs": 50,
}

// contenders are all solvers of the registry, the oracle first.
func contenders(t *testing.T) []difftest.Contender {
	list := []difftest.Contender{fromRegistry(t, "ssp")}
	for _, name := range registry.Names() {
		if name != "ssp" {
			list = append(list, fromRegistry(t, name))
		}
	}
	return list
}

func fromRegistry(t *testing.T, name string) difftest.Contender {
	return difftest.Contender{
		Name: name, MaxArcs: limits[name], MaxBits: ranges[name],
		New: func() solver.Solver {
			s, err := registry.New(name)
			require.NoError(t, err)
			return s
		},
	}
}

// TestSolvers plays scripts of many seeds. A failure prints the smallest script
// that shows it; write it to a file and give that to -replay.
func TestSolvers(t *testing.T) {
	if *replay != "" {
		play(t, *replay)
		return
	}
	long := os.Getenv("SLUICE_LONG") != ""
	scripts := *count
	if scripts == 0 {
		if scripts = 1000; testing.Short() {
			scripts = 200
		}
		if long {
			scripts = 10_000
		}
	}
	list := contenders(t)
	size := difftest.Size{Nodes: 120, Arcs: 600, Batches: 6}
	if long {
		size = difftest.Size{Nodes: 2000, Arcs: 20_000, Batches: 30}
	}
	var next, solves, optimal atomic.Int64
	t.Run("scripts", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("player", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(scripts); i = next.Add(1) - 1 {
					at := *seed + uint64(i)
					s := difftest.Generate(at, size)
					out, err := difftest.Play(s, list)
					if err != nil {
						var small bytes.Buffer
						_, _ = difftest.Shrink(s, list, 3000).WriteTo(&small)
						t.Fatalf("seed %d: %v\nsmallest script:\n%s", at, err, small.String())
					}
					solves.Add(int64(out.Solves))
					optimal.Add(int64(out.Optimal))
				}
			})
		}
	})
	t.Logf("%d scripts, %d solves, %d optimal", scripts, solves.Load(), optimal.Load())
	require.Greater(t, 2*optimal.Load(), solves.Load(), "most networks must be feasible, or little is compared")
}

func play(t *testing.T, file string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	s, err := difftest.Read(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = difftest.Play(s, contenders(t))
	require.NoError(t, err)
}

// TestRecorded plays the smallest scripts of failures that there once were.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { play(t, file) })
	}
}

// TestLarge draws large networks of every shape, and with -export writes ten of
// each that have a feasible flow, for measuring.
func TestLarge(t *testing.T) {
	const arcs = 20_000
	each := 1
	if *export != "" {
		each = 10
	}
	for _, shape := range difftest.Shapes {
		for i, found := *seed, 0; found < each; i++ {
			require.Less(t, i, *seed+100, "hardly any of shape %s is feasible", shape)
			n := difftest.Large(shape, i, arcs)
			require.Greater(t, n.NumArcs(), arcs/2, shape)
			r, err := netsimplex.New().Solve(n, solver.Budget{})
			require.NoError(t, err)
			if r.Status != solver.Optimal {
				continue
			}
			found++
			require.NoError(t, solver.Verify(n, r))
			if *export == "" {
				continue
			}
			f, err := os.Create(filepath.Join(*export, fmt.Sprintf("%s-%d.min", shape, i)))
			require.NoError(t, err)
			require.NoError(t, dimacs.Write(f, n))
			require.NoError(t, f.Close())
		}
	}
}

// TestWrittenAlike: a network has the same answer as other programs read it, and arcs without an upper bound only where a cycle of them
// may pay.
func TestWrittenAlike(t *testing.T) {
	for _, shape := range difftest.Shapes {
		for i := range uint64(60) {
			n := difftest.Large(shape, *seed+i, 60)
			want, err := ssp.New().Solve(n, solver.Budget{})
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, dimacs.Write(&text, n))
			read, err := dimacs.Read(&text)
			require.NoError(t, err)
			pays := slices.ContainsFunc(unbounded(n), func(a flowgraph.ArcID) bool { return n.Cost(a) < 0 })
			require.Equal(t, pays, len(unbounded(read)) > 0, "%s %d", shape, i)
			got, err := ssp.New().Solve(read, solver.Budget{})
			require.NoError(t, err)
			require.Equal(t, want.Status, got.Status, "%s %d", shape, i)
			require.Equal(t, want.Objective, got.Objective, "%s %d", shape, i)
		}
	}
}

func unbounded(n *flowgraph.Network) (list []flowgraph.ArcID) {
	for a := range flowgraph.ArcID(n.ArcBound()) {
		if n.ArcAlive(a) && n.Upper(a) == flowgraph.Infinite {
			list = append(list, a)
		}
	}
	return list
}

func TestPlaysRepeat(t *testing.T) {
	for i := range uint64(20) {
		s := difftest.Generate(*seed+i, difftest.Size{Nodes: 30, Arcs: 100, Batches: 4})
		one, err := difftest.Play(s, contenders(t))
		require.NoError(t, err)
		two, err := difftest.Play(s, contenders(t))
		require.NoError(t, err)
		require.Equal(t, one, two, "seed %d", *seed+i)
	}
}

func TestScriptsSurvivePrinting(t *testing.T) {
	for i := range uint64(20) {
		s := difftest.Generate(i, difftest.Size{Nodes: 30, Arcs: 100, Batches: 4})
		var text bytes.Buffer
		_, err := s.WriteTo(&text)
		require.NoError(t, err)
		back, err := difftest.Read(&text)
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, message := range map[string]string{
		"dance 1":          "line 1: \"dance\" is not a verb",
		"# fine\n\nnode":   "line 3: node takes 1 numbers, not 0",
		"node one":         "\"one\" is not a whole number",
		"bounds 1 2 1":     "bounds [2, 1] break",
		"arc 1 0 0 -1 1 1": "bounds [-1, 1] break",
	} {
		_, err := difftest.Read(strings.NewReader(text))
		require.ErrorIs(t, err, difftest.ErrScript)
		require.ErrorContains(t, err, message)
	}
}

// planted is a sound solver but for one bug: when it knows the network, an arc of
// no capacity and a node of supply make it err by one.
type planted struct {
	solver.Solver
	net *flowgraph.Network
}

func (p *planted) Solve(n *flowgraph.Network, b solver.Budget) (solver.Result, error) {
	r, err := p.Solver.Solve(n, b)
	if n == p.net && r.Status == solver.Optimal && hasClosedArc(n) && hasSource(n) {
		r.Objective++
	}
	p.net = n
	return r, err
}

func hasClosedArc(n *flowgraph.Network) bool {
	for a := range n.ArcBound() {
		if id := flowgraph.ArcID(a); n.ArcAlive(id) && n.Upper(id) == 0 {
			return true
		}
	}
	return false
}

func hasSource(n *flowgraph.Network) bool {
	for v := range n.NodeBound() {
		if id := flowgraph.NodeID(v); n.NodeAlive(id) && n.Supply(id) > 0 {
			return true
		}
	}
	return false
}

// TestShrink finds the planted bug and makes its script so small that every step
// that is left is needed.
func TestShrink(t *testing.T) {
	list := []difftest.Contender{
		{Name: "ssp", New: func() solver.Solver { return ssp.New() }},
		{Name: "planted", New: func() solver.Solver { return &planted{Solver: netsimplex.New()} }},
	}
	found := 0
	for i := range uint64(6) {
		s := difftest.Generate(i, difftest.Size{Nodes: 30, Arcs: 100, Batches: 4})
		_, err := difftest.Play(s, list)
		if err == nil {
			require.Equal(t, s, difftest.Shrink(s, list, 10), "a script that fails nothing stays")
			continue
		}
		found++
		var failure *difftest.Failure
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "planted", failure.Solver)
		small := difftest.Shrink(s, list, 5000)
		_, err = difftest.Play(small, list)
		require.ErrorAs(t, err, &failure, "what is left still fails")
		require.Equal(t, "planted", failure.Solver)
		// Two nodes, a supply, an open arc, a closed one, two solves.
		require.LessOrEqual(t, len(small), 8, "%v", small)
		for j := range small {
			_, err := difftest.Play(slices.Delete(slices.Clone(small), j, j+1), list)
			require.NoError(t, err, "step %d of %v is not needed", j, small)
		}
	}
	require.Positive(t, found)
}

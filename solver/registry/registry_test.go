package registry_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/registry"
	"github.com/sluice-scheduler/sluice/solver/repair"
)

func TestNames(t *testing.T) {
	for _, name := range registry.Names() {
		s, err := registry.New(name)
		require.NoError(t, err)
		require.Equal(t, name, s.Name())
	}
	_, err := registry.New("magic")
	require.ErrorIs(t, err, registry.ErrUnknown)
	require.Contains(t, registry.Names(), registry.Default)
}

// largest is the number of arcs up to which a solver begins from nothing; zero is
// any. Beyond, repair takes over the answer of the simplex, as it does in auto.
var largest = map[string]int{"ssp": 10_000, "repair": 10_000}

// TestInstances solves every instance whose optimum is known; with -short only
// the smaller ones.
func TestInstances(t *testing.T) {
	folder := instances(t)
	for _, row := range table(t, filepath.Join(folder, "optima.csv")) {
		arcs, err := strconv.Atoi(row["arcs"])
		require.NoError(t, err)
		if testing.Short() && arcs > 3000 {
			continue
		}
		n := read(t, filepath.Join(folder, row["instance"]))
		for _, name := range registry.Names() {
			s, err := registry.New(name)
			require.NoError(t, err)
			if limit := largest[name]; limit > 0 && arcs > limit {
				by, ok := s.(*repair.Solver)
				if !ok {
					continue
				}
				found, err := netsimplex.New().Solve(n, solver.Budget{})
				require.NoError(t, err)
				by.Adopt(n, found)
			}
			r, err := s.Solve(n, solver.Budget{})
			require.NoError(t, err)
			require.NoError(t, solver.Verify(n, r), "%s by %s", row["instance"], name)
			require.Equal(t, row["optimal_cost"], strconv.FormatInt(r.Objective, 10), "%s by %s", row["instance"], name)
		}
	}
}

func instances(t *testing.T) string {
	data := os.Getenv("SLUICE_DATA")
	if data == "" {
		t.Skip("SLUICE_DATA is not set: instances with known optima are not here")
	}
	return filepath.Join(data, "mcf-instances")
}

func read(t *testing.T, path string) *flowgraph.Network {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	n, err := dimacs.Read(f)
	require.NoError(t, err, path)
	return n
}

func table(t *testing.T, path string) []map[string]string {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var list []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		list = append(list, m)
	}
	return list
}

// TestInstancesThatChange has every solver go on from the answer before each change whose optimum after it is known.
func TestInstancesThatChange(t *testing.T) {
	folder := filepath.Join(instances(t), "flowlessly")
	for _, row := range table(t, filepath.Join(folder, "changes", "optima-after-change.csv")) {
		for _, name := range registry.Names() {
			s, err := registry.New(name)
			require.NoError(t, err)
			base, err := os.Open(filepath.Join(folder, row["base"]))
			require.NoError(t, err)
			stream, err := dimacs.NewStream(base)
			require.NoError(t, err)
			solve := func() solver.Result {
				require.NoError(t, stream.Next())
				require.NoError(t, stream.Apply())
				r, err := s.Solve(stream.Network(), solver.Budget{})
				require.NoError(t, err)
				require.NoError(t, solver.Verify(stream.Network(), r), "%s by %s", row["change"], name)
				return r
			}
			solve()
			require.NoError(t, base.Close())
			changes, err := os.Open(filepath.Join(folder, "changes", row["change"]))
			require.NoError(t, err)
			require.NoError(t, stream.Continue(changes))
			r := solve()
			require.NoError(t, changes.Close())
			require.Equal(t, row["optimal_cost_after"], strconv.FormatInt(r.Objective, 10), "%s by %s", row["change"], name)
		}
	}
}

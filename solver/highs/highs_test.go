//go:build highs

package highs_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/highs"
	"github.com/sluice-scheduler/sluice/solver/registry"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// The judge agrees with the oracle on random networks that change.
func TestAgreesWithTheOracle(t *testing.T) {
	for seed := range uint64(300) {
		src := solvertest.Seeded(seed)
		n := solvertest.Random(src, solvertest.Shape{
			Nodes: 1 + src.Intn(12), Arcs: src.Intn(40), MaxCost: int64(1) << src.Intn(30), MaxAmount: int64(1 + src.Intn(6)),
		})
		s := highs.New()
		for range 3 {
			solvertest.Compare(t, n, s)
			solvertest.Perturb(n, src, 1+src.Intn(6))
		}
	}
}

// Every solver of the table agrees with the judge on networks of the scheduler's shape, larger than the oracle likes.
func TestJudgesEverySolver(t *testing.T) {
	for seed := range uint64(20) {
		src := solvertest.Seeded(seed)
		c := solvertest.NewCluster(src, solvertest.ClusterShape{
			Hosts: 20 + src.Intn(200), Slots: 1 + src.Intn(4), Classes: 10 + src.Intn(200), Patterns: 4, MaxCost: 1000, MaxSupply: 6,
		})
		judge := highs.New()
		var solvers []solver.Solver
		for _, name := range registry.Names() {
			s, err := registry.New(name)
			require.NoError(t, err)
			solvers = append(solvers, s)
		}
		for range 3 {
			want, err := judge.Solve(c.Network, solver.Budget{})
			require.NoError(t, err)
			for _, s := range solvers {
				got, err := s.Solve(c.Network, solver.Budget{})
				require.NoError(t, err)
				require.Equal(t, want.Status, got.Status, s.Name())
				require.Equal(t, want.Objective, got.Objective, s.Name())
			}
			c.Churn(10)
		}
	}
}

// A collector that runs all the time frees no model whose solution is still read.
func TestCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	n := solvertest.Random(solvertest.Seeded(7), solvertest.Shape{Nodes: 20, Arcs: 4000, MaxCost: 50, MaxAmount: 6})
	whole, err := highs.New().Solve(n, solver.Budget{})
	require.NoError(t, err)
	for range 100 {
		r, err := highs.New().Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.Equal(t, whole.Objective, r.Objective)
	}
}

func TestBudget(t *testing.T) {
	n := solvertest.Random(solvertest.Seeded(7), solvertest.Shape{Nodes: 40, Arcs: 200, MaxCost: 50, MaxAmount: 6})
	whole, err := highs.New().Solve(n, solver.Budget{})
	require.NoError(t, err)
	s := highs.New()
	r, err := s.Solve(n, solver.Budget{Work: 1})
	require.NoError(t, err)
	require.Equal(t, solver.BudgetSpent, r.Status)
	require.Nil(t, r.Solution)
	for range 40 {
		if r, err = s.Solve(n, solver.Budget{Work: 1}); r.Status != solver.BudgetSpent {
			break
		}
	}
	require.NoError(t, err)
	require.Equal(t, whole.Objective, r.Objective)
}

// HiGHS reaches the known optimum of every recorded instance in its range.
func TestInstances(t *testing.T) {
	data := os.Getenv("SLUICE_DATA")
	if data == "" {
		t.Skip("SLUICE_DATA is not set: the recorded instances are not tested")
	}
	dir := filepath.Join(data, "mcf-instances")
	f, err := os.Open(filepath.Join(dir, "optima.csv"))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, row := range rows[1:] {
		arcs, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		if arcs > 10_000 { // the general simplex method is slow there
			continue
		}
		t.Run(row[0], func(t *testing.T) {
			in, err := os.Open(filepath.Join(dir, row[0]))
			require.NoError(t, err)
			defer in.Close()
			n, err := dimacs.Read(in)
			require.NoError(t, err)
			r, err := highs.New().Solve(n, solver.Budget{})
			require.NoError(t, err)
			require.Equal(t, solver.Optimal, r.Status)
			require.Equal(t, row[3], strconv.FormatInt(r.Objective, 10))
			require.NoError(t, solver.Verify(n, r))
		})
	}
}

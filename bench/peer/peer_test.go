package peer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

func TestLemon(t *testing.T) {
	_, err := NewLemon(t.Context(), "magic")
	require.ErrorContains(t, err, "magic")
	l, err := NewLemon(t.Context())
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	// One with 32-bit numbers, one beyond them, one without an optimum.
	for _, c := range []struct {
		cost, demand int64
		optimal      bool
	}{{7, 3, true}, {1 << 40, 3, true}, {1, 9, false}} {
		n := solvertest.Build([]int64{c.demand, -c.demand}, [5]int64{0, 1, 1, 5, c.cost})
		answers, err := l.Solve(t.Context(), n, written(t, n))
		require.NoError(t, err)
		require.Len(t, answers, 2)
		for i, a := range answers {
			require.Equal(t, LemonAlgorithms[i], a.Algorithm)
			require.Equal(t, c.optimal, a.Optimal)
			if c.optimal {
				require.Equal(t, c.demand*c.cost, a.Objective)
			}
		}
	}
	// An arc without a bound that gains, as on the way to places that have some.
	n := solvertest.Build([]int64{0, 3, -3}, [5]int64{0, 2, 0, int64(flowgraph.Infinite), -2}, [5]int64{1, 0, 0, 2, 1}, [5]int64{1, 2, 0, 9, 4})
	answers, err := l.Solve(t.Context(), n, written(t, n))
	require.NoError(t, err)
	for _, a := range answers {
		require.True(t, a.Optimal, a.Algorithm)
		require.EqualValues(t, 2, a.Objective)
	}
	_, err = l.Solve(t.Context(), nil, filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "cannot be read")
}

// written returns a file with n.
func written(t *testing.T, n *flowgraph.Network) string {
	file := filepath.Join(t.TempDir(), "n.min")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, errors.Join(dimacs.Write(f, n), f.Close()))
	return file
}

func TestLemonTellsWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := NewLemon(t.Context())
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "apt-get install g++ liblemon-dev")
}

func TestHighs(t *testing.T) {
	h, err := NewHighs()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	n := solvertest.Build([]int64{3, -3}, [5]int64{0, 1, 1, 5, 7})
	answers, err := h.Solve(t.Context(), n, "")
	require.NoError(t, err)
	require.Equal(t, int64(21), answers[0].Objective)
}

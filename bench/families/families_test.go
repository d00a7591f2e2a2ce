package families

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// TestSolversAgree solves a small network of each family by all solvers.
func TestSolversAgree(t *testing.T) {
	for _, f := range All {
		t.Run(f.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				n := f.Draw(seed, 200)
				require.NoError(t, n.Check())
				var objective int64
				for i, name := range registry.Names() {
					s, err := registry.New(name)
					require.NoError(t, err)
					r, err := s.Solve(n, solver.Budget{})
					require.NoError(t, err)
					require.Equal(t, solver.Optimal, r.Status, name)
					require.NoError(t, solver.Verify(n, r), name)
					if i == 0 {
						objective = r.Objective
					}
					require.Equal(t, objective, r.Objective, name)
				}
			}
		})
	}
}

func TestDrawsRepeat(t *testing.T) {
	for _, f := range All {
		var texts [3]bytes.Buffer
		for i, seed := range []uint64{1, 1, 2} {
			require.NoError(t, dimacs.Write(&texts[i], f.Draw(seed, 200)))
		}
		require.Equal(t, texts[0].String(), texts[1].String(), f.Name)
		if f.Name != "assignment-product" { // which has nothing to draw
			require.NotEqual(t, texts[0].String(), texts[2].String(), f.Name)
		}
	}
}

package parts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/solver/parts"
)

func TestEachIsDoneOnce(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 20, 1000, 12345} {
		done := make([]int, n)
		parts.Do(n, 10, func(from, to int) {
			for i := from; i < to; i++ {
				done[i]++
			}
		})
		for i, times := range done {
			require.Equal(t, 1, times, "%d of %d", i, n)
		}
	}
}

func TestOneRangeStaysHere(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(10, func() { parts.Do(10, 10, func(int, int) {}) }))
}

package hugepage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph/hugepage"
)

func TestGrowKeepsContent(t *testing.T) {
	for _, n := range []int{0, 1, 63, 1 << 10, 1 << 20} {
		s := make([]int64, n)
		for i := range s {
			s[i] = int64(i)
		}
		grown := hugepage.Grow(s, 3)
		require.Equal(t, s, grown)
		require.GreaterOrEqual(t, cap(grown)-len(grown), 3)
		for _, x := range grown[n:cap(grown)] {
			require.Zero(t, x)
		}
		again := hugepage.Grow(grown, cap(grown)-n)
		require.Equal(t, cap(grown), cap(again), "room enough is not made again")
	}
}

func TestExtendKeepsContent(t *testing.T) {
	var s []int64
	for i := range 3 << 20 {
		s = hugepage.Extend(s, 1)
		if s[i] != 0 {
			require.Zero(t, s[i])
		}
		s[i] = int64(i)
	}
	for i, x := range s {
		if int(x) != i {
			require.Equal(t, i, int(x))
		}
	}
}

func TestGrowIsAmortized(t *testing.T) {
	var s []int32
	made := 0
	for i := range 1 << 21 {
		before := cap(s)
		s = append(hugepage.Grow(s, 1), int32(i))
		if cap(s) != before {
			made++
		}
	}
	require.Less(t, made, 80)
	for i, x := range s {
		if int(x) != i {
			require.Equal(t, i, int(x))
		}
	}
}

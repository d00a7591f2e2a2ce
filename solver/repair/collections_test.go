package repair

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoomsServeAll lets lists grow, and begin anew, in rooms that others have left.
func TestRoomsServeAll(t *testing.T) {
	var r rooms[int]
	rng := rand.New(rand.NewPCG(1, 2))
	lists := make([][]int, 200)
	allocs := testing.AllocsPerRun(1, func() {
		r = rooms[int]{}
		clear(lists)
		for range 20_000 {
			k := rng.IntN(len(lists))
			if len(lists[k]) == cap(lists[k]) {
				lists[k] = r.grow(lists[k])
			}
			lists[k] = append(lists[k], k)
			if rng.IntN(40) == 0 {
				lists[k] = lists[k][:0]
			}
		}
	})
	require.LessOrEqual(t, allocs, 60.0, "pieces and the lists of what is free")
	for k, list := range lists {
		for _, x := range list {
			require.Equal(t, k, x, "nobody else writes there")
		}
		list = r.grow(list[:cap(list)])
		require.Greater(t, cap(list), len(list))
	}
}

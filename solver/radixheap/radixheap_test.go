package radixheap_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// TestHeap holds a heap to a list that is looked through for the least key each time.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := radixheap.Heap{Spread: rapid.Bool().Draw(t, "spread")}
		lowest := int64(0)
		if rapid.Bool().Draw(t, "any size") {
			h.Push(radixheap.Item{Key: 1})
			h.Reset()
			lowest = math.MinInt64
		}
		step := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<20), rapid.Just[int64](1<<61))
		var list []radixheap.Item
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(list) == 0 || rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				key := lowest + step.Draw(t, "above the least")
				if key < lowest { // too large
					continue
				}
				x := radixheap.Item{Key: key, Node: rapid.Int32().Draw(t, "node"), Arc: rapid.Int32().Draw(t, "arc")}
				list = append(list, x)
				h.Push(x)
				continue
			}
			lowest = list[0].Key
			for _, x := range list {
				lowest = min(lowest, x.Key)
			}
			require.Equal(t, lowest, h.Least())
			x := h.Pop()
			require.Equal(t, lowest, x.Key)
			at := slices.Index(list, x)
			require.GreaterOrEqual(t, at, 0)
			list = slices.Delete(list, at, at+1)
			require.Equal(t, len(list), h.Len())
		}
		require.False(t, h.Fell)
	})
}

func TestLastInFirstOut(t *testing.T) {
	var h radixheap.Heap
	for node := range int32(5) {
		h.Push(radixheap.Item{Key: 7, Node: node})
	}
	for node := int32(4); node >= 0; node-- {
		require.Equal(t, node, h.Pop().Node)
	}
}

func TestTooLate(t *testing.T) {
	var h radixheap.Heap
	h.Push(radixheap.Item{Key: 7})
	h.Pop()
	h.Push(radixheap.Item{Key: 6})
	require.True(t, h.Fell)
	require.EqualValues(t, 6, h.Pop().Key, "it comes all the same")
}

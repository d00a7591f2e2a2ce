package radix

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMap holds maps and their copies to the standard library's.
func TestMap(t *testing.T) {
	number := rapid.OneOf(
		rapid.Uint64Range(0, 40),
		rapid.Custom(func(t *rapid.T) uint64 { // of tasks
			return rapid.Uint64Range(0, 300).Draw(t, "job")<<32 | rapid.Uint64Range(0, 70).Draw(t, "instance")
		}),
		rapid.SampledFrom([]uint64{1 << 31, 1<<63 | 1, math.MaxUint64 - 1, math.MaxUint64}),
	)
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			is   Map[int]
			want map[uint64]*int
		}
		all := []*pair{{want: map[uint64]*int{}}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "map")
			m, k := all[i], number.Draw(t, "number")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c := &pair{is: m.is.Copy(), want: map[uint64]*int{}}
				for k, v := range m.want {
					c.want[k] = v
				}
				all = append(all, c)
			case 1, 2, 3:
				require.Same(t, m.want[k], m.is.Delete(k))
				delete(m.want, k)
			default:
				v := new(int)
				require.Same(t, m.want[k], m.is.Set(k, v))
				m.want[k] = v
			}
		}
		for _, m := range all {
			var keys []uint64
			for k, v := range m.want {
				keys = append(keys, k)
				require.Same(t, v, m.is.Get(k))
			}
			slices.Sort(keys)
			require.Equal(t, len(keys), m.is.Len())
			for _, from := range append(keys, number.Draw(t, "from"), 0, math.MaxUint64) {
				require.Equal(t, m.want[from], m.is.Get(from))
				i, _ := slices.BinarySearch(keys, from)
				var rest []uint64
				for k, v := range m.is.From(from) {
					require.Same(t, m.want[k], v)
					rest = append(rest, k)
				}
				require.Equal(t, len(keys[i:]), len(rest))
				require.True(t, slices.Equal(keys[i:], rest))
				for range m.is.From(from) {
					break
				}
			}
		}
	})
}

func TestChangesAllocateNothingBetweenCopies(t *testing.T) {
	var m Map[int]
	v := new(int)
	for k := range uint64(1000) {
		m.Set(k, v)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for k := range uint64(1000) {
			m.Set(k, v)
		}
	}))
}

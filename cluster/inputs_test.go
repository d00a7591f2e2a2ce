package cluster_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestInputIndex: the index finds what a plain scan finds, whatever the order of the inputs.
func TestInputIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const instances = 12
		inputs := make([]cluster.Input, rapid.IntRange(0, 20).Draw(t, "inputs"))
		for i := range inputs {
			first := rapid.Uint32Range(0, instances-1).Draw(t, "first")
			inputs[i] = cluster.Input{
				Name: fmt.Sprint("block-", i), Bytes: int64(i),
				First: first, Last: rapid.Uint32Range(first, instances-1).Draw(t, "last"),
			}
		}
		switch rapid.SampledFrom([]string{"any order", "by first", "by first and last", "one each"}).Draw(t, "order") {
		case "by first and last":
			last := make([]uint32, len(inputs))
			for i := range inputs {
				last[i] = inputs[i].Last
			}
			slices.Sort(last)
			slices.SortFunc(inputs, byFirst)
			for i := range inputs { // the i-th last is not before the i-th first, since no last is before its first
				inputs[i].Last = last[i]
			}
		case "by first":
			slices.SortFunc(inputs, byFirst)
		case "one each":
			for i := range inputs {
				inputs[i].First, inputs[i].Last = uint32(i), uint32(i)
			}
		}
		index := cluster.IndexInputs(inputs)
		for instance := range uint32(len(inputs) + instances) {
			want := slices.DeleteFunc(slices.Clone(inputs), func(in cluster.Input) bool { return instance < in.First || in.Last < instance })
			got := index.Of(instance)
			require.Len(t, got, len(want), "instance %d of %v", instance, inputs)
			for i := range want {
				require.Equal(t, want[i], got[i], "instance %d of %v", instance, inputs)
			}
		}
	})
}

func byFirst(a, b cluster.Input) int { return cmp.Compare(a.First, b.First) }

// BenchmarkInputIndex looks up every instance of a job with as many inputs as instances; in reverse order, each is a scan.
func BenchmarkInputIndex(b *testing.B) {
	inputs := make([]cluster.Input, 5_000)
	for i := range inputs {
		inputs[i] = cluster.Input{First: uint32(i), Last: uint32(i)}
	}
	for _, order := range []string{"in order", "reversed"} {
		b.Run(order, func(b *testing.B) {
			for b.Loop() {
				index := cluster.IndexInputs(inputs)
				for i := range uint32(len(inputs)) {
					if len(index.Of(i)) != 1 {
						b.Fatal("every instance reads one input")
					}
				}
			}
		})
		slices.Reverse(inputs)
	}
}

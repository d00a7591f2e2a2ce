package cycle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestSlotsAreSortedByPriceThenHost(t *testing.T) {
	var table rows
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{0, 10, 1 << digit, 1 << (2 * digit), int64(costmodels.MaxPrice)}).Draw(t, "most")
		prices := rapid.SliceOfN(rapid.Int64Range(0, most), 0, 3*fewSlots).Draw(t, "prices")
		var found []slot
		for i, price := range prices {
			found = append(found, makeSlot(flowgraph.Cost(price), int32(i)))
		}
		want := slices.Sorted(slices.Values(found))
		require.Equal(t, want, append([]slot(nil), table.sorted(found)...))
	})
}

package mesos

import (
	"math"
	"testing"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestRangesAtTheEnd: a named resource may have ranges up to the greatest number that there is, and from the least on.
func TestRangesAtTheEnd(t *testing.T) {
	const end = math.MaxUint64
	ids := func(ranges ...api.Value_Range) api.Resource {
		return api.Resource{Name: "ids", Type: api.RANGES.Enum(), Ranges: &api.Value_Ranges{Range: ranges}}
	}
	one := func(n int64) quantity {
		return quantity{amount: cluster.NewResources([cluster.NumDimensions]int64{}, cluster.Amount{Name: "ids", Value: n})}
	}
	s := newSupply(pieces([]api.Resource{ids(api.Value_Range{Begin: end - 9, End: end}), ids(api.Value_Range{Begin: 0, End: 1})}))
	taken, err := s.take(one(4))
	require.NoError(t, err)
	require.Equal(t, []api.Resource{ids(api.Value_Range{Begin: end - 9, End: end - 6})}, taken)
	taken, err = s.take(one(8))
	require.NoError(t, err)
	require.Equal(t, []api.Resource{ids(api.Value_Range{Begin: 0, End: 1}, api.Value_Range{Begin: end - 5, End: end})}, taken)
	_, err = s.take(one(1))
	require.ErrorContains(t, err, "the offers lack 1 of ids")
	require.Equal(t, []api.Value_Range{{Begin: 3, End: end}},
		joinRanges([]api.Value_Range{{Begin: 7, End: end}}, []api.Value_Range{{Begin: end, End: end}, {Begin: 3, End: 6}}))
}

// TestPortsThatAreNone are left out, and not the host with them.
func TestPortsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		first, last uint64
		want        []cluster.PortRange
	}{
		{0, 0, nil},
		{0, 99, []cluster.PortRange{{First: 1, Last: 99}}},
		{65_000, 70_000, []cluster.PortRange{{First: 65_000, Last: 65_535}}},
		{66_000, 70_000, nil},
	} {
		require.Equal(t, c.want, total(pieces([]api.Resource{mesostest.Ports(c.first, c.last)})).ports)
	}
}

// TestNamesThatNobodyCanGive are left out, and not the host with them.
func TestNamesThatNobodyCanGive(t *testing.T) {
	licences := func(name string) api.Resource {
		return api.Resource{Name: name, Type: api.SCALAR.Enum(), Scalar: &api.Value_Scalar{Value: 2}}
	}
	got := total(pieces([]api.Resource{licences("a b"), licences("tape:ssd"), licences(""), licences(cluster.CPU.String()), licences("memory"), licences("site/Tape_1")}))
	require.Equal(t, cluster.NewResources([cluster.NumDimensions]int64{}, cluster.Amount{Name: "site/Tape_1", Value: 2}), got.amount)
}

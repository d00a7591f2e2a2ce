package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestParsePoolsKeepsTheRulesOfTheTree(t *testing.T) {
	spec := func(path string, reservation int64) *sluicev1.PoolSpec {
		return &sluicev1.PoolSpec{Path: path, Resources: []*sluicev1.PoolResource{{Dimension: "cpu_milli", Reservation: reservation}}}
	}
	pools, err := serve.ParsePools([]*sluicev1.PoolSpec{spec("root/a", 10), spec("root/a/b", 4), spec("root/a/c", 6)})
	require.NoError(t, err)
	require.Len(t, pools, 3)
	require.Equal(t, cluster.PoolPath("root/a/b"), pools[1].Path)
	require.Equal(t, []cluster.PoolResource{{Dimension: "cpu_milli", Reservation: 4, Limit: cluster.NoLimit, Share: 1}}, pools[1].Resources)

	for _, c := range []struct {
		specs []*sluicev1.PoolSpec
		want  string
	}{
		{[]*sluicev1.PoolSpec{spec("root/a/b", 1)}, "no pool \"root/a\" above it"},
		{[]*sluicev1.PoolSpec{spec("root/a", 1), spec("root/a", 1)}, "there twice"},
		{[]*sluicev1.PoolSpec{spec("root/a", 3), spec("root/a/b", 4)}, "is 4"},
		{[]*sluicev1.PoolSpec{spec("a", 1)}, "spec.path"},
		{[]*sluicev1.PoolSpec{nil}, "is required"},
	} {
		_, err := serve.ParsePools(c.specs)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "rpc error", "no server was asked")
	}
}

package cluster_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func ExampleRunID() {
	run := cluster.RunID{Task: cluster.MakeTaskKey(12, 5), Run: 1}
	fmt.Println(run)
	// Output: 12.5.1
}

func TestParseRunID(t *testing.T) {
	run := cluster.RunID{Task: cluster.MakeTaskKey(1<<32-1, 1<<31-1), Run: 3}
	parsed, err := cluster.ParseRunID(run.String())
	require.NoError(t, err)
	require.Equal(t, run, parsed)
	copied := cluster.RunID{Task: cluster.MakeTaskKey(1, 2).Copy(), Run: 3}
	require.Equal(t, "1.2c.3", copied.String())
	parsed, err = cluster.ParseRunID("1.2c.3")
	require.NoError(t, err)
	require.Equal(t, copied, parsed)
	require.Equal(t, uint32(2), parsed.Task.Instance())
	require.Equal(t, cluster.MakeTaskKey(1, 2), parsed.Task.Original())
	for _, bad := range []string{"1c.2.3", "1.2.3c", "1.2cc.3", "1.c.3", "1.2147483648.1", "1.2147483648c.1", "", "1", "1.2", "1.2.3.4", "1.2.x", "01.2.3", "1.2.-3", "1.2.4294967296", " 1.2.3"} {
		_, err := cluster.ParseRunID(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestNames(t *testing.T) {
	id := cluster.MakeHostID("west", "10.0.0.1:5051")
	require.Equal(t, cluster.ShardID("west"), id.Shard())
	require.Equal(t, "10.0.0.1:5051", id.Name())
	require.Equal(t, cluster.PoolPath("root/a"), cluster.PoolPath("root/a/b").Parent())
	require.Equal(t, cluster.PoolPath(""), cluster.RootPool.Parent())
}

func TestTimesEndWithForever(t *testing.T) {
	now := cluster.Time(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	require.Equal(t, cluster.Forever, now.Add(math.MaxInt64))
	require.Equal(t, cluster.Forever, cluster.Forever.Add(1))
	require.Equal(t, cluster.Time(math.MaxInt64), cluster.Time(0).Add(math.MaxInt64))
	require.Equal(t, now, now.Add(time.Hour).Add(-time.Hour))
	require.Equal(t, now+math.MinInt64, now.Add(math.MinInt64))
}

package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Which folder serves a shard is known as long as the shard has hosts, also from a checkpoint.
func TestFolderOfAShard(t *testing.T) {
	h := newHistory(t)
	served := func(shard cluster.ShardID, folder string) {
		h.emit(&cluster.ShardServed{By: cluster.ShardFolder{Shard: shard, Folder: folder}})
	}
	h.emit(&cluster.HostReported{ID: "s/a"}, &cluster.HostReported{ID: "s/b"}, &cluster.HostReported{ID: "s2/a"})
	served("s", "f1")
	served("s2", "f2")
	before, _ := h.state.Snapshot()
	again := cluster.NewState()
	for part := range before.Parts() {
		require.NoError(t, again.Apply(cluster.Record{Event: part}))
	}
	require.Equal(t, "f1", again.FolderOf("s"))
	require.Equal(t, "f2", again.FolderOf("s2"))

	h.emit(&cluster.HostRemoved{ID: "s/a"})
	require.Equal(t, "f1", h.state.FolderOf("s"))
	h.emit(&cluster.HostRemoved{ID: "s/b"})
	require.Empty(t, h.state.FolderOf("s"))
	require.False(t, h.state.HasHosts("s"))
	served("s2", "")
	require.Empty(t, h.state.FolderOf("s2"))
	require.Equal(t, "f1", before.FolderOf("s"))
	require.Equal(t, "f2", before.FolderOf("s2"))
}

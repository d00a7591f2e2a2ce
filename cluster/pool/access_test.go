package pool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

type poolMap map[cluster.PoolPath]*cluster.Pool

func (m poolMap) Pool(p cluster.PoolPath) *cluster.Pool { return m[p] }

func TestAccess(t *testing.T) {
	user := func(may cluster.Permission, names ...string) cluster.AccessRule {
		return cluster.AccessRule{Permission: may, Users: names}
	}
	pools := poolMap{}
	for path, rules := range map[cluster.PoolPath][]cluster.AccessRule{
		"root":       {user(cluster.MayAdminister, "admin")},
		"root/a":     {user(cluster.MayAdminister, "lead"), {Permission: cluster.MaySubmit, Users: []string{"ann"}, Groups: []string{"red"}}},
		"root/a/sub": {user(cluster.MaySubmit, "bob")},
		"root/b":     nil,
	} {
		pools[path] = &cluster.Pool{Path: path, Access: rules}
	}
	tests := []struct {
		path cluster.PoolPath
		who  pool.Principal
		may  cluster.Permission
		want bool
	}{
		{"root/a", pool.Principal{User: "ann"}, cluster.MaySubmit, true},
		{"root/a/sub", pool.Principal{User: "ann"}, cluster.MaySubmit, true}, // a rule holds below
		{"root/a/sub", pool.Principal{User: "bob"}, cluster.MaySubmit, true},
		{"root/a", pool.Principal{User: "bob"}, cluster.MaySubmit, false}, // and not above
		{"root/a", pool.Principal{User: "eve", Groups: []string{"blue", "red"}}, cluster.MaySubmit, true},
		{"root/a", pool.Principal{User: "eve", Groups: []string{"ann"}}, cluster.MaySubmit, false}, // a group is no user
		{"root/a", pool.Principal{}, cluster.MaySubmit, false},
		{"root/b", pool.Principal{User: "eve"}, cluster.MaySubmit, true},        // no list
		{"root/a", pool.Principal{User: "eve"}, cluster.MayView, true},          // of this permission
		{"root/b", pool.Principal{User: "eve"}, cluster.MayAdminister, false},   // the root has one
		{"root/a", pool.Principal{User: "ann"}, cluster.MayAdminister, false},   // none includes another
		{"root/a/x", pool.Principal{User: "lead"}, cluster.MayAdminister, true}, // does not exist yet
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, pool.Allows(pools, tt.path, tt.who, tt.may), "%+v", tt)
	}
	lead, admin := pool.Principal{User: "lead"}, pool.Principal{User: "admin"}
	require.True(t, pool.AllowsChange(pools, "root/a/sub", lead))
	require.True(t, pool.AllowsChange(pools, "root/a/new", lead))
	require.False(t, pool.AllowsChange(pools, "root/a", lead), "its bounds are not its own administrator's")
	require.True(t, pool.AllowsChange(pools, "root/a", admin))
	require.True(t, pool.AllowsChange(pools, "root", admin))
	require.False(t, pool.AllowsChange(pools, "root", lead))
}

package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
)

type view struct {
	pools map[cluster.PoolPath]*cluster.Pool
	roles []cluster.RoleBinding
}

func (v view) Pool(p cluster.PoolPath) *cluster.Pool { return v.pools[p] }
func (v view) RoleBindings() []cluster.RoleBinding   { return v.roles }
func user(name string, groups ...string) *access.Caller {
	return &access.Caller{User: name, Groups: groups}
}
func job(pool cluster.PoolPath, owner string) *cluster.Job { return named(1, pool, owner) }

func named(uid cluster.JobUID, pool cluster.PoolPath, owner string) *cluster.Job {
	return &cluster.Job{UID: uid, Spec: &cluster.JobSpec{Pool: pool, Owner: owner}}
}

// world has lists in root/a and below, and none in root/b and root/c.
func world() view {
	rule := func(may cluster.Permission, names ...string) cluster.AccessRule {
		return cluster.AccessRule{Permission: may, Users: names}
	}
	v := view{pools: map[cluster.PoolPath]*cluster.Pool{}}
	for path, rules := range map[cluster.PoolPath][]cluster.AccessRule{
		"root":       nil,
		"root/a":     {rule(cluster.MayAdminister, "lead"), {Permission: cluster.MaySubmit, Users: []string{"ann"}, Groups: []string{"red"}}},
		"root/a/sub": {rule(cluster.MaySubmit, "bob")},
		"root/b":     nil,
		"root/c":     nil,
	} {
		v.pools[path] = &cluster.Pool{Path: path, Access: rules}
	}
	v.roles = []cluster.RoleBinding{
		{Role: cluster.Viewer, User: "vera", Pool: "root"},
		{Role: cluster.Viewer, Group: "guests", Pool: "root/b"},
		{Role: cluster.Submitter, Group: "staff", Pool: "root"},
		{Role: cluster.PoolAdmin, User: "adam", Pool: "root/b"},
		{Role: cluster.Operator, Group: "ops", Pool: "root"},
	}
	return v
}

func TestMay(t *testing.T) {
	const see, submit, administer = cluster.MayView, cluster.MaySubmit, cluster.MayAdminister
	for _, tt := range []struct {
		who  *access.Caller
		may  cluster.Permission
		path cluster.PoolPath
		want bool
	}{
		// Lists.
		{user("ann"), submit, "root/a", true},
		{user("ann"), submit, "root/a/sub", true}, // a rule holds below
		{user("bob"), submit, "root/a/sub", true},
		{user("bob"), submit, "root/a", false}, // and not above
		{user("eve", "blue", "red"), submit, "root/a", true},
		{user("eve", "ann"), submit, "root/a", false}, // a group is no user
		{user("red"), submit, "root/a", false},        // and the other way round
		{user(""), submit, "root/a", false},
		{user("ann"), see, "root/a", false}, // none includes another
		{user("lead"), see, "root/a", true}, // save that administrators may all
		{user("lead"), submit, "root/a/sub", true},
		{user("lead"), administer, "root/a/x", true}, // does not exist yet
		{user("lead"), administer, "root/b", false},
		// Roles, where no list speaks of the permission.
		{user("vera"), see, "root/a", true},
		{user("vera"), submit, "root/b", false},
		{user("guest", "guests"), see, "root/b", true},
		{user("guest", "guests"), see, "root/c", false},
		{user("sue", "staff"), submit, "root/b", true},
		{user("sue", "staff"), submit, "root/a", false}, // the list closes it
		{user("sue", "staff"), see, "root/b", false},
		{user("adam"), administer, "root/b/x", true},
		{user("adam"), submit, "root/b", true},
		{user("adam"), administer, "root", false},
		{user("olga", "ops"), administer, "root", true},
		{user("olga", "ops"), submit, "root/a", true},
		{user("eve"), administer, "root/c", false}, // nobody is named: that is not everybody
		{user("eve"), see, "root/c", false},
		// By configuration, and without identity.
		{&access.Caller{User: "x", Roles: []cluster.Role{cluster.Operator}}, administer, "root", true},
		{&access.Caller{User: "x", Roles: []cluster.Role{cluster.HostManager}}, see, "root/b", false},
		{&access.Caller{Free: true}, administer, "root", true},
		// A credential for one job is good for nothing else.
		{&access.Caller{User: "olga", Groups: []string{"ops"}, Job: 7}, see, "root/b", false},
		{&access.Caller{User: "ann", Job: 7}, submit, "root/a", false},
		{&access.Caller{User: "lead", Job: 7}, see, "root/a", false},
	} {
		require.Equal(t, tt.want, tt.who.May(world(), tt.may, tt.path), "%+v %d %s", tt.who, tt.may, tt.path)
	}
}

func TestMayConfigure(t *testing.T) {
	lead, admin := user("lead"), user("olga", "ops")
	require.True(t, lead.MayConfigure(world(), "root/a/sub"))
	require.True(t, lead.MayConfigure(world(), "root/a/new"))
	require.False(t, lead.MayConfigure(world(), "root/a"), "its bounds are not its own administrator's")
	require.True(t, admin.MayConfigure(world(), "root/a"))
	require.True(t, admin.MayConfigure(world(), "root"))
	require.False(t, lead.MayConfigure(world(), "root"))
	v := world()
	v.roles = append(v.roles, cluster.RoleBinding{Role: cluster.PoolAdmin, User: "rita", Pool: "root"})
	require.True(t, user("rita").MayConfigure(v, "root"), "it has none above it")
}

func TestJobs(t *testing.T) {
	v := world()
	require.True(t, user("ann").MaySee(v, job("root/c", "ann")))
	require.True(t, user("ann").MayChange(v, job("root/c", "ann")))
	require.False(t, user("").MaySee(v, job("root/c", "")), "nobody owns what nobody owns")
	require.False(t, user("bob").MaySee(v, job("root/c", "ann")))
	require.True(t, user("vera").MaySee(v, job("root/c", "ann")))
	require.False(t, user("vera").MayChange(v, job("root/c", "ann")))
	require.True(t, user("adam").MayChange(v, job("root/b", "ann")))

	limited := &access.Caller{User: "ann", Job: 7}
	require.True(t, limited.MayChange(v, named(7, "root/c", "ann")))
	require.False(t, limited.MaySee(v, named(8, "root/c", "ann")))
	require.False(t, limited.MayChange(v, named(7, "root/c", "bob")), "it lets him do no more than he may")
	require.True(t, (&access.Caller{Job: 7}).MayChange(v, named(7, "root/c", "")))
	viewer, adam := &access.Caller{User: "vera", Job: 7}, &access.Caller{User: "adam", Job: 7}
	require.True(t, viewer.MaySee(v, named(7, "root/c", "ann")) && viewer.Sight(v)(named(7, "root/c", "ann")))
	require.False(t, viewer.MaySee(v, named(8, "root/c", "ann")) || viewer.Sight(v)(named(8, "root/c", "ann")))
	require.False(t, viewer.MayChange(v, named(7, "root/c", "ann")))
	require.True(t, adam.MayChange(v, named(7, "root/b", "ann")))
	require.False(t, adam.MaySee(v, named(7, "root/c", "ann")) || adam.Sight(v)(named(7, "root/c", "ann")))
	require.False(t, limited.HoldsAny(v))
	free := &access.Caller{Free: true}
	require.True(t, free.MaySee(v, job("root/c", "ann")) && free.MayChange(v, job("root/c", "ann")) && free.Sight(v)(job("root/c", "ann")))
}

func TestHolds(t *testing.T) {
	v := world()
	require.True(t, user("adam").HoldsAny(v))
	require.False(t, user("eve").HoldsAny(v))
	require.True(t, user("adam").MayKnow(v, "root/b"))
	require.True(t, user("bob").MayKnow(v, "root/a/sub"))
	require.False(t, user("bob").MayKnow(v, "root/a"))
	require.True(t, user("olga", "ops").IsOperator(v))
	require.False(t, user("adam").IsOperator(v))
	for _, c := range []*access.Caller{{User: "olga", Groups: []string{"ops"}, Job: 7}, {Roles: []cluster.Role{cluster.Operator}, Job: 7}} {
		require.False(t, c.IsOperator(v) || c.HoldsAny(v), "with a credential for one job")
	}
	require.True(t, (&access.Caller{Roles: []cluster.Role{cluster.HostManager}}).HoldsAny(v))
	require.True(t, (&access.Caller{Free: true}).HoldsAny(v))
	require.True(t, user("vera").MayKnow(v, "root/a"))
}

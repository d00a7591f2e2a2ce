package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestQueueMapping(t *testing.T) {
	m := cluster.QueueMapping{Rules: []cluster.QueueRule{
		{User: "eve", Reject: true},
		{Group: "ml", Labels: []cluster.KeyValue{{Key: "gpu", Value: "yes"}}, Pool: "root/ml/{group}"},
		{User: "ann", Group: "red", Pool: "root/red/{user}"},
		{Labels: []cluster.KeyValue{{Key: "app", Value: "web"}}, Pool: "root/{group}"},
		{User: "bob", Pool: "root/bob"},
		{Labels: []cluster.KeyValue{{Key: "own", Value: "1"}}, Pool: "root/users/{user}"},
	}}
	label := func(k, v string) []cluster.KeyValue {
		return []cluster.KeyValue{{Key: "a", Value: "b"}, {Key: k, Value: v}}
	}
	tests := []struct {
		name string
		spec cluster.JobSpec
		pool cluster.PoolPath
		rule int
	}{
		{"rejected by user", cluster.JobSpec{Owner: "eve", Groups: []string{"ml"}}, "", 0},
		{"group and label", cluster.JobSpec{Owner: "ann", Groups: []string{"a", "ml"}, Labels: label("gpu", "yes")}, "root/ml/ml", 1},
		{"group with another label", cluster.JobSpec{Owner: "bob", Groups: []string{"ml"}, Labels: label("gpu", "no")}, "root/bob", 4},
		{"user in a group", cluster.JobSpec{Owner: "ann", Groups: []string{"red"}}, "root/red/ann", 2},
		{"the owner's first group", cluster.JobSpec{Owner: "x", Groups: []string{"g1", "g2"}, Labels: label("app", "web")}, "root/g1", 3},
		{"no group to put in", cluster.JobSpec{Owner: "x", Labels: label("app", "web")}, "", 3},
		{"no user to put in", cluster.JobSpec{Labels: label("own", "1")}, "", 5},
		{"nothing matches", cluster.JobSpec{Owner: "x"}, "", -1},
	}
	for _, tt := range tests {
		pool, rule := m.Pool(&tt.spec)
		require.Equal(t, tt.pool, pool, tt.name)
		require.Equal(t, tt.rule, rule, tt.name)
	}
}

func TestQueueMappingIsPartOfTheState(t *testing.T) {
	s := cluster.NewState()
	require.Nil(t, s.Mapping())
	rules := []cluster.QueueRule{{User: "ann", Pool: "root/a"}}
	require.NoError(t, s.Apply(cluster.Record{Seq: 1, Event: &cluster.QueueMappingSet{Rules: rules}}))
	before, _ := s.Snapshot()
	require.NoError(t, s.Apply(cluster.Record{Seq: 2, Event: &cluster.QueueMappingSet{}}))
	require.Equal(t, &cluster.QueueMapping{Version: 1, Rules: rules}, before.Mapping())
	require.Equal(t, &cluster.QueueMapping{Version: 2}, s.Mapping())

	restored := cluster.NewState()
	for part := range before.Parts() {
		require.NoError(t, restored.Apply(cluster.Record{Event: part}))
	}
	require.Equal(t, before.Mapping(), restored.Mapping())
}

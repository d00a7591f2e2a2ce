package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestWordsOfConstraints(t *testing.T) {
	leaf := func(op cluster.ConstraintOp, key, value string, c cluster.Comparison, n uint32) cluster.Constraint {
		return cluster.Constraint{Op: op, Label: cluster.KeyValue{Key: key, Value: value}, AnyValue: value == "", Comparison: c, Count: n}
	}
	has := func(key, value string) cluster.Constraint {
		return leaf(cluster.HostLabel, key, value, cluster.Greater, 0)
	}
	list := func(op cluster.ConstraintOp, terms ...cluster.Constraint) cluster.Constraint {
		return cluster.Constraint{Op: op, Terms: terms}
	}
	for want, c := range map[string]cluster.Constraint{
		"rack=r1":                       has("rack", "r1"),
		"ssd":                           leaf(cluster.HostLabel, "ssd", "", cluster.Equal, 1),
		"no ssd":                        leaf(cluster.HostLabel, "ssd", "", cluster.Less, 1),
		"no ssd=slow":                   leaf(cluster.HostLabel, "ssd", "slow", cluster.Equal, 0),
		`host("ssd")>1`:                 leaf(cluster.HostLabel, "ssd", "", cluster.Greater, 1),
		"tasks with app=a per host < 3": leaf(cluster.TaskLabel, "app", "a", cluster.Less, 3),
		"a=1 or (b=2 and no c) or d=4": list(cluster.Or, has("a", "1"),
			list(cluster.And, has("b", "2"), leaf(cluster.HostLabel, "c", "", cluster.Equal, 0)), list(cluster.And, has("d", "4"))),
		"z=1 or z=2 or z=3 or 2 more": list(cluster.Or, has("z", "1"), has("z", "2"), has("z", "3"), has("z", "4"), has("z", "5")),
		"or()":                        list(cluster.Or),
	} {
		require.Equal(t, want, c.Words())
	}
}

func TestRefusals(t *testing.T) {
	host := func(id cluster.HostID, rack string) *cluster.Host {
		return &cluster.Host{ID: id, Machine: &cluster.Machine{Rack: rack}}
	}
	has := func(key, value string) cluster.Constraint {
		return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: cluster.Greater}
	}
	both := &cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{has("rack", "r1"), has("disk", "ssd")}}
	var r cluster.Refusals
	require.Empty(t, r.String())
	r.Demand(both)
	r.Count(host("s/a", "r0"))
	require.Equal(t, "rack=r1, disk=ssd", r.String())
	r.Count(host("s/b", "r1"))
	require.Equal(t, "disk=ssd (2), rack=r1 (1)", r.String())

	var many cluster.Refusals
	for i := range 7 {
		c := has("key", fmt.Sprint(i))
		many.Demand(&c)
	}
	many.Count(host("s/a", "r0"))
	require.Equal(t, "key=0, key=1, key=2, key=3, and 3 more", many.String())
}

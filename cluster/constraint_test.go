package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestConstraints(t *testing.T) {
	h := &cluster.Host{ID: "s/web-1", Machine: cluster.Machine{
		Rack: "r1", Zone: "z1",
		Attributes: []cluster.KeyValue{{Key: "disk", Value: "ssd"}, {Key: "feature", Value: "avx"}, {Key: "feature", Value: "gpu"}},
	}}
	label := func(key, value string, c cluster.Comparison, n uint32) cluster.Constraint {
		return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: c, Count: n}
	}
	has := func(key, value string) cluster.Constraint { return label(key, value, cluster.Greater, 0) }
	for _, c := range []struct {
		text   string
		c      cluster.Constraint
		allows bool
	}{
		{`host("disk"="ssd")>0`, has("disk", "ssd"), true},
		{`host("disk"="hdd")>0`, has("disk", "hdd"), false},
		{`host("disk"="hdd")=0`, label("disk", "hdd", cluster.Equal, 0), true},
		{`host("disk"="ssd")<1`, label("disk", "ssd", cluster.Less, 1), false},
		{`host("feature"="gpu")=1`, label("feature", "gpu", cluster.Equal, 1), true},
		{`host("hostname"="web-1")>0`, has("hostname", "web-1"), true},
		{`host("hostname"="s/web-1")>0`, has("hostname", "s/web-1"), true},
		{`host("rack"="r1")>0`, has("rack", "r1"), true},
		{`host("zone"="z2")>0`, has("zone", "z2"), false},
		{`and()`, cluster.Constraint{Op: cluster.And}, true},
		{`or()`, cluster.Constraint{Op: cluster.Or}, false},
		{`and(host("disk"="ssd")>0, host("zone"="z2")>0)`, cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{has("disk", "ssd"), has("zone", "z2")}}, false},
		{`or(host("zone"="z2")>0, host("disk"="ssd")>0)`, cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{has("zone", "z2"), has("disk", "ssd")}}, true},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Equal(t, c.text, c.c.String())
			require.Equal(t, c.allows, c.c.Allows(h))
		})
	}
}

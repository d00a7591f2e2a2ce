package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestConstraints(t *testing.T) {
	h := &cluster.Host{ID: "s/web-1", Machine: &cluster.Machine{
		Rack: "r1", Zone: "z1",
		Attributes: []cluster.KeyValue{{Key: "disk", Value: "ssd"}, {Key: "feature", Value: "avx"}, {Key: "feature", Value: "gpu"}},
	}}
	label := func(key, value string, c cluster.Comparison, n uint32) cluster.Constraint {
		return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: c, Count: n}
	}
	has := func(key, value string) cluster.Constraint { return label(key, value, cluster.Greater, 0) }
	anyOf := func(key string, c cluster.Comparison, n uint32) cluster.Constraint {
		return cluster.Constraint{Label: cluster.KeyValue{Key: key}, AnyValue: true, Comparison: c, Count: n}
	}
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
		{`host("feature")=1`, anyOf("feature", cluster.Equal, 1), true},
		{`host("rack")>0`, anyOf("rack", cluster.Greater, 0), true},
		{`host("tape")<1`, anyOf("tape", cluster.Less, 1), true},
		{`host("hostname")=0`, anyOf("hostname", cluster.Equal, 0), false},
		{`and()`, cluster.Constraint{Op: cluster.And}, true},
		{`or()`, cluster.Constraint{Op: cluster.Or}, false},
		{`and(host("disk"="ssd")>0, host("zone"="z2")>0)`, cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{has("disk", "ssd"), has("zone", "z2")}}, false},
		{`or(host("zone"="z2")>0, host("disk"="ssd")>0)`, cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{has("zone", "z2"), has("disk", "ssd")}}, true},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Equal(t, c.text, c.c.String())
			want := cluster.False
			if c.allows {
				want = cluster.True
			}
			require.Equal(t, want, c.c.Evaluate(h, nil))
		})
	}
}

// What is not known of tasks decides only where nothing else does.
func TestWhatIsNotKnown(t *testing.T) {
	h := &cluster.Host{Machine: &cluster.Machine{Zone: "z1"}}
	in := func(zone string) cluster.Constraint {
		return cluster.Constraint{Label: cluster.KeyValue{Key: "zone", Value: zone}, Comparison: cluster.Greater}
	}
	task := cluster.Constraint{Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: "web"}, Count: 2, Domain: "rack"}
	require.Equal(t, `task("app"="web" in "rack")<2`, task.String())
	for _, c := range []struct {
		op    cluster.ConstraintOp
		zone  string
		value cluster.Truth
	}{
		{cluster.And, "z1", cluster.Unknown},
		{cluster.And, "z2", cluster.False},
		{cluster.Or, "z1", cluster.True},
		{cluster.Or, "z2", cluster.Unknown},
	} {
		k := cluster.Constraint{Op: c.op, Terms: []cluster.Constraint{in(c.zone), task}}
		require.True(t, k.CountsTasks())
		require.Equal(t, c.value, k.Evaluate(h, nil), k.String())
		for _, holds := range []bool{false, true} {
			want := c.value
			if want == cluster.Unknown {
				want = map[bool]cluster.Truth{false: cluster.False, true: cluster.True}[holds]
			}
			require.Equal(t, want, k.Evaluate(h, func(*cluster.Constraint) bool { return holds }), k.String())
		}
	}
}

func TestExclusiveHosts(t *testing.T) {
	h := &cluster.Host{Machine: &cluster.Machine{Attributes: []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "lab"}}}}
	name := func(value string, c cluster.Comparison, n uint32) *cluster.Constraint {
		return &cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{
			{Label: cluster.KeyValue{Key: cluster.AttributeExclusive, Value: value}, Comparison: c, Count: n},
		}}
	}
	require.False(t, h.Admits(nil))
	require.False(t, h.Admits(name("other", cluster.Greater, 0)))
	require.False(t, h.Admits(name("lab", cluster.Equal, 0)), "to say not there is not to name it")
	require.True(t, h.Admits(name("lab", cluster.Greater, 0)))
	require.True(t, h.Admits(name("lab", cluster.Equal, 1)))
	require.True(t, (&cluster.Host{Machine: &cluster.Machine{}}).Admits(nil))
}

func TestDomains(t *testing.T) {
	h := &cluster.Host{ID: "s/h", Machine: &cluster.Machine{
		Rack: "r", Attributes: []cluster.KeyValue{{Key: "room", Value: "1"}, {Key: "room", Value: "2"}},
	}}
	for name, want := range map[string]string{"": "s/h", "host": "s/h", "rack": "r", "zone": "", "room": "1", "row": ""} {
		value, ok := h.Domain(name)
		require.Equal(t, want, value, name)
		require.Equal(t, want != "", ok, name)
	}
}

func TestPreferencesGiveWay(t *testing.T) {
	s := &cluster.JobSpec{
		Preferences: []cluster.SoftConstraint{{}, {Soft: cluster.Soft{Timeout: 20}}},
		Spread:      []cluster.Spread{{}, {Soft: &cluster.Soft{Timeout: 10}}},
	}
	for _, c := range []struct {
		now  cluster.Time
		mask uint64
		next cluster.Time
	}{{100, 0b0001, 110}, {110, 0b1001, 120}, {119, 0b1001, 120}, {120, 0b1011, 0}} {
		mask, next := s.Yielded(100, c.now)
		require.Equal(t, c.mask, mask)
		require.Equal(t, c.next, next)
	}
}

package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
)

// TestRulesAboutPlaces places task 0 on host a and task 1 on b, or on a too. Both are in rack r1.
func TestRulesAboutPlaces(t *testing.T) {
	count := func(value, domain string, compare cluster.Comparison, n uint32) cluster.Constraint {
		return cluster.Constraint{
			Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: value}, AnyValue: value == "",
			Comparison: compare, Count: n, Domain: domain,
		}
	}
	spread := func(s ...cluster.Spread) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) { j.Spread = s }
	}
	prefer := func(timeout time.Duration) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) {
			j.Preferences = []cluster.SoftConstraint{{Constraint: label("disk", "hdd", cluster.Greater, 0), Soft: cluster.Soft{Timeout: timeout}}}
		}
	}
	for _, c := range []struct {
		name string
		spec func(*cluster.JobSpec)
		same check.Rule // what both on a break, "" for nothing
		both check.Rule // what one on each breaks
	}{
		{"one per host", spread(cluster.Spread{Domain: "host", Max: 1}), check.Spread, ""},
		{"one per rack", spread(cluster.Spread{Domain: "rack", Max: 1}), check.Spread, check.Spread},
		{"two per rack", spread(cluster.Spread{Domain: "rack", Max: 2}), "", ""},
		{"evenly over hosts", spread(cluster.Spread{Domain: "host", MaxSkew: 1}), check.Spread, ""},
		{"nearly so", spread(cluster.Spread{Domain: "host", MaxSkew: 2}), "", ""},
		{"evenly over one rack", spread(cluster.Spread{Domain: "rack", MaxSkew: 1}), "", ""},
		{"evenly by selection", spread(cluster.Spread{MaxSkew: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "y"}}}), "", ""},
		{"no such domain", spread(cluster.Spread{Domain: "row", Max: 9}), check.Spread, check.Spread},
		{"one by selection", spread(cluster.Spread{Max: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "x"}}}), check.Spread, ""},
		{"another selection", spread(cluster.Spread{Max: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "y"}}}), "", ""},
		{"one for a while", spread(cluster.Spread{Max: 1, Soft: &cluster.Soft{Timeout: time.Second}}), check.Spread, ""},
		{"one and not for long", spread(cluster.Spread{Max: 1, Soft: &cluster.Soft{Timeout: 1}}), "", ""},
		{"a preference that holds", prefer(time.Second), check.Preference, check.Preference},
		{"a preference that gives way", prefer(1), "", ""},
		{"less than one", constrained(count("x", "host", cluster.Less, 1)), check.Constraint, ""},
		{"less than one of any", constrained(count("", "host", cluster.Less, 1)), check.Constraint, ""},
		{"none of others", constrained(count("y", "rack", cluster.Less, 1)), "", ""},
		{"just none", constrained(count("x", "rack", cluster.Equal, 0)), check.Constraint, check.Constraint},
		{"together on a host", constrained(count("x", "", cluster.Greater, 0)), "", check.Constraint},
		{"together in a rack", constrained(count("x", "rack", cluster.Greater, 0)), "", ""},
		{"beside others", constrained(count("y", "rack", cluster.Greater, 0)), check.Constraint, check.Constraint},
		{"on named hosts", constrained(label(cluster.AttributeExclusive, "lab", cluster.Equal, 0)), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for second, want := range map[cluster.HostID]check.Rule{a: c.same, b: c.both} {
				l := begun(func(s *cluster.JobSpec) {
					s.Labels = []cluster.KeyValue{{Key: "app", Value: "x"}}
					c.spec(s)
				})
				l.add(placed(0, 1, a), placed(1, 1, second))
				if want == "" {
					require.Zero(t, l.Count(), "%v", l.Violations())
					continue
				}
				require.Positive(t, l.Count(), "%s", second)
				require.Equal(t, want, l.Violations()[0].Rule)
			}
		})
	}
}

// TestHostPools: what a pool above asks of hosts holds for a task below it, and opens a host that is kept.
func TestHostPools(t *testing.T) {
	lab := cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"}
	for _, c := range []struct {
		name string
		asks []cluster.KeyValue
		has  []cluster.KeyValue
		want check.Rule
	}{
		{"not asked", nil, nil, ""},
		{"missing", []cluster.KeyValue{{Key: "hosts", Value: "x"}}, nil, check.HostPool},
		{"another value", []cluster.KeyValue{{Key: "hosts", Value: "x"}}, []cluster.KeyValue{{Key: "hosts", Value: "y"}}, check.HostPool},
		{"there", []cluster.KeyValue{{Key: "hosts", Value: "x"}}, []cluster.KeyValue{{Key: "hosts", Value: "x"}}, ""},
		{"kept", nil, []cluster.KeyValue{lab}, check.Exclusive},
		{"kept for the pool", []cluster.KeyValue{lab}, []cluster.KeyValue{lab}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine()
			m.Attributes = c.has
			l := &log{Checker: check.New(nil)}
			l.add(&cluster.PoolPut{Pool: cluster.Pool{Path: "root", Hosts: c.asks}}, &cluster.HostReported{ID: a, Machine: m},
				&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec(func(s *cluster.JobSpec) { s.Pool = "root/p" })}}})
			l.Quiet() // the place that waits for it is missed only where it may go
			missed := l.Count() > 0
			require.Equal(t, c.want == "", missed, "%v", l.Violations())
			l.add(placed(0, 1, a))
			if c.want != "" {
				require.Equal(t, c.want, l.Violations()[0].Rule)
			}
		})
	}
}

func TestKeptHosts(t *testing.T) {
	for _, asks := range []bool{false, true} {
		m := machine()
		m.Attributes = []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "lab"}}
		l := &log{Checker: check.New(nil)}
		l.add(&cluster.HostReported{ID: a, Machine: m}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec(func(s *cluster.JobSpec) {
			if asks {
				constrained(label(cluster.AttributeExclusive, "lab", cluster.Greater, 0))(s)
			}
		})}}}, placed(0, 1, a))
		if asks {
			require.Zero(t, l.Count())
			continue
		}
		require.Equal(t, check.Exclusive, l.Violations()[0].Rule)
	}
}

// TestWhoBeginsToWaitAnew: a task that is restarted after its end does, but not one that waits, nor one of a gang's core.
func TestWhoBeginsToWaitAnew(t *testing.T) {
	for _, c := range []struct {
		gang  *cluster.Gang
		ended bool
		rule  check.Rule
	}{{nil, true, check.Preference}, {nil, false, ""}, {&cluster.Gang{Minimum: 2}, true, ""}} {
		l := begun(func(s *cluster.JobSpec) {
			s.Gang = c.gang
			s.Preferences = []cluster.SoftConstraint{{Constraint: label("disk", "hdd", cluster.Greater, 0), Soft: cluster.Soft{Timeout: 3}}}
		})
		if c.ended {
			l.add(&cluster.TaskStopping{Task: key(1)})
		}
		l.add(&cluster.TaskStopping{Task: key(1), Restart: true}, &cluster.HostDrain{ID: b})
		l.add(placed(1, 1, a), placed(0, 1, a))
		var found check.Rule
		for _, v := range l.Violations() {
			found = v.Rule
		}
		require.Equal(t, c.rule, found, "%+v", c)
	}
}

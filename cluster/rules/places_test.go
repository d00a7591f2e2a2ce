package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// What a plan places is held to the rules about places again when it is carried out, whatever came or went since.
func TestRulesHoldWhenPlansAreCarriedOut(t *testing.T) {
	const old, young = cluster.JobUID(1), cluster.JobUID(2) // one task of the old one runs on each host
	place := func(i, on int) cluster.Event {
		return &cluster.Placed{Task: cluster.MakeTaskKey(young, uint32(i)), Run: 1, Host: cluster.HostID(fmt.Sprint("s/h", on))}
	}
	ends := func(i int) []cluster.Event {
		return []cluster.Event{&cluster.TaskStatus{Task: cluster.MakeTaskKey(old, uint32(i)), Run: 1, State: cluster.TaskSucceeded}}
	}
	near := func(c cluster.Comparison, n uint32) *cluster.Constraint {
		return &cluster.Constraint{Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: "x"}, Domain: "rack", Comparison: c, Count: n}
	}
	exclusive := cluster.Machine{Rack: "r0", Capacity: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 8}), Attributes: []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "lab"}}}
	leaves := &cluster.TaskStopping{Task: cluster.MakeTaskKey(old, 0), Reason: cluster.ReasonTaskStopped}
	hold := func(i, on int) cluster.Event {
		return &cluster.TaskHeld{Task: cluster.MakeTaskKey(young, uint32(i)), Hold: cluster.Hold{Host: cluster.HostID(fmt.Sprint("s/h", on)), Until: 1000}}
	}
	one := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 1})
	sized := cluster.JobSpec{Task: cluster.TaskSpec{Resources: one}}
	gang := sized
	gang.Gang = &cluster.Gang{Minimum: 3}
	spread := gang
	spread.Spread = []cluster.Spread{{Domain: "rack", MaxSkew: 1}}
	limit := func(n int64) cluster.Event {
		return &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: n}}}}
	}
	for _, test := range []struct {
		name    string
		spec    cluster.JobSpec
		since   []cluster.Event
		plan    [][]cluster.Event
		refused int
	}{
		{"company", cluster.JobSpec{Constraint: near(cluster.Greater, 0)}, nil, [][]cluster.Event{{place(0, 0)}}, 0},
		{"company that has ended", cluster.JobSpec{Constraint: near(cluster.Greater, 0)}, ends(0), [][]cluster.Event{{place(0, 0)}, {place(1, 1)}}, 1},
		{"company that leaves", cluster.JobSpec{Constraint: near(cluster.Greater, 0)}, []cluster.Event{leaves}, [][]cluster.Event{{place(0, 0)}}, 1},
		{"as many as planned", cluster.JobSpec{Constraint: near(cluster.Equal, 1)}, nil, [][]cluster.Event{{place(0, 0)}}, 0},
		{"fewer than planned", cluster.JobSpec{Constraint: near(cluster.Equal, 1)}, ends(0), [][]cluster.Event{{place(0, 0)}}, 1},
		{"away from others", cluster.JobSpec{Constraint: near(cluster.Less, 1)}, ends(0), [][]cluster.Event{{place(0, 0)}, {place(1, 1)}}, 1},
		{
			"the first of their kind",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Greater, 0)},
			append(ends(0), ends(1)...),
			[][]cluster.Event{{place(0, 0)}, {place(1, 1)}, {place(2, 0)}},
			1,
		},
		{
			"the first of their kind, for whom room is held",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Greater, 0)},
			append(append(ends(0), ends(1)...), hold(0, 0)),
			[][]cluster.Event{{place(0, 0)}},
			0,
		},
		{
			"the first of their kind, where room is held for others of it",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Greater, 0)},
			append(append(ends(0), ends(1)...), hold(0, 0), hold(1, 0), hold(2, 0)),
			[][]cluster.Event{{place(0, 0)}, {place(1, 0)}, {place(2, 0)}},
			0,
		},
		{
			"the first of their kind, elsewhere",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Greater, 0)},
			append(append(ends(0), ends(1)...), hold(0, 0), hold(1, 0)),
			[][]cluster.Event{{place(2, 1)}},
			1,
		},
		{
			"the first of their kind, beside one that leaves elsewhere",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Greater, 0)},
			append(ends(1), leaves),
			[][]cluster.Event{{place(0, 1)}},
			1,
		},
		{
			"a gang that is spread, where room is held for it",
			spread,
			[]cluster.Event{hold(0, 0), hold(1, 1), hold(2, 0)},
			[][]cluster.Event{{place(0, 0), place(1, 1), place(2, 0)}},
			0,
		},
		{
			"a gang that would not be spread as it comes",
			spread,
			[]cluster.Event{hold(0, 0), hold(1, 1), hold(2, 0)},
			[][]cluster.Event{{place(0, 0), place(2, 0), place(1, 1)}},
			3,
		},
		{"the first of another kind", cluster.JobSpec{Constraint: near(cluster.Greater, 0)}, append(ends(0), ends(1)...), [][]cluster.Event{{place(0, 0)}}, 1},
		{
			"away from their own, where it is held itself",
			cluster.JobSpec{Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}, Constraint: near(cluster.Less, 1)},
			append(ends(0), hold(0, 0)),
			[][]cluster.Event{{place(0, 0)}},
			0,
		},
		{"no more than so many", cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", Max: 1}}}, nil, [][]cluster.Event{{place(0, 0)}, {place(1, 0)}, {place(2, 1)}}, 1},
		{"beside what is held", cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", Max: 1}}}, []cluster.Event{hold(1, 0)}, [][]cluster.Event{{place(0, 0)}}, 1},
		{"where it is held itself", cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", Max: 1}}}, []cluster.Event{hold(0, 0)}, [][]cluster.Event{{place(0, 0)}}, 0},
		{
			"in one step",
			cluster.JobSpec{Gang: &cluster.Gang{Minimum: 3}, Spread: []cluster.Spread{{Domain: "rack", Max: 1}}},
			nil,
			[][]cluster.Event{{place(0, 0), place(1, 1), place(2, 0)}},
			3,
		},
		{"even", cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", MaxSkew: 1}}}, nil, [][]cluster.Event{{place(0, 0)}, {place(1, 1)}, {place(2, 0)}}, 0},
		{"uneven", cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", MaxSkew: 1}}}, nil, [][]cluster.Event{{place(0, 0)}, {place(1, 0)}, {place(2, 1)}}, 1},
		{
			"even where hosts take work",
			cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", MaxSkew: 1}}},
			[]cluster.Event{&cluster.HostDrain{ID: "s/h1", Drain: true}},
			[][]cluster.Event{{place(0, 0)}, {place(1, 0)}},
			0,
		},
		{
			"uneven as one ended",
			cluster.JobSpec{Spread: []cluster.Spread{{Domain: "rack", MaxSkew: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "x"}}}}},
			ends(0),
			[][]cluster.Event{{place(0, 0)}, {place(1, 1)}},
			0,
		},
		{
			"far from even as one ended", cluster.JobSpec{
				Labels: []cluster.KeyValue{{Key: "app", Value: "x"}},
				Spread: []cluster.Spread{{Domain: "rack", MaxSkew: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "x"}}}},
			}, ends(0), [][]cluster.Event{{place(0, 1)}}, 1,
		},
		{
			"a preference that has given way",
			cluster.JobSpec{Preferences: []cluster.SoftConstraint{{Constraint: *near(cluster.Less, 1), Soft: cluster.Soft{Timeout: 5}}}},
			nil,
			[][]cluster.Event{{place(0, 0)}},
			0,
		},
		{
			"a preference that holds yet",
			cluster.JobSpec{Preferences: []cluster.SoftConstraint{{Constraint: *near(cluster.Less, 1), Soft: cluster.Soft{Timeout: time.Hour}}}},
			nil,
			[][]cluster.Event{{place(0, 0)}},
			1,
		},
		{"a host that is kept now", cluster.JobSpec{}, []cluster.Event{&cluster.HostReported{ID: "s/h0", Machine: exclusive}}, [][]cluster.Event{{place(0, 0)}, {place(1, 1)}}, 1},
		{
			"a pool with hosts of its own now",
			cluster.JobSpec{},
			[]cluster.Event{&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Version: 1, Hosts: []cluster.KeyValue{{Key: "rack", Value: "r1"}}}}},
			[][]cluster.Event{{place(0, 0)}, {place(1, 1)}},
			1,
		},
		{"a limit with room for one", sized, []cluster.Event{limit(3)}, [][]cluster.Event{{place(0, 0)}, {place(1, 1)}}, 1},
		{"a limit and one that leaves", sized, []cluster.Event{limit(2), leaves}, [][]cluster.Event{{place(0, 0)}}, 1},
		{"a limit and one that has ended", sized, append(ends(0), limit(2)), [][]cluster.Event{{place(0, 0)}}, 0},
		{"a limit in one step", gang, []cluster.Event{limit(4)}, [][]cluster.Event{{place(0, 0), place(1, 0), place(2, 1)}}, 3},
		{
			"a limit of another pool", sized,
			[]cluster.Event{&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 1}}}}},
			[][]cluster.Event{{place(0, 0)}, {place(1, 1)}},
			0,
		},
		{"a limit of other things", cluster.JobSpec{}, []cluster.Event{limit(0)}, [][]cluster.Event{{place(0, 0)}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := cluster.NewState()
			emit(t, state, 1, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}})
			test.spec.Name, test.spec.Pool, test.spec.Instances = "young", "root/a", 3
			emit(t, state, 1, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{
				{UID: old, Spec: &cluster.JobSpec{Name: "old", Pool: "root/a", Instances: 2, Task: sized.Task, Labels: []cluster.KeyValue{{Key: "app", Value: "x"}}}},
				{UID: young, Spec: &test.spec},
				{UID: 3, Spec: &cluster.JobSpec{ // nothing but variables differ from instance to instance
					Name: "other", Pool: "root/a", Instances: 1, Overrides: []cluster.InstanceOverride{{Env: []cluster.KeyValue{{Key: "ROLE", Value: "leader"}}}},
				}},
			}})
			for i := range uint32(2) {
				on := cluster.HostID(fmt.Sprint("s/h", i))
				emit(t, state, 1, &cluster.HostReported{ID: on, Machine: cluster.Machine{Rack: fmt.Sprint("r", i), Capacity: one.Times(8)}})
				emit(t, state, 1, &cluster.Placed{Task: cluster.MakeTaskKey(old, i), Run: 1, Host: on})
			}
			for _, e := range test.since {
				emit(t, state, 2, e)
			}
			tx := rules.Begin(state, 10)
			require.Equal(t, test.refused, rules.Commit(tx, test.plan, func([]cluster.Event, error) {}))
		})
	}
}

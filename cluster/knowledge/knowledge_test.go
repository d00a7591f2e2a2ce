package knowledge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/costmodels"
)

var _ costmodels.Knowledge = (*knowledge.Base)(nil)

// runs returns a state in which so many tasks of the work have run for a second.
func runs(t *testing.T, work string, n uint32) *cluster.State {
	s := cluster.NewState()
	at := cluster.Time(time.Hour)
	emit := func(e cluster.Event) { require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: at, Event: e})) }
	emit(&cluster.HostReported{ID: "s/h"})
	spec := &cluster.JobSpec{Name: "j", Pool: cluster.RootPool, Instances: n, Labels: []cluster.KeyValue{{Key: cluster.WorkLabel, Value: work}}}
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	for i := range n {
		k := cluster.MakeTaskKey(1, i)
		emit(&cluster.Placed{Task: k, Run: 1, Host: "s/h"})
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
		at = at.Add(time.Second)
		emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
	}
	return s
}

func TestFewRunsAreNotBelieved(t *testing.T) {
	for n := range uint32(knowledge.MinRuns + 2) {
		snapshot, _ := runs(t, "sort", n+1).Snapshot()
		known := new(knowledge.Feed).Next(snapshot, 0, nil)
		believed := n+1 >= knowledge.MinRuns
		got, ok := known.RunTime("sort")
		require.Equal(t, believed, ok)
		if ok {
			require.InDelta(t, time.Second, got, float64(time.Second)/15)
		}
		pace, ok := known.Pace("sort", "", "")
		require.Equal(t, believed, ok)
		if ok {
			require.Equal(t, int64(1000), pace)
		}
		_, ok = known.Pace("sort", "", "noise")
		require.False(t, ok, "never seen beside it")
		_, ok = known.Usage("sort")
		require.False(t, ok, "never measured")
	}
}

func TestTheFeedTellsWhatChanged(t *testing.T) {
	s := runs(t, "sort", 3)
	snapshot, _ := s.Snapshot()
	used := func(cpu int64) func() knowledge.Usage {
		return func() knowledge.Usage {
			r := cluster.Resources{}
			r.Fixed[cluster.CPU] = cpu
			return knowledge.Usage{"s/h": r}
		}
	}
	never := func() knowledge.Usage { panic("measured too soon") }
	feed := knowledge.Feed{Interval: time.Minute}
	at := func(d time.Duration) cluster.Time { return cluster.Time(time.Hour).Add(d) }

	first := feed.Next(snapshot, at(0), used(1))
	require.Same(t, first, feed.Next(snapshot, at(time.Second), never))
	require.Same(t, first, feed.Next(snapshot, at(time.Minute), used(1)), "nothing new")
	require.Same(t, first, feed.Next(snapshot, at(61*time.Second), never))
	second := feed.Next(snapshot, at(2*time.Minute), used(2))
	require.NotSame(t, first, second)
	require.NotSame(t, second, feed.Next(snapshot, at(-time.Hour), used(3)), "the clock has been set back")
	u, ok := second.Used("s/h")
	require.True(t, ok)
	require.Equal(t, int64(2), u.Fixed[cluster.CPU])
	_, ok = second.Used("s/other")
	require.False(t, ok)
	more, _ := runs(t, "sort", 4).Snapshot()
	require.NotSame(t, second, feed.Next(more, at(3*time.Minute), used(2)), "one more run has ended")
}

// A pace is that of the best kind of host, alone, until enough was seen of another.
func TestWhatIsKnownOfKindsCompanyAndImages(t *testing.T) {
	s := cluster.NewState()
	w := &cluster.Work{Name: "sort", Pairs: []cluster.Pair{
		{Kind: "fast", Runs: 3, Milli: 2000},
		{Kind: "fast", Company: "kind", Runs: 3, Milli: -500},
		{Kind: "fast", Company: "new", Runs: 2, Milli: 100},
		{Kind: "fast", Company: "noise", Runs: 3, Milli: 1000},
		{Kind: "fast", Company: "odd", Runs: 3, Milli: -3000},
		{Kind: "new", Runs: 2, Milli: 1000},
		{Kind: "slow", Runs: 3, Milli: 5000},
	}}
	image := &cluster.ImageHosts{Name: "tools", Hosts: []cluster.HostID{"s/h"}}
	require.NoError(t, s.Apply(cluster.Record{Event: &cluster.Restored{Works: []*cluster.Work{w}, Images: []*cluster.ImageHosts{image}}}))
	snapshot, _ := s.Snapshot()
	known := new(knowledge.Feed).Next(snapshot, 0, nil)
	for _, c := range []struct {
		kind, company string
		want          int64 // -1: unknown
	}{
		{"fast", "", 1000},
		{"slow", "", 2500},
		{"new", "", -1},
		{"none", "", -1},
		{"fast", "noise", 1500},
		{"fast", "kind", 750},
		{"fast", "odd", 0},
		{"fast", "new", -1},
		{"slow", "noise", -1},
	} {
		pace, ok := known.Pace("sort", c.kind, c.company)
		require.Equal(t, c.want >= 0, ok, "%+v", c)
		require.Equal(t, max(0, c.want), pace, "%+v", c)
	}
	_, ok := known.Pace("search", "fast", "")
	require.False(t, ok)
	require.Equal(t, image.Hosts, known.Holders("tools"))
}

package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// copied is a history of a job whose task 0 runs, and another host.
func copied(t *testing.T) *history {
	h := newHistory(t)
	h.emit(
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(1000, 1000)}},
		&cluster.HostReported{ID: "s/other", Machine: cluster.Machine{Capacity: vector(1000, 1000)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 2, Speculation: &cluster.Speculation{}, Task: cluster.TaskSpec{Resources: vector(100, 1)},
		}}}},
	)
	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskRunning))
	return h
}

func (h *history) copy() {
	k := h.task(0).Key
	h.emit(&cluster.CopyAdded{Task: k, Run: 1}, &cluster.Placed{Task: k.Copy(), Run: 1, Host: "s/other"},
		&cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskRunning})
}

// A copy holds room of its own, and when it has succeeded so has its task, however its run ends; nothing is left of the copy
// and nothing counts twice.
func TestACopyStandsForItsTask(t *testing.T) {
	for _, end := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled} {
		h := copied(t)
		h.copy()
		k := h.task(0).Key
		require.Equal(t, []cluster.TaskKey{k.Copy()}, h.state.Host("s/other").Tasks)
		require.Equal(t, vector(100, 1), h.state.Host("s/other").Allocated)
		require.Error(t, h.try(&cluster.CopyWon{Task: k.Copy()}), "it has not succeeded")
		h.emit(&cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskSucceeded}, &cluster.CopyWon{Task: k.Copy()})
		require.Nil(t, h.state.Task(k.Copy()))
		require.Equal(t, cluster.TaskKilling, h.task(0).State)
		require.NotEqual(t, cluster.JobSucceeded, h.state.Job(1).State())
		require.NoError(t, h.report(0, end))
		require.Equal(t, cluster.TaskSucceeded, h.task(0).State)
		require.Zero(t, h.task(0).Failures)
		require.Contains(t, h.task(0).Message, "s/other")
		require.Equal(t, uint32(1), h.task(0).WonBy)
		require.Equal(t, uint32(1), h.state.Job(1).Counts[cluster.TaskSucceeded])
		require.Empty(t, h.state.Host(host).Tasks)
		h.place(1)
		require.NoError(t, h.report(1, cluster.TaskSucceeded))
		require.Equal(t, cluster.JobSucceeded, h.state.Job(1).State())
	}
}

// A task that waits again has succeeded as soon as its copy has. A restart by the user takes it back.
func TestACopyStandsForATaskThatWaits(t *testing.T) {
	h := copied(t)
	h.copy()
	k := h.task(0).Key
	require.NoError(t, h.report(0, cluster.TaskLost))
	h.emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry},
		&cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskSucceeded}, &cluster.CopyWon{Task: k.Copy()})
	require.Equal(t, cluster.TaskSucceeded, h.task(0).State)
	require.Equal(t, cluster.ReasonOutrun, h.task(0).Reason)
	h.emit(&cluster.TaskStopping{Task: k, Restart: true})
	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskKilled))
	require.Equal(t, cluster.TaskKilled, h.task(0).State)
}

func TestCopiesThatMayNotBe(t *testing.T) {
	k := cluster.MakeTaskKey(1, 0)
	for name, c := range map[string]struct {
		before []cluster.Event
		event  cluster.Event
	}{
		"another run":        {nil, &cluster.CopyAdded{Task: k, Run: 2}},
		"of a copy":          {[]cluster.Event{&cluster.CopyAdded{Task: k, Run: 1}}, &cluster.CopyAdded{Task: k.Copy(), Run: 0}},
		"a second one":       {[]cluster.Event{&cluster.CopyAdded{Task: k, Run: 1}}, &cluster.CopyAdded{Task: k, Run: 1}},
		"of what waits":      {nil, &cluster.CopyAdded{Task: cluster.MakeTaskKey(1, 1), Run: 0}},
		"of no task":         {nil, &cluster.CopyAdded{Task: cluster.MakeTaskKey(9, 0), Run: 1}},
		"while it stops":     {[]cluster.Event{&cluster.JobStopping{Job: 1}}, &cluster.CopyAdded{Task: k, Run: 1}},
		"beside its task":    {[]cluster.Event{&cluster.CopyAdded{Task: k, Run: 1}}, &cluster.Placed{Task: k.Copy(), Run: 1, Host: host}},
		"winning from afar":  {nil, &cluster.CopyWon{Task: k.Copy()}},
		"winning, no copy":   {nil, &cluster.CopyWon{Task: k}},
		"removed, no copy":   {nil, &cluster.InstanceRemoved{Task: k}},
		"of a job of others": {[]cluster.Event{&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: &cluster.JobSpec{Name: "x", Pool: "root", Instances: 1}}}}, &cluster.Placed{Task: cluster.MakeTaskKey(2, 0), Run: 1, Host: host}, &cluster.TaskStatus{Task: cluster.MakeTaskKey(2, 0), Run: 1, State: cluster.TaskRunning}}, &cluster.CopyAdded{Task: cluster.MakeTaskKey(2, 0), Run: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			h := copied(t)
			h.emit(c.before...)
			before, _ := h.state.Snapshot()
			require.ErrorIs(t, h.try(c.event), cluster.ErrIllegal)
			after, _ := h.state.Snapshot()
			require.Equal(t, contents(before), contents(after))
		})
	}
}

// Copies are for batch jobs whose tasks run each for itself, if they want it.
func TestWhoseTasksMayHaveCopies(t *testing.T) {
	for name, change := range map[string]func(*cluster.JobSpec){
		"": func(*cluster.JobSpec) {}, "asks for none": func(s *cluster.JobSpec) { s.Speculation = nil },
		"a service": func(s *cluster.JobSpec) { s.Type = cluster.Stateless }, "a gang": func(s *cluster.JobSpec) { s.Gang = &cluster.Gang{Minimum: 1} },
		"has a controller": func(s *cluster.JobSpec) { s.Controller = true },
	} {
		h := newHistory(t)
		spec := &cluster.JobSpec{Name: "job", Pool: cluster.RootPool, Instances: 1, Speculation: &cluster.Speculation{}}
		change(spec)
		h.emit(&cluster.HostReported{ID: host}, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
		h.place(0)
		require.NoError(t, h.report(0, cluster.TaskRunning))
		err := h.try(&cluster.CopyAdded{Task: h.task(0).Key, Run: 1})
		require.Equal(t, name == "", err == nil, name)
	}
}

// Runs that were outrun, or took longer than is usual, make their host slow in what is believed of it; usual ones fast again.
func TestHostsHaveAPace(t *testing.T) {
	h := newHistory(t)
	h.emit(&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(1000, 1000)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 20, Labels: []cluster.KeyValue{{Key: cluster.WorkLabel, Value: "w"}},
		}}}})
	at := cluster.Time(1)
	run := func(i uint32, ms cluster.Time) int32 {
		k := cluster.MakeTaskKey(1, i)
		for _, e := range []cluster.Event{
			&cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded},
		} {
			if s, ok := e.(*cluster.TaskStatus); ok && s.State.Terminal() {
				at += ms * 1_000_000
			}
			require.NoError(t, h.state.Apply(cluster.Record{Seq: h.state.Seq() + 1, At: at, Event: e}))
		}
		return h.state.Host(host).Pace
	}
	for i := range uint32(3) {
		require.Zero(t, run(i, 10))
	}
	require.Equal(t, int32(1000), run(3, 10))
	require.Equal(t, int32(1750), run(4, 40))
	require.Equal(t, int32(1563), run(5, 10))
}

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestFizzles: a host on which runs of two jobs begin and fail at once becomes suspect, or of one job, where others of it do well elsewhere,
// until one goes on there. A task that fails everywhere makes no host suspect, nor does a job of which all do.
func TestFizzles(t *testing.T) {
	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 100, cluster.Memory: 100}}
	bad, sound := cluster.MakeHostID("s", "bad"), cluster.MakeHostID("s", "sound")
	for _, typ := range []cluster.JobType{cluster.Batch, cluster.Stateless} {
		var s *cluster.State
		var now cluster.Time
		apply := func(e cluster.Event) {
			t.Helper()
			now++
			require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: now, Event: e}))
		}
		begin := func() {
			s, now = cluster.NewState(), 0
			for _, id := range []cluster.HostID{bad, sound} {
				apply(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
			}
			spec := &cluster.JobSpec{
				Name: "work", Type: typ, Pool: cluster.RootPool, Instances: 4, MaxFailures: 100,
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}},
			}
			other := *spec
			other.Name = "other"
			apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}, {UID: 2, Spec: &other}}})
		}
		key := func(i uint32) cluster.TaskKey { return cluster.MakeTaskKey(cluster.JobUID(1+i/4), i%4) }
		run := func(i uint32, at cluster.HostID) {
			k := key(i)
			apply(&cluster.Placed{Task: k, Run: s.Job(1).NextRun(s.Task(k)), Host: at})
			apply(&cluster.TaskStatus{Task: k, Run: s.Task(k).Run, State: cluster.TaskRunning})
		}
		end := func(i uint32, state cluster.TaskState) {
			k := key(i)
			apply(&cluster.TaskStatus{Task: k, Run: s.Task(k).Run, State: state, Reason: cluster.ReasonExited})
			if state != cluster.TaskSucceeded || typ.Service() {
				apply(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry})
			}
		}
		fail := func(i uint32) { run(i, bad); end(i, cluster.TaskFailed) }
		refuse := func(i uint32) {
			apply(&cluster.Placed{Task: key(i), Run: s.Job(1).NextRun(s.Task(key(i))), Host: bad})
			apply(&cluster.TaskRequeued{Task: key(i), Reason: cluster.ReasonLaunchRefused})
		}
		wait := func() { now = now.Add(time.Minute) }
		back := func() { now = now.Add(-time.Second) }
		well := func() { run(0, sound); wait() }
		for name, c := range map[string]struct {
			what func()
			want uint32
		}{
			"all fail":      {func() { fail(1); fail(2); fail(3) }, 1},
			"two jobs fail": {func() { fail(1); fail(4) }, 2},
			"others go on":  {func() { well(); fail(1); fail(2) }, 2},
			"others go on by the version before": {func() {
				well()
				next := *s.Job(1).Spec
				next.Task.Processes = []cluster.Process{{Command: []string{"y"}}}
				apply(&cluster.JobUpdated{Job: 1, Spec: &next, Update: &cluster.Update{From: 1}})
				for _, i := range []uint32{1, 2} {
					apply(&cluster.TaskUpdated{Task: key(i), Version: 2, Reason: cluster.ReasonUpdated})
				}
				fail(1)
				fail(2)
			}, 1},
			"no more than suspect": {func() { well(); fail(1); fail(2); fail(3); fail(1) }, 2},
			"one fails all over":   {func() { well(); fail(1); fail(1); fail(1) }, 1},
			"under way together":   {func() { well(); run(1, bad); run(2, bad); end(1, cluster.TaskFailed); end(2, cluster.TaskFailed) }, 1},
			"it took a while":      {func() { well(); fail(1); run(2, bad); wait(); end(2, cluster.TaskFailed) }, 0},
			"one begins":           {func() { well(); fail(1); fail(2); run(3, bad) }, 2},
			"one goes on and fails": {func() {
				well()
				fail(1)
				fail(2)
				run(3, bad)
				wait()
				end(3, cluster.TaskFailed)
			}, 0},
			"the clock is set back":                  {func() { fail(1); back(); fail(4) }, 2},
			"launches are given back and it is, too": {func() { refuse(1); back(); refuse(1); refuse(2) }, 3},
			"it was resumed":                         {func() { well(); fail(1); fail(2); apply(&cluster.HostDrain{ID: bad}) }, 0},
		} {
			t.Run(fmt.Sprint(typ, " ", name), func(t *testing.T) {
				begin()
				c.what()
				require.Equal(t, c.want, s.Host(bad).Misfires)
			})
		}
		begin()
		run(0, sound)
		end(0, cluster.TaskSucceeded)
		fail(1)
		fail(2)
		want := map[cluster.JobType]uint32{cluster.Batch: 2, cluster.Stateless: 1}[typ] // a service has not done well by that
		require.Equal(t, want, s.Host(bad).Misfires)
	}
}

// TestMisfires: launches count that come to nothing one after another, until one begins, or somebody looks after the host.
func TestMisfires(t *testing.T) {
	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 100, cluster.Memory: 100}}
	id := cluster.MakeHostID("s", "h0")
	var h *history
	begin := func() {
		h = newHistory(t)
		h.emit(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
		spec := &cluster.JobSpec{
			Name: "work", Pool: cluster.RootPool, Instances: 3, MaxFailures: 100,
			Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}},
		}
		h.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	}
	place := func(i uint32) {
		k := cluster.MakeTaskKey(1, i)
		h.emit(&cluster.Placed{Task: k, Run: h.state.Job(1).NextRun(h.state.Task(k)), Host: id})
	}
	refuse := func(i uint32) {
		h.emit(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonLaunchRefused})
	}
	report := func(i uint32, state cluster.TaskState, why cluster.Reason) {
		k := cluster.MakeTaskKey(1, i)
		h.emit(&cluster.TaskStatus{Task: k, Run: h.state.Task(k).Run, State: state, Reason: why})
	}
	fail := func(i uint32) {
		report(i, cluster.TaskFailed, cluster.ReasonLaunchFailed)
		h.emit(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonRetry})
	}
	for name, c := range map[string]struct {
		what func()
		want uint32
	}{
		"given back, then failed": {func() { place(0); refuse(0); place(0); fail(0) }, 2},
		"those under way together": {func() {
			place(0)
			place(1)
			place(2)
			refuse(0)
			refuse(1)
			fail(2)
		}, 1},
		"one begins":   {func() { place(0); refuse(0); place(0); report(0, cluster.TaskRunning, "") }, 0},
		"one was fast": {func() { place(0); refuse(0); place(0); report(0, cluster.TaskSucceeded, cluster.ReasonExited) }, 0},
		"a run that began fails": {func() {
			place(0)
			report(0, cluster.TaskRunning, "")
			report(0, cluster.TaskFailed, cluster.ReasonExited)
		}, 1},
		"the host was away": {func() {
			place(0)
			refuse(0)
			h.emit(&cluster.HostUnreached{ID: id})
			h.emit(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
		}, 0},
		"its facts change": {func() {
			place(0)
			refuse(0)
			h.emit(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room, Rack: "r"}})
		}, 1},
		"it was drained": {func() { place(0); refuse(0); h.emit(&cluster.HostDrain{ID: id, Drain: true}) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			begin()
			c.what()
			require.Equal(t, c.want, h.state.Host(id).Misfires)
		})
	}
}

// TestNoneBegins: a version of a job of which no launch begins says little of the hosts: a few launches count, and make no host more than
// suspect. As soon as one begins anywhere, what fails is the matter of its host again.
func TestNoneBegins(t *testing.T) {
	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 100, cluster.Memory: 100}}
	hosts := []cluster.HostID{"s/a", "s/b", "s/c", "s/d"}
	var h *history
	place := func(i uint32, at int) {
		k := cluster.MakeTaskKey(1, i)
		h.emit(&cluster.Placed{Task: k, Run: h.state.Job(1).NextRun(h.state.Task(k)), Host: hosts[at]})
	}
	report := func(i uint32, state cluster.TaskState, why cluster.Reason) {
		k := cluster.MakeTaskKey(1, i)
		h.emit(&cluster.TaskStatus{Task: k, Run: h.state.Task(k).Run, State: state, Reason: why})
	}
	fail := func(i uint32, at int) {
		place(i, at)
		report(i, cluster.TaskFailed, cluster.ReasonLaunchFailed)
		h.emit(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonRetry})
	}
	begin := func(i uint32, at int) { place(i, at); report(i, cluster.TaskRunning, "") }
	end := func(i uint32) {
		report(i, cluster.TaskFailed, cluster.ReasonExited)
		h.emit(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, i), Reason: cluster.ReasonRetry})
	}
	update := func() {
		spec := *h.state.Job(1).Spec
		spec.Task.Processes = []cluster.Process{{Command: []string{fmt.Sprint("y", h.state.Job(1).Version)}}}
		h.emit(&cluster.JobUpdated{Job: 1, Spec: &spec, Update: &cluster.Update{From: h.state.Job(1).Version}})
		for task := range h.state.TasksOf(1, 0) {
			if !task.State.Bound() {
				h.emit(&cluster.TaskUpdated{Task: task.Key, Version: h.state.Job(1).Version, Reason: cluster.ReasonUpdated})
			}
		}
	}
	everywhere := func() {
		for range 3 {
			for at := range hosts {
				fail(0, at)
				fail(1, at)
			}
		}
	}
	for name, c := range map[string]struct {
		what func()
		want []uint32
	}{
		"everywhere":   {everywhere, []uint32{2, 2, 0, 0}},
		"on one alone": {func() { fail(0, 0); fail(0, 0); fail(0, 0); fail(0, 0) }, []uint32{2, 0, 0, 0}},
		"another begins elsewhere": {func() {
			everywhere()
			begin(2, 3)
			fail(0, 0)
			fail(0, 0)
			begin(1, 3)
			fail(0, 0)
		}, []uint32{4, 2, 0, 0}},
		"by another version": {func() { everywhere(); update(); fail(0, 2); fail(0, 2); fail(0, 3) }, []uint32{2, 2, 2, 1}},
		"while the version before begins": {func() {
			begin(2, 0)
			update()
			everywhere()
			end(2)
		}, []uint32{2, 2, 0, 0}},
		"the version before": {func() {
			begin(2, 0)
			update()
			k := cluster.MakeTaskKey(1, 2)
			report(2, cluster.TaskLost, "")
			h.emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry})
			fail(2, 3)
			everywhere()
		}, []uint32{2, 2, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			h = newHistory(t)
			for _, id := range hosts {
				h.emit(&cluster.HostReported{ID: id, Machine: cluster.Machine{Capacity: room}})
			}
			spec := &cluster.JobSpec{
				Name: "work", Type: cluster.Stateless, Pool: cluster.RootPool, Instances: 3,
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}},
			}
			h.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
			c.what()
			var got []uint32
			for _, id := range hosts {
				got = append(got, h.state.Host(id).Misfires)
			}
			require.Equal(t, c.want, got)
		})
	}
}

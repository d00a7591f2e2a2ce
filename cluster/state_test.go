package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

// history applies events in order, with a clock that ticks.
type history struct {
	t     require.TestingT
	state *cluster.State
}

func newHistory(t require.TestingT) *history { return &history{t, cluster.NewState()} }

func (h *history) try(e cluster.Event) error {
	seq := h.state.Seq() + 1
	return h.state.Apply(cluster.Record{Seq: seq, At: cluster.Time(seq), Event: e})
}

func (h *history) emit(events ...cluster.Event) {
	for _, e := range events {
		require.NoError(h.t, h.try(e))
	}
}

const host = cluster.HostID("s/h")

// oneJob is a history with a host and a job of n tasks.
func oneJob(t require.TestingT, n uint32) *history {
	h := newHistory(t)
	h.emit(
		&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 10_000)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: n, MaxFailures: 1, Task: cluster.TaskSpec{Resources: vector(100, 1)},
		}}}},
	)
	return h
}

func (h *history) task(i uint32) *cluster.Task { return h.state.Task(cluster.MakeTaskKey(1, i)) }

func (h *history) place(i uint32) {
	t := h.task(i)
	h.emit(&cluster.Placed{Task: t.Key, Run: t.Run + 1, Host: host})
}

func (h *history) report(i uint32, state cluster.TaskState) error {
	t := h.task(i)
	return h.try(&cluster.TaskStatus{Task: t.Key, Run: t.Run, State: state})
}

// Nothing is left of a job that was deleted, and a snapshot from before stays as it was.
func TestNothingIsLeftOfAJob(t *testing.T) {
	h := newHistory(t)
	h.emit(&cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10, 10)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{
			{UID: 1, Spec: &cluster.JobSpec{Name: "first", Pool: cluster.RootPool, Instances: 1, Type: cluster.Stateful}},
			{UID: 2, Spec: &cluster.JobSpec{Name: "second", Pool: cluster.RootPool, Instances: 1, DependsOn: []cluster.Dependency{{Job: "first"}}}},
			{UID: 3, Spec: &cluster.JobSpec{Name: "daemon", Pool: cluster.RootPool, Type: cluster.Daemon}},
		}},
		&cluster.TokenCreated{Token: cluster.Token{ID: "t", User: "u", Job: 1}}, &cluster.TokenCreated{Token: cluster.Token{ID: "v", User: "u"}})
	h.place(0)
	before, _ := h.state.Snapshot()
	require.NotEmpty(t, before.HomeTo(host))
	was := contents(before)
	look := func() []any {
		return []any{before.HomeTo(host), before.Daemons(), before.WaitingFor("first"), before.Token("t"), before.Task(cluster.MakeTaskKey(1, 0))}
	}
	seen := look()
	h.emit(&cluster.JobStopping{Job: 2}, &cluster.JobStopping{Job: 3}, &cluster.JobDeleted{Job: 3}, &cluster.JobStopping{Job: 1})
	require.NoError(t, h.report(0, cluster.TaskKilled))
	h.emit(&cluster.JobDeleted{Job: 1})
	require.Empty(t, h.state.HomeTo(host))
	require.Empty(t, h.state.Daemons())
	require.Empty(t, h.state.WaitingFor("first"))
	require.Nil(t, h.state.Token("t"))
	require.NotNil(t, h.state.Token("v"))
	require.Nil(t, h.state.Task(cluster.MakeTaskKey(1, 0)))
	require.Equal(t, seen, look())
	require.Equal(t, was, contents(before))
}

// The state of a job by what its tasks are in.
func TestStatesOfAJob(t *testing.T) {
	counts := func(states ...cluster.TaskState) (c [cluster.NumTaskStates]uint32) {
		for _, s := range states {
			c[s]++
		}
		return c
	}
	const done, failed, killed, waits = cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskKilled, cluster.TaskPending
	controlled := func(head cluster.TaskState, of ...cluster.TaskState) cluster.Job {
		return cluster.Job{Spec: &cluster.JobSpec{Controller: true}, Stopping: true, StopReason: cluster.ReasonController, Head: head, Counts: counts(of...)}
	}
	batch, service, daemon := &cluster.JobSpec{}, &cluster.JobSpec{Type: cluster.Stateless}, &cluster.JobSpec{Type: cluster.Daemon}
	for name, c := range map[string]struct {
		job  cluster.Job
		want cluster.JobState
	}{
		"new":                           {cluster.Job{Spec: batch, Counts: counts(waits)}, cluster.JobPending},
		"waits for others":              {cluster.Job{Spec: batch, Counts: counts(waits), Waiting: true}, cluster.JobInitialized},
		"has started":                   {cluster.Job{Spec: batch, Counts: counts(waits, done), Started: 1}, cluster.JobRunning},
		"all have succeeded":            {cluster.Job{Spec: batch, Counts: counts(done, done), Started: 1}, cluster.JobSucceeded},
		"one has failed":                {cluster.Job{Spec: batch, Counts: counts(done, failed), Started: 1}, cluster.JobFailed},
		"one was killed":                {cluster.Job{Spec: batch, Counts: counts(done, failed, killed), Started: 1}, cluster.JobKilled},
		"is stopped":                    {cluster.Job{Spec: batch, Counts: counts(done, waits), Started: 1, Stopping: true}, cluster.JobKilling},
		"was stopped, as one failed":    {cluster.Job{Spec: batch, Counts: counts(done, failed), Started: 1, Stopping: true}, cluster.JobKilled},
		"was late":                      {cluster.Job{Spec: batch, Counts: counts(done, killed), Stopping: true, StopReason: cluster.ReasonDeadline}, cluster.JobFailed},
		"a service that ended":          {cluster.Job{Spec: service, Counts: counts(done), Started: 1}, cluster.JobFailed},
		"a service without instances":   {cluster.Job{Spec: service, Started: 1}, cluster.JobRunning},
		"one that was stopped":          {cluster.Job{Spec: service, Started: 1, Stopping: true}, cluster.JobKilled},
		"a daemon whose instances were": {cluster.Job{Spec: daemon, Counts: counts(killed), Started: 1}, cluster.JobRunning},
		"a daemon that was":             {cluster.Job{Spec: daemon, Counts: counts(killed), Started: 1, Stopping: true}, cluster.JobKilled},
		"its controller has succeeded":  {controlled(done, done, killed), cluster.JobSucceeded},
		"and others run yet":            {controlled(done, done, cluster.TaskKilling), cluster.JobKilling},
		"its controller has failed":     {controlled(failed, failed, killed), cluster.JobFailed},
		"its controller was killed":     {controlled(killed, killed, done), cluster.JobKilled},
	} {
		require.Equal(t, c.want, c.job.State(), name)
	}
}

// Every pair of states: an event that would take a task from one to the other is accepted exactly where the table
// allows it.
func TestTransitions(t *testing.T) {
	reach := map[cluster.TaskState]func(h *history){
		cluster.TaskPending:   func(*history) {},
		cluster.TaskPlaced:    func(h *history) { h.place(0) },
		cluster.TaskLaunching: func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskLaunching)) },
		cluster.TaskStarting:  func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskStarting)) },
		cluster.TaskRunning:   func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskRunning)) },
		cluster.TaskKilling: func(h *history) {
			h.place(0)
			h.emit(&cluster.TaskStopping{Task: h.task(0).Key})
		},
		cluster.TaskSucceeded: func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskSucceeded)) },
		cluster.TaskFailed:    func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskFailed)) },
		cluster.TaskLost:      func(h *history) { h.place(0); require.NoError(t, h.report(0, cluster.TaskLost)) },
		cluster.TaskKilled:    func(h *history) { h.emit(&cluster.TaskStopping{Task: h.task(0).Key}) },
	}
	reported := []cluster.TaskState{
		cluster.TaskLaunching, cluster.TaskStarting, cluster.TaskRunning,
		cluster.TaskSucceeded, cluster.TaskFailed, cluster.TaskLost, cluster.TaskKilled,
	}
	for from := range cluster.NumTaskStates {
		if reach[from] == nil {
			continue
		}
		for _, to := range reported {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				h := oneJob(t, 1)
				reach[from](h)
				require.Equal(t, from, h.task(0).State)
				before, _ := h.state.Snapshot()
				err := h.report(0, to)
				allowed := from.CanBecome(to) && from != cluster.TaskPending
				require.Equal(t, allowed, err == nil, "%v", err)
				if err != nil {
					require.ErrorIs(t, err, cluster.ErrIllegal)
					after, _ := h.state.Snapshot()
					require.Equal(t, contents(before), contents(after))
				}
			})
		}
	}
}

// From every state in which something may happen, some way leads to an end, and from every end back to waiting.
func TestNoStateIsATrap(t *testing.T) {
	for from := range cluster.NumTaskStates {
		seen := map[cluster.TaskState]bool{from: true}
		for queue := []cluster.TaskState{from}; len(queue) > 0; queue = queue[1:] {
			for to := range cluster.NumTaskStates {
				if queue[0].CanBecome(to) && !seen[to] {
					seen[to] = true
					queue = append(queue, to)
				}
			}
		}
		require.True(t, seen[cluster.TaskSucceeded] && seen[cluster.TaskKilled] && seen[cluster.TaskPending], "from %v", from)
	}
}

func contents(s *cluster.Snapshot) []cluster.Restored {
	var parts []cluster.Restored
	for p := range s.Parts() {
		parts = append(parts, *p)
	}
	return parts
}

func TestIllegalEventsChangeNothing(t *testing.T) {
	spec := func(change func(*cluster.JobSpec)) *cluster.JobSpec {
		s := cluster.JobSpec{Name: "other", Pool: cluster.RootPool, Instances: 2, Task: cluster.TaskSpec{Resources: vector(100, 1)}}
		change(&s)
		return &s
	}
	task := cluster.MakeTaskKey(1, 0)
	for name, e := range map[string]cluster.Event{
		"a second cluster": &cluster.ClusterCreated{ID: "another"},
		"a job name again": &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: spec(func(s *cluster.JobSpec) { s.Name = "job" })}}},
		"two jobs of one name": &cluster.JobsSubmitted{Jobs: []cluster.NewJob{
			{UID: 2, Spec: spec(func(s *cluster.JobSpec) { s.Name = "twin" })}, {UID: 3, Spec: spec(func(s *cluster.JobSpec) { s.Name = "twin" })},
		}},
		"a job in no pool":              &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: spec(func(s *cluster.JobSpec) { s.Pool = "root/none" })}}},
		"a job uid out of order":        &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: spec(func(*cluster.JobSpec) {})}}},
		"another name":                  &cluster.JobUpdated{Job: 1, Spec: spec(func(*cluster.JobSpec) {})},
		"an update of no job":           &cluster.JobUpdated{Job: 9, Spec: spec(func(*cluster.JobSpec) {})},
		"deleting a running job":        &cluster.JobDeleted{Job: 1},
		"stopping no job":               &cluster.JobStopping{Job: 9},
		"placing a placed task":         &cluster.Placed{Task: task, Run: 2, Host: host},
		"a run out of order":            &cluster.Placed{Task: cluster.MakeTaskKey(1, 1), Run: 2, Host: host},
		"placing on no host":            &cluster.Placed{Task: cluster.MakeTaskKey(1, 1), Run: 1, Host: "s/none"},
		"placing no task":               &cluster.Placed{Task: cluster.MakeTaskKey(7, 1), Run: 1, Host: host},
		"a status of an older run":      &cluster.TaskStatus{Task: task, Run: 0, State: cluster.TaskRunning},
		"a status nobody can report":    &cluster.TaskStatus{Task: task, Run: 1, State: cluster.TaskPending},
		"requeueing a waiting task":     &cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, 1)},
		"releasing what does not wait":  &cluster.JobReleased{Job: 1},
		"releasing no job":              &cluster.JobReleased{Job: 9},
		"waking what does not back off": &cluster.TaskReleased{Task: task},
		"an instance of no daemon":      &cluster.InstanceAdded{Task: cluster.MakeTaskKey(1, 5), Host: host},
		"taking a batch instance away":  &cluster.InstanceRemoved{Task: task},
		"a receipt without a digest": &cluster.RequestAnswered{Receipt: cluster.Receipt{
			For: cluster.RequestKey{Key: "k"}, Jobs: []cluster.JobAnswer{{UID: 1}},
		}},
		"forgetting data of a batch job": &cluster.HomeForgotten{Task: task},
		"removing a host with tasks":     &cluster.HostRemoved{ID: host},
		"serving a shard without hosts":  &cluster.ShardServed{By: cluster.ShardFolder{Shard: "other", Folder: "f"}},
		"draining no host":               &cluster.HostDrain{ID: "s/none", Drain: true},
		"deleting the root pool":         &cluster.PoolDeleted{Path: cluster.RootPool},
		"a pool without a parent":        &cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/b"}},
		"a checkpoint over something":    &cluster.Restored{Header: &cluster.RestoredHeader{Seq: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			h := oneJob(t, 2)
			h.emit(&cluster.ClusterCreated{ID: "c"})
			h.place(0)
			before, _ := h.state.Snapshot()
			require.ErrorIs(t, h.try(e), cluster.ErrIllegal)
			after, changes := h.state.Snapshot()
			require.Equal(t, contents(before), contents(after))
			require.True(t, changes.Empty())
		})
	}
	t.Run("a gap in the sequence", func(t *testing.T) {
		h := oneJob(t, 1)
		require.ErrorIs(t, h.state.Apply(cluster.Record{Seq: 9, Event: &cluster.JobStopping{Job: 1}}), cluster.ErrIllegal)
	})
}

func TestPlacementNeverOverCommits(t *testing.T) {
	h := oneJob(t, 101)
	for i := range uint32(100) {
		h.place(i)
	}
	last := h.task(100)
	require.Error(t, h.try(&cluster.Placed{Task: last.Key, Run: 1, Host: host}))
	require.NoError(t, h.report(0, cluster.TaskSucceeded))
	h.place(100)
}

func TestStoppingAJob(t *testing.T) {
	h := oneJob(t, 3)
	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskSucceeded))
	h.place(1)
	h.emit(&cluster.JobStopping{Job: 1})
	require.Equal(t, cluster.TaskSucceeded, h.task(0).State)
	require.Equal(t, cluster.TaskKilling, h.task(1).State)
	require.Equal(t, cluster.TaskKilled, h.task(2).State)
	require.Equal(t, cluster.JobKilling, h.state.Job(1).State())
	_, again := h.task(2).ShouldRequeue(h.state.Job(1))
	require.False(t, again)
	require.NoError(t, h.report(1, cluster.TaskKilled))
	require.Equal(t, cluster.JobKilled, h.state.Job(1).State())
	require.NotZero(t, h.state.Job(1).Finished)

	h.emit(&cluster.JobDeleted{Job: 1})
	require.Nil(t, h.state.JobByName("job"))
	require.Zero(t, h.state.NumTasks())
	require.Equal(t, cluster.JobUID(2), h.state.NextJob(), "a uid is never used again")
}

func TestRestartPolicy(t *testing.T) {
	h := oneJob(t, 1)
	end := func(state cluster.TaskState) bool {
		h.place(0)
		require.NoError(t, h.report(0, state))
		why, again := h.task(0).ShouldRequeue(h.state.Job(1))
		if again {
			h.emit(&cluster.TaskRequeued{Task: h.task(0).Key, Reason: why})
		}
		return again
	}
	require.True(t, end(cluster.TaskLost), "a lost run is nobody's fault")
	require.True(t, end(cluster.TaskFailed), "one failure is retried")
	require.True(t, end(cluster.TaskLost))
	require.Zero(t, h.state.Turnover().Freed.Fixed[cluster.CPU], "what runs again takes back what it gave")
	require.False(t, end(cluster.TaskFailed), "a second one is not")
	require.Equal(t, int64(100), h.state.Turnover().Freed.Fixed[cluster.CPU])
	require.Equal(t, uint32(4), h.task(0).Run)
	require.Equal(t, cluster.JobFailed, h.state.Job(1).State())

	h.emit(&cluster.TaskStopping{Task: h.task(0).Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	require.Equal(t, cluster.TaskPending, h.task(0).State)
	require.Zero(t, h.state.Job(1).Finished)
	require.False(t, end(cluster.TaskSucceeded))
	require.Equal(t, cluster.JobSucceeded, h.state.Job(1).State())
}

func TestRestartingARunningTask(t *testing.T) {
	h := oneJob(t, 1)
	h.place(0)
	h.emit(&cluster.TaskStopping{Task: h.task(0).Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	require.Equal(t, cluster.TaskKilling, h.task(0).State)
	require.NoError(t, h.report(0, cluster.TaskKilled))
	why, again := h.task(0).ShouldRequeue(h.state.Job(1))
	require.True(t, again)
	require.Equal(t, cluster.ReasonTaskRestarted, why)
}

// Who restarts a task that waits, as to end its back-off, does not have it wait behind those that came after it.
func TestRestartingATaskThatWaits(t *testing.T) {
	h := oneJob(t, 2)
	came := h.task(0).Queued
	restart := func() {
		h.emit(&cluster.TaskStopping{Task: h.task(0).Key, Reason: cluster.ReasonTaskRestarted, Restart: true})
	}
	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskFailed))
	h.emit(&cluster.TaskRequeued{Task: h.task(0).Key, Reason: cluster.ReasonRetry, NotBefore: 1_000_000})
	restart()
	require.Zero(t, h.task(0).NotBefore)
	require.Equal(t, came, h.task(0).Queued)

	h.place(0)
	h.emit(&cluster.TaskPreempted{Task: h.task(0).Key, Run: h.task(0).Run})
	require.NoError(t, h.report(0, cluster.TaskKilled))
	h.emit(&cluster.TaskRequeued{Task: h.task(0).Key, Reason: cluster.ReasonPreempted})
	restart()
	require.True(t, h.task(0).Ahead, "who made way is the next of its priority")
	require.Equal(t, came, h.task(0).Queued)

	h.place(0)
	require.NoError(t, h.report(0, cluster.TaskSucceeded))
	restart()
	require.Greater(t, h.task(0).Queued, came, "what had ended comes anew")
}

func TestLeafPools(t *testing.T) {
	h := newHistory(t)
	require.True(t, h.state.IsLeaf(cluster.RootPool))
	h.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}}, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/a-b"}})
	require.False(t, h.state.IsLeaf(cluster.RootPool))
	require.True(t, h.state.IsLeaf("root/a"), "a sibling with the same beginning is no child")
	h.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/b"}})
	require.False(t, h.state.IsLeaf("root/a"))
	require.Error(t, h.try(&cluster.PoolDeleted{Path: "root/a"}))
	h.emit(&cluster.PoolDeleted{Path: "root/a/b"}, &cluster.PoolDeleted{Path: "root/a"})
}

// After any history: counts, allocations and the changes reported add up, a snapshot taken on the way has not moved, and
// a state rebuilt from the parts of a checkpoint is the same and goes on the same.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := oneJob(t, 8)
		h.emit(&cluster.HostReported{ID: "s/g", Machine: cluster.Machine{Capacity: vector(300, 300)}})
		var early *cluster.Snapshot
		var seen []cluster.Restored
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 80).Draw(t, "choices") {
			_ = h.try(randomEvent(h.state, n)) // many contradict the state
			checkSums(t, h.state)
			if i == 10 {
				early, _ = h.state.Snapshot()
				seen = contents(early)
			}
		}
		if early != nil {
			require.Equal(t, seen, contents(early))
		}
		snapshot, _ := h.state.Snapshot()
		copied := newHistory(t)
		for part := range snapshot.Parts() {
			require.NoError(t, copied.state.Apply(cluster.Record{Event: part}))
		}
		checkSums(t, copied.state)
		e := &cluster.JobStopping{Job: 1}
		require.Equal(t, h.try(e) == nil, copied.try(e) == nil)
		a, _ := h.state.Snapshot()
		b, _ := copied.state.Snapshot()
		require.Equal(t, contents(a), contents(b))
	})
}

func randomEvent(s *cluster.State, n int) cluster.Event {
	k := cluster.MakeTaskKey(1, uint32(n>>4)%8)
	run := uint32(0)
	if t := s.Task(k); t != nil {
		run = t.Run
	}
	on := []cluster.HostID{host, "s/g"}[n>>8%2&1]
	switch n % 16 {
	case 0, 1, 2, 3:
		return &cluster.Placed{Task: k, Run: run + 1, Host: on}
	case 4, 5, 6, 7, 8, 9:
		return &cluster.TaskStatus{Task: k, Run: run, State: cluster.TaskState(n >> 10 % int(cluster.NumTaskStates))}
	case 10:
		return &cluster.TaskStopping{Task: k, Restart: n>>9&1 == 1}
	case 11:
		return &cluster.TaskRequeued{Task: k}
	case 12:
		spec := *s.Job(1).Spec
		spec.Instances = uint32(n>>4)%8 + 1
		return &cluster.JobUpdated{Job: 1, Spec: &spec}
	case 13:
		return &cluster.HostDrain{ID: on, Drain: n>>9&1 == 1}
	case 14:
		return &cluster.HostUnreached{ID: on}
	default:
		if n>>9&1 == 1 {
			limit := []int64{cluster.NoLimit, 1000}[n>>10&1]
			return &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Resources: []cluster.PoolResource{{Dimension: "cpu_milli", Limit: limit}}}}
		}
		return &cluster.HostReported{ID: on, Machine: cluster.Machine{Capacity: vector(300, 300)}}
	}
}

func checkSums(t require.TestingT, s *cluster.State) {
	var waiting, unstarted []*cluster.Job
	for j := range s.Jobs(0) {
		if is := j.State(); is == cluster.JobPending || is == cluster.JobInitialized {
			waiting = append(waiting, j)
		}
	}
	for j := range s.Unstarted() {
		unstarted = append(unstarted, j)
	}
	require.Equal(t, waiting, unstarted)
	allocated := map[cluster.HostID]cluster.Resources{}
	var counts [cluster.NumTaskStates]uint32
	for task := range s.TasksOf(1, 0) {
		counts[task.State]++
		if task.State.Bound() {
			allocated[task.Host] = allocated[task.Host].Add(s.Job(1).Spec.Task.Resources)
			require.True(t, slices.Contains(s.Host(task.Host).Tasks, task.Key))
		}
	}
	require.Equal(t, counts, s.Job(1).Counts)
	for h := range s.Hosts("") {
		require.True(t, h.Allocated.Equal(allocated[h.ID]), "%s: %v is not %v", h.ID, h.Allocated, allocated[h.ID])
		require.Len(t, h.Tasks, int(h.Allocated.Fixed[cluster.Memory]))
	}
	var used cluster.Resources
	for _, r := range allocated {
		used = used.Add(r)
	}
	if limited := s.Pool(cluster.RootPool).Limited(); limited || !s.Used(cluster.RootPool).IsZero() {
		require.True(t, limited)
		require.Equal(t, used, s.Used(cluster.RootPool))
	}
}

// Instances that are taken away go at once where nothing runs, else when the run has ended; if they are wanted again
// meanwhile they run again. No run number of an instance is used twice.
func TestGrowingAndShrinking(t *testing.T) {
	h := oneJob(t, 4)
	resize := func(n uint32) {
		spec := *h.state.Job(1).Spec
		spec.Instances = n
		h.emit(&cluster.JobUpdated{Job: 1, Spec: &spec})
		checkSums(t, h.state)
	}
	h.place(0)
	h.place(2)
	h.place(3)
	require.NoError(t, h.report(0, cluster.TaskSucceeded))
	resize(1)
	require.Nil(t, h.task(1))
	require.Equal(t, cluster.TaskKilling, h.task(2).State)
	require.Equal(t, cluster.JobRunning, h.state.Job(1).State())
	resize(3)
	require.Equal(t, cluster.TaskPending, h.task(1).State)
	require.True(t, h.task(2).Restart)
	require.NoError(t, h.report(3, cluster.TaskLost))
	require.Nil(t, h.task(3))
	require.NoError(t, h.report(2, cluster.TaskKilled))
	resize(4)
	require.Equal(t, uint32(1), h.task(3).Run)
	h.place(3)
	require.Equal(t, cluster.RunID{Task: cluster.MakeTaskKey(1, 3), Run: 2}, h.task(3).RunID())
	resize(1)
	require.Error(t, h.try(&cluster.TaskStopping{Task: h.task(3).Key, Restart: true}))
	require.NoError(t, h.report(3, cluster.TaskFailed))
	require.Equal(t, cluster.JobSucceeded, h.state.Job(1).State())
	h.emit(&cluster.JobDeleted{Job: 1})
	require.Zero(t, h.state.NumTasks())
}

// A task that was to move and ends for good gives back the room that was kept for it.
func TestNoRoomIsKeptForWhatHasEnded(t *testing.T) {
	for _, ended := range []cluster.TaskState{cluster.TaskSucceeded, cluster.TaskKilled} {
		h := oneJob(t, 1)
		h.emit(&cluster.HostReported{ID: "s/other", Machine: cluster.Machine{Capacity: vector(10_000, 10_000)}})
		h.place(0)
		h.emit(&cluster.TaskPreempted{Task: cluster.MakeTaskKey(1, 0), Run: 1, Hold: &cluster.Hold{Host: "s/other", Until: 1000}})
		require.Len(t, h.state.Host("s/other").Held, 1)
		require.NoError(t, h.report(0, ended))
		if ended == cluster.TaskKilled { // it goes on where room is kept
			require.Len(t, h.state.Host("s/other").Held, 1)
			h.emit(&cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, 0)})
			require.Equal(t, cluster.TaskReserved, h.task(0).State)
			continue
		}
		require.Empty(t, h.state.Host("s/other").Held)
		require.True(t, h.state.Host("s/other").Withheld.IsZero())
	}
}

// A plan may come too late: for who was stopped while it was made no room is kept, and none given back that would have him wait again.
func TestNoRoomIsKeptForWhoWasStopped(t *testing.T) {
	key := cluster.MakeTaskKey(1, 0)
	h := oneJob(t, 1)
	hold := &cluster.TaskHeld{Task: key, Hold: cluster.Hold{Host: host, Until: 1000}}
	h.emit(hold)
	h.emit(&cluster.TaskStopping{Task: key, Reason: cluster.ReasonTaskStopped})
	require.ErrorIs(t, h.try(hold), cluster.ErrIllegal)
	require.ErrorIs(t, h.try(&cluster.TaskRequeued{Task: key, Reason: cluster.ReasonHoldEnded}), cluster.ErrIllegal)
	require.Equal(t, cluster.TaskKilled, h.task(0).State)
}

// What a host keeps for a task is what the task asks for, also when an update changes that while it waits.
func TestRoomIsKeptForThePresentSpec(t *testing.T) {
	key := cluster.MakeTaskKey(1, 0)
	h := oneJob(t, 1)
	h.emit(&cluster.TaskHeld{Task: key, Hold: cluster.Hold{Host: host, Until: 1000}})
	require.Equal(t, vector(100, 1), h.state.Host(host).Withheld)
	spec := *h.state.Job(1).Spec
	spec.Task.Resources = vector(300, 2)
	h.emit(&cluster.JobUpdated{Job: 1, Spec: &spec})
	require.Equal(t, vector(100, 1), h.state.Host(host).Withheld)
	h.emit(&cluster.TaskUpdated{Task: key, Version: h.state.Job(1).Version, InPlace: true})
	require.Equal(t, vector(300, 2), h.state.Host(host).Withheld)
	h.emit(&cluster.TaskRequeued{Task: key, Reason: cluster.ReasonHoldEnded})
	require.True(t, h.state.Host(host).Withheld.IsZero())
	require.Empty(t, h.state.Host(host).Held)
}

// Who had to leave for others waits at the head of its priority until it has a place, also when room was held for it in vain.
func TestHeldRoomTakesNobodysPlace(t *testing.T) {
	key := cluster.MakeTaskKey(1, 0)
	h := oneJob(t, 1)
	h.place(0)
	h.emit(&cluster.TaskPreempted{Task: key, Run: 1})
	require.NoError(t, h.report(0, cluster.TaskKilled))
	h.emit(&cluster.TaskRequeued{Task: key, Reason: cluster.ReasonPreempted},
		&cluster.TaskHeld{Task: key, Hold: cluster.Hold{Host: host, Until: 1000}},
		&cluster.TaskRequeued{Task: key, Reason: cluster.ReasonHoldEnded})
	require.True(t, h.task(0).Ahead)
	h.emit(&cluster.Placed{Task: key, Run: 2, Host: host})
	require.False(t, h.task(0).Ahead)
}

// Numbers are passed by as long as there are any, and none is used twice.
func TestNumbersForgotten(t *testing.T) {
	h := oneJob(t, 1)
	h.place(0)
	for n := cluster.JobUID(1); h.try(&cluster.NumbersForgotten{}) == nil; n++ {
		require.Equal(t, 2+n*cluster.Forgettable, h.state.NextJob())
		require.EqualValues(t, n*cluster.Forgettable+1, h.state.Job(1).NextRun(h.task(0)))
	}
	require.EqualValues(t, 429, h.state.NextJob()/cluster.Forgettable)
	require.EqualValues(t, 1, h.task(0).Run, "what runs goes on")
}

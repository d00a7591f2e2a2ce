package serve

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// stateWatch is a state and one client's watch of its jobs, which knows nothing before.
type stateWatch struct {
	*cluster.State
	jobWatch
	first bool
	sent  []*sluicev1.WatchJobsResponse
}

func newStateWatch(s *cluster.State, since uint64) *stateWatch {
	w := &stateWatch{State: s, first: true}
	w.jobWatch = jobWatch{
		filter: newJobFilter(nil), who: &access.Caller{Free: true}, since: since, shown: map[cluster.JobUID]bool{},
		send: func(m *sluicev1.WatchJobsResponse) error {
			w.sent = append(w.sent, m)
			return nil
		},
	}
	return w
}

// next applies the events and returns what the client is sent.
func (w *stateWatch) next(t *testing.T, events ...cluster.Event) []*sluicev1.WatchJobsResponse {
	t.Helper()
	applyTo(t, w.State, events...)
	snapshot, changes := w.State.Snapshot()
	w.sent = nil
	require.NoError(t, w.step(snapshot, changes, false, w.first))
	w.first = false
	return w.sent
}

func applyTo(t *testing.T, s *cluster.State, events ...cluster.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: e}))
	}
}

// jobsOf are jobs from a uid on whose specs have about these sizes.
func jobsOf(first cluster.JobUID, sizes ...int) *cluster.JobsSubmitted {
	e := &cluster.JobsSubmitted{}
	for i, n := range sizes {
		uid := first + cluster.JobUID(i)
		e.Jobs = append(e.Jobs, cluster.NewJob{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID("j" + uid.String()), Pool: cluster.RootPool, Instances: 1,
			Labels: []cluster.KeyValue{{Key: "text", Value: strings.Repeat("x", n)}},
		}})
	}
	return e
}

// However the jobs fall into messages, the last one of a step, and no other, has the revision, and none is empty.
func TestEachChangeIsClosedByItsRevision(t *testing.T) {
	for name, sizes := range map[string][]int{
		"small":          {1, 1},
		"full":           {600_000, 600_000},
		"full, and more": {600_000, 600_000, 1},
		"one of a page":  {maxPageBytes},
		"each of a page": {maxPageBytes, maxPageBytes},
		"last of a page": {1, maxPageBytes},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWatch(cluster.NewState(), 0)
			require.Len(t, w.next(t), 1)
			shown := 0
			sent := w.next(t, jobsOf(1, sizes...))
			for i, m := range sent {
				require.NotEmpty(t, m.Jobs)
				shown += len(m.Jobs)
				require.Equal(t, i == len(sent)-1, m.Revision != 0)
				require.False(t, m.Synced)
				require.True(t, len(m.Jobs) == 1 || proto.Size(m) <= maxPageBytes+1000)
			}
			require.Equal(t, len(sizes), shown)
			require.Equal(t, w.Revision(), sent[len(sent)-1].Revision)

			again := newStateWatch(w.State, 0).next(t)
			for i, m := range again {
				require.NotEmpty(t, m.Jobs)
				require.Equal(t, i == len(again)-1, m.Revision != 0)
				require.Equal(t, i == len(again)-1, m.Synced)
			}
		})
	}
}

// follower holds the tasks that a client of a watch knows of, by job.
type follower map[uint32]map[uint32]bool

func (f follower) take(m *sluicev1.WatchJobsResponse) {
	for _, uid := range m.Gone {
		delete(f, uid)
	}
	for _, j := range m.Jobs {
		if f[j.Uid] == nil {
			f[j.Uid] = map[uint32]bool{}
		}
	}
	for _, t := range m.Tasks {
		f[t.JobUid][t.Instance] = true
	}
	for _, t := range m.GoneTasks {
		delete(f[t.JobUid], t.Instance)
	}
}

// A client that follows tasks knows which there are, also when instances are taken away, and when it was too slow to be told of
// each change.
func TestAWatchTellsWhichTasksAreGone(t *testing.T) {
	s := cluster.NewState()
	jobs := jobsOf(1, 1, 1)
	jobs.Jobs[0].Spec.Instances = 4
	applyTo(t, s, jobs)
	w := newStateWatch(s, 0)
	w.tasks = true
	client := follower{}
	step := func(all bool, instances uint32) {
		t.Helper()
		spec := *s.Job(1).Spec
		spec.Instances = instances
		applyTo(t, s, &cluster.JobUpdated{Job: 1, Spec: &spec})
		snapshot, changes := s.Snapshot()
		w.sent = nil
		require.NoError(t, w.step(snapshot, changes, all, false))
		for i, m := range w.sent {
			require.Equal(t, i == len(w.sent)-1, m.Revision != 0)
			client.take(m)
		}
		require.Len(t, client[1], int(instances))
		require.Len(t, client[2], 1)
	}
	for _, m := range w.next(t) {
		client.take(m)
	}
	require.Len(t, client[1], 4)
	step(false, 2)
	step(false, 5)
	step(true, 3)
	step(true, 6)
	step(false, 1)
}

// Jobs come and go with the right to see them, also for a client that was cut off when that changed, and after a restart.
func TestAWatchFollowsWhoMaySee(t *testing.T) {
	s := cluster.NewState()
	pool := func(path cluster.PoolPath, viewers ...string) *cluster.PoolPut {
		p := cluster.Pool{Path: path}
		if len(viewers) > 0 {
			p.Access = []cluster.AccessRule{{Permission: cluster.MayView, Users: viewers}}
		}
		return &cluster.PoolPut{Pool: p}
	}
	binding := cluster.RoleBinding{Role: cluster.Viewer, User: "vera", Pool: "root"}
	jobs := jobsOf(1, 1, 1)
	jobs.Jobs[0].Spec.Pool, jobs.Jobs[1].Spec.Pool = "root/a", "root/b"
	applyTo(t, s, pool("root"), pool("root/a"), pool("root/b"), jobs)
	watch := func(since uint64) *stateWatch {
		w := newStateWatch(s, since)
		w.who = &access.Caller{User: "vera"}
		return w
	}
	uids := func(jobs []*sluicev1.Job) (uids []uint32) {
		for _, j := range jobs {
			uids = append(uids, j.Uid)
		}
		return uids
	}
	w := watch(0)
	before := w.next(t)[0].Revision
	for _, step := range []struct {
		event      cluster.Event
		come, gone []uint32
	}{
		{&cluster.RoleGranted{Binding: binding}, []uint32{1, 2}, nil},
		{pool("root/a", "ann"), nil, []uint32{1}},
		{pool("root/a", "ann", "vera"), []uint32{1}, nil},
		{&cluster.RoleRevoked{Binding: binding}, nil, []uint32{2}},
	} {
		sent := w.next(t, step.event)
		require.Len(t, sent, 1)
		require.Equal(t, step.come, uids(sent[0].Jobs))
		require.Equal(t, step.gone, sent[0].Gone)
		require.Greater(t, sent[0].Revision, before)

		snapshot, _ := s.Snapshot()
		restarted := cluster.NewState()
		for p := range snapshot.Parts() {
			require.NoError(t, restarted.Apply(cluster.Record{Event: p}))
		}
		again := watch(before)
		again.State = restarted
		late := again.next(t)[0]
		require.Subset(t, uids(late.Jobs), step.come, "who resumes from before is shown what he could not see then")
		require.Empty(t, late.Unchanged)

		before = sent[0].Revision
		resumed := watch(before).next(t)[0]
		require.Empty(t, resumed.Jobs)
		require.Len(t, resumed.Unchanged, len(w.shown))
	}
	require.Empty(t, w.next(t, pool("root/b")), "nobody's sight changes with it")
}

// What a client knows from after a snapshot is not confirmed when that has been restored, however far the cluster has come
// since.
func TestWatchGoesOnAfterARestore(t *testing.T) {
	s := cluster.NewState()
	applyTo(t, s, jobsOf(1, 1, 1))
	snapshot, _ := s.Snapshot()
	var file bytes.Buffer
	require.NoError(t, writeSnapshot(&file, snapshot))
	applyTo(t, s, &cluster.JobStopping{Job: 2}, jobsOf(3, 1))
	known := newStateWatch(s, 0).next(t)[0].Revision

	restore := func(now cluster.Time) *cluster.State {
		restored, err := ReadSnapshot(bytes.NewReader(file.Bytes()), now)
		require.NoError(t, err)
		return restored
	}
	const day = cluster.Time(24 * time.Hour)
	for _, changes := range [][]cluster.Event{nil, {jobsOf(restore(day).NextJob(), 1, 1, 1, 1)}} {
		restored := restore(day)
		applyTo(t, restored, changes...)
		m := newStateWatch(restored, known).next(t)[0]
		require.Len(t, m.Jobs, restored.NumJobs())
		require.Empty(t, m.Unchanged)
		require.Greater(t, m.Revision, known)

		same := newStateWatch(restored, m.Revision).next(t)[0]
		require.Len(t, same.Unchanged, restored.NumJobs())

		later := newStateWatch(restore(2*day), m.Revision).next(t)[0]
		require.Len(t, later.Jobs, 2)
		require.Empty(t, later.Unchanged)
	}

	// A clock that is behind gives no revision that the snapshot has.
	require.Greater(t, restore(0).Revision(), snapshot.Revision())
	// A store that was put back by other means may not have come to where the client was.
	m := newStateWatch(s, known+1).next(t)[0]
	require.Len(t, m.Jobs, 3)
	require.Empty(t, m.Unchanged)
}

// A copy is no instance: watchers are told of its task only, when it comes and when it goes.
func TestAWatchShowsNoCopies(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/a", 1)
	spec := sleepJob("job")
	spec.Speculation = &sluicev1.SpeculationPolicy{Idempotent: true}
	a.submit(t, spec)
	k := cluster.MakeTaskKey(1, 0)
	require.Eventually(t, func() bool { return a.Snapshot().Task(k).State == cluster.TaskPlaced }, 10*time.Second, time.Millisecond)
	watch := func() *watcher {
		return a.watch(t, t.Context(), &sluicev1.WatchJobsRequest{IncludeTasks: true}, nil)
	}
	before := watch()
	a.emit(t, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning}, &cluster.CopyAdded{Task: k, Run: 1})
	within := watch()
	require.Equal(t, sluicev1.TaskState_TASK_STATE_RUNNING, within.tasks["job/0"], "the copy waits")
	a.emit(t, &cluster.InstanceRemoved{Task: k.Copy()}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
	for _, w := range []*watcher{before, within} {
		for w.tasks["job/0"] != sluicev1.TaskState_TASK_STATE_SUCCEEDED {
			require.Empty(t, w.next(t).GoneTasks)
		}
		require.Len(t, w.tasks, 1)
	}
}

package serve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/flowgraph"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

var errBroken = errors.New("the disk is gone")

// brokenLog fails from a certain append on.
type brokenLog struct {
	journal.Journal
	left int
}

func (b *brokenLog) Append(records []cluster.Record) error {
	if b.left--; b.left < 0 {
		return errBroken
	}
	return b.Journal.Append(records)
}

// What could not be made durable is neither acknowledged nor shown, and the scheduler stops.
func TestNothingIsShownBeforeItIsDurable(t *testing.T) {
	memory := journal.NewMemory()
	r := newRig(t, &brokenLog{memory, 2}) // the creation of the cluster, and one change
	pool := func(path cluster.PoolPath) error {
		return r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}}) })
	}
	require.NoError(t, pool("root/a"))
	err := pool("root/b")
	require.ErrorIs(t, err, errBroken)
	require.NotContains(t, statusOf(err).Error(), errBroken.Error(), "callers are not told of the server's files")
	require.Equal(t, codes.Unavailable, status.Code(statusOf(err)), "as what comes when it has stopped")
	require.NotNil(t, r.s.Snapshot().Pool("root/a"))
	require.Nil(t, r.s.Snapshot().Pool("root/b"))
	require.ErrorIs(t, pool("root/c"), ErrStopped)

	state, err := journal.Load(memory)
	require.NoError(t, err)
	require.NotNil(t, state.Pool("root/a"))
	require.Nil(t, state.Pool("root/b"))
}

// A scheduler that never gets as far as the next checkpoint, or to a clean end, still keeps its log short.
func TestALongLogIsCutAtTheStart(t *testing.T) {
	memory := journal.NewMemory()
	state := cluster.NewState()
	tx := rules.Begin(state, 1)
	for range DefaultCheckpointEvery {
		require.NoError(t, tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}}))
	}
	require.NoError(t, memory.Append(tx.Records()))
	j := &watchedJournal{Journal: memory, checkpoint: make(chan uint64, 1)}
	r := newRig(t, j)
	require.GreaterOrEqual(t, <-j.checkpoint, uint64(DefaultCheckpointEvery))
	r.stop()
}

// A checkpoint writes all there is: the more that is, the rarer they are.
func TestALargeStateIsNotWrittenForFewRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &watchedJournal{Journal: journal.NewMemory(), checkpoint: make(chan uint64, 100)}
		s, err := New(Config{
			Journal: j, State: cluster.NewState(), CheckpointEvery: 10,
			Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
		})
		require.NoError(t, err)
		commit := func(e cluster.Event) {
			require.NoError(t, s.commit([]command{{0, func(tx *Tx) error { return tx.Emit(e) }, func(error) {}}}, 1))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.runCheckpoints(ctx) }()
		const tasks = 4000
		spec := &cluster.JobSpec{Name: "job", Pool: cluster.DefaultPool, Instances: tasks}
		commit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
		for range tasks {
			commit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}})
			synctest.Wait()
		}
		cancel()
		require.NoError(t, <-ended)
		require.Len(t, j.checkpoint, 4)
	})
}

// watchedJournal tells of its first checkpoints.
type watchedJournal struct {
	journal.Journal
	checkpoint chan uint64
}

func (j *watchedJournal) Checkpoint(ctx context.Context, s *cluster.Snapshot) error {
	select {
	case j.checkpoint <- s.Seq():
	default:
	}
	return j.Journal.Checkpoint(ctx, s)
}

// The writer alone tells why it stopped: what else runs ends quietly, or its complaint would hide the reason.
func TestTheReasonForStoppingIsNotHidden(t *testing.T) {
	state := cluster.NewState()
	s, err := New(Config{Journal: journal.NewMemory(), State: state, Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() })})
	require.NoError(t, err)
	require.NoError(t, s.commit([]command{{0, func(tx *Tx) error {
		return errors.Join(
			tx.Emit(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}}),
			tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
				Name: "job", Pool: cluster.DefaultPool, Instances: 1,
			}}}}),
		)
	}, func(error) {}}}, 1))
	close(s.stopped) // as when the journal has failed
	require.NoError(t, s.runCycles(t.Context()))
}

// gatedLog lets an append through for each word it gets, after it has said that one waits.
type gatedLog struct {
	journal.Journal
	waits, open chan struct{}
}

func (g *gatedLog) Append(records []cluster.Record) error {
	g.waits <- struct{}{}
	<-g.open
	return g.Journal.Append(records)
}

// A plan is made while what it is made of becomes durable; but nothing of it is shown before.
func TestPlansAreMadeEarlyAndShownLate(t *testing.T) {
	planned := make(chan struct{}, 10)
	memory, state := journal.NewMemory(), cluster.NewState()
	tx := rules.Begin(state, 1)
	require.NoError(t, tx.Emit(&cluster.ClusterCreated{ID: "c"}))
	require.NoError(t, tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: cluster.DefaultPool}}))
	require.NoError(t, memory.Append(tx.Records()))
	log := &gatedLog{memory, make(chan struct{}), make(chan struct{})}
	s, err := New(Config{Journal: log, State: state, Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return toldSolver{netsimplex.New(), planned} })})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	submitted := make(chan error, 1)
	go func() {
		submitted <- s.Do(ctx, func(tx *Tx) error {
			return errors.Join(
				tx.Emit(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{1000}}}}),
				tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
					Name: "job", Pool: cluster.DefaultPool, Instances: 1,
					Task: cluster.TaskSpec{Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{100}}},
				}}}}),
			)
		})
	}()
	<-log.waits
	<-planned
	require.Nil(t, s.Snapshot().JobByName("job"))
	require.Empty(t, submitted)
	log.open <- struct{}{}
	require.NoError(t, <-submitted)
	<-log.waits // the plan
	last, next := s.LastCycle()
	require.Zero(t, last.Placements)
	log.open <- struct{}{}
	<-next
	last, _ = s.LastCycle()
	require.Equal(t, 1, last.Placements)
	require.Equal(t, cluster.TaskPlaced, s.Snapshot().Task(cluster.MakeTaskKey(s.Snapshot().JobByName("job").UID, 0)).State)
	cancel()
	go func() { // a clean end may append once more
		for range log.waits {
			log.open <- struct{}{}
		}
	}()
	require.NoError(t, <-done)
}

// toldSolver tells of each solve.
type toldSolver struct {
	solver.Solver
	told chan<- struct{}
}

func (s toldSolver) Solve(n *flowgraph.Network, b solver.Budget) (solver.Result, error) {
	s.told <- struct{}{}
	return s.Solver.Solve(n, b)
}

func TestARefusedCommandLeavesNoTrace(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	seq := r.s.Snapshot().Seq()
	err := r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/b"}}) })
	require.ErrorIs(t, err, cluster.ErrIllegal)
	require.Equal(t, seq, r.s.Snapshot().Seq())
}

func TestWatchersMissNothing(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	w := r.s.Watch()
	defer w.Close()
	<-w.C
	_, changes, all := w.Take()
	require.True(t, changes.Empty())
	require.False(t, all)
	for _, path := range []cluster.PoolPath{"root/a", "root/b"} {
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}}) }))
	}
	<-w.C
	snapshot, changes, _ := w.Take()
	require.Equal(t, []cluster.PoolPath{"root/a", "root/b"}, changes.Pools)
	require.NotNil(t, snapshot.Pool("root/b"))
}

// What a commit costs does not grow with the shards: each is told of its own tasks only, and all are told of a new mode.
func TestAShardIsToldOfItsOwnTasks(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	one, other := r.connect("one", 1), r.connect("other", 1)
	first := r.submit("first", 4, 0)
	for i := range uint32(4) { // wherever they are
		r.eventually(cluster.MakeTaskKey(first, i), inState(cluster.TaskPlaced))
	}
	r.submit("second", 4, 0)
	for i := range uint32(4) {
		r.eventually(cluster.MakeTaskKey(first+1, i), inState(cluster.TaskPlaced))
	}
	for range 4 {
		require.NotNil(t, one.down().GetLaunch())
		require.NotNil(t, other.down().GetLaunch())
	}
	watchers := map[cluster.ShardID]*Watcher{"one": r.s.watchShard("one"), "other": r.s.watchShard("other")}
	for _, w := range watchers {
		<-w.C
		defer w.Close()
	}
	k := cluster.MakeTaskKey(first, 0)
	shard := r.s.Snapshot().Task(k).Host.Shard()
	concerned := watchers[shard]
	delete(watchers, shard)
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		return tx.Emit(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped})
	}))
	<-concerned.C
	snapshot, changes, all := concerned.Take()
	require.Equal(t, cluster.TaskKilling, snapshot.Task(k).State)
	require.Equal(t, cluster.Changes{Tasks: []cluster.TaskKey{k}}, changes)
	require.False(t, all)
	for _, w := range watchers {
		require.Empty(t, w.C)
	}
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		return tx.Emit(&cluster.ModeSet{Mode: cluster.Mode{KillingStopped: true}})
	}))
	require.Len(t, concerned.C, 1)
	for _, w := range watchers {
		<-w.C
		snapshot, changes, _ := w.Take()
		require.True(t, snapshot.Mode().KillingStopped)
		require.True(t, changes.Empty())
	}
}

// What the scheduler does by itself and cannot is logged, and the scheduler goes on.
func TestWhatIsDueAndCannotBeDone(t *testing.T) {
	var log syncBuffer
	a := newAPITestWith(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	a.byItself(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobDeleted{Job: 7}) })
	require.Contains(t, log.String(), "job 7 does not exist")
	a.submit(t, sleepJob("job"))
}

// When the journal fails, or this scheduler leads no more, what was on its way to the journal just then is not logged as what the State
// refused: of a thousand runs that would be a thousand errors.
func TestStatusesAreNotRefusedByAJournalThatFails(t *testing.T) {
	var log syncBuffer
	a := newAPITestWith(t, func(c *Config) {
		c.Journal, c.Logger = &brokenLog{journal.NewMemory(), 1}, slog.New(slog.NewTextHandler(&log, nil))
	})
	held, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, a.Send(t.Context(), 0, func(*Tx) error { close(held); <-release; return nil }, func(error) {}))
	<-held
	c := &control{s: a.Scheduler, shard: "s", slots: make(chan struct{}, 1), answers: make(chan []*sluicev1.ShardDown, 1)}
	require.NoError(t, c.status(t.Context(), runStatus(ref(1, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING)))
	require.NoError(t, c.health(t.Context(), &sluicev1.RunHealth{Run: ref(1, 0, 1)}))
	answer := make(chan error, 1)
	require.NoError(t, a.Send(t.Context(), 0, func(tx *Tx) error {
		return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}})
	}, func(err error) { answer <- err }))
	close(release)
	require.ErrorIs(t, <-answer, errBroken)
	require.Empty(t, c.slots)
	require.NotContains(t, log.String(), "refused")
}

package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
)

// Checkpointer is what the scheduler needs of a journal.
type Checkpointer interface {
	Log
	// Checkpoint makes the snapshot the base from which a restart replays. It may run beside Append.
	Checkpoint(ctx context.Context, s *cluster.Snapshot) error
}

// Config is what a Scheduler is made of. Journal, State and Planner are owned by the scheduler from New on.
type Config struct {
	Journal Checkpointer
	State   *cluster.State // as replayed from the journal
	Planner *cycle.Supervisor
	Costs   CostModels // that can be set at run time
	Logger  *slog.Logger

	// Identity is how callers prove who they are; nil asks nobody and lets everybody do everything.
	Identity *Identity
	Secrets  *Keyring     // that secrets are sealed with; nil refuses jobs with secrets
	Reach    Reach        // of the API, for tasks
	Limits   Limits       // of what one caller may ask for
	Audit    *slog.Logger // of who did what; nil drops it
	// Members asks all schedulers that have the same history how they are doing, in the order of the configuration; nil: it is alone.
	Members func(context.Context) []*sluicev1.Member
	// Leads, if there is one, returns nil if this scheduler leads those that have the same history. It is asked before each call is
	// answered.
	Leads  func() error
	Traces *Traces // of calls and cycles; nil traces nothing. Whoever made them closes them when Run has ended

	// Rest, if there is one, is called when a cycle is over and nothing has changed since. It must return at once.
	Rest func()
	// BatchWindow is how long a cycle waits for more changes after the first one.
	BatchWindow time.Duration
	// SolveBudget limits each solve, in the solver's work units; zero is no limit.
	SolveBudget int64
	// UnreachableAfter is how long a shard may be away before its hosts count as unreachable.
	UnreachableAfter time.Duration
	// LostAfter is how long a host may be unreachable before its tasks are given up and run elsewhere.
	LostAfter time.Duration
	// KeepFinished is how long jobs are kept after their end that do not say it themselves; zero is for ever.
	KeepFinished time.Duration
	// LearnEvery is how often the cost model is told what was learned from runs: each time all prices are worked out anew.
	LearnEvery time.Duration
	// ModelTimeout is how long one call of a cost model may take. One that takes twice as long is given up for sure, and the model
	// with it; zero waits for ever.
	ModelTimeout time.Duration
	// CheckpointEvery is the number of records after which a checkpoint is written, if it is not small beside what that writes.
	CheckpointEvery uint64
	// SlackWindow is how long a peak of what a task uses counts for the room of revocable tasks; 0: there are none.
	SlackWindow time.Duration
	// Speculation starts copies of tasks that lag behind; without an interval there are none.
	Speculation knowledge.Speculation
	// SlackMargin is what is kept beside what tasks are believed to use, in percent of that.
	SlackMargin int
}

// The settings that hold where a Config leaves them at zero.
const (
	DefaultBatchWindow      = 2 * time.Millisecond
	DefaultUnreachableAfter = 10 * time.Second
	DefaultLostAfter        = 5 * time.Minute
	DefaultLearnEvery       = time.Minute
	DefaultCheckpointEvery  = 50_000
)

// DefaultModelTimeout is a ModelTimeout that is far above what a call takes, which is some microseconds.
const DefaultModelTimeout = 10 * time.Second

func (c *Config) fill() {
	c.BatchWindow = cmp.Or(c.BatchWindow, DefaultBatchWindow)
	c.UnreachableAfter = cmp.Or(c.UnreachableAfter, DefaultUnreachableAfter)
	c.LostAfter = cmp.Or(c.LostAfter, DefaultLostAfter)
	c.LearnEvery = cmp.Or(c.LearnEvery, DefaultLearnEvery)
	c.CheckpointEvery = cmp.Or(c.CheckpointEvery, DefaultCheckpointEvery)
	c.Limits.fill()
	if c.Audit == nil {
		c.Audit = slog.New(slog.DiscardHandler)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Scheduler ties the writer, the cycles and the shards together. Make it with New, then call Run once.
type Scheduler struct {
	*writer
	config   Config
	log      *slog.Logger
	started  time.Time
	origin   uint64 // revision of the state at the start
	cycles   cycleFeed
	shards   shardTable
	volumes  volumeQuestions
	metrics  *metrics
	guesses  guessing
	throttle *throttle

	evacuating atomic.Bool // nothing is placed any more
	renumbered int         // of the writer: how often NumbersForgotten was emitted
	questions  chan func() // to the planner, see consult
	usage      chan measured
	planning   chan struct{} // has an element while a plan is made that is only looked at
}

// New returns a scheduler over the recovered state. A state without a cluster id gets one: a new cluster is created.
func New(c Config) (*Scheduler, error) {
	c.fill()
	if err := c.Secrets.check(c.State); err != nil {
		return nil, err
	}
	s := &Scheduler{
		writer:   newWriter(c.State, c.Journal, time.Now),
		config:   c,
		log:      c.Logger,
		started:  time.Now(),
		throttle: newThrottle(c.Limits),

		questions: make(chan func()),
		usage:     make(chan measured, 16),
		planning:  make(chan struct{}, 1),
	}
	if c.ModelTimeout > 0 {
		c.Planner.Watch(Beats(c.ModelTimeout))
	}
	s.cycles.init()
	s.shards.init(time.Now())
	s.shards.before = placed(nil, s.Snapshot(), s.Snapshot().Hosts(""))
	s.origin = s.Snapshot().Revision()
	s.metrics = newMetrics(s)
	s.durable = s.metrics.count
	s.history = newTaskHistory(keptEvents, keptText)
	s.history.begin(s.Snapshot())
	s.stalls = s.tellStall
	s.unsettled = func(err error) { s.log.Error("what follows from a change could not be done", "error", err) }
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s, nil
}

// countsAnew reports whether updates are under way or gangs begin, which waited while nobody was there, or the clock is behind that which
// tasks were stamped by.
func (s *Scheduler) countsAnew(state *cluster.State) bool {
	for j := range state.Jobs(0) {
		if j.Update.Live() || rules.Begins(j) {
			return true
		}
	}
	return latestStamp(state.Tasks(0)) > s.clock()
}

// begin creates the cluster if there is none, and notes from when on time counts, where it does not from before.
func (s *Scheduler) begin() error {
	state := s.config.State
	var events []cluster.Event
	if state.ClusterID() == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		events = append(events, &cluster.ClusterCreated{ID: hex.EncodeToString(id[:])}, &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.DefaultPool}})
	}
	if s.countsAnew(state) {
		events = append(events, &cluster.ModeSet{Mode: state.Mode()})
	}
	if len(events) == 0 {
		return nil
	}
	tx := rules.Begin(state, s.clock())
	for _, e := range events {
		if err := tx.Emit(e); err != nil {
			return fmt.Errorf("serve: beginning: %w", err)
		}
	}
	if err := s.config.Journal.Append(tx.Records()); err != nil {
		return fmt.Errorf("serve: beginning: %w", err)
	}
	snapshot, changes := state.Snapshot()
	s.preview(snapshot, changes)
	s.publish(snapshot, changes)
	return nil
}

// byItself runs a command that nobody asked for. What of it could not be done is logged, and keeps nothing else from being done. That
// the journal failed the writer tells.
func (s *Scheduler) byItself(ctx context.Context, command func(*Tx) error) {
	err := s.Do(ctx, command)
	if err != nil && ctx.Err() == nil && !stopping(err) {
		s.log.Error("what was due could not be done", "error", err)
	}
}

// Run works until ctx ends or something fails that leaves no way on, such as the journal. On a clean end it writes a
// checkpoint, so that the next start is quick.
func (s *Scheduler) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.run(ctx) })
	group.Go(func() error { return s.runCycles(ctx) })
	group.Go(func() error { return s.runDeadlines(ctx) })
	group.Go(func() error { return s.runTimers(ctx) })
	group.Go(func() error { return s.runSlack(ctx) })
	group.Go(func() error { return s.runSpeculation(ctx) })
	group.Go(func() error { return s.runCheckpoints(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.config.Journal.Checkpoint(context.WithoutCancel(ctx), s.Snapshot())
}

// runCheckpoints writes a checkpoint whenever enough records have come since the last one, and at the start, since it is
// not known how long ago that was: a scheduler that is killed again and again would let the log grow for ever.
func (s *Scheduler) runCheckpoints(ctx context.Context) error {
	w := s.Watch()
	defer w.Close()
	last := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.C:
		}
		snapshot, _, _ := w.Take()
		if !snapshot.CheckpointDue(last, s.config.CheckpointEvery) {
			continue
		}
		begun := time.Now()
		if err := s.config.Journal.Checkpoint(ctx, snapshot); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serve: checkpoint: %w", err)
		}
		last = snapshot.Seq()
		s.log.Debug("checkpoint written", "seq", last, "took", time.Since(begun))
	}
}

// Started returns when the scheduler was made.
func (s *Scheduler) Started() time.Time { return s.started }

// budget is the limit of each solve.
func (s *Scheduler) budget() solver.Budget { return solver.Budget{Work: s.config.SolveBudget} }

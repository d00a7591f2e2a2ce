package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// ErrStopped is returned for commands that the writer will not run because it is stopping or has failed.
var ErrStopped = errors.New("serve: the scheduler is stopping")

// errJournal is what commands get that could not be made durable, with the journal's own error.
var errJournal = errors.New("serve: the journal failed, stopping")

// stopping reports an error that says nothing of the command: the writer has stopped, or stops with it and tells why.
func stopping(err error) bool { return errors.Is(err, ErrStopped) || errors.Is(err, errJournal) }

// maxBatch bounds the commands that share one sync, and so the latency that a flood adds to each of them.
const maxBatch = 512

// Log is what the writer needs of a journal.
type Log interface {
	// Append makes the records durable, all or none, before it returns.
	Append(records []cluster.Record) error
}

// Tx is a command's access to the state. It is valid only while the command runs.
type Tx = rules.Tx

// command is a queued function with its answer.
type command struct {
	about cluster.TaskKey // the task that run is about; 0: none, or not one alone
	run   func(*Tx) error
	done  func(error) // called once, when what run emitted is durable
}

// writer is the single goroutine that changes the State.
type writer struct {
	log   Log
	now   func() time.Time
	state *cluster.State
	// Set before it runs:
	durable   func([]cluster.Record) // told of every batch, in the writer
	unsettled func(error)            // told what rules.Settle could not do
	stalls    func(begins bool)      // see append
	history   *taskHistory

	queue     chan command
	published atomic.Pointer[cluster.Snapshot]
	stalled   atomic.Bool

	mu       sync.Mutex // guards what follows
	watchers map[*Watcher]struct{}
	sessions map[cluster.ShardID][]*Watcher // see watchShard
	mode     cluster.Mode                   // that they were told of
	latest   *cluster.Snapshot              // that early watchers were shown

	stopped chan struct{} // closed when the writer takes no more commands
}

func newWriter(state *cluster.State, log Log, now func() time.Time) *writer {
	w := &writer{
		log: log, now: now, state: state,
		queue:    make(chan command, maxBatch),
		watchers: map[*Watcher]struct{}{},
		sessions: map[cluster.ShardID][]*Watcher{},
		stopped:  make(chan struct{}),
	}
	snapshot, _ := state.Snapshot()
	w.published.Store(snapshot)
	w.latest, w.mode = snapshot, snapshot.Mode()
	return w
}

// clock returns what time it is for the cluster.
func (w *writer) clock() cluster.Time { return cluster.Time(w.now().UnixNano()) }

// run executes commands until ctx ends or the journal fails; the error is the journal's.
func (w *writer) run(ctx context.Context) error {
	defer close(w.stopped)
	for {
		var batch []command
		select {
		case <-ctx.Done():
			return nil
		case c := <-w.queue:
			batch = w.drain(c)
		}
		// A clock that is set back is followed: what is stamped with a time to come waits for it.
		if err := w.commit(batch, w.clock()); err != nil {
			return err
		}
	}
}

// drain collects first and the commands already waiting behind it.
func (w *writer) drain(first command) []command {
	batch := []command{first}
	for len(batch) < maxBatch {
		select {
		case c := <-w.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch of commands, makes their events durable together, publishes the result and answers.
func (w *writer) commit(batch []command, at cluster.Time) error {
	tx := rules.Begin(w.state, at)
	var events []taskEvent
	tx.Watch = func(t *cluster.Task) { events = append(events, eventOf(t, at)) }
	answers := make([]error, len(batch))
	for i, c := range rules.ReadingAhead(tx, batch, func(c *command) cluster.TaskKey { return c.about }) {
		answers[i] = c.run(tx)
	}
	if err := rules.Settle(tx); err != nil {
		w.unsettled(err)
	}
	if records := tx.Records(); len(records) > 0 {
		snapshot, changes := w.state.Snapshot()
		w.preview(snapshot, changes)
		if err := w.append(records); err != nil {
			// The state in memory is ahead of the journal now: nothing of it may be shown or acted on.
			err = fmt.Errorf("%w: %w", errJournal, err)
			for _, c := range batch {
				c.done(err)
			}
			return err
		}
		w.history.add(events)
		w.publish(snapshot, changes)
		w.durable(records)
	}
	for i, c := range batch {
		c.done(answers[i])
	}
	return nil
}

// preview shows early watchers what is not durable yet.
func (w *writer) preview(snapshot *cluster.Snapshot, changes cluster.Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = snapshot
	w.tell(true, snapshot, changes)
}

// publish shows everybody else what is.
func (w *writer) publish(snapshot *cluster.Snapshot, changes cluster.Changes) {
	w.published.Store(snapshot)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(false, snapshot, changes)
	w.tellShards(snapshot, changes)
}

func (w *writer) tell(early bool, snapshot *cluster.Snapshot, changes cluster.Changes) {
	for watcher := range w.watchers { // each gets the same; the order does not matter
		if watcher.early == early {
			watcher.add(snapshot, changes)
		}
	}
}

// Do runs fn in the writer and returns its error once what it emitted is durable. fn must be quick and must not call
// Do. When ctx ends first, fn may run all the same.
func (w *writer) Do(ctx context.Context, fn func(*Tx) error) error {
	answer := make(chan error, 1)
	if err := w.Send(ctx, 0, fn, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		select { // it may have been answered just before
		case err := <-answer:
			return err
		default:
			return ErrStopped
		}
	}
}

// Send queues fn for the writer and returns; done is called in the writer, with fn's error, once what fn emitted is
// durable. It must not block. When the writer stops first, done is never called. about is the task that fn is about, 0 where
// there is none: a batch of such commands is faster if it is known.
func (w *writer) Send(ctx context.Context, about cluster.TaskKey, fn func(*Tx) error, done func(error)) error {
	select {
	case <-w.stopped:
		return ErrStopped
	default:
	}
	select {
	case w.queue <- command{about, fn, done}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		return ErrStopped
	}
}

// Snapshot returns the latest durable view.
func (w *writer) Snapshot() *cluster.Snapshot { return w.published.Load() }

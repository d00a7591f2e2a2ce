// Package rules decides what follows from what: which events a report of a host manager, an inventory, a deadline or the
// end of a run calls for. It is pure: the State and the time are inputs, events are the output. The server and the
// simulator run the same rules, so that what is simulated is what happens.
package rules

import (
	"iter"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Tx collects the events of one or more commands that become durable together. Its State runs ahead of the journal by
// Records: nothing of it may be shown or acted on before they are durable.
type Tx struct {
	// Watch, if there is one, is shown every task that an event has changed, as the event has left it.
	Watch func(*cluster.Task)

	state   *cluster.State
	at      cluster.Time
	records []cluster.Record
}

// Begin returns a transaction on the state, which it owns until its records are durable.
func Begin(state *cluster.State, at cluster.Time) *Tx { return &Tx{state: state, at: at} }

// Now returns the time of the transaction.
func (tx *Tx) Now() cluster.Time { return tx.at }

// State returns the state with everything emitted so far applied. It must be changed through Emit only.
func (tx *Tx) State() *cluster.State { return tx.state }

// Records returns what was emitted, in order.
func (tx *Tx) Records() []cluster.Record { return tx.records }

// specChanged reports whether the transaction submitted the job or changed its spec.
func (tx *Tx) specChanged(uid cluster.JobUID) bool {
	return slices.ContainsFunc(tx.records, func(r cluster.Record) bool {
		switch e := r.Event.(type) {
		case *cluster.JobsSubmitted:
			return slices.ContainsFunc(e.Jobs, func(n cluster.NewJob) bool { return n.UID == uid })
		case *cluster.JobUpdated:
			return e.Job == uid
		}
		return false
	})
}

// killsAgain reports whether the transaction let tasks be killed again.
func (tx *Tx) killsAgain() bool {
	return !tx.state.Mode().KillingStopped && slices.ContainsFunc(tx.records, func(r cluster.Record) bool {
		_, set := r.Event.(*cluster.ModeSet)
		return set
	})
}

// ReadingAhead yields what is to be run in the transaction, in order and by index, and reads ahead what events about the tasks will
// need; a task of 0 is none.
func ReadingAhead[T any](tx *Tx, all []T, about func(*T) cluster.TaskKey) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		tasks := make([]cluster.TaskKey, 0, cluster.Ahead)
		for i := range all {
			if i%cluster.Ahead == 0 {
				tasks = tasks[:0]
				for j := i; j < min(i+cluster.Ahead, len(all)); j++ {
					if k := about(&all[j]); k != 0 {
						tasks = append(tasks, k)
					}
				}
				tx.state.ReadAhead(tasks, nil)
			}
			if !yield(i, &all[i]) {
				return
			}
		}
	}
}

// Emit applies an event and adds it to the records. An error leaves the state as it was before the event, but does not
// take back what was emitted earlier: check first, then emit.
func (tx *Tx) Emit(e cluster.Event) error {
	r := cluster.Record{Seq: tx.state.Seq() + 1, At: tx.at, Event: e}
	before := len(tx.state.Changed().Tasks)
	if err := tx.state.Apply(r); err != nil {
		return err
	}
	tx.records = append(tx.records, r)
	if tx.Watch != nil {
		for _, k := range tx.state.Changed().Tasks[before:] {
			if t := tx.state.Task(k); t != nil {
				tx.Watch(t)
			}
		}
	}
	return nil
}

package serve

import (
	"github.com/sluice-scheduler/sluice/cluster"
)

// verdict says what a reported status means to the state.
type verdict uint8

const (
	applied verdict = iota
	known           // nothing new
	stale           // of a run that nobody waits for any more
)

// report applies a status that a host manager sent, and lets the restart policy act on it.
func report(tx *Tx, e *cluster.TaskStatus) (verdict, error) {
	t := tx.State().Task(e.Task)
	switch {
	case t == nil || t.Run != e.Run || !t.State.Bound():
		return stale, nil
	case !t.State.CanBecome(e.State) || e.State == cluster.TaskPending:
		return known, nil // repeated, or overtaken by a later one
	}
	if e.Reason == cluster.ReasonLaunchRefused && t.State.CanBecome(cluster.TaskPending) {
		// Given back: the run never began, so it is no failure, and the task is placed again at once.
		return applied, tx.Emit(&cluster.TaskRequeued{Task: e.Task, Reason: e.Reason})
	}
	if err := tx.Emit(e); err != nil {
		return known, err
	}
	return applied, requeue(tx, e.Task)
}

// conclude ends the current run of a task that nobody will report on any more.
func conclude(tx *Tx, k cluster.TaskKey, state cluster.TaskState, why cluster.Reason, message string) error {
	run := tx.State().Task(k).Run
	_, err := report(tx, &cluster.TaskStatus{Task: k, Run: run, State: state, ExitCode: -1, Reason: why, Message: message})
	return err
}

// requeue lets a task that has just ended wait again if its policy or the user wants it.
func requeue(tx *Tx, k cluster.TaskKey) error {
	t := tx.State().Task(k)
	if why, again := t.ShouldRequeue(tx.State().Job(k.Job())); again {
		return tx.Emit(&cluster.TaskRequeued{Task: k, Reason: why})
	}
	return nil
}

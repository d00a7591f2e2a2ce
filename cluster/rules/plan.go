package rules

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Commit carries out a plan step by step and returns how many events the state no longer allowed: since the snapshot of
// the plan a task may have been stopped, or a host drained or lost. A step that has become impossible is left out whole.
func Commit(tx *Tx, plan [][]cluster.Event, refused func(cluster.Event, error)) (count int) {
	for _, step := range plan {
		if err := emitAll(tx, step); err != nil {
			count += len(step)
			refused(step[0], err)
		}
	}
	return count
}

// emitAll emits the events of a step. A step of several is tried on a copy first.
func emitAll(tx *Tx, step []cluster.Event) error {
	if len(step) > 1 {
		trial := Begin(tx.state.Fork(), tx.at)
		for _, e := range step {
			if err := trial.Emit(e); err != nil {
				return err
			}
		}
	}
	for _, e := range step {
		if err := tx.Emit(e); err != nil {
			return err // cannot happen after the trial; alone, nothing was emitted
		}
	}
	return nil
}

// Leave says how a task that has been asked to leave is to go: how long it has, and what is run beside it when that time
// begins, if anything.
func Leave(t *cluster.Task, spec *cluster.JobSpec) (grace time.Duration, command []string) {
	if t.State == cluster.TaskPreempting {
		return spec.PreemptionGrace(), spec.Preemption.Command
	}
	return spec.Task.KillGrace, nil
}

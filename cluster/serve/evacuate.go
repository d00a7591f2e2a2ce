package serve

import (
	"context"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Evacuate places nothing more, for good, and ends every run; the tasks wait and run again after the next start. It is
// for a scheduler that takes its hosts with it when it stops. It returns when no run is left, or ctx's error. told is
// called once with the number of runs.
func (s *Scheduler) Evacuate(ctx context.Context, told func(runs int)) error {
	s.evacuating.Store(true)
	w := s.Watch()
	defer w.Close()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.C:
		}
		snapshot, _, _ := w.Take()
		bound := boundTasks(snapshot)
		if first {
			told(len(bound))
		}
		if len(bound) == 0 {
			return nil
		}
		// Again with every change: a cycle that was under way may still have placed something.
		if err := s.Do(ctx, func(tx *Tx) error { return stopAll(tx, bound) }); err != nil {
			return err
		}
	}
}

func boundTasks(snapshot *cluster.Snapshot) []cluster.TaskKey {
	var bound []cluster.TaskKey
	for h := range snapshot.Hosts("") {
		bound = append(bound, h.Tasks...)
	}
	return bound
}

// stopAll asks for the end of the tasks that nobody has asked yet.
func stopAll(tx *Tx, tasks []cluster.TaskKey) error {
	for _, k := range tasks {
		t := tx.State().Task(k)
		if t == nil || !t.State.Bound() || t.State == cluster.TaskKilling {
			continue
		}
		again := !tx.State().Job(k.Job()).Stopping
		if err := tx.Emit(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskRestarted, Restart: again}); err != nil {
			return err
		}
	}
	return nil
}

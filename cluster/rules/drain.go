package rules

import "github.com/sluice-scheduler/sluice/cluster"

// evacuate asks what may be moved to leave the hosts that are to be cleared, of services as many as their jobs bear; it runs
// again elsewhere. The core of a gang leaves as a whole: those that stayed would have their hosts for nothing until there is room for the
// others. Work that may not be preempted finishes where it is, and what is bound to its host stays. While nothing is killed nothing is
// asked to leave.
func evacuate(tx *Tx) error {
	if tx.State().Mode().KillingStopped {
		return nil
	}
	for _, id := range tx.State().Clearing() {
		h := tx.State().Host(id)
		if h.Unreachable {
			continue // nobody could tell them
		}
		var parted []*cluster.Job // gangs of which a member leaves, once each: tasks of a job stand side by side
		for _, k := range h.Tasks {
			t, j := tx.State().Task(k), tx.State().Job(k.Job())
			if !movable(j.SpecFor(t)) || j.Stopping || t.State.Vacating() || !j.BearsLoss(t) {
				continue
			}
			if err := tx.Emit(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonDrained, Restart: true}); err != nil {
				return err
			}
			if last := len(parted) - 1; j.Spec.Core(k.Instance()) && !j.Spec.Type.Service() && (last < 0 || parted[last].UID != j.UID) {
				parted = append(parted, j)
			}
		}
		for _, j := range parted {
			if err := giveBack(tx, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// movable reports whether tasks of the job may run elsewhere because an operator wants it so.
func movable(s *cluster.JobSpec) bool {
	return s.Type == cluster.Stateless || s.Type == cluster.Batch && s.Preemptible
}

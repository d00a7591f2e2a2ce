package rules

import "github.com/sluice-scheduler/sluice/cluster"

// Stay says why a task is still on a host that is being drained.
type Stay uint8

// Why a task stays, in the order in which it matters.
const (
	Leaving      Stay = iota // it has been asked to end, or will be at once
	Unreached                // nobody can tell it, as the host is unreachable
	NotKilled                // nothing is killed at present
	LastOff                  // a daemon stops when all others have left
	Bound                    // what it has is on this host only
	NotPreempted             // work that may not be preempted finishes where it is
	NotMoved                 // the drain moves nothing
	Needed                   // its job bears no more to be missing
)

// StayOf returns why a task of j stays on h, which is being drained.
func StayOf(mode cluster.Mode, now cluster.Time, h *cluster.Host, j *cluster.Job, t *cluster.Task) Stay {
	spec := j.SpecFor(t)
	switch {
	case h.Unreachable:
		return Unreached
	case t.State.Vacating():
		return Leaving
	case h.Overdue(now):
	case spec.Type == cluster.Daemon:
		return LastOff
	case spec.Type == cluster.Stateful:
		return Bound
	case spec.Type == cluster.Batch && !spec.Preemptible:
		return NotPreempted
	case !h.Clearing:
		return NotMoved
	case !j.BearsLoss(t):
		return Needed
	}
	if mode.KillingStopped {
		return NotKilled
	}
	return Leaving
}

// evacuate asks what may be moved to leave the hosts that are to be cleared, of services as many as their jobs bear; it runs
// again elsewhere. The core of a gang leaves as a whole: those that stayed would have their hosts for nothing until there is room for the
// others. When the drain's deadline has come all leave, and what is bound to the host waits for it. While nothing is killed nothing is
// asked to leave.
func evacuate(tx *Tx) error {
	mode := tx.State().Mode()
	for _, id := range tx.State().Clearing() {
		h := tx.State().Host(id)
		var parted []*cluster.Job // gangs of which a member leaves, once each: tasks of a job stand side by side
		for _, k := range h.Tasks {
			t, j := tx.State().Task(k), tx.State().Job(k.Job())
			if t.State.Vacating() || j.Stopping || StayOf(mode, tx.Now(), h, j, t) != Leaving {
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

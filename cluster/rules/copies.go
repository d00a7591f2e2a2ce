package rules

import (
	"errors"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Copy starts copies of tasks. Those that were chosen by what is no longer so are left out.
func Copy(tx *Tx, chosen []cluster.CopyAdded) (wrong error) {
	for i := range chosen {
		if tx.State().MayCopy(&chosen[i]) == nil {
			wrong = errors.Join(wrong, tx.Emit(&chosen[i]))
		}
	}
	return wrong
}

// settleCopy does what follows for a task and its copy, of which k is either. A copy that has succeeded stands for its task;
// one that has ended otherwise, or that nobody needs any more, goes. While the host of its task is given up it is needed.
func settleCopy(tx *Tx, k cluster.TaskKey) error {
	t, c := tx.State().Task(k.Original()), tx.State().Task(k.Copy())
	if c == nil || c.Removed {
		return nil
	}
	wanted := t != nil && !t.State.Terminal() && (t.State != cluster.TaskKilling || t.Reason == cluster.ReasonHostLost) && !outdated(tx, t, c)
	switch {
	case c.State == cluster.TaskSucceeded && wanted:
		return tx.Emit(&cluster.CopyWon{Task: c.Key})
	case c.State.Terminal() || !wanted || c.State == cluster.TaskKilling:
		return tx.Emit(&cluster.InstanceRemoved{Task: c.Key})
	default:
		return nil
	}
}

// outdated reports whether a copy runs something else than its task is to run now, since an update gave that another spec.
func outdated(tx *Tx, t, c *cluster.Task) bool {
	j := tx.State().Job(t.Key.Job())
	return t.Version != c.Version && j.SpecFor(c).ChangeOf(j.SpecFor(t), t.Key.Instance()) == cluster.NewRun
}

package knowledge

import "github.com/sluice-scheduler/sluice/cluster"

// Sample is what a run used when it was measured.
type Sample struct {
	Run      cluster.RunID
	Used     cluster.Resources
	Progress *float64 // how far the run says it is, 0..1; nil: it has not said
}

// Use is what a run was measured to use. Both vectors count what is measured only; the rest is 0.
type Use struct {
	Run      uint32
	Used     cluster.Resources // when it was measured last
	Progress *float64          // as in Sample
	Peak     cluster.Resources // of all measurements, in each dimension
}

// Uses is what was measured of the runs of a shard. It does not change.
type Uses map[cluster.TaskKey]Use

// Next returns what is known after a report, which names all that run: of those that are not named any more, the last
// measurement and the peak are kept until their end is reported. Complexity: the runs.
func (u Uses) Next(snap *cluster.Snapshot, report []Sample) Uses {
	next := make(Uses, len(report))
	for _, m := range report {
		now := Use{Run: m.Run.Run, Used: m.Used, Progress: m.Progress, Peak: m.Used}
		if old, ok := u[m.Run.Task]; ok && old.Run == now.Run {
			for d, v := range old.Peak.Fixed {
				now.Peak.Fixed[d] = max(now.Peak.Fixed[d], v)
			}
		}
		next[m.Run.Task] = now
	}
	for k, old := range u {
		if _, named := next[k]; !named && old.of(snap.Task(k)) {
			next[k] = old
		}
	}
	return next
}

// of reports whether the run holds room for the task.
func (u *Use) of(t *cluster.Task) bool { return t != nil && t.State.Bound() && t.Run == u.Run }

// Peak returns the most that a run was measured to use, nil if it was not measured. The caller may keep it.
func (u Uses) Peak(run cluster.RunID) *cluster.Resources {
	use, ok := u[run.Task]
	if !ok || use.Run != run.Run {
		return nil
	}
	return &use.Peak
}

// Usage is what the tasks on hosts use, as measured. It does not change once a Base has it.
type Usage map[cluster.HostID]cluster.Resources

// Add adds what the runs of a shard use to the hosts on which they are. Complexity: the runs.
func (u Usage) Add(uses Uses, snap *cluster.Snapshot) {
	for k, use := range uses { // in any order: sums of what is not negative
		if t := snap.Task(k); use.of(t) {
			u[t.Host] = u[t.Host].Add(use.Used)
		}
	}
}

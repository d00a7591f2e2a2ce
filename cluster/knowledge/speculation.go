package knowledge

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Speculation chooses the tasks that a second copy is likely to overtake: LATE, "longest approximate time to end". Source:
// M. Zaharia, A. Konwinski, A. D. Joseph, R. Katz, I. Stoica, "Improving MapReduce performance in heterogeneous
// environments", OSDI 2008. Where we differ: a task that reports no progress is held to what others took, and a host is slow by
// what its runs took beside what was expected of them, not by its rank among the hosts.
type Speculation struct {
	Interval time.Duration // how often to look; 0: never
	After    time.Duration // no run is judged before it has run for so long
	// SlowTaskPercent is how many in a hundred are slow: only a run that will take longer than all but so many gets a copy.
	SlowTaskPercent int
	// MaxSlowdown is how long runs on a host may take for copies to be started there, in per cent of what was expected.
	MaxSlowdown int
	// MaxCopiesPercent bounds the copies of a job at once, in percent of its instances, rounded up. A job may say otherwise.
	MaxCopiesPercent int
}

// DefaultSpeculation returns the values of the paper where it has some.
func DefaultSpeculation() Speculation {
	return Speculation{Interval: 5 * time.Second, After: time.Minute, SlowTaskPercent: 25, MaxSlowdown: 150, MaxCopiesPercent: 10}
}

// laggard is a run that others like it have overtaken.
type laggard struct {
	task *cluster.Task
	left time.Duration // until it ends, as estimated
}

// Choose returns the copies to start, of each job those of the tasks that will take longest. base is what earlier jobs taught,
// progress tells how far a run is, from 0 to 1, and false where it does not say; both may be nil. Jobs of which something
// waits get none: a copy would take its place. Complexity: the jobs, and the tasks of those that allow copies.
func (s *Speculation) Choose(snap *cluster.Snapshot, base *Base, progress func(cluster.RunID) (float64, bool), now cluster.Time) []cluster.CopyAdded {
	if s.Interval <= 0 {
		return nil
	}
	if progress == nil {
		progress = func(cluster.RunID) (float64, bool) { return 0, false }
	}
	var chosen []cluster.CopyAdded
	for j := range snap.Jobs(0) {
		if j.Spec.Speculation == nil || j.Stopping || j.Counts[cluster.TaskRunning] == 0 || j.Counts[cluster.TaskPending]+j.Counts[cluster.TaskReserved] > 0 {
			continue
		}
		late, spare := s.laggards(snap, j, base, progress, now)
		for _, l := range late[:min(len(late), spare)] {
			chosen = append(chosen, cluster.CopyAdded{Task: l.task.Key, Run: l.task.Run, Pace: int32(s.MaxSlowdown * 10)})
		}
	}
	return chosen
}

// laggards returns the slow runs of a job without a copy that one is likely to overtake, longest time left first, and how many
// more copies the job may have.
func (s *Speculation) laggards(snap *cluster.Snapshot, j *cluster.Job, base *Base, progress func(cluster.RunID) (float64, bool), now cluster.Time) (late []laggard, spare int) {
	type run struct {
		task     *cluster.Task
		total    time.Duration // at its rate
		reported bool
	}
	var running []run
	var took []time.Duration // of runs that have ended, or how long they will take at their rate
	copies := 0
	for t := range snap.TasksOf(j.UID, 0) {
		switch {
		case t.Key.IsCopy():
			copies++
		case t.State == cluster.TaskSucceeded && t.Started != 0 && !t.Outrun:
			took = append(took, t.Finished.Sub(t.Started))
		case t.State == cluster.TaskRunning && t.Started != 0 && now > t.Started:
			total, ok := atRate(progress, t, now)
			running = append(running, run{t, total, ok})
			if ok {
				took = append(took, total)
			}
		}
	}
	median, slow, ok := s.usual(took, base, cluster.WorkOf(j.Spec))
	if !ok {
		return nil, 0
	}
	for _, r := range running {
		t, total := r.task, r.total
		ran := now.Sub(t.Started)
		if !r.reported {
			total = ran
			if ran > slow { // as long again
				total += ran
			}
		}
		if ran >= s.After && total > slow && total-ran > median && snap.Task(t.Key.Copy()) == nil {
			late = append(late, laggard{t, total - ran})
		}
	}
	slices.SortFunc(late, func(a, b laggard) int {
		return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.task.Key, b.task.Key))
	})
	percent := s.MaxCopiesPercent
	if own := j.Spec.Speculation.MaxPercent; own > 0 {
		percent = int(own)
	}
	return late, max(0, (int(j.Spec.Instances)*percent+99)/100-copies)
}

// atRate returns how long a run takes in all if it goes on as it did: its time by its progress.
func atRate(progress func(cluster.RunID) (float64, bool), t *cluster.Task, now cluster.Time) (time.Duration, bool) {
	done, ok := progress(t.RunID())
	ran := now.Sub(t.Started)
	const least = 1e-3 // below, a rate says nothing
	if !ok || !(done >= least && done <= 1) {
		return 0, false
	}
	return time.Duration(float64(ran) / done), true
}

// usual returns the median run time and that which only the slowest exceed: of the job's own tasks where enough of them tell,
// else of earlier runs of the same work.
func (s *Speculation) usual(took []time.Duration, base *Base, work string) (median, slow time.Duration, ok bool) {
	if len(took) >= MinRuns {
		slices.Sort(took)
		at := func(percent int) time.Duration { return took[max(1, (len(took)*percent+99)/100)-1] } // that so many did not exceed
		return at(50), at(100 - s.SlowTaskPercent), true
	}
	if base == nil || work == "" {
		return 0, 0, false
	}
	median, ok = base.RunTime(work)
	slow, _ = base.RunTimeWithin(work, 1000-10*s.SlowTaskPercent)
	return median, slow, ok
}

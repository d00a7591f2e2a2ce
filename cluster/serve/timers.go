package serve

import (
	"context"
	"iter"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// clockLook is how often the clock is looked at while something is due later: it may be set forward, and it goes on while the machine
// sleeps, as timers do not.
const clockLook = time.Minute

// runTimers does what is due and what no report brings up: see rules.Timers.
func (s *Scheduler) runTimers(ctx context.Context) error {
	w := s.Watch()
	defer w.Close()
	timers := rules.NewTimers(s.config.KeepFinished)
	ring := time.NewTimer(time.Hour)
	defer ring.Stop()
	var last cluster.Time // that the clock showed
	stamps := newStamps(s.Snapshot())
	for first := true; ; first = false {
		ring.Stop()
		if at := timers.Next(); at != 0 {
			ring.Reset(min(at.Go().Sub(s.now()), clockLook))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.C:
			snapshot, changes, all := w.Take()
			timers.Note(snapshot, s.clock(), changes, all || first)
			stamps.note(snapshot, changes)
		case <-ring.C:
		}
		now := s.clock()
		if stamps.ahead(now) || now < last {
			s.byItself(ctx, func(tx *Tx) error { return tx.Emit(&cluster.ModeSet{Mode: tx.State().Mode()}) }) // from then on time counts by this clock
		}
		due := timers.Due(now)
		if first || now < last {
			due = append(due, rules.Rested(s.Snapshot(), now)...)
		}
		last = now
		if len(due) == 0 {
			continue
		}
		back := false // the clock has been set back meanwhile: what was due is not yet
		s.byItself(ctx, func(tx *Tx) error {
			back = tx.Now() < now
			return timers.Fire(tx, due)
		})
		if ctx.Err() == nil && back {
			timers.Note(s.Snapshot(), s.clock(), cluster.Changes{}, true)
		}
	}
}

// stamps are the times that the clock has stamped tasks with, and so has shown.
type stamps struct{ latest, known cluster.Time }

// newStamps returns those of the tasks that there are. The scheduler has begun with them, and knows which are to come.
func newStamps(snapshot *cluster.Snapshot) *stamps {
	return &stamps{known: latestStamp(snapshot.Tasks(0))}
}

func latestStamp(tasks iter.Seq[*cluster.Task]) (latest cluster.Time) {
	for t := range tasks {
		latest = max(latest, rules.Stamped(t))
	}
	return latest
}

func (s *stamps) note(snapshot *cluster.Snapshot, changes cluster.Changes) {
	for _, k := range changes.Tasks {
		if t := snapshot.Task(k); t != nil {
			s.latest = max(s.latest, rules.Stamped(t))
		}
	}
}

// ahead tells, once, that there is a stamp to come.
func (s *stamps) ahead(now cluster.Time) bool {
	is := s.latest > now && s.latest > s.known
	if is {
		s.known = s.latest
	}
	return is
}

package serve

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// runTimers does what is due and what no report brings up: see rules.Timers.
func (s *Scheduler) runTimers(ctx context.Context) error {
	w := s.Watch()
	defer w.Close()
	timers := rules.NewTimers(s.config.KeepFinished)
	ring := time.NewTimer(time.Hour)
	defer ring.Stop()
	for first := true; ; first = false {
		ring.Stop()
		if at := timers.Next(); at != 0 {
			ring.Reset(time.Until(at.Go()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.C:
			snapshot, changes, all := w.Take()
			timers.Note(snapshot, changes, all || first)
			continue
		case <-ring.C:
		}
		due := timers.Due(cluster.Time(time.Now().UnixNano()))
		err := s.Do(ctx, func(tx *Tx) error { return timers.Fire(tx, due) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrStopped) {
			return err
		}
	}
}

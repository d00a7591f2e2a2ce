package serve

import (
	"context"
	"time"

	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
)

// runSpeculation starts copies of tasks that lag behind.
func (s *Scheduler) runSpeculation(ctx context.Context) error {
	speculation := s.config.Speculation
	if speculation.Interval <= 0 {
		return nil
	}
	feed := knowledge.Feed{Interval: s.config.LearnEvery}
	ticker := time.NewTicker(speculation.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		snapshot, now := s.Snapshot(), s.clock()
		if mode := snapshot.Mode(); mode.ReadOnly || mode.PlacesNothing() {
			continue
		}
		chosen := speculation.Choose(snapshot, feed.Next(snapshot, now, nil), s.progressOf, now)
		if len(chosen) == 0 {
			continue
		}
		s.byItself(ctx, func(tx *Tx) error { return rules.Copy(tx, chosen) })
	}
}

package serve

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
)

// measured is what the runs of a shard used.
type measured struct {
	shard cluster.ShardID
	runs  []knowledge.Sample
}

// offerSlack passes a report on to the estimate of slack. One that comes too fast is left out: the next one says it all.
func (s *Scheduler) offerSlack(shard cluster.ShardID, runs []knowledge.Sample) {
	if s.config.SlackWindow <= 0 {
		return
	}
	select {
	case s.usage <- measured{shard, runs}:
	default:
	}
}

// runSlack keeps what the State says about the slack of hosts in line with what is measured.
func (s *Scheduler) runSlack(ctx context.Context) error {
	window := s.config.SlackWindow
	if window <= 0 {
		s.endSlack(ctx)
		return nil
	}
	estimate := knowledge.Slack{Window: window, Margin: s.config.SlackMargin}
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		var changes []knowledge.SlackChange
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.usage:
			changes = estimate.Measured(s.Snapshot(), m.shard, s.clock(), m.runs)
		case <-ticker.C:
			changes = estimate.Silent(s.Snapshot(), s.clock())
		}
		s.tellSlack(ctx, changes)
	}
}

// endSlack takes back what an earlier life has lent, since this one does not.
func (s *Scheduler) endSlack(ctx context.Context) {
	var lent []cluster.HostID
	for h := range s.Snapshot().Hosts("") {
		if !h.Slack.IsZero() {
			lent = append(lent, h.ID)
		}
	}
	if len(lent) == 0 {
		return
	}
	s.byItself(ctx, func(tx *Tx) (wrong error) {
		for _, id := range lent {
			if tx.State().Host(id) != nil {
				wrong = errors.Join(wrong, tx.Emit(&cluster.SlackMeasured{Host: id}))
			}
		}
		return wrong
	})
}

func (s *Scheduler) tellSlack(ctx context.Context, changes []knowledge.SlackChange) {
	if len(changes) == 0 {
		return
	}
	s.byItself(ctx, func(tx *Tx) (wrong error) {
		for _, c := range changes {
			if e := c.Event(tx.State()); e != nil {
				wrong = errors.Join(wrong, tx.Emit(e))
			}
		}
		return wrong
	})
}

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
		return s.endSlack(ctx)
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
			changes = estimate.Measured(s.Snapshot(), m.shard, cluster.Time(time.Now().UnixNano()), m.runs)
		case <-ticker.C:
			changes = estimate.Silent(s.Snapshot(), cluster.Time(time.Now().UnixNano()))
		}
		if err := s.tellSlack(ctx, changes); err != nil {
			return err
		}
	}
}

// endSlack takes back what an earlier life has lent, since this one does not.
func (s *Scheduler) endSlack(ctx context.Context) error {
	var lent []cluster.HostID
	for h := range s.Snapshot().Hosts("") {
		if !h.Slack.IsZero() {
			lent = append(lent, h.ID)
		}
	}
	if len(lent) == 0 {
		return nil
	}
	return s.untilStopped(ctx, func(tx *Tx) error {
		for _, id := range lent {
			if tx.State().Host(id) == nil {
				continue
			}
			if err := tx.Emit(&cluster.SlackMeasured{Host: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Scheduler) tellSlack(ctx context.Context, changes []knowledge.SlackChange) error {
	if len(changes) == 0 {
		return nil
	}
	return s.untilStopped(ctx, func(tx *Tx) error {
		for _, c := range changes {
			if e := c.Event(tx.State()); e != nil {
				if err := tx.Emit(e); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// untilStopped runs a command of the scheduler's own. That the writer has stopped is no error here: it tells why itself.
func (s *Scheduler) untilStopped(ctx context.Context, command func(*Tx) error) error {
	err := s.Do(ctx, command)
	if ctx.Err() != nil || errors.Is(err, ErrStopped) {
		return nil
	}
	return err
}

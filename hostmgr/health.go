package hostmgr

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// healthBox holds the latest health of each run that runs. It is not acknowledged: what is lost with a session is told
// again in the next one, and the same news twice changes nothing.
type healthBox struct {
	latest map[cluster.RunID]Health
	queue  []cluster.RunID // not told in this session, in the order of the news; each once
}

func newHealthBox() healthBox { return healthBox{latest: map[cluster.RunID]Health{}} }

func (o *outbox) reportHealth(h Health) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := &o.health
	b.latest[h.Run] = h
	if !slices.Contains(b.queue, h.Run) {
		b.queue = append(b.queue, h.Run)
	}
	o.signal()
}

// again queues all that is known, for a session that begins.
func (b *healthBox) again() {
	b.queue = b.queue[:0]
	for run := range b.latest {
		b.queue = append(b.queue, run)
	}
	slices.SortFunc(b.queue, cluster.RunID.Compare)
}

// nextHealth returns the next news. That of a run that does not live was found out just before its end, and is forgotten.
func (o *outbox) nextHealth() []*sluicev1.ShardUp {
	b := &o.health
	for len(b.queue) > 0 {
		run := b.queue[0]
		b.queue = b.queue[1:]
		if k := o.runs[run]; k == nil || k.State.Terminal() {
			delete(b.latest, run)
			continue
		}
		h := b.latest[run]
		return []*sluicev1.ShardUp{{Message: &sluicev1.ShardUp_Health{Health: &sluicev1.RunHealth{
			Run:        runTo(h.Run),
			Healthy:    h.Health != cluster.Unhealthy,
			Ready:      h.Health == cluster.HealthReady,
			Message:    text(h.Message),
			TimeUnixNs: int64(h.At),
		}}}}
	}
	return nil
}

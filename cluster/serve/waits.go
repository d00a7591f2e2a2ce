package serve

import (
	"context"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	// looksAtOnce is about how many times the planner looks at a host before the next cycle may begin: some 10 ms.
	looksAtOnce = 1 << 17
	// waitsPatience is how long a list waits for the planner, which may be in a cycle, to say why tasks wait.
	waitsPatience = time.Second
)

// whyTheyWait says of each of the tasks, which are of the snapshot, why it waits, in short; nil where it does not, and where the
// planner has no time to say. Complexity: WhyTheyWait of those that wait in the planner's queues; between two parts of that, cycles may run.
func (a *api) whyTheyWait(ctx context.Context, in *cluster.Snapshot, tasks []*cluster.Task) []*sluicev1.WaitingExplanation {
	all := make([]*sluicev1.WaitingExplanation, len(tasks))
	var queued []cluster.TaskKey
	var at []int // of those that are queued
	for i, t := range tasks {
		if t.State != cluster.TaskInitialized && !t.State.Waits() {
			continue
		}
		if all[i] = explainBeforehand(in, t, in.Job(t.Key.Job())); all[i] != nil {
			all[i].Unblockers = nil
			continue
		}
		queued, at = append(queued, t.Key), append(at, i)
	}
	ctx, cancel := context.WithTimeout(ctx, waitsPatience)
	defer cancel()
	for len(queued) > 0 {
		var why []cycle.Waiting
		if err := a.s.consult(ctx, func(p *cycle.Supervisor) { why = p.WhyTheyWait(queued, looksAtOnce) }); err != nil || len(why) == 0 {
			return all
		}
		now := a.s.Snapshot()
		for i := range why {
			known := why[i].Tasks > 0
			if t := now.Task(queued[i]); known || t != nil && t.State == cluster.TaskPending && explainBeforehand(now, t, now.Job(t.Key.Job())) == nil {
				all[at[i]] = explainWaiting(&why[i], known)
			}
		}
		queued, at = queued[len(why):], at[len(why):]
	}
	return all
}

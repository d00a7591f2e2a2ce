package rules

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// refusals is the wait after launches that were given back, from the second one in succession on: the first one is tried
// again at once, since the host may only have been full.
var refusals = cluster.Backoff{Initial: time.Second, Max: time.Minute}

// backOff returns when a task that waits again for the reason may be placed, 0 for at once. Only what failed by itself backs
// off: a lost or preempted run is nobody's fault.
func backOff(tx *Tx, t *cluster.Task, j *cluster.Job, why cluster.Reason) cluster.Time {
	var wait time.Duration
	switch {
	case why == cluster.ReasonLaunchRefused && t.Refusals > 0:
		wait = refusals.After(t.Refusals)
	case why == cluster.ReasonRetry && t.State != cluster.TaskLost:
		wait = j.Spec.Backoff.After(t.Failures)
	}
	if wait == 0 {
		return 0
	}
	return tx.Now().Add(wait)
}

package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// mostAwaited is how many instances are told of for which an update waits.
const mostAwaited = 3

// UpdateAwaits says for people what the update of a job waits for, each in a few words: the instances that it has touched, or those that
// are all that may be unavailable. None where it waits for nothing, or its state says it all. Complexity: that of all instances where
// none is touched and none more may be unavailable.
func UpdateAwaits(in *cluster.Snapshot, j *cluster.Job, now cluster.Time) (lines []string) {
	u := j.Update
	if !moves(u) || AwaitsPromotion(u) {
		return nil
	}
	if in.Mode().KillingStopped {
		return []string{"killing is switched off: an operator switches it on with `sluice cluster mode --stop-killing=false`"}
	}
	var waiting []*cluster.Task // some of them
	n := len(u.Active)
	for _, i := range u.Active[:min(n, mostAwaited)] {
		if t := in.Task(cluster.MakeTaskKey(j.UID, i)); t != nil {
			waiting = append(waiting, t)
		}
	}
	if n == 0 {
		if j.Bears(1) {
			return nil
		}
		for t := range in.TasksOf(j.UID, 0) {
			if t.Ready != 0 || t.Removed || idles(j, t, in.Host(t.Home)) {
				continue
			}
			if n++; n <= mostAwaited {
				waiting = append(waiting, t)
			}
		}
		if int64(n) < j.Spec.MaxAway() {
			return nil
		}
		lines = append(lines, fmt.Sprintf("%d of its instances are not ready, and no more than %d may be at once (limits.max_unavailable_instances)", n, j.Spec.MaxAway()))
	}
	for _, t := range waiting {
		lines = append(lines, fmt.Sprintf("instance %d %s", t.Key.Instance(), awaited(in, j, t, now)))
	}
	if more := n - mostAwaited; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if p, now := j.Spec.Update, u.Policy.Batch(j.Spec.Instances); p != nil && !u.Back() && now < p.Batch(j.Spec.Instances) {
		lines = append(lines, fmt.Sprintf("batches have a size of %d, since there was no place for more that start first", now))
	}
	return lines
}

// awaited says what has to become of an instance of which an update waits that it becomes good.
func awaited(in *cluster.Snapshot, j *cluster.Job, t *cluster.Task, now cluster.Time) string {
	u := j.Update
	_, until := verdictOn(asOf(t, in.ModeSince(), now), j, u, sinceOf(in.ModeSince(), u, now), 0)
	at := func(what string, when cluster.Time) string {
		return what + " " + when.Go().Format(time.RFC3339)
	}
	state := strings.ToLower(t.State.String())
	failed := ""
	if t.Failures > 0 {
		runs := "runs"
		if t.Failures == 1 {
			runs = "run"
		}
		failed = fmt.Sprintf("has had %d failed %s (update.max_attempts: %d), ", t.Failures, runs, u.Policy.Attempts())
	}
	away := ""
	if h := in.Host(t.Host); h != nil && h.Unreachable {
		away = ", which is unreachable"
	}
	switch {
	case t.State.Vacating():
		return fmt.Sprintf("is leaving host %s", t.Host) + away
	case t.Ready != 0:
		return at("is ready, and is good if it stays so until", until) + " (update.min_healthy_time)"
	case t.State.Bound():
		return at(fmt.Sprintf("%sis %s on host %s%s and not ready: it may take until", failed, state, t.Host, away), until) + " (update.healthy_deadline)"
	case !t.State.Waits():
		return "is " + state
	case t.Rests(now) && t.Reason == cluster.ReasonLaunchRefused:
		return at("was given back by its host manager, and is placed again at", t.NotBefore)
	case t.Rests(now):
		return at(fmt.Sprintf("%srun %d on %s %s, and starts again at", failed, t.Run, t.Host, howEnded(t, &u.Policy)), t.NotBefore)
	default:
		return fmt.Sprintf("%swaits for a place: `sluice task explain %s/%d` says why", failed, j.Spec.Name, t.Key.Instance())
	}
}

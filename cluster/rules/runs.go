package rules

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Verdict says what a reported status means to the state.
type Verdict uint8

// The verdicts.
const (
	Applied Verdict = iota
	Known           // nothing new: repeated, or overtaken by a later one
	Stale           // of a run that nobody waits for any more
)

// Report applies a status that the host manager of a shard sent, and lets the restart policy act on it. Of runs on the hosts
// of others a shard has nothing to say.
func Report(tx *Tx, from cluster.ShardID, e *cluster.TaskStatus) (Verdict, error) {
	t := tx.State().Task(e.Task)
	switch {
	case !Awaited(t, from, e.Run):
		return Stale, nil
	case !t.State.CanBecome(e.State) || e.State == cluster.TaskPending:
		return Known, nil
	}
	j := tx.State().Job(e.Task.Job())
	if e.Reason == cluster.ReasonLaunchRefused && t.State.CanBecome(cluster.TaskPending) {
		// Given back: the run never began, so it is no failure.
		again := &cluster.TaskRequeued{Task: e.Task, Reason: e.Reason, NotBefore: backOff(tx, t, j, e.Reason), Message: e.Message}
		if err := tx.Emit(again); err != nil {
			return Applied, err
		}
		if err := leaveHome(tx, e.Task); err != nil || !breaks(tx, j, t) {
			return Applied, err
		}
		return Applied, giveBack(tx, j)
	}
	if e.Reason == cluster.ReasonLaunchRefused && t.State == cluster.TaskKilling {
		killed := *e // it was to end, and never began
		killed.State, killed.Reason = cluster.TaskKilled, cluster.ReasonNone
		e = &killed
	}
	if e.State == cluster.TaskKilled && !t.State.Vacating() && e.Reason != cluster.ReasonPreempted {
		failed := *e // somebody else ended it: that is for the restart policy
		failed.State = cluster.TaskFailed
		e = &failed
	}
	if err := tx.Emit(e); err != nil {
		return Known, err
	}
	if e.State.Terminal() && e.State != cluster.TaskSucceeded && !t.State.Vacating() && breaks(tx, j, t) {
		if err := giveBack(tx, j); err != nil {
			return Applied, err
		}
	}
	if GivenUp(t) { // the user's word goes before the policy's, however the run ended before the signal got to it
		return Applied, nil
	}
	return Applied, requeue(tx, e.Task)
}

// GivenUp reports whether the run of a task is being ended for good, however it ends: its user stopped it, or a copy of it has succeeded.
func GivenUp(t *cluster.Task) bool {
	return t.State == cluster.TaskKilling && !t.Restart && t.Reason != cluster.ReasonRunTime
}

// Health applies what the host manager of a shard said of the health of a run. What is known already, or is about a run
// that nobody waits for on its hosts, is no news.
func Health(tx *Tx, from cluster.ShardID, e *cluster.TaskHealth) error {
	t := tx.State().Task(e.Task)
	if !Awaited(t, from, e.Run) || t.Health == e.Health {
		return nil
	}
	return tx.Emit(e)
}

// Awaited reports whether the run is the present one of t, if there is such a task, and on a host of the shard.
func Awaited(t *cluster.Task, shard cluster.ShardID, run uint32) bool {
	return t != nil && t.Run == run && t.State.Bound() && t.Host.Shard() == shard
}

// requeue lets a task that has just ended wait again if its policy or the user wants it.
func requeue(tx *Tx, k cluster.TaskKey) error {
	t := tx.State().Task(k)
	if t == nil { // its instance was removed
		return nil
	}
	j := tx.State().Job(k.Job())
	if why, again := t.ShouldRequeue(j); again {
		return tx.Emit(&cluster.TaskRequeued{Task: k, Reason: why, NotBefore: backOff(tx, t, j, why)})
	}
	return nil
}

// conclude ends the current run of a task that nobody will report on any more.
func conclude(tx *Tx, k cluster.TaskKey, state cluster.TaskState, why cluster.Reason, message string) error {
	t := tx.State().Task(k)
	_, err := Report(tx, t.Host.Shard(), &cluster.TaskStatus{Task: k, Run: t.Run, State: state, ExitCode: -1, Reason: why, Message: message})
	return err
}

// Answer is what a host manager is told about one run of its inventory.
type Answer struct {
	Run cluster.RunID
	// Release: its end is known and durable, forget it. Otherwise: nobody waits for it, kill it.
	Release bool
}

// Outlived reports whether a host manager knows a job or a run that the state has not given out: every number is durable before
// anybody hears of it, so the state is that of an earlier time, as of a copy of the store that was put back.
func Outlived(s *cluster.State, inventory []*cluster.TaskStatus) bool {
	return slices.ContainsFunc(inventory, func(e *cluster.TaskStatus) bool {
		j, t := s.Job(e.Task.Job()), s.Task(e.Task)
		switch {
		case j == nil:
			return e.Task.Job() >= s.NextJob()
		case t == nil:
			return e.Run > max(j.LastRun, j.Forgotten)
		}
		return e.Run >= j.NextRun(t)
	})
}

// Reconcile brings the state and a shard together. inventory holds every run that the shard knows: what it reports is
// applied, runs that it should know and does not are concluded, and for the others it returns what to answer. Launches
// that did not arrive stay as they are: they are sent again, because their tasks are PLACED.
func Reconcile(tx *Tx, shard cluster.ShardID, inventory []*cluster.TaskStatus) ([]Answer, error) {
	inventory = slices.Clone(inventory)
	slices.SortFunc(inventory, func(a, b *cluster.TaskStatus) int { return runOf(a).Compare(runOf(b)) })
	for _, k := range boundTo(tx, shard) {
		t := tx.State().Task(k)
		_, known := slices.BinarySearchFunc(inventory, t.RunID(), func(e *cluster.TaskStatus, r cluster.RunID) int {
			return runOf(e).Compare(r)
		})
		// In a restored cluster a launch from before the snapshot may have arrived after it, and its run may be over and released.
		if placed := t.State == cluster.TaskPlaced && t.Run > tx.State().Job(k.Job()).Forgotten; known || placed {
			continue
		}
		end := cluster.TaskLost
		if t.State == cluster.TaskKilling {
			end = cluster.TaskKilled
		}
		if err := conclude(tx, k, end, cluster.ReasonUnknownToHost, "its host manager does not know the run"); err != nil {
			return nil, err
		}
	}
	var answers []Answer
	for _, e := range inventory {
		verdict, err := Report(tx, shard, e)
		switch {
		case err != nil:
			return nil, err
		case e.State.Terminal() || verdict == Stale:
			answers = append(answers, Answer{Run: runOf(e), Release: e.State.Terminal()})
		}
	}
	return answers, nil
}

func runOf(e *cluster.TaskStatus) cluster.RunID { return cluster.RunID{Task: e.Task, Run: e.Run} }

// boundTo lists the tasks bound to the shard's hosts.
func boundTo(tx *Tx, shard cluster.ShardID) []cluster.TaskKey {
	var keys []cluster.TaskKey
	for h := range tx.State().ShardHosts(shard) {
		keys = append(keys, h.Tasks...)
	}
	return keys
}

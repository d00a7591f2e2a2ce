package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// DefaultGangTimeout is how long the core of a gang has to come to run where the job does not say.
const DefaultGangTimeout = 2 * time.Minute

// Timers knows when something is due that no report will bring up: a run at its run-time limit, a gang that does not come
// to run, the end of a back-off, a job past its deadline or kept for long enough, a host to be left. It is told of what changed and says what to look at; whether something is still to be
// done about it Fire decides by the State, so that an alarm too many does no harm. Not safe for concurrent use.
type Timers struct {
	keep   time.Duration  // see NewTimers
	alarms cluster.Alarms // of a job through the key of its first task, even if it has none
	since  cluster.Time   // the snapshot's ModeSince, from which some alarms count
	most   int            // alarms: where there are more, most are of runs and jobs that have ended
	// updates are those under way whose instances have been looked at, as they were then.
	updates map[cluster.JobUID]*cluster.Update
}

// NewTimers returns timers that have been told of nothing. keep is how long jobs are kept after their end that do not say it
// themselves; 0 is for ever.
func NewTimers(keep time.Duration) *Timers {
	return &Timers{keep: keep, alarms: cluster.NewAlarms(), updates: map[cluster.JobUID]*cluster.Update{}}
}

// Note takes in what changed. With all, everything in the snapshot counts as changed. Complexity: changes · log alarms, amortized.
func (t *Timers) Note(snap *cluster.Snapshot, now cluster.Time, changes cluster.Changes, all bool) {
	if all || snap.ModeSince() != t.since {
		t.noteAll(snap, now)
		return
	}
	for _, uid := range changes.Jobs {
		if j := snap.Job(uid); j != nil {
			t.noteJob(snap, now, j)
		} else {
			delete(t.updates, uid)
		}
	}
	for _, k := range changes.Tasks {
		if task := snap.Task(k); task != nil {
			t.note(snap, now, task)
		}
	}
	for _, id := range changes.Hosts {
		t.noteHost(snap.Host(id))
	}
	if t.alarms.Len() > t.most {
		t.noteAll(snap, now)
	}
}

// noteAll begins anew with what is in the snapshot.
func (t *Timers) noteAll(snap *cluster.Snapshot, now cluster.Time) {
	t.alarms, t.since = cluster.NewAlarms(), snap.ModeSince()
	clear(t.updates)
	for j := range snap.Jobs(0) {
		t.noteJob(snap, now, j)
	}
	for task := range snap.Tasks(0) {
		t.note(snap, now, task)
	}
	for _, id := range snap.Clearing() {
		t.noteHost(snap.Host(id))
	}
	t.most = 2*t.alarms.Len() + snap.NumJobs() + snap.NumTasks() + 1000
}

func (t *Timers) note(snap *cluster.Snapshot, now cluster.Time, task *cluster.Task) {
	j := snap.Job(task.Key.Job())
	for _, seen := range seenAt(task, snap.ModeSince(), now) {
		if at := touchEnds(snap, seen, j, now); at != 0 {
			t.alarms.Set(at, task.Key)
		}
		if at := runEnds(seen, j); at != 0 {
			t.alarms.Set(at, task.Key)
		}
		if at := gangEnds(seen, j.Spec, snap.ModeSince()); at != 0 {
			t.alarms.Set(at, task.Key)
		}
	}
	if task.NotBefore != 0 {
		t.alarms.Set(task.NotBefore, task.Key)
	}
}

// noteHost has one of the tasks on the host looked at when all have to leave it.
func (t *Timers) noteHost(h *cluster.Host) {
	if h != nil && h.ClearBy != 0 && len(h.Tasks) > 0 {
		t.alarms.Set(h.ClearBy, h.Tasks[0])
	}
}

func (t *Timers) noteJob(snap *cluster.Snapshot, now cluster.Time, j *cluster.Job) {
	t.noteUpdate(snap, now, j)
	look := cluster.MakeTaskKey(j.UID, 0)
	if j.Spec.Limits.Deadline != 0 && !j.State().Terminal() {
		t.alarms.Set(j.Spec.Limits.Deadline, look)
	}
	if at := t.forgetAt(j); at != 0 {
		t.alarms.Set(at, look)
	}
}

// noteUpdate looks at the instances that an update has touched since it was last looked at; the others are looked at when they
// change.
func (t *Timers) noteUpdate(snap *cluster.Snapshot, now cluster.Time, j *cluster.Job) {
	before := t.updates[j.UID]
	switch {
	case before == j.Update:
		return
	case !moves(j.Update):
		delete(t.updates, j.UID)
		return
	}
	t.updates[j.UID] = j.Update
	var seen []uint32
	if before != nil && before.Created == j.Update.Created && before.Resumed == j.Update.Resumed { // else they have more time
		seen = before.Active
	}
	for task := range touched(snap, j, seen) {
		for _, as := range seenAt(task, snap.ModeSince(), now) {
			if at := touchEnds(snap, as, j, now); at != 0 {
				t.alarms.Set(at, task.Key)
			}
		}
	}
}

// forgetAt returns when a job that has ended goes, 0 for never.
func (t *Timers) forgetAt(j *cluster.Job) cluster.Time {
	keep := j.Spec.TTL
	if keep == 0 {
		keep = t.keep
	}
	if keep == 0 || !j.State().Terminal() {
		return 0
	}
	return j.Finished.Add(keep)
}

// Next returns when something is due next, 0 if nothing is.
func (t *Timers) Next() cluster.Time { return t.alarms.Next() }

// Due returns the tasks to be looked at by now, for Fire, and forgets them.
func (t *Timers) Due(now cluster.Time) (tasks []cluster.TaskKey) {
	for k := t.alarms.Pop(now); k != 0; k = t.alarms.Pop(now) {
		tasks = append(tasks, k)
	}
	return tasks
}

// Rested returns the tasks that back off no more, for Fire where the clock has been set back, or may have been while nobody looked: it
// rings for them much later. Complexity: the tasks.
func Rested(snap *cluster.Snapshot, now cluster.Time) (tasks []cluster.TaskKey) {
	for t := range snap.Tasks(0) {
		if t.NotBefore != 0 && !t.Rests(now) {
			tasks = append(tasks, t.Key)
		}
	}
	return tasks
}

// Stamped returns the latest time that the task is stamped with. If it is to come, the clock was set back, or is behind another leader's.
func Stamped(t *cluster.Task) cluster.Time {
	return max(t.Since, t.Placed, t.Started, t.Ready, t.Unready)
}

// asOf returns the task as far as it counts how long something has lasted: what is stamped with a time to come began before the clock was set
// back, nobody knows when. It counts from since on, from when on this clock has been gone by, so that it lasts once more at most; 0: that is
// not known.
func asOf(t *cluster.Task, since, now cluster.Time) *cluster.Task {
	if since == 0 || Stamped(t) <= now {
		return t
	}
	own := *t
	for _, stamp := range []*cluster.Time{&own.Since, &own.Placed, &own.Started, &own.Ready, &own.Unready} {
		if *stamp > now {
			*stamp = since
		}
	}
	return &own
}

// seenAt returns the task as it is, and as asOf shows it where that differs: which of the two holds when either is due depends on the time then.
func seenAt(t *cluster.Task, since, now cluster.Time) []*cluster.Task {
	if own := asOf(t, since, now); own != t {
		return []*cluster.Task{t, own}
	}
	return []*cluster.Task{t}
}

// runEnds returns when the current run reaches the limit of the spec that it runs by, 0 if that has none.
func runEnds(t *cluster.Task, j *cluster.Job) cluster.Time {
	most := j.SpecFor(t).Limits.MaxRunTime
	if most == 0 || t.State != cluster.TaskRunning || t.Started == 0 {
		return 0
	}
	return t.Started.Add(most)
}

// gangEnds returns when a core member that does not run yet has to, 0 if it runs or is none. Time counts from since on, from when on
// a scheduler has been there that hears of it.
func gangEnds(t *cluster.Task, spec *cluster.JobSpec, since cluster.Time) cluster.Time {
	if !spec.Core(t.Key.Instance()) || !t.State.Bound() || t.State >= cluster.TaskRunning {
		return 0
	}
	return max(t.Placed, since).Add(gangTimeout(spec))
}

// Begins reports whether the job is a gang of which some have a place and do not run yet.
func Begins(j *cluster.Job) bool {
	return j.Spec.Gang != nil && j.Counts[cluster.TaskPlaced]+j.Counts[cluster.TaskLaunching]+j.Counts[cluster.TaskStarting] > 0
}

func gangTimeout(spec *cluster.JobSpec) time.Duration {
	if spec.Gang.LaunchTimeout > 0 {
		return spec.Gang.LaunchTimeout
	}
	return DefaultGangTimeout
}

// Fire does what is due for the tasks. One for which it cannot be done does not keep the others from it.
func (t *Timers) Fire(tx *Tx, tasks []cluster.TaskKey) (wrong error) {
	for _, k := range tasks {
		j := tx.State().Job(k.Job())
		if j == nil {
			continue
		}
		done, err := t.fireJob(tx, j)
		if task := tx.State().Task(k); task != nil && !done && err == nil {
			err = fire(tx, task, j)
		}
		wrong = errors.Join(wrong, err)
		if j := tx.State().Job(k.Job()); j != nil {
			wrong = errors.Join(wrong, advanceUpdate(tx, j))
		}
	}
	return wrong
}

// fireJob does what is due for the job, and reports whether that leaves nothing to do for its tasks.
func (t *Timers) fireJob(tx *Tx, j *cluster.Job) (done bool, err error) {
	if at := j.Spec.Limits.Deadline; at != 0 && tx.Now() >= at && !j.Stopping && !j.State().Terminal() {
		return true, tx.Emit(&cluster.JobStopping{Job: j.UID, Reason: cluster.ReasonDeadline})
	}
	if at := t.forgetAt(j); at != 0 && tx.Now() >= at && len(tx.State().WaitingFor(j.Spec.Name)) == 0 {
		return true, tx.Emit(&cluster.JobDeleted{Job: j.UID})
	}
	return false, nil
}

func fire(tx *Tx, t *cluster.Task, j *cluster.Job) error {
	if t.NotBefore != 0 && !t.Rests(tx.Now()) {
		return tx.Emit(&cluster.TaskReleased{Task: t.Key})
	}
	seen := asOf(t, tx.State().ModeSince(), tx.Now())
	if at := gangEnds(seen, j.Spec, tx.State().ModeSince()); at != 0 && tx.Now() >= at && breaks(tx, j, t) {
		return giveBack(tx, j)
	}
	if at := runEnds(seen, j); at != 0 && tx.Now() >= at {
		return tx.Emit(&cluster.TaskStopping{Task: t.Key, Reason: cluster.ReasonRunTime})
	}
	if h := tx.State().Host(t.Host); h != nil && h.Overdue(tx.Now()) {
		return evacuate(tx)
	}
	return nil
}

// giveBack takes the bound members of a gang's core down: all of them wait again, and start together or not at all.
func giveBack(tx *Tx, j *cluster.Job) error {
	for i := range j.Spec.Gang.Minimum {
		t := tx.State().Task(cluster.MakeTaskKey(j.UID, i))
		if !t.State.Bound() || t.State.Vacating() {
			continue
		}
		e := &cluster.TaskStopping{Task: t.Key, Reason: cluster.ReasonGangBroken, Restart: true}
		if err := tx.Emit(e); err != nil {
			return fmt.Errorf("rules: giving back a gang: %w", err)
		}
	}
	return nil
}

// breaks reports whether it leaves a gang that has not come to run as a whole if a core member's run, in a state before, comes to an
// end or does not come to run. One that once ran goes on without the member until it is back.
func breaks(tx *Tx, j *cluster.Job, before *cluster.Task) bool {
	if !j.Spec.Core(before.Key.Instance()) || j.Stopping {
		return false
	}
	whole := hasRun(tx, j, before)
	for i := range j.Spec.Gang.Minimum {
		t := tx.State().Task(cluster.MakeTaskKey(j.UID, i))
		whole = whole && (t.Key == before.Key || t.State == cluster.TaskSucceeded || hasRun(tx, j, t))
	}
	return !whole
}

// hasRun reports whether a core member has come to run with the others: in its last run, or in one before, since that was placed
// beside others that ran already. One that starts in time to come did so before the clock was set back.
func hasRun(tx *Tx, j *cluster.Job, t *cluster.Task) bool {
	if t.Started != 0 {
		return true
	}
	for i := range j.Spec.Gang.Minimum {
		o := tx.State().Task(cluster.MakeTaskKey(j.UID, i))
		if o.State.Bound() && o.Started != 0 && (o.Started < t.Placed || o.Started > tx.Now()) {
			return true
		}
	}
	return false
}

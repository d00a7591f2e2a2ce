package rules

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// advanceUpdate does what is due for the update of a job: it looks after the instances that were touched, touches further
// ones as far as the policy and the availability budget allow, and ends the update. Doing it again changes nothing.
// While nothing is killed it stands still. Complexity: a batch, and the instances that have not been looked at; of a job whose
// instances are bound to hosts, all.
func advanceUpdate(tx *Tx, j *cluster.Job) error {
	for !tx.State().Mode().KillingStopped {
		j = tx.State().Job(j.UID)
		if j == nil || !j.Update.Live() && j.Surge == 0 {
			return nil
		}
		r := rollout{tx: tx, job: j, surge: j.Surge}
		if j.Update != nil {
			r.u = *j.Update
			r.u.Active, r.u.Failed = slices.Clone(r.u.Active), slices.Clone(r.u.Failed)
		}
		r.survey()
		seq := tx.State().Seq()
		if err := r.step(); err != nil {
			return err
		}
		if tx.State().Seq() == seq {
			return nil
		}
	}
	return nil
}

// rollout is one look at an update.
type rollout struct {
	tx    *Tx
	job   *cluster.Job // as it is now
	u     cluster.Update
	surge uint32

	instances uint32        // that the job is to have
	beyond    uint32        // the number behind the highest of them
	idle      int64         // of them, those that need not run now; see idles
	late      *cluster.Task // one that may have its new run now and could not when it was touched; nil if there is none
	stood     bool          // all instances that were started first are good: others may go
}

// survey counts the instances, and looks for one that is late. A daemon has those that its hosts need, and their numbers have gaps.
func (r *rollout) survey() {
	r.instances, r.beyond = r.job.Spec.Instances, r.job.Spec.Instances
	if r.job.Spec.Type != cluster.Daemon && r.job.Spec.Type != cluster.Stateful {
		return
	}
	for t := range r.tx.State().TasksOf(r.job.UID, 0) {
		if r.idles(t) {
			r.idle++
		}
		if t.Removed {
			continue
		}
		if r.job.Spec.Type == cluster.Daemon {
			r.instances, r.beyond = r.instances+1, t.Key.Instance()+1
		}
		if r.late == nil && !r.u.Restarts() && t.Next == r.u.To && t.State.Bound() && !t.State.Vacating() && !r.stays(t) {
			r.late = t
		}
	}
}

// idles reports whether an instance need not run now and nobody waits for it: of a daemon, one that somebody stopped, or that
// does not serve and whose host takes no work. The others serve their own hosts as well without it.
func (r *rollout) idles(t *cluster.Task) bool { return idles(r.job, t, r.tx.State().Host(t.Home)) }

// idles is rollout.idles, where home is the host that the instance is bound to, nil if there is none.
func idles(j *cluster.Job, t *cluster.Task, home *cluster.Host) bool {
	if j.Spec.Type != cluster.Daemon || t.Ready != 0 {
		return false
	}
	return home == nil || home.State() != cluster.HostUp || t.State.Terminal() || GivenUp(t)
}

// stays reports whether the run of an instance that is bound to its host goes on while that is drained, or is not among those of its pool:
// no run could follow it now.
func (r *rollout) stays(t *cluster.Task) bool {
	h := r.tx.State().Host(t.Home)
	if h == nil || !t.State.Bound() || t.State.Vacating() {
		return false
	}
	return h.State() == cluster.HostDraining || !h.Meets(r.tx.State().HostsOf(r.job.Spec.Pool))
}

// up reports whether there is such a host and it takes work.
func up(tx *Tx, id cluster.HostID) bool {
	h := tx.State().Host(id)
	return h != nil && h.State() == cluster.HostUp
}

func (r *rollout) step() error {
	switch {
	case !r.job.Update.Live():
		return r.trim()
	case r.job.Stopping:
		return r.end(cluster.UpdateAborted, cluster.ReasonJobStopped, "the job is being stopped")
	}
	switch r.u.State {
	case cluster.UpdatePaused:
		if r.more() < r.surge { // the job is smaller, or as large as it may be
			return r.trim()
		}
		return nil
	case cluster.UpdateInitialized:
		r.u.State = cluster.RollingForward
		if r.u.Policy.StartPaused {
			r.u.State, r.u.Resume = cluster.UpdatePaused, cluster.RollingForward
		}
		return r.save()
	}
	before := *r.job.Update
	if err := r.look(); err != nil {
		return err
	}
	if why, message, failed := r.failed(); failed {
		return r.fail(why, message)
	}
	if err := r.begin(); err != nil {
		return err
	}
	switch {
	case r.stuck():
		message := "those that failed, have no place or were stopped are all that may be unavailable"
		if len(r.u.Failed) > 0 {
			message = r.failures() + ": " + message
		}
		return r.fail(cluster.ReasonNoneToSpare, message)
	case r.finished():
		return r.succeed()
	case r.surge != r.job.Surge || r.u.Second != before.Second || r.u.Next != before.Next || r.u.Begun != before.Begun || r.u.Good != before.Good ||
		!slices.Equal(r.u.Active, before.Active) || !slices.Equal(r.u.Failed, before.Failed):
		return r.save()
	default:
		return nil
	}
}

// save makes what was decided the record of the update.
func (r *rollout) save() error {
	return r.tx.Emit(&cluster.UpdateAdvanced{Job: r.job.UID, Update: r.u, Surge: r.surge})
}

func (r *rollout) end(state cluster.UpdateState, why cluster.Reason, message string) error {
	r.u.End(r.tx.Now(), state, why)
	r.u.Message = message
	return r.save()
}

// now returns the job as it is now.
func (r *rollout) now() *cluster.Job { return r.tx.State().Job(r.job.UID) }

// task returns the task of an instance as it is now, nil if there is none.
func (r *rollout) task(instance uint32) *cluster.Task {
	return r.tx.State().Task(cluster.MakeTaskKey(r.job.UID, instance))
}

// verdict is how an instance that was touched is doing.
type verdict uint8

const (
	coming verdict = iota
	good
	broken // its run failed, and another is to be tried
	bad    // it failed as often as it may
)

// verdictOn judges an instance of the update. Time counts from since on. Until is when it has to be looked at again if nothing
// happens before, 0 if there is no such time.
func verdictOn(t *cluster.Task, j *cluster.Job, u *cluster.Update, since, now cluster.Time) (v verdict, until cluster.Time) {
	tired := t.Failures >= u.Policy.Attempts()
	switch {
	case t.State == cluster.TaskKilling:
		if GivenUp(t) {
			return good, 0 // it is none of the update's
		}
		return coming, 0
	case t.State == cluster.TaskPreempting:
		return coming, 0 // it makes way, and waits again then
	case t.State.Terminal() && (t.State != cluster.TaskFailed || j.Spec.Type.Service()):
		return good, 0 // it is done, or would wait again if nobody had stopped it
	case tired && !t.State.Bound():
		return bad, 0
	case t.State == cluster.TaskFailed:
		return broken, 0
	case !t.State.Bound():
		if until = unplacedFrom(t, j, u, since); until != 0 && now >= until {
			return bad, 0
		}
		return coming, until
	}
	if t.Ready != 0 {
		if until = t.Ready.Add(u.Policy.MinHealthy); now >= until {
			return good, 0
		}
		return coming, until
	}
	if until = max(t.Placed, since).Add(u.Policy.HealthyDeadline()); now >= until {
		return broken, 0
	}
	return coming, until
}

// look takes in what became of the instances that were touched.
func (r *rollout) look() error {
	active := r.u.Active
	r.u.Active = nil
	for _, i := range active {
		t := r.task(i)
		if t == nil || t.Removed { // the job has no such instance any more
			r.noCanary(r.surge == 0)
			continue
		}
		v, _ := verdictOn(r.asOfNow(t), r.job, &r.u, r.since(), r.tx.Now())
		if r.idles(t) {
			v = good
		}
		switch v {
		case good:
			if r.job.Spec.Wants(i) {
				r.u.Good++
				r.noCanary(t.Ready == 0 && !t.Outrun && (t.State != cluster.TaskSucceeded || r.job.Spec.Type.Service()))
			}
		case coming:
			r.u.Active = append(r.u.Active, i)
		case bad:
			if n := r.placed(t); n > 0 {
				r.u.Policy.BatchSize, r.u.Policy.BatchPercent = n, 0 // they go, and the update goes on with the others
				continue
			}
			r.u.Failed = append(r.u.Failed, i)
		case broken:
			if err := r.again(t); err != nil {
				return err
			}
			r.u.Active = append(r.u.Active, i)
		}
	}
	r.u.Failed = slices.DeleteFunc(r.u.Failed, func(i uint32) bool { t := r.task(i); return t == nil || t.Removed })
	slices.Sort(r.u.Failed)
	return nil
}

// placed returns, of an instance for which there was no place and that was to be started first, how many others of these are ready that come
// before it. It returns 0 while canaries wait to be promoted: each of them has to show something.
func (r *rollout) placed(t *cluster.Task) (n uint32) {
	first, i := r.job.Spec.Instances, t.Key.Instance()
	if i < first || t.Failures >= r.u.Policy.Attempts() || r.u.HoldsCanaries() {
		return 0
	}
	for first+n < i {
		if o := r.task(first + n); o == nil || o.Ready == 0 {
			break
		}
		n++
	}
	return n
}

// noCanary has another instance be a canary where one has gone, or is not to run, before it has shown anything.
func (r *rollout) noCanary(is bool) {
	if is && r.u.HoldsCanaries() && r.u.Begun > 0 {
		r.u.Begun--
	}
}

// again has an instance try once more, or end for good: a run that does not become healthy counts as a failed one.
func (r *rollout) again(t *cluster.Task) error {
	if t.State == cluster.TaskFailed { // counted already
		return r.tx.Emit(&cluster.TaskRequeued{Task: t.Key, Reason: cluster.ReasonRetry})
	}
	return r.tx.Emit(&cluster.TaskUpdated{Task: t.Key, Version: r.version(t), Reason: cluster.ReasonNotHealthy, Again: true, Revive: true})
}

// version returns the version that an instance is to run. A restart brings what its next run would have had anyway.
func (r *rollout) version(t *cluster.Task) uint64 {
	switch {
	case !r.u.Restarts():
		return r.u.To
	case t.Next != 0:
		return t.Next
	default:
		return t.Version
	}
}

// failed says why the update has failed, if it has.
func (r *rollout) failed() (cluster.Reason, string, bool) {
	n := len(r.u.Failed)
	switch {
	case n == 0:
		return "", "", false
	case r.u.Policy.MaxFailed > 0 && n >= int(r.u.Policy.MaxFailed):
		return cluster.ReasonTooManyFailed, fmt.Sprintf("%s: the policy bears fewer than %d", r.failures(), r.u.Policy.MaxFailed), true
	case r.u.HoldsCanaries():
		return cluster.ReasonCanaryFailed, r.failures() + " before the rest was updated", true
	case !r.job.Spec.Wants(r.u.Failed[n-1]):
		return cluster.ReasonTooManyFailed, r.failures() + ", started first", true
	default:
		return "", "", false
	}
}

// failures says for people which instances failed, which of them have no place, and how the last run of one that had some ended: an
// instance that was started first is forgotten with the update.
func (r *rollout) failures() string {
	var unplaced []uint32
	how := ""
	for _, i := range r.u.Failed {
		switch t := r.task(i); {
		case t == nil:
		case t.Failures >= r.u.Policy.Attempts():
			if how == "" && !t.State.Bound() { // else it has another run since
				how = fmt.Sprintf(" (run %d of instance %d on %v %s)", t.Run, i, t.Host, howEnded(t, &r.u.Policy))
			}
		case unplacedFrom(t, r.job, &r.u, 0) != 0:
			unplaced = append(unplaced, i)
		}
	}
	text := instances(r.u.Failed) + " failed" + how
	if len(unplaced) > 0 {
		bears := r.u.Policy.PlacementDeadline(r.job.Spec.Type)
		text += fmt.Sprintf(" (for %s there was no place within %v)", instances(unplaced), bears)
	}
	return text
}

// howEnded says for people how the last run of an instance ended that failed.
func howEnded(t *cluster.Task, policy *cluster.UpdatePolicy) string {
	switch {
	case t.Reason == cluster.ReasonNotHealthy:
		return fmt.Sprintf("was not ready within %v", policy.HealthyDeadline())
	case t.Message != "":
		return "failed: " + t.Message
	case t.ExitCode >= 0:
		return fmt.Sprintf("ended with exit code %d", t.ExitCode)
	default:
		return fmt.Sprintf("ended by signal %d", t.Signal)
	}
}

// instances names some instances for people.
func instances(list []uint32) string {
	if len(list) == 1 {
		return fmt.Sprintf("instance %d", list[0])
	}
	const most = 5
	text := fmt.Sprintf("instances %v", list[:min(len(list), most)])
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// fail ends the update, or begins to take it back where the policy says so; a daemon then returns to the hosts that it had left.
func (r *rollout) fail(why cluster.Reason, message string) error {
	if !r.u.Policy.Rollback || r.u.Restarts() || r.job.SpecOf(r.u.From) == nil {
		return r.end(cluster.UpdateFailed, why, message)
	}
	if err := Rollback(r.tx, r.job, r.u.From, why, message); err != nil || r.job.Spec.Type != cluster.Daemon {
		return err
	}
	return coverAll(r.tx, []cluster.JobUID{r.job.UID})
}

// Rollback begins an update of the job to an earlier version of its spec, with the number of instances, the values of secrets, the owner
// and the groups that it has now: who may give it others is another question. A deadline that is over by now does not come back
// either: it would end the job.
func Rollback(tx *Tx, j *cluster.Job, to uint64, why cluster.Reason, message string) error {
	spec := *j.SpecOf(to)
	if message != "" {
		message += "; "
	}
	message += fmt.Sprintf("back to version %d", to)
	if gone := secretsGone(spec.Secrets, j.Spec.Secrets); gone != "" {
		message += " " + gone
	}
	spec.Instances, spec.Secrets, spec.Owner, spec.Groups = j.Spec.Instances, backAt(spec.Secrets, j.Spec.Secrets), j.Spec.Owner, j.Spec.Groups
	spec.Task.Secrets = spec.Task.Secrets && (spec.APIAccess || slices.ContainsFunc(spec.Secrets, func(s cluster.Secret) bool { return s.Path != "" }))
	if at := spec.Limits.Deadline; at != 0 && at <= tx.Now() {
		spec.Limits.Deadline = j.Spec.Limits.Deadline
	}
	policy := cluster.UpdatePolicy{}
	if spec.Update != nil {
		policy = *spec.Update
	}
	if j.Update.Live() {
		policy = j.Update.Policy
	}
	policy.Canaries, policy.StartPaused, policy.Rollback = 0, false, false
	return tx.Emit(&cluster.JobUpdated{
		Job: j.UID, Spec: &spec, Description: fmt.Sprintf("rollback to version %d", to),
		Update: &cluster.Update{From: j.Version, State: cluster.RollingBackward, Policy: policy, Reason: why, Message: message},
	})
}

// backAt returns the secrets that a job has, at the paths that an earlier spec has for them. Those that it does not have are kept, as it
// may go forward again, and no run is given them.
func backAt(was, have []cluster.Secret) []cluster.Secret {
	list := slices.Clone(have)
	for i := range list {
		list[i].Path = cluster.PathOf(was, list[i].Name)
	}
	place := func(s cluster.Secret) int {
		return slices.IndexFunc(was, func(w cluster.Secret) bool { return w.Name == s.Name })
	}
	slices.SortStableFunc(list, func(a, b cluster.Secret) int { return cmp.Compare(uint(place(a)), uint(place(b))) })
	return list
}

// secretsGone says which secrets of an earlier spec the job has no value of any more, "" if there are none.
func secretsGone(was, have []cluster.Secret) string {
	var gone []string
	for i := range was {
		if was[i].Path != "" && cluster.SecretOf(have, was[i].Name) == nil {
			gone = append(gone, was[i].Name)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	what := "secret " + gone[0]
	if len(gone) > 1 {
		what = "secrets " + strings.Join(gone, ", ")
	}
	return fmt.Sprintf("without %s, left out before: the values are gone until an update gives them again", what)
}

// AwaitsPromotion reports whether the canaries of the job's update are good and somebody has to say so.
func AwaitsPromotion(u *cluster.Update) bool {
	return u.HoldsCanaries() && u.Begun >= u.Policy.Canaries && len(u.Active) == 0
}

// batch returns how many instances are replaced at a time.
func (r *rollout) batch() uint32 { return r.u.Policy.Batch(r.instances) }

// more returns how many instances are to run beyond those wanted while it lasts: none where no more may run at once, or none of the
// others does, or is to; and no more than there are to change.
func (r *rollout) more() uint32 {
	if !r.u.Policy.StartFirst || r.job.Spec.Type.Service() && r.job.State().Terminal() {
		return 0
	}
	n := min(r.batch(), r.job.Spec.Instances, r.u.Total)
	if r.u.HoldsCanaries() {
		n = min(n, r.u.Policy.Canaries)
	}
	if most := r.job.Spec.Limits.MaxRunning; most > 0 {
		n = min(n, most-min(most, r.job.Spec.Instances))
	}
	return n
}

// begin touches further instances.
func (r *rollout) begin() error {
	if !r.allSeen() {
		switch want := r.more(); {
		case want > r.job.Surge && !r.u.Policy.InPlace:
			r.surge = want
			return nil // first they have to exist
		case want < r.job.Surge && r.sparesLast(): // what another policy, or limit, began with
			r.surge--
			return nil
		case want > 0:
			var err error
			if r.stood, err = r.bringSurge(); err != nil {
				return err
			}
		}
	}
	for len(r.u.Active) < int(r.batch()) && (!r.u.HoldsCanaries() || r.u.Begun < r.u.Policy.Canaries) {
		t := r.next()
		if t == nil {
			if want := r.more(); !r.allSeen() && want > r.job.Surge { // the next one needs a new run
				r.surge = want
			}
			return nil
		}
		if err := r.touch(t); err != nil {
			return err
		}
	}
	return nil
}

// bringSurge looks after the instances beyond those wanted, and reports whether all of them are good.
func (r *rollout) bringSurge() (ready bool, err error) {
	ready = true
	for i := r.job.Spec.Instances; i < r.job.Spec.Instances+r.surge; i++ {
		t := r.task(i)
		if t == nil || slices.Contains(r.u.Active, i) || slices.Contains(r.u.Failed, i) {
			ready = false
			continue
		}
		v, _ := verdictOn(r.asOfNow(t), r.job, &r.u, r.since(), r.tx.Now())
		switch {
		case !r.u.Reached(t) && t.Ready != 0 && !r.now().Bears(1):
			ready = false
		case !r.u.Reached(t):
			later := t.State == cluster.TaskPreempting
			err = r.tx.Emit(&cluster.TaskUpdated{Task: t.Key, Version: r.version(t), Reason: cluster.ReasonUpdated, Revive: true, Later: later})
			ready = false
		case v != good:
			r.u.Active, ready = insert(r.u.Active, i), false
		}
		if err != nil {
			return false, err
		}
	}
	return ready, nil
}

func insert(list []uint32, i uint32) []uint32 {
	at, found := slices.BinarySearch(list, i)
	if found {
		return list
	}
	return slices.Insert(list, at, i)
}

// allSeen reports whether every instance has been looked at.
func (r *rollout) allSeen() bool { return r.u.Second && r.u.Next >= r.beyond && r.late == nil }

// next returns the next instance that may be touched now and moves on behind it; nil if there is none, or none may be.
func (r *rollout) next() *cluster.Task {
	for {
		if r.u.Next >= r.beyond {
			if r.u.Second {
				return r.nextLate()
			}
			r.u.Second, r.u.Next = true, 0
		}
		t := r.task(r.u.Next)
		switch {
		case t == nil || !r.u.Covers(r.u.Next) || r.u.Reached(t), !r.u.Second && t.Ready != 0, r.u.Restarts() && r.stays(t):
		case !r.maySpare(t):
			return nil
		default:
			r.u.Next++
			return t
		}
		r.u.Next++
	}
}

// nextLate returns the instance that is late, if it may be touched now: it counts as done no longer.
func (r *rollout) nextLate() *cluster.Task {
	t := r.late
	if t == nil || !r.maySpare(t) {
		return nil
	}
	r.late = nil
	r.u.Good--
	return t
}

// maySpare reports whether the availability budget allows the instance to be replaced.
func (r *rollout) maySpare(t *cluster.Task) bool {
	j := r.now()
	switch {
	case t.Ready == 0 || !j.Spec.Type.Service() || r.small(t):
		return true
	case r.more() > 0:
		return r.stood && j.Away() < 0
	default:
		return j.Bears(1 - r.idle)
	}
}

// small reports whether the instance can have the new spec without a new run, and no pool goes beyond its limit by that.
func (r *rollout) small(t *cluster.Task) bool {
	if !r.u.Policy.InPlace || r.u.Restarts() || r.tx.State().CanChange(t, r.job) != nil {
		return false
	}
	if t.Ready == 0 && t.Failures > 0 || (t.Hold == nil || t.Home != "") && unplacedFrom(t, r.job, &r.u, 0) != 0 {
		return false // that it failed by the spec before, or how long it found no place, is not to count
	}
	if !t.State.Bound() {
		return t.Hold == nil || r.couldBeHeld(t) // it starts within the limits
	}
	over, _ := r.tx.State().OverLimit(r.job, r.job.Growth(t))
	return over == ""
}

// couldBeHeld reports whether the host that keeps room for an instance could keep what the new spec asks for: else it would keep it in vain.
func (r *rollout) couldBeHeld(t *cluster.Task) bool {
	h := r.tx.State().Host(t.Hold.Host)
	if h == nil {
		return false
	}
	_, could := couldHave(h, r.job.Spec, r.job.Spec.TaskOf(t.Key.Instance()))
	return could
}

// touch updates an instance.
func (r *rollout) touch(t *cluster.Task) error {
	e := &cluster.TaskUpdated{
		Task: t.Key, Version: r.version(t), Reason: cluster.ReasonUpdated, InPlace: r.small(t),
		Revive: t.State == cluster.TaskFailed && !r.job.Spec.Type.Service(), // who has ended in another way is not to run: it would wait again
	}
	makesWay := t.State == cluster.TaskPreempting // it has its grace, and the new spec with its next run
	e.Later = !e.InPlace && (r.stays(t) || GivenUp(t) || makesWay)
	waits := !t.State.Bound() && !t.State.Terminal()
	switch {
	case e.Later && !makesWay || r.idles(t) || t.State.Terminal() && !e.Revive, // nothing comes of it now
		waits && !r.job.Spec.Type.Service() && !r.u.HoldsCanaries(): // and work that waited already is not waited for
		r.u.Good++
	default:
		r.u.Begun++
		r.u.Active = insert(r.u.Active, t.Key.Instance())
	}
	return r.tx.Emit(e)
}

// finished reports whether nothing is left to do.
func (r *rollout) finished() bool { return r.allSeen() && len(r.u.Active) == 0 }

// stuck reports whether the update cannot go on, or has gone wrong with the last ones, since instances that keep failing are all that
// may be missing.
func (r *rollout) stuck() bool {
	if len(r.u.Active) > 0 || !r.job.Spec.Type.Service() || AwaitsPromotion(&r.u) || r.surge != r.job.Surge {
		return false // or it has just gone on
	}
	if r.allSeen() && len(r.u.Failed) == 0 {
		return false // whoever is missing is so for another reason
	}
	var down int64 // and nothing brings them back, or not for long
	for t := range r.tx.State().TasksOf(r.job.UID, 0) {
		late := lateFrom(r.asOfNow(t), r.job, &r.u, r.since())
		given := late != 0 && r.tx.Now() >= late
		if t.Ready == 0 && !t.Removed && !r.idles(t) && (t.State.Terminal() || given || t.Failures >= r.u.Policy.Attempts()) {
			down++
		}
	}
	may := r.job.Spec.MaxAway()
	if r.more() > 0 && r.surge > 0 {
		may = int64(r.surge)
	}
	return down > 0 && down >= may
}

// lateFrom returns from when on a task that is not ready counts as one that will not be, 0 if nobody can say.
func lateFrom(t *cluster.Task, j *cluster.Job, u *cluster.Update, since cluster.Time) cluster.Time {
	switch {
	case t.State.Vacating():
		return 0
	case t.State.Bound():
		return max(t.Placed, t.Unready, since).Add(u.Policy.HealthyDeadline())
	default:
		return unplacedFrom(t, j, u, since)
	}
}

// unplacedFrom returns from when on a task that waits for a place counts as one for which there is none, 0 if it does not wait for one,
// or may for as long as it takes. The time in which it backs off does not count.
func unplacedFrom(t *cluster.Task, j *cluster.Job, u *cluster.Update, since cluster.Time) cluster.Time {
	bears := u.Policy.PlacementDeadline(j.Spec.Type)
	if bears == 0 || !t.State.Waits() {
		return 0
	}
	waits := t.Since
	if t.Failures > 0 {
		waits = waits.Add(j.Spec.Backoff.After(t.Failures))
	}
	return max(waits, since).Add(bears)
}

// since returns from when on what an instance waits for may come about: not while no scheduler is there, or nothing is placed, or
// the update is paused.
func (r *rollout) since() cluster.Time {
	if r.tx.State().Mode().PlacesNothing() {
		return r.tx.Now()
	}
	return sinceOf(r.tx.State().ModeSince(), &r.u, r.tx.Now())
}

// sinceOf is since for a mode that has been what it is since a time. An update that was resumed at a time to come was so before the clock was
// set back.
func sinceOf(mode cluster.Time, u *cluster.Update, now cluster.Time) cluster.Time {
	if u.Resumed > now {
		return mode
	}
	return max(mode, u.Resumed)
}

func (r *rollout) asOfNow(t *cluster.Task) *cluster.Task {
	return asOf(t, r.tx.State().ModeSince(), r.tx.Now())
}

func (r *rollout) succeed() error {
	failed := uint32(len(r.u.Failed))
	r.u.Good = min(r.u.Good, r.instances-min(r.instances, failed)) // some that were good may have gone
	r.u.Total = min(r.u.Total, r.u.Good+failed)                    // the rest went meanwhile, or began anew by itself
	message := ""
	if len(r.u.Failed) > 0 {
		message = r.failures()
	}
	if r.u.Back() {
		if r.u.Message != "" { // why it was taken back
			message = r.u.Message
		}
		return r.end(cluster.RolledBack, r.u.Reason, message)
	}
	return r.end(cluster.UpdateSucceeded, "", message)
}

// catchUp gives the instances of a job whose runs went on while none could follow on their hosts their new runs, when one can again and
// the job bears it; else it does later, unless these runs end before. An update that is under way sees to it itself. Complexity: those that
// have another spec with their next run, and, if one of them may have it now, all.
func catchUp(tx *Tx, j *cluster.Job) (wrong error) {
	if j.Update.Live() || j.Stopping || tx.State().Mode().KillingStopped {
		return nil
	}
	r, surveyed := rollout{tx: tx, job: j}, false
	for _, k := range tx.State().Later(j.UID) {
		t := tx.State().Task(k)
		if !t.State.Bound() || t.State.Vacating() || !up(tx, t.Home) || r.stays(t) {
			continue
		}
		if !surveyed {
			r.survey()
			surveyed = true
		}
		if t.Ready == 0 || r.now().Bears(1-r.idle) {
			wrong = errors.Join(wrong, tx.Emit(&cluster.TaskUpdated{Task: k, Version: t.Next, Reason: cluster.ReasonUpdated}))
		}
	}
	return wrong
}

// concerns reports whether a change of the only host where an instance may run is one for the update of its job, or for all that are to
// catch up: neither waits any longer for a daemon whose host takes no work any more, nor a rolling restart for what it passes over; an
// update does for a daemon whose host has come back.
func concerns(tx *Tx, k cluster.TaskKey) bool {
	t, j := tx.State().Task(k), tx.State().Job(k.Job())
	switch {
	case t == nil:
		return false
	case t.Next != 0:
		return true
	case j.Update.Live():
		r := rollout{tx: tx, job: j}
		return t.Ready == 0 && j.Spec.Type == cluster.Daemon || r.stays(t)
	default:
		return j.Spec.Type == cluster.Daemon && !up(tx, t.Home)
	}
}

// trim takes away the instances that an update ran beyond those wanted, as far as those that are left are enough.
func (r *rollout) trim() error {
	if !r.sparesLast() {
		return nil
	}
	r.surge--
	return r.save()
}

// sparesLast reports whether the last of the instances beyond those wanted may go: it may stand in for one that failed.
func (r *rollout) sparesLast() bool {
	last := r.task(r.job.Spec.Instances + r.job.Surge - 1)
	return last == nil || last.Ready == 0 || r.job.Stopping || r.job.Bears(1)
}

// moves reports whether an update goes on by itself.
func moves(u *cluster.Update) bool { return u.Live() && u.State != cluster.UpdatePaused }

// touched yields the instances that an update has touched, but for those in seen, which is sorted; where it has touched none,
// all: it waits for others, which may take too long. Complexity: what it yields, and the numbers of the instances touched.
func touched(in *cluster.Snapshot, j *cluster.Job, seen []uint32) iter.Seq[*cluster.Task] {
	if len(j.Update.Active) == 0 {
		return in.TasksOf(j.UID, 0)
	}
	return func(yield func(*cluster.Task) bool) {
		for _, i := range j.Update.Active {
			if _, is := slices.BinarySearch(seen, i); is {
				continue
			}
			if t := in.Task(cluster.MakeTaskKey(j.UID, i)); t != nil && !yield(t) {
				return
			}
		}
	}
}

// touchEnds returns when an instance has to be looked at for an update if nothing happens before, 0 if it has not to be.
func touchEnds(in *cluster.Snapshot, t *cluster.Task, j *cluster.Job, now cluster.Time) cluster.Time {
	if !moves(j.Update) {
		return 0
	}
	since := sinceOf(in.ModeSince(), j.Update, now)
	if len(j.Update.Active) == 0 {
		if t.Ready == 0 {
			return lateFrom(t, j, j.Update, since)
		}
		return 0
	}
	if _, active := slices.BinarySearch(j.Update.Active, t.Key.Instance()); !active {
		return 0
	}
	_, until := verdictOn(t, j, j.Update, since, 0)
	return until
}

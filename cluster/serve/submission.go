package serve

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// submission is the command that adds jobs, all or none.
type submission struct {
	call  *call
	specs []*cluster.JobSpec
	path  func(int) string

	ring   *Keyring
	wanted []*sluicev1.JobSpec // what specs were made from, with the values of secrets
}

// run adds the jobs and returns what to answer of each.
func (s *submission) run(tx *Tx) ([]cluster.JobAnswer, error) {
	key := s.call.keyed.key
	if old := tx.State().Receipt(key, tx.Now()); old != nil {
		if !s.made(tx.State(), old) {
			return nil, keyConflict(key.Key)
		}
		return old.Jobs, nil
	}
	first := tx.State().NextJob()
	if err := s.add(tx); err != nil {
		return nil, err
	}
	answers := make([]cluster.JobAnswer, len(s.specs))
	for i, spec := range s.specs {
		j := tx.State().JobByName(spec.Name)
		answers[i] = cluster.JobAnswer{UID: j.UID, Version: j.Version, Revision: j.Revision, Created: j.UID >= first}
	}
	return answers, nil
}

// made reports whether a receipt without a digest is for jobs such as these, which are there still.
func (s *submission) made(in *cluster.State, r *cluster.Receipt) bool {
	if len(r.Jobs) != len(s.specs) {
		return false
	}
	for i, spec := range s.specs {
		j := in.Job(r.Jobs[i].UID)
		if j == nil || j.Spec.Name != spec.Name || j.Version == 1 && !s.same(j, i) {
			return false
		}
	}
	return true
}

// add emits the jobs that do not exist yet. A name in use is an error, save for the very same job, if the caller may see it.
func (s *submission) add(tx *Tx) error {
	sees := s.call.sight(tx.State())
	var taken, wrong violations
	var fresh []cluster.NewJob
	for i, spec := range s.specs {
		old := tx.State().JobByName(spec.Name)
		if old == nil || !sees(old) {
			spec.Pool = resolvePool(tx.State(), spec, child(s.path(i), "pool"), &wrong)
		}
		switch {
		case old == nil:
			checkDeadline(spec, tx.Now(), s.path(i), &wrong)
			uid := tx.State().NextJob() + cluster.JobUID(len(fresh))
			if err := s.ring.sealInto(uid, spec, nil, s.wanted[i], s.path(i)); err != nil {
				return err
			}
			fresh = append(fresh, cluster.NewJob{UID: uid, Spec: spec})
		case !sees(old):
			taken.Invalid(child(s.path(i), "name"), "is %s: the name is taken: choose another", quote(string(spec.Name)))
		case !s.again(old, i):
			instead := "update the job, or stop and delete it"
			if over(old) {
				instead = "or delete the job when it has ended"
			}
			taken.Invalid(child(s.path(i), "name"), "is %s: a job of that name exists with another spec: choose another name, %s", quote(string(spec.Name)), instead)
		}
	}
	switch {
	case !wrong.Empty():
		return wrong.Err()
	case !taken.Empty():
		return taken.status(codes.AlreadyExists)
	case len(fresh) == 0:
		return nil
	}
	if err := checkAwaited(tx.State(), fresh, sees); err != nil {
		return err
	}
	if err := checkPending(tx.State(), fresh); err != nil {
		return err
	}
	return tx.Emit(&cluster.JobsSubmitted{Jobs: fresh})
}

// checkDeadline refuses a deadline that a spec gives when it is over.
func checkDeadline(spec *cluster.JobSpec, now cluster.Time, path string, v *violations) {
	if at := spec.Limits.Deadline; at != 0 && at <= now {
		v.Invalid(child(path, "limits.deadline"), "is %s: that is past, and the job would end at once", at.Go().UTC().Format(time.RFC3339))
	}
}

// checkAwaited refuses jobs that wait for one that was deleted, or hidden from the caller, since the request was checked.
func checkAwaited(in *cluster.State, fresh []cluster.NewJob, sees func(*cluster.Job) bool) error {
	together := map[cluster.JobID]bool{}
	for _, n := range fresh {
		together[n.Spec.Name] = true
	}
	for _, n := range fresh {
		for _, d := range n.Spec.DependsOn {
			if !together[d.Job] && !isThere(in, d.Job, sees) {
				return resourceError(codes.FailedPrecondition, "job", string(n.Spec.Name), "it would wait for job %s, which is gone", quote(string(d.Job)))
			}
		}
	}
	return nil
}

// again reports whether the i-th spec of the request is that of a job of the same name. One that leaves the groups to the caller is
// the same whatever his are by now.
func (s *submission) again(j *cluster.Job, i int) bool {
	if spec := s.specs[i]; s.call.left[s.wanted[i]] && spec.Owner == j.Spec.Owner {
		spec.Groups = j.Spec.Groups
	}
	return s.same(j, i)
}

// same reports whether a job is what the i-th spec of the request asks for.
func (s *submission) same(j *cluster.Job, i int) bool {
	return sameSpec(j.Spec, s.specs[i]) && s.ring.sameSecrets(j, s.wanted[i])
}

// sameSpec compares what users see, so that it does not matter how a spec came to be in memory. A spec that names no pool
// is the same in any pool.
func sameSpec(have, want *cluster.JobSpec) bool {
	a, b := jobSpecTo(have), jobSpecTo(want)
	if want.Pool == "" {
		b.Pool = a.Pool
	}
	return proto.Equal(a, b)
}

// sameButInstances is sameSpec for any number of instances.
func sameButInstances(have, want *cluster.JobSpec) bool {
	scaled := *want
	scaled.Instances = have.Instances
	return sameSpec(have, &scaled)
}

// single and numbered give the field path of the i-th spec of a request.
func single(int) string { return "spec" }

func numbered(i int) string { return item("specs", i) }

// checkSubmission validates the specs of a request, which are submitted together.
func (a *api) checkSubmission(c *call, specs []*sluicev1.JobSpec, path func(int) string, v *violations) {
	checkSpecs(c, a.s.Snapshot(), specs, path, v)
	for i, p := range specs[:min(len(specs), maxGraphJobs)] {
		a.checkSecrets(p, path(i), v)
		if p.GetRevocable() && a.s.config.SlackWindow <= 0 {
			v.Unsupported(child(path(i), "revocable"), "this server lends nothing: scheduler.slack_window is 0")
		}
	}
}

// checkSpecs is checkSubmission as far as it does not depend on how the scheduler is configured.
func checkSpecs(c *call, snapshot *cluster.Snapshot, specs []*sluicev1.JobSpec, path func(int) string, v *violations) {
	switch {
	case len(specs) == 0:
		v.Invalid("specs", "is required: at least one job")
	case len(specs) > maxGraphJobs:
		v.Invalid("specs", "has %d jobs: at most %d", len(specs), maxGraphJobs)
		return
	}
	sees := c.sight(snapshot)
	hosts := &kinds{snapshot: snapshot}
	first := map[string]int{}
	var instances uint64
	for i, p := range specs {
		if p == nil {
			v.Invalid(path(i), "is required")
			continue
		}
		spec := jobSpecFrom(p, path(i), v)
		instances += uint64(spec.Instances)
		if k, twice := first[p.Name]; twice && p.Name != "" {
			v.Invalid(child(path(i), "name"), "is %s, as that of %s: names are unique", quote(p.Name), path(k))
		} else {
			first[p.Name] = i
		}
		if snapshot.JobByName(spec.Name) == nil {
			checkRanges(spec, path(i), v)
		}
		checkCapabilities(hosts, spec, path(i), v)
		if !isThere(snapshot, spec.Name, sees) && (p.Pool == "" || checkPoolPath(p.Pool, "", new(violations))) {
			resolvePool(snapshot, spec, child(path(i), "pool"), v) // that of a job that exists stays
		}
	}
	if instances > maxGraphInstances {
		v.Invalid("specs", "have %d instances together: at most %d", instances, maxGraphInstances)
	}
	g := dependencies{specs: specs, path: path, first: first, snapshot: snapshot, sees: sees, v: v}
	g.check()
}

// checkRanges refuses what a new job says of instances that it does not have. One that exists may have had them, and may have
// them again: how many there are is another matter than what each of them is.
func checkRanges(job *cluster.JobSpec, path string, v *violations) {
	if job.Type == cluster.Daemon {
		return // which has no number of them
	}
	check := func(last uint32, at string) {
		if last >= max(1, job.Instances) {
			v.Invalid(child(at, "instances.last"), "is %d: the last instance is %d", last, max(1, job.Instances)-1)
		}
	}
	for i := range job.Overrides {
		check(job.Overrides[i].Last, item(child(path, "overrides"), i))
	}
	for i := range job.Inputs {
		if last := job.Inputs[i].Last; last != allInstances {
			check(last, item(child(path, "locality.inputs"), i))
		}
	}
}

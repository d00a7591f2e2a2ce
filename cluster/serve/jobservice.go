package serve

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type jobService struct {
	sluicev1.UnimplementedJobServiceServer
	*api
}

// SubmitJob implements sluicev1.JobServiceServer.
func (a *jobService) SubmitJob(ctx context.Context, r *sluicev1.SubmitJobRequest) (*sluicev1.SubmitJobResponse, error) {
	answers, err := a.submit(ctx, []*sluicev1.JobSpec{r.Spec}, single)
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// SubmitJobs implements sluicev1.JobServiceServer.
func (a *jobService) SubmitJobs(ctx context.Context, r *sluicev1.SubmitJobsRequest) (*sluicev1.SubmitJobsResponse, error) {
	answers, err := a.submit(ctx, r.Specs, numbered)
	if err != nil {
		return nil, err
	}
	return &sluicev1.SubmitJobsResponse{Jobs: answers}, nil
}

func (a *jobService) submit(ctx context.Context, wanted []*sluicev1.JobSpec, path func(int) string) ([]*sluicev1.SubmitJobResponse, error) {
	sub := submission{call: callOf(ctx), path: path, ring: a.s.config.Secrets, wanted: wanted}
	for i, p := range wanted {
		sub.specs = append(sub.specs, jobSpecFrom(p, path(i), new(violations)))
	}
	jobs, _, err := a.once(ctx, sub.run)
	if err != nil {
		return nil, err
	}
	answers := make([]*sluicev1.SubmitJobResponse, len(jobs))
	for i, j := range jobs {
		answers[i] = &sluicev1.SubmitJobResponse{
			Name: wanted[i].GetName(), Uid: uint32(j.UID), Version: j.Version, Created: j.Created, Revision: j.Revision,
		}
	}
	return answers, nil
}

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
			taken.Invalid(child(s.path(i), "name"),
				"is %s: a job of that name exists with another spec: choose another name, update the job or delete it", quote(string(spec.Name)))
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

// GetJob implements sluicev1.JobServiceServer.
func (a *jobService) GetJob(_ context.Context, r *sluicev1.GetJobRequest) (*sluicev1.GetJobResponse, error) {
	snapshot := a.s.Snapshot()
	j, err := findJob(snapshot, r.Name)
	if err != nil {
		return nil, err
	}
	p := jobTo(j)
	p.Progress = a.s.jobProgress(snapshot, j)
	return &sluicev1.GetJobResponse{Job: p}, nil
}

// StopJob implements sluicev1.JobServiceServer.
func (a *jobService) StopJob(ctx context.Context, r *sluicev1.StopJobRequest) (*sluicev1.StopJobResponse, error) {
	job, err := a.changeJob(ctx, r.Name, r.ExpectedVersion, func(tx *Tx, j *cluster.Job) error {
		jobs, who := []*cluster.Job{j}, callOf(ctx).who
		if r.Cascade {
			sees := who.Sight(tx.State())
			for _, other := range rules.Dependents(tx.State(), j) {
				if sees(other) {
					jobs = append(jobs, other)
				}
			}
		}
		for _, other := range jobs[1:] {
			if !over(other) && !who.MayChange(tx.State(), other) {
				return denied(who, "stop all jobs that depend on "+quote(r.Name), "their owner, or who administers their pools")
			}
		}
		for _, j := range jobs {
			if over(j) {
				continue
			}
			if err := tx.Emit(&cluster.JobStopping{Job: j.UID}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.StopJobResponse{Job: job}, nil
}

// DeleteJob implements sluicev1.JobServiceServer.
func (a *jobService) DeleteJob(ctx context.Context, r *sluicev1.DeleteJobRequest) (*sluicev1.DeleteJobResponse, error) {
	var revision uint64
	_, err := a.changeJob(ctx, r.Name, r.ExpectedVersion, func(tx *Tx, j *cluster.Job) error {
		if !j.State().Terminal() {
			return resourceError(codes.FailedPrecondition, "job", r.Name, "it has not ended: stop it first")
		}
		if waiting := tx.State().WaitingFor(j.Spec.Name); len(waiting) > 0 {
			first := tx.State().Job(waiting[0])
			if !callOf(ctx).who.MaySee(tx.State(), first) {
				return resourceError(codes.FailedPrecondition, "job", r.Name, "a job that the caller may not see waits for it: try again when that has ended")
			}
			how := "stop"
			if first.State().Terminal() { // each of its tasks was stopped, and it may still be scaled up
				how = "delete"
			}
			return resourceError(codes.FailedPrecondition, "job", r.Name, "job %s waits for it: %s that first", quote(string(first.Spec.Name)), how)
		}
		err := tx.Emit(&cluster.JobDeleted{Job: j.UID})
		revision = tx.State().Revision()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.DeleteJobResponse{Revision: revision, Name: r.Name}, nil
}

// changeJob runs a change of one job in the writer and returns the job as it is afterwards, nil if it is gone.
func (a *jobService) changeJob(ctx context.Context, name string, version *uint64, change func(*Tx, *cluster.Job) error) (*sluicev1.Job, error) {
	var after *cluster.Job
	err := a.do(ctx, func(tx *Tx) error {
		j, err := findJob(tx.State(), name)
		if err != nil {
			return err
		}
		if err := checkJobVersion(j, version); err != nil {
			return err
		}
		if err := change(tx, j); err != nil {
			return err
		}
		after = tx.State().Job(j.UID)
		return nil
	})
	if err != nil || after == nil {
		return nil, err
	}
	return jobTo(after), nil
}

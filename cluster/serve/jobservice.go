package serve

import (
	"context"

	"google.golang.org/grpc/codes"

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

// GetJob implements sluicev1.JobServiceServer.
func (a *jobService) GetJob(_ context.Context, r *sluicev1.GetJobRequest) (*sluicev1.GetJobResponse, error) {
	snapshot := a.s.Snapshot()
	j, err := findJob(snapshot, r.Name)
	if err != nil {
		return nil, err
	}
	p := jobTo(j)
	p.Progress = a.s.jobProgress(snapshot, j)
	if p.Update != nil {
		p.Update.WaitsFor = rules.UpdateAwaits(snapshot, j, a.s.clock())
	}
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

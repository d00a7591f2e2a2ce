package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// UpdateJob implements sluicev1.JobServiceServer.
func (a *jobService) UpdateJob(ctx context.Context, r *sluicev1.UpdateJobRequest) (*sluicev1.UpdateJobResponse, error) {
	spec := jobSpecFrom(r.Spec, "spec", new(violations))
	var job *sluicev1.Job
	answered, again, err := a.once(ctx, func(tx *Tx) ([]cluster.JobAnswer, error) {
		j, err := findJob(tx.State(), r.Spec.GetName())
		if err != nil {
			return nil, err
		}
		if job, err = a.update(tx, j, spec, r); err != nil {
			return nil, err
		}
		return []cluster.JobAnswer{{UID: j.UID, Version: job.Version, Revision: job.Revision}}, nil
	})
	switch {
	case err != nil:
		return nil, err
	case again:
		job = a.updated(callOf(ctx).who, answered[0], spec)
	}
	return &sluicev1.UpdateJobResponse{Job: job}, nil
}

// update gives a job a new spec and returns it as it is then, or would be.
func (a *jobService) update(tx *Tx, j *cluster.Job, spec *cluster.JobSpec, r *sluicev1.UpdateJobRequest) (*sluicev1.Job, error) {
	if spec.Pool == "" {
		spec.Pool = j.Spec.Pool
	}
	if spec.Owner == "" {
		if spec.Owner = j.Spec.Owner; len(spec.Groups) == 0 {
			spec.Groups = j.Spec.Groups
		}
	}
	if err := checkJobVersion(j, &r.ExpectedVersion); err != nil {
		return nil, err
	}
	e, err := changeOf(tx, a.s.config.Secrets, j, spec, r.Spec, "spec")
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return jobTo(j), nil
	case r.DryRun:
		would := jobTo(j)
		would.Spec, would.Version = jobSpecTo(spec), j.Version+1
		return would, nil
	}
	e.Description = r.Description
	if err := tx.Emit(e); err != nil {
		return nil, err
	}
	return jobTo(tx.State().Job(j.UID)), nil
}

// changeOf returns the event that gives a job a new spec, made from p, or nil where that changes nothing.
func changeOf(tx *Tx, ring *Keyring, j *cluster.Job, spec *cluster.JobSpec, p *sluicev1.JobSpec, at string) (*cluster.JobUpdated, error) {
	if over(j) {
		return nil, isOver(j)
	}
	if sameSpec(j.Spec, spec) && ring.sameSecrets(j, p) && left(tx.State(), j) == 0 {
		return nil, nil
	}
	if err := ring.sealInto(j.UID, spec, j.Spec, p, at); err != nil {
		return nil, err
	}
	if err := checkUpdate(j.Spec, spec, tx.Now()); err != nil {
		return nil, err
	}
	if err := checkMayRun(tx, j, spec); err != nil {
		return nil, err
	}
	update := updateBy(tx.State(), j, spec)
	keepSecrets(j, spec, update)
	return &cluster.JobUpdated{Job: j.UID, Spec: spec, Update: update}, nil
}

// over reports whether a job can be changed no more.
func over(j *cluster.Job) bool { return j.Stopping || j.State().Terminal() && !j.Spec.Type.Service() }

func isOver(j *cluster.Job) error {
	return resourceError(codes.FailedPrecondition, "job", string(j.Spec.Name),
		"it has ended or is being stopped: once it is deleted, a job of its name can be submitted")
}

// updated returns a job that was updated to a spec before, as it is now. Of one that has gone, or that the caller may not see any
// more, it returns what was answered then, as far as that is known.
func (a *jobService) updated(who *access.Caller, then cluster.JobAnswer, spec *cluster.JobSpec) *sluicev1.Job {
	if in := a.s.Snapshot(); in.Job(then.UID) != nil && who.MaySee(in, in.Job(then.UID)) {
		return jobTo(in.Job(then.UID))
	}
	return &sluicev1.Job{
		Name: string(spec.Name), Uid: uint32(then.UID), Spec: jobSpecTo(spec), Version: then.Version, Revision: then.Revision,
	}
}

// left returns the version of an instance that is wanted and that the job's last update left by another spec than the job's, since it
// has failed or was aborted; 0 if there is none. A restart after it has changed nothing about that. Complexity: the tasks of such a job.
func left(in *cluster.State, j *cluster.Job) (version uint64) {
	if u := j.Update; u == nil || u.State != cluster.UpdateFailed && u.State != cluster.UpdateAborted && !u.Restarts() {
		return 0
	}
	for t := range in.TasksOf(j.UID, 0) {
		if t.Version != j.Version && t.Next != j.Version && !t.Removed && t.Copy == nil && j.Spec.Wants(t.Key.Instance()) {
			return t.Version
		}
	}
	return 0
}

// updateBy returns the update that brings a job to a spec, nil where only the number of instances changes. An update that is under way
// is superseded, and one that left instances is begun again. A spec whose update did not come to its end is none to return to: it has
// not shown that it is any good.
func updateBy(in *cluster.State, j *cluster.Job, spec *cluster.JobSpec) *cluster.Update {
	same, before := sameButInstances(j.Spec, spec), left(in, j)
	if same && (spec.Instances != j.Spec.Instances || before == 0) {
		return nil
	}
	u := &cluster.Update{From: j.LastGood(), State: cluster.UpdateInitialized}
	if last := j.Update; last != nil && last.Restarts() && before != 0 {
		u.From = cmp.Or(last.Safe, before)
	}
	if spec.Update != nil {
		u.Policy = *spec.Update
	}
	return u
}

// checkUpdate refuses what makes another job of a job, and what would tear a gang apart.
func checkUpdate(from, to *cluster.JobSpec, now cluster.Time) error {
	const never = "does not change in a job that exists: submit another job"
	var v violations
	if from.Limits.Deadline != to.Limits.Deadline {
		checkDeadline(to, now, "spec", &v)
	}
	if from.Type != to.Type {
		v.Invalid("spec.type", never)
	}
	if from.Pool != to.Pool {
		v.Invalid("spec.pool", "is %s, and the job stays in %s: leave pool out, or submit another job", quote(string(to.Pool)), quote(string(from.Pool)))
	}
	if from.Revocable != to.Revocable {
		v.Invalid("spec.revocable", never)
	}
	if !slices.Equal(from.DependsOn, to.DependsOn) {
		v.Invalid("spec.depends_on", never)
	}
	if (from.Gang == nil) != (to.Gang == nil) || from.Gang != nil && *from.Gang != *to.Gang {
		v.Invalid("spec.gang", never)
	}
	if from.Controller != to.Controller || from.APIAccess != to.APIAccess {
		v.Invalid("spec.controller", never)
	}
	if from.Gang != nil {
		for i := range min(from.Instances, to.Instances) {
			if from.ChangeOf(to, i) != cluster.NoChange {
				v.Invalid("spec.task", "changes what instance %d runs: the tasks of a gang start together, so stop the job and submit it anew", i)
				break
			}
		}
	}
	return v.Err()
}

// RestartJob implements sluicev1.JobServiceServer.
func (a *jobService) RestartJob(ctx context.Context, r *sluicev1.RestartJobRequest) (*sluicev1.RestartJobResponse, error) {
	only := rangesFrom(r.Instances, new(violations))
	job, err := a.changeJob(ctx, r.Name, r.ExpectedVersion, func(tx *Tx, j *cluster.Job) error {
		switch {
		case over(j):
			return isOver(j)
		case j.Update.Live():
			return resourceError(codes.FailedPrecondition, "job", r.Name, "an update is under way: wait for its end or abort it")
		}
		if err := checkMayRun(tx, j, j.Spec); err != nil {
			return err
		}
		for i, o := range only {
			switch at := item("instances", i); {
			case !j.Spec.Wants(o.Last):
				return fieldError(codes.InvalidArgument, child(at, "last"), "is %d: the last instance is %d", o.Last, j.Spec.Instances-1)
			case j.Spec.Type == cluster.Daemon && !hasWithin(tx.State(), j, o):
				return fieldError(codes.InvalidArgument, at, "are %d to %d: the daemon has none of them now", o.First, o.Last)
			}
		}
		u := cluster.Update{From: j.Version, To: j.Version, State: cluster.UpdateInitialized, Only: only, Reason: cluster.ReasonRequested}
		if p := j.Spec.Update; p != nil {
			u.Policy = *p
			u.Policy.Canaries, u.Policy.StartPaused = 0, false
		}
		return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge, Begins: true})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.RestartJobResponse{Job: job}, nil
}

// hasWithin reports whether the job has an instance in the range.
func hasWithin(in *cluster.State, j *cluster.Job, r cluster.InstanceRange) bool {
	for t := range in.TasksOf(j.UID, r.First) {
		return t.Key.Instance() <= r.Last
	}
	return false
}

// maxRanges bounds the ranges of instances of a request.
const maxRanges = 1000

func rangesFrom(list []*sluicev1.InstanceRange, v *violations) []cluster.InstanceRange {
	if len(list) > maxRanges {
		v.Invalid("instances", "has %d entries: at most %d", len(list), maxRanges)
		return nil
	}
	var all []cluster.InstanceRange
	for i, r := range list {
		if r.GetLast() < r.GetFirst() {
			v.Invalid(child(item("instances", i), "last"), "is %d: not below first, which is %d", r.GetLast(), r.GetFirst())
		}
		all = append(all, cluster.InstanceRange{First: r.GetFirst(), Last: r.GetLast()})
	}
	return all
}

func checkControl(r *sluicev1.ControlUpdateRequest, v *violations) {
	if r.Action == sluicev1.ControlUpdateRequest_ACTION_UNSPECIFIED {
		v.Invalid("action", "is required: PAUSE, RESUME, ABORT, PROMOTE or ROLLBACK")
	}
	if r.ToVersion != nil && r.Action != sluicev1.ControlUpdateRequest_ROLLBACK {
		v.Invalid("to_version", "is for ROLLBACK only")
	}
}

// ControlUpdate implements sluicev1.JobServiceServer. What is so already has no effect.
func (a *jobService) ControlUpdate(ctx context.Context, r *sluicev1.ControlUpdateRequest) (*sluicev1.ControlUpdateResponse, error) {
	job, err := a.changeJob(ctx, r.Name, nil, func(tx *Tx, j *cluster.Job) error {
		switch r.Action {
		case sluicev1.ControlUpdateRequest_PAUSE, sluicev1.ControlUpdateRequest_ABORT:
		default:
			if err := checkMayRun(tx, j, j.Spec); err != nil {
				return err
			}
		}
		if r.Action == sluicev1.ControlUpdateRequest_ROLLBACK {
			return rollback(tx, j, r.ToVersion)
		}
		return steer(tx, j, r.Action)
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.ControlUpdateResponse{Job: job}, nil
}

// steer pauses, resumes, aborts or promotes the job's update.
func steer(tx *Tx, j *cluster.Job, action sluicev1.ControlUpdateRequest_Action) error {
	refuse := func(why string) error {
		return resourceError(codes.FailedPrecondition, "job", string(j.Spec.Name), "%s", why)
	}
	if j.Update == nil {
		return refuse("it was never updated")
	}
	u := *j.Update
	switch action {
	case sluicev1.ControlUpdateRequest_ABORT:
		if u.State == cluster.UpdateAborted {
			return nil
		}
		u.End(tx.Now(), cluster.UpdateAborted, cluster.ReasonRequested)
	case sluicev1.ControlUpdateRequest_PAUSE:
		if u.State == cluster.UpdatePaused {
			return nil
		}
		u.State, u.Resume = cluster.UpdatePaused, u.State
	case sluicev1.ControlUpdateRequest_RESUME:
		if u.Live() && u.State != cluster.UpdatePaused {
			return nil
		}
		u.State, u.Resume = max(u.Resume, cluster.RollingForward), cluster.UpdateInitialized // it may have been paused before it began
	case sluicev1.ControlUpdateRequest_PROMOTE:
		switch {
		case u.Live() && u.Promoted:
			return nil
		case u.Live() && !rules.AwaitsPromotion(&u):
			return refuse("no canaries of its update wait for it")
		}
		u.Promoted = true
	}
	if !j.Update.Live() {
		return refuse(fmt.Sprintf("its last update is over: %v", j.Update.State))
	}
	return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge})
}

// rollback begins the way back to an earlier version: that which the last update came from where none is named.
func rollback(tx *Tx, j *cluster.Job, to *uint64) error {
	name := string(j.Spec.Name)
	var target uint64
	switch u := j.Update; {
	case to != nil:
		target = *to
	case u.Live() && u.Back():
		return nil
	case u != nil && u.Back():
		return resourceError(codes.FailedPrecondition, "job", name, "its last update was a rollback: name the version to return to")
	case u != nil && !u.Restarts():
		target = u.From
	default:
		target = lastOther(j)
	}
	switch {
	case over(j):
		return isOver(j)
	case target == 0 && to == nil:
		return resourceError(codes.FailedPrecondition, "job", name,
			"no version that is kept differs from the present one by more than the number of instances: there is nothing to return to")
	case target == j.Version:
		return resourceError(codes.FailedPrecondition, "job", name, "version %d is the present one", target)
	case j.SpecOf(target) == nil:
		return resourceError(codes.FailedPrecondition, "job", name, "version %d is not kept: its history lists those that are", target)
	}
	return rules.Rollback(tx, j, target, cluster.ReasonRequested, "")
}

// lastOther returns the last version that differs from the present one by more than the number of instances, 0 if none is kept.
func lastOther(j *cluster.Job) uint64 {
	for _, v := range slices.Backward(j.Past) {
		if !sameButInstances(j.Spec, v.Spec) {
			return v.Number
		}
	}
	return 0
}

// ListJobVersions implements sluicev1.JobServiceServer.
func (a *jobService) ListJobVersions(_ context.Context, r *sluicev1.ListJobVersionsRequest) (*sluicev1.ListJobVersionsResponse, error) {
	j, err := findJob(a.s.Snapshot(), r.Name)
	if err != nil {
		return nil, err
	}
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	before, err := strconv.ParseUint(page.after, 10, 64)
	if err != nil {
		before = j.Version + 1 // the first page
	}
	answer := &sluicev1.ListJobVersionsResponse{}
	for _, v := range slices.Backward(j.Versions()) {
		if v.Number >= before {
			continue
		}
		record := &sluicev1.JobVersion{Version: v.Number, Spec: jobSpecTo(v.Spec), CreateTime: timeTo(v.At), Description: v.Description}
		if !page.Add(record) {
			last := answer.Versions[len(answer.Versions)-1]
			answer.NextPageToken = page.Token(strconv.FormatUint(last.Version, 10))
			break
		}
		answer.Versions = append(answer.Versions, record)
	}
	return answer, nil
}

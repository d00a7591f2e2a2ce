package serve

import (
	"strings"

	"google.golang.org/protobuf/proto"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// check refuses a request of the API that asks for what the server does not know, does not support or does not allow,
// with all that is wrong in one error. It runs before every handler, so that handlers convert without looking back;
// what depends on the state is looked up in the latest snapshot, and decided once more where the state is changed.
func (a *api) check(c *call, request proto.Message) error {
	var v violations
	if _, creates := request.(*sluicev1.CreateVolumeRequest); creates { // whatever is in it
		v.Unsupported("spec", "CreateVolume is for later: the first task that mounts a volume on a host makes it there, so name it in a job's task.volumes")
		return v.Err()
	}
	inspect(request.ProtoReflect(), "", &v)
	a.validate(c, request, &v)
	return v.Err()
}

func (a *api) validate(c *call, request proto.Message, v *violations) {
	switch r := request.(type) {
	case *sluicev1.SubmitJobRequest:
		checkText(r.IdempotencyKey, "idempotency_key", maxIdempotencyKey, v)
		a.checkSubmission(c, []*sluicev1.JobSpec{r.Spec}, single, v)
	case *sluicev1.SubmitJobsRequest:
		checkText(r.IdempotencyKey, "idempotency_key", maxIdempotencyKey, v)
		a.checkSubmission(c, r.Specs, numbered, v)
	case *sluicev1.PlanJobsRequest:
		checkText(r.CostModel, "cost_model", maxReason, v)
		a.checkSubmission(c, r.Specs, numbered, v)
		if n := instancesOf(r.Specs); n > maxPlanned {
			v.Invalid("specs", "have %d instances together: a plan shows at most %d", n, maxPlanned)
		}
	case *sluicev1.UpdateJobRequest:
		jobSpecFrom(r.Spec, "spec", v)
		a.checkSecrets(r.Spec, "spec", v)
		checkVersion(r.ExpectedVersion, v)
		checkText(r.IdempotencyKey, "idempotency_key", maxIdempotencyKey, v)
		checkText(r.Description, "description", maxDescription, v)
	case *sluicev1.RestartJobRequest:
		checkName(r.Name, "name", v)
		rangesFrom(r.Instances, v)
	case *sluicev1.ControlUpdateRequest:
		checkName(r.Name, "name", v)
		checkControl(r, v)
	case *sluicev1.ListEndpointsRequest:
		checkName(r.Job, "job", v)
	case *sluicev1.GetJobRequest, *sluicev1.StopJobRequest, *sluicev1.DeleteJobRequest, *sluicev1.ListJobVersionsRequest:
		checkName(r.(nameRequest).GetName(), "name", v)
	case interface{ GetFilter() *sluicev1.JobFilter }:
		checkFilter(r.GetFilter(), v)

	case *sluicev1.ListTasksRequest:
		if r.Job != "" {
			checkName(r.Job, "job", v)
		}
		if r.Pool != "" {
			checkPoolPath(r.Pool, "pool", v)
		}
		checkHost(r.Host, "host", v)
	case *sluicev1.TaskLogsRequest:
		checkName(r.Job, "job", v)
		checkLogRequest(r, v)
	case *sluicev1.ExportGraphRequest:
		checkExport(r, v)
	case *sluicev1.CreateTokenRequest:
		checkToken(r, v)
	case *sluicev1.ListTokensRequest:
		checkText(r.User, "user", maxOwner, v)
	case *sluicev1.RevokeTokenRequest:
		checkRequired(r.Id, "id", v)
	case *sluicev1.GrantRoleRequest:
		bindingFrom(r.Binding, v)
	case *sluicev1.RevokeRoleRequest:
		bindingFrom(r.Binding, v)
	case *sluicev1.SetModeRequest:
		if r.Mode == nil {
			v.Invalid("mode", "is required: what is to be switched off from now on")
		}
	case taskRequest: // every other one that names a task
		checkName(r.GetJob(), "job", v)

	case *sluicev1.CreatePoolRequest:
		checkPoolSpec(r.Spec, v)
	case *sluicev1.UpdatePoolRequest:
		checkPoolSpec(r.Spec, v)
		checkVersion(r.ExpectedVersion, v)
	case *sluicev1.GetPoolRequest, *sluicev1.DrainPoolRequest, *sluicev1.DeletePoolRequest:
		checkPoolPath(string(poolPathOf(r)), "path", v)
	case *sluicev1.SetQueueMappingRequest:
		mappingFrom(r.Mapping, "mapping", v)
	case *sluicev1.ListUsageRequest:
		checkUsage(r, v)
	case *sluicev1.ListPoolsRequest:
		if r.Path != "" {
			checkPoolPath(r.Path, "path", v)
		}

	case *sluicev1.DrainHostRequest:
		checkRequired(r.Name, "name", v)
		checkText(r.Reason, "reason", maxReason, v)
		durationFrom(r.Deadline, 0, maxDrain, "deadline", v)
	case *sluicev1.GetHostRequest, *sluicev1.ResumeHostRequest, *sluicev1.ForgetHostRequest,
		*sluicev1.GetVolumeRequest, *sluicev1.DeleteVolumeRequest:
		checkRequired(r.(nameRequest).GetName(), "name", v)
	case *sluicev1.ListVolumesRequest:
		checkHost(r.Host, "host", v)
	}
	if r, paged := request.(pagedRequest); paged {
		checkPage(r, v)
	}
}

// nameRequest is a request that names what it is about in its field name.
type nameRequest interface{ GetName() string }

// taskRequest is a request about one task.
type taskRequest interface {
	GetJob() string
	GetInstance() uint32
}

// checkHost refuses what cannot be a host: nothing is there, or was, and to list that would say that the host is empty.
func checkHost(s, path string, v *violations) {
	if s != "" && !strings.Contains(s, "/") {
		v.Invalid(path, "is %s: hosts are named shard/name", quote(s))
	}
}

func checkRequired(s, path string, v *violations) {
	if s == "" {
		v.Invalid(path, "is required")
	}
}

func checkVersion(version uint64, v *violations) {
	if version == 0 {
		v.Invalid("expected_version", "is required: the version that the new spec was made from")
	}
}

func checkPoolSpec(p *sluicev1.PoolSpec, v *violations) {
	poolFrom(p, "spec", v)
}

func checkFilter(f *sluicev1.JobFilter, v *violations) {
	if len(f.GetNames()) > maxFilterNames {
		v.Invalid("filter.names", "has %d entries: at most %d", len(f.Names), maxFilterNames)
	}
	if p := f.GetPool(); p != "" {
		checkPoolPath(p, "filter.pool", v)
	}
}

func checkLogRequest(r *sluicev1.TaskLogsRequest, v *violations) {
	if r.Run != nil && *r.Run == 0 {
		v.Invalid("run", "is 0: runs count from 1")
	}
	checkOffset(r.StdoutOffset, "stdout_offset", v)
	checkOffset(r.StderrOffset, "stderr_offset", v)
	if t, ok := r.Tail.(*sluicev1.TaskLogsRequest_TailBytes); ok && t.TailBytes < 0 {
		v.Invalid("tail_bytes", "is %d: 0 or more", t.TailBytes)
	}
}

func checkOffset(n *int64, path string, v *violations) {
	if n != nil && *n < 0 {
		v.Invalid(path, "is %d: bytes from the beginning, 0 or more", *n)
	}
}

package serve

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// withHidden is a guarded server where ann has the job "secret" in the pool "root/secret", which only she and operators may know;
// bob may submit elsewhere.
func withHidden(t *testing.T) (a *apiTest, ann, bob context.Context, audit *syncBuffer) {
	t.Helper()
	a, audit = newGuarded(t, Limits{})
	for _, p := range []string{"root/secret", "root/open"} {
		spec := &sluicev1.PoolSpec{Path: p}
		if p == "root/secret" {
			spec.Access = []*sluicev1.AccessRule{
				{Permission: sluicev1.AccessRule_VIEW, Users: []string{"ann"}}, {Permission: sluicev1.AccessRule_SUBMIT, Users: []string{"ann"}},
			}
		}
		_, err := a.pools.CreatePool(a.as(t, "olga", "ops"), &sluicev1.CreatePoolRequest{Spec: spec})
		require.NoError(t, err)
	}
	a.grant(t, cluster.Submitter, "bob", "root")
	ann, bob = a.as(t, "ann"), a.as(t, "bob")
	spec := sleepJob("secret")
	spec.Pool = "root/secret"
	_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	return a, ann, bob, audit
}

// To whoever may not see a job, or may not know a pool, every answer is the one about a name that there is not; and where a
// request is refused for what is hidden, the audit has a line.
func TestWhatIsHiddenIsAsIfItWereNotThere(t *testing.T) {
	a, _, bob, audit := withHidden(t)
	job := func(name, on string) *sluicev1.JobSpec {
		spec := sleepJob(name)
		spec.Pool = "root/open"
		if on != "" {
			spec.DependsOn = []*sluicev1.Dependency{{Job: on}}
		}
		return spec
	}
	for what, ask := range map[string]func(name string) error{
		"submit what depends on it": func(name string) error {
			_, err := a.jobs.SubmitJob(bob, &sluicev1.SubmitJobRequest{Spec: job("bobs", name)})
			return err
		},
		"and is wrong beside": func(name string) error {
			spec := job("bobs", name)
			spec.Name, spec.Priority = "", -1
			_, err := a.jobs.SubmitJob(bob, &sluicev1.SubmitJobRequest{Spec: spec})
			return err
		},
		"plan what depends on it": func(name string) error {
			_, err := a.jobs.PlanJobs(bob, &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{job("bobs", name)}})
			return err
		},
		"get it": func(name string) error {
			_, err := a.jobs.GetJob(bob, &sluicev1.GetJobRequest{Name: name})
			return err
		},
		"ask wrongly": func(name string) error {
			_, err := a.logs(t, bob, &sluicev1.TaskLogsRequest{Job: name, StdoutOffset: proto.Int64(-1)})
			return err
		},
		"list the pool": func(name string) error {
			_, err := a.pools.ListPools(bob, &sluicev1.ListPoolsRequest{Path: "root/" + name})
			return err
		},
		"list the pool wrongly": func(name string) error {
			_, err := a.pools.ListPools(bob, &sluicev1.ListPoolsRequest{Path: "root/" + name, PageSize: proto.Uint32(5000)})
			return err
		},
		"get the pool": func(name string) error {
			_, err := a.pools.GetPool(bob, &sluicev1.GetPoolRequest{Path: "root/" + name})
			return err
		},
		"list its jobs": func(name string) error {
			_, err := a.jobs.ListJobs(bob, &sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{Pool: "root/" + name}})
			return err
		},
		"watch its jobs": func(name string) error {
			stream, err := a.jobs.WatchJobs(bob, &sluicev1.WatchJobsRequest{Filter: &sluicev1.JobFilter{Pool: "root/" + name}})
			require.NoError(t, err)
			_, err = stream.Recv()
			return err
		},
	} {
		before := strings.Count(audit.String(), "\n")
		hidden, none := ask("secret"), ask("nobody")
		require.Error(t, hidden, what)
		require.Equal(t, status.Code(none), status.Code(hidden), "%s: %v", what, hidden)
		require.Equal(t, none.Error(), strings.ReplaceAll(hidden.Error(), "secret", "nobody"), what)
		require.Len(t, violated(hidden), len(violated(none)), what)
		if _, wrong := violated(hidden)["page_size"]; wrong {
			continue // it was refused for that, whoever made it
		}
		require.Eventually(t, func() bool { return strings.Count(audit.String(), "\n") > before }, 10*time.Second, time.Millisecond, what)
		line := strings.Split(audit.String(), "\n")[before]
		require.Contains(t, line, "secret", what)
		require.Contains(t, line, `"user":"bob"`, what)
	}
}

// A name that a hidden job has is taken, and nothing is said of that job.
func TestANameThatAHiddenJobHasIsTaken(t *testing.T) {
	a, ann, bob, _ := withHidden(t)
	got, err := a.jobs.GetJob(ann, &sluicev1.GetJobRequest{Name: "secret"})
	require.NoError(t, err)
	same, other := proto.CloneOf(got.Job.Spec), sleepJob("secret")
	same.Pool, same.Owner, other.Pool, other.Type = "root/open", "", "root/open", sluicev1.JobType_JOB_TYPE_STATELESS
	for _, spec := range []*sluicev1.JobSpec{same, other} {
		_, err := a.jobs.PlanJobs(bob, &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{spec}})
		requireViolation(t, err, codes.AlreadyExists, "specs[0].name", "the name is taken")
		_, err = a.jobs.SubmitJob(bob, &sluicev1.SubmitJobRequest{Spec: spec})
		requireViolation(t, err, codes.AlreadyExists, "spec.name", "the name is taken")
	}
}

// Who makes room, and for whom, is told only to who may see them.
func TestHiddenTasksThatMakeRoomAreOnlyCounted(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.addHost(t, "s/h", 2)
	for _, user := range []string{"ann", "bob", "vera"} {
		a.grant(t, cluster.Submitter, user, "root")
	}
	a.grant(t, cluster.Viewer, "vera", "root")
	ann, bob, vera := a.as(t, "ann"), a.as(t, "bob"), a.as(t, "vera")
	secret, urgent := sleepJob("secret"), sleepJob("urgent")
	secret.Instances, urgent.Instances, urgent.Priority = proto.Uint32(2), proto.Uint32(2), 7
	_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: secret})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(a.Snapshot().Host("s/h").Tasks) == 2 }, 10*time.Second, time.Millisecond)

	plan := func(who context.Context) []*sluicev1.PlannedTask {
		res, err := a.jobs.PlanJobs(who, &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{proto.CloneOf(urgent)}})
		require.NoError(t, err)
		require.Len(t, res.Preemptions, 2)
		return res.Preemptions
	}
	require.Equal(t, "secret", plan(vera)[0].Job)
	for _, victim := range plan(bob) {
		require.True(t, proto.Equal(&sluicev1.PlannedTask{Reason: "PREEMPTED"}, victim), "%v", victim)
	}

	_, err = a.jobs.SubmitJob(bob, &sluicev1.SubmitJobRequest{Spec: urgent})
	require.NoError(t, err)
	why := func(who context.Context) *sluicev1.PreemptionExplanation {
		answer, err := a.tasks.ExplainTask(who, &sluicev1.ExplainTaskRequest{Job: "secret", Instance: 1})
		require.NoError(t, err)
		return answer.Preempted
	}
	require.Eventually(t, func() bool { return why(vera) != nil }, 10*time.Second, time.Millisecond)
	require.Equal(t, "urgent", why(vera).BeneficiaryJob)
	require.Empty(t, why(ann).BeneficiaryJob)
	require.Zero(t, why(ann).BeneficiaryInstance)
	require.Equal(t, "root/default", why(ann).BeneficiaryPool, "where she may submit")
	snap := a.Snapshot()
	secrets := snap.Task(cluster.MakeTaskKey(snap.JobByName("secret").UID, 1))
	require.Empty(t, explainPreempted(snap, secrets, policyCallers['-']).BeneficiaryPool)
}

// A pool above one that the caller may know, or in which he has a job, is there for him, whichever way he asks; its numbers are not.
func TestAPoolThatIsThereIsNotDenied(t *testing.T) {
	a, ann, bob, _ := withHidden(t)
	a.grant(t, cluster.Viewer, "vic", "root/open")
	a.emit(t, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/secret", Access: []cluster.AccessRule{
		{Permission: cluster.MayView, Users: []string{"olga"}}, {Permission: cluster.MaySubmit, Users: []string{"olga"}},
	}}})
	for _, tt := range []struct {
		ctx   context.Context
		path  string
		code  codes.Code
		below int // pools that the list shows
	}{
		{a.as(t, "vic"), "root/open", codes.OK, 1},
		{a.as(t, "vic"), "root", codes.PermissionDenied, 1},
		{ann, "root/secret", codes.PermissionDenied, 0},
		{bob, "root", codes.OK, 3},
		{bob, "root/none", codes.NotFound, 0},
	} {
		_, err := a.pools.GetPool(tt.ctx, &sluicev1.GetPoolRequest{Path: tt.path})
		require.Equal(t, tt.code, status.Code(err), "%s: %v", tt.path, err)
		list, err := a.pools.ListPools(tt.ctx, &sluicev1.ListPoolsRequest{Path: tt.path})
		require.Equal(t, tt.code == codes.NotFound, status.Code(err) == codes.NotFound, "%s: %v", tt.path, err)
		require.Len(t, list.GetPools(), tt.below, tt.path)
	}
}

// Which pools bind a pool is told with the numbers of those only that the caller may know.
func TestNumbersOfAPoolAboveAreNotTold(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.addHost(t, "s/h", 6)
	ops := a.as(t, "olga", "ops")
	for _, spec := range []*sluicev1.PoolSpec{cpuClaim("root/a", 0, 2000), cpuClaim("root/a/b", 0, -1)} {
		_, err := a.pools.CreatePool(ops, &sluicev1.CreatePoolRequest{Spec: spec})
		require.NoError(t, err)
	}
	a.grant(t, cluster.Submitter, "ann", "root/a/b")
	spec := sleepJob("anns")
	spec.Pool, spec.Instances = "root/a/b", proto.Uint32(10)
	ann := a.as(t, "ann")
	_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	bound := func(who context.Context) (pools []string) {
		got, err := a.pools.GetPool(who, &sluicev1.GetPoolRequest{Path: "root/a/b"})
		require.NoError(t, err)
		for _, b := range got.Pool.Dimensions[0].BoundChain {
			pools = append(pools, b.Pool)
		}
		return pools
	}
	require.Eventually(t, func() bool { return slices.Equal(bound(ops), []string{"root/a/b", "root/a"}) }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, []string{"root/a/b"}, bound(ann))
}

// What is bound to a pool does not tell of it.
func TestCostModelsOfHiddenPoolsAreHidden(t *testing.T) {
	a, ann, bob, _ := withHidden(t)
	for _, pool := range []string{"root/secret", "root/open"} {
		_, err := a.cluster.SetCostModel(a.as(t, "olga", "ops"), &sluicev1.SetCostModelRequest{Binding: binding(pool, "batch", "sjf")})
		require.NoError(t, err)
	}
	a.grant(t, cluster.Submitter, "ann", "root/secret")
	for _, c := range []struct {
		as            context.Context
		shown, hidden string
	}{{ann, "root/secret", "root/open"}, {bob, "root/open", "root/secret"}} {
		got, err := a.cluster.GetCostModels(c.as, &sluicev1.GetCostModelsRequest{})
		require.NoError(t, err)
		require.Len(t, got.Bindings, 2)
		require.Equal(t, c.shown, got.Bindings[1].Pool)
		status, err := a.cluster.GetStatus(c.as, &sluicev1.GetStatusRequest{})
		require.NoError(t, err)
		require.Contains(t, status.CostModel, c.shown)
		require.NotContains(t, status.CostModel, c.hidden)
	}
}

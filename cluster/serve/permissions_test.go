package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// policyCallers are the callers of TestEveryRoleWithEveryCall, each by one letter.
var policyCallers = map[rune]*access.Caller{
	'-': {User: "nobody"},
	'v': {User: "vera"},
	's': {User: "sue"},
	'w': {User: "ann"}, // owns job "job" in root/a
	'a': {User: "adam"},
	'o': {User: "olga", Groups: []string{"ops"}},
	'h': {User: "local", Roles: []cluster.Role{cluster.HostManager}},
	'j': {User: "ann", Job: 1, Token: "t"},
}

// policyState has the jobs "job" and "other" in root/a and the roles of the callers.
func policyState(t *testing.T) *cluster.State {
	t.Helper()
	s := cluster.NewState()
	spec := func(name, owner string) *cluster.JobSpec {
		spec := jobSpecFrom(sleepJob(name), "", new(violations))
		spec.Owner, spec.Pool = owner, "root/a"
		return spec
	}
	for _, e := range []cluster.Event{
		&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}}, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/b"}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec("job", "ann")}, {UID: 2, Spec: spec("other", "bob")}}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Viewer, User: "vera", Pool: "root"}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Submitter, User: "sue", Pool: "root"}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.PoolAdmin, User: "adam", Pool: "root/a"}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Operator, Group: "ops", Pool: "root"}},
		&cluster.TokenCreated{Token: cluster.Token{ID: "anns", User: "ann"}},
	} {
		require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: 1, Event: e}))
	}
	return s
}

// policyTable says for each call who may make it, about what is in policyState.
var policyTable = map[string]struct {
	request proto.Message
	may     string
}{
	"JobService/SubmitJob":       {&sluicev1.SubmitJobRequest{Spec: &sluicev1.JobSpec{Pool: "root/a"}}, "sao"},
	"JobService/SubmitJobs":      {&sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{{Pool: "root/a"}, {Pool: "root/b"}}}, "so"},
	"JobService/PlanJobs":        {&sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{{Pool: "root/b"}}}, "so"},
	"JobService/GetJob":          {&sluicev1.GetJobRequest{Name: "job"}, "vwaoj"},
	"JobService/ListJobs":        {&sluicev1.ListJobsRequest{}, "-vswaohj"},
	"JobService/WatchJobs":       {&sluicev1.WatchJobsRequest{}, "-vswaohj"},
	"JobService/StopJob":         {&sluicev1.StopJobRequest{Name: "job"}, "waoj"},
	"JobService/DeleteJob":       {&sluicev1.DeleteJobRequest{Name: "job"}, "waoj"},
	"JobService/UpdateJob":       {&sluicev1.UpdateJobRequest{Spec: &sluicev1.JobSpec{Name: "job"}}, "waoj"},
	"JobService/RestartJob":      {&sluicev1.RestartJobRequest{Name: "job"}, "waoj"},
	"JobService/ControlUpdate":   {&sluicev1.ControlUpdateRequest{Name: "job"}, "waoj"},
	"JobService/ListJobVersions": {&sluicev1.ListJobVersionsRequest{Name: "job"}, "vwaoj"},

	"TaskService/GetTask":        {&sluicev1.GetTaskRequest{Job: "job"}, "vwaoj"},
	"TaskService/ListTasks":      {&sluicev1.ListTasksRequest{Job: "job"}, "vwaoj"},
	"TaskService/TaskLogs":       {&sluicev1.TaskLogsRequest{Job: "job"}, "vwaoj"},
	"TaskService/ForgetTaskData": {&sluicev1.ForgetTaskDataRequest{Job: "job"}, "waoj"},
	"TaskService/ExplainTask":    {&sluicev1.ExplainTaskRequest{Job: "job"}, "vwaoj"},
	"TaskService/ListTaskEvents": {&sluicev1.ListTaskEventsRequest{Job: "job"}, "vwaoj"},
	"TaskService/RestartTask":    {&sluicev1.RestartTaskRequest{Job: "job"}, "waoj"},
	"TaskService/StopTask":       {&sluicev1.StopTaskRequest{Job: "job"}, "waoj"},

	"PoolService/CreatePool":      {&sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a/x"}}, "ao"},
	"PoolService/UpdatePool":      {&sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a"}}, "o"},
	"PoolService/DeletePool":      {&sluicev1.DeletePoolRequest{Path: "root/a/x"}, "ao"},
	"PoolService/DrainPool":       {&sluicev1.DrainPoolRequest{Path: "root/a"}, "ao"},
	"PoolService/GetPool":         {&sluicev1.GetPoolRequest{Path: "root/a"}, "vsao"},
	"PoolService/ListPools":       {&sluicev1.ListPoolsRequest{}, "-vswaohj"},
	"PoolService/GetQueueMapping": {&sluicev1.GetQueueMappingRequest{}, "vsaoh"},
	"PoolService/SetQueueMapping": {&sluicev1.SetQueueMappingRequest{}, "o"},
	"PoolService/ListUsage":       {&sluicev1.ListUsageRequest{}, "-vswaohj"},

	"HostService/ListHosts":  {&sluicev1.ListHostsRequest{}, "vsaoh"},
	"HostService/GetHost":    {&sluicev1.GetHostRequest{Name: "s/h"}, "vsaoh"},
	"HostService/DrainHost":  {&sluicev1.DrainHostRequest{Name: "s/h"}, "o"},
	"HostService/ResumeHost": {&sluicev1.ResumeHostRequest{Name: "s/h"}, "o"},
	"HostService/ForgetHost": {&sluicev1.ForgetHostRequest{Name: "s/h"}, "o"},

	"ClusterService/GetStatus":      {&sluicev1.GetStatusRequest{}, "vsaoh"},
	"ClusterService/WatchCycles":    {&sluicev1.WatchCyclesRequest{}, "vsaoh"},
	"ClusterService/GetCostModels":  {&sluicev1.GetCostModelsRequest{}, "vsaoh"},
	"ClusterService/ListMembers":    {&sluicev1.ListMembersRequest{}, "vsaoh"},
	"ClusterService/VerifyPlan":     {&sluicev1.VerifyPlanRequest{}, "o"},
	"ClusterService/ExportSnapshot": {&sluicev1.ExportSnapshotRequest{}, "o"},
	"ClusterService/ExportGraph":    {&sluicev1.ExportGraphRequest{}, "o"},
	"ClusterService/SetMode":        {&sluicev1.SetModeRequest{}, "o"},
	"ClusterService/RotateKey":      {&sluicev1.RotateKeyRequest{}, "o"},
	"ClusterService/SetCostModel":   {&sluicev1.SetCostModelRequest{}, "o"},

	"AccessService/WhoAmI":      {&sluicev1.WhoAmIRequest{}, "-vswaohj"},
	"AccessService/CreateToken": {&sluicev1.CreateTokenRequest{}, "-vswaoh"},
	"AccessService/ListTokens":  {&sluicev1.ListTokensRequest{User: "ann"}, "wo"},
	"AccessService/RevokeToken": {&sluicev1.RevokeTokenRequest{Id: "anns"}, "wo"},
	"AccessService/GrantRole":   {&sluicev1.GrantRoleRequest{}, "o"},
	"AccessService/RevokeRole":  {&sluicev1.RevokeRoleRequest{}, "o"},
	"AccessService/ListRoles":   {&sluicev1.ListRolesRequest{}, "o"},

	"VolumeService/CreateVolume":      {&sluicev1.CreateVolumeRequest{}, "o"},
	"VolumeService/GetVolume":         {&sluicev1.GetVolumeRequest{}, "vsaoh"},
	"VolumeService/ListVolumes":       {&sluicev1.ListVolumesRequest{}, "vsaoh"},
	"VolumeService/DeleteVolume":      {&sluicev1.DeleteVolumeRequest{}, "o"},
	"DiscoveryService/ListEndpoints":  {&sluicev1.ListEndpointsRequest{}, "-vswaohj"},
	"DiscoveryService/WatchEndpoints": {&sluicev1.ListEndpointsRequest{}, "-vswaohj"},

	"HostManagerService/Control": {&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: &sluicev1.Hello{Shard: "local"}}}, "h"},
	"HostManagerService/Bulk":    {&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Hello{Hello: &sluicev1.BulkHello{Shard: "local"}}}, "h"},
}

func TestEveryRoleWithEveryCall(t *testing.T) {
	in := policyState(t)
	for method, entry := range policyTable {
		r, ok := rows[apiPackage+"."+method]
		require.True(t, ok, method)
		for letter, who := range policyCallers {
			request := proto.Clone(entry.request)
			adopt(who, request)
			err := (&call{row: r, who: who}).allow(in, request)
			want := strings.ContainsRune(entry.may, letter)
			require.Equal(t, want, err == nil, "%s by %s (%c): %v", method, who.User, letter, err)
			if err != nil {
				require.Contains(t, []codes.Code{codes.PermissionDenied, codes.NotFound}, status.Code(err))
			}
		}
		free := &call{row: r, who: &access.Caller{Free: true}}
		require.NoError(t, free.allow(in, entry.request), method)
	}
}

// No role helps a token for one job with what is not about that job, and it does not say so.
func TestAJobsTokenIsToldThatItTakesAnother(t *testing.T) {
	in := policyState(t)
	for _, roles := range [][]cluster.Role{nil, {cluster.Operator}} {
		who := &access.Caller{User: "ann", Job: 1, Token: "t", Roles: roles}
		for method, entry := range policyTable {
			request := proto.Clone(entry.request)
			adopt(who, request)
			err := (&call{row: rows[apiPackage+"."+method], who: who}).allow(in, request)
			if status.Code(err) == codes.PermissionDenied && method != "AccessService/CreateToken" {
				require.ErrorContains(t, err, "a credential that is good for more than one job", method)
			}
		}
	}
	for user, says := range map[string]string{"vera": "it takes its owner, or who administers its pool", "adam": ""} {
		err := mayChangeJob(in, &access.Caller{User: user, Job: 1, Token: "t"}, &sluicev1.StopJobRequest{Name: "job"})
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says, "there a role does")
		require.NotContains(t, err.Error(), "more than one job")
	}
}

// Every call that the server answers has a row, and every one of ours an entry in the table of the test above. A new call
// is refused to everybody until it has both.
func TestEveryCallHasARow(t *testing.T) {
	a := newAPITest(t)
	served := map[string]bool{}
	for service, info := range NewServer(a.Scheduler, About{}).GetServiceInfo() {
		for _, m := range info.Methods {
			name := service + "/" + m.Name
			served[name] = true
			r, ok := rows[name]
			require.True(t, ok, "%s has no row in permissions.go: say who may call it", name)
			require.Equal(t, m.IsClientStream || m.IsServerStream, r.stream, name)
			require.True(t, r.public || r.rule != nil, name)
			if own, ours := strings.CutPrefix(name, apiPackage+"."); ours {
				require.Contains(t, policyTable, own, "say in the test which role may call it")
			}
		}
	}
	for name := range rows {
		require.True(t, served[name], "%s has a row, but nobody answers it", name)
	}
}

func TestPolicyOfWhatARequestAsksFor(t *testing.T) {
	in := policyState(t)
	for name, tt := range map[string]struct {
		method  string
		who     rune
		request proto.Message
		says    string // "" for allowed
	}{
		"for another owner":        {"JobService/SubmitJob", 's', &sluicev1.SubmitJobRequest{Spec: &sluicev1.JobSpec{Pool: "root/b", Owner: "ann"}}, "leave owner out"},
		"for another, as admin":    {"JobService/SubmitJob", 'a', &sluicev1.SubmitJobRequest{Spec: &sluicev1.JobSpec{Pool: "root/a", Owner: "ann"}}, ""},
		"for another's group":      {"JobService/SubmitJob", 's', &sluicev1.SubmitJobRequest{Spec: &sluicev1.JobSpec{Pool: "root/b", Groups: []string{"ops"}}}, "leave groups out"},
		"no job at all":            {"JobService/SubmitJob", 's', &sluicev1.SubmitJobRequest{}, ""},
		"give it away":             {"JobService/UpdateJob", 'w', &sluicev1.UpdateJobRequest{Spec: &sluicev1.JobSpec{Name: "job", Owner: "bob"}}, "another owner"},
		"give it away, as admin":   {"JobService/UpdateJob", 'a', &sluicev1.UpdateJobRequest{Spec: &sluicev1.JobSpec{Name: "job", Owner: "bob"}}, ""},
		"claim a group":            {"JobService/UpdateJob", 'w', &sluicev1.UpdateJobRequest{Spec: &sluicev1.JobSpec{Name: "job", Groups: []string{"ops"}}}, "groups"},
		"a job that is not there":  {"JobService/GetJob", '-', &sluicev1.GetJobRequest{Name: "none"}, ""},
		"a job that is not seen":   {"JobService/StopJob", '-', &sluicev1.StopJobRequest{Name: "job"}, "there is no such job"},
		"another job than its own": {"JobService/GetJob", 'j', &sluicev1.GetJobRequest{Name: "other"}, "there is no such job"},
		"all that wait for it":     {"JobService/StopJob", 'w', &sluicev1.StopJobRequest{Name: "job", Cascade: true}, ""},
		"another shard":            {"HostManagerService/Control", 'h', &sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: &sluicev1.Hello{Shard: "x"}}}, `speak for shard "x"`},
		"another bulk":             {"HostManagerService/Bulk", 'h', &sluicev1.BulkUp{Message: &sluicev1.BulkUp_Hello{Hello: &sluicev1.BulkHello{Shard: "x"}}}, `speak for shard "x"`},
		"the root's settings":      {"PoolService/UpdatePool", 'a', &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root"}}, "it takes who administers it"},
		"a pool's own settings":    {"PoolService/UpdatePool", 'a', &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a"}}, "it takes who administers the pool above it"},
		"a token for another":      {"AccessService/CreateToken", 's', &sluicev1.CreateTokenRequest{User: "ann"}, "operator"},
		"a token with a group":     {"AccessService/CreateToken", 's', &sluicev1.CreateTokenRequest{Groups: []string{"ops"}}, "groups"},
		"a token for a job":        {"AccessService/CreateToken", 'w', &sluicev1.CreateTokenRequest{Job: "job"}, ""},
		"tokens of a job's token":  {"AccessService/ListTokens", 'j', &sluicev1.ListTokensRequest{}, "may not see tokens: it takes a credential that is good for more than one job"},
		"a token for a hidden job": {"AccessService/CreateToken", 's', &sluicev1.CreateTokenRequest{Job: "job"}, "no such job"},
	} {
		who := policyCallers[tt.who]
		adopt(who, tt.request)
		err := (&call{row: rows[apiPackage+"."+tt.method], who: who}).allow(in, tt.request)
		if tt.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tt.says, name)
		}
	}
	for _, byToken := range []*access.Caller{{User: "sue", Token: "t"}, {User: "olga", Groups: []string{"ops"}, Token: "t"}} {
		err := (&call{row: rows["sluice.v1.AccessService/CreateToken"], who: byToken}).allow(in, &sluicev1.CreateTokenRequest{})
		require.ErrorContains(t, err, "by means of a token", byToken.User)
	}
}

// No role takes a job to another pool, so none is asked for: whoever may change the job is told that it stays where it is, also where he
// may not submit there, or there is no such pool.
func TestAJobStaysInItsPoolWhateverItsOwnerMay(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	ops := a.as(t, "olga", "ops")
	for _, path := range []string{"root/a", "root/b"} {
		_, err := sluicev1.NewPoolServiceClient(a.conn).CreatePool(ops, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: path}})
		require.NoError(t, err)
	}
	a.grant(t, cluster.Submitter, "ann", "root/a")
	ann, spec := a.as(t, "ann"), sleepJob("job")
	spec.Pool = "root/a"
	_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	for _, pool := range []string{"root/b", "root/none"} {
		spec.Pool = pool
		_, err := a.jobs.UpdateJob(ann, &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
		requireViolation(t, err, codes.InvalidArgument, "spec.pool",
			fmt.Sprintf("is %q, and the job stays in \"root/a\": leave pool out, or submit another job", pool))
	}
}

// What a spec leaves to its caller is no part of it: the same one, from whoever is in other groups by now, is the same job, and one
// that is planned for a job leaves it its owner.
func TestWhatIsLeftToTheCallerIsNoPartOfASpec(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	submit := func(ctx context.Context, groups ...string) error {
		spec := sleepJob("job")
		spec.Groups = groups
		_, err := a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: spec})
		return err
	}
	red, blue := a.as(t, "ann", "red"), a.as(t, "ann", "blue")
	require.NoError(t, submit(red))
	require.NoError(t, submit(blue))
	require.Equal(t, []string{"red"}, a.Snapshot().JobByName("job").Spec.Groups)
	requireViolation(t, submit(blue, "blue"), codes.AlreadyExists, "spec.name", "another spec")
	requireViolation(t, submit(a.as(t, "olga", "ops")), codes.AlreadyExists, "spec.name", "another spec")

	for _, groups := range [][]string{nil, {"blue"}} {
		r := &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("job")}}
		r.Specs[0].Priority, r.Specs[0].Groups = 1, groups
		c := &call{who: &access.Caller{User: "olga", Roles: []cluster.Role{cluster.Operator}}}
		c.left = adopt(c.who, r)
		require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
			fork := rules.Begin(tx.State().Fork(), tx.Now())
			jobs, err := addToPlan(fork, c, nil, r.Specs)
			for uid := range jobs {
				require.Equal(t, "ann", fork.State().Job(uid).Spec.Owner)
				require.Equal(t, groups != nil, slices.Equal(groups, fork.State().Job(uid).Spec.Groups))
			}
			require.Len(t, jobs, 1)
			return err
		}))
	}
}

package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// unaryMethods are the calls with one request and one answer, in a fixed order, so that a corpus stays valid as long as
// methods are only added at the end of a service.
func unaryMethods() []string {
	var all []string
	for _, service := range []struct {
		name    string
		methods []string
	}{
		{sluicev1.JobService_ServiceDesc.ServiceName, []string{"SubmitJob", "SubmitJobs", "UpdateJob", "GetJob", "ListJobs", "StopJob", "DeleteJob"}},
		{sluicev1.TaskService_ServiceDesc.ServiceName, []string{"GetTask", "ListTasks", "RestartTask", "StopTask", "ExplainTask"}},
		{sluicev1.PoolService_ServiceDesc.ServiceName, []string{"CreatePool", "UpdatePool", "GetPool", "ListPools", "DeletePool", "ListUsage"}},
		{sluicev1.HostService_ServiceDesc.ServiceName, []string{"GetHost", "ListHosts", "DrainHost", "ResumeHost", "ForgetHost"}},
		{sluicev1.ClusterService_ServiceDesc.ServiceName, []string{"GetStatus"}},
		{sluicev1.AccessService_ServiceDesc.ServiceName, []string{"WhoAmI", "CreateToken", "ListTokens", "RevokeToken", "GrantRole", "RevokeRole", "ListRoles"}},
		{sluicev1.ClusterService_ServiceDesc.ServiceName, []string{"SetMode", "RotateKey", "VerifyPlan", "GetCostModels", "SetCostModel", "ListMembers"}},
		{sluicev1.PoolService_ServiceDesc.ServiceName, []string{"DrainPool", "GetQueueMapping", "SetQueueMapping"}},
		{sluicev1.JobService_ServiceDesc.ServiceName, []string{"RestartJob", "ControlUpdate", "ListJobVersions", "PlanJobs"}},
		{sluicev1.TaskService_ServiceDesc.ServiceName, []string{"ListTaskEvents"}},
		{sluicev1.VolumeService_ServiceDesc.ServiceName, []string{"CreateVolume", "GetVolume", "ListVolumes", "DeleteVolume"}},
		{sluicev1.DiscoveryService_ServiceDesc.ServiceName, []string{"ListEndpoints"}},
	} {
		for _, m := range service.methods {
			all = append(all, "/"+service.name+"/"+m)
		}
	}
	return all
}

// requestSeeds are requests that make sense, to begin with.
func requestSeeds() []proto.Message {
	graph := &sluicev1.SubmitJobsRequest{IdempotencyKey: "k", Specs: []*sluicev1.JobSpec{sleepJob("a"), sleepJob("b")}}
	graph.Specs[0].DependsOn = []*sluicev1.Dependency{{Job: "b"}}
	graph.Specs[0].Constraints = []*sluicev1.ConstraintRule{{Expression: nested(2)}}
	return append([]proto.Message{
		&sluicev1.SubmitJobRequest{Spec: sleepJob("job")}, graph,
		&sluicev1.UpdateJobRequest{Spec: sleepJob("there"), ExpectedVersion: 1},
		&sluicev1.GetJobRequest{Name: "there"},
		&sluicev1.ListJobsRequest{Filter: &sluicev1.JobFilter{NamePrefix: "t", Labels: map[string]string{"a": "b"}}, PageSize: proto.Uint32(1)},
		&sluicev1.StopJobRequest{Name: "there"}, &sluicev1.DeleteJobRequest{Name: "there"},
		&sluicev1.GetTaskRequest{Job: "there"}, &sluicev1.ListTasksRequest{Job: "there"},
		&sluicev1.RestartTaskRequest{Job: "there"}, &sluicev1.StopTaskRequest{Job: "there", Instance: 1},
		&sluicev1.ExplainTaskRequest{Job: "there"},
		&sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/x"}},
		&sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root"}, ExpectedVersion: 1},
		&sluicev1.GetPoolRequest{Path: "root"}, &sluicev1.ListPoolsRequest{Path: "root"}, &sluicev1.DeletePoolRequest{Path: "root/x"},
		&sluicev1.GetHostRequest{Name: "s/h"}, &sluicev1.ListHostsRequest{Shard: "s"},
		&sluicev1.DrainHostRequest{Name: "s/h"}, &sluicev1.ResumeHostRequest{Name: "s/h"}, &sluicev1.ForgetHostRequest{Name: "s/h"},
		&sluicev1.GetStatusRequest{},
		&sluicev1.WhoAmIRequest{}, &sluicev1.CreateTokenRequest{User: "u", Groups: []string{"g"}, Job: "there"},
		&sluicev1.ListTokensRequest{User: "u"}, &sluicev1.RevokeTokenRequest{Id: "t"},
		&sluicev1.GrantRoleRequest{Binding: &sluicev1.RoleBinding{Role: sluicev1.Role_ROLE_VIEWER, User: "u"}},
		&sluicev1.RevokeRoleRequest{Binding: &sluicev1.RoleBinding{Role: sluicev1.Role_ROLE_VIEWER, User: "u"}}, &sluicev1.ListRolesRequest{PageSize: proto.Uint32(1)},
		&sluicev1.SetModeRequest{Mode: &sluicev1.ClusterMode{ReadOnly: true}}, &sluicev1.RotateKeyRequest{},
	}, shardSeeds()...)
}

// Whatever bytes come as a request: the server answers, with a status that says whose fault it is, and what it stored
// is a state that a checkpoint can rebuild.
func FuzzRequests(f *testing.F) {
	for i, m := range requestSeeds() {
		raw, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(uint8(i), raw)
	}
	methods := unaryMethods()
	f.Fuzz(func(t *testing.T, method uint8, raw []byte) {
		a := newAPITest(t)
		a.addHost(t, "s/h", 2)
		there := sleepJob("there")
		there.Instances = proto.Uint32(3)
		a.submit(t, there)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		name := methods[int(method)%len(methods)]
		err := a.sendRaw(ctx, name, raw, &emptypb.Empty{})
		switch code := status.Code(err); code {
		case codes.OK, codes.InvalidArgument, codes.Unimplemented, codes.NotFound, codes.AlreadyExists, codes.Aborted,
			codes.FailedPrecondition:
		default:
			t.Fatalf("%s: %v", name, err)
		}
		copied := cluster.NewState()
		for part := range a.Snapshot().Parts() {
			require.NoError(t, copied.Apply(cluster.Record{Event: part}))
		}
	})
}

package serve

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// apiTest is a scheduler with its gRPC server on an in-memory listener, and clients of it.
type apiTest struct {
	*Scheduler
	conn    *grpc.ClientConn
	dial    func(...grpc.DialOption) (*grpc.ClientConn, error)
	jobs    sluicev1.JobServiceClient
	tasks   sluicev1.TaskServiceClient
	pools   sluicev1.PoolServiceClient
	hosts   sluicev1.HostServiceClient
	cluster sluicev1.ClusterServiceClient
}

func newAPITest(t *testing.T) *apiTest {
	t.Helper()
	return newAPITestWith(t, func(*Config) {})
}

// newAPITestWith is newAPITest with a configuration of its own.
func newAPITestWith(t *testing.T, configure func(*Config)) *apiTest {
	t.Helper()
	c := Config{
		Journal: journal.NewMemory(),
		State:   cluster.NewState(),
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return ssp.New() }),
		Costs:   CostModels{Configured: "loadspread", Names: models.Names(), New: models.New},
		// Hosts made up by a test have no shard; they stay as they are.
		UnreachableAfter: time.Hour,
	}
	configure(&c)
	s, err := New(c)
	require.NoError(t, err)
	listener := bufconn.Listen(1 << 20)
	server := NewServer(s, About{Version: "test"})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- server.Serve(listener) }()
	dial := func(options ...grpc.DialOption) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///bufconn", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	}
	conn, err := dial()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, errBroken) { // what a test broke stops the scheduler
				require.NoError(t, err)
			}
		}
	})
	return &apiTest{
		Scheduler: s, conn: conn, dial: dial,
		jobs:    sluicev1.NewJobServiceClient(conn),
		tasks:   sluicev1.NewTaskServiceClient(conn),
		pools:   sluicev1.NewPoolServiceClient(conn),
		hosts:   sluicev1.NewHostServiceClient(conn),
		cluster: sluicev1.NewClusterServiceClient(conn),
	}
}

// emit puts events into the history as if somebody else had.
func (a *apiTest) emit(t *testing.T, events ...cluster.Event) {
	t.Helper()
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		for _, e := range events {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (a *apiTest) addHost(t *testing.T, id cluster.HostID, cores int64) {
	t.Helper()
	var capacity cluster.Resources
	capacity.Fixed[cluster.CPU], capacity.Fixed[cluster.Memory] = 1000*cores, cores<<30
	a.emit(t, &cluster.HostReported{ID: id, Machine: cluster.Machine{Rack: "r1", Zone: "z1", Capacity: capacity}})
}

func (a *apiTest) submit(t *testing.T, spec *sluicev1.JobSpec) *sluicev1.SubmitJobResponse {
	t.Helper()
	answer, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	return answer
}

func (a *apiTest) job(t *testing.T, name string) *sluicev1.Job {
	t.Helper()
	answer, err := a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: name})
	require.NoError(t, err)
	return answer.Job
}

// sleepJob is a valid spec.
func sleepJob(name string) *sluicev1.JobSpec {
	return &sluicev1.JobSpec{
		Name: name,
		Task: &sluicev1.TaskSpec{
			Processes: []*sluicev1.ProcessSpec{{
				Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"sleep", "1"}}},
			}},
			Resources: &sluicev1.ResourceRequest{CpuMilli: 1000, MemoryBytes: 1 << 20},
		},
	}
}

// requireViolation checks that err has the code and blames the field with a description that contains the text.
func requireViolation(t *testing.T, err error, code codes.Code, field, text string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, status.Code(err), "%v", err)
	require.Contains(t, err.Error(), text)
	fields := violated(err)
	field = shorten(field, maxShownPath)
	require.Contains(t, fields, field)
	require.Contains(t, fields[field], text)
}

// violated returns the descriptions of the field violations in an error, by field.
func violated(err error) map[string]string {
	fields := map[string]string{}
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, f := range bad.FieldViolations {
				fields[f.Field] += f.Description + "\n"
			}
		}
	}
	return fields
}

// rawCodec sends bytes as they are, as a client that is broken or hostile does.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (a *apiTest) sendRaw(ctx context.Context, method string, request []byte, answer proto.Message) error {
	return a.conn.Invoke(ctx, method, request, answer, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
}

func TestHealthAndReflection(t *testing.T) {
	a := newAPITest(t)
	health, err := healthv1.NewHealthClient(a.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, health.Status)

	stream, err := reflectionv1.NewServerReflectionClient(a.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	require.Subset(t, names, []string{
		"sluice.v1.JobService", "sluice.v1.TaskService", "sluice.v1.PoolService", "sluice.v1.HostService",
		"sluice.v1.ClusterService", "sluice.v1.AccessService", "sluice.v1.VolumeService", "sluice.v1.DiscoveryService", "sluice.v1.HostManagerService",
		"grpc.health.v1.Health",
	})
}

// One that does not lead any more answers nothing: what it knows may be old.
func TestWhoDoesNotLeadAnswersNothing(t *testing.T) {
	var lost atomic.Bool
	a := newAPITestWith(t, func(c *Config) {
		c.Leads = func() error {
			if lost.Load() {
				return errors.New("lost")
			}
			return nil
		}
	})
	_, err := a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: "job"})
	require.Equal(t, codes.NotFound, status.Code(err))
	lost.Store(true)
	standsBy := func(err error) {
		t.Helper()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, ReasonStandby, status.Convert(err).Details()[0].(*errdetails.ErrorInfo).GetReason())
	}
	_, err = a.jobs.GetJob(t.Context(), &sluicev1.GetJobRequest{Name: "job"})
	standsBy(err)
	watch, err := a.jobs.WatchJobs(t.Context(), &sluicev1.WatchJobsRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	standsBy(err)
}

package hostmgr_test

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// scheduler is the other end of a shard, played by the test: each stream that the shard opens is handed to the test,
// which reads and writes it.
type scheduler struct {
	sluicev1.UnimplementedHostManagerServiceServer
	controls chan *control
	bulks    chan *bulk
}

type control = end[sluicev1.HostManagerService_ControlServer]

type bulk = end[sluicev1.HostManagerService_BulkServer]

// end is the scheduler's end of a stream.
type end[S grpc.ServerStream] struct {
	stream S
	result chan error
}

// hand gives a stream to the test and ends it when the test says so.
func hand[S grpc.ServerStream](to chan *end[S], stream S) error {
	e := &end[S]{stream, make(chan error, 1)}
	select {
	case to <- e:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	select {
	case err := <-e.result:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (s *scheduler) Control(stream sluicev1.HostManagerService_ControlServer) error {
	return hand(s.controls, stream)
}

func (s *scheduler) Bulk(stream sluicev1.HostManagerService_BulkServer) error {
	return hand(s.bulks, stream)
}

// bench is a shard between a scripted scheduler and a scripted driver.
type bench struct {
	*testing.T
	*scheduler
	driver *driver
	config hostmgr.ShardConfig
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	result chan error // of Run
	busy   bool       // what the last request for a log was told
}

// onBench runs a test in a bubble with a virtual clock: waits cost nothing, a deadlock is a failure, and so is a
// goroutine that is left over.
func onBench(t *testing.T, script func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, scheduler: newScheduler(), driver: newDriver(), result: make(chan error, 1)}
		listener := bufconn.Listen(1 << 16)
		server := grpc.NewServer(grpc.MaxRecvMsgSize(4 << 20))
		sluicev1.RegisterHostManagerServiceServer(server, b.scheduler)
		go func() { _ = server.Serve(listener) }()
		conn, err := grpc.NewClient("passthrough:scheduler",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		require.NoError(t, err)
		b.conn = conn
		b.config = hostmgr.ShardConfig{Name: "here", Kind: "scripted", Version: "v0", Driver: b.driver, Conn: conn}
		defer func() { // also when the script fails
			if b.cancel != nil {
				b.cancel()
				assert.NoError(t, <-b.result)
			}
			assert.NoError(t, conn.Close())
			server.Stop()
		}()
		script(b)
	})
}

func newScheduler() *scheduler {
	return &scheduler{controls: make(chan *control), bulks: make(chan *bulk)}
}

// start runs the shard until the script ends.
func (b *bench) start() {
	b.Helper()
	s, err := hostmgr.NewShard(b.config)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	b.cancel = cancel
	go func() { b.result <- s.Run(ctx) }()
}

// fails waits until Run has returned an error.
func (b *bench) fails() error {
	err := <-b.result
	b.cancel()
	b.cancel = nil
	require.Error(b, err)
	return err
}

// hello takes the next Control stream and its Hello.
func (b *bench) hello() (*control, *sluicev1.Hello) {
	b.Helper()
	c := <-b.controls
	return c, b.up(c).GetHello()
}

// welcome takes the next Control stream through the handshake, and returns it with the inventory.
func (b *bench) welcome() (*control, []*sluicev1.RunStatus) {
	b.Helper()
	c, hello := b.hello()
	require.NotNil(b, hello)
	b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
		ClusterId: "cluster-1", ProtocolVersion: 1,
	}}})
	for {
		if report := b.up(c).GetHostReport(); report.GetLast() {
			break
		}
	}
	var runs []*sluicev1.RunStatus
	for {
		inventory := b.up(c).GetInventory()
		require.NotNil(b, inventory)
		if runs = append(runs, inventory.GetRuns()...); inventory.GetLast() {
			return c, runs
		}
	}
}

// begin starts the shard and takes it through the first handshake.
func (b *bench) begin() *control {
	b.Helper()
	b.start()
	c, runs := b.welcome()
	require.Empty(b, runs)
	return c
}

func (b *bench) up(c *control) *sluicev1.ShardUp {
	b.Helper()
	m, err := c.stream.Recv()
	require.NoError(b, err)
	return m
}

func (b *bench) status(c *control) *sluicev1.RunStatus {
	b.Helper()
	st := b.up(c).GetStatus()
	require.NotNil(b, st)
	return st
}

func (b *bench) down(c *control, m *sluicev1.ShardDown) {
	b.Helper()
	require.NoError(b, c.stream.Send(m))
}

func (b *bench) launch(c *control, n int) {
	b.Helper()
	b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Launch{Launch: launch(n)}})
}

func (b *bench) kill(c *control, n int, grace *sluicev1.Kill) {
	b.Helper()
	grace.Run = ref(n)
	b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Kill{Kill: grace}})
}

func (b *bench) ack(c *control, st *sluicev1.RunStatus) {
	b.Helper()
	b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Ack{Ack: &sluicev1.Ack{UpdateId: st.GetUpdateId()}}})
}

func (b *bench) release(c *control, n int) {
	b.Helper()
	b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Release{Release: &sluicev1.Release{Run: ref(n)}}})
}

// silent checks that nothing comes up the stream although everything has come to rest.
func (b *bench) silent(c *control) {
	b.Helper()
	got := make(chan *sluicev1.ShardUp, 1)
	go func() {
		if m, err := c.stream.Recv(); err == nil {
			got <- m
		}
	}()
	synctest.Wait()
	select {
	case m := <-got:
		require.Fail(b, "a message came up", "%v", m)
	default:
	}
	c.result <- nil // the reader above ends with the stream
}

func run(n int) cluster.RunID {
	return cluster.RunID{Task: cluster.MakeTaskKey(1, uint32(n)), Run: 1}
}

func ref(n int) *sluicev1.RunRef {
	return &sluicev1.RunRef{JobUid: 1, Instance: uint32(n), Run: 1, Job: "work"}
}

func launch(n int) *sluicev1.Launch {
	return &sluicev1.Launch{Run: ref(n), Host: "h0", Task: &sluicev1.TaskPayload{
		Spec: &sluicev1.TaskSpec{Processes: []*sluicev1.ProcessSpec{{
			Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"work", "hard"}}},
		}}},
		Resources: &sluicev1.ResourceRequest{CpuMilli: 100, MemoryBytes: 1 << 20},
	}}
}

func status(n int, state cluster.TaskState) hostmgr.Status {
	code := int32(-1)
	if state == cluster.TaskSucceeded {
		code = 0
	}
	return hostmgr.Status{Run: run(n), Host: "h0", State: state, ExitCode: code, At: 1}
}

// driver does what the test says. It records launches and kills, and reports nothing by itself.
type driver struct {
	onLaunch func(hostmgr.Launch) error
	onKill   func(cluster.RunID) error
	// onRelease is called when a run has been forgotten.
	onRelease func(cluster.RunID)
	hosts     []hostmgr.Host
	logs      map[hostmgr.LogStream]func(ctx context.Context, req hostmgr.LogRequest) io.Reader

	mu       sync.Mutex
	sink     hostmgr.Sink
	runs     map[cluster.RunID]hostmgr.Status
	launched []hostmgr.Launch
	killed   []cluster.RunID
	graces   []time.Duration
	released []cluster.RunID
}

var _ hostmgr.Driver = (*driver)(nil)

func newDriver() *driver {
	return &driver{
		onLaunch: func(hostmgr.Launch) error { return nil },
		onKill:   func(cluster.RunID) error { return nil },

		onRelease: func(cluster.RunID) {},
		hosts: []hostmgr.Host{{Name: "h0", Machine: cluster.Machine{
			Rack: "r0", Zone: "z", Attributes: []cluster.KeyValue{{Key: "os", Value: "linux"}}, Notes: []string{"a note"},
			Capacity: cluster.NewResources([cluster.NumDimensions]int64{4000, 1 << 30, 1 << 40, 2000}, cluster.Amount{Name: "licence", Value: 3}),
		}}},
		runs: map[cluster.RunID]hostmgr.Status{},
	}
}

func (d *driver) Start(_ context.Context, sink hostmgr.Sink) error {
	d.sink = sink
	sink.ReportHosts(d.hosts)
	return nil
}

// report reports a status as a driver does: the inventory shows it first.
func (d *driver) report(s hostmgr.Status) {
	d.mu.Lock()
	d.runs[s.Run] = s
	d.mu.Unlock()
	d.sink.ReportStatus(s)
}

func (d *driver) Launch(_ context.Context, l hostmgr.Launch) error {
	d.mu.Lock()
	d.launched = append(d.launched, l)
	d.mu.Unlock()
	return d.onLaunch(l)
}

func (d *driver) Kill(_ context.Context, run cluster.RunID, grace time.Duration) error {
	d.mu.Lock()
	d.killed, d.graces = append(d.killed, run), append(d.graces, grace)
	d.mu.Unlock()
	return d.onKill(run)
}

func (d *driver) Inventory() []hostmgr.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.runs), func(a, b hostmgr.Status) int { return a.Run.Compare(b.Run) })
}

func (d *driver) Release(run cluster.RunID) {
	d.mu.Lock()
	delete(d.runs, run)
	d.released = append(d.released, run)
	d.mu.Unlock()
	d.onRelease(run)
}

func (d *driver) OpenLog(ctx context.Context, req hostmgr.LogRequest) (io.ReadCloser, error) {
	open := d.logs[req.Stream]
	if open == nil {
		return nil, hostmgr.ErrUnknownRun
	}
	log := open(ctx, req)
	if closer, ok := log.(io.ReadCloser); ok {
		return closer, nil
	}
	return io.NopCloser(log), nil
}

func (d *driver) Close() error { return nil }

// launches returns how often each run was handed to the driver.
func (d *driver) launches(n int) (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.launched {
		if l.Run == run(n) {
			count++
		}
	}
	return count
}

// text is a log that is complete.
func text(s string) func(context.Context, hostmgr.LogRequest) io.Reader {
	return func(_ context.Context, req hostmgr.LogRequest) io.Reader {
		return strings.NewReader(s[min(int64(len(s)), req.Offset):])
	}
}

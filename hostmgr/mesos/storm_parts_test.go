package mesos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// mortal is a journal that takes nothing more once its scheduler has crashed.
type mortal struct {
	journal.Journal
	dead atomic.Bool
}

var errCrashed = errors.New("crashed")

func (m *mortal) Append(records []cluster.Record) error {
	if m.dead.Load() {
		return errCrashed
	}
	return m.Journal.Append(records)
}

func (m *mortal) Checkpoint(ctx context.Context, snapshot *cluster.Snapshot) error {
	if m.dead.Load() {
		return errCrashed
	}
	return m.Journal.Checkpoint(ctx, snapshot)
}

// startScheduler starts a scheduler on the journal that the one before has left.
func (s *storm) startScheduler() {
	state, err := journal.Load(s.history)
	require.NoError(s, err)
	history := &mortal{Journal: s.history}
	s.scheduler, err = serve.New(serve.Config{
		Journal: history, State: state, CheckpointEvery: 500, LostAfter: lostAfter,
		Planner: cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() }),
	})
	require.NoError(s, err)
	server := serve.NewServer(s.scheduler, serve.About{Version: "test"})
	listener := bufconn.Listen(1 << 20)
	s.listener.Store(listener)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _ = s.scheduler.Run(ctx) })
	s.killScheduler = func(crash bool) {
		history.dead.Store(crash)
		server.Stop()
		cancel()
		running.Wait()
	}
}

// line carries connections, until it is cut.
type line struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (l *line) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errors.Join(errors.New("the line is cut"), conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

// setCut breaks all connections and lets no new ones through, or lets them through again.
func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// site is a Mesos cluster with its host manager.
type site struct {
	*storm
	name  string
	roles []string
	mesos *mesostest.Cluster
	net   *mesostest.Net

	root, dir string // where managers keep their folders, and that of the present one
	managers  int
	up        *line // to the scheduler
	conn      *grpc.ClientConn
	driver    hostmgr.Driver
	stop      func(crash bool)
}

var stormMasters = []string{"one:5050", "two:5050", "three:5050"}

// volumeRoles are the roles of host managers whose tasks can have volumes.
var volumeRoles = [][]string{{"*", "eng"}, {"a", "b"}, {"eng"}}

func newSite(s *storm, name, root string, seed uint64) *site {
	at := &site{storm: s, name: name, root: root, dir: filepath.Join(root, name)}
	if s.volumes {
		at.roles = volumeRoles[seed%3]
	}
	at.mesos = mesostest.New(mesostest.Config{
		Masters: stormMasters, Behave: stormBehaviour, AgentTimeout: agentTime, Seed: seed, KillPolicyOverrides: seed%2 == 0,
	})
	at.net = mesostest.NewNet(at.mesos)
	for i := range siteHosts {
		at.mesos.AddAgent(mesostest.AgentSpec{
			Hostname: fmt.Sprint("h", i), Attributes: map[string]string{"rack": fmt.Sprint("r", i%3)},
			Resources: []api.Resource{
				mesostest.Scalar("cpus", 8), mesostest.Scalar("mem", 16384), mesostest.Scalar("disk", 10000), mesostest.Ports(31000, 31099),
			},
		})
	}
	at.start()
	return at
}

func (at *site) close() {
	at.stop(false)
	at.net.Close()
	at.mesos.Close()
}

// start starts a host manager on the folder that the one before has left.
func (at *site) start() {
	masters := &line{dial: at.net.DialContext}
	up := &line{dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return at.listener.Load().DialContext(ctx) }}
	conn, err := grpc.NewClient("passthrough:scheduler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return up.DialContext(ctx, "", address) }))
	require.NoError(at, err)
	driver, err := mesos.New(mesos.Config{
		Dir: at.dir, Masters: strings.Join(stormMasters, ","), User: "nobody", Roles: at.roles, VolumeBytes: 256 << 20, Dial: masters.DialContext,
		OfferHold: offerHold, FailoverTimeout: 24 * time.Hour, ReconcileEvery: time.Minute,
	})
	require.NoError(at, err)
	at.driver, at.up, at.conn = driver, up, conn
	name := cluster.ShardID(at.name)
	shard, err := hostmgr.NewShard(hostmgr.ShardConfig{
		Name: name, Kind: "mesos", Driver: driver, Conn: conn, Cluster: hostmgr.ClusterFile{Path: filepath.Join(at.dir, "cluster"), Shard: name},
	})
	require.NoError(at, err)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- shard.Run(ctx) }()
	at.stop = func(crash bool) {
		if crash { // what it does from now on reaches nobody, and what it writes is not what the next one finds
			masters.setCut(true)
			up.setCut(true)
			at.leave()
		}
		cancel()
		if err := <-result; err != nil {
			assert.ErrorIs(at, err, context.Canceled, "%v", at.story())
		}
		assert.NoError(at, driver.Close())
		assert.NoError(at, conn.Close())
		at.stop = func(bool) {}
	}
}

// serves reports whether the host manager is connected on both sides.
func (at *site) serves() bool {
	return at.mesos.Subscribers() > 0 && at.conn.GetState() == connectivity.Ready
}

// leave keeps what a host manager that crashes now leaves on disk.
func (at *site) leave() {
	synctest.Wait()
	at.managers++
	next := filepath.Join(at.root, fmt.Sprint(at.name, at.managers))
	require.NoError(at, os.CopyFS(next, os.DirFS(at.dir)))
	at.dir = next
}

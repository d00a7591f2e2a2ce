//go:build zookeeper

package mesos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// patience is how long the real server may take for anything.
const patience = 90 * time.Second

// zooServer is a real ZooKeeper server on loopback.
type zooServer struct {
	*testing.T
	address string
	config  string
	process *exec.Cmd
}

func newZooServer(t *testing.T) *zooServer {
	const jar = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(jar); err != nil {
		t.Fatalf("there is no ZooKeeper here; scripts/install-zookeeper.sh installs it: %v", err)
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	z := &zooServer{T: t, address: fmt.Sprint("127.0.0.1:", port), config: filepath.Join(dir, "zoo.cfg")}
	settings := fmt.Sprintf("dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n", dir, port)
	require.NoError(t, os.WriteFile(z.config, []byte(settings), 0o600))
	z.start()
	t.Cleanup(z.kill)
	return z
}

// start starts the server on the data that it had, and waits until it answers.
func (z *zooServer) start() {
	z.process = exec.Command("java", "-Xmx256m", "-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.4lw.commands.whitelist=ruok",
		"-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", z.config)
	z.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output strings.Builder
	z.process.Stdout, z.process.Stderr = &output, &output
	require.NoError(z, z.process.Start())
	require.Eventually(z, func() bool {
		conn, err := net.Dial("tcp", z.address)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		answer := make([]byte, 4)
		if _, err := conn.Write([]byte("ruok")); err != nil {
			return false
		}
		_, err = conn.Read(answer)
		return err == nil && string(answer) == "imok"
	}, patience, 100*time.Millisecond, "the server does not answer")
}

// kill ends the server without a word.
func (z *zooServer) kill() {
	if z.process == nil {
		return
	}
	_ = z.process.Process.Kill()
	_ = z.process.Wait()
	z.process = nil
}

// candidate makes a master stand for election, as a master does: an ephemeral node with a sequence number and its
// MasterInfo. The session is what keeps it there.
func (z *zooServer) candidate(ip string, port int) *zk.Conn {
	conn, events, err := zk.Connect([]string{z.address}, 4*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	require.NoError(z, err)
	go func() {
		for range events {
			continue
		}
	}()
	info, err := json.Marshal(map[string]any{
		"id": "m", "pid": fmt.Sprintf("master@%s:%d", ip, port), "port": port, "hostname": "localhost",
		"address": map[string]any{"hostname": "localhost", "ip": ip, "port": port},
	})
	require.NoError(z, err)
	require.Eventually(z, func() bool {
		_, _, err := conn.Exists("/")
		return err == nil
	}, patience, 100*time.Millisecond, "the server does not serve")
	open := zk.WorldACL(zk.PermAll)
	_, err = conn.Create("/mesos", nil, 0, open)
	if err != nil {
		require.ErrorIs(z, err, zk.ErrNodeExists)
	}
	_, err = conn.Create("/mesos/json.info_", info, zk.FlagEphemeral|zk.FlagSequence, open)
	require.NoError(z, err)
	z.Cleanup(conn.Close)
	return conn
}

// testLog shows what the driver says if the test fails.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// watcher is a sink that keeps the latest status of each run, and makes all durable at once.
type watcher struct {
	mu     sync.Mutex
	driver hostmgr.Driver
	latest map[cluster.RunID]cluster.TaskState
	hosts  int
}

func (w *watcher) ReportHosts(hosts []hostmgr.Host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = len(hosts)
}

func (w *watcher) ReportStatus(s hostmgr.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[s.Run] = s.State
	if d, ok := w.driver.(hostmgr.Acknowledger); ok {
		go d.Durable(s)
	}
}

func (w *watcher) ReportHealth(hostmgr.Health) {}
func (w *watcher) ReportUsage([]hostmgr.Usage) {}

func (w *watcher) is(run cluster.RunID, state cluster.TaskState) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.latest[run] == state
	}
}

// TestZooKeeper finds the leading master in a real ZooKeeper: one that comes after the driver, one that follows the first,
// and one that leads while ZooKeeper itself is away.
func TestZooKeeper(t *testing.T) {
	server := newZooServer(t)
	masters := []string{"127.0.0.1:1", "127.0.0.1:2"} // served in memory
	world := mesostest.New(mesostest.Config{Masters: masters, AllocationInterval: 50 * time.Millisecond, ReregisterAfter: 50 * time.Millisecond})
	inMemory := mesostest.NewNet(world)
	t.Cleanup(func() { inMemory.Close(); world.Close() })
	world.AddAgent(mesostest.AgentSpec{
		Hostname: "h", Resources: []api.Resource{mesostest.Scalar("cpus", 8), mesostest.Scalar("mem", 8192), mesostest.Scalar("disk", 1000)},
	})
	driver, err := mesos.New(mesos.Config{
		Dir: t.TempDir(), Masters: "zk://" + server.address + "/mesos", User: "nobody", Log: testLog(t),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == server.address {
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return inMemory.DialContext(ctx, network, address)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	w := &watcher{driver: driver, latest: map[cluster.RunID]cluster.TaskState{}}
	started := make(chan error, 1)
	go func() { started <- driver.Start(t.Context(), w) }()
	select {
	case err := <-started:
		require.Fail(t, "it started without a master", "%v", err)
	case <-time.After(time.Second): // the path is not there yet
	}
	first := server.candidate("127.0.0.1", 1)
	select {
	case err := <-started:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "it did not find the first master")
	}
	run := func(n uint32) cluster.RunID { return cluster.RunID{Task: cluster.MakeTaskKey(1, n), Run: 1} }
	launch := func(n uint32) {
		t.Helper()
		require.NoError(t, driver.Launch(t.Context(), hostmgr.Launch{Run: run(n), Host: "h", Task: cluster.TaskSpec{
			Processes: []cluster.Process{{Command: []string{"work"}}},
			Resources: cluster.NewResources([cluster.NumDimensions]int64{500, 1 << 28, 0, 0}),
		}}))
		require.Eventually(t, w.is(run(n), cluster.TaskRunning), patience, 20*time.Millisecond)
	}
	launch(0)

	// The leader goes, and the next in line leads.
	server.candidate("127.0.0.1", 2)
	world.Elect("")
	world.SetMasterDown(masters[0], true)
	first.Close()
	world.Elect(masters[1])
	launch(1)
	require.True(t, w.is(run(0), cluster.TaskRunning)(), "what ran runs on")

	// ZooKeeper goes and comes back, and the driver follows the next change.
	server.kill()
	time.Sleep(time.Second)
	server.start()
	world.SetMasterDown(masters[0], false)
	server.candidate("127.0.0.1", 1)
	launch(2)
	require.Len(t, world.Runs(), 3)
}

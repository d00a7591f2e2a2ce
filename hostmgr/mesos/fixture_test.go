package mesos

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// behave is what the stand-in's tasks do: the first word of their command.
func behave(t api.TaskInfo) mesostest.Behaviour {
	b := mesostest.Behaviour{Startup: time.Millisecond}
	switch t.Command.GetValue() {
	case "fail":
		b.ExitCode = 3
	case "crash":
		b.Signal = 9
	case "serve":
		b.Runs = mesostest.Forever
	case "stubborn":
		b.Runs, b.IgnoresTerm = mesostest.Forever, true
	case "second":
		b.Runs = time.Second
	case "missing":
		b.LaunchFails = true
	}
	return b
}

// world is a Mesos cluster and the state folder of a driver.
type world struct {
	*mesostest.Cluster
	net *mesostest.Net
	dir string
}

// newWorld makes a cluster of so many agents, h0, h1 and so on, each with 4 cores.
func newWorld(t testing.TB, c mesostest.Config, agents int) *world {
	if c.Behave == nil {
		c.Behave = behave
	}
	if c.AllocationInterval == 0 {
		c.AllocationInterval = 20 * time.Millisecond
	}
	w := &world{Cluster: mesostest.New(c), dir: t.TempDir()}
	w.net = mesostest.NewNet(w.Cluster)
	t.Cleanup(func() { w.net.Close(); w.Cluster.Close() })
	for i := range agents {
		w.AddAgent(agentSpec(i))
	}
	return w
}

func agentSpec(i int) mesostest.AgentSpec { return agentWithDisk(i, 10000) }

// agentWithDisk is agentSpec with so many MiB of disk.
func agentWithDisk(i int, disk float64) mesostest.AgentSpec {
	return mesostest.AgentSpec{
		Hostname:   fmt.Sprintf("h%d", i),
		Attributes: map[string]string{"rack": fmt.Sprintf("r%d", i%2), "zone": "z", "os": "linux"},
		Resources: []api.Resource{
			mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096), mesostest.Scalar("disk", disk), mesostest.Ports(31000, 31999),
		},
	}
}

// config returns settings with which tests do not wait for long.
func (w *world) config() Config {
	c := Config{Dir: w.dir, Masters: "master:5050", Name: "test", User: "nobody", Dial: w.net.DialContext, OfferWait: 2 * time.Second}
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return c
}

func newDriver(t testing.TB, c Config) *driver {
	t.Helper()
	d, err := New(c)
	require.NoError(t, err)
	return d.(*driver)
}

// settled is a driver whose reports become durable at once, as with a scheduler that is quick.
type settled struct {
	*driver
	durable chan hostmgr.Status
	done    chan struct{}
	once    sync.Once
}

func newSettled(d *driver) *settled {
	s := &settled{driver: d, durable: make(chan hostmgr.Status, 1<<16), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for st := range s.durable {
			d.Durable(st)
		}
	}()
	return s
}

func (s *settled) Start(ctx context.Context, sink hostmgr.Sink) error {
	if err := s.driver.Start(ctx, tee{sink, s.durable}); err != nil {
		return err
	}
	for _, st := range s.driver.Inventory() {
		s.durable <- st
	}
	return nil
}

func (s *settled) Close() error {
	err := s.driver.Close()
	s.once.Do(func() { close(s.durable) })
	<-s.done
	return err
}

type tee struct {
	hostmgr.Sink
	durable chan hostmgr.Status
}

func (k tee) ReportStatus(s hostmgr.Status) {
	k.Sink.ReportStatus(s)
	k.durable <- s
}

// starts counts how often a run's process was started.
func (w *world) starts(run cluster.RunID) int {
	n := 0
	for _, r := range w.Runs() {
		if name, _, _ := strings.Cut(r.TaskID, "_"); name == run.String() && !r.Started.IsZero() {
			n++
		}
	}
	return n
}

// drive opens a driver over the world, started, with a recorder for its reports.
func (w *world) drive(t testing.TB, change func(*Config)) (*settled, *drivertest.Recorder) {
	t.Helper()
	c := w.config()
	if change != nil {
		change(&c)
	}
	d, recorder := newSettled(newDriver(t, c)), drivertest.NewRecorder()
	require.NoError(t, d.Start(t.Context(), recorder))
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		require.Empty(t, recorder.Violations())
	})
	return d, recorder
}

func runID(n int) cluster.RunID {
	return cluster.RunID{Task: cluster.MakeTaskKey(7, uint32(n)), Run: 1}
}

// launchOf returns a launch of a command on a host.
func launchOf(n int, host string, command ...string) hostmgr.Launch {
	return hostmgr.Launch{
		Run: runID(n), Job: "job", Host: host,
		Task: cluster.TaskSpec{
			Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 500, cluster.Memory: 64 << 20}},
			Processes: []cluster.Process{{Command: command}},
		},
	}
}

// becomes waits until the inventory shows a run in a state.
func becomes(t testing.TB, d hostmgr.Driver, run cluster.RunID, state cluster.TaskState) hostmgr.Status {
	t.Helper()
	var last hostmgr.Status
	require.Eventually(t, func() bool {
		for _, st := range d.Inventory() {
			if st.Run == run {
				last = st
			}
		}
		return last.State == state
	}, 30*time.Second, 2*time.Millisecond, "run %v never became %v", run, state)
	return last
}

// comesTo waits until the driver, whose mutex is held meanwhile, is as told.
func (d *driver) comesTo(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return is()
	}, 30*time.Second, time.Millisecond)
}

//go:build linux

package local

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// fixture is a started driver over a folder of its own. At the end of the test everything it runs is killed.
type fixture struct {
	*testing.T
	*driver
	config Config
	sink   *drivertest.Recorder
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	f := &fixture{T: t, config: Config{Dir: filepath.Join(t.TempDir(), "state"), Hosts: 2}, sink: drivertest.NewRecorder()}
	if change != nil {
		change(&f.config)
	}
	f.start()
	t.Cleanup(func() {
		for _, s := range f.Inventory() {
			require.NoError(t, f.driver.Kill(context.Background(), s.Run, 0))
			f.ended(s.Run)
		}
		require.NoError(t, f.Close())
		require.Empty(t, f.sink.Violations())
		nothingRuns(t, f.config.Dir)
	})
	return f
}

// nothingRuns waits until no process of a state folder is left: a supervisor that has recorded the end may still be on its way out.
func nothingRuns(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(marked(t, dir)) == 0 }, time.Minute, 5*time.Millisecond, "processes are left behind")
}

// start starts a driver that is connected with a scheduler.
func (f *fixture) start() {
	f.driver = newDriver(f.T, f.config)
	require.NoError(f, f.Start(f.Context(), f.sink))
	f.acknowledge()
}

// acknowledge tells the driver, as a scheduler does, that what it knows is durable.
func (f *fixture) acknowledge() {
	for _, s := range f.Inventory() {
		f.Durable(s)
	}
}

// reopen replaces the driver by another one over the same folder.
func (f *fixture) reopen() {
	require.NoError(f, f.Close())
	f.sink.Forget()
	f.start()
}

// shell launches a script as the n-th run, with changes to the payload.
func (f *fixture) shell(n int, text string, change func(*hostmgr.Launch)) cluster.RunID {
	f.Helper()
	l := hostmgr.Launch{
		Run: cluster.RunID{Task: cluster.MakeTaskKey(3, uint32(n)), Run: 2}, Job: "fixture", Host: "h1",
		Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"sh", "-c", text}}}},
	}
	if change != nil {
		change(&l)
	}
	require.NoError(f, f.Launch(f.Context(), l))
	return l.Run
}

func (f *fixture) status(id cluster.RunID) hostmgr.Status {
	r := f.known(id)
	require.NotNil(f, r, "run %v is not known", id)
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.status
}

// ended waits for the end of a run.
func (f *fixture) ended(id cluster.RunID) hostmgr.Status {
	f.Helper()
	eventually(f.T, id.String()+" ends", func() bool { return f.status(id).State.Terminal() })
	return f.status(id)
}

// says waits until a run has written a text to stdout, and nothing else.
func (f *fixture) says(id cluster.RunID, text string) {
	f.Helper()
	eventually(f.T, id.String()+" says "+text, func() bool { return f.output(id, 0) == text })
}

func (f *fixture) output(id cluster.RunID, offset int64) string {
	f.Helper()
	log, err := f.OpenLog(f.Context(), hostmgr.LogRequest{Run: id, Offset: offset})
	require.NoError(f, err)
	data, err := io.ReadAll(log)
	require.NoError(f, err)
	require.NoError(f, log.Close())
	return string(data)
}

// supervisorOf waits until a run has a supervisor and returns its process id.
func (f *fixture) supervisorOf(id cluster.RunID) (pid int) {
	f.Helper()
	eventually(f.T, id.String()+" has a supervisor", func() bool {
		pid, _ = lockHolder(filepath.Join(f.state.run(id.String()), lockFile))
		return pid != 0
	})
	return pid
}

// processOf waits until the first process of a run is recorded, which may be after it has written something, and returns its id.
func (f *fixture) processOf(id cluster.RunID) int {
	f.Helper()
	var running *runningRecord
	eventually(f.T, id.String()+" runs", func() bool {
		var err error
		running, err = readRecord[runningRecord](f.state.run(id.String()), runningFile)
		require.NoError(f, err)
		return running != nil
	})
	return running.PID
}

// eventually looks at cond until it holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "waited in vain: %s", what)
	}
}

// countLines returns how many lines of a file equal a text; a file that does not exist has none.
func countLines(t *testing.T, path, line string) (n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for l := range strings.Lines(string(data)) {
		if strings.TrimSuffix(l, "\n") == line {
			n++
		}
	}
	return n
}

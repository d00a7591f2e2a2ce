//go:build linux

package local

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/bin")
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("PRIVATE", "to the scheduler")
	for _, name := range inherited[1:] {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	f := newFixture(t, nil)
	id := f.shell(4, "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort", func(l *hostmgr.Launch) {
		l.Job = "a job"
		l.Env = []cluster.KeyValue{{Key: "HOME", Value: "/home/task"}, {Key: "MORE", Value: "a=b\n"}, {Key: "HOME", Value: "/home/last"}}
	})
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
	dir := f.state.run("3.4.2")
	require.Equal(t, `
HOME=/home/last
MORE=a=b
PATH=/bin:/usr/bin
SLUICE_HOST=h1
SLUICE_HOST_ADDRESS=127.0.0.1
SLUICE_INSTANCE=4
SLUICE_JOB=a job
SLUICE_JOB_UID=3
SLUICE_RUN=2
SLUICE_RUN_DIR=`+dir+`/work
SLUICE_RUN_ID=3.4.2
SLUICE_TASK_ID=3.4
TMPDIR=`+dir+`/tmp
`, f.output(id, 0))
}

// TestSurroundings: stdin is empty, no descriptor of the scheduler is open, the folders exist, signals are at rest.
func TestSurroundings(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, `wc -c; ls /proc/self/fd | wc -l; pwd; test -w "$TMPDIR" && echo writable; grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f 2`, nil)
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
	lines := strings.Fields(f.output(id, 0))
	// Four descriptors: the three of every process and the one with which ls reads the folder.
	require.Equal(t, []string{"0", "4", filepath.Join(f.state.run(id.String()), workFolder), "writable"}, lines[:4])
	require.Len(t, lines, 6)
	for _, mask := range lines[4:] {
		signals, err := strconv.ParseUint(mask, 16, 64)
		require.NoError(t, err)
		const ofTheLibrary = 1<<31 | 1<<32 // 32 and 33: a C library that started the tests ignores its own
		require.Zero(t, signals&^ofTheLibrary, mask)
	}
}

func TestLaunchRefused(t *testing.T) {
	cases := []struct {
		change func(*hostmgr.Launch)
		says   string
	}{
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{""} }, "command is empty"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{"true", "a\x00b"} }, "command[1] contains a zero byte"},
		{func(l *hostmgr.Launch) { l.Env = []cluster.KeyValue{{Key: "A"}, {Key: "B=C"}} }, `env[1] "B=C"`},
		{func(l *hostmgr.Launch) { l.Env = []cluster.KeyValue{{Value: "x"}} }, "env[0]"},
		{func(l *hostmgr.Launch) { l.Env = []cluster.KeyValue{{Key: "A", Value: "\x00"}} }, "env[0]"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].WorkDir = "../work" }, "inside the run's own folder"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].WorkDir = "/a\x00" }, "inside the run's own folder"},
		{func(l *hostmgr.Launch) { l.Task.LogLimitBytes = -1 }, "negative"},
		{func(l *hostmgr.Launch) { l.Task.Volumes = []cluster.Volume{{Name: "../../x", MountPath: "v"}} }, "leads to another folder"},
		{func(l *hostmgr.Launch) { l.Task.Volumes = []cluster.Volume{{Name: "..", MountPath: "v"}} }, "leads to another folder"},
		{func(l *hostmgr.Launch) { l.Task.Volumes = []cluster.Volume{{Name: "v", MountPath: "../v"}} }, "cannot be mounted"},
		{func(l *hostmgr.Launch) {
			l.Task.Volumes = []cluster.Volume{{Name: "v", MountPath: "in/v"}}
			l.Task.Processes[0].Fetch = []cluster.Fetch{{URI: "file:///f"}, {URI: "file:///f", Path: "in/v/f"}}
		}, `fetch[1] goes to "in/v/f", which is in the volume at "in/v"`},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Name = "../../launch" }, "cannot name a log"},
		{func(l *hostmgr.Launch) { l.Secrets = []hostmgr.SecretFile{{Path: "../x"}} }, "not inside the folder of the secrets"},
		{func(l *hostmgr.Launch) { l.Host = "h2" }, "no such host"},
	}
	f := newFixture(t, nil)
	for _, c := range cases {
		l := hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
		c.change(&l)
		require.ErrorContains(t, f.Launch(t.Context(), l), c.says)
	}
	require.Empty(t, f.Inventory())
	names, err := f.state.runNames()
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestLaunchFails(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("#!/no/such/interpreter\n"), 0o700))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("words"), 0o600))
	cases := []struct {
		change func(*hostmgr.Launch)
		says   string
	}{
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{"no-such-program"} }, `command "no-such-program" was not found in PATH /`},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{"./no-such-program"} }, "start ./no-such-program: no such file"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{text} }, "no such file"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].Command = []string{plain} }, "permission denied"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].WorkDir = dir + "/none" }, "working directory " + dir + "/none does not exist"},
		{func(l *hostmgr.Launch) { l.Task.Processes[0].WorkDir = text }, "is not a folder"},
	}
	f := newFixture(t, nil)
	for i, c := range cases {
		id := f.shell(i, "true", c.change)
		s := f.ended(id)
		require.Equal(t, cluster.TaskFailed, s.State, "%+v", s)
		require.Equal(t, cluster.ReasonLaunchFailed, s.Reason)
		require.Contains(t, s.Message, c.says)
		require.EqualValues(t, -1, s.ExitCode)
	}
}

// TestPathOfTheTask: the command is looked up where the task looks, and a relative one starts in its working directory.
func TestPathOfTheTask(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho tool in $(pwd)\n"), 0o700))
	f := newFixture(t, nil)
	found := f.shell(0, "", func(l *hostmgr.Launch) {
		l.Task.Processes[0].Command, l.Task.Processes[0].WorkDir = []string{"tool"}, "/"
		l.Env = []cluster.KeyValue{{Key: "PATH", Value: dir + ":" + os.Getenv("PATH")}}
	})
	relative := f.shell(1, "", func(l *hostmgr.Launch) {
		l.Task.Processes[0].Command, l.Task.Processes[0].WorkDir = []string{"./tool"}, dir
	})
	require.Equal(t, cluster.TaskSucceeded, f.ended(found).State)
	require.Equal(t, "tool in /\n", f.output(found, 0))
	require.Equal(t, cluster.TaskSucceeded, f.ended(relative).State)
	require.Equal(t, "tool in "+dir+"\n", f.output(relative, 0))

	own := f.shell(2, `cd "$SLUICE_RUN_DIR/a/b" && [ "$PWD" = "$OLDPWD" ]`, func(l *hostmgr.Launch) { l.Task.Processes[0].WorkDir = "a/b" })
	require.Equal(t, cluster.TaskSucceeded, f.ended(own).State, "a folder inside the run's own is made")
}

// TestLaunchNotRecorded: a launch whose intent cannot be recorded leaves nothing, and can be repeated.
func TestLaunchNotRecorded(t *testing.T) {
	f := newFixture(t, nil)
	l := hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
	obstacle := f.state.temp(l.Run.String())
	require.NoError(t, os.WriteFile(obstacle, nil, 0o600))
	require.ErrorContains(t, f.Launch(t.Context(), l), "record the launch")
	require.Empty(t, f.Inventory())
	require.NoError(t, f.Launch(t.Context(), l), "the obstacle was removed with what was left")
	require.Equal(t, cluster.TaskSucceeded, f.ended(l.Run).State)
}

// TestLaunchWithoutMeans: a machine that has run out of something gives launches back, which is no failure of the task.
func TestLaunchWithoutMeans(t *testing.T) {
	f := newFixture(t, nil)
	whole := f.sink.Hosts()
	asks := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 100})
	f.says(f.shell(0, "echo ready; exec sleep 1000", func(l *hostmgr.Launch) { l.Task.Resources, l.Ports = asks, []uint16{20_007, 20_003} }), "ready\n")
	l := hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}, nil))
	err := f.Launch(t.Context(), l)
	eventually(t, "the machine takes no new tasks", func() bool { return !f.sink.Hosts()[0].Equal(whole[0].Machine) })
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil))
	hosts := f.sink.Hosts()
	require.True(t, hosts[0].Capacity.IsZero())
	require.Empty(t, hosts[0].Ports)
	require.True(t, hosts[1].Capacity.Equal(asks), "what runs goes on")
	require.Equal(t, []cluster.PortRange{{First: 20_003, Last: 20_003}, {First: 20_007, Last: 20_007}}, hosts[1].Ports)
	require.Contains(t, hosts[0].Notes, "no new tasks: too many open files")
	eventually(t, "the machine takes tasks again", func() bool {
		return f.sink.Hosts()[0].Equal(whole[0].Machine) && f.sink.Hosts()[1].Equal(whole[1].Machine)
	})
	require.ErrorIs(t, err, hostmgr.ErrRefused)
	require.ErrorContains(t, err, "too many open files")
	require.NotContains(t, err.Error(), f.config.Dir, "where a host manager keeps things is nobody's business")
	require.Len(t, f.Inventory(), 1)
	l.Run.Run++
	require.NoError(t, f.Launch(t.Context(), l))
	require.Equal(t, cluster.TaskSucceeded, f.ended(l.Run).State)
}

// TestLaunchThatHangs: a machine whose disk hangs without an error takes no new tasks until it goes on. The launch that waits for it is not
// given back, as it may be recorded yet.
func TestLaunchThatHangs(t *testing.T) {
	f := newFixture(t, nil)
	whole := f.sink.Hosts()
	asks := cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 100})
	waits := newRun(hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Resources: asks}}, f.state.run("waits"))
	f.mu.Lock()
	f.runs[waits.id] = waits // as Launch has it while it records
	f.mu.Unlock()
	f.hanging <- struct{}{}
	eventually(t, "the machine takes no new tasks", func() bool { return f.sink.Hosts()[1].Capacity.IsZero() })
	require.True(t, f.sink.Hosts()[0].Capacity.Equal(asks), "what waits has its place")
	require.Contains(t, f.sink.Hosts()[0].Notes, "no new tasks: the disk does not answer")
	f.mu.Lock()
	delete(f.runs, waits.id)
	f.mu.Unlock()
	again := func() bool {
		return f.sink.Hosts()[0].Equal(whole[0].Machine) && f.sink.Hosts()[1].Equal(whole[1].Machine)
	}
	eventually(t, "the machine takes tasks again", again)
}

// TestLaunchThatTakesLong: that a launch takes too long to record is said, and it is carried out all the same.
func TestLaunchThatTakesLong(t *testing.T) {
	said := make(lines, 1000)
	f := newFixture(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(said, nil)) })
	f.patience = time.Nanosecond
	const hangs = `msg="this machine takes no new tasks" reason="the disk does not answer"`
	for n := 0; !said.has(hangs); n++ { // one may be recorded before the timer is looked at
		require.Less(t, n, 100, "it is not said: %s", hangs)
		require.Equal(t, cluster.TaskSucceeded, f.ended(f.shell(n, "true", nil)).State)
	}
	said.wait(t, "this machine takes tasks again")
}

// lines is what was logged.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// has takes what has been logged, up to the first line with the text, and reports whether there is one.
func (l lines) has(text string) bool {
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return true
			}
		default:
			return false
		}
	}
}

func (l lines) wait(t *testing.T, text string) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-end:
			require.Fail(t, "it is not said", text)
		}
	}
}

// TestWhatALaunchLeavesGoes: what could not be removed while the machine was out of files goes later, secrets too.
func TestWhatALaunchLeavesGoes(t *testing.T) {
	f := newFixture(t, nil)
	if f.secrets == "" {
		t.Skipf("secrets need a file system in memory: %v", f.secretsProblem)
	}
	l := hostmgr.Launch{
		Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Secrets: []hostmgr.SecretFile{{Path: "password", Value: []byte("hush")}},
		Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}},
	}
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}, nil))
	err := f.Launch(t.Context(), l)
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil))
	require.ErrorIs(t, err, hostmgr.ErrRefused)
	for _, name := range []string{"1.2.3", removedPrefix + "X"} {
		require.NoError(t, os.Mkdir(f.state.temp(name), 0o700))
	}
	require.DirExists(t, f.secretsOf(l.Run))
	f.sweep()
	require.NoDirExists(t, f.secretsOf(l.Run))
	eventually(t, "nothing is left", func() bool {
		left, err := os.ReadDir(f.state.temp(""))
		return err == nil && len(left) == 0
	})
}

// TestLaunchWithoutFolder: a state folder in which nothing can be recorded is no failure of the task either.
func TestLaunchWithoutFolder(t *testing.T) {
	f := newFixture(t, nil)
	whole := f.sink.Hosts()
	l := hostmgr.Launch{Run: cluster.RunID{Task: 1, Run: 1}, Host: "h0", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}}}
	for _, folder := range []string{f.state.temp(""), f.state.run("")} {
		require.NoError(t, os.Remove(folder))
		err := f.Launch(t.Context(), l)
		require.ErrorIs(t, err, hostmgr.ErrRefused)
		require.NotContains(t, err.Error(), f.config.Dir)
		eventually(t, "the machine takes no new tasks", func() bool { return f.sink.Hosts()[0].Capacity.IsZero() })
		require.Contains(t, f.sink.Hosts()[0].Notes, "no new tasks: no such file or directory")
		require.NoError(t, os.Mkdir(folder, 0o700))
		eventually(t, "the machine takes tasks again", func() bool { return f.sink.Hosts()[0].Equal(whole[0].Machine) })
		l.Run.Run++
	}
	require.NoError(t, f.Launch(t.Context(), l))
	require.Equal(t, cluster.TaskSucceeded, f.ended(l.Run).State)
}

// TestLaunchOfAnEarlierDriver: what an earlier driver recorded and did not begin may have been given up by the scheduler meanwhile. It
// begins when that has acknowledged it, and never if it is killed instead.
func TestLaunchOfAnEarlierDriver(t *testing.T) {
	f := newFixture(t, nil)
	for range cap(f.starting) {
		f.starting <- struct{}{} // none begins
	}
	wanted, given := f.shell(1, "echo begun", nil), f.shell(2, "echo begun", nil)
	require.NoError(t, f.Close())
	f.driver = newDriver(t, f.config)
	require.NoError(t, f.Start(t.Context(), f.sink))
	f.ended(f.shell(3, "true", nil))
	for _, id := range []cluster.RunID{wanted, given} {
		require.Equal(t, cluster.TaskLaunching, f.status(id).State)
		require.NoFileExists(t, filepath.Join(f.state.run(id.String()), startedFile))
	}
	require.NoError(t, f.driver.Kill(t.Context(), given, time.Minute))
	require.Equal(t, cluster.TaskKilled, f.ended(given).State)
	require.NoFileExists(t, filepath.Join(f.state.run(given.String()), runningFile))
	f.Durable(f.status(wanted))
	require.Equal(t, cluster.TaskSucceeded, f.ended(wanted).State)
	require.Equal(t, "begun\n", f.output(wanted, 0))
}

// TestStartWithoutMeans: a machine on which a process cannot be started gives the launch back too, once it is recorded.
func TestStartWithoutMeans(t *testing.T) {
	f := newFixture(t, nil)
	armCrash(t, f.config.Dir, "supervisor after start"+starving)
	s := f.ended(f.shell(0, "true", nil))
	require.Equal(t, cluster.TaskFailed, s.State)
	require.Equal(t, cluster.ReasonLaunchRefused, s.Reason, "%+v", s)
	require.Equal(t, "hostmgr: the launch is given back: too many open files", s.Message)
	require.Equal(t, cluster.TaskSucceeded, f.ended(f.shell(1, "true", nil)).State)
}

// TestInitStepWithoutMeans: so does one where it is the first init step that cannot be started. If that comes later, the machine is
// looked at all the same.
func TestInitStepWithoutMeans(t *testing.T) {
	step := func(l *hostmgr.Launch) { l.Task.Init = []cluster.Process{{Name: "first", Command: []string{"true"}}} }
	f := newFixture(t, nil)
	armCrash(t, f.config.Dir, "supervisor after start"+starving)
	s := f.ended(f.shell(0, "true", step))
	require.Equal(t, cluster.ReasonLaunchRefused, s.Reason, "%+v", s)
	starts := func(run cluster.RunID) bool {
		return slices.ContainsFunc(f.sink.Statuses(run), func(s hostmgr.Status) bool { return s.State == cluster.TaskStarting })
	}
	require.False(t, starts(s.Run), "it could not be given back any more")
	s = f.ended(f.shell(1, "true", step))
	require.Equal(t, cluster.TaskSucceeded, s.State)
	require.True(t, starts(s.Run))

	armCrash(t, f.config.Dir, "supervisor after start"+starving)
	id := f.shell(2, "true", func(l *hostmgr.Launch) {
		step(l)
		l.Task.Volumes = []cluster.Volume{{HostPath: t.TempDir(), MountPath: "data"}}
	})
	require.Equal(t, cluster.ReasonLaunchFailed, f.ended(id).Reason)
	exit, err := readExit(f.state.run(id.String()))
	require.NoError(t, err)
	require.True(t, exit.Lacks)
}

//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seed is the seed of the random moments, from SLUICE_SEED if that is set.
func seed(t *testing.T) uint64 {
	n := uint64(1)
	if s := os.Getenv("SLUICE_SEED"); s != "" {
		var err error
		n, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "SLUICE_SEED")
	}
	t.Logf("SLUICE_SEED=%d", n)
	return n
}

// The process is killed at random moments while jobs come in and tasks start, run and end. Every task writes a line
// when it begins and one when it ends: no task may begin twice, and every job has to succeed.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	const kills, tasks = 50, 12
	s := newSite(t)
	random := rand.New(rand.NewPCG(seed(t), 0))
	begun, ended := s.path("begun"), s.path("ended")
	var clients []*process
	busy := 0
	for i := range kills {
		if random.IntN(4) == 0 { // and sometimes while it starts
			starting := s.devUnready()
			time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
			starting.kill()
		}
		dev := s.devUnready()
		file := s.file(fmt.Sprintf("job-%d.yaml", i), fmt.Sprintf(`
name: job-%d
instances: %d
task:
  processes:
    - shell: |
        echo "$SLUICE_JOB/$SLUICE_INSTANCE $SLUICE_RUN" >> %s
        sleep %.2f
        echo "$SLUICE_JOB/$SLUICE_INSTANCE $SLUICE_RUN" >> %s
  resources: {cpu: 10m, memory: 1Mi}
`, i, tasks, begun, 0.2+random.Float64(), ended))
		eventually(t, func() bool { return s.try("cluster", "status").code == 0 }, "the scheduler answers")
		clients = append(clients, s.start("job", "submit", file, "--wait"))
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		dev.kill()
		if len(lines(t, begun))-len(lines(t, ended)) >= 4 {
			busy++
		}
	}
	t.Logf("%d of %d kills hit four or more running tasks", busy, kills)
	require.GreaterOrEqual(t, busy, kills/5, "a machine that is busy itself starts fewer in the time")

	dev := s.dev()
	for i, c := range clients {
		if c.wait() == 5 && strings.Contains(c.output(), "no scheduler answers") { // it came too late to be heard
			s.must("job", "submit", s.path(fmt.Sprintf("job-%d.yaml", i)), "--wait")
			continue
		}
		require.Zero(t, c.wait(), "client %d: %s", i, c.output())
	}
	s.eachRanOnce(begun, ended, kills*tasks)
	dev.finish()
}

// eachRanOnce makes sure that so many tasks began and ended once, by the lines that they wrote to two files, and that all have succeeded.
func (s *site) eachRanOnce(begun, ended string, tasks int) {
	s.t.Helper()
	seen := map[string]bool{}
	for _, line := range lines(s.t, begun) {
		task, run, _ := strings.Cut(line, " ")
		require.False(s.t, seen[task], "%s began twice", task)
		require.Equal(s.t, "1", run, task)
		seen[task] = true
	}
	require.Len(s.t, seen, tasks)
	require.Len(s.t, lines(s.t, ended), tasks)
	list := get[taskList](s, "task", "list", "--limit", "0")
	require.Len(s.t, list.Tasks, tasks)
	for _, task := range list.Tasks {
		require.Equal(s.t, "TASK_STATE_SUCCEEDED", task.State, "%s/%d", task.Job, task.Instance)
		require.Equal(s.t, 1, task.Run, "%s/%d", task.Job, task.Instance)
	}
}

const slow = `
name: slow
task:
  processes:
    - shell: for i in $(seq 1 60); do echo "line $i"; sleep 0.05; done
  resources: {cpu: 100m, memory: 16Mi}
`

func slowLines() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestClientsGoOnOverARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	waiting := s.start("job", "submit", s.file("slow.yaml", slow), "--wait")
	watching := s.start("job", "watch", "slow")
	watching.says("running")
	following := s.start("task", "logs", "-f", "slow/0", "-o", "table")
	following.says("line 3\n")
	dev.kill()
	following.says("is away, trying again")
	waiting.says("is away, trying again")
	dev = s.dev()
	require.Zero(t, following.wait(), following.output())
	require.Zero(t, waiting.wait(), waiting.output())
	watching.says("succeeded")
	var text strings.Builder
	for line := range strings.Lines(following.output()) {
		if !strings.HasPrefix(line, "sluice: ") {
			text.WriteString(line)
		}
	}
	require.Equal(t, slowLines(), text.String())
	require.Equal(t, slowLines(), s.must("task", "logs", "slow/0"))
	dev.finish()
}

// sleepers says how many processes of this machine were started as `sleep mark`.
func sleepers(t *testing.T, mark string) int {
	t.Helper()
	found := 0
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && string(b) == "sleep\x00"+mark+"\x00" { // it may have ended meanwhile
			found++
		}
	}
	return found
}

func TestInterruptEndsTasksAndTheNextStartRunsThemAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	mark := fmt.Sprintf("%d.%d", 3000+os.Getpid(), time.Now().UnixNano()%1000000)
	s.must("job", "submit", s.file("job.yaml", fmt.Sprintf(`
name: stay
instances: 3
task:
  processes: [{argv: [sleep, "%s"]}]
  resources: {cpu: 100m, memory: 16Mi}
`, mark)))
	running := func(run int) func() bool {
		return func() bool {
			n := 0
			for _, task := range get[taskList](s, "task", "list", "stay", "--state", "running").Tasks {
				if task.Run == run {
					n++
				}
			}
			return n == 3
		}
	}
	eventually(t, running(1), "three tasks run")
	require.Equal(t, 3, sleepers(t, mark))
	dev.finish()
	require.Contains(t, dev.output(), "tasks that end now and run again at the next start: 3;")
	require.Zero(t, sleepers(t, mark))

	dev = s.dev()
	eventually(t, running(2), "three tasks run again")
	dev.signal(syscall.SIGTERM)
	require.Zero(t, dev.wait())
	require.Zero(t, sleepers(t, mark))

	dev = s.dev()
	eventually(t, running(3), "three tasks run again")
	closed := syscall.SIGHUP // its terminal was closed
	if signal.Ignored(closed) {
		closed = syscall.SIGTERM // under nohup that ends nothing
	}
	dev.signal(closed)
	require.Zero(t, dev.wait())
	require.Zero(t, sleepers(t, mark))

	// What reads the output ends with the same Ctrl-C, and before it.
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	piped := s.command(t.Context(), dev.cmd.Args[1:]...)
	piped.Stdout, piped.Stderr = writer, writer
	require.NoError(t, piped.Start())
	require.NoError(t, writer.Close())
	eventually(t, func() bool { return s.try("cluster", "status").code == 0 && running(4)() }, "three tasks run again")
	require.NoError(t, reader.Close())
	require.NoError(t, piped.Process.Signal(syscall.SIGINT))
	require.NoError(t, piped.Wait())
	require.Zero(t, sleepers(t, mark))
}

// A scheduler serves also if who reads its output has ended before it began.
func TestASchedulerWhoseOutputNobodyReads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	scheduler := s.command(t.Context(), "scheduler", "--insecure", "--listen", s.api, "--http-listen", s.web, "--state-dir", s.path("scheduler"))
	scheduler.Stdout, scheduler.Stderr = writer, writer
	require.NoError(t, scheduler.Start())
	require.NoError(t, writer.Close())
	eventually(t, func() bool { return s.try("cluster", "status").code == 0 }, "the scheduler answers")
	require.NoError(t, scheduler.Process.Signal(syscall.SIGINT))
	require.NoError(t, scheduler.Wait())
}

func TestSchedulerAndHostManagerOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	scheduler := func() *process {
		p := s.start("scheduler", "--insecure", "--listen", s.api, "--http-listen", s.web, "--state-dir", s.path("scheduler"))
		p.says("API on")
		return p
	}
	manager := func() *process {
		return s.start("hostmgr", "local", "--server", s.api, "--state-dir", s.path("hostmgr"), "--hosts", "2", "--shard", "here",
			"--host-cpu", "4", "--host-memory", "4Gi")
	}
	up := func() bool { return strings.Count(s.must("host", "list", "--state", "up"), "here/h") == 2 }
	one, two := scheduler(), manager()
	eventually(t, up, "two hosts are up")
	s.must("job", "submit", s.file("slow.yaml", slow))
	following := s.start("task", "logs", "-f", "slow/0")
	following.says("line 3\n")

	// Both are restarted in turn, politely; the task runs on.
	one.signal(syscall.SIGTERM)
	require.Zero(t, one.wait(), one.output())
	one = scheduler()
	eventually(t, up, "two hosts are up again")
	two.signal(syscall.SIGTERM)
	require.Zero(t, two.wait(), two.output())
	two = manager()
	s.must("job", "wait", "slow")
	require.Equal(t, slowLines(), s.must("task", "logs", "slow/0"))
	require.Equal(t, 1, get[taskList](s, "task", "list", "slow").Tasks[0].Run)

	// A second host manager of the same name has to wait until the first is gone.
	rival := s.start("hostmgr", "local", "--server", s.api, "--state-dir", s.path("rival"), "--shard", "here")
	rival.says("a shard named \\\"here\\\" is connected already")
	for _, p := range []*process{rival, two, one} {
		p.signal(syscall.SIGTERM)
		require.Zero(t, p.wait(), p.output())
	}
}

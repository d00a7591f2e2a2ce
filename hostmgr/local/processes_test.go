//go:build linux

package local

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// escapes are ways in which a task tries to leave processes behind.
var escapes = map[string]string{
	"in the background":        `sleep 1000 & `,
	"in another session":       `setsid sleep 1000 & `,
	"as a daemon":              `(setsid sh -c 'sleep 1000 & sleep 1000' &) ; `,
	"with no environment":      `(setsid env -i sleep 1000 &) ; `,
	"deaf and dumb":            `(trap '' TERM HUP INT; sleep 1000 > /dev/null 2>&1 &) ; `,
	"while it makes many more": `for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sleep 1000 & sleep 1000' & done; `,
}

// TestNothingIsLeft: when the end of a run is known, none of its processes exists, whatever it has tried.
func TestNothingIsLeft(t *testing.T) {
	for name, escape := range escapes {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			id := f.shell(0, escape+"exit 0", nil)
			require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
			require.Empty(t, sleepers(t, f.config.Dir))

			id = f.shell(1, escape+"echo ready; exec sleep 1000", nil)
			f.says(id, "ready\n")
			require.NoError(t, f.Kill(t.Context(), id, time.Hour))
			require.Equal(t, cluster.TaskKilled, f.ended(id).State)
			require.Empty(t, sleepers(t, f.config.Dir))
		})
	}
}

// sleepers returns the processes with the working directory of a task below a folder: also those with another
// environment.
func sleepers(t *testing.T, state string) (pids []int) {
	t.Helper()
	all, err := processes()
	require.NoError(t, err)
	for _, p := range all {
		dir, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.pid), "cwd"))
		if err == nil && !p.ended && strings.HasPrefix(dir, state) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// TestSupervisorKilled: a task does not outlive its supervisor unnoticed.
func TestSupervisorKilled(t *testing.T) {
	for _, name := range []string{"in the background", "in another session", "as a daemon"} {
		for _, restart := range []bool{false, true} {
			t.Run(name+", restart "+map[bool]string{false: "no", true: "yes"}[restart], func(t *testing.T) {
				f := newFixture(t, nil)
				id := f.shell(0, escapes[name]+"echo ready; sleep 1000; true", nil)
				f.says(id, "ready\n")
				pid := f.supervisorOf(id)
				if restart {
					require.NoError(t, f.Close())
				}
				require.NoError(t, unix.Kill(pid, unix.SIGKILL))
				if restart {
					f.start()
				}
				s := f.ended(id)
				require.Equal(t, cluster.TaskLost, s.State)
				require.Equal(t, cluster.ReasonSupervisorLost, s.Reason)
				require.Contains(t, s.Message, "how the run ended is not known")
				require.Empty(t, sleepers(t, f.config.Dir))
				f.reopen()
				require.Equal(t, s, f.status(id), "a terminal status is final")
			})
		}
	}
}

// TestScratchOfTheLost: scratch folders go at the end of a run, also where its supervisor cannot see to it.
func TestScratchOfTheLost(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "echo much > scratch/file; echo ready; sleep 1000", func(l *hostmgr.Launch) {
		l.Task.Volumes = []cluster.Volume{{MountPath: "scratch", ScratchBytes: 1 << 20}}
	})
	f.says(id, "ready\n")
	require.NoError(t, unix.Kill(f.supervisorOf(id), unix.SIGKILL))
	require.Equal(t, cluster.TaskLost, f.ended(id).State)
	require.NoDirExists(t, filepath.Join(f.state.run(id.String()), scratches))
	require.Equal(t, "ready\n", f.output(id, 0))
}

// TestReboot: a run of an earlier boot without an end is lost, started or not, and numbers of that boot mean nothing.
func TestReboot(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "exit 0", nil)
	f.ended(id)
	require.NoError(t, f.Close())
	dir := f.state.run(id.String())
	rec, err := readRecord[launchRecord](dir, launchFile)
	require.NoError(t, err)
	rec.Boot = "an earlier one"
	require.NoError(t, writeRecord(dir, launchFile, rec, unsynced))
	for _, started := range []bool{true, false} {
		require.NoError(t, os.Remove(filepath.Join(dir, exitFile)))
		if !started {
			require.NoError(t, os.Remove(filepath.Join(dir, startedFile)))
		}
		f.sink.Forget()
		f.start()
		s := f.ended(id)
		require.Equal(t, cluster.TaskLost, s.State)
		require.Contains(t, s.Message, "restarted")
		require.NoError(t, f.Close())
	}
	f.sink.Forget()
	f.start()
}

// TestSupervisorsCompete: of many supervisors of one run, one starts it, whenever they come.
func TestSupervisorsCompete(t *testing.T) {
	f := newFixture(t, nil)
	starts := filepath.Join(t.TempDir(), "starts")
	id := f.shell(0, `echo start >> `+starts+`; sleep 0.05`, nil)
	var rivals []*supervised
	for range 8 {
		p, ready, err := spawn(f.state.run(id.String()))
		require.NoError(t, err)
		require.NoError(t, ready.Close())
		rivals = append(rivals, p)
	}
	require.Equal(t, cluster.TaskSucceeded, f.ended(id).State)
	p, ready, err := spawn(f.state.run(id.String())) // much too late
	require.NoError(t, err)
	require.NoError(t, ready.Close())
	for _, p := range append(rivals, p) {
		require.NoError(t, p.wait())
		p.close()
	}
	require.Equal(t, 1, countLines(t, starts, "start"))
}

// TestSupervisorNeverStarts: a driver that cannot get a run supervised gives it back, and late supervisors do not start it.
func TestSupervisorNeverStarts(t *testing.T) {
	for _, killed := range []bool{false, true} {
		f := newFixture(t, nil)
		starts := filepath.Join(t.TempDir(), "starts")
		for range cap(f.starting) { // hold the driver's own supervisors back
			f.starting <- struct{}{}
		}
		id := f.shell(0, `echo start >> `+starts, nil)
		dir := f.state.run(id.String())
		require.NoError(t, os.WriteFile(filepath.Join(dir, launchFile), []byte("{"), 0o600))
		if killed {
			require.NoError(t, f.Kill(t.Context(), id, 0))
		}
		for range cap(f.starting) {
			<-f.starting
		}
		s := f.ended(id)
		if killed {
			require.Equal(t, cluster.TaskKilled, s.State)
		} else {
			require.Equal(t, cluster.TaskFailed, s.State)
			require.Equal(t, cluster.ReasonLaunchRefused, s.Reason)
			require.Contains(t, s.Message, "is damaged")
		}
		p, ready, err := spawn(dir)
		require.NoError(t, err)
		require.NoError(t, ready.Close())
		require.NoError(t, p.wait())
		p.close()
		require.NoFileExists(t, starts)
	}
}

// TestKillWhileDriverIsAway: the supervisor keeps the grace by itself.
func TestKillWhileDriverIsAway(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, `trap '' TERM; echo ready; while :; do sleep 1000; done`, nil)
	f.says(id, "ready\n")
	require.NoError(t, f.Kill(t.Context(), id, 30*time.Millisecond))
	require.NoError(t, f.Close())
	dir := f.state.run(id.String())
	eventually(t, "the end is recorded", func() bool { return exists(dir, exitFile) })
	f.start()
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 9, s.Signal)
}

// TestTermReachesTheGroup: SIGTERM goes to all processes of the group, also to one that was stopped.
func TestTermReachesTheGroup(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, `trap 'wait; echo parent; exit 5' TERM; sh -c 'trap "echo child; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait; wait`, nil)
	f.says(id, "ready\n")
	pid := f.processOf(id)
	require.NoError(t, unix.Kill(-pid, unix.SIGSTOP))
	require.NoError(t, f.Kill(t.Context(), id, time.Hour))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 5, s.ExitCode, "the exit code of a task that was killed is kept")
	require.Equal(t, "ready\nchild\nparent\n", f.output(id, 0))
}

// TestAKillIsNotPutOff: a run that is killed again ends no later than it would have, and by the command only if no kill was without one.
func TestAKillIsNotPutOff(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, `trap '' TERM; echo ready; while :; do sleep 0.01; done`, nil)
	f.says(id, "ready\n")
	command := []string{"true"}
	for _, c := range []struct {
		grace   time.Duration
		command []string
		want    killRecord
	}{
		{2 * time.Hour, command, killRecord{Grace: 2 * time.Hour, Command: command}},
		{3 * time.Hour, command, killRecord{Grace: 2 * time.Hour, Command: command}},
		{3 * time.Hour, nil, killRecord{Grace: 2 * time.Hour}},
		{time.Hour, nil, killRecord{Grace: time.Hour}},
		{2 * time.Hour, command, killRecord{Grace: time.Hour}},
	} {
		require.NoError(t, f.KillAfter(t.Context(), id, c.grace, c.command, ""))
		kill, err := readRecord[killRecord](f.state.run(id.String()), killFile)
		require.NoError(t, err)
		require.Equal(t, &c.want, kill)
	}
	require.NoError(t, f.Kill(t.Context(), id, 0))
	require.Equal(t, cluster.TaskKilled, f.ended(id).State)
}

// TestKillReachesWhatLeftItsGroup: a process that has joined another group, and left somebody in its own, is ended as well.
func TestKillReachesWhatLeftItsGroup(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip(err)
	}
	f := newFixture(t, nil)
	id := f.shell(0, `exec perl -e '
		$| = 1;
		$SIG{TERM} = "IGNORE";
		fork or sleep 1000;
		pipe(READ, WRITE);
		my $other = fork;
		if (!$other) { setpgrp; syswrite(WRITE, "x"); sleep 1000; }
		sysread(READ, $_, 1);
		setpgrp(0, $other) or die $!;
		print "ready\n";
		sleep 1000'`, nil)
	f.says(id, "ready\n")
	require.NoError(t, f.Kill(t.Context(), id, 0))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, unix.SIGKILL, s.Signal)
}

// TestSupervisorIsDeaf: signals that were meant for the scheduler do not end what runs.
func TestSupervisorIsDeaf(t *testing.T) {
	killedAfter(t, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, wake)
}

// TestKillOfAStoppedSupervisor: a run whose supervisor was stopped, as by its task, ends all the same.
func TestKillOfAStoppedSupervisor(t *testing.T) { killedAfter(t, unix.SIGSTOP) }

// TestEndUnderAStoppedSupervisor: what a task does after its supervisor was stopped is not missed, though nobody kills it.
func TestEndUnderAStoppedSupervisor(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.UsageInterval = 100 * time.Millisecond })
	id := f.shell(0, "kill -STOP $PPID; echo over; exit 3", nil)
	s := f.ended(id)
	require.EqualValues(t, 3, s.ExitCode)
	require.Equal(t, "over\n", f.output(id, 0))
}

// killedAfter sends signals to a supervisor, and has its run go on until it is killed.
func killedAfter(t *testing.T, signals ...unix.Signal) {
	f := newFixture(t, nil)
	id := f.shell(0, "echo ready; exec sleep 1000", nil)
	f.says(id, "ready\n")
	for _, sig := range signals {
		require.NoError(t, unix.Kill(f.supervisorOf(id), sig))
	}
	require.NoError(t, f.Kill(t.Context(), id, time.Hour))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 15, s.Signal)
}

// TestSupervisorsThatHang: however many do not come to start their runs, others start.
func TestSupervisorsThatHang(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.UsageInterval = time.Hour }) // they are not continued
	for i := range cap(f.starting) {
		armCrash(t, f.config.Dir, "supervisor before start"+stopping)
		f.shell(i, "exec sleep 1000", nil)
		eventually(t, "it hangs", func() bool {
			return !exists(f.config.Dir, filepath.Base(crashFile(f.config.Dir, "supervisor before start"+stopping)))
		})
	}
	f.says(f.shell(100, "echo ready; exec sleep 1000", nil), "ready\n")
}

// TestKillThatCannotBeRead: a machine that is out of files does not end what runs, and a kill is carried out with its grace when it
// can be read.
func TestKillThatCannotBeRead(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, `trap 'sleep 0.2; exit 5' TERM; echo ready; while :; do sleep 0.01; done`, nil)
	f.says(id, "ready\n")
	pid := f.supervisorOf(id)
	var files unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &files))
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Max: files.Max}, nil))
	require.NoError(t, f.Kill(t.Context(), id, time.Hour))
	eventually(t, "it has looked", func() bool { return lastWords(f.state.run(id.String())) != "" })
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &files, nil))
	s := f.ended(id)
	require.Equal(t, cluster.TaskKilled, s.State)
	require.EqualValues(t, 5, s.ExitCode, "%+v", s)
}

// TestFolderIsGone: a run whose folder was removed, as by its own task, is lost when it has ended, can be ended, and is forgotten.
func TestFolderIsGone(t *testing.T) {
	f := newFixture(t, nil)
	ends := f.shell(0, `run=$(dirname $PWD); while test -e $run; do rm -rf $run; done`, nil) // until its supervisor writes nothing into it
	stays := f.shell(1, "echo ready; (setsid sleep 1000 &); exec sleep 1000", nil)
	f.says(stays, "ready\n")
	f.processOf(stays)
	require.NoError(t, os.RemoveAll(f.state.run(stays.String())))
	require.NoError(t, f.Kill(t.Context(), stays, time.Hour))
	for _, id := range []cluster.RunID{ends, stays} {
		s := f.ended(id)
		require.Equal(t, cluster.TaskLost, s.State)
		require.Equal(t, "its folder is gone; how the run ended is not known", s.Message)
		f.Release(id)
	}
	require.Empty(t, f.Inventory())
}

// TestStateFolderIsAway: a run that ends while all of them are away is looked for until they are back, and it is said once why.
func TestStateFolderIsAway(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	f := newFixture(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	id := f.shell(0, "echo ready; exec sleep 1000", nil)
	f.says(id, "ready\n")
	process := f.processOf(id)
	runs := filepath.Join(f.config.Dir, "runs")
	require.NoError(t, os.Rename(runs, runs+"-away"))
	require.NoError(t, unix.Kill(process, unix.SIGKILL))
	time.Sleep(3*retryPause + retryPause/2)
	require.NoError(t, os.Rename(runs+"-away", runs))
	require.Equal(t, cluster.TaskLost, f.ended(id).State)
	told, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	said := map[string]bool{}
	for line := range strings.Lines(string(told)) {
		_, why, _ := strings.Cut(line, "a run needs another look")
		require.False(t, why != "" && said[why], "%s", told)
		said[why] = true
	}
	require.Greater(t, len(said), 1, "%s", told)
}

// TestLeftoversThatBegin: nothing is left of runs that were just starting processes when their supervisors were killed.
func TestLeftoversThatBegin(t *testing.T) {
	f := newFixture(t, nil)
	for range 4 * runtime.NumCPU() { // so that programs begin slowly
		load := exec.CommandContext(t.Context(), "sh", "-c", "while true; do true; done")
		require.NoError(t, load.Start())
		t.Cleanup(func() { _ = load.Wait() }) // killed at the end of the context
	}
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for i := range rounds {
		id := f.shell(i, "echo ready; (setsid sleep 1000 &); exec sleep 1000", nil)
		f.says(id, "ready\n")
		f.processOf(id)
		require.NoError(t, os.RemoveAll(f.state.run(id.String())))
		require.NoError(t, f.Kill(t.Context(), id, 0))
		require.Equal(t, cluster.TaskLost, f.ended(id).State)
		require.Empty(t, marked(t, f.config.Dir))
	}
}

// TestFolderIsGoneMeanwhile: what goes on of a run whose folder is gone does not run beside the next run of its task.
func TestFolderIsGoneMeanwhile(t *testing.T) {
	f := newFixture(t, nil)
	id := f.shell(0, "echo ready; exec sleep 1000", nil)
	f.says(id, "ready\n")
	f.processOf(id)
	require.NoError(t, f.Close())
	require.NoError(t, os.RemoveAll(f.state.run(id.String())))
	f.start()
	require.Empty(t, marked(t, f.config.Dir))
}

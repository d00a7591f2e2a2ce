//go:build linux

package local

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
)

// superviseArgument, as the first argument of the program, makes it the supervisor of the run whose folder is the
// second.
const superviseArgument = "__supervise"

// wake tells a supervisor to look at the kill record. A signal that is ignored by default may come at any moment of a
// process's life.
const wake = unix.SIGWINCH

// readyFD is the descriptor on which the driver of a supervisor waits for its end: the task runs, or never will.
const readyFD = 3

// crashPoint is called between the steps that must be safe to be interrupted. Tests set it.
var crashPoint = func(string, string) {}

// Supervise must be the first call in main of every program that uses the driver: the driver starts the same program
// again to supervise a run. In such a process it does not return; otherwise it does nothing.
func Supervise() {
	if len(os.Args) == 3 && os.Args[1] == superviseArgument {
		os.Exit(supervise(os.Args[2]))
	}
}

// supervisor runs one task and records its end. Everything happens in one goroutine, so that a process id is never
// used for a signal after the process was reaped; two more copy the output.
type supervisor struct {
	dir      string
	launch   *launchRecord
	children chan os.Signal // SIGCHLD
	wakes    chan os.Signal
	pid      int       // of the task's first process and of its group
	deadline time.Time // of the grace; zero as long as nobody asked for the end
	logs     []*logWriter
}

// supervise is the whole life of a supervisor. Its exit code tells nobody anything; what went wrong is in stderr.
func supervise(dir string) int {
	// The task is to die with this very thread.
	runtime.LockOSThread()
	_ = unix.CloseRange(readyFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // what others forgot to close; may be unsupported
	unix.CloseOnExec(readyFD)
	s := &supervisor{dir: dir, children: make(chan os.Signal, 1), wakes: make(chan os.Signal, 1)}
	signal.Notify(s.children, unix.SIGCHLD)
	signal.Notify(s.wakes, wake)
	// Caught and dropped rather than ignored: the task would inherit the ignoring.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM)

	lock, err := tryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, errHeld) || errors.Is(err, os.ErrNotExist) {
		return 0 // another supervisor has the run, or it is over and forgotten
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.KeepAlive(lock) // held until the process ends
	return 0
}

// run takes the run from its record to its end. The caller holds the lock.
func (s *supervisor) run() (err error) {
	if exists(s.dir, exitFile) {
		return nil
	}
	if s.launch, err = readRecord[launchRecord](s.dir, launchFile); err != nil {
		return err
	}
	crashPoint(s.dir, "supervisor before start")
	if exists(s.dir, killFile) {
		return s.exit(exitRecord{State: cluster.TaskKilled, ExitCode: -1, Message: "killed before it was started"})
	}
	if mine, err := claim(s.dir, os.Getpid()); err != nil || !mine {
		return err
	}
	crashPoint(s.dir, "supervisor after start")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s.exit(launchFailed(err))
	}
	if err := s.fork(); err != nil {
		return s.exit(launchFailed(err))
	}
	crashPoint(s.dir, "supervisor after fork")
	if err := writeRecord(s.dir, runningFile, runningRecord{s.pid, now()}, unsynced); err != nil {
		fmt.Fprintln(os.Stderr, err) // costs the report that it runs, not the run
	}
	crashPoint(s.dir, "supervisor after pid record")
	_ = unix.Close(readyFD)
	status := s.wait()
	s.sweep()
	s.finishLogs()
	return s.exit(s.verdict(status))
}

// claim creates the record that a run may have started, and reports whether it did not exist before. The supervisor is
// 0 if the run will not be started. The caller holds the lock.
func claim(dir string, supervisor int) (mine bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	return true, writeRecord(dir, startedFile, startedRecord{supervisor, pidNamespace()}, unsynced)
}

// exit records the end of the run. It does not give up while there is a folder: nobody else knows how the task ended.
func (s *supervisor) exit(e exitRecord) error {
	crashPoint(s.dir, "supervisor before exit record")
	e.At = now()
	for {
		err := writeRecord(s.dir, exitFile, e, synced)
		if err == nil || !exists(s.dir, launchFile) {
			crashPoint(s.dir, "supervisor after exit record")
			return err
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
	}
}

func launchFailed(err error) exitRecord {
	return exitRecord{
		State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchFailed,
		Message: strings.TrimPrefix(err.Error(), "local: "),
	}
}

// verdict turns how the first process ended into how the run ended.
func (s *supervisor) verdict(status syscall.WaitStatus) exitRecord {
	e := exitRecord{State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonExited}
	if status.Signaled() {
		e.Signal, e.Reason = int32(status.Signal()), cluster.ReasonSignaled
		e.Message = "ended by " + unix.SignalName(status.Signal())
	} else {
		e.ExitCode = int32(status.ExitStatus())
	}
	if c := s.launch.Cgroup; c != nil {
		if c.outOfMemory() {
			e.Message = fmt.Sprintf("ended by the kernel: it used more than its %d bytes of memory", c.MemoryBytes)
		}
		if err := c.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	switch {
	case !s.deadline.IsZero():
		e.State, e.Reason = cluster.TaskKilled, cluster.ReasonNone
	case e.ExitCode == 0:
		e.State = cluster.TaskSucceeded
	}
	return e
}

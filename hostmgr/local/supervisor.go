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
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// superviseArgument, as the first argument of the program, makes it the supervisor of the run whose folder is the
// second.
const superviseArgument = "__supervise"

// wake tells a supervisor to look at the kill record. A signal that is ignored by default may come at any moment of a
// process's life.
const wake = unix.SIGWINCH

// readyFD is the descriptor on which the driver of a supervisor waits: a byte says that the run is being prepared, the
// end that the task runs, or never will.
const readyFD = 3

// youth is how long a supervisor collects no garbage: many tasks take no longer, and to collect what its start leaves is an eighth of what
// starting a task costs.
const youth = time.Second

// keepSmall has a supervisor hold little memory from now on.
func keepSmall() {
	debug.SetGCPercent(20)
	debug.FreeOSMemory()
}

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
// used for a signal after the process was reaped. Others copy the output, fetch files and look at ports; they post what
// they have found out.
type supervisor struct {
	dir      string
	launch   *launchRecord
	children chan os.Signal // SIGCHLD
	wakes    chan os.Signal
	posts    chan func()
	over     chan struct{} // closed when nothing is posted any more

	live     map[int]*child // that have not been reaped, by process id
	started  []*child       // the processes, in their order
	begun    bool           // something of the run was prepared, so that its launch cannot be given back
	first    *child         // main process that ended first
	timer    *time.Timer    // of the deadline
	deadline time.Time      // of the grace; zero as long as nobody asked for the end
	killed   bool           // the end was asked for by a kill
	warning  *child         // the command that runs before they are asked to end, nil if none does
	failure  *exitRecord    // why the supervisor ends the task, nil if it does not
	checks   []*probe
	health   healthRecord // last written
	logs     []*logWriter
}

// supervise is the whole life of a supervisor. Its exit code tells nobody anything; what went wrong is in stderr.
func supervise(dir string) int {
	// The task is to die with this very thread.
	runtime.LockOSThread()
	_ = unix.CloseRange(readyFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // what others forgot to close; may be unsupported
	unix.CloseOnExec(readyFD)
	s := &supervisor{
		dir: dir, children: make(chan os.Signal, 1), wakes: make(chan os.Signal, 1),
		posts: make(chan func()), over: make(chan struct{}),
		live: map[int]*child{}, timer: time.NewTimer(math.MaxInt64),
	}
	signal.Notify(s.children, unix.SIGCHLD)
	signal.Notify(s.wakes, wake)
	// Caught and dropped rather than ignored: the task would inherit the ignoring.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	time.AfterFunc(youth, keepSmall)

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
	if s.launch, err = readLaunch(s.dir); err != nil {
		return err
	}
	crashPoint(s.dir, "supervisor before start")
	if exists(s.dir, killFile) {
		return s.exit(killedBefore)
	}
	if mine, err := claim(s.dir); err != nil {
		return s.exit(launchRefused(err)) // nothing was forked, and nobody else has the lock
	} else if !mine {
		return nil
	}
	crashPoint(s.dir, "supervisor after start")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s.exit(launchFailed(err))
	}
	end := s.perform()
	close(s.over)
	s.sweep()
	s.finishLogs()
	s.clean()
	return s.exit(end)
}

// perform prepares the run, runs its init steps and processes, and returns how it ended.
func (s *supervisor) perform() exitRecord {
	if s.launch.brings() {
		s.begin()
	}
	if err := s.prepare(); err != nil {
		return s.unless(launchFailed(err))
	}
	for i := range s.launch.Init {
		if end := s.step(&s.launch.Init[i]); end != nil {
			return s.unless(*end)
		}
	}
	if s.heed(); s.killed {
		return s.unless(exitRecord{})
	}
	for i := range s.launch.Processes {
		c, err := s.fork(&s.launch.Processes[i])
		if err != nil {
			return s.unless(s.notStarted("process", &s.launch.Processes[i], err))
		}
		s.started = append(s.started, c)
	}
	crashPoint(s.dir, "supervisor after fork")
	if err := writeRecord(s.dir, runningFile, runningRecord{s.started[0].pid, now()}, unsynced); err != nil {
		fmt.Fprintln(os.Stderr, err) // costs the report that it runs, not the run
	}
	crashPoint(s.dir, "supervisor after pid record")
	_ = unix.Close(readyFD)
	s.beginChecks()
	s.until(s.ended)
	end := s.unless(s.verdict())
	s.endChecks()
	if len(s.live) > 0 { // a kill that comes now brings their end forward, and changes nothing of the task's
		s.stop(s.launch.Launch.Task.KillGrace)
		s.until(func() bool { return len(s.live) == 0 })
	}
	return end
}

// begin says once that the run is being prepared.
func (s *supervisor) begin() {
	if !s.begun {
		s.begun = true
		_, _ = unix.Write(readyFD, []byte{0}) // the driver may be gone
	}
}

// prepares reports whether there is something to do before the processes can start.
func (l *launchRecord) prepares() bool { return len(l.Init) > 0 || l.brings() }

// brings reports whether there is something to make or to fetch.
func (l *launchRecord) brings() bool { return len(l.Launch.Task.Volumes) > 0 || len(l.fetches()) > 0 }

// killedBefore is the end of a run that was killed before anything of it had begun.
var killedBefore = exitRecord{State: cluster.TaskKilled, ExitCode: -1, Message: "killed before it was started"}

// unless returns the end, unless the run was killed: then that is how it ended.
func (s *supervisor) unless(end exitRecord) exitRecord {
	switch {
	case !s.killed:
	case len(s.started) == 0 && s.begun:
		end = killedBefore
		end.Message = "killed while it was prepared"
	case len(s.started) == 0:
		return killedBefore
	default:
		end.State, end.Reason = cluster.TaskKilled, cluster.ReasonNone
	}
	return end
}

// step runs an init step, and returns the end of the run if it did not go well.
func (s *supervisor) step(rec *processRecord) *exitRecord {
	if s.heed(); s.killed {
		return &exitRecord{}
	}
	c, err := s.fork(rec)
	if err != nil {
		end := s.notStarted("init step", rec, err)
		return &end
	}
	s.begin()
	s.until(func() bool { return c.ended })
	s.sweep() // what it left behind does not belong to the processes
	if c.status.Exited() && c.status.ExitStatus() == 0 {
		return nil
	}
	end := endOf(c.status)
	end.State, end.Message = cluster.TaskFailed, fmt.Sprintf("init step %q %s", rec.Name, words(c.status))
	return &end
}

// ended reports whether the task has: with its main process, or where there is none with all.
func (s *supervisor) ended() bool {
	if s.first != nil {
		return true
	}
	for _, c := range s.started {
		if !c.ended {
			return false
		}
	}
	return true
}

// claim creates the record that a run may have started, and reports whether it did not exist before. The caller holds the lock.
func claim(dir string) (mine bool, err error) {
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
	return true, writeRecord(dir, startedFile, startedRecord{os.Getpid(), pidNamespace()}, unsynced)
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

// notStarted says how the run ends of which a process or an init step could not be started. A machine that lacks the means gives
// the launch back, as long as nothing of the run has begun.
func (s *supervisor) notStarted(what string, rec *processRecord, err error) exitRecord {
	if trouble(err) != 0 && len(s.started) == 0 && !s.begun {
		fmt.Fprintln(os.Stderr, err)
		return launchRefused(err)
	}
	end := launchFailed(err)
	if len(s.launch.Init)+len(s.launch.Processes) > 1 {
		end.Message = fmt.Sprintf("%s %q: %s", what, rec.Name, end.Message)
	}
	return end
}

// launchRefused gives a launch back that never began. Where a host manager keeps things it does not say.
func launchRefused(err error) exitRecord {
	if why := trouble(err); why != 0 {
		err = why
	}
	return exitRecord{
		State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchRefused,
		Message: fmt.Sprintf("%v: %v", hostmgr.ErrRefused, err),
	}
}

func launchFailed(err error) exitRecord {
	return exitRecord{
		State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchFailed,
		Message: strings.TrimPrefix(err.Error(), "local: "), Lacks: trouble(err) != 0,
	}
}

// endOf turns how a process ended into how the run ended, if it ends with it.
func endOf(status syscall.WaitStatus) exitRecord {
	if status.Signaled() {
		return exitRecord{
			State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonSignaled, Signal: int32(status.Signal()),
			Message: "ended by " + unix.SignalName(status.Signal()),
		}
	}
	e := exitRecord{State: cluster.TaskFailed, ExitCode: int32(status.ExitStatus()), Reason: cluster.ReasonExited}
	if e.ExitCode == 0 {
		e.State = cluster.TaskSucceeded
	}
	return e
}

func words(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "was ended by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}

// verdict says how the run ended: as its main process did, where there is none as the first process that failed, and in
// whatever way, if the supervisor has ended it.
func (s *supervisor) verdict() exitRecord {
	decisive := s.first
	for _, c := range s.started {
		if decisive == nil && (c.status.Signaled() || c.status.ExitStatus() != 0) {
			decisive = c
		}
	}
	if decisive == nil {
		decisive = s.started[0]
	}
	e := endOf(decisive.status)
	if len(s.started) > 1 && e.State == cluster.TaskFailed {
		e.Message = fmt.Sprintf("process %q %s", decisive.rec.Name, words(decisive.status))
	}
	if c := s.launch.Cgroup; c != nil && c.outOfMemory() {
		e.Message = fmt.Sprintf("ended by the kernel: it used more than its %d bytes of memory", c.MemoryBytes)
	}
	if f := s.failure; f != nil {
		e.State, e.Reason, e.Message = f.State, f.Reason, f.Message
	}
	return e
}

// fail ends the task because of something that the supervisor has found out.
func (s *supervisor) fail(why cluster.Reason, message string) {
	if s.failure == nil {
		s.failure = &exitRecord{State: cluster.TaskFailed, Reason: why, Message: message}
		s.stop(s.launch.Launch.Task.KillGrace)
	}
}

// clean removes what lives as long as the run.
func (s *supervisor) clean() {
	if c := s.launch.Cgroup; c != nil {
		if err := c.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if err := removeAll(filepath.Join(s.dir, scratches)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

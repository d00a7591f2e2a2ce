//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervised is a supervisor as the driver sees it. The descriptor means this one process for ever, whatever becomes of
// its number.
type supervised struct {
	pid  int
	file *os.File // pidfd, in the poller of the Go runtime: waiting takes no thread
}

// openProcess returns the process of a number, nil if there is none.
func openProcess(pid int) (*supervised, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("local: open process %d (Linux 5.4 or newer is needed): %w", pid, err)
	}
	return newSupervised(pid, fd)
}

func newSupervised(pid, fd int) (*supervised, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &supervised{pid: pid, file: os.NewFile(uintptr(fd), "supervisor")}, nil
}

// wait returns when the process has ended, or when it is interrupted. If it is a child, it is reaped.
func (p *supervised) wait() error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return readable(fd) && reap(fd) })
}

// hasEnded looks without waiting.
func (p *supervised) hasEnded() (ended bool) {
	_ = p.control(func(fd uintptr) { ended = readable(fd) })
	return ended
}

func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// reap takes the exit status of an ended process, if it is a child of this one.
func reap(fd uintptr) bool {
	for {
		err := unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return true // ECHILD: an adopted one, which somebody else reaps
		}
	}
}

// wake makes the supervisor look at the kill record, also if it was stopped, as by its task. If it has ended, so has the run.
func (p *supervised) wake() {
	_ = p.control(func(fd uintptr) {
		_ = unix.PidfdSendSignal(int(fd), wake, nil, 0)
		_ = unix.PidfdSendSignal(int(fd), unix.SIGCONT, nil, 0)
	})
}

// kill ends the supervisor, and with it the processes that it has started.
func (p *supervised) kill() {
	_ = p.control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

func (p *supervised) control(f func(fd uintptr)) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}

// interrupt ends a wait.
func (p *supervised) interrupt() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

func (p *supervised) close() { _ = p.file.Close() }

// ways are the variables that say how to reach what is fetched.
var ways = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// supervisorEnv keeps the runtime of a supervisor small: it does next to nothing, and there is one for each task. It collects no garbage
// before keepSmall.
func supervisorEnv(dir string) []string {
	env := []string{"GOMAXPROCS=1", "GOGC=off", runDirVariable + "=" + runDirValue(dir)}
	for _, name := range ways {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// spawn starts a supervisor for a run in a session of its own. ready reads the end of the file when the task runs or
// never will.
func spawn(dir string) (p *supervised, ready *os.File, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer closeQuietly(null)
	words, err := os.OpenFile(filepath.Join(dir, errorFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer closeQuietly(words)
	ready, begun, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer closeQuietly(begun)
	pidfd := -1
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"sluice", superviseArgument, dir}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   supervisorEnv(dir),
		Files: []uintptr{null.Fd(), null.Fd(), words.Fd(), begun.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("local: start a supervisor: %w", err), ready.Close())
	}
	if pidfd < 0 {
		p, err = openProcess(pid)
	} else {
		p, err = newSupervised(pid, pidfd)
	}
	if err != nil {
		// It goes on without us: the next look finds it by its lock.
		return nil, nil, errors.Join(err, ready.Close())
	}
	return p, ready, nil
}

// closeQuietly closes a file through which nothing was written here, so that nothing can have been lost.
func closeQuietly(f *os.File) { _ = f.Close() }

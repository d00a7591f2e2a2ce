//go:build linux

package local

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wait returns how the task's first process ended. Meanwhile it reaps the orphans of the task and carries out kills.
func (s *supervisor) wait() syscall.WaitStatus {
	timer := time.NewTimer(math.MaxInt64)
	s.heed(timer)
	for {
		select {
		case <-s.children:
			for {
				var status syscall.WaitStatus
				pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
				if pid == s.pid {
					return status
				}
				if pid <= 0 && !errors.Is(err, unix.EINTR) {
					break
				}
			}
		case <-s.wakes:
			s.heed(timer)
		case <-timer.C:
			s.signal(unix.SIGKILL)
		}
	}
}

// heed carries out a kill if there is a record of one. Looking again at the same record changes nothing, because a
// deadline is only ever brought forward.
func (s *supervisor) heed(timer *time.Timer) {
	kill, err := readRecord[killRecord](s.dir, killFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		kill = &killRecord{} // the wish is plain, the grace is lost
	}
	if kill == nil {
		return
	}
	deadline := time.Now().Add(kill.Grace)
	if s.deadline.IsZero() {
		s.signal(unix.SIGTERM)
		s.signal(unix.SIGCONT) // one that was stopped is to hear it as well
	} else if !deadline.Before(s.deadline) {
		return
	}
	s.deadline = deadline
	timer.Reset(kill.Grace)
}

// signal sends a signal to the task's process group. The first process has not been reaped, so the number is its own.
func (s *supervisor) signal(sig unix.Signal) {
	err := unix.Kill(-s.pid, sig)
	if errors.Is(err, unix.ESRCH) {
		err = unix.Kill(s.pid, sig) // it has left its group
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "local: send %v: %v\n", sig, err)
	}
}

// sweep ends everything that the task left behind. All its descendants are descendants of this process, and an orphan
// becomes its child: so when it has no child, nothing is left.
func (s *supervisor) sweep() {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return
		case pid > 0 || err != nil:
			continue
		}
		if killChildren() == 0 {
			time.Sleep(pause) // an orphan was on its way to us, or it may not be killed by us
			continue
		}
		_, _ = syscall.Wait4(-1, nil, 0, nil) // one that was killed
	}
}

// killChildren kills the children of this process and returns how many there were. None of them can have been reaped by
// anybody else, so their numbers are their own.
func killChildren() (killed int) {
	all, err := processes()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, p := range all {
		if p.parent == os.Getpid() && unix.Kill(p.pid, unix.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// finishLogs waits until the output has been written. Somebody outside of the task may still hold the other end of a
// pipe, so what is there now is all.
func (s *supervisor) finishLogs() {
	for _, w := range s.logs {
		w.finish()
	}
}

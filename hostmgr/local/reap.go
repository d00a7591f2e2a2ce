//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// until works until done holds: it reaps the processes and orphans of the task, carries out kills, and runs what other
// goroutines have posted. It looks at the kill record first, so that no wish of before is missed.
func (s *supervisor) until(done func() bool) {
	s.heed()
	for !done() {
		select {
		case <-s.children:
			s.reap()
		case <-s.wakes:
			s.heed()
		case <-s.timer.C:
			s.signal(unix.SIGKILL)
		case posted := <-s.posts:
			posted()
		}
	}
}

// post lets the supervisor's goroutine run f, unless it works no more.
func (s *supervisor) post(f func()) {
	select {
	case s.posts <- f:
	case <-s.over:
	}
}

// reap takes the status of all that has ended.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if c := s.live[pid]; c != nil {
			delete(s.live, pid)
			c.ended, c.status = true, status
			if c.rec.Main && s.first == nil {
				s.first = c
			}
			if c.then != nil {
				c.then(status)
			}
		}
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// heed carries out a kill if there is a record of one. Looking again at the same record changes nothing, because a
// deadline is only ever brought forward.
func (s *supervisor) heed() {
	kill, err := readRecord[killRecord](s.dir, killFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		kill = &killRecord{} // the wish is plain, the grace is lost
	}
	if kill == nil {
		return
	}
	s.killed = true
	s.stop(kill.Grace)
}

// stop asks all processes to end, and ends them after the grace. Asked again, it may only bring the end forward.
func (s *supervisor) stop(grace time.Duration) {
	deadline := time.Now().Add(grace)
	if s.deadline.IsZero() {
		s.signal(unix.SIGTERM)
		s.signal(unix.SIGCONT) // one that was stopped is to hear it as well
	} else if !deadline.Before(s.deadline) {
		return
	}
	s.deadline = deadline
	s.timer.Reset(grace)
}

// signal sends a signal to the groups of all processes. None of them has been reaped, so the numbers are their own.
func (s *supervisor) signal(sig unix.Signal) {
	for pid := range s.live {
		signalGroup(pid, sig)
	}
}

func signalGroup(pid int, sig unix.Signal) {
	err := unix.Kill(-pid, sig)
	if errors.Is(err, unix.ESRCH) {
		err = unix.Kill(pid, sig) // it has left its group
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

//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
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
	switch {
	case errors.Is(err, errDamaged):
		fmt.Fprintln(os.Stderr, err)
		kill = &killRecord{} // the wish is plain, the grace is lost
	case err != nil: // it may not even be there
		fmt.Fprintln(os.Stderr, err)
		s.after(retryPause, s.heed)
		return
	case kill == nil:
		return
	}
	first := !s.killed
	s.killed = true
	switch {
	case first && s.deadline.IsZero() && s.warn(kill):
		s.end(kill.Grace)
	case s.warning != nil && len(kill.Command) == 0: // whoever asks now does not want to wait for it
		s.warning.then = nil
		s.warning = nil
		s.ask()
		fallthrough
	default:
		s.stop(kill.Grace)
	}
}

// warn runs the command of a kill beside the processes, and asks them to end when it has. It reports false if there is no
// command, or nobody beside whom it could run, or if it cannot be started.
func (s *supervisor) warn(kill *killRecord) bool {
	if len(kill.Command) == 0 || len(s.started) == 0 {
		return false
	}
	rec := *s.started[0].rec
	for _, c := range s.started {
		if c.rec.Main {
			rec = *c.rec
			break
		}
	}
	rec.Argv, rec.Main = s.launch.Launch.Expand(kill.Command, s.launch.Address), false
	rec.Env = append(slices.Clone(rec.Env), "SLUICE_STOP_REASON="+kill.Reason)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		defer closeQuietly(null)
		s.warning, err = s.start(&rec, []uintptr{null.Fd(), null.Fd()})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	s.warning.then = func(syscall.WaitStatus) {
		s.warning = nil
		s.ask()
	}
	return true
}

// stop asks all processes to end, and ends them after the grace. Asked again, it may only bring the end forward.
func (s *supervisor) stop(grace time.Duration) {
	if s.deadline.IsZero() {
		s.ask()
	}
	s.end(grace)
}

// ask asks all processes to end.
func (s *supervisor) ask() {
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT) // one that was stopped is to hear it as well
}

// end ends all processes after the grace, or earlier if that was asked for before.
func (s *supervisor) end(grace time.Duration) {
	if deadline := time.Now().Add(grace); s.deadline.IsZero() || deadline.Before(s.deadline) {
		s.deadline = deadline
		s.timer.Reset(grace)
	}
}

// signal sends a signal to the groups of all processes. None of them has been reaped, so the numbers are their own.
func (s *supervisor) signal(sig unix.Signal) {
	for pid := range s.live {
		signalGroup(pid, sig)
	}
}

func signalGroup(pid int, sig unix.Signal) {
	err := unix.Kill(-pid, sig)
	if group, _ := unix.Getpgid(pid); group != pid { // it has left its group, in which others may be
		err = unix.Kill(pid, sig)
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

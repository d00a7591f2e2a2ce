//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

// fork starts the task's first process. An error means that nothing was started.
func (s *supervisor) fork() (err error) {
	l := s.launch
	if info, err := os.Stat(l.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("local: the working directory %s does not exist or is not a folder", l.Dir)
	}
	program, err := lookUp(l.Argv[0], l.Env)
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	files := []uintptr{null.Fd()}
	closers := []func() error{null.Close}
	defer func() {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
	}()
	for _, stream := range []hostmgr.LogStream{hostmgr.Stdout, hostmgr.Stderr} {
		w, in, err := newLogWriter(s.dir, stream, l.LogLimit)
		if err != nil {
			return err
		}
		files = append(files, uintptr(in))
		closers = append(closers, func() error { return unix.Close(in) })
		s.logs = append(s.logs, w)
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if l.Cgroup != nil {
		group, err := l.Cgroup.create()
		if err != nil {
			return err
		}
		closers = append(closers, group.Close)
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	s.pid, err = syscall.ForkExec(program, l.Argv, &syscall.ProcAttr{Dir: l.Dir, Env: l.Env, Files: files, Sys: attr})
	if err != nil {
		return fmt.Errorf("local: start %s: %w", program, err)
	}
	for _, w := range s.logs {
		go w.copy()
	}
	return nil
}

// lookUp finds a program in the PATH of an environment. A name with a slash is taken as it is, relative to the working
// directory.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			if err := os.Setenv("PATH", path); err != nil { // this process has no other use for it
				return "", err
			}
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("local: command %q was not found in PATH %s", name, os.Getenv("PATH"))
	}
	return program, nil
}

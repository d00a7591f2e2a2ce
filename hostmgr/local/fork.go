//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

// child is a process that the supervisor has started.
type child struct {
	rec    *processRecord
	pid    int // of the process and of its group
	ended  bool
	status syscall.WaitStatus // how it ended
	then   func(syscall.WaitStatus)
}

// fork starts a process of the task, with its output in the logs of the run. An error means that nothing was started.
func (s *supervisor) fork(rec *processRecord) (c *child, err error) {
	var files []uintptr
	var logs []*logWriter
	for _, stream := range []hostmgr.LogStream{hostmgr.Stdout, hostmgr.Stderr} {
		w, in, err := newLogWriter(s.dir, rec.Log, stream, s.launch.LogLimit)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, unix.Close(in)) }()
		files = append(files, uintptr(in))
		logs = append(logs, w)
	}
	if c, err = s.start(rec, files); err != nil {
		return nil, err
	}
	for _, w := range logs {
		go w.copy()
	}
	s.logs = append(s.logs, logs...)
	return c, nil
}

// start starts a process with the given stdout and stderr, which stay the caller's.
func (s *supervisor) start(rec *processRecord, output []uintptr) (c *child, err error) {
	if info, err := os.Stat(rec.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("local: the working directory %s does not exist or is not a folder", rec.Dir)
	}
	program, err := lookUp(rec.Argv[0], rec.Env)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(null)
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if u := rec.User; u != nil {
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if g := s.launch.Cgroup; g != nil {
		group, err := g.create()
		if err != nil {
			return nil, err
		}
		defer closeQuietly(group)
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	pid, err := syscall.ForkExec(program, rec.Argv, &syscall.ProcAttr{
		Dir: rec.Dir, Env: rec.Env, Files: append([]uintptr{null.Fd()}, output...), Sys: attr,
	})
	if errors.Is(err, unix.EACCES) {
		if closed := keepsOut(rec); closed != "" {
			err = fmt.Errorf("%w: its user may not pass through the folder %s", err, closed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("local: start %s: %w", program, err)
	}
	c = &child{rec: rec, pid: pid}
	s.live[pid] = c
	return c, nil
}

// keepsOut returns the first folder on the way to the working directory that the user of a process may not pass through, by its
// mode; "" if there is none.
func keepsOut(rec *processRecord) (closed string) {
	if rec.User == nil || rec.User.UID == 0 {
		return ""
	}
	for path := rec.Dir; ; path = filepath.Dir(path) {
		var info unix.Stat_t
		if err := unix.Stat(path, &info); err == nil {
			pass := uint32(unix.S_IXOTH)
			switch {
			case info.Uid == rec.User.UID:
				pass = unix.S_IXUSR
			case info.Gid == rec.User.GID || slices.Contains(rec.User.Groups, info.Gid):
				pass = unix.S_IXGRP
			}
			if info.Mode&pass == 0 {
				closed = path
			}
		}
		if path == filepath.Dir(path) {
			return closed
		}
	}
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

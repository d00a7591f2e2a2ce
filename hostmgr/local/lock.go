//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errHeld: another process holds the lock.
var errHeld = errors.New("local: the lock is held")

// tryLock takes the lock of a file without waiting. The lock ends with the returned file, and with the process
// whatever ends it.
//
// These are the locks of fcntl and not of flock, for two reasons: a process that was forked and has not yet called exec
// does not share them, so that they end with their owner and not a little later, and they tell who owns them.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = errHeld
	}
	return nil, errors.Join(err, f.Close())
}

// lockHolder returns the id of the process that holds a lock, 0 if there is none. The process itself does not count:
// it must not ask about a lock that it holds, because closing the file after the question would end the lock.
func lockHolder(path string) (pid int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("local: ask who holds %s: %w", path, err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0, nil
	}
	if lock.Pid <= 0 {
		return 0, fmt.Errorf("local: %s is held by a process that cannot be seen from here", path)
	}
	return int(lock.Pid), nil
}

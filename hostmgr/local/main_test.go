//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain makes this binary a supervisor, a driver, or the tests.
func TestMain(m *testing.M) {
	crashPoint = crashOnce
	if len(os.Args) == 3 && os.Args[1] == superviseArgument {
		// A process with the race detector sleeps for a second in os.Exit, and each task has one.
		unix.Exit(supervise(os.Args[2]))
	}
	if dir := os.Getenv(driverVariable); dir != "" {
		os.Exit(driverProcess(dir))
	}
	os.Exit(m.Run())
}

// crashOnce kills this process at a point that armCrash has chosen, once, or stops it, or leaves it few files to open.
func crashOnce(dir, point string) {
	state := filepath.Dir(filepath.Dir(dir))
	if os.Remove(crashFile(state, point+starving)) == nil {
		next, err := os.Open(os.DevNull)
		if err != nil {
			panic(err)
		}
		few := uint64(next.Fd()) + 3
		if err := errors.Join(next.Close(), unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: few})); err != nil {
			panic(err)
		}
	}
	if os.Remove(crashFile(state, point+stopping)) == nil {
		if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
			panic(err)
		}
	}
	if os.Remove(crashFile(state, point)) == nil {
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	}
}

// starving is the end of the points at which a process does not die, but may open only a few files from then on.
const starving = " starving"

// stopping is the end of those at which it stops, until it gets SIGCONT.
const stopping = " stopping"

func crashFile(state, point string) string {
	return filepath.Join(state, "crash "+strings.ReplaceAll(point, "/", "-"))
}

// armCrash makes the first process that comes to a crash point of a state folder die there.
func armCrash(t *testing.T, state, point string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(crashFile(state, point), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

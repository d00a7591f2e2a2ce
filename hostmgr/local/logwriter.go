//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

var streamNames = [...]string{hostmgr.Stdout: "stdout", hostmgr.Stderr: "stderr"}

// logWriter copies a pipe to the segments of a log. A segment is a file whose name ends in the offset of its first
// byte, so that offsets count from the beginning of the output for ever. What is kept are two halves of the limit at most, each of
// one segment, or of several where writing has failed in between: a full disk takes nothing of what was written before.
type logWriter struct {
	prefix string
	half   int64 // bytes of a full half
	pipe   *os.File
	done   chan struct{}

	offset int64    // of the next byte
	file   *os.File // the current segment, nil before the first byte and after an error
	start  int64    // offset of its first byte
	room   int64    // for so many bytes more in the current half
	now    []string // names of the segments of the current half
	before []string // of the one before it
	failed bool
}

// newLogWriter returns a writer, for the logs whose names begin with process, and the end of its pipe for the task.
func newLogWriter(dir, process string, stream hostmgr.LogStream, limit int64) (*logWriter, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("local: make a pipe for the output: %w", err)
	}
	// Only our end: a task does not expect that writing may fail because nobody has read yet.
	if err := unix.SetNonblock(p[0], true); err != nil {
		return nil, 0, err
	}
	return &logWriter{
		prefix: filepath.Join(dir, process+streamNames[stream]) + ".",
		half:   max(limit/2, 1),
		pipe:   os.NewFile(uintptr(p[0]), "output"),
		done:   make(chan struct{}),
	}, p[1], nil
}

// copy reads until all writers have closed the pipe, or until finish gives up waiting for that.
func (w *logWriter) copy() {
	defer close(w.done)
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.pipe.Read(buffer)
		w.write(buffer[:n])
		if err != nil {
			return
		}
	}
}

// finish writes what is in the pipe. Then no more is written.
func (w *logWriter) finish() {
	select {
	case <-w.done:
		return
	case <-time.After(100 * time.Millisecond):
	}
	// Somebody outside of the task holds the pipe open: stop waiting, and take what is there.
	_ = w.pipe.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	_ = w.pipe.SetReadDeadline(time.Time{})
	raw, err := w.pipe.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		n, _ := syscall.Read(int(fd), buffer)
		w.write(buffer[:max(n, 0)])
		return true
	})
}

// write appends to the log. What cannot be written is lost, but the task is not held up and offsets stay true.
func (w *logWriter) write(data []byte) {
	for len(data) > 0 {
		if w.file == nil || w.room == 0 {
			w.rotate()
		}
		part := data[:min(int64(len(data)), w.room)]
		if w.file != nil {
			n, err := w.file.Write(part)
			w.room -= int64(n)
			if err != nil {
				w.note(err)
				w.end()
				if w.offset == w.start && n == 0 { // it is empty
					last := len(w.now) - 1
					w.note(os.Remove(w.now[last]))
					w.now = w.now[:last]
				}
			}
		}
		w.offset += int64(len(part))
		data = data[len(part):]
	}
}

// rotate begins the next segment, and where the half is full the next half: then all but the one before goes.
func (w *logWriter) rotate() {
	if w.file != nil {
		w.end()
	}
	if w.room == 0 {
		for _, name := range w.before {
			w.note(os.Remove(name))
		}
		w.before, w.now, w.room = w.now, nil, w.half
	}
	w.start = w.offset
	name := w.prefix + strconv.FormatInt(w.start, 10)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		w.note(err)
		return
	}
	w.file, w.now = file, append(w.now, name)
}

// end ends the current segment.
func (w *logWriter) end() {
	w.note(w.file.Close())
	w.file = nil
}

// note writes the first error down. More of them would only fill the folder that is perhaps full already.
func (w *logWriter) note(err error) {
	if err != nil && !w.failed {
		w.failed = true
		fmt.Fprintln(os.Stderr, err)
	}
}

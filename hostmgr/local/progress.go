//go:build linux

package local

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// told is how far a run says it is.
type told struct {
	interval time.Duration // between readings; 0: it does not say
	at       time.Time     // of the last reading
	last     *float64      // nil: it has not said
}

// longest is how long a file of progress may be.
const longest = 64

// read looks into the file if it is time, or nearly: measurements come a little early or late. What is no number from 0 to 1 changes
// nothing: the task may be just writing it.
func (t *told) read(path string, at time.Time) {
	if t.interval <= 0 || at.Sub(t.at) < t.interval-t.interval/10 {
		return
	}
	t.at = at
	// The task may have put anything in its place: what is opened must not block, and must be a file.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, longest+1))
	if err != nil || len(text) > longest {
		return
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil && n >= 0 && n <= 1 {
		t.last = &n
	}
}

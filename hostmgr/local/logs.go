//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/hostmgr"
)

// followPause is how long a follower of a log sleeps when there is nothing new.
const followPause = 50 * time.Millisecond

// OpenLog implements [hostmgr.Driver], also for released runs as long as the retention keeps them.
func (d *driver) OpenLog(ctx context.Context, req hostmgr.LogRequest) (io.ReadCloser, error) {
	if req.Offset < 0 {
		return nil, fmt.Errorf("local: log offset %d is negative", req.Offset)
	}
	if int(req.Stream) >= len(streamNames) {
		return nil, fmt.Errorf("local: there is no log stream %d", req.Stream)
	}
	d.mu.Lock()
	r, released := d.runs[req.Run], d.released[req.Run]
	var folder *os.Root
	var err error
	ended := make(chan struct{})
	switch {
	case r != nil && r.status.At != 0:
		folder, err = os.OpenRoot(r.dir)
		ended = r.ended
	case released != nil:
		folder, err = os.OpenRoot(d.state.releasedRun(req.Run.String()))
		close(ended)
	default:
		err = fmt.Errorf("%w: %v; what an ended run wrote is kept for as long as local.retention and the disk allow", hostmgr.ErrUnknownRun, req.Run)
	}
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	process, err := logsOf(folder, req.Process)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return &logReader{
		ctx: ctx, closing: d.ctx, folder: folder, prefix: process + streamNames[req.Stream] + ".",
		offset: req.Offset, follow: req.Follow, ended: ended,
	}, nil
}

// logsOf returns what the names of a process's logs begin with.
func logsOf(folder *os.Root, process string) (string, error) {
	if process == "" {
		return "", nil
	}
	data, err := folder.ReadFile(launchFile)
	if err != nil {
		return "", err
	}
	var rec launchRecord
	if err := json.Unmarshal(data, &rec); err != nil {
		return "", fmt.Errorf("local: the launch record is damaged: %w", err)
	}
	name, err := rec.Launch.ProcessName(process)
	if err != nil {
		return "", err
	}
	logged, err := rec.Launch.ProcessName("")
	return logPrefix(name, logged), err
}

// logReader reads the segments of a log one after the other. It holds the folder open, so that it reads on when the
// folder moves.
type logReader struct {
	ctx, closing context.Context // of the caller; of the driver
	folder       *os.Root
	prefix       string
	offset       int64 // of the next byte
	follow       bool
	ended        chan struct{} // closed when nothing will be written any more

	file  *os.File // current segment, nil if none
	start int64    // offset of its first byte
}

var _ hostmgr.Offsetter = (*logReader)(nil)

// Read implements [io.Reader].
func (l *logReader) Read(p []byte) (int, error) {
	for {
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		last := l.over() // asked before reading: what was written before the end is read
		n, err := l.read(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if last {
			return 0, io.EOF
		}
		select {
		case <-l.ctx.Done():
		case <-l.closing.Done():
			return 0, errClosed
		case <-l.ended:
		case <-time.After(followPause):
		}
	}
}

func (l *logReader) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return !l.follow
	}
}

// read returns what there is at the offset, 0 bytes if there is nothing yet.
func (l *logReader) read(p []byte) (int, error) {
	for {
		if n, err := l.readSegment(p); n > 0 || err != nil {
			return n, err
		}
		next, ok, err := l.segment()
		if err != nil || !ok {
			return 0, err
		}
		// The current segment was complete before this one was made; perhaps it was not when it was read.
		if n, err := l.readSegment(p); n > 0 || err != nil {
			return n, err
		}
		file, err := l.folder.Open(l.prefix + strconv.FormatInt(next, 10))
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped since it was listed
		}
		if err != nil {
			return 0, err
		}
		l.closeSegment()
		l.file, l.start, l.offset = file, next, max(l.offset, next)
	}
}

func (l *logReader) readSegment(p []byte) (int, error) {
	if l.file == nil {
		return 0, nil
	}
	// Behind its end a file is not asked: at offsets that no file can have that is an error, not its end.
	info, err := l.file.Stat()
	if err != nil || l.offset-l.start >= info.Size() {
		return 0, err
	}
	n, err := l.file.ReadAt(p, l.offset-l.start)
	l.offset += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// segment finds the one to open next: the last that begins at or before the offset, or else the first behind it; but
// never the current one or one before it.
func (l *logReader) segment() (start int64, ok bool, err error) {
	folder, err := l.folder.Open(".")
	if err != nil {
		return 0, false, err
	}
	names, err := folder.Readdirnames(-1)
	if err := errors.Join(err, folder.Close()); err != nil {
		return 0, false, err
	}
	for _, name := range names {
		digits, isSegment := strings.CutPrefix(name, l.prefix)
		s, err := strconv.ParseInt(digits, 10, 64)
		if !isSegment || err != nil || l.file != nil && s <= l.start {
			continue
		}
		if better := s <= l.offset && (s > start || start > l.offset) || s > l.offset && s < start; !ok || better {
			start, ok = s, true
		}
	}
	return start, ok, nil
}

func (l *logReader) closeSegment() {
	if l.file != nil {
		_ = l.file.Close() // was only read
	}
}

// Offset implements [hostmgr.Offsetter].
func (l *logReader) Offset() int64 { return l.offset }

// Close implements [io.Closer].
func (l *logReader) Close() error {
	l.closeSegment()
	l.file = nil
	return l.folder.Close()
}

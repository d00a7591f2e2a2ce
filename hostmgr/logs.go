package hostmgr

import (
	"bytes"
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// logChunkSize bounds the data of one chunk.
const logChunkSize = 32 << 10

var logStreams = [...]sluicev1.LogStream{
	Stdout: sluicev1.LogStream_LOG_STREAM_STDOUT,
	Stderr: sluicev1.LogStream_LOG_STREAM_STDERR,
}

// readLogs sends what a request asks for, both streams side by side where it names none.
func (b *bulkStream) readLogs(ctx context.Context, req *sluicev1.LogRequest) error {
	run, err := runFrom(req.GetRun())
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, stream := range []LogStream{Stdout, Stderr} {
		want := req.GetStream()
		if want == sluicev1.LogStream_LOG_STREAM_UNSPECIFIED || want == logStreams[stream] {
			group.Go(func() error { return b.readLog(ctx, run, stream, req) })
		}
	}
	return group.Wait()
}

// readLog sends one stream, and after it a chunk that says that it has ended.
func (b *bulkStream) readLog(ctx context.Context, run cluster.RunID, stream LogStream, req *sluicev1.LogRequest) error {
	begin, err := logBegin(ctx, b.config.Driver, run, stream, req)
	if err != nil {
		return err
	}
	if req.GetTail() != nil {
		// So that the reader knows where the tail begins, should he have to come back before there is more.
		err := b.chunk(ctx, &sluicev1.LogChunk{RequestId: req.GetRequestId(), Stream: logStreams[stream], Offset: begin})
		if err != nil {
			return err
		}
	}
	log := LogRequest{Run: run, Process: req.GetProcess(), Stream: stream, Offset: begin, Follow: req.GetFollow()}
	end, err := eachChunk(ctx, b.config.Driver, log, func(at int64, data []byte) error {
		return b.chunk(ctx, &sluicev1.LogChunk{
			RequestId: req.GetRequestId(), Stream: logStreams[stream], Offset: at, Data: bytes.Clone(data),
		})
	})
	if err != nil {
		return err
	}
	return b.chunk(ctx, &sluicev1.LogChunk{
		RequestId: req.GetRequestId(), Stream: logStreams[stream], Offset: end, Eof: true,
	})
}

// eachChunk calls fn with the pieces of a log and their offsets, and returns the offset of the end. The data is valid
// during the call only.
func eachChunk(ctx context.Context, d Driver, req LogRequest, fn func(at int64, data []byte) error) (end int64, err error) {
	log, err := d.OpenLog(ctx, req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	end = req.Offset
	buffer := make([]byte, logChunkSize)
	for {
		n, err := log.Read(buffer)
		end += int64(n)
		if o, ok := log.(Offsetter); ok {
			end = o.Offset()
		}
		if n > 0 {
			if err := fn(end-int64(n), buffer[:n]); err != nil {
				return end, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return end, nil
		case err != nil:
			return end, err
		}
	}
}

// logBegin returns the offset at which a request wants to begin: where it says, or so that of what there is now the
// tail that it asks for is left. To find a tail it reads the log once; logs are bounded.
func logBegin(ctx context.Context, d Driver, run cluster.RunID, stream LogStream, req *sluicev1.LogRequest) (int64, error) {
	given := req.StdoutOffset
	if stream == Stderr {
		given = req.StderrOffset
	}
	var t tail
	switch want := req.GetTail().(type) {
	case nil:
		return max(0, deref(given)), nil
	case *sluicev1.LogRequest_TailBytes:
		t = tail{bytes: max(0, want.TailBytes)}
	case *sluicev1.LogRequest_TailLines:
		t = tail{lines: int(want.TailLines), countLines: true}
	}
	if given != nil {
		return max(0, *given), nil // a reader that comes back knows where it was
	}
	_, err := eachChunk(ctx, d, LogRequest{Run: run, Process: req.GetProcess(), Stream: stream}, t.add)
	return t.offset(), err
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// tail finds where the last bytes or lines of a log begin. An unfinished line counts.
type tail struct {
	countLines bool
	bytes      int64
	lines      int

	begun  bool
	first  int64   // offset of the first byte that there is
	end    int64   // offset of the end
	starts []int64 // offsets of the last lines; trimmed when there are twice as many as needed
	inLine bool    // the last byte was not the end of a line
}

func (t *tail) add(at int64, data []byte) error {
	if !t.begun {
		t.begun, t.first = true, at
	}
	t.end = at + int64(len(data))
	for pos := 0; t.countLines && pos < len(data); {
		if !t.inLine {
			t.starts = append(t.starts, at+int64(pos))
		}
		n := bytes.IndexByte(data[pos:], '\n')
		t.inLine = n < 0
		if t.inLine {
			break
		}
		pos += n + 1
		if len(t.starts) > 2*t.lines+1024 {
			t.starts = append(t.starts[:0], t.starts[len(t.starts)-t.lines:]...)
		}
	}
	return nil
}

func (t *tail) offset() int64 {
	switch {
	case !t.countLines:
		return max(t.first, t.end-t.bytes)
	case t.lines == 0:
		return t.end
	case len(t.starts) <= t.lines:
		return t.first
	default:
		return t.starts[len(t.starts)-t.lines]
	}
}

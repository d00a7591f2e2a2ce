package hostmgr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// bulkUp takes the next message from a Bulk stream.
func (b *bench) bulkUp(s *bulk) *sluicev1.BulkUp {
	b.Helper()
	m, err := s.stream.Recv()
	require.NoError(b, err)
	return m
}

// bulk takes the next Bulk stream and its hello.
func (b *bench) bulk() *bulk {
	b.Helper()
	s := <-b.bulks
	require.Equal(b, "here", b.bulkUp(s).GetHello().GetShard())
	return s
}

func (b *bench) ask(s *bulk, req *sluicev1.LogRequest) {
	b.Helper()
	req.Run = ref(1)
	require.NoError(b, s.stream.Send(&sluicev1.BulkDown{Message: &sluicev1.BulkDown_Log{Log: req}}))
}

// chunks takes what answers one request up to the chunk that is marked done: the data of each stream, the offset of its
// first byte, and the error.
func (b *bench) chunks(s *bulk, id uint64) (data map[sluicev1.LogStream]string, begin map[sluicev1.LogStream]int64, problem string) {
	b.Helper()
	data, begin = map[sluicev1.LogStream]string{}, map[sluicev1.LogStream]int64{}
	next := map[sluicev1.LogStream]int64{}
	for {
		c := b.bulkUp(s).GetLog()
		require.Equal(b, id, c.GetRequestId())
		if c.GetDone() {
			b.busy = c.GetBusy()
			return data, begin, c.GetError()
		}
		if at, begun := next[c.GetStream()]; begun {
			require.Equal(b, at, c.GetOffset())
		} else {
			begin[c.GetStream()] = c.GetOffset()
		}
		data[c.GetStream()] += string(c.GetData())
		next[c.GetStream()] = c.GetOffset() + int64(len(c.GetData()))
	}
}

// using is what a run uses of CPU, memory, disk and network.
func using(n int, amounts ...int64) hostmgr.Usage {
	u := hostmgr.Usage{Run: run(n)}
	for i, v := range amounts {
		u.Used.Fixed[[]cluster.Dimension{cluster.CPU, cluster.Memory, cluster.Disk, cluster.Network}[i]] = v
	}
	return u
}

func TestUsage(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		s := b.bulk()
		for n := range 3 {
			b.driver.report(status(n, cluster.TaskRunning))
			b.status(c)
		}
		b.driver.sink.ReportUsage([]hostmgr.Usage{using(2, 20, 200, 2000, 20_000), using(1, 10, 100, 1000, 10_000)})
		got := b.bulkUp(s).GetUsage()
		require.Len(t, got.GetRuns(), 2)
		require.True(t, proto.Equal(&sluicev1.RunUsage{
			Run: &sluicev1.RunRef{JobUid: 1, Instance: 1, Run: 1}, CpuMilli: 10, MemoryBytes: 100,
			DiskBytes: 1000, NetworkBytesPerSecond: 10_000,
		}, got.GetRuns()[0]))

		time.Sleep(5 * time.Second)
		b.driver.sink.ReportUsage([]hostmgr.Usage{using(2, 30)})
		got = b.bulkUp(s).GetUsage()
		require.Equal(t, int64(5*time.Second), got.GetIntervalNs())
		require.Len(t, got.GetRuns(), 2, "a report names all that run")
		require.EqualValues(t, 30, got.GetRuns()[1].GetCpuMilli())

		b.driver.report(status(2, cluster.TaskSucceeded))
		ended := b.status(c)
		b.driver.sink.ReportUsage([]hostmgr.Usage{using(2, 40)}) // measured just before it ended
		require.Len(t, b.bulkUp(s).GetUsage().GetRuns(), 1)

		b.ack(c, ended)
		b.release(c, 2)
		synctest.Wait()
		b.driver.sink.ReportUsage([]hostmgr.Usage{using(2, 40)}) // which took as long as all that
		require.Len(t, b.bulkUp(s).GetUsage().GetRuns(), 1)
	})
}

// TestUsageOfMany: a report that is longer than a message comes in parts.
func TestUsageOfMany(t *testing.T) {
	onBench(t, func(b *bench) {
		usage := make([]hostmgr.Usage, 60_000)
		for n := range usage {
			b.driver.runs[run(n)] = status(n, cluster.TaskRunning)
			usage[n] = using(n, int64(n), 1<<40, 1<<40, 1<<40)
		}
		b.start()
		b.welcome()
		s := b.bulk()
		b.driver.sink.ReportUsage(usage)
		seen, parts := 0, 0
		for more := true; more; parts++ {
			part := b.bulkUp(s).GetUsage()
			require.Less(t, proto.Size(part), 4<<20)
			for _, r := range part.GetRuns() {
				require.EqualValues(t, seen, r.GetCpuMilli())
				seen++
			}
			more = part.GetMore()
		}
		require.Equal(t, len(usage), seen)
		require.Greater(t, parts, 1)
	})
}

// TestUsageIsDroppedUnderPressure: what nobody reads is replaced, and neither status nor commands wait for it.
func TestUsageIsDroppedUnderPressure(t *testing.T) {
	onBench(t, func(b *bench) {
		usage := make([]hostmgr.Usage, 1000)
		for n := range usage {
			b.driver.runs[run(n)] = status(n, cluster.TaskRunning)
		}
		b.start()
		c, _ := b.welcome()
		s := b.bulk()
		for i := range 500 {
			for n := range usage {
				usage[n] = using(n, int64(i))
			}
			b.driver.sink.ReportUsage(usage)
			synctest.Wait()
		}
		b.driver.report(status(1, cluster.TaskSucceeded))
		require.Equal(t, sluicev1.RunState_RUN_STATE_SUCCEEDED, b.status(c).GetState())
		b.launch(c, 1000)
		synctest.Wait()
		require.Equal(t, 1, b.driver.launches(1000))
		reports := 0
		for last := int64(-1); last < 499; reports++ {
			got := b.bulkUp(s).GetUsage().GetRuns()[0].GetCpuMilli()
			require.Greater(t, got, last)
			last = got
		}
		require.Less(t, reports, 100)
	})
}

func TestLogs(t *testing.T) {
	const out, errs = "one\ntwo\nthree\n", "oops"
	stdout, stderr := sluicev1.LogStream_LOG_STREAM_STDOUT, sluicev1.LogStream_LOG_STREAM_STDERR
	type data = map[sluicev1.LogStream]string
	for name, test := range map[string]struct {
		req   *sluicev1.LogRequest
		want  data
		begin int64 // of stdout
	}{
		"both":           {&sluicev1.LogRequest{}, data{stdout: out, stderr: errs}, 0},
		"one":            {&sluicev1.LogRequest{Stream: stderr}, data{stderr: errs}, 0},
		"offset":         {&sluicev1.LogRequest{Stream: stdout, StdoutOffset: proto.Int64(4)}, data{stdout: out[4:]}, 4},
		"offsets":        {&sluicev1.LogRequest{StdoutOffset: proto.Int64(9), StderrOffset: proto.Int64(4)}, data{stdout: out[9:], stderr: ""}, 9},
		"below zero":     {&sluicev1.LogRequest{Stream: stdout, StdoutOffset: proto.Int64(-4)}, data{stdout: out}, 0},
		"last bytes":     {&sluicev1.LogRequest{Tail: &sluicev1.LogRequest_TailBytes{TailBytes: 3}}, data{stdout: "ee\n", stderr: "ops"}, 11},
		"more bytes":     {&sluicev1.LogRequest{Tail: &sluicev1.LogRequest_TailBytes{TailBytes: 1 << 40}}, data{stdout: out, stderr: errs}, 0},
		"last lines":     {&sluicev1.LogRequest{Tail: &sluicev1.LogRequest_TailLines{TailLines: 2}}, data{stdout: "two\nthree\n", stderr: errs}, 4},
		"no lines":       {&sluicev1.LogRequest{Stream: stdout, Tail: &sluicev1.LogRequest_TailLines{}}, data{stdout: ""}, 14},
		"tail, resumed":  {&sluicev1.LogRequest{Stream: stdout, StdoutOffset: proto.Int64(12), Tail: &sluicev1.LogRequest_TailLines{TailLines: 2}}, data{stdout: "e\n"}, 12},
		"tail, followed": {&sluicev1.LogRequest{Stream: stdout, Follow: true, Tail: &sluicev1.LogRequest_TailLines{TailLines: 1}}, data{stdout: "three\n"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
					hostmgr.Stdout: text(out), hostmgr.Stderr: text(errs),
				}
				b.begin()
				s := b.bulk()
				test.req.RequestId = 7
				b.ask(s, test.req)
				got, begin, problem := b.chunks(s, 7)
				require.Empty(t, problem)
				require.Equal(t, test.want, got)
				require.Equal(t, test.begin, begin[stdout])
			})
		})
	}
}

func TestLogsThatFail(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
			hostmgr.Stderr: func(context.Context, hostmgr.LogRequest) io.Reader {
				return io.MultiReader(strings.NewReader("begun"), failing{errors.New("bad sector")})
			},
		}
		b.begin()
		s := b.bulk()
		b.ask(s, &sluicev1.LogRequest{RequestId: 1, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT})
		_, _, problem := b.chunks(s, 1)
		require.Equal(t, "no such run", problem, "without the package that says so")
		b.ask(s, &sluicev1.LogRequest{RequestId: 2, Stream: sluicev1.LogStream_LOG_STREAM_STDERR})
		got, _, problem := b.chunks(s, 2)
		require.Equal(t, "begun", got[sluicev1.LogStream_LOG_STREAM_STDERR])
		require.Equal(t, "bad sector", problem)
		b.driver.logs[hostmgr.Stdout] = func(context.Context, hostmgr.LogRequest) io.Reader {
			return failing{&fs.PathError{Op: "read", Path: "/var/lib/runs/1/stdout.0", Err: fs.ErrPermission}}
		}
		b.ask(s, &sluicev1.LogRequest{RequestId: 3, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT})
		_, _, problem = b.chunks(s, 3)
		require.Contains(t, problem, "permission denied")
		require.NotContains(t, problem, "/var/lib", "where a host manager keeps things is nobody's business")
		require.NoError(t, s.stream.Send(&sluicev1.BulkDown{Message: &sluicev1.BulkDown_Log{Log: &sluicev1.LogRequest{RequestId: 4}}}))
		_, _, problem = b.chunks(s, 4)
		require.Contains(t, problem, "names no run")
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// endless is a log that never ends, and that stops at its context only.
type endless struct {
	ctx   context.Context
	reads *atomic.Int64
}

func (e endless) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, e.ctx.Err()
	}
	e.reads.Add(1)
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLogsWaitForTheirReader: a stream that is not read stops the reading of logs, and nothing else.
func TestLogsWaitForTheirReader(t *testing.T) {
	onBench(t, func(b *bench) {
		var reads atomic.Int64
		b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
			hostmgr.Stdout: func(ctx context.Context, _ hostmgr.LogRequest) io.Reader { return endless{ctx, &reads} },
		}
		c := b.begin()
		s := b.bulk()
		b.ask(s, &sluicev1.LogRequest{RequestId: 1, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT})
		time.Sleep(time.Minute)
		require.Less(t, reads.Load(), int64(50))
		before := reads.Load()
		b.driver.report(status(1, cluster.TaskRunning))
		require.NotNil(t, b.status(c))
		time.Sleep(time.Minute)
		require.Equal(t, before, reads.Load())

		require.NoError(t, s.stream.Send(&sluicev1.BulkDown{Message: &sluicev1.BulkDown_Cancel{Cancel: &sluicev1.LogCancel{RequestId: 1}}}))
		require.NoError(t, s.stream.Send(&sluicev1.BulkDown{Message: &sluicev1.BulkDown_Cancel{Cancel: &sluicev1.LogCancel{RequestId: 9}}}))
		synctest.Wait()
		b.driver.sink.ReportUsage(nil)
		for b.bulkUp(s).GetUsage() == nil { // what was under way, and then no more
			require.Less(t, reads.Load(), before+50)
		}
	})
}

func TestTailOfASilentTask(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
			hostmgr.Stderr: func(ctx context.Context, req hostmgr.LogRequest) io.Reader {
				if !req.Follow {
					return strings.NewReader("long ago\n")
				}
				return waiting{ctx}
			},
		}
		b.begin()
		s := b.bulk()
		b.ask(s, &sluicev1.LogRequest{
			RequestId: 1, Stream: sluicev1.LogStream_LOG_STREAM_STDERR, Follow: true, Tail: &sluicev1.LogRequest_TailLines{},
		})
		chunk := b.bulkUp(s).GetLog()
		require.EqualValues(t, 9, chunk.GetOffset(), "who has to ask again knows from where")
		require.Empty(t, chunk.GetData())
	})
}

func TestFollowedLog(t *testing.T) {
	onBench(t, func(b *bench) {
		output, task := io.Pipe()
		b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
			hostmgr.Stdout: func(_ context.Context, req hostmgr.LogRequest) io.Reader {
				require.True(t, req.Follow)
				return rotated{output}
			},
		}
		b.begin()
		s := b.bulk()
		b.ask(s, &sluicev1.LogRequest{RequestId: 1, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Follow: true})
		for i := range 3 {
			_, err := fmt.Fprint(task, i)
			require.NoError(t, err)
			chunk := b.bulkUp(s).GetLog()
			require.Equal(t, fmt.Sprint(i), string(chunk.GetData()))
			require.EqualValues(t, 999, chunk.GetOffset(), "the reader knows better than the request where it is")
		}
		require.NoError(t, task.Close())
		require.True(t, b.bulkUp(s).GetLog().GetEof())
		require.True(t, b.bulkUp(s).GetLog().GetDone())
	})
}

// rotated is a log of which everything but the last byte is always gone.
type rotated struct{ io.Reader }

func (rotated) Offset() int64 { return 1000 }

func (r rotated) Close() error { return nil }

func TestTooManyLogs(t *testing.T) {
	onBench(t, func(b *bench) {
		b.driver.logs = map[hostmgr.LogStream]func(context.Context, hostmgr.LogRequest) io.Reader{
			hostmgr.Stdout: func(ctx context.Context, _ hostmgr.LogRequest) io.Reader { return waiting{ctx} },
		}
		b.begin()
		s := b.bulk()
		for id := range 65 {
			b.ask(s, &sluicev1.LogRequest{RequestId: uint64(id), Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Follow: true})
		}
		_, _, problem := b.chunks(s, 64)
		require.Contains(t, problem, "64 logs are being read")
		require.True(t, b.busy)
		require.NoError(t, s.stream.Send(&sluicev1.BulkDown{Message: &sluicev1.BulkDown_Cancel{Cancel: &sluicev1.LogCancel{RequestId: 3}}}))
		synctest.Wait()
		b.driver.logs[hostmgr.Stderr] = text("there is room again")
		b.ask(s, &sluicev1.LogRequest{RequestId: 99, Stream: sluicev1.LogStream_LOG_STREAM_STDERR})
		_, _, problem = b.chunks(s, 99)
		require.Empty(t, problem)
	})
}

// waiting is a log to which nothing is added.
type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// TestBulkBreaks: the stream for usage and logs is opened again, and the session does not notice.
func TestBulkBreaks(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for range 3 {
			s := b.bulk()
			s.result <- grpcstatus.Error(codes.FailedPrecondition, "no control stream with this shard and session id")
		}
		s := b.bulk()
		b.driver.sink.ReportUsage(nil)
		require.NotNil(t, b.bulkUp(s).GetUsage())
		b.silent(c)
		b.welcome()
		b.bulk()
	})
}

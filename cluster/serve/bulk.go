package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Errors of reading logs.
var (
	// ErrShardAway: the shard that has the log is not connected.
	ErrShardAway = errors.New("serve: the host manager of the run's host is not connected")
	// ErrSlowReader: the reader did not take what it asked for, and others waited behind it.
	ErrSlowReader = errors.New("serve: the reader is too slow")
	// ErrSilentShard: the shard is connected, and does not answer.
	ErrSilentShard = errors.New("serve: the host manager does not answer")
	// ErrManyReaders: the shard reads as many outputs at once as it may.
	ErrManyReaders = errors.New("serve: too many readers")
)

// slowReader is how long a reader may take nothing of a log, while a chunk waits for it, before the request is given up. Readers that
// stand still together have that time together, not one after the other.
const slowReader = 10 * time.Second

// answerPatience is how long a shard may take to take a request, and to send some of the answer, save of a run that is followed.
const answerPatience = time.Minute

// bulk is a shard's stream for what may wait: usage reports and logs.
type bulk struct {
	down chan *sluicev1.BulkDown
	done chan struct{} // closed when the stream has ended

	mu       sync.Mutex
	next     uint64
	requests map[uint64]*logReader
}

// logReader is who waits for the chunks of a log.
type logReader struct {
	chunks chan *sluicev1.LogChunk
	moved  atomic.Pointer[time.Time] // when it took one last, or one came that nothing waited before
	gone   <-chan struct{}           // closed when it takes no more
}

// move notes that the reader does not stand still.
func (r *logReader) move() {
	now := time.Now()
	r.moved.Store(&now)
}

// Bulk implements the stream of that name.
func (m hostManagers) Bulk(stream sluicev1.HostManagerService_BulkServer) error {
	first, err := stream.Recv()
	if err != nil {
		return hungUp(err)
	}
	hello := first.GetHello()
	b := &bulk{
		down:     make(chan *sluicev1.BulkDown, 64),
		done:     make(chan struct{}),
		requests: map[uint64]*logReader{},
	}
	if err := m.s.shards.attach(hello, b); err != nil {
		return err
	}
	defer func() {
		close(b.done)
		m.s.shards.detach(hello, b)
		m.s.shards.forget(m.s.Snapshot(), cluster.ShardID(hello.GetShard()))
	}()

	received := make(chan error, 1)
	go func() { received <- m.s.receiveBulk(stream, cluster.ShardID(hello.GetShard()), b) }()
	for {
		select {
		case err := <-received:
			return hungUp(err)
		case <-m.s.stopped:
			return status.Error(codes.Unavailable, "the scheduler is stopping")
		case message := <-b.down:
			if err := stream.Send(message); err != nil {
				return err
			}
		}
	}
}

func (t *shardTable) attach(hello *sluicev1.BulkHello, b *bulk) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.byName[cluster.ShardID(hello.GetShard())]
	if sh == nil || sh.control == nil || sh.control.sessionID != hello.GetSessionId() {
		return status.Error(codes.FailedPrecondition, "no control stream with this shard and session id; open that one first")
	}
	sh.bulk = b
	return nil
}

func (t *shardTable) detach(hello *sluicev1.BulkHello, b *bulk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.get(cluster.ShardID(hello.GetShard())); sh.bulk == b {
		sh.bulk = nil
	}
}

// maxSamples bounds what is kept of a report whose last part does not come.
const maxSamples = 1 << 20

func (s *Scheduler) receiveBulk(stream sluicev1.HostManagerService_BulkServer, shard cluster.ShardID, b *bulk) error {
	var samples []knowledge.Sample // of the parts of a report
	for {
		up, err := stream.Recv()
		if err != nil {
			return err
		}
		if usage := up.GetUsage(); usage != nil {
			samples = append(samples, s.samplesOf(shard, usage)...)
			if !usage.GetMore() || len(samples) > maxSamples {
				s.takeUsage(shard, samples)
				samples = nil
			}
		}
		if chunk := up.GetLog(); chunk != nil {
			b.deliver(chunk)
		}
	}
}

// deliver hands a chunk to its reader. One that does not take it in time is given up, so that it cannot hold the others.
func (b *bulk) deliver(chunk *sluicev1.LogChunk) {
	b.mu.Lock()
	reader, waits := b.requests[chunk.GetRequestId()]
	b.mu.Unlock()
	if !waits {
		return // cancelled
	}
	if len(reader.chunks) == 0 {
		reader.move()
	}
	select {
	case reader.chunks <- chunk:
		return
	default:
	}
	patience := time.NewTimer(slowReader - time.Since(*reader.moved.Load()))
	defer patience.Stop()
	select {
	case reader.chunks <- chunk:
	case <-reader.gone:
	case <-patience.C:
		b.forget(chunk.GetRequestId())
		close(reader.chunks)
	}
}

func (b *bulk) forget(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.requests, id)
}

// open registers a reader under a new request id, which takes no more once gone is closed.
func (b *bulk) open(gone <-chan struct{}) (uint64, *logReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	reader := &logReader{chunks: make(chan *sluicev1.LogChunk, 16), gone: gone}
	b.requests[b.next] = reader
	return b.next, reader
}

// ReadLog asks the shard that has the run's output for it and passes on the chunks until the request is done, fails, is not
// answered for answerPatience, or ctx ends. The request's id is filled in.
func (s *Scheduler) ReadLog(ctx context.Context, host cluster.HostID, req *sluicev1.LogRequest, each func(*sluicev1.LogChunk) error) error {
	s.shards.mu.Lock()
	b := s.shards.get(host.Shard()).bulk
	s.shards.mu.Unlock()
	if b == nil {
		return ErrShardAway
	}
	id, reader := b.open(ctx.Done())
	defer b.forget(id)
	req.RequestId = id
	if err := b.send(ctx, &sluicev1.BulkDown{Message: &sluicev1.BulkDown_Log{Log: req}}); err != nil {
		return err
	}
	over := false // the shard knows
	defer func() {
		cancel := &sluicev1.BulkDown{Message: &sluicev1.BulkDown_Cancel{Cancel: &sluicev1.LogCancel{RequestId: id}}}
		if !over {
			_ = b.send(context.WithoutCancel(ctx), cancel)
		}
	}()
	silence := time.NewTimer(answerPatience)
	defer silence.Stop()
	for {
		if silence.Reset(answerPatience); req.GetFollow() {
			silence.Stop() // what runs may print nothing for long
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.done:
			return ErrShardAway
		case <-silence.C:
			return ErrSilentShard
		case chunk, ok := <-reader.chunks:
			if !ok {
				return ErrSlowReader
			}
			reader.move()
			if over = chunk.GetDone(); chunk.GetError() != "" {
				if chunk.GetBusy() {
					return fmt.Errorf("%w: %s", ErrManyReaders, chunk.GetError())
				}
				return errors.New(chunk.GetError())
			}
			if err := each(chunk); err != nil {
				return err
			}
			if over {
				return nil
			}
		}
	}
}

func (b *bulk) send(ctx context.Context, m *sluicev1.BulkDown) error {
	silence := time.NewTimer(answerPatience)
	defer silence.Stop()
	select {
	case b.down <- m:
		return nil
	case <-b.done:
		return ErrShardAway
	case <-ctx.Done():
		return ctx.Err()
	case <-silence.C:
		return ErrSilentShard
	}
}

package hostmgr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// bulkRetry is the wait before a Bulk stream that broke is opened again, while the Control stream goes on.
const bulkRetry = time.Second

// maxLogRequests bounds the requests for logs that are answered at the same time.
const maxLogRequests = 64

// bulk keeps a Bulk stream open as long as the session lasts. Trouble with it does not disturb the session.
func (c *session) bulk(ctx context.Context) error {
	for {
		if err := c.bulkOnce(ctx); ctx.Err() == nil {
			c.log.Debug("the stream for usage and logs broke, opening another", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bulkRetry):
		}
	}
}

func (c *session) bulkOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Bulk(ctx)
	if err != nil {
		return err
	}
	hello := &sluicev1.BulkHello{Shard: string(c.config.Name), SessionId: c.id}
	if err := stream.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, cancel)()
	b := &bulkStream{
		Shard: c.Shard, stream: stream, group: group,
		chunks:  make(chan *sluicev1.LogChunk),
		cancels: map[uint64]context.CancelFunc{},
	}
	group.Go(func() error { return b.send(ctx) })
	group.Go(func() error { return b.receive(ctx) })
	return group.Wait()
}

// bulkStream is one Bulk stream. Each request for a log has a goroutine of its own that reads and waits until its chunk
// is taken, so that a stream that does not move stops the reading.
type bulkStream struct {
	*Shard
	stream sluicev1.HostManagerService_BulkClient
	group  *errgroup.Group
	chunks chan *sluicev1.LogChunk

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc // by request
}

func (b *bulkStream) send(ctx context.Context) error {
	for {
		var up []*sluicev1.BulkUp
		select {
		case <-ctx.Done():
			return nil
		case <-b.usage.wake:
			up = b.usage.take(b.out.lives)
		case chunk := <-b.chunks:
			up = []*sluicev1.BulkUp{{Message: &sluicev1.BulkUp_Log{Log: chunk}}}
		}
		for _, m := range up {
			if err := b.stream.Send(m); errors.Is(err, io.EOF) {
				<-ctx.Done() // receive learns why
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

func (b *bulkStream) receive(ctx context.Context) error {
	for {
		down, err := b.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("hostmgr: the scheduler ended the stream")
		}
		if err != nil {
			return err
		}
		switch m := down.GetMessage().(type) {
		case *sluicev1.BulkDown_Log:
			b.answer(ctx, m.Log)
		case *sluicev1.BulkDown_Cancel:
			b.mu.Lock()
			if cancel := b.cancels[m.Cancel.GetRequestId()]; cancel != nil {
				cancel()
			}
			b.mu.Unlock()
		default:
			b.log.Warn("the scheduler sent a message that this release does not know", "message", fmt.Sprintf("%T", m))
		}
	}
}

// answer starts to answer a request for a log.
func (b *bulkStream) answer(ctx context.Context, req *sluicev1.LogRequest) {
	id := req.GetRequestId()
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	_, twice := b.cancels[id]
	busy := len(b.cancels) >= maxLogRequests
	if !twice {
		b.cancels[id] = cancel
	}
	b.mu.Unlock()
	if twice {
		cancel()
		b.log.Error("the scheduler used the id of a log request twice", "request", id)
		return
	}
	b.group.Go(func() error {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.cancels, id)
			cancel()
		}()
		done := &sluicev1.LogChunk{RequestId: id, Done: true}
		var err error
		if busy {
			err = fmt.Errorf("%d logs are being read from this host manager already", maxLogRequests)
			done.Busy = true
		} else {
			err = b.readLogs(ctx, req)
		}
		if err != nil {
			done.Error = text(b.tellable(err, req))
		}
		_ = b.chunk(ctx, done) // fails after a cancel, and then nobody waits for it
		return nil
	})
}

// tellable returns what whoever asked for a log is told of an error: nothing of the packages it went through, and of one of the
// file system not the path, which is for this machine's own log.
func (b *bulkStream) tellable(err error, req *sluicev1.LogRequest) string {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		b.log.Warn("an output cannot be read", "run", req.GetRun(), "error", err)
		return fmt.Sprintf("the output cannot be read: %v", failed.Err)
	}
	told := err.Error()
	for _, pkg := range []string{"hostmgr: ", "local: ", "mesos: "} {
		told = strings.TrimPrefix(told, pkg)
	}
	return told
}

// chunk hands a chunk to the stream. It fails when the request has been cancelled.
func (b *bulkStream) chunk(ctx context.Context, chunk *sluicev1.LogChunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.chunks <- chunk:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

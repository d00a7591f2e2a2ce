package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// logShard is a host-manager shard, played by hand, that runs whatever it is sent and answers requests for logs.
type logShard struct {
	control  sluicev1.HostManagerService_ControlClient
	bulk     sluicev1.HostManagerService_BulkClient
	requests chan *sluicev1.LogRequest
	cancels  chan uint64
}

func (a *apiTest) connectLogShard(t *testing.T) *logShard {
	t.Helper()
	client := sluicev1.NewHostManagerServiceClient(a.conn)
	sh := &logShard{requests: make(chan *sluicev1.LogRequest, 1), cancels: make(chan uint64, 1)}
	var err error
	sh.control, err = client.Control(t.Context())
	require.NoError(t, err)
	total := &sluicev1.ResourceVector{CpuMilli: 4000, MemoryBytes: 1 << 30}
	for _, m := range []*sluicev1.ShardUp{
		{Message: &sluicev1.ShardUp_Hello{Hello: &sluicev1.Hello{Shard: "s", SessionId: "1", ProtocolVersion: protocolVersion}}},
		{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{
			{Name: "h", Capacity: &sluicev1.Capacity{Total: total}},
		}}}},
		{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Last: true}}},
	} {
		require.NoError(t, sh.control.Send(m))
	}
	welcome, err := sh.control.Recv()
	require.NoError(t, err)
	require.NotNil(t, welcome.GetWelcome())
	sh.bulk, err = client.Bulk(t.Context())
	require.NoError(t, err)
	require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Hello{Hello: &sluicev1.BulkHello{Shard: "s", SessionId: "1"}}}))
	require.Eventually(t, func() bool { // before, there is nobody to ask
		a.shards.mu.Lock()
		defer a.shards.mu.Unlock()
		return a.shards.get("s").bulk != nil
	}, 10*time.Second, time.Millisecond)
	go func() {
		for {
			m, err := sh.bulk.Recv()
			switch {
			case err != nil:
				return
			case m.GetLog() != nil:
				sh.requests <- m.GetLog()
			case m.GetCancel() != nil:
				sh.cancels <- m.GetCancel().RequestId
			}
		}
	}()
	return sh
}

// launch waits for a launch and reports the run in the state.
func (sh *logShard) launch(t *testing.T, update uint64, state sluicev1.RunState) {
	t.Helper()
	var run *sluicev1.RunRef
	for run == nil {
		m, err := sh.control.Recv()
		require.NoError(t, err)
		run = m.GetLaunch().GetRun()
	}
	sh.report(t, update, run, state)
}

func (sh *logShard) report(t *testing.T, update uint64, run *sluicev1.RunRef, state sluicev1.RunState) {
	t.Helper()
	require.NoError(t, sh.control.Send(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: &sluicev1.RunStatus{
		UpdateId: update, Run: run, State: state, Host: "h", Result: &sluicev1.RunResult{ExitCode: proto.Int32(1)},
	}}}))
}

func (sh *logShard) answer(t *testing.T, r *sluicev1.LogRequest, chunks ...*sluicev1.LogChunk) {
	t.Helper()
	for _, c := range chunks {
		c.RequestId = r.RequestId
		require.NoError(t, sh.bulk.Send(&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Log{Log: c}}))
	}
}

func (a *apiTest) logs(t *testing.T, ctx context.Context, r *sluicev1.TaskLogsRequest) (got []*sluicev1.TaskLogsResponse, err error) {
	t.Helper()
	stream, err := a.tasks.TaskLogs(ctx, r)
	require.NoError(t, err)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, m)
	}
}

func TestTaskLogs(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	spec := sleepJob("job")
	spec.Restart = &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(1)}
	a.submit(t, spec)
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_FAILED)
	sh.launch(t, 2, sluicev1.RunState_RUN_STATE_RUNNING) // the second run

	type result struct {
		got []*sluicev1.TaskLogsResponse
		err error
	}
	done := make(chan result, 1)
	ask := func(ctx context.Context, r *sluicev1.TaskLogsRequest) *sluicev1.LogRequest {
		go func() {
			got, err := a.logs(t, ctx, r)
			done <- result{got, err}
		}()
		return <-sh.requests
	}
	r := ask(t.Context(), &sluicev1.TaskLogsRequest{
		Job: "job", Follow: true, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, StdoutOffset: proto.Int64(5),
		Tail: &sluicev1.TaskLogsRequest_TailLines{TailLines: 3}, Run: proto.Uint32(2),
	})
	require.Equal(t, uint32(2), r.Run.Run)
	require.True(t, r.Follow)
	require.Equal(t, int64(5), r.GetStdoutOffset())
	require.Equal(t, uint32(3), r.GetTailLines())
	require.Equal(t, sluicev1.LogStream_LOG_STREAM_STDOUT, r.Stream)
	sh.answer(t, r,
		&sluicev1.LogChunk{Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Offset: 5},
		&sluicev1.LogChunk{Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Data: []byte("one\n"), Offset: 5},
		&sluicev1.LogChunk{Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Data: []byte{0xff}, Offset: 9},
		&sluicev1.LogChunk{Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Offset: 10, Eof: true},
		&sluicev1.LogChunk{Done: true},
	)
	answer := <-done
	require.NoError(t, answer.err)
	require.Len(t, answer.got, 4)
	require.Equal(t, int64(5), answer.got[0].Offset, "where it begins is told before there is anything to read")
	answer.got = answer.got[1:]
	require.Equal(t, "one\n", string(answer.got[0].Data))
	require.Equal(t, []byte{0xff}, answer.got[1].Data)
	require.Equal(t, int64(9), answer.got[1].Offset)
	require.Equal(t, uint32(2), answer.got[1].Run)
	require.True(t, answer.got[2].Eof)

	// Both runs are there; what the shard cannot do is said.
	r = ask(t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Run: proto.Uint32(1)})
	require.Equal(t, uint32(1), r.Run.Run)
	sh.answer(t, r, &sluicev1.LogChunk{Error: "the output is gone", Done: true})
	answer = <-done
	require.Equal(t, codes.NotFound, status.Code(answer.err))
	require.Contains(t, answer.err.Error(), `host "s/h": the output is gone`)

	// A client that goes away ends the reading.
	ctx, cancel := context.WithCancel(t.Context())
	r = ask(ctx, &sluicev1.TaskLogsRequest{Job: "job", Follow: true})
	cancel()
	require.Equal(t, codes.Canceled, status.Code((<-done).err))
	require.Equal(t, r.RequestId, <-sh.cancels)
}

func TestTaskLogsWithoutARun(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	_, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Contains(t, err.Error(), "no output of run 1: it is PENDING, and none has been launched")

	// Once a shard runs it, those who waited get it.
	done := make(chan error, 1)
	go func() {
		got, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Follow: true})
		if err == nil && string(got[0].Data) != "hello" {
			err = fmt.Errorf("got %q", got[0].Data)
		}
		done <- err
	}()
	sh := a.connectLogShard(t)
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_RUNNING)
	sh.answer(t, <-sh.requests, &sluicev1.LogChunk{Data: []byte("hello")}, &sluicev1.LogChunk{Done: true})
	require.NoError(t, <-done)
	_, err = a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Run: proto.Uint32(2)})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
}

// A host whose shard is away: the client is told to try again.
func TestTaskLogsOfAShardThatIsAway(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "away/h", 1)
	uid := a.submit(t, sleepJob("job")).Uid
	key := cluster.MakeTaskKey(cluster.JobUID(uid), 0)
	w := a.Watch()
	defer w.Close()
	for a.Snapshot().Task(key).State != cluster.TaskPlaced {
		<-w.C
	}
	a.emit(t, &cluster.TaskStatus{Task: key, Run: 1, State: cluster.TaskRunning})
	_, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job"})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, err.Error(), `host "away/h": its host manager is not connected`)
}

// The output of an earlier run is asked for where that run was, which may be with another shard.
func TestTaskLogsOfAnEarlierRunElsewhere(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "first/h", 1)
	spec := sleepJob("job")
	spec.Restart = &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(1), BackoffInitial: durationpb.New(0)}
	key := cluster.MakeTaskKey(cluster.JobUID(a.submit(t, spec).Uid), 0)
	w := a.Watch()
	defer w.Close()
	placed := func(run uint32) bool {
		task := a.Snapshot().Task(key)
		return task.State == cluster.TaskPlaced && task.Run == run
	}
	for !placed(1) {
		<-w.C
	}
	a.addHost(t, "second/h", 1)
	a.emit(t, &cluster.HostDrain{ID: "first/h", Drain: true})
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		_, err := rules.Report(tx, "first", &cluster.TaskStatus{Task: key, Run: 1, State: cluster.TaskFailed, ExitCode: 1})
		return err
	}))
	for !placed(2) {
		<-w.C
	}
	a.emit(t, &cluster.TaskStatus{Task: key, Run: 2, State: cluster.TaskRunning})
	for run, host := range map[uint32]string{1: "first/h", 2: "second/h"} {
		_, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Run: &run})
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Contains(t, err.Error(), fmt.Sprintf("host %q: its host manager is not connected", host))
	}
}

// What a copy writes can be read as well, also when the task has succeeded through it.
func TestTaskLogsOfACopy(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "first/h", 1)
	spec := sleepJob("job")
	spec.Speculation = &sluicev1.SpeculationPolicy{Idempotent: true}
	key := cluster.MakeTaskKey(cluster.JobUID(a.submit(t, spec).Uid), 0)
	placed := func(k cluster.TaskKey) {
		require.Eventually(t, func() bool {
			task := a.Snapshot().Task(k)
			return task != nil && task.State == cluster.TaskPlaced
		}, 10*time.Second, time.Millisecond)
		a.emit(t, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	}
	placed(key)
	read := func(r *sluicev1.TaskLogsRequest, code codes.Code, message string) {
		t.Helper()
		r.Job = "job"
		_, err := a.logs(t, t.Context(), r)
		require.Equal(t, code, status.Code(err), err)
		require.ErrorContains(t, err, message)
	}
	away := func(host string) string { return fmt.Sprintf("host %q: its host manager is not connected", host) }
	read(&sluicev1.TaskLogsRequest{Copy: true}, codes.FailedPrecondition, "instance 0 has no output of a copy")
	a.addHost(t, "second/h", 1)
	a.emit(t, &cluster.CopyAdded{Task: key, Run: 1})
	placed(key.Copy())
	both := func() {
		read(&sluicev1.TaskLogsRequest{}, codes.Unavailable, away("first/h"))
		read(&sluicev1.TaskLogsRequest{Copy: true}, codes.Unavailable, away("second/h"))
		read(&sluicev1.TaskLogsRequest{Copy: true, Run: proto.Uint32(1)}, codes.Unavailable, away("second/h"))
		read(&sluicev1.TaskLogsRequest{Copy: true, Run: proto.Uint32(2)}, codes.FailedPrecondition, "no output of run 2 of a copy: the only one is run 1")
	}
	both()
	a.emit(t, &cluster.TaskStatus{Task: key.Copy(), Run: 1, State: cluster.TaskSucceeded}, &cluster.CopyWon{Task: key.Copy()})
	a.emit(t, &cluster.TaskStatus{Task: key, Run: 1, State: cluster.TaskFailed})
	both()
	got, err := a.tasks.GetTask(t.Context(), &sluicev1.GetTaskRequest{Job: "job"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.TaskState_TASK_STATE_SUCCEEDED, got.Task.State)
	require.True(t, proto.Equal(&sluicev1.TaskCopy{Run: 1, State: sluicev1.TaskState_TASK_STATE_SUCCEEDED, Host: "second/h"}, got.Task.Copy), "%v", got.Task.Copy)
}

// The runs of an instance that is added count on from those of one that is gone: it has no output before it ran itself.
func TestTaskLogsOfAnInstanceThatHasNotRun(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(2)
	uid := cluster.JobUID(a.submit(t, spec).Uid)
	sh.launch(t, 1, sluicev1.RunState_RUN_STATE_RUNNING)
	sh.launch(t, 2, sluicev1.RunState_RUN_STATE_RUNNING)
	scale := func(n uint32) {
		spec.Instances = proto.Uint32(n)
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, "job").Version})
		require.NoError(t, err)
	}
	scale(1)
	sh.report(t, 3, runRef(cluster.RunID{Task: cluster.MakeTaskKey(uid, 1), Run: 1}, "job"), sluicev1.RunState_RUN_STATE_KILLED)
	require.Eventually(t, func() bool { return a.Snapshot().Task(cluster.MakeTaskKey(uid, 1)) == nil }, 10*time.Second, time.Millisecond)
	a.emit(t, &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}})
	scale(2)

	_, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Instance: 1})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), err)
	require.Contains(t, err.Error(), "instance 1 has no output of run 1: it is PENDING, and none has been launched")
	_, err = a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Run: proto.Uint32(2)})
	require.Contains(t, err.Error(), "instance 0 has no output of run 2: it is RUNNING, and the last one that has been launched is run 1")
	require.Len(t, a.Shards(), 1, "none without a name")

	// Who follows waits for its first run.
	done := make(chan error, 1)
	go func() {
		_, err := a.logs(t, t.Context(), &sluicev1.TaskLogsRequest{Job: "job", Instance: 1, Follow: true})
		done <- err
	}()
	a.emit(t, &cluster.ModeSet{})
	sh.launch(t, 4, sluicev1.RunState_RUN_STATE_RUNNING)
	r := <-sh.requests
	require.Equal(t, uint32(2), r.Run.Run)
	sh.answer(t, r, &sluicev1.LogChunk{Done: true})
	require.NoError(t, <-done)
}

// However a reading ends that the shard has not ended, it is told: it reads for a bounded number of requests at once.
func TestTheShardIsToldThatNobodyReads(t *testing.T) {
	a := newAPITest(t)
	sh := a.connectLogShard(t)
	read := func(each error) (*sluicev1.LogRequest, chan error) {
		done := make(chan error, 1)
		go func() {
			done <- a.ReadLog(t.Context(), "s/h", &sluicev1.LogRequest{Follow: true}, func(*sluicev1.LogChunk) error { return each })
		}()
		return <-sh.requests, done
	}
	slow := errors.New("the client takes nothing")
	r, done := read(slow)
	sh.answer(t, r, &sluicev1.LogChunk{Data: []byte("hello")})
	require.ErrorIs(t, <-done, slow)
	require.Equal(t, r.RequestId, <-sh.cancels)

	r, done = read(nil)
	a.shards.mu.Lock()
	b := a.shards.get("s").bulk
	a.shards.mu.Unlock()
	b.mu.Lock()
	reader := b.requests[r.RequestId]
	b.mu.Unlock()
	b.forget(r.RequestId)
	close(reader.chunks) // as when it has not taken a chunk for too long
	require.ErrorIs(t, <-done, ErrSlowReader)
	require.Equal(t, r.RequestId, <-sh.cancels)

	// One that the shard has ended, it is not told of.
	r, done = read(nil)
	sh.answer(t, r, &sluicev1.LogChunk{Done: true})
	require.NoError(t, <-done)
	r, done = read(nil)
	sh.answer(t, r, &sluicev1.LogChunk{Done: true, Busy: true, Error: "64 logs are being read"})
	crowded := <-done
	require.ErrorIs(t, crowded, ErrManyReaders)
	require.Equal(t, codes.ResourceExhausted, status.Code(logStatus(crowded, "s/h")), "it may be asked again")
	next, done := read(slow)
	sh.answer(t, next, &sluicev1.LogChunk{Data: []byte("hello")})
	require.ErrorIs(t, <-done, slow)
	require.Equal(t, next.RequestId, <-sh.cancels)
}

// A shard that is connected and does not answer, or takes no requests, keeps nobody waiting. What is followed may be silent.
func TestAShardThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Scheduler{}
		b := &bulk{down: make(chan *sluicev1.BulkDown, 2), done: make(chan struct{}), requests: map[uint64]*logReader{}}
		s.shards.byName = map[cluster.ShardID]*shard{"s": {bulk: b}}
		read := func(ctx context.Context, follow bool) error {
			return s.ReadLog(ctx, "s/h", &sluicev1.LogRequest{Follow: follow}, func(*sluicev1.LogChunk) error { return nil })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, read(ctx, true), context.DeadlineExceeded)
		<-b.down // the request

		begun := time.Now()
		time.AfterFunc(answerPatience/2, func() { b.deliver(&sluicev1.LogChunk{RequestId: 2}) })
		require.ErrorIs(t, read(t.Context(), false), ErrSilentShard)
		require.Equal(t, 3*answerPatience/2+answerPatience, time.Since(begun), "since it last answered, and for the word that nobody waits")
		begun = time.Now()
		require.ErrorIs(t, read(t.Context(), true), ErrSilentShard, "it does not take the request")
		require.Equal(t, answerPatience, time.Since(begun))
		require.Empty(t, b.requests)
	})
	err := logStatus(ErrSilentShard, "s/h")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, err.Error(), `host "s/h": its host manager is connected and has not answered for 1m0s`)
}

// A reader that takes nothing holds up the others for a while, and one that has left does not.
func TestALogReaderThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bulk{requests: map[uint64]*logReader{}}
		ctx, leave := context.WithCancel(t.Context())
		gone, _ := b.open(ctx.Done())
		slow, reader := b.open(t.Context().Done())
		chunks := reader.chunks
		delivered := make(chan struct{})
		deliver := func(id uint64) {
			for range cap(chunks) + 1 { // one more than it has room for
				b.deliver(&sluicev1.LogChunk{RequestId: id})
			}
			delivered <- struct{}{}
		}
		begun := time.Now()
		go deliver(gone)
		synctest.Wait()
		leave()
		<-delivered
		require.Zero(t, time.Since(begun))

		go deliver(slow)
		<-delivered
		require.Equal(t, slowReader, time.Since(begun))
		for range cap(chunks) {
			<-chunks
		}
		_, open := <-chunks
		require.False(t, open)
	})
}

// Readers that stand still together, as those of a command whose output nobody reads, hold up the others as long as one of them does.
func TestManyLogReadersThatStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bulk{requests: map[uint64]*logReader{}}
		var readers []*logReader
		for range 30 {
			_, r := b.open(t.Context().Done())
			readers = append(readers, r)
		}
		begun := time.Now()
		for n := range uint64(2 * cap(readers[0].chunks) * len(readers)) {
			id := n%uint64(len(readers)) + 1
			if n/uint64(len(readers)) >= id%4 { // some begin later, and have room for longer
				b.deliver(&sluicev1.LogChunk{RequestId: id})
			}
		}
		require.Equal(t, slowReader, time.Since(begun))
		require.Empty(t, b.requests)

		// One that takes something has all of that time again, as has one that waited for more.
		id, r := b.open(t.Context().Done())
		time.Sleep(2 * slowReader)
		for range cap(r.chunks) {
			b.deliver(&sluicev1.LogChunk{RequestId: id})
		}
		for range 3 {
			time.AfterFunc(slowReader-time.Second, func() {
				<-r.chunks
				r.move()
			})
			b.deliver(&sluicev1.LogChunk{RequestId: id})
		}
		require.Len(t, b.requests, 1)
	})
}

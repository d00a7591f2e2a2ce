package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// writers is a job whose instances have written something, and of which a watch tells what it is told to.
type writers struct {
	sluicev1.TaskServiceClient
	sluicev1.JobServiceClient
	grpc.ServerStreamingClient[sluicev1.WatchJobsResponse]
	tasks   []*sluicev1.Task
	watched chan *sluicev1.WatchJobsResponse
	holds   bool // outputs end with the context only

	mu         sync.Mutex
	asked      []*sluicev1.TaskLogsRequest
	open, most int
	refusals   map[uint32]error // by instance, once each
}

func (w *writers) ListTasks(context.Context, *sluicev1.ListTasksRequest, ...grpc.CallOption) (*sluicev1.ListTasksResponse, error) {
	return &sluicev1.ListTasksResponse{Tasks: w.tasks}, nil
}

func (w *writers) WatchJobs(_ context.Context, r *sluicev1.WatchJobsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.WatchJobsResponse], error) {
	if !r.GetIncludeTasks() {
		return nil, errors.New("tasks are wanted")
	}
	return w, nil
}

func (w *writers) Recv() (*sluicev1.WatchJobsResponse, error) {
	res, ok := <-w.watched
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "no more")
	}
	return res, nil
}

// written is the output of one run, in pieces that do not end with lines.
type written struct {
	grpc.ServerStreamingClient[sluicev1.TaskLogsResponse]
	w      *writers
	ctx    context.Context
	pieces []*sluicev1.TaskLogsResponse
}

func (w *writers) TaskLogs(ctx context.Context, r *sluicev1.TaskLogsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.TaskLogsResponse], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusals[r.GetInstance()]; err != nil {
		delete(w.refusals, r.GetInstance())
		return nil, err
	}
	w.asked = append(w.asked, proto.CloneOf(r))
	w.open++
	w.most = max(w.most, w.open)
	s := &written{w: w, ctx: ctx}
	for i, text := range []string{"one\ntw", "o\nrest"} {
		s.pieces = append(s.pieces, &sluicev1.TaskLogsResponse{
			Stream: sluicev1.LogStream_LOG_STREAM_STDOUT, Data: []byte(text), Offset: int64(6 * i), Run: r.GetRun(), Instance: r.GetInstance(),
		})
	}
	s.pieces = append(s.pieces, &sluicev1.TaskLogsResponse{Stream: sluicev1.LogStream_LOG_STREAM_STDERR, Data: []byte("bad\n"), Instance: r.GetInstance()})
	return s, nil
}

func (s *written) Recv() (*sluicev1.TaskLogsResponse, error) {
	if len(s.pieces) > 0 {
		next := s.pieces[0]
		s.pieces = s.pieces[1:]
		return next, nil
	}
	if s.w.holds {
		<-s.ctx.Done()
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.open--
	return nil, io.EOF
}

func taskOf(instance, run uint32, state sluicev1.TaskState) *sluicev1.Task {
	return &sluicev1.Task{Job: "j", JobUid: 7, Instance: instance, Run: run, State: state, Host: "s/h"}
}

// logsOf reads the output of a job that there is no scheduler for.
func logsOf(w *writers, req *sluicev1.TaskLogsRequest, labels bool) (l *jobLogs, out, errOut *bytes.Buffer) {
	out, errOut = &bytes.Buffer{}, &bytes.Buffer{}
	a := &app{out: out, err: errOut, config: &config.Loaded{Config: config.Config{Output: "table"}}}
	req.Job = "j"
	return newJobLogs(a, &client{tasks: w, jobs: w, reconnect: 1}, req, nil, labels), out, errOut
}

const someState = sluicev1.TaskState_TASK_STATE_SUCCEEDED

// Outputs come in the order of the instances, in whole lines with the instance, and not more of them are read at once than is
// said. What is refused because too many are being read is asked for again; what is not there is told, and the others come.
func TestOutputsOfAJobComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writers{refusals: map[uint32]error{
			2: status.Error(codes.ResourceExhausted, "many"), 5: status.Error(codes.NotFound, "it is gone"),
		}}
		var want, wantErr strings.Builder
		for i := range uint32(40) {
			w.tasks = append(w.tasks, taskOf(i, 3, someState))
			if i != 5 {
				fmt.Fprintf(&want, "%2d: one\n%2d: two\n%2d: rest\n", i, i, i)
				fmt.Fprintf(&wantErr, "%2d: bad\n", i)
			}
		}
		w.tasks = append(w.tasks, &sluicev1.Task{Instance: 40, Run: 2}, taskOf(41, 1, sluicev1.TaskState_TASK_STATE_PLACED))
		l, out, errOut := logsOf(w, &sluicev1.TaskLogsRequest{}, true)
		err := l.read(t.Context())
		require.EqualError(t, err, "instance 5: it is gone")
		require.Equal(t, exitNotFound, codeOf(err))
		require.Equal(t, want.String(), out.String())
		require.Equal(t, wantErr.String()+"sluice: instances that have not run yet: 2\n", errOut.String())
		require.LessOrEqual(t, w.most, readAtOnce+2)
		require.Len(t, w.asked, 39)
		require.EqualValues(t, 3, w.asked[0].GetRun())

		w.refusals = map[uint32]error{}
		for i := range uint32(25) {
			w.refusals[i] = status.Error(codes.NotFound, "it is gone")
		}
		l, out, _ = logsOf(w, &sluicev1.TaskLogsRequest{}, true)
		err = l.read(t.Context())
		require.Equal(t, missingTold, strings.Count(err.Error(), "it is gone"))
		require.ErrorContains(t, err, "\nsluice: and so of 15 further instances")
		require.Equal(t, exitNotFound, codeOf(err))
		require.Contains(t, out.String(), "25: one\n")

		l, out, _ = logsOf(w, &sluicev1.TaskLogsRequest{}, true)
		l.only = []*sluicev1.InstanceRange{{First: 1, Last: 2}, {First: 40, Last: 40}}
		require.NoError(t, l.read(t.Context()))
		require.Equal(t, 6, strings.Count(out.String(), "\n"))
		l.only = []*sluicev1.InstanceRange{{First: 90, Last: 91}}
		require.Equal(t, exitNotFound, codeOf(l.read(t.Context())))
	})
}

// Whoever cannot write what he reads stops.
func TestOutputsThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, follow := range []bool{false, true} {
			w := &writers{holds: follow, watched: make(chan *sluicev1.WatchJobsResponse, 1)}
			for i := range uint32(40) {
				w.tasks = append(w.tasks, taskOf(i, 1, someState))
			}
			l, _, _ := logsOf(w, &sluicev1.TaskLogsRequest{Follow: follow}, true)
			l.printer.a.out = full{}
			if !follow {
				require.ErrorIs(t, l.read(t.Context()), syscall.ENOSPC)
				continue
			}
			w.watched <- &sluicev1.WatchJobsResponse{
				Jobs: []*sluicev1.Job{{Name: "j", Uid: 7, State: sluicev1.JobState_JOB_STATE_SUCCEEDED}}, Tasks: w.tasks, Revision: 1, Synced: true,
			}
			_, err := l.follow(t.Context())
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	})
}

// All runs of all instances are followed, also of those that come later, until the job has ended; a job of the same name that comes
// after it is another one.
func TestAJobIsFollowedToItsEnd(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &writers{watched: make(chan *sluicev1.WatchJobsResponse, 9)}
			job := func(revision uint64, state sluicev1.JobState) []*sluicev1.Job {
				return []*sluicev1.Job{{Name: "j", Uid: 7, Revision: revision, State: state, Spec: &sluicev1.JobSpec{Instances: proto.Uint32(2)}}}
			}
			running, pending := sluicev1.TaskState_TASK_STATE_RUNNING, sluicev1.TaskState_TASK_STATE_PENDING
			w.watched <- &sluicev1.WatchJobsResponse{Jobs: job(1, sluicev1.JobState_JOB_STATE_RUNNING), Revision: 1, Synced: true, Tasks: []*sluicev1.Task{
				taskOf(0, 4, running), {JobUid: 7, Instance: 1, State: pending},
			}}
			w.watched <- &sluicev1.WatchJobsResponse{Jobs: job(2, sluicev1.JobState_JOB_STATE_RUNNING), Revision: 2, Tasks: []*sluicev1.Task{
				taskOf(0, 4, pending), taskOf(1, 1, sluicev1.TaskState_TASK_STATE_PLACED),
			}}
			w.watched <- &sluicev1.WatchJobsResponse{Jobs: job(3, sluicev1.JobState_JOB_STATE_RUNNING), Revision: 3, Tasks: []*sluicev1.Task{taskOf(1, 1, running)}}
			end := &sluicev1.WatchJobsResponse{Jobs: job(4, sluicev1.JobState_JOB_STATE_SUCCEEDED)} // and there is more of the revision
			if deleted {
				end = &sluicev1.WatchJobsResponse{Gone: []uint32{7}, Jobs: []*sluicev1.Job{{Name: "j", Uid: 8}}}
			}
			w.watched <- end
			w.watched <- &sluicev1.WatchJobsResponse{Tasks: []*sluicev1.Task{taskOf(0, 6, someState), {Job: "j", JobUid: 8, Run: 1, Host: "s/h"}}, Revision: 4}
			l, out, errOut := logsOf(w, &sluicev1.TaskLogsRequest{Follow: true}, true)
			w.refusals = map[uint32]error{1: status.Error(codes.NotFound, "it is gone")}
			j, err := l.follow(t.Context())
			require.NoError(t, err)
			require.Equal(t, !deleted, hasEnded(j))
			require.Equal(t, exitNotFound, l.missed, "the others went on")
			require.Contains(t, errOut.String(), "sluice: instance 1: it is gone\n")
			var runs []string
			for _, r := range w.asked {
				runs = append(runs, fmt.Sprintf("%d.%d", r.GetInstance(), r.GetRun()))
				require.True(t, r.GetFollow())
			}
			require.ElementsMatch(t, []string{"0.4", "0.5", "0.6"}, runs)
			require.Equal(t, 3, strings.Count(out.String(), "0: two\n"))
		})
	}
}

// More outputs than that are not followed at once, and it is said.
func TestManyOutputsAreFollowedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writers{holds: true, watched: make(chan *sluicev1.WatchJobsResponse, 1)}
		for i := range uint32(followedAtOnce + 5) {
			w.tasks = append(w.tasks, taskOf(i, 1, sluicev1.TaskState_TASK_STATE_RUNNING))
		}
		w.watched <- &sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{{Name: "j", Uid: 7}}, Tasks: w.tasks, Revision: 1, Synced: true}
		l, _, errOut := logsOf(w, &sluicev1.TaskLogsRequest{Follow: true}, true)
		done := make(chan error)
		go func() { _, err := l.follow(t.Context()); done <- err }()
		synctest.Wait()
		require.Equal(t, followedAtOnce, w.most)
		require.Equal(t, 1, strings.Count(errOut.String(), "outputs are followed at once"))
		close(w.watched)
		require.EqualError(t, <-done, "no more")
		require.Len(t, w.asked, followedAtOnce)
	})
}

// A line without end is broken where it gets too long, and one that is not there yet stays whole.
func TestLongLines(t *testing.T) {
	l, out, errOut := logsOf(&writers{}, &sluicev1.TaskLogsRequest{}, true)
	long := strings.Repeat("x", longestLine)
	require.NoError(t, l.printer.print(&sluicev1.TaskLogsResponse{Data: []byte(long + "y")}))
	require.Equal(t, "0: "+long+"\n", out.String())
	require.NoError(t, l.printer.print(&sluicev1.TaskLogsResponse{Data: []byte("\n")}))
	require.Equal(t, "0: "+long+"\n0: y\n", out.String())
	for range 2 {
		fmt.Fprintln(l.c.notes, "away")
	}
	require.Equal(t, "away\n", errOut.String(), "several outputs say the same")

	l, out, _ = logsOf(&writers{}, &sluicev1.TaskLogsRequest{}, false)
	require.NoError(t, l.printer.print(&sluicev1.TaskLogsResponse{Data: []byte("as it is")}))
	require.Equal(t, "as it is", out.String())
}

// Who waited for a job that failed is sent to where there is something to see: a task that could not be started has written nothing.
func TestWhereToSeeWhyATaskFailed(t *testing.T) {
	a, c, notes := serveFlaky(t, &flaky{})
	failed := sluicev1.TaskState_TASK_STATE_FAILED
	c.tasks = &writers{tasks: []*sluicev1.Task{
		{Job: "a", Instance: 0, State: failed, Reason: "EXITED"},
		{Job: "a", Instance: 1, State: failed, Reason: "LAUNCH_FAILED", Message: "no such user"},
		{Job: "a", Instance: 2, State: failed, Reason: "EXITED", Message: `process "log" ended with exit code 7`},
		{Job: "a", Instance: 3, State: failed, Reason: "EXITED", Message: `init step "prepare" ended with exit code 3`},
	}}
	a.failures(t.Context(), c, &sluicev1.Job{Name: "a", Spec: &sluicev1.JobSpec{Task: &sluicev1.TaskSpec{
		Init: []*sluicev1.ProcessSpec{{Name: "prepare"}}, Processes: []*sluicev1.ProcessSpec{{Name: "serve"}, {Name: "log"}},
	}}})
	require.Equal(t, "sluice: task a/0 failed: EXITED; see: sluice task logs a/0\n"+
		"sluice: task a/1 failed: LAUNCH_FAILED, no such user; see: sluice task events a/1\n"+
		"sluice: task a/2 failed: EXITED, process \"log\" ended with exit code 7; see: sluice task logs a/2 --process log\n"+
		"sluice: task a/3 failed: EXITED, init step \"prepare\" ended with exit code 3; see: sluice task logs a/3 --process prepare\n", notes.String())
}

// What went before a slow reader came to it is told, where it is missing, and the line that it cuts off is not joined to another one.
func TestWhatASlowReaderMissesIsTold(t *testing.T) {
	const stdout, stderr = sluicev1.LogStream_LOG_STREAM_STDOUT, sluicev1.LogStream_LOG_STREAM_STDERR
	pieces := []*sluicev1.TaskLogsResponse{
		{Run: 1, Stream: stdout, Offset: 100, Data: []byte("a\nb")}, // older ones are gone: that is what is kept
		{Run: 1, Stream: stderr, Offset: 7, Data: []byte("x\n")},
		{Run: 1, Stream: stdout, Offset: 103, Data: []byte("c\nd")},
		{Run: 1, Stream: stdout, Offset: 160, Data: []byte("e\n")},
		{Run: 2, Stream: stdout, Offset: 900, Data: []byte("f\n")}, // of another run
	}
	for labels, want := range map[bool]string{true: "3: a\n3: bc\n3: d\n3: e\n3: f\n", false: "a\nbc\nde\nf\n"} {
		var out, errOut bytes.Buffer
		a := &app{out: &out, err: &errOut, config: &config.Loaded{Config: config.Config{Output: "table"}}}
		p := newLogPrinter(a, labels)
		for _, piece := range pieces {
			piece.Instance = 3
			require.NoError(t, p.print(piece))
		}
		require.NoError(t, p.end(3))
		require.Equal(t, want, out.String())
		require.Contains(t, errOut.String(), "x\nsluice: instance 3: 54 bytes of stdout are missing here: ")
		require.Equal(t, 1, strings.Count(errOut.String(), "missing"))
	}
}

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// TaskLogs implements sluicev1.TaskServiceServer. The output stays where the run was; the server only passes it on, at the
// pace of the client.
func (a *taskService) TaskLogs(r *sluicev1.TaskLogsRequest, stream grpc.ServerStreamingServer[sluicev1.TaskLogsResponse]) error {
	ctx := stream.Context()
	run, host, j, err := a.wantedRun(ctx, r)
	if err != nil {
		return err
	}
	request := &sluicev1.LogRequest{
		Run:          runRef(run, j.Spec.Name),
		Stream:       r.Stream,
		Follow:       r.Follow,
		Process:      r.Process,
		StdoutOffset: r.StdoutOffset,
		StderrOffset: r.StderrOffset,
	}
	switch tail := r.Tail.(type) {
	case *sluicev1.TaskLogsRequest_TailBytes:
		request.Tail = &sluicev1.LogRequest_TailBytes{TailBytes: tail.TailBytes}
	case *sluicev1.TaskLogsRequest_TailLines:
		request.Tail = &sluicev1.LogRequest_TailLines{TailLines: tail.TailLines}
	}
	err = a.s.ReadLog(ctx, host, request, func(c *sluicev1.LogChunk) error {
		if len(c.Data) == 0 && !c.Eof && c.Done {
			return nil
		}
		return stream.Send(&sluicev1.TaskLogsResponse{
			Stream: c.Stream, Data: c.Data, Offset: c.Offset, Run: run.Run, Eof: c.Eof, Instance: r.Instance,
		})
	})
	return logStatus(err, host)
}

// wantedRun returns the run whose output is wanted, and where it is or was. The state knows the last run of a task only; within one shard
// any host will do.
func (a *taskService) wantedRun(ctx context.Context, r *sluicev1.TaskLogsRequest) (cluster.RunID, cluster.HostID, *cluster.Job, error) {
	if r.Copy {
		return a.runOfCopy(r)
	}
	t, j, err := a.awaitRun(ctx, r)
	if err != nil {
		return cluster.RunID{}, "", nil, err
	}
	run := t.RunID()
	if r.Run == nil || *r.Run == t.Run {
		return run, t.Host, j, nil
	}
	run.Run = *r.Run
	return run, cmp.Or(a.s.history.placeOf(run), t.Host), j, nil
}

// runOfCopy returns the run of the copy that the task has, or through which it has succeeded, and where it is or was.
func (a *taskService) runOfCopy(r *sluicev1.TaskLogsRequest) (cluster.RunID, cluster.HostID, *cluster.Job, error) {
	snapshot := a.s.Snapshot()
	t, j, err := findTask(snapshot, r.Job, r.Instance)
	if err != nil {
		return cluster.RunID{}, "", nil, err
	}
	run, host := cluster.RunID{Task: t.Key.Copy(), Run: t.WonBy}, cluster.HostID("")
	if c := snapshot.Task(run.Task); c != nil && c.Host != "" && c.State != cluster.TaskPlaced {
		run.Run, host = c.Run, c.Host
	}
	switch {
	case run.Run == 0:
		return run, "", nil, resourceError(codes.FailedPrecondition, "job", r.Job,
			"instance %d has no output of a copy: none has been launched, or the one that was has not succeeded", r.Instance)
	case r.Run != nil && *r.Run != run.Run:
		return run, "", nil, resourceError(codes.FailedPrecondition, "job", r.Job,
			"instance %d has no output of run %d of a copy: the only one is run %d", r.Instance, *r.Run, run.Run)
	}
	return run, cmp.Or(host, a.s.history.placeOf(run), t.Host), j, nil
}

// awaitRun finds the task with the run whose output is wanted. A client that follows waits until there is one.
func (a *taskService) awaitRun(ctx context.Context, r *sluicev1.TaskLogsRequest) (*cluster.Task, *cluster.Job, error) {
	w := a.s.Watch()
	defer w.Close()
	for {
		snapshot, _, _ := w.Take()
		t, j, err := findTask(snapshot, r.Job, r.Instance)
		if err != nil {
			return nil, nil, err
		}
		launched := t.Run // the last run that may have an output
		switch {
		case t.Host == "": // it has not run: its runs are counted on from those of an instance that is gone
			launched = 0
		case t.State == cluster.TaskPlaced:
			launched--
		}
		wanted := max(1, t.Run)
		if r.Run != nil {
			wanted = *r.Run
		}
		switch {
		case launched >= wanted:
			return t, j, nil
		case !r.Follow || t.State.Terminal():
			last := "none has been launched"
			if launched > 0 {
				last = fmt.Sprintf("the last one that has been launched is run %d", launched)
			}
			return nil, nil, resourceError(codes.FailedPrecondition, "job", r.Job,
				"instance %d has no output of run %d: it is %v, and %s", r.Instance, wanted, t.State, last)
		}
		if err := a.s.await(ctx, w.C); err != nil {
			return nil, nil, err
		}
	}
}

// logStatus turns what ended a reading into a status.
func logStatus(err error, host cluster.HostID) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	switch {
	case errors.Is(err, ErrShardAway):
		return resourceError(codes.Unavailable, "host", string(host), "its host manager is not connected: try again")
	case errors.Is(err, ErrSilentShard):
		return resourceError(codes.Unavailable, "host", string(host), "its host manager is connected and has not answered for %v: look what holds it up, and try again", answerPatience)
	case errors.Is(err, ErrSlowReader):
		return status.Error(codes.ResourceExhausted, "the output was not read for too long: ask again from where it ended")
	case errors.Is(err, ErrManyReaders):
		return resourceError(codes.ResourceExhausted, "host", string(host), "as many outputs as its host manager reads at once are being read: try again")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return resourceError(codes.NotFound, "host", string(host), "%v", err)
	}
}
